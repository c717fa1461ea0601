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
	const char *directory;      /* where the file goes; made (0700) if absent, parents too */
	const char *run;            /* run identifier or "" */
	uint64_t max_bytes;         /* cap of the file; 0: 1 GiB; at most 32 GiB, at least 1 MiB */
	unsigned keep_free_percent; /* of the file system; 0: none */
	enum spool_clock clock;     /* as chosen by spool_clock_choose() */
	bool flight_recorder;       /* at the cap overwrite the oldest chunks instead of stopping */
	int rank, world_size, local_rank; /* -1 none */
};

/* What a thread writes with. Lives in memory that a fork wipes (so a child finds no room and a foreign
 * generation, and starts anew). Fields are the owner's alone, apart from the atomic ones. */
struct spool_thread {
	/* 1 in the middle of an append: a signal handler that finds it so leaves this struct alone
	 * and writes with another one of the same thread. */
	_Atomic uint32_t writing;
	uint32_t generation; /* of the writer; 0 in a wiped page */
	uint8_t *cursor;     /* next record goes here; NULL: no chunk (slow path) */
	uint8_t *limit;      /* end of the chunk; NULL with cursor */
	/* A record that ends at or after this takes the slow path: a clock snapshot is due, or (0) the
	 * writer wants a word with the thread. */
	_Atomic uint64_t snapshot_due;
	struct spool_chunk *chunk;
	uint64_t begin_least, end_greatest; /* in the present chunk */

	/* --- the slow path's ---------------------------------------------------------------------- */
	_Alignas(64) struct spool_slot
		*slot;              /* which call the thread is in; one for all its structs */
	struct spool_thread *owner; /* the thread's first struct */
	struct spool_thread *_Atomic more; /* the thread's further structs */
	_Atomic int64_t tid;               /* in the first struct of a live thread, else 0 */
	uint32_t serial;
	uint32_t index; /* among the structs of the writer */
	_Atomic uint32_t
		chunk_sequence;     /* chunks taken by the thread (counted in its first struct) */
	_Atomic uint32_t next_free; /* in the list of free ones */
};

/* The calling thread's, NULL before its first record. Initial-exec: one load. */
extern __thread struct spool_thread *spool_self __attribute__((tls_model("initial-exec")));

/* The clock in use, for the whole process. */
extern enum spool_clock spool_clock_used;

/* The processor's counter, 0 where there is none. */
static inline uint64_t spool_ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return 0;
#endif
}

static inline uint64_t spool_now(void)
{
	struct timespec ts;

	/* Changes at most once, from the TSC to MONOTONIC; a stale value is put right when recorded. */
	if (__builtin_expect(
		    __atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED) == SPOOL_CLOCK_TSC, 1))
		return spool_ticks();
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
/* After an opening that went well: why another directory than the wanted one is used, "" if that one is. */
const char *spool_note(void);
/* Path of the open file, "" if none. */
const char *spool_writer_path(void);
/* Stops (false) or resumes (true) recording for every thread. */
void spool_writer_record(bool on);

/* Slow half of spool_append: first record of a thread, a full chunk, a forked child, an append within
 * an append, a due clock snapshot, recording off. False: not recorded (and counted where that is a
 * loss). Preserves errno; async-signal-safe. */
bool spool_append_slow(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
		       const void *args, size_t args_bytes);

#define SPOOL_PREFETCH 512 /* bytes ahead: some ten records */

/* Writes a record into room that is there. The caller has set self->writing, and clears it. */
static inline void spool_put(struct spool_thread *self, size_t bytes, uint16_t event,
			     uint64_t begin, uint64_t end, uint32_t flags, const void *args,
			     size_t args_bytes)
{
	uint8_t *at = self->cursor;
	struct spool_record *record = (struct spool_record *)at;

	record->units = (uint16_t)(bytes / 8);
	record->event = event;
	record->flags = flags;
	record->begin = begin;
	record->duration = end - begin;
	if (args_bytes % 8)
		memset(at + bytes - 8, 0, 8);
	if (args_bytes)
		memcpy(record + 1, args, args_bytes);
	if (begin < self->begin_least)
		self->begin_least = begin;
	if (end > self->end_greatest)
		self->end_greatest = end;
	self->cursor = at + bytes;
	/* The lines of the next records, had before they are needed: a job's call with a locked
	 * instruction would otherwise wait for our stores to find theirs. */
	__builtin_prefetch(at + SPOOL_PREFETCH, 1);
	/* Pairs with the reader's load of `committed`: what lies before it is whole. */
	atomic_store_explicit(&self->chunk->committed,
			      (uint32_t)(at + bytes - (uint8_t *)(self->chunk + 1)),
			      memory_order_release);
}

/*
 * Records one event. args: the event's struct wl_ev_NAME. Times are spool_now() values. May be called
 * from a signal handler that interrupts it: `writing` says so, and the handler's record then goes to
 * another chunk, so that neither can damage the other, whether or not the interrupted one resumes.
 */
static inline bool spool_append(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
				const void *args, size_t args_bytes)
{
	size_t bytes = (sizeof(struct spool_record) + args_bytes + 7) & ~(size_t)7;
	/* volatile: read once, since a handler may change it at any point */
	struct spool_thread *self = *(struct spool_thread *volatile *)&spool_self;

	if (__builtin_expect(self && !atomic_load_explicit(&self->writing, memory_order_relaxed),
			     1)) {
		atomic_store_explicit(&self->writing, 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
		if (__builtin_expect(bytes <= (size_t)(self->limit - self->cursor) &&
					     end < atomic_load_explicit(&self->snapshot_due,
									memory_order_relaxed),
				     1)) {
			spool_put(self, bytes, event, begin, end, flags, args, args_bytes);
			atomic_signal_fence(memory_order_seq_cst);
			atomic_store_explicit(&self->writing, 0, memory_order_relaxed);
			return true;
		}
		atomic_signal_fence(memory_order_seq_cst);
		atomic_store_explicit(&self->writing, 0, memory_order_relaxed);
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
void spool_enter_slow(uint16_t event, uint32_t api, uint64_t since, uint32_t stack,
		      uint64_t object);
static inline void spool_enter(uint16_t event, uint32_t api, uint64_t since, uint32_t stack,
			       uint64_t object)
{
	struct spool_thread *self = spool_self;

	if (__builtin_expect(!self || !self->slot, 0)) {
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

	if (self && self->slot)
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
