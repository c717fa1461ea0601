/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings: every row is well formed, values are read strictly, errors say what would do.
 */
#include "tracer/settings/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int read_one(struct wl_settings *settings, const char *entry, char *err, size_t err_size)
{
	char copy[256], *environment[] = {(char *)"HOME=/", copy, (char *)"WAYLAYER=1", NULL};

	snprintf(copy, sizeof(copy), "%s", entry);
	err[0] = '\0';
	return wl_settings_read(settings, environment, err, err_size);
}

static void rows_are_well_formed(void **state)
{
	unsigned count;
	const struct wl_setting *rows = wl_setting_rows(&count);
	char err[256];

	(void)state;
	assert_true(count > 10);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(strncmp(rows[i].variable, "WAYLAY", 6), 0);
		assert_ptr_equal(wl_setting_by_variable(rows[i].variable), &rows[i]);
		assert_int_equal(
			wl_setting_parse(NULL, &rows[i], rows[i].fallback, err, sizeof(err)), 0);
		assert_true(strlen(rows[i].help) > 5 && strlen(rows[i].help) < 50);
		if (rows[i].type == WL_SETTING_BOOL) {
			assert_string_equal(rows[i].argument, "");
			/* An option turns it to the opposite of its default. */
			if (rows[i].option[0])
				assert_int_equal(!strncmp(rows[i].option, "no-", 3),
						 rows[i].fallback[0] == '1');
			assert_string_not_equal(wl_setting_flag_value(&rows[i]), rows[i].fallback);
		} else {
			assert_string_not_equal(rows[i].argument, "");
		}
		for (unsigned j = 0; j < i; j++) {
			assert_string_not_equal(rows[i].variable, rows[j].variable);
			if (rows[i].option[0])
				assert_string_not_equal(rows[i].option, rows[j].option);
		}
	}
	assert_null(wl_setting_by_variable("WAYLAY_NOTHING"));
}

static void defaults(void **state)
{
	struct wl_settings s;

	(void)state;
	wl_settings_defaults(&s);
	assert_true(s.enabled && s.cuda && s.ofi && s.nvtx && s.thread);
	assert_false(s.flight_recorder || s.ofi_layers || s.ofi_door || s.debug);
	assert_string_equal(s.directory, "waylay-out");
	assert_string_equal(s.run, "");
	assert_int_equal(s.max_bytes, 1ull << 30);
	assert_int_equal(s.stacks, WL_STACK_SYNC);
}

static void good_values(void **state)
{
	static const struct {
		const char *entry;
		uint64_t bytes;
	} sizes[] = {
		{"WAYLAY_MAX_BYTES=1M", 1ull << 20},       {"WAYLAY_MAX_BYTES=1048577", 1048577},
		{"WAYLAY_MAX_BYTES=4g", 4ull << 30},       {"WAYLAY_MAX_BYTES=7MiB", 7ull << 20},
		{"WAYLAY_MAX_BYTES=2048k", 2048ull << 10}, {"WAYLAY_MAX_BYTES=3GB", 3ull << 30},
	};
	struct wl_settings s;
	char err[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(read_one(&s, sizes[i].entry, err, sizeof(err)), 0);
		assert_int_equal(s.max_bytes, sizes[i].bytes);
	}
	assert_int_equal(read_one(&s, "WAYLAY=0", err, sizeof(err)), 0);
	assert_false(s.enabled);
	assert_int_equal(read_one(&s, "WAYLAY_NVTX=FALSE", err, sizeof(err)), 0);
	assert_false(s.nvtx);
	assert_int_equal(read_one(&s, "WAYLAY_FLIGHT_RECORDER=yes", err, sizeof(err)), 0);
	assert_true(s.flight_recorder);
	assert_int_equal(read_one(&s, "WAYLAY_STACK=all", err, sizeof(err)), 0);
	assert_int_equal(s.stacks, WL_STACK_ALL);
	assert_int_equal(read_one(&s, "WAYLAY_STACK_DEPTH=128", err, sizeof(err)), 0);
	assert_int_equal(s.stack_depth, 128);
	assert_int_equal(read_one(&s, "WAYLAY_CLOCK=Monotonic", err, sizeof(err)), 0);
	assert_string_equal(s.clock, "monotonic");
	assert_int_equal(read_one(&s, "WAYLAY_RUN=a=b c", err, sizeof(err)), 0);
	assert_string_equal(s.run, "a=b c");
	assert_int_equal(read_one(&s, "WAYLAY_DELAY=200ms", err, sizeof(err)), 0);
	assert_int_equal(s.delay_ns, 200000000);
	assert_int_equal(read_one(&s, "WAYLAY_DURATION=2m", err, sizeof(err)), 0);
	assert_int_equal(s.duration_ns, 120000000000u);
	assert_int_equal(read_one(&s, "WAYLAY_DURATION=0", err, sizeof(err)), 0);
	assert_int_equal(s.duration_ns, 0);
	assert_int_equal(read_one(&s, "WAYLAY_ONLY_STEPS=7:23", err, sizeof(err)), 0);
	assert_true(s.steps.first == 7 && s.steps.end == 23);
	assert_int_equal(read_one(&s, "WAYLAY_ONLY_STEPS=", err, sizeof(err)), 0);
	assert_int_equal(s.steps.end, 0);
	assert_int_equal(read_one(&s, "WAYLAY_RELAY=host", err, sizeof(err)), 0);
	assert_int_equal(read_one(&s, "WAYLAY_RELAY=", err, sizeof(err)), 0);
	/* What tests put there is no setting. */
	assert_int_equal(read_one(&s, "WAYLAY_BUILD=/x", err, sizeof(err)), 0);
	assert_int_equal(read_one(&s, "WAYLAY_TEST_LIMIT=3", err, sizeof(err)), 0);
}

