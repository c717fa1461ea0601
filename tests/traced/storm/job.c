/* SPDX-License-Identifier: Apache-2.0
 *
 * One storm: threads come and go, each makes CUDA calls and forks children at any moment, and the process ends
 * in one of several ways while others are still at it; all by a seed.
 *
 *   storm_job SEED COUNTS      COUNTS: a file of struct storm_counts (storm.h), kept up to date
 */
#include "tests/fakecuda/fake_cuda.h"
#include "tests/traced/storm/storm.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN_MAX = 5, ROUNDS = 60, KERNEL_ITEMS = 64 };

static struct storm_counts *counts;
static enum storm_end ending;
static CUcontext context;
static CUdeviceptr memory;
static CUfunction fill;
static void *pinned;
static _Atomic int threads_made, threads_alive, children_made;
static _Atomic int exiting;
static _Atomic bool started;

static void fail(const char *what)
{
	fprintf(stderr, "storm_job: %s\n", what);
	_exit(70);
}
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail(#condition);                                                          \
	} while (0)

static unsigned draw(uint64_t *state, unsigned below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (unsigned)(*state >> 33) % below;
}

static void begin(void)
{
	CUdevice device;
	CUmodule module;

	CHECK(!cuInit(0) && !cuDeviceGet(&device, 0));
	CHECK(!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context));
	CHECK(!cuMemAlloc_v2(&memory, 65536) && !cuMemHostAlloc(&pinned, 65536, 0));
	CHECK(!cuModuleLoadData(&module, "WAYLAY-KERNELS\nfake_fill_u32\n"));
	CHECK(!cuModuleGetFunction(&fill, module, "fake_fill_u32"));
}

/* A child of a process that has threads and a driver: it may do little, and does it. */
static void child(unsigned how)
{
	cuStreamQuery(NULL); /* what a driver answers here is its own affair */
	if (how == 0)
		_exit(0);
	if (how == 1) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(71);
	}
	exit(0);
}

static void fork_one(uint64_t *state)
{
	/* While another thread is in exit(), glibc's lock of it may be held in a child for ever. */
	bool exits = ending == STORM_EXIT_AT_ONCE || ending == STORM_KILLED;
	unsigned how = draw(state, exits ? 3 : 2);
	int status;
	pid_t pid;

	if (children_made++ >= CHILDREN_MAX)
		return;
	pid = fork();
	if (!pid)
		child(how);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(!status);
}

static void work(uint64_t *state, unsigned slot, unsigned rounds)
{
	unsigned items = KERNEL_ITEMS, value = slot;
	char pageable[512];
	CUdeviceptr own;
	CUstream stream;

	CHECK(!cuCtxSetCurrent(context) && !cuStreamCreate(&stream, slot & 1));
	CHECK(!cuMemAlloc_v2(&own, 4096));
	for (unsigned i = 0; i < rounds; i++) {
		switch (draw(state, 6)) {
		case 0:
			CHECK(!cuMemcpyHtoDAsync_v2(own, pageable, sizeof(pageable), stream));
			break;
		case 1:
			CHECK(!cuMemcpyDtoHAsync_v2(pageable, own, sizeof(pageable), stream));
			break;
		case 2:
			CHECK(!cuMemsetD8Async(own, 1, 512, stream));
			break;
		case 3:
			CHECK(!cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream,
					      (void *[]){&own, &items, &value}, NULL));
			break;
		default:
			cuStreamQuery(stream);
		}
		CHECK(!cuStreamSynchronize(stream));
		/* Relaxed: read when the process is over. */
		atomic_fetch_add_explicit(&counts->waits[slot], 1, memory_order_relaxed);
		if (!draw(state, ROUNDS))
			fork_one(state);
	}
	CHECK(!cuMemFree_v2(own) && !cuStreamDestroy_v2(stream));
}

static bool thread_start(uint64_t seed, pthread_t *thread);

static void *thread_main(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;
	unsigned slot = (unsigned)threads_made++;
	pthread_t next;

	if (slot < STORM_THREADS)
		work(&state, slot, 1 + draw(&state, ROUNDS));
	started = true;
	if (draw(&state, 2) && thread_start(state, &next)) { /* another comes in its place */
		if (draw(&state, 2))
			pthread_detach(next);
		else
			pthread_join(next, NULL);
	}
	if (ending == STORM_EXIT_OF_THREAD &&
	    !exiting++) /* glibc leaves open what two of them do */
		exit(9);
	if (--threads_alive == 0 && ending == STORM_LAST_THREAD)
		exit(0); /* the driver's own threads would keep the process */
	return NULL;
}

static bool thread_start(uint64_t seed, pthread_t *thread)
{
	if (threads_made >= STORM_THREADS)
		return false;
	threads_alive++;
	CHECK(!pthread_create(thread, NULL, thread_main, (void *)(uintptr_t)(seed | 1)));
	return true;
}

static void counts_open(const char *path)
{
	int fd = open(path, O_RDWR);

	CHECK(fd >= 0);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(counts != MAP_FAILED);
	close(fd);
	counts->pid = getpid();
}

/* From a process that has met nothing yet; it records on its own. */
static void early_children(uint64_t *state)
{
	for (unsigned i = draw(state, 3); i > 0; i--) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			begin();
			for (int round = 0; round < 11; round++)
				CHECK(!cuCtxSynchronize());
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	uint64_t state;
	unsigned count;

	if (argc != 3) {
		fprintf(stderr, "usage: storm_job SEED COUNTS\n");
		return 64;
	}
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u | 1;
	ending = (enum storm_end)(strtoull(argv[1], NULL, 10) % STORM_END_MAX);
	counts_open(argv[2]);
	early_children(&state);
	begin();
	count = 2 + draw(&state, 7);
	threads_alive++; /* this one, until all are there */
	for (unsigned i = 0; i < count; i++)
		if (!thread_start(state + i * 7919, &threads[i]))
			fail("starting a thread");
	if (ending == STORM_RETURN)
		for (unsigned i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
	if (--threads_alive == 0 && ending == STORM_LAST_THREAD)
		return 0;
	if (ending == STORM_LAST_THREAD)
		pthread_exit(NULL);
	while (!started && ending != STORM_RETURN)
		usleep(draw(&state, 300));
	if (ending == STORM_EXIT_AT_ONCE)
		_exit(3);
	if (ending == STORM_KILLED)
		raise(SIGKILL);
	if (ending == STORM_EXIT_OF_THREAD)
		for (;;)
			pause();
	return 0;
}
