/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point to point: each even rank sends to the odd one after it, several messages under way at a time,
 * each through the same buffer. What the transport and the path do without a collective around them.
 */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <string.h>

#define UNDER_WAY 16

/* Messages longer than the transport takes go in pieces. */
struct flow {
	struct world *w;
	const struct tp_region *region;
	char *at;
	size_t bytes, piece;
	int peer;
	bool sends;
	struct tp_req reqs[UNDER_WAY];
	uint64_t posted;
};

static uint64_t tag_of(int from, uint64_t index)
{
	return UINT64_C(0xfffe) << 48 | (uint64_t)(uint16_t)from << 32 | (uint32_t)index;
}

static int post(struct flow *f, size_t offset, size_t bytes)
{
	struct tp_req *req = &f->reqs[f->posted % UNDER_WAY];
	int from = f->sends ? f->w->rank : f->peer, rc = 0;
	uint64_t tag = tag_of(from, f->posted);

	if (f->posted >= UNDER_WAY)
		rc = tp_wait(f->w->tp, req);
	f->posted++;
	if (rc)
		return rc;
	return f->sends ? tp_send(f->w->tp, f->peer, tag, f->at + offset, bytes, f->region, req)
			: tp_recv(f->w->tp, f->peer, tag, f->at + offset, bytes, f->region, req);
}

static int message(struct flow *f)
{
	int rc = 0;

	for (size_t done = 0; done < f->bytes && !rc; done += f->piece) {
		size_t left = f->bytes - done;

		rc = post(f, done, left < f->piece ? left : f->piece);
	}
	return rc;
}

static int drain(struct flow *f)
{
	uint64_t first = f->posted > UNDER_WAY ? f->posted - UNDER_WAY : 0;
	int rc = 0;

	for (uint64_t i = first; i < f->posted && !rc; i++)
		rc = tp_wait(f->w->tp, &f->reqs[i % UNDER_WAY]);
	return rc;
}

int perf_point_run(struct world *w, const struct perf_memory *m, const struct tp_region *region,
		   size_t bytes, int n)
{
	static struct flow f; /* after a failure its requests stay under way */
	int rc = 0;

	f = (struct flow){.w = w,
			  .region = region,
			  .at = m->at,
			  .bytes = bytes,
			  .piece = w->tp->max_msg_bytes,
			  .peer = w->rank ^ 1,
			  .sends = w->rank % 2 == 0};
	for (int i = 0; i < n && !rc && f.peer < w->size; i++)
		rc = message(&f);
	if (!rc && f.peer < w->size)
		rc = drain(&f);
	/* A device may still be moving what a provider calls complete: this waits for it. */
	if (!rc && f.peer < w->size && !f.sends && bytes)
		rc = memory_get(m, bytes - 1, 1);
	return rc ? rc : coll_barrier(w->comm); /* the receiver has everything, too */
}

int perf_point_register(struct world *w, const struct perf_memory *m, struct tp_region **region)
{
	struct tp_range range = {.addr = m->at, .bytes = m->bytes, .dmabuf_fd = -1};

	*region = NULL;
	if (w->tp->stages)
		return 0;
	if (m->device)
		return coll_register_device(w->comm, m->at, m->bytes, COLL_INTERFACE_AUTO, region);
	return tp_register(w->tp, &range, region);
}
