/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay run: traces a command, then exports, reports and judges. Under a launcher's rank variables it
 * only sets the job up and becomes it.
 */
#include "tracer/settings/settings.h"
#include "viewers/door.h"
#include "viewers/gate.h"
#include "viewers/lttng.h"
#include "viewers/run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_OUTPUT, KEY_QUIET, KEY_NO_EXPORT };

struct run_arguments {
	struct gate gate;
	const char *output;
	bool quiet, no_export;
	bool run_given; /* --run-id, not inherited */
	struct lttng_session lttng;
	char **command;
};

static const struct option_row rows[] = {
	{"output", 'o', "FILE", "the trace (default NAME.pftrace)", KEY_OUTPUT},
	{"no-export", 0, NULL, "record and report, write no trace", KEY_NO_EXPORT},
	{"quiet", 'q', NULL, "no report", KEY_QUIET},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct run_arguments *arguments = user;

	switch (key) {
	case KEY_OUTPUT:
		if (!*arg) {
			(void)snprintf(err, err_size, "no file given");
			return -EINVAL;
		}
		arguments->output = arg;
		return 0;
	case KEY_QUIET:
		arguments->quiet = true;
		return 0;
	default:
		arguments->no_export = true;
		return 0;
	}
}

/* --- one option for each setting -------------------------------------------------------------- */

#define SETTINGS_MAX 48
static struct option_row setting_rows[SETTINGS_MAX];

static int take_setting(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct run_arguments *arguments = user;
	unsigned count;
	const struct wl_setting *row = &wl_setting_rows(&count)[key];

	if (!arg)
		arg = wl_setting_flag_value(row);
	if (wl_setting_parse(NULL, row, arg, err, err_size) != 0) {
		(void)snprintf(err, err_size, "'%.80s' is not understood; accepted: %s", arg,
			       wl_setting_accepts(row));
		return -EINVAL;
	}
	if (setenv(row->variable, arg, 1) != 0) {
		(void)snprintf(err, err_size, "%s", strerror(errno));
		return -EINVAL;
	}
	if (strcmp(row->variable, "WAYLAY_RUN") == 0)
		arguments->run_given = true;
	return 0;
}

static struct option_group setting_options(struct run_arguments *arguments)
{
	unsigned count, used = 0;
	const struct wl_setting *settings = wl_setting_rows(&count);

	for (unsigned i = 0; i < count && used < SETTINGS_MAX; i++) {
		if (!settings[i].option[0])
			continue;
		setting_rows[used++] = (struct option_row){
			.name = settings[i].option,
			.argument = settings[i].argument[0] ? settings[i].argument : NULL,
			.help = settings[i].help,
			.key = (int)i};
	}
	return (struct option_group){.title = "Recording (each also as a variable, waylay-run(1)):",
				     .rows = setting_rows,
				     .count = used,
				     .take = take_setting,
				     .user = arguments};
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
	const char *wanted = getenv("WAYLAY_DIR"), *doing = "making";
	char path[PATH_MAX];
	struct stat is;
	int error;

	if (!wanted || !*wanted)
		wanted = "waylay-out";
	error = -run_make_directory(wanted);
	if (!error) {
		doing = "using";
		if (stat(wanted, &is) == 0 && !S_ISDIR(is.st_mode))
			error = ENOTDIR;
		else if (!realpath(wanted, path) || access(path, W_OK | X_OK) != 0)
			error = errno;
	}
	if (error) {
		say("%s the directory for recordings, %s: %s; give another with --dir", doing,
		    wanted, strerror(error));
		return false;
	}
	return put("WAYLAY_DIR", path);
}

/* True if LD_PRELOAD already names the library: this is inside another traced job. */
static bool preloaded(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	size_t length = strlen(library);

	for (const char *at = before; at && *at; at += strcspn(at, " :")) {
		at += strspn(at, " :");
		if (strncmp(at, library, length) == 0 && strchr(" :", at[length]))
			return true;
	}
	return false;
}

