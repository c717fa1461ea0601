/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: reading what is no spool, is cut off, is damaged, or is being written.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

/* Reads everything there is to read. The sanitizers judge; here only that it ends. Returns the records
 * read, -1 when the file was refused. */
static long read_all(const char *path)
{
	struct trace_reader *reader;
	struct trace_inflight in[7];
	struct trace_frame frames[64];
	struct trace_event event;
	char err[300] = "";
	uint64_t sum = 0;
	long count = 0;
	int rc = spool_reader_open(path, &reader, err, sizeof(err));

	if (rc) {
		assert_true(rc < 0 && strlen(err) > strlen(path));
		assert_null(reader);
		return -1;
	}
	for (int t = -1; t < (int)reader->thread_count; t++) {
		int error;
		struct trace_cursor *c = reader->ops->cursor_open(reader, t, &error);

		assert_non_null(c);
		while (reader->ops->cursor_next(c, &event) == 1) {
			assert_true(event.thread < reader->thread_count);
			assert_true(event.end_ns >= event.begin_ns);
			for (unsigned i = 0; i < event.type->arg_count; i++) {
				enum wl_show show = event.type->args[i].show;

				sum += event.args[i];
				if (show == WL_SHOW_STR)
					sum += strlen(reader->ops->string(reader,
									  (uint32_t)event.args[i]));
				if (show == WL_SHOW_STACK)
					sum += reader->ops->stack(reader, (uint32_t)event.args[i],
								  frames, 64);
			}
			count += t < 0;
		}
		reader->ops->cursor_close(c);
	}
	for (unsigned t = 0; t < reader->thread_count; t++)
		sum += strlen(reader->threads[t].name);
	for (unsigned i = 0; i < reader->info.attribute_count; i++)
		sum += strlen(reader->info.attributes[i][0]) +
		       strlen(reader->info.attributes[i][1]);
	sum += reader->ops->inflight(reader, in, 7);
	assert_true(reader->info.clock_count >= 1);
	assert_int_equal(reader->info.damaged, strlen(reader->info.damage) > 0);
	reader->ops->close(reader);
	return sum || !count ? count : -2;
}

/* --- a small recording with one of everything --- */

#define THREADS 3
#define EVENTS  101

static void *small_thread(void *arg)
{
	uint64_t who = (uint64_t)(uintptr_t)arg;
	struct spool_meta_frame frames[2] = {
		{.kind = TRACE_FRAME_PYTHON, .where = 3, .what = spool_intern_string("a.py", 4)},
		{.kind = TRACE_FRAME_NATIVE, .where = 0x10},
	};
	uint32_t stack, api = spool_intern_string("cuSomething", 11);

	frames[1].what = spool_intern_module("/lib/a.so", 1, 2, 3, NULL, 0);
	stack = spool_intern_stack(frames, 2);
	for (uint64_t n = 0; n < EVENTS; n++) {
		uint64_t begin = spool_now();

		child_check(SPOOL_EMIT(cuda_wait, begin, spool_now(), (uint32_t)who, .stream = n,
				       .stack = stack, .api = api));
	}
	if (who == 0)
		spool_enter(WL_EV_cuda_wait, api, spool_now(), stack, 1);
	return arg;
}

static void write_small(void)
{
	struct spool_settings s = test_settings();
	pthread_t threads[THREADS];

	s.max_bytes = 1 << 20;
	child_open(&s);
	for (uintptr_t i = 1; i < THREADS; i++)
		child_check(pthread_create(&threads[i], NULL, small_thread, (void *)i) == 0);
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	small_thread(NULL);
	spool_writer_end();
}

static uint8_t *small;
static size_t small_bytes;
static char victim[300];

static int small_make(void **state)
{
	char paths[1][TEST_PATH];
	int fd;

	if (test_dir_make(state))
		return -1;
	run_child(write_small);
	test_spools(test_dir, paths, 1);
	fd = open(paths[0], O_RDONLY);
	small = malloc(4 << 20);
	small_bytes = (size_t)read(fd, small, 4 << 20);
	close(fd);
	unlink(paths[0]);
	snprintf(victim, sizeof(victim), "%s/victim.wspool", test_dir);
	return 0;
}

static int small_remove(void **state)
{
	free(small);
	return test_dir_remove(state);
}

