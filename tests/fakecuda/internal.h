/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the simulated driver share. Device memory is ordinary shared memory, so a
 * CUdeviceptr is the host address. A stream is a FIFO with its own worker thread; an operation
 * names the points of other streams that it has to wait for, so every ordering rule of the API
 * (events, the legacy stream, graphs) is a list of (stream, sequence number) pairs.
 *
 * Lock order: event, capture, context, stream. A range or handle lock is a leaf.
 */
#ifndef TESTS_FAKECUDA_INTERNAL_H
#define TESTS_FAKECUDA_INTERNAL_H

#include "tests/fakecuda/activity.h"
#include "tests/fakecuda/fake_cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FC_LIKELY(x)   __builtin_expect(!!(x), 1)
#define FC_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FC_COUNT(a)    (sizeof(a) / sizeof((a)[0]))

enum {
	FC_MAX_DEVICES = 8,
	FC_CTX_DEPTH = 32,
	FC_SMS = 132,
	FC_WARP = 32,
	FC_MAX_BLOCK_THREADS = 1024,
	FC_MAX_SM_THREADS = 2048,
	FC_SHARED_DEFAULT = 48 << 10,
	FC_SHARED_OPTIN = 232448,
	FC_STAGE_BYTES =
		2 << 20 /* pageable copies to the device up to here are staged (measured) */
};

/* --- settings and start (device.c) ------------------------------------------------------------- */

struct fc_settings {
	int driver_version;
	int devices;
	uint64_t launch_ns;   /* least device time of a kernel */
	size_t mem_bytes;     /* of one device */
	unsigned queue_depth; /* operations pending on a stream before a launch blocks */
	bool launch_blocking;
	bool valid; /* false: some FAKECUDA_ variable is malformed; cuInit says so */
};
extern struct fc_settings fc_settings;

enum fc_state { FC_COLD, FC_READY, FC_READY_FAULTS, FC_FORKED };
extern _Atomic int fc_state;

enum fc_entry {
#define FC_ID(sym, base, since, impl, params, args)    FC_ID_##sym,
#define FC_EARLY(sym, base, since, impl, params, args) FC_ID_##sym,
#define FC_PLAIN                                       FC_ID
#define FC_PTDS                                        FC_ID
#define FC_PTSZ                                        FC_ID
#include "tests/fakecuda/entries.def"
	FC_ENTRY_MAX
};
#undef FC_ID

CUresult fc_gate_slow(enum fc_entry id);
CUresult fc_gate_early(enum fc_entry id);

/* Passed by every call before anything else: one load once the driver is up. */
static inline CUresult fc_gate(enum fc_entry id)
{
	/* Pairs with the release in do_cuInit and in the fork handler. */
	if (FC_LIKELY(atomic_load_explicit(&fc_state, memory_order_acquire) == FC_READY))
		return CUDA_SUCCESS;
	return fc_gate_slow(id);
}

/* The settings' reader and the faults they ask for (settings.c). */
void fc_settings_read(void);
bool fc_faults_wanted(void);
CUresult fc_fault(enum fc_entry id);
extern const char *const fc_entry_names[FC_ENTRY_MAX];

uint64_t fc_now_ns(void);
void fc_sleep_until_ns(uint64_t deadline);

/* --- handles (handle.c) ------------------------------------------------------------------------ */

enum fc_type {
	FC_T_CTX = 1,
	FC_T_STREAM,
	FC_T_EVENT,
	FC_T_MODULE,
	FC_T_FUNC,
	FC_T_LIBRARY,
	FC_T_GRAPH,
	FC_T_NODE,
	FC_T_EXEC,
	FC_T_POOL,
	FC_T_MEM
};

/*
 * A handle is an index and a generation, never an address: a stale or invented one is found out
 * without being followed. 0 means out of memory. fc_handle_get never blocks.
 */
uint64_t fc_handle_new(enum fc_type type, void *obj);
void *fc_handle_get(uint64_t handle, enum fc_type type);
void fc_handle_drop(uint64_t handle);
void fc_handle_each(enum fc_type type, void (*fn)(void *obj, void *arg), void *arg);

#define FC_HANDLE(h) ((uint64_t)(uintptr_t)(h))

/* --- operations -------------------------------------------------------------------------------- */

struct fc_dep {
	struct fc_stream *stream;
	uint64_t seq;
};

/* A growing list; the first few need no allocation. */
struct fc_deps {
	unsigned count, cap;
	struct fc_dep few[4];
	struct fc_dep *many;
};
CUresult fc_deps_add(struct fc_deps *deps, struct fc_stream *stream, uint64_t seq);
struct fc_dep *fc_deps_at(struct fc_deps *deps, unsigned i);
void fc_deps_free(struct fc_deps *deps);

