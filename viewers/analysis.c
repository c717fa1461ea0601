/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass: every record of every process, once, merged by end.
 */
#include "viewers/analysis_pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A registration's identity is its page-rounded range. */
#define PAGE 4096u

void args_prepare(struct pass *pass)
{
	for (unsigned number = 0; number < WL_EV_MAX; number++) {
		const struct wl_event_type *type = wl_event_type(number);
		struct event_args *args = &pass->args[number];

		*args = (struct event_args){-1, -1, -1, -1, -1, -1};
		if (!type)
			continue;
		args->stack = model_arg_index(type, "stack");
		args->rule = model_arg_index(type, "rule");
		args->bytes = model_arg_index(type, "bytes");
		args->stream = model_arg_index(type, "stream");
		args->api = model_arg_index(type, "api");
		args->cls = model_arg_index(type, "cls");
	}
}

static uint64_t arg(const struct trace_event *event, int index)
{
	return index < 0 ? 0 : event->args[index];
}

/* --- synchronizations ------------------------------------------------------------------------- */

static uint64_t held_of(const struct trace_event *event)
{
	return (uint64_t)(event->end_ns - event->begin_ns);
}

static bool is_pageable(const struct trace_event *event)
{
	return event->type->number == WL_EV_cuda_copy &&
	       (MODEL_ARG(event, cuda_copy, src_kind) == WL_mem_kind_pageable ||
		MODEL_ARG(event, cuda_copy, dst_kind) == WL_mem_kind_pageable);
}

/* At its site and in the ranges around it. */
static void counted_add(struct pass *pass, struct site_table *sites,
			const struct trace_event *event, enum counted_kind kind,
			struct site_way *way)
{
	const struct event_args *args = &pass->args[event->type->number];
	const struct counted counted = {.begin_ns = event->begin_ns,
					.held_ns = held_of(event),
					.bytes = kind == COUNTED_HELD ? 0 : arg(event, args->bytes),
					.thread = event->thread,
					.kind = kind,
					.pageable = is_pageable(event),
					.way = way};

	histogram_prefetch(&way->site->held, counted.held_ns);
	if (!range_count(pass->ranges, &counted))
		pass->short_of_memory = true;
	if (!pass->again)
		site_add(sites, way, &counted, pass->process, (uint32_t)arg(event, args->api));
}

/* True if the wait is the explicit half of a copy that waited: counted with it. Only waits for a
 * stream can be: one for an event or a context is for something else too. */
static bool folds(struct pass *pass, const struct trace_event *event, uint64_t stream,
		  uint32_t stack)
{
	const struct last_copy *last = &pass->last[event->thread];
	uint64_t rule;

	if (event->type->number != WL_EV_cuda_wait || !last->armed || last->stream != stream)
		return false;
	rule = MODEL_ARG(event, cuda_wait, rule);
	return (rule == WL_rule_stream_wait || rule == WL_rule_legacy_wait) &&
	       site_same_place(pass->model, pass->process, last->stack, stack);
}

static void holds(struct pass *pass, const struct trace_event *event, unsigned cls)
{
	const struct event_args *args = &pass->args[event->type->number];
	uint64_t stream = arg(event, args->stream);
	uint32_t stack = (uint32_t)arg(event, args->stack);
	struct last_copy *last = &pass->last[event->thread];
	bool folded = folds(pass, event, stream, stack);
	struct site_way *way = folded ? last->way
				      : site_of(pass->sites, pass->process, stack,
						(unsigned)arg(event, args->rule), cls);

	if (!way) {
		pass->short_of_memory = true;
		return;
	}
	pass->analysis->held_ns += held_of(event);
	if (cls == WL_call_class_waits && !pass->again && !gpu_wait(pass->gpus, event, way))
		pass->short_of_memory = true;
	if (folded) {
		counted_add(pass, pass->sites, event, COUNTED_HELD, way);
		last->armed = false;
		return;
	}
	if (cls == WL_call_class_waits)
		pass->analysis->waits++;
	else
		pass->analysis->stages++;
	counted_add(pass, pass->sites, event,
		    cls == WL_call_class_waits ? COUNTED_WAIT : COUNTED_STAGE, way);
	*last = (struct last_copy){.armed = event->type->number == WL_EV_cuda_copy &&
					    cls == WL_call_class_waits,
				   .stream = stream,
				   .stack = stack,
				   .way = way};
}

