/* SPDX-License-Identifier: Apache-2.0
 *
 * What copies and memsets mean for the host.
 */
#include "tracer/inject/cuda/calls.h"

#include <errno.h>

/* Longer lists are judged by their first members. */
#define BATCH_LOOKED_AT 64

/* The driver has to be asked only where the class, or for a call that waits anyway the reason, depends
 * on the answer: host sides and those of unknown direction. */
static uint8_t side_kind(uint64_t ptr, uint8_t as, bool async, bool *sync_memops)
{
	uint32_t flags = 0;
	uint8_t kind = cu_memory_kind(ptr, as, as == CU_AS_HOST || as == CU_AS_ANY, &flags);

	if (!async && kind != WL_mem_kind_array)
		*sync_memops |= cu_memory_sync_memops(ptr, flags);
	return kind;
}

struct cu_copy_verdict cu_copy_judge(uint64_t dst, uint64_t src, uint8_t dst_as, uint8_t src_as,
				     bool async, uint8_t order)
{
	struct cu_copy_facts facts = {.async = async, .order = order};
	struct cu_verdict verdict;
	int saved = errno;

	facts.dst = side_kind(dst, dst_as, async, &facts.sync_memops);
	facts.src = side_kind(src, src_as, async, &facts.sync_memops);
	verdict = cu_classify_copy(&facts);
	errno = saved;
	return (struct cu_copy_verdict){.dst_kind = facts.dst,
					.src_kind = facts.src,
					.rule = verdict.rule,
					.cls = verdict.cls,
					.guessed = verdict.guessed};
}

static void judge(struct cu_copy *call)
{
	struct cu_copy_verdict verdict;

	if (call->f.flags & WL_FLAG_CAPTURED || !call->ev.bytes)
		return;
	verdict = cu_copy_judge(call->ev.dst, call->ev.src, call->dst_as, call->src_as, call->async,
				call->order);
	call->ev.dst_kind = verdict.dst_kind;
	call->ev.src_kind = verdict.src_kind;
	call->ev.rule = verdict.rule;
	call->ev.cls = verdict.cls;
	if (verdict.guessed)
		call->f.flags |= WL_FLAG_GUESSED;
}

/* --- copies told by a structure ------------------------------------------------------------------- */

static uint64_t side(int type, const void *host, CUdeviceptr device, CUarray array, uint8_t *as)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*as = CU_AS_HOST;
		return (uintptr_t)host;
	case CU_MEMORYTYPE_ARRAY:
		*as = CU_AS_ARRAY;
		return (uintptr_t)array;
	case CU_MEMORYTYPE_UNIFIED:
		*as = CU_AS_ANY;
		return device;
	default:
		*as = CU_AS_DEVICE;
		return device;
	}
}

void cu_copy_told_2d(struct cu_copy *call, const struct CUDA_MEMCPY2D *how)
{
	call->ev.dst = side(how->dstMemoryType, how->dstHost, how->dstDevice, how->dstArray,
			    &call->dst_as);
	call->ev.src = side(how->srcMemoryType, how->srcHost, how->srcDevice, how->srcArray,
			    &call->src_as);
	call->ev.bytes = how->WidthInBytes * how->Height;
	judge(call);
}

void cu_copy_told_3d(struct cu_copy *call, const struct CUDA_MEMCPY3D *how)
{
	call->ev.dst = side(how->dstMemoryType, how->dstHost, how->dstDevice, how->dstArray,
			    &call->dst_as);
	call->ev.src = side(how->srcMemoryType, how->srcHost, how->srcDevice, how->srcArray,
			    &call->src_as);
	call->ev.bytes = how->WidthInBytes * how->Height * how->Depth;
	judge(call);
}

/* A list of copies is one call: it does to the host what the worst of its members does, and that
 * member is the one shown; the bytes are those of all. */
