/* SPDX-License-Identifier: Apache-2.0
 *
 * The Perfetto exporter, judged by a checker that decodes its traces with protoc's classes, applies
 * the rules of the format, and compares every slice with the records.
 */
#include "tests/unit/export_check.h"
#include "tests/unit/synthetic_reader.h"

#include "exporters/perfetto/pb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(void **state, struct model *model, const struct export_options *options,
		  struct export_result *result)
{
	export_and_check(*state, model, perfetto_export, "check_trace.py", "pftrace", options,
			 result);
}

static void varints_and_lengths(void **state)
{
	static const size_t sizes[] = {0, 1, 127, 128, 16383, 16384, 70000};
	uint8_t *buffer = malloc(1 << 20), *payload = calloc(1, 70000);
	struct pb pb;

	(void)state;
	assert_non_null(buffer);
	assert_non_null(payload);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *outer, *inner;
		size_t left = sizes[i], at = 0, length = 0;

		memset(payload, 0x5a, sizes[i]);
		pb_init(&pb, buffer, 1 << 20);
		outer = pb_begin(&pb, 1);
		inner = pb_begin(&pb, 2);
		memcpy(pb.at, payload, left);
		pb.at += left;
		pb_end(&pb, inner);
		pb_end(&pb, outer);
		/* Skip the outer key and length, then the inner ones. */
		for (int level = 1; level <= 2; level++) {
			assert_int_equal(buffer[at++], level << 3 | 2);
			length = 0;
			for (unsigned shift = 0;; shift += 7) {
				length |= (size_t)(buffer[at] & 0x7f) << shift;
				if (!(buffer[at++] & 0x80))
					break;
			}
			assert_int_equal(length, pb_used(&pb) - at);
		}
		assert_int_equal(length, sizes[i]);
		assert_memory_equal(buffer + at, payload, sizes[i]);
	}
	pb_init(&pb, buffer, 1 << 20);
	pb_varint(&pb, 16, UINT64_MAX);
	assert_int_equal(pb_used(&pb), 12);
	pb_fixed64(&pb, 47, 0x0102030405060708);
	assert_int_equal(buffer[14], 8);
	assert_int_equal(buffer[21], 1);
	free(buffer);
	free(payload);
}

static void every_event(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 1000000, 1700000000000000000);
	struct export_result result;
	struct model *model;
	unsigned types = 0;

	synthetic_every_event(recording);
	for (unsigned i = 0; i < WL_EV_MAX; i++)
		types += wl_event_type(i) != NULL;
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	/* A push and a pop are one slice. */
	/* A range is begun and ended; gpu_stream is no event of its own. */
	assert_int_equal(result.slices + result.instants + result.runs + result.activities,
			 types - 2);
	model_close(model);
}

static void nesting(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
	struct export_result result;
	struct model *model;

	synthetic_trouble(recording, 23, 401, 1, false);
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	assert_true(result.slices > 5000);
	assert_true(result.synchronizations > 50);
	model_close(model);
}

static void crossing_ranges(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
	struct export_result result;
	struct model *model;

	synthetic_trouble(recording, 13, 401, 2, true);
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	assert_true(result.split > 100);
	model_close(model);
}

/* A call that holds more records than the exporter's window. */
static void giant_call(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
	uint32_t thread = synthetic_thread(recording, 41, "main");
	struct export_result result;
	struct model *model;

	for (int i = 0; i < 5003; i++)
		SYNTHETIC(recording, thread, cuda_launch, 10 + i * 10, 15 + i * 10, .grid_x = 1);
	SYNTHETIC(recording, thread, ofi_wait, 5, 60000, .timeout_ms = -1);
	for (int i = 0; i < 23; i++)
		SYNTHETIC(recording, thread, cuda_launch, 60000 + i, 60000 + i, .grid_x = 1);
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	assert_int_equal(result.slices, 5003 + 1 + 23);
	model_close(model);
}

/* What lies too deep is left out, and counted. */
static void deep_calls(void **state)
{
	static int (*const exporters[])(struct model *, const char *, const struct export_options *,
					struct export_result *, char *,
					size_t) = {perfetto_export, chrome_export};

	(void)state;
	for (unsigned e = 0; e < 2; e++) {
		struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
		uint32_t thread = synthetic_thread(recording, 41, "main");
		struct export_result result;
		struct model *model;
		char err[256];

		for (int i = 0; i < 601; i++)
			SYNTHETIC(recording, thread, cuda_launch, 1000 - i, 1001 + i, .grid_x = 1);
		model = model_of(&recording, 1);
		assert_int_equal(exporters[e](model, "/dev/null", NULL, &result, err, sizeof(err)),
				 0);
		assert_int_equal(result.slices, 500);
		assert_int_equal(result.too_deep, 101);
		model_close(model);
	}
}

