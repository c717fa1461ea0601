/* SPDX-License-Identifier: Apache-2.0
 *
 * An open-addressed hash table, at most half full.
 */
#include "viewers/pair_map.h"

#include <stdlib.h>

#define SLOTS_MIN 64u

static void place(struct pair_slot *slots, size_t mask, const struct pair_slot *slot)
{
	size_t at = pair_place(slot->a, slot->b, mask);

	while (slots[at].value)
		at = (at + 1) & mask;
	slots[at] = *slot;
}

bool pair_map_put(struct pair_map *map, uint64_t a, uint64_t b, void *value)
{
	size_t room = map->slots ? map->mask + 1 : 0;

	if (2 * map->count >= room) {
		size_t more = room ? 2 * room : SLOTS_MIN;
		struct pair_slot *slots = calloc(more, sizeof(*slots));

		if (!slots)
			return false;
		for (size_t i = 0; i < room; i++)
			if (map->slots[i].value)
				place(slots, more - 1, &map->slots[i]);
		free(map->slots);
		map->slots = slots;
		map->mask = more - 1;
	}
	place(map->slots, map->mask, &(struct pair_slot){a, b, value});
	map->count++;
	return true;
}

void pair_map_done(struct pair_map *map)
{
	free(map->slots);
	*map = (struct pair_map){0};
}
