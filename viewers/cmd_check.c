/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay check: a gate for CI.
 */
#include "viewers/gate_options.h"

enum { KEY_ALL_RUNS = 0x100, KEY_RUN };

struct check_arguments {
	struct input input;
	struct gate gate;
};

static const struct argp_option options[] = {
	{"all-runs", KEY_ALL_RUNS, NULL, 0, "every run in DIR, not the newest alone", 2},
	{"run", KEY_RUN, "ID", 0, "only the run with this identifier", 2},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct check_arguments *arguments = state->input;

	switch (key) {
	case KEY_ALL_RUNS:
		arguments->input.all_runs = true;
		return 0;
	case KEY_RUN:
		arguments->input.run = arg;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->gate;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->input.paths = (const char *const *)&state->argv[state->next];
		arguments->input.path_count = (unsigned)(state->argc - state->next);
		return 0;
	case ARGP_KEY_END:
		gate_options_check(state, &arguments->gate, true);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_gate(int key, char *arg, struct argp_state *state)
{
	return gate_option(state, state->input, key, arg) ? 0 : ARGP_ERR_UNKNOWN;
}

int cmd_check(int argc, char **argv)
{
	static const struct argp gate_argp = {gate_options, parse_gate, NULL, NULL,
					      NULL,         NULL,       NULL};
	static const struct argp_child children[] = {{&gate_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"[DIR|FILE...]",
		"Holds a recording to a budget: exits 0 if it holds, 1 if it is exceeded, 2 if the "
		"recording does not allow a verdict."
		"\vDIR defaults to $WAYLAY_DIR, else waylay-out. A synchronization is a call that "
		"returns only after device work, whether or not that work was done by then.\n\n"
		"Examples:\n  waylay check --range step --max-syncs 0 --skip 1\n"
		"  waylay check --max-syncs 100 --max-staged 0 waylay-out\n",
		children,
		NULL,
		NULL};
	struct check_arguments arguments = {.gate = GATE_NONE};
	struct analysis *analysis = NULL;
	struct model *model;
	char err[256];
	int verdict;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_CANNOT_TELL;
	const struct analysis_options how = {.skip = arguments.gate.skip,
					     .same_thread = arguments.gate.same_thread};

	if (analysis_run(model, &how, &analysis, err, sizeof(err)) != 0) {
		say("%s", err);
		model_close(model);
		return EXIT_CANNOT_TELL;
	}
	verdict = gate_judge(stdout, &arguments.gate, model, analysis);
	analysis_free(analysis);
	model_close(model);
	return verdict;
}
