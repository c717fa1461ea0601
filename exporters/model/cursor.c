/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading records: the reader's cursors, with what a damaged recording could say put right.
 */
#include "exporters/model/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct model_cursor {
	struct trace_cursor *cursor;
	struct trace_reader *reader;
	struct process *process;
};

struct model_cursor *model_cursor_open(struct model *model, unsigned index, int thread, int *error)
{
	struct model_cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor) {
		*error = -ENOMEM;
		return NULL;
	}
	cursor->process = model->processes[index];
	cursor->reader = model_reader(model, index, error);
	if (cursor->reader)
		cursor->cursor = cursor->reader->ops->cursor_open(cursor->reader, thread, error);
	if (!cursor->cursor) {
		free(cursor);
		return NULL;
	}
	cursor->process->pins++;
	return cursor;
}

int model_cursor_next(struct model_cursor *cursor, struct trace_event *event)
{
	for (;;) {
		int more = cursor->reader->ops->cursor_next(cursor->cursor, event);

		if (more <= 0)
			return more;
		/* A recording still being written may have gained threads since it was opened. */
		if (event->thread >= cursor->process->public.thread_count)
			continue;
		if (event->end_ns < event->begin_ns)
			event->end_ns = event->begin_ns;
		return 1;
	}
}

void model_cursor_close(struct model_cursor *cursor)
{
	if (!cursor)
		return;
	cursor->reader->ops->cursor_close(cursor->cursor);
	cursor->process->pins--;
	free(cursor);
}

const char *model_string(struct model *model, unsigned process, uint32_t id)
{
	struct trace_reader *reader = model->processes[process]->reader;
	int error;

	if (!id)
		return "";
	if (!reader)
		reader = model_reader(model, process, &error);
	if (!reader)
		return "?";
	/* Kernels have mangled names, which say little and which speedscope's demangler dies of in number. */
	const char *text = reader->ops->string(reader, id);

	return text[0] == '_' && text[1] == 'Z' ? model_plain_name(model, text) : text;
}

unsigned model_inflight(struct model *model, unsigned process, struct trace_inflight *calls,
			unsigned max)
{
	int error;
	struct trace_reader *reader = model_reader(model, process, &error);
	unsigned count =
		reader && reader->ops->inflight ? reader->ops->inflight(reader, calls, max) : 0;

	for (unsigned i = 0; i < count; i++)
		calls[i].api = text_keep(model->texts, calls[i].api ? calls[i].api : "");
	return count;
}

int model_arg_index(const struct wl_event_type *type, const char *name)
{
	for (unsigned i = 0; i < type->arg_count; i++) {
		if (!strcmp(type->args[i].name, name))
			return (int)i;
	}
	return -1;
}

const char *model_event_name(struct model *model, unsigned process, const struct trace_event *event)
{
	int index = model_arg_index(event->type, "api");

	if (index < 0)
		index = model_arg_index(event->type, "text");
	if (index >= 0 && event->args[index]) {
		const char *name = model_string(model, process, (uint32_t)event->args[index]);

		if (*name)
			return name;
	}
	return event->type->name;
}

unsigned model_event_class(const struct trace_event *event)
{
	switch (event->type->number) {
#define CLASS_OF(name)                                                                             \
	case WL_EV_##name:                                                                         \
		return event->type == wl_event_type(WL_EV_##name)                                  \
			       ? (unsigned)MODEL_ARG(event, name, cls)                             \
			       : WL_call_class_none;
		CLASS_OF(cuda_wait)
		CLASS_OF(cuda_poll)
		CLASS_OF(cuda_copy)
		CLASS_OF(cuda_memset)
		CLASS_OF(cuda_launch)
		CLASS_OF(cuda_mem)
		CLASS_OF(cuda_setup)
#undef CLASS_OF
	default:
		return WL_call_class_none;
	}
}
