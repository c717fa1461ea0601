/* SPDX-License-Identifier: Apache-2.0
 *
 * Small made-up jobs for tests of what is counted: one process with threads, calls that follow one
 * another, each taking a known time.
 */
#ifndef WAYLAY_TESTS_ANALYSIS_JOB_H
#define WAYLAY_TESTS_ANALYSIS_JOB_H

#include "tests/unit/synthetic_reader.h"
#include "viewers/analysis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#define JOB_PROCESSES 7
#define JOB_CALL_NS   13 /* each call holds the host so long */

/* Lines of train.py that a call can come from; LINE_NONE has no stack. */
enum job_line { LINE_NONE, LINE_A, LINE_B, LINE_A_AGAIN, LINE_NATIVE_1, LINE_NATIVE_2, LINE_MAX };

struct job_process {
	struct synthetic *synthetic;
	int64_t now;
	uint32_t lines[LINE_MAX]; /* stacks */
};

struct job {
	struct job_process processes[JOB_PROCESSES];
	unsigned count;
	struct model *model;
	struct analysis *analysis;
};

/* A process more, with three threads; its number. rank -1: none. */
static unsigned job_process(struct job *job, int rank, int world_size)
{
	static const struct trace_frame frames[] = {
		{.kind = TRACE_FRAME_PYTHON, .function = "step", .file = "train.py", .line = 11},
		{.kind = TRACE_FRAME_PYTHON, .function = "step", .file = "train.py", .line = 17},
		{.kind = TRACE_FRAME_PYTHON, .function = "main", .file = "train.py", .line = 97},
		{.kind = TRACE_FRAME_NATIVE, .file = "/opt/job/libmodel.so", .offset = 0x101},
		{.kind = TRACE_FRAME_NATIVE, .file = "/opt/job/libmodel.so", .offset = 0x202},
	};
	struct job_process *process = &job->processes[job->count];
	struct synthetic *synthetic = synthetic_new("host", 1000 + job->count, 0, 1000000007);
	const struct trace_frame again[] = {frames[0], frames[2]};

	assert_true(job->count < JOB_PROCESSES);
	process->synthetic = synthetic;
	process->now = 1009;
	synthetic_info(synthetic)->rank = rank;
	synthetic_info(synthetic)->world_size = world_size;
	for (int64_t thread = 0; thread < 3; thread++)
		(void)synthetic_thread(synthetic, 1000 + job->count + 100 * thread, "thread");
	process->lines[LINE_A] = synthetic_stack(synthetic, &frames[0], 1);
	process->lines[LINE_B] = synthetic_stack(synthetic, &frames[1], 1);
	process->lines[LINE_A_AGAIN] = synthetic_stack(synthetic, again, 2);
	process->lines[LINE_NATIVE_1] = synthetic_stack(synthetic, &frames[3], 1);
	process->lines[LINE_NATIVE_2] = synthetic_stack(synthetic, &frames[4], 1);
	return job->count++;
}

static inline int64_t job_advance(struct job_process *process)
{
	process->now += JOB_CALL_NS;
	return process->now;
}

/* The next call of the job's last process takes JOB_CALL_NS, and 2 ns pass after it. */
#define JOB_CALL(job, thread, name, flags, ...)                                                    \
	do {                                                                                       \
		struct job_process *process_ = &(job)->processes[(job)->count - 1];                \
		const struct wl_ev_##name args_ = {__VA_ARGS__};                                   \
		int64_t begin_ = process_->now;                                                    \
		synthetic_event(process_->synthetic, (thread), WL_EV_##name, begin_,               \
				job_advance(process_), (flags), &args_);                           \
		process_->now += 2;                                                                \
	} while (0)

#define JOB_STACK(job, line) ((job)->processes[(job)->count - 1].lines[line])
#define JOB_TEXT(job, text)  synthetic_string((job)->processes[(job)->count - 1].synthetic, (text))

#define JOB_WAIT(job, thread, stream_, line)                                                       \
	JOB_CALL(job, thread, cuda_wait, 0, .stream = (stream_), .stack = JOB_STACK(job, line),    \
		 .api = JOB_TEXT(job, "cuStreamSynchronize"), .rule = WL_rule_stream_wait,         \
		 .cls = WL_call_class_waits)
#define JOB_COPY(job, thread, stream_, line)                                                       \
	JOB_CALL(job, thread, cuda_copy, 0, .stream = (stream_), .stack = JOB_STACK(job, line),    \
		 .bytes = 101, .api = JOB_TEXT(job, "cuMemcpyDtoHAsync_v2"),                       \
		 .rule = WL_rule_async_to_pageable, .cls = WL_call_class_waits,                    \
		 .src_kind = WL_mem_kind_device, .dst_kind = WL_mem_kind_pageable)
#define JOB_LAUNCH(job, thread) JOB_CALL(job, thread, cuda_launch, 0, .stream = 7)
/* Moments: 1 ns passes after them. */
#define JOB_PUSH(job, thread, name)                                                                \
	do {                                                                                       \
		struct job_process *process_ = &(job)->processes[(job)->count - 1];                \
		SYNTHETIC(process_->synthetic, (thread), nvtx_push, process_->now, process_->now,  \
			  .text = JOB_TEXT(job, name));                                            \
		process_->now++;                                                                   \
	} while (0)
#define JOB_POP(job, thread)                                                                       \
	do {                                                                                       \
		struct job_process *process_ = &(job)->processes[(job)->count - 1];                \
		SYNTHETIC(process_->synthetic, (thread), nvtx_pop, process_->now, process_->now,   \
			  .domain = 0);                                                            \
		process_->now++;                                                                   \
	} while (0)

static void job_analyse(struct job *job, const struct analysis_options *options)
{
	struct trace_reader *readers[JOB_PROCESSES];
	char err[256] = "";

	for (unsigned i = 0; i < job->count; i++)
		readers[i] = synthetic_reader(job->processes[i].synthetic);
	assert_int_equal(
		model_from_readers(readers, job->count, NULL, &job->model, err, sizeof(err)), 0);
	assert_int_equal(analysis_run(job->model, options, &job->analysis, err, sizeof(err)), 0);
}

static void job_done(struct job *job)
{
	analysis_free(job->analysis);
	model_close(job->model);
	*job = (struct job){0};
}

#endif