static void fabric(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 1000000, 1700000000000000000);
	struct export_result result;
	struct model *model;

	synthetic_fabric(recording, 31);
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	assert_int_equal(result.transfers, 31 * 7);
	assert_int_equal(result.match.exact, 31 * 6);
	assert_int_equal(result.match.at_return, 31);
	assert_int_equal(result.registrations, 31);
	assert_int_equal(result.match.completions_unmatched, 0);
	model_close(model);
}

/* Same pids and tids on hosts with different clocks: one timeline, no two alike. */
static void many_hosts(void **state)
{
	struct synthetic *recordings[16];
	struct export_result result;
	uint64_t whole, parts = 0;
	struct model *model;
	char host[32];

	for (int i = 0; i < 16; i++) {
		snprintf(host, sizeof(host), "node%d", i / 4);
		recordings[i] = synthetic_new(host, 41 + i % 2, (i / 4 + 1) * 1000000000000,
					      1700000000000000000 + i / 4 * 100);
		synthetic_info(recordings[i])->rank = i;
		synthetic_trouble(recordings[i], 3, 101, (unsigned)i, false);
		synthetic_fabric(recordings[i], 5);
	}
	model = model_of(recordings, 16);
	assert_int_equal(model_host_count(model), 4);
	check(state, model, NULL, &result);
	whole = result.slices;
	for (unsigned one = 0; one < 4; one++) {
		const struct selection_spec spec = {
			.from_ns = INT64_MIN, .to_ns = INT64_MAX, .one_host = true, .host = one};
		struct export_options options = {0};
		char err[256];
		int error;

		options.selection = selection_new(model, &spec, &error, err, sizeof(err));
		assert_non_null(options.selection);
		export_and_judge(*state, model, perfetto_export, "check_trace.py", "pftrace",
				 &options, &result);
		assert_true(result.slices > 0 && result.slices < whole);
		parts += result.slices;
		selection_free(options.selection);
	}
	assert_int_equal(parts, whole);
	model_close(model);
}

static void calls_in_flight(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	uint32_t one = synthetic_thread(recording, 41, "main");
	uint32_t two = synthetic_thread(recording, 42, "other");
	uint32_t text = synthetic_string(recording, "step");
	struct export_result result;
	struct model *model;

	SYNTHETIC(recording, one, nvtx_push, 10, 10, .text = text);
	SYNTHETIC(recording, one, cuda_launch, 20, 30, .grid_x = 1);
	synthetic_inflight(recording, one, WL_EV_cuda_wait, "cuStreamSynchronize", 0, 40);
	SYNTHETIC(recording, two, cuda_copy, 60, 70, .bytes = 23);
	synthetic_inflight(recording, two, WL_EV_ofi_wait, "fi_cq_sread", 0, 55);
	synthetic_info(recording)->ended = false;
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	assert_int_equal(result.slices, 5);
	assert_int_equal(result.synchronizations, 1);
	model_close(model);
}

/* A type that this build does not know is shown by what its recording says of it. */
static void foreign_type(void **state)
{
	static const char *const words[] = {"none", "warm", "hot"};
	static const struct wl_enumeration heat = {"heat", 3, words};
	static const struct wl_arg args[] = {
		{"bytes", WL_TYPE_u64, WL_SHOW_BYTES, NULL},
		{"heat", WL_TYPE_u8, WL_SHOW_ENUM, &heat},
		{"delta", WL_TYPE_i64, WL_SHOW_NUM, NULL},
	};
	static const struct wl_event_type type = {
		"hip_thing", 57, WL_CAT_cuda_copy, WL_FORM_CALL, 3, 17, args};
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	uint32_t thread = synthetic_thread(recording, 41, "main");
	struct export_result result;
	struct model *model;

	synthetic_foreign(recording, thread, &type, 10, 20,
			  (const uint64_t[]){23, 2, (uint64_t)-5});
	synthetic_foreign(recording, thread, &type, 30, 40, (const uint64_t[]){0, 9, 0});
	model = model_of(&recording, 1);
	check(state, model, NULL, &result);
	assert_int_equal(result.slices, 2);
	model_close(model);
}

static void compressed(void **state)
{
	struct export_options options = {.compress = EXPORT_COMPRESS_DEFLATE};
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	struct export_result plain, small;
	struct model *model;

	synthetic_trouble(recording, 5, 1009, 3, false);
	model = model_of(&recording, 1);
	check(state, model, NULL, &plain);
	check(state, model, &options, &small);
	assert_int_equal(plain.slices, small.slices);
	assert_true(small.bytes < plain.bytes / 2);
	model_close(model);
}

