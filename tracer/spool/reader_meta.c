/* SPDX-License-Identifier: Apache-2.0
 *
 * The META region: at the opening every entry is looked at once; what only records refer to (strings,
 * stacks, modules) is read when asked for.
 */
#include "tracer/spool/reading.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REFRESHES_MAX  64   /* of one chunk, when something in it is not there yet */
#define ATTRIBUTES_MAX 4096 /* that a recording may say about its process */

/* --- the walk at the opening --- */

struct walk {
	struct reading *r;
	struct spool_meta_thread *begins;
	uint32_t begin_count, begin_room;
	struct spool_meta_thread_end *ends;
	uint32_t end_count, end_room;
};

bool reading_thread_add(struct reading *r, uint32_t serial, int64_t tid)
{
	if (!reading_grow(&r->threads, r->thread_count, &r->thread_room, sizeof(*r->threads)))
		return false;
	r->threads[r->thread_count++] = (struct trace_thread){
		.serial = serial,
		.tid = tid,
		.name = "",
	};
	return true;
}

static bool clock_take(struct reading *r, const struct spool_meta_clock *c)
{
	if (!reading_grow(&r->clocks, r->clock_count, &r->clock_room, sizeof(*r->clocks)))
		return false;
	r->clocks[r->clock_count++] = (struct trace_clock){
		.monotonic_ns = c->monotonic_ns,
		.boottime_ns = c->boottime_ns,
		.realtime_ns = c->realtime_ns,
		.tsc = c->tsc,
	};
	return true;
}

/* What one committed entry says. False without memory. */
static bool entry_take(struct walk *w, const uint8_t *entry, uint32_t kind, uint32_t bytes)
{
	struct reading *r = w->r;

	switch (kind) {
	case SPOOL_META_THREAD:
		if (bytes < sizeof(*w->begins))
			break;
		if (!reading_grow(&w->begins, w->begin_count, &w->begin_room, sizeof(*w->begins)))
			return false;
		memcpy(&w->begins[w->begin_count++], entry, sizeof(*w->begins));
		break;
	case SPOOL_META_THREAD_END:
		if (bytes < sizeof(*w->ends))
			break;
		if (!reading_grow(&w->ends, w->end_count, &w->end_room, sizeof(*w->ends)))
			return false;
		memcpy(&w->ends[w->end_count++], entry, sizeof(*w->ends));
		break;
	case SPOOL_META_CLOCK:
		if (bytes >= sizeof(struct spool_meta_clock))
			return clock_take(r, (const struct spool_meta_clock *)entry);
		break;
	case SPOOL_META_ATTRIBUTE:
		if (bytes < sizeof(*r->pairs) || r->pair_count == ATTRIBUTES_MAX)
			break;
		if (!reading_grow(&r->pairs, r->pair_count, &r->pair_room, sizeof(*r->pairs)))
			return false;
		memcpy(&r->pairs[r->pair_count++], entry, sizeof(*r->pairs));
		break;
	default: /* strings, stacks, modules; kinds of later versions */
		break;
	}
	return true;
}

static int chunk_walk(struct walk *w, const uint8_t *chunk, uint32_t number)
{
	uint32_t end = w->r->header.chunk_bytes;

	for (uint32_t off = sizeof(struct spool_chunk); off < end;) {
		uint32_t head, bytes;

		memcpy(&head, chunk + off, sizeof(head));
		bytes = SPOOL_META_BYTES(head);
		if (!head)
			break;
		if (bytes < 8 || bytes % 8 || bytes > end - off) {
			reading_damaged(w->r, "an entry of chunk %u has no sensible length",
					number);
			break;
		}
		if ((head & SPOOL_META_COMMITTED) &&
		    !entry_take(w, chunk + off, SPOOL_META_KIND(head), bytes))
			return -ENOMEM;
		off += bytes;
	}
	return 0;
}

/* --- threads --- */

static int by_serial_and_time(const void *a, const void *b)
{
	const struct spool_meta_thread *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return (x->monotonic_ns > y->monotonic_ns) - (x->monotonic_ns < y->monotonic_ns);
}

