/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens around a real call, by kind of call. A generated wrapper fills a struct cu_KIND from its
 * arguments, calls cu_KIND_begin, the real entry, on success what the form says, and cu_KIND_end.
 *
 * begin and end preserve errno. Between them the thread is inside a call (wl_depth), so that whatever
 * the driver or we ourselves call meanwhile is not recorded.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_CALLS_H
#define WAYLAY_TRACER_INJECT_CUDA_CALLS_H

#include "tracer/inject/cuda/classify.h"
#include "tracer/inject/cuda/entry.h"
#include "tracer/inject/cuda/map.h"
#include "tracer/inject/cuda/ranges.h"

#include <errno.h>

#pragma GCC visibility push(hidden)

/* Kinds whose wrapper does its work also while nothing is recorded: they keep what later records need
 * (memory, streams, names, captures), begin the recording, or replace pointers. */
enum {
	CU_ALWAYS_wait = 0,
	CU_ALWAYS_poll = 0,
	CU_ALWAYS_order = 0,
	CU_ALWAYS_copy = 0,
	CU_ALWAYS_memset = 0,
	CU_ALWAYS_launch = 0,
	CU_ALWAYS_graph = 1,
	CU_ALWAYS_mem = 1,
	CU_ALWAYS_setup = 1,
	CU_ALWAYS_lookup = 1,
};

struct cu_frame {
	uint64_t begin;
	const uintptr_t *at; /* WL_FRAME of the wrapper */
	int *errno_at;
	int errno_job;
	uint32_t flags;  /* enum wl_flag */
	uint16_t entry;  /* enum cu_entry */
	bool per_thread; /* stream 0 is the thread's own, not the legacy one */
	bool recorded;   /* decided at the beginning of the call */
};

/* How a copy's side is named by the call. */
enum cu_as { CU_AS_ANY, CU_AS_DEVICE, CU_AS_HOST, CU_AS_ARRAY };
/* CU_TOLD_AFTER: the arguments lie in a structure, which is read when the call has succeeded. */
enum cu_told { CU_TOLD_NOW, CU_TOLD_AFTER };

struct cu_wait {
	struct cu_frame f;
	struct wl_ev_cuda_wait ev;
};

struct cu_poll {
	struct cu_frame f;
	uint64_t object;
	bool of_stream;
};

struct cu_order {
	struct cu_frame f;
	struct wl_ev_cuda_order ev;
};

struct cu_copy {
	struct cu_frame f;
	struct wl_ev_cuda_copy ev;
	uint8_t dst_as, src_as; /* enum cu_as */
	uint8_t told;           /* enum cu_told */
	uint8_t order;          /* enum cu_batch_order */
	bool async;
};

/* What was found out of a copy. */
struct cu_copy_verdict {
	uint8_t dst_kind, src_kind; /* enum wl_mem_kind */
	uint8_t rule, cls;
	bool guessed;
};
struct cu_copy_verdict cu_copy_judge(uint64_t dst, uint64_t src, uint8_t dst_as, uint8_t src_as,
				     bool async, uint8_t order);

struct cu_memset {
	struct cu_frame f;
	struct wl_ev_cuda_memset ev;
	bool async;
};

struct cu_launch {
	struct cu_frame f;
	struct wl_ev_cuda_launch ev;
	uint8_t told;
	bool named;     /* func is a kernel, not a host function */
	bool first_use; /* of its library */
};

struct cu_graph {
	struct cu_frame f;
	struct wl_ev_cuda_graph ev;
	bool ends_capture;
	bool sized; /* the number of nodes was noted when exec was made */
};

struct cu_mem {
	struct cu_frame f;
	struct wl_ev_cuda_mem ev;
	uint8_t gives_back;    /* enum cu_gives_back */
	bool registers;        /* pins host memory */
	bool on_stream;        /* ev.stream is a stream */
	bool marks;            /* sets SYNC_MEMOPS */
	struct cu_range taken; /* forgotten for the call's duration; bytes 0: nothing */
};

struct cu_setup {
	struct cu_frame f;
	struct wl_ev_cuda_setup ev;
	uint64_t ticks; /* begin by the processor's counter, for the call that begins a recording */
	uint64_t uses;  /* a library's kernel, 0 none */
	uint64_t unloads; /* a library, 0 none */
	bool guessed;
};

struct cu_lookup {
	struct cu_frame f;
	const char *name;
	uint64_t flags;
};

/* The kinds but those in line below (calls.c, copy.c, memory.c, polls.c, lookup.c). `call` is the wrapper's own. */
#define CU_KIND(kind)                                                                              \
	void cu_##kind##_begin(struct cu_##kind *call);                                            \
	void cu_##kind##_end(struct cu_##kind *call, CUresult status);
CU_KIND(memset)
CU_KIND(graph)
CU_KIND(mem)
CU_KIND(setup)
CU_KIND(lookup)
#undef CU_KIND