/* A run within a run is one of its own, so that its gate judges its job alone. */
static bool prepare_run(const struct run_arguments *arguments, bool inside, bool only_records)
{
	const char *given = getenv("WAYLAY_RUN");
	char run[64];

	if (given && *given && (arguments->run_given || only_records || !inside))
		return true;
	if (only_records)
		run_name_of_launcher(run, sizeof(run));
	else
		run_name_new(run, sizeof(run));
	return put("WAYLAY_RUN", run);
}

static bool prepare_preload(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *value = NULL;
	bool ok;

	if (preloaded(library))
		return true;
	if (strpbrk(library, " :")) {
		say("the path of libwaylay.so, %s, has a space or colon, which LD_PRELOAD cannot "
		    "carry; install Waylay elsewhere",
		    library);
		return false;
	}
	if (asprintf(&value, "%s%s%s", library, before && *before ? ":" : "",
		     before ? before : "") < 0) {
		say("setting LD_PRELOAD: %s", strerror(ENOMEM));
		return false;
	}
	ok = put("LD_PRELOAD", value);
	free(value);
	return ok;
}

static bool prepare_settings(struct wl_settings *settings)
{
	extern char **environ;
	char err[256];

	if (wl_settings_read(settings, environ, err, sizeof(err)) == 0)
		return true;
	say("%s", err);
	return false;
}

/* Before the library is preloaded, which LTTng's own programs have no use for. What cannot be had is
 * said, and the spool takes over. */
static bool prepare_sink(struct run_arguments *arguments, const struct wl_settings *settings,
			 bool inside)
{
	const char *timeout = getenv("LTTNG_UST_REGISTER_TIMEOUT");

	/* The session is that of the job around it. */
	if (settings->sink != WL_SINK_LTTNG || inside)
		return true;
	if (!lttng_begin(&arguments->lttng, settings, getenv("WAYLAY_DIR"), getenv("WAYLAY_RUN")))
		return put("WAYLAY_SINK", "spool");
	/* The daemon has just answered; many processes at once may take it a while. 0 would lose what a
	 * short program says. */
	return ((timeout && *timeout && strcmp(timeout, "0") != 0) ||
		put("LTTNG_UST_REGISTER_TIMEOUT", "3000")) &&
	       (!settings->block || put("LTTNG_UST_ALLOW_BLOCKING", "1"));
}

static bool prepare(struct run_arguments *arguments, bool only_records)
{
	const char *library = find_preload();
	struct wl_settings settings;

	if (!library) {
		say("libwaylay.so is neither beside this program nor in ../lib/waylay; build or "
		    "install Waylay again");
		return false;
	}
	return prepare_settings(&settings) && prepare_directory() &&
	       prepare_run(arguments, preloaded(library), only_records) &&
	       prepare_sink(arguments, &settings, preloaded(library)) && prepare_preload(library) &&
	       (!settings.ofi_door || !settings.ofi || door_prepare(getenv("WAYLAY_DIR"), library));
}

/* --- afterwards ------------------------------------------------------------------------------- */

static void export_trace(struct model *model, const struct run_arguments *arguments)
{
	char name[PATH_MAX];
	struct trace_request request = {.format = TRACE_PERFETTO, .path = name};

	if (arguments->output)
		(void)snprintf(name, sizeof(name), "%s", arguments->output);
	else
		run_trace_name(arguments->command, name, sizeof(name));
	if (trace_write(model, &request, NULL) == 0)
		say("trace: %s (open it in ui.perfetto.dev)", name);
}

static int judge(const struct gate *gate, struct model *model, const struct analysis *analysis)
{
	struct gate_verdict verdict;

	if (!gate_set(gate))
		return EXIT_HOLDS;
	gate_decide(gate, analysis, &verdict);
	if (!gate_tell(stderr, gate, model, analysis, &verdict) && verdict.status == EXIT_HOLDS)
		return EXIT_CANNOT_TELL;
	return verdict.status;
}

/* The model of this run. NULL: there is none, which has been said if it is an error. */
static struct model *run_model(bool *broken)
{
	const char *directory = getenv("WAYLAY_DIR");
	const struct model_options options = {
		.run = getenv("WAYLAY_RUN"), .symbols = true, .open_other = open_other};
	struct model *model = NULL;
	char err[1024] = "";
	int error = model_open(&directory, 1, &options, &model, err, sizeof(err));

