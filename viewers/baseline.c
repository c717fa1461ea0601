/* SPDX-License-Identifier: Apache-2.0
 *
 * A baseline: what a recording had by each rule, in a file that people keep beside their source and
 * read in reviews. Its format is docs/baseline.md.
 */
#include "viewers/gate.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct baseline {
	json_t *root;
};

const char *baseline_name(const struct gate_budget *budget)
{
	if (budget->filter.measure == ANALYSIS_HELD)
		return "held_ns";
	if (budget->filter.cls == WL_call_class_none)
		return "registrations";
	return wl_rule_info(budget->filter.rule)->word;
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool whole_number(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* What is wrong with it, or NULL. */
static const char *flaw(json_t *root)
{
	json_t *counts = json_object_get(root, "counts"), *range = json_object_get(root, "range");
	json_t *value;
	const char *name;

	if (!whole_number(json_object_get(root, "waylay_baseline")))
		return "it is no baseline";
	if (json_integer_value(json_object_get(root, "waylay_baseline")) != 1)
		return "it is of a newer version of Waylay";
	if (!json_is_object(counts))
		return "it has no object 'counts'";
	json_object_foreach(
		counts, name,
		value) if (!whole_number(value)) return "a count in it is no whole number";
	if (!json_is_string(range) && !json_is_null(range))
		return "its 'range' is neither a name nor null";
	if (!whole_number(json_object_get(root, "skip")) ||
	    json_integer_value(json_object_get(root, "skip")) > UINT32_MAX)
		return "its 'skip' is no whole number";
	return NULL;
}

struct baseline *baseline_read(const char *path, char *err, size_t err_size)
{
	struct baseline *baseline = calloc(1, sizeof(*baseline));
	FILE *file = baseline ? fopen(path, "re") : NULL;
	const char *wrong = NULL;
	json_error_t error;

	if (!file) {
		(void)snprintf(err, err_size,
			       "reading the baseline %s: %s; make one with --save-baseline", path,
			       strerror(baseline ? errno : ENOMEM));
		free(baseline);
		return NULL;
	}
	baseline->root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	(void)fclose(file);
	if (baseline->root)
		wrong = flaw(baseline->root);
	if (!baseline->root)
		(void)snprintf(err, err_size,
			       "reading the baseline %s, line %d: %s; make a new one with "
			       "--save-baseline",
			       path, error.line, error.text);
	else if (wrong)
		(void)snprintf(err, err_size,
			       "reading the baseline %s: %s; make a new one with --save-baseline",
			       path, wrong);
	if (baseline->root && !wrong)
		return baseline;
	baseline_free(baseline);
	return NULL;
}

void baseline_free(struct baseline *baseline)
{
	if (!baseline)
		return;
	json_decref(baseline->root);
	free(baseline);
}

void baseline_scope(const struct baseline *baseline, struct gate *gate)
{
	gate->range = json_string_value(json_object_get(baseline->root, "range"));
	gate->skip = (unsigned)json_integer_value(json_object_get(baseline->root, "skip"));
	gate->total = json_is_true(json_object_get(baseline->root, "total"));
	gate->same_thread = json_is_true(json_object_get(baseline->root, "same_thread"));
}

bool baseline_same_scope(const struct baseline *baseline, const struct gate *gate)
{
	struct gate scope = {0};

	baseline_scope(baseline, &scope);
	return scope.range && strcmp(scope.range, gate->range) == 0 && scope.skip == gate->skip &&
	       scope.total == gate->total && scope.same_thread == gate->same_thread;
}

uint64_t baseline_count(const struct baseline *baseline, const char *name)
{
	json_t *counts = json_object_get(baseline->root, "counts");

	return (uint64_t)json_integer_value(json_object_get(counts, name));
}

bool baseline_has_place(const struct baseline *baseline, const char *place, const char *rule)
{
	json_t *places = json_object_get(baseline->root, "places"), *one;
	size_t i;

	json_array_foreach(places, i, one)
	{
		const char *at = json_string_value(json_object_get(one, "place"));
		const char *by = json_string_value(json_object_get(one, "rule"));

		if (at && by && strcmp(at, place) == 0 && strcmp(by, rule) == 0)
			return true;
	}
	return false;
}

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *text(const char *value)
{
	char clean[1024];

	return json_string(words_clean(value, clean, sizeof(clean)));
}

/* Places of a budget, ways joined: callers move more often than what they call. */
static void places_add(json_t *places, const struct gate *gate, const struct analysis *analysis,
		       unsigned budget)
{
	unsigned count;
	struct range_way *ways = gate_ways(gate, analysis, budget, &count);

	for (unsigned i = 0; i < count; i++) {
		const struct site *site = ways[i].way->site;
		uint64_t calls = 0;
		json_t *object;
		unsigned k = 0;

		while (k < i && ways[k].way->site != site)
			k++;
		if (k < i)
			continue;
		for (; k < count; k++)
			calls += ways[k].way->site == site ? ways[k].count : 0;
		object = json_object();
		json_object_set_new(object, "place", text(site->place));
		json_object_set_new(object, "rule",
				    json_string(site->rule ? wl_rule_info(site->rule)->word : ""));
		json_object_set_new(object, "count", json_integer((json_int_t)calls));
		json_array_append_new(places, object);
	}
	free(ways);
}

int baseline_write(FILE *out, const struct gate *gate, const struct analysis *analysis,
		   const struct gate_verdict *verdict)
{
	json_t *root = json_object(), *counts = json_object(), *places = json_array();
	int failed;

	json_object_set_new(root, "waylay_baseline", json_integer(1));
	json_object_set_new(root, "range", gate->range ? text(gate->range) : json_null());
	json_object_set_new(root, "skip", json_integer(gate->skip));
	json_object_set_new(root, "total", json_boolean(gate->total));
	json_object_set_new(root, "same_thread", json_boolean(gate->same_thread));
	for (unsigned i = 0; i < gate->budget_count; i++) {
		const struct gate_budget *budget = &gate->budgets[i];

		if (budget->source == GATE_ASKED || !verdict->budgets[i].have)
			continue;
		json_object_set_new(counts, baseline_name(budget),
				    json_integer((json_int_t)verdict->budgets[i].have));
		if (budget->filter.measure != ANALYSIS_HELD)
			places_add(places, gate, analysis, i);
	}
	json_object_set_new(root, "counts", counts);
	json_object_set_new(root, "places", places);
	failed = json_dumpf(root, out, JSON_INDENT(2));
	json_decref(root);
	return failed || fputc('\n', out) == EOF ? -EIO : 0;
}
