/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast recordings are exported, how many bytes a slice takes and how much memory it needs at most, in
 * processor time, into /dev/null: a reader that makes events up as it goes (so that reading costs next to
 * nothing) through each exporter; then recordings on disk, of 10 million events and of 100 million.
 *
 *   bench_export [EVENTS [WHAT [RECORDED...]]]   default 10 million; WHAT: only lines that hold this text;
 *                                                RECORDED: sizes of the recordings, in events
 */
#include "exporters/exporters.h"
#include "tracer/spool/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *wanted = "";

enum recipe { BARE, TWO_ARGS, FLOWS, CALLS, RECIPE_MAX };

static const char *const apis[] = {
	"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "fi_tsend",
	"fi_trecv",       "cuMemAllocAsync"};

struct generated {
	struct trace_reader reader; /* first */
	enum recipe recipe;
	uint64_t events;
	struct trace_thread thread;
	struct trace_clock clock;
};

struct trace_cursor {
	const struct generated *generated;
	uint64_t at;
	int64_t now_ns;
	uint64_t random;
};

static const struct wl_arg two_args[] = {
	{"bytes", WL_TYPE_u64, WL_SHOW_BYTES, NULL},
	{"count", WL_TYPE_u32, WL_SHOW_NUM, NULL},
};
static const struct wl_event_type bare_type = {"call", 58, WL_CAT_meta, WL_FORM_CALL, 0, 0, NULL};
static const struct wl_event_type two_type = {"call", 59, WL_CAT_meta, WL_FORM_CALL,
					      2,      12, two_args};

static struct trace_cursor *cursor_open(struct trace_reader *reader, int thread, int *error)
{
	struct trace_cursor *cursor = calloc(1, sizeof(*cursor));

	(void)thread;
	if (!cursor)
		*error = -ENOMEM;
	else
		cursor->generated = (const struct generated *)reader;
	return cursor;
}

static void fill_call(struct trace_event *event, uint64_t at)
{
	static const unsigned types[] = {WL_EV_cuda_launch, WL_EV_cuda_launch, WL_EV_cuda_launch,
					 WL_EV_cuda_copy,   WL_EV_cuda_wait,   WL_EV_cuda_launch};

	event->type = wl_event_type(types[at % 6]);
	memset(event->args, 0, event->type->arg_count * sizeof(event->args[0]));
	for (unsigned i = 0; i < event->type->arg_count; i++) {
		if (event->type->args[i].show == WL_SHOW_HEX)
			event->args[i] = 0x7f0012340000 + (at % 64) * 4096;
		else if (event->type->args[i].show == WL_SHOW_NUM)
			event->args[i] = 1 + at % 256;
	}
	event->args[model_arg_index(event->type, "api")] = 1 + at % 6;
}

static int cursor_next(struct trace_cursor *cursor, struct trace_event *event)
{
	uint64_t at = cursor->at++;

	if (at >= cursor->generated->events)
		return 0;
	cursor->random = cursor->random * 6364136223846793005u + 1442695040888963407u;
	event->thread = 0;
	event->flags = 0;
	event->begin_ns = cursor->now_ns + 200 + (int64_t)(cursor->random >> 54);
	event->end_ns = event->begin_ns + 300 + (int64_t)(cursor->random >> 33 & 0xfff);
	cursor->now_ns = event->end_ns;
	switch (cursor->generated->recipe) {
	case BARE:
		event->type = &bare_type;
		break;
	case TWO_ARGS:
		event->type = &two_type;
		event->args[0] = 1 << 20;
		event->args[1] = at % 1000;
		break;
	case FLOWS:
		event->type = wl_event_type(WL_EV_ofi_post);
		memset(event->args, 0, sizeof(event->args));
		MODEL_ARG(event, ofi_post, api) = 4;
		MODEL_ARG(event, ofi_post, inject) = 1;
		MODEL_ARG(event, ofi_post, op) = WL_ofi_op_tsend;
		break;
	default:
		fill_call(event, at);
		break;
	}
	return 1;
}

static void cursor_close(struct trace_cursor *cursor)
{
	free(cursor);
}

static const char *string(struct trace_reader *reader, uint32_t id)
{
	(void)reader;
	return id && id <= 6 ? apis[id - 1] : "";
}

static unsigned stack(struct trace_reader *reader, uint32_t id, struct trace_frame *frames,
		      unsigned max)
{
	(void)reader;
	(void)id;
	(void)frames;
	(void)max;
	return 0;
}

static void close_reader(struct trace_reader *reader)
{
	free(reader);
}

static const struct trace_reader_ops ops = {
	.cursor_open = cursor_open,
	.cursor_next = cursor_next,
	.cursor_close = cursor_close,
	.string = string,
	.stack = stack,
	.close = close_reader,
};

