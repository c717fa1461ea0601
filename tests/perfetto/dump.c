/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as lines of JSON: {"kind": "process" | "thread" | "record", ...}.
 */
#include "tests/perfetto/dump.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			fprintf(file, "\\%c", byte);
		else if (byte < 0x20)
			fprintf(file, "\\u%04x", byte);
		else
			fputc(byte, file);
	}
	fputc('"', file);
}

static const char *form_name(enum wl_form form)
{
	static const char *const names[WL_FORM_MAX] = {"call", "instant", "begin", "end"};

	return names[form];
}

static uint64_t named_arg(const struct trace_event *event, const char *name)
{
	int index = model_arg_index(event->type, name);

	return index < 0 ? 0 : event->args[index];
}

static void put_payload(FILE *file, uint64_t value, uint64_t type)
{
	uint32_t low = (uint32_t)value;
	double large;
	float small;

	memcpy(&large, &value, sizeof(large));
	memcpy(&small, &low, sizeof(small));
	if (type == WL_payload_type_f32)
		large = (double)small;
	/* Not a number and infinity are no JSON. */
	if (type == WL_payload_type_f64 || type == WL_payload_type_f32)
		fprintf(file, isfinite(large) ? "%.17g" : "\"%g\"", large);
	else if (type == WL_payload_type_i64)
		fprintf(file, "%" PRId64, (int64_t)value);
	else if (type == WL_payload_type_i32)
		fprintf(file, "%" PRId32, (int32_t)low);
	else
		fprintf(file, "%" PRIu64, value);
}

static bool shown(const struct wl_arg *arg, uint64_t value)
{
	const char *word;

	if (arg->show == WL_SHOW_STACK || !strcmp(arg->name, "api") || !strcmp(arg->name, "text"))
		return false;
	if (value || arg->show == WL_SHOW_NUM || arg->show == WL_SHOW_BYTES ||
	    arg->show == WL_SHOW_NS || arg->show == WL_SHOW_HEX || arg->show == WL_SHOW_STATUS)
		return true;
	if (arg->show != WL_SHOW_ENUM)
		return false;
	word = arg->enumeration->words[0];
	return strcmp(word, "none") != 0 && strcmp(word, "unknown") != 0 &&
	       strcmp(word, "other") != 0;
}

static void put_args(FILE *file, struct model *model, unsigned process,
		     const struct trace_event *event)
{
	static const char *const flags[] = {"captured", "in_provider", "inner_layer", "guessed"};
	const char *comma = "";

	for (unsigned i = 0; i < event->type->arg_count; i++) {
		const struct wl_arg *arg = &event->type->args[i];
		bool payload = !strcmp(arg->name, "payload");
		uint64_t payload_type = named_arg(event, "payload_type"), value = event->args[i];

		if (!shown(arg, value) || (payload && payload_type == WL_payload_type_none))
			continue;
		fprintf(file, "%s\"%s\":", comma, arg->name);
		comma = ",";
		if (payload)
			put_payload(file, value, payload_type);
		else if (arg->show == WL_SHOW_STR)
			put_string(file, model_string(model, process, (uint32_t)value));
		else if (arg->show == WL_SHOW_ENUM && value < arg->enumeration->count)
			put_string(file, arg->enumeration->words[value]);
		else if (arg->type == WL_TYPE_i32 || arg->type == WL_TYPE_i64)
			fprintf(file, "%" PRId64, (int64_t)value);
		else
			fprintf(file, "%" PRIu64, value);
	}
	for (unsigned i = 0; i < 4; i++) {
		if (event->flags & 1u << i) {
			fprintf(file, "%s\"%s\":true", comma, flags[i]);
			comma = ",";
		}
	}
}

static void put_frames(FILE *file, struct model *model, unsigned process, uint32_t id)
{
	const struct model_stack *stack = model_stack(model, process, id);

	for (unsigned i = stack->count; i-- > 0;) {
		const struct model_frame *frame = &stack->frames[i];
		const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;
		char name[4200];

		if (frame->function && *frame->function)
			snprintf(name, sizeof(name), "%s%s", frame->function,
				 frame->awaited ? " (in the thread that waits)" : "");
		else
			snprintf(name, sizeof(name), "%s+0x%" PRIx64,
				 slash           ? slash + 1
				 : frame->module ? frame->module
						 : "?",
				 frame->offset);
		fputc('[', file);
		put_string(file, name);
		fputc(',', file);
		put_string(file, frame->file ? frame->file : "");
		fprintf(file, ",%u]%s", frame->line, i ? "," : "");
	}
}

