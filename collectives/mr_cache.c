/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registration cache of mr_cache.h.
 *
 * No entry in the map contains another: a new one takes the place of those it contains. Sorted by
 * start, the entries are then sorted by end too, so the one entry that can contain a range is the
 * last that starts at or before it: one lookup, however much the entries overlap.
 *
 * The LRU list holds the unused entries only, so that the next victim is always its tail.
 */
#include "collectives/mr_cache.h"
#include "collectives/ordmap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct mr_cache {
	struct mr_cache_config config;
	pthread_mutex_t lock;
	struct slab entries;
	struct ordmap map;    /* by start */
	struct mr_entry idle; /* head of the LRU list: next is the latest used, prev the oldest */
	uint64_t generation;  /* of invalidations */
	struct mr_cache_counters counters;
};

static size_t entry_bytes(const struct mr_entry *e)
{
	return e->end - e->start;
}

/* --- lists ---------------------------------------------------------------------------------- */

static void idle_add(struct mr_cache *c, struct mr_entry *e)
{
	e->prev = &c->idle;
	e->next = c->idle.next;
	e->next->prev = e;
	c->idle.next = e;
}

static void idle_remove(struct mr_entry *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	e->next = NULL;
}

/* Takes an entry out of the cache. Unused, it goes to the `doomed` list; else its last user closes
 * it. */
static void cache_drop(struct mr_cache *c, struct mr_entry *e, struct mr_entry **doomed)
{
	ordmap_remove(&c->map, e->start);
	c->counters.entries--;
	c->counters.bytes -= entry_bytes(e);
	e->cached = 0;
	if (e->refs) {
		c->counters.used_entries--;
		c->counters.used_bytes -= entry_bytes(e);
		return;
	}
	idle_remove(e);
	e->next = *doomed;
	*doomed = e;
}

/* Without the lock: what `dereg` does may come back to the cache. */
static void close_doomed(struct mr_cache *c, struct mr_entry *doomed)
{
	struct mr_entry *e;

	if (!doomed)
		return;
	for (e = doomed; e; e = e->next)
		c->config.dereg(c->config.ctx, e->handle);
	pthread_mutex_lock(&c->lock);
	while (doomed) {
		e = doomed;
		doomed = e->next;
		slab_put(&c->entries, e);
	}
	pthread_mutex_unlock(&c->lock);
}

/* --- ranges --------------------------------------------------------------------------------- */

static int range_round(const struct mr_cache *c, uint64_t addr, size_t bytes, uint64_t *start,
		       uint64_t *end)
{
	uint64_t mask = c->config.page_bytes ? c->config.page_bytes - 1 : 0;

	if (!bytes || addr + bytes < addr || addr + bytes > UINT64_MAX - mask)
		return -EINVAL;
	*start = addr & ~mask;
	*end = (addr + bytes + mask) & ~mask;
	return 0;
}

static size_t drop_overlapping(struct mr_cache *c, uint64_t start, uint64_t end,
			       struct mr_entry **doomed)
{
	struct mr_entry *e;
	size_t n = 0;

	/* Backwards from the last entry that starts before the end: ends fall as starts do. */
	for (;;) {
		e = end ? ordmap_floor(&c->map, end - 1) : NULL;
		if (!e || e->end <= start)
			return n;
		cache_drop(c, e, doomed);
		n++;
	}
}

/* Entries within [start, end) are of no more use once that range is registered. */
static void drop_contained(struct mr_cache *c, uint64_t start, uint64_t end,
			   struct mr_entry **doomed)
{
	struct mr_entry *e;

	while ((e = ordmap_ceil(&c->map, start)) && e->end <= end) {
		cache_drop(c, e, doomed);
		c->counters.superseded++;
	}
}

/* An address belongs to one kind of memory at a time: entries of another are stale. */
static void drop_other_spaces(struct mr_cache *c, uint64_t start, uint64_t end, uint64_t space,
			      struct mr_entry **doomed)
{
	struct mr_entry *e;
	uint64_t from = end;

