/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: where there is no room. Every event that a writer was asked to record is there or counted as
 * lost, and the job never gets a signal for it.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* What the child did, in memory shared with the test. */
static struct shared {
	uint64_t recorded[3], lost[3];
} * shared;

static int shared_make(void **state)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : test_dir_make(state);
}

static int shared_remove(void **state)
{
	munmap(shared, 4096);
	return test_dir_remove(state);
}

#define limit_test(name) cmocka_unit_test_setup_teardown(name, shared_make, shared_remove)

static void *fill(void *arg)
{
	uintptr_t who = (uintptr_t)arg;

	for (uint64_t n = 0; n < 20011; n++)
		if (test_emit(who, n))
			shared->recorded[who]++;
		else
			shared->lost[who]++;
	return NULL;
}

static void fill_by_three(void)
{
	pthread_t threads[2];

	for (uintptr_t i = 0; i < 2; i++)
		child_check(pthread_create(&threads[i], NULL, fill, (void *)(i + 1)) == 0);
	fill(NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	/* until there is room for nobody */
	errno = 4711;
	for (uint64_t n = 20011; shared->lost[0] == 0 && test_emit(0, n); n++)
		shared->recorded[0]++;
	child_check(!test_emit(0, 1) && errno == 4711);
	shared->lost[0] += 1 + (shared->lost[0] == 0);
}

/* What each thread recorded is there up to where room ended, the rest is counted for it. */
static void drops_check(struct trace_reader *reader, enum trace_drop reason)
{
	uint64_t recorded = 0, lost = 0;

	for (unsigned t = 0; t < reader->thread_count; t++) {
		struct trace_event e;
		int error;
		struct trace_cursor *c = reader->ops->cursor_open(reader, (int)t, &error);
		int64_t who = reader->ops->cursor_next(c, &e) == 1 ? (int64_t)e.flags : -1;

		reader->ops->cursor_close(c);
		if (who < 0)
			continue;
		assert_int_equal(test_count(reader, (int)t, who, 0), shared->recorded[who]);
		assert_int_equal(reader->threads[t].drops[reason], shared->lost[who]);
		assert_int_equal(test_drops(reader->threads[t].drops), shared->lost[who]);
	}
	for (int i = 0; i < 3; i++) {
		recorded += shared->recorded[i];
		lost += shared->lost[i];
	}
	assert_true(recorded > 0 && lost > 0);
	assert_int_equal(test_count(reader, -1, -1, 0), recorded);
	assert_int_equal(reader->info.drops[reason], lost);
	assert_int_equal(test_drops(reader->info.drops), lost);
	assert_false(reader->info.damaged);
}

/* --- the cap --- */

static void write_cap(void)
{
	struct spool_settings s = test_settings();

	s.max_bytes = 1 << 20;
	child_open(&s);
	fill_by_three();
	spool_writer_end();
}

static void test_cap(void **state)
{
	struct trace_reader *reader;
	struct stat st;

	(void)state;
	run_child(write_cap);
	reader = test_open_only();
	drops_check(reader, TRACE_DROP_SPACE);
	assert_int_equal(stat(reader->info.path, &st), 0);
	assert_true(st.st_size <= 1 << 20);
	/* and nearly all of it was used */
	assert_true(st.st_size > (1 << 20) - 3 * 64 * 1024);
	reader->ops->close(reader);
}

/* --- names beyond their share --- */

static void write_names(void)
{
	struct spool_settings s = test_settings();
	char text[2000];
	uint32_t id;
	int n;

	s.max_bytes = 1 << 20;
	child_open(&s);
	child_check(test_emit(0, 0));
	memset(text, 'n', sizeof(text));
	for (n = 0; n < 100000; n++) {
		int length = snprintf(text, 20, "%d", n);

		text[length] = 'n';
		id = spool_intern_string(text, sizeof(text));
		if (!id)
			break;
	}
	child_check(n > 20 && n < 1000);
	/* events still have their share */
	for (uint64_t i = 1; i < 997; i++)
		child_check(test_emit(0, i));
}

static void test_names(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_names);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 0, 0), 997);
	assert_int_equal(reader->info.drops[TRACE_DROP_INTERN], 1);
	reader->ops->close(reader);
}

/* --- the flight recorder --- */

#define FLIGHT_EVENTS 100003

static void *flight(void *arg)
{
	uintptr_t who = (uintptr_t)arg;

	for (uint64_t n = 0; n < FLIGHT_EVENTS; n++)
		child_check(test_emit(who, n));
	return NULL;
}

