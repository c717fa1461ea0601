/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass: every record of every process, once, merged by end.
 */
#include "viewers/analysis_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	struct site *site;
};

struct pass {
	struct analysis *analysis;
	struct model *model;
	unsigned process;
	struct event_args args[WL_EV_MAX];
	struct site_table *sites, *registration_sites;
	struct range_table *ranges;
	struct mr_table *registrations;
	struct last_copy *last; /* one a thread */
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

static void counted_add(struct pass *pass, const struct trace_event *event, enum counted_kind kind)
{
	struct counted counted = {.begin_ns = event->begin_ns,
				  .held_ns = (uint64_t)(event->end_ns - event->begin_ns),
				  .thread = event->thread,
				  .kind = kind};

	if (!range_count(pass->ranges, &counted))
		pass->short_of_memory = true;
}

/* True if the wait is the explicit half of a copy that waited: counted with it. */
static bool folds(struct pass *pass, const struct trace_event *event, uint64_t stream,
		  uint32_t stack)
{
	const struct last_copy *last = &pass->last[event->thread];

	return event->type->number == WL_EV_cuda_wait && last->armed && last->stream == stream &&
	       site_same_place(pass->model, pass->process, last->stack, stack);
}

static void holds(struct pass *pass, const struct trace_event *event, unsigned cls)
{
	const struct event_args *args = &pass->args[event->type->number];
	uint64_t held = (uint64_t)(event->end_ns - event->begin_ns);
	uint64_t stream = arg(event, args->stream);
	uint32_t stack = (uint32_t)arg(event, args->stack);
	struct last_copy *last = &pass->last[event->thread];
	struct analysis *analysis = pass->analysis;
	struct site *site;

	if (folds(pass, event, stream, stack)) {
		last->site->folded++;
		histogram_add(&last->site->held, held);
		site_api(last->site, pass->sites, pass->process, (uint32_t)arg(event, args->api));
		analysis->held_ns += held;
		last->armed = false;
		return;
	}
	site = site_of(pass->sites, pass->process, stack, (unsigned)arg(event, args->rule), cls);
	if (!site) {
		pass->short_of_memory = true;
		return;
	}
	site->count++;
	site->bytes += arg(event, args->bytes);
	histogram_add(&site->held, held);
	site_api(site, pass->sites, pass->process, (uint32_t)arg(event, args->api));
	analysis->held_ns += held;
	if (cls == WL_call_class_waits)
		analysis->waits++;
	else
		analysis->stages++;
	counted_add(pass, event, cls == WL_call_class_waits ? COUNTED_WAIT : COUNTED_STAGE);
	*last = (struct last_copy){.armed = event->type->number == WL_EV_cuda_copy &&
					    cls == WL_call_class_waits,
				   .stream = stream,
				   .stack = stack,
				   .site = site};
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

static bool gives_work(unsigned number)
{
	return number == WL_EV_cuda_launch || number == WL_EV_cuda_copy ||
	       number == WL_EV_cuda_memset || number == WL_EV_cuda_graph;
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
	else if (gives_work(event->type->number))
		pass->last[event->thread].armed = false;
	if (cls == WL_call_class_polls)
		pass->analysis->polls++;
}

/* --- the fabric ------------------------------------------------------------------------------- */

static void registration_event(struct pass *pass, const struct trace_event *event)
{
	struct analysis *analysis = pass->analysis;
	uint64_t held = (uint64_t)(event->end_ns - event->begin_ns);
	uint64_t bytes = MODEL_ARG(event, ofi_mr_reg, bytes);
	bool repeated = false;
	struct site *site;

	analysis->registration_ns += held;
	if ((int64_t)MODEL_ARG(event, ofi_mr_reg, status) != 0) {
		analysis->registrations_failed++;
		return;
	}
	analysis->registrations++;
	analysis->registered_bytes += bytes;
	counted_add(pass, event, COUNTED_REGISTRATION);
	site = site_of(pass->registration_sites, pass->process,
		       (uint32_t)MODEL_ARG(event, ofi_mr_reg, stack), WL_rule_none,
		       WL_call_class_none);
	if (!site || !mr_add(pass->registrations, pass->process, MODEL_ARG(event, ofi_mr_reg, addr),
			     bytes, &repeated)) {
		pass->short_of_memory = true;
		return;
	}
	site->count++;
	site->bytes += bytes;
	site->repeated += repeated;
	analysis->registrations_repeated += repeated;
	histogram_add(&site->held, held);
	site_api(site, pass->registration_sites, pass->process,
		 (uint32_t)MODEL_ARG(event, ofi_mr_reg, api));
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
	struct analysis *analysis = ((struct pass *)user)->analysis;

	analysis->registrations_live++;
	analysis->registered_live_bytes += MODEL_ARG(&registration->reg, ofi_mr_reg, bytes);
	if (analysis->registered_live_bytes > analysis->registered_peak_bytes)
		analysis->registered_peak_bytes = analysis->registered_live_bytes;
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct analysis *analysis = ((struct pass *)user)->analysis;

	if (!registration->closed) /* alive when the recording ended: live */
		return;
	analysis->registrations_live--;
	analysis->registered_live_bytes -= MODEL_ARG(&registration->reg, ofi_mr_reg, bytes);
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct pass *pass = user;

	if (!range_add(pass->ranges, range))
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

static int process_read(struct pass *pass)
{
	static const struct model_match_ops ops = {.transfer = on_transfer,
						   .registered = on_registered,
						   .unregistered = on_unregistered,
						   .range_end = on_range_end};
	const struct model_process *process = model_process(pass->model, pass->process);
	struct model_matcher *matcher = model_matcher_new(pass->model, pass->process, &ops, pass);
	struct model_cursor *cursor = NULL;
	struct trace_event event;
	int error = -ENOMEM, more = 0;

	pass->last = calloc(process->thread_count + 1, sizeof(*pass->last));
	if (matcher && pass->last)
		cursor = model_cursor_open(pass->model, pass->process, MODEL_ALL_THREADS, &error);
	if (cursor) {
		while ((more = model_cursor_next(cursor, &event)) > 0) {
			event_add(pass, &event);
			model_matcher_feed(matcher, &event);
		}
		model_matcher_finish(matcher);
		if (!range_process_end(pass->ranges, pass->process))
			pass->short_of_memory = true;
		error = pass->short_of_memory ? -ENOMEM : 0;
		model_cursor_close(cursor);
	}
	model_matcher_free(matcher);
	free(pass->last);
	/* A recording that cannot be read to its end is incomplete, not an error. */
	if (more < 0)
		pass->analysis->incomplete_processes += !process->incomplete;
	return error;
}

static void totals(struct analysis *analysis)
{
	int64_t first, last, realtime;

	model_bounds(analysis->model, &first, &last, &realtime);
	analysis->wall_ns = last - first;
	for (unsigned i = 0; i < model_process_count(analysis->model); i++) {
		const struct model_process *process = model_process(analysis->model, i);

		analysis->drops_lost += process->drops_lost;
		analysis->incomplete_processes += process->incomplete;
		analysis->simulated |= process->info.simulated;
	}
}

/* Sites and ranges outlive the pass inside the analysis. */
struct owned {
	struct analysis analysis;
	struct site_table *sites, *registration_sites;
	struct range_table *ranges;
};

int analysis_run(struct model *model, const struct analysis_options *options,
		 struct analysis **analysis, char *err, size_t err_size)
{
	struct owned *owned = calloc(1, sizeof(*owned));
	struct pass pass = {.model = model};
	int error = owned ? 0 : -ENOMEM;

	*analysis = NULL;
	if (owned) {
		owned->analysis.model = model;
		pass.analysis = &owned->analysis;
		pass.sites = owned->sites = site_table_new(model);
		pass.registration_sites = owned->registration_sites = site_table_new(model);
		pass.ranges = owned->ranges = range_table_new(options);
		pass.registrations = mr_table_new();
		if (!pass.sites || !pass.registration_sites || !pass.ranges || !pass.registrations)
			error = -ENOMEM;
		args_prepare(&pass);
		totals(&owned->analysis);
	}
	for (unsigned i = 0; !error && i < model_process_count(model); i++) {
		pass.process = i;
		error = process_read(&pass);
	}
	mr_table_free(pass.registrations);
	if (error) {
		(void)snprintf(err, err_size, "analysing the recording: %s", strerror(-error));
		if (owned)
			analysis_free(&owned->analysis);
		return error;
	}
	*analysis = &owned->analysis;
	(*analysis)->sites = site_table_sorted(owned->sites, &(*analysis)->site_count);
	(*analysis)->registration_sites =
		site_table_sorted(owned->registration_sites, &(*analysis)->registration_site_count);
	(*analysis)->ranges = range_table_list(owned->ranges, &(*analysis)->range_count);
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
	free(analysis->sites);
	free(analysis->registration_sites);
	free(analysis->ranges);
	free(owned);
}

const struct range_stat *analysis_range(const struct analysis *analysis, const char *name)
{
	for (unsigned i = 0; i < analysis->range_count; i++)
		if (strcmp(analysis->ranges[i]->name, name) == 0)
			return analysis->ranges[i];
	return NULL;
}
