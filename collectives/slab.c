/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of slab.h: chunks that double in size up to a huge page. */
#include "collectives/slab.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LINE        64
#define CHUNK_FIRST ((size_t)8 << 10)
#define CHUNK_MAX   ((size_t)2 << 20) /* a huge page */

/* At the start of each chunk, with a line to itself. */
struct slab_chunk {
	struct slab_chunk *next;
};

void slab_init(struct slab *slab, size_t object_bytes)
{
	*slab = (struct slab){.object_bytes = (object_bytes + LINE - 1) / LINE * LINE,
			      .chunk_bytes = CHUNK_FIRST};
}

static int slab_grow(struct slab *slab)
{
	size_t bytes = slab->chunk_bytes;
	char *p = aligned_alloc(bytes < CHUNK_MAX ? LINE : CHUNK_MAX, bytes);
	struct slab_chunk *chunk = (struct slab_chunk *)p;

	if (!p)
		return -1;
	if (bytes == CHUNK_MAX)
		madvise(p, bytes, MADV_HUGEPAGE); /* as good as it gets where refused */
	else
		slab->chunk_bytes *= 2;
	chunk->next = slab->chunks;
	slab->chunks = chunk;
	slab->fresh = p + LINE;
	slab->end = p + bytes;
	return 0;
}

void *slab_get(struct slab *slab)
{
	void *object = slab->free;

	if (object) {
		slab->free = *(void **)object;
		return object;
	}
	if ((size_t)(slab->end - slab->fresh) < slab->object_bytes && slab_grow(slab))
		return NULL;
	object = slab->fresh;
	slab->fresh += slab->object_bytes;
	return object;
}

void slab_put(struct slab *slab, void *object)
{
	*(void **)object = slab->free;
	slab->free = object;
}

void slab_free(struct slab *slab)
{
	while (slab->chunks) {
		struct slab_chunk *next = slab->chunks->next;

		free(slab->chunks);
		slab->chunks = next;
	}
	slab_init(slab, slab->object_bytes);
}