static void write_flight(void)
{
	struct spool_settings s = test_settings();
	pthread_t threads[2];

	s.max_bytes = 1 << 20;
	s.flight_recorder = true;
	child_open(&s);
	shared->recorded[0] = spool_intern_string("kept for ever", 13);
	for (uintptr_t i = 0; i < 2; i++)
		child_check(pthread_create(&threads[i], NULL, flight, (void *)(i + 1)) == 0);
	flight(NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	child_check(test_emit(0, FLIGHT_EVENTS));
}

static void test_flight(void **state)
{
	struct trace_reader *reader;
	uint64_t kept = 0;

	(void)state;
	run_child(write_flight);
	reader = test_open_only();
	assert_false(reader->info.damaged);
	assert_int_equal(reader->thread_count, 3);
	for (unsigned t = 0; t < 3; t++) {
		struct trace_event e;
		int error;
		struct trace_cursor *c = reader->ops->cursor_open(reader, (int)t, &error);
		uint64_t who = 0, n = 0, last = 0, count = 0;

		while (reader->ops->cursor_next(c, &e) == 1) {
			assert_true(test_event(&e, &who, &n));
			assert_true(count == 0 || n > last);
			last = n;
			count++;
		}
		reader->ops->cursor_close(c);
		/* the newest are there: those of the thread that wrote last, without a doubt */
		if (count && who == 0)
			assert_int_equal(last, FLIGHT_EVENTS);
		kept += count;
	}
	assert_true(kept > 1000);
	assert_int_equal(kept + reader->info.drops[TRACE_DROP_OVERWRITTEN], 3 * FLIGHT_EVENTS + 1);
	assert_int_equal(test_drops(reader->info.drops),
			 reader->info.drops[TRACE_DROP_OVERWRITTEN]);
	assert_string_equal(reader->ops->string(reader, (uint32_t)shared->recorded[0]),
			    "kept for ever");
	reader->ops->close(reader);
}

/* --- a full disk --- */

static void write_full_disk(void)
{
	struct spool_settings s = test_settings();

	/* in a mount name space of its own, where the file system goes away with the process */
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", test_dir, "tmpfs", 0, "size=2m") != 0)
		_exit(77);
	child_open(&s);
	fill_by_three();
	spool_writer_end();
	/* read here, since nobody else can */
	drops_check(test_open_only(), TRACE_DROP_DISK);
}

static void test_full_disk(void **state)
{
	int status;

	(void)state;
	status = test_child(write_full_disk);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static void write_tiny_disk(void)
{
	struct spool_settings s = test_settings();

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", test_dir, "tmpfs", 0, "size=16k") != 0)
		_exit(77);
	child_check(spool_writer_open(&s) == -ENOSPC);
	child_check(strstr(spool_error(), "No space left") != NULL);
	child_check(!spool_writer_active() && !*spool_writer_path());
	child_check(!test_emit(1, 1) && spool_intern_string("a", 1) == 0);
	spool_enter(WL_EV_cuda_wait, 0, spool_now(), 0, 0);
	spool_leave();
	spool_housekeep();
	spool_writer_end();
	/* nothing is left behind */
	child_check(test_spools(test_dir, NULL, 0) == 0);
}

static void test_tiny_disk(void **state)
{
	int status;

	(void)state;
	status = test_child(write_tiny_disk);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* Others keep their share of the file system. */
static void write_keep_free(void)
{
	struct spool_settings s = test_settings();

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", test_dir, "tmpfs", 0, "size=4m") != 0)
		_exit(77);
	s.keep_free_percent = 50;
	child_open(&s);
	fill_by_three();
	drops_check(test_open_only(), TRACE_DROP_DISK);
	child_check(spool_writer->header->reserved_bytes <= 2u << 20);
	child_check(spool_writer->header->reserved_bytes > 1u << 20);
}

static void test_keep_free(void **state)
{
	int status;

	(void)state;
	status = test_child(write_keep_free);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* --- limits of the job's --- */

static void write_file_limit(void)
{
	struct spool_settings s = test_settings();
	struct rlimit limit = {3 << 20, 3 << 20};

	child_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	child_open(&s);
	fill_by_three();
}

/* The limit is known at the opening: the recording is laid out for it. */
static void test_file_limit(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_file_limit);
	reader = test_open_only();
	drops_check(reader, TRACE_DROP_SPACE);
	reader->ops->close(reader);
}

static void write_file_limit_later(void)
{
	struct spool_settings s = test_settings();
	struct rlimit limit = {1500000, 1500000};

	child_open(&s);
	child_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	fill_by_three();
}

static void test_file_limit_later(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_file_limit_later);
	reader = test_open_only();
	drops_check(reader, TRACE_DROP_DISK);
	reader->ops->close(reader);
}

static void write_memory_limit(void)
{
	struct spool_settings s = test_settings();
	struct rlimit limit;
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	child_check(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + (401u << 20);
	s.max_bytes = 1u << 30;
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		_exit(77);
	child_open(&s);
	child_check(spool_writer->mapped_bytes <= 26u << 20);
	/* Nearly all of it is left to the job. */
	child_check(mmap(NULL, 367u << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		    MAP_FAILED);
	fill(NULL);
}

static void test_memory_limit(void **state)
{
	struct trace_reader *reader;

	(void)state;
	if (TEST_SANITIZED)
		skip(); /* a sanitizer's address space has no limit */
	run_child(write_memory_limit);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 0, 0), shared->recorded[0]);
	assert_int_equal(shared->lost[0], 0);
	reader->ops->close(reader);
}

/* --- a limit on descriptors: none of the few is kept --- */

static void write_descriptor_limit(void)
{
	struct spool_settings s = test_settings();
	struct rlimit limit = {17, 17};
	int before = open("/dev/null", O_RDONLY), after;

	child_check(before >= 0 && close(before) == 0);
	child_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	child_open(&s);
	fill(NULL);
	after = open("/dev/null", O_RDONLY);
	child_check(after == before);
}

static void test_descriptor_limit(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_descriptor_limit);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 0, 0), 20011);
	reader->ops->close(reader);
}

