/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of a record as members of a JSON object, from the event table alone; arg_rules.h says which
 * are left out.
 */
#ifndef WAYLAY_EXPORTERS_JSON_ARGS_H
#define WAYLAY_EXPORTERS_JSON_ARGS_H

#include "exporters/exporters.h"
#include "exporters/json.h"

/* Where a type has the arguments that are treated apart: indexes, -1 none. */
struct json_type {
	const struct wl_event_type *type;
	int name, stack, cls, rule, payload, payload_type;
};

/* The newest asked for, by number: names are compared once a type, not once a record. */
struct json_types {
	struct json_type kept[64];
};

const struct json_type *json_type_of(struct json_types *types, const struct wl_event_type *type);
/* One more member; *any: whether there was one before. */
void json_member(struct json *json, bool *any, const char *name);
/* All members, into an object that the caller opens and closes; whether there was any. */
bool json_args(struct json *json, struct json_types *types, struct model *model, unsigned process,
	       const struct trace_event *event);

#endif
