/* SPDX-License-Identifier: Apache-2.0
 *
 * A job with prime numbers of kernels, copies, memsets and graph launches, and in it a client of CUPTI's
 * activity interface that behaves as torch.profiler's does: it registers callbacks and enables kinds at the
 * start of a window, disables them and flushes at its end, and does not flush if it was never asked for a
 * buffer. Prints the rows of each window: what it would have without Waylay.
 *
 *   cupti_client none|link|dlsym [early] [clock=own] [thread]
 *     none    no client at all
 *     link    by the library it is linked to      dlsym   by dlopen and dlsym
 *     early   the first window begins before cuInit
 *     clock   a clock of its own, an hour ahead of MONOTONIC
 *     thread  another thread works during the windows too
 */
#include "tests/fakecuda/fake_cuda.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, KINDS = 64 };

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef uint64_t (*clock_fn)(void);

int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete);
int cuptiActivityRegisterTimestampCallback(clock_fn now);
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record);

static struct {
	int (*callbacks)(request_fn request, complete_fn complete);
	int (*timestamp)(clock_fn now);
	int (*enable)(uint32_t kind);
	int (*disable)(uint32_t kind);
	int (*flush)(uint32_t flag);
	int (*next)(uint8_t *buffer, size_t valid, uint8_t **record);
} cupti;

static bool with_client, own_clock, beside;
static CUcontext context;
static CUstream stream, other_stream;
static CUfunction spin, fill;
static CUdeviceptr memory, other_memory, own_memory; /* of one stream each */
static CUgraphExec graph;
static char host[4096];
/* All that the job gave to the device, for whoever traces it all. */
static unsigned kernels, copies, memsets, graphs;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("not so: %s (line %d)\n", #condition, __LINE__);                    \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

/* --- the client ------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned buffers_out;
static unsigned rows[KINDS], wrong_times, foreign_kinds;
static uint64_t window_begin;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(own_clock ? CLOCK_MONOTONIC : CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec +
	       (own_clock ? UINT64_C(3600000000000) : 0);
}

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*size = 64 * 1024;
	*buffer = aligned_alloc(8, *size);
	*records = 0;
	pthread_mutex_lock(&lock);
	buffers_out++;
	pthread_mutex_unlock(&lock);
}

static void row(const uint8_t *record)
{
	uint64_t start, end, here = now();
	uint32_t kind;

	memcpy(&kind, record, 4);
	memcpy(&start, record + (kind == DRIVER || kind == RUNTIME ? 8 : 16), 8);
	memcpy(&end, record + (kind == DRIVER || kind == RUNTIME ? 16 : 24), 8);
	if (kind != MEMCPY && kind != MEMSET && kind != KERNEL && kind != DRIVER) {
		foreign_kinds++;
		return;
	}
	rows[kind]++;
	if (start && (start + 2000 < window_begin || end < start || end > here + 2000))
		wrong_times++;
}

static void complete(void *ctx, uint32_t id, uint8_t *buffer, size_t size, size_t valid)
{
	uint8_t *record = NULL;

	(void)ctx;
	(void)id;
	(void)size;
	pthread_mutex_lock(&lock);
	buffers_out--;
	while (!cupti.next(buffer, valid, &record))
		row(record);
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static void client_find(const char *how)
{
	void *library;

	with_client = strcmp(how, "none") != 0;
	cupti.callbacks = cuptiActivityRegisterCallbacks;
	cupti.timestamp = cuptiActivityRegisterTimestampCallback;
	cupti.enable = cuptiActivityEnable;
	cupti.disable = cuptiActivityDisable;
	cupti.flush = cuptiActivityFlushAll;
	cupti.next = cuptiActivityGetNextRecord;
	if (strcmp(how, "dlsym") != 0)
		return;
	library = dlopen("libcupti.so.13", RTLD_NOW);
	CHECK(library);
	cupti.callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
	cupti.timestamp = dlsym(library, "cuptiActivityRegisterTimestampCallback");
	cupti.enable = dlsym(library, "cuptiActivityEnable");
	cupti.disable = dlsym(library, "cuptiActivityDisable");
	cupti.flush = dlsym(library, "cuptiActivityFlushAll");
	cupti.next = dlsym(library, "cuptiActivityGetNextRecord");
}

static const uint32_t wanted[] = {MEMCPY, MEMSET, KERNEL, DRIVER, RUNTIME};
#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

static void window_open(void)
{
	if (!with_client)
		return;
	memset(rows, 0, sizeof(rows));
	wrong_times = foreign_kinds = 0;
	if (own_clock)
		CHECK(!cupti.timestamp(now));
	CHECK(!cupti.callbacks(request, complete));
	window_begin = now();
	for (unsigned i = 0; i < WANTED; i++)
		CHECK(!cupti.enable(wanted[i]));
}

static void window_close(const char *name)
{
	if (!with_client)
		return;
	for (unsigned i = 0; i < WANTED; i++)
		CHECK(!cupti.disable(wanted[i]));
	/* What is given after the end is not in it. */
	for (int i = 0; i < 3; i++)
		CHECK(!cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream,
				      (void *[]){&memory, &(unsigned){8}, &(unsigned){1}}, NULL));
	__atomic_fetch_add(&kernels, 3, __ATOMIC_RELAXED);
	CHECK(!cuStreamSynchronize(stream));
	/* As torch.profiler: no buffer asked for, nothing to have. */
	if (buffers_out)
		CHECK(!cupti.flush(1));
	printf("%s: %u copies %u memsets, %u not asked for\n", name, rows[MEMCPY], rows[MEMSET],
	       foreign_kinds);
	/* What another thread does meanwhile is another number each time. */
	fprintf(beside ? stderr : stdout, "%s: %u kernels %u calls, %u wrong times\n", name,
		rows[KERNEL], rows[DRIVER], wrong_times);
}

