/* SPDX-License-Identifier: Apache-2.0
 *
 * One trace event as JSON: its head, its arguments, its stack.
 */
#include "exporters/chrome/chrome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_MAX_NS (INT64_MAX / 1000 - 1) /* times that fit in 64 bits as picoseconds */

const char *chrome_name(struct chrome *chrome, const struct trace_event *event)
{
	int index = json_type_of(&chrome->types, event->type)->name;
	const char *name = "";

	if (index >= 0 && event->args[index])
		name = model_string(chrome->model, chrome->process->index,
				    (uint32_t)event->args[index]);
	return *name ? name : event->type->name;
}

static void open_event(struct chrome *chrome, const char *phase, const char *name,
		       const char *category, int64_t tid)
{
	struct json *json = &chrome->json;

	json_raw(json, chrome->first ? "{\"ph\":\"" : ",\n{\"ph\":\"");
	chrome->first = false;
	json_raw(json, phase);
	json_raw(json, "\",\"name\":");
	json_text(json, name);
	json_raw(json, ",\"cat\":\"");
	json_raw(json, category);
	json_raw(json, "\",\"pid\":");
	json_int(json, chrome->process->unique_pid);
	json_raw(json, ",\"tid\":");
	json_int(json, tid);
	json_raw(json, ",\"ts\":");
}

void chrome_event(struct chrome *chrome, const char *phase, const char *name, const char *category,
		  int64_t tid, int64_t ts)
{
	open_event(chrome, phase, name, category, tid);
	json_us(&chrome->json, ts - chrome->base_ns);
}

/* Picoseconds. Steps of a begin and an end stay below half a nanosecond together. */
static int64_t in_steps(const struct chrome *chrome, int64_t ns, int step)
{
	int most = 249 / chrome->step_ps;

	if (step > most)
		step = most;
	if (step < -most)
		step = -most;
	return ns * 1000 + step * chrome->step_ps;
}

void chrome_slice(struct chrome *chrome, const char *name, const char *category, int64_t tid,
		  const struct chrome_span *span)
{
	int64_t begin = span->begin_ns - chrome->base_ns, end = span->end_ns - chrome->base_ns;
	unsigned digits = 3;

	open_event(chrome, "X", name, category, tid);
	/* Beyond a hundred days there are no doubles for it, nor is there room in 64 bits. */
	if (begin > -PS_MAX_NS && end < PS_MAX_NS) {
		begin = in_steps(chrome, begin, span->begin_step);
		end = in_steps(chrome, end, span->end_step);
		digits = 6;
	}
	json_decimal(&chrome->json, begin, digits);
	json_raw(&chrome->json, ",\"dur\":");
	json_decimal(&chrome->json, end - begin, digits);
}

void chrome_end(struct chrome *chrome)
{
	json_raw(&chrome->json, "}");
}

void chrome_member(struct chrome *chrome, bool *any, const char *name)
{
	json_member(&chrome->json, any, name);
}

bool chrome_args(struct chrome *chrome, const struct trace_event *event)
{
	if (chrome->options->no_args)
		return false;
	return json_args(&chrome->json, &chrome->types, chrome->model, chrome->process->index,
			 event);
}

/* --- stacks ------------------------------------------------------------------------------------- */

static uint32_t node_of(struct chrome *chrome, uint32_t parent, const struct model_frame *frame)
{
	uint64_t key = text_mix((uint64_t)(uintptr_t)frame->function * 31 +
				text_mix((uint64_t)(uintptr_t)frame->file + parent)) ^
		       text_mix(frame->offset * 37 +
				text_mix((uint64_t)(uintptr_t)frame->module + frame->line));
	bool fresh;
	uint32_t number = number_map_get(&chrome->nodes, key, &fresh);

	if (!fresh || !number)
		return number;
	if (number > chrome->node_capacity) {
		uint32_t capacity = chrome->node_capacity * 2 + 64;
		struct chrome_node *more = realloc(chrome->node_list, capacity * sizeof(*more));

		if (!more)
			return 0;
		chrome->node_list = more;
		chrome->node_capacity = capacity;
	}
	chrome->node_list[number - 1] = (struct chrome_node){parent, frame};
	return number;
}

uint32_t chrome_stack(struct chrome *chrome, uint32_t id)
{
	const struct model_stack *stack;
	uint32_t node = 0;

	if (!id || chrome->options->no_stacks)
		return 0;
	stack = model_stack(chrome->model, chrome->process->index, id);
	for (unsigned i = stack->count; i-- > 0;)
		node = node_of(chrome, node, &stack->frames[i]);
	if (node) {
		json_raw(&chrome->json, ",\"sf\":");
		json_uint(&chrome->json, node);
	}
	return node;
}

void chrome_write_frames(struct chrome *chrome)
{
	struct json *json = &chrome->json;
	char text[4096];

	for (uint32_t i = 0; i < chrome->nodes.count && i < chrome->node_capacity; i++) {
		const struct chrome_node *node = &chrome->node_list[i];

		json_raw(json, i ? ",\n\"" : "\"");
		json_uint(json, i + 1);
		json_raw(json, node->frame->kind == TRACE_FRAME_PYTHON
				       ? "\":{\"category\":\"python\",\"name\":"
				       : "\":{\"category\":\"native\",\"name\":");
		model_frame_text(node->frame, text, sizeof(text));
		json_text(json, text);
		if (node->parent) {
			json_raw(json, ",\"parent\":");
			json_uint(json, node->parent);
		}
		json_raw(json, "}");
	}
}

int64_t chrome_synchronization_tid(const struct model_process *process, unsigned thread)
{
	return process->threads[thread].unique_tid + (1 << 24) * 2;
}
