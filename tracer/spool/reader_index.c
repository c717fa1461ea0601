/* SPDX-License-Identifier: Apache-2.0
 *
 * Which chunks there are, whose they are and in what order; and which calls had not returned.
 */
#include "tracer/spool/reading.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WINDOW_ENTRIES 2048

/* --- chunks --- */

static int chunk_add(struct reading *r, const struct reading_chunk *chunk)
{
	if (!reading_grow(&r->chunks, r->chunk_count, &r->chunk_room, sizeof(*r->chunks)))
		return -ENOMEM;
	r->chunks[r->chunk_count++] = *chunk;
	return 0;
}

static int meta_add(struct reading *r, uint32_t number)
{
	if (!reading_grow(&r->metas, r->meta_count, &r->meta_room, sizeof(*r->metas)))
		return -ENOMEM;
	r->metas[r->meta_count++] = (struct reading_meta){.number = number};
	return 0;
}

static int slots_add(struct reading *r, uint32_t number)
{
	if (!reading_grow(&r->slot_chunks, r->slot_count, &r->slot_room, sizeof(*r->slot_chunks)))
		return -ENOMEM;
	r->slot_chunks[r->slot_count++] = number;
	return 0;
}

/* How much of a chunk's body is in the file. */
static uint32_t body_there(const struct reading *r, uint32_t number)
{
	uint64_t from = reading_chunk_offset(r, number) + sizeof(struct spool_chunk);
	uint32_t all = r->header.chunk_bytes - (uint32_t)sizeof(struct spool_chunk);

	if (from >= r->file_bytes)
		return 0;
	return r->file_bytes - from < all ? (uint32_t)(r->file_bytes - from) : all;
}

static uint32_t committed_checked(struct reading *r, uint32_t number, uint32_t committed)
{
	uint32_t there = body_there(r, number);

	if (committed > there || committed % 8) {
		reading_damaged(r, "chunk %u is %s", number,
				there < committed && committed % 8 == 0 ? "cut off"
									: "damaged (length)");
		committed = (committed < there ? committed : there) & ~7u;
	}
	return committed;
}

/* A chunk's own header. False: it holds nothing (yet). */
static bool header_read(struct reading *r, uint32_t number, struct spool_chunk *head)
{
	if (reading_chunk_offset(r, number) + sizeof(*head) > r->file_bytes ||
	    !reading_bytes(r, reading_chunk_offset(r, number), head, sizeof(*head)))
		return false;
	/* Its maker may have got no further, or the flight recorder is at it. */
	if (head->magic == 0 || (atomic_load(&head->generation) & 1))
		return false;
	if (head->magic == SPOOL_CHUNK_MAGIC && head->number == number)
		return true;
	reading_damaged(r, "chunk %u has no good header", number);
	return false;
}

/* A chunk of records by its own header: still being filled, or the directory says nothing. */
static int records_by_header(struct reading *r, uint32_t number)
{
	struct reading_chunk chunk = {.number = number};
	struct spool_chunk head;

	if (!header_read(r, number, &head) || head.type != SPOOL_CHUNK_RECORDS)
		return 0;
	chunk.generation = atomic_load(&head.generation);
	chunk.serial = head.thread;
	chunk.sequence = head.sequence;
	chunk.clock = head.clock;
	chunk.closed = atomic_load(&head.closed) != 0;
	if (chunk.closed) {
		chunk.begin_least = head.begin_least;
		chunk.end_greatest = head.end_greatest;
	}
	chunk.committed = committed_checked(r, number, atomic_load(&head.committed));
	return chunk_add(r, &chunk);
}

static int records_take(struct reading *r, const struct spool_dir_entry *e, uint32_t number)
{
	struct reading_chunk chunk = {
		.begin_least = e->begin_least,
		.end_greatest = e->end_greatest,
		.number = number,
		.serial = e->thread,
		.sequence = e->sequence,
		.generation = UINT32_MAX, /* not looked at yet */
		.clock = e->clock,
		.closed = true,
	};

	/* In a flight recorder an entry may be older than its chunk. */
	if (e->type != SPOOL_CHUNK_RECORDS || !e->committed || r->header.flight_recorder)
		return records_by_header(r, number);
	chunk.committed = committed_checked(r, number, e->committed);
	return chunk_add(r, &chunk);
}