/*
 * One unit of device work. Once in a graph it runs any number of times, perhaps at the same time,
 * so run() must not change it. drop() releases what data refers to.
 */
struct fc_op {
	struct fc_op *next;
	_Atomic unsigned refs;
	uint64_t seq;
	CUgraphNodeType type;
	bool kept;         /* used again */
	bool holds_launch; /* in a graph: the launch returns only when it is done (measured) */
	void (*run)(const struct fc_op *op);
	void (*drop)(struct fc_op *op);
	struct fc_deps deps;
	struct fakecuda_work tells;               /* what an observer is told of it */
	const struct fakecuda_observer *observer; /* who was told that it was given; NULL nobody */
	const struct fc_stream *on;               /* with an observer */
	void *given;
	_Alignas(16) unsigned char data[];
};
struct fc_op *fc_op_new(CUgraphNodeType type, size_t data_bytes, void (*run)(const struct fc_op *));
void fc_op_unref(struct fc_op *op);
/* At thread exit: the thread's list goes to all. */
void fc_ops_keep(struct fc_op *ops);

/* --- threads and contexts (context.c) ----------------------------------------------------------- */

struct fc_device {
	int ordinal;
	struct fc_ctx *primary; /* made at the first retain, then kept for ever */
	unsigned primary_refs, primary_flags;
	struct fc_pool *default_pool, *pool;
	_Atomic size_t used;
};
extern struct fc_device fc_devices[FC_MAX_DEVICES];
/* NULL if there is no such device. */
struct fc_device *fc_device_get(CUdevice dev);

struct fc_ctx {
	_Atomic uint64_t handle; /* 0 once destroyed; a primary context keeps its own */
	uint64_t id;             /* of this life of it */
	struct fc_device *dev;
	unsigned flags, api_version;
	_Atomic bool alive;
	pthread_mutex_t lock; /* protects streams, peers, limits */
	struct fc_stream *streams;
	struct fc_stream *legacy;
	_Atomic uint64_t pending;        /* operations not done, on any stream */
	_Atomic uint64_t pending_legacy; /* of these, on the legacy and the blocking streams */
	_Atomic int capturing, capturing_blocking;
	size_t limits[8];
	CUfunc_cache cache_config;
	uint64_t peers; /* bit a device */
	struct fc_ctx *next_free;
};

struct fc_stream;
struct fc_op;

/* What is known about an address (memory.c). */
enum fc_kind { FC_PAGEABLE, FC_DEVICE, FC_MANAGED, FC_HOST, FC_REGISTERED, FC_MAPPED };

struct fc_range {
	uintptr_t base;
	size_t bytes;  /* as asked for */
	size_t mapped; /* of the mapping; 0 if it is not ours */
	enum fc_kind kind;
	struct fc_ctx *ctx;
	struct fc_device *dev;
	unsigned flags;
	int fd; /* the memfd behind it, or -1 */
	size_t fd_offset;
	unsigned sync_memops;
	uint64_t id;
	struct fc_pool *pool;
	bool freeing;  /* a cuMemFreeAsync is on its way */
	bool imported; /* opened from another process */
	bool writable;
	struct fc_mem *mem; /* FC_MAPPED: the physical allocation */
};

struct fc_near {
	uint64_t changes; /* of the table, when it was found */
	struct fc_range range;
};

struct fc_thread {
	uint64_t id;
	unsigned depth;
	struct {
		struct fc_ctx *ctx;
		uint64_t handle;
	} stack[FC_CTX_DEPTH];
	CUstreamCaptureMode capture_mode;
	bool in_callback; /* a worker, inside a host function: most calls are refused */
	unsigned own_count;
	struct fc_own {
		struct fc_ctx *ctx;
		uint64_t ctx_id;
		struct fc_stream *stream;
	} * own; /* per-thread default streams */
	unsigned near_next;
	struct fc_near near[2]; /* what was found last */
	struct fc_op *ops;      /* done, to be used again */
};
/* The calling thread's record, made on first use; NULL if out of memory. */
struct fc_thread *fc_self(void);

/* The current context, or INVALID_CONTEXT, CONTEXT_IS_DESTROYED, NOT_PERMITTED in a callback. */
CUresult fc_current(struct fc_ctx **ctx);
struct fc_ctx *fc_ctx_get(CUcontext handle);
/* NOT_PERMITTED inside a host function. */
CUresult fc_may_wait(void);

/* --- activity (activity.c) ---------------------------------------------------------------------- */

