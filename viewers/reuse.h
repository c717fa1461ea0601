/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse distances: how large a least-recently-used cache would have had to be for each repeated access
 * to hit, and so its hit rate for every size, in one pass.
 */
#ifndef WAYLAY_VIEWERS_REUSE_H
#define WAYLAY_VIEWERS_REUSE_H

#include <stdbool.h>
#include <stdint.h>

/* A cache of this capacity would have had so many hits, which took so long as misses. */
struct reuse_point {
	uint64_t capacity, hits, time_ns;
};

/* Points of ascending capacity, each where hits are gained; hits and times are sums up to there. */
struct reuse_curve {
	unsigned count;
	struct reuse_point *points;
};

/* Caches of more entries are not looked at: what was not accessed while so many other things were is new. */
#define REUSE_ENTRIES_MAX 262144u

struct reuse;
struct reuse *reuse_new(void);
void reuse_free(struct reuse *reuse);
/*
 * An access to the range [first, end) of units, a thing of its own; bytes are what it takes in a cache
 * bounded by bytes. time_ns: what a hit would have saved. *repeated is counted up if it was accessed before,
 * by the time of reuse_forget() or reuse_curves() at the latest. O(log n) on the average. False when memory
 * is short.
 */
bool reuse_access(struct reuse *reuse, uint64_t first, uint64_t end, uint64_t bytes,
		  uint64_t time_ns, uint64_t *repeated);
/* What was accessed so far is forgotten (another process with a cache of its own); the curves add up. */
bool reuse_forget(struct reuse *reuse);
/*
 * The hits of a cache bounded by entries, and of one bounded by bytes, over all that was accessed, each
 * capacity the least that makes the hits. A cache bounded by bytes evicts what was used least recently
 * until it holds no more than its bound, also what is larger than that by itself. Owned by reuse.
 * False when memory is short.
 */
bool reuse_curves(struct reuse *reuse, struct reuse_curve *entries, struct reuse_curve *bytes);
/* The hits at a capacity. */
struct reuse_point reuse_at(const struct reuse_curve *curve, uint64_t capacity);
/* The least capacity with at least so many percent of all hits; NULL without hits. */
const struct reuse_point *reuse_knee(const struct reuse_curve *curve, unsigned percent);

#endif
