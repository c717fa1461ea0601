/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast (a binomial tree for small data, a pipelined chain for large) and all-to-all. */
#include "collectives/comm.h"

#include <string.h>

#define TREE_BYTES (32u << 10)

/* --- broadcast ------------------------------------------------------------------------------ */

struct bcast {
	struct coll_comm *comm;
	char *data; /* root's send buffer, the others' receive buffer */
	size_t bytes;
	const struct tp_region *region;
	int place; /* distance from root */
	int root;
};

static int rank_at(const struct bcast *b, int place)
{
	return (b->root + place) % b->comm->size;
}

static int bcast_tree(struct bcast *b)
{
	struct coll_comm *comm = b->comm;
	int mask = 1, sends = 0, rc = 0;

	while (mask < comm->size && !(b->place & mask))
		mask *= 2;
	if (b->place) { /* mask is the lowest bit of place: the parent has it cleared */
		rc = comm_recv(comm, rank_at(b, b->place - mask), 0, b->data, b->bytes, b->region,
			       &comm->reqs[0]);
		if (!rc)
			rc = tp_wait(comm->tp, &comm->reqs[0]);
	}
	for (mask /= 2; mask && !rc; mask /= 2) {
		if (b->place + mask < comm->size)
			rc = comm_send(comm, rank_at(b, b->place + mask), 0, b->data, b->bytes,
				       b->region, &comm->reqs[sends++]);
	}
	return rc ? rc : comm_wait_all(comm, comm->reqs, sends);
}

static size_t chunk_at(const struct bcast *b, uint64_t index, char **at)
{
	size_t chunk = b->comm->config.chunk_bytes;
	size_t offset = (size_t)index * chunk;

	*at = b->data + offset;
	return b->bytes - offset < chunk ? b->bytes - offset : chunk;
}

static int chain_recv(struct bcast *b, uint64_t index)
{
	char *at;
	size_t bytes = chunk_at(b, index, &at);

	return comm_recv(b->comm, rank_at(b, b->place - 1), (uint32_t)index, at, bytes, b->region,
			 &b->comm->recvs[index % (uint64_t)b->comm->config.window]);
}

static int chain_send(struct bcast *b, uint64_t index)
{
	struct tp_req *req = &b->comm->sends[index % (uint64_t)b->comm->config.window];
	char *at;
	size_t bytes = chunk_at(b, index, &at);
	int rc = 0;

	if (index >= (uint64_t)b->comm->config.window) /* the request's last user */
		rc = tp_wait(b->comm->tp, req);
	return rc ? rc
		  : comm_send(b->comm, rank_at(b, b->place + 1), (uint32_t)index, at, bytes,
			      b->region, req);
}

/* Everybody passes each chunk on as it comes. */
static int bcast_chain(struct bcast *b)
{
	struct coll_comm *comm = b->comm;
	uint64_t total = (b->bytes + comm->config.chunk_bytes - 1) / comm->config.chunk_bytes;
	bool receives = b->place > 0, sends = b->place < comm->size - 1;
	uint64_t posted = 0, window = (uint64_t)comm->config.window;
	int rc = 0;

	for (uint64_t i = 0; i < total && !rc; i++) {
		for (; receives && posted < total && posted < i + window && !rc; posted++)
			rc = chain_recv(b, posted);
		if (!rc && receives)
			rc = tp_wait(comm->tp, &comm->recvs[i % window]);
		if (!rc && sends)
			rc = chain_send(b, i);
	}
	for (uint64_t i = total > window ? total - window : 0; sends && i < total && !rc; i++)
		rc = tp_wait(comm->tp, &comm->sends[i % window]);
	return rc;
}

static bool use_tree(const struct coll_comm *comm, size_t bytes)
{
	if (bytes > comm->tp->max_msg_bytes)
		return false;
	if (comm->config.algorithm == COLL_AUTO)
		return bytes <= TREE_BYTES;
	return comm->config.algorithm == COLL_TREE;
}

int coll_broadcast(struct coll_comm *comm, const void *send, void *recv, size_t count,
		   enum coll_type type, int root)
{
	struct bcast b = {.comm = comm,
			  .bytes = count * coll_type_bytes(type),
			  .root = root,
			  .place = (comm->rank - root + comm->size) % comm->size};
	struct coll_buffer buffer;
	int rc = 0;

	comm_begin(comm, "broadcast");
	/* The root sends from its send buffer, so its own copy waits for nobody. */
	b.data = comm->rank == root ? (char *)send : recv;
	if (comm->rank == root && send != recv && b.bytes)
		rc = comm_copy(comm, recv, send, b.bytes);
	if (rc || comm->size == 1 || !count)
		return comm_end(comm, rc);
	rc = comm_map(comm, b.data, b.bytes, &buffer);
	if (rc)
		return comm_end(comm, rc);
	b.region = buffer.region;
	rc = use_tree(comm, b.bytes) ? bcast_tree(&b) : bcast_chain(&b);
	comm_unmap(comm, &buffer);
	return comm_end(comm, rc);
}

/* --- all-to-all ----------------------------------------------------------------------------- */

/* The peers at distance d, piece by piece where a message cannot hold a block. */
static int exchange_at(struct coll_comm *comm, int d, const char *src, char *dst, size_t bytes,
		       const struct coll_buffer pair[2])
{
	int n = comm->size;
	int to = (comm->rank + d) % n, from = (comm->rank - d + n) % n;
	size_t max = comm->tp->max_msg_bytes;
	uint32_t index = 0;

	for (size_t done = 0; done < bytes; index++) {
		size_t piece = bytes - done < max ? bytes - done : max;
		int rc = comm_exchange(comm, to, src + (size_t)to * bytes + done, piece,
				       pair[0].region, from, dst + (size_t)from * bytes + done,
				       piece, pair[1].region, index);

		if (rc)
			return rc;
		done += piece;
	}
	return 0;
}

int coll_all_to_all(struct coll_comm *comm, const void *send, void *recv, size_t count,
		    enum coll_type type)
{
	size_t bytes = count * coll_type_bytes(type);
	size_t total = bytes * (size_t)comm->size;
	size_t own = (size_t)comm->rank * bytes;
	struct coll_buffer pair[2];
	int rc = 0;

	comm_begin(comm, "all-to-all");
	if (bytes)
		rc = comm_copy(comm, (char *)recv + own, (const char *)send + own, bytes);
	if (rc || comm->size == 1 || !count)
		return comm_end(comm, rc);
	rc = comm_map_pair(comm, send, total, recv, total, pair);
	if (rc)
		return comm_end(comm, rc);
	for (int d = 1; d < comm->size && !rc; d++)
		rc = exchange_at(comm, d, send, recv, bytes, pair);
	comm_unmap_pair(comm, pair);
	return comm_end(comm, rc);
}
