/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts for machines: JSON (docs/verdict-json.md), JUnit XML, SARIF 2.1.0 and annotations of GitHub
 * Actions. Names of files are made relative to the current directory where they lie below it, which is
 * how such systems find them in a repository.
 */
#include "viewers/gate.h"

#include "exporters/exporters.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PLACES_MAX 20 /* told of one budget */

static json_t *text(const char *value)
{
	char clean[2048];

	return json_string(words_clean(value, clean, sizeof(clean)));
}

static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* The file of a site as a repository knows it, NULL without one. */
static const char *file_of(const struct site *site, char *buf, size_t size)
{
	char here[PATH_MAX];
	const char *file = site->file;
	size_t length;

	if (!file || !*file || !site->line)
		return NULL;
	if (getcwd(here, sizeof(here))) {
		length = strlen(here);
		if (strncmp(file, here, length) == 0 && file[length] == '/')
			file += length + 1;
	}
	return words_clean(file, buf, size);
}

/* What one place did, in words. */
static void place_text(const struct range_way *at, bool in_range, char *buf, size_t size)
{
	const struct site *site = at->way->site;
	char count[32], held[24], line[2048];

	(void)snprintf(line, sizeof(line), "%s%s (%s) at %s%s%s", words_count(at->count, count),
		       in_range ? " in all instances" : "", words_ns(at->held_ns, held),
		       site->place, *at->way->caller ? ", called from " : "", at->way->caller);
	if (site->rule) {
		const struct wl_rule_info *rule = wl_rule_info(site->rule);
		size_t used = strlen(line);

		(void)snprintf(line + used, sizeof(line) - used, ": %s%s%s", rule->condition,
			       *rule->remedy ? "; remedy: " : "", rule->remedy);
	}
	(void)words_clean(line, buf, size);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *places_json(const struct gate *gate, const struct analysis *analysis,
			   unsigned budget)
{
	json_t *array = json_array();
	unsigned count;
	struct range_way *ways = gate_ways(gate, analysis, budget, &count);

	for (unsigned i = 0; i < count; i++) {
		const struct site *site = ways[i].way->site;
		json_t *object = json_object();

		json_object_set_new(object, "place", text(site->place));
		json_object_set_new(object, "file", site->file ? text(site->file) : json_null());
		json_object_set_new(object, "line", number(site->line));
		json_object_set_new(object, "called_from", text(ways[i].way->caller));
		json_object_set_new(object, "rule",
				    json_string(site->rule ? wl_rule_info(site->rule)->word : ""));
		json_object_set_new(object, "count", number(ways[i].count));
		json_object_set_new(object, "held_ns", number(ways[i].held_ns));
		json_array_append_new(array, object);
	}
	free(ways);
	return array;
}

static json_t *budget_json(const struct gate *gate, struct model *model,
			   const struct analysis *analysis, const struct gate_verdict *verdict,
			   unsigned i)
{
	const struct gate_budget *budget = &gate->budgets[i];
	static const char *const units[] = {[ANALYSIS_CALLS] = "calls",
					    [ANALYSIS_HELD] = "ns",
					    [ANALYSIS_BYTES] = "bytes",
					    [ANALYSIS_PAGEABLE] = "calls"};
	const char *name = gate_range(gate, analysis, i);
	json_t *object = json_object();
	char words[1024];

	gate_budget_text(gate, model, analysis, verdict, i, words, sizeof(words));
	json_object_set_new(object, "words", text(words));
	json_object_set_new(object, "unit", json_string(units[budget->filter.measure]));
	json_object_set_new(object, "range", name ? text(name) : json_null());
	json_object_set_new(object, "total", json_boolean(!name || budget->total));
	json_object_set_new(object, "have", number(verdict->budgets[i].have));
	json_object_set_new(object, "allowed", number(budget->max));
	json_object_set_new(object, "baseline",
			    budget->source == GATE_COMPARED ? number(budget->was) : json_null());
	json_object_set_new(object, "holds", json_boolean(verdict->budgets[i].holds));
	json_object_set_new(object, "places",
			    analysis ? places_json(gate, analysis, i) : json_array());
	return object;
}

static json_t *allowed_json(const struct gate *gate, const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < gate->allowed_count; i++) {
		json_t *object = json_object();

		json_object_set_new(object, "place", text(gate->allowed[i]));
		json_object_set_new(object, "reason",
				    gate->reasons[i] ? text(gate->reasons[i]) : json_null());
		json_object_set_new(object, "count",
				    number(analysis ? gate_allowed_calls(analysis, i) : 0));
		json_array_append_new(array, object);
	}
	return array;
}