static int by_serial(const void *a, const void *b)
{
	const struct trace_thread *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

/* One thread a serial, with its newest name. */
static int threads_begin(struct walk *w)
{
	struct reading *r = w->r;

	if (w->begin_count)
		qsort(w->begins, w->begin_count, sizeof(*w->begins), by_serial_and_time);
	for (uint32_t i = 0; i < w->begin_count; i++) {
		const struct spool_meta_thread *t = &w->begins[i];
		const char *name;

		if (!i || t->serial != w->begins[i - 1].serial) {
			if (!reading_thread_add(r, t->serial, t->tid))
				return -ENOMEM;
			r->threads[r->thread_count - 1].first_ns = t->monotonic_ns;
			r->threads[r->thread_count - 1].last_ns = t->monotonic_ns;
		}
		name = reading_string(r, t->name);
		if (*name)
			r->threads[r->thread_count - 1].name = name;
	}
	return 0;
}

static void threads_end(struct walk *w)
{
	struct reading *r = w->r;

	for (uint32_t i = 0; i < w->end_count; i++) {
		const struct spool_meta_thread_end *e = &w->ends[i];
		int t = reading_thread(r, e->serial);

		if (t < 0)
			continue;
		r->thread_ended[t] = true;
		for (int d = 0; d < TRACE_DROP_MAX; d++)
			r->threads[t].drops[d] = e->drops[d];
	}
}

int reading_threads_sort(struct reading *r)
{
	uint32_t kept = 0;

	if (r->thread_count)
		qsort(r->threads, r->thread_count, sizeof(*r->threads), by_serial);
	for (uint32_t i = 0; i < r->thread_count; i++)
		if (!kept || r->threads[kept - 1].serial != r->threads[i].serial)
			r->threads[kept++] = r->threads[i];
	r->thread_count = kept;
	r->sorted_count = kept;
	free(r->thread_ended);
	r->thread_ended = calloc(kept + 1, sizeof(*r->thread_ended));
	return r->thread_ended ? 0 : -ENOMEM;
}

int reading_thread(const struct reading *r, uint32_t serial)
{
	const struct trace_thread wanted = {.serial = serial};
	const struct trace_thread *t = NULL;

	if (r->sorted_count)
		t = bsearch(&wanted, r->threads, r->sorted_count, sizeof(wanted), by_serial);
	return t ? (int)(t - r->threads) : -1;
}

/* The records' own say: threads whose entry did not get into the region. */
static int threads_of_chunks(struct reading *r)
{
	for (uint32_t i = 0; i < r->chunk_count; i++) {
		uint32_t serial = r->chunks[i].serial;

		if (i && serial == r->chunks[i - 1].serial)
			continue;
		if (reading_thread(r, serial) < 0 && !reading_thread_add(r, serial, 0))
			return -ENOMEM;
	}
	return 0;
}

int reading_meta(struct reading *r)
{
	uint8_t *chunk = malloc(r->header.chunk_bytes);
	struct walk w = {.r = r};
	int rc = chunk ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < r->meta_count; i++)
		if (reading_bytes(r, reading_chunk_offset(r, r->metas[i].number), chunk,
				  r->header.chunk_bytes))
			rc = chunk_walk(&w, chunk, r->metas[i].number);
		else
			reading_damaged(r, "the names in chunk %u are cut off", r->metas[i].number);
	free(chunk);
	if (!rc)
		rc = threads_begin(&w);
	if (!rc)
		rc = reading_threads_sort(r);
	if (!rc)
		rc = reading_slots_threads(r);
	if (!rc)
		rc = reading_threads_sort(r);
	if (!rc)
		rc = threads_of_chunks(r);
	if (!rc)
		rc = reading_threads_sort(r);
	if (!rc)
		threads_end(&w);
	free(w.begins);
	free(w.ends);
	return rc;
}

/* --- what records refer to --- */

