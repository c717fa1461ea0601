/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay export: traces for viewers.
 */
#include "viewers/options.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <string.h>

enum { KEY_FORMAT, KEY_OUTPUT, KEY_COMPRESS, KEY_NO_STACKS };

struct export_arguments {
	struct input input;
	enum trace_format format;
	const char *output;
	struct export_options options;
};

static const struct option_row rows[] = {
	{"format", 'f', "FORMAT", "perfetto (default) or chrome", KEY_FORMAT},
	{"output", 'o', "FILE",
	 "where to, - for standard output (default waylay.pftrace, waylay.json)", KEY_OUTPUT},
	{"compress", 0, NULL, "deflate packets; gzip for chrome (as FILE.gz does)", KEY_COMPRESS},
	{"no-stacks", 0, NULL, "leave call stacks out", KEY_NO_STACKS},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct export_arguments *arguments = user;

	switch (key) {
	case KEY_FORMAT:
		arguments->format = strcmp(arg, "chrome") == 0 ? TRACE_CHROME : TRACE_PERFETTO;
		if (arguments->format == TRACE_CHROME || strcmp(arg, "perfetto") == 0)
			return 0;
		(void)snprintf(err, err_size, "'%.80s' is neither perfetto nor chrome", arg);
		return -EINVAL;
	case KEY_OUTPUT:
		if (*arg) {
			arguments->output = arg;
			return 0;
		}
		(void)snprintf(err, err_size, "no file given");
		return -EINVAL;
	case KEY_COMPRESS:
		arguments->options.compress = EXPORT_COMPRESS_DEFLATE;
		return 0;
	default:
		arguments->options.no_stacks = true;
		return 0;
	}
}

int cmd_export(int argc, char **argv)
{
	struct export_arguments arguments = {0};
	const struct command_line line = {
		.name = "waylay export",
		.operands = "[DIR|FILE...]",
		.what = "Writes a recording as a trace for viewers.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out.\n\n"
			"Examples:\n"
			"  waylay export -o job.pftrace            # ui.perfetto.dev\n"
			"  waylay export -f chrome -o job.json.gz  # chrome://tracing, speedscope",
		.mistake_status = EXIT_USAGE,
		.group_count = 2,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL},
			   input_options(&arguments.input)},
	};
	struct export_result result = {0};
	struct model *model;
	int error;

	input_operands(&arguments.input, argc, argv, options_parse(&line, argc, argv));
	if (!arguments.output)
		arguments.output =
			arguments.format == TRACE_CHROME ? "waylay.json" : "waylay.pftrace";
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_EXCEEDED;
	error = trace_write(model, arguments.format, arguments.output, &arguments.options, &result);
	if (!error)
		say("%s: %llu slices, %llu instants, %llu flows, %llu bytes",
		    strcmp(arguments.output, "-") == 0 ? "standard output" : arguments.output,
		    (unsigned long long)result.slices, (unsigned long long)result.instants,
		    (unsigned long long)result.flows, (unsigned long long)result.bytes);
	model_close(model);
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}
