/* SPDX-License-Identifier: Apache-2.0
 *
 * Detours: bytes of the device that go through host memory on their way to or from the network.
 *
 * They are found by address, in time order: a copy to the host whose range is then sent, a receive whose
 * range is then copied to the device. That the host rewrote the range in between cannot be excluded.
 */
#include "viewers/analysis_internal.h"
#include "viewers/spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies that tell what a byte takes: shorter ones are all latency. */
#define RATE_BYTES 65536u
/* Copies to the host that are remembered until their range is sent. */
#define COPIES 8192u

enum direction { OUT, IN, DIRECTIONS };

/* A copy to the host. */
struct copied {
	uint64_t serial; /* which this is: slots are used again */
	uint64_t bytes, held_ns;
	uint32_t stack, api;
	uint8_t rule, cls;
	bool pageable, matched;
};

struct detour_table {
	struct model *model;
	struct site_table *sites;
	struct detours results;
	struct detour_stat unknown_ns[DIRECTIONS]; /* copies that did not hold the host */
	uint64_t rate_bytes[DIRECTIONS], rate_ns[DIRECTIONS];
	struct path_facts path;
	/* of the process being read */
	unsigned process;
	struct spans filled;   /* by copies from the device; user: slot in copies */
	struct spans received; /* from the network; flag: pinned */
	struct spans pinned;
	struct copied copies[COPIES];
	uint64_t copy_serial;
	bool launched;
};

/* Received into pinned memory, and no copy took it from there. */
static void received_gone(void *user, const struct span *part)
{
	struct detour_table *table = user;
	struct detour_stat *stat = &table->results.kinds[DETOUR_MAPPED_IN];

	if (!part->flag || !table->launched)
		return;
	stat->transfers++;
	stat->bytes += part->end - part->first;
}

struct detour_table *detour_table_new(struct model *model)
{
	struct detour_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->model = model;
	table->sites = site_table_new(model, NULL);
	table->received.gone = received_gone;
	table->received.user = table;
	if (table->sites)
		return table;
	free(table);
	return NULL;
}

void detour_table_free(struct detour_table *table)
{
	if (!table)
		return;
	spans_done(&table->filled);
	spans_done(&table->received);
	spans_done(&table->pinned);
	site_table_free(table->sites);
	free(table);
}

/* --- copies ----------------------------------------------------------------------------------- */

static bool is_host(uint64_t kind)
{
	return kind == WL_mem_kind_pageable || kind == WL_mem_kind_pinned;
}

static bool is_device(uint64_t kind)
{
	return kind == WL_mem_kind_device || kind == WL_mem_kind_array;
}

/* The copy belongs to a detour: counted there and at its site. */
static bool copy_count(struct detour_table *table, enum detour_kind kind, enum direction direction,
		       const struct copied *copy)
{
	struct detour_stat *stat = &table->results.kinds[kind];
	struct site_way *way =
		site_of(table->sites, table->process, copy->stack, copy->rule, copy->cls);
	struct counted counted = {.held_ns = copy->held_ns,
				  .bytes = copy->bytes,
				  .kind = COUNTED_WAIT,
				  .pageable = copy->pageable,
				  .way = way};

	stat->copies++;
	stat->copy_bytes += copy->bytes;
	stat->held_ns += copy->held_ns;
	if (copy->cls != WL_call_class_waits && copy->cls != WL_call_class_stages) {
		table->unknown_ns[direction].copy_bytes += copy->bytes;
		table->unknown_ns[direction].held_ns += copy->held_ns;
	}
	if (way)
		site_add(table->sites, way, &counted, table->process, copy->api);
	return way != NULL;
}

static bool copy_out(struct detour_table *table, const struct trace_event *event,
		     const struct copied *copy)
{
	uint64_t first = MODEL_ARG(event, cuda_copy, dst), end = first + copy->bytes;
	uint32_t slot = (uint32_t)(table->copy_serial++ % COPIES);

	table->copies[slot] = *copy;
	table->copies[slot].serial = table->copy_serial;
	return spans_fill(&table->filled, first, end, slot, false) &&
	       spans_take(&table->received, first, end);
}

