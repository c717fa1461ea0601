/* SPDX-License-Identifier: Apache-2.0 */
/* The registration cache: each promise of mr_cache.h by itself, then a million random operations
 * against a model that keeps a plain list and looks at every entry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/mr_cache.h"
#include "collectives/ordmap.h"

#define PAGE 4096u

/* What the callbacks did: every registration open now, in a list. */
struct fake {
	size_t open, opened, closed;
	size_t limit; /* registrations that the "network" has room for; 0: no limit */
	int fail;     /* errno of the next registration */
	struct mr_cache *cache;
	uint64_t gone_during_reg; /* memory reported as gone from within reg */
	pthread_mutex_t lock;
};

struct fake_mr {
	uint64_t addr;
	size_t bytes;
	uint64_t space;
};

static int fake_reg(void *ctx, uint64_t addr, size_t bytes, uint64_t space, void **handle)
{
	struct fake *f = ctx;
	struct fake_mr *mr;
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	if (f->fail)
		rc = -f->fail;
	else if (f->limit && f->open >= f->limit)
		rc = -ENOMEM;
	f->fail = 0;
	if (!rc) {
		f->open++;
		f->opened++;
	}
	pthread_mutex_unlock(&f->lock);
	if (rc)
		return rc;
	if (f->gone_during_reg)
		mr_cache_invalidate(f->cache, f->gone_during_reg, 1);
	mr = malloc(sizeof(*mr));
	assert_non_null(mr);
	*mr = (struct fake_mr){addr, bytes, space};
	*handle = mr;
	return 0;
}

static void fake_dereg(void *ctx, void *handle)
{
	struct fake *f = ctx;

	pthread_mutex_lock(&f->lock);
	f->open--;
	f->closed++;
	pthread_mutex_unlock(&f->lock);
	free(handle);
}

static struct mr_cache *make(struct fake *f, size_t entries, size_t bytes, size_t page)
{
	struct mr_cache_config config = {.max_entries = entries,
					 .max_bytes = bytes,
					 .page_bytes = page,
					 .reg = fake_reg,
					 .dereg = fake_dereg,
					 .ctx = f};

	memset(f, 0, sizeof(*f));
	pthread_mutex_init(&f->lock, NULL);
	f->cache = mr_cache_new(&config);
	assert_non_null(f->cache);
	return f->cache;
}

static struct mr_entry *get(struct mr_cache *c, uint64_t addr, size_t bytes)
{
	struct mr_entry *e;

	assert_int_equal(mr_cache_get(c, addr, bytes, 0, &e), 0);
	assert_true(e->start <= addr && e->end >= addr + bytes);
	return e;
}

static void touch(struct mr_cache *c, uint64_t addr, size_t bytes)
{
	mr_cache_put(c, get(c, addr, bytes));
}

static struct mr_cache_counters counters(struct mr_cache *c)
{
	struct mr_cache_counters n;

	mr_cache_counters(c, &n);
	return n;
}

static void finish(struct fake *f)
{
	mr_cache_free(f->cache);
	assert_int_equal(f->open, 0);
	assert_int_equal(f->opened, f->closed);
}

static void test_hit_and_part(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, 0);

	(void)state;
	touch(c, 1000, 500);
	touch(c, 1000, 500);
	touch(c, 1100, 100); /* a part */
	touch(c, 1499, 1);   /* its last byte */
	assert_int_equal(counters(c).hits, 3);
	touch(c, 1499, 2); /* one byte too far */
	touch(c, 999, 1);  /* just before */
	assert_int_equal(counters(c).hits, 3);
	assert_int_equal(counters(c).misses, 3);
	assert_int_equal(f.opened, 3);
	finish(&f);
}

static void test_pages(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, PAGE);
	struct mr_entry *e = get(c, 3 * PAGE + 100, 50);

	(void)state;
	assert_int_equal(e->start, 3 * PAGE);
	assert_int_equal(e->end, 4 * PAGE);
	mr_cache_put(c, e);
	touch(c, 3 * PAGE + 3000, 1096); /* another buffer, same page, to its last byte */
	assert_int_equal(counters(c).hits, 1);
	touch(c, 3 * PAGE + 3000, 1097); /* the next page was never registered: no false hit */
	assert_int_equal(counters(c).hits, 1);
	/* The larger one replaced the page's own. */
	assert_int_equal(counters(c).superseded, 1);
	assert_int_equal(counters(c).entries, 1);
	finish(&f);
}