static void batch_member(struct cu_copy *call, const struct cu_copy *member, size_t index)
{
	static const uint8_t badness[WL_call_class_MAX] = {
		[WL_call_class_device_only] = 1,
		[WL_call_class_stages] = 2,
		[WL_call_class_waits] = 3,
	};
	uint64_t bytes = call->ev.bytes;

	if (index == 0 || badness[member->ev.cls] > badness[call->ev.cls]) {
		call->ev = member->ev;
		call->f.flags |= member->f.flags;
	}
	call->ev.bytes = bytes + member->ev.bytes;
}

void cu_copy_told_batch(struct cu_copy *call, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
			const size_t *sizes, size_t count,
			const struct CUmemcpyAttributes *attributes, const size_t *indices,
			size_t attribute_count)
{
	struct cu_copy member = *call;
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		while (at + 1 < attribute_count && indices[at + 1] <= i)
			at++;
		member.order =
			attribute_count ? (uint8_t)attributes[at].srcAccessOrder : CU_ORDER_STREAM;
		member.ev.dst = dsts[i];
		member.ev.src = srcs[i];
		member.ev.bytes = sizes[i];
		member.dst_as = member.src_as = CU_AS_ANY;
		if (i < BATCH_LOOKED_AT)
			judge(&member);
		else
			call->f.flags |= WL_FLAG_GUESSED;
		batch_member(call, &member, i);
	}
}

static uint64_t operand(const struct CUmemcpy3DOperand *of, uint8_t *as)
{
	if (of->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		*as = CU_AS_ANY;
		return of->op.ptr.ptr;
	}
	*as = CU_AS_ARRAY;
	return (uintptr_t)of->op.array.array;
}

void cu_copy_told_3d_batch(struct cu_copy *call, const struct CUDA_MEMCPY3D_BATCH_OP *ops,
			   size_t count)
{
	struct cu_copy member = *call;

	for (size_t i = 0; i < count; i++) {
		member.ev.dst = operand(&ops[i].dst, &member.dst_as);
		member.ev.src = operand(&ops[i].src, &member.src_as);
		member.ev.bytes = ops[i].width * ops[i].height * ops[i].depth;
		member.order = (uint8_t)ops[i].srcAccessOrder;
		if (i < BATCH_LOOKED_AT)
			judge(&member);
		else
			call->f.flags |= WL_FLAG_GUESSED;
		batch_member(call, &member, i);
	}
}

/* --- memsets ------------------------------------------------------------------------------------- */

void cu_memset_begin(struct cu_memset *call)
{
	uint32_t flags = 0;
	struct cu_verdict verdict;

	cu_frame_enter(&call->f);
	call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
	if (call->async && cu_stream_captured(call->ev.stream)) {
		call->f.flags |= WL_FLAG_CAPTURED;
	} else {
		call->ev.dst_kind = cu_memory_kind(
			call->ev.dst, call->async ? CU_AS_DEVICE : CU_AS_ANY, !call->async, &flags);
		verdict = cu_classify_memset(call->ev.dst_kind, call->async,
					     !call->async &&
						     cu_memory_sync_memops(call->ev.dst, flags));
		call->ev.rule = verdict.rule;
		call->ev.cls = verdict.cls;
		if (verdict.guessed)
			call->f.flags |= WL_FLAG_GUESSED;
	}
	if (call->ev.cls == WL_call_class_waits) {
		call->ev.stream_kind = cu_stream_kind(call->ev.stream);
		call->ev.stack = wl_stack(WL_STACK_FOR_SYNC);
	}
	call->ev.api = cu_api(&call->f);
	cu_frame_start(&call->f);
	spool_enter(WL_EV_cuda_memset, call->ev.api, call->f.begin, call->ev.stack,
		    call->ev.stream);
}

void cu_memset_end(struct cu_memset *call, CUresult status)
{
	uint64_t end = cu_frame_stop(&call->f);

	spool_leave();
	CU_REFUSED(call, status);
	SPOOL_RECORD(cuda_memset, call->f.begin, end, call->f.flags, call->ev, it->status = status);
	cu_device_work(&call->f, call->ev.stream, status);
	cu_frame_leave(&call->f);
}