static bool copy_in(struct detour_table *table, const struct trace_event *event,
		    const struct copied *copy)
{
	uint64_t first = MODEL_ARG(event, cuda_copy, src), end = first + copy->bytes, taken = 0;
	struct detour_stat *stat = &table->results.kinds[DETOUR_COPIED_IN];
	bool good;

	for (struct span *span = spans_find(&table->received, first, end, NULL); span;
	     span = spans_find(&table->received, first, end, span)) {
		taken += span_overlap(span, first, end);
		stat->transfers++;
		span->flag = false; /* copied, so not mapped */
	}
	if (!taken)
		return true;
	stat->bytes += taken;
	good = copy_count(table, DETOUR_COPIED_IN, IN, copy);
	return spans_take(&table->received, first, end) && good;
}

static bool copy_event(struct detour_table *table, const struct trace_event *event)
{
	uint64_t dst = MODEL_ARG(event, cuda_copy, dst_kind);
	uint64_t src = MODEL_ARG(event, cuda_copy, src_kind);
	bool out = is_device(src) && is_host(dst), in = is_host(src) && is_device(dst);
	enum direction direction = out ? OUT : IN;
	const struct copied copy = {.bytes = MODEL_ARG(event, cuda_copy, bytes),
				    .held_ns = (uint64_t)(event->end_ns - event->begin_ns),
				    .stack = (uint32_t)MODEL_ARG(event, cuda_copy, stack),
				    .api = (uint32_t)MODEL_ARG(event, cuda_copy, api),
				    .rule = (uint8_t)MODEL_ARG(event, cuda_copy, rule),
				    .cls = (uint8_t)MODEL_ARG(event, cuda_copy, cls),
				    .pageable = src == WL_mem_kind_pageable ||
						dst == WL_mem_kind_pageable};

	if ((event->flags & WL_FLAG_CAPTURED) || (int64_t)MODEL_ARG(event, cuda_copy, status) != 0)
		return true;
	/* Within the device it is the direct path of processes that share one. */
	if ((event->flags & WL_FLAG_IN_PROVIDER) && is_device(src) && is_device(dst))
		return true;
	if (event->flags & WL_FLAG_IN_PROVIDER) {
		table->results.kinds[DETOUR_IN_PROVIDER].bytes += copy.bytes;
		return copy_count(table, DETOUR_IN_PROVIDER, direction, &copy);
	}
	if (!out && !in)
		return true;
	if (copy.cls == WL_call_class_waits && copy.bytes >= RATE_BYTES) {
		table->rate_bytes[direction] += copy.bytes;
		table->rate_ns[direction] += copy.held_ns;
	}
	return out ? copy_out(table, event, &copy) : copy_in(table, event, &copy);
}

/* --- the network ------------------------------------------------------------------------------ */

static bool sends(uint64_t op)
{
	return op == WL_ofi_op_send || op == WL_ofi_op_tsend || op == WL_ofi_op_write ||
	       op == WL_ofi_op_atomic;
}

static bool receives(uint64_t op)
{
	return op == WL_ofi_op_recv || op == WL_ofi_op_trecv || op == WL_ofi_op_read;
}

static bool in_pinned(struct detour_table *table, uint64_t first, uint64_t end)
{
	const struct span *span = spans_find(&table->pinned, first, end, NULL);

	return span && span->first <= first && span->end >= end;
}

static bool post_event(struct detour_table *table, const struct trace_event *event)
{
	uint64_t first = MODEL_ARG(event, ofi_post, addr);
	uint64_t end = first + MODEL_ARG(event, ofi_post, bytes), found = 0, received = 0;
	struct detour_stat *stat = &table->results.kinds[DETOUR_COPIED_OUT];
	bool good = true;

	if (!sends(MODEL_ARG(event, ofi_post, op)) || (event->flags & WL_FLAG_INNER_LAYER) ||
	    (int64_t)MODEL_ARG(event, ofi_post, status) != 0)
		return true;
	for (struct span *span = spans_find(&table->filled, first, end, NULL); span;
	     span = spans_find(&table->filled, first, end, span)) {
		struct copied *copy = &table->copies[span->user];

		found += span_overlap(span, first, end);
		if (copy->matched)
			continue;
		copy->matched = true;
		good &= copy_count(table, DETOUR_COPIED_OUT, OUT, copy);
	}
	for (const struct span *span = spans_find(&table->received, first, end, NULL); span;
	     span = spans_find(&table->received, first, end, span))
		received += span_overlap(span, first, end);
	if (!found && !received && table->launched && in_pinned(table, first, end)) {
		stat = &table->results.kinds[DETOUR_MAPPED_OUT];
		found = end - first;
	}
	if (!found)
		return good;
	stat->transfers++;
	stat->bytes += found;
	return good;
}

