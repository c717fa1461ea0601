/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's line tables: each format by hand, and whatever bytes come without reading past their end.
 * (That real interpreters' tables are read rightly is checked against `traceback` in traced/python.sh.)
 */
#include "tracer/inject/pylayout.h"
#include "tracer/inject/pylines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void lnotab(void **state)
{
	/* Bytes 0-1: line 10; 2-7: line 11; 8-: line 9; and a jump of 200 lines in two entries. */
	static const uint8_t table[] = {2, 1, 6, (uint8_t)-2, 4, 127, 0, 73};

	(void)state;
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, sizeof(table), 10, -1), 10);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, sizeof(table), 10, 0), 10);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, sizeof(table), 10, 2), 11);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, sizeof(table), 10, 7), 11);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, sizeof(table), 10, 8), 9);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, sizeof(table), 10, 12), 209);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LNOTAB, table, 0, 10, 12), 10);
}

static void ranges(void **state)
{
	/* 4 bytes of line 10, 6 without a line, 2 of line 13, 2 of line 12. */
	static const uint8_t table[] = {4, 0, 6, 0x80, 2, 3, 2, (uint8_t)-1};

	(void)state;
	assert_int_equal(wl_pylines_find(WL_PYLINES_RANGES, table, sizeof(table), 10, -2), 10);
	assert_int_equal(wl_pylines_find(WL_PYLINES_RANGES, table, sizeof(table), 10, 2), 10);
	assert_int_equal(wl_pylines_find(WL_PYLINES_RANGES, table, sizeof(table), 10, 4), 0);
	assert_int_equal(wl_pylines_find(WL_PYLINES_RANGES, table, sizeof(table), 10, 10), 13);
	assert_int_equal(wl_pylines_find(WL_PYLINES_RANGES, table, sizeof(table), 10, 12), 12);
	assert_int_equal(wl_pylines_find(WL_PYLINES_RANGES, table, sizeof(table), 10, 14), 0);
}

static void locations(void **state)
{
	static const uint8_t table[] = {
		0x80 | 3 << 3 | 1,  0x15,         /* short form, 2 units: line 10 */
		0x80 | 12 << 3 | 0, 4,         9, /* one line further by 2, 1 unit: line 12 */
		0x80 | 15 << 3 | 2,               /* 3 units without a line */
		0x80 | 13 << 3 | 0, 7,            /* no columns, -3: line 9 */
		0x80 | 14 << 3 | 7, 64 | 0x10, 3, 1, 5, 6, /* long, +104, 8 units: line 113 */
	};

	(void)state;
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, -2), 10);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 2), 10);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 4), 12);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 6), 0);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 12), 9);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 14), 113);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 28), 113);
	assert_int_equal(wl_pylines_find(WL_PYLINES_LOCATION, table, sizeof(table), 10, 30), 0);
}

/* Tables end at a page that cannot be read. */
static void any_bytes(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned seed = 7;
	long sum = 0;

	(void)state;
	assert_true(two != MAP_FAILED);
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	for (int round = 0; round < 20011; round++) {
		size_t size = (size_t)rand_r(&seed) % 23;
		uint8_t *table = two + page - size;

		for (size_t i = 0; i < size; i++)
			table[i] = (uint8_t)rand_r(&seed);
		for (int format = 0; format < 3; format++)
			sum += wl_pylines_find((enum wl_pylines_format)format, table, size, 1,
					       (int)(rand_r(&seed) % 4096) - 2) != 0;
	}
	assert_true(sum > 0);
	munmap(two, 2 * page);
}

/* Layouts: what is known, and refusals in words. */
static void layouts(void **state)
{
	uint64_t runtime[128] = {0};
	const struct wl_pylayout *layout;
	const char *why = NULL;

	(void)state;
	for (unsigned minor = 9; minor <= 12; minor++) {
		layout = wl_pylayout_find(0x03000000 | minor << 16, NULL, &why);
		assert_non_null(layout);
		assert_int_equal(layout->version, 0x0300 | minor);
	}
	assert_null(wl_pylayout_find(0x03080000, NULL, &why));
	assert_non_null(strstr(why, "not known"));
	assert_null(wl_pylayout_find(0x030d0000, NULL, &why));
	assert_null(wl_pylayout_find(0x03200000, runtime, &why));
	assert_null(wl_pylayout_find(0x030d0000, runtime, &why));
	assert_non_null(strstr(why, "publishes no layout"));
	memcpy(runtime, "xdebugpy", 8);
	runtime[1] = 0x030d00f0;
	assert_null(wl_pylayout_find(0x030d0000, runtime, &why)); /* all offsets 0 */
	assert_non_null(strstr(why, "implausible"));
	assert_null(wl_pylayout_find(0x030e0000, runtime, &why)); /* another version's table */
	/* As a 3.13 build has them, then with one of them out of bounds. */
	static const struct {
		unsigned at;
		uint64_t value;
	} words[] = {{21, 8},   {23, 72},  {28, 80},  {29, 8},   {30, 0},  {31, 56},  {33, 70},
		     {34, 216}, {35, 112}, {36, 120}, {38, 136}, {39, 68}, {43, 200}, {45, 8},
		     {65, 16},  {66, 32},  {68, 32},  {69, 16},  {70, 40}};
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		runtime[words[i].at] = words[i].value;
	layout = wl_pylayout_find(0x030d0000, runtime, &why);
	assert_non_null(layout);
	assert_int_equal(layout->thread_frame, 72);
	assert_int_equal(layout->code_table, 136);
	assert_int_equal(layout->text_compact, 56);
	runtime[33] = 1ull << 40;
	assert_null(wl_pylayout_find(0x030d0000, runtime, &why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lnotab),    cmocka_unit_test(ranges),  cmocka_unit_test(locations),
		cmocka_unit_test(any_bytes), cmocka_unit_test(layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
