/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of a job: numbers, order, labels, runs, clocks, and real recordings in a directory.
 */
#include "tests/unit/export_check.h"
#include "tests/unit/synthetic_reader.h"

#include "exporters/model/text.h"
#include "tracer/spool/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAL 1700000000000000000

static struct synthetic *recording_of(const char *host, int64_t pid, int64_t boot, int64_t real)
{
	struct synthetic *recording = synthetic_new(host, pid, boot, real);
	uint32_t thread = synthetic_thread(recording, pid, "main");

	SYNTHETIC(recording, thread, cuda_launch, 1000, 2000, .grid_x = 1);
	return recording;
}

static void texts(void **state)
{
	struct text_pool *pool = text_pool_new();
	char out[16];

	(void)state;
	assert_non_null(pool);
	for (unsigned i = 0; i < 50021; i++) {
		const char *text = text_keepf(pool, "text %u", i % 10007);

		assert_ptr_equal(text, text_keep(pool, text));
	}
	assert_int_equal(text_pool_count(pool), 10007);
	assert_string_equal(text_pool_get(pool, 0), "");
	assert_string_equal(text_pool_get(pool, 99999), "");
	text_pool_free(pool);
	assert_int_equal(text_clean(out, sizeof(out), "a\xff\xc3\xa9", 4), 6);
	assert_string_equal(out, "a\xef\xbf\xbd\xc3\xa9");
	/* No character is cut; surrogates and overlong forms are none. */
	assert_int_equal(text_clean(out, 4, "ab\xc3\xa9", 4), 2);
	assert_int_equal(text_clean(out, sizeof(out), "\xed\xa0\x80", 3), 9);
	assert_int_equal(text_clean(out, sizeof(out), "\xc0\x80", 2), 6);
}

static void numbers_and_order(void **state)
{
	struct synthetic *recordings[] = {
		recording_of("b", 41, 50, REAL + 5),
		recording_of("a", 41, 10000000000, REAL),
		recording_of("a", 0, 10000000000, REAL + 7),
		recording_of("a", 43, 10000000000, REAL),
	};
	struct model *model;
	int64_t seen[8] = {0};
	unsigned count = 0;

	(void)state;
	synthetic_info(recordings[0])->rank = 1;
	synthetic_info(recordings[1])->rank = 0;
	synthetic_thread(recordings[3], 41, "a tid that is another's pid");
	model = model_of(recordings, 4);
	assert_int_equal(model_process_count(model), 4);
	assert_int_equal(model_host_count(model), 2);
	assert_int_equal(model_process(model, 0)->info.rank, 0);
	assert_int_equal(model_process(model, 1)->info.rank, 1);
	assert_string_equal(model_process(model, 0)->label, "rank 0, a");
	assert_string_equal(model_process(model, 1)->label, "rank 1, b");
	assert_string_equal(model_process(model, 2)->label, "a");
	assert_int_equal(model_process(model, 0)->unique_pid, 41);
	for (unsigned i = 0; i < 4; i++) {
		const struct model_process *process = model_process(model, i);

		assert_true(process->unique_pid > 0);
		assert_int_equal(process->index, i);
		for (unsigned t = 0; t < process->thread_count; t++)
			seen[count++] = process->threads[t].unique_tid;
	}
	assert_int_equal(count, 5);
	for (unsigned i = 0; i < count; i++) {
		assert_true(seen[i] > 0);
		for (unsigned j = 0; j < i; j++)
			assert_true(seen[i] != seen[j]);
	}
	model_close(model);
}

static struct model *choose(struct synthetic *const *recordings, unsigned count, const char *run,
			    bool all, int expected)
{
	struct model_options options = {.all_runs = all, .run = run};
	struct trace_reader *readers[8];
	struct model *model = NULL;
	char err[512] = "";

	for (unsigned i = 0; i < count; i++)
		readers[i] = synthetic_reader(recordings[i]);
	assert_int_equal(model_from_readers(readers, count, &options, &model, err, sizeof(err)),
			 expected);
	if (expected)
		assert_true(strlen(err) > 10);
	return model;
}

static struct synthetic *of_run(const char *run, int64_t start)
{
	struct synthetic *recording = recording_of("a", 100 + start / 1000, 0, REAL + start);

	synthetic_info(recording)->run = run;
	return recording;
}

