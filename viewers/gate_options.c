/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate's options.
 */
#include "viewers/gate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum gate_key {
	GATE_MAX_SYNCS,
	GATE_MAX_STAGED,
	GATE_MAX_REGISTRATIONS,
	GATE_MAX_HELD,
	GATE_MAX_STAGED_BYTES,
	GATE_MAX_PAGEABLE,
	GATE_MAX_RULE,
	GATE_MAX_AT,
	GATE_ALLOW,
	GATE_BUDGETS,
	GATE_RANGE,
	GATE_STEPS,
	GATE_SKIP,
	GATE_TOTAL,
	GATE_SAME_THREAD,
	GATE_BASELINE,
	GATE_SAVE_BASELINE,
	GATE_TOLERANCE,
	GATE_HELD,
	GATE_TO_JSON,
	GATE_TO_JUNIT,
	GATE_TO_SARIF,
	GATE_TO_GITHUB,
};

static const struct option_row rows[] = {
	{"max-syncs", 0, "N", "at most N synchronizations", GATE_MAX_SYNCS},
	{"max-staged", 0, "N", "at most N copies that the host stages", GATE_MAX_STAGED},
	{"max-registrations", 0, "N", "at most N memory registrations", GATE_MAX_REGISTRATIONS},
	{"max-held", 0, "TIME", "synchronizations hold the host no longer (5ms)", GATE_MAX_HELD},
	{"max-staged-bytes", 0, "SIZE", "staged copies move no more (64KiB)",
	 GATE_MAX_STAGED_BYTES},
	{"max-pageable", 0, "N", "at most N copies from or to pageable memory", GATE_MAX_PAGEABLE},
	{"max-rule", 0, "RULE=N", "at most N calls by that rule of the report", GATE_MAX_RULE},
	{"max-at", 0, "PLACE=N", "at most N synchronizations at places like PLACE", GATE_MAX_AT},
	{"allow", 0, "PLACE", "count nothing at places like PLACE ('loss.py:*')", GATE_ALLOW},
	{"budgets", 0, "FILE", "what FILE in your repository allows", GATE_BUDGETS},
	{"range", 0, "NAME", "count inside NVTX ranges NAME: the worst instance", GATE_RANGE},
	{"steps", 0, NULL, "count inside steps, named or found: the worst", GATE_STEPS},
	{"skip", 0, "N", "leave out the first N instances in every process", GATE_SKIP},
	{"total", 0, NULL, "bound the sum over instances and ranks instead", GATE_TOTAL},
	{"same-thread", 0, NULL, "count what the range's own thread did", GATE_SAME_THREAD},
	{"baseline", 0, "FILE", "by no rule more than in FILE", GATE_BASELINE},
	{"save-baseline", 0, "FILE", "write FILE from this recording", GATE_SAVE_BASELINE},
	{"tolerance", 0, "PERCENT", "of the baseline's counts (0)", GATE_TOLERANCE},
	{"held", 0, "PERCENT", "time held too, at most so much more", GATE_HELD},
	{"json", 0, "FILE", "the verdict also as JSON, - for standard output", GATE_TO_JSON},
	{"junit", 0, "FILE", "as JUnit XML", GATE_TO_JUNIT},
	{"sarif", 0, "FILE", "as SARIF", GATE_TO_SARIF},
	{"github", 0, NULL, "as annotations of GitHub Actions", GATE_TO_GITHUB},
};

static int wrong(char *err, size_t err_size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int wrong(char *err, size_t err_size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(err, err_size, format, args);
	va_end(args);
	return -EINVAL;
}

static int number(const char *arg, uint64_t max, uint64_t *value, char *err, size_t err_size)
{
	if (parse_count(arg, max, value))
		return 0;
	return wrong(err, err_size, "'%.80s' is no whole number", arg);
}

/* "5ms" */
static int duration(const char *arg, uint64_t *ns, char *err, size_t err_size)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	size_t digits = strspn(arg, "0123456789");
	char text[24];

	for (unsigned i = 0; digits && digits < sizeof(text) && i < 4; i++) {
		if (strcmp(arg + digits, units[i].unit) != 0)
			continue;
		memcpy(text, arg, digits);
		text[digits] = '\0';
		if (!parse_count(text, UINT64_MAX / units[i].ns, ns))
			break;
		*ns *= units[i].ns;
		return 0;
	}
	return wrong(err, err_size, "'%.80s' is no time such as 5ms (units: ns, us, ms, s)", arg);
}

/* "rule_word=3": the rule's number. */
static unsigned rule_of(const char *arg, size_t length)
{
	unsigned rule = 1;

	while (rule < WL_rule_MAX && (strlen(wl_rule_info(rule)->word) != length ||
				      strncmp(wl_rule_info(rule)->word, arg, length) != 0))
		rule++;
	return rule;
}

