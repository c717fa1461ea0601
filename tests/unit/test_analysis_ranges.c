/* SPDX-License-Identifier: Apache-2.0
 *
 * What is counted inside ranges: by when a call began, on any thread, worst instance and sum, and the
 * same as a count by hand for random jobs.
 */
#include "tests/unit/analysis_job.h"

#include <stdio.h>
#include <string.h>

static const struct range_stat *range_of(const struct job *job, const char *name)
{
	const struct range_stat *range = analysis_range(job->analysis, name);

	assert_non_null(range);
	return range;
}

static void a_call_belongs_where_it_began(void **state)
{
	struct job job = {0};
	struct synthetic *synthetic;
	const struct wl_ev_cuda_wait wait = {.rule = WL_rule_stream_wait,
					     .cls = WL_call_class_waits};

	(void)state;
	(void)job_process(&job, -1, -1);
	synthetic = job.processes[0].synthetic;
	/* "step" is 100 to 200 on thread 0; calls as they end. */
	synthetic_event(synthetic, 1, WL_EV_cuda_wait, 90, 150, 0, &wait);  /* before */
	synthetic_event(synthetic, 1, WL_EV_cuda_wait, 199, 500, 0, &wait); /* inside, ends after */
	synthetic_event(synthetic, 2, WL_EV_cuda_wait, 200, 210, 0, &wait); /* at its end: after */
	SYNTHETIC(synthetic, 0, nvtx_push, 100, 100, .text = JOB_TEXT(&job, "step"));
	synthetic_event(synthetic, 0, WL_EV_cuda_wait, 100, 110, 0, &wait); /* at its begin */
	SYNTHETIC(synthetic, 0, nvtx_pop, 200, 200, .domain = 0);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->waits, 4);
	assert_int_equal(range_of(&job, "step")->waits, 2);
	assert_int_equal(range_of(&job, "step")->held_ns, 301 + 10);
	assert_int_equal(range_of(&job, "step")->length.max_ns, 100);
	job_done(&job);
}

static void nested_and_repeated_ranges(void **state)
{
	struct job job = {0};
	const struct range_stat *step, *inner;

	(void)state;
	(void)job_process(&job, -1, -1);
	for (unsigned i = 0; i < 5; i++) {
		JOB_PUSH(&job, 0, "step");
		JOB_WAIT(&job, 0, 7, LINE_A);
		JOB_PUSH(&job, 0, "inner");
		for (unsigned k = 0; k < i; k++)
			JOB_WAIT(&job, 0, 7, LINE_B);
		JOB_PUSH(&job, 0, "inner"); /* within itself: both hold what is inside */
		JOB_WAIT(&job, 1, 7, LINE_B);
		JOB_POP(&job, 0);
		JOB_POP(&job, 0);
		JOB_POP(&job, 0);
		JOB_WAIT(&job, 0, 7, LINE_A); /* outside */
	}
	job_analyse(&job, NULL);
	step = range_of(&job, "step");
	inner = range_of(&job, "inner");
	assert_int_equal(job.analysis->ranges[0] == step, true);
	assert_int_equal(job.analysis->ranges[1] == inner, true);
	assert_int_equal(step->instances, 5);
	assert_int_equal(step->waits, 5 + 10 + 5);
	assert_int_equal(step->waits_worst, 1 + 4 + 1);
	assert_int_equal(inner->instances, 10);
	assert_int_equal(inner->waits, 10 + 5 + 5);
	assert_int_equal(inner->waits_worst, 4 + 1);
	assert_int_equal(step->way_count, 2);
	assert_string_equal(step->ways[0].way->site->place, "train.py:17 in step");
	assert_int_equal(step->ways[0].count, 15);
	assert_int_equal(step->ways[1].count, 5);
	job_done(&job);
}

static void skip_and_threads(void **state)
{
	const struct analysis_options skip = {.skip = 2, .same_thread = true};
	struct job job = {0};
	const struct range_stat *step;

	(void)state;
	for (int rank = 0; rank < 3; rank++) {
		(void)job_process(&job, rank, 3);
		for (unsigned i = 0; i < 7; i++) {
			JOB_PUSH(&job, 0, "step");
			for (unsigned k = 0; k < (i < 2 ? 11 : (unsigned)rank); k++)
				JOB_WAIT(&job, 0, 7, LINE_A);
			JOB_WAIT(&job, 1, 7, LINE_A); /* another thread's */
			JOB_POP(&job, 0);
		}
	}
	job_analyse(&job, &skip);
	step = range_of(&job, "step");
	assert_int_equal(step->skipped, 6);
	assert_int_equal(step->instances, 15);
	assert_int_equal(step->waits, 5 * (0 + 1 + 2));
	assert_int_equal(step->waits_worst, 2);
	assert_int_equal(step->worst_process, 2);
	job_done(&job);
}

