/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the WAYLAY_* settings. Strict: a value that is not understood is an error with what would
 * be accepted, a variable that does not exist is one too, since it is mostly a misspelt one.
 */
#include "tracer/settings/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct wl_setting rows[] = {
#define WL_SETTING(field, variable, option, type, fallback, argument, help)                        \
	{variable,                                                                                 \
	 option,                                                                                   \
	 WL_SETTING_##type,                                                                        \
	 fallback,                                                                                 \
	 argument,                                                                                 \
	 help,                                                                                     \
	 offsetof(struct wl_settings, field)},
#include "tracer/settings/settings.def"
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

/* Variables that tell tests where things are; the tracer has no use for them. */
static const char *const test_variables[] = {"WAYLAY_BUILD=", "WAYLAY_SOURCE=", "WAYLAY_TEST_"};

const struct wl_setting *wl_setting_rows(unsigned *count)
{
	*count = ROW_COUNT;
	return rows;
}

const struct wl_setting *wl_setting_by_variable(const char *variable)
{
	for (unsigned i = 0; i < ROW_COUNT; i++)
		if (!strcmp(rows[i].variable, variable))
			return &rows[i];
	return NULL;
}

const char *wl_setting_flag_value(const struct wl_setting *row)
{
	return row->fallback[0] == '1' ? "0" : "1";
}

const char *wl_setting_accepts(const struct wl_setting *row)
{
	switch (row->type) {
	case WL_SETTING_BOOL:
		return "1 or 0 (on/off, yes/no, true/false)";
	case WL_SETTING_SIZE:
		return "a number of bytes of at least 1M, with K, M or G if wanted (512M, 4G)";
	case WL_SETTING_COUNT:
		return "a whole number from 1 to 128";
	case WL_SETTING_DIR:
		return "the path of a directory";
	case WL_SETTING_CLOCK:
		return "auto, tsc or monotonic";
	case WL_SETTING_STACKS:
		return "none, sync or all";
	case WL_SETTING_GPU:
		return "none or cupti";
	case WL_SETTING_KINDS:
		return "some of kernel, copy, memset, sync and graph, with commas between";
	case WL_SETTING_TIME:
		return "a whole number of ns, us, ms, s, m or h (200ms, 5s), or 0";
	case WL_SETTING_STEPS:
		return "A:B, whole numbers from 0 with A less than B (10:20), or nothing for all";
	case WL_SETTING_TRIGGER:
		return "up to 4 of 'held > TIME' and 'RANGE > TIME', with commas between, or nothing";
	case WL_SETTING_SINK:
		return "spool or lttng";
	case WL_SETTING_RELAY:
		return "HOST or HOST:PORT, a port from 1 to 65534 ([ADDRESS]:PORT for IPv6)";
	case WL_SETTING_TEXT:
		break;
	}
	return "text of at most 4000 characters";
}

static bool one_of(const char *value, const char *const *words, int *which)
{
	for (int i = 0; words[i]; i++)
		if (!strcasecmp(value, words[i])) {
			*which = i;
			return true;
		}
	return false;
}

static bool parse_bool(const char *value, bool *result)
{
	static const char *const words[] = {"0",   "1",     "off",  "on", "no",
					    "yes", "false", "true", NULL};
	int which;

	if (!one_of(value, words, &which))
		return false;
	*result = which & 1;
	return true;
}

static bool parse_number(const char *value, uint64_t *result, const char **rest)
{
	uint64_t number = 0;
	const char *c = value;

	for (; *c >= '0' && *c <= '9'; c++) {
		if (number > (UINT64_MAX - (uint64_t)(*c - '0')) / 10)
			return false;
		number = number * 10 + (uint64_t)(*c - '0');
	}
	*rest = c;
	*result = number;
	return c != value;
}

static bool parse_size(const char *value, uint64_t *result)
{
	static const char *const units[] = {"",   "K",  "M",   "G",   "T",   "KB",  "MB",
					    "GB", "TB", "KiB", "MiB", "GiB", "TiB", NULL};
	static const unsigned char shift[] = {0, 10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40};
	const char *rest;
	uint64_t number;
	int unit;

	if (!parse_number(value, &number, &rest) || !one_of(rest, units, &unit) ||
	    number > UINT64_MAX >> shift[unit])
		return false;
	*result = number << shift[unit];
	return *result >= 1u << 20 && *result <= 1ull << 44;
}

