/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay check: a gate for CI.
 */
#include "viewers/gate.h"

#include <errno.h>
#include <string.h>

/* The exit status is the verdict, also where its words cannot be written to standard output. */
static int judge(struct gate *gate, const struct input *input)
{
	struct analysis *analysis = NULL;
	struct gate_verdict verdict;
	struct model *model;
	char err[1024];

	if (gate_prepare(gate, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_CANNOT_TELL;
	}
	model = input_open(input);
	if (!model)
		return EXIT_CANNOT_TELL;
	const struct analysis_options how = gate_analysis(gate);

	if (analysis_run(model, &how, &analysis, err, sizeof(err)) != 0) {
		say("%s", err);
		model_close(model);
		return EXIT_CANNOT_TELL;
	}
	gate_decide(gate, analysis, &verdict);
	errno = 0;
	/* What cannot be written must not look like a pass to who reads only that. */
	if (!gate_tell(stdout, gate, model, analysis, &verdict) && verdict.status == EXIT_HOLDS)
		verdict.status = EXIT_CANNOT_TELL;
	if (ferror(stdout))
		say("writing the verdict to standard output: %s", strerror(errno ? errno : EIO));
	analysis_free(analysis);
	model_close(model);
	return verdict.status;
}

int cmd_check(int argc, char **argv)
{
	struct input input = {0};
	struct gate gate = {0};
	const struct command_line line = {
		.name = "waylay check",
		.operands = "[DIR|FILE...]",
		.what = "Holds a recording to budgets: exits 0 if they hold, 1 if one is exceeded, "
			"2 if the recording does not allow a verdict.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out. A synchronization is a call "
			"that\nreturns only after device work, whether or not that work was done by "
			"then.\n\n"
			"Examples:\n"
			"  waylay check --range step --skip 1 --max-syncs 0\n"
			"  waylay check --range step --save-baseline main.json\n"
			"  waylay check --baseline main.json --junit waylay.xml",
		.mistake_status = EXIT_USAGE,
		.group_count = 2,
		.groups = {gate_options(&gate), input_options(&input)},
	};
	int status;

	input_operands(&input, argc, argv, options_parse(&line, argc, argv));
	gate_options_check(&line, &gate, true);
	status = judge(&gate, &input);
	gate_done(&gate);
	return status;
}
