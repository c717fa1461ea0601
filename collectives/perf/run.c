/* SPDX-License-Identifier: Apache-2.0 */
/* Running collectives: time over many calls, content of the result on calls of their own. */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct perf {
	const struct perf_options *o;
	struct world *w;
	struct perf_memory send, recv; /* max_bytes each, of whole pages */
	struct tp_region *point;       /* of the one that point to point uses */
};

/* One collective of one size. */
struct point {
	enum perf_collective collective;
	struct pattern pattern;
	size_t count; /* as the collective's own call takes it */
	size_t bytes; /* as the table shows it */
	int root;
};

static bool divided(enum perf_collective c)
{
	return c == PERF_REDUCE_SCATTER || c == PERF_ALL_GATHER || c == PERF_ALL_TO_ALL;
}

static bool reduces(enum perf_collective c)
{
	return c == PERF_ALL_REDUCE || c == PERF_REDUCE_SCATTER;
}

/* --- one call ------------------------------------------------------------------------------- */

/* The two buffers of a call; in place as NCCL defines it for each collective. */
static void buffers_of(const struct perf *p, const struct point *pt, bool in_place, char **send,
		       char **recv)
{
	size_t block = pt->count * coll_type_bytes(pt->pattern.type);
	size_t own = (size_t)p->w->rank * block;

	*send = p->send.at;
	*recv = p->recv.at;
	if (!in_place)
		return;
	*send = *recv;
	if (pt->collective == PERF_ALL_GATHER)
		*send = *recv + own;
	else if (pt->collective == PERF_REDUCE_SCATTER)
		*recv = *send + own;
}

static int call_once(const struct perf *p, const struct point *pt, const void *send, void *recv)
{
	struct coll_comm *comm = p->w->comm;
	enum coll_type type = pt->pattern.type;

	switch (pt->collective) {
	case PERF_ALL_REDUCE:
		return coll_all_reduce(comm, send, recv, pt->count, type, pt->pattern.op);
	case PERF_REDUCE_SCATTER:
		return coll_reduce_scatter(comm, send, recv, pt->count, type, pt->pattern.op);
	case PERF_ALL_GATHER:
		return coll_all_gather(comm, send, recv, pt->count, type);
	case PERF_BROADCAST:
		return coll_broadcast(comm, send, recv, pt->count, type, pt->root);
	case PERF_ALL_TO_ALL:
		return coll_all_to_all(comm, send, recv, pt->count, type);
	default:
		return coll_barrier(comm);
	}
}

/* n calls, one after the other; messages of point to point overlap. */
static int call(const struct perf *p, const struct point *pt, const void *send, void *recv, int n)
{
	int rc = 0;

	if (pt->collective == PERF_POINT)
		return perf_point_run(p->w, p->w->rank % 2 ? &p->recv : &p->send, p->point,
				      pt->bytes, n);
	for (int i = 0; i < n && !rc; i++)
		rc = call_once(p, pt, send, recv);
	return rc;
}

/* --- content -------------------------------------------------------------------------------- */

/* What a path's memory holds, seen in the host's mirror of it. */
static char *mirror_of(const struct perf *p, const char *at, const struct perf_memory **memory)
{
	bool in_send = at >= p->send.at && at < p->send.at + p->send.bytes;

	*memory = in_send ? &p->send : &p->recv;
	return (*memory)->mirror + (at - (*memory)->at);
}

static int fill(const struct perf *p, const struct point *pt, char *send)
{
	const struct perf_memory *memory;
	char *mirror = mirror_of(p, send, &memory);
	size_t n = pt->count;

	if (pt->collective == PERF_REDUCE_SCATTER || pt->collective == PERF_ALL_TO_ALL)
		n *= (size_t)p->w->size;
	pattern_fill(&pt->pattern, mirror, n, p->w->rank, 0);
	return memory_put(memory, (size_t)(mirror - memory->mirror),
			  n * coll_type_bytes(pt->pattern.type));
}

static size_t wrong_blocks(const struct perf *p, const struct point *pt, const char *recv)
{
	size_t block = pt->count * coll_type_bytes(pt->pattern.type);
	size_t first = pt->collective == PERF_ALL_TO_ALL ? (size_t)p->w->rank * pt->count : 0;
	size_t wrong = 0;

	for (int r = 0; r < p->w->size; r++)
		wrong += pattern_wrong_copy(&pt->pattern, recv + (size_t)r * block, pt->count, r,
					    first);
	return wrong;
}

