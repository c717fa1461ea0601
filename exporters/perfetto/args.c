/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments as debug annotations, from the event table alone: how a number is shown says what it is;
 * arg_rules.h says which are left out.
 */
#include "exporters/arg_rules.h"
#include "exporters/perfetto/trace.h"

#include <string.h>

static uint8_t *open_arg(struct trace *trace, uint32_t name)
{
	uint8_t *arg = pb_TrackEvent_debug_annotations(&trace->pb);

	pb_DebugAnnotation_name_iid(&trace->pb, name);
	return arg;
}

static void put_payload(struct pb *pb, uint64_t value, unsigned type)
{
	const struct payload payload = payload_of(value, type);
	uint64_t bits;

	if (payload.kind == PAYLOAD_DOUBLE) {
		memcpy(&bits, &payload.as_double, sizeof(bits));
		pb_DebugAnnotation_double_value(pb, bits);
	} else if (payload.kind == PAYLOAD_INT) {
		pb_DebugAnnotation_int_value(pb, payload.as_int);
	} else {
		pb_DebugAnnotation_uint_value(pb, payload.as_uint);
	}
}

static bool is_signed(const struct wl_arg *arg)
{
	return arg->type == WL_TYPE_i32 || arg->type == WL_TYPE_i64;
}

static void put_number(struct pb *pb, const struct wl_arg *arg, uint64_t value)
{
	if (arg->show == WL_SHOW_HEX || arg->show == WL_SHOW_FLAGS)
		pb_DebugAnnotation_pointer_value(pb, value);
	else if (is_signed(arg))
		pb_DebugAnnotation_int_value(pb, (int64_t)value);
	else
		pb_DebugAnnotation_uint_value(pb, value);
}

static void put_arg(struct trace *trace, const struct wl_arg *arg, uint32_t name, uint64_t value)
{
	uint8_t *annotation;
	uint32_t iid;

	if (arg->show == WL_SHOW_STR) {
		iid = intern_string(trace, SPACE_VALUES, (uint32_t)value, NULL);
	} else if (arg->show == WL_SHOW_ENUM && value < arg->enumeration->count &&
		   arg->enumeration->words[value]) {
		iid = intern_constant(trace, SPACE_VALUES, arg->enumeration->words[value]);
	} else {
		annotation = open_arg(trace, name);
		put_number(&trace->pb, arg, value);
		pb_end(&trace->pb, annotation);
		return;
	}
	annotation = open_arg(trace, name);
	pb_DebugAnnotation_string_value_iid(&trace->pb, iid);
	pb_end(&trace->pb, annotation);
}

static uint32_t name_of(struct trace *trace, const struct type_cache *cache, unsigned index)
{
	/* Filled as names are met: most types show a few of their arguments. */
	uint32_t *name = (uint32_t *)(uintptr_t)&cache->arg_names[index];

	if (!*name)
		*name = intern_constant(trace, SPACE_ARG_NAMES, cache->type->args[index].name);
	return *name;
}

static void put_flags(struct trace *trace, uint32_t flags)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {
		{WL_FLAG_CAPTURED, "captured"},
		{WL_FLAG_IN_PROVIDER, "in_provider"},
		{WL_FLAG_INNER_LAYER, "inner_layer"},
		{WL_FLAG_GUESSED, "guessed"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (flags & names[i].bit)
			arg_bool(trace, names[i].name, true);
	}
}

void args_event(struct trace *trace, const struct type_cache *cache,
		const struct trace_event *event)
{
	const struct wl_event_type *type = event->type;

	if (trace->options->no_args)
		return;
	for (int i = 0; i < (int)type->arg_count; i++) {
		const struct wl_arg *arg = &type->args[i];
		uint64_t value = event->args[i];

		/* The name of the slice is one argument already. */
		if (i == cache->api || i == cache->text || arg_left_out(arg, value))
			continue;
		if (i == cache->payload && cache->payload_type >= 0) {
			unsigned payload = (unsigned)event->args[cache->payload_type];

			if (payload == WL_payload_type_none)
				continue;
			uint8_t *annotation = open_arg(trace, name_of(trace, cache, (unsigned)i));

			put_payload(&trace->pb, value, payload);
			pb_end(&trace->pb, annotation);
			continue;
		}
		put_arg(trace, arg, name_of(trace, cache, (unsigned)i), value);
	}
	if (event->flags)
		put_flags(trace, event->flags);
}

void arg_uint(struct trace *trace, const char *name, uint64_t value)
{
	uint8_t *arg = open_arg(trace, intern_constant(trace, SPACE_ARG_NAMES, name));

	pb_DebugAnnotation_uint_value(&trace->pb, value);
	pb_end(&trace->pb, arg);
}

void arg_int(struct trace *trace, const char *name, int64_t value)
{
	uint8_t *arg = open_arg(trace, intern_constant(trace, SPACE_ARG_NAMES, name));

	pb_DebugAnnotation_int_value(&trace->pb, value);
	pb_end(&trace->pb, arg);
}

void arg_bool(struct trace *trace, const char *name, bool value)
{
	uint8_t *arg = open_arg(trace, intern_constant(trace, SPACE_ARG_NAMES, name));

	pb_DebugAnnotation_bool_value(&trace->pb, value);
	pb_end(&trace->pb, arg);
}

void arg_pointer(struct trace *trace, const char *name, uint64_t value)
{
	uint8_t *arg = open_arg(trace, intern_constant(trace, SPACE_ARG_NAMES, name));

	pb_DebugAnnotation_pointer_value(&trace->pb, value);
	pb_end(&trace->pb, arg);
}

void arg_text(struct trace *trace, const char *name, const char *text)
{
	uint32_t value = intern_constant(trace, SPACE_VALUES, text);
	uint8_t *arg = open_arg(trace, intern_constant(trace, SPACE_ARG_NAMES, name));

	pb_DebugAnnotation_string_value_iid(&trace->pb, value);
	pb_end(&trace->pb, arg);
}
