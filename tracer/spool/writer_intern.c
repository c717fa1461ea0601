/* SPDX-License-Identifier: Apache-2.0
 *
 * The META region: strings, modules, stacks, thread names, clocks and facts, appended by any thread
 * without locks and found again through a hash table in memory.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <string.h>

#define PROBES_MAX 512

/* --- appending --- */

/* Names and facts have a share of the file; what records cannot be read without may go beyond it. */
static bool kind_bounded(enum spool_meta_kind kind)
{
	return kind != SPOOL_META_CLOCK && kind != SPOOL_META_THREAD &&
	       kind != SPOOL_META_THREAD_END;
}

static struct spool_chunk *chunk_another(struct spool_writer *w, enum spool_meta_kind kind)
{
	uint32_t spare = atomic_exchange(&w->meta_spare, 0);
	enum trace_drop why;
	struct spool_chunk *chunk;

	if (spare)
		return spool_chunk_at(w, spare - 1);
	if (atomic_fetch_add(&w->meta_chunks, 1) >= w->meta_max && kind_bounded(kind)) {
		atomic_fetch_sub(&w->meta_chunks, 1);
		return NULL;
	}
	chunk = spool_chunk_take(w, SPOOL_CHUNK_META, 0, 0, NULL, &why);
	if (!chunk)
		atomic_fetch_sub(&w->meta_chunks, 1);
	return chunk;
}

/* Moves on from the chunk `current` (number + 1; 0 at the start). False: no room. */
static bool chunk_move_on(struct spool_writer *w, uint32_t current, enum spool_meta_kind kind)
{
	uint64_t position = atomic_load(&w->meta_position);
	struct spool_chunk *chunk;

	if (position >> 32 != current)
		return true;
	chunk = chunk_another(w, kind);
	if (!chunk)
		return false;
	while (position >> 32 == current)
		if (atomic_compare_exchange_weak(&w->meta_position, &position,
						 (chunk->number + 1ull) << 32 | sizeof(*chunk)))
			return true;
	/* Another thread was faster; kept for the next time. */
	atomic_store(&w->meta_spare, chunk->number + 1);
	return true;
}

/* Everything below `off` of that chunk is claimed: others need not walk over it. */
static void position_raise(struct spool_writer *w, uint32_t current, uint32_t off)
{
	uint64_t position = atomic_load(&w->meta_position);

	while (position >> 32 == current && (uint32_t)position < off)
		if (atomic_compare_exchange_weak(&w->meta_position, &position,
						 (uint64_t)current << 32 | off))
			return;
}

/* Claims an entry in one chunk: its head says how long it is, from the same instant on. NULL: full. */
static _Atomic uint32_t *entry_claim_in(struct spool_writer *w, uint8_t *chunk, uint32_t off,
					uint32_t head)
{
	uint32_t bytes = SPOOL_META_BYTES(head);

	while (off < w->chunk_bytes) {
		_Atomic uint32_t *at = (_Atomic uint32_t *)(chunk + off);
		uint32_t room = w->chunk_bytes - off, there = 0;
		uint32_t skip = SPOOL_META_COMMITTED | SPOOL_META_HEAD(room, SPOOL_META_SKIP);

		if (atomic_compare_exchange_strong(at, &there, bytes <= room ? head : skip))
			return bytes <= room ? at : NULL;
		off += SPOOL_META_BYTES(there);
	}
	return NULL;
}

static _Atomic uint32_t *entry_claim(struct spool_writer *w, uint32_t head)
{
	for (;;) {
		uint64_t position = atomic_load(&w->meta_position);
		uint32_t current = (uint32_t)(position >> 32);

		if (current) {
			uint8_t *chunk = (uint8_t *)spool_chunk_at(w, current - 1);
			_Atomic uint32_t *at = entry_claim_in(w, chunk, (uint32_t)position, head);

			if (at) {
				position_raise(w, current,
					       (uint32_t)((uint8_t *)at - chunk) +
						       SPOOL_META_BYTES(head));
				return at;
			}
		}
		if (!chunk_move_on(w, current, SPOOL_META_KIND(head)))
			return NULL;
	}
}

/* A text is followed by a NUL, which no one writes: a fresh entry is zero. */
static uint32_t entry_bytes(enum spool_meta_kind kind, size_t body_bytes, size_t tail_bytes)
{
	size_t nul = kind == SPOOL_META_STRING;

	return (uint32_t)((sizeof(uint32_t) + body_bytes + tail_bytes + nul + 7) & ~(size_t)7);
}

