/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay ctl: what running jobs record, and when.
 */
#include "tracer/settings/settings.h"
#include "tracer/spool/spool.h"
#include "viewers/control.h"
#include "viewers/options.h"
#include "viewers/run.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_OUTPUT, KEY_WAIT };

#define WAIT_MS  2000 /* the housekeeping thread looks ten times a second */
#define CALL_MAX 64

struct ctl_arguments {
	const char *output;
	uint64_t wait_ms;
};

static const struct option_row rows[] = {
	{"output", 'o', "DIR", "snapshot: where to (default DIR/snapshot-TIME)", KEY_OUTPUT},
	{"wait", 0, "TIME", "how long to wait for a process's answer (2s)", KEY_WAIT},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct ctl_arguments *arguments = user;
	uint64_t ns;

	if (key == KEY_OUTPUT) {
		arguments->output = arg;
		if (*arg)
			return 0;
		(void)snprintf(err, err_size, "no directory given");
		return -EINVAL;
	}
	if (!wl_time_parse(arg, &ns) || ns > 3600000000000u) {
		(void)snprintf(err, err_size, "'%.40s' is no time such as 500ms, 5s", arg);
		return -EINVAL;
	}
	arguments->wait_ms = ns / 1000000;
	return 0;
}

/* --- status ----------------------------------------------------------------------------------- */

static const char *recording_word(const struct control_target *t)
{
	uint32_t off = t->header->version_minor >= 1 ? atomic_load(&t->header->off) : 0;

	if (t->life == CONTROL_ENDED)
		return atomic_load(&t->header->ended) ? "ended" : "killed";
	if (off & SPOOL_OFF_STOPPED)
		return "stopped";
	if (off & SPOOL_OFF_OVER)
		return "over";
	if (off & SPOOL_OFF_DELAY)
		return "delayed";
	return off & SPOOL_OFF_RANGE ? "outside range" : "recording";
}

static int64_t monotonic_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void inflight_print(struct trace_reader *reader, bool running)
{
	struct trace_inflight calls[CALL_MAX];
	unsigned count = reader->ops->inflight(reader, calls, CALL_MAX);
	char name[64], api[128], since[24];

	for (unsigned i = 0; i < count; i++) {
		int64_t held = (running ? monotonic_ns() : reader->info.end_ns) - calls[i].since_ns;

		(void)printf("  thread %lld (%s) in %s for %s\n",
			     (long long)reader->threads[calls[i].thread].tid,
			     words_clean(reader->threads[calls[i].thread].name, name, sizeof(name)),
			     words_clean(calls[i].api, api, sizeof(api)),
			     words_ns(held > 0 ? (uint64_t)held : 0, since));
	}
}

