/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of a record as members of a JSON object, from the event table alone.
 */
#include "exporters/json_args.h"

#include "exporters/arg_rules.h"

const struct json_type *json_type_of(struct json_types *types, const struct wl_event_type *type)
{
	struct json_type *kept = &types->kept[type->number % 64];

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

void json_member(struct json *json, bool *any, const char *name)
{
	json_raw(json, *any ? ",\"" : "\"");
	*any = true;
	json_raw(json, name);
	json_raw(json, "\":");
}

static void put_payload(struct json *json, uint64_t value, unsigned type)
{
	const struct payload payload = payload_of(value, type);

	if (payload.kind == PAYLOAD_DOUBLE)
		json_double(json, payload.as_double);
	else if (payload.kind == PAYLOAD_INT)
		json_int(json, payload.as_int);
	else
		json_safe_uint(json, payload.as_uint);
}

static void put_value(struct json *json, struct model *model, unsigned process,
		      const struct wl_arg *arg, uint64_t value)
{
	if (arg->show == WL_SHOW_STR)
		json_text(json, model_string(model, process, (uint32_t)value));
	else if (arg->show == WL_SHOW_ENUM && value < arg->enumeration->count)
		json_text(json, arg->enumeration->words[value]);
	else if (arg->show == WL_SHOW_HEX || arg->show == WL_SHOW_FLAGS)
		json_hex(json, value);
	else if (arg->type == WL_TYPE_i32 || arg->type == WL_TYPE_i64)
		json_int(json, (int64_t)value);
	else
		json_safe_uint(json, value);
}

bool json_args(struct json *json, struct json_types *types, struct model *model, unsigned process,
	       const struct trace_event *event)
{
	static const char *const flags[] = {"captured", "in_provider", "inner_layer", "guessed"};
	const struct wl_event_type *type = event->type;
	const struct json_type *kept = json_type_of(types, type);
	bool any = false;

	for (int i = 0; i < (int)type->arg_count; i++) {
		const struct wl_arg *arg = &type->args[i];
		bool payload = i == kept->payload && kept->payload_type >= 0;
		unsigned kind = payload ? (unsigned)event->args[kept->payload_type] : 0;

		if (i == kept->name || arg_left_out(arg, event->args[i]) ||
		    (payload && kind == WL_payload_type_none))
			continue;
		json_member(json, &any, arg->name);
		if (payload)
			put_payload(json, event->args[i], kind);
		else
			put_value(json, model, process, arg, event->args[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		if (!(event->flags & 1u << i))
			continue;
		json_member(json, &any, flags[i]);
		json_raw(json, "true");
	}
	return any;
}
