/* SPDX-License-Identifier: Apache-2.0
 *
 * Records in order of end to nested slices: ties, windows, ranges that cross calls.
 */
#include "exporters/model/nest.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const struct wl_arg range_args[] = {{"domain", WL_TYPE_u32, WL_SHOW_STR, NULL}};
static const struct wl_event_type types[] = {
	{"a", 50, WL_CAT_meta, WL_FORM_CALL, 0, 0, NULL},
	{"b", 51, WL_CAT_meta, WL_FORM_CALL, 0, 0, NULL},
	{"c", 52, WL_CAT_meta, WL_FORM_CALL, 0, 0, NULL},
	{"i", 53, WL_CAT_meta, WL_FORM_INSTANT, 0, 0, NULL},
	{"R", 54, WL_CAT_nvtx, WL_FORM_BEGIN, 1, 4, range_args},
	{"S", 55, WL_CAT_nvtx, WL_FORM_BEGIN, 1, 4, range_args},
	{"e", 56, WL_CAT_nvtx, WL_FORM_END, 1, 4, range_args},
};

struct told {
	char text[4096];
	size_t length;
};

static void say(struct told *told, const char *before, const char *name, int64_t ts,
		const char *after)
{
	told->length +=
		(size_t)snprintf(told->text + told->length, sizeof(told->text) - told->length,
				 "%s%s%lld%s", before, name, (long long)ts, after);
	assert_true(told->length < sizeof(told->text));
}

static void on_begin(void *user, const struct nest_item *item, int64_t ts, bool continued)
{
	say(user, continued ? "~" : "", item->event.type->name, ts, "(");
}

static void on_end(void *user, const struct nest_item *item, int64_t ts, int64_t piece_begin,
		   unsigned flags)
{
	(void)item;
	assert_true(piece_begin <= ts);
	say(user, "", "", ts, flags & NEST_OPEN ? "?)" : ")");
}

static void on_instant(void *user, const struct nest_item *item)
{
	say(user, "", item->event.type->name, item->event.begin_ns, " ");
}

static const struct nest_ops callbacks = {on_begin, on_end, on_instant};

static void feed(struct nest *nest, char name, int64_t begin, int64_t end, uint32_t flags,
		 uint64_t domain)
{
	struct trace_event event = {.flags = flags, .begin_ns = begin, .end_ns = end};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (types[i].name[0] == name)
			event.type = &types[i];
	}
	event.args[0] = domain;
	nest_feed(nest, &event, 0, NULL);
}

/* A script of records "NAME BEGIN END [flags [domain]]; ..." in order of end, and what must be told. */
static struct nest_counts play(const char *script, const char *expected, unsigned window)
{
	struct told told = {.length = 0};
	struct nest *nest = nest_new(&callbacks, &told, window);
	struct nest_counts counts;
	const char *at = script;

	assert_non_null(nest);
	while (*at) {
		long long begin, end;
		unsigned flags = 0, domain = 0;
		char name;

		assert_true(sscanf(at, " %c %lld %lld %u %u", &name, &begin, &end, &flags,
				   &domain) >= 3);
		feed(nest, name, begin, end, flags, domain);
		at = strchr(at, ';');
		assert_non_null(at);
		at++;
	}
	nest_finish(nest, 0);
	counts = *nest_counts(nest);
	nest_free(nest);
	assert_string_equal(told.text, expected);
	return counts;
}

static void simple_trees(void **state)
{
	(void)state;
	play("a 1 2; b 3 4;", "a1(2)b3(4)", 8);
	play("b 2 3; c 4 5; a 1 6;", "a1(b2(3)c4(5)6)", 8);
	play("c 3 4; b 2 5; a 1 6;", "a1(b2(c3(4)5)6)", 8);
	play("i 1 1; b 2 3; i 3 3; a 2 4; i 9 9;", "i1 a2(b2(3)i3 4)i9 ", 8);
}

static void equal_times(void **state)
{
	(void)state;
	/* The end of one is the begin of the next: siblings. */
	play("a 1 2; b 2 3;", "a1(2)b2(3)", 8);
	/* Begins, ends, or both together: the later record is around the earlier. */
	play("b 1 2; a 1 3;", "a1(b1(2)3)", 8);
	play("b 2 3; a 1 3;", "a1(b2(3)3)", 8);
	play("b 1 3; a 1 3;", "a1(b1(3)3)", 8);
	play("c 1 2; b 1 2; a 1 2;", "a1(b1(c1(2)2)2)", 8);
	/* No length: beside what begins then, unless it says that it was inside. */
	play("b 1 1; a 1 2;", "b1(1)a1(2)", 8);
	play("b 1 1 2; a 1 2;", "a1(b1(1)2)", 8);
	play("b 2 2; a 1 2;", "a1(b2(2)2)", 8);
	play("a 1 2; b 2 2; c 2 2;", "a1(2)b2(2)c2(2)", 8);
}