static int status_print(struct control_target *t)
{
	const struct spool_header *h = t->header;
	uint64_t used = h->data_offset + atomic_load(&h->chunk_next) * h->chunk_bytes;
	uint64_t cap = h->data_offset + (uint64_t)h->chunk_max * h->chunk_bytes, lost = 0;
	char name[65], clean[65], size[24], most[24], count[32], err[512];
	struct trace_reader *reader = NULL;

	if (spool_reader_open(t->path, &reader, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	for (int i = 0; i < TRACE_DROP_MAX; i++)
		if (i != TRACE_DROP_OVERWRITTEN)
			lost += reader->info.drops[i];
	(void)snprintf(name, sizeof(name), "%.64s", h->process_name);
	(void)printf("%lld (%s)", (long long)h->pid, words_clean(name, clean, sizeof(clean)));
	if (h->rank >= 0)
		(void)printf(" rank %d", h->rank);
	if (t->life == CONTROL_ELSEWHERE) {
		(void)snprintf(name, sizeof(name), "%.64s", h->host);
		(void)printf(" on %s", words_clean(name, clean, sizeof(clean)));
	}
	(void)printf(": %s, %s of %s%s, %s lost, %u thread%s\n", recording_word(t),
		     words_bytes(used < cap ? used : cap, size), words_bytes(cap, most),
		     h->flight_recorder ? " (flight recorder)" : "", words_count(lost, count),
		     reader->thread_count, reader->thread_count == 1 ? "" : "s");
	inflight_print(reader, t->life == CONTROL_RUNNING);
	reader->ops->close(reader);
	return EXIT_HOLDS;
}

/* --- start, stop, set ------------------------------------------------------------------------- */

static int ask(struct control_target *t, enum spool_command command, const char *text,
	       const struct ctl_arguments *arguments)
{
	char answer[SPOOL_CONTROL_TEXT];
	int rc = control_ask(t, command, text, (int)arguments->wait_ms, answer, sizeof(answer));

	if (!rc)
		return EXIT_HOLDS;
	if (rc == -ETIMEDOUT)
		say("process %lld does not answer: it is stopped, or has no housekeeping thread "
		    "(WAYLAY_THREAD=0) and records nothing; the request is withdrawn",
		    (long long)t->header->pid);
	else if (*answer)
		say("process %lld: %s", (long long)t->header->pid, answer);
	else
		say("asking process %lld: %s", (long long)t->header->pid, strerror(-rc));
	return EXIT_EXCEEDED;
}

/* "stack=all", "WAYLAY_STACK=all" -> "WAYLAY_STACK=all", checked. */
static bool setting_text(const struct command_line *line, const char *given, char *text,
			 size_t size)
{
	const struct wl_setting *rows_of, *row = NULL;
	size_t length = strcspn(given, "=");
	char err[256];
	unsigned count;

	rows_of = wl_setting_rows(&count);
	for (unsigned i = 0; i < count && !row; i++)
		if ((strlen(rows_of[i].option) == length &&
		     strncmp(rows_of[i].option, given, length) == 0 && length) ||
		    (strlen(rows_of[i].variable) == length &&
		     strncmp(rows_of[i].variable, given, length) == 0))
			row = &rows_of[i];
	if (!given[length] || !row)
		options_mistake(line, "'%.60s' is no SETTING=VALUE", given);
	if (wl_setting_parse(NULL, row, given + length + 1, err, sizeof(err)) != 0)
		options_mistake(line, "%s", err);
	return (size_t)snprintf(text, size, "%s=%s", row->variable, given + length + 1) < size;
}

/* --- snapshot --------------------------------------------------------------------------------- */

static int snapshot_directory(const struct control_target *t, const struct ctl_arguments *arguments,
			      char *path, size_t size)
{
	static char made[64];
	struct tm utc;
	time_t now = time(NULL);
	const char *slash = strrchr(t->path, '/');
	int rc;

	if (!*made) {
		(void)gmtime_r(&now, &utc);
		(void)strftime(made, sizeof(made), "snapshot-%Y%m%dT%H%M%S", &utc);
	}
	if (arguments->output)
		(void)snprintf(path, size, "%s", arguments->output);
	else
		(void)snprintf(path, size, "%.*s/%s", slash ? (int)(slash - t->path) : 1,
			       slash ? t->path : ".", made);
	rc = run_make_directory(path);
	if (rc)
		say("making %s: %s; give another directory with --output", path, strerror(-rc));
	return rc;
}

static int snapshot(struct control_target *t, const struct ctl_arguments *arguments)
{
	char directory[PATH_MAX], path[PATH_MAX + 256];
	const char *base = strrchr(t->path, '/');
	int rc, to;

	if (snapshot_directory(t, arguments, directory, sizeof(directory)) != 0)
		return EXIT_EXCEEDED;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, base ? base + 1 : t->path) >=
	    sizeof(path)) {
		say("the name of the copy of %s is too long; give a shorter --output", t->path);
		return EXIT_EXCEEDED;
	}
	to = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	rc = to < 0 ? -errno : spool_copy(t->mapping, t->bytes, to);
	if (to >= 0 && close(to) != 0 && !rc)
		rc = -errno;
	if (!rc) {
		(void)printf("%s\n", path);
		return EXIT_HOLDS;
	}
	if (to >= 0)
		(void)unlink(path);
	say("copying %s to %s: %s", t->path, path, strerror(-rc));
	return EXIT_EXCEEDED;
}

/* --- the command ------------------------------------------------------------------------------ */

