/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay export: traces for viewers.
 */
#include "viewers/viewers.h"

#include <argp.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_FORMAT = 'f',
	KEY_OUTPUT = 'o',
	KEY_ALL_RUNS = 0x100,
	KEY_RUN,
	KEY_COMPRESS,
	KEY_NO_STACKS
};

struct export_arguments {
	struct input input;
	const char *format, *output;
	struct export_options options;
};

static const struct argp_option options[] = {
	{"format", KEY_FORMAT, "FORMAT", 0, "perfetto (default) or chrome", 0},
	{"output", KEY_OUTPUT, "FILE", 0,
	 "where to, - for standard output (default waylay.pftrace)", 0},
	{"compress", KEY_COMPRESS, NULL, 0, "deflate packets; gzip for chrome (as FILE.gz does)",
	 0},
	{"no-stacks", KEY_NO_STACKS, NULL, 0, "leave call stacks out", 0},
	{"all-runs", KEY_ALL_RUNS, NULL, 0, "every run in DIR, not the newest alone", 0},
	{"run", KEY_RUN, "ID", 0, "only the run with this identifier", 0},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct export_arguments *arguments = state->input;

	switch (key) {
	case KEY_FORMAT:
		if (strcmp(arg, "perfetto") != 0 && strcmp(arg, "chrome") != 0)
			argp_error(state, "--format is perfetto or chrome, not '%s'", arg);
		arguments->format = arg;
		return 0;
	case KEY_OUTPUT:
		arguments->output = arg;
		return 0;
	case KEY_COMPRESS:
		arguments->options.compress = EXPORT_COMPRESS_DEFLATE;
		return 0;
	case KEY_NO_STACKS:
		arguments->options.no_stacks = true;
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

/* Only on a terminal, on one line that is overwritten. */
static int progress(void *user, unsigned permille)
{
	(void)user;
	(void)fprintf(stderr, "\rwaylay: exporting %3u.%u %%", permille / 10, permille % 10);
	return 0;
}

int cmd_export(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"[DIR|FILE...]",
		"Writes a recording as a trace for viewers."
		"\vDIR defaults to $WAYLAY_DIR, else waylay-out.\n\nExamples:\n"
		"  waylay export -o job.pftrace            # ui.perfetto.dev\n"
		"  waylay export -f chrome -o job.json.gz  # chrome://tracing, speedscope\n",
		NULL,
		NULL,
		NULL};
	struct export_arguments arguments = {.format = "perfetto"};
	struct export_result result = {0};
	struct model *model;
	bool chrome, shows = isatty(STDERR_FILENO);
	char err[512] = "";
	int error;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	chrome = strcmp(arguments.format, "chrome") == 0;
	if (!arguments.output)
		arguments.output = chrome ? "waylay.json" : "waylay.pftrace";
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_EXCEEDED;
	if (shows)
		arguments.options.progress = progress;
	error = (chrome ? chrome_export : perfetto_export)(
		model, arguments.output, &arguments.options, &result, err, sizeof(err));
	if (shows)
		(void)fputs("\r\033[K", stderr);
	if (error)
		say("%s", err);
	else
		say("%s: %llu slices, %llu instants, %llu flows, %llu bytes", arguments.output,
		    (unsigned long long)result.slices, (unsigned long long)result.instants,
		    (unsigned long long)result.flows, (unsigned long long)result.bytes);
	model_close(model);
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}