static void copy_add(struct analysis *analysis, const struct trace_event *event)
{
	uint8_t src = (uint8_t)MODEL_ARG(event, cuda_copy, src_kind);
	uint8_t dst = (uint8_t)MODEL_ARG(event, cuda_copy, dst_kind);
	uint8_t cls = (uint8_t)MODEL_ARG(event, cuda_copy, cls);
	struct copy_stat *copy = analysis->copies;
	unsigned i = 0;

	while (i < analysis->copy_count &&
	       (copy[i].src_kind != src || copy[i].dst_kind != dst || copy[i].cls != cls))
		i++;
	if (i == sizeof(analysis->copies) / sizeof(analysis->copies[0]))
		return;
	if (i == analysis->copy_count)
		copy[analysis->copy_count++] =
			(struct copy_stat){.src_kind = src, .dst_kind = dst, .cls = cls};
	copy[i].count++;
	copy[i].bytes += MODEL_ARG(event, cuda_copy, bytes);
	copy[i].held_ns += (uint64_t)(event->end_ns - event->begin_ns);
}

/* Work that a later wait is also for. */
static bool gives_work(const struct trace_event *event)
{
	switch (event->type->number) {
	case WL_EV_cuda_launch:
	case WL_EV_cuda_copy:
	case WL_EV_cuda_memset:
	case WL_EV_cuda_graph:
		return true;
	case WL_EV_cuda_mem:
		return MODEL_ARG(event, cuda_mem, op) == WL_mem_op_prefetch;
	default:
		return false;
	}
}

bool looks_for_steps(const struct pass *pass)
{
	return pass->found && !pass->analysis->ranges_seen;
}

/* What repeats in the launches so far. */
static void period_settle(struct pass *pass)
{
	if (!pass->period_settled && looks_for_steps(pass) &&
	    !period_find(pass->launches, pass->launch_count, &pass->found[pass->process]))
		pass->short_of_memory = true;
	pass->period_settled = true;
	pass->launch_count = 0;
}

/* Launches tell steps apart where nothing else does. */
static void launch_log(struct pass *pass, const struct trace_event *event)
{
	bool graph = event->type->number == WL_EV_cuda_graph;
	uint64_t what = graph ? MODEL_ARG(event, cuda_graph, exec)
			: MODEL_ARG(event, cuda_launch, kernel)
				? MODEL_ARG(event, cuda_launch, kernel)
				: MODEL_ARG(event, cuda_launch, func);
	const struct launch launch = {.begin_ns = event->begin_ns,
				      .thread = event->thread,
				      .what = (uint32_t)(what ^ what >> 32) ^
					      (graph ? 0x80000000u : 0)};

	if (pass->period_settled) {
		if (!period_go_on(&pass->found[pass->process], &launch))
			pass->short_of_memory = true;
		return;
	}
	if (pass->launch_count == pass->launch_room) {
		size_t room = pass->launch_room ? pass->launch_room * 2 : 1024;
		struct launch *launches = realloc(pass->launches, room * sizeof(*launches));

		if (!launches) {
			pass->short_of_memory = true;
			return;
		}
		pass->launches = launches;
		pass->launch_room = room;
	}
	pass->launches[pass->launch_count++] = launch;
	if (pass->launch_count == PERIOD_LAUNCHES)
		period_settle(pass);
}

static void launch_event(struct pass *pass, const struct trace_event *event)
{
	const struct counted counted = {
		.begin_ns = event->begin_ns, .thread = event->thread, .kind = COUNTED_LAUNCH};

	if (event->type->number == WL_EV_cuda_graph &&
	    strncmp(model_event_name(pass->model, pass->process, event), "cuGraphLaunch", 13) != 0)
		return; /* made or taken down, not launched */
	pass->analysis->launches += event->type->number == WL_EV_cuda_launch;
	if (looks_for_steps(pass))
		launch_log(pass, event);
	if (!range_count(pass->ranges, &counted))
		pass->short_of_memory = true;
}

static void cuda_event(struct pass *pass, const struct trace_event *event)
{
	unsigned cls = (unsigned)arg(event, pass->args[event->type->number].cls);

	if (event->flags & WL_FLAG_CAPTURED) {
		pass->analysis->captured++;
		return;
	}
	if (event->type->number == WL_EV_cuda_copy)
		copy_add(pass->analysis, event);
	else if (event->type->number == WL_EV_cuda_launch ||
		 event->type->number == WL_EV_cuda_graph)
		launch_event(pass, event);
	if (cls == WL_call_class_waits || cls == WL_call_class_stages)
		holds(pass, event, cls);
	else if (gives_work(event))
		pass->last[event->thread].armed = false;
	if (cls == WL_call_class_polls)
		pass->analysis->polls++;
}

/* --- the fabric ------------------------------------------------------------------------------- */