static void empty_recording(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	struct export_result result;
	struct model *model = model_of(&recording, 1);

	check(state, model, NULL, &result);
	assert_int_equal(result.slices, 0);
	model_close(model);
}

static int stop_at_once(void *user, unsigned permille)
{
	(void)user;
	(void)permille;
	return 1;
}

static void failures_leave_nothing(void **state)
{
	struct export_options stopping = {.progress = stop_at_once};
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	char err[512], path[4096];
	struct model *model;
	struct stat stat_buf;

	synthetic_trouble(recording, 2, 101, 3, false);
	model = model_of(&recording, 1);
	snprintf(path, sizeof(path), "%s/absent/trace.pftrace", (char *)*state);
	assert_int_equal(perfetto_export(model, path, NULL, NULL, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "absent"));
	assert_int_equal(perfetto_export(model, *state, NULL, NULL, err, sizeof(err)), -EISDIR);
	assert_int_equal(perfetto_export(model, "/dev/full", NULL, NULL, err, sizeof(err)),
			 -ENOSPC);
	assert_non_null(strstr(err, "free some space"));
	snprintf(path, sizeof(path), "%s/stopped.pftrace", (char *)*state);
	assert_int_equal(perfetto_export(model, path, &stopping, NULL, err, sizeof(err)), -EINTR);
	assert_int_equal(stat(path, &stat_buf), -1);
	/* Nothing at all was left in the directory, so it can be removed (and made again). */
	assert_int_equal(rmdir(*state), 0);
	assert_int_equal(mkdir(*state, 0700), 0);
	model_close(model);
}

static void ranks(void **state)
{
	struct synthetic *recordings[64];
	struct export_result result;
	struct model *model;
	char host[32];

	for (int i = 0; i < 64; i++) {
		snprintf(host, sizeof(host), "node%d", i / 8);
		/* Process numbers repeat from host to host. */
		recordings[i] = synthetic_new(host, 41 + i % 8, (i / 8 + 1) * 1000000000000,
					      1700000000000000000 + i / 8 * 100);
		synthetic_info(recordings[i])->rank = i;
		synthetic_trouble(recordings[i], 2, 31, (unsigned)i, i % 2);
		synthetic_fabric(recordings[i], 3);
		synthetic_devices(recordings[i], 3);
	}
	model = model_of(recordings, 64);
	assert_int_equal(model_host_count(model), 8);
	export_and_check(*state, model, perfetto_export, "check_trace.py", "pftrace", NULL,
			 &result);
	assert_int_equal(result.activities, 64 * 3 * 2 * 9);
	assert_int_equal(result.match.activities_called, 64 * 3 * 2 * 8);
	model_close(model);
}

static void devices(void **state)
{
	struct export_result result;
	struct synthetic *recordings[2];
	struct model *model;
	unsigned called = 0;

	for (unsigned i = 0; i < 2; i++) {
		recordings[i] = synthetic_new("host1", 41 + i, 5, 1700000000000000000);
		synthetic_info(recordings[i])->rank = (int)i;
		called += synthetic_devices(recordings[i], 101);
	}
	model = model_of(recordings, 2);
	export_and_check(*state, model, perfetto_export, "check_trace.py", "pftrace", NULL,
			 &result);
	/* By round and thread 9 pieces of work (and a wait) have a call; a fifth of the rounds has one
	 * more piece without. */
	assert_int_equal(called, 2 * 2 * 101 * 8);
	assert_int_equal(result.activities, called + 2 * (2 * 101 + 20));
	assert_int_equal(result.match.activities, result.activities);
	assert_int_equal(result.match.activities_called, called);
	model_close(model);
}

static void garbage(void **state)
{
	struct export_result result;

	for (unsigned seed = 1; seed <= 3; seed++) {
		struct synthetic *recording = synthetic_new("", -7, 5, -1700000000000000000);
		struct model *model;

		synthetic_garbage(recording, 4999, seed);
		model = model_of(&recording, 1);
		export_and_judge(*state, model, perfetto_export, "check_trace.py", "pftrace", NULL,
				 &result);
		assert_true(result.slices > 1000);
		model_close(model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(varints_and_lengths),
		cmocka_unit_test_setup_teardown(every_event, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(nesting, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(crossing_ranges, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(giant_call, export_setup, export_teardown),
		cmocka_unit_test(deep_calls),
		cmocka_unit_test_setup_teardown(ranks, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(devices, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(fabric, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(many_hosts, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(calls_in_flight, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(foreign_type, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(compressed, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(empty_recording, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(failures_leave_nothing, export_setup,
						export_teardown),
		cmocka_unit_test_setup_teardown(garbage, export_setup, export_teardown),
	};

	return cmocka_run_group_tests_name("perfetto", tests, NULL, NULL);
}
