/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce: ring, recursive doubling, Rabenseifner's halving and doubling, and which to take. */
#include "collectives/comm.h"

#include <errno.h>
#include <string.h>

#define LINE_BYTES 64
#define PAGE_BYTES 4096

/* One all-reduce under way. */
struct task {
	struct coll_comm *comm;
	const char *src;
	char *dst;
	size_t count, esize;
	enum coll_type type;
	enum coll_op op;
	const struct tp_region *src_region, *dst_region;
	/* Ranks of the power of two that the doubling algorithms need: the others hand their data
	 * to a neighbour before and get the result after. */
	int power, extra; /* power + extra ranks in all */
	int part;         /* this rank's number among `power`, or -1 */
	/* What this rank has so far: src until something was added to it, then dst. */
	const char *current;
	const struct tp_region *current_region;
	uint32_t index;
};

static void task_advance(struct task *t)
{
	t->current = t->dst;
	t->current_region = t->dst_region;
}

/* Reduces in the order of the ranks, so that both sides of an exchange compute the same bits. */
static int task_reduce(struct task *t, size_t first, size_t count, const char *other,
		       bool other_is_lower)
{
	const char *mine = t->current + first * t->esize;

	return comm_reduce(t->comm, t->dst + first * t->esize, other_is_lower ? other : mine,
			   other_is_lower ? mine : other, count, t->type, t->op);
}

static void task_split(struct task *t)
{
	int n = t->comm->size, rank = t->comm->rank;

	t->power = 1;
	while (t->power * 2 <= n)
		t->power *= 2;
	t->extra = n - t->power;
	if (rank >= 2 * t->extra)
		t->part = rank - t->extra;
	else
		t->part = rank % 2 ? rank / 2 : -1;
}

static int task_rank(const struct task *t, int part)
{
	return part < t->extra ? part * 2 + 1 : part + t->extra;
}

/* Of the first 2 * extra ranks, the even ones give their data to the odd ones. Large data goes
 * through scratch memory piece by piece. */
static int fold_in(struct task *t)
{
	struct coll_comm *comm = t->comm;
	size_t step = comm->scratch_bytes / t->esize;
	int rank = comm->rank;

	if (rank >= 2 * t->extra)
		return 0;
	for (size_t first = 0; first < t->count; first += step, t->index++) {
		size_t n = t->count - first < step ? t->count - first : step;
		int rc;

		if (rank % 2 == 0)
			rc = comm_send(comm, rank + 1, t->index, t->src + first * t->esize,
				       n * t->esize, t->src_region, &comm->reqs[0]);
		else
			rc = comm_recv(comm, rank - 1, t->index, comm->scratch, n * t->esize,
				       comm->scratch_region, &comm->reqs[0]);
		if (!rc)
			rc = tp_wait(comm->tp, &comm->reqs[0]);
		if (!rc && rank % 2)
			rc = task_reduce(t, first, n, comm->scratch, true);
		if (rc)
			return rc;
	}
	if (rank % 2)
		task_advance(t);
	return 0;
}

static int fold_out(struct task *t)
{
	struct coll_comm *comm = t->comm;
	int rank = comm->rank, rc;
	/* Beyond any index that the ranks with more steps have used. */
	uint32_t index = UINT32_MAX;

	if (rank >= 2 * t->extra)
		return 0;
	if (rank % 2)
		rc = comm_send(comm, rank - 1, index, t->dst, t->count * t->esize, t->dst_region,
			       &comm->reqs[0]);
	else
		rc = comm_recv(comm, rank + 1, index, t->dst, t->count * t->esize, t->dst_region,
			       &comm->reqs[0]);
	return rc ? rc : tp_wait(comm->tp, &comm->reqs[0]);
}

/* --- recursive doubling --------------------------------------------------------------------- */

