/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside libwaylay.so: what the wrappers of CUDA, libfabric and NVTX share. Nothing here may take a
 * lock of the job's, call malloc on the event path, raise a signal, change errno, or touch a
 * caller's pointer before the real call has succeeded. On any doubt the call passes through.
 */
#ifndef WAYLAY_TRACER_INJECT_H
#define WAYLAY_TRACER_INJECT_H

#include "tracer/settings/settings.h"
#include "tracer/spool/spool.h"

#pragma GCC visibility push(hidden) /* declarations too: one load, no detour by the GOT */

#define WL_EXPORT __attribute__((visibility("default")))

/* --- settings (tracer/settings) ------------------------------------------------------ */

/* What the job's environment asks for; see settings.h. */
extern struct wl_settings wl_settings;

/* --- life (init.c) ---------------------------------------------------------------------------- */

/* Reads the settings if nobody has yet; true if this process may be traced. */
bool wl_started(void);

/*
 * To be called when the job meets its first CUDA or fabric object (cuInit, fi_fabric, ...), before
 * the first event: opens the spool and starts the housekeeping thread. Idempotent, lock-free,
 * callable from any thread; after a fork the child calls it again by way of its first event. `why`
 * is "cuda" or "ofi".
 */
void wl_recording_begin(const char *why);

/* True when events are to be recorded: one load. Wrappers test it first and pass through otherwise.
 * False again in a forked child, since it lies in memory that a fork wipes. */
extern bool wl_recording;
/* True once this process or the one it was forked from has begun. */
extern bool wl_recorded_once;
/* Slow half of wl_record(). */
bool wl_recording_again(void);

/* Whether to record a call on an object that exists already: as wl_recording, but a forked child
 * that goes on using what it inherited begins a recording of its own. */
static inline bool wl_record(void)
{
	if (__builtin_expect(wl_recording, 1))
		return true;
	return wl_recorded_once && wl_recording_again();
}

/* --- windows (window.c) ----------------------------------------------------------------------- */

/* Why nothing is recorded now: bits of enum spool_off, 0 while recording. Ordinary memory, so that a
 * forked child goes on as its parent left it. */
extern _Atomic uint32_t wl_off;
/* True when ranges decide what is recorded, so that NVTX is heard also while nothing is. */
extern bool wl_watching;

/* As wl_record(), for set-up without which what is recorded later cannot be understood: also while
 * recording is off. */
static inline bool wl_record_setup(void)
{
	return wl_record() ||
	       (atomic_load_explicit(&wl_off, memory_order_relaxed) && wl_recorded_once);
}

/* When a process's recording has begun; `now` is its begin. */
void wl_window_begin(void);
/* Delay and duration; from the housekeeping thread, without one from threads that record. */
void wl_window_tick(void);
/* A range of NVTX began or ended on this thread (text, domain: interned) or, with an id, anywhere. */
void wl_window_push(uint32_t text, uint32_t domain);
void wl_window_pop(uint32_t domain);
void wl_window_start(uint64_t id, uint32_t text);
void wl_window_end(uint64_t id);
/* Looks whether WAYLAY_TRIGGER says to copy the recording; from the housekeeping thread (trigger.c). */
void wl_trigger_tick(void);
/* Makes wl_recording what wl_off says (init.c). */
void wl_recording_apply(void);

/*
 * The outermost wrapped call that a thread is in, apart for CUDA and libfabric, so that a provider's
 * CUDA copies inside an fi_ call are seen. Known by the frame of its wrapper, and not counted: a call
 * that was left by a jump out of a signal handler must not hide all that come after it.
 */
struct wl_inside {
	const uintptr_t
		*frame; /* of the wrapper: a frame pointer, a return address; NULL: in none */
	uintptr_t ret;
};
struct wl_depth {
	struct wl_inside cuda, ofi;
};
/* Initial-exec. */
extern __thread struct wl_depth wl_depth __attribute__((tls_model("initial-exec")));

/* Frames of the function that this stands in. */
#define WL_FRAME ((const uintptr_t *)__builtin_frame_address(0))

/* Our own stack, whatever lies there by now. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static inline uintptr_t
wl_frame_return(const uintptr_t *frame)
{
	return frame[1];
}

/* Whether a wrapper with the frame `here` was called from within that call, which goes on: then the
 * call's frame lies further out and is whole. */
static inline bool wl_is_inside(const struct wl_inside *call, const uintptr_t *here)
{
	return __builtin_expect(call->frame != NULL, 0) && here < call->frame &&
	       wl_frame_return(call->frame) == call->ret;
}