int gate_json(FILE *out, const struct gate *gate, struct model *model,
	      const struct analysis *analysis, const struct gate_verdict *verdict)
{
	json_t *root = json_object(), *budgets = json_array();
	int failed;

	json_object_set_new(root, "schema", json_integer(1));
	json_object_set_new(root, "verdict", json_string(gate_status_word(verdict->status)));
	json_object_set_new(root, "status", json_integer(verdict->status));
	json_object_set_new(root, "doubt", *verdict->doubt ? text(verdict->doubt) : json_null());
	json_object_set_new(root, "run", model ? text(model_run(model)) : json_null());
	json_object_set_new(root, "range", gate->range ? text(gate->range) : json_null());
	for (unsigned i = 0; i < gate->budget_count; i++)
		if (gate_shown(gate, verdict, i))
			json_array_append_new(budgets,
					      budget_json(gate, model, analysis, verdict, i));
	json_object_set_new(root, "budgets", budgets);
	json_object_set_new(root, "allowed", allowed_json(gate, analysis));
	failed = json_dumpf(root, out, JSON_INDENT(2));
	json_decref(root);
	return failed || fputc('\n', out) == EOF ? -EIO : 0;
}

/* --- JUnit ------------------------------------------------------------------------------------ */

/* What XML 1.0 can hold, as text or within quotes. words_clean() has left no control characters. */
static void xml(FILE *out, const char *value)
{
	char clean[2048];

	for (const char *p = words_clean(value, clean, sizeof(clean)); *p; p++)
		switch (*p) {
		case '&':
			(void)fputs("&amp;", out);
			break;
		case '<':
			(void)fputs("&lt;", out);
			break;
		case '>':
			(void)fputs("&gt;", out);
			break;
		case '"':
			(void)fputs("&quot;", out);
			break;
		default:
			(void)fputc(*p, out);
		}
}

static void junit_failure(FILE *out, const struct gate *gate, const struct analysis *analysis,
			  unsigned budget, const char *words)
{
	unsigned count;
	struct range_way *ways = gate_ways(gate, analysis, budget, &count);
	char line[2048];

	(void)fputs("      <failure type=\"exceeded\" message=\"", out);
	xml(out, words);
	(void)fputs("\">", out);
	for (unsigned i = 0; i < count && i < PLACES_MAX; i++) {
		place_text(&ways[i], gate_range(gate, analysis, budget) != NULL, line,
			   sizeof(line));
		xml(out, line);
		(void)fputc('\n', out);
	}
	(void)fputs("</failure>\n", out);
	free(ways);
}

static void junit_end(FILE *out, const char *doubt)
{
	if (!*doubt) {
		(void)fputs("\" time=\"0\"/>\n", out);
		return;
	}
	(void)fputs("\" time=\"0\">\n      <error type=\"cannot-tell\" message=\"", out);
	xml(out, doubt);
	(void)fputs("\"/>\n    </testcase>\n", out);
}

static void junit_case(FILE *out, const struct gate *gate, struct model *model,
		       const struct analysis *analysis, const struct gate_verdict *verdict,
		       unsigned i)
{
	char words[1024];

	gate_budget_text(gate, model, analysis, verdict, i, words, sizeof(words));
	(void)fputs("    <testcase classname=\"waylay.check\" name=\"", out);
	xml(out, words);
	if (verdict->budgets[i].holds) {
		junit_end(out, verdict->doubt);
		return;
	}
	(void)fputs("\" time=\"0\">\n", out);
	junit_failure(out, gate, analysis, i, words);
	(void)fputs("    </testcase>\n", out);
}

