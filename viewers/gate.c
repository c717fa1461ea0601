/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts. Exceeded beats cannot-tell, since missing data only raises counts; "holds" needs a
 * complete recording in which the range was seen.
 */
#include "viewers/gate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BLAMED 5

bool gate_set(const struct gate *gate)
{
	return gate->budget_count > 0 || gate->budgets_path || gate->baseline_path ||
	       gate->save_path;
}

/* --- what a baseline means -------------------------------------------------------------------- */

static bool budget_add(struct gate *gate, struct analysis_filter filter, const char *thing)
{
	struct gate_budget *budget = &gate->budgets[gate->budget_count];
	bool held = filter.measure == ANALYSIS_HELD;
	unsigned tolerance = held ? gate->held_tolerance : gate->tolerance;

	if (gate->budget_count == GATE_BUDGETS_MAX)
		return false;
	gate->budget_count++;
	*budget = (struct gate_budget){
		.filter = filter, .thing = thing, .source = GATE_MEASURED, .max = UINT64_MAX};
	budget->total = gate->total;
	if (!gate->baseline || (held && !gate->held))
		return true;
	budget->source = GATE_COMPARED;
	budget->was = baseline_count(gate->baseline, baseline_name(budget));
	/* Rounded down: a tolerance of 10 % of 9 calls is none. */
	budget->max = budget->was + (uint64_t)((double)budget->was * tolerance / 100);
	return true;
}

/* One for each rule, so that a wait more is not made up for by a cheaper one less. */
static bool budgets_of_rules(struct gate *gate)
{
	struct analysis_filter filter = {.cls = WL_call_class_MAX};
	bool room = true;

	for (filter.rule = 1; filter.rule < WL_rule_MAX; filter.rule++)
		room &= budget_add(gate, filter, "calls");
	filter = (struct analysis_filter){.cls = WL_call_class_none, .rule = WL_rule_MAX};
	room &= budget_add(gate, filter, "registrations");
	filter = (struct analysis_filter){
		.cls = WL_call_class_waits, .rule = WL_rule_MAX, .measure = ANALYSIS_HELD};
	return room & budget_add(gate, filter, "held by synchronizations");
}

int gate_prepare(struct gate *gate, char *err, size_t err_size)
{
	if (gate->baseline_path) {
		gate->baseline = baseline_read(gate->baseline_path, err, err_size);
		if (!gate->baseline)
			return -EINVAL;
		if (!gate->range)
			baseline_scope(gate->baseline, gate);
		else if (!baseline_same_scope(gate->baseline, gate)) {
			(void)snprintf(err, err_size,
				       "comparing with %s: it was counted in another way; leave "
				       "out --range and what goes with it, or make a new one",
				       gate->baseline_path);
			return -EINVAL;
		}
	}
	if (gate->budgets_path && budgets_read(gate, err, err_size) != 0)
		return -EINVAL;
	if ((gate->baseline || gate->save_path) && !budgets_of_rules(gate)) {
		(void)snprintf(err, err_size,
			       "comparing with a baseline: too many budgets besides");
		return -EINVAL;
	}
	return 0;
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
}

static void doubt_range(const char *name, const struct range_stat *range,
			const struct analysis *analysis, struct gate_verdict *verdict)
{
	if (!*name)
		doubt(verdict, "no steps were found: name their NVTX range with --range");
	else if (!range)
		doubt(verdict,
		      "there is no range '%.80s' in the recording (one that began before the process's "
		      "first CUDA or fabric object is not recorded)",
		      name);
	else if (range->unclosed)
		doubt(verdict, "%llu instance%s of '%.80s' did not end",
		      (unsigned long long)range->unclosed, range->unclosed == 1 ? "" : "s", name);
	else if (!range->instances)
		doubt(verdict, "every instance of '%.80s' was skipped", name);
	else if (range->unreturned)
		doubt(verdict, "a call inside '%.80s' never returned", name);
	else if (analysis->late)
		doubt(verdict, "a call was too long to be placed in a range");
}

const char *gate_range(const struct gate *gate, const struct analysis *found, unsigned budget)
{
	const struct analysis_filter *filter = &gate->budgets[budget].filter;

	switch (filter->scope) {
	case ANALYSIS_RUN:
		return NULL;
	case ANALYSIS_RANGE:
		return filter->range;
	case ANALYSIS_STEPS:
		return found && found->steps.range ? found->steps.range : "";
	case ANALYSIS_FOCUS:
		break;
	}
	return gate->range;
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
	for (unsigned i = 0; i < gate->budget_count && !*verdict->doubt; i++) {
		const char *name = gate_range(gate, analysis, i);

		if (name)
			doubt_range(name, analysis_range(analysis, name), analysis, verdict);
		else if (!analysis->events)
			doubt(verdict, "nothing was recorded");
		else if (analysis->unreturned)
			doubt(verdict, "%llu call%s never returned",
			      (unsigned long long)analysis->unreturned,
			      analysis->unreturned == 1 ? "" : "s");
	}
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
		uint64_t have = !tally ? 0
				: gate_range(gate, analysis, i) && !gate->budgets[i].total
					? tally->worst
					: tally->total;

		verdict->budgets[i].have = have;
		verdict->budgets[i].holds = have <= gate->budgets[i].max;
		verdict->budgets[i].process = tally ? tally->worst_process : 0;
		if (!verdict->budgets[i].holds)
			verdict->status = EXIT_EXCEEDED;
	}
}

