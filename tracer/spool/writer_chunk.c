/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks: handed out from the end of the file, and at the cap taken from the oldest when the recording
 * is a flight recorder.
 */
#include "tracer/spool/writer.h"

#include <sched.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define GROW_AHEAD_BYTES (256u * 1024) /* on the path of an event; more by housekeeping */

static struct spool_dir_entry *entry_of(const struct spool_writer *w,
					const struct spool_chunk *chunk)
{
	return &w->directory[chunk->number];
}

/* A number from the unused end of the file; -1 with *why. */
static int64_t number_fresh(struct spool_writer *w, enum trace_drop *why)
{
	uint64_t data = w->header->data_offset;
	uint64_t n = atomic_load(&w->header->chunk_next);

	do {
		if (n >= w->chunk_max) {
			*why = TRACE_DROP_SPACE;
			return -1;
		}
		/* Reserved first, so that no number is lost to a full disk. */
		if (!spool_file_reserve(w, data + (n + 1) * w->chunk_bytes, GROW_AHEAD_BYTES, why))
			return -1;
	} while (!atomic_compare_exchange_weak(&w->header->chunk_next, &n, n + 1));
	return (int64_t)n;
}

/* Counts the records of a chunk that is about to be overwritten, for whom they belong to. */
static void overwritten_count(struct spool_writer *w, struct spool_chunk *chunk)
{
	uint32_t committed = atomic_load_explicit(&chunk->committed, memory_order_relaxed);
	const uint8_t *at = (const uint8_t *)(chunk + 1);
	struct spool_slot *slot = NULL;
	uint64_t count = 0;

	for (uint32_t off = 0; off < committed; count++) {
		uint32_t units = ((const struct spool_record *)(at + off))->units;

		if (!units)
			break;
		off += units * 8;
	}
	if (chunk->slot)
		slot = (struct spool_slot *)((uint8_t *)w->header + chunk->slot * 8);
	if (slot && atomic_load(&slot->thread) == chunk->thread)
		atomic_fetch_add(&slot->drops[TRACE_DROP_OVERWRITTEN], count);
	else
		atomic_fetch_add(&w->header->drops[TRACE_DROP_OVERWRITTEN], count);
}

/* The next chunk of records that is closed, in the order in which they were handed out; its generation
 * is odd on return. NULL: there is none. */
static struct spool_chunk *chunk_oldest(struct spool_writer *w)
{
	for (uint32_t looked = 0; looked < w->chunk_max; looked++) {
		uint64_t n = atomic_fetch_add(&w->hand, 1) % w->chunk_max;
		struct spool_chunk *chunk = spool_chunk_at(w, n);
		uint32_t generation;

		/* A full disk may have stopped the file short of the cap. */
		if (n >= atomic_load(&w->header->chunk_next))
			continue;
		if (__atomic_load_n(&chunk->type, __ATOMIC_RELAXED) != SPOOL_CHUNK_RECORDS)
			continue;
		generation = atomic_load(&chunk->generation);
		if ((generation & 1) || !atomic_load(&chunk->closed))
			continue;
		if (atomic_compare_exchange_strong(&chunk->generation, &generation, generation + 1))
			return chunk;
	}
	return NULL;
}

/* The body must be zero for META and SLOTS, whose entries are claimed from zero. */
static void chunk_clean(struct spool_writer *w, struct spool_chunk *chunk)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)(chunk + 1);

	for (size_t i = 0; i < (w->chunk_bytes - sizeof(*chunk)) / 8; i++)
		atomic_store_explicit(&word[i], 0, memory_order_relaxed);
}

struct spool_chunk *spool_chunk_take(struct spool_writer *w, enum spool_chunk_type type,
				     uint32_t serial, uint32_t sequence,
				     const struct spool_slot *slot, enum trace_drop *why)
{
	int64_t n = number_fresh(w, why);
	struct spool_chunk *chunk = NULL;
	struct spool_dir_entry *entry;

	if (n >= 0)
		chunk = spool_chunk_at(w, (uint64_t)n);
	else if (w->header->flight_recorder)
		chunk = chunk_oldest(w);
	if (!chunk)
		return NULL;
	if (n < 0) {
		overwritten_count(w, chunk);
		n = chunk->number;
		if (type != SPOOL_CHUNK_RECORDS)
			chunk_clean(w, chunk);
	}
	atomic_store_explicit(&chunk->committed, 0, memory_order_relaxed);
	atomic_store_explicit(&chunk->closed, 0, memory_order_relaxed);
	__atomic_store_n(&chunk->type, (uint16_t)type, __ATOMIC_RELAXED);
	chunk->clock = (uint16_t)__atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED);
	chunk->number = (uint32_t)n;
	chunk->thread = serial;
	chunk->sequence = sequence;
	chunk->slot = slot ? (uint64_t)((const uint8_t *)slot - (uint8_t *)w->header) / 8 : 0;
	chunk->begin_least = 0;
	chunk->end_greatest = 0;
	entry = &w->directory[n];
	*entry = (struct spool_dir_entry){
		.thread = serial,
		.type = (uint16_t)type,
		.clock = chunk->clock,
		.sequence = sequence,
	};
	/* A chunk without the magic is being made: pairs with the reader's second look at it. */
	atomic_thread_fence(memory_order_release);
	__atomic_store_n(&chunk->magic, SPOOL_CHUNK_MAGIC, __ATOMIC_RELEASE);
	atomic_store_explicit(&chunk->generation, (atomic_load(&chunk->generation) + 1) & ~1u,
			      memory_order_release);
	return chunk;
}

