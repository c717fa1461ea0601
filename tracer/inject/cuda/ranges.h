/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of memory an address is in, as far as this process's own calls have told.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_RANGES_H
#define WAYLAY_TRACER_INJECT_CUDA_RANGES_H

#include "tracer/events/events.h"

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
/* Forgets the range that starts there and tells what it was; false when it was not known. */
bool cu_range_take(uint64_t start, struct cu_range *range);
/* Forgets every range that overlaps [start, start + bytes). */
void cu_range_cut(uint64_t start, uint64_t bytes);
/* Sets and clears flags of the range that holds the address; false when none is known. */
bool cu_range_flag(uint64_t address, uint32_t set, uint32_t clear);

#pragma GCC visibility pop

#endif
