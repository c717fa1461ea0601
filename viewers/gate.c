/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: budgets of synchronizations. Exceeded beats cannot-tell, since missing data only raises
 * counts; a verdict of "holds" needs a complete recording in which the range was seen.
 */
#include "viewers/viewers.h"

#include <string.h>

bool gate_set(const struct gate *gate)
{
	return gate->max_syncs != GATE_UNSET || gate->max_staged != GATE_UNSET;
}

struct measured {
	uint64_t syncs, staged;
	const char *scope; /* in words */
};

static struct measured measure(const struct gate *gate, const struct analysis *analysis,
			       const struct range_stat *range)
{
	if (!gate->range)
		return (struct measured){analysis->waits, analysis->stages, "in the whole run"};
	if (!range)
		return (struct measured){0, 0, ""};
	if (gate->total)
		return (struct measured){range->waits, range->stages, "in all instances of"};
	return (struct measured){range->waits_worst, range->stages_worst,
				 "in the worst instance of"};
}

/* Why "holds" cannot be said, or NULL. */
static const char *doubt(const struct gate *gate, const struct analysis *analysis,
			 const struct range_stat *range)
{
	if (analysis->incomplete_processes)
		return "the recording is incomplete (records lost or unreadable)";
	if (!gate->range)
		return analysis->events ? NULL : "nothing was recorded";
	if (!range || range->instances + range->skipped + range->unclosed == 0)
		return "the range does not occur in the recording";
	if (range->unclosed)
		return "an instance of the range has no end";
	if (!range->instances)
		return "every instance of the range was skipped";
	return NULL;
}

static void blame(FILE *out, const struct analysis *analysis, unsigned cls)
{
	unsigned shown = 0;

	for (unsigned i = 0; i < analysis->site_count && shown < 5; i++) {
		const struct site *site = analysis->sites[i];

		if (site->cls != cls)
			continue;
		shown++;
		(void)fprintf(out, "  %llu in all at %s (%s)\n", (unsigned long long)site->count,
			      site->place, wl_rule_info(site->rule)->word);
	}
}

/* One budget: true if it holds. */
static bool budget(FILE *out, const struct gate *gate, const char *what, uint64_t max,
		   uint64_t have, const char *scope)
{
	bool holds = have <= max;

	(void)fprintf(out, "check: %s: %llu %s %s%s%s%s, allowed %llu\n",
		      holds ? "holds" : "EXCEEDED", (unsigned long long)have, what, scope,
		      gate->range ? " '" : "", gate->range ? gate->range : "",
		      gate->range ? "'" : "", (unsigned long long)max);
	return holds;
}

int gate_judge(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis)
{
	const struct range_stat *range = gate->range ? analysis_range(analysis, gate->range) : NULL;
	struct measured have = measure(gate, analysis, range);
	const char *why = doubt(gate, analysis, range);
	bool exceeded = false;

	(void)model;
	if (range || !gate->range) {
		if (gate->max_syncs != GATE_UNSET &&
		    !budget(out, gate, "synchronizations", gate->max_syncs, have.syncs,
			    have.scope)) {
			exceeded = true;
			blame(out, analysis, WL_call_class_waits);
		}
		if (gate->max_staged != GATE_UNSET &&
		    !budget(out, gate, "staged copies", gate->max_staged, have.staged,
			    have.scope)) {
			exceeded = true;
			blame(out, analysis, WL_call_class_stages);
		}
	}
	if (exceeded)
		return EXIT_EXCEEDED;
	if (why) {
		(void)fprintf(out, "check: CANNOT TELL: %s%s%s%s\n", why, gate->range ? ": '" : "",
			      gate->range ? gate->range : "", gate->range ? "'" : "");
		return EXIT_CANNOT_TELL;
	}
	return EXIT_HOLDS;
}
