/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of budgets, kept in the repository of the job (its format: docs/budgets.md).
 */
#include "viewers/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 20)

enum section_kind { SECTION_TOP, SECTION_RUN, SECTION_STEPS, SECTION_RANGE, SECTION_ALLOW };

struct section {
	enum section_kind kind;
	const char *range;
	bool total;
	unsigned first; /* of its budgets */
};

/* Without blanks at its ends; in place. */
static char *trimmed(char *text)
{
	size_t length;

	text += strspn(text, " \t\r");
	length = strlen(text);
	while (length && strchr(" \t\r", text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

static int section_open(struct section *section, char *title, char *err, size_t err_size)
{
	size_t length = strlen(title);

	if (length < 3 || title[length - 1] != ']') {
		(void)snprintf(err, err_size,
			       "a section is [run], [steps], [range NAME] or [allow]");
		return -EINVAL;
	}
	title[length - 1] = '\0';
	title = trimmed(title + 1);
	*section = (struct section){.kind = SECTION_RUN};
	if (strcmp(title, "run") == 0)
		return 0;
	if (strcmp(title, "steps") == 0) {
		section->kind = SECTION_STEPS;
		return 0;
	}
	if (strcmp(title, "allow") == 0) {
		section->kind = SECTION_ALLOW;
		return 0;
	}
	if (strncmp(title, "range", 5) == 0 && strchr(" \t", title[5]) && title[5]) {
		section->kind = SECTION_RANGE;
		section->range = trimmed(title + 5);
		if (*section->range)
			return 0;
	}
	(void)snprintf(err, err_size,
		       "there is no section '[%.80s]', but [run], [steps], [range NAME] "
		       "and [allow]",
		       title);
	return -EINVAL;
}

static int yes_or_no(const char *value, bool *is, char *err, size_t err_size)
{
	*is = strcmp(value, "yes") == 0;
	if (*is || strcmp(value, "no") == 0)
		return 0;
	(void)snprintf(err, err_size, "'%.80s' is neither yes nor no", value);
	return -EINVAL;
}

/* A place that counts nowhere, and why: without a reason nobody can tell later whether it still holds. */
static int allow_line(struct gate *gate, const char *place, const char *reason, char *err,
		      size_t err_size)
{
	if (!*reason) {
		(void)snprintf(err, err_size, "say why '%.80s' is allowed: PLACE = REASON", place);
		return -EINVAL;
	}
	if (gate->allowed_count == GATE_ALLOWED_MAX) {
		(void)snprintf(err, err_size, "too many places (%d at most)", GATE_ALLOWED_MAX);
		return -EINVAL;
	}
	gate->reasons[gate->allowed_count] = reason;
	gate->allowed[gate->allowed_count++] = place;
	return 0;
}

/* "max-rule stream_wait" and "2": as --max-rule stream_wait=2. */
static int budget_line(struct gate *gate, const struct section *section, char *name,
		       const char *value, char *err, size_t err_size)
{
	char *of = name + strcspn(name, " \t"), arg[1200];
	unsigned before = gate->budget_count;
	int error;

	if (*of) {
		*of++ = '\0';
		(void)snprintf(arg, sizeof(arg), "%s=%s", trimmed(of), value);
		value = arg;
	}
	error = gate_budget_option(gate, name, value, err, err_size);
	for (unsigned i = before; !error && i < gate->budget_count; i++) {
		struct analysis_filter *filter = &gate->budgets[i].filter;

		filter->scope = section->kind == SECTION_STEPS   ? ANALYSIS_STEPS
				: section->kind == SECTION_RANGE ? ANALYSIS_RANGE
								 : ANALYSIS_RUN;
		filter->range = section->range;
	}
	return error;
}

static int top_line(struct gate *gate, const char *name, const char *value, char *err,
		    size_t err_size)
{
	uint64_t skip = 0;

	if (strcmp(name, "same-thread") == 0)
		return yes_or_no(value, &gate->same_thread, err, err_size);
	if (strcmp(name, "skip") != 0) {
		(void)snprintf(err, err_size,
			       "'%.80s' stands before any section; only skip and "
			       "same-thread do",
			       name);
		return -EINVAL;
	}
	if (!parse_count(value, UINT32_MAX, &skip)) {
		(void)snprintf(err, err_size, "'%.80s' is no whole number", value);
		return -EINVAL;
	}
	if (gate->baseline && gate->skip != skip) {
		(void)snprintf(err, err_size, "the baseline was counted with another skip (%u)",
			       gate->skip);
		return -EINVAL;
	}
	gate->skip = (unsigned)skip;
	return 0;
}

static int line_take(struct gate *gate, struct section *section, char *line, char *err,
		     size_t err_size)
{
	char *equals, *name, *value;
	int error;

	line = trimmed(line);
	if (!*line || *line == '#')
		return 0;
	if (*line == '[') {
		error = section_open(section, line, err, err_size);
		section->first = gate->budget_count;
		return error;
	}
	/* Places hold equals signs more rarely than values do, but reasons may hold any. */
	equals = section->kind == SECTION_ALLOW ? strstr(line, " =") : strrchr(line, '=');
	if (!equals) {
		(void)snprintf(err, err_size, "'%.80s' is not NAME = VALUE", line);
		return -EINVAL;
	}
	*equals = '\0';
	name = trimmed(line);
	value = trimmed(equals + (section->kind == SECTION_ALLOW ? 2 : 1));
	switch (section->kind) {
	case SECTION_TOP:
		return top_line(gate, name, value, err, err_size);
	case SECTION_ALLOW:
		return allow_line(gate, name, value, err, err_size);
	default:
		break;
	}
	if (strcmp(name, "total") != 0)
		return budget_line(gate, section, name, value, err, err_size);
	if (section->kind == SECTION_RUN) {
		(void)snprintf(err, err_size, "the whole run is always the sum");
		return -EINVAL;
	}
	return yes_or_no(value, &section->total, err, err_size);
}

static void section_close(struct gate *gate, const struct section *section)
{
	for (unsigned i = section->first; i < gate->budget_count; i++)
		gate->budgets[i].total = section->total;
}

static int lines_take(struct gate *gate, char *text, char *err, size_t err_size)
{
	struct section section = {.kind = SECTION_TOP, .first = gate->budget_count};
	unsigned number = 0, before = gate->budget_count;
	char wrong[512] = "";

	for (char *line = text, *next; line; line = next) {
		char *end = strchr(line, '\n');

		number++;
		next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		if (line[strspn(line, " \t")] == '[')
			section_close(gate, &section);
		if (line_take(gate, &section, line, wrong, sizeof(wrong)) != 0) {
			(void)snprintf(err, err_size, "reading the budgets in %s, line %u: %s",
				       gate->budgets_path, number, wrong);
			return -EINVAL;
		}
	}
	section_close(gate, &section);
	if (gate->budget_count > before)
		return 0;
	(void)snprintf(err, err_size,
		       "reading the budgets in %s: there is none; give one, such as max-syncs = 0 "
		       "below [steps]",
		       gate->budgets_path);
	return -EINVAL;
}

int budgets_read(struct gate *gate, char *err, size_t err_size)
{
	FILE *file = fopen(gate->budgets_path, "re");
	size_t length = 0;

	if (!file) {
		(void)snprintf(err, err_size, "reading the budgets in %s: %s", gate->budgets_path,
			       strerror(errno));
		return -EINVAL;
	}
	gate->budgets_text = malloc(FILE_MAX + 1);
	if (gate->budgets_text)
		length = fread(gate->budgets_text, 1, FILE_MAX + 1, file);
	if (!gate->budgets_text || ferror(file) || length > FILE_MAX) {
		(void)snprintf(err, err_size, "reading the budgets in %s: %s", gate->budgets_path,
			       !gate->budgets_text ? strerror(ENOMEM)
			       : length > FILE_MAX ? "it is no such file: larger than 1 MiB"
						   : strerror(errno));
		(void)fclose(file);
		return -EINVAL;
	}
	(void)fclose(file);
	gate->budgets_text[length] = '\0';
	if (strlen(gate->budgets_text) != length) {
		(void)snprintf(err, err_size, "reading the budgets in %s: it is no text",
			       gate->budgets_path);
		return -EINVAL;
	}
	return lines_take(gate, gate->budgets_text, err, err_size);
}