/* Nothing before and nothing now. */
static void junit_lone(FILE *out, const struct gate *gate, const struct gate_verdict *verdict)
{
	(void)fputs("    <testcase classname=\"waylay.check\" name=\"by no rule more than in ",
		    out);
	xml(out, gate->baseline_path ? gate->baseline_path : "the baseline");
	junit_end(out, verdict->doubt);
}

/* As the strictest of the schemas in use wants it: Ant's, whose suites have no numbers on the outside and end
 * with what was printed. */
int gate_junit(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis, const struct gate_verdict *verdict)
{
	unsigned tests = 0, failures = 0, errors = 0, lone;
	int64_t first = 0, last = 0, realtime = 0;
	char when[32];
	struct tm utc;
	time_t seconds;

	for (unsigned i = 0; i < gate->budget_count; i++) {
		if (!gate_shown(gate, verdict, i))
			continue;
		tests++;
		failures += !verdict->budgets[i].holds;
		errors += verdict->budgets[i].holds && *verdict->doubt;
	}
	/* A suite without a test would look like one that was not run. */
	lone = tests == 0;
	tests += lone;
	errors += lone && *verdict->doubt;
	if (model)
		model_bounds(model, &first, &last, &realtime);
	seconds = (time_t)(realtime / 1000000000);
	(void)gmtime_r(&seconds, &utc);
	(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
	(void)fprintf(out,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<testsuites>\n"
		      "  <testsuite id=\"0\" package=\"waylay\" name=\"waylay check\" tests=\"%u\" "
		      "failures=\"%u\" errors=\"%u\" skipped=\"0\" time=\"%.3f\" timestamp=\"%s\" "
		      "hostname=\"",
		      tests, failures, errors, (double)(last - first) / 1e9, when);
	xml(out, model ? model_process(model, 0)->info.host : "localhost");
	(void)fputs("\">\n    <properties>\n      <property name=\"waylay.version\" "
		    "value=\"" WAYLAY_VERSION "\"/>\n    </properties>\n",
		    out);
	for (unsigned i = 0; i < gate->budget_count; i++)
		if (gate_shown(gate, verdict, i))
			junit_case(out, gate, model, analysis, verdict, i);
	if (lone)
		junit_lone(out, gate, verdict);
	(void)fputs("    <system-out></system-out>\n    <system-err></system-err>\n"
		    "  </testsuite>\n</testsuites>\n",
		    out);
	return ferror(out) ? -EIO : 0;
}

/* --- SARIF ------------------------------------------------------------------------------------ */

static json_t *message(const char *words)
{
	return json_pack("{s:o}", "text", text(words));
}

/* A path as the path of a URI. */
static json_t *uri(const char *path)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	char out[3 * PATH_MAX + 8];
	size_t used = 0;

	if (*path == '/')
		used = (size_t)snprintf(out, sizeof(out), "file://");
	for (; *path && used + 4 < sizeof(out); path++)
		if (strchr(plain, *path))
			out[used++] = *path;
		else
			used += (size_t)snprintf(out + used, 4, "%%%02X", (unsigned char)*path);
	out[used] = '\0';
	return json_string(out);
}

static json_t *location(const struct site *site)
{
	char buf[PATH_MAX];
	const char *file = file_of(site, buf, sizeof(buf));

	if (!file)
		return NULL;
	return json_pack("{s:{s:{s:o},s:{s:i}}}", "physicalLocation", "artifactLocation", "uri",
			 uri(file), "region", "startLine", (int)site->line);
}

static json_t *result(bool in_range, const char *words, const struct range_way *at)
{
	json_t *object = json_object(), *where = at ? location(at->way->site) : NULL;
	char place[2048] = "", full[3200];

	if (at)
		place_text(at, in_range, place, sizeof(place));
	(void)snprintf(full, sizeof(full), "%s%s%s", words, at ? ". Of these, " : "", place);
	json_object_set_new(object, "ruleId",
			    json_string(!at ? "budget"
					: at->way->site->rule
						? wl_rule_info(at->way->site->rule)->word
						: "registration"));
	json_object_set_new(object, "level", json_string("error"));
	json_object_set_new(object, "message", message(full));
	if (where)
		json_object_set_new(object, "locations", json_pack("[o]", where));
	return object;
}

