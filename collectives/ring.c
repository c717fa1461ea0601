/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipelined ring behind all-reduce, reduce-scatter and all-gather (see struct ring_layout).
 *
 * Blocks are cut into chunks. The work is one long sequence of items, each one chunk of one step:
 * `width` chunks of step 0, as many of step 1, and so on to the last step, then the next chunks of
 * all blocks (a round). Item i of a later step is sent once item i - width has arrived. Receives
 * are posted ahead, up to `window`, across steps and rounds, so the pipeline never drains.
 *
 * A chunk to be reduced arrives in scratch slot i % window. Unless it is then complete, the sum
 * stays there and is sent on from there: it never goes through main memory. The slot is free again
 * when that send (item i + width) is done. Since width is at most half a window, the rank that is
 * furthest behind can always go on: no deadlock, whatever the sizes.
 */
#include "collectives/comm.h"

#include <errno.h>
#include <string.h>

#define GATHER_CHUNK (16u << 20)

struct cursor {
	uint64_t index;
	uint32_t round;
	int step, chunk;
};

struct ring {
	struct coll_comm *comm;
	const struct ring_layout *l;
	size_t chunk_bytes;
	uint32_t window;              /* receives and sends under way */
	uint32_t width;               /* chunks of a step in a round */
	uint64_t total;               /* items */
	struct cursor posted;         /* receives posted */
	struct cursor consumed;       /* receives taken in, in order */
	struct cursor sent;           /* sends posted */
	uint64_t sends_done;          /* in order */
	struct tp_req *recvs, *sends; /* COLL_WINDOW each, by index */
	bool in_place;
	int phase; /* 0: none, 1: reducing, 2: gathering */
};

static void advance(const struct ring *r, struct cursor *c)
{
	c->index++;
	if (++c->chunk < (int)r->width)
		return;
	c->chunk = 0;
	if (++c->step < r->l->steps)
		return;
	c->step = 0;
	c->round++;
}

/* Where a chunk lies within its buffer of blocks; 0 bytes when the block ends before it. */
struct piece {
	size_t offset, bytes;
	size_t within; /* its block */
};

static struct piece piece_of(const struct ring *r, const struct cursor *c, int block)
{
	const struct ring_layout *l = r->l;
	size_t within = ((size_t)c->round * r->width + (size_t)c->chunk) * r->chunk_bytes;
	struct piece p = {.offset = (size_t)block * l->block_bytes + within, .within = within};

	if (within < l->block_bytes && p.offset < l->total_bytes) {
		size_t left = l->total_bytes - p.offset;

		p.bytes = l->block_bytes - within;
		if (p.bytes > left)
			p.bytes = left;
		if (p.bytes > r->chunk_bytes)
			p.bytes = r->chunk_bytes;
	}
	return p;
}

static int block_at(const struct ring *r, int step)
{
	int n = r->comm->size;

	return ((r->comm->rank + r->l->shift - step) % n + n) % n;
}

static char *slot_of(const struct ring *r, uint64_t index)
{
	return r->comm->scratch + (size_t)(index % r->window) * r->chunk_bytes;
}

static char *result_of(const struct ring *r, const struct piece *p)
{
	return r->l->dst + (r->l->dst_one_block ? p->within : p->offset);
}

/* --- receiving ------------------------------------------------------------------------------ */

static bool may_post_recv(const struct ring *r)
{
	const struct cursor *c = &r->posted;
	const struct ring_layout *l = r->l;

	if (c->index >= r->total || c->index - r->consumed.index >= r->window)
		return false;
	if (c->step < l->reduce_steps) {
		/* The slot's last user: item c->index - window. If that was not a final sum, it
		 * was sent on from the slot as a later item. */
		return l->reduce_steps == 1 || c->index < r->window ||
		       r->sends_done > c->index - r->window + r->width;
	}
	/* In place, the chunk to be overwritten is the one sent reduce_steps ago. Its content has
	 * come back reduced, so it has arrived, but the buffer is free only when the send is
	 * done. */
	return !r->in_place || !l->reduce_steps ||
	       r->sends_done > c->index - (uint64_t)l->reduce_steps * r->width;
}

static int post_recvs(struct ring *r)
{
	const struct ring_layout *l = r->l;
	int left = (r->comm->rank + r->comm->size - 1) % r->comm->size;

	while (may_post_recv(r)) {
		struct cursor *c = &r->posted;
		struct piece p = piece_of(r, c, block_at(r, c->step + 1));
		struct tp_req *req = &r->recvs[c->index % r->window];
		bool reduce = c->step < l->reduce_steps;
		int rc = 0;

		if (!p.bytes)
			req->state = TP_DONE;
		else
			rc = comm_recv(r->comm, left, (uint32_t)c->index,
				       reduce ? slot_of(r, c->index) : result_of(r, &p), p.bytes,
				       reduce ? r->comm->scratch_region : l->dst_region, req);
		if (rc)
			return rc;
		advance(r, c);
	}
	return 0;
}

static void show_phase(struct ring *r, int phase)
{
	if (r->phase == phase)
		return;
	if (r->phase)
		comm_phase_end(r->comm);
	r->phase = phase;
	if (phase)
		comm_phase(r->comm, phase == 1 ? "reduce-scatter" : "all-gather");
}