static struct reading_meta *meta_of(struct reading *r, uint32_t number)
{
	uint32_t low = 0, high = r->meta_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (r->metas[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->meta_count && r->metas[low].number == number ? &r->metas[low] : NULL;
}

/* In the same place again, since texts in it have been given out; what is committed never changes. */
static bool meta_load(struct reading *r, struct reading_meta *meta)
{
	uint32_t bytes = r->header.chunk_bytes;

	if (!meta->bytes)
		meta->bytes = calloc(1, bytes + 1);
	return meta->bytes &&
	       reading_bytes(r, reading_chunk_offset(r, meta->number), meta->bytes, bytes);
}

/* A committed entry of that kind, with *room bytes from its beginning to its end. NULL. */
static const uint8_t *entry_find(struct reading *r, uint32_t id, enum spool_meta_kind kind,
				 uint32_t least, uint32_t *room)
{
	uint64_t offset = (uint64_t)id * 8, in_data;
	struct reading_meta *meta;
	uint32_t off, head;

	if (offset < r->header.data_offset)
		return NULL;
	in_data = offset - r->header.data_offset;
	if (in_data / r->header.chunk_bytes >= r->header.chunk_max)
		return NULL;
	meta = meta_of(r, (uint32_t)(in_data / r->header.chunk_bytes));
	off = (uint32_t)(in_data % r->header.chunk_bytes);
	if (!meta || off < sizeof(struct spool_chunk) || (!meta->bytes && !meta_load(r, meta)))
		return NULL;
	memcpy(&head, meta->bytes + off, sizeof(head));
	/* Not there when the chunk was read: the process may be writing on. */
	if (!(head & SPOOL_META_COMMITTED) && meta->refreshes < REFRESHES_MAX) {
		meta->refreshes++;
		if (!meta_load(r, meta))
			return NULL;
		memcpy(&head, meta->bytes + off, sizeof(head));
	}
	*room = SPOOL_META_BYTES(head);
	if (!(head & SPOOL_META_COMMITTED) || SPOOL_META_KIND(head) != kind || *room < least ||
	    *room > r->header.chunk_bytes - off)
		return NULL;
	return meta->bytes + off;
}

const char *reading_string(struct reading *r, uint32_t id)
{
	const struct spool_meta_string *s;
	uint32_t room;

	if (!id)
		return "";
	s = (const struct spool_meta_string *)entry_find(r, id, SPOOL_META_STRING, sizeof(*s) + 1,
							 &room);
	if (!s || s->length >= room - sizeof(*s) || s->text[s->length])
		return "?";
	return s->text;
}

static void frame_native(struct reading *r, const struct spool_meta_frame *from,
			 struct trace_frame *to)
{
	const struct spool_meta_module *m;
	uint32_t room;

	to->kind = TRACE_FRAME_NATIVE;
	to->offset = from->where;
	to->file = from->what ? "?" : "";
	m = (const struct spool_meta_module *)entry_find(r, from->what, SPOOL_META_MODULE,
							 sizeof(*m), &room);
	if (!m)
		return;
	to->file = reading_string(r, m->path);
	if (m->build_id_bytes <= sizeof(m->build_id)) {
		to->build_id_bytes = m->build_id_bytes;
		memcpy(to->build_id, m->build_id, sizeof(to->build_id));
	}
}

unsigned reading_stack(struct reading *r, uint32_t id, struct trace_frame *frames, unsigned max)
{
	const struct spool_meta_stack *s;
	uint32_t room, count;

	s = id ? (const struct spool_meta_stack *)entry_find(r, id, SPOOL_META_STACK, sizeof(*s),
							     &room)
	       : NULL;
	if (!s)
		return 0;
	count = (room - (uint32_t)sizeof(*s)) / (uint32_t)sizeof(s->frames[0]);
	if (s->count < count)
		count = s->count;
	if (count > max)
		count = max;
	for (uint32_t i = 0; i < count; i++) {
		const struct spool_meta_frame *from = &s->frames[i];
		struct trace_frame *to = &frames[i];

		memset(to, 0, sizeof(*to));
		to->awaited = (from->kind & SPOOL_FRAME_AWAITED) != 0;
		if ((from->kind & 0xff) == TRACE_FRAME_PYTHON) {
			to->kind = TRACE_FRAME_PYTHON;
			to->function = reading_string(r, from->name);
			to->file = reading_string(r, from->what);
			to->line = (uint32_t)from->where;
		} else {
			frame_native(r, from, to);
		}
	}
	return count;
}
