/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse distances by a Fenwick tree over the times of last access: what was used since a thing's last
 * access is a suffix sum. Times are renumbered when they run out, so that memory follows the number of
 * different things, not of accesses.
 */
#include "viewers/reuse.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define TIMES_MIN  1024u
#define BUFFER     65536u   /* distances gathered before they are sorted in */
#define POINTS_MAX 1048576u /* kept exactly; beyond, capacities are rounded up to 8 bits */

struct thing_key {
	uint64_t first, end;
};
struct thing {
	struct thing_key key;
	uint64_t bytes;
	size_t time; /* of the last access, from 1 */
	UT_hash_handle hh;
};

/* Sums over times: how many things were last used then, and their bytes. */
struct sums {
	uint32_t *count;
	uint64_t *bytes;
	size_t room; /* times 1 to room */
};

/* Hits by the capacity that they need. points: sorted, not summed up; buffer: not yet sorted in. */
struct distances {
	struct reuse_point *points, *buffer;
	size_t count, buffered;
	bool rounded;
};

struct reuse {
	struct thing *things;
	struct sums sums;
	size_t now;
	uint64_t live_bytes;
	struct distances by_entries, by_bytes;
	struct reuse_curve entries, bytes;
};

/* --- distances -------------------------------------------------------------------------------- */

static int by_capacity(const void *left, const void *right)
{
	const struct reuse_point *a = left, *b = right;

	return a->capacity < b->capacity ? -1 : a->capacity > b->capacity;
}

/* Joins neighbours of one capacity; the new count. */
static size_t join(struct reuse_point *points, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && points[kept - 1].capacity == points[i].capacity) {
			points[kept - 1].hits += points[i].hits;
			points[kept - 1].time_ns += points[i].time_ns;
		} else {
			points[kept++] = points[i];
		}
	}
	return kept;
}

/* Up, so that a hit is never promised to a cache that is too small. */
static uint64_t round_up(uint64_t capacity)
{
	unsigned bits = capacity ? 64 - (unsigned)__builtin_clzll(capacity) : 0;
	uint64_t step = bits > 8 ? 1ull << (bits - 8) : 1;

	return (capacity + step - 1) / step * step;
}

static bool sort_in(struct distances *distances)
{
	size_t all = distances->count + distances->buffered;
	struct reuse_point *points = realloc(distances->points, (all + 1) * sizeof(*points));

	if (!points)
		return false;
	distances->points = points;
	if (distances->buffered)
		memcpy(points + distances->count, distances->buffer,
		       distances->buffered * sizeof(*points));
	distances->buffered = 0;
	for (size_t i = 0; distances->rounded && i < all; i++)
		points[i].capacity = round_up(points[i].capacity);
	if (all)
		qsort(points, all, sizeof(*points), by_capacity);
	distances->count = join(points, all);
	if (distances->count <= POINTS_MAX || distances->rounded)
		return true;
	distances->rounded = true;
	return sort_in(distances);
}

static bool distance_add(struct distances *distances, uint64_t capacity, uint64_t time_ns)
{
	if (!distances->buffer) {
		distances->buffer = malloc(BUFFER * sizeof(*distances->buffer));
		if (!distances->buffer)
			return false;
	}
	if (distances->buffered == BUFFER && !sort_in(distances))
		return false;
	distances->buffer[distances->buffered++] = (struct reuse_point){capacity, 1, time_ns};
	return true;
}

/* --- sums ------------------------------------------------------------------------------------- */

static void sums_change(struct sums *sums, size_t time, int by, uint64_t bytes)
{
	for (; time <= sums->room; time += time & -time) {
		sums->count[time] += (uint32_t)by;
		sums->bytes[time] += by < 0 ? -bytes : bytes;
	}
}

/* Over times 1 to time. */
static void sums_upto(const struct sums *sums, size_t time, uint64_t *count, uint64_t *bytes)
{
	*count = *bytes = 0;
	for (; time; time -= time & -time) {
		*count += sums->count[time];
		*bytes += sums->bytes[time];
	}
}

static int by_time(const void *left, const void *right)
{
	const struct thing *a = *(struct thing *const *)left, *b = *(struct thing *const *)right;

	return a->time < b->time ? -1 : a->time > b->time;
}

/* Numbers the times of last access 1, 2, ... again, with room for as many. */
static bool renumber(struct reuse *reuse)
{
	size_t things = HASH_COUNT(reuse->things), i = 0;
	size_t room = 2 * things > TIMES_MIN ? 2 * things : TIMES_MIN;
	struct thing **order = calloc(things + 1, sizeof(struct thing *));
	uint32_t *count = calloc(room + 1, sizeof(*count));
	uint64_t *bytes = calloc(room + 1, sizeof(*bytes));
	struct thing *thing = NULL, *next = NULL;

	if (!order || !count || !bytes) {
		free(order);
		free(count);
		free(bytes);
		return false;
	}
	free(reuse->sums.count);
	free(reuse->sums.bytes);
	reuse->sums = (struct sums){count, bytes, room};
	HASH_ITER (hh, reuse->things, thing, next) {
		order[i++] = thing;
	}
	if (things)
		qsort(order, things, sizeof(struct thing *), by_time);
	for (i = 0; i < things; i++) {
		order[i]->time = i + 1;
		sums_change(&reuse->sums, i + 1, 1, order[i]->bytes);
	}
	reuse->now = things;
	free(order);
	return true;
}