static void test_bad_ranges(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, PAGE);
	struct mr_entry *e;

	(void)state;
	assert_int_equal(mr_cache_get(c, 4096, 0, 0, &e), -EINVAL);
	assert_int_equal(mr_cache_get(c, UINT64_MAX - 5, 10, 0, &e), -EINVAL);
	assert_int_equal(mr_cache_get(c, UINT64_MAX - 5, 2, 0, &e), -EINVAL); /* rounds past */
	assert_null(e);
	f.fail = EPERM;
	assert_int_equal(mr_cache_get(c, 4096, 10, 0, &e), -EPERM);
	assert_int_equal(counters(c).failures, 1);
	assert_int_equal(counters(c).entries, 0);
	assert_null(mr_cache_new(&(struct mr_cache_config){.page_bytes = 3000}));
	finish(&f);
}

static void test_lru_by_entries(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 3, 1 << 20, 0);

	(void)state;
	touch(c, 100, 10);
	touch(c, 200, 10);
	touch(c, 300, 10);
	touch(c, 100, 10); /* 200 is the longest unused now */
	touch(c, 400, 10);
	assert_int_equal(counters(c).evictions, 1);
	touch(c, 100, 10);
	touch(c, 300, 10);
	assert_int_equal(counters(c).hits, 3);
	touch(c, 200, 10);
	assert_int_equal(counters(c).hits, 3);
	assert_int_equal(counters(c).entries, 3);
	finish(&f);
}

static void test_lru_by_bytes(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 100, 1000, 0);

	(void)state;
	touch(c, 10000, 400);
	touch(c, 20000, 400);
	touch(c, 30000, 500); /* 10000 must go */
	assert_int_equal(counters(c).evictions, 1);
	assert_int_equal(counters(c).bytes, 900);
	touch(c, 40000, 1001); /* larger than the cache: others stay */
	assert_int_equal(counters(c).bypasses, 1);
	assert_int_equal(counters(c).bytes, 900);
	touch(c, 50000, 1000); /* exactly the cache */
	assert_int_equal(counters(c).entries, 1);
	assert_int_equal(counters(c).bytes, 1000);
	finish(&f);
}

static void test_in_use_is_kept(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 2, 1 << 20, 0);
	struct mr_entry *a = get(c, 100, 10), *b = get(c, 200, 10), *x;

	(void)state;
	x = get(c, 300, 10); /* no room beside a and b */
	assert_int_equal(counters(c).bypasses, 1);
	assert_int_equal(f.open, 3);
	mr_cache_put(c, x);
	assert_int_equal(f.open, 2);
	x = get(c, 100, 5); /* shared */
	assert_ptr_equal(x, a);
	mr_cache_put(c, a);
	assert_int_equal(counters(c).used_entries, 2);
	mr_cache_put(c, x);
	mr_cache_put(c, b);
	assert_int_equal(counters(c).used_entries, 0);
	assert_int_equal(counters(c).used_bytes, 0);
	finish(&f);
}

static void test_superseded_in_use(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, 0);
	struct mr_entry *small = get(c, 150, 10), *large = get(c, 100, 100);

	(void)state;
	assert_int_equal(counters(c).superseded, 1);
	assert_int_equal(f.open, 2); /* small is still used */
	mr_cache_put(c, small);
	assert_int_equal(f.open, 1);
	mr_cache_put(c, large);
	touch(c, 150, 10);
	assert_int_equal(counters(c).hits, 1);
	finish(&f);
}

static void test_invalidate(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, 0);
	struct mr_entry *used;

	(void)state;
	touch(c, 100, 50);
	touch(c, 120, 60); /* overlaps the first without containing it */
	touch(c, 500, 50);
	used = get(c, 600, 50);
	assert_int_equal(mr_cache_invalidate(c, 180, 320), 0); /* [180, 500): between them */
	assert_int_equal(mr_cache_invalidate(c, 149, 1), 2);
	assert_int_equal(counters(c).entries, 2);
	assert_int_equal(mr_cache_invalidate(c, 649, 1), 1);
	assert_int_equal(f.open, 2); /* 500, and 600 in use */
	touch(c, 600, 50);           /* must not be the stale one */
	assert_int_equal(counters(c).hits, 0);
	mr_cache_put(c, used);
	assert_int_equal(f.open, 2);
	assert_int_equal(mr_cache_invalidate(c, 0, UINT64_MAX), 2);
	assert_int_equal(counters(c).bytes, 0);
	finish(&f);
}

