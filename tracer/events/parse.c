/* SPDX-License-Identifier: Apache-2.0
 *
 * The event table of a recording, read back from its text. The text may be anything: whatever is
 * not such a table is refused with a line that says where.
 */
#include "tracer/events/events.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX 4096 /* event numbers below this */
#define TEXT_MAX    (1u << 20)

struct parse {
	struct wl_event_table *table;
	char *at, *end; /* the copy of the text; its separators become NULs */
	unsigned line;
	struct wl_enumeration *enums;
	unsigned enum_count;
	const char **words;
	size_t word_count;
	struct wl_arg *args;
	size_t arg_count;
	char *err;
	size_t err_size;
};

static int fail(struct parse *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct parse *p, const char *format, ...)
{
	int n = snprintf(p->err, p->err_size, "event table line %u: ", p->line);
	va_list ap;

	if (n >= 0 && (size_t)n < p->err_size) {
		va_start(ap, format);
		vsnprintf(p->err + n, p->err_size - (size_t)n, format, ap);
		va_end(ap);
	}
	return -EINVAL;
}

/* Printable, without what separates. */
static bool word_good(const char *word)
{
	if (!*word)
		return false;
	for (; *word; word++)
		if (*word <= ' ' || *word > '~')
			return false;
	return true;
}

/* The next word of a line up to `separator`, NULL at its end. */
static char *word_next(char **line, char separator)
{
	char *word = *line;
	char *end;

	if (!word)
		return NULL;
	end = strchr(word, separator);
	if (end)
		*end++ = '\0';
	*line = end;
	return word;
}

static const struct wl_enumeration *enum_named(const struct parse *p, const char *name)
{
	for (unsigned i = 0; i < p->enum_count; i++)
		if (strcmp(p->enums[i].name, name) == 0)
			return &p->enums[i];
	return NULL;
}

static int parse_enum(struct parse *p, char *line)
{
	struct wl_enumeration *e = &p->enums[p->enum_count];
	char *word = word_next(&line, ' ');

	if (!word || !word_good(word))
		return fail(p, "an enumeration has no name");
	if (enum_named(p, word))
		return fail(p, "enumeration %s is there twice", word);
	e->name = word;
	e->words = p->words + p->word_count;
	e->count = 0;
	while ((word = word_next(&line, ' ')) != NULL) {
		if (!word_good(word))
			return fail(p, "enumeration %s has a word that is none", e->name);
		p->words[p->word_count++] = word;
		e->count++;
	}
	if (!e->count)
		return fail(p, "enumeration %s has no words", e->name);
	p->enum_count++;
	return 0;
}

static int parse_arg(struct parse *p, const char *event, char *text)
{
	struct wl_arg *arg = &p->args[p->arg_count];
	char *name = word_next(&text, ':');
	char *type = word_next(&text, ':');
	char *show = word_next(&text, ':');

	if (!show || text || !word_good(name) || !word_good(show))
		return fail(p, "event %s has an argument that is not NAME:TYPE:SHOW", event);
	arg->name = name;
	for (arg->type = 0; arg->type < WL_TYPE_MAX; arg->type++)
		if (strcmp(type, wl_arg_type_name(arg->type)) == 0)
			break;
	if (arg->type == WL_TYPE_MAX)
		return fail(p, "argument %s of event %s has an unknown type", name, event);
	for (arg->show = 0; arg->show < WL_SHOW_ENUM; arg->show++)
		if (strcmp(show, wl_show_name(arg->show)) == 0)
			break;
	arg->enumeration = arg->show == WL_SHOW_ENUM ? enum_named(p, show) : NULL;
	if (arg->show == WL_SHOW_ENUM && !arg->enumeration)
		arg->show = WL_SHOW_NUM; /* a way of showing that a later version has */
	p->arg_count++;
	return 0;
}

static int parse_event(struct parse *p, char *line)
{
	const char *number = word_next(&line, ' ');
	const char *name = word_next(&line, ' ');
	const char *category = word_next(&line, ' ');
	const char *form = word_next(&line, ' ');
	struct wl_event_type *type;
	char *end, *word;
	unsigned long n;

	if (!form || !word_good(name))
		return fail(p, "an event is not NUMBER NAME CATEGORY FORM");
	n = *number >= '0' && *number <= '9' ? strtoul(number, &end, 10) : NUMBERS_MAX;
	if (n >= NUMBERS_MAX || *end)
		return fail(p, "event %s has no number below %d", name, NUMBERS_MAX);
	type = &p->table->types[n];
	if (type->name)
		return fail(p, "event number %lu is there twice", n);
	*type = (struct wl_event_type){.name = name, .number = (uint16_t)n};
	/* A category or form of a later version is shown as the plainest there is. */
	type->category = WL_CAT_meta;
	for (unsigned i = 0; i < WL_CAT_MAX; i++)
		if (strcmp(category, wl_category_name((enum wl_category)i)) == 0)
			type->category = (enum wl_category)i;
	type->form = WL_FORM_INSTANT;
	for (unsigned i = 0; i < WL_FORM_MAX; i++)
		if (strcmp(form, wl_form_name((enum wl_form)i)) == 0)
			type->form = (enum wl_form)i;
	type->args = p->args + p->arg_count;
	while ((word = word_next(&line, ' ')) != NULL) {
		int rc;

		if (type->arg_count == WL_ARGS_MAX)
			return fail(p, "event %s has more than %d arguments", name, WL_ARGS_MAX);
		rc = parse_arg(p, name, word);
		if (rc)
			return rc;
		type->args_bytes += wl_arg_type_bytes(type->args[type->arg_count++].type);
	}
	return 0;
}

