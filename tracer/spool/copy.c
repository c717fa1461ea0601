/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a recording that is being written, by the process itself or by another one: whole records,
 * whole names, and nothing of a chunk that the flight recorder took over meanwhile. The process that is
 * copied need not take part, so that a hung one can be.
 */
#include "tracer/spool/spool.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define TRIES 3

struct copy {
	const uint8_t *from; /* the mapping */
	const struct spool_header *header;
	int to;
	uint32_t chunk_bytes, chunk_count;
	uint64_t directory, data;
	uint8_t *buffer; /* one chunk */
};

static int put(int to, const void *what, size_t bytes, uint64_t at)
{
	const uint8_t *from = what;

	while (bytes) {
		ssize_t n = pwrite(to, from, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		from += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* The number of whole chunks, or -EINVAL for what is no recording. The header may be anything. */
static int lay_out(struct copy *c, uint64_t bytes)
{
	const struct spool_header *h = c->header;
	uint64_t directory = h->directory_offset, data = h->data_offset, max = h->chunk_max, have;
	uint32_t chunk = h->chunk_bytes;

	if (bytes < sizeof(*h) || memcmp(h->magic, SPOOL_MAGIC, sizeof(h->magic)) != 0 ||
	    chunk < 16384 || chunk > 16u << 20 || (chunk & (chunk - 1)) || directory % 8 ||
	    directory < SPOOL_HEADER_BYTES || data > bytes || directory > data ||
	    max > (data - directory) / sizeof(struct spool_dir_entry))
		return -EINVAL;
	have = (bytes - data) / chunk;
	c->chunk_bytes = chunk;
	c->directory = directory;
	c->data = data;
	c->chunk_count = (uint32_t)(have < max ? have : max);
	return 0;
}

static uint32_t handed_out(const struct copy *c)
{
	uint64_t next = atomic_load_explicit(&c->header->chunk_next, memory_order_acquire);

	return (uint32_t)(next < c->chunk_count ? next : c->chunk_count);
}

/* Entries that are whole. One whose writer is still at it keeps its length and is skipped by readers. */
static size_t take_meta(const struct copy *c, const uint8_t *chunk)
{
	uint32_t off = sizeof(struct spool_chunk);

	while (off + 8 <= c->chunk_bytes) {
		/* Pairs with the release when an entry is committed: its body is there. */
		uint32_t head = atomic_load_explicit((const _Atomic uint32_t *)(chunk + off),
						     memory_order_acquire);
		uint32_t bytes = SPOOL_META_BYTES(head);

		if (bytes < 8 || bytes % 8 || bytes > c->chunk_bytes - off)
			break;
		if (head & SPOOL_META_COMMITTED)
			memcpy(c->buffer + off, chunk + off, bytes);
		else
			memset(c->buffer + off, 0, bytes);
		memcpy(c->buffer + off, &head, sizeof(head));
		off += bytes;
	}
	return off;
}

static size_t take_slots(const struct copy *c, const uint8_t *chunk)
{
	for (uint32_t off = sizeof(struct spool_chunk);
	     off + sizeof(struct spool_slot) <= c->chunk_bytes; off += sizeof(struct spool_slot)) {
		const struct spool_slot *slot = (const struct spool_slot *)(chunk + off);
		struct spool_slot *copy = (struct spool_slot *)(c->buffer + off);
		uint64_t call;
		int tries = 0;

		do {
			call = atomic_load_explicit(&slot->call, memory_order_acquire);
			memcpy(copy, slot, sizeof(*copy));
			atomic_thread_fence(memory_order_acquire);
		} while (call != atomic_load_explicit(&slot->call, memory_order_relaxed) &&
			 ++tries < TRIES);
		if (call != atomic_load_explicit(&slot->call, memory_order_relaxed))
			call = 0;
		atomic_store_explicit(&copy->call, call, memory_order_relaxed);
	}
	return c->chunk_bytes;
}

/* Into the buffer; the bytes to be written, 0: nothing that could be had whole. */
static size_t take(const struct copy *c, uint32_t number)
{
	const uint8_t *at = c->from + c->data + (uint64_t)number * c->chunk_bytes;
	const struct spool_chunk *chunk = (const struct spool_chunk *)at;
	struct spool_chunk *copy = (struct spool_chunk *)c->buffer;
	uint32_t generation = atomic_load_explicit(&chunk->generation, memory_order_acquire);
	uint32_t closed = atomic_load_explicit(&chunk->closed, memory_order_acquire), committed;
	size_t bytes = sizeof(*chunk);

	if (__atomic_load_n(&chunk->magic, __ATOMIC_ACQUIRE) != SPOOL_CHUNK_MAGIC ||
	    (generation & 1))
		return 0;
	/* Pairs with the release of each record: all below it is whole. */
	committed = atomic_load_explicit(&chunk->committed, memory_order_acquire);
	memcpy(copy, chunk, sizeof(*copy));
	if (copy->type == SPOOL_CHUNK_META) {
		bytes = take_meta(c, at);
	} else if (copy->type == SPOOL_CHUNK_SLOTS) {
		bytes = take_slots(c, at);
	} else if (committed <= c->chunk_bytes - sizeof(*chunk)) {
		memcpy(copy + 1, chunk + 1, committed);
		bytes += committed;
	}
	/* Read before the second look at the generation. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&chunk->generation, memory_order_relaxed) != generation)
		return 0;
	atomic_store_explicit(&copy->committed, committed, memory_order_relaxed);
	atomic_store_explicit(&copy->closed, closed, memory_order_relaxed);
	return bytes;
}

/* As the writer would have written it, from what was copied. */
static struct spool_dir_entry entry_of(const struct spool_chunk *chunk)
{
	struct spool_dir_entry entry = {.thread = chunk->thread,
					.type = chunk->type,
					.clock = chunk->clock,
					.sequence = chunk->sequence};

	if (atomic_load(&chunk->closed)) {
		entry.begin_least = chunk->begin_least;
		entry.end_greatest = chunk->end_greatest;
		entry.committed = atomic_load(&chunk->committed);
	}
	return entry;
}

static int copy_chunk(const struct copy *c, uint32_t number)
{
	struct spool_dir_entry entry;
	size_t bytes = 0;
	int rc;

	for (int tries = 0; !bytes && tries < TRIES; tries++)
		bytes = take(c, number);
	if (!bytes)
		return 0; /* a hole: a chunk that was never begun */
	rc = put(c->to, c->buffer, bytes, c->data + (uint64_t)number * c->chunk_bytes);
	if (rc)
		return rc;
	entry = entry_of((const struct spool_chunk *)c->buffer);
	return put(c->to, &entry, sizeof(entry), c->directory + number * sizeof(entry));
}

static bool is_meta(const struct copy *c, uint32_t number)
{
	const struct spool_chunk *chunk =
		(const struct spool_chunk *)(c->from + c->data + (uint64_t)number * c->chunk_bytes);

	return __atomic_load_n(&chunk->type, __ATOMIC_RELAXED) == SPOOL_CHUNK_META;
}

static int copy_all(const struct copy *c)
{
	struct spool_header header;
	uint32_t count = handed_out(c), all;
	int rc = ftruncate(c->to, (off_t)c->data) == 0 ? 0 : -errno;

	/* Records before names, so that every name that a record has is there. */
	for (uint32_t i = 0; i < count && !rc; i++)
		if (!is_meta(c, i))
			rc = copy_chunk(c, i);
	all = handed_out(c);
	for (uint32_t i = 0; i < all && !rc; i++)
		if (is_meta(c, i))
			rc = copy_chunk(c, i);
	if (!rc && ftruncate(c->to, (off_t)(c->data + (uint64_t)all * c->chunk_bytes)) != 0)
		rc = -errno;
	if (!rc)
		rc = put(c->to, c->from + SPOOL_HEADER_BYTES, c->directory - SPOOL_HEADER_BYTES,
			 SPOOL_HEADER_BYTES);
	memcpy(&header, c->header, sizeof(header));
	atomic_store(&header.chunk_next, all);
	atomic_store(&header.reserved_bytes, c->data + (uint64_t)all * c->chunk_bytes);
	/* Last: without it a copy that was broken off is none. */
	return rc ? rc : put(c->to, &header, sizeof(header), 0);
}

int spool_copy(const void *mapping, uint64_t bytes, int to)
{
	struct copy c = {.from = mapping, .header = mapping, .to = to};
	void *buffer;
	int rc = lay_out(&c, bytes);

	if (rc)
		return rc;
	buffer = mmap(NULL, c.chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (buffer == MAP_FAILED)
		return -errno;
	c.buffer = buffer;
	rc = copy_all(&c);
	munmap(buffer, c.chunk_bytes);
	return rc;
}
