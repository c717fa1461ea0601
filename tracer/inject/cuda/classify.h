/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules: what a call means for the host, from what is known of it. Pure functions; the numbers are
 * those of tracer/events/rules.def.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_CLASSIFY_H
#define WAYLAY_TRACER_INJECT_CUDA_CLASSIFY_H

#include "tracer/events/events.h"

#pragma GCC visibility push(hidden)

struct cu_verdict {
	uint8_t rule; /* enum wl_rule */
	uint8_t cls;  /* enum wl_call_class */
	bool guessed; /* a fact was missing and the likelier case was taken, or it was never measured */
};

/* When the source of a batched copy is read; numbers as in the driver's attributes. */
enum cu_batch_order {
	CU_NOT_BATCHED,
	CU_ORDER_STREAM,
	CU_ORDER_DURING_CALL,
	CU_ORDER_ANY,
};

struct cu_copy_facts {
	uint8_t dst, src; /* enum wl_mem_kind */
	bool async;
	uint8_t order;    /* enum cu_batch_order */
	bool sync_memops; /* one side, or the context, is marked SYNC_MEMOPS */
};

struct cu_verdict cu_classify_copy(const struct cu_copy_facts *facts);
struct cu_verdict cu_classify_memset(uint8_t dst, bool async, bool sync_memops);

/* How memory is given back. */
enum cu_gives_back {
	CU_BACK_NOTHING,
	CU_BACK_MEMORY,   /* cuMemFree */
	CU_BACK_PINNED,   /* cuMemFreeHost, cuMemHostUnregister */
	CU_BACK_IN_ORDER, /* cuMemFreeAsync */
	CU_BACK_MAPPING,  /* cuMemUnmap */
	CU_BACK_IPC,      /* cuIpcCloseMemHandle */
	CU_BACK_ARRAY,    /* cuArrayDestroy */
};
/* null: a null pointer, which the driver accepts and ignores. pooled: it came from a memory pool. */
struct cu_verdict cu_classify_give_back(enum cu_gives_back how, bool null, bool pooled);

/* An explicit wait of rule `rule`; stream_kind tells the legacy stream from others. */
static inline struct cu_verdict cu_classify_wait(uint8_t rule, uint8_t stream_kind)
{
	if (rule == WL_rule_stream_wait && stream_kind == WL_stream_kind_legacy)
		rule = WL_rule_legacy_wait;
	return (struct cu_verdict){.rule = rule, .cls = WL_call_class_waits};
}
/* A call that by its rule alone holds the host or not. */
struct cu_verdict cu_classify_rule(uint8_t rule);
/* A run of queries that ended: not_ready of them said "not ready", the last said `ready`. */
struct cu_verdict cu_classify_queries(uint64_t not_ready, bool ready);

/* True for a status that says the call was refused before it did or waited for anything. */
bool cu_status_refused(int status);

#pragma GCC visibility pop

#endif