/* What forms run after a successful call. They may read what the pointers point to. */
void cu_copy_told_2d(struct cu_copy *call, const struct CUDA_MEMCPY2D *how);
void cu_copy_told_3d(struct cu_copy *call, const struct CUDA_MEMCPY3D *how);
/* attributes: one for the members from index[i] on, up to the next one's. */
void cu_copy_told_batch(struct cu_copy *call, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
			const size_t *sizes, size_t count,
			const struct CUmemcpyAttributes *attributes, const size_t *indices,
			size_t attribute_count);
void cu_copy_told_3d_batch(struct cu_copy *call, const struct CUDA_MEMCPY3D_BATCH_OP *ops,
			   size_t count);
void cu_launch_told(struct cu_launch *call, const struct CUlaunchConfig *how);
void cu_launch_told_multi(struct cu_launch *call, const struct CUDA_LAUNCH_PARAMS *list,
			  unsigned count);
void cu_graph_made(struct cu_graph *call, CUgraphExec exec, CUgraph graph);
void cu_graph_captured(struct cu_graph *call, CUgraph graph);
void cu_mem_is(struct cu_mem *call, uint64_t ptr, uint64_t bytes, uint32_t range_flags);
void cu_mem_created(struct cu_mem *call, CUmemhandle handle, const struct CUmemAllocationProp *how);
void cu_mem_mapped(struct cu_mem *call, CUmemhandle handle);
void cu_mem_marked(struct cu_mem *call, const void *value);
void cu_mem_batch(struct cu_mem *call, const CUdeviceptr *ptrs, const size_t *sizes, size_t count);
void cu_ctx_made(struct cu_setup *call, CUcontext ctx, unsigned flags);
void cu_ctx_flags(unsigned flags);
void cu_stream_made(struct cu_setup *call, CUstream stream, unsigned flags);
void cu_stream_gone(CUstream stream);
void cu_limit_set(int limit, size_t value);
void cu_function_found(struct cu_setup *call, const void *func, const char *name);
void cu_library_made(struct cu_setup *call, CUlibrary library);
void cu_library_kernel(struct cu_setup *call, CUkernel kernel, CUlibrary library, const char *name);
void cu_library_gone(CUlibrary library);
void cu_function_of_kernel(struct cu_setup *call, const void *func, const void *kernel);
void cu_lookup_found(struct cu_lookup *call, void **found);
void cu_export_table_given(const unsigned char *id);

/* --- shared by the kinds -------------------------------------------------------------------------- */

/* Memory (memory.c). The kind of memory behind a side of a copy. must_know: ask the driver when nothing
 * is known. *flags: enum cu_range_flag of the range, where one is known. */
uint8_t cu_memory_kind(uint64_t ptr, enum cu_as as, bool must_know, uint32_t *flags);
/* What the thread found last; host sides and others apart, since a copy has mostly one of each. */
extern __thread struct cu_range_near cu_memory_near[2] __attribute__((tls_model("initial-exec")));
/* Whether synchronous operations on this side hold the host; flags as cu_memory_kind gave them. */
bool cu_memory_sync_memops(uint64_t ptr, uint32_t flags);
/* The context itself makes all synchronous operations hold the host. */
void cu_memory_ctx_sync_memops(void);

/* Streams (streams.c). The handle as recorded: 0 legacy, 2 per-thread. */
static inline uint64_t cu_stream(uint64_t handle, bool per_thread)
{
	if (handle > CU_STREAM_PER_THREAD)
		return handle;
	if (handle == 0)
		return per_thread ? CU_STREAM_PER_THREAD : 0;
	return handle == CU_STREAM_LEGACY ? 0 : handle;
}
/* Its kind (enum wl_stream_kind); `stream` as recorded. May ask the driver. */
uint8_t cu_stream_kind(uint64_t stream);
void cu_capture_begun(void);
void cu_capture_ended(CUresult status);
/* How many captures are going on in the process. */
extern _Atomic int cu_captures;
bool cu_stream_captured_slow(uint64_t stream);
/* True if work given to the stream now is captured into a graph rather than done. */
static inline bool cu_stream_captured(uint64_t stream)
{
	/* Relaxed: the capture a thread must know of was begun before, in its own order. */
	return atomic_load_explicit(&cu_captures, memory_order_relaxed) > 0 &&
	       cu_stream_captured_slow(stream);
}

/* Libraries (libraries.c). Whether using the kernel now is what loads its library. */
bool cu_library_first_use_slow(uint64_t kernel);
extern _Atomic int cu_libraries_not_loaded; /* how many: none is the common case */
static inline bool cu_library_first_use(uint64_t kernel)
{
	return atomic_load_explicit(&cu_libraries_not_loaded, memory_order_relaxed) > 0 &&
	       cu_library_first_use_slow(kernel);
}
/* The kernel has been used. */
void cu_library_used(uint64_t kernel);
/* Whether the library was never used. */
bool cu_library_unused(uint64_t library);

