/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass: every record of every process, once, merged by end.
 */
#include "viewers/analysis_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A registration's identity is its page-rounded range. */
#define PAGE 4096u

/* Where an event type of this build keeps what the pass looks at; -1 where it has none. */
struct event_args {
	int stack, rule, bytes, stream, api;
};

/* A copy that waited, until the thread gives the device more work: an explicit wait on its stream
 * from the same place is the same synchronization. */
struct last_copy {
	bool armed;
	uint64_t stream;
	uint32_t stack;
	struct site_way *way;
};

struct pass {
	struct analysis *analysis;
	struct model *model;
	unsigned process;
	struct event_args args[WL_EV_MAX];
	struct site_table *sites, *registration_sites;
	struct range_table *ranges;
	struct reuse *reuse;
	struct last_copy *last; /* one a thread */
	uint64_t live_bytes;    /* registered, of the process being read */
	bool short_of_memory;
};

static void args_prepare(struct pass *pass)
{
	for (unsigned number = 0; number < WL_EV_MAX; number++) {
		const struct wl_event_type *type = wl_event_type(number);
		struct event_args *args = &pass->args[number];

		*args = (struct event_args){-1, -1, -1, -1, -1};
		if (!type)
			continue;
		args->stack = model_arg_index(type, "stack");
		args->rule = model_arg_index(type, "rule");
		args->bytes = model_arg_index(type, "bytes");
		args->stream = model_arg_index(type, "stream");
		args->api = model_arg_index(type, "api");
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

static void counted_add(struct pass *pass, const struct trace_event *event, enum counted_kind kind,
			const struct site_way *way)
{
	const struct counted counted = {.begin_ns = event->begin_ns,
					.held_ns = held_of(event),
					.thread = event->thread,
					.kind = kind,
					.way = way};

	if (!range_count(pass->ranges, &counted))
		pass->short_of_memory = true;
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
	uint32_t stack = (uint32_t)arg(event, args->stack), api = (uint32_t)arg(event, args->api);
	struct last_copy *last = &pass->last[event->thread];
	bool folded = folds(pass, event, stream, stack);
	struct site_way *way = folded ? last->way
				      : site_of(pass->sites, pass->process, stack,
						(unsigned)arg(event, args->rule), cls);

	if (!way) {
		pass->short_of_memory = true;
		return;
	}
	site_add(pass->sites, way, !folded, held_of(event), folded ? 0 : arg(event, args->bytes),
		 pass->process, api);
	pass->analysis->held_ns += held_of(event);
	if (folded) {
		counted_add(pass, event, COUNTED_HELD, way);
		last->armed = false;
		return;
	}
	if (cls == WL_call_class_waits)
		pass->analysis->waits++;
	else
		pass->analysis->stages++;
	counted_add(pass, event, cls == WL_call_class_waits ? COUNTED_WAIT : COUNTED_STAGE, way);
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

static void cuda_event(struct pass *pass, const struct trace_event *event)
{
	unsigned cls = model_event_class(event);

	if (event->flags & WL_FLAG_CAPTURED) {
		pass->analysis->captured++;
		return;
	}
	if (event->type->number == WL_EV_cuda_copy)
		copy_add(pass->analysis, event);
	else if (event->type->number == WL_EV_cuda_launch)
		pass->analysis->launches++;
	if (cls == WL_call_class_waits || cls == WL_call_class_stages)
		holds(pass, event, cls);
	else if (gives_work(event))
		pass->last[event->thread].armed = false;
	if (cls == WL_call_class_polls)
		pass->analysis->polls++;
}

/* --- the fabric ------------------------------------------------------------------------------- */

static void registration_event(struct pass *pass, const struct trace_event *event)
{
	struct analysis *analysis = pass->analysis;
	uint64_t bytes = MODEL_ARG(event, ofi_mr_reg, bytes);
	uint64_t first = MODEL_ARG(event, ofi_mr_reg, addr) / PAGE;
	uint64_t end = (MODEL_ARG(event, ofi_mr_reg, addr) + bytes + PAGE - 1) / PAGE;
	bool repeated = false;
	struct site_way *way;

	analysis->registration_ns += held_of(event);
	if ((int64_t)MODEL_ARG(event, ofi_mr_reg, status) != 0) {
		analysis->registrations_failed++;
		return;
	}
	analysis->registrations++;
	analysis->registered_bytes += bytes;
	way = site_of(pass->registration_sites, pass->process,
		      (uint32_t)MODEL_ARG(event, ofi_mr_reg, stack), WL_rule_none,
		      WL_call_class_none);
	if (!way || !reuse_access(pass->reuse, first, end, (end - first) * PAGE, held_of(event),
				  &repeated)) {
		pass->short_of_memory = true;
		return;
	}
	site_add(pass->registration_sites, way, true, held_of(event), bytes, pass->process,
		 (uint32_t)MODEL_ARG(event, ofi_mr_reg, api));
	counted_add(pass, event, COUNTED_REGISTRATION, way);
	way->site->repeated += repeated;
	analysis->registrations_repeated += repeated;
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct pass *pass = user;
	uint8_t op = (uint8_t)MODEL_ARG(&transfer->post, ofi_post, op);
	struct transfer_stat *stat = &pass->analysis->transfers[op < WL_ofi_op_MAX ? op : 0];
	int64_t latency = transfer->end_ns - transfer->post.begin_ns;

	stat->op = op;
	stat->count++;
	stat->bytes += transfer->bytes;
	stat->unfinished +=
		transfer->how == MODEL_TRANSFER_UNFINISHED || transfer->how == MODEL_TRANSFER_LOST;
	stat->failed += transfer->failed;
	stat->approximate += !transfer->exact;
	stat->retries += MODEL_ARG(&transfer->post, ofi_post, retries);
	if (transfer->how == MODEL_TRANSFER_COMPLETED || transfer->how == MODEL_TRANSFER_AT_RETURN)
		histogram_add(&stat->latency, (uint64_t)(latency > 0 ? latency : 0));
}

static void on_registered(void *user, const struct model_registration *registration)
{
	struct pass *pass = user;

	pass->analysis->registrations_live++;
	pass->live_bytes += MODEL_ARG(&registration->reg, ofi_mr_reg, bytes);
	if (pass->live_bytes > pass->analysis->registered_peak_bytes)
		pass->analysis->registered_peak_bytes = pass->live_bytes;
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct pass *pass = user;

	if (!registration->closed) /* alive when the recording ended: live */
		return;
	pass->analysis->registrations_live--;
	pass->live_bytes -= MODEL_ARG(&registration->reg, ofi_mr_reg, bytes);
}

static void on_range_begin(void *user, const struct model_range *range)
{
	struct pass *pass = user;

	if (!range_begin(pass->ranges, range))
		pass->short_of_memory = true;
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct pass *pass = user;

	if (!range_end(pass->ranges, range))
		pass->short_of_memory = true;
}

/* --- the pass --------------------------------------------------------------------------------- */

static void event_add(struct pass *pass, const struct trace_event *event)
{
	struct analysis *analysis = pass->analysis;

	analysis->events++;
	if (event->type->number >= WL_EV_MAX || wl_event_type(event->type->number) != event->type)
		return; /* a type of another build: nothing is known of it */
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
		break;
	default:
		if (event->type->category <= WL_CAT_cuda_setup)
			cuda_event(pass, event);
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

static int events_read(struct pass *pass, struct model_matcher *matcher)
{
	struct trace_event event;
	int error = 0, more;
	struct model_cursor *cursor =
		model_cursor_open(pass->model, pass->process, MODEL_ALL_THREADS, &error);

	if (!cursor)
		return error;
	while ((more = model_cursor_next(cursor, &event)) > 0) {
		/* Ranges that it opens or closes first, then what is counted inside. */
		model_matcher_feed(matcher, &event);
		event_add(pass, &event);
	}
	unreturned(pass);
	model_matcher_finish(matcher);
	range_process_end(pass->ranges);
	if (!reuse_forget(pass->reuse))
		pass->short_of_memory = true;
	model_cursor_close(cursor);
	/* A recording that cannot be read to its end is incomplete, not an error. */
	if (more < 0)
		pass->analysis->incomplete_processes +=
			!model_process(pass->model, pass->process)->incomplete;
	return pass->short_of_memory ? -ENOMEM : 0;
}

static int process_read(struct pass *pass)
{
	static const struct model_match_ops ops = {.transfer = on_transfer,
						   .registered = on_registered,
						   .unregistered = on_unregistered,
						   .range_begin = on_range_begin,
						   .range_end = on_range_end};
	const struct model_process *process = model_process(pass->model, pass->process);
	struct model_matcher *matcher = model_matcher_new(pass->model, pass->process, &ops, pass);
	int error = -ENOMEM;

	pass->live_bytes = 0;
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

static void totals(struct analysis *analysis)
{
	int64_t first, last, realtime;

	model_bounds(analysis->model, &first, &last, &realtime);
	analysis->wall_ns = last - first;
	ranks_count(analysis);
	analysis->unreadable = model_unreadable_count(analysis->model);
	for (unsigned i = 0; i < model_process_count(analysis->model); i++) {
		const struct model_process *process = model_process(analysis->model, i);

		analysis->drops_lost += process->drops_lost;
		analysis->overwritten += process->info.drops[TRACE_DROP_OVERWRITTEN];
		analysis->cuda_off += setting_off(process, "setting.cuda");
		analysis->ofi_off += setting_off(process, "setting.ofi");
		analysis->incomplete_processes += process->incomplete;
		analysis->simulated |= process->info.simulated;
	}
}

/* Sites and ranges outlive the pass inside the analysis. */
struct owned {
	struct analysis analysis;
	struct site_table *sites, *registration_sites;
	struct range_table *ranges;
	struct reuse *reuse;
};

static int results(struct owned *owned)
{
	struct analysis *analysis = &owned->analysis;

	analysis->sites = site_table_sorted(owned->sites, &analysis->site_count);
	analysis->registration_sites =
		site_table_sorted(owned->registration_sites, &analysis->registration_site_count);
	if (!analysis->sites || !analysis->registration_sites ||
	    !range_table_results(owned->ranges, analysis) ||
	    !reuse_curves(owned->reuse, &analysis->cache_entries, &analysis->cache_bytes))
		return -ENOMEM;
	return 0;
}

static int pass_run(struct pass *pass, struct owned *owned, const struct analysis_options *options)
{
	int error = 0;

	owned->analysis.model = pass->model;
	pass->analysis = &owned->analysis;
	pass->sites = owned->sites = site_table_new(pass->model, options);
	pass->registration_sites = owned->registration_sites = site_table_new(pass->model, options);
	pass->ranges = owned->ranges = range_table_new(options);
	pass->reuse = owned->reuse = reuse_new();
	if (!pass->sites || !pass->registration_sites || !pass->ranges || !pass->reuse)
		error = -ENOMEM;
	args_prepare(pass);
	totals(&owned->analysis);
	for (unsigned i = 0; !error && i < model_process_count(pass->model); i++) {
		pass->process = i;
		error = process_read(pass);
	}
	return error ? error : results(owned);
}

int analysis_run(struct model *model, const struct analysis_options *options,
		 struct analysis **analysis, char *err, size_t err_size)
{
	struct owned *owned = calloc(1, sizeof(*owned));
	struct pass pass = {.model = model};
	int error = owned ? pass_run(&pass, owned, options) : -ENOMEM;

	*analysis = NULL;
	if (error) {
		(void)snprintf(err, err_size, "analysing the recording: %s%s", strerror(-error),
			       error == -ENOMEM ? "; give fewer recordings at once" : "");
		analysis_free(owned ? &owned->analysis : NULL);
		return error;
	}
	*analysis = &owned->analysis;
	return 0;
}

void analysis_free(struct analysis *analysis)
{
	struct owned *owned = (struct owned *)analysis;

	if (!owned)
		return;
	site_table_free(owned->sites);
	site_table_free(owned->registration_sites);
	range_table_free(owned->ranges);
	reuse_free(owned->reuse);
	free(analysis->sites);
	free(analysis->registration_sites);
	free(analysis->ranges);
	free(owned);
}

uint64_t unreturned_ns(const struct model_process *process, const struct trace_inflight *call)
{
	const struct trace_info *info = &process->info;
	int64_t seen = info->end_ns;

	/* Clocks are noted also while nothing is recorded. */
	if (info->clock_count && info->clocks[info->clock_count - 1].monotonic_ns > seen)
		seen = info->clocks[info->clock_count - 1].monotonic_ns;
	return seen > call->since_ns ? (uint64_t)(seen - call->since_ns) : 0;
}

const struct range_stat *analysis_range(const struct analysis *analysis, const char *name)
{
	for (unsigned i = 0; i < analysis->range_count; i++)
		if (strcmp(analysis->ranges[i]->name, name) == 0)
			return analysis->ranges[i];
	return NULL;
}
