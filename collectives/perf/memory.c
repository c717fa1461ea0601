/* SPDX-License-Identifier: Apache-2.0 */
/* Where the path has its buffers: in host memory, or in a device's with a mirror on the host. */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Pieces that are large enough for copy engine and network, and small enough for a few of them to
 * be under way within a message of a megabyte. */
#define STAGED_CHUNK  (1u << 20)
#define STAGED_WINDOW 8
/* As it was done before anybody thought of pieces: a message is copied whole. */
#define NAIVE_CHUNK  ((size_t)64 << 20)
#define NAIVE_WINDOW 2
/* A device reduces and copies large pieces at its full rate, and each piece has a price: on a device
 * that two processes share, some 150 us. */
#define DIRECT_CHUNK  ((size_t)64 << 20)
#define DIRECT_WINDOW 4

static void *map_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, 0, bytes); /* page faults now, not in a measurement */
	return p;
}

int memory_open(struct perf_memory *m, struct coll_device *device, size_t bytes)
{
	void *at = NULL;

	*m = (struct perf_memory){.device = device, .bytes = bytes};
	m->mirror = map_pages(bytes);
	if (!m->mirror)
		return -ENOMEM;
	if (device && device->ops->alloc(device, bytes, &at))
		return -ENOMEM;
	m->at = device ? at : m->mirror;
	return 0;
}

void memory_close(struct perf_memory *m)
{
	if (m->device && m->at)
		m->device->ops->release(m->device, m->at);
	if (m->mirror)
		munmap(m->mirror, m->bytes);
	*m = (struct perf_memory){0};
}

int memory_put(const struct perf_memory *m, size_t offset, size_t bytes)
{
	struct device_stats before;
	int rc;

	if (!m->device || !bytes)
		return 0;
	/* Filling and checking are not the path's. */
	before = m->device->stats;
	rc = m->device->ops->upload(m->device, m->at + offset, m->mirror + offset, bytes);
	m->device->stats = before;
	return rc;
}

int memory_get(const struct perf_memory *m, size_t offset, size_t bytes)
{
	struct device_stats before;
	int rc;

	if (!m->device || !bytes)
		return 0;
	before = m->device->stats;
	rc = m->device->ops->download(m->device, m->mirror + offset, m->at + offset, bytes);
	m->device->stats = before;
	return rc;
}

static void shape_pipeline(const struct perf_options *o, struct staged_config *staged,
			   struct coll_config *coll, int ranks)
{
	static const size_t chunks[PERF_PATH_MAX] = {0, NAIVE_CHUNK, STAGED_CHUNK, DIRECT_CHUNK};
	static const int windows[PERF_PATH_MAX] = {0, NAIVE_WINDOW, STAGED_WINDOW, DIRECT_WINDOW};
	size_t whole = (o->max_bytes + 4095) & ~(size_t)4095;
	unsigned window;

	if (!coll->chunk_bytes) {
		coll->chunk_bytes = chunks[o->path];
		if (coll->chunk_bytes > whole &&
		    !o->workload) /* no larger than anything that will be moved */
			coll->chunk_bytes = whole < 65536 ? 65536 : whole;
	}
	if (!coll->window)
		coll->window = windows[o->path];
	window = (unsigned)(coll->window > 2 ? coll->window : 2);
	/* Small collectives post a receive for every other rank. */
	if (o->path == PERF_STAGED && (unsigned)ranks > window)
		window = ranks < 64 ? (unsigned)ranks : 64;
	staged->pipelined = o->path == PERF_STAGED;
	staged->slot_bytes = coll->chunk_bytes;
	staged->slots = 2 * window;
}

int perf_open_device(const struct perf_options *o, int rank, struct coll_device **device,
		     struct staged_config *staged, struct coll_config *coll, int ranks, char *error)
{
	int ordinal = o->device, count;

	*device = NULL;
	if (o->path == PERF_HOST)
		return 0;
	if (ordinal < 0) {
		count = device_count_cuda(error);
		if (count < 0)
			return count;
		ordinal = rank % (count ? count : 1);
	}
	shape_pipeline(o, staged, coll, ranks);
	return device_open_cuda(ordinal, device, error);
}