enum verb { VERB_STATUS, VERB_START, VERB_STOP, VERB_SNAPSHOT, VERB_SET, VERB_MAX };
static const char *const verbs[VERB_MAX] = {"status", "start", "stop", "snapshot", "set"};

static int one(enum verb verb, struct control_target *t, const char *text,
	       const struct ctl_arguments *arguments)
{
	switch (verb) {
	case VERB_START:
		return ask(t, SPOOL_COMMAND_START, NULL, arguments);
	case VERB_STOP:
		return ask(t, SPOOL_COMMAND_STOP, NULL, arguments);
	case VERB_SET:
		return ask(t, SPOOL_COMMAND_SET, text, arguments);
	case VERB_SNAPSHOT:
		return snapshot(t, arguments);
	default:
		return status_print(t);
	}
}

/* Those that are meant: what has ended can be looked at, not asked. */
static bool meant(enum verb verb, const struct control_target *t)
{
	return verb == VERB_STATUS || (t->life != CONTROL_ENDED && !atomic_load(&t->header->ended));
}

static int all(enum verb verb, struct control_targets *targets, const char *text,
	       const struct ctl_arguments *arguments)
{
	int status = EXIT_HOLDS;
	unsigned done = 0;

	for (unsigned i = 0; i < targets->count; i++) {
		if (!meant(verb, &targets->items[i]))
			continue;
		done++;
		if (one(verb, &targets->items[i], text, arguments) != EXIT_HOLDS)
			status = EXIT_EXCEEDED;
	}
	if (!done) {
		say("no process that records %s; 'waylay ctl status' lists what is there",
		    targets->count ? "is running any more" : "was found");
		status = EXIT_EXCEEDED;
	}
	return status;
}

int cmd_ctl(int argc, char **argv)
{
	struct ctl_arguments arguments = {.wait_ms = WAIT_MS};
	struct control_targets targets = {0};
	const char *directory = getenv("WAYLAY_DIR");
	char text[SPOOL_CONTROL_TEXT] = "";
	const struct command_line line = {
		.name = "waylay ctl",
		.operands = "VERB [SETTING=VALUE] [PID|DIR|FILE...]",
		.what = "Looks at running jobs (VERB status), switches recording off and on "
			"(stop, start), changes settings (set), copies what was recorded "
			"(snapshot).",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out.\n\n"
			"Examples:\n"
			"  waylay ctl status                # what each process is in\n"
			"  waylay ctl stop 4711 && waylay ctl start 4711\n"
			"  waylay ctl set stack=all 4711\n"
			"  waylay ctl snapshot              # also of a job that hangs",
		.mistake_status = EXIT_USAGE,
		.group_count = 1,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL}},
	};
	int first = options_parse(&line, argc, argv), status = EXIT_HOLDS;
	enum verb verb = VERB_STATUS;

	if (first == argc)
		options_mistake(&line, "no word of what to do: status, start, stop, snapshot, set");
	while (verb < VERB_MAX && strcmp(verbs[verb], argv[first]) != 0)
		verb++;
	if (verb == VERB_MAX)
		options_mistake(&line, "'%.40s' is none of status, start, stop, snapshot, set",
				argv[first]);
	first++;
	if (verb == VERB_SET) {
		if (first == argc)
			options_mistake(&line, "no SETTING=VALUE given");
		if (!setting_text(&line, argv[first++], text, sizeof(text)))
			options_mistake(&line, "the value is too long");
	}
	if (first == argc &&
	    control_find(&targets, directory && *directory ? directory : "waylay-out",
			 verb != VERB_STATUS && verb != VERB_SNAPSHOT) != 0)
		status = EXIT_EXCEEDED;
	for (; first < argc; first++)
		if (control_find(&targets, argv[first],
				 verb != VERB_STATUS && verb != VERB_SNAPSHOT) != 0)
			status = EXIT_EXCEEDED;
	if (targets.count || status == EXIT_HOLDS)
		if (all(verb, &targets, text, &arguments) != EXIT_HOLDS)
			status = EXIT_EXCEEDED;
	control_free(&targets);
	return status;
}
