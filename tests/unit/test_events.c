/* SPDX-License-Identifier: Apache-2.0
 *
 * The event table: as types, as data, as text and back.
 */
#include "tracer/events/events.h"
#include "tracer/events/reader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *table_text(size_t *length)
{
	char *text;

	*length = wl_event_table_text(NULL, 0);
	text = malloc(*length + 1);
	assert_non_null(text);
	assert_int_equal(wl_event_table_text(text, *length + 1), *length);
	assert_int_equal(strlen(text), *length);
	return text;
}

static int parse(struct wl_event_table *table, const char *text)
{
	char err[200] = "";
	int rc = wl_event_table_parse(table, text, strlen(text), err, sizeof(err));

	if (rc)
		assert_true(strlen(err) > 10);
	return rc;
}

/* The table as data says what the structs are. */
static void test_types(void **state)
{
	unsigned count = 0;

	(void)state;
#define WL_EVENT(name_, number_, category_, form_, args_)                                          \
	{                                                                                          \
		const struct wl_event_type *type = wl_event_type(number_);                         \
		unsigned bytes = 0;                                                                \
		assert_non_null(type);                                                             \
		assert_string_equal(type->name, #name_);                                           \
		assert_ptr_equal(type, wl_event_type_named(#name_));                               \
		assert_int_equal(type->number, WL_EV_##name_);                                     \
		assert_int_equal(type->arg_count, sizeof(struct wl_index_##name_));                \
		assert_int_equal(type->args_bytes, sizeof(struct wl_ev_##name_));                  \
		for (unsigned i = 0; i < type->arg_count; i++) {                                   \
			assert_int_equal(type->args[i].show == WL_SHOW_ENUM,                       \
					 type->args[i].enumeration != NULL);                       \
			assert_int_equal(bytes % wl_arg_type_bytes(type->args[i].type), 0);        \
			bytes += wl_arg_type_bytes(type->args[i].type);                            \
		}                                                                                  \
		assert_int_equal(bytes, type->args_bytes);                                         \
		count++;                                                                           \
	}
#include "tracer/events/events.def"
	assert_true(count > 25);
	assert_null(wl_event_type(0));
	assert_null(wl_event_type(WL_EV_MAX));
	assert_null(wl_event_type_named("no such event"));
	assert_string_equal(wl_event_type(WL_EV_ofi_post)->args[WL_ARG(ofi_post, retries)].name,
			    "retries");
	assert_string_equal(wl_rule_info(WL_rule_stream_wait)->word, "stream_wait");
	assert_string_equal(wl_rule_info(WL_rule_stream_wait)->waits_for, "STREAM");
	assert_string_equal(wl_rule_info(9999)->word, "none");
	for (int i = 0; i < TRACE_DROP_MAX; i++)
		assert_true(strlen(trace_drop_name((enum trace_drop)i)) > 1);
}

static void test_round_trip(void **state)
{
	struct wl_event_table table;
	size_t length;
	char *text = table_text(&length);

	(void)state;
	assert_int_equal(parse(&table, text), 0);
	for (unsigned n = 0; n < WL_EV_MAX; n++) {
		const struct wl_event_type *own = wl_event_type(n), *read = &table.types[n];

		if (n >= table.count || !own) {
			assert_null(own);
			assert_true(n >= table.count || !read->name);
			continue;
		}
		assert_string_equal(read->name, own->name);
		assert_int_equal(read->category, own->category);
		assert_int_equal(read->form, own->form);
		assert_int_equal(read->arg_count, own->arg_count);
		assert_int_equal(read->args_bytes, own->args_bytes);
		assert_ptr_equal(table.known[n], own);
		for (unsigned i = 0; i < own->arg_count; i++) {
			assert_string_equal(read->args[i].name, own->args[i].name);
			assert_int_equal(read->args[i].type, own->args[i].type);
			assert_int_equal(read->args[i].show, own->args[i].show);
			assert_int_equal(table.map[n][i], i);
			if (own->args[i].enumeration) {
				const struct wl_enumeration *a = own->args[i].enumeration;
				const struct wl_enumeration *b = read->args[i].enumeration;

				assert_string_equal(a->name, b->name);
				assert_int_equal(a->count, b->count);
				for (unsigned w = 0; w < a->count; w++)
					assert_string_equal(a->words[w], b->words[w]);
			}
		}
	}
	wl_event_table_free(&table);
	free(text);
}

/* A table of another version: other numbers, arguments moved, gone and new, things not known here.
 */
static void test_other_version(void **state)
{
	struct wl_event_table table;

	(void)state;
	assert_int_equal(parse(&table,
			       "enum rule none some\n"
			       "remark of a later version\n"
			       "event 7 nvtx_end nvtx instant fresh:u16:num id:u64:hexagonal\n"
			       "event 4095 later_thing later_kind later_form a:i32:status\n"),
			 0);
	assert_int_equal(table.count, 4096);
	assert_ptr_equal(table.known[7], wl_event_type(WL_EV_nvtx_end));
	assert_int_equal(table.map[7][0], -1);
	assert_int_equal(table.map[7][1], WL_ARG(nvtx_end, id));
	assert_int_equal(table.types[7].args_bytes, 10);
	assert_int_equal(table.types[7].args[1].show, WL_SHOW_NUM);
	assert_null(table.known[4095]);
	assert_int_equal(table.types[4095].category, WL_CAT_meta);
	assert_int_equal(table.types[4095].form, WL_FORM_INSTANT);
	wl_event_table_free(&table);
}

static void test_refused(void **state)
{
	static const char *const bad[] = {
		"event 1 nvtx_end nvtx instant id:u64:hex", /* no end of line */
		"event 4096 a nvtx instant\n",              /* number too great */
		"event 18446744073709551617 a nvtx instant\n",
		"event -1 a nvtx instant\n",
		"event x a nvtx instant\n",
		"event 1x a nvtx instant\n",
		"event 1 a nvtx\n",
		"event 1\n",
		"event\n",
		"event 1 a nvtx instant b\n",
		"event 1 a nvtx instant b:u64\n",
		"event 1 a nvtx instant b:u128:num\n",
		"event 1 a nvtx instant b:u64:num:more\n",
		"event 1 a nvtx instant :u64:num\n",
		"event 1 a nvtx instant \n",
		"event 1 a nvtx instant\nevent 1 b nvtx instant\n",
		"event 1 nvtx_end nvtx instant\nevent 2 nvtx_end nvtx instant\n",
		"event 1 a\x1b nvtx instant\n",
		"enum\n",
		"enum a\n",
		"enum a b\nenum a c\n",
		"enum a b \n",
	};
	struct wl_event_table table;
	char many[1000] = "event 1 a nvtx instant", err[100];
	size_t used;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse(&table, bad[i]) != -EINVAL)
			fail_msg("taken for a table: %s", bad[i]);
	used = strlen(many);
	for (int i = 0; i <= WL_ARGS_MAX; i++)
		used += (size_t)snprintf(many + used, sizeof(many) - used, " a:u8:num");
	snprintf(many + used, sizeof(many) - used, "\n");
	assert_int_equal(parse(&table, many), -EINVAL);
	assert_int_equal(wl_event_table_parse(&table, "enum a b\0\n", 10, err, sizeof(err)),
			 -EINVAL);
	/* an error buffer too small for the message, or none */
	assert_int_equal(wl_event_table_parse(&table, "event\n", 6, err, 5), -EINVAL);
	assert_int_equal(wl_event_table_parse(&table, "event\n", 6, NULL, 0), -EINVAL);
	assert_int_equal(wl_event_table_parse(&table, "", 0, err, sizeof(err)), 0);
	wl_event_table_free(&table);
}

/* Any damage is an error or a table that can be walked; the sanitizers judge the rest. */
static void test_damage(void **state)
{
	size_t length;
	char *text = table_text(&length), err[200];
	struct wl_event_table table;
	unsigned taken = 0, refused = 0;

	(void)state;
	srand(7919); /* NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time */
	for (int round = 0; round < 2003; round++) {
		char *copy = malloc(length);
		size_t n = round % 2 ? length : (size_t)rand() % length;

		memcpy(copy, text, length);
		for (int k = round % 5; k > 0 && n; k--)
			copy[(size_t)rand() % n] = (char)rand();
		if (wl_event_table_parse(&table, copy, n, err, sizeof(err)) == 0) {
			for (unsigned i = 0; i < table.count; i++)
				for (unsigned k = 0; k < table.types[i].arg_count; k++)
					assert_true(table.map[i][k] < WL_ARGS_MAX &&
						    table.types[i].args[k].type < WL_TYPE_MAX);
			wl_event_table_free(&table);
			taken++;
		} else {
			refused++;
		}
		free(copy);
	}
	assert_true(taken > 0 && refused > 0);
	free(text);
}

/* As snprintf: the length is the whole one's, what is written fits. */
static void test_text_bounds(void **state)
{
	size_t length;
	char *text = table_text(&length), small[17];

	(void)state;
	memset(small, 'x', sizeof(small));
	assert_int_equal(wl_event_table_text(small, 11), length);
	assert_int_equal(strlen(small), 10);
	assert_memory_equal(small, text, 10);
	assert_int_equal(small[11], 'x');
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),         cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_other_version), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damage),        cmocka_unit_test(test_text_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