static void victim_write(const uint8_t *bytes, size_t count)
{
	int fd = open(victim, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	assert_int_equal(write(fd, bytes, count), count);
	close(fd);
}

/* Cut anywhere: an error while the header or the table is incomplete, else what lies before the cut. */
static void test_cut(void **state)
{
	const struct spool_header *h = (const void *)small;
	uint64_t table_end = h->table_offset + h->table_bytes;
	long last = 0, count;

	(void)state;
	victim_write(small, small_bytes);
	assert_int_equal(read_all(victim), THREADS * EVENTS);
	for (size_t bytes = small_bytes & ~63ull; bytes > 0; bytes -= 64) {
		/* in steps of 64 where something lies, further apart in what is zero */
		if (bytes > table_end && bytes < small_bytes && bytes % 512 &&
		    !memcmp(small + bytes - 64, (uint8_t[64]){0}, 64))
			continue;
		assert_int_equal(truncate(victim, (off_t)bytes), 0);
		count = read_all(victim);
		if (bytes < table_end)
			assert_int_equal(count, -1);
		else
			assert_true(count >= 0 && count <= THREADS * EVENTS);
		last = bytes == (table_end & ~63ull) + 64 ? count : last;
	}
	assert_int_equal(last, 0);
	assert_int_equal(truncate(victim, 0), 0);
	assert_int_equal(read_all(victim), -1);
}

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

/* A place where something lies: most of the file is zero. */
static size_t random_place(void)
{
	for (;;) {
		size_t at = random_next() % small_bytes;

		if (small[at] || random_next() % 64 == 0)
			return at;
	}
}

static void test_flipped(void **state)
{
	const char *rounds = getenv("WAYLAY_TEST_FLIPS");
	long whole = 0, partial = 0, refused = 0;
	int fd;

	(void)state;
	random_state = 20011;
	victim_write(small, small_bytes);
	fd = open(victim, O_RDWR);
	for (int round = 0; round < (rounds           ? atoi(rounds)
				     : TEST_SANITIZED ? 701
						      : 3001);
	     round++) {
		size_t at[9];
		int flips = 1 + (int)(random_next() % 9);
		long count;

		for (int i = 0; i < flips; i++) {
			uint8_t byte = (uint8_t)random_next();

			at[i] = round % 3 ? random_place() : random_next() % 4096;
			if (round % 2)
				byte = small[at[i]] ^ (uint8_t)(1u << random_next() % 8);
			assert_int_equal(pwrite(fd, &byte, 1, (off_t)at[i]), 1);
		}
		count = read_all(victim);
		whole += count == THREADS * EVENTS;
		partial += count >= 0 && count != THREADS * EVENTS;
		refused += count == -1;
		for (int i = 0; i < flips; i++)
			assert_int_equal(pwrite(fd, &small[at[i]], 1, (off_t)at[i]), 1);
	}
	close(fd);
	assert_int_equal(read_all(victim), THREADS * EVENTS);
	assert_true(whole > 0 && partial > 0 && refused > 0);
}

/* Whole words made extreme, in every place of header and structures. */
static void test_extremes(void **state)
{
	static const uint64_t words[] = {0, UINT64_MAX, INT64_MAX, 1, 0x80000000u, 0xffff};
	const struct spool_header *h = (const void *)small;
	int fd;

	(void)state;
	victim_write(small, small_bytes);
	fd = open(victim, O_RDWR);
	for (size_t at = 0; at + 8 <= small_bytes; at += 8) {
		if (at >= sizeof(*h) && at < h->directory_offset)
			continue;
		if (at > 512 && !memcmp(small + at, (uint8_t[8]){0}, 8) && at % 4096)
			continue;
		if (at > h->data_offset + 4096 && at % 72)
			continue; /* records are much alike */
		if (TEST_SANITIZED && at % 56)
			continue;
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			assert_int_equal(pwrite(fd, &words[i], 8, (off_t)at), 8);
			read_all(victim);
		}
		assert_int_equal(pwrite(fd, small + at, 8, (off_t)at), 8);
	}
	close(fd);
	assert_int_equal(read_all(victim), THREADS * EVENTS);
}

/* --- what is refused, and how --- */

/* Text without its NUL, into the file's bytes. */
static void bytes_put(void *to, const char *text, size_t count)
{
	memcpy(to, text, count);
}

