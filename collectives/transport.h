/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thin layer between collectives and a network: a dozen calls.
 *
 * Collectives know only this header. A back end fills in `struct tp_ops` and is one file:
 * transport_ofi.c talks to libfabric, which it opens at run time; transport_loop.c joins threads of
 * one process. Every rank opens an endpoint, the ranks exchange addresses by a way of their own
 * (see rendezvous.h), and then exchange tagged messages: a receive takes the message from that peer
 * whose tag is equal. There may be at most one outstanding message per (peer, tag), so no order
 * between messages is needed.
 *
 * A transport belongs to one thread. Calls that move data never block: they return at once, and
 * tp_progress() moves everything. Functions return 0 or a negative errno; tp_error() then says in
 * words what failed.
 */
#ifndef WAYLAY_COLLECTIVES_TRANSPORT_H
#define WAYLAY_COLLECTIVES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TP_ERROR_BYTES   384
#define TP_ADDRESS_BYTES 256 /* no provider's address is longer */

enum tp_memory { TP_MEMORY_HOST, TP_MEMORY_CUDA, TP_MEMORY_MAX };

/* A range of memory to register. `dmabuf_fd` is -1 unless the range is given as a DMA-BUF, which it
 * then lies `dmabuf_offset` bytes into. */
struct tp_range {
	void *addr;
	size_t bytes;
	enum tp_memory memory;
	int device;
	int dmabuf_fd;
	uint64_t dmabuf_offset;
};

/* Registered memory; made and freed by the back end. */
struct tp_region {
	uint64_t addr;
	size_t bytes;
	enum tp_memory memory;
	void *desc;           /* what the back end wants to see beside a local buffer */
	uint64_t key;         /* what a peer needs to write here */
	uint64_t remote_base; /* address a peer gives for the first byte: addr, or 0 for offsets */
	void *handle;         /* the back end's own */
};

enum tp_state { TP_IDLE, TP_PENDING, TP_DONE, TP_FAILED };

/*
 * One operation under way. Owned by the caller, at the same place in memory from the post until
 * state is TP_DONE or TP_FAILED. `context` comes first: libfabric providers write into it.
 */
struct tp_req {
	void *context[8];
	enum tp_state state;
	int peer;
	bool receiving;
	size_t bytes; /* asked for */
	size_t moved; /* received, once done */
};

struct tp_stats {
	uint64_t sends, receives, writes; /* operations posted */
	uint64_t sent_bytes, received_bytes;
	uint64_t retries; /* posts that the back end could not take at once */
	uint64_t registrations, deregistrations;
	uint64_t registration_ns, deregistration_ns;
};

struct transport;

struct tp_ops {
	const char *name;
	/* Writes this endpoint's address (at most TP_ADDRESS_BYTES); *bytes says how long it is. */
	int (*address)(struct transport *tp, void *addr, size_t *bytes);
	/* Learns all `size` addresses, TP_ADDRESS_BYTES apart; afterwards peers are ranks. */
	int (*connect)(struct transport *tp, const void *addrs, int rank, int size);
	int (*reg)(struct transport *tp, const struct tp_range *range, struct tp_region **out);
	int (*dereg)(struct transport *tp, struct tp_region *region);
	/* The three posts return -EAGAIN when the caller must make progress first. */
	int (*send)(struct transport *tp, int peer, uint64_t tag, const void *buf, size_t bytes,
		    const struct tp_region *region, struct tp_req *req);
	int (*recv)(struct transport *tp, int peer, uint64_t tag, void *buf, size_t bytes,
		    const struct tp_region *region, struct tp_req *req);
	int (*write)(struct transport *tp, int peer, const void *buf, size_t bytes,
		     const struct tp_region *region, uint64_t remote_addr, uint64_t key,
		     struct tp_req *req);
	/* Moves what can move; returns the number of operations completed, or negative. */
	int (*poll)(struct transport *tp);
	void (*close)(struct transport *tp);
};