static int others_take(struct reading *r, const struct spool_dir_entry *e, uint32_t number)
{
	struct spool_chunk head;

	if ((e->type == SPOOL_CHUNK_RECORDS && e->committed) || !header_read(r, number, &head))
		return 0;
	if (head.type == SPOOL_CHUNK_META)
		return meta_add(r, number);
	if (head.type == SPOOL_CHUNK_SLOTS)
		return slots_add(r, number);
	return 0;
}

static uint64_t chunks_there(const struct reading *r)
{
	uint64_t data = r->header.data_offset, chunks = 0;

	if (r->file_bytes > data)
		chunks = (r->file_bytes - data - 1) / r->header.chunk_bytes + 1;
	return chunks < r->header.chunk_max ? chunks : r->header.chunk_max;
}

/* Every entry of the directory, the last one first or last. */
static int directory_walk(struct reading *r, bool last_first,
			  int (*take)(struct reading *r, const struct spool_dir_entry *e,
				      uint32_t number))
{
	struct spool_dir_entry *entries = malloc(WINDOW_ENTRIES * sizeof(*entries));
	uint64_t chunks = chunks_there(r);
	uint64_t windows = (chunks + WINDOW_ENTRIES - 1) / WINDOW_ENTRIES;
	int rc = entries ? 0 : -ENOMEM;

	for (uint64_t w = 0; !rc && w < windows; w++) {
		uint64_t n = (last_first ? windows - 1 - w : w) * WINDOW_ENTRIES;
		uint64_t count = chunks - n < WINDOW_ENTRIES ? chunks - n : WINDOW_ENTRIES;

		if (!reading_bytes(r, r->header.directory_offset + n * sizeof(*entries), entries,
				   count * sizeof(*entries)))
			memset(entries, 0, count * sizeof(*entries));
		for (uint64_t i = 0; !rc && i < count; i++) {
			uint64_t at = last_first ? count - 1 - i : i;

			rc = take(r, &entries[at], (uint32_t)(n + at));
		}
	}
	free(entries);
	return rc;
}

/*
 * The process may be writing: the newest chunks are looked at first, so that whoever has a later chunk
 * of a thread in sight also has all of its earlier ones in full. What records refer to was written
 * before them, and is therefore looked for after them.
 */
static int chunks_find(struct reading *r)
{
	struct stat st;
	int rc;

	if (r->header.data_offset > r->file_bytes)
		reading_damaged(r, "the file is cut off before its first chunk");
	rc = directory_walk(r, true, records_take);
	if (!rc && fstat(r->fd, &st) == 0 && (uint64_t)st.st_size > r->file_bytes)
		r->file_bytes = (uint64_t)st.st_size;
	return rc ? rc : directory_walk(r, false, others_take);
}

