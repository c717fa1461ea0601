/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that does what it is told, one command a line, and answers each with one line: steps of 3 stream
 * synchronizations in an NVTX range "step", on the simulated driver.
 *
 *   steps N     N steps                     answers "steps N"
 *   start N     N steps as ranges of start and end
 *   record 0|1  calls waylay_record         answers "record", or "alone" outside of Waylay
 *   hang MS     a wait that takes so long   answers "hang" when it begins
 *   slow MS     a step that takes so long
 *   pid         answers "pid PID"
 */
#include "kernels/nvtx/nvtx.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITS 3

static int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int);
static int (*set_current)(void *), (*synchronize)(void *);
static int (*host_function)(void *, void (*)(void *), void *);

static void *find(void *lib, const char *name)
{
	void *fn = dlsym(lib, name);

	if (!fn) {
		(void)fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return fn;
}

static void driver_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int device;

	if (!lib) {
		(void)fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&init = find(lib, "cuInit");
	*(void **)&device_get = find(lib, "cuDeviceGet");
	*(void **)&retain = find(lib, "cuDevicePrimaryCtxRetain");
	*(void **)&set_current = find(lib, "cuCtxSetCurrent");
	*(void **)&synchronize = find(lib, "cuStreamSynchronize");
	*(void **)&host_function = find(lib, "cuLaunchHostFunc");
	if (init(0) || device_get(&device, 0) || retain(&context, device) || set_current(context))
		exit(1);
}

static void waits(void)
{
	for (int i = 0; i < WAITS; i++)
		if (synchronize((void *)0))
			exit(1);
}

static void steps(long count)
{
	for (; count > 0; count--) {
		nvtx_push("step");
		nvtx_push("inner");
		waits();
		nvtx_pop();
		nvtx_pop();
	}
}

static void started_steps(long count)
{
	for (; count > 0; count--) {
		uint64_t id = nvtx_start("step");

		waits();
		nvtx_end(id);
	}
}

static void sleeper(void *ms)
{
	(void)usleep((useconds_t)((uintptr_t)ms * 1000));
}

static void obey(const char *word, long number)
{
	void (*record)(int) = NULL;

	if (strcmp(word, "steps") == 0) {
		steps(number);
	} else if (strcmp(word, "start") == 0) {
		started_steps(number);
	} else if (strcmp(word, "record") == 0) {
		*(void **)&record = dlsym(RTLD_DEFAULT, "waylay_record");
		if (record)
			record((int)number);
		(void)puts(record ? "record" : "alone");
		return;
	} else if (strcmp(word, "hang") == 0) {
		(void)puts("hang");
		(void)fflush(stdout);
		if (host_function((void *)0, sleeper, (void *)(uintptr_t)number) ||
		    synchronize((void *)0))
			exit(1);
		return;
	} else if (strcmp(word, "slow") == 0) {
		nvtx_push("step");
		if (host_function((void *)0, sleeper, (void *)(uintptr_t)number) ||
		    synchronize((void *)0))
			exit(1);
		nvtx_pop();
	} else if (strcmp(word, "pid") == 0) {
		number = getpid();
	}
	(void)printf("%s %ld\n", word, number);
}

int main(void)
{
	char line[128], word[32];
	long number;

	driver_open();
	while (fgets(line, sizeof(line), stdin)) {
		number = 0;
		if (sscanf(line, "%31s %ld", word, &number) < 1)
			continue;
		obey(word, number);
		(void)fflush(stdout);
	}
	return 0;
}
