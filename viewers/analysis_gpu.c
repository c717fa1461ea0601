/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices did, where that was recorded: how long they and their copy engines were busy, and how long
 * they stood idle because the host had waited for them and had nothing queued.
 */
#include "viewers/analysis_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES 64
/* Kept of a process: busy times of a device, waits of the host. The first so many are looked at. */
#define TIMES_MAX (1u << 18)
#define WAITS_MAX (1u << 18)

struct busy_time {
	int64_t begin_ns, end_ns;
};

/* Times that do not overlap, in order. */
struct busy_list {
	size_t count, room;
	struct busy_time *times;
};

struct host_wait {
	int64_t begin_ns, end_ns;
	struct site_way *way;
};

struct gpu_table {
	struct device_stat devices[DEVICES];
	bool thinned;
	/* of the process being read */
	struct busy_list busy[DEVICES], copies[DEVICES];
	size_t wait_count, wait_room;
	struct host_wait *waits;
};

struct gpu_table *gpu_table_new(void)
{
	return calloc(1, sizeof(struct gpu_table));
}

void gpu_table_free(struct gpu_table *table)
{
	if (!table)
		return;
	for (unsigned i = 0; i < DEVICES; i++) {
		free(table->busy[i].times);
		free(table->copies[i].times);
	}
	free(table->waits);
	free(table);
}

static bool time_add(struct gpu_table *table, struct busy_list *list, int64_t begin, int64_t end)
{
	/* Records come by their end: only the last times can overlap a new one, or lie behind it a
	 * little where they were handed over late. */
	size_t at = list->count;
	struct busy_time merged = {begin, end};

	while (at > 0 && list->times[at - 1].begin_ns > end)
		at--;
	size_t last = at;

	while (at > 0 && list->times[at - 1].end_ns >= begin) {
		at--;
		if (list->times[at].begin_ns < merged.begin_ns)
			merged.begin_ns = list->times[at].begin_ns;
		if (list->times[at].end_ns > merged.end_ns)
			merged.end_ns = list->times[at].end_ns;
	}
	if (at == last) {
		if (list->count == TIMES_MAX) {
			table->thinned = true;
			return true;
		}
		if (list->count == list->room) {
			size_t room = list->room ? list->room * 2 : 256;
			struct busy_time *times = realloc(list->times, room * sizeof(*times));

			if (!times)
				return false;
			list->times = times;
			list->room = room;
		}
		memmove(&list->times[at + 1], &list->times[at],
			(list->count - at) * sizeof(*list->times));
		list->count++;
	} else {
		memmove(&list->times[at + 1], &list->times[last],
			(list->count - last) * sizeof(*list->times));
		list->count -= last - at - 1;
	}
	list->times[at] = merged;
	return true;
}

bool gpu_event(struct gpu_table *table, const struct trace_event *event)
{
	uint64_t device, kernels = 0, copies = 0, bytes = 0;
	bool good;

	switch (event->type->number) {
	case WL_EV_gpu_kernel:
		device = MODEL_ARG(event, gpu_kernel, device);
		kernels = 1;
		break;
	case WL_EV_gpu_copy:
		device = MODEL_ARG(event, gpu_copy, device);
		bytes = MODEL_ARG(event, gpu_copy, bytes);
		copies = 1;
		break;
	case WL_EV_gpu_memset:
		device = MODEL_ARG(event, gpu_memset, device);
		break;
	case WL_EV_gpu_graph:
		device = MODEL_ARG(event, gpu_graph, device);
		break;
	default:
		return true;
	}
	if (device >= DEVICES)
		return true;
	table->devices[device].kernels += kernels;
	table->devices[device].copies += copies;
	table->devices[device].copy_bytes += bytes;
	table->devices[device].seen = true;
	good = time_add(table, &table->busy[device], event->begin_ns, event->end_ns);
	if (copies)
		good &= time_add(table, &table->copies[device], event->begin_ns, event->end_ns);
	return good;
}

bool gpu_wait(struct gpu_table *table, const struct trace_event *event, struct site_way *way)
{
	if (table->wait_count == WAITS_MAX) {
		table->thinned = true;
		return true;
	}
	if (table->wait_count == table->wait_room) {
		size_t room = table->wait_room ? table->wait_room * 2 : 256;
		struct host_wait *waits = realloc(table->waits, room * sizeof(*waits));

		if (!waits)
			return false;
		table->waits = waits;
		table->wait_room = room;
	}
	table->waits[table->wait_count++] = (struct host_wait){event->begin_ns, event->end_ns, way};
	return true;
}

/* A device fell idle while the host waited, and began again only after the wait: until then it had nothing
 * to do because of the wait. Waits are in order of their end. */
static void blame_gaps(struct gpu_table *table, struct device_stat *stat,
		       const struct busy_list *busy)
{
	size_t w = 0;

	for (size_t i = 0; i + 1 < busy->count; i++) {
		int64_t idle = busy->times[i].end_ns, again = busy->times[i + 1].begin_ns;
		const struct host_wait *blamed = NULL;

		while (w < table->wait_count && table->waits[w].end_ns < idle)
			w++;
		/* The last that ended in the gap is what the next work came after. */
		for (size_t k = w; k < table->wait_count && table->waits[k].end_ns <= again; k++)
			if (table->waits[k].begin_ns <= idle)
				blamed = &table->waits[k];
		if (!blamed)
			continue;
		stat->wait_idle_ns += (uint64_t)(again - idle);
		stat->wait_gaps++;
		blamed->way->site->idle_ns += (uint64_t)(again - idle);
	}
}

static uint64_t sum(const struct busy_list *list)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < list->count; i++)
		ns += (uint64_t)(list->times[i].end_ns - list->times[i].begin_ns);
	return ns;
}

void gpu_process_end(struct gpu_table *table)
{
	for (unsigned i = 0; i < DEVICES; i++) {
		struct busy_list *busy = &table->busy[i];
		struct device_stat *stat = &table->devices[i];

		if (busy->count) {
			stat->span_ns += (uint64_t)(busy->times[busy->count - 1].end_ns -
						    busy->times[0].begin_ns);
			stat->busy_ns += sum(busy);
			stat->copy_busy_ns += sum(&table->copies[i]);
			blame_gaps(table, stat, busy);
		}
		busy->count = 0;
		table->copies[i].count = 0;
	}
	table->wait_count = 0;
}

bool gpu_results(struct gpu_table *table, struct analysis *analysis)
{
	analysis->devices = calloc(DEVICES, sizeof(struct device_stat));
	if (!analysis->devices)
		return false;
	for (unsigned i = 0; i < DEVICES; i++) {
		if (!table->devices[i].seen)
			continue;
		table->devices[i].device = i;
		analysis->devices[analysis->device_count++] = table->devices[i];
	}
	analysis->devices_thinned = table->thinned;
	return true;
}
