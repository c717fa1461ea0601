/* SPDX-License-Identifier: Apache-2.0
 *
 * Real recordings of two ranks of one machine, read as if the second had run on another, whose clock is
 * set apart and drifts: skewed FIRST SECOND OFFSET_MS DRIFT_PPM REALTIME_ERROR_MS. Since both were
 * recorded by one clock, the truth is known. Fails if a message arrives before it was sent, or the error of
 * the alignment is above the bound told.
 */
#include "exporters/exporters.h"
#include "tracer/spool/spool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double offset_ns, drift, realtime_error_ns;
static int64_t base_ns;

static int64_t skew(int64_t ns)
{
	return ns + (int64_t)llround(offset_ns + (double)(ns - base_ns) * drift);
}

struct skewed {
	struct trace_reader reader; /* first */
	struct trace_reader *real;
};

struct trace_cursor {
	struct trace_reader *real;
	struct trace_cursor *cursor;
};

static struct trace_reader *real_of(struct trace_reader *reader)
{
	return ((struct skewed *)reader)->real;
}

static struct trace_cursor *cursor_open(struct trace_reader *reader, int thread, int *error)
{
	struct trace_cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		abort();
	cursor->real = real_of(reader);
	cursor->cursor = cursor->real->ops->cursor_open(cursor->real, thread, error);
	return cursor;
}

static int cursor_next(struct trace_cursor *cursor, struct trace_event *event)
{
	int more = cursor->real->ops->cursor_next(cursor->cursor, event);

	event->begin_ns = skew(event->begin_ns);
	event->end_ns = skew(event->end_ns);
	return more;
}

static void cursor_close(struct trace_cursor *cursor)
{
	cursor->real->ops->cursor_close(cursor->cursor);
	free(cursor);
}

static const char *string(struct trace_reader *reader, uint32_t id)
{
	return real_of(reader)->ops->string(real_of(reader), id);
}

static unsigned stack(struct trace_reader *reader, uint32_t id, struct trace_frame *frames,
		      unsigned max)
{
	return real_of(reader)->ops->stack(real_of(reader), id, frames, max);
}

static void close_reader(struct trace_reader *reader)
{
	real_of(reader)->ops->close(real_of(reader));
	free((void *)(uintptr_t)reader->info.clocks);
	free(reader->threads);
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

static struct trace_reader *open_file(const char *path)
{
	struct trace_reader *reader;
	char err[512];

	if (!spool_reader_open(path, &reader, err, sizeof(err)))
		return reader;
	fprintf(stderr, "skewed: %s\n", err);
	exit(1);
}

static struct trace_reader *elsewhere(struct trace_reader *real)
{
	struct skewed *skewed = calloc(1, sizeof(*skewed));
	struct trace_clock *clocks = calloc(real->info.clock_count + 1u, sizeof(*clocks));
	struct trace_thread *threads = calloc(real->thread_count + 1u, sizeof(*threads));

	if (!skewed || !clocks || !threads)
		abort();
	skewed->real = real;
	skewed->reader = *real;
	skewed->reader.ops = &ops;
	skewed->reader.info.host = "elsewhere";
	skewed->reader.info.start_ns = skew(real->info.start_ns);
	skewed->reader.info.end_ns = skew(real->info.end_ns);
	for (unsigned i = 0; i < real->info.clock_count; i++) {
		clocks[i] = real->info.clocks[i];
		clocks[i].monotonic_ns = skew(clocks[i].monotonic_ns);
		clocks[i].boottime_ns += (int64_t)offset_ns;
		clocks[i].realtime_ns += (int64_t)realtime_error_ns;
	}
	for (unsigned i = 0; i < real->thread_count; i++) {
		threads[i] = real->threads[i];
		threads[i].first_ns = skew(threads[i].first_ns);
		threads[i].last_ns = skew(threads[i].last_ns);
	}
	skewed->reader.info.clocks = clocks;
	skewed->reader.threads = threads;
	return &skewed->reader;
}

/* --- messages: all of one side, then asked for by the other ---------------------------------------- */

struct end {
	uint64_t message;
	int64_t at_ns;
	bool sent;
};
static struct end *ends;
static size_t end_count;

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	unsigned op = (unsigned)MODEL_ARG(&transfer->post, ofi_post, op);
	bool sent = op == WL_ofi_op_tsend || op == WL_ofi_op_send;

	if (!transfer->message || transfer->failed ||
	    (!sent && transfer->how != MODEL_TRANSFER_COMPLETED))
		return;
	ends = realloc(ends, (end_count + 1) * sizeof(*ends));
	if (!ends)
		abort();
	ends[end_count++] = (struct end){
		transfer->message,
		model_time(user, sent ? transfer->post.begin_ns : transfer->end_ns), sent};
}

