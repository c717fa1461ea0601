/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast recordings are analysed, and in how much memory: real recordings of one kind of job each, read
 * from disk by `waylay report --json` in a process of its own.
 *
 *   bench_report [EVENTS [NAME [DIR]]]        default 10 million; with DIR the recording is made there and kept
 *
 * CPU time counts, since the machine may be busy. The last line says whether each reached what is promised:
 * 5 million events a second on one core, 128 MiB.
 */
#include "tracer/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROMISED_RATE 5e6
#define PROMISED_MIB  128

struct job {
	uint64_t events; /* at least */
	uint32_t launch, copy, wait, reg, unreg, send, poll, step, kernels[256], sites[4096];
	uint64_t random, mr, messages;
	uint64_t at; /* events so far */
};

static uint64_t below(struct job *job, uint64_t limit)
{
	job->random = job->random * 6364136223846793005u + 1442695040888963407u;
	return (job->random >> 33) % limit;
}

/* --- what jobs do ------------------------------------------------------------------------------- */

static void launch(struct job *job, uint32_t kernel)
{
	uint64_t begin = spool_now();

	SPOOL_EMIT(cuda_launch, begin, spool_now(), 0, .func = 0x7f0012340000 + kernel,
		   .stream = 0x55, .kernel = kernel, .api = job->launch, .grid_x = 128, .grid_y = 1,
		   .grid_z = 1, .block_x = 256, .block_y = 1, .block_z = 1);
	job->at++;
}

static void wait_for(struct job *job, uint32_t stack)
{
	uint64_t begin = spool_now();

	SPOOL_EMIT(cuda_wait, begin, spool_now(), 0, .stream = 0x55, .api = job->wait,
		   .stack = stack, .rule = WL_rule_stream_wait, .cls = WL_call_class_waits);
	job->at++;
}

static void copy(struct job *job, uint32_t stack)
{
	uint64_t begin = spool_now();

	SPOOL_EMIT(cuda_copy, begin, spool_now(), 0, .dst = 0x7f5500000000 + below(job, 64) * 65536,
		   .src = 0x7e0000000000, .bytes = 65536, .stream = 0x55, .stack = stack,
		   .api = job->copy, .dst_kind = WL_mem_kind_pageable,
		   .src_kind = WL_mem_kind_device, .rule = WL_rule_async_to_pageable,
		   .cls = WL_call_class_waits, .stream_kind = WL_stream_kind_non_blocking);
	job->at++;
}

/* A training step: mostly launches, the same each time. */
static void step(struct job *job, bool named, unsigned sites)
{
	if (named) {
		uint64_t now = spool_now();

		SPOOL_EMIT(nvtx_push, now, now, 0, .text = job->step);
		job->at++;
	}
	for (unsigned i = 0; i < 240; i++) {
		launch(job, job->kernels[i]);
		if (i % 8 == 7)
			wait_for(job, job->sites[below(job, sites)]);
		if (i % 16 == 15)
			copy(job, job->sites[below(job, sites)]);
	}
	if (named) {
		uint64_t now = spool_now();

		SPOOL_EMIT(nvtx_pop, now, now, 0);
		job->at++;
	}
}

static void unnamed(struct job *job)
{
	while (job->at < job->events)
		step(job, false, 7);
}

static void named(struct job *job)
{
	while (job->at < job->events)
		step(job, true, 7);
}

static void many_sites(struct job *job)
{
	while (job->at < job->events)
		step(job, true, 4096);
}

/* Launches in no order: that no steps are there must be found out. */
static void disorder(struct job *job)
{
	while (job->at < job->events) {
		launch(job, job->kernels[below(job, 256)]);
		if (below(job, 6) == 0)
			wait_for(job, job->sites[below(job, 7)]);
	}
}

