/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as text, for the scripts here:  spool_dump [--stacks] FILE
 *   process PID ended|running rank RANK/SIZE
 *   attribute KEY VALUE
 *   thread SERIAL NAME
 *   drops REASON COUNT
 *   event THREAD NAME ARG=VALUE ...     then, with --stacks, "  python FILE:LINE FUNCTION",
 *                                       "  native MODULE+OFFSET"
 *   inflight THREAD NAME API
 * FILE may be a directory of traces of LTTng, each process of which is printed.
 */
#include "tracer/lttng/ctf.h"
#include "tracer/spool/spool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool with_stacks;

static void stack_print(struct trace_reader *reader, uint32_t id)
{
	static struct trace_frame frames[256];
	unsigned count = reader->ops->stack(reader, id, frames, 256);

	for (unsigned i = 0; i < count; i++)
		if (frames[i].kind == TRACE_FRAME_PYTHON)
			printf("  python%s %s:%u %s\n", frames[i].awaited ? " awaited" : "",
			       frames[i].file, frames[i].line, frames[i].function);
		else
			printf("  native %s+%" PRIx64 "\n", frames[i].file, frames[i].offset);
}

static void argument_print(struct trace_reader *reader, const struct wl_arg *arg, uint64_t value)
{
	switch (arg->show) {
	case WL_SHOW_STR:
		printf(" %s=%s", arg->name, reader->ops->string(reader, (uint32_t)value));
		break;
	case WL_SHOW_ENUM:
		printf(" %s=%s", arg->name,
		       value < arg->enumeration->count ? arg->enumeration->words[value] : "?");
		break;
	case WL_SHOW_HEX:
	case WL_SHOW_FLAGS:
		printf(" %s=%" PRIx64, arg->name, value);
		break;
	case WL_SHOW_STACK:
		printf(" %s=%s", arg->name, value ? "yes" : "no");
		break;
	default:
		printf(" %s=%" PRId64, arg->name, (int64_t)value);
		break;
	}
}

static void events_print(struct trace_reader *reader)
{
	struct trace_event event;
	int error, more;
	struct trace_cursor *cursor = reader->ops->cursor_open(reader, -1, &error);

	if (!cursor) {
		fprintf(stderr, "spool_dump: no cursor: %s\n", strerror(-error));
		exit(1);
	}
	while ((more = reader->ops->cursor_next(cursor, &event)) == 1) {
		uint32_t stack = 0;

		printf("event %u %s", reader->threads[event.thread].serial, event.type->name);
		for (unsigned i = 0; i < event.type->arg_count; i++) {
			argument_print(reader, &event.type->args[i], event.args[i]);
			if (event.type->args[i].show == WL_SHOW_STACK)
				stack = (uint32_t)event.args[i];
		}
		printf(" flags=%x\n", event.flags);
		if (with_stacks && stack)
			stack_print(reader, stack);
	}
	reader->ops->cursor_close(cursor);
	if (more < 0) {
		fprintf(stderr, "spool_dump: %s\n", reader->info.damage);
		exit(1);
	}
}

static void print(struct trace_reader *reader)
{
	const struct trace_info *info = &reader->info;
	struct trace_inflight calls[64];
	unsigned count;

	if (info->damaged)
		printf("damage %s\n", info->damage);
	printf("process %" PRId64 " %s rank %d/%d\n", info->pid, info->ended ? "ended" : "running",
	       info->rank, info->world_size);
	for (unsigned i = 0; i < info->attribute_count; i++)
		printf("attribute %s %s\n", info->attributes[i][0], info->attributes[i][1]);
	for (unsigned i = 0; i < reader->thread_count; i++)
		printf("thread %u %s\n", reader->threads[i].serial, reader->threads[i].name);
	for (unsigned i = 0; i < TRACE_DROP_MAX; i++)
		if (info->drops[i])
			printf("drops %s %" PRIu64 "\n", trace_drop_name((enum trace_drop)i),
			       info->drops[i]);
	events_print(reader);
	count = reader->ops->inflight(reader, calls, 64);
	for (unsigned i = 0; i < count; i++)
		printf("inflight %u %s %s\n", reader->threads[calls[i].thread].serial,
		       calls[i].type->name, calls[i].api);
}

#ifdef HAVE_BABELTRACE
static int traces_print(const char *path)
{
	struct trace_reader **readers;
	unsigned count;
	uint64_t events;
	char err[512];

	if (ctf_open(path, wl_event_type, &readers, &count, false, &events, err, sizeof(err))) {
		fprintf(stderr, "spool_dump: %s\n", err);
		return 1;
	}
	if (*err)
		fprintf(stderr, "spool_dump: %s\n", err);
	for (unsigned i = 0; i < count; i++) {
		print(readers[i]);
		readers[i]->ops->close(readers[i]);
	}
	free((void *)readers);
	return 0;
}
#else
static int traces_print(const char *path)
{
	fprintf(stderr, "spool_dump: %s: built without babeltrace2\n", path);
	return 77;
}
#endif

int main(int argc, char **argv)
{
	struct trace_reader *reader;
	char err[512];

	with_stacks = argc == 3 && !strcmp(argv[1], "--stacks");
	if (argc != 2 + with_stacks) {
		fprintf(stderr, "usage: spool_dump [--stacks] FILE\n");
		return 64;
	}
	if (ctf_is(argv[argc - 1]))
		return traces_print(argv[argc - 1]);
	if (spool_reader_open(argv[argc - 1], &reader, err, sizeof(err))) {
		fprintf(stderr, "spool_dump: %s\n", err);
		return 1;
	}
	print(reader);
	reader->ops->close(reader);
	return 0;
}
