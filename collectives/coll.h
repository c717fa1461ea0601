/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference collectives: the public face of this folder.
 *
 * A communicator joins all ranks of a transport. Every rank calls the same collectives in the same
 * order with the same counts, types and operations; each call returns when this rank's buffers may
 * be used again. Buffers are host memory, or memory of the device that the configuration names (all
 * of them, on all ranks); send and receive buffers are equal (in place, as each function says) or do
 * not overlap. Counts are elements and may be 0. Results are the same bits on
 * all ranks and in every run with the same number of ranks, sizes and algorithm.
 *
 * Functions return 0 or a negative errno, with words in coll_error(); after a failure the
 * communicator can only be freed. A communicator belongs to one thread.
 */
#ifndef WAYLAY_COLLECTIVES_COLL_H
#define WAYLAY_COLLECTIVES_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/device.h"
#include "collectives/dtype.h"
#include "collectives/mr_cache.h"
#include "collectives/transport.h"

#define COLL_WINDOW_MAX 16

struct coll_comm;

enum coll_algorithm {
	COLL_AUTO,               /* by size and number of ranks */
	COLL_RING,               /* fewest bytes, pipelined: large buffers */
	COLL_RECURSIVE_DOUBLING, /* fewest steps: small buffers (all-reduce) */
	COLL_RABENSEIFNER,       /* halving, then doubling: between them (all-reduce) */
	COLL_DIRECT,             /* everybody to everybody: small buffers, few ranks */
	COLL_TREE,               /* binomial: small buffers (broadcast) */
	COLL_ALGORITHM_MAX
};

/* When buffers are registered with the network. */
enum coll_registering {
	COLL_REGISTER_ALWAYS, /* even where the provider needs none, so that its cost shows */
	COLL_REGISTER_NEEDED
};

/* How device memory is named to the network. */
enum coll_interface {
	COLL_INTERFACE_AUTO, /* what suits the provider first, then the other */
	COLL_INTERFACE_CUDA, /* by its address (FI_HMEM_CUDA) */
	COLL_INTERFACE_DMABUF,
	COLL_INTERFACE_MAX
};

struct coll_config {
	struct coll_device *device; /* that buffers are memory of, or NULL; stays the caller's */
	enum coll_interface interface;
	size_t chunk_bytes; /* of the pipeline; 0: what suits the transport */
	int window; /* chunks under way, 2 to COLL_WINDOW_MAX; 0: what suits the transport */
	enum coll_algorithm algorithm;
	enum coll_registering registering;
	size_t cache_entries; /* of the registration cache; 0: off */
	size_t cache_bytes;
	/* Called around each collective and its phases, for instance to make NVTX ranges; or
	 * NULL. */
	void (*range_push)(const char *name);
	void (*range_pop)(void);
};

struct coll_config coll_config_default(void);

/* The transport is connected, and stays the caller's. *out is NULL on failure; `error`
 * (TP_ERROR_BYTES) says why. */
int coll_comm_new(struct transport *tp, const struct coll_config *config, struct coll_comm **out,
		  char *error);
void coll_comm_free(struct coll_comm *comm);
const char *coll_error(const struct coll_comm *comm);
struct coll_device *coll_device_of(const struct coll_comm *comm);
void coll_cache_counters(struct coll_comm *comm, struct mr_cache_counters *out);
/* Memory that went away (or will): the cache must not use its registrations again. */
void coll_forget(struct coll_comm *comm, const void *addr, size_t bytes);

/* recv[i] = the reduction of all ranks' send[i]. In place: send == recv. */
int coll_all_reduce(struct coll_comm *comm, const void *send, void *recv, size_t count,
		    enum coll_type type, enum coll_op op);
/* Rank r gets the reduction of elements [r * count, (r + 1) * count) of all ranks' size * count.
 * In place: recv == send + rank * count. */
int coll_reduce_scatter(struct coll_comm *comm, const void *send, void *recv, size_t count,
			enum coll_type type, enum coll_op op);
/* Everybody gets the `count` elements of all ranks, in rank order. In place: send == recv + rank *
 * count. */
int coll_all_gather(struct coll_comm *comm, const void *send, void *recv, size_t count,
		    enum coll_type type);
/* Everybody gets root's `count` elements. In place: send == recv; send matters on root only. */
int coll_broadcast(struct coll_comm *comm, const void *send, void *recv, size_t count,
		   enum coll_type type, int root);
/* Block b of rank a's size * count elements becomes block a of rank b's. Not in place. */
int coll_all_to_all(struct coll_comm *comm, const void *send, void *recv, size_t count,
		    enum coll_type type);
/* Returns once all ranks have called it. */
int coll_barrier(struct coll_comm *comm);

/* Registers device memory outside of the cache, by what the configuration says; tp_deregister()
 * takes it back. */
int coll_register_device(struct coll_comm *comm, const void *addr, size_t bytes,
			 enum coll_interface interface, struct tp_region **out);
/* Time that large reductions (pieces of 32 KB or more) took so far. */
uint64_t coll_reduce_ns(const struct coll_comm *comm);

const char *coll_interface_name(enum coll_interface interface);
const char *coll_algorithm_name(enum coll_algorithm algorithm);
int coll_algorithm_parse(const char *name, enum coll_algorithm *out);

#endif