static int parse_lines(struct parse *p)
{
	while (p->at < p->end) {
		char *line = p->at, *word;
		char *end = memchr(line, '\n', (size_t)(p->end - line));
		int rc = 0;

		p->line++;
		if (!end)
			return fail(p, "the last line is cut off");
		*end = '\0';
		p->at = end + 1;
		word = word_next(&line, ' ');
		if (strcmp(word, "enum") == 0)
			rc = parse_enum(p, line);
		else if (strcmp(word, "event") == 0)
			rc = parse_event(p, line);
		/* any other first word is of a later version and not needed to decode records */
		if (rc)
			return rc;
	}
	return 0;
}

/* Ties the recorded types to this build's by name, argument by argument. */
static int tie(struct parse *p)
{
	struct wl_event_table *table = p->table;
	const struct wl_event_type *seen[WL_EV_MAX] = {0};

	for (unsigned n = 0; n < table->count; n++) {
		const struct wl_event_type *type = &table->types[n];
		const struct wl_event_type *known =
			type->name ? wl_event_type_named(type->name) : NULL;

		if (known && seen[known->number])
			return fail(p, "event %s is there twice", type->name);
		if (known)
			seen[known->number] = type;
		table->known[n] = known;
		for (unsigned i = 0; i < WL_ARGS_MAX; i++)
			table->map[n][i] = -1;
		for (unsigned i = 0; known && i < type->arg_count; i++)
			for (unsigned k = 0; k < known->arg_count; k++)
				if (strcmp(type->args[i].name, known->args[k].name) == 0)
					table->map[n][i] = (signed char)k;
	}
	return 0;
}

/* What the text holds at most, so that everything fits one allocation. */
struct census {
	size_t lines, blanks;
	unsigned long number_max;
};

static struct census census_take(const char *text, size_t length)
{
	struct census c = {0};

	for (size_t i = 0; i < length; i++) {
		c.lines += text[i] == '\n';
		c.blanks += text[i] == ' ';
		if ((i == 0 || text[i - 1] == '\n') && length - i > 6 &&
		    memcmp(text + i, "event ", 6) == 0) {
			unsigned long n = 0;

			for (size_t k = i + 6; k < length && text[k] >= '0' && text[k] <= '9'; k++)
				if (n < NUMBERS_MAX)
					n = n * 10 + (unsigned long)(text[k] - '0');
			if (n < NUMBERS_MAX && n > c.number_max)
				c.number_max = n;
		}
	}
	return c;
}

static void *carve(char **at, size_t bytes)
{
	void *piece = *at;

	*at += (bytes + 15) & ~(size_t)15;
	return piece;
}

int wl_event_table_parse(struct wl_event_table *table, const char *text, size_t length, char *err,
			 size_t err_size)
{
	struct parse p = {.table = table, .err = err, .err_size = err_size};
	struct census c;
	size_t count, bytes;
	char *at;
	int rc;

	memset(table, 0, sizeof(*table));
	if (length > TEXT_MAX)
		return fail(&p, "%zu bytes are too many", length);
	if (memchr(text, '\0', length))
		return fail(&p, "there is a NUL in it");
	c = census_take(text, length);
	count = c.number_max + 1;
	bytes = length + 1 +
		count * (sizeof(*table->types) + sizeof(const struct wl_event_type *) +
			 sizeof(*table->map)) +
		c.lines * sizeof(*p.enums) + c.blanks * (sizeof(*p.words) + sizeof(*p.args)) +
		7 * 16;
	table->memory = calloc(1, bytes);
	if (!table->memory) {
		snprintf(err, err_size, "no memory for the event table");
		return -ENOMEM;
	}
	at = table->memory;
	table->count = (unsigned)count;
	table->types = carve(&at, count * sizeof(*table->types));
	table->known = carve(&at, count * sizeof(const struct wl_event_type *));
	table->map = carve(&at, count * sizeof(*table->map));
	p.enums = carve(&at, c.lines * sizeof(*p.enums));
	p.words = carve(&at, c.blanks * sizeof(*p.words));
	p.args = carve(&at, c.blanks * sizeof(*p.args));
	p.at = at;
	p.end = at + length;
	memcpy(p.at, text, length);
	rc = parse_lines(&p);
	if (!rc)
		rc = tie(&p);
	if (rc)
		wl_event_table_free(table);
	return rc;
}

void wl_event_table_free(struct wl_event_table *table)
{
	free(table->memory);
	memset(table, 0, sizeof(*table));
}
