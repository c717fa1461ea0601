/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedded recording: a memory-mapped file a process, written by its threads without locks,
 * readable at any moment and after any death of the process.
 *
 * Writer: lives in the traced job. One writer a process. The path of an event is spool_append():
 * no lock, no system call, no malloc. What happens at a chunk's edge is in writer.c.
 * Reader: spool_reader_open() gives a struct trace_reader.
 */
#ifndef WAYLAY_TRACER_SPOOL_H
#define WAYLAY_TRACER_SPOOL_H

#include "tracer/events/reader.h"
#include "tracer/spool/format.h"

#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* --- writer ------------------------------------------------------------------------------------- */

struct spool_settings {
	const char *directory;	  /* where the file goes; made (0700) if absent, parents too */
	const char *run;	  /* run identifier or "" */
	uint64_t max_bytes;	  /* cap of the file; 0: 1 GiB */
	unsigned keep_free_percent; /* of the file system; default 10 */
	enum spool_clock clock;	  /* as chosen by spool_clock_choose() */
	bool flight_recorder;	  /* at the cap overwrite the oldest chunks instead of stopping */
	int rank, world_size, local_rank; /* -1 none */
};

/* What a thread writes with. Lives in memory that a fork wipes (so a child finds thread_of == 0 and
 * starts anew). Fields are the owner's alone. */
struct spool_thread {
	uint8_t *cursor;	   /* next record goes here; NULL: no chunk (slow path) */
	uint8_t *limit;		   /* end of the chunk */
	struct spool_chunk *chunk;
	uint64_t begin_least;	   /* in the present chunk */
	struct spool_slot *slot;
	uint64_t snapshot_due;	   /* a clock snapshot is taken when a record ends at or after this */
	uint32_t serial;
	uint32_t chunk_sequence;
	uint32_t generation;	   /* of the writer; 0 in a wiped page */
};

/* The calling thread's, NULL before its first record. Initial-exec: one load. */
extern __thread struct spool_thread *spool_self __attribute__((tls_model("initial-exec")));

/* The clock in use, for the whole process. */
extern enum spool_clock spool_clock_used;

static inline uint64_t spool_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(spool_clock_used == SPOOL_CLOCK_TSC, 1))
		return __rdtsc();
