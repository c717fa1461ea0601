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
#include "tracer/events/sink.h"
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
	/* Records go there and no file is made; the clock must be MONOTONIC. NULL: to the file. */
	const struct sink_ops *sink;
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
	/* Flight recorder: the chunk before this one, held until this one is left, so that what the
	 * thread did last is never written over. */
	struct spool_chunk *previous;
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

/* The path of an event: in line wherever it is used. */
#define SPOOL_HOT static inline __attribute__((always_inline))

#define SPOOL_PREFETCH 1024 /* bytes ahead: some ten records */

/*
 * Begins a record in room that is there; what follows are its arguments. The caller has set
 * self->writing, fills the arguments in, commits and clears it.
 */
SPOOL_HOT struct spool_record *spool_put(struct spool_thread *self, size_t bytes, uint16_t event,
					 uint64_t begin, uint64_t end, uint32_t flags)
{
	uint8_t *at = self->cursor;
	struct spool_record *record = (struct spool_record *)at;

	record->units = (uint16_t)(bytes / 8);
	record->event = event;
	record->flags = flags;
	record->begin = begin;
	record->duration = end - begin;
	if (bytes > sizeof(*record))
		memset(at + bytes - 8, 0, 8); /* what pads the last unit */
	if (begin < self->begin_least)
		self->begin_least = begin;
	if (end > self->end_greatest)
		self->end_greatest = end;
	return record;
}

/* For writing. The housekeeping thread's core has the page's lines since it touched them, so that having
 * them shared, as compilers do for processors that may lack the instruction, would be half of it; where
 * it is lacking it does nothing. */
SPOOL_HOT void spool_prefetch(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const uint8_t *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

SPOOL_HOT void spool_commit(struct spool_thread *self, size_t bytes)
{
	uint8_t *at = self->cursor + bytes;

	self->cursor = at;
	/* The lines of the next records, had before they are needed: a job's call with a locked
	 * instruction would otherwise wait for our stores to find theirs. As many as were used. */
	for (size_t line = 0; line < bytes; line += 64)
		spool_prefetch(at + SPOOL_PREFETCH + line);
	/* Pairs with the reader's load of `committed`: what lies before it is whole. */
	atomic_store_explicit(&self->chunk->committed,
			      (uint32_t)(at - (uint8_t *)(self->chunk + 1)), memory_order_release);
}

#define SPOOL_RECORD_BYTES(args_bytes)                                                             \
	((sizeof(struct spool_record) + (args_bytes) + 7) & ~(size_t)7)

/*
 * The fast half of recording: begins a record of the calling thread and gives where its arguments go,
 * NULL when spool_append_slow() must do it. Between it and spool_done() the struct is claimed: a signal
 * handler's record then goes to another chunk, so that neither can damage the other, whether or not
 * the interrupted one resumes.
 */
SPOOL_HOT void *spool_begin(struct spool_thread *self, uint16_t event, uint64_t begin, uint64_t end,
			    uint32_t flags, size_t args_bytes)
{
	size_t bytes = SPOOL_RECORD_BYTES(args_bytes);

	if (__builtin_expect(!self || atomic_load_explicit(&self->writing, memory_order_relaxed),
			     0))
		return NULL;
	atomic_store_explicit(&self->writing, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(
		    bytes <= (size_t)(self->limit - self->cursor) &&
			    end < atomic_load_explicit(&self->snapshot_due, memory_order_relaxed),
		    1))
		return spool_put(self, bytes, event, begin, end, flags) + 1;
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&self->writing, 0, memory_order_relaxed);
	return NULL;
}

SPOOL_HOT void spool_done(struct spool_thread *self, size_t args_bytes)
{
	spool_commit(self, SPOOL_RECORD_BYTES(args_bytes));
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&self->writing, 0, memory_order_relaxed);
}

/* Read once, since a signal handler may change it at any point. */
#define SPOOL_SELF (*(struct spool_thread *volatile *)&spool_self)

/*
 * Records one event. args: the event's struct wl_ev_NAME. Times are spool_now() values. Safe in a signal
 * handler. False: not recorded.
 */
static inline bool spool_append(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
				const void *args, size_t args_bytes)
{
	struct spool_thread *self = SPOOL_SELF;
	void *at = spool_begin(self, event, begin, end, flags, args_bytes);

	if (__builtin_expect(!at, 0))
		return spool_append_slow(event, begin, end, flags, args, args_bytes);
	if (args_bytes)
		memcpy(at, args, args_bytes);
	spool_done(self, args_bytes);
	return true;
}

/*
 * The same for arguments that are there as one value of type struct wl_ev_NAME: they go straight to the
 * record and, in a path that is all in line, never lie in memory before. A copy of a structure waits for
 * members that were stored just before, so these come after it, in the statement at the end, where
 * `it` points to the arguments in the record.
 */
