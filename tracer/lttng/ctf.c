/* SPDX-License-Identifier: Apache-2.0
 *
 * CTF by libbabeltrace2, one trace folder after the other, so that a damaged one loses itself alone. The
 * events of Waylay's provider become records again, others are carried along as instants.
 */
#include "tracer/lttng/ctf.h"
#include "tracer/lttng/import.h"
#include "tracer/lttng/leaf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <babeltrace2/babeltrace.h>

#define PROVIDER    "waylay:"
#define PLANS       4096 /* event classes of one folder; a power of two */
#define FIELDS_MAX  40
#define FOREIGN_TID 0

/* What a member of the payload is for. */
enum role { ROLE_ARG, ROLE_BEGIN, ROLE_DURATION, ROLE_FLAGS, ROLE_PID, ROLE_TID, ROLE_NONE };
enum form { FORM_UNSIGNED, FORM_SIGNED, FORM_TEXT, FORM_RULE, FORM_OTHER };

/* How an event class is read, worked out at its first event. */
struct plan {
	const bt_event_class *class;
	const struct wl_event_type *type; /* NULL: a fact about the process */
	bool foreign, entry;
	unsigned count;
	struct {
		uint8_t role, form, arg;
	} fields[FIELDS_MAX];
};

struct decoding {
	struct import *import;
	ctf_type_fn type_of;
	bt_message_iterator *iterator;
	struct plan *plans;
	const char *host; /* of the folder being read */
	char host_text[256];
	int64_t env_pid;                /* 0: it holds several processes */
	struct import_process *process; /* of the newest event */
	const bt_trace *trace;
	uint64_t events, lost;
	int error;
};

/* --- fields ----------------------------------------------------------------------------------- */

static enum form form_of(const bt_field_class *class)
{
	bt_field_class_type type = bt_field_class_get_type(class);

	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
		return FORM_UNSIGNED;
	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		return FORM_SIGNED;
	return type == BT_FIELD_CLASS_TYPE_STRING ? FORM_TEXT : FORM_OTHER;
}

static uint64_t number_of(const bt_field *field)
{
	if (!field)
		return 0;
	switch (form_of(bt_field_borrow_class_const(field))) {
	case FORM_UNSIGNED:
		return bt_field_integer_unsigned_get_value(field);
	case FORM_SIGNED:
		return (uint64_t)bt_field_integer_signed_get_value(field);
	default:
		return 0;
	}
}

static uint64_t member_number(const bt_field *structure, const char *name)
{
	return number_of(bt_field_structure_borrow_member_field_by_name_const(structure, name));
}

static uint32_t member_text(struct decoding *d, const bt_field *structure, const char *name)
{
	const bt_field *field =
		bt_field_structure_borrow_member_field_by_name_const(structure, name);

	if (!field || form_of(bt_field_borrow_class_const(field)) != FORM_TEXT)
		return 0;
	return import_text(d->import, bt_field_string_get_value(field),
			   bt_field_string_get_length(field));
}

static uint64_t rule_number(const char *word)
{
	/* Almost always the same few: looked for from the front. */
	for (unsigned i = 1; i < WL_rule_MAX; i++)
		if (strcmp(wl_rule_info(i)->word, word) == 0)
			return i;
	return 0;
}

/* The caller's type of that name. */
static const struct wl_event_type *type_named(const struct decoding *d, const char *name)
{
	const struct wl_event_type *type = wl_event_type_named(name);

	return type ? d->type_of(type->number) : NULL;
}

/* --- plans ------------------------------------------------------------------------------------ */

static enum role role_of(const char *name, const struct wl_event_type *type, uint8_t *arg)
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
			return (enum role)i;
	return ROLE_NONE;
}

