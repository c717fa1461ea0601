/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is had, pinned, marked and given back; and what is thereby known of an address.
 */
#include "tracer/inject/cuda/calls.h"

#include "tracer/inject/cuda/map.h"

/* --- kinds --------------------------------------------------------------------------------------- */

/* Set once, never cleared: whether asking about SYNC_MEMOPS can be of any use. */
static _Atomic bool any_sync_memops, ctx_sync_memops;

typedef CUresult (*attributes_fn)(unsigned, int *, void **, CUdeviceptr);

static uint8_t ask_kind(uint64_t ptr)
{
	attributes_fn get = (attributes_fn)cu_helper(CU_HELPER_cuPointerGetAttributes);
	int which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
	unsigned type = 0, managed = 0;
	void *into[] = {&type, &managed};

	/* Without a context it fails; then nothing is known. */
	if (!get || get(2, which, into, ptr) != CUDA_SUCCESS)
		return WL_mem_kind_unknown;
	if (managed & 0xff) /* a bool in some drivers, an unsigned in others */
		return WL_mem_kind_managed;
	switch (type) {
	case 0:
		return WL_mem_kind_pageable;
	case CU_MEMORYTYPE_HOST:
		return WL_mem_kind_pinned;
	case CU_MEMORYTYPE_DEVICE:
		return WL_mem_kind_device;
	case CU_MEMORYTYPE_ARRAY:
		return WL_mem_kind_array;
	default:
		return WL_mem_kind_unknown;
	}
}

__thread struct cu_range_near cu_memory_near[2] __attribute__((tls_model("initial-exec")));

uint8_t cu_memory_kind(uint64_t ptr, enum cu_as as, bool must_know, uint32_t *flags)
{
	struct cu_range_near *near = &cu_memory_near[as == CU_AS_HOST];

	if (as == CU_AS_ARRAY)
		return WL_mem_kind_array;
	if (cu_range_find_near(ptr, near)) {
		*flags = near->flags;
		return near->kind;
	}
	if (must_know)
		return ask_kind(ptr);
	return as == CU_AS_DEVICE ? WL_mem_kind_device : WL_mem_kind_unknown;
}

void cu_memory_ctx_sync_memops(void)
{
	atomic_store_explicit(&ctx_sync_memops, true, memory_order_relaxed);
}

bool cu_memory_sync_memops(uint64_t ptr, uint32_t flags)
{
	attributes_fn get;
	int which = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	unsigned set = 0;
	void *into = &set;

	if (atomic_load_explicit(&ctx_sync_memops, memory_order_relaxed) ||
	    flags & CU_RANGE_SYNC_MEMOPS)
		return true;
	if (!atomic_load_explicit(&any_sync_memops, memory_order_relaxed))
		return false;
	get = (attributes_fn)cu_helper(CU_HELPER_cuPointerGetAttributes);
	return get && get(1, &which, &into, ptr) == CUDA_SUCCESS && set & 0xff;
}

/* --- calls --------------------------------------------------------------------------------------- */

CU_MAP_DEFINE(host_handles, 256); /* allocation handle whose memory is the host's -> 1 */

/* What is given back is forgotten before the call: once it returns, another thread may already have
 * been given the same addresses. */
static void forget(struct cu_mem *call)
{
	switch (call->gives_back) {
	case CU_BACK_MEMORY:
	case CU_BACK_IN_ORDER:
	case CU_BACK_PINNED:
		if (!cu_range_take(call->ev.ptr, &call->taken))
			break;
		call->ev.bytes = call->taken.bytes;
		call->ev.kind = call->taken.kind;
		return;
	case CU_BACK_MAPPING:
		cu_range_cut(call->ev.ptr, call->ev.bytes);
		break;
	default:
		break;
	}
	call->taken.bytes = 0;
}