/* Kernel names (names.c): interned name of a function, 0 if the driver does not tell. */
uint32_t cu_kernel_name(uint64_t func);
/* The same after a launch; whether that was the first we know of (into a capture: none). */
enum { CU_KERNELS = 16384 };
#define CU_LAUNCHED (UINT64_C(1) << 63)           /* at least once */
extern struct cu_map_slot cu_kernels[CU_KERNELS]; /* handle -> CU_LAUNCHED | stamp << 32 | name */
/* Raised when code is unloaded: a handle may then come back as another function. */
extern _Atomic uint32_t cu_names_epoch;
/* Ids are valid within one writer, names within one epoch. */
static inline uint32_t cu_names_stamp(void)
{
	return (spool_generation() ^ atomic_load_explicit(&cu_names_epoch, memory_order_relaxed)
					     << 16) &
	       INT32_MAX;
}
uint32_t cu_kernel_launched_slow(uint64_t func, bool captured, bool *first);
static inline __attribute__((always_inline)) uint32_t cu_kernel_launched(uint64_t func,
									 bool captured, bool *first)
{
	const struct cu_map_slot *slot = cu_map_first(cu_kernels, CU_KERNELS - 1, func);
	uint64_t value;

	*first = false;
	if (__builtin_expect(cu_map_slot_get(slot, func, &value) &&
				     value >> 32 == (CU_LAUNCHED >> 32 | cu_names_stamp()),
			     1))
		return (uint32_t)value;
	return cu_kernel_launched_slow(func, captured, first);
}
void cu_name_put(const void *func, const char *name);
/* Handles may be used again for other functions. */
void cu_names_forget(void);

/* Local memory (local.c). After the first launch of a function: whether it made the context's local memory
 * grow, which waits. */
bool cu_local_memory_grew(uint64_t func);

/* Polls (polls.c): the run of queries that this thread is in ends here. */
struct cu_poll_run {
	uint64_t object, begin, last;
	int64_t began_ns;   /* coarse MONOTONIC */
	uint64_t not_ready; /* of the whole loop, over all its records */
	uint32_t polls;     /* of this record */
	uint32_t stack;
	uint32_t generation;
	uint16_t entry;
	bool open;
};
extern __thread struct cu_poll_run cu_poll_run __attribute__((tls_model("initial-exec")));
void cu_poll_flush_slow(void);
static inline void cu_poll_flush(void)
{
	if (__builtin_expect(cu_poll_run.open, 0))
		cu_poll_flush_slow();
}

static inline void cu_frame_enter(struct cu_frame *f)
{
	f->errno_at = &errno;
	f->errno_job = *f->errno_at;
	f->recorded = wl_recording;
	f->flags = wl_flags_here();
	wl_enter(&wl_depth.cuda, f->at);
	cu_poll_flush();
}

/* The last thing before the real call. */
static inline void cu_frame_start(struct cu_frame *f)
{
	*f->errno_at = f->errno_job;
	f->begin = spool_now();
}

/* The first thing after the real call. */
static inline uint64_t cu_frame_stop(struct cu_frame *f)
{
	uint64_t end = spool_now();

	f->errno_job = *f->errno_at;
	return end;
}

static inline void cu_frame_leave(struct cu_frame *f)
{
	wl_leave(&wl_depth.cuda);
	*f->errno_at = f->errno_job;
}

/* A call that was refused held nobody. */
#define CU_REFUSED(call, status)                                                                   \
	do {                                                                                       \
		if (cu_status_refused(status)) {                                                   \
			(call)->ev.cls = WL_call_class_none;                                       \
			(call)->ev.rule = WL_rule_none;                                            \
			(call)->f.flags &= ~(uint32_t)WL_FLAG_GUESSED;                             \
		}                                                                                  \
	} while (0)

static inline uint32_t cu_api(const struct cu_frame *f)
{
	return wl_name_id(&cu_names[f->entry]);
}

/* The name's id if it has one already, without a call that could change errno; 0 if not. */
static inline uint32_t cu_api_at_once(const struct cu_frame *f)
{
	/* Relaxed: the id is a number, what it names is published by the spool. */
	uint64_t cached = atomic_load_explicit(&cu_names[f->entry].cached, memory_order_relaxed);

	return cached >> 32 == spool_generation() ? (uint32_t)cached : 0;
}

/* Work was given to the stream: what CUPTI calls it is recorded where that is not known. */
static inline void cu_device_work(const struct cu_frame *f, uint64_t stream, CUresult status)
{
	if (__builtin_expect(atomic_load_explicit(&wl_cupti_on, memory_order_relaxed), 0) &&
	    status == CUDA_SUCCESS) {
		int saved = errno;

		wl_cupti_stream(stream, f->flags & WL_FLAG_CAPTURED);
		errno = saved;
	}
}

#pragma GCC visibility pop

#endif
