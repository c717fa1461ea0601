/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts. Exceeded beats cannot-tell, since missing data only raises counts; "holds" needs a
 * complete recording in which the range was seen.
 */
#include "viewers/gate.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BLAMED 5

bool gate_set(const struct gate *gate)
{
	return gate->budget_count > 0;
}

struct analysis_options gate_analysis(struct gate *gate)
{
	for (unsigned i = 0; i < gate->budget_count; i++)
		gate->filters[i] = gate->budgets[i].filter;
	return (struct analysis_options){.skip = gate->skip,
					 .same_thread = gate->same_thread,
					 .focus = gate->range,
					 .filters = gate->filters,
					 .filter_count = gate->budget_count,
					 .allowed = gate->allowed,
					 .allowed_count = gate->allowed_count};
}

/* --- deciding --------------------------------------------------------------------------------- */

static void doubt(struct gate_verdict *verdict, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void doubt(struct gate_verdict *verdict, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(verdict->doubt, sizeof(verdict->doubt), format, args);
	va_end(args);
}

static bool counts_class(const struct gate *gate, bool registrations)
{
	for (unsigned i = 0; i < gate->budget_count; i++)
		if ((gate->budgets[i].filter.cls == WL_call_class_none) == registrations)
			return true;
	return false;
}

/* What is missing from the recording as a whole. */
static void doubt_recording(const struct gate *gate, const struct analysis *analysis,
			    struct gate_verdict *verdict)
{
	if (analysis->unreadable)
		doubt(verdict, "%u recording%s could not be read", analysis->unreadable,
		      analysis->unreadable == 1 ? "" : "s");
	else if (analysis->drops_lost)
		doubt(verdict, "%llu records were lost", (unsigned long long)analysis->drops_lost);
	else if (analysis->overwritten)
		doubt(verdict, "the flight recorder overwrote %llu records",
		      (unsigned long long)analysis->overwritten);
	else if (analysis->incomplete_processes)
		doubt(verdict, "the recordings of %u process%s are damaged",
		      analysis->incomplete_processes,
		      analysis->incomplete_processes == 1 ? "" : "es");
	else if (analysis->ranks_seen < analysis->ranks)
		doubt(verdict, "only %u of %u ranks were recorded", analysis->ranks_seen,
		      analysis->ranks);
	else if (analysis->cuda_off && counts_class(gate, false))
		doubt(verdict, "CUDA calls were not recorded (WAYLAY_CUDA=0)");
	else if (analysis->ofi_off && counts_class(gate, true))
		doubt(verdict, "libfabric calls were not recorded (WAYLAY_OFI=0)");
	else if (analysis->late && gate->range)
		doubt(verdict, "a call was too long to be placed in a range");
}

static void doubt_range(const struct gate *gate, const struct range_stat *range,
			struct gate_verdict *verdict)
{
	if (!range)
		doubt(verdict, "there is no range '%.80s' in the recording", gate->range);
	else if (range->unclosed)
		doubt(verdict, "%llu instance%s of '%.80s' did not end",
		      (unsigned long long)range->unclosed, range->unclosed == 1 ? "" : "s",
		      gate->range);
	else if (!range->instances)
		doubt(verdict, "every instance of '%.80s' was skipped", gate->range);
	else if (range->unreturned)
		doubt(verdict, "a call inside '%.80s' never returned", gate->range);
}

static void find_doubt(const struct gate *gate, const struct analysis *analysis,
		       struct gate_verdict *verdict)
{
	if (!analysis) {
		doubt(verdict, "nothing was recorded");
		return;
	}
	doubt_recording(gate, analysis, verdict);
	if (*verdict->doubt)
		return;
	if (gate->range)
		doubt_range(gate, analysis_range(analysis, gate->range), verdict);
	else if (!analysis->events)
		doubt(verdict, "nothing was recorded");
	else if (analysis->unreturned)
		doubt(verdict, "%llu call%s never returned",
		      (unsigned long long)analysis->unreturned,
		      analysis->unreturned == 1 ? "" : "s");
}

void gate_decide(const struct gate *gate, const struct analysis *analysis,
		 struct gate_verdict *verdict)
{
	*verdict = (struct gate_verdict){.status = EXIT_HOLDS};
	find_doubt(gate, analysis, verdict);
	if (*verdict->doubt)
		verdict->status = EXIT_CANNOT_TELL;
	for (unsigned i = 0; i < gate->budget_count; i++) {
		const struct analysis_tally *tally = analysis ? &analysis->tallies[i] : NULL;
		uint64_t have = !tally                        ? 0
				: gate->range && !gate->total ? tally->worst
							      : tally->total;

		verdict->budgets[i].have = have;
		verdict->budgets[i].holds = have <= gate->budgets[i].max;
		verdict->budgets[i].process = tally ? tally->worst_process : 0;
		if (!verdict->budgets[i].holds)
			verdict->status = EXIT_EXCEEDED;
	}
}

/* --- saying ----------------------------------------------------------------------------------- */

/* --- what to blame */

static int more_blame(const void *left, const void *right)
{
	const struct range_way *a = left, *b = right;

	if (a->count != b->count)
		return a->count < b->count ? 1 : -1;
	if (a->held_ns != b->held_ns)
		return a->held_ns < b->held_ns ? 1 : -1;
	if (strcmp(a->way->site->place, b->way->site->place) != 0)
		return strcmp(a->way->site->place, b->way->site->place);
	return strcmp(a->way->caller, b->way->caller);
}

/* The ways that a budget counted, in the range or the whole run; the caller frees them. */
static struct range_way *ways_of(const struct gate *gate, const struct analysis *analysis,
				 unsigned budget, unsigned *count)
{
	bool fabric = gate->budgets[budget].filter.cls == WL_call_class_none;
	struct site *const *sites = fabric ? analysis->registration_sites : analysis->sites;
	unsigned site_count = fabric ? analysis->registration_site_count : analysis->site_count;
	const struct range_stat *range = gate->range ? analysis_range(analysis, gate->range) : NULL;
	size_t room = range ? range->way_count : 0;
	struct range_way *ways;

	for (unsigned i = 0; !range && i < site_count; i++)
		for (const struct site_way *way = sites[i]->ways; way; way = way->next)
			room++;
	ways = calloc(room + 1, sizeof(*ways));
	*count = 0;
	for (unsigned i = 0; ways && range && i < range->way_count; i++)
		if (range->ways[i].way->site->filters >> budget & 1)
			ways[(*count)++] = range->ways[i];
	for (unsigned i = 0; ways && !range && i < site_count; i++)
		for (const struct site_way *way = sites[i]->ways; way; way = way->next)
			if (sites[i]->filters >> budget & 1)
				ways[(*count)++] =
					(struct range_way){way, way->count, way->held_ns};
	return ways;
}

/* The places that a budget counted, most calls first. */
static void blame(FILE *out, const struct gate *gate, const struct analysis *analysis,
		  unsigned budget)
{
	unsigned count;
	struct range_way *ways = ways_of(gate, analysis, budget, &count);
	char place[1024], caller[1024], number[32], held[24];

	if (count)
		qsort(ways, count, sizeof(*ways), more_blame);
	for (unsigned i = 0; i < count && i < BLAMED; i++) {
		const struct site_way *way = ways[i].way;

		(void)fprintf(
			out, "  %s%s (%s) at %s%s%s%s%s\n", words_count(ways[i].count, number),
			gate->range ? " in all instances" : "", words_ns(ways[i].held_ns, held),
			words_clean(way->site->place, place, sizeof(place)),
			*way->caller ? ", called from " : "",
			words_clean(way->caller, caller, sizeof(caller)),
			way->site->rule ? ": " : "",
			way->site->rule ? wl_rule_info(way->site->rule)->word : "");
	}
	if (count > BLAMED)
		(void)fprintf(out, "  and at %u more places\n", count - BLAMED);
	free(ways);
}

static char *quantity(const struct gate_budget *budget, uint64_t value, char buf[32])
{
	return budget->filter.held ? words_ns(value, buf) : words_count(value, buf);
}

static void scope(FILE *out, const struct gate *gate, const struct analysis *analysis)
{
	char name[128];

	if (!gate->range) {
		(void)fputs(" in the whole run", out);
		return;
	}
	words_clean(gate->range, name, sizeof(name));
	if (gate->total) {
		const struct range_stat *range = analysis_range(analysis, gate->range);

		(void)fprintf(out, " in all %llu instances of '%s'",
			      (unsigned long long)(range ? range->instances : 0), name);
		return;
	}
	(void)fprintf(out, " in the worst instance of '%s'", name);
}

static void budget_print(FILE *out, const struct gate *gate, struct model *model,
			 const struct analysis *analysis, const struct gate_verdict *verdict,
			 unsigned i)
{
	const struct gate_budget *budget = &gate->budgets[i];
	const struct model_process *process = model_process(model, verdict->budgets[i].process);
	bool holds = verdict->budgets[i].holds;
	char have[32], max[32], place[256];

	(void)fprintf(out, "check: %s: %s %s", holds ? "holds" : "EXCEEDED",
		      quantity(budget, verdict->budgets[i].have, have), budget->thing);
	if (budget->filter.rule != WL_rule_MAX)
		(void)fprintf(out, " by %s", wl_rule_info(budget->filter.rule)->word);
	if (budget->place)
		(void)fprintf(out, " at %s", words_clean(budget->place, place, sizeof(place)));
	scope(out, gate, analysis);
	if (gate->range && !gate->total && !holds && *process->label)
		(void)fprintf(out, " (%s)", words_clean(process->label, place, sizeof(place)));
	(void)fprintf(out, ", allowed %s\n", quantity(budget, budget->max, max));
	if (!holds)
		blame(out, gate, analysis, i);
}

void gate_print(FILE *out, const struct gate *gate, struct model *model,
		const struct analysis *analysis, const struct gate_verdict *verdict)
{
	bool seen = analysis && (!gate->range || analysis_range(analysis, gate->range));
	char text[256];

	for (unsigned i = 0; seen && i < gate->budget_count; i++)
		budget_print(out, gate, model, analysis, verdict, i);
	if (!*verdict->doubt)
		return;
	words_clean(verdict->doubt, text, sizeof(text));
	if (verdict->status == EXIT_CANNOT_TELL)
		(void)fprintf(out, "check: CANNOT TELL: %s\n", text);
	else
		(void)fprintf(out, "check: besides, %s\n", text);
}