static void test_gone_while_registering(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, 0);
	struct mr_entry *e;

	(void)state;
	f.gone_during_reg = 100;
	e = get(c, 100, 50); /* usable, as the caller asked for it, but never handed out again */
	assert_false(e->cached);
	f.gone_during_reg = 0;
	mr_cache_put(c, e);
	assert_int_equal(f.open, 0);
	finish(&f);
}

static void test_other_space(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 7, 1 << 20, 0);
	struct mr_entry *e;

	(void)state;
	touch(c, 100, 100);
	touch(c, 180, 100);
	assert_int_equal(mr_cache_get(c, 150, 10, 1, &e), 0);
	assert_int_equal(((struct fake_mr *)e->handle)->space, 1);
	mr_cache_put(c, e);
	assert_int_equal(counters(c).hits, 0);
	assert_int_equal(counters(c).invalidated, 1); /* 180.. does not overlap */
	finish(&f);
}

static void test_network_full(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 100, 1 << 20, 0);
	struct mr_entry *e, *used[3];

	(void)state;
	f.limit = 3;
	for (uint64_t i = 0; i < 11; i++)
		touch(c, 1000 * (i + 1), 10);
	assert_int_equal(counters(c).evictions, 8);
	for (uint64_t i = 0; i < 3; i++)
		used[i] = get(c, 100000 * (i + 1), 10);
	assert_int_equal(mr_cache_get(c, 900000, 10, 0, &e), -ENOMEM);
	for (int i = 0; i < 3; i++)
		mr_cache_put(c, used[i]);
	finish(&f);
}

static void test_off(void **state)
{
	struct fake f;
	struct mr_cache *c = make(&f, 0, 0, PAGE);

	(void)state;
	for (int i = 0; i < 5; i++)
		touch(c, PAGE, 10);
	assert_int_equal(f.opened, 5);
	assert_int_equal(f.open, 0);
	assert_int_equal(counters(c).bypasses, 5);
	finish(&f);
}

/* --- the model ------------------------------------------------------------------------------ */

#define MODEL_SLOTS   97
#define MODEL_ENTRIES 61
#define MODEL_BYTES   (120 * 1024)
#define MODEL_SPAN    (64 * PAGE)
#define HELD          13
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define OPERATIONS 200003
#else
#define OPERATIONS 1000003
#endif

struct model_entry {
	uint64_t start, end;
	uint64_t put_at; /* when it was last given back */
	int refs, live;
	void *handle;
};

struct model {
	struct model_entry slot[MODEL_SLOTS];
	uint64_t now;
	uint64_t hits, misses, evictions, superseded, invalidated, bypasses;
};

static void model_totals(const struct model *m, size_t *n, size_t *bytes, size_t *used_n,
			 size_t *used_bytes)
{
	*n = *bytes = *used_n = *used_bytes = 0;
	for (int i = 0; i < MODEL_SLOTS; i++) {
		const struct model_entry *e = &m->slot[i];

		if (!e->live)
			continue;
		++*n;
		*bytes += e->end - e->start;
		if (e->refs) {
			++*used_n;
			*used_bytes += e->end - e->start;
		}
	}
}

/* Where several cover a range, the cache takes the one that starts last. */
static struct model_entry *model_find(struct model *m, uint64_t start, uint64_t end)
{
	struct model_entry *best = NULL;

	for (int i = 0; i < MODEL_SLOTS; i++) {
		struct model_entry *e = &m->slot[i];

		if (e->live && e->start <= start && e->end >= end &&
		    (!best || e->start > best->start))
			best = e;
	}
	return best;
}

static void model_evict(struct model *m, size_t bytes)
{
	for (;;) {
		struct model_entry *oldest = NULL;
		size_t n, total, used_n, used_bytes;

		model_totals(m, &n, &total, &used_n, &used_bytes);
		if (n + 1 <= MODEL_ENTRIES && total + bytes <= MODEL_BYTES)
			return;
		for (int i = 0; i < MODEL_SLOTS; i++) {
			struct model_entry *e = &m->slot[i];

			if (e->live && !e->refs && (!oldest || e->put_at < oldest->put_at))
				oldest = e;
		}
		if (!oldest)
			return;
		oldest->live = 0;
		m->evictions++;
	}
}