static void plan_known(struct plan *plan, const bt_field_class *payload)
{
	uint64_t count = payload ? bt_field_class_structure_get_member_count(payload) : 0;

	for (uint64_t i = 0; i < count && i < FIELDS_MAX; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(payload, i);
		const char *name = bt_field_class_structure_member_get_name(member);
		uint8_t arg = 0;
		enum role role = role_of(name, plan->type, &arg);
		enum form form =
			form_of(bt_field_class_structure_member_borrow_field_class_const(member));

		if (form == FORM_TEXT && role == ROLE_ARG &&
		    plan->type->args[arg].show == WL_SHOW_ENUM)
			form = FORM_RULE;
		plan->fields[i].role = (uint8_t)(form == FORM_OTHER ? ROLE_NONE : role);
		plan->fields[i].form = (uint8_t)form;
		plan->fields[i].arg = arg;
		plan->count = (unsigned)i + 1;
	}
}

/* Numbers and texts of the payload become arguments; what is neither is left out. */
static void plan_foreign(struct decoding *d, struct plan *plan, const char *name,
			 const bt_field_class *payload)
{
	uint64_t count = payload ? bt_field_class_structure_get_member_count(payload) : 0;
	struct wl_arg args[WL_ARGS_MAX];
	unsigned used = 0;

	plan->foreign = true;
	for (uint64_t i = 0; i < count && i < FIELDS_MAX; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(payload, i);
		enum form form =
			form_of(bt_field_class_structure_member_borrow_field_class_const(member));

		plan->count = (unsigned)i + 1;
		plan->fields[i].role = ROLE_NONE;
		if (form == FORM_OTHER || used == WL_ARGS_MAX)
			continue;
		plan->fields[i].role = ROLE_ARG;
		plan->fields[i].form = (uint8_t)form;
		plan->fields[i].arg = (uint8_t)used;
		args[used++] = (struct wl_arg){
			.name = bt_field_class_structure_member_get_name(member),
			.type = form == FORM_SIGNED ? WL_TYPE_i64
				: form == FORM_TEXT ? WL_TYPE_u32
						    : WL_TYPE_u64,
			.show = form == FORM_TEXT ? WL_SHOW_STR : WL_SHOW_NUM,
		};
	}
	plan->type = import_type(d->import, name, args, used);
}

