/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules as code. Where a rule was measured, tests/unit/test_cuda_rules.c holds the measured table.
 */
#include "tracer/inject/cuda/classify.h"

#include "tracer/inject/cuda/cuda_abi.h"

#define VERDICT(r, c, g)                                                                           \
	((struct cu_verdict){.rule = WL_rule_##r, .cls = WL_call_class_##c, .guessed = (g)})

static bool is_host(uint8_t kind)
{
	return kind == WL_mem_kind_pageable || kind == WL_mem_kind_pinned;
}

static struct cu_verdict async_copy(uint8_t dst, uint8_t src, bool guessed)
{
	if (is_host(dst) && is_host(src))
		return VERDICT(async_host_to_host, waits, guessed);
	if (dst == WL_mem_kind_pageable)
		return VERDICT(async_to_pageable, waits, guessed);
	if (src == WL_mem_kind_pageable)
		return VERDICT(async_from_pageable, stages, guessed);
	return VERDICT(none, device_only, guessed);
}

static struct cu_verdict batched_copy(uint8_t dst, uint8_t src, uint8_t order, bool guessed)
{
	guessed |= dst == WL_mem_kind_managed || src == WL_mem_kind_managed;
	if (order == CU_ORDER_DURING_CALL) {
		if (src == WL_mem_kind_pageable)
			return VERDICT(async_from_pageable, stages, guessed);
		return VERDICT(batch_during_call, waits, guessed || !is_host(dst));
	}
	if (src != WL_mem_kind_pageable || is_host(dst))
		return VERDICT(none, device_only, guessed);
	if (order == CU_ORDER_STREAM)
		return VERDICT(batch_in_order, waits, guessed);
	return VERDICT(async_from_pageable, stages, guessed);
}

static struct cu_verdict sync_copy(uint8_t dst, uint8_t src, bool sync_memops, bool guessed)
{
	if (is_host(dst) && is_host(src))
		return VERDICT(copy_host_to_host, waits, guessed);
	if (is_host(dst))
		return VERDICT(copy_to_host, waits, guessed);
	if (src == WL_mem_kind_pageable)
		return VERDICT(copy_from_pageable, waits, guessed);
	if (src == WL_mem_kind_pinned)
		return VERDICT(copy_from_pinned, waits, guessed);
	if (dst == WL_mem_kind_managed || src == WL_mem_kind_managed)
		return VERDICT(copy_managed, waits, guessed);
	if (sync_memops)
		return VERDICT(copy_sync_memops, waits, guessed);
	return VERDICT(none, device_only, guessed);
}

struct cu_verdict cu_classify_copy(const struct cu_copy_facts *facts)
{
	uint8_t dst = facts->dst, src = facts->src;
	bool guessed = dst == WL_mem_kind_unknown || src == WL_mem_kind_unknown;

	/* What the driver knows nothing about is most likely plain memory. */
	if (dst == WL_mem_kind_unknown)
		dst = WL_mem_kind_pageable;
	if (src == WL_mem_kind_unknown)
		src = WL_mem_kind_pageable;
	if (facts->order != CU_NOT_BATCHED)
		return batched_copy(dst, src, facts->order, guessed);
	return facts->async ? async_copy(dst, src, guessed)
			    : sync_copy(dst, src, facts->sync_memops, guessed);
}

struct cu_verdict cu_classify_memset(uint8_t dst, bool async, bool sync_memops)
{
	if (async)
		return VERDICT(none, device_only, false);
	if (is_host(dst) || dst == WL_mem_kind_managed)
		return VERDICT(memset_host, waits, dst == WL_mem_kind_pageable);
	if (sync_memops)
		return VERDICT(copy_sync_memops, waits, false);
	return VERDICT(none, device_only, dst == WL_mem_kind_unknown);
}

struct cu_verdict cu_classify_give_back(enum cu_gives_back how, bool null, bool pooled)
{
	if (null)
		return VERDICT(none, none, false);
	switch (how) {
	case CU_BACK_MEMORY:
		return pooled ? VERDICT(none, none, false) : VERDICT(memory_free, waits, false);
	case CU_BACK_PINNED:
		return VERDICT(host_unpin, waits, false);
	case CU_BACK_IN_ORDER:
		return VERDICT(none, device_only, false);
	case CU_BACK_IPC:
		return VERDICT(teardown, waits, true);
	case CU_BACK_ARRAY:
		return VERDICT(memory_free, waits, false);
	case CU_BACK_NOTHING:
	case CU_BACK_MAPPING:
		break;
	}
	return VERDICT(none, none, false);
}

struct cu_verdict cu_classify_rule(uint8_t rule)
{
	return (struct cu_verdict){.rule = rule,
				   .cls = rule == WL_rule_none ? WL_call_class_none
							       : WL_call_class_waits};
}

struct cu_verdict cu_classify_queries(uint64_t not_ready, bool ready)
{
	if (ready && not_ready >= 2)
		return VERDICT(query_loop, waits, false);
	return VERDICT(query, polls, false);
}

bool cu_status_refused(int status)
{
	switch (status) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_STUB_LIBRARY:
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_ILLEGAL_STATE:
	case CUDA_ERROR_NOT_FOUND:
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_NOT_SUPPORTED:
		return true;
	default:
		return status >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
		       status <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	}
}