/* The common part; a back end embeds it first. */
struct transport {
	const struct tp_ops *ops;
	int rank, size;
	char provider[96];     /* for people: "shm", "tcp;ofi_rxm" */
	char library[64];      /* for people: "libfabric 1.17" */
	size_t inject_bytes;   /* messages up to this are sent without a completion */
	size_t max_msg_bytes;  /* no message may be longer */
	bool needs_regions;    /* local buffers must be registered (libfabric's FI_MR_LOCAL) */
	bool can_write;        /* one-sided writes work */
	bool takes_device;     /* device memory can be registered and sent */
	bool takes_dmabuf;     /* and as a DMA-BUF, as far as the library goes */
	bool shares_memory;    /* joins processes of one host */
	unsigned max_receives; /* that may be posted at a time; 0: as many as one likes */
	bool stages;           /* device memory goes through bounce buffers (transport_staged.h) */
	bool has_threads;      /* the provider's own threads move data, and need a CPU for that */
	struct tp_stats stats;
	char error[TP_ERROR_BYTES];
	int broken; /* once not 0, every call returns it: some message is lost for good */

	/* Waiting: how long nothing at all may move, and who is asked now and then whether to go
	 * on (for instance whether a rank was lost). watch returns 0, or what tp_break() did. */
	int64_t timeout_ns;
	int (*watch)(void *arg, struct transport *tp);
	void *watch_arg;
	unsigned int spin; /* idle polls before the CPU is offered to others */

	unsigned int idle; /* idle polls since something moved */
	int64_t idle_since_ns;
};

struct tp_config {
	const char *provider;     /* NULL: the best there is */
	const char *bind_address; /* numeric local address for network providers, or NULL */
	bool one_host;            /* all ranks share this host's memory: shm may be chosen */
	enum tp_memory memory;    /* that will be registered; a provider that takes it is chosen */
	int64_t timeout_ns;
};

/* Open a back end. On failure *out is NULL and `error` (TP_ERROR_BYTES) says why. */
int tp_open_ofi(const struct tp_config *config, struct transport **out, char *error);

/* Names of the providers that tp_open_ofi could use here, one a line, best first; to be freed. */
int tp_list_ofi(const struct tp_config *config, char **out, char *error);

/* The in-process back end: a hub joins `size` endpoints, each to be used by its own thread. */
struct loop_hub;
struct loop_hub *loop_hub_new(int size);
void loop_hub_free(struct loop_hub *hub);
/* Messages of up to `inject_bytes` are buffered; longer ones complete when they are received. */
int tp_open_loop(struct loop_hub *hub, int rank, size_t inject_bytes, struct transport **out);

static inline const char *tp_error(const struct transport *tp)
{
	return tp->error;
}

/* Record words for tp_error() and return err. tp_break() is for failures after which the endpoint
 * is of no use; its first words stay (the first failure is the cause). */
int tp_fail(struct transport *tp, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int tp_break(struct transport *tp, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

int tp_address(struct transport *tp, void *addr, size_t *bytes);
int tp_connect(struct transport *tp, const void *addrs, int rank, int size);
int tp_register(struct transport *tp, const struct tp_range *range, struct tp_region **out);
int tp_deregister(struct transport *tp, struct tp_region *region);

/*
 * Post an operation. Makes progress inside while the back end has no room, so they may take time
 * but need no retry. `region` covers the buffer, or is NULL where the transport needs none. The
 * buffer stays untouched until req->state changes.
 */
int tp_send(struct transport *tp, int peer, uint64_t tag, const void *buf, size_t bytes,
	    const struct tp_region *region, struct tp_req *req);
int tp_recv(struct transport *tp, int peer, uint64_t tag, void *buf, size_t bytes,
	    const struct tp_region *region, struct tp_req *req);
int tp_write(struct transport *tp, int peer, const void *buf, size_t bytes,
	     const struct tp_region *region, uint64_t remote_addr, uint64_t key,
	     struct tp_req *req);

/* One round of progress. Fails with -ETIMEDOUT once nothing has moved for timeout_ns, and with
 * what watch says. */
int tp_progress(struct transport *tp);
/* Progress until req is done. */
int tp_wait(struct transport *tp, struct tp_req *req);
/* Start of a wait: time without progress counts from now. */
void tp_rest(struct transport *tp);
void tp_close(struct transport *tp);

/* For back ends. */
int64_t tp_now_ns(void);
void tp_complete(struct transport *tp, struct tp_req *req, size_t moved);

#endif
