/* SPDX-License-Identifier: Apache-2.0
 *
 * Instances of named ranges: pushes to pops by thread and domain, starts to ends by their id.
 */
#include "exporters/model/match.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX   4096 /* of one thread: deeper pushes are not followed, their pops neither */
#define TEXT_CACHED 256

struct open_range {
	uint32_t text, domain, color;
	int64_t begin_ns;
	uint64_t serial;
};

struct range_stack {
	struct open_range *ranges;
	unsigned count, capacity;
	unsigned beyond; /* pushes above DEPTH_MAX */
};

/* A range between threads. */
struct across {
	struct open_node node; /* key: its id, 0 */
	struct open_range range;
	uint32_t thread;
};

struct match_ranges {
	struct match_context *context;
	struct range_stack *stacks; /* by thread */
	unsigned thread_count;
	struct open_table across;
	uint64_t serial;
	/* Texts of the model by the recording's ids. */
	uint32_t cached_ids[TEXT_CACHED];
	const char *cached_texts[TEXT_CACHED];
};

struct match_ranges *match_ranges_new(struct match_context *context)
{
	struct match_ranges *ranges = calloc(1, sizeof(*ranges));

	if (!ranges)
		return NULL;
	ranges->context = context;
	ranges->thread_count = context->model->processes[context->process]->public.thread_count;
	ranges->stacks = calloc(ranges->thread_count + 1u, sizeof(*ranges->stacks));
	if (open_table_init(&ranges->across, sizeof(struct across)) || !ranges->stacks) {
		match_ranges_free(ranges);
		return NULL;
	}
	return ranges;
}

void match_ranges_free(struct match_ranges *ranges)
{
	if (!ranges)
		return;
	for (unsigned i = 0; ranges->stacks && i < ranges->thread_count; i++)
		free(ranges->stacks[i].ranges);
	free(ranges->stacks);
	open_table_done(&ranges->across);
	free(ranges);
}

static const char *text_of(struct match_ranges *ranges, uint32_t id)
{
	struct model *model = ranges->context->model;
	unsigned slot = (id ^ id >> 8) % TEXT_CACHED;

	if (!id)
		return "";
	if (ranges->cached_ids[slot] != id) {
		ranges->cached_texts[slot] =
			text_keep(model->texts, model_string(model, ranges->context->process, id));
		ranges->cached_ids[slot] = id;
	}
	return ranges->cached_texts[slot];
}

static struct model_range describe(struct match_ranges *ranges, const struct open_range *open,
				   uint32_t thread)
{
	return (struct model_range){
		.serial = open->serial,
		.name = text_of(ranges, open->text),
		.domain = text_of(ranges, open->domain),
		.name_id = open->text,
		.domain_id = open->domain,
		.color = open->color,
		.process = ranges->context->process,
		.thread = thread,
		.end_thread = thread,
		.begin_ns = open->begin_ns,
		.end_ns = open->begin_ns,
	};
}

static void tell_begin(struct match_ranges *ranges, const struct model_range *range)
{
	if (ranges->context->ops->range_begin)
		ranges->context->ops->range_begin(ranges->context->user, range);
}

static void tell_end(struct match_ranges *ranges, const struct model_range *range)
{
	if (ranges->context->ops->range_end)
		ranges->context->ops->range_end(ranges->context->user, range);
}

/* How many ranges of the domain are open below index. */
static unsigned depth_of(const struct range_stack *stack, unsigned index, uint32_t domain)
{
	unsigned depth = 0;

	for (unsigned i = 0; i < index; i++)
		depth += stack->ranges[i].domain == domain;
	return depth;
}

static void feed_push(struct match_ranges *ranges, const struct trace_event *event)
{
	struct range_stack *stack = &ranges->stacks[event->thread];
	struct model_range range;

	if (stack->count >= DEPTH_MAX) {
		stack->beyond++;
		return;
	}
	if (stack->count == stack->capacity) {
		unsigned capacity = stack->capacity ? stack->capacity * 2 : 16;
		struct open_range *more = realloc(stack->ranges, capacity * sizeof(*more));

		if (!more) {
			stack->beyond++;
			return;
		}
		stack->ranges = more;
		stack->capacity = capacity;
	}
	stack->ranges[stack->count] = (struct open_range){
		.text = (uint32_t)MODEL_ARG(event, nvtx_push, text),
		.domain = (uint32_t)MODEL_ARG(event, nvtx_push, domain),
		.color = (uint32_t)MODEL_ARG(event, nvtx_push, color),
		.begin_ns = event->begin_ns,
		.serial = ranges->serial++,
	};
	range = describe(ranges, &stack->ranges[stack->count], event->thread);
	range.depth = depth_of(stack, stack->count, range.domain_id);
	stack->count++;
	tell_begin(ranges, &range);
}