static void ranges_without_end(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_PUSH(&job, 0, "step");
	JOB_WAIT(&job, 0, 7, LINE_A);
	JOB_POP(&job, 0);
	JOB_PUSH(&job, 0, "step");
	JOB_WAIT(&job, 0, 7, LINE_A);
	JOB_WAIT(&job, 0, 7, LINE_A);
	job_analyse(&job, NULL);
	assert_int_equal(range_of(&job, "step")->instances, 1);
	assert_int_equal(range_of(&job, "step")->unclosed, 1);
	assert_int_equal(range_of(&job, "step")->waits, 1);
	job_done(&job);
}

static void ranges_across_threads(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_CALL(&job, 0, nvtx_start, 0, .id = 3, .text = JOB_TEXT(&job, "epoch"));
	JOB_WAIT(&job, 1, 7, LINE_A);
	JOB_CALL(&job, 2, nvtx_start, 0, .id = 5, .text = JOB_TEXT(&job, "epoch"));
	JOB_WAIT(&job, 1, 7, LINE_A);
	JOB_CALL(&job, 1, nvtx_end, 0, .id = 3);
	JOB_WAIT(&job, 1, 7, LINE_A);
	JOB_CALL(&job, 0, nvtx_end, 0, .id = 5);
	job_analyse(&job, NULL);
	assert_int_equal(range_of(&job, "epoch")->instances, 2);
	assert_int_equal(range_of(&job, "epoch")->waits, 4);
	assert_int_equal(range_of(&job, "epoch")->waits_worst, 2);
	job_done(&job);
}

/* Tools that put a serial number into every name must not crowd out the range asked for. */
static void more_names_than_are_kept(void **state)
{
	const struct analysis_filter filter = {.cls = WL_call_class_waits, .rule = WL_rule_MAX};
	const struct analysis_options options = {
		.focus = "step", .filters = &filter, .filter_count = 1};
	struct job job = {0};
	char name[32];

	(void)state;
	(void)job_process(&job, -1, -1);
	for (unsigned i = 0; i < 5003; i++) {
		(void)snprintf(name, sizeof(name), "add, seq = %u", i);
		JOB_PUSH(&job, 0, name);
		JOB_POP(&job, 0);
	}
	JOB_PUSH(&job, 0, "step");
	JOB_WAIT(&job, 0, 7, LINE_A);
	JOB_POP(&job, 0);
	job_analyse(&job, &options);
	assert_int_equal(job.analysis->range_count + job.analysis->ranges_left, 5004);
	assert_true(job.analysis->ranges_left > 0);
	assert_int_equal(range_of(&job, "step")->waits, 1);
	assert_int_equal(job.analysis->tallies[0].worst, 1);
	job_done(&job);
}

/* --- filters ---------------------------------------------------------------------------------- */

static void filters_count_what_they_say(void **state)
{
	static const char *const allowed[] = {"*:17 *"};
	const struct analysis_filter filters[] = {
		{.cls = WL_call_class_waits, .rule = WL_rule_MAX},
		{.cls = WL_call_class_waits, .rule = WL_rule_MAX, .place = "train.py:11 *"},
		{.cls = WL_call_class_waits, .rule = WL_rule_MAX, .place = "train.py:12*"},
		{.cls = WL_call_class_MAX, .rule = WL_rule_async_to_pageable},
		{.cls = WL_call_class_waits, .rule = WL_rule_MAX, .measure = ANALYSIS_HELD},
		{.cls = WL_call_class_stages, .rule = WL_rule_MAX},
		{.cls = WL_call_class_none, .rule = WL_rule_MAX},
	};
	static const uint64_t expected[][3] = {
		/* whole run, all of "step", worst of "step" */
		{6, 4, 2},
		{6, 4, 2},
		{0, 0, 0},
		{2, 2, 1},
		{8 * JOB_CALL_NS, 6 * JOB_CALL_NS, 3 * JOB_CALL_NS},
		{0, 0, 0},
		{0, 0, 0},
	};
	struct analysis_options options = {.filters = filters,
					   .filter_count = sizeof(filters) / sizeof(filters[0])};

	(void)state;
	for (unsigned variant = 0; variant < 3; variant++) {
		struct job job = {0};

		(void)job_process(&job, -1, -1);
		for (unsigned i = 0; i < 2; i++) {
			JOB_PUSH(&job, 0, "step");
			JOB_COPY(&job, 0, 7, LINE_A);
			JOB_WAIT(&job, 0, 7, LINE_A); /* one with the copy */
			JOB_WAIT(&job, 0, 7, LINE_A);
			JOB_WAIT(&job, 0, 7, LINE_B); /* allowed in the third variant */
			JOB_POP(&job, 0);
			JOB_WAIT(&job, 0, 7, LINE_A);
		}
		options.focus = variant ? "step" : NULL;
		options.allowed = allowed;
		options.allowed_count = 1;
		job_analyse(&job, &options);
		for (unsigned i = 0; i < options.filter_count; i++) {
			const struct analysis_tally *tally = &job.analysis->tallies[i];

			assert_int_equal(tally->total, expected[i][variant ? 1 : 0]);
			assert_int_equal(tally->worst, variant ? expected[i][2] : 0);
		}
		job_done(&job);
	}
}