/* From here on the flight recorder may take it. Pairs with its load, and the reader's. */
static void let_go(struct spool_chunk *chunk)
{
	if (chunk)
		atomic_store_explicit(&chunk->closed, 1, memory_order_release);
}

/* The present chunk's bounds are final; the thread has none any more. */
static struct spool_chunk *leave(struct spool_writer *w, struct spool_thread *self)
{
	struct spool_chunk *chunk = self->chunk;
	struct spool_dir_entry *entry;

	if (!chunk)
		return NULL;
	entry = entry_of(w, chunk);
	chunk->begin_least = self->begin_least;
	chunk->end_greatest = self->end_greatest;
	entry->begin_least = self->begin_least;
	entry->end_greatest = self->end_greatest;
	entry->committed = atomic_load_explicit(&chunk->committed, memory_order_relaxed);
	self->chunk = NULL;
	self->cursor = NULL;
	self->limit = NULL;
	return chunk;
}

void spool_chunk_close(struct spool_writer *w, struct spool_thread *self)
{
	let_go(self->previous);
	self->previous = NULL;
	let_go(leave(w, self));
}

/* As it is left for another one. */
static void chunk_hold(struct spool_writer *w, struct spool_thread *self)
{
	if (!w->header->flight_recorder) {
		spool_chunk_close(w, self);
		return;
	}
	let_go(self->previous);
	self->previous = leave(w, self);
}

/* So that housekeeping touches pages ahead where they will be used. */
static void node_note(struct spool_writer *w)
{
	unsigned cpu, node;
	uint64_t bit;

	if (getcpu(&cpu, &node) != 0)
		return;
	bit = SPOOL_NODE_BIT(node);
	if (!(atomic_load_explicit(&w->nodes_seen, memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(&w->nodes_seen, bit, memory_order_relaxed);
}

bool spool_chunk_next(struct spool_writer *w, struct spool_thread *self, enum trace_drop *why)
{
	/* Before the chunk, since a signal handler may take one meanwhile, and its records are later. */
	uint32_t sequence = atomic_fetch_add(&self->owner->chunk_sequence, 1);
	struct spool_chunk *chunk =
		spool_chunk_take(w, SPOOL_CHUNK_RECORDS, self->serial, sequence, self->slot, why);

	/* Only now, so that a flight recorder, which takes closed chunks alone, leaves what this thread
	 * did last. */
	if (chunk)
		chunk_hold(w, self);
	else
		spool_chunk_close(w, self);
	/* A handler already took one: what comes now belongs behind its records. */
	if (*(struct spool_thread *volatile *)&spool_self != self) {
		let_go(chunk);
		*why = SPOOL_SUPERSEDED;
		return false;
	}
	/* With as many threads as chunks, its own old one may be the only one to be had. */
	if (!chunk && w->header->flight_recorder)
		chunk = spool_chunk_take(w, SPOOL_CHUNK_RECORDS, self->serial, sequence, self->slot,
					 why);
	if (!chunk)
		return false;
	/* A thread that fills chunks touches its pages at one go; one that records a few events does
	 * not get more than it needs. */
	node_note(w);
	if (sequence > 0 && chunk->number >= atomic_load(&w->touched) &&
	    atomic_load(&chunk->generation) == 0)
		madvise(chunk, w->chunk_bytes, MADV_POPULATE_WRITE);
	self->chunk = chunk;
	self->begin_least = UINT64_MAX;
	self->end_greatest = 0;
	self->limit = (uint8_t *)chunk + w->chunk_bytes;
	self->cursor = (uint8_t *)(chunk + 1);
	return true;
}
