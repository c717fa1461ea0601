/* SPDX-License-Identifier: Apache-2.0
 *
 * Options over getopt_long, with messages and help of our own: one line for a mistake, 80 columns
 * for help.
 */
#include "viewers/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewers/viewers.h"

#define ROWS_MAX    64
#define COLUMNS     80
#define HELP_COLUMN 26

static const struct option_row help_row = {"help", 'h', NULL, "this text", 0};

/* A row and the group that takes it. */
struct place {
	const struct option_row *row;
	const struct option_group *group;
};

void options_mistake(const struct command_line *line, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	say("%s; '%s --help' lists the options", text, line->name);
	exit(line->mistake_status);
}

/* --- help ------------------------------------------------------------------------------------- */

/* Words of text from a column on, broken before the last column; leaves the cursor in the last line. */
static void wrap(const char *text, int column, int indent)
{
	bool first = true;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (!first && column + 1 + length > COLUMNS) {
			(void)printf("\n%*s", indent, "");
			column = indent;
		} else if (!first) {
			(void)putchar(' ');
			column++;
		}
		(void)printf("%.*s", length, text);
		column += length;
		first = false;
		text += length;
		text += strspn(text, " ");
	}
}

static void row_help(const struct option_row *row)
{
	char left[128];
	/* An argument that may be left out is written with its own "=": [=METHOD]. */
	const char *equals = row->argument && *row->argument != '[' ? "=" : "";
	int length;

	if (row->letter)
		length = snprintf(left, sizeof(left), "  -%c, --%s%s%s", row->letter, row->name,
				  equals, row->argument ? row->argument : "");
	else
		length = snprintf(left, sizeof(left), "      --%s%s%s", row->name, equals,
				  row->argument ? row->argument : "");
	if (length < HELP_COLUMN - 1)
		(void)printf("%-*s", HELP_COLUMN, left);
	else
		(void)printf("%s\n%*s", left, HELP_COLUMN, "");
	wrap(row->help, HELP_COLUMN, HELP_COLUMN);
	(void)putchar('\n');
}

static void help(const struct command_line *line)
{
	(void)printf("Usage: %s [OPTIONS]%s%s\n", line->name, *line->operands ? " " : "",
		     line->operands);
	wrap(line->what, 0, 0);
	(void)puts("\n");
	for (unsigned g = 0; g < line->group_count; g++) {
		if (line->groups[g].title)
			(void)printf("%s\n", line->groups[g].title);
		if (line->groups[g].elsewhere)
			(void)printf("  %s\n", line->groups[g].elsewhere);
		for (unsigned i = 0; !line->groups[g].elsewhere && i < line->groups[g].count; i++)
			row_help(&line->groups[g].rows[i]);
	}
	row_help(&help_row);
	if (line->more)
		(void)printf("\n%s\n", line->more);
}

/* --- parsing ---------------------------------------------------------------------------------- */

static unsigned rows_gather(const struct command_line *line, struct place *places)
{
	unsigned count = 0;

	for (unsigned g = 0; g < line->group_count; g++)
		for (unsigned i = 0; i < line->groups[g].count && count < ROWS_MAX - 1; i++)
			places[count++] =
				(struct place){&line->groups[g].rows[i], &line->groups[g]};
	places[count++] = (struct place){&help_row, NULL};
	return count;
}

static void rows_translate(const struct command_line *line, const struct place *places,
			   unsigned count, struct option *longs, char *shorts)
{
	if (line->stop_at_operand)
		*shorts++ = '+';
	*shorts++ = ':'; /* a missing argument is told from an unknown option */
	for (unsigned i = 0; i < count; i++) {
		const struct option_row *row = places[i].row;

		/* Numbered above every letter, so that a letter's value is its own. */
		longs[i] = (struct option){.name = row->name,
					   .has_arg = !row->argument          ? no_argument
						      : *row->argument == '[' ? optional_argument
									      : required_argument,
					   .val = 256 + (int)i};
		if (!row->letter)
			continue;
		*shorts++ = row->letter;
		if (row->argument)
			*shorts++ = ':';
		if (row->argument && *row->argument == '[')
			*shorts++ = ':';
	}
	*shorts = '\0';
}

static const struct place *place_of(const struct place *places, unsigned count, int value)
{
	for (unsigned i = 0; i < count; i++)
		if (value == 256 + (int)i ||
		    (places[i].row->letter && value == places[i].row->letter))
			return &places[i];
	return NULL;
}

/* What getopt stumbled over. */
static void refuse(const struct command_line *line, const struct place *places, unsigned count,
		   int got, char **argv)
{
	const struct place *place = optopt ? place_of(places, count, optopt) : NULL;

	if (got == ':' && place)
		options_mistake(line, "--%s wants %s: %s", place->row->name, place->row->argument,
				place->row->help);
	if (place && optopt >= 256)
		options_mistake(line, "--%s takes no value", place->row->name);
	if (optopt > ' ' && optopt < 127)
		options_mistake(line, "there is no option '-%c'", optopt);
	options_mistake(line, "there is no option '%.*s', or it is short for several",
			(int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
}

int options_parse(const struct command_line *line, int argc, char **argv)
{
	struct place places[ROWS_MAX];
	struct option longs[ROWS_MAX + 1] = {{0}};
	char shorts[2 * ROWS_MAX + 3], err[400];
	unsigned count = rows_gather(line, places);
	int got;

	rows_translate(line, places, count, longs, shorts);
	opterr = 0;
	optind = 0; /* starts over, also its memory of argv */
	while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct place *place = place_of(places, count, got);

		if (got == '?' || got == ':' || !place)
			refuse(line, places, count, got, argv);
		if (place->row == &help_row) {
			help(line);
			if (fflush(stdout) == 0)
				exit(EXIT_HOLDS);
			say("writing to standard output: %s", strerror(errno));
			exit(EXIT_EXCEEDED);
		}
		*err = '\0';
		if (place->group->take(place->group->user, place->row->key,
				       place->row->argument ? optarg : NULL, err, sizeof(err)) != 0)
			options_mistake(line, "--%s: %s", place->row->name, err);
	}
	if (line->no_operands && optind < argc)
		options_mistake(line, "'%s' is one word too many", argv[optind]);
	return optind;
}
