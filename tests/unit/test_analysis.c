/* SPDX-License-Identifier: Apache-2.0
 *
 * What is counted: waits by every rule, a copy and its explicit wait as one, registrations again.
 */
#include "tests/unit/analysis_job.h"

#include <string.h>

static const struct site *site_by(const struct analysis *analysis, unsigned rule)
{
	for (unsigned i = 0; i < analysis->site_count; i++)
		if (analysis->sites[i]->rule == rule)
			return analysis->sites[i];
	return NULL;
}

static void every_rule_counts_its_calls(void **state)
{
	struct job job = {0};
	uint64_t waits = 0, stages = 0;

	(void)state;
	(void)job_process(&job, -1, -1);
	for (unsigned rule = 1; rule < WL_rule_MAX; rule++)
		for (unsigned i = 0; i < 2 * rule + 1; i++) {
			bool stage = rule == WL_rule_async_from_pageable;

			JOB_CALL(&job, i % 3, cuda_mem, 0, .stack = JOB_STACK(&job, LINE_A),
				 .bytes = 3, .rule = (uint8_t)rule,
				 .cls = stage ? WL_call_class_stages : WL_call_class_waits);
			waits += !stage;
			stages += stage;
		}
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->waits, waits);
	assert_int_equal(job.analysis->stages, stages);
	assert_int_equal(job.analysis->site_count, WL_rule_MAX - 1);
	for (unsigned rule = 1; rule < WL_rule_MAX; rule++) {
		const struct site *site = site_by(job.analysis, rule);

		assert_non_null(site);
		assert_int_equal(site->count, 2 * rule + 1);
		assert_int_equal(site->bytes, 3 * (2 * rule + 1));
		assert_int_equal(site->held.sum_ns, JOB_CALL_NS * (2 * rule + 1));
		assert_string_equal(site->place, "train.py:11 in step");
	}
	assert_int_equal(job.analysis->held_ns, JOB_CALL_NS * (waits + stages));
	/* What cost most comes first. */
	assert_int_equal(job.analysis->sites[0]->rule, WL_rule_MAX - 1);
	job_done(&job);
}

static void other_classes_do_not_count(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_CALL(&job, 0, cuda_wait, 0, .rule = WL_rule_none, .cls = WL_call_class_none);
	JOB_CALL(&job, 0, cuda_poll, 0, .rule = WL_rule_query, .cls = WL_call_class_polls);
	JOB_CALL(&job, 0, cuda_copy, 0, .cls = WL_call_class_device_only);
	JOB_CALL(&job, 0, cuda_wait, WL_FLAG_CAPTURED, .rule = WL_rule_stream_wait,
		 .cls = WL_call_class_waits);
	JOB_LAUNCH(&job, 0);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->waits, 0);
	assert_int_equal(job.analysis->stages, 0);
	assert_int_equal(job.analysis->polls, 1);
	assert_int_equal(job.analysis->captured, 1);
	assert_int_equal(job.analysis->launches, 1);
	assert_int_equal(job.analysis->events, 5);
	assert_int_equal(job.analysis->site_count, 0);
	job_done(&job);
}

/* --- a copy and its explicit wait ------------------------------------------------------------- */

struct fold_case {
	const char *name;
	enum job_line copy_line, wait_line;
	uint64_t wait_stream;
	uint32_t wait_thread;
	uint8_t rule;
	enum {
		BETWEEN_NOTHING,
		BETWEEN_LAUNCH,
		BETWEEN_COPY,
		BETWEEN_PREFETCH,
		BETWEEN_QUERY,
		BETWEEN_OTHER_LAUNCH
	} between;
	unsigned waits; /* how many are counted */
};

