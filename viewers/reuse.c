/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse distances by sums over the times of last access, of 16, of 256, ... times together: what was used
 * since a thing's last access is a suffix sum. Times are renumbered when they run out, so that memory follows the number of
 * different things, not of accesses; and of those no more are known than the largest cache holds that is
 * looked at, which changes nothing for smaller ones: what it has lost, they have lost before.
 */
#include "viewers/reuse.h"

#include <stdlib.h>
#include <string.h>

#define TIMES_MIN 1024u
#define TOGETHER  16u /* times, or sums of one level, that the next one sums up: a power of two */
#define LEVELS    6u  /* TOGETHER^LEVELS times at most */
#define SLOTS_MIN 1024u
/* Accesses that are taken together, so that the memory they need is on its way by then. */
#define QUEUE 32u
/* Capacities in bytes are kept exactly up to so many different ones; beyond, rounded up to 8 bits. */
#define POINTS_MAX 262144u

struct thing {
	uint64_t first, end, bytes;
	uint32_t time; /* of the last access, from 1 */
	uint32_t next; /* of the same hash; 0: none */
};

/* How many things were last used at so many times together, and their bytes. */
struct level {
	uint64_t *bytes;
	uint32_t *count; /* of single times: the thing itself, 0: none */
};
struct sum {
	uint64_t bytes, count;
};

/* Hits by the capacity that they need: a hash table without order; no hits: free. */
struct distances {
	struct reuse_point *slots;
	size_t count, mask;
	bool rounded;
};

struct access {
	uint64_t first, end, bytes, time_ns;
	uint64_t *repeated;
};

/* A hit: what it needed, and what it saved. */
struct hit {
	uint64_t entries, bytes, time_ns;
};

struct reuse {
	unsigned queued, hits;
	struct access queue[QUEUE];
	struct hit hit[QUEUE];
	struct thing *things; /* [0] is none */
	uint32_t count, room;
	uint32_t *heads, mask; /* of things by hash */
	struct level levels[LEVELS];
	unsigned level_count;
	size_t times, now;              /* times 0 to times - 1, of which 0 is none */
	size_t oldest;                  /* no thing was last used before */
	struct reuse_point *by_entries; /* hits by entries needed, from 1; capacity is not set */
	size_t entries_room;
	struct distances by_bytes;
	struct reuse_curve entries, bytes;
};

/* --- distances -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

/* Up, so that a hit is never promised to a cache that is too small. */
static uint64_t round_up(uint64_t capacity)
{
	unsigned bits = capacity ? 64 - (unsigned)__builtin_clzll(capacity) : 0;
	uint64_t step = bits > 8 ? 1ull << (bits - 8) : 1;

	return (capacity + step - 1) / step * step;
}

/* Where the search for a capacity begins. */
static struct reuse_point *slot_of(const struct distances *distances, uint64_t capacity)
{
	return &distances->slots[mix(distances->rounded ? round_up(capacity) : capacity) &
				 distances->mask];
}

/* Of a capacity that is there or for which there is room. */
static void slot_add(struct distances *distances, const struct reuse_point *point)
{
	uint64_t capacity = distances->rounded ? round_up(point->capacity) : point->capacity;
	size_t at = (size_t)(slot_of(distances, capacity) - distances->slots);
	struct reuse_point *slot;

	while (distances->slots[at].hits && distances->slots[at].capacity != capacity)
		at = (at + 1) & distances->mask;
	slot = &distances->slots[at];
	distances->count += !slot->hits;
	slot->capacity = capacity;
	slot->hits += point->hits;
	slot->time_ns += point->time_ns;
}

/* Twice the room, or as much with capacities rounded. */
static bool distances_grow(struct distances *distances)
{
	struct distances larger = {.rounded = distances->rounded || distances->count >= POINTS_MAX};
	size_t slots = distances->slots ? distances->mask + 1 : 0;

	larger.mask = (slots ? 2 * slots : SLOTS_MIN) - 1;
	if (larger.rounded && !distances->rounded)
		larger.mask = slots - 1;
	larger.slots = calloc(larger.mask + 1, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < slots; i++)
		if (distances->slots[i].hits)
			slot_add(&larger, &distances->slots[i]);
	free(distances->slots);
	*distances = larger;
	return true;
}