/* What a get should do; `e` is what the cache gave. */
static void model_get(struct model *m, uint64_t addr, size_t bytes, const struct mr_entry *e)
{
	struct model_entry *hit = model_find(m, addr, addr + bytes);
	uint64_t start = addr / PAGE * PAGE;
	uint64_t end = (addr + bytes + PAGE - 1) / PAGE * PAGE;
	size_t n, total, used_n, used_bytes;

	if (hit) {
		m->hits++;
		hit->refs++;
		assert_ptr_equal(e->handle, hit->handle);
		return;
	}
	m->misses++;
	model_totals(m, &n, &total, &used_n, &used_bytes);
	if (used_n >= MODEL_ENTRIES || used_bytes + (end - start) > MODEL_BYTES) {
		m->bypasses++;
		assert_false(e->cached);
		return;
	}
	for (int i = 0; i < MODEL_SLOTS; i++) {
		if (m->slot[i].live && m->slot[i].start >= start && m->slot[i].end <= end) {
			m->slot[i].live = 0;
			m->superseded++;
		}
	}
	model_evict(m, end - start);
	for (int i = 0; i < MODEL_SLOTS; i++) {
		if (m->slot[i].live)
			continue;
		m->slot[i] = (struct model_entry){
			.start = start, .end = end, .refs = 1, .live = 1, .handle = e->handle};
		return;
	}
	fail_msg("the model has no slot left");
}

static void model_put(struct model *m, const struct mr_entry *e)
{
	m->now++;
	for (int i = 0; i < MODEL_SLOTS; i++) {
		struct model_entry *x = &m->slot[i];

		if (x->live && x->handle == e->handle && !--x->refs)
			x->put_at = m->now;
	}
}

static size_t model_invalidate(struct model *m, uint64_t addr, size_t bytes)
{
	size_t n = 0;

	for (int i = 0; i < MODEL_SLOTS; i++) {
		struct model_entry *e = &m->slot[i];

		if (e->live && e->start < addr + bytes && e->end > addr) {
			e->live = 0;
			n++;
		}
	}
	m->invalidated += n;
	return n;
}

