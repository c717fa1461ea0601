/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay report: what waited, why, where, how long.
 */
#include "viewers/viewers.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

enum { KEY_JSON = 0x100, KEY_ALL_RUNS, KEY_RUN };

struct report_arguments {
	struct input input;
	bool json;
};

static const struct argp_option options[] = {
	{"json", KEY_JSON, NULL, 0, "everything, for programs (docs/report-json.md)", 0},
	{"all-runs", KEY_ALL_RUNS, NULL, 0, "every run in DIR, not the newest alone", 0},
	{"run", KEY_RUN, "ID", 0, "only the run with this identifier", 0},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_arguments *arguments = state->input;

	switch (key) {
	case KEY_JSON:
		arguments->json = true;
		return 0;
	case KEY_ALL_RUNS:
		arguments->input.all_runs = true;
		return 0;
	case KEY_RUN:
		arguments->input.run = arg;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->input.paths = (const char *const *)&state->argv[state->next];
		arguments->input.path_count = (unsigned)(state->argc - state->next);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_report(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"[DIR|FILE...]",
		"What waited, why, where and how long; registrations; transfers."
		"\vDIR defaults to $WAYLAY_DIR, else waylay-out.\n\nExamples:\n"
		"  waylay report\n  waylay report waylay-out --json | jq .synchronizations\n",
		NULL,
		NULL,
		NULL};
	struct report_arguments arguments = {0};
	struct analysis *analysis = NULL;
	struct model *model;
	char err[256];
	int error = 0;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_EXCEEDED;
	if (analysis_run(model, NULL, &analysis, err, sizeof(err)) != 0) {
		say("%s", err);
		model_close(model);
		return EXIT_EXCEEDED;
	}
	if (arguments.json)
		error = report_json(stdout, model, analysis);
	else
		report_text(stdout, model, analysis);
	if (fflush(stdout) != 0 || error) {
		say("writing the report: %s", strerror(error ? -error : EIO));
		error = -EIO;
	}
	analysis_free(analysis);
	model_close(model);
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}
