/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of libbabeltrace2 as events with values.
 */
#include "tracer/lttng/ctf_internal.h"

#include <errno.h>
#include <string.h>

static uint64_t number_of(const bt_field *field)
{
	switch (ctf_form_of(bt_field_borrow_class_const(field))) {
	case FORM_UNSIGNED:
		return bt_field_integer_unsigned_get_value(field);
	case FORM_SIGNED:
		return (uint64_t)bt_field_integer_signed_get_value(field);
	default:
		return 0;
	}
}

/* The members of a payload that a plan reads. */
static const bt_field *const *members_of(struct ctf_plan *plan, const bt_field *payload)
{
	struct ctf_payload *p = &plan->payloads[((uintptr_t)payload >> 4) % CTF_PAYLOADS];

	if (p->payload == payload)
		return p->members;
	p->payload = payload;
	for (unsigned i = 0; i < plan->count; i++)
		p->members[i] = bt_field_structure_borrow_member_field_by_index_const(
			payload, plan->fields[i].member);
	return p->members;
}

static uint64_t value_of(struct ctf_decoding *d, struct ctf_field *f, const bt_field *field)
{
	switch ((enum ctf_form)f->form) {
	case FORM_UNSIGNED:
		return bt_field_integer_unsigned_get_value(field);
	case FORM_SIGNED:
		return (uint64_t)bt_field_integer_signed_get_value(field);
	case FORM_TEXT:
	case FORM_RULE:
		/* Of an empty text the library says the length alone. */
		return ctf_text_value(d, f, bt_field_string_get_value(field),
				      bt_field_string_get_length(field));
	case FORM_OTHER:
		break;
	}
	return 0;
}

static int64_t context_number(const bt_event *event, const char *const *names)
{
	const bt_field *context = bt_event_borrow_common_context_field_const(event);

	for (; context && *names; names++) {
		const bt_field *field =
			bt_field_structure_borrow_member_field_by_name_const(context, *names);

		if (field)
			return (int64_t)number_of(field);
	}
	return 0;
}

static int message_event(struct ctf_decoding *d, const bt_message *message)
{
	static const char *const pids[] = {"vpid", "pid", NULL}, *const tids[] = {"vtid", "tid",
										  NULL};
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const bt_field *payload = bt_event_borrow_payload_field_const(event);
	const bt_event_class *class = bt_event_borrow_class_const(event);
	struct ctf_plan *plan = ctf_plan_of(d, bt_event_borrow_stream_const(event), class);
	struct ctf_moment moment = {0};
	uint64_t values[CTF_FIELDS_MAX];

	if (!plan)
		return -ENOMEM;
	if (plan->count) {
		const bt_field *const *members = members_of(plan, payload);

		for (unsigned i = 0; i < plan->count; i++)
			values[i] = value_of(d, &plan->fields[i], members[i]);
	}
	if (plan->has_clock)
		moment.ns = (int64_t)bt_clock_snapshot_get_value(
			bt_message_event_borrow_default_clock_snapshot_const(message));
	if (plan->kind == CTF_FOREIGN) {
		moment.pid = context_number(event, pids);
		moment.tid = context_number(event, tids);
	}
	return ctf_take(d, plan, values, &moment);
}

static int message_lost(struct ctf_decoding *d, const bt_message *message, bool packets)
{
	const bt_stream *stream =
		packets ? bt_message_discarded_packets_borrow_stream_const(message)
			: bt_message_discarded_events_borrow_stream_const(message);
	uint64_t count = 1;

	/* Packets that never came held at least an event each. */
	if ((packets ? bt_message_discarded_packets_get_count(message, &count)
		     : bt_message_discarded_events_get_count(message, &count)) !=
	    BT_PROPERTY_AVAILABILITY_AVAILABLE)
		count = 1;
	return ctf_lost(d, ctf_origin_of(d, stream), count);
}

int ctf_message(struct ctf_decoding *d, const bt_message *message)
{
	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		return message_event(d, message);
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		return message_lost(d, message, false);
	case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
		return message_lost(d, message, true);
	default:
		return 0;
	}
}
