/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate's options for argp.
 */
#ifndef WAYLAY_VIEWERS_GATE_OPTIONS_H
#define WAYLAY_VIEWERS_GATE_OPTIONS_H

#include "viewers/viewers.h"

#include <argp.h>

enum gate_key {
	GATE_MAX_SYNCS = 0x200,
	GATE_MAX_STAGED,
	GATE_RANGE,
	GATE_SKIP,
	GATE_TOTAL,
	GATE_SAME_THREAD,
};
#define GATE_OPTIONS 6
extern const struct argp_option gate_options[GATE_OPTIONS + 1];

#define GATE_NONE                                                                                  \
	{                                                                                          \
		.max_syncs = GATE_UNSET, .max_staged = GATE_UNSET                                  \
	}

/* True if the key was one of the gate's; a bad value ends the program with EXIT_USAGE. */
bool gate_option(struct argp_state *state, struct gate *gate, int key, const char *arg);
/* At ARGP_KEY_END. needed: a budget must have been given. */
void gate_options_check(struct argp_state *state, const struct gate *gate, bool needed);

#endif