/* Made and taken back, so many of so many ranges. */
static void registrations_of(struct job *job, uint64_t ranges, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		/* Some ranges are used far more than others, as buffers are. */
		uint64_t which = below(job, below(job, ranges) + 1), begin = spool_now();
		uint64_t addr = 0x7f0000000000 + which * 65536, bytes = 4096 * (1 + which % 16);

		job->mr += 0x100;
		SPOOL_EMIT(ofi_mr_reg, begin, spool_now(), 0, .domain = 0x40, .mr = job->mr,
			   .addr = addr, .bytes = bytes, .stack = job->sites[which % 7],
			   .api = job->reg, .fd = -1, .ranges = 1);
		begin = spool_now();
		SPOOL_EMIT(ofi_mr_close, begin, spool_now(), 0, .mr = job->mr, .addr = addr,
			   .bytes = bytes, .api = job->unreg);
		job->at += 2;
	}
}

static void registrations(struct job *job)
{
	while (job->at < job->events)
		registrations_of(job, 20000, 97);
}

static void many_ranges(struct job *job)
{
	while (job->at < job->events)
		registrations_of(job, 3000000, 97);
}

/* So many messages, 64 of them under way at any time, to 61 peers. */
static void transfers_of(struct job *job, uint64_t count)
{
	for (uint64_t end = job->messages + count; job->messages < end; job->messages++) {
		uint64_t i = job->messages, begin = spool_now();

		SPOOL_EMIT(ofi_post, begin, spool_now(), 0, .ep = 0x70,
			   .context = 0x100000 + i % 64 * 64,
			   .addr = 0x7f0000000000 + i % 64 * 8192, .bytes = 8192, .peer = i % 61,
			   .tag = 5, .api = job->send, .op = WL_ofi_op_tsend);
		job->at++;
		if (i < 63)
			continue;
		begin = spool_now();
		SPOOL_EMIT(ofi_completion, begin, begin, 0, .cq = 0x90,
			   .context = 0x100000 + (i - 63) % 64 * 64, .src = UINT64_MAX);
		job->at++;
		if (i % 4)
			continue;
		begin = spool_now();
		SPOOL_EMIT(ofi_poll, begin, spool_now(), 0, .cq = 0x90, .polls = 17,
			   .api = job->poll);
		job->at++;
	}
}

static void transfers(struct job *job)
{
	while (job->at < job->events)
		transfers_of(job, 97);
}

/* A training step that talks to others. */
static void mixed(struct job *job)
{
	while (job->at < job->events) {
		step(job, true, 61);
		registrations_of(job, 20000, 17);
		transfers_of(job, 41);
	}
}

/* --- recording and reporting ---------------------------------------------------------------------- */

static const struct kind {
	const char *name, *words;
	void (*run)(struct job *job);
} kinds[] = {
	{"mixed", "named steps, registrations and messages", mixed},
	{"ranges", "launches, waits, copies in named steps", named},
	{"no_ranges", "the same, steps to be found out", unnamed},
	{"disorder", "launches and waits without steps", disorder},
	{"sites", "named steps, 4,096 call sites", many_sites},
	{"registrations", "of 20,000 ranges again and again", registrations},
	{"many_ranges", "registrations of 3,000,000 ranges", many_ranges},
	{"transfers", "64 messages under way, 61 peers", transfers},
};

static uint32_t intern(const char *text)
{
	return spool_intern_string(text, (unsigned)strlen(text));
}

static void prepare(struct job *job)
{
	uint32_t file = intern("/home/user/project/train.py"), caller = intern("main");
	char text[64];

	job->launch = intern("cuLaunchKernel");
	job->copy = intern("cuMemcpyDtoHAsync_v2");
	job->wait = intern("cuStreamSynchronize");
	job->reg = intern("fi_mr_reg");
	job->unreg = intern("fi_close");
	job->send = intern("fi_tsend");
	job->poll = intern("fi_cq_read");
	job->step = intern("step");
	for (unsigned i = 0; i < 256; i++) {
		snprintf(text, sizeof(text), "kernel_%u", i);
		job->kernels[i] = intern(text);
	}
	for (unsigned i = 0; i < 4096; i++) {
		struct spool_meta_frame frames[2] = {
			{.where = i + 10, .what = file, .kind = TRACE_FRAME_PYTHON},
			{.where = 7, .what = file, .name = caller, .kind = TRACE_FRAME_PYTHON}};

		snprintf(text, sizeof(text), "function_%u", i % 97);
		frames[0].name = intern(text);
		job->sites[i] = spool_intern_stack(frames, 2);
	}
}