/* --- a thread that is to be cancelled goes on until it says that it may be --- */

static void *cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	fill(arg);
	shared->lost[1] = 31;
	pthread_testcancel();
	shared->lost[1] = 37;
	return NULL;
}

static void write_cancelled(void)
{
	struct spool_settings s = test_settings();
	pthread_t thread;
	void *result;

	child_open(&s);
	child_check(pthread_create(&thread, NULL, cancelled, NULL) == 0);
	child_check(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	child_check(shared->lost[1] == 31);
}

static void test_cancelled(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_cancelled);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 0, 0), 20011);
	reader->ops->close(reader);
}

/* --- a directory that cannot be used --- */

static void write_fallback(void)
{
	struct spool_settings s = test_settings();
	char wanted[400];

	/* not a directory: refused to root as well */
	snprintf(wanted, sizeof(wanted), "%s/file", test_dir);
	close(open(wanted, O_CREAT | O_WRONLY, 0600));
	snprintf(wanted, sizeof(wanted), "%s/file/below", test_dir);
	setenv("TMPDIR", test_dir, 1);
	s.directory = wanted;
	child_open(&s);
	child_check(test_emit(0, 0));
}

static void test_fallback(void **state)
{
	struct trace_reader *reader;
	char dir[400], paths[2][TEST_PATH];
	struct stat st;

	(void)state;
	run_child(write_fallback);
	snprintf(dir, sizeof(dir), "%s/waylay-%u", test_dir, (unsigned)geteuid());
	assert_int_equal(test_spools(dir, paths, 2), 1);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	reader = test_open(paths[0]);
	assert_non_null(
		strstr(test_attribute(reader, "spool.fallback"), "/file/below: Not a directory"));
	assert_int_equal(test_count(reader, 0, 0, 0), 1);
	reader->ops->close(reader);
}

static void write_nowhere(void)
{
	struct spool_settings s = test_settings();

	s.directory = "/proc/self/none";
	setenv("TMPDIR", "/proc/self/none", 1);
	child_check(spool_writer_open(&s) < 0);
	child_check(strstr(spool_error(), "set WAYLAY_DIR") != NULL);
	child_check(!test_emit(1, 1) && !spool_writer_active());
}

/* Somebody else's directory in a shared place is not trusted. */
static void write_foreign(void)
{
	struct spool_settings s = test_settings();
	char place[400], link[400];

	snprintf(place, sizeof(place), "%s/place", test_dir);
	snprintf(link, sizeof(link), "%s/waylay-%u", test_dir, (unsigned)geteuid());
	child_check(mkdir(place, 0700) == 0 && symlink(place, link) == 0);
	s.directory = "/proc/self/none";
	setenv("TMPDIR", test_dir, 1);
	child_check(spool_writer_open(&s) < 0);
	child_check(test_spools(place, NULL, 0) == 0);
}

