/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: busy and idle times, and gaps that a wait of the host's is to blame for.
 */
#include "tests/unit/analysis_job.h"

#include <string.h>

/* On a thread of its own, as the device's tracer writes them: by their end. */
static void kernel(struct job *job, int64_t begin, int64_t end)
{
	SYNTHETIC(job->processes[0].synthetic, 1, gpu_kernel, begin, end, .device = 3);
}

static void copy(struct job *job, int64_t begin, int64_t end)
{
	SYNTHETIC(job->processes[0].synthetic, 2, gpu_copy, begin, end, .device = 3, .bytes = 101,
		  .src_kind = WL_mem_kind_device, .dst_kind = WL_mem_kind_pinned);
}

static void wait_for(struct job *job, int64_t begin, int64_t end, enum job_line line)
{
	SYNTHETIC(job->processes[0].synthetic, 0, cuda_wait, begin, end,
		  .stack = JOB_STACK(job, line), .api = JOB_TEXT(job, "cuStreamSynchronize"),
		  .rule = WL_rule_stream_wait, .cls = WL_call_class_waits);
}

static void gaps_are_blamed_on_waits(void **state)
{
	struct job job = {0};
	const struct device_stat *device;

	(void)state;
	(void)job_process(&job, -1, -1);
	kernel(&job, 1000, 2000);
	kernel(&job, 1500, 2500); /* overlaps: another stream */
	copy(&job, 2400, 2600);
	wait_for(&job, 1700, 2650, LINE_A);
	kernel(&job, 3000, 4000);           /* idle for 400 because of the wait */
	kernel(&job, 4300, 5000);           /* idle for 300 without one */
	wait_for(&job, 5100, 5150, LINE_B); /* began when the device was idle already */
	kernel(&job, 5500, 6000);
	wait_for(&job, 5600, 6100, LINE_B);
	wait_for(&job, 6110, 6120, LINE_A); /* not the cause */
	kernel(&job, 6200, 6300);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->device_count, 1);
	device = &job.analysis->devices[0];
	assert_int_equal(device->device, 3);
	assert_int_equal(device->kernels, 6);
	assert_int_equal(device->copies, 1);
	assert_int_equal(device->copy_bytes, 101);
	assert_int_equal(device->span_ns, 5300);
	assert_int_equal(device->busy_ns, 1600 + 1000 + 700 + 500 + 100);
	assert_int_equal(device->copy_busy_ns, 200);
	assert_int_equal(device->wait_idle_ns, 400 + 200);
	assert_int_equal(device->wait_gaps, 2);
	for (unsigned i = 0; i < job.analysis->site_count; i++)
		assert_int_equal(job.analysis->sites[i]->idle_ns,
				 job.analysis->sites[i]->line == 11 ? 400 : 200);
	job_done(&job);
}

/* Long work that ends after much else did: times join. */
static void long_work_covers_short(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	for (int64_t i = 0; i < 100; i++)
		kernel(&job, 1000 + 10 * i, 1005 + 10 * i);
	copy(&job, 900, 3000);
	kernel(&job, 3100, 3200);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->devices[0].busy_ns, 2100 + 100);
	assert_int_equal(job.analysis->devices[0].span_ns, 2300);
	assert_int_equal(job.analysis->devices[0].wait_gaps, 0);
	job_done(&job);
}

static void nothing_is_known_without_records(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	wait_for(&job, 1100, 1200, LINE_A);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->device_count, 0);
	job_done(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gaps_are_blamed_on_waits),
		cmocka_unit_test(long_work_covers_short),
		cmocka_unit_test(nothing_is_known_without_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
