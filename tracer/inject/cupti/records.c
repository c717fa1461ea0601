/* SPDX-License-Identifier: Apache-2.0
 *
 * Activity records as events. CUPTI orders them by when they were begun, thread by thread; events of one
 * buffer are written in the order of their end, as all others are.
 */
#include "tracer/inject/cupti/cupti.h"

#include <stdio.h>
#include <sys/mman.h>

#define SORTED_MAX 65536 /* records of a buffer that are brought into order: more than fit in one */

static _Atomic uint64_t taken, incomplete;

static uint8_t memory_kind(uint8_t cupti)
{
	static const uint8_t kinds[] = {
		WL_mem_kind_unknown, WL_mem_kind_pageable, WL_mem_kind_pinned, WL_mem_kind_device,
		WL_mem_kind_array,   WL_mem_kind_managed,  WL_mem_kind_device, WL_mem_kind_managed,
	};

	return cupti < sizeof(kinds) ? kinds[cupti] : WL_mem_kind_unknown;
}

/* --- one record -------------------------------------------------------------------------------------- */

static bool kernel(const struct cupti_kernel *r)
{
	uint32_t name = r->name ? spool_intern_string(r->name, strlen(r->name)) : 0;

	return SPOOL_EMIT(gpu_kernel, r->start, r->end, 0, .node = r->node, .name = name,
			  .device = r->device, .context = r->context, .stream = r->stream,
			  .correlation = r->correlation, .graph = r->graph,
			  .grid_x = (uint32_t)r->grid[0], .grid_y = (uint32_t)r->grid[1],
			  .grid_z = (uint32_t)r->grid[2], .block_x = (uint32_t)r->block[0],
			  .block_y = (uint32_t)r->block[1], .block_z = (uint32_t)r->block[2],
			  .shared_bytes = (uint32_t)(r->static_shared + r->dynamic_shared),
			  .local_bytes = r->local_per_thread, .registers = r->registers);
}

static bool copy(const struct cupti_memcpy *r)
{
	return SPOOL_EMIT(gpu_copy, r->start, r->end, 0, .node = r->node, .bytes = r->bytes,
			  .device = r->device, .context = r->context, .stream = r->stream,
			  .correlation = r->correlation, .graph = r->graph, .peer = r->device,
			  .dst_kind = memory_kind(r->dst_kind),
			  .src_kind = memory_kind(r->src_kind));
}

static bool copy_between(const struct cupti_memcpy2 *r)
{
	uint32_t peer = r->src_device == r->device ? r->dst_device : r->src_device;

	return SPOOL_EMIT(gpu_copy, r->start, r->end, 0, .node = r->node, .bytes = r->bytes,
			  .device = r->device, .context = r->context, .stream = r->stream,
			  .correlation = r->correlation, .graph = r->graph, .peer = peer,
			  .dst_kind = memory_kind(r->dst_kind),
			  .src_kind = memory_kind(r->src_kind));
}

static bool set(const struct cupti_memset *r)
{
	return SPOOL_EMIT(gpu_memset, r->start, r->end, 0, .node = r->node, .bytes = r->bytes,
			  .device = r->device, .context = r->context, .stream = r->stream,
			  .correlation = r->correlation, .graph = r->graph, .value = r->value,
			  .dst_kind = memory_kind((uint8_t)r->memory_kind));
}

static bool sync(const struct cupti_sync *r)
{
	return SPOOL_EMIT(gpu_sync, r->start, r->end, 0, .context = r->context, .stream = r->stream,
			  .correlation = r->correlation, .event = r->event,
			  .wait = r->type <= WL_gpu_wait_context ? (uint8_t)r->type : 0);
}

static bool graph(const struct cupti_graph *r)
{
	return SPOOL_EMIT(gpu_graph, r->start, r->end, 0, .device = r->device,
			  .context = r->context, .stream = r->stream, .correlation = r->correlation,
			  .graph = r->graph);
}