#define SPOOL_RECORD(event_name, begin, end, flags, value, ...)                                    \
	do {                                                                                       \
		struct spool_thread *record_self_ = SPOOL_SELF;                                    \
		uint64_t record_begin_ = (begin), record_end_ = (end);                             \
		uint32_t record_flags_ = (flags);                                                  \
		struct wl_ev_##event_name *it =                                                    \
			spool_begin(record_self_, WL_EV_##event_name, record_begin_, record_end_,  \
				    record_flags_, sizeof(*it));                                   \
                                                                                                   \
		if (__builtin_expect(it != NULL, 1)) {                                             \
			wl_fill_##event_name(it, &(value));                                        \
			__VA_ARGS__;                                                               \
			spool_done(record_self_, sizeof(*it));                                     \
		} else {                                                                           \
			struct wl_ev_##event_name record_copy_;                                    \
                                                                                                   \
			it = &record_copy_;                                                        \
			wl_fill_##event_name(it, &(value));                                        \
			__VA_ARGS__;                                                               \
			spool_append_slow(WL_EV_##event_name, record_begin_, record_end_,          \
					  record_flags_, it, sizeof(*it));                         \
		}                                                                                  \
	} while (0)

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
SPOOL_HOT void spool_enter(uint16_t event, uint32_t api, uint64_t since, uint32_t stack,
			   uint64_t object)
{
	struct spool_thread *self = spool_self;
	struct spool_slot *slot = self ? self->slot : NULL;

	if (__builtin_expect(!slot, 0)) {
		spool_enter_slow(event, api, since, stack, object);
		return;
	}
	atomic_store_explicit(&slot->since, since, memory_order_relaxed);
	atomic_store_explicit(&slot->stack, stack, memory_order_relaxed);
	atomic_store_explicit(&slot->object, object, memory_order_relaxed);
	/* Pairs with the reader's acquire load of `call`: since, stack and object belong to it. */
	atomic_store_explicit(&slot->call, (uint64_t)event << 32 | api, memory_order_release);
}
SPOOL_HOT void spool_leave(void)
{
	struct spool_thread *self = spool_self;

	struct spool_slot *slot = self ? self->slot : NULL;

	if (__builtin_expect(slot != NULL, 1))
		atomic_store_explicit(&slot->call, 0, memory_order_release);
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
uint32_t spool_generation_slow(void);
static inline uint32_t spool_generation(void)
{
	const struct spool_thread *self = spool_self;

	/* Of the open writer as long as it is there at all: a fork wipes it. */
	return __builtin_expect(self && self->generation, 1) ? self->generation
							     : spool_generation_slow();
}

/*
 * Control: what `waylay ctl` asks is taken by the housekeeping thread, and where there is none by
 * threads that record. The handler runs there, one call at a time, under the rules of the event path.
 * command: enum spool_command. 0 or -errno with one line in answer.
 */
typedef int (*spool_control_fn)(uint32_t command, const char *text, char *answer,
				size_t answer_size);
/* tick: called where requests are looked for, by threads that record too; NULL: nothing. */
void spool_control_set(spool_control_fn handler, void (*tick)(void));
/* Says in the recording that it begins (off == 0) or is off from now on; off: enum spool_off. */
void spool_control_state(uint32_t off);
/* A fact about this process alone, which its children do not have. */
void spool_attribute_own(const char *key, const char *value);

/* What spool_watch() has seen: a record, or a call that goes on. Times in ns of the clock in use. */
struct spool_watched {
	uint16_t event;
	bool inflight;
	uint32_t thread; /* serial */
	uint64_t begin_ns, duration_ns;
	const void *args; /* the event's struct wl_ev_NAME; NULL of a call in flight */
};
typedef void (*spool_watch_fn)(const struct spool_watched *watched);
/* Everything recorded since the last look, thread by thread in order; from the housekeeping thread alone.
 * What a flight recorder overwrites faster is not seen. */
void spool_watch(spool_watch_fn seen);
/* Copies the recording into the directory `name` beside it; path gets the copy's. 0 or -errno. */
int spool_snapshot(const char *name, char *path, size_t size);

/* What the housekeeping thread calls about every 100 ms: touches pages ahead, clock snapshots of quiet
 * processes, watches the clock. Never called from the event path. */
void spool_housekeep(void);

/* --- copy (copy.c) -------------------------------------------------------------------------------- */

/*
 * Copies a recording that may be being written into the empty file `to`. mapping: its file from the
 * beginning, `bytes` of it. No malloc, no lock. 0, -EINVAL for what is no recording, else -errno.
 */
int spool_copy(const void *mapping, uint64_t bytes, int to);

/* --- reader ------------------------------------------------------------------------------------- */

/*
 * Opens a spool file, also one still being written. Any bytes give a clear error or a partial trace:
 * -EINVAL not a spool, -EPROTONOSUPPORT too new a version, -ENODATA nothing in it, other -errno from
 * the system; err then has one line: what, which file, why, what to do.
 */
int spool_reader_open(const char *path, struct trace_reader **reader, char *err, size_t err_size);

#endif