static json_t *sarif_results(const struct gate *gate, struct model *model,
			     const struct analysis *analysis, const struct gate_verdict *verdict)
{
	json_t *results = json_array();
	char words[1024];

	for (unsigned i = 0; i < gate->budget_count; i++) {
		struct range_way *ways;
		bool in_range = gate_range(gate, analysis, i) != NULL;
		unsigned count;

		if (verdict->budgets[i].holds)
			continue;
		gate_budget_text(gate, model, analysis, verdict, i, words, sizeof(words));
		ways = gate_ways(gate, analysis, i, &count);
		for (unsigned k = 0; k < count && k < PLACES_MAX; k++)
			json_array_append_new(results, result(in_range, words, &ways[k]));
		if (!count)
			json_array_append_new(results, result(in_range, words, NULL));
		free(ways);
	}
	return results;
}

static json_t *sarif_rules(void)
{
	json_t *rules = json_array();

	json_array_append_new(rules, json_pack("{s:s,s:o}", "id", "budget", "shortDescription",
					       message("a budget is exceeded")));
	json_array_append_new(rules,
			      json_pack("{s:s,s:o}", "id", "registration", "shortDescription",
					message("memory is registered with the fabric")));
	for (unsigned rule = 1; rule < WL_rule_MAX; rule++) {
		const struct wl_rule_info *info = wl_rule_info(rule);
		json_t *object = json_pack("{s:s,s:o}", "id", info->word, "shortDescription",
					   message(info->condition));

		if (*info->remedy)
			json_object_set_new(object, "help", message(info->remedy));
		json_array_append_new(rules, object);
	}
	return rules;
}

int gate_sarif(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis, const struct gate_verdict *verdict)
{
	json_t *notes = json_array(), *root;
	int failed;

	if (*verdict->doubt)
		json_array_append_new(
			notes, json_pack("{s:s,s:o}", "level",
					 verdict->status == EXIT_CANNOT_TELL ? "error" : "warning",
					 "message", message(verdict->doubt)));
	root = json_pack("{s:s,s:s,s:[{s:{s:{s:s,s:s,s:o}},s:[{s:b,s:i,s:o}],s:o}]}", "$schema",
			 "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0",
			 "runs", "tool", "driver", "name", "waylay", "version", WAYLAY_VERSION,
			 "rules", sarif_rules(), "invocations", "executionSuccessful",
			 verdict->status != EXIT_CANNOT_TELL, "exitCode", verdict->status,
			 "toolExecutionNotifications", notes, "results",
			 sarif_results(gate, model, analysis, verdict));
	if (!root)
		return -ENOMEM;
	failed = json_dumpf(root, out, JSON_INDENT(2));
	json_decref(root);
	return failed || fputc('\n', out) == EOF ? -EIO : 0;
}

/* --- GitHub ----------------------------------------------------------------------------------- */

/* As GitHub's runner reads it back; property: also what would end a property. */
static void escaped(FILE *out, const char *value, bool property)
{
	char clean[3200];

	for (const char *p = words_clean(value, clean, sizeof(clean)); *p; p++)
		if (*p == '%' || (property && (*p == ':' || *p == ',')))
			(void)fprintf(out, "%%%02X", (unsigned char)*p);
		else
			(void)fputc(*p, out);
}

static void annotation(FILE *out, const char *level, const struct site *site, const char *words)
{
	char buf[PATH_MAX];
	const char *file = site ? file_of(site, buf, sizeof(buf)) : NULL;

	(void)fprintf(out, "::%s ", level);
	if (file) {
		(void)fputs("file=", out);
		escaped(out, file, true);
		(void)fprintf(out, ",line=%u,", site->line);
	}
	(void)fputs("title=waylay check::", out);
	escaped(out, words, false);
	(void)fputc('\n', out);
}

