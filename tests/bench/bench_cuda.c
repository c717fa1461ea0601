/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hooked CUDA call costs over the bare one, on the simulated driver, beside two clock reads.
 *
 *     bench_cuda [BUILD_DIR]
 *
 * Bare and hooked calls alternate in rounds within one process; the median round is shown. Between
 * rounds there is a pause, in which the housekeeping thread makes the next pages of the recording
 * ready, as it does in a job that makes less than a million calls a second. The driver
 * is opened first and gives the bare pointers; libwaylay.so is opened after it and gives the hooked
 * ones by its exported names.
 */
#include "tracer/inject/cuda/cuda_abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define ROUNDS   21
#define CALLS    2003
#define PAUSE_US 110000 /* longer than the pace of the housekeeping thread */

typedef CUresult (*one_fn)(void *);
typedef CUresult (*two_fn)(void *, void *);

struct subject {
	const char *name, *note;
	void *bare, *hooked;
	double (*round)(void *call);
};

static CUstream stream;
static CUevent event;
static volatile uint64_t sink;

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

#define ROUND(name, statement)                                                                     \
	static double name(void *call)                                                             \
	{                                                                                          \
		double begin = now_ns();                                                           \
                                                                                                   \
		(void)call;                                                                        \
		for (int i = 0; i < CALLS; i++)                                                    \
			statement;                                                                 \
		return (now_ns() - begin) / CALLS;                                                 \
	}
ROUND(on_stream, sink = (uint64_t)((one_fn)call)(stream))
ROUND(on_event, sink = (uint64_t)((one_fn)call)(event))
ROUND(record, sink = (uint64_t)((two_fn)call)(event, stream))
ROUND(monotonic_twice, (now_ns(), now_ns()))
#if defined(__x86_64__)
ROUND(tsc_twice, sink = (__rdtsc(), __rdtsc()))
#endif

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

/* Paired: each round times both, in turn first. */
static double measure(const struct subject *s)
{
	double bare[ROUNDS], hooked[ROUNDS], more[ROUNDS], added;

	for (int i = 0; i < ROUNDS; i++) {
		usleep(PAUSE_US);
		if (i % 2)
			hooked[i] = s->round(s->hooked);
		bare[i] = s->round(s->bare);
		if (i % 2 == 0)
			hooked[i] = s->round(s->hooked);
		more[i] = hooked[i] - bare[i];
	}
	added = median(more);
	printf("%-34s %9.1f %9.1f %+9.1f   %s\n", s->name, median(bare), median(hooked), added,
	       s->note);
	return added;
}

static void *must(void *found, const char *what)
{
	if (found)
		return found;
	fprintf(stderr, "bench_cuda: finding %s: %s; build it first (make bench)\n", what,
		dlerror());
	exit(1);
}

static void check(CUresult status, const char *what)
{
	if (status == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_cuda: %s on the simulated driver: CUDA error %d\n", what, status);
	exit(1);
}

/* Through the hooked names, so that the recording begins and the tracer sees the objects. */
static void objects(void *tracer)
{
	CUresult (*init)(unsigned) = must(dlsym(tracer, "cuInit"), "cuInit");
	CUresult (*retain)(CUcontext *, CUdevice) =
		must(dlsym(tracer, "cuDevicePrimaryCtxRetain"), "cuDevicePrimaryCtxRetain");
	CUresult (*make_stream)(CUstream *, unsigned) =
		must(dlsym(tracer, "cuStreamCreate"), "cuStreamCreate");
	CUresult (*make_event)(CUevent *, unsigned) =
		must(dlsym(tracer, "cuEventCreate"), "cuEventCreate");
	CUresult (*current)(CUcontext) =
		must(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuCtxSetCurrent"),
		     "cuCtxSetCurrent");
	CUcontext ctx;

	check(init(0), "cuInit");
	check(retain(&ctx, 0), "cuDevicePrimaryCtxRetain");
	check(current(ctx), "cuCtxSetCurrent");
	check(make_stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(make_event(&event, 0), "cuEventCreate");
}

int main(int argc, char **argv)
{
	char build[PATH_MAX], path[PATH_MAX + 64], directory[] = "/tmp/bench_cuda.XXXXXX";
	struct subject subjects[] = {
		{"cuStreamQuery, idle", "one record each", NULL, NULL, on_stream},
		{"cuEventQuery, done", "one record each", NULL, NULL, on_event},
		{"cuEventRecord", "", NULL, NULL, record},
		{"cuStreamSynchronize, idle", "with stacks", NULL, NULL, on_stream},
	};
	const char *const symbols[] = {"cuStreamQuery", "cuEventQuery", "cuEventRecord",
				       "cuStreamSynchronize"};
	double clock[ROUNDS], added[2];
	void *driver, *tracer;

	if (argc > 1)
		snprintf(build, sizeof(build), "%s", argv[1]);
	else if (readlink("/proc/self/exe", build, sizeof(build)) > 0)
		snprintf(path, sizeof(path), "%s", dirname(dirname(build))),
			memmove(build, path, sizeof(build));
	if (!mkdtemp(directory)) {
		fprintf(stderr, "bench_cuda: making a directory in /tmp: %s\n", strerror(errno));
		return 1;
	}
	setenv("WAYLAY_DIR", directory, 1);
	snprintf(path, sizeof(path), "%s/tests/fakecuda/libcuda.so.1", build);
	driver = must(dlopen(path, RTLD_NOW), path);
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		subjects[i].bare = must(dlsym(driver, symbols[i]), symbols[i]);
	snprintf(path, sizeof(path), "%s/libwaylay.so", build);
	tracer = must(dlopen(path, RTLD_NOW), path);
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		subjects[i].hooked = must(dlsym(tracer, symbols[i]), symbols[i]);
	objects(tracer);

	printf("%-34s %9s %9s %9s   ns a call, median of %d rounds of %d\n", "", "bare", "hooked",
	       "added", ROUNDS, CALLS);
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		double ns = measure(&subjects[i]);

		if (i < 2)
			added[i] = ns;
	}
	for (int i = 0; i < ROUNDS; i++)
		clock[i] = monotonic_twice(NULL);
	printf("%-34s %9.1f\n", "two reads of CLOCK_MONOTONIC", median(clock));
#if defined(__x86_64__)
	for (int i = 0; i < ROUNDS; i++)
		clock[i] = tsc_twice(NULL);
	printf("%-34s %9.1f\n", "two reads of the TSC", median(clock));
#endif
	snprintf(path, sizeof(path), "rm -rf %s", directory);
	if (system(path))
		fprintf(stderr, "bench_cuda: removing %s failed; remove it by hand\n", directory);
	printf("queries cost at most 60 ns more: %s\n",
	       added[0] <= 60 && added[1] <= 60 ? "yes" : "no");
	return 0;
}
