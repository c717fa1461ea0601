/* SPDX-License-Identifier: Apache-2.0
 *
 * Cursors: the records of one thread, or of all merged by their ends, through windows of bounded size.
 */
#include "tracer/spool/reading.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS_BYTES (16u * 1024 * 1024) /* of all threads of a cursor together */
#define WINDOW_LEAST  4096u
#define WINDOW_MOST   (64u * 1024)
/* All that is looked at of a record, however long it is. */
#define RECORD_LOOK (sizeof(struct spool_record) + WL_ARGS_MAX * 8)
_Static_assert(RECORD_LOOK < WINDOW_LEAST, "a record is looked at within one window");

/* The records of one thread. */
struct stream {
	struct reading *r;
	uint32_t thread;
	uint32_t chunk, chunk_end; /* next of reading.chunks */
	const struct reading_chunk *current;
	uint32_t off;      /* of the next record in the current chunk's body */
	uint32_t clock_at; /* for reading_ns_near() */
	uint8_t *window;
	uint32_t window_room, window_from, window_to; /* offsets in the body */
	bool loaded; /* event is the next one; else `key` only bounds it from below */
	int64_t key;
	struct trace_event event;
};

struct trace_cursor {
	struct reading *r;
	struct stream *streams;
	uint32_t stream_count;
	uint32_t *heap; /* of streams that have something, least key first */
	uint32_t heap_count;
	bool moved; /* the top's event has been given out */
};

/* --- one thread --- */

/* True if the chunk still is what the index says: a flight recorder's may have been taken over. */
static bool chunk_same(struct reading *r, const struct reading_chunk *c)
{
	struct spool_chunk head;

	return reading_bytes(r, reading_chunk_offset(r, c->number), &head, sizeof(head)) &&
	       head.magic == SPOOL_CHUNK_MAGIC && head.type == SPOOL_CHUNK_RECORDS &&
	       head.thread == c->serial && head.sequence == c->sequence && head.clock == c->clock &&
	       (c->generation == UINT32_MAX || atomic_load(&head.generation) == c->generation);
}

/* Makes [off, off + bytes) of the body be in the window. */
static bool window_fill(struct stream *s, uint32_t off, uint32_t bytes)
{
	const struct reading_chunk *c = s->current;
	uint32_t left = c->committed - off;
	uint64_t from = reading_chunk_offset(s->r, c->number) + sizeof(struct spool_chunk) + off;

	if (s->window_to > s->window_from && off >= s->window_from && off + bytes <= s->window_to)
		return true;
	if (left > s->window_room)
		left = s->window_room;
	s->window_from = off;
	s->window_to = off + left;
	if (!reading_bytes(s->r, from, s->window, left) ||
	    (s->r->header.flight_recorder && !chunk_same(s->r, c))) {
		s->window_to = s->window_from;
		return false;
	}
	return true;
}

