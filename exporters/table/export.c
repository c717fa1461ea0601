/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as tables: one merged pass over each process feeds its records and what the matcher makes
 * of them into a sink.
 */
#include "exporters/json_args.h"
#include "exporters/model/number_map.h"
#include "exporters/model/walk.h"
#include "exporters/table/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_EVERY  16384 /* records */
#define INFLIGHT_MAX 4096

struct table_export {
	struct model *model;
	const struct export_options *options;
	struct export_result *result;
	struct table_sink *sink;
	const struct model_process *process;
	struct json args;
	struct json_types types;
	struct number_map stacks; /* of the process, told already */
	char **sites;             /* by number in stacks */
	uint32_t site_capacity;
	uint64_t events;
	int64_t last_end_ns;
};

#define SET_INT(row, table, column, value)  set_number(row, COL_##table##_##column, (int64_t)(value))
#define SET_TEXT(row, table, column, value) set_text(row, COL_##table##_##column, value)

static void set_number(struct table_row *row, unsigned column, int64_t value)
{
	row->set |= 1u << column;
	row->values[column].number = value;
}

/* An empty text is an absent one. */
static void set_text(struct table_row *row, unsigned column, const char *text)
{
	if (!text || !*text)
		return;
	row->set |= 1u << column;
	row->values[column].text = text;
}

static void put(struct table_export *export, enum table table, const struct table_row *row)
{
	if (export->sink->tables & 1u << table)
		export->sink->ops->row(export->sink, table, row);
}

static const char *string_of(struct table_export *export, uint64_t id)
{
	return model_string(export->model, export->process->index, (uint32_t)id);
}

static int64_t time_of(const struct table_export *export, int64_t monotonic_ns)
{
	return model_time(export->process, monotonic_ns);
}

/* --- stacks ------------------------------------------------------------------------------------- */

static void put_frames(struct table_export *export, uint32_t id, const struct model_stack *stack)
{
	for (unsigned i = 0; i < stack->count; i++) {
		const struct model_frame *frame = &stack->frames[i];
		bool native = frame->kind == TRACE_FRAME_NATIVE;
		struct table_row row = {0};

		SET_INT(&row, stacks, process, export->process->index);
		SET_INT(&row, stacks, stack, id);
		SET_INT(&row, stacks, depth, i);
		SET_TEXT(&row, stacks, kind, native ? "native" : "python");
		SET_TEXT(&row, stacks, function, frame->function);
		SET_TEXT(&row, stacks, file, frame->file);
		if (frame->line)
			SET_INT(&row, stacks, line, frame->line);
		if (native) {
			SET_TEXT(&row, stacks, module, frame->module);
			SET_INT(&row, stacks, offset, frame->offset);
		}
		SET_INT(&row, stacks, site, i == stack->site);
		SET_INT(&row, stacks, awaited, frame->awaited);
		put(export, TABLE_stacks, &row);
	}
}

/* The site's text; the first time, the stack's frames are told as well. "" without a stack. */
static const char *site_of(struct table_export *export, uint32_t id)
{
	const struct model_stack *stack;
	uint32_t number;
	char text[1024];
	bool fresh;

	if (!id || export->options->no_stacks)
		return "";
	number = number_map_get(&export->stacks, id, &fresh);
	if (!number)
		return "";
	if (!fresh)
		return export->sites[number - 1] ? export->sites[number - 1] : "";
	if (number > export->site_capacity) {
		uint32_t capacity = export->site_capacity * 2 + 64;
		char **more = realloc(export->sites, capacity * sizeof(*more));

		if (!more) {
			export->sink->error = -ENOMEM;
			return "";
		}
		memset(more + export->site_capacity, 0,
		       (capacity - export->site_capacity) * sizeof(*more));
		export->sites = more;
		export->site_capacity = capacity;
	}
	stack = model_stack(export->model, export->process->index, id);
	put_frames(export, id, stack);
	(void)model_frame_text(model_site(export->model, export->process->index, id), text,
			       sizeof(text));
	export->sites[number - 1] = strdup(text);
	return export->sites[number - 1] ? export->sites[number - 1] : "";
}