uint32_t spool_meta_append(struct spool_writer *w, enum spool_meta_kind kind, const void *body,
			   size_t body_bytes, const void *tail, size_t tail_bytes)
{
	uint32_t bytes = entry_bytes(kind, body_bytes, tail_bytes);
	uint32_t head = SPOOL_META_HEAD(bytes, kind);
	_Atomic uint32_t *at;
	uint8_t *to;

	at = bytes <= w->chunk_bytes - sizeof(struct spool_chunk) ? entry_claim(w, head) : NULL;
	if (!at) {
		struct spool_thread *self = spool_self;

		/* A clock snapshot missed is no name lost. */
		if (kind != SPOOL_META_CLOCK)
			spool_drop(w, self && self->generation == w->generation ? self : NULL,
				   TRACE_DROP_INTERN, 1);
		return 0;
	}
	to = (uint8_t *)(at + 1);
	memcpy(to, body, body_bytes);
	if (tail_bytes)
		memcpy(to + body_bytes, tail, tail_bytes);
	/* Pairs with the acquire of readers, and of threads that find it in the table. */
	atomic_store_explicit(at, head | SPOOL_META_COMMITTED, memory_order_release);
	if (spool_sink)
		spool_sink_meta(w, at);
	return (uint32_t)((uint64_t)((uint8_t *)at - (uint8_t *)w->header) / 8);
}

/* --- finding again --- */

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9fb21c651e98df25ull;
	return h ^ (h >> 32);
}

static uint64_t hash(uint64_t seed, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t word;

	for (; bytes >= 8; at += 8, bytes -= 8) {
		memcpy(&word, at, 8);
		seed = mix(seed, word);
	}
	word = 0;
	if (bytes)
		memcpy(&word, at, bytes);
	return mix(mix(seed, word), bytes + 1);
}

static bool entry_same(const struct spool_writer *w, uint32_t id, uint32_t head, const void *body,
		       size_t body_bytes, const void *tail, size_t tail_bytes)
{
	const uint8_t *at = (const uint8_t *)w->header + (uint64_t)id * 8;

	/* Pairs with the release in spool_meta_append(). */
	return atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_acquire) ==
		       (head | SPOOL_META_COMMITTED) &&
	       memcmp(at + 4, body, body_bytes) == 0 &&
	       (!tail_bytes || memcmp(at + 4 + body_bytes, tail, tail_bytes) == 0);
}

/* The id of an entry with this content, appended if there is none. */
static uint32_t intern(enum spool_meta_kind kind, const void *body, size_t body_bytes,
		       const void *tail, size_t tail_bytes)
{
	struct spool_writer *w = spool_writer_get();
	uint32_t head = SPOOL_META_HEAD(entry_bytes(kind, body_bytes, tail_bytes), kind);
	uint64_t h;

	if (!w)
		return 0;
	h = hash(hash(kind, body, body_bytes), tail, tail_bytes);
	for (uint64_t probe = 0; probe < PROBES_MAX; probe++) {
		_Atomic uint64_t *cell = &w->table[(h + probe) % SPOOL_TABLE_ENTRIES];
		uint64_t there = atomic_load_explicit(cell, memory_order_acquire);
		uint32_t id;

		if (there) {
			if (there >> 32 == h >> 32 && entry_same(w, (uint32_t)there, head, body,
								 body_bytes, tail, tail_bytes))
				return (uint32_t)there;
			continue;
		}
		if (atomic_fetch_add(&w->table_used, 1) >= SPOOL_TABLE_ENTRIES / 4 * 3) {
			atomic_fetch_sub(&w->table_used, 1);
			break;
		}
		id = spool_meta_append(w, kind, body, body_bytes, tail, tail_bytes);
		/* Two threads at once may append the same; the one that is not found again is spent. */
		if (id && !atomic_compare_exchange_strong(cell, &there, (h >> 32) << 32 | id)) {
			atomic_fetch_sub(&w->table_used, 1);
			if (there >> 32 == h >> 32 && entry_same(w, (uint32_t)there, head, body,
								 body_bytes, tail, tail_bytes))
				return (uint32_t)there;
		}
		return id;
	}
	spool_drop(w, NULL, TRACE_DROP_INTERN, 1);
	return 0;
}

/* A text's greatest length that is within the bound and cuts no UTF-8 sequence. */
static size_t text_cut(const char *text, size_t length)
{
	if (length <= SPOOL_STRING_MAX)
		return length;
	length = SPOOL_STRING_MAX;
	while (length && ((unsigned char)text[length] & 0xc0) == 0x80)
		length--;
	return length;
}

