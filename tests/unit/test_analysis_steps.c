/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps: named or found in the launches, long ones with what was different in them, and the rank for
 * which the others wait.
 */
#include "tests/unit/analysis_job.h"

#include <stdio.h>
#include <string.h>

/* Time in which nothing is recorded. */
static void idle(struct job *job, int64_t ns)
{
	job->processes[job->count - 1].now += ns;
}

/* A wait for the network. */
static void network(struct job *job, int64_t ns)
{
	struct job_process *process = &job->processes[job->count - 1];

	SYNTHETIC(process->synthetic, 0, ofi_poll, process->now, process->now + ns, .cq = 1,
		  .polls = 3);
	process->now += ns;
}

static void launch(struct job *job, unsigned thread, const char *kernel)
{
	JOB_CALL(job, thread, cuda_launch, 0, .stream = 7, .kernel = JOB_TEXT(job, kernel));
}

static const struct step_process *of(const struct job *job, unsigned process)
{
	const struct step_process *found = steps_process(&job->analysis->steps, process);

	assert_non_null(found);
	return found;
}

/* A step lasts 13 for each call, 2 after it, 1 after its push, and `busy`. */
static void step(struct job *job, const char *name, unsigned waits, int64_t busy,
		 int64_t on_network)
{
	JOB_PUSH(job, 0, name);
	for (unsigned i = 0; i < waits; i++)
		JOB_WAIT(job, 0, 7, LINE_A);
	launch(job, 0, "k");
	idle(job, busy);
	network(job, on_network);
	JOB_POP(job, 0);
}

static void named_steps_have_medians_and_outliers(void **state)
{
	struct job job = {0};
	const struct steps *steps;

	(void)state;
	(void)job_process(&job, -1, -1);
	step(&job, "warm-up", 5, 100000, 0);
	for (unsigned i = 0; i < 11; i++)
		step(&job, "Train Step", i == 7 ? 29 : 2, i == 4 ? 5000 : 1000, 17);
	job_analyse(&job, NULL);
	steps = &job.analysis->steps;
	assert_string_equal(steps->range, "Train Step");
	assert_false(steps->found);
	assert_int_equal(steps->count, 11);
	assert_int_equal(steps->process_count, 1);
	assert_int_equal(of(&job, 0)->length_ns, 1 + 3 * 15 + 1000 + 17);
	assert_int_equal(of(&job, 0)->held_ns, 26);
	assert_int_equal(of(&job, 0)->network_ns, 17);
	assert_int_equal(of(&job, 0)->busy_ns, 1 + 3 * 15 + 1000 - 26);
	assert_int_equal(of(&job, 0)->waits, 2);
	assert_int_equal(of(&job, 0)->launches, 1);
	assert_int_equal(steps->straggler, -1);
	/* The longest first: 4,000 ns more, then 27 waits more. */
	assert_int_equal(steps->outliers, 2);
	assert_int_equal(steps->outlier_count, 2);
	assert_int_equal(steps->outlier[0].index, 4);
	assert_int_equal(steps->outlier[0].length_ns, 1 + 3 * 15 + 5000 + 17);
	assert_int_equal(steps->outlier[1].index, 7);
	assert_int_equal(steps->outlier[1].waits, 29);
	assert_int_equal(steps->outlier[1].longest_ns, JOB_CALL_NS);
	assert_string_equal(steps->outlier[1].longest->site->place, "train.py:11 in step");
	job_done(&job);
}

static void the_name_that_is_asked_for_is_taken(void **state)
{
	const struct analysis_options options = {.steps = "validate"}, none = {.steps = "nowhere"};

	(void)state;
	for (unsigned asked = 0; asked < 2; asked++) {
		struct job job = {0};

		(void)job_process(&job, -1, -1);
		for (unsigned i = 0; i < 5; i++) {
			step(&job, "step", 1, 1000, 0);
			step(&job, "validate", 1, 10, 0);
		}
		job_analyse(&job, asked ? &none : &options);
		if (asked)
			assert_null(job.analysis->steps.range);
		else
			assert_string_equal(job.analysis->steps.range, "validate");
		job_done(&job);
	}
}