static void forget_stacks(struct table_export *export)
{
	for (uint32_t i = 0; i < export->site_capacity; i++) {
		free(export->sites[i]);
		export->sites[i] = NULL;
	}
	number_map_clear(&export->stacks);
}

/* --- events ------------------------------------------------------------------------------------- */

static void put_sync(struct table_export *export, const struct table_row *event,
		     const struct trace_event *record, const struct json_type *kept)
{
	const struct wl_rule_info *rule;
	struct table_row row = {0};
	int stream = model_arg_index(record->type, "stream");

	SET_INT(&row, syncs, event, event->values[COL_events_event].number);
	SET_INT(&row, syncs, process, export->process->index);
	SET_INT(&row, syncs, thread, record->thread);
	SET_TEXT(&row, syncs, name, event->values[COL_events_name].text);
	SET_INT(&row, syncs, begin_ns, event->values[COL_events_begin_ns].number);
	SET_INT(&row, syncs, held_ns, event->values[COL_events_dur_ns].number);
	if (kept->rule >= 0) {
		rule = wl_rule_info((unsigned)record->args[kept->rule]);
		SET_TEXT(&row, syncs, rule, rule->word);
		SET_TEXT(&row, syncs, waits_for, rule->waits_for);
		SET_TEXT(&row, syncs, condition, rule->condition);
		SET_TEXT(&row, syncs, remedy, rule->remedy);
	}
	if (event->set & 1u << COL_events_bytes)
		SET_INT(&row, syncs, bytes, event->values[COL_events_bytes].number);
	if (stream >= 0)
		SET_INT(&row, syncs, stream, record->args[stream]);
	if (event->set & 1u << COL_events_stack)
		SET_INT(&row, syncs, stack, event->values[COL_events_stack].number);
	if (event->set & 1u << COL_events_site)
		SET_TEXT(&row, syncs, site, event->values[COL_events_site].text);
	put(export, TABLE_syncs, &row);
	export->result->synchronizations++;
}

static void set_class(struct table_row *row, const struct trace_event *event,
		      const struct json_type *kept)
{
	static const char *const words[] = {"", "waits", "stages", "polls", "device_only"};

	if (kept->cls >= 0 && event->args[kept->cls] < sizeof(words) / sizeof(words[0]))
		SET_TEXT(row, events, class, words[event->args[kept->cls]]);
}

static void set_args(struct table_export *export, struct table_row *row,
		     const struct trace_event *event)
{
	struct json *args = &export->args;

	if (export->options->no_args || !(export->sink->tables & 1u << TABLE_events))
		return;
	json_raw(args, "{");
	(void)json_args(args, &export->types, export->model, export->process->index, event);
	json_raw(args, "}");
	SET_TEXT(row, events, args, json_memory_text(args));
}

/* Rows are never thinned out. The times are the recording's. */
static bool shown(const struct table_export *export, enum wl_category category, int64_t begin_ns,
		  int64_t end_ns)
{
	return select_shows(export->options->selection, export->process->index, category,
			    time_of(export, begin_ns), time_of(export, end_ns));
}

/* name: of a call that had not returned, whose arguments nobody knows; else NULL. */
static void put_event(struct table_export *export, const struct trace_event *event,
		      const char *inflight, uint32_t inflight_stack)
{
	const struct wl_event_type *type = event->type;
	const struct json_type *kept = json_type_of(&export->types, type);
	struct table_row row = {0};
	int64_t begin = time_of(export, event->begin_ns), end = time_of(export, event->end_ns);
	int bytes = model_arg_index(type, "bytes"), status = model_arg_index(type, "status");
	uint32_t stack = inflight_stack;
	const char *name = inflight;

	if (!inflight && kept->stack >= 0)
		stack = (uint32_t)event->args[kept->stack];
	if (!inflight && kept->name >= 0)
		name = string_of(export, event->args[kept->name]);
	SET_INT(&row, events, event, ++export->events);
	SET_INT(&row, events, process, export->process->index);
	SET_INT(&row, events, thread, event->thread);
	SET_TEXT(&row, events, type, type->name);
	SET_TEXT(&row, events, category, wl_category_name(type->category));
	SET_TEXT(&row, events, form, wl_form_name(type->form));
	SET_TEXT(&row, events, name, name && *name ? name : type->name);
	SET_INT(&row, events, begin_ns, begin);
	if (stack) {
		SET_INT(&row, events, stack, stack);
		SET_TEXT(&row, events, site, site_of(export, stack));
	}
	if (inflight) {
		put(export, TABLE_events, &row);
		return;
	}
	SET_INT(&row, events, end_ns, end);
	SET_INT(&row, events, dur_ns, end - begin);
	if (status >= 0)
		SET_INT(&row, events, status, event->args[status]);
	if (bytes >= 0)
		SET_INT(&row, events, bytes, event->args[bytes]);
	set_class(&row, event, kept);
	set_args(export, &row, event);
	put(export, TABLE_events, &row);
	if (kept->cls >= 0 && event->args[kept->cls] == WL_call_class_waits)
		put_sync(export, &row, event, kept);
}