/* Only when all members are there, and are what they should be. */
static void plan_entry(struct plan *plan, const bt_field_class *payload)
{
	static const char *const names[] = {"event", "api", "since", "pid", "tid", "stack"};
	static const uint8_t forms[] = {FORM_TEXT,     FORM_TEXT,     FORM_UNSIGNED,
					FORM_UNSIGNED, FORM_UNSIGNED, FORM_TEXT};
	uint64_t count = payload ? bt_field_class_structure_get_member_count(payload) : 0;
	unsigned found = 0;

	for (uint64_t i = 0; i < count && i < FIELDS_MAX; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(payload, i);

		for (unsigned k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			if (strcmp(names[k], bt_field_class_structure_member_get_name(member)) ==
				    0 &&
			    form_of(bt_field_class_structure_member_borrow_field_class_const(
				    member)) == (enum form)forms[k]) {
				plan->fields[k].arg = (uint8_t)i;
				found++;
			}
	}
	plan->entry = found == sizeof(names) / sizeof(names[0]);
}

static struct plan *plan_of(struct decoding *d, const bt_event *event)
{
	const bt_event_class *class = bt_event_borrow_class_const(event);
	size_t at = ((uintptr_t) class >> 4) & (PLANS - 1), tried = 0;
	const bt_field_class *payload;
	const char *name;
	struct plan *plan;

	while (d->plans[at].class && d->plans[at].class != class && tried++ < PLANS)
		at = (at + 1) & (PLANS - 1);
	plan = &d->plans[at];
	if (plan->class == class)
		return plan;
	if (plan->class)
		return NULL; /* more classes than anybody has */
	plan->class = class;
	name = bt_event_class_get_name(class);
	payload = bt_event_class_borrow_payload_field_class_const(class);
	if (!name)
		name = "?";
	if (strncmp(name, PROVIDER, sizeof(PROVIDER) - 1) != 0) {
		plan_foreign(d, plan, name, payload);
		return plan;
	}
	plan->type = type_named(d, name + sizeof(PROVIDER) - 1);
	if (plan->type)
		plan_known(plan, payload);
	else if (strcmp(name, PROVIDER "entry") == 0)
		plan_entry(plan, payload);
	return plan;
}

/* --- events ----------------------------------------------------------------------------------- */

static void trace_changed(struct decoding *d, const bt_trace *trace)
{
	const bt_value *value =
		bt_trace_borrow_environment_entry_value_by_name_const(trace, "hostname");

	d->trace = trace;
	d->env_pid = 0;
	(void)snprintf(d->host_text, sizeof(d->host_text), "%s",
		       value && bt_value_is_string(value) ? bt_value_string_get(value) : "");
	d->host = d->host_text;
	value = bt_trace_borrow_environment_entry_value_by_name_const(trace, "vpid");
	if (value && bt_value_is_signed_integer(value))
		d->env_pid = bt_value_integer_signed_get(value);
}

/* REALTIME of LTTng's clock, for processes whose own words are lost. */
static void clock_note(const bt_clock_snapshot *snapshot, struct import_process *process)
{
	const bt_clock_class *class = bt_clock_snapshot_borrow_clock_class_const(snapshot);
	struct trace_clock clock = {0};
	int64_t seconds;
	uint64_t cycles;

	bt_clock_class_get_offset(class, &seconds, &cycles);
	clock.monotonic_ns = (int64_t)bt_clock_snapshot_get_value(snapshot);
	clock.boottime_ns = clock.monotonic_ns;
	clock.realtime_ns = seconds * 1000000000 + (int64_t)cycles + clock.monotonic_ns;
	import_clock(process, &clock);
}

static struct import_process *process_get(struct decoding *d, int64_t pid,
					  const bt_clock_snapshot *snapshot)
{
	struct import_process *p = import_process(d->import, d->host, pid);

	if (p && !import_info(p)->clock_count && snapshot)
		clock_note(snapshot, p);
	return d->process = p;
}

/* A record of the event table. */
static int event_known(struct decoding *d, const struct plan *plan, const bt_field *payload,
		       const bt_clock_snapshot *snapshot)
{
	struct trace_event event = {.type = plan->type};
	uint64_t duration = 0, value, begin = 0;
	int64_t pid = 0, tid = 0;
	struct import_process *p;
	struct import_thread *t;

	for (unsigned i = 0; i < plan->count; i++) {
		const bt_field *field =
			bt_field_structure_borrow_member_field_by_index_const(payload, i);

		if (plan->fields[i].form == FORM_UNSIGNED)
			value = bt_field_integer_unsigned_get_value(field);
		else if (plan->fields[i].form == FORM_SIGNED)
			value = (uint64_t)bt_field_integer_signed_get_value(field);
		else if (plan->fields[i].form == FORM_TEXT)
			value = import_text(d->import, bt_field_string_get_value(field),
					    bt_field_string_get_length(field));
		else if (plan->fields[i].form == FORM_RULE)
			value = rule_number(bt_field_string_get_value(field));
		else
			continue;
		switch ((enum role)plan->fields[i].role) {
		case ROLE_ARG:
			event.args[plan->fields[i].arg] = value;
			break;
		case ROLE_BEGIN:
			begin = value;
			break;
		case ROLE_DURATION:
			duration = value;
			break;
		case ROLE_FLAGS:
			event.flags = (uint32_t)value;
			break;
		case ROLE_PID:
			pid = (int64_t)value;
			break;
		case ROLE_TID:
			tid = (int64_t)value;
			break;
		case ROLE_NONE:
			break;
		}
	}
	event.begin_ns = (int64_t)begin;
	event.end_ns = (int64_t)(begin + duration);
	p = process_get(d, pid, snapshot);
	t = p ? import_thread(p, tid) : NULL;
	return t ? import_event(t, &event) : -ENOMEM;
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

static int event_foreign(struct decoding *d, const struct plan *plan, const bt_event *bt,
			 const bt_clock_snapshot *snapshot)
{
	static const char *const pids[] = {"vpid", "pid", NULL}, *const tids[] = {"vtid", "tid",
										  NULL};
	const bt_field *payload = bt_event_borrow_payload_field_const(bt);
	struct trace_event event = {.type = plan->type};
	int64_t pid = context_number(bt, pids), tid = context_number(bt, tids);
	struct import_process *p;
	struct import_thread *t;

	if (!plan->type)
		return -ENOMEM;
	for (unsigned i = 0; payload && i < plan->count; i++) {
		const bt_field *field =
			bt_field_structure_borrow_member_field_by_index_const(payload, i);

		if (plan->fields[i].role != ROLE_ARG)
			continue;
		event.args[plan->fields[i].arg] =
			plan->fields[i].form == FORM_TEXT
				? import_text(d->import, bt_field_string_get_value(field),
					      bt_field_string_get_length(field))
				: number_of(field);
	}
	event.begin_ns = snapshot ? (int64_t)bt_clock_snapshot_get_value(snapshot) : 0;
	event.end_ns = event.begin_ns;
	p = process_get(d, pid ? pid : d->env_pid, snapshot);
	t = p ? import_thread(p, tid ? tid : FOREIGN_TID) : NULL;
	return t ? import_event(t, &event) : -ENOMEM;
}

/* --- facts about a process -------------------------------------------------------------------- */

static const char *keep(struct decoding *d, const bt_field *payload, const char *name)
{
	return import_text_of(d->import, member_text(d, payload, name));
}

static void fact_process(struct decoding *d, struct import_process *p, const bt_field *payload)
{
	struct trace_info *info = import_info(p);

	info->ppid = (int64_t)member_number(payload, "ppid");
	info->rank = (int)member_number(payload, "rank");
	info->world_size = (int)member_number(payload, "world_size");
	info->local_rank = (int)member_number(payload, "local_rank");
	info->run = keep(d, payload, "run");
	info->process_name = keep(d, payload, "name");
}

static void fact_clock(struct import_process *p, const bt_field *payload)
{
	const struct trace_clock clock = {
		.monotonic_ns = (int64_t)member_number(payload, "monotonic_ns"),
		.boottime_ns = (int64_t)member_number(payload, "boottime_ns"),
		.realtime_ns = (int64_t)member_number(payload, "realtime_ns"),
	};

	import_clock(p, &clock);
}

/* Nearly as many as records: by place, since finding members by name takes longer than all else. */
enum entry_member {
	ENTRY_EVENT,
	ENTRY_API,
	ENTRY_SINCE,
	ENTRY_PID,
	ENTRY_TID,
	ENTRY_STACK,

};

static const bt_field *entry_field(const struct plan *plan, const bt_field *payload,
				   enum entry_member member)
{
	return bt_field_structure_borrow_member_field_by_index_const(payload,
								     plan->fields[member].arg);
}

static uint32_t entry_text(struct decoding *d, const struct plan *plan, const bt_field *payload,
			   enum entry_member member)
{
	const bt_field *field = entry_field(plan, payload, member);

	return import_text(d->import, bt_field_string_get_value(field),
			   bt_field_string_get_length(field));
}

static int event_entry(struct decoding *d, const struct plan *plan, const bt_field *payload)
{
	struct import_process *p =
		process_get(d, (int64_t)number_of(entry_field(plan, payload, ENTRY_PID)), NULL);
	struct import_thread *t =
		p ? import_thread(p, (int64_t)number_of(entry_field(plan, payload, ENTRY_TID)))
		  : NULL;
	const struct wl_event_type *type =
		type_named(d, bt_field_string_get_value(entry_field(plan, payload, ENTRY_EVENT)));

	if (!t)
		return -ENOMEM;
	if (type)
		import_entry(t, type, entry_text(d, plan, payload, ENTRY_API),
			     entry_text(d, plan, payload, ENTRY_STACK),
			     (int64_t)number_of(entry_field(plan, payload, ENTRY_SINCE)));
	return 0;
}

static int fact(struct decoding *d, const char *what, const bt_field *payload)
{
	int64_t pid = (int64_t)member_number(payload, "pid");
	/* Its own clocks are on their way: LTTng's is not taken. */
	struct import_process *p = process_get(d, pid, NULL);
	struct trace_info *info = p ? import_info(p) : NULL;
	struct import_thread *t;
	uint64_t reason;

	if (!p)
		return -ENOMEM;
	if (strcmp(what, "process") == 0) {
		fact_process(d, p, payload);
	} else if (strcmp(what, "clock") == 0) {
		fact_clock(p, payload);
	} else if (strcmp(what, "attribute") == 0) {
		import_attribute(p, member_text(d, payload, "key"),
				 member_text(d, payload, "value"));
	} else if (strcmp(what, "lost") == 0) {
		reason = member_number(payload, "reason");
		if (reason < TRACE_DROP_MAX)
			info->drops[reason] += member_number(payload, "count");
	} else if (strcmp(what, "end") == 0) {
		info->ended = true;
	} else if (strcmp(what, "thread") == 0) {
		t = import_thread(p, (int64_t)member_number(payload, "tid"));
		if (!t)
			return -ENOMEM;
		import_thread_name(t, member_text(d, payload, "name"));
	}
	return 0;
}

/* --- messages --------------------------------------------------------------------------------- */

static int message_event(struct decoding *d, const bt_message *message)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const bt_stream *stream = bt_event_borrow_stream_const(event);
	const bt_trace *trace = bt_stream_borrow_trace_const(stream);
	const bt_clock_snapshot *snapshot = NULL;
	const bt_field *payload;
	const struct plan *plan = plan_of(d, event);

	if (trace != d->trace)
		trace_changed(d, trace);
	if (!plan)
		return 0;
	if (bt_stream_class_borrow_default_clock_class_const(bt_stream_borrow_class_const(stream)))
		snapshot = bt_message_event_borrow_default_clock_snapshot_const(message);
	d->events++;
	if (plan->foreign)
		return event_foreign(d, plan, event, snapshot);
	payload = bt_event_borrow_payload_field_const(event);
	if (!payload)
		return 0;
	if (plan->type)
		return event_known(d, plan, payload, snapshot);
	if (plan->entry)
		return event_entry(d, plan, payload);
	return fact(d, bt_event_class_get_name(plan->class) + sizeof(PROVIDER) - 1, payload);
}

static void message_lost(struct decoding *d, const bt_message *message, bool packets)
{
	uint64_t count = 1;

	/* Packets that never came held at least an event each. */
	if ((packets ? bt_message_discarded_packets_get_count(message, &count)
		     : bt_message_discarded_events_get_count(message, &count)) !=
	    BT_PROPERTY_AVAILABILITY_AVAILABLE)
		count = 1;
	d->lost += count;
}

static int message_take(struct decoding *d, const bt_message *message)
{
	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		return message_event(d, message);
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		message_lost(d, message, false);
		return 0;
	case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
		message_lost(d, message, true);
		return 0;
	default:
		return 0;
	}
}