static int by_message(const void *left, const void *right)
{
	const struct end *a = left, *b = right;

	if (a->message != b->message)
		return a->message < b->message ? -1 : 1;
	return (int)b->sent - (int)a->sent;
}

static unsigned check_messages(struct model *model)
{
	static const struct model_match_ops match = {.transfer = on_transfer};
	unsigned both = 0;

	for (unsigned i = 0; i < model_process_count(model); i++) {
		struct model_matcher *matcher = model_matcher_new(
			model, i, &match, (void *)(uintptr_t)model_process(model, i));
		struct trace_event event;
		int error;
		struct model_cursor *cursor =
			model_cursor_open(model, i, MODEL_ALL_THREADS, &error);

		while (cursor && model_cursor_next(cursor, &event) > 0)
			model_matcher_feed(matcher, &event);
		model_cursor_close(cursor);
		model_matcher_free(matcher);
	}
	qsort(ends, end_count, sizeof(*ends), by_message);
	for (size_t i = 1; i < end_count; i++) {
		if (ends[i].message != ends[i - 1].message)
			continue;
		both++;
		if (!ends[i - 1].sent || ends[i].sent || ends[i].at_ns < ends[i - 1].at_ns) {
			fprintf(stderr,
				"skewed: a message arrives %" PRId64 " ns before it is sent\n",
				ends[i - 1].at_ns - ends[i].at_ns);
			exit(1);
		}
	}
	return both;
}

int main(int argc, char **argv)
{
	struct trace_reader *readers[2];
	struct model_options options = {.all_runs = true};
	const struct model_process *first, *second;
	struct model *model;
	double worst = 0;
	char err[512];
	int64_t from, to;

	if (argc != 6)
		return 64;
	readers[0] = open_file(argv[1]);
	readers[1] = open_file(argv[2]);
	offset_ns = atof(argv[3]) * 1e6;
	drift = atof(argv[4]) * 1e-6;
	realtime_error_ns = atof(argv[5]) * 1e6;
	from = base_ns = readers[1]->info.start_ns;
	to = readers[1]->info.end_ns;
	readers[1] = elsewhere(readers[1]);
	if (model_from_readers(readers, 2, &options, &model, err, sizeof(err))) {
		fprintf(stderr, "skewed: %s\n", err);
		return 1;
	}
	first = model_process(model, 0);
	second = model_process(model, 1);
	if (!strcmp(first->info.host, "elsewhere")) {
		second = first;
		first = model_process(model, 1);
	}
	for (int64_t i = 0; i <= 100; i++) {
		int64_t at = from + (to - from) / 100 * i;
		double error = fabs((double)(model_time(second, skew(at)) - model_time(first, at)));

		worst = error > worst ? error : worst;
	}
	const struct model_process *moved = second->host ? second : first;

	printf("skewed: %u messages, error %.0f ns, bound %" PRId64 " ns\n", check_messages(model),
	       worst, moved->clock_error_ns);
	if (moved->clock_error_ns < 0 || worst > (double)moved->clock_error_ns)
		return 1;
	model_close(model);
	free(ends);
	return 0;
}
