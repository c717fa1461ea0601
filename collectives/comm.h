/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator from within: what the algorithms share. */
#ifndef WAYLAY_COLLECTIVES_COMM_H
#define WAYLAY_COLLECTIVES_COMM_H

#include "collectives/coll.h"

struct coll_comm {
	struct transport *tp;
	struct coll_config config;
	int rank, size;
	uint16_t seq; /* of the collective, part of every tag */
	uint64_t reduce_ns;
	struct mr_cache *cache;
	char *scratch; /* a window of chunks, where the buffers are; never allocated in a call */
	size_t scratch_bytes;
	struct tp_region *scratch_region;
	char *token; /* two bytes of host memory, for messages that only say something */
	size_t token_bytes;
	struct tp_region *token_region;
	/* Requests live here, not on a stack: after a failure some stay under way. */
	struct tp_req *reqs; /* for algorithms that talk to all ranks at once: 2 * size */
	struct tp_req recvs[COLL_WINDOW_MAX], sends[COLL_WINDOW_MAX]; /* of a pipeline */
};

/* A user's buffer during one call. */
struct coll_buffer {
	const struct tp_region *region;
	struct mr_entry *entry;
};

/* Start and end of a collective: its tags, its range. */
void comm_begin(struct coll_comm *comm, const char *name);
int comm_end(struct coll_comm *comm, int rc);
void comm_phase(struct coll_comm *comm, const char *name);
void comm_phase_end(struct coll_comm *comm);

/* The tag of message `index` of this collective from rank `from`. */
static inline uint64_t comm_tag(const struct coll_comm *comm, int from, uint32_t index)
{
	return (uint64_t)comm->seq << 48 | (uint64_t)(uint16_t)from << 32 | index;
}

/* Registers a buffer, or finds its registration. Nothing for 0 bytes. */
int comm_map(struct coll_comm *comm, const void *addr, size_t bytes, struct coll_buffer *out);
void comm_unmap(struct coll_comm *comm, struct coll_buffer *buffer);
/* Maps a pair; when one lies within the other, both share its registration. */
int comm_map_pair(struct coll_comm *comm, const void *send, size_t send_bytes, const void *recv,
		  size_t recv_bytes, struct coll_buffer out[2]);
void comm_unmap_pair(struct coll_comm *comm, struct coll_buffer pair[2]);

/* Work on the memory that the buffers are in, done when these return. 0 or a negative errno. */
int comm_copy(struct coll_comm *comm, void *to, const void *from, size_t bytes);
int comm_reduce(struct coll_comm *comm, void *out, const void *a, const void *b, size_t count,
		enum coll_type type, enum coll_op op);
int comm_average(struct coll_comm *comm, void *data, size_t count, enum coll_type type);
/* Whether device memory is what the network gets. */
static inline bool comm_direct(const struct coll_comm *comm)
{
	return comm->config.device && !comm->tp->stages;
}

/* For the registration cache (register.c). */
int comm_cache_reg(void *ctx, uint64_t addr, size_t bytes, uint64_t space, void **handle);
void comm_cache_dereg(void *ctx, void *handle);
/* What tells the memory at an address from other memory that was there before. */
int comm_space(struct coll_comm *comm, const void *addr, uint64_t *space);

/* One message of this collective. */
int comm_send(struct coll_comm *comm, int peer, uint32_t index, const void *buf, size_t bytes,
	      const struct tp_region *region, struct tp_req *req);
int comm_recv(struct coll_comm *comm, int peer, uint32_t index, void *buf, size_t bytes,
	      const struct tp_region *region, struct tp_req *req);
/* Waits for `n` requests that were all started (TP_IDLE ones are skipped). */
int comm_wait_all(struct coll_comm *comm, struct tp_req *reqs, int n);
/* Sends to one peer and receives from another (or the same), and waits for both. */
int comm_exchange(struct coll_comm *comm, int to, const void *out, size_t out_bytes,
		  const struct tp_region *out_region, int from, void *in, size_t in_bytes,
		  const struct tp_region *in_region, uint32_t index);

/*
 * A pipelined ring; see ring.c. In step s a rank sends block (rank + shift - s) to its right and
 * receives block (rank + shift - s - 1) from its left. The first reduce_steps receives are reduced
 * with this rank's `src` and, in the last of them, stored to `dst`; later ones go to dst as they
 * are.
 */
struct ring_layout {
	const char *src; /* block b is at b * block_bytes */
	char *dst;
	bool dst_one_block; /* dst has room for this rank's result only (reduce-scatter) */
	const struct tp_region *src_region, *dst_region;
	const char *first; /* what step 0 sends: its block, where src does not hold it */
	const struct tp_region *first_region;
	size_t block_bytes; /* of every block but the last ones, which may be shorter or empty */
	size_t total_bytes;
	int shift, steps, reduce_steps;
	enum coll_type type;
	enum coll_op op;
	/* Copied while the first messages are under way: the rank's own part. */
	void *copy_to;
	const void *copy_from;
	size_t copy_bytes;
};

int ring_run(struct coll_comm *comm, const struct ring_layout *layout);

#endif