static struct model *generate(enum recipe recipe, uint64_t events)
{
	struct generated *generated = calloc(1, sizeof(*generated));
	struct trace_reader *reader = &generated->reader;
	struct model *model = NULL;
	char err[256] = "out of memory";

	if (!generated)
		return NULL;
	generated->recipe = recipe;
	generated->events = events;
	generated->clock.monotonic_ns = generated->clock.boottime_ns = 1;
	generated->clock.realtime_ns = 1700000000000000000;
	generated->thread = (struct trace_thread){
		.serial = 1, .tid = 41, .name = "main", .last_ns = (int64_t)events * 3000};
	reader->ops = &ops;
	reader->thread_count = 1;
	reader->threads = &generated->thread;
	reader->info = (struct trace_info){.format = "generated",
					   .path = "nowhere",
					   .host = "host",
					   .run = "",
					   .command = "bench",
					   .process_name = "bench",
					   .pid = 41,
					   .rank = -1,
					   .world_size = -1,
					   .local_rank = -1,
					   .ended = true,
					   .damage = "",
					   .clock_count = 1,
					   .clocks = &generated->clock};
	if (model_from_readers(&reader, 1, NULL, &model, err, sizeof(err)))
		fprintf(stderr, "bench_export: %s\n", err);
	return model;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts); /* the machine may be busy */
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

typedef int (*export_function)(struct model *model, const char *path,
			       const struct export_options *options, struct export_result *result,
			       char *err, size_t err_size);

static int child_status(pid_t pid)
{
	int status;

	if (pid < 0)
		return 1;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 1;
	}
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

/* Exports a model and says how fast. */
static int measure_model(const char *what, struct model *model, export_function export,
			 const struct export_options *options)
{
	struct export_result result;
	struct rusage usage;
	char err[256];

	if (!model)
		return 1;
	double begin = now_s();

	if (export(model, "/dev/null", options, &result, err, sizeof(err))) {
		fprintf(stderr, "bench_export: %s\n", err);
		return 1;
	}
	double seconds = now_s() - begin;
	uint64_t slices = result.slices + result.synchronizations + result.transfers;

	getrusage(RUSAGE_SELF, &usage);
	printf("%-42s %8.2f M slices/s  %6.1f bytes/slice  %4ld MiB\n", what,
	       (double)slices / seconds / 1e6, (double)result.bytes / (double)slices,
	       usage.ru_maxrss / 1024);
	fflush(stdout);
	return 0;
}

static int measure(const char *what, enum recipe recipe, uint64_t events, export_function export,
		   const struct export_options *options)
{
	if (!strstr(what, wanted))
		return 0;
	fflush(stdout);
	pid_t pid = fork();

	if (!pid)
		_exit(measure_model(what, generate(recipe, events), export, options));
	return child_status(pid);
}

/* --- a recording on disk ------------------------------------------------------------------------ */

static void record_calls(uint64_t events)
{
	uint32_t api = spool_intern_string("cuEventRecord", 13);

	for (uint64_t i = 0; i < events; i++) {
		uint64_t begin = spool_now();

		SPOOL_EMIT(cuda_order, begin, spool_now(), 0, .object = 0x7f0000 + i % 64 * 16,
			   .stream = 0x55, .api = api);
	}
}

/* Posts, each with its completion: two slices and an instant, joined by two arrows. */
static void record_posts(uint64_t events)
{
	uint32_t api = spool_intern_string("fi_tsend", 8);

	for (uint64_t i = 0; i < events / 2; i++) {
		uint64_t begin = spool_now();

		SPOOL_EMIT(ofi_post, begin, spool_now(), 0, .ep = 0x7f0040,
			   .context = 0x7f8000 + i % 64 * 16, .bytes = 8192, .tag = i % 16,
			   .op = WL_ofi_op_tsend, .api = api);
		begin = spool_now();
		SPOOL_EMIT(ofi_completion, begin, begin, 0, .cq = 0x7f0080,
			   .context = 0x7f8000 + i % 64 * 16, .flags = 1 << 11);
	}
}

/* Records in a process of its own. */
static int record(const char *directory, uint64_t events, void (*what)(uint64_t events))
{
	struct spool_settings settings = {.directory = directory,
					  .run = "",
					  .rank = -1,
					  .world_size = -1,
					  .local_rank = -1,
					  .max_bytes = events * 128 + (64u << 20)};
	fflush(stdout);
	pid_t pid = fork();

	if (pid)
		return child_status(pid);
	if (spool_clock_choose("auto", &settings.clock) || spool_writer_open(&settings))
		_exit(1);
	what(events);
	spool_writer_end();
	_exit(0);
}

