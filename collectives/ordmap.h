/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered map from 64-bit keys to pointers: a B+ tree with wide nodes, since what a lookup costs
 * is the cache lines it misses. With a million keys a lookup touches five nodes.
 *
 * Not thread-safe. Keys are below UINT64_MAX; values are not NULL and stay the caller's.
 */
#ifndef WAYLAY_COLLECTIVES_ORDMAP_H
#define WAYLAY_COLLECTIVES_ORDMAP_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/slab.h"

struct ordmap_node;

struct ordmap {
	struct ordmap_node *root; /* NULL while empty */
	int height;               /* inner levels above the leaves */
	size_t count;
	struct slab nodes;
};

void ordmap_init(struct ordmap *map);
void ordmap_free(struct ordmap *map);

/* 0, -EEXIST when the key is there already, -ENOMEM (the map is then unchanged). */
int ordmap_insert(struct ordmap *map, uint64_t key, void *value);
/* The value that was removed, or NULL. */
void *ordmap_remove(struct ordmap *map, uint64_t key);
/* The value with the greatest key <= key, or NULL. */
void *ordmap_floor(const struct ordmap *map, uint64_t key);
/* The value with the least key >= key, or NULL. */
void *ordmap_ceil(const struct ordmap *map, uint64_t key);

#endif