static enum registration_kind kind_of(const struct trace_event *event)
{
	if ((int64_t)MODEL_ARG(event, ofi_mr_reg, fd) >= 0)
		return REGISTERED_DMABUF;
	return MODEL_ARG(event, ofi_mr_reg, iface) != WL_hmem_iface_system ? REGISTERED_DEVICE
									   : REGISTERED_HOST;
}

static struct site_way *registration_way(struct pass *pass, const struct trace_event *event)
{
	return site_of(pass->registration_sites, pass->process,
		       (uint32_t)MODEL_ARG(event, ofi_mr_reg, stack), WL_rule_none,
		       WL_call_class_none);
}

static void registration_event(struct pass *pass, const struct trace_event *event)
{
	struct analysis *analysis = pass->analysis;
	uint64_t bytes = MODEL_ARG(event, ofi_mr_reg, bytes);
	uint64_t first = MODEL_ARG(event, ofi_mr_reg, addr) / PAGE;
	uint64_t end = (MODEL_ARG(event, ofi_mr_reg, addr) + bytes + PAGE - 1) / PAGE;
	struct registration_stat *kind = &analysis->registered[kind_of(event)];
	struct site_way *way;

	analysis->registration_ns += held_of(event);
	kind->time_ns += held_of(event);
	if ((int64_t)MODEL_ARG(event, ofi_mr_reg, status) != 0) {
		analysis->registrations_failed++;
		kind->failed++;
		return;
	}
	kind->count++;
	kind->bytes += bytes;
	analysis->registrations++;
	analysis->registered_bytes += bytes;
	way = registration_way(pass, event);
	if (!way || (!pass->again && !reuse_access(pass->reuse, first, end, (end - first) * PAGE,
						   held_of(event), &way->site->repeated))) {
		pass->short_of_memory = true;
		return;
	}
	counted_add(pass, pass->registration_sites, event, COUNTED_REGISTRATION, way);
}

static void on_posted(void *user, const struct trace_event *post)
{
	struct pass *pass = user;

	if (post->flags & WL_FLAG_INNER_LAYER)
		return;
	if (!transfer_posted(pass->transfers, pass->process, post))
		pass->short_of_memory = true;
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct pass *pass = user;

	if (transfer->post.flags & WL_FLAG_INNER_LAYER)
		return;
	if (!transfer_ended(pass->transfers, pass->process, transfer) ||
	    !detour_transfer(pass->detours, transfer))
		pass->short_of_memory = true;
}

static void life_begins(struct registered_life *life, uint64_t bytes)
{
	life->live++;
	life->live_bytes += bytes;
	life->now_bytes += bytes;
	if (life->now_bytes > life->peak_bytes)
		life->peak_bytes = life->now_bytes;
}

static void life_ends(struct registered_life *life, uint64_t bytes,
		      const struct model_registration *registration)
{
	life->now_bytes -= bytes;
	if (!registration->closed) /* alive when the recording ended: live */
		return;
	life->live--;
	life->live_bytes -= bytes;
	histogram_add(&life->lifetime, (uint64_t)(registration->end_ns - registration->reg.end_ns));
}

/* Of the place where it was made; NULL when memory is short. */
static struct registered_life *life_at_place(struct pass *pass,
					     const struct model_registration *registration)
{
	struct site_way *way = registration_way(pass, &registration->reg);

	if (way && !way->site->life)
		way->site->life = calloc(1, sizeof(*way->site->life));
	if (way && way->site->life)
		return way->site->life;
	pass->short_of_memory = true;
	return NULL;
}

static void on_registered(void *user, const struct model_registration *registration)
{
	struct pass *pass = user;
	uint64_t bytes = MODEL_ARG(&registration->reg, ofi_mr_reg, bytes);
	struct registered_life *life;

	if (registration->reg.flags & WL_FLAG_INNER_LAYER)
		return;
	life = life_at_place(pass, registration);
	if (life)
		life_begins(life, bytes);
	life_begins(&pass->analysis->registered[kind_of(&registration->reg)].life, bytes);
	pass->analysis->registrations_live++;
	pass->analysis->registered_live_bytes += bytes;
	pass->live_bytes += bytes;
	if (pass->live_bytes > pass->analysis->registered_peak_bytes)
		pass->analysis->registered_peak_bytes = pass->live_bytes;
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct pass *pass = user;
	uint64_t bytes = MODEL_ARG(&registration->reg, ofi_mr_reg, bytes);
	struct registered_life *life;

	if (registration->reg.flags & WL_FLAG_INNER_LAYER)
		return;
	life = life_at_place(pass, registration);
	if (life)
		life_ends(life, bytes, registration);
	life_ends(&pass->analysis->registered[kind_of(&registration->reg)].life, bytes,
		  registration);
	if (!registration->closed)
		return;
	pass->analysis->registrations_live--;
	pass->analysis->registered_live_bytes -= bytes;
	pass->live_bytes -= bytes;
	histogram_add(&pass->analysis->registration_lifetime,
		      (uint64_t)(registration->end_ns - registration->reg.end_ns));
}