static const struct fold_case fold_cases[] = {
	{"the pair", LINE_A, LINE_A, 7, 0, WL_rule_stream_wait, BETWEEN_NOTHING, 1},
	{"the pair on the default stream", LINE_A, LINE_A, 7, 0, WL_rule_legacy_wait,
	 BETWEEN_NOTHING, 1},
	{"by another way to the same line", LINE_A, LINE_A_AGAIN, 7, 0, WL_rule_stream_wait,
	 BETWEEN_NOTHING, 1},
	{"a query in between", LINE_A, LINE_A, 7, 0, WL_rule_stream_wait, BETWEEN_QUERY, 1},
	{"another thread's launch in between", LINE_A, LINE_A, 7, 0, WL_rule_stream_wait,
	 BETWEEN_OTHER_LAUNCH, 1},
	{"another stream", LINE_A, LINE_A, 11, 0, WL_rule_stream_wait, BETWEEN_NOTHING, 2},
	{"another thread", LINE_A, LINE_A, 7, 1, WL_rule_stream_wait, BETWEEN_NOTHING, 2},
	{"another line", LINE_A, LINE_B, 7, 0, WL_rule_stream_wait, BETWEEN_NOTHING, 2},
	{"no stacks", LINE_NONE, LINE_NONE, 7, 0, WL_rule_stream_wait, BETWEEN_NOTHING, 1},
	{"one without a stack", LINE_A, LINE_NONE, 7, 0, WL_rule_stream_wait, BETWEEN_NOTHING, 2},
	{"an event", LINE_A, LINE_A, 7, 0, WL_rule_event_wait, BETWEEN_NOTHING, 2},
	{"the whole context", LINE_A, LINE_A, 7, 0, WL_rule_context_wait, BETWEEN_NOTHING, 2},
	{"a launch in between", LINE_A, LINE_A, 7, 0, WL_rule_stream_wait, BETWEEN_LAUNCH, 2},
	{"an asynchronous copy in between", LINE_A, LINE_A, 7, 0, WL_rule_stream_wait, BETWEEN_COPY,
	 2},
	{"a prefetch in between", LINE_A, LINE_A, 7, 0, WL_rule_stream_wait, BETWEEN_PREFETCH, 2},
	{"Python and native lines", LINE_A, LINE_NATIVE_1, 7, 0, WL_rule_stream_wait,
	 BETWEEN_NOTHING, 2},
};

static void between(struct job *job, int what)
{
	switch (what) {
	case BETWEEN_LAUNCH:
		JOB_LAUNCH(job, 0);
		break;
	case BETWEEN_OTHER_LAUNCH:
		JOB_LAUNCH(job, 2);
		break;
	case BETWEEN_COPY:
		JOB_CALL(job, 0, cuda_copy, 0, .cls = WL_call_class_device_only);
		break;
	case BETWEEN_PREFETCH:
		JOB_CALL(job, 0, cuda_mem, 0, .op = WL_mem_op_prefetch,
			 .cls = WL_call_class_device_only);
		break;
	case BETWEEN_QUERY:
		JOB_CALL(job, 0, cuda_poll, 0, .rule = WL_rule_query, .cls = WL_call_class_polls);
		break;
	default:
		break;
	}
}

static void pairs_fold_only_where_they_are_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(fold_cases) / sizeof(fold_cases[0]); i++) {
		const struct fold_case *one = &fold_cases[i];
		struct job job = {0};

		(void)job_process(&job, -1, -1);
		JOB_COPY(&job, 0, 7, one->copy_line);
		between(&job, one->between);
		JOB_CALL(&job, one->wait_thread, cuda_wait, 0, .stream = one->wait_stream,
			 .stack = JOB_STACK(&job, one->wait_line), .rule = one->rule,
			 .api = JOB_TEXT(&job, "cuStreamSynchronize"), .cls = WL_call_class_waits);
		job_analyse(&job, NULL);
		if (job.analysis->waits != one->waits)
			print_error("case: %s\n", one->name);
		assert_int_equal(job.analysis->waits, one->waits);
		assert_int_equal(job.analysis->held_ns, 2 * JOB_CALL_NS);
		job_done(&job);
	}
}

static void both_calls_of_a_pair_are_listed(void **state)
{
	struct job job = {0};
	const struct site *site;

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_COPY(&job, 0, 7, LINE_A);
	JOB_WAIT(&job, 0, 7, LINE_A);
	JOB_WAIT(&job, 0, 7, LINE_A); /* a second wait is one of its own */
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->waits, 2);
	site = site_by(job.analysis, WL_rule_async_to_pageable);
	assert_non_null(site);
	assert_int_equal(site->count, 1);
	assert_int_equal(site->folded, 1);
	assert_int_equal(site->bytes, 101);
	assert_int_equal(site->held.sum_ns, 2 * JOB_CALL_NS);
	assert_string_equal(site->api[0], "cuMemcpyDtoHAsync_v2");
	assert_string_equal(site->api[1], "cuStreamSynchronize");
	job_done(&job);
}