static void put_record(FILE *file, struct model *model, const struct model_process *process,
		       const struct trace_event *event, const struct trace_inflight *call)
{
	fprintf(file, "{\"kind\":\"record\",\"pid\":%" PRId64 ",\"tid\":%" PRId64,
		process->unique_pid, process->threads[event->thread].unique_tid);
	fprintf(file,
		",\"type\":\"%s\",\"form\":\"%s\",\"category\":\"%s\",\"name\":", event->type->name,
		form_name(event->type->form), wl_category_name(event->type->category));
	put_string(file,
		   call && *call->api ? call->api : model_event_name(model, process->index, event));
	fprintf(file, ",\"begin\":%" PRId64 ",\"end\":%" PRId64,
		call ? event->begin_ns : model_time(process, event->begin_ns),
		call ? event->end_ns : model_time(process, event->end_ns));
	fprintf(file, ",\"run\":%s",
		!call && model_arg_index(event->type, "polls") >= 0 ? "true" : "false");
	fprintf(file, ",\"inside\":%s,\"domain\":%" PRIu64 ",\"cls\":%u,\"status\":%" PRId64,
		event->flags & (WL_FLAG_IN_PROVIDER | WL_FLAG_INNER_LAYER) ? "true" : "false",
		named_arg(event, "domain"),
		call ? (event->type->number == WL_EV_cuda_wait ? WL_call_class_waits : 0)
		     : (unsigned)named_arg(event, "cls"),
		(int64_t)named_arg(event, "status"));
	fputs(",\"args\":{", file);
	if (call)
		fputs("\"did_not_return\":true", file);
	else
		put_args(file, model, process->index, event);
	fputs("},\"frames\":[", file);
	put_frames(file, model, process->index,
		   call ? call->stack : (uint32_t)named_arg(event, "stack"));
	fputs("]}\n", file);
}

/* The call a thread had not returned from ends with the recording. */
static void put_inflight(FILE *file, struct model *model, const struct model_process *process,
			 unsigned thread)
{
	struct trace_inflight *calls = calloc(4096, sizeof(*calls));
	unsigned count = calls ? model_inflight(model, process->index, calls, 4096) : 0;

	for (unsigned i = 0; i < count; i++) {
		struct trace_event last = {.type = calls[i].type, .thread = thread};

		if (calls[i].thread != thread || !calls[i].type)
			continue;
		last.begin_ns = model_time(process, calls[i].since_ns);
		last.end_ns = model_time(process, process->info.end_ns);
		if (last.end_ns < last.begin_ns)
			last.end_ns = last.begin_ns;
		put_record(file, model, process, &last, &calls[i]);
	}
	free(calls);
}

static int put_thread(FILE *file, struct model *model, const struct model_process *process,
		      unsigned thread)
{
	struct trace_event event;
	int error = 0;
	struct model_cursor *cursor = model_cursor_open(model, process->index, (int)thread, &error);

	if (!cursor)
		return error;
	fprintf(file, "{\"kind\":\"thread\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 "}\n",
		process->unique_pid, process->threads[thread].unique_tid);
	while (model_cursor_next(cursor, &event) > 0)
		put_record(file, model, process, &event, NULL);
	put_inflight(file, model, process, thread);
	model_cursor_close(cursor);
	return 0;
}

int dump_model(struct model *model, FILE *file)
{
	int error = 0;

	for (unsigned i = 0; i < model_process_count(model) && !error; i++) {
		const struct model_process *process = model_process(model, i);

		fprintf(file, "{\"kind\":\"process\",\"pid\":%" PRId64 ",\"end\":%" PRId64 "}\n",
			process->unique_pid, model_time(process, process->info.end_ns));
		for (unsigned t = 0; t < process->thread_count && !error; t++)
			error = put_thread(file, model, process, t);
	}
	return error || ferror(file) ? -1 : 0;
}