#elif defined(__aarch64__)
	if (__builtin_expect(spool_clock_used == SPOOL_CLOCK_TSC, 1)) {
		uint64_t ticks;
		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* TSC where it is constant, non-stop and usable, else MONOTONIC. wanted: "auto", "tsc", "monotonic";
 * anything else gives -EINVAL; "tsc" on a machine without gives -ENOTSUP. */
int spool_clock_choose(const char *wanted, enum spool_clock *clock);

/*
 * Opens the process's spool: DIRECTORY/HOST.PID.START.wspool, mode 0600, O_EXCL. Falls back to
 * $TMPDIR/waylay-UID when the directory cannot be used and says so in an attribute. Safe to call from
 * any thread at any time, also repeatedly (-EALREADY) and in a forked child. 0 or -errno; on failure
 * appends do nothing. spool_error() then has one line in words (static storage, never NULL).
 */
int spool_writer_open(const struct spool_settings *settings);
/* Writes the trailer; appends after it still work (exit handlers of the job call CUDA). Never unmaps. */
void spool_writer_end(void);
bool spool_writer_active(void);
const char *spool_error(void);
/* Path of the open file, "" if none. */
const char *spool_writer_path(void);
/* Stops (false) or resumes (true) recording for every thread. */
void spool_writer_record(bool on);

/* Slow half of spool_append: first record of a thread, a full chunk, a forked child, a due clock
 * snapshot, recording off. False: not recorded (and counted where that is a loss). */
bool spool_append_slow(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
		       const void *args, size_t args_bytes);

static inline void spool_put(struct spool_thread *self, size_t bytes, uint16_t event,
			     uint64_t begin, uint64_t end, uint32_t flags, const void *args,
			     size_t args_bytes)
{
	struct spool_record *record = (struct spool_record *)self->cursor;

	record->units = (uint16_t)(bytes / 8);
	record->event = event;
	record->flags = flags;
	record->begin = begin;
	record->duration = end - begin;
	if (args_bytes)
		memcpy(record + 1, args, args_bytes);
	if (begin < self->begin_least)
		self->begin_least = begin;
	self->cursor += bytes;
	/* Pairs with the reader's acquire load: what lies before `committed` is whole. */
	atomic_store_explicit(&self->chunk->committed,
			      (uint32_t)(self->cursor - (uint8_t *)(self->chunk + 1)),
			      memory_order_release);
}

/* Records one event. args: the event's struct wl_ev_NAME. Times are spool_now() values. */
static inline bool spool_append(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
				const void *args, size_t args_bytes)
{
	size_t bytes = (sizeof(struct spool_record) + args_bytes + 7) & ~(size_t)7;
	struct spool_thread *self = spool_self;

	if (__builtin_expect(self && self->cursor && bytes <= (size_t)(self->limit - self->cursor) &&
			     end < self->snapshot_due, 1)) {
		spool_put(self, bytes, event, begin, end, flags, args, args_bytes);
		return true;
	}
	return spool_append_slow(event, begin, end, flags, args, args_bytes);
}

/* SPOOL_EMIT(cuda_wait, begin, end, flags, .stream = s, .rule = r, ...): the typed encoder. */
#define SPOOL_EMIT(event_name, begin, end, flags, ...)                                             \
	({                                                                                         \
		const struct wl_ev_##event_name emit_args_ = {__VA_ARGS__};                        \
		spool_append(WL_EV_##event_name, (begin), (end), (flags), &emit_args_,             \
			     sizeof(emit_args_));                                                  \
	})

/* In-flight slot: which call the thread is in. Only for calls that can block. */
void spool_enter_slow(uint16_t event, uint32_t api, uint64_t since, uint32_t stack, uint64_t object);
static inline void spool_enter(uint16_t event, uint32_t api, uint64_t since, uint32_t stack,
			       uint64_t object)
{
	struct spool_thread *self = spool_self;

	if (__builtin_expect(!self || !self->cursor || !self->slot, 0)) {
		spool_enter_slow(event, api, since, stack, object);
		return;
	}
	atomic_store_explicit(&self->slot->since, since, memory_order_relaxed);
	atomic_store_explicit(&self->slot->stack, stack, memory_order_relaxed);
	atomic_store_explicit(&self->slot->object, object, memory_order_relaxed);
	/* Pairs with the reader's acquire load of `call`: since, stack and object belong to it. */
	atomic_store_explicit(&self->slot->call, (uint64_t)event << 32 | api, memory_order_release);
}
static inline void spool_leave(void)
{
	struct spool_thread *self = spool_self;

	if (self && self->cursor && self->slot)
		atomic_store_explicit(&self->slot->call, 0, memory_order_release);
}

/* Interning: lock-free, bounded; 0 when the region is full (counted) or no spool is open. A process's
 * equal things mostly get one id (two threads at once may make two). Valid until a fork. */
uint32_t spool_intern_string(const char *text, size_t length);
uint32_t spool_intern_module(const char *path, uint64_t bias, uint64_t start, uint64_t end,
			     const uint8_t *build_id, unsigned build_id_bytes);
uint32_t spool_intern_stack(const struct spool_meta_frame *frames, unsigned count);
/* A fact about the process (settings, versions, what is missing). */
void spool_attribute(const char *key, const char *value);
/* Names the calling thread, or (tid != 0) another of this process. */
void spool_thread_name(int64_t tid, const char *name);
/* Changes whenever ids become invalid (a new writer after fork): caches of ids compare it. Never 0
 * while a writer is open. */
uint32_t spool_generation(void);

/* What the housekeeping thread calls about every 100 ms: touches pages ahead, clock snapshots of quiet
 * processes, watches the clock. Never called from the event path. */
void spool_housekeep(void);

/* --- reader ------------------------------------------------------------------------------------- */

/*
 * Opens a spool file, also one still being written. Any bytes give a clear error or a partial trace:
 * -EINVAL not a spool, -EPROTONOSUPPORT too new a version, -ENODATA nothing in it, other -errno from
 * the system; err then has one line: what, which file, why, what to do.
 */
int spool_reader_open(const char *path, struct trace_reader **reader, char *err, size_t err_size);

#endif
