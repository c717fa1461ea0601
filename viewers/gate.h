/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: budgets that a recording holds or does not. The same for `waylay check` and `waylay run`.
 */
#ifndef WAYLAY_VIEWERS_GATE_H
#define WAYLAY_VIEWERS_GATE_H

#include "viewers/options.h"
#include "viewers/viewers.h"

#define GATE_BUDGETS_MAX ANALYSIS_FILTERS_MAX
#define GATE_ALLOWED_MAX 64

enum gate_source {
	GATE_ASKED,    /* on the command line */
	GATE_COMPARED, /* with a baseline */
	GATE_MEASURED, /* to make a baseline: always holds */
};

struct gate_budget {
	struct analysis_filter filter;
	enum gate_source source;
	uint64_t max;      /* what is allowed, as filter.measure says */
	bool total;        /* bounds the sum over instances and ranks, not the worst instance */
	uint64_t was;      /* GATE_COMPARED: in the baseline, tolerance not added */
	char *place;       /* filter.place, the gate's own; NULL: none */
	const char *thing; /* what is counted, in words */
};

/* Where the verdict goes besides text; "-" is standard output, which is then not the text's. */
enum gate_format { GATE_JSON, GATE_JUNIT, GATE_SARIF, GATE_FORMATS };

struct baseline;
struct gate {
	const char *range; /* NULL: the whole run */
	bool total;        /* bounds the sum over instances and ranks, not the worst instance */
	unsigned skip;
	bool same_thread;
	unsigned budget_count;
	struct gate_budget budgets[GATE_BUDGETS_MAX];
	unsigned allowed_count;
	const char *allowed[GATE_ALLOWED_MAX];
	const char *reasons[GATE_ALLOWED_MAX];            /* NULL: none given */
	bool steps;                                       /* counts inside the job's steps */
	const char *budgets_path;                         /* NULL: none */
	char *budgets_text;                               /* what is in it; names point into it */
	const char *baseline_path, *save_path;            /* NULL: none */
	struct baseline *baseline;                        /* read by gate_prepare() */
	bool held;                                        /* compare the time held too */
	unsigned tolerance, held_tolerance;               /* percent */
	const char *outputs[GATE_FORMATS];                /* NULL: none */
	bool github;                                      /* annotations on standard output */
	struct analysis_filter filters[GATE_BUDGETS_MAX]; /* those of the budgets, gathered */
};

/* The rows for a command line; they fill gate. */
struct option_group gate_options(struct gate *gate);
/* After parsing: a mistake if options say nothing without others. needed: a budget must be there. */
void gate_options_check(const struct command_line *line, struct gate *gate, bool needed);
bool gate_set(const struct gate *gate);
/* Reads the baseline and makes the budgets it means. 0, or -errno with one line in err. */
int gate_prepare(struct gate *gate, char *err, size_t err_size);
void gate_done(struct gate *gate);

/* What an analysis must count for the gate. Points into the gate. */
struct analysis_options gate_analysis(struct gate *gate);

struct gate_verdict {
	int status;      /* EXIT_HOLDS, EXIT_EXCEEDED, EXIT_CANNOT_TELL */
	char doubt[256]; /* why "holds" cannot be said, "" */
	struct {
		uint64_t have;
		bool holds;
		unsigned process; /* of the worst instance */
	} budgets[GATE_BUDGETS_MAX];
};

/* analysis: made with gate_analysis(); NULL: nothing was recorded. */
void gate_decide(const struct gate *gate, const struct analysis *analysis,
		 struct gate_verdict *verdict);
/* Says on out what holds and what does not, with the places to blame; writes the other outputs and the
 * baseline. model and analysis may be NULL. False if something could not be written, which was said. */
bool gate_tell(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis, const struct gate_verdict *verdict);

/* --- its parts (gate.c, gate_output.c, baseline.c) -------------------------------------------- */

/* The range that a budget counts in, NULL: the whole run. found: NULL, or the analysis, which knows
 * what the steps are; "" while they are not known. */
const char *gate_range(const struct gate *gate, const struct analysis *found, unsigned budget);
/* A budget as an option says it: "max-syncs", "0". */
int gate_budget_option(struct gate *gate, const char *name, const char *value, char *err,
		       size_t err_size);
/* Adds what is in gate->budgets_path. 0, or -EINVAL with one line in err. */
int budgets_read(struct gate *gate, char *err, size_t err_size);
/* Calls at places that are let pass by a pattern, over the whole run. */
uint64_t gate_allowed_calls(const struct analysis *analysis, unsigned pattern);
/* "7", "5.00 ms", "1.00 MiB" */
char *gate_quantity(const struct gate_budget *budget, uint64_t value, char buf[32]);

/* The ways that a budget counted, in the range or the whole run, most calls first. The caller frees
 * them; NULL when memory is short. */
struct range_way *gate_ways(const struct gate *gate, const struct analysis *analysis,
			    unsigned budget, unsigned *count);
/* False for what a baseline means and nobody needs to read: nothing before, nothing now. */
bool gate_shown(const struct gate *gate, const struct gate_verdict *verdict, unsigned budget);
/* "2 synchronizations in the worst instance of 'step', allowed 0": a budget in words, cleaned. */
void gate_budget_text(const struct gate *gate, struct model *model, const struct analysis *analysis,
		      const struct gate_verdict *verdict, unsigned budget, char *buf, size_t size);
const char *gate_status_word(int status); /* "holds", "exceeded", "cannot tell" */

/* In the text alone. */
void gate_print(FILE *out, const struct gate *gate, struct model *model,
		const struct analysis *analysis, const struct gate_verdict *verdict);

int gate_json(FILE *out, const struct gate *gate, struct model *model,
	      const struct analysis *analysis, const struct gate_verdict *verdict);
int gate_junit(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis, const struct gate_verdict *verdict);
int gate_sarif(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis, const struct gate_verdict *verdict);
void gate_github(FILE *out, const struct gate *gate, struct model *model,
		 const struct analysis *analysis, const struct gate_verdict *verdict);

/* What a recording had, kept in a file of the user's repository (docs/baseline.md). */
struct baseline *baseline_read(const char *path, char *err, size_t err_size);
void baseline_free(struct baseline *baseline);
/* The range it was made for (NULL: the whole run), and how it was counted. */
void baseline_scope(const struct baseline *baseline, struct gate *gate);
bool baseline_same_scope(const struct baseline *baseline, const struct gate *gate);
/* By the word of a rule, "registrations" or "held_ns"; 0 for what it does not have. */
uint64_t baseline_count(const struct baseline *baseline, const char *name);
/* True if it had calls by that rule at that place. */
bool baseline_has_place(const struct baseline *baseline, const char *place, const char *rule);
/* The name under which a budget is kept. */
const char *baseline_name(const struct gate_budget *budget);
int baseline_write(FILE *out, const struct gate *gate, const struct analysis *analysis,
		   const struct gate_verdict *verdict);

#endif