static void runs(void **state)
{
	struct model *model;

	(void)state;
	model = choose((struct synthetic *[]){of_run("x", 0), of_run("y", 9000), of_run("y", 5000)},
		       3, NULL, false, 0);
	assert_int_equal(model_process_count(model), 2);
	assert_string_equal(model_run(model), "y");
	assert_int_equal(model_note_count(model), 1);
	assert_non_null(strstr(model_note(model, 0), "1 recordings of other runs"));
	model_close(model);
	model = choose((struct synthetic *[]){of_run("x", 0), of_run("y", 9000)}, 2, "x", false, 0);
	assert_int_equal(model_process_count(model), 1);
	model_close(model);
	model = choose((struct synthetic *[]){of_run("x", 0), of_run("y", 9000)}, 2, NULL, true, 0);
	assert_int_equal(model_process_count(model), 2);
	model_close(model);
	choose((struct synthetic *[]){of_run("x", 0)}, 1, "z", false, -ENOENT);
	/* Without identifiers: what overlaps in time, directly or through another. */
	model = choose((struct synthetic *[]){of_run("", 0), of_run("", 20000), of_run("", 20900),
					      of_run("", 21800)},
		       4, NULL, false, 0);
	assert_int_equal(model_process_count(model), 3);
	model_close(model);
}

static void duplicates(void **state)
{
	struct model *model;

	(void)state;
	model = choose((struct synthetic *[]){of_run("x", 0), of_run("x", 0)}, 2, NULL, false, 0);
	assert_int_equal(model_process_count(model), 1);
	assert_non_null(strstr(model_note(model, 0), "the same recording"));
	model_close(model);
	choose(NULL, 0, NULL, false, -ENOENT);
}

/* Two hosts whose MONOTONIC clocks began at different moments show one instant at one time. */
static void hosts_on_one_clock(void **state)
{
	struct synthetic *recordings[2];
	struct trace_clock reference;
	int64_t first, last, real;
	struct model *model;

	(void)state;
	recordings[0] = recording_of("a", 41, 7000000000000, REAL);
	recordings[1] = recording_of("b", 42, 90, REAL - 5000000000 + 100);
	for (int i = 1; i < 20; i++) {
		/* Snapshots that differ by what taking them takes. */
		synthetic_clock(recordings[0], i * 1000000000ll,
				7000000000000 + i * 1000000000ll + i * 13 % 7,
				REAL + i * 1000000000ll + i * 17 % 11);
		synthetic_clock(recordings[1], i * 1000000000ll, 90 + i * 1000000000ll,
				REAL - 5000000000 + 100 + i * 1000000000ll + i * 19 % 23);
	}
	model = model_of(recordings, 2);
	const struct model_process *b = model_process(model, 0), *a = model_process(model, 1);

	assert_string_equal(a->info.host, "a"); /* the later of the two by 5 s */
	assert_true(a->aligned && b->aligned);
	assert_int_equal(model_host_count(model), 2);
	assert_int_equal(b->host, 0);
	/* b's monotonic 5 s - 100 ns is a's monotonic 0: on b's BOOTTIME, 5 s - 10 ns. */
	assert_true(llabs(model_time(a, 0) - (5000000000 - 100 + 90)) < 100);
	/* Lengths are exact: each host's snapshots agree. */
	assert_int_equal(model_time(a, 1234567890123) - model_time(a, 1), 1234567890122);
	reference = model_reference(model);
	assert_int_equal(reference.boottime_ns, model_time(b, reference.monotonic_ns));
	model_bounds(model, &first, &last, &real);
	assert_int_equal(first, model_time(b, 1000));
	assert_int_equal(last, model_time(a, 2000));
	assert_true(llabs(real - (REAL - 5000000000 + 100 + 1000)) < 100);
	model_close(model);
}

static void drift_and_steps(void **state)
{
	const int64_t boot = 7200000000000; /* of the reference host */
	struct synthetic *home = recording_of("a", 41, boot, REAL);
	struct synthetic *drifting = recording_of("b", 42, 0, REAL + 1000);
	struct synthetic *stepping = recording_of("c", 43, 0, REAL + 2000);
	struct model *model;
	int64_t before = INT64_MIN;

	(void)state;
	for (int64_t s = 1; s <= 100; s++) {
		/* 100 ppm fast; and one that is set back by an hour after 50 s. */
		synthetic_clock(drifting, s * 1000000000, s * 1000000000,
				REAL + 1000 + s * 1000100000);
		synthetic_clock(stepping, s * 1000000000, s * 1000000000,
				REAL + 2000 + s * 1000000000 - (s > 50 ? 3600000000000 : 0));
	}
	model = model_of((struct synthetic *[]){home, drifting, stepping}, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct model_process *process = model_process(model, i);

		before = INT64_MIN;
		for (int64_t t = -1000000000; t < 102000000000; t += 1234567) {
			int64_t now = model_time(process, t);

			assert_true(now >= before);
			before = now;
		}
		if (!strcmp(process->info.host, "b")) {
			assert_int_equal(model_time(process, 50000000000),
					 boot + 1000 + 50005000000);
			assert_int_equal(model_time(process, 50500000000),
					 boot + 1000 + 50505050000);
		}
		/* What was before the step is taken from what was after it. */
		if (!strcmp(process->info.host, "c"))
			assert_int_equal(model_time(process, 1000000000),
					 boot + 2000 + 1000000000 - 3600000000000);
	}
	model_close(model);
}

