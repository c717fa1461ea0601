/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hooked CUDA call costs over the bare one, on the simulated driver, beside two clock reads.
 *
 *     bench_cuda [BUILD_DIR [COSTS]]
 *
 * On another driver with WAYLAY_TEST_DRIVER=libcuda.so.1, and there beside a tool that the driver loads, such
 * as a client of CUPTI, with WAYLAY_TEST_CUPTI=TOOL.so (tests/gpu/call_cost.sh). With LTTng as the sink where
 * its tools are (tests/bench/with_lttng.sh, found by WAYLAY_SOURCE).
 *
 * Once without stacks, once with the default ones (on waits, stages and registrations), once with LTTng, each
 * in a process of its own. Bare and hooked calls alternate in rounds; the median round is shown. Between
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
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define ROUNDS   21 /* or fewer, by WAYLAY_TEST_ROUNDS */
#define CALLS    2003
#define PAUSE_US 110000 /* longer than the pace of the housekeeping thread */

typedef CUresult (*one_fn)(void *);
typedef CUresult (*two_fn)(void *, void *);

typedef CUresult (*copy_fn)(CUdeviceptr, const void *, size_t, CUstream);
typedef CUresult (*launch_fn)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, unsigned, CUstream, void **, void **);
typedef CUresult (*host_fn)(CUstream, void (*)(void *), void *);

#define LIMIT_NS 60 /* what a hooked call may cost more */

static int rounds = ROUNDS;
static CUstream stream;
static CUevent event;
static CUdeviceptr device;
static void *pinned;
static CUfunction kernel;
static volatile uint64_t sink;

/* A kernel that the simulated driver has, too, and that is over at once. */
static const char kernel_text[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				  ".visible .entry fake_spin_ns(.param .u64 ns)\n{\n\tret;\n}\n";
static void *no_time[] = {&(uint64_t){0}};

static void nothing(void *data)
{
	(void)data;
}

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
ROUND(copy, sink = (uint64_t)((copy_fn)call)(device, pinned, 4, stream))
ROUND(host_function, sink = (uint64_t)((host_fn)call)(stream, nothing, NULL))
ROUND(launch,
      sink = (uint64_t)((launch_fn)call)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, no_time, NULL))
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
	qsort(values, (size_t)rounds, sizeof(*values), compare);
	return values[rounds / 2];
}

static double minimum(const double *values)
{
	double least = values[0];

	for (int i = 1; i < rounds; i++)
		if (values[i] < least)
			least = values[i];
	return least;
}

static const struct subject {
	const char *symbol, *note;
	double (*round)(void *call);
	bool queued; /* the stream is held, so that its worker does not take part */
} subjects[] = {
	{"cuStreamQuery", "done", on_stream, false},
	{"cuEventQuery", "done", on_event, false},
	{"cuEventRecord", "", record, false},
	{"cuStreamSynchronize", "nothing to wait for", on_stream, false},
	{"cuEventSynchronize", "nothing to wait for", on_event, false},
	{"cuMemcpyHtoDAsync_v2", "4 B of pinned memory, queued", copy, true},
	{"cuLaunchKernel", "queued", launch, true},
	{"cuLaunchHostFunc", "queued", host_function, true},
};
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

struct cost {
	double bare, hooked, added; /* ns, medians */
	double least;               /* of all hooked rounds over that of all bare ones */
};

