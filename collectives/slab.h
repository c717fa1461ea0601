/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of objects of one size that grows and is freed as a whole. With a million objects, what
 * counts is that each lies in as few cache lines and pages as can be: objects of up to 64 bytes
 * have a line of their own, and large pools use huge pages where the system has them.
 *
 * Not thread-safe.
 */
#ifndef WAYLAY_COLLECTIVES_SLAB_H
#define WAYLAY_COLLECTIVES_SLAB_H

#include <stddef.h>

struct slab_chunk;

struct slab {
	size_t object_bytes;
	size_t chunk_bytes; /* of the next chunk */
	struct slab_chunk *chunks;
	void *free;        /* a list of free objects, linked by their first word */
	char *fresh, *end; /* what the newest chunk has left */
};

void slab_init(struct slab *slab, size_t object_bytes);
/* An object with undefined content, or NULL when out of memory. */
void *slab_get(struct slab *slab);
void slab_put(struct slab *slab, void *object);
void slab_free(struct slab *slab);

#endif
