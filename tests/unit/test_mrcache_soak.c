/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long life of the registration cache: memory comes and goes, comes back at the same addresses, is
 * registered through descriptors that really are opened, from several threads. No registration that
 * is handed out may be of memory that has gone since; at the end no descriptor and no registration is
 * left, and the process is no larger than it was early on.
 *
 * Runs for WAYLAY_TEST_SOAK_S seconds (2). Host memory is announced as gone (mr_cache_invalidate);
 * device memory only gets another number (`space`), as the driver gives it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collectives/mr_cache.h"

#define PAGE    4096u
#define PLACES  211 /* pieces of memory, each at an address of its own */
#define SPAN    (16 * PAGE)
#define THREADS 3
#define BASE    UINT64_C(0x200000000000)

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* A place in memory and which memory is there now; the lock stands for "nobody frees what is in
 * use". */
struct place {
	pthread_mutex_t lock;
	uint64_t generation;
};

struct registration {
	uint64_t addr, bytes, generation;
	int fd;
};

static struct place places[PLACES];
static struct mr_cache *cache;
static uint64_t opened, closed, stale, gets;
static int shared_fd;
static double until;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct place *place_of(uint64_t addr)
{
	return &places[(addr - BASE) / SPAN];
}

static int soak_reg(void *ctx, uint64_t addr, size_t bytes, uint64_t space, void **handle)
{
	struct registration *r = malloc(sizeof(*r));

	(void)ctx, (void)space;
	if (!r)
		return -ENOMEM;
	*r = (struct registration){addr, bytes, place_of(addr)->generation, dup(shared_fd)};
	if (r->fd < 0) {
		free(r);
		return -errno;
	}
	__atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
	*handle = r;
	return 0;
}

static void soak_dereg(void *ctx, void *handle)
{
	struct registration *r = handle;

	(void)ctx;
	close(r->fd);
	free(r);
	__atomic_fetch_add(&closed, 1, __ATOMIC_RELAXED);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Half of the places are a device's: their memory is told apart by its number. */
static int on_device(size_t i)
{
	return i % 2;
}

static void use_place(size_t i, uint64_t *seed)
{
	struct place *p = &places[i];
	uint64_t offset = next_random(seed) % (SPAN - 1);
	uint64_t bytes = 1 + next_random(seed) % (SPAN - offset);
	uint64_t addr = BASE + i * SPAN + offset;
	uint64_t space = on_device(i) ? p->generation << 1 | 1 : 0;
	struct mr_entry *e;

	if (mr_cache_get(cache, addr, bytes, space, &e))
		return;
	const struct registration *r = e->handle;

	if (r->generation != p->generation || r->addr > addr || r->addr + r->bytes < addr + bytes)
		__atomic_fetch_add(&stale, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&gets, 1, __ATOMIC_RELAXED);
	mr_cache_put(cache, e);
}

/* Freed, and other memory is there at once. */
static void renew_place(size_t i)
{
	if (!on_device(i))
		mr_cache_invalidate(cache, BASE + i * SPAN, SPAN);
	places[i].generation++;
}

static void *live(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg * 2654435761u | 1;

	while (now_s() < until) {
		for (int n = 0; n < 997; n++) {
			size_t i = next_random(&seed) % PLACES;

			pthread_mutex_lock(&places[i].lock);
			if (next_random(&seed) % 13 == 0)
				renew_place(i);
			else
				use_place(i, &seed);
			pthread_mutex_unlock(&places[i].lock);
		}
	}
	return NULL;
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static long resident_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long total = 0, resident = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &total, &resident), 2);
	fclose(f);
	return resident;
}

static void run_for(double seconds)
{
	pthread_t thread[THREADS];

	until = now_s() + seconds;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, live, (void *)(i + 1)), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void test_soak(void **state)
{
	const char *text = getenv("WAYLAY_TEST_SOAK_S");
	double seconds = text ? atof(text) : 2;
	struct mr_cache_config config = {.max_entries = 61,
					 .max_bytes = 100 * SPAN,
					 .page_bytes = 0,
					 .reg = soak_reg,
					 .dereg = soak_dereg};
	struct mr_cache_counters n;
	int files;
	long pages;

	(void)state;
	for (size_t i = 0; i < PLACES; i++)
		pthread_mutex_init(&places[i].lock, NULL);
	shared_fd = memfd_create("soak", MFD_CLOEXEC);
	assert_true(shared_fd >= 0);
	files = open_files();
	cache = mr_cache_new(&config);
	assert_non_null(cache);
	run_for(seconds / 10); /* what it takes of memory, it has then */
	pages = resident_pages();
	run_for(seconds - seconds / 10);
	mr_cache_counters(cache, &n);
	printf("%.0f s: %llu uses, %llu registrations, %llu evicted, %llu of memory that went away\n",
	       seconds, (unsigned long long)gets, (unsigned long long)opened,
	       (unsigned long long)n.evictions, (unsigned long long)n.invalidated);
	assert_int_equal(stale, 0);
	assert_true(n.hits && n.evictions && n.invalidated && n.superseded);
	assert_true(n.peak_entries <= config.max_entries && n.peak_bytes <= config.max_bytes);
	if (!SANITIZED) /* their own records grow */
		assert_true(resident_pages() < pages + 1024);
	mr_cache_free(cache);
	assert_int_equal(opened, closed);
	assert_int_equal(open_files(), files);
	close(shared_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_soak),
	};

	return cmocka_run_group_tests_name("mrcache_soak", tests, NULL, NULL);
}