static bool distance_add(struct distances *distances, const struct reuse_point *point)
{
	if ((!distances->slots || distances->count * 2 > distances->mask) &&
	    !distances_grow(distances))
		return false;
	slot_add(distances, point);
	return true;
}

static bool entries_add(struct reuse *reuse, size_t needed, uint64_t time_ns)
{
	if (needed >= reuse->entries_room) {
		size_t room = reuse->entries_room ? reuse->entries_room : SLOTS_MIN;
		struct reuse_point *more;

		while (room <= needed)
			room *= 2;
		more = realloc(reuse->by_entries, room * sizeof(*more));
		if (!more)
			return false;
		memset(more + reuse->entries_room, 0, (room - reuse->entries_room) * sizeof(*more));
		reuse->by_entries = more;
		reuse->entries_room = room;
	}
	reuse->by_entries[needed].hits++;
	reuse->by_entries[needed].time_ns += time_ns;
	return true;
}

/* --- sums ------------------------------------------------------------------------------------- */

static void sums_change(struct reuse *reuse, size_t time, int by, uint64_t bytes)
{
	reuse->levels[0].bytes[time] = by < 0 ? 0 : bytes;
	for (unsigned i = 1; i < reuse->level_count; i++) {
		time /= TOGETHER;
		reuse->levels[i].count[time] += (uint32_t)by;
		reuse->levels[i].bytes[time] += by < 0 ? -bytes : bytes;
	}
}

static void sums_add(struct reuse *reuse, size_t time, uint32_t thing, uint64_t bytes)
{
	reuse->levels[0].count[time] = thing;
	sums_change(reuse, time, 1, bytes);
}

static void sums_remove(struct reuse *reuse, size_t time, uint64_t bytes)
{
	reuse->levels[0].count[time] = 0;
	sums_change(reuse, time, -1, bytes);
}

/* Of what was used later. */
static struct sum sums_since(const struct reuse *reuse, size_t time)
{
	struct sum sum = {0};

	for (size_t i = time + 1; i % TOGETHER; i++) {
		sum.count += reuse->levels[0].count[i] != 0;
		sum.bytes += reuse->levels[0].bytes[i];
	}
	for (unsigned level = 1; level < reuse->level_count; level++) {
		const struct level *sums = &reuse->levels[level];

		time /= TOGETHER;
		for (size_t i = time + 1; i % TOGETHER; i++) {
			sum.count += sums->count[i];
			sum.bytes += sums->bytes[i];
		}
	}
	return sum;
}

static void levels_free(struct level *levels)
{
	for (unsigned i = 0; i < LEVELS; i++) {
		free(levels[i].bytes);
		free(levels[i].count);
		levels[i] = (struct level){0};
	}
}

/* Room for so many times, nothing in it; how many levels, 0 when memory is short. */
static unsigned levels_make(struct level *levels, size_t times)
{
	for (unsigned i = 0; i < LEVELS; i++) {
		size_t sums = (times + TOGETHER - 1) / TOGETHER * TOGETHER;

		levels[i].bytes = calloc(sums, sizeof(*levels[i].bytes));
		levels[i].count = calloc(sums, sizeof(*levels[i].count));
		if (!levels[i].bytes || !levels[i].count)
			return 0;
		if (times <= TOGETHER)
			return i + 1;
		times = sums / TOGETHER;
	}
	return 0;
}

/* Numbers the times of last access 1, 2, ... again, with room for some times as many. */
static bool renumber(struct reuse *reuse)
{
	size_t times = (size_t)reuse->count * 4 > TIMES_MIN ? (size_t)reuse->count * 4 : TIMES_MIN;
	struct level old[LEVELS], made[LEVELS] = {{0}};
	unsigned count = levels_make(made, times);
	size_t now = 0;

	if (!count) {
		levels_free(made);
		return false;
	}
	memcpy(old, reuse->levels, sizeof(old));
	memcpy(reuse->levels, made, sizeof(made));
	reuse->level_count = count;
	for (size_t i = reuse->oldest; i < reuse->times && reuse->count; i++) {
		uint32_t thing = old[0].count[i];

		if (!thing)
			continue;
		reuse->things[thing].time = (uint32_t)++now;
		sums_add(reuse, now, thing, reuse->things[thing].bytes);
	}
	levels_free(old);
	reuse->times = times;
	reuse->now = now;
	reuse->oldest = 1;
	return true;
}