/* All take as long; the one that never waits is the one that the others wait for. */
static void the_straggler_is_named(void **state)
{
	static const int64_t busy[] = {1000, 1100, 1700, 1000};
	struct job job = {0};

	(void)state;
	for (unsigned rank = 0; rank < 4; rank++) {
		(void)job_process(&job, (int)rank, 4);
		for (unsigned i = 0; i < 7; i++)
			step(&job, "iteration", 0, busy[rank], 2000 - busy[rank]);
	}
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->steps.process_count, 4);
	for (unsigned rank = 0; rank < 4; rank++) {
		assert_int_equal(of(&job, rank)->length_ns, 1 + 15 + 2000);
		assert_int_equal(of(&job, rank)->busy_ns, 1 + 15 + busy[rank]);
	}
	assert_int_equal(job.analysis->steps.straggler, 2);
	assert_int_equal(job.analysis->steps.straggler_ns, 700);
	job_done(&job);
}

static void ranks_that_are_alike_have_no_straggler(void **state)
{
	struct job job = {0};

	(void)state;
	for (unsigned rank = 0; rank < 3; rank++) {
		(void)job_process(&job, (int)rank, 3);
		for (unsigned i = 0; i < 7; i++)
			step(&job, "step", 0, 1000 + 40 * rank, 100);
	}
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->steps.straggler, -1);
	job_done(&job);
}

/* --- steps that nobody names ------------------------------------------------------------------- */

/* A network of `layers` equal layers; one wait at its end. */
static void unnamed_step(struct job *job, unsigned layers, unsigned more, unsigned waits)
{
	launch(job, 0, "embed");
	for (unsigned i = 0; i < layers; i++) {
		launch(job, 0, "norm");
		launch(job, 0, "attention");
		launch(job, 0, "norm");
		launch(job, 0, "mlp");
	}
	for (unsigned i = 0; i < more; i++)
		launch(job, 0, "mlp");
	launch(job, 0, "loss");
	launch(job, 1, "elsewhere");
	for (unsigned i = 0; i < waits; i++)
		JOB_WAIT(job, 0, 7, LINE_A);
	idle(job, 500);
}

static void steps_are_found_in_the_launches(void **state)
{
	const struct analysis_filter filter = {
		.cls = WL_call_class_waits, .rule = WL_rule_MAX, .scope = ANALYSIS_STEPS};
	const struct analysis_options options = {.filters = &filter, .filter_count = 1};
	struct job job = {0};
	const struct steps *steps;
	const struct range_stat *range;

	(void)state;
	(void)job_process(&job, -1, -1);
	launch(&job, 0, "init");
	JOB_WAIT(&job, 0, 7, LINE_B);
	for (unsigned i = 0; i < 23; i++)
		unnamed_step(&job, 12, i == 5 ? 7 : 0, i == 5 ? 3 : 1);
	job_analyse(&job, &options);
	steps = &job.analysis->steps;
	assert_true(steps->found);
	assert_int_equal(steps->period, 12 * 4 + 2);
	/* The last one has no end that is known. */
	assert_int_equal(steps->count, 22);
	assert_int_equal(of(&job, 0)->waits, 1);
	assert_int_equal(of(&job, 0)->launches, 12 * 4 + 2 + 1);
	assert_int_equal(of(&job, 0)->length_ns, (12 * 4 + 2 + 1 + 1) * 15 + 500);
	range = analysis_range(job.analysis, steps->range);
	assert_int_equal(range->instances, 22);
	assert_int_equal(range->waits, 24);
	assert_int_equal(range->waits_worst, 3);
	/* What is counted in steps is counted there. */
	assert_int_equal(job.analysis->tallies[0].worst, 3);
	assert_int_equal(job.analysis->tallies[0].total, 24);
	job_done(&job);
}

static void no_steps_are_made_up(void **state)
{
	unsigned random = 1;

	(void)state;
	for (unsigned what = 0; what < 3; what++) {
		struct job job = {0};

		(void)job_process(&job, -1, -1);
		for (unsigned i = 0; i < 300; i++) {
			char kernel[8];

			random = random * 1103515245u + 12345u;
			(void)snprintf(kernel, sizeof(kernel), "k%u", random >> 16 & 15);
			/* One kernel over and over; kernels by chance; too few. */
			if (what == 0)
				launch(&job, 0, "k");
			else if (what == 1 || i < 5)
				launch(&job, 0, kernel);
		}
		job_analyse(&job, NULL);
		assert_null(job.analysis->steps.range);
		assert_int_equal(job.analysis->range_count, 0);
		job_done(&job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named_steps_have_medians_and_outliers),
		cmocka_unit_test(the_name_that_is_asked_for_is_taken),
		cmocka_unit_test(the_straggler_is_named),
		cmocka_unit_test(ranks_that_are_alike_have_no_straggler),
		cmocka_unit_test(steps_are_found_in_the_launches),
		cmocka_unit_test(no_steps_are_made_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