/* --- the graph -------------------------------------------------------------------------------- */

static bt_graph_simple_sink_component_initialize_func_status begin(bt_message_iterator *iterator,
								   void *user)
{
	((struct decoding *)user)->iterator = iterator;
	return BT_GRAPH_SIMPLE_SINK_COMPONENT_INITIALIZE_FUNC_STATUS_OK;
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *user)
{
	struct decoding *d = user;
	bt_message_array_const messages;
	uint64_t count = 0;

	switch (bt_message_iterator_next(iterator, &messages, &count)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		break;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_AGAIN;
	default:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	}
	for (uint64_t i = 0; i < count; i++) {
		if (!d->error)
			d->error = message_take(d, messages[i]);
		bt_message_put_ref(messages[i]);
	}
	return d->error ? BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR
			: BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

static const bt_plugin *plugin_find(const char *name)
{
	const bt_plugin *plugin = NULL;

	return bt_plugin_find(name, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin) ==
			       BT_PLUGIN_FIND_STATUS_OK
		       ? plugin
		       : NULL;
}

struct plugins {
	const bt_plugin *ctf, *utils;
};

static bt_value *source_parameters(const char *path)
{
	bt_value *parameters = bt_value_map_create(), *inputs = NULL;

	if (parameters &&
	    bt_value_map_insert_empty_array_entry(parameters, "inputs", &inputs) ==
		    BT_VALUE_MAP_INSERT_ENTRY_STATUS_OK &&
	    bt_value_array_append_string_element(inputs, path) ==
		    BT_VALUE_ARRAY_APPEND_ELEMENT_STATUS_OK)
		return parameters;
	bt_value_put_ref(parameters);
	return NULL;
}

/* Every stream into the muxer, which has a further input for each that is connected. */
static bool connect_all(bt_graph *graph, const bt_component_source *source,
			const bt_component_filter *muxer, const bt_component_sink *sink)
{
	uint64_t count = bt_component_source_get_output_port_count(source);
	bool ok = true;

	for (uint64_t i = 0; i < count && ok; i++)
		ok = bt_graph_connect_ports(
			     graph,
			     bt_component_source_borrow_output_port_by_index_const(source, i),
			     bt_component_filter_borrow_input_port_by_index_const(muxer, i),
			     NULL) == BT_GRAPH_CONNECT_PORTS_STATUS_OK;
	return ok && bt_graph_connect_ports(
			     graph, bt_component_filter_borrow_output_port_by_index_const(muxer, 0),
			     bt_component_sink_borrow_input_port_by_index_const(sink, 0),
			     NULL) == BT_GRAPH_CONNECT_PORTS_STATUS_OK;
}

static bool graph_fill(struct decoding *d, bt_graph *graph, const struct plugins *plugins,
		       const char *path)
{
	const bt_component_class_source *fs =
		bt_plugin_borrow_source_component_class_by_name_const(plugins->ctf, "fs");
	const bt_component_class_filter *mux =
		bt_plugin_borrow_filter_component_class_by_name_const(plugins->utils, "muxer");
	const bt_component_source *source;
	const bt_component_filter *muxer;
	const bt_component_sink *sink;
	bt_value *parameters = source_parameters(path);
	bool ok = fs && mux && parameters &&
		  bt_graph_add_source_component(graph, fs, "source", parameters,
						BT_LOGGING_LEVEL_NONE,
						&source) == BT_GRAPH_ADD_COMPONENT_STATUS_OK &&
		  bt_graph_add_filter_component(graph, mux, "muxer", NULL, BT_LOGGING_LEVEL_NONE,
						&muxer) == BT_GRAPH_ADD_COMPONENT_STATUS_OK &&
		  bt_graph_add_simple_sink_component(graph, "sink", begin, consume, NULL, d,
						     &sink) == BT_GRAPH_ADD_COMPONENT_STATUS_OK &&
		  connect_all(graph, source, muxer, sink);

	bt_value_put_ref(parameters);
	return ok;
}

/* One folder. False: it could not be read to its end. */
static bool folder_read(struct decoding *d, const struct plugins *plugins, const char *path)
{
	bt_graph *graph = bt_graph_create(0);
	bt_graph_run_status status = BT_GRAPH_RUN_STATUS_ERROR;

	d->trace = NULL;
	d->process = NULL;
	memset(d->plans, 0, PLANS * sizeof(*d->plans));
	if (graph && graph_fill(d, graph, plugins, path))
		do
			status = bt_graph_run(graph);
		while (status == BT_GRAPH_RUN_STATUS_AGAIN);
	bt_graph_put_ref(graph);
	/* Its words are for programmers. */
	bt_current_thread_clear_error();
	return status == BT_GRAPH_RUN_STATUS_OK;
}

static int leaf_read(struct decoding *d, const struct plugins *plugins, const char *path,
		     char *problem, size_t size)
{
	struct leaf leaf;
	int rc = leaf_prepare(&leaf, path);

	d->lost = 0;
	if (!rc && !folder_read(d, plugins, leaf.use) && !d->error && !*leaf.damage)
		(void)snprintf(leaf.damage, sizeof(leaf.damage), "it could not be read to its end");
	leaf_done(&leaf);
	if (rc || (*leaf.damage && !d->process))
		(void)snprintf(problem, size, "%s: %s", path,
			       *leaf.damage ? leaf.damage : strerror(-rc));
	/* Of a folder with several processes nobody knows whose they were. */
	if (d->process) {
		import_info(d->process)->drops[TRACE_DROP_ENGINE] += d->lost;
		if (*leaf.damage)
			import_damage(d->process, leaf.damage);
	}
	return d->error;
}

static int readers_make(struct import *import, struct trace_reader ***readers, unsigned *count)
{
	unsigned processes = import_process_count(import);

	*readers = calloc(processes + 1u, sizeof(struct trace_reader *));
	if (!*readers)
		return -ENOMEM;
	for (*count = 0; *count < processes; (*count)++)
		(*readers)[*count] = import_reader(import_process_at(import, *count));
	return 0;
}

static int all_read(struct decoding *d, const struct leaves *leaves, const struct plugins *plugins,
		    char *problem, size_t problem_size)
{
	int rc = 0;

	d->plans = calloc(PLANS, sizeof(*d->plans));
	if (!d->plans)
		return -ENOMEM;
	for (unsigned i = 0; i < leaves->count && !rc; i++)
		rc = leaf_read(d, plugins, leaves->paths[i], problem, problem_size);
	free(d->plans);
	return rc ? rc : import_finish(d->import);
}

int ctf_open(const char *path, ctf_type_fn type_of, struct trace_reader ***readers, unsigned *count,
	     char *err, size_t err_size)
{
	const struct plugins plugins = {plugin_find("ctf"), plugin_find("utils")};
	struct decoding d = {.type_of = type_of};
	struct leaves leaves = {0};
	char problem[PATH_MAX + 300] = "";
	int rc = leaves_find(&leaves, path);

	*count = 0;
	*err = '\0';
	if (!rc && (!plugins.ctf || !plugins.utils))
		rc = -ENOTSUP;
	if (!rc)
		d.import = import_new(path, &rc);
	if (d.import)
		rc = all_read(&d, &leaves, &plugins, problem, sizeof(problem));
	if (!rc && !import_process_count(d.import))
		rc = -ENODATA;
	if (!rc)
		rc = readers_make(d.import, readers, count);
	import_free(d.import);
	leaves_free(&leaves);
	bt_plugin_put_ref(plugins.ctf);
	bt_plugin_put_ref(plugins.utils);
	if ((!rc || rc == -ENODATA) && *problem)
		(void)snprintf(err, err_size, "%s", problem);
	else if (rc)
		(void)snprintf(err, err_size, "reading the LTTng trace %s: %s", path,
			       rc == -ENODATA   ? "there are no events in it"
			       : rc == -ENOTSUP ? "libbabeltrace2's plugins are not installed"
						: strerror(-rc));
	return rc;
}

__attribute__((visibility("default"))) int waylay_ctf_open(const char *path, ctf_type_fn type_of,
							   struct trace_reader ***readers,
							   unsigned *count, char *err,
							   size_t err_size);
int waylay_ctf_open(const char *path, ctf_type_fn type_of, struct trace_reader ***readers,
		    unsigned *count, char *err, size_t err_size)
{
	return ctf_open(path, type_of, readers, count, err, err_size);
}
