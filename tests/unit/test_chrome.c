/* SPDX-License-Identifier: Apache-2.0
 *
 * The Chrome exporter, judged by a checker that parses its files and compares every slice, instant and
 * asynchronous pair with the records.
 */
#include "tests/unit/export_check.h"
#include "tests/unit/synthetic_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void check(void **state, struct model *model, const char *suffix,
		  struct export_result *result)
{
	export_and_check(*state, model, chrome_export, "check_chrome.py", suffix, NULL, result);
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
	check(state, model, "json", &result);
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
	check(state, model, "json", &result);
	assert_true(result.slices > 5000);
	model_close(model);
}

static void crossing_ranges(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
	struct export_result result;
	struct model *model;

	synthetic_trouble(recording, 13, 401, 2, true);
	model = model_of(&recording, 1);
	check(state, model, "json", &result);
	assert_true(result.split > 100);
	model_close(model);
}

static void fabric_compressed(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 1000000, 1700000000000000000);
	struct export_result result;
	struct model *model;

	synthetic_fabric(recording, 31);
	model = model_of(&recording, 1);
	check(state, model, "json.gz", &result);
	assert_int_equal(result.transfers, 31 * 7);
	assert_int_equal(result.flows, 31 * 6);
	assert_int_equal(result.registrations, 31);
	model_close(model);
}

static unsigned draw(uint32_t *random, unsigned below)
{
	*random = *random * 1664525 + 1013904223;
	return (*random >> 8) % below;
}

/* Calls in calls, ranges and completions that often begin and end at one nanosecond. The time after. */
static int64_t put_touching(struct synthetic *recording, uint32_t *random, unsigned depth,
			    int64_t now_ns)
{
	static const int64_t gaps[] = {0, 0, 0, 1, 2, 977, 1000003};
	const int64_t begin_ns = now_ns;

	if (depth && draw(random, 3) == 0)
		SYNTHETIC(recording, 0, nvtx_push, now_ns, now_ns, .domain = 0);
	else if (!depth)
		return now_ns;
	else
		depth |= 1u << 8;
	now_ns += gaps[draw(random, 7)];
	for (unsigned i = draw(random, 4); i; i--) {
		now_ns = put_touching(recording, random, (depth & 0xff) - 1, now_ns);
		if (draw(random, 5) == 0)
			SYNTHETIC(recording, 0, ofi_completion, now_ns, now_ns, .context = i);
		now_ns += gaps[draw(random, 7)];
	}
	if (depth >> 8)
		SYNTHETIC(recording, 0, cuda_wait, begin_ns, now_ns, .stream = now_ns,
			  .cls = WL_call_class_waits);
	else
		SYNTHETIC(recording, 0, nvtx_pop, now_ns, now_ns, .domain = 0);
	return now_ns;
}

/* Slices that touch nest in doubles as well, in short recordings and in long ones. */
static void touching(void **state)
{
	static const int64_t seconds[] = {1, 200, 3001, 20011};
	uint32_t random = 23;

	for (unsigned i = 0; i < 4; i++) {
		struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
		struct export_result result;
		struct model *model;
		int64_t now_ns = 11;

		synthetic_thread(recording, 41, "main");
		for (unsigned turn = 0; turn < 101; turn++) {
			now_ns = put_touching(recording, &random, 6, now_ns);
			now_ns += draw(&random, 2) ? 0 : seconds[i] * 10000019;
		}
		model = model_of(&recording, 1);
		check(state, model, "json", &result);
		assert_true(result.slices > 1000);
		model_close(model);
	}
}

/* More completions in one read, and more calls at one moment, than Perfetto's importer nests. */
static void one_moment(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
	uint32_t thread = synthetic_thread(recording, 41, "main");
	struct export_result result;
	struct model *model;

	for (unsigned i = 0; i < 1009; i++)
		SYNTHETIC(recording, thread, ofi_completion, 100, 100, .cq = 1, .context = i);
	for (unsigned i = 0; i < 1013; i++)
		SYNTHETIC(recording, thread, cuda_order, 200, 200, .stream = i);
	model = model_of(&recording, 1);
	check(state, model, "json", &result);
	assert_int_equal(result.instants, 1009);
	assert_int_equal(result.slices, 1013);
	model_close(model);
}

static void many_hosts(void **state)
{
	struct synthetic *recordings[16];
	struct export_result result;
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
	check(state, model, "json", &result);
	model_close(model);
}

static void calls_in_flight(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	uint32_t one = synthetic_thread(recording, 41, "main \"one\"\n");
	struct export_result result;
	struct model *model;

	SYNTHETIC(recording, one, cuda_launch, 20, 30, .grid_x = 1);
	synthetic_inflight(recording, one, WL_EV_cuda_wait, "cuStreamSynchronize", 0, 40);
	model = model_of(&recording, 1);
	check(state, model, "json", &result);
	assert_int_equal(result.slices, 2);
	assert_int_equal(result.synchronizations, 1);
	model_close(model);
}

static void empty_and_failing(void **state)
{
	struct synthetic *recording = synthetic_new("host1", 41, 7, 1700000000000000000);
	struct export_result result;
	struct model *model = model_of(&recording, 1);
	char err[512];

	check(state, model, "json", &result);
	assert_int_equal(result.slices, 0);
	assert_int_equal(chrome_export(model, "/dev/full", NULL, NULL, err, sizeof(err)), -ENOSPC);
	assert_non_null(strstr(err, "/dev/full"));
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
	export_and_check(*state, model, chrome_export, "check_chrome.py", "json", NULL, &result);
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
	export_and_check(*state, model, chrome_export, "check_chrome.py", "json", NULL, &result);
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
		export_and_judge(*state, model, chrome_export, "check_chrome.py", "json", NULL,
				 &result);
		assert_true(result.slices > 1000);
		model_close(model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_event, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(nesting, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(ranks, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(devices, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(crossing_ranges, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(fabric_compressed, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(touching, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(one_moment, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(many_hosts, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(calls_in_flight, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(empty_and_failing, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(garbage, export_setup, export_teardown),
	};

	return cmocka_run_group_tests_name("chrome", tests, NULL, NULL);
}