static bool parse_count(const char *value, unsigned *result)
{
	const char *rest;
	uint64_t number;

	if (!parse_number(value, &number, &rest) || *rest || number < 1 ||
	    number > WL_STACK_DEPTH_MAX)
		return false;
	*result = (unsigned)number;
	return true;
}

bool wl_time_parse(const char *value, uint64_t *ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s", "m", "h", NULL};
	static const uint64_t scale[] = {1,          1000,         1000000,
					 1000000000, 60000000000u, 3600000000000u};
	const char *rest;
	uint64_t number;
	int unit;

	if (!parse_number(value, &number, &rest))
		return false;
	if (!number && !*rest) {
		*ns = 0;
		return true;
	}
	if (!one_of(rest, units, &unit) || number > UINT64_MAX / 4 / scale[unit])
		return false;
	*ns = number * scale[unit];
	return true;
}

static bool parse_steps(const char *value, struct wl_steps *steps)
{
	const char *rest;

	if (!*value) {
		*steps = (struct wl_steps){0};
		return true;
	}
	return parse_number(value, &steps->first, &rest) && *rest == ':' &&
	       parse_number(rest + 1, &steps->end, &rest) && !*rest && steps->first < steps->end;
}

/* A list of words with commas between, as a bit each. */
static bool parse_kinds(const char *value, unsigned *result)
{
	static const char *const words[] = {"kernel", "copy", "memset", "sync", "graph", NULL};
	unsigned kinds = 0;

	for (;;) {
		size_t length = strcspn(value, ",");
		char word[16];
		int which;

		if (length >= sizeof(word))
			return false;
		memcpy(word, value, length);
		word[length] = '\0';
		if (!one_of(word, words, &which))
			return false;
		kinds |= 1u << which;
		if (!value[length])
			break;
		value += length + 1;
	}
	*result = kinds;
	return true;
}

/* One "NAME > TIME". */
static bool parse_trigger(const char *value, size_t length, struct wl_trigger *t)
{
	const char *sign = memchr(value, '>', length);
	size_t name = sign ? (size_t)(sign - value) : 0;
	char time[32];
	int used;

	while (name && value[name - 1] == ' ')
		name--;
	while (name && *value == ' ')
		value++, name--;
	if (!name || name >= sizeof(t->range))
		return false;
	sign++;
	sign += strspn(sign, " ");
	used = snprintf(time, sizeof(time), "%.*s", (int)strcspn(sign, " ,"), sign);
	if (used < 0 || (size_t)used >= sizeof(time) || !wl_time_parse(time, &t->more_than_ns))
		return false;
	sign += used;
	sign += strspn(sign, " ");
	if (*sign && *sign != ',')
		return false;
	memcpy(t->range, value, name);
	t->range[name] = '\0';
	if (strcmp(t->range, "held") == 0)
		t->range[0] = '\0';
	return true;
}

static bool parse_triggers(const char *value, struct wl_triggers *triggers)
{
	triggers->count = 0;
	while (*value) {
		size_t length = strcspn(value, ",");

		if (triggers->count == WL_TRIGGERS_MAX ||
		    !parse_trigger(value, length, &triggers->items[triggers->count++]))
			return false;
		value += length;
		if (*value == ',' && !*++value)
			return false;
	}
	return true;
}

/* The relay daemon takes data on the port after the one for control. */
bool wl_relay_parse(const char *value, int *host_length, unsigned *port)
{
	const char *colon = strrchr(value, ':'), *rest;
	uint64_t number;

	*host_length = (int)strlen(value);
	*port = WL_RELAY_PORT;
	if (colon && !strchr(colon, ']') && (value[0] == '[' || strchr(value, ':') == colon)) {
		if (!parse_number(colon + 1, &number, &rest) || *rest || number < 1 ||
		    number > 65534)
			return false;
		*port = (unsigned)number;
		*host_length = (int)(colon - value);
	}
	return *host_length > 0 && *host_length <= WL_RELAY_HOST_MAX;
}

static bool parse_relay(const char *value, const char **result)
{
	int host_length;
	unsigned port;

	*result = value;
	return !*value || wl_relay_parse(value, &host_length, &port);
}