static void compare(const struct model *m, struct mr_cache *c)
{
	struct mr_cache_counters n = counters(c);
	size_t entries, bytes, used_n, used_bytes;

	model_totals(m, &entries, &bytes, &used_n, &used_bytes);
	assert_int_equal(n.hits, m->hits);
	assert_int_equal(n.misses, m->misses);
	assert_int_equal(n.evictions, m->evictions);
	assert_int_equal(n.superseded, m->superseded);
	assert_int_equal(n.invalidated, m->invalidated);
	assert_int_equal(n.bypasses, m->bypasses);
	assert_int_equal(n.entries, entries);
	assert_int_equal(n.bytes, bytes);
	assert_int_equal(n.used_entries, used_n);
	assert_int_equal(n.used_bytes, used_bytes);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void random_step(struct model *m, struct mr_cache *c, struct mr_entry **held, uint64_t *seed)
{
	uint64_t r = next_random(seed);
	uint64_t addr = PAGE + next_random(seed) % MODEL_SPAN;
	size_t bytes = 1 + next_random(seed) % (next_random(seed) % 3 ? 2 * PAGE : 9 * PAGE);
	struct mr_entry **h = &held[r % HELD];

	if (r >> 32 & 15) {
		if (*h) {
			model_put(m, *h);
			mr_cache_put(c, *h);
			*h = NULL;
		} else {
			*h = get(c, addr, bytes);
			model_get(m, addr, bytes, *h);
		}
	} else {
		bytes = bytes % 5000 + 1;
		assert_int_equal(mr_cache_invalidate(c, addr, bytes),
				 model_invalidate(m, addr, bytes));
	}
}

static void test_model(void **state)
{
	static struct model m;
	struct fake f;
	struct mr_cache *c = make(&f, MODEL_ENTRIES, MODEL_BYTES, PAGE);
	struct mr_entry *held[HELD] = {NULL};
	uint64_t seed = 0x9e3779b97f4a7c15u;

	int operations = getenv("WAYLAY_TEST_LONG") ? 10000019 : OPERATIONS;

	(void)state;
	for (int i = 0; i < operations; i++) {
		random_step(&m, c, held, &seed);
		if (i % 101 == 0)
			compare(&m, c);
	}
	compare(&m, c);
	/* The run is only worth something if every path was taken often. */
	assert_true(m.hits > 1000 && m.evictions > 1000 && m.superseded > 1000);
	assert_true(m.invalidated > 1000 && m.bypasses > 100);
	for (int i = 0; i < HELD; i++) {
		if (held[i])
			mr_cache_put(c, held[i]);
	}
	finish(&f);
}

/* --- threads -------------------------------------------------------------------------------- */

static void *hammer(void *arg)
{
	struct fake *f = arg;
	uint64_t seed = (uint64_t)(uintptr_t)&seed | 1;

	for (int i = 0; i < 20011; i++) {
		uint64_t addr = PAGE + next_random(&seed) % MODEL_SPAN;
		struct mr_entry *e;

		if (i % 17 == 0) {
			mr_cache_invalidate(f->cache, addr, 100);
		} else if (!mr_cache_get(f->cache, addr, 3000, 0, &e)) {
			const struct fake_mr *mr = e->handle;

			/* The registration is open and covers the range. */
			if (mr->addr > addr || mr->addr + mr->bytes < addr + 3000)
				return arg;
			mr_cache_put(f->cache, e);
		}
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fake f;
	pthread_t thread[3];

	(void)state;
	make(&f, 23, MODEL_BYTES, PAGE);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, &f), 0);
	for (int i = 0; i < 3; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
	assert_int_equal(counters(f.cache).used_entries, 0);
	finish(&f);
}

/* --- the ordered map ------------------------------------------------------------------------ */

#define KEYS 4099

static void check_map(const struct ordmap *map, const char *present, uint64_t key)
{
	uint64_t below = key, above = key;
	void *floor = ordmap_floor(map, key), *ceil = ordmap_ceil(map, key);

	while (below && !present[below])
		below--;
	while (above < KEYS && !present[above])
		above++;
	assert_ptr_equal(floor, present[below] ? (void *)(present + below) : NULL);
	assert_ptr_equal(ceil, above < KEYS ? (void *)(present + above) : NULL);
}

static void test_ordmap(void **state)
{
	static char present[KEYS + 1];
	struct ordmap map;
	uint64_t seed = 12345;
	size_t count = 0;

	(void)state;
	ordmap_init(&map);
	for (int i = 0; i < 200003; i++) {
		/* Phases that mostly grow and mostly shrink, down to nothing and up again. */
		int grow = next_random(&seed) % 10 < (i / 20000 % 2 ? 1 : 9);
		uint64_t key = 1 + next_random(&seed) % (KEYS - 1);

		if (grow) {
			int rc = ordmap_insert(&map, key, &present[key]);

			assert_int_equal(rc, present[key] ? -EEXIST : 0);
			count += !present[key];
			present[key] = 1;
		} else {
			assert_ptr_equal(ordmap_remove(&map, key),
					 present[key] ? (void *)&present[key] : NULL);
			count -= (size_t)present[key];
			present[key] = 0;
		}
		assert_int_equal(map.count, count);
		if (i % 7 == 0)
			check_map(&map, present, next_random(&seed) % KEYS);
	}
	for (uint64_t key = 0; key < KEYS; key++) {
		check_map(&map, present, key);
		ordmap_remove(&map, key);
		present[key] = 0;
	}
	assert_null(map.root);
	for (uint64_t key = 1; key < KEYS; key++) /* ascending, as addresses often are */
		assert_int_equal(ordmap_insert(&map, key, &present[key]), 0);
	assert_ptr_equal(ordmap_floor(&map, UINT64_MAX - 1), &present[KEYS - 1]);
	ordmap_free(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ordmap),
		cmocka_unit_test(test_hit_and_part),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_bad_ranges),
		cmocka_unit_test(test_lru_by_entries),
		cmocka_unit_test(test_lru_by_bytes),
		cmocka_unit_test(test_in_use_is_kept),
		cmocka_unit_test(test_superseded_in_use),
		cmocka_unit_test(test_invalidate),
		cmocka_unit_test(test_gone_while_registering),
		cmocka_unit_test(test_other_space),
		cmocka_unit_test(test_network_full),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("mrcache", tests, NULL, NULL);
}