static void test_nowhere(void **state)
{
	(void)state;
	run_child(write_nowhere);
	run_child(write_foreign);
}

/* Parents of the directory are made, for the user alone. */
static void write_deep(void)
{
	struct spool_settings s = test_settings();
	char deep[400];

	snprintf(deep, sizeof(deep), "%s/a/b/c", test_dir);
	umask(0);
	s.directory = deep;
	child_open(&s);
	child_check(strncmp(spool_writer_path(), deep, strlen(deep)) == 0);
}

/* A relative directory is that of the opening, wherever the job goes. */
static void write_relative(void)
{
	struct spool_settings s = test_settings();
	int status;
	pid_t pid;

	child_check(chdir(test_dir) == 0);
	s.directory = "here";
	child_open(&s);
	child_check(chdir("/") == 0);
	child_check(test_emit(0, 0));
	close(atomic_load(&spool_writer->fd));
	for (uint64_t n = 1; n < 50021; n++)
		child_check(test_emit(0, n));
	pid = fork();
	if (pid == 0) {
		child_check(test_emit(0, 0));
		_exit(0);
	}
	child_check(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_relative(void **state)
{
	char dir[400], paths[3][TEST_PATH];

	(void)state;
	run_child(write_relative);
	snprintf(dir, sizeof(dir), "%s/here", test_dir);
	assert_int_equal(test_spools(dir, paths, 3), 2);
}

static void test_deep(void **state)
{
	char path[400];
	struct stat st;

	(void)state;
	run_child(write_deep);
	snprintf(path, sizeof(path), "%s/a/b", test_dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* --- a job that closes every descriptor --- */

static void write_closed(void)
{
	struct spool_settings s = test_settings();
	char other[400];
	int fd, kept;
	struct stat st;

	child_open(&s);
	kept = atomic_load(&spool_writer->fd);
	child_check(kept >= 200);
	child_check(test_emit(0, 0));
	for (int i = 3; i < 1024; i++)
		close(i);
	/* and has the number for something else */
	snprintf(other, sizeof(other), "%s/other", test_dir);
	fd = open(other, O_CREAT | O_RDWR, 0600);
	child_check(dup2(fd, kept) == kept);
	for (uint64_t n = 1; n < 50021; n++)
		child_check(test_emit(0, n));
	child_check(fstat(kept, &st) == 0 && st.st_size == 0);
}

static void write_closed_and_gone(void)
{
	struct spool_settings s = test_settings();

	child_open(&s);
	child_check(test_emit(0, 0));
	child_check(unlink(spool_writer_path()) == 0);
	close(atomic_load(&spool_writer->fd));
	for (uint64_t n = 1; n < 50021; n++)
		if (!test_emit(0, n))
			shared->lost[0]++;
	child_check(shared->lost[0] > 0);
	child_check(spool_self->slot->drops[TRACE_DROP_DISK] == shared->lost[0]);
}

static void test_closed(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_closed);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 0, 0), 50021);
	reader->ops->close(reader);
	run_child(write_closed_and_gone);
}

/* --- housekeeping --- */

static void write_housekept(void)
{
	struct spool_settings s = test_settings();
	uint64_t n = 0;

	child_open(&s);
	for (int round = 0; round < 19; round++) {
		for (int i = 0; i < 5003; i++)
			child_check(test_emit(0, n++));
		spool_housekeep();
		/* chunks lie ready */
		child_check(atomic_load(&spool_writer->header->reserved_bytes) >=
			    spool_writer->header->data_offset +
				    (atomic_load(&spool_writer->header->chunk_next) + 4) *
					    spool_writer->chunk_bytes);
	}
}

static void test_housekept(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_housekept);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 0, 0), 19 * 5003);
	reader->ops->close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		limit_test(test_cap),          limit_test(test_names),
		limit_test(test_flight),       limit_test(test_full_disk),
		limit_test(test_tiny_disk),    limit_test(test_keep_free),
		limit_test(test_file_limit),   limit_test(test_file_limit_later),
		limit_test(test_memory_limit), limit_test(test_descriptor_limit),
		limit_test(test_cancelled),    limit_test(test_fallback),
		limit_test(test_nowhere),      limit_test(test_deep),
		limit_test(test_relative),     limit_test(test_closed),
		limit_test(test_housekept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