static void staged_copies_are_no_waits(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_CALL(&job, 0, cuda_copy, 0, .stream = 7, .stack = JOB_STACK(&job, LINE_A), .bytes = 89,
		 .rule = WL_rule_async_from_pageable, .cls = WL_call_class_stages);
	JOB_WAIT(&job, 0, 7, LINE_A);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->stages, 1);
	assert_int_equal(job.analysis->waits, 1);
	job_done(&job);
}

static void ways_to_a_line_are_told_apart(void **state)
{
	struct job job = {0};
	const struct site *site;

	(void)state;
	(void)job_process(&job, -1, -1);
	for (unsigned i = 0; i < 3; i++)
		JOB_WAIT(&job, 0, 7, LINE_A);
	for (unsigned i = 0; i < 5; i++)
		JOB_WAIT(&job, 0, 7, LINE_A_AGAIN);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->site_count, 1);
	site = job.analysis->sites[0];
	assert_int_equal(site->count, 8);
	assert_string_equal(site->ways->caller, "train.py:97 in main");
	assert_int_equal(site->ways->count, 5);
	assert_int_equal(site->ways->next->count, 3);
	assert_null(site->ways->next->next);
	job_done(&job);
}

/* --- registrations ---------------------------------------------------------------------------- */

#define JOB_REGISTER(job, mr_, addr_, bytes_, status_)                                             \
	JOB_CALL(job, 0, ofi_mr_reg, 0, .mr = (mr_), .addr = (addr_), .bytes = (bytes_),           \
		 .stack = JOB_STACK(job, LINE_B), .api = JOB_TEXT(job, "fi_mr_reg"),               \
		 .status = (status_), .fd = -1)
#define JOB_UNREGISTER(job, mr_)                                                                   \
	JOB_CALL(job, 0, ofi_mr_close, 0, .mr = (mr_), .api = JOB_TEXT(job, "fi_close"))

static void registrations_repeat_by_pages(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_REGISTER(&job, 0x10, 0x10000, 8192, 0);
	JOB_UNREGISTER(&job, 0x10);
	JOB_REGISTER(&job, 0x20, 0x10001, 8100, 0); /* the same pages */
	JOB_REGISTER(&job, 0x30, 0x10000, 8193, 0); /* one page more */
	JOB_REGISTER(&job, 0x40, 0x10000, 8192, -12);
	JOB_UNREGISTER(&job, 0x20);
	(void)job_process(&job, -1, -1);
	JOB_REGISTER(&job, 0x10, 0x10000, 8192, 0); /* another process's memory */
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->registrations, 4);
	assert_int_equal(job.analysis->registrations_failed, 1);
	assert_int_equal(job.analysis->registrations_repeated, 1);
	assert_int_equal(job.analysis->registered_bytes, 8192 + 8100 + 8193 + 8192);
	assert_int_equal(job.analysis->registered_peak_bytes, 8100 + 8193);
	assert_int_equal(job.analysis->registrations_live, 2);
	assert_int_equal(job.analysis->cache_entries.count, 1);
	assert_int_equal(job.analysis->cache_entries.points[0].capacity, 1);
	assert_int_equal(job.analysis->cache_entries.points[0].hits, 1);
	assert_int_equal(job.analysis->cache_entries.points[0].time_ns, JOB_CALL_NS);
	assert_int_equal(job.analysis->cache_bytes.points[0].capacity, 8192);
	assert_int_equal(job.analysis->registration_site_count, 1);
	assert_int_equal(job.analysis->registration_sites[0]->count, 4);
	assert_int_equal(job.analysis->registration_sites[0]->repeated, 1);
	job_done(&job);
}