/* Checks and stores; false if the value is not one of the type's. */
static bool store(void *where, enum wl_setting_type type, const char *value)
{
	static const char *const clocks[] = {"auto", "tsc", "monotonic", NULL};
	static const char *const stacks[] = {"none", "sync", "all", NULL};
	static const char *const gpus[] = {"none", "cupti", NULL};
	static const char *const sinks[] = {"spool", "lttng", NULL};
	int which;

	switch (type) {
	case WL_SETTING_BOOL:
		return parse_bool(value, where);
	case WL_SETTING_SIZE:
		return parse_size(value, where);
	case WL_SETTING_COUNT:
		return parse_count(value, where);
	case WL_SETTING_CLOCK:
		if (!one_of(value, clocks, &which))
			return false;
		*(const char **)where = clocks[which];
		return true;
	case WL_SETTING_STACKS:
		if (!one_of(value, stacks, &which))
			return false;
		*(enum wl_stack_mode *)where = (enum wl_stack_mode)which;
		return true;
	case WL_SETTING_TRIGGER:
		return parse_triggers(value, where);
	case WL_SETTING_SINK:
		if (!one_of(value, sinks, &which))
			return false;
		*(enum wl_sink_kind *)where = (enum wl_sink_kind)which;
		return true;
	case WL_SETTING_RELAY:
		return parse_relay(value, where);
	case WL_SETTING_TIME:
		return wl_time_parse(value, where);
	case WL_SETTING_STEPS:
		return parse_steps(value, where);
	case WL_SETTING_GPU:
		if (!one_of(value, gpus, &which))
			return false;
		*(enum wl_gpu *)where = (enum wl_gpu)which;
		return true;
	case WL_SETTING_KINDS:
		return parse_kinds(value, where);
	case WL_SETTING_DIR:
		if (!*value)
			return false;
		/* fall through */
	case WL_SETTING_TEXT:
		*(const char **)where = value;
		return strlen(value) <= 4000;
	}
	return false;
}

/* Values may hold anything: an error is one line all the same, and drives no terminal. */
static void one_line(char *err, size_t err_size)
{
	for (size_t i = 0; i < err_size && err[i]; i++)
		if ((unsigned char)err[i] < ' ' || err[i] == 0x7f)
			err[i] = '?';
}

int wl_setting_parse(struct wl_settings *settings, const struct wl_setting *row, const char *value,
		     char *err, size_t err_size)
{
	struct wl_settings scratch;

	if (store((char *)(settings ? settings : &scratch) + row->offset, row->type, value))
		return 0;
	snprintf(err, err_size, "%s=%.80s: not understood; accepted: %s", row->variable, value,
		 wl_setting_accepts(row));
	one_line(err, err_size);
	return -EINVAL;
}

void wl_settings_defaults(struct wl_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	for (unsigned i = 0; i < ROW_COUNT; i++)
		store((char *)settings + rows[i].offset, rows[i].type, rows[i].fallback);
}

/* The known variable most like the unknown one, for the message: the longest common beginning. */
static const char *nearest(const char *name, size_t length)
{
	const char *best = "WAYLAY_DIR";
	size_t best_common = 0;

	for (unsigned i = 0; i < ROW_COUNT; i++) {
		size_t common = 0;

		while (common < length && rows[i].variable[common] == name[common])
			common++;
		if (common > best_common) {
			best_common = common;
			best = rows[i].variable;
		}
	}
	return best;
}

static bool is_for_tests(const char *entry)
{
	for (unsigned i = 0; i < sizeof(test_variables) / sizeof(test_variables[0]); i++)
		if (!strncmp(entry, test_variables[i], strlen(test_variables[i])))
			return true;
	return false;
}

int wl_settings_read(struct wl_settings *settings, char *const *environment, char *err,
		     size_t err_size)
{
	wl_settings_defaults(settings);
	for (char *const *entry = environment; entry && *entry; entry++) {
		const char *name = *entry, *equals;
		const struct wl_setting *row = NULL;
		size_t length;

		if (strncmp(name, "WAYLAY", 6) != 0 || (name[6] != '_' && name[6] != '='))
			continue;
		equals = strchr(name, '=');
		if (!equals)
			continue;
		length = (size_t)(equals - name);
		for (unsigned i = 0; i < ROW_COUNT && !row; i++)
			if (strlen(rows[i].variable) == length &&
			    !strncmp(rows[i].variable, name, length))
				row = &rows[i];
		if (!row && is_for_tests(name))
			continue;
		if (!row) {
			snprintf(
				err, err_size,
				"%.*s: no such setting (nearest: %s); `waylay run --help` lists them",
				length > 60 ? 60 : (int)length, name, nearest(name, length));
			one_line(err, err_size);
			return -EINVAL;
		}
		if (wl_setting_parse(settings, row, equals + 1, err, err_size))
			return -EINVAL;
	}
	return 0;
}
