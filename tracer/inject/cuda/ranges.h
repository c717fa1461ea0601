/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of memory an address is in, as far as this process's own calls have told.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_RANGES_H
#define WAYLAY_TRACER_INJECT_CUDA_RANGES_H

#include "tracer/events/events.h"

#include <stdatomic.h>

#pragma GCC visibility push(hidden)

enum cu_range_flag {
	CU_RANGE_POOL = 1 << 0,        /* from a memory pool: given back in stream order */
	CU_RANGE_SYNC_MEMOPS = 1 << 1, /* synchronous operations on it hold the host */
};

struct cu_range {
	uint64_t start, bytes;
	uint8_t kind; /* enum wl_mem_kind */
	uint32_t flags;
};

/* All are callable from any thread at any time; none allocates with malloc, blocks or sets errno. */

/* Remembers a range; whatever overlapped it is forgotten. */
void cu_range_add(uint64_t start, uint64_t bytes, uint8_t kind, uint32_t flags);
/* The range that holds the address; false when none is known. */
bool cu_range_find(uint64_t address, struct cu_range *range);

/* The same through what the thread found last: nothing in it is older than the last change. */
struct cu_range_near {
	uint64_t start, bytes;
	uint32_t sequence; /* when it was found */
	uint8_t kind;      /* enum wl_mem_kind */
	uint8_t flags;     /* enum cu_range_flag */
};
extern _Atomic uint32_t cu_ranges_sequence; /* odd: being changed */
bool cu_range_find_slow(uint64_t address, struct cu_range_near *near);
static inline __attribute__((always_inline)) bool cu_range_is_near(uint64_t address,
								   const struct cu_range_near *near)
{
	return address - near->start < near->bytes &&
	       near->sequence == atomic_load_explicit(&cu_ranges_sequence, memory_order_acquire);
}
static inline bool cu_range_find_near(uint64_t address, struct cu_range_near *near)
{
	return cu_range_is_near(address, near) || cu_range_find_slow(address, near);
}
/* Forgets the range that starts there and tells what it was; false when it was not known. */
bool cu_range_take(uint64_t start, struct cu_range *range);
/* Forgets every range that overlaps [start, start + bytes). */
void cu_range_cut(uint64_t start, uint64_t bytes);
/* Sets and clears flags of the range that holds the address; false when none is known. */
bool cu_range_flag(uint64_t address, uint32_t set, uint32_t clear);

#pragma GCC visibility pop

#endif