static int by_thread_and_sequence(const void *a, const void *b)
{
	const struct reading_chunk *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Widens the thread's span by what the chunk holds. */
static void span_take(struct reading *r, struct reading_chunk *c, bool *spanned)
{
	struct trace_thread *thread = &r->threads[c->thread];
	int64_t begin, end;

	if (!c->closed)
		reading_chunk_walk(r, c);
	if (!c->committed)
		return;
	begin = reading_ns(r, c->clock, c->begin_least);
	end = reading_ns(r, c->clock, c->end_greatest);
	if (!*spanned || begin < thread->first_ns)
		thread->first_ns = begin;
	if (!*spanned || end > thread->last_ns)
		thread->last_ns = end;
	*spanned = true;
}

/* Each thread's chunks, in the order in which they were filled. */
static int chunks_order(struct reading *r)
{
	uint32_t t = 0;
	bool spanned = false;

	r->first_chunk = calloc(r->thread_count + 1u, sizeof(*r->first_chunk));
	if (!r->first_chunk)
		return -ENOMEM;
	if (r->chunk_count)
		qsort(r->chunks, r->chunk_count, sizeof(*r->chunks), by_thread_and_sequence);
	for (uint32_t i = 0; i < r->chunk_count; i++) {
		struct reading_chunk *c = &r->chunks[i];

		while (r->threads[t].serial < c->serial) {
			r->first_chunk[++t] = i;
			spanned = false;
		}
		c->thread = t;
		span_take(r, c, &spanned);
	}
	while (t < r->thread_count)
		r->first_chunk[++t] = r->chunk_count;
	return 0;
}

/* --- slots --- */

/* A slot whose owner may be writing to it: the same call before and after. */
static bool slot_read(struct reading *r, uint64_t offset, struct spool_slot *slot)
{
	struct spool_slot again;

	for (int i = 0; i < 5; i++) {
		if (!reading_bytes(r, offset, slot, sizeof(*slot)) ||
		    !reading_bytes(r, offset, &again, sizeof(again)))
			return false;
		if (atomic_load(&slot->thread) == atomic_load(&again.thread) &&
		    atomic_load(&slot->call) == atomic_load(&again.call) &&
		    atomic_load(&slot->since) == atomic_load(&again.since))
			return true;
	}
	return false;
}

static int slot_take(struct reading *r, uint64_t offset, struct spool_slot *slot)
{
	int t = reading_thread(r, atomic_load(&slot->thread));
	uint64_t call;
	uint32_t event;
	struct trace_inflight *in;

	/* Counted for a thread after its end. */
	for (int d = 0; d < TRACE_DROP_MAX && !atomic_load(&slot->thread); d++)
		r->base.info.drops[d] += atomic_load(&slot->drops[d]);
	if (t < 0 || r->thread_ended[t])
		return 0;
	if (!r->threads[t].tid)
		r->threads[t].tid = slot->tid;
	for (int d = 0; d < TRACE_DROP_MAX; d++)
		r->threads[t].drops[d] += atomic_load(&slot->drops[d]);
	if (!atomic_load(&slot->call) || !slot_read(r, offset, slot))
		return 0;
	call = atomic_load(&slot->call);
	event = (uint32_t)(call >> 32);
	if (!call || event >= r->table.count || !r->table.types[event].name)
		return 0;
	if (!reading_grow(&r->inflight, r->inflight_count, &r->inflight_room, sizeof(*in)))
		return -ENOMEM;
	in = &r->inflight[r->inflight_count++];
	*in = (struct trace_inflight){
		.thread = (uint32_t)t,
		.type = r->table.known[event] ? r->table.known[event] : &r->table.types[event],
		.api = reading_string(r, (uint32_t)call),
		.stack = atomic_load(&slot->stack),
		.since_ns = reading_ns(r, (uint16_t)atomic_load(&slot->clock),
				       atomic_load(&slot->since)),
	};
	return 0;
}

static int slots_each(struct reading *r,
		      int (*take)(struct reading *r, uint64_t offset, struct spool_slot *slot))
{
	uint32_t per_chunk = (r->header.chunk_bytes - (uint32_t)sizeof(struct spool_chunk)) /
			     (uint32_t)sizeof(struct spool_slot);
	uint32_t bytes = per_chunk * (uint32_t)sizeof(struct spool_slot);
	struct spool_slot *slots = malloc(bytes);
	int rc = slots ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < r->slot_count; i++) {
		uint64_t offset =
			reading_chunk_offset(r, r->slot_chunks[i]) + sizeof(struct spool_chunk);

		if (!reading_bytes(r, offset, slots, bytes)) {
			reading_damaged(r, "the slots of threads are cut off");
			break;
		}
		for (uint32_t s = 0; !rc && s < per_chunk; s++)
			rc = take(r, offset + s * sizeof(*slots), &slots[s]);
	}
	free(slots);
	return rc;
}

static int slot_thread(struct reading *r, uint64_t offset, struct spool_slot *slot)
{
	uint32_t serial = atomic_load(&slot->thread);

	(void)offset;
	if (!serial || reading_thread(r, serial) >= 0 || reading_thread_add(r, serial, slot->tid))
		return 0;
	return -ENOMEM;
}

int reading_slots_threads(struct reading *r)
{
	return slots_each(r, slot_thread);
}

int reading_index(struct reading *r)
{
	int rc = chunks_find(r);

	if (!rc)
		rc = reading_meta(r);
	if (!rc)
		rc = reading_clocks(r);
	if (!rc)
		rc = chunks_order(r);
	if (!rc)
		rc = slots_each(r, slot_take);
	return rc;
}
