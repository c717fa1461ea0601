/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the writer. Everything here runs in a traced job: no lock, no malloc, no stdio after the
 * opening, async-signal-safe and re-entrant throughout, errno preserved by whoever is called on the
 * path of an event.
 */
#ifndef WAYLAY_TRACER_SPOOL_WRITER_H
#define WAYLAY_TRACER_SPOOL_WRITER_H

#include "tracer/spool/spool.h"

#include <limits.h>
#include <sys/types.h>

#define SPOOL_THREADS_MAX   32768 /* at one time */
#define SPOOL_BLOCK_THREADS 128   /* structs made together */
#define SPOOL_BLOCKS        (SPOOL_THREADS_MAX / SPOOL_BLOCK_THREADS)
#define SPOOL_SLOT_CHUNKS   272 /* enough for SPOOL_THREADS_MAX slots in the smallest chunks */
#define SPOOL_NESTED_MAX                                                                           \
	1024 /* structs of one thread: one is left behind by each jump out of an append */
#define SPOOL_TABLE_ENTRIES  (1u << 18) /* interned things, of which 3/4 are used */
#define SPOOL_STRING_MAX     15360      /* longer texts are cut; fits the smallest chunk */
#define SPOOL_SECOND_NS      1000000000
#define SPOOL_NODE_BIT(node) (1ull << ((node) < 63 ? (node) : 63)) /* of memory */

enum spool_state { SPOOL_UNOPENED, SPOOL_OPENING, SPOOL_OPEN, SPOOL_FAILED };

/*
 * The writer's state. Lies in a mapping that a fork wipes: a child finds SPOOL_UNOPENED and opens a
 * spool of its own at its first event. Immutable once `state` is SPOOL_OPEN, apart from the atomics.
 */
struct spool_writer {
	_Atomic uint32_t state;
	uint32_t generation;
	struct spool_header *header; /* start of the mapping */
	struct spool_dir_entry *directory;
	uint8_t *data;
	uint64_t mapped_bytes;
	uint32_t chunk_bytes, chunk_max, meta_max;
	uint32_t slots_per_chunk;

	/* --- file (writer_file.c) --- */
	_Atomic int fd;
	dev_t device;
	ino_t inode;
	_Atomic uint64_t retry_ns; /* no growing before: the last attempt found the disk full */
	_Atomic uint32_t unreachable_said;
	_Atomic uint32_t filling; /* on file systems without fallocate: one thread writes zeros */

	/* --- chunks (writer_chunk.c) --- */
	_Atomic uint64_t hand;    /* flight recorder: chunk to be looked at next */
	_Atomic uint64_t touched; /* chunks below this number have been touched ahead */

	/* --- interning (writer_intern.c) --- */
	_Atomic uint64_t *table;
	_Atomic uint32_t table_used;
	_Atomic uint32_t meta_chunks;
	/* number + 1 of the chunk being appended to << 32 | offset in it below which all is claimed */
	_Atomic uint64_t meta_position;
	_Atomic uint32_t meta_spare; /* number + 1 of a chunk that was taken in vain */

	/* --- threads (writer_thread.c) --- */
	_Atomic uint32_t serial_next;
	_Atomic uint32_t index_next;
	_Atomic uint64_t free_list; /* times changed << 32 | index + 1 */
	struct spool_thread *_Atomic blocks[SPOOL_BLOCKS];
	_Atomic uint32_t slot_chunks[SPOOL_SLOT_CHUNKS]; /* number + 1 */
	_Atomic uint64_t early_drops;                    /* while the spool was being opened */

	/* --- clock (writer_clock.c) --- */
	_Atomic uint64_t snapshot_next; /* in spool_clock_used */
	_Atomic uint64_t ticks_per_second;
	_Atomic uint32_t snapshots;   /* taken after the opening */
	_Atomic uint32_t clock_claim; /* one thread at a time compares snapshots */
	_Atomic uint32_t clock_switched;
	uint64_t last_tsc; /* of clock_claim's holder */
	int64_t last_monotonic_ns;
	double last_rate; /* ns a tick between the last two snapshots */
	bool rate_rough;  /* only from the calibration at the start */

	/* --- control (writer_control.c) --- */
	_Atomic uint32_t control_busy;
	_Atomic uint32_t windows; /* times that recording was switched */

	bool sink_active; /* writer_sink.c: when last looked at */

	/* SPOOL_NODE_BIT()s of threads that took chunks since housekeeping last looked. */
	_Atomic uint64_t nodes_seen;

	/* --- housekeeping (writer_house.c) --- */
	uint64_t house_chunks; /* chunk_next at the last call */
	uint32_t house_calls;
};

/* NULL before the first opening; then the same for ever, children included. */
extern struct spool_writer *spool_writer;
extern _Atomic bool spool_recording;

/* The writer if it is open; a forked child's is opened here. NULL: nothing can be recorded. */
struct spool_writer *spool_writer_get(void);

static inline struct spool_writer *spool_writer_open_now(void)
{
	struct spool_writer *w = spool_writer;

	/* Pairs with the opener's release: all plain members are set. */
	if (w && atomic_load_explicit(&w->state, memory_order_acquire) == SPOOL_OPEN)
		return w;
	return NULL;
}

static inline struct spool_chunk *spool_chunk_at(const struct spool_writer *w, uint64_t number)
{
	return (struct spool_chunk *)(w->data + number * w->chunk_bytes);
}

/* --- writer_file.c --- */