/* The machine slept: BOOTTIME went on, MONOTONIC did not. */
static void suspended(void **state)
{
	struct synthetic *recording = recording_of("a", 41, 0, REAL);
	struct model *model;

	(void)state;
	synthetic_clock(recording, 10000000000, 10000000000, REAL + 10000000000);
	synthetic_clock(recording, 11000000000, 71000000000, REAL + 71000000000);
	synthetic_clock(recording, 20000000000, 80000000000, REAL + 80000000000);
	model = model_of(&recording, 1);
	assert_int_equal(model_time(model_process(model, 0), 5000000000), 5000000000);
	assert_int_equal(model_time(model_process(model, 0), 15000000000), 75000000000);
	model_close(model);
}

static void senseless_clocks(void **state)
{
	struct synthetic *recording = synthetic_new("a", 41, INT64_MAX, INT64_MIN);
	struct model *model;

	(void)state;
	synthetic_thread(recording, 41, "main");
	model = model_of(&recording, 1);
	assert_false(model_process(model, 0)->aligned);
	assert_int_equal(model_time(model_process(model, 0), 77), 77);
	model_close(model);
}

static void drops_and_damage(void **state)
{
	struct synthetic *fine = recording_of("a", 41, 0, REAL),
			 *lossy = recording_of("a", 42, 0, REAL),
			 *broken = recording_of("a", 43, 0, REAL);
	struct model *model;

	(void)state;
	synthetic_info(fine)->drops[TRACE_DROP_OVERWRITTEN] = 5;
	synthetic_info(lossy)->drops[TRACE_DROP_SPACE] = 23;
	synthetic_info(lossy)->drops[TRACE_DROP_INTERN] = 1;
	synthetic_info(broken)->damaged = true;
	synthetic_info(broken)->damage = "a chunk cannot be read";
	model = model_of((struct synthetic *[]){fine, lossy, broken}, 3);
	assert_false(model_process(model, 0)->incomplete);
	assert_true(model_process(model, 1)->incomplete);
	assert_int_equal(model_process(model, 1)->drops_lost, 24);
	assert_true(model_process(model, 2)->incomplete);
	assert_string_equal(model_process(model, 2)->info.damage, "a chunk cannot be read");
	model_close(model);
}

/* --- real recordings ---------------------------------------------------------------------------- */

/* Records a few calls in a process of its own. */
static void record(const char *directory, const char *run, int rank, int events)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		struct spool_settings settings = {.directory = directory,
						  .run = run,
						  .rank = rank,
						  .world_size = 2,
						  .local_rank = rank};

		if (spool_clock_choose("monotonic", &settings.clock) ||
		    spool_writer_open(&settings))
			_exit(1);
		uint32_t api = spool_intern_string("cuCtxSynchronize", 16);

		for (int i = 0; i < events; i++) {
			uint64_t begin = spool_now();

			SPOOL_EMIT(cuda_wait, begin, spool_now(), 0, .api = api,
				   .rule = WL_rule_context_wait, .cls = WL_call_class_waits);
		}
		spool_writer_end();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void write_file(const char *directory, const char *name, const void *data, size_t bytes)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void directory_of_recordings(void **state)
{
	const char *directory = *state, *paths[] = {directory, directory};
	struct model_options options = {.symbols = true};
	struct model *model = NULL;
	struct trace_event event;
	char err[512] = "";
	int error, counted = 0;

	assert_int_equal(model_open(paths, 1, &options, &model, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, directory));
	write_file(directory, "foreign.wspool", "this is no recording at all", 27);
	write_file(directory, "empty.wspool", "", 0);
	write_file(directory, "notes.txt", "x", 1);
	assert_int_equal(model_open(paths, 1, &options, &model, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "wspool"));
	record(directory, "one", 1, 23);
	record(directory, "one", 0, 29);
	assert_int_equal(model_open(paths, 2, &options, &model, err, sizeof(err)), 0);
	assert_int_equal(model_process_count(model), 2);
	assert_int_equal(model_note_count(model), 4 + 2); /* each twice, two unreadable */
	assert_int_equal(model_process(model, 0)->info.rank, 0);
	assert_string_equal(model_process(model, 1)->label, "rank 1");

	struct model_cursor *cursor = model_cursor_open(model, 0, MODEL_ALL_THREADS, &error);

	assert_non_null(cursor);
	while (model_cursor_next(cursor, &event) > 0) {
		assert_string_equal(model_event_name(model, 0, &event), "cuCtxSynchronize");
		assert_int_equal(model_event_class(&event), WL_call_class_waits);
		counted++;
	}
	assert_int_equal(counted, 29);
	model_cursor_close(cursor);
	model_close(model);
}