static size_t wrong_now(const struct perf *p, const struct point *pt, const char *recv)
{
	switch (pt->collective) {
	case PERF_ALL_REDUCE:
		return pattern_wrong_reduced(&pt->pattern, recv, pt->count, 0);
	case PERF_REDUCE_SCATTER:
		return pattern_wrong_reduced(&pt->pattern, recv, pt->count,
					     (size_t)p->w->rank * pt->count);
	case PERF_BROADCAST:
		return pattern_wrong_copy(&pt->pattern, recv, pt->count, pt->root, 0);
	case PERF_POINT: /* what the sender before this rank gave */
		return p->w->rank % 2 ? pattern_wrong_copy(&pt->pattern, recv, pt->count,
							   p->w->rank - 1, 0)
				      : 0;
	case PERF_ALL_GATHER:
	case PERF_ALL_TO_ALL:
		return wrong_blocks(p, pt, recv);
	default:
		return 0;
	}
}

/* How much of a receive buffer a collective writes. */
static size_t result_bytes(const struct perf *p, const struct point *pt)
{
	size_t block = pt->count * coll_type_bytes(pt->pattern.type);

	return pt->collective == PERF_ALL_GATHER || pt->collective == PERF_ALL_TO_ALL
		       ? block * (size_t)p->w->size
		       : block;
}

static int check_once(const struct perf *p, const struct point *pt, bool in_place, char *send,
		      char *recv, int64_t *mine)
{
	const struct perf_memory *memory;
	char *mirror = mirror_of(p, recv, &memory);
	size_t bytes = result_bytes(p, pt), offset = (size_t)(mirror - memory->mirror);
	int rc = 0;

	if (!in_place) { /* what an earlier run left must not pass for a result */
		memset(mirror, 0xee, bytes);
		rc = memory_put(memory, offset, bytes);
	}
	if (!rc)
		rc = fill(p, pt, send);
	if (!rc)
		rc = call(p, pt, send, recv, 1);
	if (!rc && memory->device) {
		memset(mirror, 0xee, bytes); /* nor what the mirror has */
		rc = memory_get(memory, offset, bytes);
	}
	if (!rc)
		*mine += (int64_t)wrong_now(p, pt, mirror);
	return rc;
}

/* Runs and looks; *wrong is the sum over all ranks. */
static int check(const struct perf *p, const struct point *pt, bool in_place, int64_t *wrong)
{
	int64_t mine = 0, *all = calloc((size_t)p->w->size, sizeof(*all));
	char *send, *recv;
	int rc = all ? 0 : -ENOMEM;

	buffers_of(p, pt, in_place, &send, &recv);
	for (int i = 0; i < p->o->checks && !rc; i++)
		rc = check_once(p, pt, in_place, send, recv, &mine);
	if (!rc)
		rc = world_allgather(p->w, &mine, sizeof(mine), all);
	*wrong = 0;
	for (int r = 0; r < p->w->size && !rc; r++)
		*wrong += all[r];
	free(all);
	return rc;
}

/* --- time ----------------------------------------------------------------------------------- */

static double combine(enum perf_average how, const double *all, int n)
{
	double v = all[0];

	for (int i = 1; i < n; i++) {
		if (how == PERF_AVERAGE)
			v += all[i];
		else if ((how == PERF_MINIMUM && all[i] < v) || (how == PERF_MAXIMUM && all[i] > v))
			v = all[i];
	}
	return how == PERF_AVERAGE ? v / n : v;
}

static int measure(const struct perf *p, const struct point *pt, bool in_place,
		   struct perf_figure *f)
{
	double mine, *all = calloc((size_t)p->w->size, sizeof(*all));
	struct perf_split before;
	int64_t start;
	char *send, *recv;
	int rc = all ? 0 : -ENOMEM;

	buffers_of(p, pt, in_place, &send, &recv);
	if (!rc)
		rc = call(p, pt, send, recv, p->o->warmup_iters);
	if (!rc)
		rc = coll_barrier(p->w->comm);
	split_now(p->w, &before);
	start = tp_now_ns();
	if (!rc)
		rc = call(p, pt, send, recv, p->o->iters);
	mine = (double)(tp_now_ns() - start) / 1e3 / p->o->iters;
	if (!rc)
		rc = split_since(p->w, &before, p->o->iters, &f->split);
	if (!rc)
		rc = world_allgather(p->w, &mine, sizeof(mine), all);
	if (!rc) {
		f->time_us = combine(p->o->average, all, p->w->size);
		f->cores = f->split.wall_us > 0 ? f->split.cpu_us / f->split.wall_us : 0;
		f->cpu_s_per_gb = pt->bytes ? f->split.cpu_us * 1e3 / (double)pt->bytes : 0;
	}
	free(all);
	return rc;
}

/* Bytes that cross the busiest link for each byte of the table's size: makes figures of different
 * collectives and rank counts comparable with the hardware's. */
static double bus_factor(enum perf_collective c, int n)
{
	switch (c) {
	case PERF_ALL_REDUCE:
		return 2.0 * (n - 1) / n;
	case PERF_REDUCE_SCATTER:
	case PERF_ALL_GATHER:
	case PERF_ALL_TO_ALL:
		return (double)(n - 1) / n;
	default:
		return 1;
	}
}

static int run_figure(const struct perf *p, const struct point *pt, bool in_place,
		      struct perf_figure *f)
{
	int rc;