/* --- saying ----------------------------------------------------------------------------------- */

const char *gate_status_word(int status)
{
	return status == EXIT_HOLDS      ? "holds"
	       : status == EXIT_EXCEEDED ? "exceeded"
					 : "cannot tell";
}

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

struct range_way *gate_ways(const struct gate *gate, const struct analysis *analysis,
			    unsigned budget, unsigned *count)
{
	bool fabric = gate->budgets[budget].filter.cls == WL_call_class_none;
	struct site *const *sites = fabric ? analysis->registration_sites : analysis->sites;
	unsigned site_count = fabric ? analysis->registration_site_count : analysis->site_count;
	const char *name = gate_range(gate, analysis, budget);
	const struct range_stat *range = name ? analysis_range(analysis, name) : NULL;
	size_t room = range ? range->way_count : 0;
	struct range_way *ways;

	for (unsigned i = 0; !name && i < site_count; i++)
		for (const struct site_way *way = sites[i]->ways; way; way = way->next)
			room++;
	ways = calloc(room + 1, sizeof(*ways));
	*count = 0;
	for (unsigned i = 0; ways && range && i < range->way_count; i++)
		if (range->ways[i].way->site->filters >> budget & 1)
			ways[(*count)++] = range->ways[i];
	for (unsigned i = 0; ways && !name && i < site_count; i++)
		for (const struct site_way *way = sites[i]->ways; way; way = way->next)
			if (sites[i]->filters >> budget & 1)
				ways[(*count)++] = (struct range_way){way, way->count, way->held_ns,
								      way->bytes, way->pageable};
	/* What a budget does not measure it does not blame. */
	if (ways && gate->budgets[budget].filter.measure == ANALYSIS_PAGEABLE) {
		unsigned kept = 0;

		for (unsigned i = 0; i < *count; i++)
			if (ways[i].pageable) {
				ways[kept] = ways[i];
				ways[kept++].count = ways[i].pageable;
			}
		*count = kept;
	}
	if (*count)
		qsort(ways, *count, sizeof(*ways), more_blame);
	return ways;
}

/* The places that a budget counted, most calls first. */
static void blame(FILE *out, const struct gate *gate, const struct analysis *analysis,
		  unsigned budget)
{
	unsigned count;
	struct range_way *ways = gate_ways(gate, analysis, budget, &count);
	char place[1024], caller[1024], number[32], held[24];

	for (unsigned i = 0; i < count && i < BLAMED; i++) {
		const struct site_way *way = ways[i].way;
		const char *rule = way->site->rule ? wl_rule_info(way->site->rule)->word : "";
		bool known = gate->budgets[budget].source != GATE_COMPARED ||
			     baseline_has_place(gate->baseline, way->site->place, rule);

		(void)fprintf(out, "  %s%s (%s) at %s%s%s%s%s%s\n",
			      words_count(ways[i].count, number),
			      gate_range(gate, analysis, budget) ? " in all instances" : "",
			      words_ns(ways[i].held_ns, held),
			      words_clean(way->site->place, place, sizeof(place)),
			      *way->caller ? ", called from " : "",
			      words_clean(way->caller, caller, sizeof(caller)), *rule ? ": " : "",
			      rule, known ? "" : " (not in the baseline)");
	}
	if (count > BLAMED)
		(void)fprintf(out, "  and at %u more places\n", count - BLAMED);
	free(ways);
}

char *gate_quantity(const struct gate_budget *budget, uint64_t value, char buf[32])
{
	switch (budget->filter.measure) {
	case ANALYSIS_HELD:
		return words_ns(value, buf);
	case ANALYSIS_BYTES:
		return words_bytes(value, buf);
	default:
		return words_count(value, buf);
	}
}

uint64_t gate_allowed_calls(const struct analysis *analysis, unsigned pattern)
{
	uint64_t calls = 0;

	for (unsigned i = 0; i < analysis->site_count; i++)
		if (analysis->sites[i]->allowed == pattern + 1)
			calls += analysis->sites[i]->count;
	for (unsigned i = 0; i < analysis->registration_site_count; i++)
		if (analysis->registration_sites[i]->allowed == pattern + 1)
			calls += analysis->registration_sites[i]->count;
	return calls;
}

bool gate_shown(const struct gate *gate, const struct gate_verdict *verdict, unsigned budget)
{
	const struct gate_budget *is = &gate->budgets[budget];

	return is->source == GATE_ASKED ||
	       (is->source == GATE_COMPARED && (is->was || verdict->budgets[budget].have));
}