extern _Atomic(const struct fakecuda_observer *) fc_observer;
/* The time at which a call begins; 0 if nobody observes. */
uint64_t fc_activity_begin(void);
void fc_activity_given(struct fc_stream *s, struct fc_op *op);
void fc_activity_call(const struct fc_stream *s, const struct fc_op *op, uint64_t begin);
/* Runs it. */
void fc_activity_run(const struct fc_stream *s, struct fc_op *op);
/* Runs a node of a graph that is being run. */
void fc_activity_node(const struct fc_op *graph, const struct fc_op *node, uint64_t number);
enum { FC_WAIT_EVENT = 1, FC_WAIT_STREAM = 3, FC_WAIT_CONTEXT = 4 };
/* s: NULL if not a stream's. */
void fc_activity_wait(const struct fc_ctx *ctx, const struct fc_stream *s, unsigned wait,
		      uint64_t begin);

/* --- streams (stream.c) ------------------------------------------------------------------------- */

enum fc_stream_kind { FC_STREAM_NORMAL, FC_STREAM_LEGACY_DEFAULT, FC_STREAM_OWN };

/* Never freed, only used again, so that a pair (stream, seq) stays meaningful for ever. */
struct fc_stream {
	uint64_t handle; /* 0 for the default streams */
	uint64_t id;
	struct fc_ctx *ctx;
	enum fc_stream_kind kind;
	unsigned flags;
	int priority;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct fc_op *head, *tail;
	bool has_worker, released, dying; /* dying: released, but with work left */
	unsigned waiters;
	_Atomic uint64_t submitted, completed; /* both only grow, across uses */
	struct fc_stream *next;                /* in the context's list, or the free list */
	struct fc_capture *_Atomic capture;
	struct fc_node **cap_deps; /* while capturing: what the next node comes after */
	size_t cap_count;
};

static inline bool fc_stream_blocking(const struct fc_stream *s)
{
	return s->kind == FC_STREAM_OWN ||
	       (s->kind == FC_STREAM_NORMAL && !(s->flags & CU_STREAM_NON_BLOCKING));
}

static inline bool fc_stream_legacy(const struct fc_stream *s)
{
	return s->kind == FC_STREAM_LEGACY_DEFAULT;
}

struct fc_stream *fc_stream_new(struct fc_ctx *ctx, enum fc_stream_kind kind, unsigned flags,
				int priority);
void fc_stream_release(struct fc_stream *s);
/* A handle as a call gives it: 0, the two special values, or a created stream. */
CUresult fc_stream_get(CUstream handle, bool ptds, struct fc_stream **stream);
/* Whether nothing that a wait on the stream would wait for is pending. */
bool fc_stream_idle(const struct fc_stream *s);
/* Whether an operation given to the stream now could start at once. */
bool fc_stream_ready(struct fc_stream *s);
/* Queues op (or adds it to the capture) and takes it over, also when it fails. seq may be NULL. */
CUresult fc_submit(struct fc_stream *s, struct fc_op *op, uint64_t *seq);
void fc_wait(struct fc_stream *s, uint64_t seq);
/* As cuStreamSynchronize, without its checks. */
CUresult fc_stream_wait(struct fc_stream *s);
/* Waits for all work of the context, as freeing memory does. */
CUresult fc_ctx_drain(struct fc_ctx *ctx);

/* --- events (event.c) --------------------------------------------------------------------------- */

void fc_events_forget(struct fc_ctx *ctx);

/* --- memory (memory.c) -------------------------------------------------------------------------- */

/* A copy of the range that holds ptr; false if there is none. */
bool fc_range_find(CUdeviceptr ptr, struct fc_range *out);
/* Takes the range over; HOST_MEMORY_ALREADY_REGISTERED if it overlaps another. */
CUresult fc_range_add(const struct fc_range *range);
/* Removes the range that begins at ptr if match (may be NULL) accepts it, and returns it. */
bool fc_range_take(CUdeviceptr ptr, bool (*match)(const struct fc_range *), struct fc_range *out);
bool fc_range_update(CUdeviceptr ptr, void (*fn)(struct fc_range *, void *arg), void *arg);
bool fc_range_overlaps(CUdeviceptr ptr, size_t bytes);

CUresult fc_device_alloc(struct fc_ctx *ctx, size_t bytes, enum fc_kind kind, struct fc_range *out);
void fc_range_unmap(struct fc_range *range);
void fc_memory_forget(struct fc_ctx *ctx);
size_t fc_page_round(size_t bytes);
int fc_memfd(size_t bytes);

static inline bool fc_kind_on_device(enum fc_kind kind)
{
	return kind == FC_DEVICE || kind == FC_MANAGED || kind == FC_MAPPED;
}

/* --- pools (pool.c) ----------------------------------------------------------------------------- */

