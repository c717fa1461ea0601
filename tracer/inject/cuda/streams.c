/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds of streams, and whether a stream is being captured.
 */
#include "tracer/inject/cuda/calls.h"

#include "tracer/inject/cuda/map.h"

#include <errno.h>

CU_MAP_DEFINE(stream_kinds, 1024); /* handle -> enum wl_stream_kind, 0 none */

_Atomic int cu_captures;

static uint8_t kind_of_flags(unsigned flags)
{
	return flags & CU_STREAM_NON_BLOCKING ? WL_stream_kind_non_blocking
					      : WL_stream_kind_blocking;
}

void cu_stream_made(struct cu_setup *call, CUstream stream, unsigned flags)
{
	call->ev.object = (uintptr_t)stream;
	cu_map_put(&stream_kinds, (uintptr_t)stream, kind_of_flags(flags));
}

void cu_stream_gone(CUstream stream)
{
	uint64_t kind = WL_stream_kind_unknown;

	wl_cupti_stream_gone((uintptr_t)stream);
	if (cu_map_get(&stream_kinds, (uintptr_t)stream, &kind))
		cu_map_put(&stream_kinds, (uintptr_t)stream, WL_stream_kind_unknown);
}

uint8_t cu_stream_kind(uint64_t stream)
{
	CUresult (*get)(CUstream, unsigned *);
	uint64_t kind = WL_stream_kind_unknown;
	unsigned flags = 0;
	int saved;

	if (stream == 0)
		return WL_stream_kind_legacy;
	if (stream == CU_STREAM_PER_THREAD)
		return WL_stream_kind_per_thread;
	if (cu_map_get(&stream_kinds, stream, &kind) && kind)
		return (uint8_t)kind;
	saved = errno;
	get = (CUresult(*)(CUstream, unsigned *))cu_helper(CU_HELPER_cuStreamGetFlags);
	if (get && get((CUstream)(uintptr_t)stream, &flags) == CUDA_SUCCESS) {
		kind = kind_of_flags(flags);
		cu_map_put(&stream_kinds, stream, kind);
	}
	errno = saved;
	return (uint8_t)kind;
}

void cu_capture_begun(void)
{
	atomic_fetch_add_explicit(&cu_captures, 1, memory_order_relaxed);
}

void cu_capture_ended(CUresult status)
{
	switch (status) {
	case CUDA_SUCCESS:
		break;
	case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
	case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
		return; /* it goes on */
	default:
		/* Broken captures are ended too, with the error that broke them. */
		if (status < CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && cu_status_refused(status))
			return;
	}
	atomic_fetch_sub_explicit(&cu_captures, 1, memory_order_relaxed);
}

bool cu_stream_captured_slow(uint64_t stream)
{
	CUresult (*ask)(CUstream, int *);
	int capturing = CU_STREAM_CAPTURE_STATUS_NONE, saved = errno;
	bool captured;

	if (stream ==
	    0) /* the legacy stream cannot be captured, and must not even be asked about */
		return false;
	ask = (CUresult(*)(CUstream, int *))cu_helper(CU_HELPER_cuStreamIsCapturing);
	captured = ask && ask((CUstream)(uintptr_t)stream, &capturing) == CUDA_SUCCESS &&
		   capturing != CU_STREAM_CAPTURE_STATUS_NONE;
	errno = saved;
	return captured;
}
