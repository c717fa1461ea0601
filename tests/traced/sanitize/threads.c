/* SPDX-License-Identifier: Apache-2.0
 *
 * A program for sanitizers, allocators and forks: threads come and go, each makes CUDA calls and
 * allocates; then children do the same. Prints how many calls it made.
 *
 *   traced_threads THREADS ROUNDS CHILDREN [FOLDER]    goes to that folder first
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*init_fn)(unsigned);
typedef int (*device_fn)(int *, int);
typedef int (*retain_fn)(void **, int);
typedef int (*current_fn)(void *);
typedef int (*synchronize_fn)(void *);

/* Enough thread-local data that little of the loader's spare room is left. */
static __thread char local_data[1024];

static synchronize_fn synchronize;
static current_fn set_current;
static void *context;
static int rounds;

static int driver_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	init_fn init;
	device_fn device_get;
	retain_fn retain;
	int device;

	if (!lib)
		return -1;
	init = (init_fn)dlsym(lib, "cuInit");
	device_get = (device_fn)dlsym(lib, "cuDeviceGet");
	retain = (retain_fn)dlsym(lib, "cuDevicePrimaryCtxRetain");
	set_current = (current_fn)dlsym(lib, "cuCtxSetCurrent");
	synchronize = (synchronize_fn)dlsym(lib, "cuStreamSynchronize");
	if (!init || !device_get || !retain || !set_current || !synchronize)
		return -1;
	return init(0) || device_get(&device, 0) || retain(&context, device) ? -1 : 0;
}

static void *work(void *arg)
{
	uintptr_t made = 0;

	(void)arg;
	if (set_current(context))
		return NULL;
	for (int i = 0; i < rounds; i++) {
		char *block = malloc(64 + (size_t)i % 512);

		memset(block, i, 64);
		local_data[i % 1024] = block[3];
		if (!synchronize(NULL))
			made++;
		free(block);
	}
	return (void *)made;
}

static uintptr_t all_threads(int threads)
{
	uintptr_t made = 0;

	for (int done = 0; done < threads;) {
		pthread_t ids[8];
		int now = threads - done < 8 ? threads - done : 8;

		for (int i = 0; i < now; i++)
			pthread_create(&ids[i], NULL, work, NULL);
		for (int i = 0; i < now; i++) {
			void *result;

			pthread_join(ids[i], &result);
			made += (uintptr_t)result;
		}
		done += now;
	}
	return made;
}

int main(int argc, char **argv)
{
	int threads, children;

	if (argc < 4 || (argc > 4 && chdir(argv[4]))) {
		fprintf(stderr, "usage: traced_threads THREADS ROUNDS CHILDREN [FOLDER]\n");
		return 64;
	}
	threads = atoi(argv[1]);
	rounds = atoi(argv[2]);
	children = atoi(argv[3]);
	/* Children first fork from a process that has met nothing, ... */
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			if (driver_open())
				_exit(2);
			_exit(all_threads(2) == 2 * (uintptr_t)rounds ? 0 : 3);
		}
		if (waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "child %d: status %x\n", i, (unsigned)status);
			return 1;
		}
	}
	if (driver_open()) {
		fprintf(stderr, "no driver\n");
		return 1;
	}
	printf("%lu\n", (unsigned long)all_threads(threads));
	fflush(stdout);
	/* ... then from one that records; they do nothing with CUDA, as workers that load data. */
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			free(malloc(100));
			if (i % 2)
				exit(0);
			execl("/bin/true", "true", (char *)NULL);
			_exit(4);
		}
		if (waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "late child %d: status %x\n", i, (unsigned)status);
			return 1;
		}
	}
	return 0;
}
