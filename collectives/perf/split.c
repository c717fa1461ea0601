/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of collectives goes: what this rank's CPU, registrations, copies and reductions took
 * between two points, and the same of all ranks. */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

static double cpu_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

void split_now(const struct world *w, struct perf_split *now)
{
	const struct tp_stats *t = &w->tp->stats;

	*now = (struct perf_split){
		.wall_us = (double)tp_now_ns() / 1e3,
		.cpu_us = cpu_us(),
		.registration_us = (double)(t->registration_ns + t->deregistration_ns) / 1e3,
		.reduce_us = (double)coll_reduce_ns(w->comm) / 1e3,
		.registrations = (double)t->registrations,
	};
	if (w->device)
		now->copy_us = (double)(w->device->stats.down_ns + w->device->stats.up_ns) / 1e3;
}

int split_since(struct world *w, const struct perf_split *from, int n, struct perf_split *out)
{
	struct perf_split now, *all = calloc((size_t)w->size, sizeof(*all));
	double each = 1.0 / n, part = each / w->size;
	int rc;

	*out = (struct perf_split){0};
	if (!all)
		return -ENOMEM;
	split_now(w, &now);
	now.wall_us -= from->wall_us;
	now.cpu_us -= from->cpu_us;
	now.registration_us -= from->registration_us;
	now.copy_us -= from->copy_us;
	now.reduce_us -= from->reduce_us;
	now.registrations -= from->registrations;
	rc = world_allgather(w, &now, sizeof(now), all);
	for (int i = 0; i < w->size && !rc; i++) {
		out->wall_us += all[i].wall_us * part;
		out->cpu_us += all[i].cpu_us * part;
		out->registration_us += all[i].registration_us * part;
		out->copy_us += all[i].copy_us * part;
		out->reduce_us += all[i].reduce_us * part;
	}
	out->registrations = all[0].registrations * each;
	free(all);
	return rc;
}

int perf_sum_moved(struct world *w, struct perf_summary *sum)
{
	struct device_stats *all = calloc((size_t)w->size, sizeof(*all)), mine = {0};
	int rc = all ? 0 : -ENOMEM;

	if (w->device)
		mine = w->device->stats;
	if (!rc)
		rc = world_allgather(w, &mine, sizeof(mine), all);
	for (int i = 0; i < w->size && !rc; i++) {
		sum->moved.down_copies += all[i].down_copies;
		sum->moved.down_bytes += all[i].down_bytes;
		sum->moved.down_ns += all[i].down_ns;
		sum->moved.up_copies += all[i].up_copies;
		sum->moved.up_bytes += all[i].up_bytes;
		sum->moved.up_ns += all[i].up_ns;
		sum->moved.reductions += all[i].reductions;
		sum->moved.flushes += all[i].flushes;
		sum->moved.flush_ns += all[i].flush_ns;
	}
	free(all);
	return rc;
}