static void on_range_begin(void *user, const struct model_range *range)
{
	struct pass *pass = user;

	pass->analysis->ranges_seen = true;
	if (!range_begin(pass->ranges, range))
		pass->short_of_memory = true;
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct pass *pass = user;

	if (!range_end(pass->ranges, range))
		pass->short_of_memory = true;
}

static void network_wait(struct pass *pass, const struct trace_event *event)
{
	const struct counted counted = {.begin_ns = event->begin_ns,
					.held_ns = held_of(event),
					.thread = event->thread,
					.kind = COUNTED_NETWORK};

	if (!range_count(pass->ranges, &counted))
		pass->short_of_memory = true;
}

/* --- the pass --------------------------------------------------------------------------------- */

static void fabric_setup(struct pass *pass, const struct trace_event *event)
{
	uint32_t api = (uint32_t)arg(event, pass->args[event->type->number].api);
	int status = model_arg_index(event->type, "status");

	setup_event(pass->analysis, model_string(pass->model, pass->process, api), event,
		    status >= 0 && (int32_t)event->args[status] < 0);
}

static void event_add(struct pass *pass, const struct trace_event *event)
{
	struct analysis *analysis = pass->analysis;

	analysis->events++;
	if (wl_event_type(event->type->number) != event->type)
		return; /* a type of another build: nothing is known of it */
	if (event->flags & WL_FLAG_INNER_LAYER)
		return; /* what the job asked for is counted, not what that took inside */
	if (!pass->again && !detour_event(pass->detours, pass->process, event))
		pass->short_of_memory = true;
	switch (event->type->number) {
	case WL_EV_ofi_mr_reg:
		registration_event(pass, event);
		break;
	case WL_EV_ofi_post:
		analysis->posts++;
		break;
	case WL_EV_ofi_completion:
		analysis->completions++;
		break;
	case WL_EV_ofi_poll:
		analysis->empty_polls += MODEL_ARG(event, ofi_poll, polls);
		network_wait(pass, event);
		break;
	case WL_EV_ofi_wait:
		network_wait(pass, event);
		break;
	default:
		if (event->type->category <= WL_CAT_cuda_setup)
			cuda_event(pass, event);
		else if (!pass->again && event->type->category == WL_CAT_ofi_setup)
			fabric_setup(pass, event);
		else if (!pass->again && event->type->category == WL_CAT_gpu &&
			 !gpu_event(pass->gpus, event))
			pass->short_of_memory = true;
	}
}

/* Calls that wait, or may. A launch does so at most once, at the first use of its code: it is taken for
 * one that does not. */
static bool may_wait(const struct wl_event_type *type)
{
	switch (type ? type->number : 0) {
	case WL_EV_cuda_wait:
	case WL_EV_cuda_copy:
	case WL_EV_cuda_memset:
	case WL_EV_cuda_mem:
	case WL_EV_cuda_setup:
		return wl_event_type(type->number) == type;
	default:
		return false;
	}
}

/* CUDA calls that could have waited and never returned: whether they did is not known. */
static void unreturned(struct pass *pass)
{
	struct trace_inflight calls[256];
	unsigned count = model_inflight(pass->model, pass->process, calls, 256);

	for (unsigned i = 0; i < count; i++) {
		const struct trace_inflight *call = &calls[i];
		const struct counted counted = {.begin_ns = call->since_ns,
						.thread = call->thread,
						.kind = COUNTED_UNRETURNED};

		if (!may_wait(call->type))
			continue;
		pass->analysis->unreturned++;
		if (!range_count(pass->ranges, &counted))
			pass->short_of_memory = true;
	}
}

/* --- steps that the job does not name --------------------------------------------------------- */

/* Steps begin and end with what was found to begin them. */
static void steps_feed(struct pass *pass, int64_t until)
{
	const struct period *period = &pass->periods[pass->process];

	for (; pass->step < period->count && period->times[pass->step] <= until; pass->step++) {
		struct model_range range = {.serial = pass->step,
					    .name = FOUND_STEPS,
					    .thread = period->thread,
					    .begin_ns = period->times[pass->step],
					    .closed = true};
		bool good = true;

		if (pass->step) {
			range.serial--;
			range.begin_ns = period->times[pass->step - 1];
			range.end_ns = period->times[pass->step];
			good = range_end(pass->ranges, &range);
			range.begin_ns = range.end_ns;
			range.serial++;
		}
		if (pass->step + 1 < period->count)
			good &= range_begin(pass->ranges, &range);
		if (!good)
			pass->short_of_memory = true;
	}
}

