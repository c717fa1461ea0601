/* SPDX-License-Identifier: Apache-2.0
 *
 * From any 64-bit key to a number given in order of arrival, from 1 on.
 */
#ifndef WAYLAY_EXPORTERS_NUMBER_MAP_H
#define WAYLAY_EXPORTERS_NUMBER_MAP_H

#include "exporters/model/text.h"

#include <stdbool.h>

struct number_map {
	uint64_t *keys;
	uint32_t *numbers; /* 0: slot free */
	uint32_t count, mask;
};

int number_map_init(struct number_map *map);
void number_map_done(struct number_map *map);
void number_map_clear(struct number_map *map);
/* A key not there yet; its number, or 0 when memory is short. */
uint32_t number_map_add(struct number_map *map, uint64_t key);

/* The key's number; *fresh if it was given just now. */
static inline uint32_t number_map_get(struct number_map *map, uint64_t key, bool *fresh)
{
	uint32_t slot = (uint32_t)text_mix(key) & map->mask;

	for (; map->numbers[slot]; slot = (slot + 1) & map->mask) {
		if (map->keys[slot] == key) {
			*fresh = false;
			return map->numbers[slot];
		}
	}
	*fresh = true;
	return number_map_add(map, key);
}

#endif