/* --- things ----------------------------------------------------------------------------------- */

static uint32_t *head_of(const struct reuse *reuse, uint64_t first, uint64_t end)
{
	return &reuse->heads[mix(first * 31 + end) & reuse->mask];
}

/* The one used least recently; its place. */
static uint32_t thing_lose(struct reuse *reuse)
{
	struct thing *thing;
	uint32_t index, *at;

	while (!reuse->levels[0].count[reuse->oldest])
		reuse->oldest++;
	index = reuse->levels[0].count[reuse->oldest];
	thing = &reuse->things[index];
	at = head_of(reuse, thing->first, thing->end);
	while (*at != index)
		at = &reuse->things[*at].next;
	*at = thing->next;
	sums_remove(reuse, thing->time, thing->bytes);
	return index;
}

static bool things_grow(struct reuse *reuse)
{
	uint32_t room = reuse->room ? reuse->room * 2 : SLOTS_MIN;
	struct thing *things = realloc(reuse->things, ((size_t)room + 1) * sizeof(*things));
	uint32_t *heads;

	if (!things)
		return false;
	reuse->things = things;
	heads = calloc(2 * (size_t)room, sizeof(*heads));
	if (!heads)
		return false;
	free(reuse->heads);
	reuse->heads = heads;
	reuse->mask = 2 * room - 1;
	reuse->room = room;
	for (uint32_t i = 1; i <= reuse->count; i++) {
		uint32_t *head = head_of(reuse, things[i].first, things[i].end);

		things[i].next = *head;
		*head = i;
	}
	return true;
}

/* 0: memory is short. A new one has no time. */
static uint32_t thing_of(struct reuse *reuse, uint64_t first, uint64_t end, uint64_t bytes)
{
	uint32_t index = reuse->heads ? *head_of(reuse, first, end) : 0, *head;

	while (index && (reuse->things[index].first != first || reuse->things[index].end != end))
		index = reuse->things[index].next;
	if (index)
		return index;
	if (reuse->count == REUSE_ENTRIES_MAX) {
		index = thing_lose(reuse);
	} else {
		if (reuse->count == reuse->room && !things_grow(reuse))
			return 0;
		index = ++reuse->count;
	}
	head = head_of(reuse, first, end);
	reuse->things[index] =
		(struct thing){.first = first, .end = end, .bytes = bytes, .next = *head};
	*head = index;
	return index;
}

/* --- accesses --------------------------------------------------------------------------------- */

struct reuse *reuse_new(void)
{
	return calloc(1, sizeof(struct reuse));
}

void reuse_free(struct reuse *reuse)
{
	if (!reuse)
		return;
	free(reuse->things);
	free(reuse->heads);
	levels_free(reuse->levels);
	free(reuse->by_entries);
	free(reuse->by_bytes.slots);
	free(reuse->entries.points);
	free(reuse->bytes.points);
	free(reuse);
}

/* There is room for one a queued access. */
static void hit_note(struct reuse *reuse, const struct hit *hit)
{
	const struct distances *distances = &reuse->by_bytes;

	reuse->hit[reuse->hits++] = *hit;
	if (hit->entries < reuse->entries_room)
		__builtin_prefetch(&reuse->by_entries[hit->entries]);
	if (distances->slots)
		__builtin_prefetch(slot_of(distances, hit->bytes));
}

static bool access_take(struct reuse *reuse, const struct access *access)
{
	struct thing *thing;
	uint32_t index;

	if (reuse->now + 1 >= reuse->times && !renumber(reuse))
		return false;
	index = thing_of(reuse, access->first, access->end, access->bytes);
	if (!index)
		return false;
	thing = &reuse->things[index];
	if (thing->time) {
		/* What it needs is what was used since, and room for itself. */
		struct sum since = sums_since(reuse, thing->time);

		(*access->repeated)++;
		hit_note(reuse, &(struct hit){since.count + 1, since.bytes + thing->bytes,
					      access->time_ns});
		sums_remove(reuse, thing->time, thing->bytes);
	}
	thing->time = (uint32_t)++reuse->now;
	sums_add(reuse, thing->time, index, thing->bytes);
	return true;
}