static int open_error(const char *path, char *err, size_t size)
{
	struct trace_reader *reader;
	int rc = spool_reader_open(path, &reader, err, size);

	assert_null(reader);
	assert_non_null(strstr(err, path));
	assert_null(strchr(err, '\n'));
	return rc;
}

static void test_refused(void **state)
{
	struct spool_header *h = (struct spool_header *)small;
	char err[400], other[400];

	(void)state;
	snprintf(other, sizeof(other), "%s/none", test_dir);
	assert_int_equal(open_error(other, err, sizeof(err)), -ENOENT);
	assert_int_equal(open_error(test_dir, err, sizeof(err)), -EINVAL);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_int_equal(open_error(other, err, sizeof(err)), -EINVAL);
	victim_write((const uint8_t *)"", 0);
	assert_int_equal(open_error(victim, err, sizeof(err)), -ENODATA);
	victim_write((const uint8_t *)"#!/bin/sh\n", 10);
	assert_int_equal(open_error(victim, err, sizeof(err)), -EINVAL);
	memset(h->magic, 0, sizeof(h->magic));
	victim_write(small, small_bytes);
	assert_int_equal(open_error(victim, err, sizeof(err)), -ENODATA);
	bytes_put(h->magic, "PFTRACE!", sizeof(h->magic));
	victim_write(small, small_bytes);
	assert_int_equal(open_error(victim, err, sizeof(err)), -EINVAL);
	bytes_put(h->magic, SPOOL_MAGIC, sizeof(h->magic));
	h->version_major++;
	victim_write(small, small_bytes);
	assert_int_equal(open_error(victim, err, sizeof(err)), -EPROTONOSUPPORT);
	h->version_major--;
	h->version_minor++;
	victim_write(small, small_bytes);
	assert_int_equal(read_all(victim), THREADS * EVENTS);
	h->version_minor--;
	h->endian = __builtin_bswap32(h->endian);
	victim_write(small, small_bytes);
	assert_int_equal(open_error(victim, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "byte order"));
	h->endian = SPOOL_ENDIAN;
	bytes_put(small + h->table_offset, "event xx", 8);
	victim_write(small, small_bytes);
	assert_int_equal(open_error(victim, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "event table line 1"));
}

/* --- an event table of another version --- */

static void test_other_table(void **state)
{
	struct spool_header *h = (struct spool_header *)small;
	struct trace_reader *reader;
	struct trace_cursor *c;
	struct trace_event e;
	char text[500], unknown[300];
	int error;
	uint64_t n = 0;

	(void)state;
	/* the same record: its first argument renamed, so that this build has no place for it */
	snprintf(text, sizeof(text),
		 "enum rule none\nevent 1 cuda_wait cuda_sync call other:u64:hex object:u64:hex "
		 "stack:u32:stack api:u32:str status:i32:status rest:u16:num\n");
	memset(small + h->table_offset, 0, h->table_bytes);
	bytes_put(small + h->table_offset, text, strlen(text));
	h->table_bytes = (uint32_t)strlen(text);
	victim_write(small, small_bytes);
	reader = test_open(victim);
	c = reader->ops->cursor_open(reader, 0, &error);
	for (; reader->ops->cursor_next(c, &e) == 1; n++) {
		assert_ptr_equal(e.type, wl_event_type(WL_EV_cuda_wait));
		assert_int_equal(e.args[WL_ARG(cuda_wait, stream)], 0);
		assert_string_equal(
			reader->ops->string(reader, (uint32_t)e.args[WL_ARG(cuda_wait, api)]),
			"cuSomething");
	}
	assert_int_equal(n, EVENTS);
	reader->ops->cursor_close(c);
	reader->ops->close(reader);
	/* an event that this build does not know comes through as it was recorded */
	snprintf(unknown, sizeof(unknown), "event 1 later later later number:u64:num\n");
	memset(small + h->table_offset, 0, h->table_bytes);
	bytes_put(small + h->table_offset, unknown, strlen(unknown));
	h->table_bytes = (uint32_t)strlen(unknown);
	victim_write(small, small_bytes);
	reader = test_open(victim);
	c = reader->ops->cursor_open(reader, 0, &error);
	for (n = 0; reader->ops->cursor_next(c, &e) == 1; n++) {
		assert_string_equal(e.type->name, "later");
		assert_int_equal(e.args[0], n);
	}
	assert_int_equal(n, EVENTS);
	reader->ops->cursor_close(c);
	reader->ops->close(reader);
}