CUresult fc_pools_init(struct fc_device *dev);
/* cuMemFree on memory from a pool: back to the pool at once. */
void fc_pool_give(struct fc_range *range);
/* NULL for memory of no pool. */
CUmemoryPool fc_pool_handle(const struct fc_pool *pool);
/* The memory goes for good: the end of its context. */
void fc_pool_forget(struct fc_range *range);

/* --- capture and graphs (capture.c, graph.c) ----------------------------------------------------- */

struct fc_node {
	uint64_t handle;
	struct fc_graph *graph;
	struct fc_op *op;
	struct fc_node **deps;
	size_t dep_count;
	bool seen;
};

struct fc_graph {
	uint64_t handle;
	_Atomic unsigned refs; /* the handle's and each exec's */
	struct fc_node **nodes;
	size_t count, cap;
	CUdeviceptr *allocs; /* memory that allocation nodes own */
	size_t alloc_count;
};
struct fc_graph *fc_graph_new(void);
void fc_graph_unref(struct fc_graph *graph);
/* Appends a node after deps and takes op over. NULL if out of memory. */
struct fc_node *fc_graph_add(struct fc_graph *graph, struct fc_op *op, struct fc_node **deps,
			     size_t dep_count);

extern _Atomic int fc_captures; /* active ones in the process: 0 skips every check */
/* For calls that are unsafe while a capture is on (allocation, queries, ...). */
CUresult fc_capture_unsafe_slow(void);
CUresult fc_capture_stream_slow(struct fc_stream *s);
CUresult fc_capture_ctx_slow(struct fc_ctx *ctx);
CUresult fc_capture_add(struct fc_stream *s, struct fc_op *op);
CUresult fc_capture_own_alloc(struct fc_stream *s, CUdeviceptr ptr);
void fc_capture_stream_gone(struct fc_stream *s);

static inline bool fc_capturing(void)
{
	return atomic_load_explicit(&fc_captures, memory_order_acquire) != 0;
}

static inline CUresult fc_capture_unsafe(void)
{
	return FC_UNLIKELY(fc_capturing()) ? fc_capture_unsafe_slow() : CUDA_SUCCESS;
}

/* What an event knows when it was recorded in a capturing stream. */
struct fc_captured {
	uint64_t capture_id; /* 0: not in a capture */
	struct fc_node **deps;
	size_t count;
};
CUresult fc_capture_record(struct fc_stream *s, struct fc_captured *out);
CUresult fc_capture_wait(struct fc_stream *s, const struct fc_captured *event);
void fc_capture_invalidate(uint64_t capture_id);

/* --- copies (copy.c) ---------------------------------------------------------------------------- */

/* A box of bytes; a plain copy has height and depth 1. */
struct fc_box {
	uintptr_t dst, src;
	size_t dst_pitch, src_pitch; /* bytes from row to row */
	size_t dst_slice, src_slice; /* bytes from layer to layer */
	size_t width, height, depth;
};
enum fc_side { FC_SIDE_ANY, FC_SIDE_DEVICE };
struct fc_copy {
	struct fc_box box;
	enum fc_side dst_side, src_side;
	bool async;        /* an ...Async entry */
	bool stage_always; /* the source may change once the call is back */
};
CUresult fc_copy(struct fc_stream *s, const struct fc_copy *copy);
void fc_box_move(const struct fc_box *box);

/* --- kernels (kernels.c, launch.c) ---------------------------------------------------------------- */

struct cpu_kernel;
/* The CPU kernel of that name, or NULL. */
const struct cpu_kernel *fc_kernel_find(const char *name);

struct fc_func {
	uint64_t handle;
	struct fc_module *module;
	const struct cpu_kernel *kernel;
	int max_dynamic_shared, carveout;
	_Atomic bool loaded;
	struct fc_func *next;
};
struct fc_func *fc_func_get(CUfunction fn);
struct fc_ctx *fc_func_ctx(const struct fc_func *fn);
size_t fc_param_offset(const struct cpu_kernel *kernel, size_t index);
int fc_occupancy(const struct fc_func *fn, unsigned threads, size_t shared_bytes);
void fc_modules_forget(struct fc_ctx *ctx);

/* --- the implementations ------------------------------------------------------------------------- */

#define FC_STREAM_PARAMS(...)                          (bool ptds, __VA_ARGS__)
#define FC_EARLY(sym, base, since, impl, params, args) CUresult do_##impl params;
#define FC_PLAIN(sym, base, since, impl, params, args) CUresult do_##impl params;
#define FC_PTDS(sym, base, since, impl, params, args)  CUresult do_##impl FC_STREAM_PARAMS params;
#define FC_PTSZ(sym, base, since, impl, params, args)  CUresult do_##impl FC_STREAM_PARAMS params;
#include "tests/fakecuda/entries.def"

#endif
