/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of `waylay` share: exit codes, words, opening a model, the gate.
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
	EXIT_RUN_FAILED = 125,  /* run: waylay itself failed */
	EXIT_RUN_REFUSED = 126, /* run: the command is there and cannot be started */
	EXIT_RUN_MISSING = 127, /* run: there is no such command */
};

/* One "waylay: ..." line on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Commands: argv[0] is the command's name. Return the exit code. */
int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

/* --- words (words.c): written into buf, which is returned ------------------------------------- */

char *words_ns(uint64_t ns, char buf[24]);
char *words_bytes(uint64_t bytes, char buf[24]);
/* 1234567 -> "1,234,567" */
char *words_count(uint64_t count, char buf[32]);

/* --- models (open.c) -------------------------------------------------------------------------- */

struct input {
	const char *const *paths; /* none: $WAYLAY_DIR or waylay-out */
	unsigned path_count;
	bool all_runs;
	const char *run;
};
/* Opens and says what went wrong or what is left out. NULL when it cannot be done. */
struct model *input_open(const struct input *input);

/* --- report (report.c, report_json.c) --------------------------------------------------------- */

void report_text(FILE *out, struct model *model, const struct analysis *analysis);
/* The schema is in docs/report-json.md. 0 or -errno. */
int report_json(FILE *out, struct model *model, const struct analysis *analysis);

/* --- the gate (gate.c) ------------------------------------------------------------------------ */

#define GATE_UNSET UINT64_MAX

struct gate {
	const char *range;  /* NULL: the whole run */
	uint64_t max_syncs; /* GATE_UNSET: no such budget */
	uint64_t max_staged;
	bool total; /* bounds the sum over instances and ranks, not the worst instance */
	unsigned skip;
	bool same_thread;
};
bool gate_set(const struct gate *gate);
/* Says on out what holds and what does not, with the costliest sites; EXIT_HOLDS, EXIT_EXCEEDED or
 * EXIT_CANNOT_TELL. */
int gate_judge(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis);

/* A number of an option: digits only; false when it is not one or too large. */
bool parse_count(const char *text, uint64_t max, uint64_t *value);

/* Path of libwaylay.so beside this program (build tree or installed), or NULL. Static storage. */
const char *find_preload(void);

#endif
