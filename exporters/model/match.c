/* SPDX-License-Identifier: Apache-2.0
 *
 * The matcher: one pass over a process's records, handed to the matchers of transfers, ranges and device work.
 */
#include "exporters/model/match.h"

#include "exporters/model/messages.h"

#include <stdlib.h>

struct model_matcher {
	struct match_context context;
	struct match_transfers *transfers;
	struct match_ranges *ranges;
	struct match_gpu *gpu;
	bool finished;
};

static struct model_matcher *matcher_new(struct model *model, unsigned process,
					 const struct model_match_ops *ops, void *user,
					 bool senders)
{
	struct model_matcher *matcher = calloc(1, sizeof(*matcher));

	if (!matcher)
		return NULL;
	matcher->context.model = model;
	matcher->context.process = process;
	matcher->context.ops = ops;
	matcher->context.user = user;
	matcher->context.now_ns = INT64_MIN;
	matcher->transfers = match_transfers_new(&matcher->context);
	matcher->ranges = match_ranges_new(&matcher->context);
	matcher->gpu = match_gpu_new(&matcher->context);
	if (model->senders)
		matcher->context.messages =
			match_messages_new(&matcher->context, model->senders, senders);
	if (!matcher->transfers || !matcher->ranges || !matcher->gpu ||
	    (model->senders && !matcher->context.messages)) {
		model_matcher_free(matcher);
		return NULL;
	}
	return matcher;
}

struct model_matcher *model_matcher_new(struct model *model, unsigned process,
					const struct model_match_ops *ops, void *user)
{
	return matcher_new(model, process, ops, user, false);
}

struct model_matcher *model_matcher_new_senders(struct model *model, unsigned process)
{
	static const struct model_match_ops none;

	return matcher_new(model, process, &none, NULL, true);
}

void model_matcher_feed(struct model_matcher *matcher, const struct trace_event *event)
{
	if (event->end_ns > matcher->context.now_ns)
		matcher->context.now_ns = event->end_ns;
	/* A type of another build may carry one of our numbers. */
	if (event->type != wl_event_type(event->type->number))
		return;
	if (event->type->category == WL_CAT_nvtx)
		match_ranges_feed(matcher->ranges, event);
	else if (event->type->category == WL_CAT_gpu || match_gpu_is_call(event->type))
		match_gpu_feed(matcher->gpu, event);
	else if (event->type->number >= WL_EV_ofi_mr_reg) {
		if (matcher->context.messages)
			match_messages_feed(matcher->context.messages, event);
		match_transfers_feed(matcher->transfers, event);
	}
}

void model_matcher_finish(struct model_matcher *matcher)
{
	const struct model_process *process =
		model_process(matcher->context.model, matcher->context.process);
	int64_t end_ns = process->info.end_ns;

	if (matcher->finished)
		return;
	matcher->finished = true;
	if (matcher->context.now_ns > end_ns)
		end_ns = matcher->context.now_ns;
	match_transfers_finish(matcher->transfers, end_ns);
	match_ranges_finish(matcher->ranges, end_ns);
	match_gpu_finish(matcher->gpu);
}

const struct model_match_counts *model_matcher_counts(const struct model_matcher *matcher)
{
	return &matcher->context.counts;
}

void model_matcher_free(struct model_matcher *matcher)
{
	if (!matcher)
		return;
	match_transfers_free(matcher->transfers);
	match_ranges_free(matcher->ranges);
	match_gpu_free(matcher->gpu);
	match_messages_free(matcher->context.messages);
	free(matcher);
}