static void put_inflight(struct table_export *export)
{
	struct trace_inflight *calls = calloc(INFLIGHT_MAX, sizeof(*calls));
	unsigned count =
		calls ? model_inflight(export->model, export->process->index, calls, INFLIGHT_MAX)
		      : 0;

	for (unsigned i = 0; i < count; i++) {
		struct trace_event event = {.type = calls[i].type, .thread = calls[i].thread};

		if (!calls[i].type)
			continue;
		event.begin_ns = event.end_ns = calls[i].since_ns;
		if (shown(export, event.type->category, event.begin_ns,
			  export->process->info.end_ns))
			put_event(export, &event, calls[i].api, calls[i].stack);
	}
	free(calls);
}

/* --- what is matched ---------------------------------------------------------------------------- */

static const char *word_of(const struct trace_event *event, unsigned index)
{
	const struct wl_arg *arg = &event->type->args[index];
	uint64_t value = event->args[index];

	return arg->enumeration && value < arg->enumeration->count ? arg->enumeration->words[value]
								   : "";
}

static const char *matched_word(const struct model_transfer *transfer)
{
	static const char *const words[MODEL_TRANSFER_END_MAX] = {"by order", "at return",
								  "unfinished", "lost"};

	return transfer->how == MODEL_TRANSFER_COMPLETED && transfer->exact ? "exact"
									    : words[transfer->how];
}

#define POST(arg) MODEL_ARG(post, ofi_post, arg)

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct table_export *export = user;
	const struct trace_event *post = &transfer->post;
	int64_t begin = time_of(export, post->begin_ns), end = time_of(export, transfer->end_ns);
	const char *name = string_of(export, POST(api));
	struct table_row row = {0};

	if (!shown(export, WL_CAT_ofi_xfer, post->begin_ns, transfer->end_ns))
		return;
	SET_INT(&row, transfers, process, export->process->index);
	SET_INT(&row, transfers, thread, post->thread);
	SET_TEXT(&row, transfers, name, *name ? name : post->type->name);
	SET_TEXT(&row, transfers, op, word_of(post, WL_ARG(ofi_post, op)));
	SET_INT(&row, transfers, post_ns, begin);
	SET_INT(&row, transfers, post_dur_ns, time_of(export, post->end_ns) - begin);
	SET_INT(&row, transfers, end_ns, end);
	SET_INT(&row, transfers, dur_ns, end - begin);
	if (transfer->how == MODEL_TRANSFER_COMPLETED)
		SET_INT(&row, transfers, completion_thread, transfer->completion_thread);
	SET_TEXT(&row, transfers, matched, matched_word(transfer));
	SET_INT(&row, transfers, endpoint, POST(ep));
	SET_TEXT(&row, transfers, provider, string_of(export, transfer->provider));
	if (POST(peer) != UINT64_MAX)
		SET_INT(&row, transfers, peer, POST(peer));
	SET_INT(&row, transfers, tag, POST(tag));
	SET_INT(&row, transfers, bytes, transfer->bytes);
	SET_INT(&row, transfers, posted_bytes, POST(bytes));
	SET_INT(&row, transfers, addr, POST(addr));
	SET_INT(&row, transfers, remote_addr, POST(remote_addr));
	SET_INT(&row, transfers, retries, POST(retries));
	SET_TEXT(&row, transfers, iface, word_of(post, WL_ARG(ofi_post, iface)));
	SET_INT(&row, transfers, status, transfer->failed ? transfer->status : 0);
	put(export, TABLE_transfers, &row);
	export->result->transfers++;
}