static void registrations_live_by_place_and_kind(void **state)
{
	struct job job = {0};
	const struct registered_life *place, *host, *device;

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_REGISTER(&job, 0x10, 0x10000, 8192, 0);
	JOB_CALL(&job, 0, ofi_mr_reg, 0, .mr = 0x20, .addr = 0x50000, .bytes = 4096,
		 .iface = WL_hmem_iface_cuda, .fd = -1, .stack = JOB_STACK(&job, LINE_A),
		 .api = JOB_TEXT(&job, "fi_mr_reg"));
	JOB_REGISTER(&job, 0x30, 0x90000, 4096, 0);
	JOB_UNREGISTER(&job, 0x10);
	JOB_UNREGISTER(&job, 0x20);
	(void)job_process(&job, -1, -1);
	JOB_REGISTER(&job, 0x10, 0x10000, 1024, 0); /* with one of its own: no peak */
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->registrations_live, 2);
	assert_int_equal(job.analysis->registered_live_bytes, 4096 + 1024);
	host = &job.analysis->registered[REGISTERED_HOST].life;
	device = &job.analysis->registered[REGISTERED_DEVICE].life;
	assert_int_equal(host->live, 2);
	assert_int_equal(host->live_bytes, 4096 + 1024);
	assert_int_equal(host->peak_bytes, 8192 + 4096);
	assert_int_equal(host->lifetime.count, 1);
	assert_int_equal(device->live, 0);
	assert_int_equal(device->peak_bytes, 4096);
	assert_int_equal(device->lifetime.count, 1);
	assert_int_equal(job.analysis->registration_site_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		place = job.analysis->registration_sites[i]->life;
		assert_non_null(place);
		assert_int_equal(place->peak_bytes, job.analysis->registration_sites[i]->count == 1
							    ? 4096
							    : 8192 + 4096);
		assert_int_equal(place->lifetime.count, 1);
	}
	job_done(&job);
}

/* --- small things ----------------------------------------------------------------------------- */

static void percentiles_are_within_an_eighth(void **state)
{
	struct histogram *histogram = calloc(1, sizeof(*histogram));

	(void)state;
	assert_non_null(histogram);
	assert_int_equal(histogram_percentile(histogram, 50), 0);
	for (uint64_t i = 1; i <= 10007; i++)
		histogram_add(histogram, i * i);
	for (unsigned percent = 1; percent <= 100; percent++) {
		uint64_t rank = (10007ull * percent + 99) / 100, exact = rank * rank;
		uint64_t got = histogram_percentile(histogram, percent);

		assert_true(got >= exact && got <= exact + exact / 8 + 1);
	}
	histogram_add(histogram, UINT64_MAX);
	assert_int_equal(histogram_percentile(histogram, 100), UINT64_MAX);
	free(histogram);
}

static void unreturned_calls_and_settings_are_seen(void **state)
{
	static const char *const attributes[][2] = {{"setting.cuda", "0"}, {"setting.ofi", "1"}};
	struct job job = {0};

	(void)state;
	(void)job_process(&job, 0, 3);
	JOB_WAIT(&job, 0, 7, LINE_A);
	synthetic_inflight(job.processes[0].synthetic, 0, WL_EV_cuda_wait, "cuStreamSynchronize",
			   job.processes[0].lines[LINE_A], 2000);
	synthetic_inflight(job.processes[0].synthetic, 1, WL_EV_cuda_launch, "cuLaunchKernel", 0,
			   2000);
	synthetic_inflight(job.processes[0].synthetic, 2, WL_EV_ofi_wait, "fi_cq_sread", 0, 2000);
	(void)job_process(&job, 2, 3);
	JOB_WAIT(&job, 0, 7, LINE_A);
	synthetic_info(job.processes[1].synthetic)->attributes = attributes;
	synthetic_info(job.processes[1].synthetic)->attribute_count = 2;
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->unreturned, 1);
	assert_int_equal(job.analysis->cuda_off, 1);
	assert_int_equal(job.analysis->ofi_off, 0);
	assert_int_equal(job.analysis->ranks, 3);
	assert_int_equal(job.analysis->ranks_seen, 2);
	job_done(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule_counts_its_calls),
		cmocka_unit_test(other_classes_do_not_count),
		cmocka_unit_test(pairs_fold_only_where_they_are_one),
		cmocka_unit_test(both_calls_of_a_pair_are_listed),
		cmocka_unit_test(staged_copies_are_no_waits),
		cmocka_unit_test(ways_to_a_line_are_told_apart),
		cmocka_unit_test(registrations_repeat_by_pages),
		cmocka_unit_test(registrations_live_by_place_and_kind),
		cmocka_unit_test(percentiles_are_within_an_eighth),
		cmocka_unit_test(unreturned_calls_and_settings_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
