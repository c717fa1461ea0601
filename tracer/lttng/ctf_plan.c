/* SPDX-License-Identifier: Apache-2.0
 *
 * How each event class of a trace is read: what its members are for, worked out once.
 */
#include "tracer/lttng/ctf_internal.h"

#include <stdlib.h>
#include <string.h>

#define PLANS_FIRST 256 /* a power of two */

enum ctf_form ctf_form_of(const bt_field_class *class)
{
	bt_field_class_type type = bt_field_class_get_type(class);

	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
		return FORM_UNSIGNED;
	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		return FORM_SIGNED;
	return type == BT_FIELD_CLASS_TYPE_STRING ? FORM_TEXT : FORM_OTHER;
}

const struct wl_event_type *ctf_type_named(const struct ctf_decoding *d, const char *name)
{
	const struct wl_event_type *type = wl_event_type_named(name);

	return type ? d->type_of(type->number) : NULL;
}

/* --- where a trace is from -------------------------------------------------------------------- */

static const char *env_text(struct ctf_decoding *d, const bt_trace *trace, const char *name)
{
	const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);
	const char *text = value && bt_value_is_string(value) ? bt_value_string_get(value) : "";

	return import_text_of(d->import, import_text(d->import, text, strlen(text)));
}

const struct ctf_origin *ctf_origin_of(struct ctf_decoding *d, const bt_stream *stream)
{
	const bt_trace *trace = bt_stream_borrow_trace_const(stream);
	const bt_value *pid;
	struct ctf_origin *origin = d->origins;

	while (origin && origin->trace != trace)
		origin = origin->next;
	if (origin)
		return origin;
	origin = calloc(1, sizeof(*origin));
	if (!origin)
		return NULL;
	origin->trace = trace;
	origin->host = env_text(d, trace, "hostname");
	origin->name = env_text(d, trace, "procname");
	pid = bt_trace_borrow_environment_entry_value_by_name_const(trace, "vpid");
	if (pid && bt_value_is_signed_integer(pid))
		origin->env_pid = bt_value_integer_signed_get(pid);
	origin->next = d->origins;
	return d->origins = origin;
}

/* --- what members are for --------------------------------------------------------------------- */

static enum ctf_role role_of(const char *name, const struct wl_event_type *type, uint8_t *arg)
{
	static const char *const roles[] = {
		[ROLE_BEGIN] = "begin", [ROLE_DURATION] = "duration", [ROLE_FLAGS] = "flags_",
		[ROLE_PID] = "pid",     [ROLE_TID] = "tid",
	};

	for (unsigned i = 0; i < type->arg_count; i++)
		if (strcmp(type->args[i].name, name) == 0) {
			*arg = (uint8_t)i;
			return ROLE_ARG;
		}
	for (unsigned i = ROLE_BEGIN; i < ROLE_NONE; i++)
		if (strcmp(roles[i], name) == 0)
			return (enum ctf_role)i;
	return ROLE_NONE;
}

static uint64_t member_count(const bt_field_class *payload)
{
	uint64_t count = payload ? bt_field_class_structure_get_member_count(payload) : 0;

	return count < CTF_FIELDS_MAX ? count : CTF_FIELDS_MAX;
}

static const char *member(const bt_field_class *payload, uint64_t index, enum ctf_form *form)
{
	const bt_field_class_structure_member *at =
		bt_field_class_structure_borrow_member_by_index_const(payload, index);

	*form = ctf_form_of(bt_field_class_structure_member_borrow_field_class_const(at));
	return bt_field_class_structure_member_get_name(at);
}

static void plan_record(struct ctf_plan *plan, const bt_field_class *payload)
{
	uint64_t count = member_count(payload);

	for (uint64_t i = 0; i < count; i++) {
		struct ctf_field *field = &plan->fields[plan->count];
		enum ctf_form form;
		const char *name = member(payload, i, &form);
		enum ctf_role role = role_of(name, plan->type, &field->arg);

		if (form == FORM_OTHER || role == ROLE_NONE ||
		    (form == FORM_TEXT && role != ROLE_ARG))
			continue;
		if (form == FORM_TEXT && plan->type->args[field->arg].show == WL_SHOW_ENUM)
			form = FORM_RULE;
		field->role = (uint8_t)role;
		field->form = (uint8_t)form;
		field->member = (uint8_t)i;
		plan->count++;
	}
}

/* Numbers and texts of the payload become arguments; what is neither is left out. */
static void plan_foreign(struct ctf_decoding *d, struct ctf_plan *plan, const char *name,
			 const bt_field_class *payload)
{
	uint64_t count = member_count(payload);
	struct wl_arg args[WL_ARGS_MAX];

	plan->kind = CTF_FOREIGN;
	for (uint64_t i = 0; i < count && plan->count < WL_ARGS_MAX; i++) {
		struct ctf_field *field = &plan->fields[plan->count];
		enum ctf_form form;
		const char *word = member(payload, i, &form);

		if (form == FORM_OTHER)
			continue;
		field->role = ROLE_ARG;
		field->form = (uint8_t)form;
		field->arg = (uint8_t)plan->count;
		field->member = (uint8_t)i;
		args[plan->count++] = (struct wl_arg){
			.name = word,
			.type = form == FORM_SIGNED ? WL_TYPE_i64
				: form == FORM_TEXT ? WL_TYPE_u32
						    : WL_TYPE_u64,
			.show = form == FORM_TEXT ? WL_SHOW_STR : WL_SHOW_NUM,
		};
	}
	plan->type = import_type(d->import, name, args, plan->count);
}

/* Only when all members are there, and are what they should be; else it is a fact like any other, which
 * nobody knows. */