/* NULL when there are too many. */
static struct gate_budget *budget(struct gate *gate, unsigned cls, const char *thing, char *err,
				  size_t err_size)
{
	struct gate_budget *made = &gate->budgets[gate->budget_count];

	if (gate->budget_count == GATE_BUDGETS_MAX) {
		(void)wrong(err, err_size, "too many budgets (%d at most)", GATE_BUDGETS_MAX);
		return NULL;
	}
	gate->budget_count++;
	*made = (struct gate_budget){.filter = {.cls = cls, .rule = WL_rule_MAX}, .thing = thing};
	return made;
}

static int budget_plain(struct gate *gate, unsigned cls, const char *thing, const char *arg,
			char *err, size_t err_size)
{
	struct gate_budget *made = budget(gate, cls, thing, err, err_size);

	return made ? number(arg, UINT64_MAX - 1, &made->max, err, err_size) : -EINVAL;
}

static int budget_held(struct gate *gate, const char *arg, char *err, size_t err_size)
{
	struct gate_budget *made =
		budget(gate, WL_call_class_waits, "held by synchronizations", err, err_size);

	if (!made)
		return -EINVAL;
	made->filter.measure = ANALYSIS_HELD;
	return duration(arg, &made->max, err, err_size);
}

/* "64KiB" */
static int size_of(const char *arg, uint64_t *bytes, char *err, size_t err_size)
{
	static const char *const units[] = {"", "K", "M", "G", "T"};
	size_t digits = strspn(arg, "0123456789");
	char text[24];

	for (unsigned i = 0; digits && digits < sizeof(text) && i < 5; i++) {
		const char *unit = arg + digits;
		size_t length = strlen(units[i]);

		if (strncmp(unit, units[i], length) != 0 ||
		    (unit[length] && strcmp(unit + length, "B") != 0 &&
		     (!length || strcmp(unit + length, "iB") != 0)))
			continue;
		memcpy(text, arg, digits);
		text[digits] = '\0';
		if (!parse_count(text, (UINT64_MAX - 1) >> (10 * i), bytes))
			break;
		*bytes <<= 10 * i;
		return 0;
	}
	return wrong(err, err_size,
		     "'%.80s' is no size such as 64KiB (units: B, KiB, MiB, GiB, TiB)", arg);
}

static int budget_staged_bytes(struct gate *gate, const char *arg, char *err, size_t err_size)
{
	struct gate_budget *made =
		budget(gate, WL_call_class_stages, "in staged copies", err, err_size);

	if (!made)
		return -EINVAL;
	made->filter.measure = ANALYSIS_BYTES;
	return size_of(arg, &made->max, err, err_size);
}

static int budget_pageable(struct gate *gate, const char *arg, char *err, size_t err_size)
{
	struct gate_budget *made =
		budget(gate, WL_call_class_MAX, "copies from or to pageable memory", err, err_size);

	if (!made)
		return -EINVAL;
	made->filter.measure = ANALYSIS_PAGEABLE;
	return number(arg, UINT64_MAX - 1, &made->max, err, err_size);
}

/* NAME=N, where NAME is a rule's word or a pattern of places. */
static int budget_named(struct gate *gate, bool by_rule, const char *arg, char *err,
			size_t err_size)
{
	const char *equals = strrchr(arg, '=');
	struct gate_budget *made;

	if (!equals || equals == arg)
		return wrong(err, err_size, "'%.80s' is not NAME=N", arg);
	made = budget(gate, by_rule ? WL_call_class_MAX : WL_call_class_waits,
		      by_rule ? "calls" : "synchronizations", err, err_size);
	if (!made)
		return -EINVAL;
	if (by_rule) {
		made->filter.rule = rule_of(arg, (size_t)(equals - arg));
		if (made->filter.rule == WL_rule_MAX)
			return wrong(err, err_size,
				     "there is no rule as in '%.80s'; reports show their names",
				     arg);
	} else {
		made->place = strndup(arg, (size_t)(equals - arg));
		if (!made->place)
			return wrong(err, err_size, "no memory");
		made->filter.place = made->place;
	}
	return number(equals + 1, UINT64_MAX - 1, &made->max, err, err_size);
}

static int allow(struct gate *gate, const char *arg, char *err, size_t err_size)
{
	if (!*arg)
		return wrong(err, err_size, "no place given");
	if (gate->allowed_count == GATE_ALLOWED_MAX)
		return wrong(err, err_size, "too many places (64 at most)");
	gate->allowed[gate->allowed_count++] = arg;
	return 0;
}

static int file(const char **path, const char *arg, char *err, size_t err_size)
{
	*path = arg;
	return *arg ? 0 : wrong(err, err_size, "no file given");
}

