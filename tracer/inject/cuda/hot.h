/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that jobs make by the million, in line in their wrappers: what is known of a call stays in
 * registers until it is written to the record. Nothing called here changes errno.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_HOT_H
#define WAYLAY_TRACER_INJECT_CUDA_HOT_H

#include "tracer/inject/cuda/calls.h"

#define CU_HOT static inline __attribute__((always_inline))

#pragma GCC visibility push(hidden)

/* Queries are the cheapest calls there are and come by the million, so the common one, answered at
 * once and in no loop, is recorded here and touches nothing else. */
CU_HOT void cu_poll_begin(struct cu_poll *call)
{
	wl_enter(&wl_depth.cuda, call->f.at);
	call->f.flags = wl_flags_here();
	call->f.begin = spool_now();
}

void cu_poll_end_slow(struct cu_poll *call, CUresult status, uint64_t end);
CU_HOT void cu_poll_end(struct cu_poll *call, CUresult status)
{
	uint64_t end = spool_now();
	uint32_t api = cu_api_at_once(&call->f);

	if (call->of_stream)
		call->object = cu_stream(call->object, call->f.per_thread);
	if (__builtin_expect(status == CUDA_SUCCESS && !cu_poll_run.open && api, 1)) {
		SPOOL_RECORD(cuda_poll, call->f.begin, end, call->f.flags,
			     ((struct wl_ev_cuda_poll){
				     .object = call->object,
				     .api = api,
				     .polls = 1,
				     .rule = WL_rule_query,
				     .cls = WL_call_class_polls,
			     }), );
	} else {
		cu_poll_end_slow(call, status, end);
	}
	wl_leave(&wl_depth.cuda);
}

/* Order among device work. Like polls in line and without a slot: these return at once, and a job makes
 * several of them a launch. */
CU_HOT void cu_order_begin(struct cu_order *call)
{
	wl_enter(&wl_depth.cuda, call->f.at);
	cu_poll_flush();
	call->f.flags = wl_flags_here();
	call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
	if (__builtin_expect(cu_stream_captured(call->ev.stream), 0))
		call->f.flags |= WL_FLAG_CAPTURED;
	call->f.begin = spool_now();
}

CU_HOT void cu_order_end(struct cu_order *call, CUresult status)
{
	uint64_t end = spool_now();

	call->ev.api = cu_api_at_once(&call->f);
	if (__builtin_expect(!call->ev.api, 0))
		call->ev.api = cu_api(&call->f);
	SPOOL_RECORD(cuda_order, call->f.begin, end, call->f.flags, call->ev, it->status = status);
	wl_leave(&wl_depth.cuda);
}

/* Explicit waits. In line too: a stream with nothing to do answers in nanoseconds, and jobs wait for such
 * by the million. Nothing called here changes errno. */
CU_HOT void cu_wait_begin(struct cu_wait *call)
{
	struct cu_verdict verdict;

	wl_enter(&wl_depth.cuda, call->f.at);
	cu_poll_flush();
	call->f.flags = wl_flags_here();
	if (call->ev.rule == WL_rule_stream_wait) {
		call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
		call->ev.stream_kind = cu_stream_kind(call->ev.stream);
	}
	verdict = cu_classify_wait(call->ev.rule, call->ev.stream_kind);
	call->ev.rule = verdict.rule;
	call->ev.cls = verdict.cls;
	call->ev.api = cu_api(&call->f);
	call->ev.stack = wl_settings.stacks == WL_STACK_NONE ? 0 : wl_stack(WL_STACK_FOR_SYNC);
	call->f.begin = spool_now();
	spool_enter(WL_EV_cuda_wait, call->ev.api, call->f.begin, call->ev.stack,
		    call->ev.object ? call->ev.object : call->ev.stream);
}

CU_HOT void cu_wait_end(struct cu_wait *call, CUresult status)
{
	uint64_t end = spool_now();

	spool_leave();
	if (__builtin_expect(status != CUDA_SUCCESS, 0))
		CU_REFUSED(call, status);
	SPOOL_RECORD(cuda_wait, call->f.begin, end, call->f.flags, call->ev, it->status = status);
	wl_leave(&wl_depth.cuda);
}

/* Launches. They block when the queue of the device is full, so they have a slot. */
CU_HOT void cu_launch_begin(struct cu_launch *call)
{
	wl_enter(&wl_depth.cuda, call->f.at);
	cu_poll_flush();
	call->f.flags = wl_flags_here();
	if (call->told == CU_TOLD_NOW) {
		call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
		if (__builtin_expect(cu_stream_captured(call->ev.stream), 0))
			call->f.flags |= WL_FLAG_CAPTURED;
	}
	if (call->named && __builtin_expect(cu_library_first_use(call->ev.func), 0)) {
		call->first_use = true;
		call->ev.rule = WL_rule_library_first_use;
		call->ev.cls = cu_classify_rule(call->ev.rule).cls;
		call->ev.stack = wl_stack(WL_STACK_FOR_SYNC);
	}
	call->ev.api = cu_api(&call->f);
	call->f.begin = spool_now();
	spool_enter(WL_EV_cuda_launch, call->ev.api, call->f.begin, call->ev.stack,
		    call->ev.stream);
}

