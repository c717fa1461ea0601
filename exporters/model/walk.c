/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a process's records for an exporter.
 */
#include "exporters/model/match.h"
#include "exporters/model/walk.h"

#include <errno.h>
#include <stdlib.h>

#define WINDOW       1024
#define INFLIGHT_MAX 4096

struct walk {
	struct model *model;
	const struct model_process *process;
	const struct walk_ops *ops;
	void *user;
	struct nest *nest;
	const struct trace_inflight *calls;
	unsigned call_count;
	bool *merged;
	struct select_nest select;
};

/* The call the thread had not returned from, as a record that ends with the recording. */
static void feed_inflight(struct walk *walk, unsigned thread, int64_t end_ns)
{
	for (unsigned i = 0; i < walk->call_count; i++) {
		const struct trace_inflight *call = &walk->calls[i];
		struct trace_event event = {.type = call->type, .thread = thread};

		if (call->thread != thread || !call->type || call->type->form != WL_FORM_CALL)
			continue;
		event.begin_ns = model_time(walk->process, call->since_ns);
		event.end_ns = end_ns > event.begin_ns ? end_ns : event.begin_ns;
		nest_feed(walk->nest, &event, 0, call);
		return; /* a thread is in one call */
	}
}

/* What a device did is no doing of the thread that brought the record. */
static bool is_of_device(const struct wl_event_type *type)
{
	return type->category == WL_CAT_gpu && type == wl_event_type(type->number);
}

static bool is_shown_merged(const struct wl_event_type *type)
{
	return type->category == WL_CAT_ofi_xfer || type->category == WL_CAT_ofi_mr ||
	       type == wl_event_type(WL_EV_nvtx_start) || is_of_device(type);
}

static int check(const struct walk *walk, unsigned thread, int64_t now_ns)
{
	const struct trace_thread *info = &walk->process->threads[thread].info;
	double length = (double)info->last_ns - (double)info->first_ns;
	double at = (double)now_ns - (double)info->first_ns;
	unsigned part =
		at > 0 && length > 0 ? (unsigned)(at < length ? at / length * 1000 : 1000) : 0;

	if (!walk->ops->check)
		return 0;
	return walk->ops->check(walk->user, (thread * 1000 + part) / walk->process->thread_count);
}

enum kind { KIND_OTHER, KIND_POST, KIND_COMPLETION, KIND_DEVICE_CALL, KIND_OF_DEVICE, KIND_RUN };

static enum kind find_kind(const struct wl_event_type *type)
{
	if (type == wl_event_type(WL_EV_ofi_post))
		return KIND_POST;
	if (type == wl_event_type(WL_EV_ofi_completion))
		return KIND_COMPLETION;
	if (match_gpu_is_call(type))
		return KIND_DEVICE_CALL;
	if (is_of_device(type))
		return KIND_OF_DEVICE;
	return type->form == WL_FORM_CALL && model_arg_index(type, "polls") >= 0 ? KIND_RUN
										 : KIND_OTHER;
}

/* Types seen, with what they are: found out once a type, not once a record. */
struct kinds {
	const struct wl_event_type *types[64];
	enum kind kinds[64];
	bool merged[64]; /* is_shown_merged() */
};

static enum kind kind_of(struct kinds *kinds, const struct wl_event_type *type, bool *merged)
{
	unsigned slot = type->number % 64;

	if (kinds->types[slot] != type) {
		kinds->types[slot] = type;
		kinds->kinds[slot] = find_kind(type);
		kinds->merged[slot] = is_shown_merged(type);
	}
	*merged |= kinds->merged[slot];
	return kinds->kinds[slot];
}

static bool run_shown(const struct walk *walk, const struct trace_event *event)
{
	struct selection *selection = walk->select.selection;
	unsigned process = walk->process->index;

	if (model_event_class(event) == WL_call_class_waits)
		return select_shows(selection, process, event->type->category, event->begin_ns,
				    event->end_ns);
	return select_takes(selection, process, event->type->category, event->begin_ns,
			    event->end_ns);
}