static void beyond_the_window(void **state)
{
	struct nest_counts counts;

	(void)state;
	/* The window holds four, half of which go when it is full: what was told before the call around it came is told, and the call
	 * begins in the past. */
	counts = play("b 2 3; b 4 5; b 6 7; b 8 9; b 10 11; b 12 13; a 1 14; c 15 16;",
		      "b2(3)b4(5)b6(7)b8(9)a1(b10(11)b12(13)14)c15(16)", 4);
	assert_int_equal(counts.slices, 8);
	assert_int_equal(counts.adjusted, 0);
}

static void ranges(void **state)
{
	struct nest_counts counts;

	(void)state;
	counts = play("R 1 1; a 2 3; S 4 4; b 5 6; e 7 7; e 8 8;", "R1(a2(3)S4(b5(6)7)8)", 8);
	assert_int_equal(counts.split, 0);
	assert_int_equal(counts.slices, 4);
	/* Still open at the end; an end too many. */
	counts = play("e 0 0; R 1 1; a 2 3;", "R1(a2(3)3?)", 8);
	assert_int_equal(counts.orphans, 1);
}

static void crossing(void **state)
{
	struct nest_counts counts;

	(void)state;
	/* Begun inside a call that ends first: in two pieces. */
	counts = play("R 2 2; a 1 3; e 4 4;", "a1(R2(3)3)~R3(4)", 8);
	assert_int_equal(counts.split, 1);
	/* Ended inside a call that began later: ends with the call. */
	counts = play("R 1 1; e 3 3; a 2 4; b 5 6;", "R1(a2(4)4)b5(6)", 8);
	assert_int_equal(counts.split, 0);
	/* Domains end in another order than they began. */
	counts = play("R 1 1 0 1; S 2 2 0 2; e 3 3 0 1; e 4 4 0 2;", "R1(S2(3)3)~S3(4)", 8);
	assert_int_equal(counts.split, 1);
}

static int64_t deepest, open_now;

static void count_begin(void *user, const struct nest_item *item, int64_t ts, bool continued)
{
	(void)user;
	(void)item;
	(void)ts;
	(void)continued;
	if (++open_now > deepest)
		deepest = open_now;
}

static void count_end(void *user, const struct nest_item *item, int64_t ts, int64_t piece_begin,
		      unsigned flags)
{
	(void)user;
	(void)item;
	(void)ts;
	(void)piece_begin;
	(void)flags;
	open_now--;
}

/* Ranges deeper than a viewer can show are left out, and what they hold is still there. */
static void too_deep(void **state)
{
	static const struct nest_ops counting = {count_begin, count_end, on_instant};
	struct nest *nest = nest_new(&counting, NULL, 64);

	(void)state;
	assert_non_null(nest);
	deepest = open_now = 0;
	for (int i = 0; i < 5003; i++)
		feed(nest, 'R', i, i, 0, 0);
	for (int i = 0; i < 5003; i++)
		feed(nest, 'e', 6000 + i, 6000 + i, 0, 0);
	nest_finish(nest, 0);
	assert_int_equal(deepest, NEST_DEPTH_MAX);
	assert_int_equal(open_now, 0);
	assert_int_equal(nest_counts(nest)->slices, NEST_DEPTH_MAX);
	assert_int_equal(nest_counts(nest)->too_deep, 5003 - NEST_DEPTH_MAX);
	nest_free(nest);
}

/* Records whose times contradict their order are put right, never told out of order. */
static void contradictions(void **state)
{
	struct nest_counts counts;

	(void)state;
	counts = play("a 1 5; b 3 8;", "a1(5)b5(8)", 8);
	assert_int_equal(counts.adjusted, 1);
	/* An end before the end of the record before it: moved on to it. b then holds nothing, since it
	 * begins inside a and a ends no later. */
	counts = play("a 1 5; b 2 3; i 4 4; c 5 6;", "a1(5)b5(5)i5 c5(6)", 8);
	assert_int_equal(counts.adjusted, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simple_trees),      cmocka_unit_test(equal_times),
		cmocka_unit_test(beyond_the_window), cmocka_unit_test(ranges),
		cmocka_unit_test(crossing),          cmocka_unit_test(too_deep),
		cmocka_unit_test(contradictions),
	};

	return cmocka_run_group_tests_name("model_nest", tests, NULL, NULL);
}
