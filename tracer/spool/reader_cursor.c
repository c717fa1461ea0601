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
#define WINDOW_SLACK  8u /* an argument is taken by a load of so many bytes */
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
	/* The next one, in the window; NULL: `key` only bounds it from below. */
	const struct spool_record *record;
	int64_t begin_ns, key; /* key: its end */
};

struct trace_cursor {
	struct reading *r;
	struct stream *streams;
	uint32_t stream_count;
	uint32_t *heap; /* of streams that have something, least key first */
	uint32_t heap_count;
	bool moved; /* the top's record has been given out */
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

/* --- arguments --- */

/* How one argument is taken from a record: 8 bytes from `from` on, of which shifts leave its own. */
struct step {
	uint16_t from;
	uint8_t to; /* index in the event's args */
	uint8_t shift;
	bool is_signed;
};

/* How the arguments of a recorded type are taken. */
struct reading_plan {
	const struct wl_event_type *type; /* this build's where known, else the recording's */
	unsigned count;                   /* of steps */
	bool partly;                      /* arguments of the type are not in the recording: 0 */
	struct step steps[WL_ARGS_MAX];
};

static void plan_make(const struct wl_event_table *table, uint32_t number,
		      struct reading_plan *plan)
{
	const struct wl_event_type *recorded = &table->types[number];
	const struct wl_event_type *known = table->known[number];
	unsigned from = 0;
	uint32_t taken = 0;

	plan->type = known ? known : recorded;
	for (unsigned i = 0; i < recorded->arg_count; i++) {
		enum wl_arg_type type = recorded->args[i].type;
		unsigned bytes = wl_arg_type_bytes(type);
		int to = known ? table->map[number][i] : (int)i;

		if (to >= 0) {
			plan->steps[plan->count++] =
				(struct step){.from = (uint16_t)from,
					      .to = (uint8_t)to,
					      .shift = (uint8_t)(64 - 8 * bytes),
					      .is_signed = type == WL_TYPE_i32};
			taken |= 1u << to;
		}
		from += bytes;
	}
	plan->partly = taken + 1 != 1u << plan->type->arg_count;
}

struct reading_plan *reading_plans(const struct wl_event_table *table)
{
	struct reading_plan *plans = calloc(table->count + 1u, sizeof(*plans));

	for (uint32_t i = 0; plans && i < table->count; i++)
		if (table->types[i].name)
			plan_make(table, i, &plans[i]);
	return plans;
}

/* Behind the arguments there are 8 bytes that may be read (WINDOW_SLACK). */
static void args_take(const struct reading_plan *plan, const uint8_t *at, struct trace_event *event)
{
	event->type = plan->type;
	if (plan->partly)
		memset(event->args, 0, plan->type->arg_count * sizeof(event->args[0]));
	for (unsigned i = 0; i < plan->count; i++) {
		const struct step *step = &plan->steps[i];
		uint64_t value;

		memcpy(&value, at + step->from, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		value <<= step->shift;
#endif
		event->args[step->to] = step->is_signed ? (uint64_t)((int64_t)value >> step->shift)
							: value >> step->shift;
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

/* Goes to the next record, its arguments still in the window. False at the end. */
static bool stream_next(struct stream *s)
{
	struct reading *r = s->r;

	s->record = NULL;
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
		s->record = record;
		s->begin_ns = reading_ns_near(r, s->current->clock, record->begin, &s->clock_at);
		s->key = reading_ns_near(r, s->current->clock, record->begin + record->duration,
					 &s->clock_at);
		if (s->key < s->begin_ns)
			s->key = s->begin_ns;
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
		s->window = calloc(1, s->window_room + WINDOW_SLACK);
		if (!s->window)
			return -ENOMEM;
	}
	if (!stream_next(s)) {
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
		if (s->record && !c->moved) {
			event->thread = s->thread;
			event->flags = s->record->flags;
			event->begin_ns = s->begin_ns;
			event->end_ns = s->key;
			args_take(&c->r->plans[s->record->event], (const uint8_t *)(s->record + 1),
				  event);
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
