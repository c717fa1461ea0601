/* SPDX-License-Identifier: Apache-2.0
 *
 * What the event table says of an argument and its value, for every exporter alike.
 */
#ifndef WAYLAY_EXPORTERS_ARG_RULES_H
#define WAYLAY_EXPORTERS_ARG_RULES_H

#include "tracer/events/events.h"

#include <stdbool.h>

/* Whether an argument is not shown: no text (string 0), no flags, the words of an enumeration that say
 * "nothing", and the stack, which events carry in a form of its own. */
bool arg_left_out(const struct wl_arg *arg, uint64_t value);

/* The number that the payload of a range stands for. */
struct payload {
	enum { PAYLOAD_UINT, PAYLOAD_INT, PAYLOAD_DOUBLE } kind;
	union {
		uint64_t as_uint;
		int64_t as_int;
		double as_double;
	};
};
/* type: an enum WL_payload_type, not none. */
struct payload payload_of(uint64_t value, unsigned type);

#endif