void gate_github(FILE *out, const struct gate *gate, struct model *model,
		 const struct analysis *analysis, const struct gate_verdict *verdict)
{
	char words[1024], place[2048], full[3200];

	for (unsigned i = 0; i < gate->budget_count; i++) {
		struct range_way *ways;
		bool in_range = gate_range(gate, analysis, i) != NULL;
		unsigned count;

		if (verdict->budgets[i].holds)
			continue;
		gate_budget_text(gate, model, analysis, verdict, i, words, sizeof(words));
		ways = gate_ways(gate, analysis, i, &count);
		for (unsigned k = 0; k < count && k < PLACES_MAX; k++) {
			place_text(&ways[k], in_range, place, sizeof(place));
			(void)snprintf(full, sizeof(full), "%s. Of these, %s", words, place);
			annotation(out, "error", ways[k].way->site, full);
		}
		if (!count)
			annotation(out, "error", NULL, words);
		free(ways);
	}
	if (*verdict->doubt) {
		(void)snprintf(full, sizeof(full), "no verdict: %s", verdict->doubt);
		if (verdict->status == EXIT_CANNOT_TELL)
			annotation(out, "error", NULL, full);
		else
			annotation(out, "warning", NULL, verdict->doubt);
	}
}

/* --- where it goes ---------------------------------------------------------------------------- */

struct told {
	const struct gate *gate;
	struct model *model;
	const struct analysis *analysis;
	const struct gate_verdict *verdict;
};

static int baseline_maker(FILE *out, const struct gate *gate, struct model *model,
			  const struct analysis *analysis, const struct gate_verdict *verdict)
{
	(void)model;
	return baseline_write(out, gate, analysis, verdict);
}

/* Whole or not at all, under its name or on standard output. */
static bool write_out(const char *path, const struct told *told,
		      int (*make)(FILE *, const struct gate *, struct model *,
				  const struct analysis *, const struct gate_verdict *))
{
	struct output output;
	char *data = NULL, err[1024] = "";
	size_t bytes = 0;
	FILE *memory = open_memstream(&data, &bytes);
	int error = memory ? make(memory, told->gate, told->model, told->analysis, told->verdict)
			   : -ENOMEM;

	if (memory && fclose(memory) != 0 && !error)
		error = -ENOMEM;
	if (!error) {
		error = output_open(&output, path, NULL, err, sizeof(err));
		if (!error) {
			output_write(&output, data, bytes);
			error = output_close(&output, 0, err, sizeof(err));
		}
	}
	free(data);
	if (error)
		say("%s%s%s", *err ? err : "writing ", *err ? "" : path,
		    *err ? "" : ": not enough memory");
	return error == 0;
}

bool gate_tell(FILE *out, const struct gate *gate, struct model *model,
	       const struct analysis *analysis, const struct gate_verdict *verdict)
{
	static int (*const makers[])(FILE *, const struct gate *, struct model *,
				     const struct analysis *, const struct gate_verdict *) = {
		[GATE_JSON] = gate_json, [GATE_JUNIT] = gate_junit, [GATE_SARIF] = gate_sarif};
	const struct told told = {gate, model, analysis, verdict};
	bool good = true;

	for (unsigned i = 0; i < GATE_FORMATS; i++)
		if (gate->outputs[i] && strcmp(gate->outputs[i], "-") == 0)
			out = stderr;
	if (gate->save_path && strcmp(gate->save_path, "-") == 0)
		out = stderr;
	gate_print(out, gate, model, analysis, verdict);
	(void)fflush(out);
	if (gate->github) {
		gate_github(stdout, gate, model, analysis, verdict);
		(void)fflush(stdout);
	}
	for (unsigned i = 0; i < GATE_FORMATS; i++)
		if (gate->outputs[i])
			good &= write_out(gate->outputs[i], &told, makers[i]);
	if (!gate->save_path)
		return good;
	if (verdict->status == EXIT_HOLDS && analysis) {
		if (!write_out(gate->save_path, &told, baseline_maker))
			return false;
		(void)fprintf(out, "check: wrote the baseline %s\n", gate->save_path);
		(void)fflush(out);
		return good;
	}
	say("no baseline was written to %s: the verdict is '%s'", gate->save_path,
	    gate_status_word(verdict->status));
	return good;
}
