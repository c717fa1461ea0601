/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: what is written is what is read; threads, forks, names, clocks.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* --- every event --- */

/* Arguments of event `number`: bytes that differ everywhere. */
static void args_fill(uint8_t *args, unsigned bytes, unsigned number)
{
	for (unsigned i = 0; i < bytes; i++)
		args[i] = (uint8_t)(number * 37 + i * 101 + 0x80);
}

static void write_every_event(void)
{
	struct spool_settings s = test_settings();
	uint8_t args[256];

	child_open(&s);
	for (unsigned n = 0; n < WL_EV_MAX; n++) {
		const struct wl_event_type *type = wl_event_type(n);
		uint64_t now = spool_now();

		if (!type)
			continue;
		args_fill(args, type->args_bytes, n);
		child_check(
			spool_append((uint16_t)n, now, now + n * 1000, n, args, type->args_bytes));
	}
	spool_writer_end();
}

static void test_every_event(void **state)
{
	struct trace_reader *reader;
	struct trace_cursor *cursor;
	struct trace_event event;
	unsigned number = 0;
	int error;

	(void)state;
	run_child(write_every_event);
	reader = test_open_only();
	cursor = reader->ops->cursor_open(reader, -1, &error);
	while (reader->ops->cursor_next(cursor, &event) == 1) {
		uint8_t args[256], *at = args;

		while (!wl_event_type(++number))
			assert_true(number < WL_EV_MAX);
		assert_ptr_equal(event.type, wl_event_type(number));
		assert_int_equal(event.flags, number);
		args_fill(args, event.type->args_bytes, number);
		for (unsigned i = 0; i < event.type->arg_count; i++) {
			unsigned bytes = wl_arg_type_bytes(event.type->args[i].type);
			bool sign = event.type->args[i].type == WL_TYPE_i32;
			uint64_t want = 0;

			memcpy(&want, at, bytes);
			if (sign)
				want = (uint64_t)(int64_t)(int32_t)want;
			assert_int_equal(event.args[i], want);
			at += bytes;
		}
	}
	while (++number < WL_EV_MAX)
		assert_null(wl_event_type(number));
	reader->ops->cursor_close(cursor);
	assert_false(reader->info.damaged);
	assert_true(reader->info.ended);
	reader->ops->close(reader);
}

/* --- what is said about the process --- */

static void write_info(void)
{
	struct spool_settings s = test_settings();

	prctl(PR_SET_NAME, "tester");
	child_open(&s);
	spool_attribute("key", "a value");
	spool_attribute("cuda.simulated", "1");
	spool_attribute("command", "./program 'an argument'");
	spool_attribute("key", "a value");
	child_check(test_emit(1, 0));
	child_check(strcmp(spool_writer_path(), "") != 0);
	child_check(spool_writer_open(&s) == -EALREADY);
}

static void test_info(void **state)
{
	struct trace_reader *reader;
	char host[65], path[TEST_PATH], paths[1][TEST_PATH];
	struct stat st;
	unsigned keys = 0;

	(void)state;
	run_child(write_info);
	reader = test_open_only();
	gethostname(host, sizeof(host));
	assert_string_equal(reader->info.host, host);
	assert_string_equal(reader->info.run, "a run");
	assert_string_equal(reader->info.format, "spool");
	assert_string_equal(reader->info.command, "./program 'an argument'");
	assert_int_equal(reader->info.ppid, getpid());
	assert_int_equal(reader->info.rank, 3);
	assert_int_equal(reader->info.world_size, 5);
	assert_int_equal(reader->info.local_rank, 1);
	assert_true(reader->info.simulated);
	assert_false(reader->info.ended);
	assert_false(reader->info.damaged);
	assert_true(reader->info.clock_count >= 1);
	assert_true(reader->info.start_ns <= reader->info.end_ns);
	for (unsigned i = 0; i < reader->info.attribute_count; i++)
		keys += strcmp(reader->info.attributes[i][0], "key") == 0;
	assert_int_equal(keys, 1);
	assert_string_equal(test_attribute(reader, "key"), "a value");
	assert_int_equal(reader->thread_count, 1);
	assert_string_equal(reader->threads[0].name, "tester");
	assert_int_equal(reader->threads[0].tid, reader->info.pid);
	/* nobody else may read a job's recording */
	test_spools(test_dir, paths, 1);
	snprintf(path, sizeof(path), "%s", reader->info.path);
	assert_string_equal(path, paths[0]);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	reader->ops->close(reader);
}