	while (from && (e = ordmap_floor(&c->map, from - 1)) && e->end > start) {
		from = e->start;
		if (e->space == space)
			continue;
		cache_drop(c, e, doomed);
		c->counters.invalidated++;
		c->generation++;
	}
}

static struct mr_entry *find(struct mr_cache *c, uint64_t start, uint64_t end)
{
	struct mr_entry *e = ordmap_floor(&c->map, start);

	return e && e->end >= end ? e : NULL;
}

static int evict_oldest(struct mr_cache *c, struct mr_entry **doomed)
{
	if (c->idle.prev == &c->idle)
		return 0;
	cache_drop(c, c->idle.prev, doomed);
	c->counters.evictions++;
	return 1;
}

static int fits_beside_used(const struct mr_cache *c, size_t bytes)
{
	return c->counters.used_entries < c->config.max_entries && bytes <= c->config.max_bytes &&
	       c->counters.used_bytes <= c->config.max_bytes - bytes;
}

static void make_room(struct mr_cache *c, size_t bytes, struct mr_entry **doomed)
{
	while (c->counters.entries + 1 > c->config.max_entries ||
	       c->counters.bytes + bytes > c->config.max_bytes) {
		if (!evict_oldest(c, doomed))
			return;
	}
}

/* --- get and put ---------------------------------------------------------------------------- */

static struct mr_entry *take_hit(struct mr_cache *c, uint64_t addr, uint64_t end, uint64_t space)
{
	struct mr_entry *e = find(c, addr, end);

	if (!e || e->space != space)
		return NULL;
	if (!e->refs++) {
		idle_remove(e);
		c->counters.used_entries++;
		c->counters.used_bytes += entry_bytes(e);
	}
	return e;
}

/* Registers, closing unused registrations one by one while there is no room for more. */
static int register_entry(struct mr_cache *c, struct mr_entry *e)
{
	for (;;) {
		struct mr_entry *doomed = NULL;
		int more, rc;

		rc = c->config.reg(c->config.ctx, e->start, entry_bytes(e), e->space, &e->handle);
		if (rc != -ENOMEM && rc != -ENOSPC && rc != -EAGAIN)
			return rc;
		pthread_mutex_lock(&c->lock);
		more = evict_oldest(c, &doomed);
		pthread_mutex_unlock(&c->lock);
		close_doomed(c, doomed);
		if (!more)
			return rc;
	}
}

static void note_peak(struct mr_cache_counters *n)
{
	if (n->entries > n->peak_entries)
		n->peak_entries = n->entries;
	if (n->bytes > n->peak_bytes)
		n->peak_bytes = n->bytes;
}

/* Puts a fresh registration into the map, if that is still right. */
static void keep(struct mr_cache *c, struct mr_entry *e, uint64_t generation,
		 struct mr_entry **doomed)
{
	/* Memory that went away while it was being registered may have been this; and another
	 * thread may have registered the same, or taken the room, meanwhile. */
	if (c->generation != generation || find(c, e->start, e->end) ||
	    !fits_beside_used(c, entry_bytes(e)))
		return;
	drop_contained(c, e->start, e->end, doomed);
	make_room(c, entry_bytes(e), doomed);
	if (ordmap_insert(&c->map, e->start, e))
		return; /* no memory for the map: it serves this one use */
	e->cached = 1;
	c->counters.entries++;
	c->counters.bytes += entry_bytes(e);
	c->counters.used_entries++;
	c->counters.used_bytes += entry_bytes(e);
	note_peak(&c->counters);
}