/* " in the worst instance of 'step' (rank 3)" */
static void scope_text(const struct gate *gate, struct model *model,
		       const struct analysis *analysis, unsigned process, unsigned budget,
		       char *buf, size_t size)
{
	const char *label = model ? model_process(model, process)->label : "";
	const char *name = gate_range(gate, analysis, budget);
	const struct range_stat *range = name && analysis ? analysis_range(analysis, name) : NULL;

	if (!name)
		(void)snprintf(buf, size, " in the whole run");
	else if (!*name)
		(void)snprintf(buf, size, " in the steps");
	else if (gate->budgets[budget].total)
		(void)snprintf(buf, size, " in all %llu instances of '%.200s'",
			       (unsigned long long)(range ? range->instances : 0), name);
	else
		(void)snprintf(buf, size, " in the worst instance of '%.200s'%s%.80s%s", name,
			       *label ? " (" : "", label, *label ? ")" : "");
}

void gate_budget_text(const struct gate *gate, struct model *model, const struct analysis *analysis,
		      const struct gate_verdict *verdict, unsigned budget, char *buf, size_t size)
{
	const struct gate_budget *is = &gate->budgets[budget];
	bool compared = is->source == GATE_COMPARED;
	char have[32], max[32], scope[400], text[1024];

	scope_text(gate, model, analysis, verdict->budgets[budget].process, budget, scope,
		   sizeof(scope));
	(void)snprintf(text, sizeof(text), "%s %s%s%s%s%.200s%s, %s%s%s",
		       gate_quantity(is, verdict->budgets[budget].have, have), is->thing,
		       is->filter.rule != WL_rule_MAX ? " by " : "",
		       is->filter.rule != WL_rule_MAX ? wl_rule_info(is->filter.rule)->word : "",
		       is->place ? " at " : "", is->place ? is->place : "", scope,
		       compared ? "" : "allowed ",
		       gate_quantity(is, compared ? is->was : is->max, max),
		       compared ? " in the baseline" : "");
	(void)words_clean(text, buf, size);
}

static void budget_print(FILE *out, const struct gate *gate, struct model *model,
			 const struct analysis *analysis, const struct gate_verdict *verdict,
			 unsigned i)
{
	const struct gate_budget *budget = &gate->budgets[i];
	bool holds = verdict->budgets[i].holds, compared = budget->source == GATE_COMPARED;
	bool better = compared && verdict->budgets[i].have < budget->was;
	char text[1024];

	/* Of the many that a baseline means, those that changed. */
	if (budget->source == GATE_MEASURED || (compared && holds && !better))
		return;
	gate_budget_text(gate, model, analysis, verdict, i, text, sizeof(text));
	(void)fprintf(out, "check: %s: %s\n",
		      better     ? "better"
		      : holds    ? "holds"
		      : compared ? "WORSE"
				 : "EXCEEDED",
		      text);
	if (!holds)
		blame(out, gate, analysis, i);
}

/* What was let pass, so that it is not forgotten; and patterns that have nothing to let pass. */
static void allowed_print(FILE *out, const struct gate *gate, const struct analysis *analysis)
{
	char place[512], reason[512], count[32];

	for (unsigned i = 0; i < gate->allowed_count; i++) {
		uint64_t calls = gate_allowed_calls(analysis, i);

		words_clean(gate->allowed[i], place, sizeof(place));
		if (!calls)
			(void)fprintf(out, "check: allowed, but not seen: %s\n", place);
		else
			(void)fprintf(out, "check: allowed: %s calls in the whole run at %s%s%s\n",
				      words_count(calls, count), place,
				      gate->reasons[i] ? ": " : "",
				      gate->reasons[i] ? words_clean(gate->reasons[i], reason,
								     sizeof(reason))
						       : "");
	}
}

void gate_print(FILE *out, const struct gate *gate, struct model *model,
		const struct analysis *analysis, const struct gate_verdict *verdict)
{
	bool compared = false, worse = false;
	char text[256];

	for (unsigned i = 0; analysis && i < gate->budget_count; i++) {
		const char *name = gate_range(gate, analysis, i);

		if (name && !analysis_range(analysis, name))
			continue;
		budget_print(out, gate, model, analysis, verdict, i);
		if (gate->budgets[i].source != GATE_COMPARED)
			continue;
		compared = true;
		worse |= !verdict->budgets[i].holds;
	}
	if (compared && !worse)
		(void)fprintf(out, "check: holds: by no rule more than in %s\n",
			      words_clean(gate->baseline_path, text, sizeof(text)));
	if (analysis)
		allowed_print(out, gate, analysis);
	if (!*verdict->doubt)
		return;
	words_clean(verdict->doubt, text, sizeof(text));
	if (verdict->status == EXIT_CANNOT_TELL)
		(void)fprintf(out, "check: CANNOT TELL: %s\n", text);
	else
		(void)fprintf(out, "check: besides, %s\n", text);
}
