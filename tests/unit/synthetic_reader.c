/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording in memory.
 */
#include "tests/unit/synthetic_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct events {
	struct trace_event *items;
	size_t count, capacity;
};

struct stack {
	struct trace_frame *frames;
	unsigned count;
};

struct synthetic {
	struct trace_reader reader; /* first: the ops get the whole back from it */
	struct events *events;      /* by thread */
	char **strings;
	uint32_t string_count;
	struct stack *stacks;
	uint32_t stack_count;
	struct trace_inflight *inflight;
	unsigned inflight_count;
	struct trace_clock *clocks;
	char *host;
};

struct trace_cursor {
	struct synthetic *synthetic;
	int thread;
	size_t *at; /* by thread */
};

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

#define GROW(array, count) ((array) = need(realloc((array), ((count) + 1) * sizeof(*(array)))))

static struct trace_cursor *cursor_open(struct trace_reader *reader, int thread, int *error)
{
	struct trace_cursor *cursor;

	if (thread >= (int)reader->thread_count) {
		*error = -EINVAL;
		return NULL;
	}
	cursor = need(calloc(1, sizeof(*cursor)));
	cursor->synthetic = (struct synthetic *)reader;
	cursor->thread = thread;
	cursor->at = need(calloc(reader->thread_count + 1u, sizeof(*cursor->at)));
	return cursor;
}

static int cursor_next(struct trace_cursor *cursor, struct trace_event *event)
{
	struct synthetic *synthetic = cursor->synthetic;
	int best = -1;

	for (unsigned i = 0; i < synthetic->reader.thread_count; i++) {
		const struct events *events = &synthetic->events[i];

		if ((cursor->thread >= 0 && i != (unsigned)cursor->thread) ||
		    cursor->at[i] == events->count)
			continue;
		if (best < 0 || events->items[cursor->at[i]].end_ns <
					synthetic->events[best].items[cursor->at[best]].end_ns)
			best = (int)i;
	}
	if (best < 0)
		return 0;
	*event = synthetic->events[best].items[cursor->at[best]++];
	return 1;
}

static void cursor_close(struct trace_cursor *cursor)
{
	free(cursor->at);
	free(cursor);
}

static const char *string(struct trace_reader *reader, uint32_t id)
{
	const struct synthetic *synthetic = (struct synthetic *)reader;

	if (!id)
		return "";
	return id <= synthetic->string_count ? synthetic->strings[id - 1] : "?";
}

static unsigned stack(struct trace_reader *reader, uint32_t id, struct trace_frame *frames,
		      unsigned max)
{
	const struct synthetic *synthetic = (struct synthetic *)reader;
	unsigned count;

	if (!id || id > synthetic->stack_count)
		return 0;
	count = synthetic->stacks[id - 1].count;
	if (count > max)
		count = max;
	memcpy(frames, synthetic->stacks[id - 1].frames, count * sizeof(*frames));
	return count;
}

static unsigned inflight(struct trace_reader *reader, struct trace_inflight *calls, unsigned max)
{
	const struct synthetic *synthetic = (struct synthetic *)reader;
	unsigned count = synthetic->inflight_count < max ? synthetic->inflight_count : max;

	if (count)
		memcpy(calls, synthetic->inflight, count * sizeof(*calls));
	return count;
}

static void close_reader(struct trace_reader *reader)
{
	struct synthetic *synthetic = (struct synthetic *)reader;

	for (unsigned i = 0; i < reader->thread_count; i++)
		free(synthetic->events[i].items);
	for (uint32_t i = 0; i < synthetic->string_count; i++)
		free(synthetic->strings[i]);
	for (uint32_t i = 0; i < synthetic->stack_count; i++)
		free(synthetic->stacks[i].frames);
	free(synthetic->events);
	free(synthetic->strings);
	free(synthetic->stacks);
	free(synthetic->inflight);
	free(synthetic->clocks);
	free(synthetic->host);
	free(reader->threads);
	free(synthetic);
}

static const struct trace_reader_ops ops = {
	.cursor_open = cursor_open,
	.cursor_next = cursor_next,
	.cursor_close = cursor_close,
	.string = string,
	.stack = stack,
	.inflight = inflight,
	.close = close_reader,
};

struct synthetic *synthetic_new(const char *host, int64_t pid, int64_t boottime_ns,
				int64_t realtime_ns)
{
	struct synthetic *synthetic = need(calloc(1, sizeof(*synthetic)));

	synthetic->host = need(strdup(host));
	synthetic->reader.ops = &ops;
	synthetic->reader.info = (struct trace_info){
		.format = "synthetic",
		.path = "memory",
		.host = synthetic->host,
		.run = "",
		.command = "job",
		.process_name = "job",
		.pid = pid,
		.ppid = 1,
		.rank = -1,
		.world_size = -1,
		.local_rank = -1,
		.start_ns = INT64_MAX,
		.end_ns = INT64_MIN,
		.ended = true,
		.damage = "",
	};
	synthetic_clock(synthetic, 0, boottime_ns, realtime_ns);
	return synthetic;
}

struct trace_info *synthetic_info(struct synthetic *synthetic)
{
	return &synthetic->reader.info;
}