static void judge(struct cu_mem *call)
{
	bool pooled = call->taken.bytes && call->taken.flags & CU_RANGE_POOL;
	struct cu_verdict verdict = cu_classify_give_back(call->gives_back, !call->ev.ptr, pooled);

	if (call->marks)
		verdict = cu_classify_rule(WL_rule_sync_memops);
	call->ev.rule = verdict.rule;
	call->ev.cls = verdict.cls;
	if (verdict.guessed)
		call->f.flags |= WL_FLAG_GUESSED;
}

static uint32_t stack_for(const struct cu_mem *call)
{
	if (call->ev.cls == WL_call_class_waits)
		return wl_stack(WL_STACK_FOR_SYNC);
	return wl_stack(call->registers ? WL_STACK_FOR_REGISTRATION : WL_STACK_FOR_OTHER);
}

void cu_mem_begin(struct cu_mem *call)
{
	cu_frame_enter(&call->f);
	forget(call);
	if (call->f.recorded) {
		if (call->on_stream) {
			call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
			if (cu_stream_captured(call->ev.stream))
				call->f.flags |= WL_FLAG_CAPTURED;
		}
		judge(call);
		call->ev.stack = stack_for(call);
		call->ev.api = cu_api(&call->f);
	}
	cu_frame_start(&call->f);
	if (call->f.recorded)
		spool_enter(WL_EV_cuda_mem, call->ev.api, call->f.begin, call->ev.stack,
			    call->ev.ptr);
}

void cu_mem_end(struct cu_mem *call, CUresult status)
{
	uint64_t end = cu_frame_stop(&call->f);

	if (status != CUDA_SUCCESS && call->taken.bytes && cu_status_refused(status))
		cu_range_add(call->taken.start, call->taken.bytes, call->taken.kind,
			     call->taken.flags);
	if (call->f.recorded) {
		spool_leave();
		CU_REFUSED(call, status);
		SPOOL_RECORD(cuda_mem, call->f.begin, end, call->f.flags, call->ev,
			     it->status = status);
	}
	cu_frame_leave(&call->f);
}

void cu_mem_is(struct cu_mem *call, uint64_t ptr, uint64_t bytes, uint32_t range_flags)
{
	call->ev.ptr = ptr;
	call->ev.bytes = bytes;
	/* Inside a capture the address is a promise, not memory yet. */
	if (!(call->f.flags & WL_FLAG_CAPTURED))
		cu_range_add(ptr, bytes, call->ev.kind, range_flags);
}

void cu_mem_created(struct cu_mem *call, CUmemhandle handle, const struct CUmemAllocationProp *how)
{
	bool host = how->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	uint64_t was = 0;

	call->ev.ptr = handle;
	if (host)
		call->ev.kind = WL_mem_kind_pinned;
	/* Handles are used again: one that was the host's must not stay so. */
	if (host || cu_map_get(&host_handles, handle, &was))
		cu_map_put(&host_handles, handle, host);
}

void cu_mem_mapped(struct cu_mem *call, CUmemhandle handle)
{
	uint64_t host = 0;

	if (cu_map_get(&host_handles, handle, &host) && host)
		call->ev.kind = WL_mem_kind_pinned;
	cu_range_add(call->ev.ptr, call->ev.bytes, call->ev.kind, 0);
}

void cu_mem_marked(struct cu_mem *call, const void *value)
{
	bool on;

	if (!call->marks)
		return;
	on = *(const unsigned char *)value != 0;
	if (on)
		atomic_store_explicit(&any_sync_memops, true, memory_order_relaxed);
	cu_range_flag(call->ev.ptr, on ? CU_RANGE_SYNC_MEMOPS : 0, on ? 0 : CU_RANGE_SYNC_MEMOPS);
	if (!on) {
		call->ev.rule = WL_rule_none;
		call->ev.cls = WL_call_class_none;
	}
}

void cu_mem_batch(struct cu_mem *call, const CUdeviceptr *ptrs, const size_t *sizes, size_t count)
{
	if (!count)
		return;
	call->ev.ptr = ptrs[0];
	for (size_t i = 0; i < count; i++)
		call->ev.bytes += sizes[i];
}