/* What writer.c needs of a new file. */
struct spool_file {
	int fd;
	char path[PATH_MAX];
	char note[300]; /* why the wanted directory was not used; "" when it was */
};
/* Makes the file DIRECTORY/HOST.PID.START.wspool, in a fallback directory if need be. 0 or -errno with
 * one line in err. */
int spool_file_create(const struct spool_settings *settings, const char *host,
		      struct spool_file *file, char *err, size_t err_size);
/* Moves the descriptor out of the way of the job's own. Where the job's limit on descriptors leaves no
 * place there it is closed (-1), and opened whenever the file has to grow. */
int spool_file_keep(int fd);
/* Makes the file at least `bytes` long, every block of it reserved; `ahead` more where that is to be had. With
 * no `ahead` it is done before anybody needs it: that it failed then keeps no record from trying. */
bool spool_file_reserve(struct spool_writer *w, uint64_t bytes, uint64_t ahead,
			enum trace_drop *why);
/* At the opening: the same on a descriptor. 0 or -errno. */
int spool_file_allocate(int fd, uint64_t from, uint64_t bytes);
/* False when the file system has less free than the settings leave to others. */
bool spool_file_room(int fd, uint64_t bytes, unsigned keep_free_percent);
extern char spool_path[PATH_MAX];
extern unsigned spool_keep_free_percent;

/* --- writer_chunk.c --- */

/* Takes a chunk. NULL with *why. RECORDS: thread and sequence are its owner's. */
struct spool_chunk *spool_chunk_take(struct spool_writer *w, enum spool_chunk_type type,
				     uint32_t serial, uint32_t sequence,
				     const struct spool_slot *slot, enum trace_drop *why);
/* Gives self a new chunk, closing the present one. *why may be SPOOL_SUPERSEDED: a signal handler has
 * taken another struct for the thread, to be used instead. */
#define SPOOL_SUPERSEDED TRACE_DROP_MAX
bool spool_chunk_next(struct spool_writer *w, struct spool_thread *self, enum trace_drop *why);
/* Writes the chunk's final bounds and its directory entry. */
void spool_chunk_close(struct spool_writer *w, struct spool_thread *self);

/* --- writer_thread.c --- */

/* The calling thread's struct, with `writing` claimed (to be cleared by the caller); makes one at a
 * thread's first record and inside a signal handler that interrupted an append. NULL: none to be had
 * (counted). */
struct spool_thread *spool_thread_claim(struct spool_writer *w);
void spool_thread_release(struct spool_thread *self);
/* Counts n lost events. self may be NULL. */
void spool_drop(struct spool_writer *w, struct spool_thread *self, enum trace_drop reason,
		uint64_t n);
/* Makes every thread take the slow path at its next record. */
void spool_threads_poke(struct spool_writer *w);
/* Calls visit for every struct that was ever in use. */
void spool_threads_visit(struct spool_writer *w,
			 void (*visit)(struct spool_writer *w, struct spool_thread *t));
/* Gives back what threads left behind that ended without telling. */
void spool_threads_reap(struct spool_writer *w);
/* Once a process: how a thread's end is noticed. */
void spool_threads_prepare(void);

/* --- writer_intern.c --- */

/* Appends an entry to the META region. body_bytes: of what follows the head. Returns its id, 0 when
 * there is no room (counted as TRACE_DROP_INTERN). */
uint32_t spool_meta_append(struct spool_writer *w, enum spool_meta_kind kind, const void *body,
			   size_t body_bytes, const void *tail, size_t tail_bytes);

/* In a child's new spool: the facts that its parent knew. */
void spool_attributes_again(void);

/* --- writer_sink.c --- */

/* Where records go instead of the file; NULL: nowhere. Set at the first opening, for ever. */
extern const struct sink_ops *spool_sink;
void spool_sink_event(struct spool_writer *w, const struct spool_thread *self, uint16_t event,
		      uint64_t begin, uint64_t end, uint32_t flags, const void *args);
void spool_sink_entry(struct spool_writer *w, uint16_t event, uint32_t api, uint64_t since,
		      uint32_t stack, uint64_t object);
/* A committed entry of the names' region: threads, attributes and clocks are sent. */
void spool_sink_meta(struct spool_writer *w, const void *entry);
/* All of the process that is not a record. */
void spool_sink_all(struct spool_writer *w);
/* Now and then: has a session begun? */
void spool_sink_tick(struct spool_writer *w);
void spool_sink_end(struct spool_writer *w);

/* --- writer_control.c --- */

/* Acts on a request if there is one. Two loads otherwise; not on the path of an event. */
void spool_control_poll(struct spool_writer *w);

/* --- writer_clock.c --- */

/* A snapshot of all clocks into *out; returns the ticks that reading TSC and MONOTONIC took. */
uint64_t spool_clock_read(struct spool_meta_clock *out);
/* The first snapshot and the first guess of the counter's rate. */
void spool_clock_begin(struct spool_writer *w);
/* Takes a snapshot if one is due; when `now`, in any case. Switches clocks when they disagree. */
void spool_clock_snapshot(struct spool_writer *w, bool now);
/* The time of the next slow path of a thread that is there at `now`. */
uint64_t spool_clock_due(struct spool_writer *w, uint64_t now);
/* After a switch: a recent time that may be of either clock, in `clock`. */
uint64_t spool_clock_settle(uint64_t time, uint32_t clock);
uint64_t spool_monotonic_ns(void);

#endif