static void exported_recordings(void **state)
{
	const char *paths[] = {*state};
	struct model_options options = {.symbols = true};
	struct export_result result;
	struct model *model = NULL;
	char err[512] = "";

	record(*state, "one", 0, 4999);
	record(*state, "one", 1, 997);
	if (model_open(paths, 1, &options, &model, err, sizeof(err)))
		fail_msg("%s", err);
	export_and_check(*state, model, perfetto_export, "check_trace.py", "pftrace", NULL,
			 &result);
	assert_int_equal(result.slices, 4999 + 997);
	assert_int_equal(result.synchronizations, 4999 + 997);
	export_and_check(*state, model, chrome_export, "check_chrome.py", "json.gz", NULL, &result);
	assert_int_equal(result.slices, 4999 + 997);
	model_close(model);
}

/* More recordings than may be open at once: they are closed and opened again as need be. */
static void more_than_can_be_open(void **state)
{
	const char *directory = *state, *paths[] = {directory};
	struct model_options options = {.files_open = 5};
	struct model_cursor *cursors[23];
	struct model *model = NULL;
	char err[512] = "";
	struct trace_event event;
	unsigned total = 0;
	int error;

	for (int i = 0; i < 23; i++)
		record(directory, "many", i, 3);
	if (model_open(paths, 1, &options, &model, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(model_process_count(model), 23);
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < 23; i++) {
			struct model_cursor *cursor =
				model_cursor_open(model, i, MODEL_ALL_THREADS, &error);

			assert_non_null(cursor);
			while (model_cursor_next(cursor, &event) > 0)
				total++;
			assert_string_equal(model_event_name(model, i, &event), "cuCtxSynchronize");
			model_cursor_close(cursor);
		}
	}
	assert_int_equal(total, 2 * 23 * 3);
	/* What is in use stays open, whatever the limit. */
	for (unsigned i = 0; i < 23; i++) {
		cursors[i] = model_cursor_open(model, i, MODEL_ALL_THREADS, &error);
		assert_non_null(cursors[i]);
	}
	for (unsigned i = 0; i < 23; i++) {
		assert_int_equal(model_cursor_next(cursors[i], &event), 1);
		model_cursor_close(cursors[i]);
	}
	model_close(model);
}

/* Whatever event has a class, the model knows it: reports and gates count by that alone. */
static void classes(void **state)
{
	unsigned with_class = 0;

	(void)state;
	for (unsigned number = 0; number < WL_EV_MAX; number++) {
		const struct wl_event_type *type = wl_event_type(number);
		struct trace_event event = {.type = type};
		int at = type ? model_arg_index(type, "cls") : -1;

		if (at < 0)
			continue;
		with_class++;
		for (unsigned cls = 0; cls < WL_call_class_MAX; cls++) {
			event.args[at] = cls;
			assert_int_equal(model_event_class(&event), cls);
		}
	}
	assert_true(with_class >= 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(classes),
		cmocka_unit_test(numbers_and_order),
		cmocka_unit_test(runs),
		cmocka_unit_test(duplicates),
		cmocka_unit_test(hosts_on_one_clock),
		cmocka_unit_test(drift_and_steps),
		cmocka_unit_test(suspended),
		cmocka_unit_test(senseless_clocks),
		cmocka_unit_test(drops_and_damage),
		cmocka_unit_test_setup_teardown(directory_of_recordings, export_setup,
						export_teardown),
		cmocka_unit_test_setup_teardown(exported_recordings, export_setup, export_teardown),
		cmocka_unit_test_setup_teardown(more_than_can_be_open, export_setup,
						export_teardown),
	};

	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