static bool hits_take(struct reuse *reuse)
{
	bool good = true;

	for (unsigned i = 0; i < reuse->hits; i++) {
		const struct hit *hit = &reuse->hit[i];

		good &= entries_add(reuse, hit->entries, hit->time_ns) &&
			distance_add(&reuse->by_bytes,
				     &(struct reuse_point){hit->bytes, 1, hit->time_ns});
	}
	reuse->hits = 0;
	return good;
}

/* Fetches what the queued accesses will look at. */
static void queue_prepare(const struct reuse *reuse)
{
	uint32_t things[QUEUE];

	for (unsigned i = 0; i < reuse->queued; i++) {
		things[i] = *head_of(reuse, reuse->queue[i].first, reuse->queue[i].end);
		__builtin_prefetch(&reuse->things[things[i]]);
	}
	for (unsigned i = 0; i < reuse->queued; i++) {
		size_t time = things[i] ? reuse->things[things[i]].time : 0;

		__builtin_prefetch(&reuse->levels[0].count[time]);
		__builtin_prefetch(&reuse->levels[0].bytes[time]);
		__builtin_prefetch(&reuse->levels[1].bytes[time / TOGETHER]);
	}
}

static bool queue_take(struct reuse *reuse)
{
	bool good = true;

	if (reuse->heads && reuse->level_count > 1)
		queue_prepare(reuse);
	for (unsigned i = 0; i < reuse->queued; i++)
		good &= access_take(reuse, &reuse->queue[i]);
	reuse->queued = 0;
	return hits_take(reuse) && good;
}

bool reuse_access(struct reuse *reuse, uint64_t first, uint64_t end, uint64_t bytes,
		  uint64_t time_ns, uint64_t *repeated)
{
	reuse->queue[reuse->queued++] = (struct access){first, end, bytes, time_ns, repeated};
	if (reuse->heads)
		__builtin_prefetch(head_of(reuse, first, end));
	return reuse->queued < QUEUE || queue_take(reuse);
}

bool reuse_forget(struct reuse *reuse)
{
	if (!queue_take(reuse))
		return false;
	if (reuse->heads)
		memset(reuse->heads, 0, ((size_t)reuse->mask + 1) * sizeof(*reuse->heads));
	reuse->count = 0;
	return renumber(reuse);
}

/* --- curves ----------------------------------------------------------------------------------- */

static int by_capacity(const void *left, const void *right)
{
	const struct reuse_point *a = left, *b = right;

	return a->capacity < b->capacity ? -1 : a->capacity > b->capacity;
}

/* Of points in order, a hit each at least: sums up. */
static void sum_up(struct reuse_curve *curve)
{
	for (unsigned i = 1; i < curve->count; i++) {
		curve->points[i].hits += curve->points[i - 1].hits;
		curve->points[i].time_ns += curve->points[i - 1].time_ns;
	}
}

static bool curve_start(struct reuse_curve *curve, size_t most)
{
	free(curve->points);
	curve->count = 0;
	curve->points = calloc(most + 1, sizeof(*curve->points));
	return curve->points != NULL;
}

static bool entries_curve(struct reuse *reuse)
{
	struct reuse_curve *curve = &reuse->entries;
	size_t points = 0;

	for (size_t i = 1; i < reuse->entries_room; i++)
		points += reuse->by_entries[i].hits != 0;
	if (!curve_start(curve, points))
		return false;
	for (size_t i = 1; i < reuse->entries_room; i++)
		if (reuse->by_entries[i].hits)
			curve->points[curve->count++] = (struct reuse_point){
				i, reuse->by_entries[i].hits, reuse->by_entries[i].time_ns};
	sum_up(curve);
	return true;
}

static bool bytes_curve(struct reuse *reuse)
{
	const struct distances *distances = &reuse->by_bytes;
	struct reuse_curve *curve = &reuse->bytes;

	if (!curve_start(curve, distances->count))
		return false;
	for (size_t i = 0; distances->slots && i <= distances->mask; i++)
		if (distances->slots[i].hits)
			curve->points[curve->count++] = distances->slots[i];
	if (curve->count)
		qsort(curve->points, curve->count, sizeof(*curve->points), by_capacity);
	sum_up(curve);
	return true;
}

bool reuse_curves(struct reuse *reuse, struct reuse_curve *entries, struct reuse_curve *bytes)
{
	if (!queue_take(reuse) || !entries_curve(reuse) || !bytes_curve(reuse))
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