static int reduce_piece(const struct ring *r, const struct cursor *c, const struct piece *p)
{
	const struct ring_layout *l = r->l;
	size_t count = p->bytes / coll_type_bytes(l->type);
	char *slot = slot_of(r, c->index);
	bool final = c->step == l->reduce_steps - 1;
	char *out = final ? result_of(r, p) : slot;

	int rc = comm_reduce(r->comm, out, slot, l->src + p->offset, count, l->type, l->op);

	if (!rc && final && l->op == COLL_AVG)
		rc = comm_average(r->comm, out, count, l->type);
	return rc;
}

static int consume_recvs(struct ring *r)
{
	const struct ring_layout *l = r->l;

	while (r->consumed.index < r->posted.index) {
		struct cursor *c = &r->consumed;
		struct tp_req *req = &r->recvs[c->index % r->window];
		struct piece p;

		if (req->state == TP_FAILED)
			return tp_wait(r->comm->tp, req);
		if (req->state != TP_DONE)
			return 0;
		p = piece_of(r, c, block_at(r, c->step + 1));
		/* Only an all-reduce has two phases to tell apart. */
		if (l->reduce_steps && l->steps > l->reduce_steps)
			show_phase(r, c->step < l->reduce_steps ? 1 : 2);
		if (c->step < l->reduce_steps && p.bytes) {
			int rc = reduce_piece(r, c, &p);

			if (rc)
				return rc;
		}
		advance(r, c);
	}
	return 0;
}

/* --- sending -------------------------------------------------------------------------------- */

static bool may_send(const struct ring *r)
{
	const struct cursor *c = &r->sent;

	if (c->index >= r->total || c->index - r->sends_done >= r->window)
		return false;
	return !c->step || r->consumed.index > c->index - r->width;
}

static int post_sends(struct ring *r)
{
	const struct ring_layout *l = r->l;
	int right = (r->comm->rank + 1) % r->comm->size;

	while (may_send(r)) {
		struct cursor *c = &r->sent;
		struct piece p = piece_of(r, c, block_at(r, c->step));
		struct tp_req *req = &r->sends[c->index % r->window];
		const struct tp_region *region = l->dst_region;
		const char *from;
		int rc = 0;

		if (!c->step) {
			from = l->first ? l->first + p.within : l->src + p.offset;
			region = l->first ? l->first_region : l->src_region;
		} else if (c->step < l->reduce_steps) {
			from = slot_of(r, c->index - r->width);
			region = r->comm->scratch_region;
		} else {
			from = result_of(r, &p);
		}
		if (!p.bytes)
			req->state = TP_DONE;
		else
			rc = comm_send(r->comm, right, (uint32_t)c->index, from, p.bytes, region,
				       req);
		if (rc)
			return rc;
		advance(r, c);
	}
	return 0;
}

static int retire_sends(struct ring *r)
{
	while (r->sends_done < r->sent.index) {
		struct tp_req *req = &r->sends[r->sends_done % r->window];

		if (req->state == TP_FAILED)
			return tp_wait(r->comm->tp, req);
		if (req->state != TP_DONE)
			return 0;
		r->sends_done++;
	}
	return 0;
}

/* --- both ----------------------------------------------------------------------------------- */

static int turn(struct ring *r)
{
	int rc = post_recvs(r);

	if (!rc)
		rc = post_sends(r);
	if (!rc)
		rc = tp_progress(r->comm->tp);
	if (!rc)
		rc = consume_recvs(r);
	return rc ? rc : retire_sends(r);
}

/* How the blocks are cut. Without a reduction nothing has to fit into scratch memory or a cache,
 * and every message costs. */
static void ring_cut(struct ring *r)
{
	const struct ring_layout *l = r->l;
	const struct coll_comm *comm = r->comm;
	uint64_t chunks, rounds;

	r->window = (uint32_t)comm->config.window;
	r->chunk_bytes = comm->config.chunk_bytes;
	if (!l->reduce_steps && !comm->tp->stages && r->chunk_bytes < GATHER_CHUNK)
		r->chunk_bytes =
			GATHER_CHUNK < comm->tp->max_msg_bytes ? GATHER_CHUNK : r->chunk_bytes;
	chunks = (l->block_bytes + r->chunk_bytes - 1) / r->chunk_bytes;
	r->width = chunks < r->window / 2 ? (uint32_t)chunks : r->window / 2;
	rounds = r->width ? (chunks + r->width - 1) / r->width : 0;
	r->total = rounds * (uint64_t)l->steps * r->width;
}

int ring_run(struct coll_comm *comm, const struct ring_layout *l)
{
	struct ring r = {.comm = comm, .l = l, .recvs = comm->recvs, .sends = comm->sends};
	int rc;

	ring_cut(&r);
	r.in_place = l->dst == l->src;
	if (r.total > UINT32_MAX)
		return tp_fail(comm->tp, -EMSGSIZE, "%zu bytes are too many: use larger chunks",
			       l->total_bytes);
	rc = r.total ? turn(&r) : 0;
	if (!rc && l->copy_bytes)
		rc = comm_copy(comm, l->copy_to, l->copy_from, l->copy_bytes);
	while (!rc && (r.consumed.index < r.total || r.sends_done < r.total))
		rc = turn(&r);
	show_phase(&r, 0);
	return rc;
}