static int percent(unsigned *value, const char *arg, char *err, size_t err_size)
{
	uint64_t count = 0;

	if (!parse_count(arg, 100000, &count))
		return wrong(err, err_size, "'%.80s' is no whole percentage", arg);
	*value = (unsigned)count;
	return 0;
}

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct gate *gate = user;
	uint64_t value = 0;
	int error = 0;

	switch ((enum gate_key)key) {
	case GATE_MAX_SYNCS:
		return budget_plain(gate, WL_call_class_waits, "synchronizations", arg, err,
				    err_size);
	case GATE_MAX_STAGED:
		return budget_plain(gate, WL_call_class_stages, "staged copies", arg, err,
				    err_size);
	case GATE_MAX_REGISTRATIONS:
		return budget_plain(gate, WL_call_class_none, "registrations", arg, err, err_size);
	case GATE_MAX_HELD:
		return budget_held(gate, arg, err, err_size);
	case GATE_MAX_STAGED_BYTES:
		return budget_staged_bytes(gate, arg, err, err_size);
	case GATE_MAX_PAGEABLE:
		return budget_pageable(gate, arg, err, err_size);
	case GATE_BUDGETS:
		return file(&gate->budgets_path, arg, err, err_size);
	case GATE_STEPS:
		gate->steps = true;
		return 0;
	case GATE_MAX_RULE:
	case GATE_MAX_AT:
		return budget_named(gate, key == GATE_MAX_RULE, arg, err, err_size);
	case GATE_ALLOW:
		return allow(gate, arg, err, err_size);
	case GATE_RANGE:
		if (!*arg)
			return wrong(err, err_size, "no name given");
		gate->range = arg;
		return 0;
	case GATE_SKIP:
		error = number(arg, UINT32_MAX, &value, err, err_size);
		gate->skip = (unsigned)value;
		return error;
	case GATE_TOTAL:
		gate->total = true;
		return 0;
	case GATE_SAME_THREAD:
		gate->same_thread = true;
		return 0;
	case GATE_BASELINE:
		return file(&gate->baseline_path, arg, err, err_size);
	case GATE_SAVE_BASELINE:
		return file(&gate->save_path, arg, err, err_size);
	case GATE_TOLERANCE:
		return percent(&gate->tolerance, arg, err, err_size);
	case GATE_HELD:
		gate->held = true;
		return percent(&gate->held_tolerance, arg, err, err_size);
	case GATE_TO_JSON:
	case GATE_TO_JUNIT:
	case GATE_TO_SARIF:
		return file(&gate->outputs[key - GATE_TO_JSON], arg, err, err_size);
	case GATE_TO_GITHUB:
		gate->github = true;
		return 0;
	}
	return -EINVAL;
}

int gate_budget_option(struct gate *gate, const char *name, const char *value, char *err,
		       size_t err_size)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].key <= GATE_MAX_AT && strcmp(rows[i].name, name) == 0)
			return take(gate, rows[i].key, value, err, err_size);
	return wrong(err, err_size,
		     "there is no budget '%.80s', but max-syncs, max-staged, max-staged-bytes, "
		     "max-pageable, max-registrations, max-held, max-rule RULE, max-at PLACE",
		     name);
}

struct option_group gate_options(struct gate *gate)
{
	return (struct option_group){
		.title = "Budgets:",
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.take = take,
		.user = gate,
	};
}

/* Options that say nothing without another are mistakes, and a gate that never fails is one too. */
void gate_options_check(const struct command_line *line, struct gate *gate, bool needed)
{
	bool outputs = gate->github;

	for (unsigned i = 0; i < gate->budget_count; i++) {
		gate->budgets[i].total = gate->total;
		gate->budgets[i].filter.scope = gate->steps ? ANALYSIS_STEPS : ANALYSIS_FOCUS;
	}

	for (unsigned i = 0; i < GATE_FORMATS; i++)
		outputs |= gate->outputs[i] != NULL;
	if (!gate->range && !gate->steps && (gate->skip || gate->total || gate->same_thread))
		options_mistake(line, "--skip, --total and --same-thread say how to count inside "
				      "--range NAME or --steps");
	if (gate->steps && (gate->range || gate->baseline_path || gate->save_path))
		options_mistake(line,
				"--steps goes without --range and without baselines: name the "
				"range of the steps with --range");
	if (!gate->baseline_path && (gate->tolerance || gate->held))
		options_mistake(line, "--tolerance and --held say how to compare with "
				      "--baseline FILE");
	if ((needed || gate->range || gate->steps || gate->allowed_count || outputs) &&
	    !gate_set(gate))
		options_mistake(line, "no budget given: say --max-syncs N, --budgets FILE or "
				      "--baseline FILE");
}

void gate_done(struct gate *gate)
{
	for (unsigned i = 0; i < gate->budget_count; i++)
		free(gate->budgets[i].place);
	gate->budget_count = 0;
	free(gate->budgets_text);
	gate->budgets_text = NULL;
	baseline_free(gate->baseline);
	gate->baseline = NULL;
}
