/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the reader. The file may hold anything and change at any moment: nothing read from it is
 * used before it has been checked, and nothing is mapped.
 *
 * A reader is a snapshot: chunks and how far each was committed are taken when it is opened, so that
 * every cursor sees the same records while the process goes on writing.
 */
#ifndef WAYLAY_TRACER_SPOOL_READING_H
#define WAYLAY_TRACER_SPOOL_READING_H

#include "tracer/spool/spool.h"

#define READING_DAMAGE_MAX 400

struct reading_chunk {
	uint64_t begin_least, end_greatest; /* in its clock; both 0 when not known */
	uint32_t number;
	uint32_t serial;
	uint32_t thread; /* index, once threads are known */
	uint32_t sequence;
	uint32_t committed;
	uint32_t generation;
	uint16_t clock;
	bool closed;
};

struct reading_meta {
	uint32_t number; /* of the chunk */
	uint32_t refreshes;
	uint8_t *bytes; /* chunk_bytes and a NUL; NULL until something in it is asked for */
};

struct reading {
	struct trace_reader base; /* first: the interface's handle */
	int fd;
	char *path;
	uint64_t file_bytes;
	struct spool_header header; /* checked, texts terminated */
	struct wl_event_table table;
	struct reading_plan *plans; /* by number in the table */
	char damage[READING_DAMAGE_MAX];

	struct reading_chunk
		*chunks; /* of records, by thread and sequence once the index is made */
	uint32_t chunk_count, chunk_room;
	uint32_t *first_chunk; /* per thread index, and one more: its chunks */
	struct reading_meta *metas;
	uint32_t meta_count, meta_room;
	uint32_t *slot_chunks;
	uint32_t slot_count, slot_room;

	struct trace_thread *threads; /* by serial; base.threads */
	uint32_t thread_count, thread_room;
	uint32_t sorted_count; /* of them, in order and found by reading_thread() */
	bool *thread_ended;

	struct trace_clock *clocks;
	double *rates; /* ns a tick from clock i to i + 1 */
	uint32_t clock_count, clock_room;
	double rate_outside; /* before the first and after the last */

	struct spool_meta_attribute *pairs;
	uint32_t pair_count, pair_room;
	const char *(*attributes)[2];
	struct trace_inflight *inflight;
	uint32_t inflight_count, inflight_room;
};

/* Reads exactly `bytes`; false (and damage noted) when they are not there. */
bool reading_bytes(struct reading *r, uint64_t offset, void *to, size_t bytes);
/* Notes what could not be read; the first few are kept in words. */
void reading_damaged(struct reading *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Makes room for one more in an array; false without memory. */
bool reading_grow(void *array, uint32_t count, uint32_t *room, size_t size);
uint64_t reading_chunk_offset(const struct reading *r, uint32_t number);

/* --- reader_index.c: chunks, threads, calls in flight. 0 or -errno. --- */
int reading_index(struct reading *r);
/* Adds the threads that only slots name. */
int reading_slots_threads(struct reading *r);
/* Index of the thread with that serial, -1. */
int reading_thread(const struct reading *r, uint32_t serial);

/* --- reader_meta.c --- */
int reading_meta(struct reading *r); /* after the chunks have been found */
const char *reading_string(struct reading *r, uint32_t id);
unsigned reading_stack(struct reading *r, uint32_t id, struct trace_frame *frames, unsigned max);
/* Adds a thread that only its records or its slot name. */
bool reading_thread_add(struct reading *r, uint32_t serial, int64_t tid);
int reading_threads_sort(struct reading *r);

/* --- reader_clock.c --- */
int reading_clocks(struct reading *r); /* sorts, drops what contradicts, measures rates */
int64_t reading_ns(const struct reading *r, uint16_t clock, uint64_t time);
/* The same with a memory for the place, for times that come in order. */
int64_t reading_ns_far(const struct reading *r, uint16_t clock, uint64_t time, uint32_t *place);
/* The same for most times at once: between the same two snapshots as the one before. */
static inline int64_t reading_ns_near(const struct reading *r, uint16_t clock, uint64_t time,
				      uint32_t *place)
{
	const struct trace_clock *c = &r->clocks[*place];

	if (clock == SPOOL_CLOCK_TSC && *place + 1 < r->clock_count && time >= c->tsc &&
	    time < c[1].tsc && c->monotonic_ns > -(int64_t)1e18 &&
	    c[1].monotonic_ns < (int64_t)1e18)
		return c->monotonic_ns +
		       (int64_t)((double)(int64_t)(time - c->tsc) * r->rates[*place] + 0.5);
	return reading_ns_far(r, clock, time, place);
}

/* --- reader_cursor.c --- */
/* How the records of each type are taken apart; NULL without memory. To be freed. */
struct reading_plan *reading_plans(const struct wl_event_table *table);
struct trace_cursor *reading_cursor_open(struct trace_reader *reader, int thread, int *error);
int reading_cursor_next(struct trace_cursor *cursor, struct trace_event *event);
void reading_cursor_close(struct trace_cursor *cursor);
/* Walks the records of a chunk that was not closed, for its bounds. */
void reading_chunk_walk(struct reading *r, struct reading_chunk *chunk);

#endif