#define REG(arg) MODEL_ARG(reg, ofi_mr_reg, arg)

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct table_export *export = user;
	const struct trace_event *reg = &registration->reg;
	int64_t begin = time_of(export, reg->begin_ns);
	const char *name = string_of(export, REG(api));
	struct table_row row = {0};

	if (!shown(export, WL_CAT_ofi_mr, reg->begin_ns, registration->end_ns))
		return;
	SET_INT(&row, registrations, process, export->process->index);
	SET_INT(&row, registrations, thread, reg->thread);
	SET_TEXT(&row, registrations, name, *name ? name : reg->type->name);
	SET_INT(&row, registrations, begin_ns, begin);
	SET_INT(&row, registrations, cost_ns, time_of(export, reg->end_ns) - begin);
	if (registration->closed)
		SET_INT(&row, registrations, end_ns, time_of(export, registration->end_ns));
	SET_INT(&row, registrations, handle, REG(mr));
	SET_INT(&row, registrations, addr, REG(addr));
	SET_INT(&row, registrations, bytes, REG(bytes));
	SET_INT(&row, registrations, ranges, REG(ranges));
	SET_TEXT(&row, registrations, iface, word_of(reg, WL_ARG(ofi_mr_reg, iface)));
	SET_INT(&row, registrations, device, REG(device));
	SET_INT(&row, registrations, dmabuf, (int64_t)REG(fd) >= 0);
	SET_INT(&row, registrations, key, REG(key));
	SET_INT(&row, registrations, access, REG(access));
	if (REG(stack)) {
		SET_INT(&row, registrations, stack, REG(stack));
		SET_TEXT(&row, registrations, site, site_of(export, (uint32_t)REG(stack)));
	}
	put(export, TABLE_registrations, &row);
	export->result->registrations++;
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct table_export *export = user;
	int64_t begin = time_of(export, range->begin_ns);
	struct table_row row = {0};

	if (!shown(export, WL_CAT_nvtx, range->begin_ns, range->end_ns))
		return;
	SET_INT(&row, ranges, process, export->process->index);
	SET_INT(&row, ranges, thread, range->thread);
	SET_TEXT(&row, ranges, name, range->name);
	SET_TEXT(&row, ranges, domain, range->domain);
	SET_INT(&row, ranges, begin_ns, begin);
	if (range->closed) {
		SET_INT(&row, ranges, end_ns, time_of(export, range->end_ns));
		SET_INT(&row, ranges, dur_ns, time_of(export, range->end_ns) - begin);
		SET_INT(&row, ranges, end_thread, range->end_thread);
	}
	SET_INT(&row, ranges, depth, range->depth);
	put(export, TABLE_ranges, &row);
}

static void on_activity(void *user, const struct model_activity *activity)
{
	struct table_export *export = user;
	const struct trace_event *event = &activity->event;
	int64_t begin = time_of(export, event->begin_ns), end = time_of(export, event->end_ns);
	struct json *args = &export->args;
	struct table_row row = {0};
	static const struct {
		const char *arg;
		unsigned column;
		bool zero; /* 0 is a value */
	} numbers[] = {
		{"device", COL_gpu_device, true}, {"context", COL_gpu_context, true},
		{"stream", COL_gpu_stream, true}, {"correlation", COL_gpu_correlation, false},
		{"bytes", COL_gpu_bytes, true},   {"graph", COL_gpu_graph, false},
	};

	if (!shown(export, WL_CAT_gpu, event->begin_ns, event->end_ns))
		return;
	SET_INT(&row, gpu, process, export->process->index);
	SET_TEXT(&row, gpu, kind, event->type->name + strlen("gpu_"));
	if (event->type->number == WL_EV_gpu_kernel)
		SET_TEXT(&row, gpu, name, string_of(export, MODEL_ARG(event, gpu_kernel, name)));
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int index = model_arg_index(event->type, numbers[i].arg);

		if (index >= 0 && (numbers[i].zero || event->args[index]))
			set_number(&row, numbers[i].column, (int64_t)event->args[index]);
	}
	SET_INT(&row, gpu, begin_ns, begin);
	SET_INT(&row, gpu, end_ns, end);
	SET_INT(&row, gpu, dur_ns, end - begin);
	if (activity->called) {
		SET_INT(&row, gpu, call_thread, activity->thread);
		SET_INT(&row, gpu, call_ns, time_of(export, activity->call_begin_ns));
	}
	if (!export->options->no_args && export->sink->tables & 1u << TABLE_gpu) {
		json_raw(args, "{");
		(void)json_args(args, &export->types, export->model, export->process->index, event);
		json_raw(args, "}");
		SET_TEXT(&row, gpu, args, json_memory_text(args));
	}
	put(export, TABLE_gpu, &row);
	export->result->activities++;
}