/* --- threads --- */

#define THREADS 7
#define EVENTS  10007

static void *thread_body(void *arg)
{
	uint64_t who = (uint64_t)(uintptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "worker %u", (unsigned)who);
	for (uint64_t n = 0; n < EVENTS; n++) {
		child_check(test_emit(who, n));
		if (n == 0)
			spool_thread_name(0, name);
	}
	return NULL;
}

static void write_threads(void)
{
	struct spool_settings s = test_settings();
	pthread_t threads[THREADS];

	child_open(&s);
	for (uintptr_t i = 0; i < THREADS; i++)
		child_check(pthread_create(&threads[i], NULL, thread_body, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	spool_writer_end();
}

static void test_threads(void **state)
{
	struct trace_reader *reader;
	struct trace_cursor *cursor;
	struct trace_event event;
	int64_t last = INT64_MIN;
	uint64_t merged = 0;
	bool seen[THREADS] = {false};
	int error;

	(void)state;
	run_child(write_threads);
	reader = test_open_only();
	assert_int_equal(reader->thread_count, THREADS);
	for (unsigned t = 0; t < THREADS; t++) {
		unsigned who = 0;

		assert_int_equal(sscanf(reader->threads[t].name, "worker %u", &who), 1);
		assert_true(who < THREADS && !seen[who]);
		seen[who] = true;
		assert_int_equal(test_count(reader, (int)t, who, 0), EVENTS);
		assert_int_equal(test_drops(reader->threads[t].drops), 0);
	}
	cursor = reader->ops->cursor_open(reader, -1, &error);
	while (reader->ops->cursor_next(cursor, &event) == 1) {
		assert_true(event.end_ns >= last);
		assert_true(event.begin_ns >= reader->threads[event.thread].first_ns);
		assert_true(event.end_ns <= reader->threads[event.thread].last_ns);
		last = event.end_ns;
		merged++;
	}
	reader->ops->cursor_close(cursor);
	assert_int_equal(merged, THREADS * EVENTS);
	assert_false(reader->info.damaged);
	reader->ops->close(reader);
}

/* Threads that come and go use the same slots and structs again. */
#define SHORT_ROUNDS  41
#define SHORT_AT_ONCE 23

static pthread_barrier_t barrier;

static void *thread_short(void *arg)
{
	child_check(test_emit((uint64_t)(uintptr_t)arg, 0));
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void write_short_threads(void)
{
	struct spool_settings s = test_settings();
	pthread_t threads[SHORT_AT_ONCE];

	s.max_bytes = 256u << 20;
	child_open(&s);
	pthread_barrier_init(&barrier, NULL, SHORT_AT_ONCE);
	for (uintptr_t round = 0; round < SHORT_ROUNDS; round++) {
		for (uintptr_t i = 0; i < SHORT_AT_ONCE; i++)
			child_check(pthread_create(&threads[i], NULL, thread_short,
						   (void *)(round * SHORT_AT_ONCE + i)) == 0);
		for (int i = 0; i < SHORT_AT_ONCE; i++)
			pthread_join(threads[i], NULL);
	}
	child_check(atomic_load(&spool_writer->index_next) <= SHORT_AT_ONCE);
	child_check(atomic_load(&spool_writer->serial_next) == SHORT_ROUNDS * SHORT_AT_ONCE + 1);
}

static void test_short_threads(void **state)
{
	struct trace_reader *reader;
	bool seen[SHORT_ROUNDS * SHORT_AT_ONCE] = {false};
	struct trace_cursor *cursor;
	struct trace_event event;
	uint64_t who, n, count = 0;
	int error;

	(void)state;
	run_child(write_short_threads);
	reader = test_open_only();
	assert_int_equal(reader->thread_count, SHORT_ROUNDS * SHORT_AT_ONCE);
	cursor = reader->ops->cursor_open(reader, -1, &error);
	while (reader->ops->cursor_next(cursor, &event) == 1) {
		assert_true(test_event(&event, &who, &n));
		assert_false(seen[who]);
		seen[who] = true;
		count++;
	}
	reader->ops->cursor_close(cursor);
	assert_int_equal(count, SHORT_ROUNDS * SHORT_AT_ONCE);
	reader->ops->close(reader);
}

/* Events of other libraries' destructors, which run before and after ours. */
static void late_events(void *value)
{
	child_check(test_emit(1, (uint64_t)(uintptr_t)value));
}

static pthread_key_t late_keys[2];

static void *thread_late(void *arg)
{
	pthread_setspecific(late_keys[0], (void *)1);
	child_check(test_emit(1, 0));
	pthread_setspecific(late_keys[1], (void *)2);
	return arg;
}

static void write_late(void)
{
	struct spool_settings s = test_settings();
	pthread_t thread;

	child_check(pthread_key_create(&late_keys[0], late_events) == 0);
	child_open(&s);
	child_check(pthread_key_create(&late_keys[1], late_events) == 0);
	child_check(pthread_create(&thread, NULL, thread_late, NULL) == 0);
	pthread_join(thread, NULL);
}

static void test_late(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_late);
	reader = test_open_only();
	assert_int_equal(reader->thread_count, 1);
	assert_int_equal(test_count(reader, 0, 1, 0), 3);
	assert_int_equal(test_drops(reader->info.drops), 0);
	reader->ops->close(reader);
}

/* --- forks --- */

static void write_forks(void)
{
	struct spool_settings s = test_settings();
	pid_t pid;
	int status;

	child_open(&s);
	spool_attribute("command", "the job");
	for (uint64_t n = 0; n < 101; n++)
		child_check(test_emit(10, n));
	pid = fork();
	if (pid == 0) {
		uint32_t generation = spool_generation();

		child_check(generation == 0);
		for (uint64_t n = 0; n < 103; n++)
			child_check(test_emit(11, n));
		child_check(spool_generation() != 0);
		pid = fork();
		if (pid == 0) {
			for (uint64_t n = 0; n < 107; n++)
				child_check(test_emit(12, n));
			_exit(0);
		}
		child_check(waitpid(pid, &status, 0) == pid && status == 0);
		for (uint64_t n = 103; n < 109; n++)
			child_check(test_emit(11, n));
		_exit(0);
	}
	child_check(waitpid(pid, &status, 0) == pid && status == 0);
	/* a child that records nothing makes no file, a vforked one that execs harms nothing */
	pid = fork();
	if (pid == 0)
		_exit(0);
	child_check(waitpid(pid, &status, 0) == pid && status == 0);
	pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): what is tested */
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	child_check(waitpid(pid, &status, 0) == pid && status == 0);
	for (uint64_t n = 101; n < 113; n++)
		child_check(test_emit(10, n));
	spool_writer_end();
}

static void test_forks(void **state)
{
	static const uint64_t counts[3] = {113, 109, 107};
	char paths[9][TEST_PATH];
	bool seen[3] = {false};

	(void)state;
	run_child(write_forks);
	assert_int_equal(test_spools(test_dir, paths, 9), 3);
	for (int i = 0; i < 3; i++) {
		struct trace_reader *reader = test_open(paths[i]);
		struct trace_event event;
		int error;
		struct trace_cursor *cursor = reader->ops->cursor_open(reader, -1, &error);
		unsigned which;

		assert_int_equal(reader->ops->cursor_next(cursor, &event), 1);
		reader->ops->cursor_close(cursor);
		which = event.flags - 10;
		assert_true(which < 3 && !seen[which]);
		seen[which] = true;
		assert_int_equal(test_count(reader, 0, which + 10, 0), counts[which]);
		assert_int_equal(reader->thread_count, 1);
		assert_string_equal(reader->info.command, "the job");
		assert_string_equal(reader->info.run, "a run");
		assert_int_equal(reader->info.rank, 3);
		assert_int_equal(reader->info.ended, which == 0);
		assert_false(reader->info.damaged);
		reader->ops->close(reader);
	}
}

/* --- names --- */

static void *intern_same(void *arg)
{
	char text[40];

	for (int i = 0; i < 997; i++) {
		snprintf(text, sizeof(text), "text number %d", i);
		child_check(spool_intern_string(text, strlen(text)) != 0);
	}
	return arg;
}

/* Ids that the reading side is told about, through memory shared with the child. */
static struct {
	uint32_t text, cut, stack, module;
} * ids;

static void write_names(void)
{
	struct spool_settings s = test_settings();
	struct spool_meta_frame frames[3] = {{0}};
	static const uint8_t build_id[20] = {1, 2, 3, 250, [19] = 77};
	static char longest[100000];
	uint32_t used;
	pthread_t threads[5];

	child_open(&s);
	ids->text = spool_intern_string("some text and more", 9);
	child_check(ids->text && ids->text == spool_intern_string("some text", 9));
	child_check(spool_intern_string("some tex", 8) != ids->text);
	child_check(spool_intern_string("", 0) == 0);
	memset(longest, 'x', sizeof(longest));
	/* a two-byte character across the cut */
	longest[SPOOL_STRING_MAX - 1] = '\xc3';
	longest[SPOOL_STRING_MAX] = '\xa4';
	ids->cut = spool_intern_string(longest, sizeof(longest));
	ids->module = spool_intern_module("/lib/libsome.so", 0x1000, 0x2000, 0x3000, build_id, 20);
	child_check(ids->module ==
		    spool_intern_module("/lib/libsome.so", 0x1000, 0x2000, 0x3000, build_id, 20));
	frames[0].kind = TRACE_FRAME_PYTHON;
	frames[0].where = 42;
	frames[0].what = spool_intern_string("train.py", 8);
	frames[0].name = spool_intern_string("step", 4);
	frames[1].kind = TRACE_FRAME_PYTHON | SPOOL_FRAME_AWAITED;
	frames[1].what = frames[0].what;
	frames[2].kind = TRACE_FRAME_NATIVE;
	frames[2].where = 0x1234;
	frames[2].what = ids->module;
	ids->stack = spool_intern_stack(frames, 3);
	child_check(ids->stack && ids->stack == spool_intern_stack(frames, 3));
	child_check(spool_intern_stack(frames, 2) != ids->stack);
	child_check(spool_intern_stack(frames, 0) == 0);
	used = atomic_load(&spool_writer->table_used);
	for (int i = 0; i < 5; i++)
		child_check(pthread_create(&threads[i], NULL, intern_same, NULL) == 0);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	/* one of each, whoever came first */
	child_check(atomic_load(&spool_writer->table_used) == used + 997);
}

static void test_names(void **state)
{
	struct trace_reader *reader;
	struct trace_frame frames[5];
	const char *cut;

	(void)state;
	ids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	run_child(write_names);
	reader = test_open_only();
	assert_string_equal(reader->ops->string(reader, ids->text), "some text");
	assert_string_equal(reader->ops->string(reader, 0), "");
	assert_string_equal(reader->ops->string(reader, 1), "?");
	assert_string_equal(reader->ops->string(reader, UINT32_MAX), "?");
	assert_string_equal(reader->ops->string(reader, ids->stack), "?");
	cut = reader->ops->string(reader, ids->cut);
	assert_int_equal(strlen(cut), SPOOL_STRING_MAX - 1);
	assert_int_equal(cut[SPOOL_STRING_MAX - 2], 'x');
	assert_int_equal(reader->ops->stack(reader, ids->stack, frames, 5), 3);
	assert_int_equal(frames[0].kind, TRACE_FRAME_PYTHON);
	assert_string_equal(frames[0].function, "step");
	assert_string_equal(frames[0].file, "train.py");
	assert_int_equal(frames[0].line, 42);
	assert_false(frames[0].awaited);
	assert_true(frames[1].awaited);
	assert_int_equal(frames[2].kind, TRACE_FRAME_NATIVE);
	assert_null(frames[2].function);
	assert_string_equal(frames[2].file, "/lib/libsome.so");
	assert_int_equal(frames[2].offset, 0x1234);
	assert_int_equal(frames[2].build_id_bytes, 20);
	assert_int_equal(frames[2].build_id[3], 250);
	assert_int_equal(frames[2].build_id[19], 77);
	assert_int_equal(reader->ops->stack(reader, ids->stack, frames, 1), 1);
	assert_int_equal(reader->ops->stack(reader, 0, frames, 5), 0);
	assert_int_equal(reader->ops->stack(reader, ids->text, frames, 5), 0);
	assert_int_equal(test_drops(reader->info.drops), 0);
	reader->ops->close(reader);
	munmap(ids, 4096);
}

/* --- recording off and on --- */

static void write_off(void)
{
	struct spool_settings s = test_settings();

	child_open(&s);
	for (uint64_t n = 0; n < 11; n++)
		child_check(test_emit(1, n));
	spool_writer_record(false);
	for (uint64_t n = 0; n < 13; n++)
		child_check(!test_emit(1, n));
	spool_writer_record(true);
	for (uint64_t n = 11; n < 29; n++)
		child_check(test_emit(1, n));
}

static void test_off(void **state)
{
	struct trace_reader *reader;

	(void)state;
	run_child(write_off);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 1, 0), 29);
	assert_int_equal(test_drops(reader->info.drops), 0);
	reader->ops->close(reader);
}