/* --- accesses --------------------------------------------------------------------------------- */

struct reuse *reuse_new(void)
{
	return calloc(1, sizeof(struct reuse));
}

static void things_free(struct reuse *reuse)
{
	struct thing *thing = reuse->things, *next;

	/* The table goes first; what it held stays chained by hh.next. */
	HASH_CLEAR(hh, reuse->things);
	for (; thing; thing = next) {
		next = thing->hh.next;
		free(thing);
	}
}

static void distances_free(struct distances *distances)
{
	free(distances->points);
	free(distances->buffer);
}

void reuse_free(struct reuse *reuse)
{
	if (!reuse)
		return;
	things_free(reuse);
	distances_free(&reuse->by_entries);
	distances_free(&reuse->by_bytes);
	free(reuse->sums.count);
	free(reuse->sums.bytes);
	free(reuse->entries.points);
	free(reuse->bytes.points);
	free(reuse);
}

static struct thing *thing_of(struct reuse *reuse, uint64_t first, uint64_t end, uint64_t bytes)
{
	struct thing *thing = NULL;
	struct thing_key key;

	memset(&key, 0, sizeof(key));
	key.first = first;
	key.end = end;
	HASH_FIND(hh, reuse->things, &key, sizeof(key), thing);
	if (thing)
		return thing;
	thing = calloc(1, sizeof(*thing));
	if (!thing)
		return NULL;
	thing->key = key;
	thing->bytes = bytes;
	HASH_ADD(hh, reuse->things, key, sizeof(key), thing);
	reuse->live_bytes += bytes;
	return thing;
}

bool reuse_access(struct reuse *reuse, uint64_t first, uint64_t end, uint64_t bytes,
		  uint64_t time_ns, bool *repeated)
{
	struct thing *thing;
	uint64_t older, older_bytes;

	*repeated = false;
	if (reuse->now >= reuse->sums.room && !renumber(reuse))
		return false;
	thing = thing_of(reuse, first, end, bytes);
	if (!thing)
		return false;
	if (thing->time) {
		*repeated = true;
		/* "Up to its last access" includes itself; what it needs is the rest and itself. */
		sums_upto(&reuse->sums, thing->time, &older, &older_bytes);
		if (!distance_add(&reuse->by_entries, HASH_COUNT(reuse->things) - older + 1,
				  time_ns) ||
		    !distance_add(&reuse->by_bytes, reuse->live_bytes - older_bytes + thing->bytes,
				  time_ns))
			return false;
		sums_change(&reuse->sums, thing->time, -1, thing->bytes);
	}
	thing->time = ++reuse->now;
	sums_change(&reuse->sums, thing->time, 1, thing->bytes);
	return true;
}

bool reuse_forget(struct reuse *reuse)
{
	things_free(reuse);
	reuse->live_bytes = 0;
	return renumber(reuse);
}

/* --- curves ----------------------------------------------------------------------------------- */

static bool curve_make(struct distances *distances, struct reuse_curve *curve)
{
	if (!sort_in(distances))
		return false;
	free(curve->points);
	curve->points = calloc(distances->count + 1, sizeof(*curve->points));
	if (!curve->points)
		return false;
	curve->count = (unsigned)distances->count;
	for (unsigned i = 0; i < curve->count; i++) {
		curve->points[i] = distances->points[i];
		if (!i)
			continue;
		curve->points[i].hits += curve->points[i - 1].hits;
		curve->points[i].time_ns += curve->points[i - 1].time_ns;
	}
	return true;
}

bool reuse_curves(struct reuse *reuse, struct reuse_curve *entries, struct reuse_curve *bytes)
{
	if (!curve_make(&reuse->by_entries, &reuse->entries) ||
	    !curve_make(&reuse->by_bytes, &reuse->bytes))
		return false;
	*entries = reuse->entries;
	*bytes = reuse->bytes;
	return true;
}

struct reuse_point reuse_at(const struct reuse_curve *curve, uint64_t capacity)
{
	struct reuse_point at = {capacity, 0, 0};

	for (unsigned low = 0, high = curve->count; low < high;) {
		unsigned middle = low + (high - low) / 2;

		if (curve->points[middle].capacity > capacity) {
			high = middle;
			continue;
		}
		at.hits = curve->points[middle].hits;
		at.time_ns = curve->points[middle].time_ns;
		low = middle + 1;
	}
	return at;
}

const struct reuse_point *reuse_knee(const struct reuse_curve *curve, unsigned percent)
{
	for (unsigned i = 0; i < curve->count; i++)
		if (curve->points[i].hits * 100 >= curve->points[curve->count - 1].hits * percent)
			return &curve->points[i];
	return NULL;
}