static int doubling(struct task *t)
{
	struct coll_comm *comm = t->comm;
	size_t bytes = t->count * t->esize;

	for (int mask = 1; mask < t->power; mask *= 2) {
		int partner = task_rank(t, t->part ^ mask);
		int rc = comm_exchange(comm, partner, t->current, bytes, t->current_region, partner,
				       comm->scratch, bytes, comm->scratch_region,
				       (uint32_t)mask | 1u << 31);

		if (!rc)
			rc = task_reduce(t, 0, t->count, comm->scratch, t->part & mask);
		if (rc)
			return rc;
		task_advance(t);
	}
	return 0;
}

/* --- Rabenseifner --------------------------------------------------------------------------- */

/* The part of the data that `part` holds once the halving went down to blocks of `width` ranks. */
static void range_of(const struct task *t, int part, int width, size_t *first, size_t *count)
{
	size_t line = LINE_BYTES / t->esize;
	size_t per = (t->count + (size_t)t->power - 1) / (size_t)t->power;
	size_t begin, end;

	per = (per + line - 1) / line * line;
	begin = (size_t)(part / width * width) * per;
	end = begin + (size_t)width * per;
	if (begin > t->count)
		begin = t->count;
	if (end > t->count)
		end = t->count;
	*first = begin;
	*count = end - begin;
}

static int halving(struct task *t)
{
	struct coll_comm *comm = t->comm;

	for (int width = t->power / 2; width >= 1; width /= 2) {
		int other = t->part ^ width;
		int partner = task_rank(t, other);
		size_t keep, keep_count, give, give_count;
		int rc;

		range_of(t, t->part, width, &keep, &keep_count);
		range_of(t, other, width, &give, &give_count);
		rc = comm_exchange(comm, partner, t->current + give * t->esize,
				   give_count * t->esize, t->current_region, partner, comm->scratch,
				   keep_count * t->esize, comm->scratch_region,
				   (uint32_t)width | 1u << 31);
		if (!rc)
			rc = task_reduce(t, keep, keep_count, comm->scratch, other < t->part);
		if (rc)
			return rc;
		task_advance(t);
	}
	return 0;
}

static int gathering(struct task *t)
{
	struct coll_comm *comm = t->comm;

	for (int width = 1; width < t->power; width *= 2) {
		int other = t->part ^ width;
		int partner = task_rank(t, other);
		size_t have, have_count, want, want_count;
		int rc;

		range_of(t, t->part, width, &have, &have_count);
		range_of(t, other, width, &want, &want_count);
		rc = comm_exchange(comm, partner, t->dst + have * t->esize, have_count * t->esize,
				   t->dst_region, partner, t->dst + want * t->esize,
				   want_count * t->esize, t->dst_region,
				   (uint32_t)width | 3u << 30);
		if (rc)
			return rc;
	}
	return 0;
}

static int average_own(struct task *t)
{
	size_t first, count;

	if (t->op != COLL_AVG)
		return 0;
	range_of(t, t->part, 1, &first, &count);
	return comm_average(t->comm, t->dst + first * t->esize, count, t->type);
}

static int run_folded(struct task *t, bool rabenseifner)
{
	struct coll_comm *comm = t->comm;
	int rc;

	task_split(t);
	comm_phase(comm, "reduce-scatter");
	rc = fold_in(t);
	if (!rc && t->part >= 0)
		rc = rabenseifner ? halving(t) : doubling(t);
	comm_phase_end(comm);
	if (rc)
		return rc;
	comm_phase(comm, "all-gather");
	if (t->part >= 0 && rabenseifner) {
		rc = average_own(t);
		if (!rc)
			rc = gathering(t);
	} else if (t->part >= 0 && t->op == COLL_AVG) {
		rc = comm_average(comm, t->dst, t->count, t->type);
	}
	if (!rc)
		rc = fold_out(t);
	comm_phase_end(comm);
	return rc;
}

/* --- ring ----------------------------------------------------------------------------------- */

/* Blocks begin at pages where they are large (the kernel copies whole pages faster), at cache
 * lines elsewhere. */