	*broken = error && error != -ENOENT;
	if (*broken)
		say("%s", err);
	/* That older runs are left out goes without saying here. */
	for (unsigned i = 0; !error && model_unreadable_count(model) && i < model_note_count(model);
	     i++)
		say("%s", model_note(model, i));
	return error ? NULL : model;
}

static int conclude(struct run_arguments *arguments)
{
	const struct analysis_options how = gate_analysis(&arguments->gate);
	struct analysis *analysis = NULL;
	bool broken;
	struct model *model = run_model(&broken);
	char err[256];
	int verdict;

	if (!model) {
		if (!broken && !arguments->quiet)
			say("nothing was recorded: the job used neither CUDA nor libfabric, could "
			    "not record (then it says why above) or did not load libwaylay.so; "
			    "'waylay doctor' says what can be traced");
		return judge(&arguments->gate, NULL, NULL);
	}
	if (analysis_run(model, &how, &analysis, err, sizeof(err)) != 0)
		say("%s", err);
	else if (!arguments->quiet)
		report_text(stderr, model, analysis);
	verdict = judge(&arguments->gate, model, analysis);
	if (!arguments->no_export)
		export_trace(model, arguments);
	analysis_free(analysis);
	model_close(model);
	return verdict;
}

/* The traces are where the session or the relay daemon puts them. */
static int conclude_elsewhere(struct run_arguments *arguments)
{
	if (!arguments->quiet)
		say("recorded by the LTTng session %s%s%s; 'waylay report DIR' reads where it "
		    "writes",
		    arguments->lttng.name, lttng_streams(&arguments->lttng) ? " to " : "",
		    lttng_streams(&arguments->lttng) ? arguments->lttng.output : "");
	return judge(&arguments->gate, NULL, NULL);
}

static int run(struct run_arguments *arguments)
{
	int rank, world_size, local_rank, status, verdict;
	bool only_records, recorded, elsewhere;
	char err[1024];

	wl_ranks_read(&rank, &world_size, &local_rank);
	only_records = rank >= 0 && world_size != 1;
	if (!only_records && gate_prepare(&arguments->gate, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_RUN_FAILED;
	}
	if (!prepare(arguments, only_records)) {
		lttng_end(&arguments->lttng);
		return EXIT_RUN_FAILED;
	}
	recorded = arguments->lttng.open;
	if (only_records) {
		if (gate_set(&arguments->gate) && rank == 0)
			say("under a launcher 'run' only records: judge afterwards, with 'waylay "
			    "check'");
		if (!recorded)
			return run_become(arguments->command);
	}
	status = run_child(arguments->command);
	/* The job's own environment is of no use to what follows here. */
	(void)unsetenv("LD_PRELOAD");
	lttng_end(&arguments->lttng);
	if (status < 0)
		return -status;
	if (only_records)
		return status;
	elsewhere = recorded && (!arguments->lttng.own || lttng_streams(&arguments->lttng));
	verdict = elsewhere ? conclude_elsewhere(arguments) : conclude(arguments);
	return status ? status : verdict;
}

int cmd_run(int argc, char **argv)
{
	struct run_arguments arguments = {0};
	struct option_group budgets = gate_options(&arguments.gate);

	budgets.elsewhere = "--max-syncs=N, --range=NAME and the others of 'waylay check --help'";
	const struct command_line line = {
		.name = "waylay run",
		.operands = "[--] COMMAND [ARG...]",
		.what = "Traces a command, then reports on standard error and writes a trace.",
		.more = "Returns the command's status (128 + signal); when that is 0, the "
			"budgets':\n1 exceeded, 2 cannot tell. 125 to 127 are its own failures.",
		.stop_at_operand = true,
		.mistake_status = EXIT_RUN_FAILED,
		.group_count = 3,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL},
			   budgets,
			   setting_options(&arguments)},
	};
	int first = options_parse(&line, argc, argv), status;

	if (first == argc)
		options_mistake(&line, "no command given");
	gate_options_check(&line, &arguments.gate, false);
	arguments.command = argv + first;
	status = run(&arguments);
	gate_done(&arguments.gate);
	return status;
}
