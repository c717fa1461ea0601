/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: the machine goes down. A recording is written to a file system in an image; a copy of the image,
 * taken while the job runs, is what a disk would hold if the power went at that moment. What was recorded
 * before a sync is there, whole; whatever else is there, the reader does not fall over it.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <sched.h>
#include <sys/mount.h>

#define BEFORE 60013 /* events */
#define AFTER  90001

static struct shared {
	_Atomic uint64_t recorded;
	uint64_t synced, there, wrong;
	bool damaged;
	char damage[200];
} * shared;

static void run(const char *form, const char *a, const char *b)
{
	char command[900];

	snprintf(command, sizeof(command), "exec >/dev/null 2>&1; a='%s' b='%s'; %s", a, b, form);
	if (system(command) != 0)
		_exit(77);
}

static void writer(void)
{
	struct spool_settings s = test_settings();

	child_begin();
	child_open(&s);
	for (uint64_t n = 0;; n++) {
		child_check(test_emit(0, n));
		atomic_store(&shared->recorded, n + 1);
		if (n % 5003 == 0)
			spool_housekeep();
		if (n + 1 >= BEFORE + AFTER)
			break;
	}
	for (;;)
		pause();
}

static void wait_for(uint64_t events)
{
	while (atomic_load(&shared->recorded) < events)
		sched_yield();
}

/* Numbers in order and without a gap as far as what was synced. */
static void look(void)
{
	struct trace_reader *reader = test_open_only();
	struct trace_event event;
	uint64_t who, n, next = 0;
	int error;
	struct trace_cursor *c = reader->ops->cursor_open(reader, -1, &error);

	while (reader->ops->cursor_next(c, &event) == 1) {
		if (!test_event(&event, &who, &n)) {
			shared->wrong++;
			child_check(next >= shared->synced);
			continue;
		}
		child_check(n == next || (n > next && next >= shared->synced));
		next = n + 1;
		shared->there++;
	}
	reader->ops->cursor_close(c);
	child_check(next >= shared->synced);
	shared->damaged = reader->info.damaged;
	snprintf(shared->damage, sizeof(shared->damage), "%s", reader->info.damage);
	reader->ops->close(reader);
}

static void power(void)
{
	char image[400], copy[400];
	pid_t pid;
	int fd;

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		_exit(77);
	snprintf(image, sizeof(image), "%s.image", test_dir);
	snprintf(copy, sizeof(copy), "%s.copy", test_dir);
	run("truncate -s 64M $a && mkfs.ext4 -q -F $a && mount -o loop $a $b", image, test_dir);
	pid = fork();
	if (pid == 0)
		writer();
	wait_for(BEFORE);
	shared->synced = atomic_load(&shared->recorded);
	fd = open(test_dir, O_RDONLY | O_DIRECTORY);
	child_check(fd >= 0 && syncfs(fd) == 0);
	close(fd);
	wait_for(BEFORE + AFTER);
	run("cp --sparse=always $a $b", image, copy);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	run("umount $b && mount -o loop $a $b", copy, test_dir);
	look();
	run("umount $b; rm -f $b.image $b.copy", image, test_dir);
}

static void test_power(void **state)
{
	char command[600];
	int status;

	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	status = test_child(power);
	snprintf(command, sizeof(command), "rm -f '%s.image' '%s.copy'", test_dir, test_dir);
	assert_int_equal(system(command), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* nobody who may mount, or no mkfs */
	assert_int_equal(status, 0);
	print_message("recorded %llu, synced %llu: on disk %llu, %llu of them half there%s%s\n",
		      (unsigned long long)atomic_load(&shared->recorded),
		      (unsigned long long)shared->synced, (unsigned long long)shared->there,
		      (unsigned long long)shared->wrong, shared->damaged ? "; " : "",
		      shared->damage);
	/* The power did go: not everything is there. */
	assert_true(shared->there < BEFORE + AFTER);
	munmap(shared, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {spool_test(test_power)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
