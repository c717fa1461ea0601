/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: budgets that a recording holds or does not. The same for `waylay check` and `waylay run`.
 */
#ifndef WAYLAY_VIEWERS_GATE_H
#define WAYLAY_VIEWERS_GATE_H

#include "viewers/options.h"
#include "viewers/viewers.h"

#define GATE_BUDGETS_MAX 32
#define GATE_ALLOWED_MAX 64

struct gate_budget {
	struct analysis_filter filter;
	uint64_t max;      /* what is allowed: a count, or nanoseconds with filter.held */
	char *place;       /* filter.place, the gate's own; NULL: none */
	const char *thing; /* what is counted, in words */
};

struct gate {
	const char *range; /* NULL: the whole run */
	bool total;        /* bounds the sum over instances and ranks, not the worst instance */
	unsigned skip;
	bool same_thread;
	unsigned budget_count;
	struct gate_budget budgets[GATE_BUDGETS_MAX];
	unsigned allowed_count;
	const char *allowed[GATE_ALLOWED_MAX];
	struct analysis_filter filters[GATE_BUDGETS_MAX]; /* those of the budgets, gathered */
};

/* The rows for a command line; they fill gate. */
struct option_group gate_options(struct gate *gate);
/* After parsing: a mistake if options say nothing without others. needed: a budget must be there. */
void gate_options_check(const struct command_line *line, const struct gate *gate, bool needed);
bool gate_set(const struct gate *gate);
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
/* Says what holds and what does not, with the places to blame. */
void gate_print(FILE *out, const struct gate *gate, struct model *model,
		const struct analysis *analysis, const struct gate_verdict *verdict);

#endif
