/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording of many events, as of a job that waits, copies, sends and registers: what the viewers are
 * measured with.
 *
 *     make_recording DIRECTORY EVENTS [RANKS [NAME]]      ranks: 4
 *
 * NAME: what ranges, kernels, functions and the file are called, for tests of what shows them.
 * Times are made up, between an hour ago and now, so that it takes no longer than writing does.
 */
#include "tracer/spool/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPAN_NS      3000000000000u
#define PLACES       97u /* lines of source */
#define STEP_CALLS   251u
#define BARS_A_ROUND 6u /* of round() */

static uint64_t random_state;
static uint64_t below(uint64_t limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % limit;
}

static uint32_t intern(const char *text)
{
	return spool_intern_string(text, strlen(text));
}

struct names {
	uint32_t wait, copy, launch, reg, close, send, step, kernel[11], stack[PLACES];
};

static void names_make(struct names *names, const char *name)
{
	char text[1024];
	uint32_t file = intern(name ? name : "/job/train.py");

	names->wait = intern("cuStreamSynchronize");
	names->copy = intern("cuMemcpyDtoHAsync_v2");
	names->launch = intern("cuLaunchKernel");
	names->reg = intern("fi_mr_reg");
	names->close = intern("fi_close");
	names->send = intern("fi_tsend");
	names->step = intern(name ? name : "step");
	for (unsigned i = 0; i < 11; i++) {
		(void)snprintf(text, sizeof(text), "%.900s%u_kernel", name ? name : "gemm_", i);
		names->kernel[i] = intern(text);
	}
	for (unsigned i = 0; i < PLACES; i++) {
		struct spool_meta_frame frame = {
			.where = 10 + 3 * i, .what = file, .kind = TRACE_FRAME_PYTHON};

		(void)snprintf(text, sizeof(text), "%.900s%u", name ? name : "function_", i % 13);
		frame.name = intern(text);
		names->stack[i] = spool_intern_stack(&frame, 1);
	}
}

/* The next call: some time after the one before, some time long. */
struct call {
	uint64_t begin, end;
};
static struct call after(uint64_t *now, uint64_t gap, uint64_t length)
{
	struct call call = {*now + 1 + below(gap), 0};

	call.end = call.begin + 1 + below(length);
	*now = call.end;
	return call;
}

/* Some calls and what comes of them: BARS_A_ROUND bars. */
static void round_of_calls(const struct names *names, uint64_t *now, uint64_t gap, uint64_t n)
{
	uint64_t size = 1024ull << below(11);
	struct call launch = after(now, gap, gap / 4), copy, wait, reg, post;

	SPOOL_EMIT(cuda_launch, launch.begin, launch.end, 0, .stream = 1,
		   .kernel = names->kernel[n % 11], .api = names->launch,
		   .cls = WL_call_class_device_only);
	SPOOL_EMIT(gpu_kernel, launch.end, launch.end + gap / 2, 0, .name = names->kernel[n % 11],
		   .context = 1, .stream = 7, .correlation = (uint32_t)(2 * n + 1));
	copy = after(now, gap, gap / 2);
	SPOOL_EMIT(cuda_copy, copy.begin, copy.end, 0, .dst = 0x1000, .src = 0x200000,
		   .bytes = size, .stream = 1, .stack = names->stack[n % PLACES],
		   .api = names->copy, .dst_kind = WL_mem_kind_pinned,
		   .src_kind = WL_mem_kind_device, .rule = WL_rule_none,
		   .cls = WL_call_class_device_only);
	SPOOL_EMIT(gpu_copy, copy.end, copy.end + gap / 3, 0, .bytes = size, .context = 1,
		   .stream = 7, .correlation = (uint32_t)(2 * n + 2),
		   .dst_kind = WL_mem_kind_pinned, .src_kind = WL_mem_kind_device);
	wait = after(now, gap, 2 * gap);
	SPOOL_EMIT(cuda_wait, wait.begin, wait.end, 0, .stream = 1,
		   .stack = names->stack[below(PLACES)], .api = names->wait,
		   .rule = WL_rule_stream_wait, .cls = WL_call_class_waits);
	reg = after(now, gap, gap);
	SPOOL_EMIT(ofi_mr_reg, reg.begin, reg.end, 0, .domain = 1, .mr = 16 + n,
		   .addr = 0x700000000000 + 65536 * below(4096), .bytes = size, .ranges = 1,
		   .fd = -1, .stack = names->stack[below(PLACES)], .api = names->reg);
	post = after(now, gap, gap / 2);
	SPOOL_EMIT(ofi_post, post.begin, post.end, 0, .ep = 1, .context = 4096 + n, .addr = 0x1000,
		   .bytes = size, .peer = n % 4, .api = names->send, .op = WL_ofi_op_tsend);
	*now += gap;
	SPOOL_EMIT(ofi_completion, *now, *now, 0, .cq = 2, .context = 4096 + n, .bytes = size,
		   .src = UINT64_MAX);
	SPOOL_EMIT(ofi_mr_close, *now + 1, *now + 2, 0, .mr = 16 + n, .api = names->close);
	*now += 2;
}

static int rank_write(const char *directory, int rank, int ranks, uint64_t events, const char *name)
{
	struct spool_settings settings = {.directory = directory,
					  .run = "made",
					  .max_bytes = 8ull << 30,
					  .clock = SPOOL_CLOCK_MONOTONIC,
					  .rank = rank,
					  .world_size = ranks,
					  .local_rank = rank};
	uint64_t rounds = events / BARS_A_ROUND + 1, gap = SPAN_NS / 10 / rounds, now;
	struct names names;

	if (spool_writer_open(&settings) != 0) {
		(void)fprintf(stderr, "make_recording: %s\n", spool_error());
		return 1;
	}
	random_state = 77 + (uint64_t)rank;
	names_make(&names, name);
	now = spool_now();
	now = now > SPAN_NS ? now - SPAN_NS : 1;
	for (uint64_t n = 0; n < rounds; n++) {
		if (n % STEP_CALLS == 0) {
			if (n)
				SPOOL_EMIT(nvtx_pop, now, now, 0, .domain = 0);
			now += gap;
			SPOOL_EMIT(nvtx_push, now, now, 0, .text = names.step);
		}
		round_of_calls(&names, &now, gap, n);
	}
	SPOOL_EMIT(nvtx_pop, now, now, 0, .domain = 0);
	spool_writer_end();
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	int ranks = argc > 3 ? atoi(argv[3]) : 4, failed = 0, status;

	if (!events || ranks < 1 || ranks > 4096) {
		(void)fprintf(stderr, "usage: make_recording DIRECTORY EVENTS [RANKS [NAME]]\n");
		return 64;
	}
	for (int rank = 0; rank < ranks; rank++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(rank_write(argv[1], rank, ranks, events / (uint64_t)ranks,
					 argc > 4 ? argv[4] : NULL));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			failed = 1;
	}
	return failed;
}