static size_t block_size(size_t bytes, int ranks)
{
	size_t per = (bytes + (size_t)ranks - 1) / (size_t)ranks;
	size_t align = per >= 16 * PAGE_BYTES ? PAGE_BYTES : LINE_BYTES;

	return (per + align - 1) / align * align;
}

static int run_ring(struct task *t)
{
	int n = t->comm->size;
	struct ring_layout layout = {
		.src = t->src,
		.dst = t->dst,
		.src_region = t->src_region,
		.dst_region = t->dst_region,
		.total_bytes = t->count * t->esize,
		.block_bytes = block_size(t->count * t->esize, n),
		.steps = 2 * (n - 1),
		.reduce_steps = n - 1,
		.type = t->type,
		.op = t->op,
	};

	return ring_run(t->comm, &layout);
}

/* --- choice --------------------------------------------------------------------------------- */

/* Up to here the fewest steps win; measured over shm and tcp on one host. Two ranks have one step
 * instead of the ring's two; more ranks have more data to move in each. */
#define DOUBLING_BYTES_PAIR (256u << 10)
#define DOUBLING_BYTES      (16u << 10)
#define RABENSEIFNER_BYTES  (256u << 10)

static enum coll_algorithm choose(const struct coll_comm *comm, size_t bytes)
{
	enum coll_algorithm a = comm->config.algorithm;

	if (a == COLL_AUTO) {
		/* Between devices a step costs far more than its bytes, and two ranks have as many
		 * bytes to move either way. */
		if (comm_direct(comm) && comm->size == 2)
			a = COLL_RECURSIVE_DOUBLING;
		else if (bytes <= (comm->size == 2 ? DOUBLING_BYTES_PAIR : DOUBLING_BYTES))
			a = COLL_RECURSIVE_DOUBLING;
		else if (bytes <= RABENSEIFNER_BYTES && comm->size > 2)
			a = COLL_RABENSEIFNER;
		else
			a = COLL_RING;
	}
	/* What an exchange brings must fit into scratch memory, and into one message. */
	if (a == COLL_RECURSIVE_DOUBLING &&
	    (bytes > comm->scratch_bytes || bytes > comm->tp->max_msg_bytes))
		a = COLL_RING;
	if (a == COLL_RABENSEIFNER &&
	    (bytes / 2 + LINE_BYTES * (size_t)comm->size > comm->scratch_bytes ||
	     bytes > comm->tp->max_msg_bytes))
		a = COLL_RING;
	return a == COLL_RECURSIVE_DOUBLING || a == COLL_RABENSEIFNER ? a : COLL_RING;
}

static int run(struct task *t)
{
	size_t bytes = t->count * t->esize;

	switch (choose(t->comm, bytes)) {
	case COLL_RECURSIVE_DOUBLING:
		return run_folded(t, false);
	case COLL_RABENSEIFNER:
		return run_folded(t, true);
	default:
		return run_ring(t);
	}
}

int coll_all_reduce(struct coll_comm *comm, const void *send, void *recv, size_t count,
		    enum coll_type type, enum coll_op op)
{
	struct task t = {.comm = comm,
			 .src = send,
			 .dst = recv,
			 .count = count,
			 .esize = coll_type_bytes(type),
			 .type = type,
			 .op = op};
	size_t bytes = count * t.esize;
	struct coll_buffer pair[2];
	int rc = 0;

	comm_begin(comm, "allreduce");
	if (comm->size == 1 || !count) {
		if (send != recv && bytes)
			rc = comm_copy(comm, recv, send, bytes);
		return comm_end(comm, rc);
	}
	rc = comm_map_pair(comm, send, bytes, recv, bytes, pair);
	if (rc)
		return comm_end(comm, rc);
	t.src_region = t.current_region = pair[0].region;
	t.dst_region = pair[1].region;
	t.current = t.src;
	rc = run(&t);
	comm_unmap_pair(comm, pair);
	return comm_end(comm, rc);
}
