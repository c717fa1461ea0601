/* SPDX-License-Identifier: Apache-2.0 */
/* Reduce-scatter and all-gather: the pipelined ring for large blocks; for small ones everybody
 * sends to everybody at once, which takes one step. */
#include "collectives/comm.h"

#include <string.h>

/* Of all blocks together. */
#define DIRECT_BYTES (32u << 10)

static bool use_direct(const struct coll_comm *comm, size_t total_bytes)
{
	if (total_bytes > comm->scratch_bytes / 2 ||
	    total_bytes / (size_t)comm->size > comm->tp->max_msg_bytes ||
	    (comm->tp->max_receives && (unsigned)comm->size - 1 > comm->tp->max_receives))
		return false;
	if (comm->config.algorithm == COLL_AUTO)
		return total_bytes <= DIRECT_BYTES;
	return comm->config.algorithm == COLL_DIRECT;
}

/* --- reduce-scatter ------------------------------------------------------------------------- */

/* Reduces all ranks' parts in rank order. They lie in scratch memory by rank, but for this rank's
 * own. Partial results go to scratch too: dst may be `own`. */
static int reduce_parts(struct coll_comm *comm, char *dst, const char *own, size_t count,
			enum coll_type type, enum coll_op op)
{
	size_t bytes = count * coll_type_bytes(type);
	char *sum = comm->scratch + (size_t)comm->rank * bytes; /* nobody sends there */
	const char *left = comm->rank == 0 ? own : comm->scratch;

	for (int i = 1; i < comm->size; i++) {
		const char *right = i == comm->rank ? own : comm->scratch + (size_t)i * bytes;
		char *out = i == comm->size - 1 ? dst : sum;
		int rc = comm_reduce(comm, out, left, right, count, type, op);

		if (rc)
			return rc;
		left = out;
	}
	return op == COLL_AVG ? comm_average(comm, dst, count, type) : 0;
}

static int reduce_scatter_direct(struct coll_comm *comm, const char *src, char *dst,
				 const struct tp_region *src_region, size_t count,
				 enum coll_type type, enum coll_op op)
{
	size_t bytes = count * coll_type_bytes(type);
	int n = comm->size, rc = 0;

	for (int d = 1; d < n && !rc; d++) {
		int from = (comm->rank - d + n) % n;

		rc = comm_recv(comm, from, 0, comm->scratch + (size_t)from * bytes, bytes,
			       comm->scratch_region, &comm->reqs[2 * (d - 1)]);
	}
	for (int d = 1; d < n && !rc; d++) {
		int to = (comm->rank + d) % n;

		rc = comm_send(comm, to, 0, src + (size_t)to * bytes, bytes, src_region,
			       &comm->reqs[2 * (d - 1) + 1]);
	}
	if (!rc)
		rc = comm_wait_all(comm, comm->reqs, 2 * (n - 1));
	if (!rc)
		rc = reduce_parts(comm, dst, src + (size_t)comm->rank * bytes, count, type, op);
	return rc;
}

static int reduce_scatter_ring(struct coll_comm *comm, const char *src, char *dst,
			       const struct coll_buffer pair[2], size_t bytes, enum coll_type type,
			       enum coll_op op)
{
	struct ring_layout layout = {
		.src = src,
		.dst = dst,
		.dst_one_block = true,
		.src_region = pair[0].region,
		.dst_region = pair[1].region,
		.block_bytes = bytes,
		.total_bytes = bytes * (size_t)comm->size,
		.shift = -1, /* so that the last step ends at this rank's own block */
		.steps = comm->size - 1,
		.reduce_steps = comm->size - 1,
		.type = type,
		.op = op,
	};

	return ring_run(comm, &layout);
}

int coll_reduce_scatter(struct coll_comm *comm, const void *send, void *recv, size_t count,
			enum coll_type type, enum coll_op op)
{
	size_t bytes = count * coll_type_bytes(type);
	size_t total = bytes * (size_t)comm->size;
	struct coll_buffer pair[2];
	int rc = 0;

	comm_begin(comm, "reduce-scatter");
	if (comm->size == 1 || !count) {
		if (send != recv && bytes)
			rc = comm_copy(comm, recv, send, bytes);
		return comm_end(comm, rc);
	}
	rc = comm_map_pair(comm, send, total, recv, bytes, pair);
	if (rc)
		return comm_end(comm, rc);
	if (use_direct(comm, total))
		rc = reduce_scatter_direct(comm, send, recv, pair[0].region, count, type, op);
	else
		rc = reduce_scatter_ring(comm, send, recv, pair, bytes, type, op);
	comm_unmap_pair(comm, pair);
	return comm_end(comm, rc);
}

/* --- all-gather ----------------------------------------------------------------------------- */

static int all_gather_direct(struct coll_comm *comm, const char *src, char *dst,
			     const struct coll_buffer pair[2], size_t bytes)
{
	char *own = dst + (size_t)comm->rank * bytes;
	int n = comm->size, rc = 0;

	for (int d = 1; d < n && !rc; d++) {
		int from = (comm->rank - d + n) % n;

		rc = comm_recv(comm, from, 0, dst + (size_t)from * bytes, bytes, pair[1].region,
			       &comm->reqs[2 * (d - 1)]);
	}
	for (int d = 1; d < n && !rc; d++) {
		int to = (comm->rank + d) % n;

		rc = comm_send(comm, to, 0, src, bytes, pair[0].region,
			       &comm->reqs[2 * (d - 1) + 1]);
	}
	if (!rc && own != src)
		rc = comm_copy(comm, own, src, bytes);
	return rc ? rc : comm_wait_all(comm, comm->reqs, 2 * (n - 1));
}

static int all_gather_ring(struct coll_comm *comm, const char *src, char *dst,
			   const struct coll_buffer pair[2], size_t bytes, enum coll_type type)
{
	char *own = dst + (size_t)comm->rank * bytes;
	struct ring_layout layout = {
		.src = dst,
		.dst = dst,
		.first = src,
		.src_region = pair[1].region,
		.dst_region = pair[1].region,
		.first_region = pair[0].region,
		.block_bytes = bytes,
		.total_bytes = bytes * (size_t)comm->size,
		.steps = comm->size - 1,
		.type = type,
	};

	if (own != src) {
		layout.copy_to = own;
		layout.copy_from = src;
		layout.copy_bytes = bytes;
	}
	return ring_run(comm, &layout);
}

int coll_all_gather(struct coll_comm *comm, const void *send, void *recv, size_t count,
		    enum coll_type type)
{
	size_t bytes = count * coll_type_bytes(type);
	size_t total = bytes * (size_t)comm->size;
	struct coll_buffer pair[2];
	int rc = 0;

	comm_begin(comm, "all-gather");
	if (comm->size == 1 || !count) {
		if (send != recv && bytes)
			rc = comm_copy(comm, recv, send, bytes);
		return comm_end(comm, rc);
	}
	rc = comm_map_pair(comm, send, bytes, recv, total, pair);
	if (rc)
		return comm_end(comm, rc);
	if (use_direct(comm, total))
		rc = all_gather_direct(comm, send, recv, pair, bytes);
	else
		rc = all_gather_ring(comm, send, recv, pair, bytes, type);
	comm_unmap_pair(comm, pair);
	return comm_end(comm, rc);
}
