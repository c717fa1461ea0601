/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys to numbers: open addressing, at most half full.
 */
#include "exporters/model/number_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int number_map_init(struct number_map *map)
{
	map->mask = 127;
	map->count = 0;
	map->keys = calloc(map->mask + 1u, sizeof(*map->keys));
	map->numbers = calloc(map->mask + 1u, sizeof(*map->numbers));
	return map->keys && map->numbers ? 0 : -ENOMEM;
}

void number_map_done(struct number_map *map)
{
	free(map->keys);
	free(map->numbers);
}

void number_map_clear(struct number_map *map)
{
	if (map->count)
		memset(map->numbers, 0, (map->mask + 1u) * sizeof(*map->numbers));
	map->count = 0;
}

static int grow(struct number_map *map)
{
	uint32_t mask = map->mask * 2 + 1;
	uint64_t *keys = calloc((size_t)mask + 1, sizeof(*keys));
	uint32_t *numbers = calloc((size_t)mask + 1, sizeof(*numbers));

	if (!keys || !numbers) {
		free(keys);
		free(numbers);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i <= map->mask; i++) {
		uint32_t slot = (uint32_t)text_mix(map->keys[i]) & mask;

		if (!map->numbers[i])
			continue;
		while (numbers[slot])
			slot = (slot + 1) & mask;
		keys[slot] = map->keys[i];
		numbers[slot] = map->numbers[i];
	}
	number_map_done(map);
	map->keys = keys;
	map->numbers = numbers;
	map->mask = mask;
	return 0;
}

uint32_t number_map_add(struct number_map *map, uint64_t key)
{
	uint32_t slot;

	if (map->count > map->mask / 2 && grow(map))
		return 0;
	for (slot = (uint32_t)text_mix(key) & map->mask; map->numbers[slot];)
		slot = (slot + 1) & map->mask;
	map->keys[slot] = key;
	map->numbers[slot] = ++map->count;
	return map->count;
}
