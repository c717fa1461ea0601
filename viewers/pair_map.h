/* SPDX-License-Identifier: Apache-2.0
 *
 * What is looked up for every record: pointers by two numbers.
 */
#ifndef WAYLAY_VIEWERS_PAIR_MAP_H
#define WAYLAY_VIEWERS_PAIR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pair_slot {
	uint64_t a, b;
	void *value; /* NULL: free */
};

/* Zeroed: empty. Walk slots[0 .. mask] where slots is not NULL. */
struct pair_map {
	struct pair_slot *slots;
	size_t count, mask;
};

static inline size_t pair_place(uint64_t a, uint64_t b, size_t mask)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u ^ (b + (a >> 29)) * 0xd6e8feb86659fd93u;

	return (size_t)(x ^ x >> 32) & mask;
}

/* NULL: there is none. */
static inline void *pair_map_get(const struct pair_map *map, uint64_t a, uint64_t b)
{
	if (!map->slots)
		return NULL;
	for (size_t at = pair_place(a, b, map->mask);; at = (at + 1) & map->mask) {
		const struct pair_slot *slot = &map->slots[at];

		if (!slot->value || (slot->a == a && slot->b == b))
			return slot->value;
	}
}

/* Of a pair that is not there yet. False when memory is short. */
bool pair_map_put(struct pair_map *map, uint64_t a, uint64_t b, void *value);
/* Frees the map, not what it points to. */
void pair_map_done(struct pair_map *map);

#endif