void synthetic_clock(struct synthetic *synthetic, int64_t monotonic_ns, int64_t boottime_ns,
		     int64_t realtime_ns)
{
	struct trace_info *info = &synthetic->reader.info;

	GROW(synthetic->clocks, info->clock_count);
	synthetic->clocks[info->clock_count++] = (struct trace_clock){.monotonic_ns = monotonic_ns,
								      .boottime_ns = boottime_ns,
								      .realtime_ns = realtime_ns};
	info->clocks = synthetic->clocks;
}

uint32_t synthetic_thread(struct synthetic *synthetic, int64_t tid, const char *name)
{
	struct trace_reader *reader = &synthetic->reader;
	uint32_t index = reader->thread_count;

	GROW(reader->threads, index);
	GROW(synthetic->events, index);
	memset(&synthetic->events[index], 0, sizeof(*synthetic->events));
	memset(&reader->threads[index], 0, sizeof(*reader->threads));
	reader->threads[index].serial = index + 1;
	reader->threads[index].tid = tid;
	reader->threads[index].name = name;
	reader->thread_count++;
	return index;
}

uint32_t synthetic_string(struct synthetic *synthetic, const char *text)
{
	for (uint32_t i = 0; i < synthetic->string_count; i++) {
		if (!strcmp(synthetic->strings[i], text))
			return i + 1;
	}
	GROW(synthetic->strings, synthetic->string_count);
	synthetic->strings[synthetic->string_count] = need(strdup(text));
	return ++synthetic->string_count;
}

uint32_t synthetic_stack(struct synthetic *synthetic, const struct trace_frame *frames,
			 unsigned count)
{
	struct stack *made;

	GROW(synthetic->stacks, synthetic->stack_count);
	made = &synthetic->stacks[synthetic->stack_count];
	made->frames = need(malloc((count + 1u) * sizeof(*frames)));
	memcpy(made->frames, frames, count * sizeof(*frames));
	made->count = count;
	return ++synthetic->stack_count;
}

void synthetic_inflight(struct synthetic *synthetic, uint32_t thread, unsigned event,
			const char *api, uint32_t stack_id, int64_t since_ns)
{
	GROW(synthetic->inflight, synthetic->inflight_count);
	synthetic->inflight[synthetic->inflight_count++] =
		(struct trace_inflight){thread, wl_event_type(event), api, stack_id, since_ns};
}

static struct trace_event *append(struct synthetic *synthetic, uint32_t thread, int64_t begin_ns,
				  int64_t end_ns)
{
	struct events *events = &synthetic->events[thread];

	if (events->count == events->capacity) {
		events->capacity = events->capacity ? events->capacity * 2 : 64;
		events->items =
			need(realloc(events->items, events->capacity * sizeof(*events->items)));
	}
	struct trace_event *event = &events->items[events->count++];

	memset(event, 0, sizeof(*event));
	event->thread = thread;
	event->begin_ns = begin_ns;
	event->end_ns = end_ns;
	return event;
}

void synthetic_event(struct synthetic *synthetic, uint32_t thread, unsigned event, int64_t begin_ns,
		     int64_t end_ns, uint32_t flags, const void *args)
{
	struct trace_event *made = append(synthetic, thread, begin_ns, end_ns);
	const uint8_t *at = args;

	made->type = need((void *)(uintptr_t)wl_event_type(event));
	made->flags = flags;
	for (unsigned i = 0; i < made->type->arg_count; i++) {
		enum wl_arg_type type = made->type->args[i].type;
		unsigned bytes = wl_arg_type_bytes(type);
		uint64_t value = 0;

		memcpy(&value, at, bytes);
		if (type == WL_TYPE_i32)
			value = (uint64_t)(int64_t)(int32_t)value;
		made->args[i] = value;
		at += bytes;
	}
}

void synthetic_foreign(struct synthetic *synthetic, uint32_t thread,
		       const struct wl_event_type *type, int64_t begin_ns, int64_t end_ns,
		       const uint64_t *args)
{
	struct trace_event *made = append(synthetic, thread, begin_ns, end_ns);

	made->type = type;
	memcpy(made->args, args, type->arg_count * sizeof(*args));
}

struct trace_reader *synthetic_reader(struct synthetic *synthetic)
{
	struct trace_reader *reader = &synthetic->reader;
	struct trace_info *info = &reader->info;

	for (unsigned i = 0; i < reader->thread_count; i++) {
		const struct events *events = &synthetic->events[i];
		struct trace_thread *thread = &reader->threads[i];

		for (size_t j = 0; j < events->count; j++) {
			const struct trace_event *event = &events->items[j];

			if (!j || event->begin_ns < thread->first_ns)
				thread->first_ns = event->begin_ns;
			if (event->end_ns > thread->last_ns)
				thread->last_ns = event->end_ns;
		}
		if (events->count && thread->first_ns < info->start_ns)
			info->start_ns = thread->first_ns;
		if (events->count && thread->last_ns > info->end_ns)
			info->end_ns = thread->last_ns;
	}
	if (info->start_ns == INT64_MAX)
		info->start_ns = 0;
	if (info->end_ns < info->start_ns)
		info->end_ns = info->start_ns;
	return reader;
}