/* --- the job ---------------------------------------------------------------------------------------- */

static void begin(void)
{
	CUdevice device;
	CUmodule module;
	CUgraph captured;
	unsigned count = 64, value = 7;
	uint64_t ns = 1000;

	CHECK(!cuInit(0) && !cuDeviceGet(&device, 0));
	CHECK(!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context));
	CHECK(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) &&
	      !cuStreamCreate(&other_stream, 0));
	CHECK(!cuModuleLoadData(&module, "WAYLAY-KERNELS\nfake_spin_ns\nfake_fill_u32\n"));
	CHECK(!cuModuleGetFunction(&spin, module, "fake_spin_ns"));
	CHECK(!cuModuleGetFunction(&fill, module, "fake_fill_u32"));
	CHECK(!cuMemAlloc_v2(&memory, 4096) && !cuMemAlloc_v2(&other_memory, 4096));
	CHECK(!cuMemAlloc_v2(&own_memory, 4096));
	CHECK(!cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 3; i++)
		CHECK(!cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream,
				      (void *[]){&memory, &count, &value}, NULL));
	CHECK(!cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&ns}, NULL));
	CHECK(!cuMemsetD8Async(memory, 1, 64, stream));
	CHECK(!cuStreamEndCapture(stream, &captured));
	CHECK(!cuGraphInstantiateWithFlags(&graph, captured, 0));
}

static void launch(CUstream on, CUdeviceptr into, unsigned times)
{
	unsigned count = 64, value = 7;

	for (unsigned i = 0; i < times; i++)
		CHECK(!cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, on,
				      (void *[]){&into, &count, &value}, NULL));
	__atomic_fetch_add(&kernels, times, __ATOMIC_RELAXED);
}

static void work(unsigned times)
{
	launch(stream, memory, times);
	for (unsigned i = 0; i < times; i++) {
		CHECK(!cuMemcpyDtoHAsync_v2(host, other_memory, 256 + i, other_stream));
		copies++;
		CHECK(!cuMemsetD32Async(other_memory, 3, 16, other_stream));
		memsets++;
	}
	CHECK(!cuGraphLaunch(graph, stream));
	graphs++;
	CHECK(!cuStreamSynchronize(stream) && !cuStreamSynchronize(other_stream));
}

/* Given before a window, done in it: no row of its. */
static void backlog(void)
{
	uint64_t ns = 30000000;

	CHECK(!cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&ns}, NULL));
	__atomic_fetch_add(&kernels, 1, __ATOMIC_RELAXED);
	launch(stream, memory, 5);
}

static _Atomic bool stop;

static void *work_beside(void *unused)
{
	CUstream own;

	CHECK(!cuCtxSetCurrent(context) && !cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	while (!stop) {
		launch(own, own_memory, 17);
		CHECK(!cuStreamSynchronize(own));
	}
	return unused;
}

int main(int argc, char **argv)
{
	bool early = false;
	pthread_t thread;

	for (int i = 2; i < argc; i++) {
		early |= !strcmp(argv[i], "early");
		beside |= !strcmp(argv[i], "thread");
		own_clock |= !strcmp(argv[i], "clock=own");
	}
	client_find(argc > 1 ? argv[1] : "none");
	if (early)
		window_open();
	begin();
	if (beside)
		CHECK(!pthread_create(&thread, NULL, work_beside, NULL));
	if (early) {
		work(2);
		window_close("early");
	}
	work(11);
	for (unsigned i = 0; i < 3; i++) {
		backlog();
		window_open();
		work(7 + i);
		window_close(i == 0 ? "first" : i == 1 ? "second" : "third");
		work(5);
	}
	window_open();
	window_close("empty");
	work(13);
	stop = true;
	if (beside)
		CHECK(!pthread_join(thread, NULL));
	fprintf(beside ? stderr : stdout, "all: %u kernels %u copies %u memsets %u graphs\n",
		kernels, copies, memsets, graphs);
	return 0;
}
