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
#include <sys/mman.h>

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

static int run_round(struct world *w, size_t bytes, struct round *out)
{
	char *buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct tp_range range = {.addr = buf, .bytes = bytes, .dmabuf_fd = -1};
	struct tp_region *region;
	int64_t start;
	int rc;

	if (buf == MAP_FAILED)
		return tp_fail(w->tp, -ENOMEM, "no memory to register %zu bytes", bytes);
	memset(buf, 1, bytes);
	start = tp_now_ns();
	rc = tp_register(w->tp, &range, &region);
	out->register_us = us_since(start);
	if (!rc)
		rc = coll_barrier(w->comm);
	if (!rc) {
		start = tp_now_ns();
		rc = exchange(w, buf, bytes / 2, region);
		out->use_us = us_since(start);
	}
	if (!rc)
		rc = coll_barrier(w->comm); /* the peer is done with this memory, too */
	if (!rc) {
		start = tp_now_ns();
		rc = tp_deregister(w->tp, region);
		out->deregister_us = us_since(start);
	}
	munmap(buf, bytes);
	return rc;
}

static int run_row(struct world *w, size_t bytes, struct perf_registration *row)
{
	double reg[ROUNDS], use[ROUNDS], dereg[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct round r = {0};
		int rc = run_round(w, bytes, &r);

		if (rc)
			return rc;
		reg[i] = r.register_us;
		use[i] = r.use_us;
		dereg[i] = r.deregister_us;
	}
	row->bytes = bytes;
	row->register_us = median(reg);
	row->use_us = median(use);
	row->deregister_us = median(dereg);
	return 0;
}

int perf_registration_table(const struct perf_options *o, struct world *w, struct perf_output *out)
{
	struct perf_registration rows[ROWS_MAX];
	int n = 0, rc = 0;

	for (size_t bytes = FIRST; n < ROWS_MAX && !rc; bytes *= 4) {
		if (n && bytes > o->max_bytes)
			break;
		rc = run_row(w, bytes, &rows[n++]);
	}
	if (!rc)
		output_registrations(out, rows, n, w);
	return rc;
}
