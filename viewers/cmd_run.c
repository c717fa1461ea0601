/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay run: traces a command, then exports, reports and judges. Under a launcher's rank variables it
 * only sets the job up and becomes it.
 */
#include "tracer/inject/ranks.h"
#include "tracer/inject/settings.h"
#include "viewers/gate_options.h"
#include "viewers/run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_OUTPUT = 'o', KEY_QUIET = 'q', KEY_NO_EXPORT = 0x100, KEY_SETTING = 0x300 };

struct run_arguments {
	struct gate gate;
	const char *output;
	bool quiet, no_export;
	char **command;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run_arguments *arguments = state->input;

	switch (key) {
	case KEY_OUTPUT:
		arguments->output = arg;
		return 0;
	case KEY_QUIET:
		arguments->quiet = true;
		return 0;
	case KEY_NO_EXPORT:
		arguments->no_export = true;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->gate;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command given: waylay run [OPTIONS] -- COMMAND [ARG...]");
		return 0;
	case ARGP_KEY_END:
		gate_options_check(state, &arguments->gate, false);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_gate(int key, char *arg, struct argp_state *state)
{
	return gate_option(state, state->input, key, arg) ? 0 : ARGP_ERR_UNKNOWN;
}

/* --- one option for each setting -------------------------------------------------------------- */

#define SETTINGS_MAX 64
static struct argp_option setting_options[SETTINGS_MAX + 1];

static error_t parse_setting(int key, char *arg, struct argp_state *state)
{
	unsigned count;
	const struct wl_setting *rows = wl_setting_rows(&count);
	const struct wl_setting *row;
	char err[256];

	if (key < KEY_SETTING || key >= KEY_SETTING + (int)count)
		return ARGP_ERR_UNKNOWN;
	row = &rows[key - KEY_SETTING];
	if (!arg)
		arg = (char *)(uintptr_t)wl_setting_flag_value(row);
	if (wl_setting_parse(NULL, row, arg, err, sizeof(err)) != 0)
		argp_error(state, "--%s: %s", row->option, err);
	if (setenv(row->variable, arg, 1) != 0)
		argp_failure(state, EXIT_RUN_FAILED, errno, "--%s", row->option);
	return 0;
}

static void settings_prepare(void)
{
	unsigned count, used = 0;
	const struct wl_setting *rows = wl_setting_rows(&count);

	for (unsigned i = 0; i < count && used < SETTINGS_MAX; i++) {
		if (!rows[i].option[0])
			continue;
		setting_options[used++] =
			(struct argp_option){.name = rows[i].option,
					     .key = KEY_SETTING + (int)i,
					     .arg = rows[i].argument[0] ? rows[i].argument : NULL,
					     .doc = rows[i].help,
					     .group = 2};
	}
}

/* --- the job's environment -------------------------------------------------------------------- */

static bool put(const char *name, const char *value)
{
	if (setenv(name, value, 1) == 0)
		return true;
	say("setting %s: %s", name, strerror(errno));
	return false;
}

/* Absolute, since the job may change its directory; made here, so that a bad one is said before the
 * job starts. */
static bool prepare_directory(void)
{
	const char *wanted = getenv("WAYLAY_DIR");
	char path[PATH_MAX];

	if (!wanted || !*wanted)
		wanted = "waylay-out";
	if (mkdir(wanted, 0700) != 0 && errno != EEXIST) {
		say("making the directory for recordings, %s: %s; say another with --dir", wanted,
		    strerror(errno));
		return false;
	}
	if (!realpath(wanted, path) || access(path, W_OK | X_OK) != 0) {
		say("writing to the directory for recordings, %s: %s; say another with --dir",
		    wanted, strerror(errno));
		return false;
	}
	return put("WAYLAY_DIR", path);
}

static bool prepare_run(void)
{
	const char *given = getenv("WAYLAY_RUN");
	char run[64];

	if (given && *given)
		return true;
	run_identifier(run, sizeof(run));
	return put("WAYLAY_RUN", run);
}

static bool prepare_preload(void)
{
	const char *library = find_preload(), *before = getenv("LD_PRELOAD");
	char *value = NULL;
	bool ok;

	if (!library) {
		say("libwaylay.so is neither beside this program nor in ../lib/waylay; build or "
		    "install Waylay again");
		return false;
	}
	if (strpbrk(library, " :")) {
		say("the path of libwaylay.so, %s, has a space or colon, which LD_PRELOAD cannot "
		    "carry; install Waylay elsewhere",
		    library);
		return false;
	}
	if (asprintf(&value, "%s%s%s", library, before && *before ? ":" : "",
		     before ? before : "") < 0)
		return false;
	ok = put("LD_PRELOAD", value);
	free(value);
	return ok;
}

static bool prepare_settings(void)
{
	extern char **environ;
	struct wl_settings settings;
	char err[256];

	if (wl_settings_read(&settings, environ, err, sizeof(err)) == 0)
		return true;
	say("%s", err);
	return false;
}

/* --- afterwards ------------------------------------------------------------------------------- */

static void export_trace(struct model *model, const struct run_arguments *arguments)
{
	char name[PATH_MAX], err[512];

	if (arguments->output)
		(void)snprintf(name, sizeof(name), "%s", arguments->output);
	else
		run_trace_name(arguments->command, name, sizeof(name));
	if (perfetto_export(model, name, NULL, NULL, err, sizeof(err)) != 0)
		say("%s", err);
	else
		say("trace: %s (open it in ui.perfetto.dev)", name);
}

static int judge(const struct run_arguments *arguments)
{
	const struct analysis_options how = {.skip = arguments->gate.skip,
					     .same_thread = arguments->gate.same_thread};
	const struct input input = {.run = getenv("WAYLAY_RUN")};
	struct analysis *analysis = NULL;
	struct model *model = run_recorded() ? input_open(&input) : NULL;
	int verdict = EXIT_HOLDS;
	char err[256];

	if (!model) {
		if (!arguments->quiet)
			say("nothing was recorded: the job used neither CUDA nor libfabric, or did "
			    "not load libwaylay.so ('waylay doctor' says more)");
		return gate_set(&arguments->gate) ? EXIT_CANNOT_TELL : EXIT_HOLDS;
	}
	if (analysis_run(model, &how, &analysis, err, sizeof(err)) != 0) {
		say("%s", err);
		model_close(model);
		return gate_set(&arguments->gate) ? EXIT_CANNOT_TELL : EXIT_HOLDS;
	}
	if (!arguments->quiet)
		report_text(stderr, model, analysis);
	if (gate_set(&arguments->gate))
		verdict = gate_judge(stderr, &arguments->gate, model, analysis);
	if (!arguments->no_export)
		export_trace(model, arguments);
	analysis_free(analysis);
	model_close(model);
	return verdict;
}

int cmd_run(int argc, char **argv)
{
	static const struct argp gate_argp = {gate_options, parse_gate, NULL, NULL,
					      NULL,         NULL,       NULL};
	static const struct argp setting_argp = {
		setting_options, parse_setting, NULL, NULL, NULL, NULL, NULL};
	static const struct argp_child children[] = {
		{&gate_argp, 0, "Gate:", 1}, {&setting_argp, 0, "Recording:", 2}, {0}};
	static const struct argp_option options[] = {
		{"output", KEY_OUTPUT, "FILE", 0, "the trace (default NAME.pftrace)", 0},
		{"no-export", KEY_NO_EXPORT, NULL, 0, "record and report, write no trace", 0},
		{"quiet", KEY_QUIET, NULL, 0, "no report", 0},
		{0}};
	static const struct argp argp = {
		options,
		parse,
		"-- COMMAND [ARG...]",
		"Traces a command and reports on standard error."
		"\vReturns the command's status (128 + signal); when that is 0, the gate's: 1 exceeded, "
		"2 cannot tell. 125 to 127 are its own failures.\n",
		children,
		NULL,
		NULL};
	struct run_arguments arguments = {.gate = GATE_NONE};
	int rank, world_size, local_rank, status;

	settings_prepare();
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
	wl_ranks_read(&rank, &world_size, &local_rank);
	if (!prepare_settings() || !prepare_directory() || !prepare_run() || !prepare_preload())
		return EXIT_RUN_FAILED;
	if (rank >= 0 && world_size != 1) {
		if (gate_set(&arguments.gate) && rank == 0)
			say("under a launcher run only records; judge with 'waylay check' afterwards");
		return run_become(arguments.command);
	}
	status = run_child(arguments.command);
	/* The job's own environment is of no use to what follows here. */
	(void)unsetenv("LD_PRELOAD");
	if (status < 0)
		return -status;
	int verdict = judge(&arguments);

	return status ? status : verdict;
}
