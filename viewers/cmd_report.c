/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay report: what waited, why, where, how long.
 */
#include "viewers/options.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <string.h>

struct report_arguments {
	struct input input;
	bool json;
};

static const struct option_row rows[] = {
	{"json", 0, NULL, "everything, for programs (schema: waylay-report(1))", 0},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	(void)key;
	(void)arg;
	(void)err;
	(void)err_size;
	((struct report_arguments *)user)->json = true;
	return 0;
}

static int report(struct model *model, bool json)
{
	struct analysis *analysis = NULL;
	char err[256];
	int error;

	if (analysis_run(model, NULL, &analysis, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	errno = 0;
	error = 0;
	if (json)
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
			"  waylay report waylay-out --json | jq .sites",
		.mistake_status = EXIT_USAGE,
		.group_count = 2,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL},
			   input_options(&arguments.input)},
	};
	struct model *model;
	int status;

	input_operands(&arguments.input, argc, argv, options_parse(&line, argc, argv));
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_EXCEEDED;
	status = report(model, arguments.json);
	model_close(model);
	return status;
}