CU_HOT void cu_launch_end(struct cu_launch *call, CUresult status)
{
	uint64_t end = spool_now();
	uint32_t kernel = 0;
	bool first;

	spool_leave();
	if (call->told == CU_TOLD_AFTER) {
		call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
		if (__builtin_expect(cu_stream_captured(call->ev.stream), 0))
			call->f.flags |= WL_FLAG_CAPTURED;
	}
	if (call->named && status == CUDA_SUCCESS) {
		kernel =
			cu_kernel_launched(call->ev.func, call->f.flags & WL_FLAG_CAPTURED, &first);
		if (__builtin_expect(first, 0) && !call->ev.rule &&
		    cu_local_memory_grew(call->ev.func)) {
			call->ev.rule = WL_rule_local_memory;
			call->ev.cls = cu_classify_rule(call->ev.rule).cls;
			call->ev.stack = wl_stack(WL_STACK_FOR_SYNC);
		}
	}
	if (__builtin_expect(call->first_use, 0) && status == CUDA_SUCCESS)
		cu_library_used(call->ev.func);
	if (__builtin_expect(status != CUDA_SUCCESS, 0))
		CU_REFUSED(call, status);
	SPOOL_RECORD(cuda_launch, call->f.begin, end, call->f.flags, call->ev,
		     (it->status = status, it->kernel = kernel));
	cu_device_work(&call->f, call->ev.stream, status);
	wl_leave(&wl_depth.cuda);
}

/*
 * Copies. The class of a copy whose arguments are plain is known before the call, so that its stack
 * stands in the in-flight slot while it waits; that of a copy told by a structure is known only when
 * the structure may be read, so its stack is always taken.
 */
CU_HOT bool cu_copy_holds(const struct cu_copy *call)
{
	return call->ev.cls == WL_call_class_waits || call->ev.cls == WL_call_class_stages;
}

CU_HOT bool cu_kinds_are_plain(uint8_t dst, uint8_t src)
{
	const unsigned both = 1u << WL_mem_kind_device | 1u << WL_mem_kind_pinned;

	return (1u << dst | 1u << src) == both;
}

/* Between pinned and device memory that the thread copied between before: never holds the host. */
CU_HOT bool cu_copy_is_plain(struct cu_copy *call)
{
	const struct cu_range_near *dst = &cu_memory_near[call->dst_as == CU_AS_HOST];
	const struct cu_range_near *src = &cu_memory_near[call->src_as == CU_AS_HOST];

	if (!call->async || call->order != CU_NOT_BATCHED || !cu_range_is_near(call->ev.dst, dst) ||
	    !cu_range_is_near(call->ev.src, src))
		return false;
	call->ev.dst_kind = dst->kind;
	call->ev.src_kind = src->kind;
	call->ev.cls = WL_call_class_device_only;
	return cu_kinds_are_plain(dst->kind, src->kind);
}

CU_HOT void cu_copy_begin(struct cu_copy *call)
{
	wl_enter(&wl_depth.cuda, call->f.at);
	cu_poll_flush();
	call->f.flags = wl_flags_here();
	call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
	if (call->async && __builtin_expect(cu_stream_captured(call->ev.stream), 0))
		call->f.flags |= WL_FLAG_CAPTURED;
	if (call->told == CU_TOLD_AFTER) {
		if (!(call->f.flags & WL_FLAG_CAPTURED))
			call->ev.stack = wl_stack(WL_STACK_FOR_SYNC);
	} else if (call->ev.bytes && !(call->f.flags & WL_FLAG_CAPTURED) &&
		   !cu_copy_is_plain(call)) {
		/* (No bytes: the driver returns at once, as measured.) */
		struct cu_copy_verdict verdict =
			cu_copy_judge(call->ev.dst, call->ev.src, call->dst_as, call->src_as,
				      call->async, call->order);

		call->ev.dst_kind = verdict.dst_kind;
		call->ev.src_kind = verdict.src_kind;
		call->ev.rule = verdict.rule;
		call->ev.cls = verdict.cls;
		if (verdict.guessed)
			call->f.flags |= WL_FLAG_GUESSED;
		if (cu_copy_holds(call)) {
			call->ev.stream_kind = cu_stream_kind(call->ev.stream);
			call->ev.stack = wl_stack(WL_STACK_FOR_SYNC);
		}
	}
	call->ev.api = cu_api(&call->f);
	call->f.begin = spool_now();
	spool_enter(WL_EV_cuda_copy, call->ev.api, call->f.begin, call->ev.stack, call->ev.stream);
}

CU_HOT void cu_copy_end(struct cu_copy *call, CUresult status)
{
	uint64_t end = spool_now();

	spool_leave();
	if (call->told == CU_TOLD_AFTER) {
		if (cu_copy_holds(call))
			call->ev.stream_kind = cu_stream_kind(call->ev.stream);
		else
			call->ev.stack = 0;
	}
	if (__builtin_expect(status != CUDA_SUCCESS, 0))
		CU_REFUSED(call, status);
	SPOOL_RECORD(cuda_copy, call->f.begin, end, call->f.flags, call->ev, it->status = status);
	cu_device_work(&call->f, call->ev.stream, status);
	wl_leave(&wl_depth.cuda);
}

#pragma GCC visibility pop

#endif