	rc = measure(p, pt, in_place, f);
	for (int i = 1; i < p->o->rounds && !rc; i++) {
		struct perf_figure again = {0};

		rc = measure(p, pt, in_place, &again);
		if (!rc && again.time_us < f->time_us)
			*f = again;
	}
	f->wrong = -1;
	if (!rc && p->o->checks && pt->collective != PERF_BARRIER)
		rc = check(p, pt, in_place, &f->wrong);
	if (rc)
		return rc;
	f->valid = true;
	f->algbw = f->time_us > 0 ? (double)pt->bytes / f->time_us / 1e3 : 0;
	f->busbw = f->algbw * bus_factor(pt->collective, p->w->size);
	return 0;
}

static int run_point(const struct perf *p, const struct point *pt, struct perf_output *out,
		     struct perf_summary *sum)
{
	struct perf_row row = {.collective = pt->collective,
			       .bytes = pt->bytes,
			       .count = pt->count,
			       .type = pt->pattern.type,
			       .op = pt->pattern.op,
			       .has_type = pt->collective != PERF_BARRIER,
			       .has_op = reduces(pt->collective),
			       .root = pt->collective == PERF_BROADCAST ? pt->root : -1};
	int forms = pt->collective == PERF_ALL_TO_ALL || pt->collective == PERF_BARRIER ||
				    pt->collective == PERF_POINT
			    ? 1
			    : 2;

	for (int i = 0; i < forms; i++) {
		int rc = run_figure(p, pt, i == 1, &row.figure[i]);

		if (rc)
			return rc;
		if (row.figure[i].wrong > 0)
			sum->wrong += row.figure[i].wrong;
		if (pt->collective != PERF_BARRIER) {
			sum->busbw_sum += row.figure[i].busbw;
			sum->busbw_count++;
		}
	}
	output_row(out, &row);
	return 0;
}

/* --- all sizes, types and operations -------------------------------------------------------- */

static int run_sizes(const struct perf *p, struct point *pt, struct perf_output *out,
		     struct perf_summary *sum)
{
	size_t esize = coll_type_bytes(pt->pattern.type);
	size_t unit = divided(pt->collective) ? esize * (size_t)p->w->size : esize;
	size_t size = p->o->min_bytes;

	for (;;) {
		size_t next =
			p->o->step_factor > 1 ? size * p->o->step_factor : size + p->o->step_bytes;
		int rc;

		pt->count = size / unit;
		pt->bytes = pt->count * unit;
		rc = run_point(p, pt, out, sum);
		if (rc)
			return rc;
		if (next <= size || next > p->o->max_bytes)
			return 0;
		size = next;
	}
}

static int run_collective(const struct perf *p, enum perf_collective c, struct perf_output *out,
			  struct perf_summary *sum)
{
	struct point pt = {.collective = c, .root = p->o->root};
	int rc = 0;

	pt.pattern.ranks = p->w->size;
	if (c == PERF_BARRIER)
		return run_point(p, &pt, out, sum);
	for (int type = 0; type < COLL_TYPE_MAX && !rc; type++) {
		if (!(p->o->types >> type & 1))
			continue;
		pt.pattern.type = (enum coll_type)type;
		for (int op = 0; op < COLL_OP_MAX && !rc; op++) {
			pt.pattern.op = (enum coll_op)op;
			if (!reduces(c)) /* once, with any operation's content */
				op = COLL_OP_MAX;
			else if (!(p->o->ops >> op & 1))
				continue;
			rc = run_sizes(p, &pt, out, sum);
		}
	}
	return rc;
}

int perf_run(const struct perf_options *o, struct world *w, struct perf_output *out,
	     struct perf_summary *sum)
{
	struct coll_device *device = w->device;
	struct perf p = {.o = o, .w = w};
	size_t bytes = o->max_bytes ? o->max_bytes : 1;
	int rc = memory_open(&p.send, device, bytes);

	if (!rc)
		rc = memory_open(&p.recv, device, bytes);
	if (rc)
		snprintf(w->error, sizeof(w->error),
			 "no memory for two buffers of %zu bytes: choose a smaller --max-bytes",
			 bytes);
	if (!rc && o->collectives >> PERF_POINT & 1)
		rc = perf_point_register(w, w->rank % 2 ? &p.recv : &p.send, &p.point);
	for (int c = 0; c < PERF_COLLECTIVE_MAX && !rc; c++) {
		if (o->collectives >> c & 1)
			rc = run_collective(&p, (enum perf_collective)c, out, sum);
	}
	if (!rc)
		rc = perf_sum_moved(w, sum);
	if (p.point)
		tp_deregister(w->tp, p.point);
	if (p.send.at)
		coll_forget(w->comm, p.send.at, bytes);
	if (p.recv.at)
		coll_forget(w->comm, p.recv.at, bytes);
	memory_close(&p.send);
	memory_close(&p.recv);
	return rc;
}