static int get_miss(struct mr_cache *c, struct mr_entry *e, int cacheable, uint64_t generation)
{
	struct mr_entry *doomed = NULL;
	int rc;

	rc = register_entry(c, e);
	pthread_mutex_lock(&c->lock);
	if (rc) {
		c->counters.failures++;
		slab_put(&c->entries, e);
	} else {
		e->refs = 1;
		if (cacheable)
			keep(c, e, generation, &doomed);
		if (!e->cached)
			c->counters.bypasses++;
	}
	pthread_mutex_unlock(&c->lock);
	close_doomed(c, doomed);
	return rc;
}

int mr_cache_get(struct mr_cache *c, uint64_t addr, size_t bytes, uint64_t space,
		 struct mr_entry **out)
{
	struct mr_entry *e, *doomed = NULL;
	uint64_t start, end, generation;
	int cacheable, rc;

	*out = NULL;
	rc = range_round(c, addr, bytes, &start, &end);
	if (rc)
		return rc;
	pthread_mutex_lock(&c->lock);
	*out = take_hit(c, addr, addr + bytes, space);
	if (*out) {
		c->counters.hits++;
		pthread_mutex_unlock(&c->lock);
		return 0;
	}
	c->counters.misses++;
	drop_other_spaces(c, start, end, space, &doomed);
	cacheable = fits_beside_used(c, end - start);
	if (cacheable) { /* room first: the network may have a limit of its own */
		drop_contained(c, start, end, &doomed);
		make_room(c, end - start, &doomed);
	}
	generation = c->generation;
	e = slab_get(&c->entries);
	pthread_mutex_unlock(&c->lock);
	close_doomed(c, doomed);

	if (!e)
		return -ENOMEM;
	*e = (struct mr_entry){.start = start, .end = end, .space = space};
	rc = get_miss(c, e, cacheable, generation);
	if (!rc)
		*out = e;
	return rc;
}

void mr_cache_put(struct mr_cache *c, struct mr_entry *e)
{
	int last;

	pthread_mutex_lock(&c->lock);
	last = !--e->refs;
	if (last && e->cached) {
		c->counters.used_entries--;
		c->counters.used_bytes -= entry_bytes(e);
		idle_add(c, e);
		last = 0;
	}
	pthread_mutex_unlock(&c->lock);
	if (last) {
		e->next = NULL;
		close_doomed(c, e);
	}
}

/* --- the rest ------------------------------------------------------------------------------- */

size_t mr_cache_invalidate(struct mr_cache *c, uint64_t addr, size_t bytes)
{
	uint64_t end = addr + bytes < addr ? UINT64_MAX : addr + bytes;
	struct mr_entry *doomed = NULL;
	size_t n = 0;

	pthread_mutex_lock(&c->lock);
	c->generation++;
	if (bytes)
		n = drop_overlapping(c, addr, end, &doomed);
	c->counters.invalidated += n;
	pthread_mutex_unlock(&c->lock);
	close_doomed(c, doomed);
	return n;
}

void mr_cache_flush(struct mr_cache *c)
{
	struct mr_entry *doomed = NULL;

	pthread_mutex_lock(&c->lock);
	while (evict_oldest(c, &doomed))
		;
	pthread_mutex_unlock(&c->lock);
	close_doomed(c, doomed);
}

void mr_cache_counters(struct mr_cache *c, struct mr_cache_counters *out)
{
	pthread_mutex_lock(&c->lock);
	*out = c->counters;
	pthread_mutex_unlock(&c->lock);
}

struct mr_cache *mr_cache_new(const struct mr_cache_config *config)
{
	struct mr_cache *c;

	if (config->page_bytes & (config->page_bytes - 1))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->config = *config;
	pthread_mutex_init(&c->lock, NULL);
	ordmap_init(&c->map);
	slab_init(&c->entries, sizeof(struct mr_entry));
	c->idle.prev = c->idle.next = &c->idle;
	return c;
}

void mr_cache_free(struct mr_cache *c)
{
	if (!c)
		return;
	mr_cache_flush(c);
	ordmap_free(&c->map);
	slab_free(&c->entries);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