static void end_pushed(struct match_ranges *ranges, uint32_t thread, unsigned index, int64_t end_ns,
		       bool closed)
{
	struct range_stack *stack = &ranges->stacks[thread];
	struct model_range range = describe(ranges, &stack->ranges[index], thread);

	range.depth = depth_of(stack, index, range.domain_id);
	range.end_ns = end_ns;
	range.closed = closed;
	memmove(&stack->ranges[index], &stack->ranges[index + 1],
		(stack->count - index - 1) * sizeof(*stack->ranges));
	stack->count--;
	tell_end(ranges, &range);
}

static void feed_pop(struct match_ranges *ranges, const struct trace_event *event)
{
	struct range_stack *stack = &ranges->stacks[event->thread];
	uint32_t domain = (uint32_t)MODEL_ARG(event, nvtx_pop, domain);

	if (stack->beyond) {
		stack->beyond--;
		return;
	}
	for (unsigned i = stack->count; i-- > 0;) {
		if (stack->ranges[i].domain == domain) {
			end_pushed(ranges, event->thread, i, event->end_ns, true);
			return;
		}
	}
	ranges->context->counts.pops_unmatched++;
}

static void end_across(struct match_ranges *ranges, uint32_t index, uint32_t end_thread,
		       int64_t end_ns, bool closed)
{
	const struct across *across = open_at(&ranges->across, index);
	struct model_range range = describe(ranges, &across->range, across->thread);

	range.across = true;
	range.end_thread = end_thread;
	range.end_ns = end_ns;
	range.closed = closed;
	open_remove(&ranges->across, index);
	tell_end(ranges, &range);
}

static void feed_start(struct match_ranges *ranges, const struct trace_event *event)
{
	uint64_t id = MODEL_ARG(event, nvtx_start, id);
	uint32_t index = open_find(&ranges->across, id, 0, 0);
	struct model_range range;

	if (index) /* its end was not recorded */
		end_across(ranges, index, event->thread, event->begin_ns, false);
	if (ranges->across.count >= MATCH_OPEN_MAX)
		end_across(ranges, ranges->across.oldest, event->thread, event->begin_ns, false);
	index = open_add(&ranges->across, id, 0);
	if (!index)
		return;

	struct across *across = open_at(&ranges->across, index);

	across->thread = event->thread;
	across->range = (struct open_range){
		.text = (uint32_t)MODEL_ARG(event, nvtx_start, text),
		.domain = (uint32_t)MODEL_ARG(event, nvtx_start, domain),
		.color = (uint32_t)MODEL_ARG(event, nvtx_start, color),
		.begin_ns = event->begin_ns,
		.serial = ranges->serial++,
	};
	range = describe(ranges, &across->range, event->thread);
	range.across = true;
	tell_begin(ranges, &range);
}

static void feed_end(struct match_ranges *ranges, const struct trace_event *event)
{
	uint32_t index = open_find(&ranges->across, MODEL_ARG(event, nvtx_end, id), 0, 0);

	if (index)
		end_across(ranges, index, event->thread, event->end_ns, true);
	else
		ranges->context->counts.pops_unmatched++;
}

void match_ranges_feed(struct match_ranges *ranges, const struct trace_event *event)
{
	switch (event->type->number) {
	case WL_EV_nvtx_push:
		feed_push(ranges, event);
		break;
	case WL_EV_nvtx_pop:
		feed_pop(ranges, event);
		break;
	case WL_EV_nvtx_start:
		feed_start(ranges, event);
		break;
	case WL_EV_nvtx_end:
		feed_end(ranges, event);
		break;
	default:
		break;
	}
}

void match_ranges_finish(struct match_ranges *ranges, int64_t end_ns)
{
	for (uint32_t thread = 0; thread < ranges->thread_count; thread++) {
		while (ranges->stacks[thread].count)
			end_pushed(ranges, thread, ranges->stacks[thread].count - 1, end_ns, false);
	}
	while (ranges->across.oldest) {
		const struct across *across = open_at(&ranges->across, ranges->across.oldest);

		end_across(ranges, ranges->across.oldest, across->thread, end_ns, false);
	}
}
