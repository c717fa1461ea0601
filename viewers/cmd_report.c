/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay report: what waited, why, where, how long.
 */
#include "viewers/html.h"
#include "viewers/options.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <string.h>

struct report_arguments {
	struct input input;
	bool json;
	const char *html; /* NULL: none */
	const char *steps;
};

enum { REPORT_JSON, REPORT_HTML, REPORT_STEPS };

static const struct option_row rows[] = {
	{"json", 0, NULL, "everything, for programs (schema: waylay-report(1))", REPORT_JSON},
	{"html", 0, "FILE", "as a page that opens from disk, with a timeline", REPORT_HTML},
	{"steps", 0, "NAME", "the NVTX range that a step is (found out)", REPORT_STEPS},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct report_arguments *arguments = user;

	if (key == REPORT_JSON) {
		arguments->json = true;
		return 0;
	}
	if (key == REPORT_HTML)
		arguments->html = arg;
	else
		arguments->steps = arg;
	if (*arg)
		return 0;
	(void)snprintf(err, err_size, "no %s given", key == REPORT_HTML ? "file" : "name");
	return -EINVAL;
}

static int report(struct model *model, const struct report_arguments *arguments)
{
	const struct analysis_options how = {.steps = arguments->steps};
	struct analysis *analysis = NULL;
	char err[1024];
	int error;

	if (analysis_run(model, &how, &analysis, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	errno = 0;
	error = 0;
	if (arguments->html) {
		error = html_write(arguments->html, model, analysis, err, sizeof(err));
		analysis_free(analysis);
		if (error)
			say("%s", err);
		return error ? EXIT_EXCEEDED : EXIT_HOLDS;
	}
	if (arguments->json)
		error = report_json(stdout, model, analysis);
	else
		report_text(stdout, model, analysis);
	if (fflush(stdout) != 0 || ferror(stdout) || error) {
		say("writing the report to standard output: %s", strerror(error == -ENOMEM ? ENOMEM
									  : errno          ? errno
											   : EIO));
		error = -EIO;
	}
	analysis_free(analysis);
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}

int cmd_report(int argc, char **argv)
{
	struct report_arguments arguments = {0};
	const struct command_line line = {
		.name = "waylay report",
		.operands = "[DIR|FILE...]",
		.what = "Says what waited, why, where and how long; registrations; transfers.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out.\n\n"
			"Examples:\n"
			"  waylay report\n"
			"  waylay report waylay-out --json | jq .sites\n"
			"  waylay report --html report.html",
		.mistake_status = EXIT_USAGE,
		.group_count = 2,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL},
			   input_options(&arguments.input)},
	};
	struct model *model;
	int status;

	const int first = options_parse(&line, argc, argv);

	if (arguments.json && arguments.html)
		options_mistake(&line, "--json and --html exclude each other");
	input_operands(&arguments.input, argc, argv, first);
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_EXCEEDED;
	status = report(model, &arguments);
	model_close(model);
	return status;
}
