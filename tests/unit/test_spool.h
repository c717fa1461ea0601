/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the spool share. A process has one writer, so each test writes in a child of its
 * own and reads in the test program, which never opens a writer.
 */
#ifndef WAYLAY_TESTS_TEST_SPOOL_H
#define WAYLAY_TESTS_TEST_SPOOL_H

#include "tracer/spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A sanitizer's build does the same, less often. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

/* --- a directory for the test --- */

#define TEST_PATH 700 /* longest path of a spool in it */
static char test_dir[256];

static inline int test_dir_make(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(test_dir, sizeof(test_dir), "%s/waylay-test-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(test_dir) ? 0 : -1;
}

static inline int test_dir_remove(void **state)
{
	char command[300];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", test_dir);
	return system(command) == 0 ? 0 : -1;
}

#define spool_test(name) cmocka_unit_test_setup_teardown(name, test_dir_make, test_dir_remove)

/* Paths of the spools in a directory, in order of name. Returns how many. */
static inline unsigned test_spools(const char *dir, char paths[][TEST_PATH], unsigned max)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort);
	unsigned count = 0;

	for (int i = 0; i < n; i++) {
		const char *dot = strrchr(names[i]->d_name, '.');

		if (dot && strcmp(dot, ".wspool") == 0 && count < max)
			snprintf(paths[count++], TEST_PATH, "%s/%s", dir, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return count;
}

/* --- writing, in a child --- */

static inline struct spool_settings test_settings(void)
{
	struct spool_settings s = {
		.directory = test_dir,
		.run = "a run",
		.max_bytes = 64u << 20,
		.rank = 3,
		.world_size = 5,
		.local_rank = 1,
	};

	if (spool_clock_choose("auto", &s.clock) != 0)
		abort();
	return s;
}

/* In the child: says what went wrong and ends. */
#define child_check(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: child: %s is not so (%s)\n", __FILE__, __LINE__,   \
				#condition, spool_error());                                        \
			_exit(99);                                                                 \
		}                                                                                  \
	} while (0)

/* A child does not outlive a test that failed. */
static inline void child_begin(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static inline void child_open(const struct spool_settings *settings)
{
	child_check(spool_writer_open(settings) == 0);
	child_check(spool_writer_active());
	child_check(spool_generation() != 0);
}

/* Runs body in a child and returns its wait status. */
static inline int test_child(void (*body)(void))
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		child_begin();
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define run_child(body) assert_int_equal(test_child(body), 0)

/* An event that tells which one it is and whether it is whole. */
static inline uint64_t test_mark(uint64_t who, uint64_t n)
{
	return (who << 40 ^ n) * 0x9e3779b97f4a7c15ull;
}

static inline bool test_emit(uint64_t who, uint64_t n)
{
	uint64_t begin = spool_now();

	/* two sizes, so that chunks end with and without a rest */
	if (n % 3)
		return SPOOL_EMIT(nvtx_start, begin, begin, (uint32_t)who, .id = n,
				  .payload = test_mark(who, n));
	return SPOOL_EMIT(cuda_copy, begin, spool_now(), (uint32_t)who, .dst = n,
			  .src = test_mark(who, n), .status = -7);
}

/* --- reading --- */

static inline struct trace_reader *test_open(const char *path)
{
	struct trace_reader *reader;
	char err[400] = "";
	int rc = spool_reader_open(path, &reader, err, sizeof(err));

	if (rc)
		fail_msg("%s: %d %s", path, rc, err);
	return reader;
}

/* The only spool of the test's directory. */
static inline struct trace_reader *test_open_only(void)
{
	char paths[2][TEST_PATH];

	assert_int_equal(test_spools(test_dir, paths, 2), 1);
	return test_open(paths[0]);
}

/* Which event it is; false when it is none of test_emit()'s, or not whole. */
static inline bool test_event(const struct trace_event *e, uint64_t *who, uint64_t *n)
{
	*who = e->flags;
	if (e->type == wl_event_type(WL_EV_nvtx_start)) {
		*n = e->args[WL_ARG(nvtx_start, id)];
		return e->args[WL_ARG(nvtx_start, payload)] == test_mark(*who, *n) && *n % 3;
	}
	if (e->type == wl_event_type(WL_EV_cuda_copy)) {
		*n = e->args[WL_ARG(cuda_copy, dst)];
		return e->args[WL_ARG(cuda_copy, src)] == test_mark(*who, *n) && *n % 3 == 0 &&
		       (int64_t)e->args[WL_ARG(cuda_copy, status)] == -7;
	}
	return false;
}

/* Events of one thread, or of all (-1): all whole, by whom (who < 0: anyone), numbered without a gap
 * from `from` when who >= 0. Returns how many. */
static inline uint64_t test_count(struct trace_reader *reader, int thread, int64_t who,
				  uint64_t from)
{
	struct trace_event event;
	uint64_t count = 0, by = 0, n = 0;
	int error, rc;
	struct trace_cursor *cursor = reader->ops->cursor_open(reader, thread, &error);

	assert_non_null(cursor);
	while ((rc = reader->ops->cursor_next(cursor, &event)) == 1) {
		assert_true(test_event(&event, &by, &n));
		assert_true(event.end_ns >= event.begin_ns);
		assert_true(thread < 0 || event.thread == (uint32_t)thread);
		if (who >= 0) {
			assert_int_equal(by, who);
			assert_int_equal(n, from + count);
		}
		count++;
	}
	assert_int_equal(rc, 0);
	reader->ops->cursor_close(cursor);
	return count;
}

static inline const char *test_attribute(struct trace_reader *reader, const char *key)
{
	for (unsigned i = 0; i < reader->info.attribute_count; i++)
		if (strcmp(reader->info.attributes[i][0], key) == 0)
			return reader->info.attributes[i][1];
	return "";
}

static inline uint64_t test_drops(const uint64_t drops[TRACE_DROP_MAX])
{
	uint64_t sum = 0;

	for (int i = 0; i < TRACE_DROP_MAX; i++)
		sum += drops[i];
	return sum;
}

#endif
