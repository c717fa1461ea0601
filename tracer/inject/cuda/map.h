/* SPDX-License-Identifier: Apache-2.0
 *
 * A small cache from handles to numbers: fixed memory, lock-free, lossy. A missing entry only means
 * that the driver is asked again.
 *
 * A slot's key is claimed (CU_MAP_BUSY) before its value changes and set after it, so that a reader
 * who sees the same key before and after the value has that key's value.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_MAP_H
#define WAYLAY_TRACER_INJECT_CUDA_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cu_map_slot {
	_Atomic uint64_t key; /* 0 free */
	_Atomic uint64_t value;
};

#define CU_MAP_BUSY  UINT64_MAX
#define CU_MAP_PROBE 8u

struct cu_map {
	struct cu_map_slot *slots;
	uint32_t mask; /* slots - 1; slots a power of two */
};

#define CU_MAP_DEFINE(name, count)                                                                 \
	static struct cu_map_slot name##_slots[count];                                             \
	_Static_assert(((count) & ((count)-1)) == 0, "a power of two");                            \
	static const struct cu_map name = {.slots = name##_slots, .mask = (count)-1}

static inline uint32_t cu_map_at(const struct cu_map *map, uint64_t key, uint32_t probe)
{
	return ((uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) + probe) & map->mask;
}

/* Where a key is first looked for. */
static inline const struct cu_map_slot *cu_map_first(const struct cu_map_slot *slots, uint32_t mask,
						     uint64_t key)
{
	return &slots[(uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & mask];
}

/* The value of key if it is in this slot. */
static inline bool cu_map_slot_get(const struct cu_map_slot *slot, uint64_t key, uint64_t *value)
{
	/* Pairs with the release store of the key in cu_map_put. */
	if (atomic_load_explicit(&slot->key, memory_order_acquire) != key)
		return false;
	*value = atomic_load_explicit(&slot->value, memory_order_acquire);
	return atomic_load_explicit(&slot->key, memory_order_relaxed) == key;
}

/* The value of key; false if it is not there. */
static inline bool cu_map_get(const struct cu_map *map, uint64_t key, uint64_t *value)
{
	for (uint32_t probe = 0; probe < CU_MAP_PROBE; probe++) {
		struct cu_map_slot *slot = &map->slots[cu_map_at(map, key, probe)];
		/* Pairs with the release store of the key in cu_map_put. */
		uint64_t found = atomic_load_explicit(&slot->key, memory_order_acquire);

		if (found == key) {
			*value = atomic_load_explicit(&slot->value, memory_order_acquire);
			return atomic_load_explicit(&slot->key, memory_order_relaxed) == key;
		}
		if (!found)
			return false;
	}
	return false;
}

static inline bool cu_map_claim(struct cu_map_slot *slot, uint64_t expected)
{
	return atomic_compare_exchange_strong_explicit(&slot->key, &expected, CU_MAP_BUSY,
						       memory_order_acquire, memory_order_relaxed);
}

/* Puts or replaces; when all slots for the key are taken, the first one's owner is forgotten. */
static inline void cu_map_put(const struct cu_map *map, uint64_t key, uint64_t value)
{
	struct cu_map_slot *slot = &map->slots[cu_map_at(map, key, 0)];
	uint64_t owner = atomic_load_explicit(&slot->key, memory_order_relaxed);

	if (!key || key == CU_MAP_BUSY)
		return;
	for (uint32_t probe = 0; probe < CU_MAP_PROBE; probe++) {
		struct cu_map_slot *at = &map->slots[cu_map_at(map, key, probe)];
		uint64_t found = atomic_load_explicit(&at->key, memory_order_relaxed);

		if (found == key || !found) {
			slot = at;
			owner = found;
			break;
		}
	}
	if (owner == CU_MAP_BUSY || !cu_map_claim(slot, owner))
		return; /* another thread is at it */
	atomic_store_explicit(&slot->value, value, memory_order_release);
	/* Pairs with the acquire load in cu_map_get. */
	atomic_store_explicit(&slot->key, key, memory_order_release);
}

#endif