/* One export of what lies in a directory, as `waylay export` does it: opening included. */
static int measure_directory(const char *what, const char *directory, export_function export,
			     const struct export_options *options)
{
	struct model *model = NULL;
	char err[256];
	pid_t pid;

	if (!strstr(what, wanted))
		return 0;
	fflush(stdout);
	pid = fork();
	if (pid)
		return child_status(pid);
	if (model_open(&directory, 1, NULL, &model, err, sizeof(err))) {
		fprintf(stderr, "bench_export: %s\n", err);
		_exit(1);
	}
	_exit(measure_model(what, model, export, options));
}

static int measure_recording(uint64_t events, void (*record_what)(uint64_t events),
			     const char *const names[3],
			     const struct export_options *const options[3])
{
	char directory[] = "/tmp/waylay-bench-XXXXXX", command[64], what[96];
	int failed = 0;

	if (!mkdtemp(directory))
		return 1;
	if (record(directory, events, record_what)) {
		fprintf(stderr, "bench_export: recording into %s failed\n", directory);
		failed = 1;
	}
	for (int i = 0; i < 3 && !failed && names[i]; i++) {
		snprintf(what, sizeof(what), "perfetto, %llu M recorded, %s",
			 (unsigned long long)events / 1000000, names[i]);
		failed = measure_directory(what, directory, perfetto_export, options[i]);
	}
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return failed | (system(command) != 0);
}

static int measure_recordings(uint64_t events)
{
	static const struct export_options bare = {.no_args = true}, full = {0};
	static const struct export_options small = {.no_args = true,
						    .compress = EXPORT_COMPRESS_DEFLATE};
	static const char *const of_calls[] = {"bare", "three arguments", "bare, deflate"};
	static const char *const of_posts[] = {"with flows", "with flows, deflate", NULL};
	static const struct export_options *const for_calls[] = {&bare, &full, &small};
	static const struct export_options *const for_posts[] = {&bare, &small, NULL};
	int failed = 0;

	if (!events)
		return 0;
	failed |= measure_recording(events, record_calls, of_calls, for_calls);
	failed |= measure_recording(events, record_posts, of_posts, for_posts);
	return failed;
}

static int jsonl(struct model *model, const char *path, const struct export_options *options,
		 struct export_result *result, char *err, size_t err_size)
{
	return table_export(model, path, TABLE_FORMAT_JSONL, 0, options, result, err, err_size);
}

/* What the same walk costs without any writing. */
static int measure_reading(uint64_t events)
{
	struct model *model = generate(CALLS, events);
	struct trace_event event;
	uint64_t count = 0;
	int error = 0;

	if (!model)
		return 1;
	double begin = now_s();
	struct model_cursor *cursor = model_cursor_open(model, 0, 0, &error);

	while (cursor && model_cursor_next(cursor, &event) > 0)
		count++;
	model_cursor_close(cursor);
	printf("%-42s %8.2f M records/s\n", "(making the records up)",
	       (double)count / (now_s() - begin) / 1e6);
	model_close(model);
	return count != events;
}

int main(int argc, char **argv)
{
	const struct export_options bare = {.no_args = true}, full = {0};
	const struct export_options small = {.no_args = true, .compress = EXPORT_COMPRESS_DEFLATE};
	const struct export_options packed = {.compress = EXPORT_COMPRESS_DEFLATE};
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
	int failed;

	if (argc > 2)
		wanted = argv[2];
	failed = measure_reading(events);
	failed |= measure("perfetto, bare", BARE, events, perfetto_export, &bare);
	failed |= measure("perfetto, two arguments", TWO_ARGS, events, perfetto_export, &full);
	failed |= measure("perfetto, with a flow", FLOWS, events, perfetto_export, &bare);
	failed |= measure("perfetto, CUDA calls in full", CALLS, events, perfetto_export, &full);
	failed |= measure("perfetto, bare, deflate", BARE, events, perfetto_export, &small);
	failed |= measure("perfetto, two arguments, deflate", TWO_ARGS, events, perfetto_export,
			  &packed);
	failed |= measure("perfetto, with a flow, deflate", FLOWS, events, perfetto_export, &small);
#ifdef HAVE_ZSTD
	const struct export_options dense = {.no_args = true, .compress = EXPORT_COMPRESS_ZSTD};

	failed |= measure("perfetto, bare, zstd", BARE, events, perfetto_export, &dense);
#endif
	failed |= measure("chrome, two arguments", TWO_ARGS, events, chrome_export, &full);
	failed |= measure("chrome, CUDA calls in full", CALLS, events, chrome_export, &full);
	failed |= measure("tables as JSON lines, CUDA calls", CALLS, events, jsonl, &full);
	if (argc <= 3)
		failed |= measure_recordings(10000000) | measure_recordings(100000000);
	for (int i = 3; i < argc; i++)
		failed |= measure_recordings(strtoull(argv[i], NULL, 10));
	return failed;
}