static void bad_values(void **state)
{
	static const char *const entries[] = {
		"WAYLAY=2",
		"WAYLAY_CUDA=",
		"WAYLAY_CUDA=yes please",
		"WAYLAY_MAX_BYTES=",
		"WAYLAY_MAX_BYTES=1",
		"WAYLAY_MAX_BYTES=-1G",
		"WAYLAY_MAX_BYTES=1 G",
		"WAYLAY_MAX_BYTES=1GG",
		"WAYLAY_MAX_BYTES=0x100000",
		"WAYLAY_MAX_BYTES=G",
		"WAYLAY_MAX_BYTES=99999T",
		"WAYLAY_MAX_BYTES=18446744073709551616",
		"WAYLAY_STACK=",
		"WAYLAY_STACK=syncs",
		"WAYLAY_STACK_DEPTH=129",
		"WAYLAY_STACK_DEPTH=0",
		"WAYLAY_STACK_DEPTH=-3",
		"WAYLAY_STACK_DEPTH=5 ",
		"WAYLAY_CLOCK=tsc2",
		"WAYLAY_DELAY=",
		"WAYLAY_DELAY=5",
		"WAYLAY_DELAY=1.5s",
		"WAYLAY_DURATION=-1s",
		"WAYLAY_DURATION=9999999999999h",
		"WAYLAY_ONLY_STEPS=3",
		"WAYLAY_ONLY_STEPS=5:5",
		"WAYLAY_ONLY_STEPS=5:4",
		"WAYLAY_ONLY_STEPS=1:2:3",
		"WAYLAY_ONLY_STEPS=:",
		"WAYLAY_RELAY=host:port",
		"WAYLAY_RELAY=host:65535",
		"WAYLAY_RELAY=:5342",
		"WAYLAY_RELAY=[::1]:",
		"WAYLAY_DIR=",
		"WAYLAY_NO_SUCH=1",
		"WAYLAY_=1",
		"WAYLAY_DIRS=x",
		"WAYLAY_dir=x",
	};
	struct wl_settings s;
	char err[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		size_t name = strcspn(entries[i], "=");

		assert_int_equal(read_one(&s, entries[i], err, sizeof(err)), -EINVAL);
		/* One line that names the variable. */
		assert_int_equal(strncmp(err, entries[i], name), 0);
		assert_null(strchr(err, '\n'));
		assert_true(strstr(err, "accepted: ") || strstr(err, "no such setting"));
	}
	/* A huge value does not flood the line. */
	char huge[240] = "WAYLAY_CUDA=";
	memset(huge + 12, 'x', sizeof(huge) - 13);
	huge[sizeof(huge) - 1] = '\0';
	assert_int_equal(read_one(&s, huge, err, sizeof(err)), -EINVAL);
	assert_true(strlen(err) < 200);
}

static void relays(void **state)
{
	static const struct {
		const char *value;
		int host_length;
		unsigned port;
	} good[] = {
		{"host", 4, WL_RELAY_PORT},  {"10.2.3.5:7", 8, 7},
		{"host:65534", 4, 65534},    {"[fe80::1]:4321", 9, 4321},
		{"[::1]", 5, WL_RELAY_PORT}, {"fe80::1:2", 9, WL_RELAY_PORT},
	};
	int host_length;
	unsigned port;

	(void)state;
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(wl_relay_parse(good[i].value, &host_length, &port));
		assert_int_equal(host_length, good[i].host_length);
		assert_int_equal(port, good[i].port);
	}
}

static void nearest_is_named(void **state)
{
	struct wl_settings s;
	char err[256];

	(void)state;
	assert_int_equal(read_one(&s, "WAYLAY_STACKDEPTH=3", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "nearest: WAYLAY_STACK"));
	assert_int_equal(read_one(&s, "WAYLAY_FLIGHT=1", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "nearest: WAYLAY_FLIGHT_RECORDER"));
}

/* Whatever a value holds, the words about it are one line that does not drive a terminal. */
static void errors_are_one_line(void **state)
{
	static char bad_value[] = "WAYLAY_MAX_BYTES=5\n\033[31m parsecs",
		    bad_name[] = "WAYLAY_\a\r\nX=1";
	char *environments[][2] = {{bad_value, NULL}, {bad_name, NULL}};
	struct wl_settings settings;
	char err[512];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(wl_settings_read(&settings, environments[i], err, sizeof(err)),
				 -EINVAL);
		assert_true(*err);
		for (const char *p = err; *p; p++)
			assert_true((unsigned char)*p >= ' ');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_well_formed),
		cmocka_unit_test(defaults),
		cmocka_unit_test(good_values),
		cmocka_unit_test(bad_values),
		cmocka_unit_test(relays),
		cmocka_unit_test(nearest_is_named),
		cmocka_unit_test(errors_are_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