/* --- live --- */

static _Atomic uint64_t *progress; /* events that each thread has recorded, and a word to stop */

/* With `stepping`, the reader is held up before every so manieth read, while the threads fill chunks. */
#define STEP_READS  7
#define STEP_EVENTS 20180
static bool stepping;
static unsigned reads;

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
	if (stepping && ++reads % STEP_READS == 0) {
		uint64_t pace = atomic_fetch_add(&progress[5], STEP_EVENTS) + STEP_EVENTS;

		for (int i = 0; i < 3; i++)
			while (atomic_load(&progress[i]) <= pace)
				sched_yield();
	}
	return (ssize_t)syscall(SYS_pread64, fd, to, bytes, offset);
}

static void *live_thread(void *arg)
{
	uintptr_t who = (uintptr_t)arg;

	for (uint64_t n = 0; !atomic_load(&progress[4]); n++) {
		child_check(test_emit(who, n));
		atomic_store(&progress[who], n + 1);
		/* as fast as it goes, but not to the cap before the reader is done */
		while (n % 1009 == 0 && n > atomic_load(&progress[5]) && !atomic_load(&progress[4]))
			sched_yield();
	}
	return NULL;
}

static void write_live(struct spool_settings *s)
{
	pthread_t threads[3];

	child_open(s);
	for (uintptr_t i = 0; i < 3; i++)
		child_check(pthread_create(&threads[i], NULL, live_thread, (void *)i) == 0);
	while (!atomic_load(&progress[4])) {
		struct timespec pause = {.tv_nsec = 5000000};

		spool_housekeep();
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* While three threads write: what was recorded before the opening is there, in order and whole. */
static void live_check(bool flight, int rounds, bool step)
{
	struct spool_settings s = test_settings();
	char paths[1][TEST_PATH];
	int status;
	pid_t pid;

	s.max_bytes = flight ? 4u << 20 : 1u << 30;
	s.flight_recorder = flight;
	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0) {
		child_begin();
		write_live(&s);
		_exit(0);
	}
	while (!atomic_load(&progress[0]) || !atomic_load(&progress[1]) ||
	       !atomic_load(&progress[2]))
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_int_equal(test_spools(test_dir, paths, 1), 1);
	for (int round = 0; round < rounds; round++) {
		uint64_t before[3], next[3] = {0}, who = 0, n = 0;
		struct trace_reader *reader;
		struct trace_cursor *c;
		struct trace_event e;
		int error;

		atomic_fetch_add(&progress[5], TEST_SANITIZED ? 10007 : 100003);
		/* until they are in full flight again */
		for (int i = 0; i < 3; i++) {
			uint64_t was = atomic_load(&progress[i]);

			while (atomic_load(&progress[i]) < was + 1009 &&
			       atomic_load(&progress[i]) < atomic_load(&progress[5]))
				assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
		}
		for (int i = 0; i < 3; i++)
			before[i] = atomic_load(&progress[i]);
		stepping = step;
		reader = test_open(paths[0]);
		stepping = false;
		c = reader->ops->cursor_open(reader, -1, &error);
		while (reader->ops->cursor_next(c, &e) == 1) {
			assert_true(test_event(&e, &who, &n) && who < 3);
			if (flight)
				assert_true(n >= next[who]);
			else
				assert_int_equal(n, next[who]);
			next[who] = n + 1;
		}
		reader->ops->cursor_close(c);
		for (int i = 0; i < 3 && !flight; i++)
			assert_true(next[i] >= before[i]);
		assert_string_equal(reader->info.damage, "");
		reader->ops->close(reader);
	}
	atomic_store(&progress[4], 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	munmap((void *)progress, 4096);
}

static void test_live(void **state)
{
	(void)state;
	live_check(false, 5, false);
}

/* Wherever the reader is held up, it sees no gap. */
static void test_live_step(void **state)
{
	(void)state;
	live_check(false, TEST_SANITIZED ? 1 : 3, true);
}

static void test_live_flight(void **state)
{
	(void)state;
	live_check(true, 11, false);
}

#define small_test(name) cmocka_unit_test_setup_teardown(name, small_make, small_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		small_test(test_cut),       small_test(test_flipped),     small_test(test_extremes),
		small_test(test_refused),   small_test(test_other_table), spool_test(test_live),
		spool_test(test_live_step), spool_test(test_live_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
