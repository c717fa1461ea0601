/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded objects by the link map: symbols as dlsym finds them, places, build-ids, unreadable memory.
 */
#include "tracer/inject/elf.h"
#include "tracer/inject/memory.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct wanted {
	const char *prefix;
	const struct link_map *map;
};

static bool is_wanted(const struct link_map *map, void *arg)
{
	struct wanted *wanted = arg;

	wanted->map = map;
	return wl_text_starts(wl_map_file(map), wanted->prefix);
}

static const struct link_map *object(const char *prefix)
{
	struct wanted wanted = {.prefix = prefix};

	return wl_maps_visit(is_wanted, &wanted) ? wanted.map : NULL;
}

static void symbols_agree_with_dlsym(void **state)
{
	static const char *const names[] = {"malloc", "dlsym",          "dlvsym",
					    "fopen",  "pthread_create", "environ",
					    "getpid", "qsort",          "nothing_of_the_kind",
					    ""};
	const struct link_map *libc = object("libc.so");
	void *handle = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);

	(void)state;
	assert_non_null(libc);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_ptr_equal(wl_map_symbol(libc, names[i], NULL), dlsym(handle, names[i]));
}

static void versions_agree_with_dlvsym(void **state)
{
	static const struct {
		const char *name, *version;
	} wanted[] = {
		{"pthread_cond_init", "GLIBC_2.2.5"},
		{"pthread_cond_init", "GLIBC_2.3.2"},
		{"realpath", "GLIBC_2.2.5"},
		{"realpath", "GLIBC_2.3"},
		{"realpath", "GLIBC_2.99"},
		{"malloc", "GLIBC_2.2.5"},
		{"malloc", "GLIBC_2.17"},
		{"nothing_of_the_kind", "GLIBC_2.17"},
	};
	const struct link_map *libc = object("libc.so");
	void *handle = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);

	(void)state;
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_ptr_equal(wl_map_symbol(libc, wanted[i].name, wanted[i].version),
				 dlvsym(handle, wanted[i].name, wanted[i].version));
}

static bool ask(const struct link_map *map, void *count)
{
	uint8_t id[20];

	assert_null(wl_map_symbol(map, "nothing_of_the_kind", NULL));
	assert_true(wl_map_build_id(map, id) <= 20);
	++*(unsigned *)count;
	return false;
}

static void every_object_can_be_asked(void **state)
{
	unsigned count = 0;

	(void)state;
	assert_false(wl_maps_visit(ask, &count));
	assert_true(count >= 3);
}

/* --- others load and unload meanwhile ------------------------------------------------------------ */

static const char *const come_and_go[] = {"libanl.so.1", "libBrokenLocale.so.1"};
static _Atomic bool looked_enough;
static _Atomic unsigned loads;

static void *load_and_unload(void *unused)
{
	while (!atomic_load(&looked_enough)) {
		void *handles[2];

		for (unsigned i = 0; i < 2; i++)
			handles[i] = dlopen(come_and_go[i], RTLD_NOW | RTLD_LOCAL);
		for (unsigned i = 0; i < 2; i++)
			if (handles[i] && dlclose(handles[i]) == 0)
				atomic_fetch_add(&loads, 1);
	}
	return unused;
}

static void objects_stay_while_they_are_looked_at(void **state)
{
	void *first = dlopen(come_and_go[0], RTLD_NOW | RTLD_LOCAL);
	unsigned seen = 0, looked = 0;
	pthread_t thread;

	(void)state;
	if (!first) {
		print_message("no %s here\n", come_and_go[0]);
		skip();
	}
	assert_int_equal(dlclose(first), 0);
	assert_int_equal(pthread_create(&thread, NULL, load_and_unload, NULL), 0);
	/* Until the two have met often: looks that found one, at least as many loads. */
	while (seen < 211 || atomic_load(&loads) < 4999) {
		unsigned count = 0;

		seen += object("libanl") || object("libBrokenLocale");
		wl_maps_visit(ask, &count);
		assert_true(count >= 3);
		looked++;
	}
	atomic_store(&looked_enough, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("%u looks, %u saw one of them, %u loads\n", looked, seen,
		      atomic_load(&loads));
}

/* A library that was opened by a path with another name is known by the name it was built with. */
static void known_by_soname(void **state)
{
	char directory[] = "/tmp/waylay-elf-XXXXXX", path[64], target[PATH_MAX];
	const struct link_map *map;
	void *handle = dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL);

	(void)state;
	if (!handle)
		skip();
	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	snprintf(target, sizeof(target), "%s", map->l_name);
	assert_int_equal(dlclose(handle), 0);
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/other.so", directory);
	assert_int_equal(symlink(target, path), 0);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(handle);
	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	assert_string_equal(wl_map_file(map), "other.so");
	assert_true(wl_map_is(map, "other.so"));
	assert_true(wl_map_is(map, "libanl.so"));
	assert_false(wl_map_is(map, "libcuda.so"));
	assert_false(wl_map_is(wl_map_program(), "libanl.so"));
	assert_int_equal(dlclose(handle), 0);
	assert_int_equal(unlink(path) | rmdir(directory), 0);
}

static void places(void **state)
{
	struct wl_place place;
	uint8_t id[20], other[20];
	int local;

	(void)state;
	assert_true(wl_place_find((void *)(uintptr_t)qsort, &place));
	assert_ptr_not_equal(place.map, wl_map_self()); /* libc's, or a sanitizer's in its place */
	assert_true(wl_place_find((void *)(uintptr_t)places, &place));
	assert_ptr_equal(place.map, wl_map_self());
	assert_true(place.start <= (uintptr_t)places && (uintptr_t)places < place.end);
	assert_false(wl_place_find(&local, &place));
	assert_false(wl_place_find(NULL, &place));
	/* Debian and most others link with build-ids; where there is one it is not that of libc. */
	if (wl_map_build_id(object("libc.so"), id) == 20 &&
	    wl_map_build_id(wl_map_self(), other) == 20)
		assert_memory_not_equal(id, other, 20);
}

static void memory_that_is_not_there(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *three =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(three != MAP_FAILED);
	assert_true(wl_memory_readable(three, 3 * page));
	assert_int_equal(mprotect(three + page, page, PROT_NONE), 0);
	assert_true(wl_memory_readable(three, page));
	assert_true(wl_memory_readable(three + page - 1, 1));
	assert_false(wl_memory_readable(three + page - 1, 2));
	assert_false(wl_memory_readable(three, 3 * page));
	assert_false(wl_memory_readable(three + page, 1));
	assert_true(wl_memory_readable(three + 2 * page, page));
	assert_int_equal(munmap(three + 2 * page, page), 0);
	assert_false(wl_memory_readable(three + 2 * page, 8));
	assert_false(wl_memory_readable(NULL, 8));
	assert_false(wl_memory_readable((void *)8, 8));
	assert_false(wl_memory_readable((void *)(UINTPTR_MAX - 3), 8));
	assert_false(wl_memory_readable((void *)(uintptr_t)0xdead000000000000u, 8));
	munmap(three, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_agree_with_dlsym),
		cmocka_unit_test(versions_agree_with_dlvsym),
		cmocka_unit_test(every_object_can_be_asked),
		cmocka_unit_test(objects_stay_while_they_are_looked_at),
		cmocka_unit_test(known_by_soname),
		cmocka_unit_test(places),
		cmocka_unit_test(memory_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