/* --- as counted by hand ----------------------------------------------------------------------- */

#define STEPS_MAX 400
struct span {
	int64_t begin, end;
	uint32_t thread;
	bool closed;
	unsigned name;
};

static uint64_t random_state;
static unsigned random_below(unsigned limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((random_state >> 33) % limit);
}

struct random_job {
	struct job job;
	struct span ranges[STEPS_MAX], calls[STEPS_MAX];
	unsigned range_count, call_count;
	unsigned open[3][STEPS_MAX], depth[3];
	bool busy[3]; /* in a call that began */
	int64_t since[3];
};

/* At each tick one thread begins or ends a call, or pushes or pops a range. */
static void random_tick(struct random_job *random, int64_t now)
{
	static const char *const names[] = {"step", "inner", "other"};
	const struct wl_ev_cuda_wait wait = {.rule = WL_rule_stream_wait,
					     .cls = WL_call_class_waits};
	struct synthetic *synthetic = random->job.processes[0].synthetic;
	uint32_t thread = random_below(3);
	unsigned *depth = &random->depth[thread], name = random_below(3);

	if (random->busy[thread] && random_below(3) == 0) {
		random->busy[thread] = false;
		synthetic_event(synthetic, thread, WL_EV_cuda_wait, random->since[thread], now, 0,
				&wait);
		random->calls[random->call_count++] =
			(struct span){random->since[thread], now, thread, true, 0};
	} else if (!random->busy[thread] && random_below(2) == 0) {
		random->busy[thread] = true;
		random->since[thread] = now;
	} else if (!random->busy[thread] && *depth && random_below(2) == 0) {
		struct span *range = &random->ranges[random->open[thread][--*depth]];

		range->end = now;
		range->closed = true;
		SYNTHETIC(synthetic, thread, nvtx_pop, now, now, .domain = 0);
	} else if (!random->busy[thread]) {
		random->open[thread][(*depth)++] = random->range_count;
		random->ranges[random->range_count++] = (struct span){now, 0, thread, false, name};
		SYNTHETIC(synthetic, thread, nvtx_push, now, now,
			  .text = synthetic_string(synthetic, names[name]));
	}
}

static void random_compare(const struct random_job *random, const struct analysis_options *options,
			   unsigned name, const struct range_stat *range)
{
	uint64_t total = 0, worst = 0, instances = 0, unclosed = 0, seen = 0;

	for (unsigned i = 0; i < random->range_count; i++) {
		const struct span *one = &random->ranges[i];
		uint64_t inside = 0;

		if (one->name != name || seen++ < options->skip)
			continue;
		instances += one->closed;
		unclosed += !one->closed;
		for (unsigned k = 0; k < random->call_count && one->closed; k++)
			inside += random->calls[k].begin >= one->begin &&
				  random->calls[k].begin < one->end &&
				  (!options->same_thread || random->calls[k].thread == one->thread);
		total += inside;
		worst = inside > worst ? inside : worst;
	}
	assert_int_equal(range ? range->instances : 0, instances);
	assert_int_equal(range ? range->unclosed : 0, unclosed);
	assert_int_equal(range ? range->waits : 0, total);
	assert_int_equal(range ? range->waits_worst : 0, worst);
}

static void random_jobs_agree_with_a_count_by_hand(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 301; seed++) {
		const struct analysis_options options = {.skip = seed % 3, .same_thread = seed & 1};
		struct random_job *random = calloc(1, sizeof(*random));

		assert_non_null(random);
		random_state = seed * 7919u + 1;
		(void)job_process(&random->job, -1, -1);
		for (int64_t now = 1; now < STEPS_MAX; now++)
			random_tick(random, now * 10);
		job_analyse(&random->job, &options);
		random_compare(random, &options, 0, analysis_range(random->job.analysis, "step"));
		random_compare(random, &options, 1, analysis_range(random->job.analysis, "inner"));
		random_compare(random, &options, 2, analysis_range(random->job.analysis, "other"));
		assert_true(random->call_count > 20 && random->range_count > 20);
		job_done(&random->job);
		free(random);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_belongs_where_it_began),
		cmocka_unit_test(nested_and_repeated_ranges),
		cmocka_unit_test(skip_and_threads),
		cmocka_unit_test(ranges_without_end),
		cmocka_unit_test(ranges_across_threads),
		cmocka_unit_test(more_names_than_are_kept),
		cmocka_unit_test(filters_count_what_they_say),
		cmocka_unit_test(random_jobs_agree_with_a_count_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