static void plan_entry(struct ctf_plan *plan, const bt_field_class *payload)
{
	static const struct {
		const char *name;
		uint8_t form;
	} wanted[] = {
		[ENTRY_EVENT] = {"event", FORM_TEXT},     [ENTRY_API] = {"api", FORM_TEXT},
		[ENTRY_SINCE] = {"since", FORM_UNSIGNED}, [ENTRY_PID] = {"pid", FORM_UNSIGNED},
		[ENTRY_TID] = {"tid", FORM_UNSIGNED},     [ENTRY_STACK] = {"stack", FORM_TEXT},
	};
	const unsigned all = sizeof(wanted) / sizeof(wanted[0]);
	uint64_t count = member_count(payload);
	unsigned found = 0;

	for (uint64_t i = 0; i < count; i++) {
		enum ctf_form form;
		const char *name = member(payload, i, &form);

		for (unsigned k = 0; k < all; k++)
			if (strcmp(wanted[k].name, name) == 0 &&
			    form == (enum ctf_form)wanted[k].form) {
				plan->fields[k].form = (uint8_t)form;
				plan->fields[k].member = (uint8_t)i;
				found |= 1u << k;
			}
	}
	if (found != (1u << all) - 1)
		return;
	plan->kind = CTF_ENTRY;
	plan->count = all;
}

/* Whatever of it is known by name. */
static void plan_fact(struct ctf_plan *plan, const bt_field_class *payload)
{
#define X(name) [FACT_##name] = #name,
	static const char *const names[] = {CTF_FACTS(X)};
#undef X
	uint64_t count = member_count(payload);

	for (uint64_t i = 0; i < count; i++) {
		enum ctf_form form;
		const char *name = member(payload, i, &form);

		for (unsigned k = 0; k < FACT_MAX && form != FORM_OTHER; k++)
			if (strcmp(names[k], name) == 0)
				plan->fields[plan->count++] = (struct ctf_field){
					.form = (uint8_t)form,
					.arg = (uint8_t)k,
					.member = (uint8_t)i,
				};
	}
}

/* --- plans ------------------------------------------------------------------------------------ */

static void plan_free(struct ctf_plan *plan)
{
	free(plan->payloads);
	free(plan);
}

static struct ctf_plan *plan_make(struct ctf_decoding *d, const bt_stream *stream,
				  const bt_event_class *class)
{
	const bt_clock_class *clock = bt_stream_class_borrow_default_clock_class_const(
		bt_stream_borrow_class_const(stream));
	const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(class);
	const char *name = bt_event_class_get_name(class);
	struct ctf_plan *plan = calloc(1, sizeof(*plan));
	int64_t seconds;
	uint64_t cycles;

	if (!plan)
		return NULL;
	plan->class = class;
	plan->kind = CTF_FACT;
	plan->payloads = calloc(CTF_PAYLOADS, sizeof(*plan->payloads));
	plan->origin = ctf_origin_of(d, stream);
	plan->has_clock = clock != NULL;
	if (clock) {
		bt_clock_class_get_offset(clock, &seconds, &cycles);
		plan->clock_offset_ns = seconds * 1000000000 + (int64_t)cycles;
	}
	if (!plan->payloads || !plan->origin) {
		plan_free(plan);
		return NULL;
	}
	if (!name)
		name = "?";
	if (strncmp(name, CTF_PROVIDER, sizeof(CTF_PROVIDER) - 1) != 0) {
		plan_foreign(d, plan, name, payload);
		return plan;
	}
	name += sizeof(CTF_PROVIDER) - 1;
	plan->type = ctf_type_named(d, name);
	if (plan->type) {
		plan->kind = CTF_RECORD;
		plan_record(plan, payload);
	} else if (strcmp(name, "entry") == 0) {
		plan_entry(plan, payload);
	}
	if (plan->kind == CTF_FACT)
		plan_fact(plan, payload);
	return plan;
}

static struct ctf_plan **place_of(struct ctf_plan **plans, size_t room, const bt_event_class *class)
{
	size_t at = ((uintptr_t) class >> 4) & (room - 1);

	while (plans[at] && plans[at]->class != class)
		at = (at + 1) & (room - 1);
	return &plans[at];
}

/* At most half full. */
static bool plans_grow(struct ctf_decoding *d)
{
	size_t room = d->plan_room ? d->plan_room * 2 : PLANS_FIRST;
	struct ctf_plan **plans;

	if ((d->plan_count + 1) * 2 <= d->plan_room)
		return true;
	plans = calloc(room, sizeof(struct ctf_plan *));
	if (!plans)
		return false;
	for (size_t i = 0; i < d->plan_room; i++)
		if (d->plans[i])
			*place_of(plans, room, d->plans[i]->class) = d->plans[i];
	free((void *)d->plans);
	d->plans = plans;
	d->plan_room = room;
	return true;
}

struct ctf_plan *ctf_plan_of(struct ctf_decoding *d, const bt_stream *stream,
			     const bt_event_class *class)
{
	struct ctf_plan **place;

	if (d->newest && d->newest->class == class)
		return d->newest;
	if (!plans_grow(d))
		return NULL;
	place = place_of(d->plans, d->plan_room, class);
	if (!*place) {
		*place = plan_make(d, stream, class);
		d->plan_count += *place != NULL;
	}
	return d->newest = *place;
}

void ctf_plans_clear(struct ctf_decoding *d)
{
	for (size_t i = 0; i < d->plan_room; i++)
		if (d->plans[i])
			plan_free(d->plans[i]);
	free((void *)d->plans);
	while (d->origins) {
		struct ctf_origin *next = d->origins->next;

		free(d->origins);
		d->origins = next;
	}
	d->plans = NULL;
	d->plan_count = d->plan_room = 0;
	d->newest = NULL;
}
