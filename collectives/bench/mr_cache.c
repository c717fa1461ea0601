/* SPDX-License-Identifier: Apache-2.0 */
/* What a hit in the registration cache costs, for caches of growing size. */
#include "collectives/mr_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOOKUPS 2000003

static int fake_reg(void *ctx, uint64_t addr, size_t bytes, uint64_t space, void **handle)
{
	(void)ctx;
	(void)addr;
	(void)bytes;
	(void)space;
	*handle = NULL;
	return 0;
}

static void fake_dereg(void *ctx, void *handle)
{
	(void)ctx;
	(void)handle;
}

static double now_ns(void)
{
	struct timespec ts;

	/* This thread's own: what other programs take of the CPU is not the cache's. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int get_put(struct mr_cache *cache, uint64_t index)
{
	struct mr_entry *e;

	/* A part of an entry, with gaps between entries, in an order unlike the addresses'. */
	if (mr_cache_get(cache, (index << 16) + 4096, 4096, 0, &e))
		return 1;
	mr_cache_put(cache, e);
	return 0;
}

static int measure(size_t entries)
{
	struct mr_cache_config config = {.max_entries = entries,
					 .max_bytes = SIZE_MAX,
					 .page_bytes = 4096,
					 .reg = fake_reg,
					 .dereg = fake_dereg};
	struct mr_cache *cache = mr_cache_new(&config);
	uint64_t state = 88172645463325252u;
	struct mr_cache_counters n;
	double start, random, same;

	if (!cache)
		return 1;
	for (size_t i = 0; i < entries; i++) {
		struct mr_entry *e;

		if (mr_cache_get(cache, (uint64_t)(i + 1) << 16, 32768, 0, &e))
			return 1;
		mr_cache_put(cache, e);
	}
	start = now_ns();
	for (int i = 0; i < LOOKUPS; i++) {
		if (get_put(cache, 1 + next_random(&state) % entries))
			return 1;
	}
	random = (now_ns() - start) / LOOKUPS;
	start = now_ns();
	for (int i = 0; i < LOOKUPS; i++) {
		if (get_put(cache, 1))
			return 1;
	}
	same = (now_ns() - start) / LOOKUPS;
	mr_cache_counters(cache, &n);
	printf("mr_cache  %8zu entries  random hit + put %6.1f ns  same entry %6.1f ns%s\n",
	       entries, random, same, n.misses == entries ? "" : "  (not all were hits)");
	mr_cache_free(cache);
	return n.misses != entries;
}

int main(void)
{
	static const size_t sizes[] = {1, 16, 256, 4096, 65536, 1000000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (measure(sizes[i])) {
			fprintf(stderr, "mr_cache bench: the cache failed\n");
			return 1;
		}
	}
	return 0;
}