static int events_read(struct pass *pass, struct model_matcher *matcher)
{
	struct trace_event event;
	int error = 0, more;
	struct model_cursor *cursor =
		model_cursor_open(pass->model, pass->process, MODEL_ALL_THREADS, &error);

	if (!cursor)
		return error;
	while ((more = model_cursor_next(cursor, &event)) > 0) {
		if (pass->periods)
			steps_feed(pass, event.end_ns);
		/* Ranges that it opens or closes first, then what is counted inside. */
		if (!pass->again || event.type->category == WL_CAT_nvtx)
			model_matcher_feed(matcher, &event);
		event_add(pass, &event);
	}
	unreturned(pass);
	model_matcher_finish(matcher);
	range_process_end(pass->ranges);
	if (!pass->again) {
		period_settle(pass);
		transfer_process_end(pass->transfers);
		detour_process_end(pass->detours);
		gpu_process_end(pass->gpus);
		if (!reuse_forget(pass->reuse))
			pass->short_of_memory = true;
	}
	model_cursor_close(cursor);
	/* A recording that cannot be read to its end is incomplete, not an error. */
	if (more < 0)
		pass->analysis->incomplete_processes +=
			!model_process(pass->model, pass->process)->incomplete;
	return pass->short_of_memory ? -ENOMEM : 0;
}

int process_read(struct pass *pass)
{
	static const struct model_match_ops ops = {.posted = on_posted,
						   .transfer = on_transfer,
						   .registered = on_registered,
						   .unregistered = on_unregistered,
						   .range_begin = on_range_begin,
						   .range_end = on_range_end};
	static const struct model_match_ops ranges = {.range_begin = on_range_begin,
						      .range_end = on_range_end};
	const struct model_process *process = model_process(pass->model, pass->process);
	struct model_matcher *matcher =
		model_matcher_new(pass->model, pass->process, pass->again ? &ranges : &ops, pass);
	int error = -ENOMEM;

	pass->live_bytes = 0;
	pass->step = 0;
	pass->launch_count = 0;
	pass->period_settled = false;
	pass->last = calloc(process->thread_count + 1u, sizeof(*pass->last));
	if (matcher && pass->last)
		error = events_read(pass, matcher);
	model_matcher_free(matcher);
	free(pass->last);
	return error;
}

const char *process_attribute(const struct model_process *process, const char *key)
{
	for (unsigned i = 0; i < process->info.attribute_count; i++)
		if (strcmp(process->info.attributes[i][0], key) == 0)
			return process->info.attributes[i][1];
	return NULL;
}

static bool setting_off(const struct model_process *process, const char *key)
{
	const char *value = process_attribute(process, key);

	return value && strcmp(value, "0") == 0;
}

/* How many ranks the launcher started, and how many of them left a recording. Processes come in order
 * of rank. */
static void ranks_count(struct analysis *analysis)
{
	int last = -1;

	for (unsigned i = 0; i < model_process_count(analysis->model); i++) {
		const struct trace_info *info = &model_process(analysis->model, i)->info;

		if (info->rank < 0)
			continue;
		if (info->world_size > (int)analysis->ranks)
			analysis->ranks = (unsigned)info->world_size;
		analysis->ranks_seen += info->rank != last;
		last = info->rank;
	}
}

void totals(struct analysis *analysis)
{
	int64_t first, last, realtime;

	model_bounds(analysis->model, &first, &last, &realtime);
	analysis->wall_ns = last - first;
	ranks_count(analysis);
	analysis->unreadable = model_unreadable_count(analysis->model);
	for (unsigned i = 0; i < model_process_count(analysis->model); i++) {
		const struct model_process *process = model_process(analysis->model, i);

		if (process->info.end_ns > process->info.start_ns)
			analysis->process_ns +=
				(uint64_t)(process->info.end_ns - process->info.start_ns);
		analysis->drops_lost += process->drops_lost;
		analysis->overwritten += process->info.drops[TRACE_DROP_OVERWRITTEN];
		analysis->cuda_off += setting_off(process, "setting.cuda");
		analysis->ofi_off += setting_off(process, "setting.ofi");
		analysis->incomplete_processes += process->incomplete;
		analysis->simulated |= process->info.simulated;
	}
}