static void check(CUresult status, const char *what)
{
	if (status == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_cuda: %s on the simulated driver: CUDA error %d\n", what, status);
	exit(1);
}

static CUresult (*drain)(CUstream); /* bare */
static host_fn hold;

static void until_open(void *gate)
{
	while (!atomic_load((atomic_bool *)gate))
		usleep(100);
}

static double round_once(const struct subject *s, void *call)
{
	atomic_bool gate = false;
	double ns;

	/* A real driver's queue is too short for a round; there the device takes part. */
	if (s->queued && !getenv("WAYLAY_TEST_DRIVER"))
		check(hold(stream, until_open, &gate), "holding the stream");
	ns = s->round(call);
	atomic_store(&gate, true);
	check(drain(stream), "cuStreamSynchronize");
	return ns;
}

/* Paired: each round times both, in turn first. */
static struct cost measure(const struct subject *s, void *bare_call, void *hooked_call)
{
	double bare[ROUNDS] = {0}, hooked[ROUNDS] = {0}, more[ROUNDS] = {0};
	struct cost cost;

	for (int i = 0; i < rounds; i++) {
		usleep(PAUSE_US);
		/* What the driver gave back to the system at the last drain it gets again here, so that
		 * neither of the two that are compared pays for it. */
		round_once(s, bare_call);
		if (i % 2)
			hooked[i] = round_once(s, hooked_call);
		bare[i] = round_once(s, bare_call);
		if (i % 2 == 0)
			hooked[i] = round_once(s, hooked_call);
		more[i] = hooked[i] - bare[i];
	}
	cost.added = median(more);
	cost.least = minimum(hooked) - minimum(bare);
	cost.bare = median(bare);
	cost.hooked = median(hooked);
	return cost;
}

static void *must(void *found, const char *what)
{
	if (found)
		return found;
	fprintf(stderr, "bench_cuda: finding %s: %s; build it first (make bench)\n", what,
		dlerror());
	exit(1);
}

/* Through the hooked names, so that the recording begins and the tracer sees the objects. */
static void objects(void *tracer, void *driver)
{
	CUresult (*init)(unsigned) = must(dlsym(tracer, "cuInit"), "cuInit");
	CUresult (*retain)(CUcontext *, CUdevice) =
		must(dlsym(tracer, "cuDevicePrimaryCtxRetain"), "cuDevicePrimaryCtxRetain");
	CUresult (*make_stream)(CUstream *, unsigned) =
		must(dlsym(tracer, "cuStreamCreate"), "cuStreamCreate");
	CUresult (*make_event)(CUevent *, unsigned) =
		must(dlsym(tracer, "cuEventCreate"), "cuEventCreate");
	CUresult (*allocate)(CUdeviceptr *, size_t) =
		must(dlsym(tracer, "cuMemAlloc_v2"), "cuMemAlloc_v2");
	CUresult (*allocate_pinned)(void **, size_t) =
		must(dlsym(tracer, "cuMemAllocHost_v2"), "cuMemAllocHost_v2");
	CUresult (*load)(CUmodule *, const void *) =
		must(dlsym(tracer, "cuModuleLoadData"), "cuModuleLoadData");
	CUresult (*function)(CUfunction *, CUmodule, const char *) =
		must(dlsym(tracer, "cuModuleGetFunction"), "cuModuleGetFunction");
	CUresult (*current)(CUcontext) = must(dlsym(driver, "cuCtxSetCurrent"), "cuCtxSetCurrent");
	CUcontext ctx;
	CUmodule module;

	check(init(0), "cuInit");
	check(retain(&ctx, 0), "cuDevicePrimaryCtxRetain");
	check(current(ctx), "cuCtxSetCurrent");
	check(make_stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(make_event(&event, 0), "cuEventCreate");
	check(allocate(&device, 4096), "cuMemAlloc");
	check(allocate_pinned(&pinned, 4096), "cuMemAllocHost");
	check(load(&module, kernel_text), "cuModuleLoadData");
	check(function(&kernel, module, "fake_spin_ns"), "cuModuleGetFunction");
}

/* One process's part: the costs with these settings, written to `out`. */
static int measure_all(const char *build, const char *stacks, int out)
{
	char path[PATH_MAX + 64], directory[] = "/tmp/bench_cuda.XXXXXX";
	void *driver, *tracer;
	int rc = 0;

	if (!mkdtemp(directory)) {
		fprintf(stderr, "bench_cuda: making a directory in /tmp: %s\n", strerror(errno));
		return 1;
	}
	setenv("WAYLAY_DIR", directory, 1);
	setenv("WAYLAY_STACK", stacks, 1);
	setenv("FAKECUDA_QUEUE_DEPTH", "1000000", 1);
	if (!strcmp(stacks, "lttng")) { /* in the session that with_lttng.sh made */
		setenv("WAYLAY_STACK", "none", 1);
		setenv("WAYLAY_SINK", "lttng", 1);
	}
	if (!strcmp(stacks, "cupti")) { /* bare calls are then those under another tool */
		setenv("WAYLAY_STACK", "none", 1);
		setenv("CUDA_INJECTION64_PATH", getenv("WAYLAY_TEST_CUPTI"), 1);
	}
	snprintf(path, sizeof(path), "%s/tests/fakecuda/libcuda.so.1", build);
	if (getenv("WAYLAY_TEST_DRIVER"))
		snprintf(path, sizeof(path), "%s", getenv("WAYLAY_TEST_DRIVER"));
	driver = must(dlopen(path, RTLD_NOW), path);
	drain = must(dlsym(driver, "cuStreamSynchronize"), "cuStreamSynchronize");
	hold = must(dlsym(driver, "cuLaunchHostFunc"), "cuLaunchHostFunc");
	snprintf(path, sizeof(path), "%s/libwaylay.so", build);
	tracer = must(dlopen(path, RTLD_NOW), path);
	objects(tracer, driver);
	for (unsigned i = 0; i < SUBJECTS; i++) {
		const char *symbol = subjects[i].symbol;
		struct cost cost = measure(&subjects[i], must(dlsym(driver, symbol), symbol),
					   must(dlsym(tracer, symbol), symbol));

		if (write(out, &cost, sizeof(cost)) != (ssize_t)sizeof(cost))
			rc = 1;
	}
	snprintf(path, sizeof(path), "rm -rf %s", directory);
	if (system(path))
		fprintf(stderr, "bench_cuda: removing %s failed; remove it by hand\n", directory);
	return rc;
}

static void measure_apart(const char *build, const char *stacks, struct cost *costs)
{
	int ends[2], status = -1;
	size_t wanted = SUBJECTS * sizeof(*costs), got = 0;
	pid_t child;

	if (pipe(ends) || (child = fork()) < 0) {
		fprintf(stderr, "bench_cuda: starting a process: %s\n", strerror(errno));
		exit(1);
	}
	if (!child)
		exit(measure_all(build, stacks, ends[1]));
	close(ends[1]);
	while (got < wanted) {
		ssize_t n = read(ends[0], (char *)costs + got, wanted - got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(ends[0]);
	waitpid(child, &status, 0);
	if (status || got < wanted) {
		fprintf(stderr, "bench_cuda: the measuring process ended early (status %d)\n",
			status);
		exit(1);
	}
}

/* With LTTng as the sink; false where it cannot be had. */
static bool measure_lttng(const char *self, const char *build, struct cost *costs)
{
	char command[3 * PATH_MAX];
	bool whole;
	FILE *out;

	if (!getenv("WAYLAY_SOURCE"))
		return false;
	snprintf(command, sizeof(command), "'%s/tests/bench/with_lttng.sh' '%s' '%s' lttng",
		 getenv("WAYLAY_SOURCE"), self, build);
	out = popen(command, "r");
	if (!out)
		return false;
	whole = fread(costs, sizeof(*costs), SUBJECTS, out) == SUBJECTS;
	return pclose(out) == 0 && whole;
}

/* One call's row; NULL for what was not measured. */
static void row(unsigned i, const struct cost *plain, const struct cost *stacks,
		const struct cost *lttng, const struct cost *cupti)
{
	printf("%-22s %8.1f %+8.1f %+8.1f %+8.1f ", subjects[i].symbol, plain[i].bare,
	       plain[i].added, plain[i].least, stacks[i].added);
	if (lttng)
		printf("%+8.1f ", lttng[i].added);
	else
		printf("%8s ", "-");
	if (cupti)
		printf("%+8.1f %6.2f", cupti[i].bare - plain[i].bare,
		       plain[i].added / (cupti[i].bare - plain[i].bare));
	else
		printf("%8s %6s", "-", "-");
	printf("   %s\n", subjects[i].note);
}

int main(int argc, char **argv)
{
	char build[PATH_MAX] = "", self[PATH_MAX] = "";
	struct cost plain[SUBJECTS], stacks[SUBJECTS], cupti[SUBJECTS], lttng[SUBJECTS];
	bool beside = getenv("WAYLAY_TEST_CUPTI") != NULL, with_lttng;
	double clock[ROUNDS] = {0};
	unsigned over = 0;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	memcpy(build, self, sizeof(build));
	dirname(dirname(build)); /* in place */
	if (argc > 1)
		snprintf(build, sizeof(build), "%s", argv[1]);
	if (getenv("WAYLAY_TEST_ROUNDS") && atoi(getenv("WAYLAY_TEST_ROUNDS")) > 0 &&
	    atoi(getenv("WAYLAY_TEST_ROUNDS")) < ROUNDS)
		rounds = atoi(getenv("WAYLAY_TEST_ROUNDS"));
	if (argc > 2) /* one part, for the one who asks */
		return measure_all(build, argv[2], STDOUT_FILENO);
	measure_apart(build, "none", plain);
	measure_apart(build, "sync", stacks);
	with_lttng = measure_lttng(self, build, lttng);
	if (beside)
		measure_apart(build, "cupti", cupti);

	printf("ns a call, medians of %d rounds of %d; each column is what it adds to the bare call\n",
	       rounds, CALLS);
	printf("%-22s %8s %8s %8s %8s %8s %8s %6s\n", "", "bare", "hooked", "least", "stacks",
	       "LTTng", "CUPTI", "share");
	for (unsigned i = 0; i < SUBJECTS; i++) {
		row(i, plain, stacks, with_lttng ? lttng : NULL, beside ? cupti : NULL);
		over += plain[i].added > LIMIT_NS;
	}
	for (int i = 0; i < rounds; i++)
		clock[i] = monotonic_twice(NULL);
	printf("%-22s %8.1f\n", "2 x CLOCK_MONOTONIC", median(clock));
#if defined(__x86_64__)
	for (int i = 0; i < rounds; i++)
		clock[i] = tsc_twice(NULL);
	printf("%-22s %8.1f\n", "2 x TSC", median(clock));
#endif
	printf("least: the least hooked round over the least bare one; share: what hooks add of what CUPTI adds\n");
	printf("hooked calls that cost more than %d ns over the bare one: %u of %zu\n", LIMIT_NS,
	       over, SUBJECTS);
	return 0;
}