static const struct model_match_ops match_callbacks = {
	.activity = on_activity,
	.transfer = on_transfer,
	.unregistered = on_unregistered,
	.range_end = on_range_end,
};

/* --- the whole ---------------------------------------------------------------------------------- */

static void put_meta(struct table_export *export, const char *key, const char *value)
{
	struct table_row row = {0};

	SET_TEXT(&row, meta, key, key);
	SET_TEXT(&row, meta, value, value);
	put(export, TABLE_meta, &row);
}

static void put_meta_number(struct table_export *export, const char *key, int64_t value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%lld", (long long)value);
	put_meta(export, key, text);
}

static void put_head(struct table_export *export)
{
	int64_t first_ns, last_ns, realtime_ns;

	model_bounds(export->model, &first_ns, &last_ns, &realtime_ns);
	put_meta(export, "version", WAYLAY_VERSION);
	put_meta(export, "run", model_run(export->model));
	put_meta_number(export, "start_ns", first_ns);
	put_meta_number(export, "end_ns", last_ns);
	put_meta_number(export, "start_realtime_ns", realtime_ns);
	for (unsigned i = 0; i < model_note_count(export->model); i++)
		put_meta(export, "note", model_note(export->model, i));
}

static void put_process(struct table_export *export)
{
	const struct model_process *process = export->process;
	const struct trace_info *info = &process->info;
	struct table_row row = {0};

	SET_INT(&row, processes, process, process->index);
	SET_INT(&row, processes, pid, info->pid);
	SET_INT(&row, processes, ppid, info->ppid);
	SET_TEXT(&row, processes, host, info->host);
	if (info->rank >= 0)
		SET_INT(&row, processes, rank, info->rank);
	if (info->world_size >= 0)
		SET_INT(&row, processes, world_size, info->world_size);
	if (info->local_rank >= 0)
		SET_INT(&row, processes, local_rank, info->local_rank);
	SET_TEXT(&row, processes, name, info->process_name);
	SET_TEXT(&row, processes, command, info->command);
	SET_TEXT(&row, processes, run, info->run);
	SET_INT(&row, processes, start_ns, time_of(export, info->start_ns));
	SET_INT(&row, processes, end_ns, time_of(export, info->end_ns));
	SET_INT(&row, processes, ended, info->ended);
	SET_INT(&row, processes, complete, !process->incomplete);
	SET_INT(&row, processes, drops, process->drops_lost);
	SET_TEXT(&row, processes, damage, info->damage);
	SET_INT(&row, processes, simulated, info->simulated);
	if (process->clock_error_ns >= 0)
		SET_INT(&row, processes, clock_error_ns, process->clock_error_ns);
	SET_TEXT(&row, processes, recording, info->path);
	put(export, TABLE_processes, &row);
	for (unsigned i = 0; i < info->attribute_count; i++) {
		struct table_row fact = {0};

		SET_INT(&fact, facts, process, process->index);
		SET_TEXT(&fact, facts, key, info->attributes[i][0]);
		SET_TEXT(&fact, facts, value, info->attributes[i][1]);
		put(export, TABLE_facts, &fact);
	}
	for (unsigned i = 0; i < process->thread_count; i++) {
		struct table_row thread = {0};

		SET_INT(&thread, threads, process, process->index);
		SET_INT(&thread, threads, thread, i);
		SET_INT(&thread, threads, tid, process->threads[i].info.tid);
		SET_TEXT(&thread, threads, name, process->threads[i].info.name);
		put(export, TABLE_threads, &thread);
	}
}

