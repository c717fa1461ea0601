/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a command: what --help shows and what is parsed come from the same rows. GNU style:
 * --name=VALUE, --name VALUE, abbreviations, operands anywhere. A mistake is one line on standard
 * error and ends the program.
 */
#ifndef WAYLAY_VIEWERS_OPTIONS_H
#define WAYLAY_VIEWERS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct option_row {
	const char *name;     /* long name without the dashes */
	char letter;          /* 0: none */
	const char *argument; /* as --help shows it; NULL: takes none; "[=X]": may be left out */
	const char *help;
	int key;
};

/* Rows that one function takes. take: 0, or -EINVAL with what is wrong in err (without the option's
 * name). arg is NULL for a row without argument, or where it was left out, and lives as long as the program. */
struct option_group {
	const char *title; /* above the rows in --help; NULL: none */
	const struct option_row *rows;
	unsigned count;
	int (*take)(void *user, int key, const char *arg, char *err, size_t err_size);
	void *user;
	const char *elsewhere; /* --help shows this line in place of the rows; NULL: the rows */
};

#define OPTION_GROUPS_MAX 4
struct command_line {
	const char *name;     /* "waylay check" */
	const char *operands; /* after the options in the first line of --help; "" for none */
	const char *what;     /* what the command does, one paragraph */
	const char *more;     /* after the options; lines as they are; NULL: nothing */
	bool stop_at_operand; /* what follows the first operand is not ours */
	bool no_operands;
	int mistake_status; /* exit status for a mistake */
	unsigned group_count;
	struct option_group groups[OPTION_GROUPS_MAX];
};

/* Returns the index of the first operand; operands are the rest of argv. Ends the program on --help
 * (0) and on a mistake (mistake_status). */
int options_parse(const struct command_line *line, int argc, char **argv);
/* One line on standard error, then exit(mistake_status). */
void options_mistake(const struct command_line *line, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

#endif