static int feed_records(struct walk *walk, unsigned thread)
{
	uint64_t ordinals[KIND_RUN + 1] = {0}, records = 0;
	struct kinds kinds = {0};
	struct trace_event event;
	int error = 0;
	struct model_cursor *cursor =
		model_cursor_open(walk->model, walk->process->index, (int)thread, &error);

	if (!cursor)
		return error;
	/* An unreadable rest is damage, which the process says of itself; what was read is shown. */
	while (!error && model_cursor_next(cursor, &event) > 0) {
		enum kind kind = kind_of(&kinds, event.type, walk->merged);

		if (++records % WALK_CHECK_EVERY == 0)
			error = check(walk, thread, event.end_ns);
		event.begin_ns = model_time(walk->process, event.begin_ns);
		event.end_ns = model_time(walk->process, event.end_ns);
		if (kind == KIND_OF_DEVICE)
			continue;
		if (kind == KIND_RUN) {
			if (run_shown(walk, &event))
				walk->ops->run(walk->user, &event);
		} else
			nest_feed(walk->nest, &event, ordinals[kind]++, NULL);
	}
	model_cursor_close(cursor);
	return error;
}

static void add_nest_counts(struct nest_counts *to, const struct nest_counts *from,
			    const struct select_nest *told)
{
	to->slices += told ? told->slices : from->slices;
	to->instants += told ? told->instants : from->instants;
	to->split += from->split;
	to->too_deep += from->too_deep;
	to->orphans += from->orphans;
	to->adjusted += from->adjusted;
}

int walk_threads(struct model *model, unsigned index, struct selection *selection,
		 const struct walk_ops *ops, void *user, struct nest_counts *counts, bool *merged)
{
	const struct model_process *process = model_process(model, index);
	struct trace_inflight *calls = calloc(INFLIGHT_MAX, sizeof(*calls));
	struct walk walk = {.model = model,
			    .process = process,
			    .ops = ops,
			    .user = user,
			    .calls = calls,
			    .merged = merged,
			    .select = {.selection = selection,
				       .process = process,
				       .ops = &ops->nest,
				       .user = user}};
	int64_t end_ns = model_time(process, process->info.end_ns);
	int error;

	/* Without a selection nothing stands in between. */
	walk.nest = selection ? nest_new(&select_nest_ops, &walk.select, WINDOW)
			      : nest_new(&ops->nest, user, WINDOW);
	error = walk.nest && calls ? 0 : -ENOMEM;

	if (!error)
		walk.call_count = model_inflight(model, index, calls, INFLIGHT_MAX);
	for (unsigned thread = 0; thread < process->thread_count && !error; thread++) {
		ops->thread(user, thread);
		error = check(&walk, thread, process->threads[thread].info.first_ns);
		if (!error)
			error = feed_records(&walk, thread);
		feed_inflight(&walk, thread, end_ns);
		nest_finish(walk.nest, end_ns);
	}
	if (walk.nest)
		add_nest_counts(counts, nest_counts(walk.nest), selection ? &walk.select : NULL);
	select_nest_done(&walk.select);
	nest_free(walk.nest);
	free(calls);
	return error;
}

void walk_add_match_counts(struct model_match_counts *to, const struct model_match_counts *from)
{
	to->transfers += from->transfers;
	to->exact += from->exact;
	to->approximate += from->approximate;
	to->at_return += from->at_return;
	to->unfinished += from->unfinished;
	to->lost += from->lost;
	to->completions_unmatched += from->completions_unmatched;
	to->pops_unmatched += from->pops_unmatched;
	to->closes_unmatched += from->closes_unmatched;
	to->activities += from->activities;
	to->activities_called += from->activities_called;
}

int walk_merged(struct model *model, unsigned process, const struct model_match_ops *ops,
		void *user, int (*stop)(void *user), struct model_match_counts *counts)
{
	struct trace_event event;
	int error = 0;
	struct model_matcher *matcher = model_matcher_new(model, process, ops, user);
	struct model_cursor *cursor = model_cursor_open(model, process, MODEL_ALL_THREADS, &error);

	if (!matcher && !error)
		error = -ENOMEM;
	while (!error && model_cursor_next(cursor, &event) > 0) {
		model_matcher_feed(matcher, &event);
		error = stop(user);
	}
	if (!error) {
		model_matcher_finish(matcher);
		error = stop(user);
		walk_add_match_counts(counts, model_matcher_counts(matcher));
	}
	model_cursor_close(cursor);
	model_matcher_free(matcher);
	return error;
}

bool item_waits(const struct nest_item *item, int cls_index)
{
	/* Of a call in flight no arguments are known; an explicit wait it is all the same. */
	if (item->inflight)
		return item->event.type == wl_event_type(WL_EV_cuda_wait);
	return cls_index >= 0 && item->event.args[cls_index] == WL_call_class_waits;
}