static int check(struct table_export *export, int64_t now_ns)
{
	const struct export_options *options = export->options;
	const struct trace_info *info = &export->process->info;
	double length = (double)info->end_ns - (double)info->start_ns;
	double at = ((double)now_ns - (double)info->start_ns) / (length > 0 ? length : 1);
	unsigned count = model_process_count(export->model);
	double done;

	if (export->sink->error || !options->progress)
		return export->sink->error;
	done = (export->process->index + (at < 0 ? 0 : at > 1 ? 1 : at)) / count;
	return options->progress(options->user, (unsigned)(done * 1000)) ? -EINTR : 0;
}

static int export_records(struct table_export *export)
{
	unsigned index = export->process->index;
	struct trace_event event;
	uint64_t records = 0;
	int error = 0;
	struct model_matcher *matcher =
		model_matcher_new(export->model, index, &match_callbacks, export);
	struct model_cursor *cursor =
		model_cursor_open(export->model, index, MODEL_ALL_THREADS, &error);

	if (!matcher && !error)
		error = -ENOMEM;
	if (!error)
		error = check(export, export->process->info.start_ns);
	/* An unreadable rest is damage, which the process says of itself; what was read is told. */
	while (!error && model_cursor_next(cursor, &event) > 0) {
		if (shown(export, event.type->category, event.begin_ns, event.end_ns))
			put_event(export, &event, NULL, 0);
		model_matcher_feed(matcher, &event);
		error = ++records % CHECK_EVERY ? export->sink->error : check(export, event.end_ns);
	}
	if (!error) {
		put_inflight(export);
		model_matcher_finish(matcher);
		walk_add_match_counts(&export->result->match, model_matcher_counts(matcher));
	}
	model_cursor_close(cursor);
	model_matcher_free(matcher);
	return error ? error : export->sink->error;
}

static struct table_sink *open_sink(enum table_format format, const char *path, uint32_t tables,
				    const struct export_options *options, int *error, char *err,
				    size_t err_size)
{
	size_t length = strlen(path);

	switch (format) {
	case TABLE_FORMAT_CSV:
		return table_csv_open(path, tables, options, error, err, err_size);
	case TABLE_FORMAT_JSONL:
		return table_jsonl_open(path, tables,
					options->compress != EXPORT_COMPRESS_NONE ||
						(length > 3 && !strcmp(path + length - 3, ".gz")),
					options, error, err, err_size);
	default:
		return table_sqlite_open(path, tables, options, error, err, err_size);
	}
}

uint32_t table_mask(const char *name)
{
	for (unsigned i = 0; i < TABLE_MAX; i++) {
		if (!strcmp(table_info(i)->name, name))
			return 1u << i;
	}
	return 0;
}

const char *table_name(unsigned number)
{
	return number < TABLE_MAX ? table_info(number)->name : NULL;
}

int table_export(struct model *model, const char *path, enum table_format format, uint32_t tables,
		 const struct export_options *options, struct export_result *result, char *err,
		 size_t err_size)
{
	static const struct export_options defaults;
	struct export_result unused = {0};
	struct table_export export = {.model = model,
				      .options = options ? options : &defaults,
				      .result = result ? result : &unused};
	int error;

	memset(export.result, 0, sizeof(*export.result));
	if (err_size)
		*err = 0;
	export.sink = open_sink(format, path, tables ? tables : (1u << TABLE_MAX) - 1,
				export.options, &error, err, err_size);
	if (!export.sink)
		return error;
	error = json_memory_open(&export.args);
	if (!error)
		error = number_map_init(&export.stacks);
	if (!error)
		put_head(&export);
	for (unsigned i = 0; i < model_process_count(model) && !error; i++) {
		export.process = model_process(model, i);
		if (!select_process(export.options->selection, export.process))
			continue;
		put_process(&export);
		error = export_records(&export);
		forget_stacks(&export);
	}
	if (!error && export.options->progress &&
	    export.options->progress(export.options->user, 1000))
		error = -EINTR;
	export.result->slices = export.events;
	error = export.sink->ops->close(export.sink, error == export.sink->error ? 0 : error,
					&export.result->bytes, err, err_size);
	json_memory_close(&export.args);
	number_map_done(&export.stacks);
	free(export.sites);
	return error;
}