/* An argument as it lies in a record. */
static uint64_t arg_value(const uint8_t *at, enum wl_arg_type type)
{
	uint16_t u16;
	uint32_t u32;
	int32_t i32;
	uint64_t u64;

	switch (type) {
	case WL_TYPE_u8:
		return *at;
	case WL_TYPE_u16:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case WL_TYPE_u32:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	case WL_TYPE_i32:
		memcpy(&i32, at, sizeof(i32));
		return (uint64_t)(int64_t)i32;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

static void args_take(const struct reading *r, uint32_t number, const uint8_t *at,
		      struct trace_event *event)
{
	const struct wl_event_type *recorded = &r->table.types[number];
	const struct wl_event_type *known = r->table.known[number];
	const signed char *map = r->table.map[number];

	event->type = known ? known : recorded;
	if (known)
		memset(event->args, 0, known->arg_count * sizeof(event->args[0]));
	for (unsigned i = 0; i < recorded->arg_count; i++) {
		int to = known ? map[i] : (int)i;

		if (to >= 0)
			event->args[to] = arg_value(at, recorded->args[i].type);
		at += wl_arg_type_bytes(recorded->args[i].type);
	}
}

/* The record's own claims, against what there is. */
static bool record_sound(const struct reading *r, const struct spool_record *record, uint32_t left)
{
	uint32_t bytes = record->units * 8u;

	return bytes >= sizeof(*record) && bytes <= left && record->event < r->table.count &&
	       r->table.types[record->event].name &&
	       r->table.types[record->event].args_bytes <= bytes - sizeof(*record);
}

static bool stream_open_next(struct stream *s)
{
	s->current = s->chunk < s->chunk_end ? &s->r->chunks[s->chunk++] : NULL;
	s->off = 0;
	s->window_from = s->window_to = 0;
	return s->current != NULL;
}

/* The next record into s->event. False at the end. */
static bool stream_next(struct stream *s)
{
	struct reading *r = s->r;

	for (;;) {
		const struct spool_record *record;
		uint32_t left, look;

		while (!s->current || s->off >= s->current->committed)
			if (!stream_open_next(s))
				return false;
		left = s->current->committed - s->off;
		look = left < RECORD_LOOK ? left : (uint32_t)RECORD_LOOK;
		if (!window_fill(s, s->off, look)) {
			if (!r->header.flight_recorder)
				reading_damaged(r, "chunk %u cannot be read", s->current->number);
			s->current = NULL;
			continue;
		}
		record = (const struct spool_record *)(s->window + (s->off - s->window_from));
		if (left < sizeof(*record) || !record_sound(r, record, left)) {
			reading_damaged(r, "chunk %u is damaged at %u: the rest of it is left out",
					s->current->number, s->off);
			s->current = NULL;
			continue;
		}
		s->off += record->units * 8u;
		s->event.thread = s->thread;
		s->event.flags = record->flags;
		s->event.begin_ns =
			reading_ns_near(r, s->current->clock, record->begin, &s->clock_at);
		s->event.end_ns = reading_ns_near(r, s->current->clock,
						  record->begin + record->duration, &s->clock_at);
		if (s->event.end_ns < s->event.begin_ns)
			s->event.end_ns = s->event.begin_ns;
		args_take(r, record->event, (const uint8_t *)(record + 1), &s->event);
		return true;
	}
}

void reading_chunk_walk(struct reading *r, struct reading_chunk *chunk)
{
	uint32_t room = chunk->committed < WINDOW_MOST ? chunk->committed : WINDOW_MOST;
	struct stream s = {.r = r, .current = chunk, .window = malloc(room), .window_room = room};
	bool first = true;

	s.thread = chunk->thread;
	while (s.window && s.off < chunk->committed) {
		uint32_t left = chunk->committed - s.off;
		const struct spool_record *record;
		uint64_t end;

		if (!window_fill(&s, s.off, left < sizeof(*record) ? left : sizeof(*record)))
			break;
		record = (const struct spool_record *)(s.window + (s.off - s.window_from));
		if (left < sizeof(*record) || !record_sound(r, record, left))
			break; /* said when the records are read */
		end = record->begin + record->duration;
		if (first || record->begin < chunk->begin_least)
			chunk->begin_least = record->begin;
		if (first || end > chunk->end_greatest)
			chunk->end_greatest = end;
		first = false;
		s.off += record->units * 8u;
	}
	free(s.window);
}

/* --- all threads, merged --- */

static bool heap_before(const struct trace_cursor *c, uint32_t a, uint32_t b)
{
	const struct stream *x = &c->streams[a], *y = &c->streams[b];

	return x->key != y->key ? x->key < y->key : x->thread < y->thread;
}

static void heap_sink(struct trace_cursor *c, uint32_t at)
{
	uint32_t moving = c->heap[at];

	for (;;) {
		uint32_t child = at * 2 + 1;

		if (child >= c->heap_count)
			break;
		if (child + 1 < c->heap_count && heap_before(c, c->heap[child + 1], c->heap[child]))
			child++;
		if (!heap_before(c, c->heap[child], moving))
			break;
		c->heap[at] = c->heap[child];
		at = child;
	}
	c->heap[at] = moving;
}

/* Brings the top stream to its next record; takes it out when it has none, its window too. */
static int top_advance(struct trace_cursor *c)
{
	struct stream *s = &c->streams[c->heap[0]];

	if (!s->window) {
		s->window = malloc(s->window_room);
		if (!s->window)
			return -ENOMEM;
	}
	s->loaded = stream_next(s);
	if (s->loaded) {
		s->key = s->event.end_ns;
	} else {
		free(s->window);
		s->window = NULL;
		c->heap[0] = c->heap[--c->heap_count];
	}
	if (c->heap_count)
		heap_sink(c, 0);
	return 0;
}

static void stream_set_up(struct trace_cursor *c, struct stream *s, uint32_t thread,
			  uint32_t window)
{
	struct reading *r = c->r;

	s->r = r;
	s->thread = thread;
	s->chunk = r->first_chunk[thread];
	s->chunk_end = r->first_chunk[thread + 1];
	s->window_room = window;
	if (s->chunk == s->chunk_end)
		return;
	/* No record of the chunk ends before the first of them begins: enough to wait its turn without
	 * a window. */
	s->key = reading_ns(r, r->chunks[s->chunk].clock, r->chunks[s->chunk].begin_least);
	c->heap[c->heap_count++] = (uint32_t)(s - c->streams);
}

struct trace_cursor *reading_cursor_open(struct trace_reader *reader, int thread, int *error)
{
	struct reading *r = (struct reading *)reader;
	struct trace_cursor *c;
	uint32_t count = thread >= 0 ? 1 : r->thread_count, window;

	*error = 0;
	if (thread >= 0 && (uint32_t)thread >= r->thread_count) {
		*error = -EINVAL;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c) {
		c->r = r;
		c->streams = calloc(count + 1u, sizeof(*c->streams));
		c->heap = calloc(count + 1u, sizeof(*c->heap));
	}
	if (!c || !c->streams || !c->heap) {
		if (c)
			reading_cursor_close(c);
		*error = -ENOMEM;
		return NULL;
	}
	c->stream_count = count;
	window = WINDOWS_BYTES / (count + 1u);
	window = window < WINDOW_LEAST ? WINDOW_LEAST : window;
	window = window > WINDOW_MOST ? WINDOW_MOST : window & ~7u;
	for (uint32_t i = 0; i < count; i++)
		stream_set_up(c, &c->streams[i], thread >= 0 ? (uint32_t)thread : i, window);
	for (uint32_t i = c->heap_count; i-- > 0;)
		heap_sink(c, i);
	return c;
}

int reading_cursor_next(struct trace_cursor *c, struct trace_event *event)
{
	for (;;) {
		struct stream *s;
		int rc;

		if (!c->heap_count)
			return 0;
		s = &c->streams[c->heap[0]];
		if (s->loaded && !c->moved) {
			/* no more arguments than there are: the whole is 200 bytes long */
			memcpy(event, &s->event,
			       offsetof(struct trace_event, args) +
				       s->event.type->arg_count * sizeof(event->args[0]));
			c->moved = true;
			return 1;
		}
		c->moved = false;
		rc = top_advance(c);
		if (rc)
			return rc;
	}
}

void reading_cursor_close(struct trace_cursor *c)
{
	for (uint32_t i = 0; i < c->stream_count; i++)
		free(c->streams[i].window);
	free(c->streams);
	free(c->heap);
	free(c);
}
