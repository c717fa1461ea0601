/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What registering memory costs beside using it: for each size, registering a buffer, exchanging it
 * with one other rank, and deregistering it. Every round uses fresh memory, as a job without a
 * cache would see it.
 */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS   11
#define ROWS_MAX 32
#define FIRST    4096

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

static double us_since(int64_t start)
{
	return (double)(tp_now_ns() - start) / 1e3;
}

/* Tags of messages outside of collectives. */
static uint64_t tag_of(int from)
{
	return UINT64_C(0xffff) << 48 | (uint64_t)(uint16_t)from << 32;
}

/* Half of the buffer goes out while the other half comes in. */
static int exchange(struct world *w, char *buf, size_t half, const struct tp_region *region)
{
	static struct tp_req reqs[2]; /* after a failure they stay under way */
	int peer = w->rank ^ 1;
	int rc;

	if (peer >= w->size)
		return 0;
	rc = tp_recv(w->tp, peer, tag_of(peer), buf + half, half, region, &reqs[0]);
	if (!rc)
		rc = tp_send(w->tp, peer, tag_of(w->rank), buf, half, region, &reqs[1]);
	for (int i = 0; i < 2 && !rc; i++)
		rc = tp_wait(w->tp, &reqs[i]);
	return rc;
}

struct round {
	double register_us, use_us, deregister_us;
};

/* One way to name memory to the network. */
struct naming {
	const char *name;
	struct coll_device *device; /* NULL: host memory */
	enum coll_interface interface;
};

static int run_round(struct world *w, const struct naming *naming, size_t bytes, struct round *out)
{
	struct perf_memory m;
	struct tp_range range = {.bytes = bytes, .dmabuf_fd = -1};
	struct tp_region *region;
	int64_t start;
	int rc = memory_open(&m, naming->device, bytes);

	if (rc) {
		memory_close(&m);
		return tp_fail(w->tp, rc, "no memory to register %zu bytes", bytes);
	}
	range.addr = m.at;
	start = tp_now_ns();
	rc = naming->device ? coll_register_device(w->comm, m.at, bytes, naming->interface, &region)
			    : tp_register(w->tp, &range, &region);
	out->register_us = us_since(start);
	if (!rc)
		rc = coll_barrier(w->comm);
	if (!rc) {
		start = tp_now_ns();
		rc = exchange(w, m.at, bytes / 2, region);
		out->use_us = us_since(start);
	}
	if (!rc)
		rc = coll_barrier(w->comm); /* the peer is done with this memory, too */
	if (!rc) {
		start = tp_now_ns();
		rc = tp_deregister(w->tp, region);
		out->deregister_us = us_since(start);
	}
	memory_close(&m);
	return rc;
}

static int run_row(struct world *w, const struct naming *naming, size_t bytes,
		   struct perf_registration *row)
{
	double reg[ROUNDS], use[ROUNDS], dereg[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct round r = {0};
		int rc = run_round(w, naming, bytes, &r);

		if (rc)
			return rc;
		reg[i] = r.register_us;
		use[i] = r.use_us;
		dereg[i] = r.deregister_us;
	}
	row->interface = naming->name;
	row->bytes = bytes;
	row->register_us = median(reg);
	row->use_us = median(use);
	row->deregister_us = median(dereg);
	return 0;
}

/* Whether all ranks can register that way; the first that cannot says why. */
static int can_name(struct world *w, const struct naming *naming, bool *can)
{
	int32_t mine = 0, *all = calloc((size_t)w->size, sizeof(*all));
	struct tp_region *region = NULL;
	struct perf_memory m;
	int rc = all ? 0 : -ENOMEM;

	*can = true;
	if (!rc && naming->device) {
		mine = memory_open(&m, naming->device, FIRST);
		if (!mine)
			mine = coll_register_device(w->comm, m.at, FIRST, naming->interface,
						    &region);
		if (!mine)
			tp_deregister(w->tp, region);
		memory_close(&m);
	}
	if (!rc)
		rc = world_allgather(w, &mine, sizeof(mine), all);
	for (int i = 0; i < w->size && !rc; i++)
		*can &= all[i] == 0;
	free(all);
	return rc;
}

int perf_registration_table(const struct perf_options *o, struct world *w, struct perf_output *out)
{
	struct naming ways[] = {
		{"host", NULL, COLL_INTERFACE_AUTO},
		{"cuda", w->device, COLL_INTERFACE_CUDA},
		{"dmabuf", w->device, COLL_INTERFACE_DMABUF},
	};
	size_t count = o->path == PERF_DIRECT ? 3 : 1;
	struct perf_registration rows[3 * ROWS_MAX];
	int n = 0, rc = 0;

	for (size_t i = 0; i < count && !rc; i++) {
		bool can;

		rc = can_name(w, &ways[i], &can);
		if (!rc && !can)
			output_note(out, "no registrations by", ways[i].name, tp_error(w->tp));
		for (size_t bytes = FIRST; n < 3 * ROWS_MAX && !rc && can; bytes *= 4) {
			if (bytes > FIRST && bytes > o->max_bytes)
				break;
			rc = run_row(w, &ways[i], bytes, &rows[n++]);
		}
	}
	if (!rc)
		output_registrations(out, rows, n, w);
	return rc;
}
