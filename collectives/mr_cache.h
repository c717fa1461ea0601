/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of memory registrations: registering costs microseconds to seconds, using the same
 * buffer again should cost nothing.
 *
 * The cache knows nothing of networks: two callbacks register and deregister. What it promises:
 *  - a hit covers the whole range asked for, by what was really registered: ranges are rounded out
 *    to pages before they are registered (two buffers on one page share a registration) and hits
 *    are tested against the rounded range, so rounding never makes a false hit;
 *  - lookups cost O(log n), whatever the ranges overlap; a part of a registered range hits;
 *  - a registration in use is never closed; one whose memory went away (mr_cache_invalidate) is
 *    never handed out again and is closed by its last user;
 *  - no more than max_entries and max_bytes stay in the cache; the longest unused go first. What
 *    cannot fit beside the registrations in use is registered for that one use (a bypass).
 *
 * Thread-safe. The callbacks run without the cache's lock, so they may take any lock, and memory
 * that goes away while they run (from within them, too) may be reported.
 */
#ifndef WAYLAY_COLLECTIVES_MR_CACHE_H
#define WAYLAY_COLLECTIVES_MR_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct mr_cache;

/* One registration, held between mr_cache_get() and mr_cache_put(). One cache line. */
struct mr_entry {
	uint64_t start, end; /* what is registered: [start, end) */
	void *handle;        /* what `reg` gave */
	/* the cache's own */
	uint64_t space;
	uint32_t refs;
	int cached;
	struct mr_entry *prev, *next;
};

struct mr_cache_config {
	size_t max_entries; /* 0: the cache is off, every get registers */
	size_t max_bytes;
	size_t page_bytes; /* ranges are rounded out to it; a power of two, or 0 to leave them */
	/* Registers [addr, addr + bytes); `space` is what mr_cache_get was given. 0 or negative
	 * errno. After -ENOMEM, -ENOSPC or -EAGAIN the cache closes what it holds unused, the
	 * longest unused first, and tries again. */
	int (*reg)(void *ctx, uint64_t addr, size_t bytes, uint64_t space, void **handle);
	void (*dereg)(void *ctx, void *handle);
	void *ctx;
};

struct mr_cache_counters {
	uint64_t hits, misses;
	uint64_t evictions;      /* closed to make room */
	uint64_t superseded;     /* closed because a larger range took their place */
	uint64_t invalidated;    /* entries whose memory went away */
	uint64_t bypasses;       /* registered for one use only */
	uint64_t failures;       /* registrations that failed for good */
	uint64_t entries, bytes; /* in the cache now */
	uint64_t peak_entries, peak_bytes;
	uint64_t used_entries, used_bytes; /* of them, in use */
};

/* NULL when out of memory or when page_bytes is no power of two. */
struct mr_cache *mr_cache_new(const struct mr_cache_config *config);
/* Closes every registration in the cache; the caller holds none. */
void mr_cache_free(struct mr_cache *cache);

/*
 * Finds or makes a registration that covers [addr, addr + bytes). `space` tells kinds of memory
 * apart (host, a device, one allocation of a device from the next at the same address): an address
 * found in another space is stale and is dropped. 0, -EINVAL
 * for an empty or impossible range, -ENOMEM, or what `reg` returned.
 */
int mr_cache_get(struct mr_cache *cache, uint64_t addr, size_t bytes, uint64_t space,
		 struct mr_entry **out);
void mr_cache_put(struct mr_cache *cache, struct mr_entry *entry);

/* Memory in [addr, addr + bytes) went away. Returns how many entries that touched. */
size_t mr_cache_invalidate(struct mr_cache *cache, uint64_t addr, size_t bytes);
/* Closes what is unused. */
void mr_cache_flush(struct mr_cache *cache);

void mr_cache_counters(struct mr_cache *cache, struct mr_cache_counters *out);

#endif