/* When a record of a kind that becomes an event began and ended; false for other kinds. */
static bool times(const struct cupti_record *record, uint64_t *start, uint64_t *end)
{
	switch (record->kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		*start = ((const struct cupti_kernel *)record)->start;
		*end = ((const struct cupti_kernel *)record)->end;
		return true;
	case CUPTI_KIND_MEMCPY:
	case CUPTI_KIND_MEMCPY2:
		*start = ((const struct cupti_memcpy *)record)->start;
		*end = ((const struct cupti_memcpy *)record)->end;
		return true;
	case CUPTI_KIND_MEMSET:
		*start = ((const struct cupti_memset *)record)->start;
		*end = ((const struct cupti_memset *)record)->end;
		return true;
	case CUPTI_KIND_SYNCHRONIZATION:
		*start = ((const struct cupti_sync *)record)->start;
		*end = ((const struct cupti_sync *)record)->end;
		return true;
	case CUPTI_KIND_GRAPH_TRACE:
		*start = ((const struct cupti_graph *)record)->start;
		*end = ((const struct cupti_graph *)record)->end;
		return true;
	}
	return false;
}

static void emit(const struct cupti_record *record)
{
	bool done = false;

	switch (record->kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		done = kernel((const struct cupti_kernel *)record);
		break;
	case CUPTI_KIND_MEMCPY:
		done = copy((const struct cupti_memcpy *)record);
		break;
	case CUPTI_KIND_MEMCPY2:
		done = copy_between((const struct cupti_memcpy2 *)record);
		break;
	case CUPTI_KIND_MEMSET:
		done = set((const struct cupti_memset *)record);
		break;
	case CUPTI_KIND_SYNCHRONIZATION:
		done = sync((const struct cupti_sync *)record);
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		done = graph((const struct cupti_graph *)record);
		break;
	}
	if (done)
		atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}

/* --- a buffer ------------------------------------------------------------------------------------------ */

struct sorted {
	uint64_t end;
	const struct cupti_record *record;
};

/* Room to sort in, one for the process: a thread that finds it in use writes in the order it finds. */
static struct sorted *room;
static _Atomic bool room_taken;

static void sift(struct sorted *heap, size_t at, size_t count)
{
	struct sorted moved = heap[at];

	for (;;) {
		size_t child = at * 2 + 1;

		if (child >= count)
			break;
		if (child + 1 < count && heap[child + 1].end > heap[child].end)
			child++;
		if (heap[child].end <= moved.end)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

/* In place and without malloc, which qsort may call. */
static void sort(struct sorted *records, size_t count)
{
	for (size_t i = count / 2; i-- > 0;)
		sift(records, i, count);
	for (size_t last = count; last-- > 1;) {
		struct sorted top = records[0];

		records[0] = records[last];
		records[last] = top;
		sift(records, 0, last);
	}
}

static bool room_take(void)
{
	void *at;

	if (atomic_exchange_explicit(&room_taken, true, memory_order_acquire))
		return false;
	if (!room) {
		at = mmap(NULL, SORTED_MAX * sizeof(*room), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		room = at == MAP_FAILED ? NULL : at;
	}
	if (!room)
		atomic_store_explicit(&room_taken, false, memory_order_release);
	return room != NULL;
}

void cupti_records_take(uint8_t *buffer, size_t valid)
{
	struct cupti_record *record = NULL;
	bool in_order = room_take();
	size_t count = 0;

	while (wl_cupti.next_record(buffer, valid, &record) == CUPTI_OK) {
		uint64_t start, end;

		if (!(cupti_kinds & 1ull << (record->kind % CUPTI_KIND_MAX)) ||
		    record->kind >= CUPTI_KIND_MAX)
			continue; /* the other client's */
		if (!times(record, &start, &end))
			continue;
		/* Taken out of CUPTI by force, before the device was done. */
		if (!start || end < start) {
			atomic_fetch_add_explicit(&incomplete, 1, memory_order_relaxed);
			continue;
		}
		if (in_order && count < SORTED_MAX)
			room[count++] = (struct sorted){end, record};
		else
			emit(record);
	}
	if (!in_order)
		return;
	sort(room, count);
	for (size_t i = 0; i < count; i++)
		emit(room[i].record);
	atomic_store_explicit(&room_taken, false, memory_order_release);
}

void cupti_records_report(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)atomic_load(&taken));
	spool_attribute("cupti.records", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)atomic_load(&incomplete));
	spool_attribute("cupti.incomplete", text);
}