static inline void wl_enter(struct wl_inside *call, const uintptr_t *here)
{
	call->frame = here;
	call->ret = wl_frame_return(here);
}

static inline void wl_leave(struct wl_inside *call)
{
	call->frame = NULL;
}

static inline uint32_t wl_flags_here(void)
{
	return wl_is_inside(&wl_depth.ofi, WL_FRAME) ? WL_FLAG_IN_PROVIDER : 0;
}

/* Debug line to the standard error of the job's start, only with WAYLAY_DEBUG=1. Async-signal-safe.
 */
void wl_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The one line that a bare preload may print: settings that cannot be used. */
void wl_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- stacks (stack.c, python.c) --------------------------------------------------------------- */

enum wl_stack_for { WL_STACK_FOR_SYNC, WL_STACK_FOR_REGISTRATION, WL_STACK_FOR_OTHER };

/* Captures and interns the caller's stack (Python frames first, then native ones, ours left out);
 * 0 when settings say none for this use. Never takes the GIL, never calls malloc. */
uint32_t wl_stack(enum wl_stack_for use);
/* When a recording begins (init.c): what would be done late at the first stack is done now. */
void wl_stack_start(void);

/* --- names ------------------------------------------------------------------------------------ */

/* A constant name interned once a process: each use has one static struct. */
struct wl_name {
	const char *text;
	_Atomic uint64_t cached; /* spool_generation() << 32 | id */
};
static inline __attribute__((always_inline)) uint32_t wl_name_id(struct wl_name *name)
{
	uint64_t cached = atomic_load_explicit(&name->cached, memory_order_relaxed);
	uint32_t generation = spool_generation();

	if (__builtin_expect(cached >> 32 == generation && generation, 1))
		return (uint32_t)cached;
	uint32_t id = spool_intern_string(name->text, strlen(name->text));
	atomic_store_explicit(&name->cached, (uint64_t)generation << 32 | id, memory_order_relaxed);
	return id;
}

/* --- symbols (symbols.c, dlsym.S) ------------------------------------------------------------- */

/*
 * The only hooks of dlsym and dlvsym. A domain (CUDA, libfabric) says which names interest it and,
 * once the real lookup has answered, what the caller gets instead. `replace` returns `real` itself
 * to pass it through; it is called only with real != NULL, or with real == NULL never.
 */
struct wl_domain {
	const char *prefix; /* names that start so are asked about ("cu", "cupti", "fi_") */
	void *(*replace)(const char *name, const char *version, void *real, void *caller);
};
extern const struct wl_domain wl_domain_cuda, wl_domain_ofi, wl_domain_cupti;

/*
 * A symbol's real address in a loaded object, by walking the link map and ELF hash tables with own
 * string functions (nothing interceptable is called). soname_prefix selects objects whose file name or
 * SONAME starts so ("libcuda.so"), NULL any object but ourselves; version NULL: the default version.
 * NULL if there is none.
 */
void *wl_symbol_find(const char *soname_prefix, const char *name, const char *version);
/* True if the address lies in a mapped object whose file name or SONAME starts so. */
bool wl_address_in(const void *address, const char *soname_prefix);
/* glibc's own dlsym and dlvsym. */
void *wl_real_dlsym(void *handle, const char *name);
void *wl_real_dlvsym(void *handle, const char *name, const char *version);

/* --- device activity (cupti/) ------------------------------------------------------------------ */

/* True while CUPTI's activity is recorded. */
extern _Atomic bool wl_cupti_on;
/* Once the driver is there, if the settings ask for it. version as cuDriverGetVersion gives it. */
void wl_cupti_start(int driver_version, bool simulated);
/* About every 100 ms, by the housekeeping thread. */
void wl_cupti_housekeep(void);
/* After work was given to a stream (as recorded; its thread's context is current). */
void wl_cupti_stream(uint64_t stream, bool captured);
void wl_cupti_stream_gone(uint64_t stream);

/* --- NVTX (nvtx.c) ---------------------------------------------------------------------------- */

/* Sets NVTX_INJECTION64_PATH to this library; a tool that was named there before is chained. */
void wl_nvtx_prepare(const char *own_path);
/* When a recording begins: what NVTX said before. */
void wl_nvtx_begin(void);
/* Remembers the tool to chain (init.c). */
void wl_nvtx_chain_set(const char *path);

#pragma GCC visibility pop

#endif
