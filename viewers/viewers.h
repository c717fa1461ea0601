/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of `waylay` share: exit codes, words, opening a model, reports.
 */
#ifndef WAYLAY_VIEWERS_H
#define WAYLAY_VIEWERS_H

#include "viewers/analysis.h"

#include <stdio.h>

/* Exit codes, documented in docs/man. `waylay run` answers with the job's own status instead. */
enum waylay_exit {
	EXIT_HOLDS = 0,       /* done; for check: every budget holds */
	EXIT_EXCEEDED = 1,    /* check: a budget is exceeded; elsewhere: it could not be done */
	EXIT_CANNOT_TELL = 2, /* check: the recording does not allow a verdict */
	EXIT_USAGE = 64,
	EXIT_RUN_FAILED = 125,  /* run: waylay itself failed, or was called wrongly */
	EXIT_RUN_REFUSED = 126, /* run: the command is there and cannot be started */
	EXIT_RUN_MISSING = 127, /* run: there is no such command */
};

/* Commands: argv[0] is the command's name. Return the exit code. */
int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_pack(int argc, char **argv);
int cmd_unpack(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

/* --- words (words.c): written into buf, which is returned ------------------------------------- */

/* One "waylay: ..." line on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Text from outside for a terminal: control characters, marks of direction and what is no UTF-8 become
 * '?'; cut between characters. size > 0. */
char *words_clean(const char *text, char *buf, size_t size);
char *words_ns(uint64_t ns, char buf[24]);
char *words_bytes(uint64_t bytes, char buf[24]);
/* 1234567 -> "1,234,567" */
char *words_count(uint64_t count, char buf[32]);
/* A number of an option: digits only; false when it is not one or too large. */
bool parse_count(const char *text, uint64_t max, uint64_t *value);

/* --- models (open.c) -------------------------------------------------------------------------- */

struct input {
	const char *const *paths; /* none: $WAYLAY_DIR or waylay-out */
	unsigned path_count;
	bool all_runs;
	const char *run;
};
/* Rows --all-runs and --run. */
struct option_group;
struct option_group input_options(struct input *input);
/* Takes what is left of the command line as paths. */
void input_operands(struct input *input, int argc, char **argv, int first);
/* Opens and says what went wrong or what is left out. NULL when it cannot be done. */
struct model *input_open(const struct input *input);

/* Path of libwaylay.so beside this program (build tree or installed), or NULL. Static storage. */
const char *find_preload(void);
/* As find_preload(), of any object of ours; valid until the next call. */
const char *find_library(const char *name);
/* model_options.open_other: traces of LTTng, packed recordings. */
int open_other(const char *path, struct trace_reader ***readers, unsigned *count, char *err,
	       size_t err_size);

/* --- report (report.c, report_json.c) --------------------------------------------------------- */

void report_text(FILE *out, struct model *model, const struct analysis *analysis);
/* The schema is in docs/report-json.md. 0 or -errno. */
int report_json(FILE *out, struct model *model, const struct analysis *analysis);

/* --- export (write_trace.c) ------------------------------------------------------------------- */

enum trace_format { TRACE_PERFETTO, TRACE_CHROME, TRACE_CSV, TRACE_JSONL, TRACE_SQLITE };
struct trace_request {
	enum trace_format format;
	const char *path;
	uint32_t tables;    /* of a format of tables: which, 0 all */
	uint64_t max_bytes; /* thins out until the file is no larger; 0: whatever it takes */
	struct export_options options;
};
/* Writes a trace; says what went wrong and what was thinned out. ^C and SIGTERM end it, leave no file,
 * and are then taken as they would have been. 0 or -errno. result may be NULL. */
int trace_write(struct model *model, struct trace_request *request, struct export_result *result);

#endif