/* In a process of its own. 0 when it went well. */
static int record(const struct kind *kind, const char *directory, uint64_t events)
{
	struct spool_settings settings = {.directory = directory,
					  .run = "",
					  .rank = -1,
					  .world_size = -1,
					  .local_rank = -1,
					  .max_bytes = events * 192 + (64u << 20)};
	struct job job = {.events = events, .random = 1};
	int status;
	pid_t pid = fork();

	if (pid) {
		while (waitpid(pid, &status, 0) < 0)
			if (errno != EINTR)
				return -1;
		return status;
	}
	if (spool_clock_choose("auto", &settings.clock) || spool_writer_open(&settings))
		_exit(1);
	prepare(&job);
	kind->run(&job);
	spool_writer_end();
	_exit(0);
}

/* As `waylay report --json DIRECTORY >report.json`; what it used. 0 when it went well. */
static int report(const char *waylay, const char *directory, const char *output,
		  struct rusage *usage)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (!pid) {
		int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		if (fd < 0 || dup2(fd, 1) < 0)
			_exit(126);
		execl(waylay, waylay, "report", "--json", directory, (char *)NULL);
		_exit(127);
	}
	while (wait4(pid, &status, 0, usage) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

/* The number behind "events" in a report; 0: there is none. */
static uint64_t events_of(const char *output)
{
	char line[4096];
	uint64_t events = 0;
	FILE *file = fopen(output, "r");

	while (file && !events && fgets(line, sizeof(line), file))
		(void)sscanf(line, " \"events\": %lu", &events);
	if (file)
		fclose(file);
	return events;
}

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec * 1e-6;
}

/* Two reports: the first may have to bring the recording from the disk. 0, or 1 short of what is promised,
 * or 2 when it cannot be done. */
static int measure(const char *waylay, const struct kind *kind, uint64_t events, const char *keep)
{
	char temporary[] = "/tmp/waylay-bench-XXXXXX", output[4096], command[64];
	const char *directory = keep ? keep : mkdtemp(temporary);
	double best = 0;
	long mib = 0;
	int failed = 0;

	if (!directory)
		return 2;
	snprintf(output, sizeof(output), "%s/report", directory);
	failed = record(kind, directory, events);
	for (int i = 0; i < 3 && !failed; i++) {
		struct rusage usage;
		double took, rate;

		failed = report(waylay, directory, output, &usage);
		took = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
		rate = (double)events_of(output) / took;
		best = rate > best ? rate : best;
		mib = usage.ru_maxrss / 1024 > mib ? usage.ru_maxrss / 1024 : mib;
	}
	if (failed)
		printf("%-14s recording or reporting failed\n", kind->name);
	else
		printf("%-14s %-42s %6.2f M events/s  %4ld MiB\n", kind->name, kind->words,
		       best / 1e6, mib);
	fflush(stdout);
	snprintf(command, sizeof(command), "rm -rf %s", temporary);
	if ((!keep && system(command) != 0) || failed)
		return 2;
	return best < PROMISED_RATE || mib > PROMISED_MIB;
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
	const char *build = getenv("WAYLAY_BUILD");
	unsigned missed = 0, failed = 0;
	char waylay[4096];

	if (!events || !build) {
		fprintf(stderr, "usage: WAYLAY_BUILD=DIR bench_report [EVENTS [NAME [DIR]]]\n");
		return 64;
	}
	snprintf(waylay, sizeof(waylay), "%s/waylay", build);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int result;

		if (argc > 2 && strcmp(argv[2], kinds[i].name) != 0)
			continue;
		result = measure(waylay, &kinds[i], events, argc > 3 ? argv[3] : NULL);
		missed += result == 1;
		failed += result == 2;
	}
	printf("%s 5 M events/s in at most 128 MiB\n", failed   ? "could not be measured:"
						       : missed ? "MISSED:"
								: "all of them:");
	return failed || missed;
}