bool detour_transfer(struct detour_table *table, const struct model_transfer *transfer)
{
	const struct trace_event *post = &transfer->post;
	uint64_t first = MODEL_ARG(post, ofi_post, addr), end = first + transfer->bytes;

	if (!receives(MODEL_ARG(post, ofi_post, op)) || transfer->failed ||
	    transfer->how != MODEL_TRANSFER_COMPLETED || (post->flags & WL_FLAG_INNER_LAYER))
		return true;
	/* Of many ranges only the first is known. */
	return spans_take(&table->filled, first, end) &&
	       spans_fill(&table->received, first, end, 0, in_pinned(table, first, end));
}

/* --- memory and the path ---------------------------------------------------------------------- */

static bool mem_event(struct detour_table *table, const struct trace_event *event)
{
	uint64_t first = MODEL_ARG(event, cuda_mem, ptr);
	uint64_t end = first + MODEL_ARG(event, cuda_mem, bytes);
	uint64_t op = MODEL_ARG(event, cuda_mem, op);

	if ((int64_t)MODEL_ARG(event, cuda_mem, status) != 0)
		return true;
	if (op == WL_mem_op_export)
		table->results.exports++;
	if (MODEL_ARG(event, cuda_mem, kind) != WL_mem_kind_pinned)
		return true;
	if (op == WL_mem_op_alloc || op == WL_mem_op_register)
		return spans_fill(&table->pinned, first, end, 0, false);
	if (op != WL_mem_op_free && op != WL_mem_op_unregister)
		return true;
	if (end == first) {
		const struct span *span = spans_find(&table->pinned, first, first + 1, NULL);

		end = span ? span->end : end;
	}
	return spans_take(&table->pinned, first, end) && spans_take(&table->filled, first, end) &&
	       spans_take(&table->received, first, end);
}

bool detour_event(struct detour_table *table, unsigned process, const struct trace_event *event)
{
	table->process = process;
	switch (event->type->number) {
	case WL_EV_cuda_copy:
		return copy_event(table, event);
	case WL_EV_ofi_post:
		return post_event(table, event);
	case WL_EV_cuda_mem:
		return mem_event(table, event);
	case WL_EV_cuda_launch:
	case WL_EV_cuda_graph:
		table->launched = true;
		return true;
	default:
		path_event(&table->path, table->model, process, event);
		return true;
	}
}

void detour_process_end(struct detour_table *table)
{
	spans_clear(&table->filled);
	spans_clear(&table->received);
	spans_clear(&table->pinned);
	memset(table->copies, 0, sizeof(table->copies));
	table->launched = false;
}

/* --- results ---------------------------------------------------------------------------------- */

static uint64_t saved(const struct detour_table *table)
{
	uint64_t ns = 0;

	for (unsigned kind = 0; kind < DETOUR_KINDS; kind++)
		ns += table->results.kinds[kind].held_ns;
	for (unsigned i = 0; i < DIRECTIONS; i++) {
		const struct detour_stat *unknown = &table->unknown_ns[i];
		double took = table->rate_bytes[i]
				      ? (double)unknown->copy_bytes * (double)table->rate_ns[i] /
						(double)table->rate_bytes[i]
				      : 0;

		if (took > (double)unknown->held_ns)
			ns += (uint64_t)took - unknown->held_ns;
	}
	return ns;
}

bool detour_results(struct detour_table *table, struct analysis *analysis)
{
	table->results.direct =
		path_verdict(&table->path, table->results.why, sizeof(table->results.why));
	table->results.save_ns = saved(table);
	table->results.sites = site_table_sorted(table->sites, &table->results.site_count);
	analysis->detours = table->results;
	return analysis->detours.sites != NULL;
}
