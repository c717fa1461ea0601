/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that does what tracers do not expect, around prime numbers of waits. Prints what it sees; the last
 * line is "waits N", the number that a recording of it must hold.
 *
 *   hostile_job WHAT
 */
#include "tests/fakecuda/fake_cuda.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static CUcontext context;
static CUstream stream;
static atomic_int waits;

static void check(bool so, const char *what)
{
	if (so)
		return;
	printf("not so: %s\n", what);
	exit(2);
}
#define CHECK(condition) check((condition), #condition)

static void begin(void)
{
	CUdevice device;

	CHECK(!cuInit(0) && !cuDeviceGet(&device, 0));
	CHECK(!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context));
	CHECK(!cuStreamCreate(&stream, 0));
}

static void wait_times(int count)
{
	for (int i = 0; i < count; i++)
		if (!cuStreamSynchronize(stream))
			atomic_fetch_add(&waits, 1);
}

static int child_end(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* --- descriptors -------------------------------------------------------------------------------- */

static void close_all(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

/* As a daemon does; then one of its own has the recording's number. */
static void descriptors_closed(void)
{
	struct stat st;
	int fd;

	begin();
	wait_times(11);
	close_all();
	fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd == 3);
	CHECK(dup2(fd, 200) == 200);
	wait_times(20011);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 0);
}

/* Its standard error has become a file with data; nothing is to be said there. */
static void stderr_replaced(void)
{
	struct stat st;

	close(2);
	CHECK(open("data", O_RDWR | O_CREAT | O_TRUNC, 0600) == 2);
	begin();
	wait_times(11);
	CHECK(fstat(2, &st) == 0 && st.st_size == 0);
}

static void descriptors_few(void)
{
	struct rlimit limit = {17, 17};
	int count = 0;

	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	begin();
	while (open("/dev/null", O_RDONLY) >= 0)
		count++;
	printf("opened %d\n", count);
	usleep(350000); /* whoever looks after the recording has none either */
	close_all();
	wait_times(20011);
}

static void memory_little(void)
{
	struct rlimit limit = {1u << 30, 1u << 30};

	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	begin();
	CHECK(mmap(NULL, 800u << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	wait_times(20011);
}

/* --- who and where ------------------------------------------------------------------------------ */

static void another_user(void)
{
	begin();
	wait_times(11);
	if (getuid() == 0) /* glibc makes every thread do it, ours too */
		CHECK(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
	wait_times(20011);
}

static void another_root(void)
{
	begin();
	wait_times(11);
	if (getuid() == 0)
		CHECK(mkdir("root", 0755) == 0 && chroot("root") == 0);
	CHECK(chdir("/") == 0);
	wait_times(20011);
}

/* Two forks, as daemons are made; what the parents did is theirs. */
static void daemon_made(void)
{
	int done[2];
	char byte;

	CHECK(pipe(done) == 0);
	if (fork()) {
		close(done[1]);
		CHECK(read(done[0], &byte, 1) == 1);
		atomic_store(&waits, byte);
		return;
	}
	setsid();
	if (fork())
		_exit(0);
	CHECK(chdir("/") == 0);
	begin();
	wait_times(101);
	byte = (char)atomic_load(&waits);
	CHECK(write(done[1], &byte, 1) == 1);
	_exit(0);
}

static void started_programs(void)
{
	char *const echo[] = {(char *)"echo", (char *)"spawned", NULL};
	pid_t pid;

	begin();
	wait_times(11);
	pid = vfork();
	if (!pid) {
		execl("/bin/echo", "echo", "vforked", (char *)NULL);
		_exit(1);
	}
	CHECK(child_end(pid) == 0);
	CHECK(!posix_spawn(&pid, "/bin/echo", NULL, NULL, echo, environ) && !child_end(pid));
	wait_times(13);
}

static atomic_bool stop;

static void *busy(void *unused)
{
	cuCtxSetCurrent(context);
	while (!atomic_load(&stop))
		wait_times(1);
	return unused;
}

/* Children of a process whose other thread is in the middle of a call at any moment. */
static void children_of_threads(void)
{
	pthread_t thread;

	begin();
	CHECK(!pthread_create(&thread, NULL, busy, NULL));
	for (int i = 0; i < 29; i++) {
		pid_t pid = fork();

		if (!pid) {
			cuStreamSynchronize(stream);
			if (i % 2)
				_exit(0);
			exit(0);
		}
		CHECK(child_end(pid) == 0);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

/* --- threads ------------------------------------------------------------------------------------ */

static void *one_wait(void *unused)
{
	cuCtxSetCurrent(context);
	wait_times(1);
	return unused;
}

static void many_small_threads(void)
{
	pthread_attr_t attributes;
	pthread_t threads[31];

	begin();
	CHECK(!pthread_attr_init(&attributes) &&
	      !pthread_attr_setstacksize(&attributes, 64 * 1024));
	for (int round = 0; round < 31; round++) {
		for (int i = 0; i < 31; i++)
			CHECK(!pthread_create(&threads[i], &attributes, one_wait, NULL));
		for (int i = 0; i < 31; i++)
			pthread_join(threads[i], NULL);
	}
}

static void *until_cancelled(void *unused)
{
	cuCtxSetCurrent(context);
	for (;;) {
		wait_times(7);
		pthread_testcancel();
	}
	return unused;
}

static void cancelled_threads(void)
{
	begin();
	for (int i = 0; i < 53; i++) {
		int before = atomic_load(&waits);
		pthread_t thread;
		void *result;

		CHECK(!pthread_create(&thread, NULL, until_cancelled, NULL));
		while (atomic_load(&waits) == before)
			sched_yield();
		pthread_cancel(thread);
		CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	}
}

static void last_words(void)
{
	cuCtxSetCurrent(context);
	wait_times(7);
	printf("waits %d\n", atomic_load(&waits));
}

/* One of several, while the others are in and out of the driver: glibc leaves open what exit() does when
 * two threads call it at once. */
static void *exiting(void *first)
{
	cuCtxSetCurrent(context);
	if (first)
		exit(9);
	for (;;)
		cuStreamQuery(0);
	return NULL;
}

static void exits_in_a_thread(void)
{
	pthread_t threads[5];

	begin();
	wait_times(11);
	CHECK(!atexit(last_words));
	for (int i = 0; i < 5; i++)
		CHECK(!pthread_create(&threads[i], NULL, exiting, i == 4 ? &threads[i] : NULL));
	for (;;)
		pause();
}

/* --- */

static const struct {
	const char *name;
	void (*act)(void);
} acts[] = {
	{"descriptors-closed", descriptors_closed},
	{"stderr-replaced", stderr_replaced},
	{"descriptors-few", descriptors_few},
	{"memory-little", memory_little},
	{"another-user", another_user},
	{"another-root", another_root},
	{"daemon-made", daemon_made},
	{"started-programs", started_programs},
	{"children-of-threads", children_of_threads},
	{"many-small-threads", many_small_threads},
	{"cancelled-threads", cancelled_threads},
	{"exits-in-a-thread", exits_in_a_thread},
};

/* Before main, as a library's constructor may. */
__attribute__((constructor)) static void early(void)
{
	const char *when = getenv("HOSTILE_EARLY");

	if (!when)
		return;
	begin();
	wait_times(5);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (!strcmp(acts[i].name, argv[1])) {
			acts[i].act();
			printf("waits %d\n", atomic_load(&waits));
			return 0;
		}
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		puts(acts[i].name);
	return 64;
}
