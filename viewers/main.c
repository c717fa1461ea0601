/* SPDX-License-Identifier: Apache-2.0
 *
 * The waylay command.
 */
#include "viewers/viewers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"run", cmd_run, "trace a job: waylay run -- python train.py"},
	{"report", cmd_report, "what waited, why, where, how long; registrations; transfers"},
	{"check", cmd_check, "hold a recording to a budget (CI gate)"},
	{"diff", cmd_diff, "compare two recordings, place by place"},
	{"top", cmd_top, "what a running job waits for, now"},
	{"view", cmd_view, "open a trace in the Perfetto UI"},
	{"export", cmd_export, "write a Perfetto or Chrome trace"},
	{"pack", cmd_pack, "pack recordings into one compressed file"},
	{"unpack", cmd_unpack, "put packed recordings back"},
	{"ctl", cmd_ctl, "start, stop, snapshot a running job"},
	{"doctor", cmd_doctor, "what can be traced on this machine"},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *out)
{
	(void)fprintf(out, "Usage: waylay COMMAND [OPTIONS]\n\n"
			   "Shows where a GPU or fabric job waits: every synchronization, memory\n"
			   "registration and transfer, with the line of code that caused it.\n\n");
	for (unsigned i = 0; i < COMMANDS; i++)
		(void)fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
	(void)fprintf(out, "\n'waylay COMMAND --help' lists a command's options.\n\n"
			   "Examples:\n"
			   "  waylay run -- python train.py\n"
			   "  waylay run --range step --max-syncs 0 -- pytest test_step.py\n"
			   "  mpirun -n 8 waylay run -- ./app && waylay report\n");
}

/* What a command says is its result: words that did not arrive are no success. */
static int said(int status)
{
	int error = fflush(stdout) ? errno : ferror(stdout) ? EIO : 0;

	if (!error || status != EXIT_HOLDS)
		return status;
	say("writing to standard output: %s", strerror(error));
	return EXIT_EXCEEDED;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		(void)puts("waylay " WAYLAY_VERSION);
		return said(EXIT_HOLDS);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		help(stdout);
		return said(EXIT_HOLDS);
	}
	for (unsigned i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		return said(commands[i].run(argc - 1, argv + 1));
	}
	say("there is no command '%s'; 'waylay --help' lists them", argv[1]);
	return EXIT_USAGE;
}
