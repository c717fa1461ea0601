/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate's options, the same for `waylay check` and `waylay run`.
 */
#include "viewers/gate_options.h"

#include <string.h>

const struct argp_option gate_options[GATE_OPTIONS + 1] = {
	{"max-syncs", GATE_MAX_SYNCS, "N", 0, "fail when more than N synchronizations happen", 1},
	{"max-staged", GATE_MAX_STAGED, "N", 0, "fail when more than N copies are staged", 1},
	{"range", GATE_RANGE, "NAME", 0, "count inside the NVTX range NAME, worst instance", 1},
	{"skip", GATE_SKIP, "N", 0, "leave out the first N instances of the range", 1},
	{"total", GATE_TOTAL, NULL, 0, "bound the sum over instances and ranks instead", 1},
	{"same-thread", GATE_SAME_THREAD, NULL, 0, "count what the range's own thread did", 1},
	{0}};

static bool number(struct argp_state *state, const char *option, const char *arg, uint64_t max,
		   uint64_t *value)
{
	if (parse_count(arg, max, value))
		return true;
	argp_error(state, "--%s wants a whole number, not '%s'", option, arg);
	return false;
}

bool gate_option(struct argp_state *state, struct gate *gate, int key, const char *arg)
{
	uint64_t value = 0;

	switch (key) {
	case GATE_MAX_SYNCS:
		(void)number(state, "max-syncs", arg, GATE_UNSET - 1, &gate->max_syncs);
		return true;
	case GATE_MAX_STAGED:
		(void)number(state, "max-staged", arg, GATE_UNSET - 1, &gate->max_staged);
		return true;
	case GATE_RANGE:
		if (!*arg)
			argp_error(state, "--range wants the name of a range");
		gate->range = arg;
		return true;
	case GATE_SKIP:
		if (number(state, "skip", arg, UINT32_MAX, &value))
			gate->skip = (unsigned)value;
		return true;
	case GATE_TOTAL:
		gate->total = true;
		return true;
	case GATE_SAME_THREAD:
		gate->same_thread = true;
		return true;
	default:
		return false;
	}
}

/* Options that say nothing without another are mistakes, and a gate that never fails is one too. */
void gate_options_check(struct argp_state *state, const struct gate *gate, bool needed)
{
	if (!gate->range && (gate->skip || gate->total || gate->same_thread))
		argp_error(state, "--skip, --total and --same-thread go with --range NAME");
	if ((needed || gate->range) && !gate_set(gate))
		argp_error(state, "no budget given: say --max-syncs N or --max-staged N");
}
