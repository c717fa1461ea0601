/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at what the job's threads have recorded since the last look, by the housekeeping thread: the path
 * of an event knows nothing of it. And a copy of the recording as it is.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS_MAX 1000000 /* of one look: what comes faster is looked at later, or not at all */

/* How far each chunk has been looked at. */
struct looked {
	uint32_t generation, off;
};

static uint64_t in_ns(const struct spool_writer *w, uint64_t time, uint32_t clock)
{
	uint64_t rate = atomic_load(&w->ticks_per_second);

	if (clock != SPOOL_CLOCK_TSC || !rate)
		return time;
	return (uint64_t)((double)time * SPOOL_SECOND_NS / (double)rate);
}

/* The number of records seen. */
static unsigned look(struct spool_writer *w, const struct spool_chunk *chunk, struct looked *l,
		     spool_watch_fn seen)
{
	uint32_t generation = atomic_load_explicit(&chunk->generation, memory_order_acquire);
	uint32_t committed = atomic_load_explicit(&chunk->committed, memory_order_acquire);
	const uint8_t *at = (const uint8_t *)(chunk + 1);
	unsigned count = 0;

	if ((generation & 1) || committed > w->chunk_bytes - sizeof(*chunk))
		return 0;
	if (l->generation != generation)
		*l = (struct looked){generation, 0};
	while (l->off < committed) {
		const struct spool_record *record = (const struct spool_record *)(at + l->off);
		struct spool_watched watched = {
			.event = record->event, .thread = chunk->thread, .args = record + 1};
		uint32_t bytes = record->units * 8u;

		watched.begin_ns = in_ns(w, record->begin, chunk->clock);
		watched.duration_ns = in_ns(w, record->duration, chunk->clock);
		/* The flight recorder may have taken it over: then this was nothing. */
		if (bytes < sizeof(*record) ||
		    atomic_load_explicit(&chunk->generation, memory_order_acquire) != generation)
			break;
		seen(&watched);
		l->off += bytes;
		count++;
	}
	return count;
}

static void look_at_slot(struct spool_writer *w, struct spool_thread *t, spool_watch_fn seen)
{
	struct spool_watched watched = {.inflight = true, .thread = t->serial};
	struct spool_slot *slot = t->slot;
	uint64_t call, since, now = spool_now();

	if (!atomic_load(&t->tid) || !slot)
		return;
	call = atomic_load_explicit(&slot->call, memory_order_acquire);
	since = atomic_load_explicit(&slot->since, memory_order_relaxed);
	if (!call || call != atomic_load_explicit(&slot->call, memory_order_acquire) ||
	    since >= now)
		return;
	watched.event = (uint16_t)(call >> 32);
	watched.begin_ns = in_ns(w, since, atomic_load(&slot->clock));
	watched.duration_ns = in_ns(w, now - since, atomic_load(&slot->clock));
	seen(&watched);
}

void spool_watch(spool_watch_fn seen)
{
	static struct looked *looked;
	static uint32_t generation;
	struct spool_writer *w = spool_writer_open_now();
	unsigned count = 0;
	uint64_t chunks;

	if (!w || spool_sink)
		return;
	if (!looked || generation != w->generation) {
		size_t bytes = w->chunk_max * sizeof(*looked);
		void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (at == MAP_FAILED)
			return;
		looked = at; /* once a process: a parent's is left to it */
		generation = w->generation;
	}
	chunks = atomic_load(&w->header->chunk_next);
	for (uint64_t n = 0; n < chunks && n < w->chunk_max && count < RECORDS_MAX; n++) {
		const struct spool_chunk *chunk = spool_chunk_at(w, n);

		if (__atomic_load_n(&chunk->type, __ATOMIC_RELAXED) == SPOOL_CHUNK_RECORDS)
			count += look(w, chunk, &looked[n], seen);
	}
	for (uint32_t i = 0, all = atomic_load(&w->index_next); i < all; i++) {
		struct spool_thread *block = atomic_load(&w->blocks[i / SPOOL_BLOCK_THREADS]);

		if (block)
			look_at_slot(w, block + i % SPOOL_BLOCK_THREADS, seen);
	}
}

int spool_snapshot(const char *name, char *path, size_t size)
{
	struct spool_writer *w = spool_writer_open_now();
	const char *slash = strrchr(spool_path, '/');
	int n, fd, rc;

	if (!w || spool_sink || !slash)
		return -ENODEV;
	n = snprintf(path, size, "%.*s/%s", (int)(slash - spool_path), spool_path, name);
	if (n < 0 || (size_t)n >= size)
		return -ENAMETOOLONG;
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	if ((size_t)snprintf(path + n, size - (size_t)n, "%s", slash) >= size - (size_t)n)
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* Not more than what others are to have. */
	rc = spool_file_room(fd, atomic_load(&w->header->reserved_bytes), spool_keep_free_percent)
		     ? spool_copy(w->header, atomic_load(&w->header->reserved_bytes), fd)
		     : -ENOSPC;
	close(fd);
	if (rc)
		unlink(path);
	return rc;
}
