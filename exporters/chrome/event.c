/* SPDX-License-Identifier: Apache-2.0
 *
 * One trace event as JSON: its head, its arguments, its stack.
 */
#include "exporters/chrome/chrome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct chrome_type *chrome_type_of(struct chrome *chrome, const struct wl_event_type *type)
{
	struct chrome_type *kept = &chrome->types[type->number % 64];

	if (kept->type == type)
		return kept;
	kept->type = type;
	kept->name = model_arg_index(type, "api");
	if (kept->name < 0)
		kept->name = model_arg_index(type, "text");
	kept->stack = model_arg_index(type, "stack");
	kept->cls = model_arg_index(type, "cls");
	kept->rule = model_arg_index(type, "rule");
	kept->payload = model_arg_index(type, "payload");
	kept->payload_type = model_arg_index(type, "payload_type");
	return kept;
}

const char *chrome_name(struct chrome *chrome, const struct trace_event *event)
{
	int index = chrome_type_of(chrome, event->type)->name;
	const char *name = "";

	if (index >= 0 && event->args[index])
		name = model_string(chrome->model, chrome->process->index,
				    (uint32_t)event->args[index]);
	return *name ? name : event->type->name;
}

void chrome_event(struct chrome *chrome, const char *phase, const char *name, const char *category,
		  int64_t tid, int64_t ts)
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
	json_us(json, ts - chrome->base_ns);
}

void chrome_end(struct chrome *chrome)
{
	json_raw(&chrome->json, "}");
}

/* --- arguments ---------------------------------------------------------------------------------- */

void chrome_member(struct chrome *chrome, bool *any, const char *name)
{
	json_raw(&chrome->json, *any ? ",\"" : "\"");
	*any = true;
	json_raw(&chrome->json, name);
	json_raw(&chrome->json, "\":");
}

static void put_payload(struct json *json, uint64_t value, unsigned type)
{
	uint32_t low = (uint32_t)value;
	double large;
	float small;

	memcpy(&large, &value, sizeof(large));
	memcpy(&small, &low, sizeof(small));
	switch (type) {
	case WL_payload_type_f64:
		json_double(json, large);
		break;
	case WL_payload_type_f32:
		json_double(json, (double)small);
		break;
	case WL_payload_type_i64:
		json_int(json, (int64_t)value);
		break;
	case WL_payload_type_i32:
		json_int(json, (int32_t)low);
		break;
	default:
		json_safe_uint(json, value);
		break;
	}
}

static bool left_out(const struct wl_arg *arg, uint64_t value)
{
	const char *word;

	switch (arg->show) {
	case WL_SHOW_STACK:
		return true;
	case WL_SHOW_STR:
	case WL_SHOW_FLAGS:
		return value == 0;
	case WL_SHOW_ENUM:
		word = arg->enumeration->count ? arg->enumeration->words[0] : "";
		return value == 0 && (!strcmp(word, "none") || !strcmp(word, "unknown") ||
				      !strcmp(word, "other"));
	default:
		return false;
	}
}

static void put_value(struct chrome *chrome, const struct wl_arg *arg, uint64_t value)
{
	struct json *json = &chrome->json;

	if (arg->show == WL_SHOW_STR)
		json_text(json,
			  model_string(chrome->model, chrome->process->index, (uint32_t)value));
	else if (arg->show == WL_SHOW_ENUM && value < arg->enumeration->count)
		json_text(json, arg->enumeration->words[value]);
	else if (arg->show == WL_SHOW_HEX || arg->show == WL_SHOW_FLAGS)
		json_hex(json, value);
	else if (arg->type == WL_TYPE_i32 || arg->type == WL_TYPE_i64)
		json_int(json, (int64_t)value);
	else
		json_safe_uint(json, value);
}

bool chrome_args(struct chrome *chrome, const struct trace_event *event)
{
	static const char *const flags[] = {"captured", "in_provider", "inner_layer", "guessed"};
	const struct wl_event_type *type = event->type;
	const struct chrome_type *kept = chrome_type_of(chrome, type);
	bool any = false;

	if (chrome->options->no_args)
		return false;
	for (int i = 0; i < (int)type->arg_count; i++) {
		const struct wl_arg *arg = &type->args[i];
		bool payload = i == kept->payload && kept->payload_type >= 0;
		unsigned kind = payload ? (unsigned)event->args[kept->payload_type] : 0;

		if (i == kept->name || left_out(arg, event->args[i]) ||
		    (payload && kind == WL_payload_type_none))
			continue;
		chrome_member(chrome, &any, arg->name);
		if (payload)
			put_payload(&chrome->json, event->args[i], kind);
		else
			put_value(chrome, arg, event->args[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		if (!(event->flags & 1u << i))
			continue;
		chrome_member(chrome, &any, flags[i]);
		json_raw(&chrome->json, "true");
	}
	return any;
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