uint32_t spool_intern_string(const char *text, size_t length)
{
	uint32_t n = (uint32_t)text_cut(text, length);
	int saved = errno;
	uint32_t id;

	if (!n)
		return 0; /* the empty text */
	id = intern(SPOOL_META_STRING, &n, sizeof(n), text, n);
	errno = saved;
	return id;
}

uint32_t spool_intern_module(const char *path, uint64_t bias, uint64_t start, uint64_t end,
			     const uint8_t *build_id, unsigned build_id_bytes)
{
	struct spool_meta_module entry = {.bias = bias, .start = start, .end = end};
	int saved = errno;
	uint32_t id;

	if (build_id_bytes > sizeof(entry.build_id))
		build_id_bytes = sizeof(entry.build_id);
	if (build_id_bytes)
		memcpy(entry.build_id, build_id, build_id_bytes);
	entry.build_id_bytes = (uint8_t)build_id_bytes;
	entry.path = spool_intern_string(path, strlen(path));
	id = intern(SPOOL_META_MODULE, &entry.path, sizeof(entry) - sizeof(entry.head), NULL, 0);
	errno = saved;
	return id;
}

uint32_t spool_intern_stack(const struct spool_meta_frame *frames, unsigned count)
{
	uint32_t n = count;
	int saved = errno;
	uint32_t id;

	if (!count)
		return 0;
	id = intern(SPOOL_META_STACK, &n, sizeof(n), frames, count * sizeof(*frames));
	errno = saved;
	return id;
}

/* --- facts --- */

/*
 * Facts hold for forked children too, whose spools must say them again: kept here as
 * length, key, NUL, value, NUL. Ordinary memory, so that children inherit it.
 */
#define FACTS_BYTES (32u * 1024)
static _Alignas(4) uint8_t facts[FACTS_BYTES];
static _Atomic uint32_t facts_used;

static void attribute_write(struct spool_writer *w, const char *key, const char *value)
{
	struct spool_meta_attribute entry = {0};

	entry.key = spool_intern_string(key, strlen(key));
	entry.value = spool_intern_string(value, strlen(value));
	spool_meta_append(w, SPOOL_META_ATTRIBUTE, &entry.key, sizeof(entry) - sizeof(entry.head),
			  NULL, 0);
}

/* The fact at `at`, 0 after the last; *key is followed by its value. */
static uint32_t fact_at(uint32_t at, const char **key)
{
	*key = (const char *)facts + at + sizeof(uint32_t);
	return at < FACTS_BYTES ? atomic_load_explicit((_Atomic uint32_t *)(facts + at),
						       memory_order_acquire)
				: 0;
}

static bool fact_kept(const char *key, const char *value)
{
	const char *there;
	uint32_t bytes;

	for (uint32_t at = 0; (bytes = fact_at(at, &there)) != 0; at += bytes)
		if (strcmp(there, key) == 0 && strcmp(there + strlen(there) + 1, value) == 0)
			return true;
	return false;
}

static void fact_keep(const char *key, const char *value)
{
	size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value) + 1;
	uint32_t bytes = (uint32_t)((sizeof(uint32_t) + key_bytes + value_bytes + 3) & ~(size_t)3);
	uint32_t at = atomic_load(&facts_used);

	do {
		if (bytes > FACTS_BYTES - at)
			return; /* children do without */
	} while (!atomic_compare_exchange_weak(&facts_used, &at, at + bytes));
	memcpy(facts + at + sizeof(uint32_t), key, key_bytes);
	memcpy(facts + at + sizeof(uint32_t) + key_bytes, value, value_bytes);
	/* A length that is not there yet ends the list for a child forked right now. */
	atomic_store_explicit((_Atomic uint32_t *)(facts + at), bytes, memory_order_release);
}

void spool_attributes_again(void)
{
	struct spool_writer *w = spool_writer_open_now();
	uint32_t bytes;

	for (uint32_t at = 0; w && at < FACTS_BYTES; at += bytes) {
		const char *key = (const char *)facts + at + sizeof(uint32_t);

		bytes = atomic_load_explicit((_Atomic uint32_t *)(facts + at),
					     memory_order_acquire);
		if (!bytes)
			break;
		attribute_write(w, key, key + strlen(key) + 1);
	}
}

void spool_attribute_own(const char *key, const char *value)
{
	struct spool_writer *w = spool_writer_open_now();
	int saved = errno;

	if (w)
		attribute_write(w, key, value);
	errno = saved;
}

void spool_attribute(const char *key, const char *value)
{
	struct spool_writer *w = spool_writer_get();
	int saved = errno;

	if (w) {
		attribute_write(w, key, value);
		if (!fact_kept(key, value))
			fact_keep(key, value);
	}
	errno = saved;
}