/* --- clocks --- */

static int64_t *truth; /* MONOTONIC just before and after each event */
#define TRUTH_EVENTS 211

static void write_clock(void)
{
	struct spool_settings s = test_settings();
	struct timespec pause = {.tv_nsec = 1000000};

	child_open(&s);
	for (uint64_t n = 0; n < TRUTH_EVENTS; n++) {
		uint64_t begin;

		truth[2 * n] = (int64_t)spool_monotonic_ns();
		begin = spool_now();
		child_check(SPOOL_EMIT(nvtx_end, begin, begin, 0, .id = n));
		truth[2 * n + 1] = (int64_t)spool_monotonic_ns();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
}

/* Every time lies where MONOTONIC says, give or take what a line between snapshots may be off. */
static void test_clock(void **state)
{
	const int64_t slack = 20000;
	struct trace_reader *reader;
	struct trace_cursor *cursor;
	struct trace_event e;
	uint64_t count = 0;
	int error;

	(void)state;
	truth = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	run_child(write_clock);
	reader = test_open_only();
	cursor = reader->ops->cursor_open(reader, 0, &error);
	for (; reader->ops->cursor_next(cursor, &e) == 1; count++) {
		if (e.begin_ns < truth[2 * count] - slack ||
		    e.begin_ns > truth[2 * count + 1] + slack)
			fail_msg("event %d: %lld not in %lld .. %lld", (int)count,
				 (long long)e.begin_ns, (long long)truth[2 * count],
				 (long long)truth[2 * count + 1]);
	}
	assert_int_equal(count, TRUTH_EVENTS);
	reader->ops->cursor_close(cursor);
	/* realtime and boottime belong to the same instant */
	for (unsigned i = 1; i < reader->info.clock_count; i++) {
		const struct trace_clock *c = reader->info.clocks;
		int64_t boot = (c[i].boottime_ns - c[i].monotonic_ns) -
			       (c[0].boottime_ns - c[0].monotonic_ns);

		assert_true(boot > -slack * 50 && boot < slack * 50);
	}
	reader->ops->close(reader);
	munmap(truth, 8192);
}

/* A counter that stops agreeing is let go of; events that began under it keep their times. */
static void write_switch(void)
{
	struct spool_settings s = test_settings();
	struct timespec pause = {.tv_nsec = 250000000};
	uint64_t began;

	if (s.clock != SPOOL_CLOCK_TSC)
		_exit(77);
	child_open(&s);
	truth[0] = (int64_t)spool_monotonic_ns();
	began = spool_now();
	child_check(SPOOL_EMIT(nvtx_end, began, began, 0, .id = 0));
	spool_enter(WL_EV_cuda_wait, 0, began, 0, 0);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	/* as if the counter had jumped by a second since the last snapshot */
	spool_writer->last_tsc -= atomic_load(&spool_writer->ticks_per_second);
	spool_clock_snapshot(spool_writer, true);
	child_check(spool_clock_used == SPOOL_CLOCK_MONOTONIC);
	truth[1] = (int64_t)spool_monotonic_ns();
	/* a call that began under the old clock and ends under the new */
	child_check(SPOOL_EMIT(cuda_wait, began, spool_now(), 0, .status = 1));
	for (uint64_t n = 1; n < 5; n++) {
		began = spool_now();
		child_check(SPOOL_EMIT(nvtx_end, began, began, 0, .id = n));
	}
	truth[2] = (int64_t)spool_monotonic_ns();
}

static void test_switch(void **state)
{
	const int64_t slack = 2000000;
	struct trace_reader *reader;
	struct trace_cursor *cursor;
	struct trace_inflight in;
	struct trace_event e;
	int status, error, n = 0;

	(void)state;
	truth = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	status = test_child(write_switch);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	reader = test_open_only();
	cursor = reader->ops->cursor_open(reader, 0, &error);
	for (; reader->ops->cursor_next(cursor, &e) == 1; n++) {
		bool before = n < 2; /* began under the old clock */
		int64_t at = truth[before ? 0 : 1];

		assert_true(e.begin_ns > at - slack && e.begin_ns < at + slack);
		if (n == 1)
			assert_true(e.end_ns > truth[1] - slack && e.end_ns < truth[2] + slack);
	}
	reader->ops->cursor_close(cursor);
	assert_int_equal(n, 6);
	assert_true(strlen(test_attribute(reader, "spool.clock")) > 0);
	assert_int_equal(reader->ops->inflight(reader, &in, 1), 1);
	assert_true(in.since_ns > truth[0] - slack && in.since_ns < truth[0] + slack);
	reader->ops->close(reader);
	munmap(truth, 4096);
}

static void test_clock_choice(void **state)
{
	enum spool_clock clock;

	(void)state;
	assert_int_equal(spool_clock_choose("sundial", &clock), -EINVAL);
	assert_int_equal(spool_clock_choose("monotonic", &clock), 0);
	assert_int_equal(clock, SPOOL_CLOCK_MONOTONIC);
	assert_int_equal(spool_clock_choose("auto", &clock), 0);
}

static void write_monotonic(void)
{
	struct spool_settings s = test_settings();

	s.clock = SPOOL_CLOCK_MONOTONIC;
	child_open(&s);
	truth[0] = (int64_t)spool_now();
	child_check(test_emit(1, 0));
	truth[1] = (int64_t)spool_now();
}

static void test_monotonic(void **state)
{
	struct trace_reader *reader;

	(void)state;
	truth = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	run_child(write_monotonic);
	reader = test_open_only();
	assert_int_equal(test_count(reader, 0, 1, 0), 1);
	assert_true(reader->threads[0].first_ns >= truth[0]);
	assert_true(reader->threads[0].last_ns <= truth[1]);
	assert_int_equal(reader->info.clocks[0].tsc, 0);
	reader->ops->close(reader);
	munmap(truth, 4096);
}

/* --- calls in flight --- */

static void *thread_waiting(void *arg)
{
	uint32_t api = spool_intern_string("cuStreamSynchronize", 19);

	truth[0] = (int64_t)spool_monotonic_ns();
	spool_enter(WL_EV_cuda_wait, api, spool_now(), 17, 0xabcd);
	truth[1] = (int64_t)spool_monotonic_ns();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return arg;
}

static void write_inflight(void)
{
	struct spool_settings s = test_settings();
	pthread_t thread;

	child_open(&s);
	pthread_barrier_init(&barrier, NULL, 2);
	child_check(test_emit(1, 0));
	spool_enter(WL_EV_ofi_wait, 0, spool_now(), 0, 1);
	spool_leave();
	child_check(pthread_create(&thread, NULL, thread_waiting, NULL) == 0);
	pthread_barrier_wait(&barrier);
	kill(getpid(), SIGKILL);
}

static void test_inflight(void **state)
{
	struct trace_reader *reader;
	struct trace_inflight in[3];
	int status;

	(void)state;
	truth = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	status = test_child(write_inflight);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	reader = test_open_only();
	assert_int_equal(reader->ops->inflight(reader, in, 3), 1);
	assert_ptr_equal(in[0].type, wl_event_type(WL_EV_cuda_wait));
	assert_string_equal(in[0].api, "cuStreamSynchronize");
	assert_int_equal(in[0].stack, 17);
	assert_int_not_equal(reader->threads[in[0].thread].tid, reader->info.pid);
	assert_true(in[0].since_ns > truth[0] - 1000000 && in[0].since_ns < truth[1] + 1000000);
	reader->ops->close(reader);
	munmap(truth, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		spool_test(test_every_event),  spool_test(test_info),
		spool_test(test_threads),      spool_test(test_short_threads),
		spool_test(test_late),         spool_test(test_forks),
		spool_test(test_names),        spool_test(test_off),
		spool_test(test_clock),        spool_test(test_switch),
		spool_test(test_clock_choice), spool_test(test_monotonic),
		spool_test(test_inflight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
