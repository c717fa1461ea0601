/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the process: versions, command line, settings, the rank that its launcher gave it.
 * Read once, when a recording begins.
 */
#include "tracer/inject/attributes.h"
#include "tracer/inject/inject.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- command line ----------------------------------------------------------------------------- */

static size_t file_read(const char *path, char *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;

	if (fd < 0)
		return 0;
	while (length < size) {
		ssize_t got = read(fd, to + length, size - length);

		if (got <= 0)
			break;
		length += (size_t)got;
	}
	close(fd);
	return length;
}

static bool plain(const char *word)
{
	static const char *const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "0123456789_-+=:,./@%^";

	return *word && !word[strspn(word, harmless)];
}

/* One argument as a shell would take it; returns the bytes written, 0 if there is no room. */
static size_t quote(char *to, size_t size, const char *word)
{
	size_t used = 0;

	if (plain(word)) {
		used = strlen(word);
		if (used >= size)
			return 0;
		memcpy(to, word, used + 1);
		return used;
	}
	if (size < 4)
		return 0;
	to[used++] = '\'';
	for (; *word; word++) {
		if (used + 6 > size)
			return 0;
		if (*word == '\'') {
			for (const char *c = "'\\''"; *c; c++)
				to[used++] = *c;
		} else {
			to[used++] = *word;
		}
	}
	to[used++] = '\'';
	return used;
}

static void command_attribute(void)
{
	static char raw[8192], text[16384];
	size_t length = file_read("/proc/self/cmdline", raw, sizeof(raw) - 1), used = 0;

	raw[length] = '\0';
	for (const char *word = raw; word < raw + length; word += strlen(word) + 1) {
		size_t room = sizeof(text) - used - 5, wrote;

		if (used)
			text[used++] = ' ';
		wrote = quote(text + used, room, word);
		if (!wrote || length == sizeof(raw) - 1) {
			if (wrote)
				used += wrote;
			if (!wrote || word + strlen(word) + 1 >= raw + length) {
				memcpy(text + used, " ...", 4);
				used += 4;
				break;
			}
			continue;
		}
		used += wrote;
	}
	text[used] = '\0';
	spool_attribute("command", text);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void settings_attributes(void)
{
	static const char *const stacks[] = {"none", "sync", "all"};
	char text[64];

	spool_attribute("setting.stack", stacks[wl_settings.stacks]);
	snprintf(text, sizeof(text), "%u", wl_settings.stack_depth);
	spool_attribute("setting.stack-depth", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)wl_settings.max_bytes);
	spool_attribute("setting.max-bytes", text);
	spool_attribute("setting.clock", wl_settings.clock);
	spool_attribute("setting.flight-recorder", wl_settings.flight_recorder ? "1" : "0");
	spool_attribute("setting.cuda", wl_settings.cuda ? "1" : "0");
	spool_attribute("setting.ofi", wl_settings.ofi ? "1" : "0");
	spool_attribute("setting.ofi-layers", wl_settings.ofi_layers ? "1" : "0");
	spool_attribute("setting.nvtx", wl_settings.nvtx ? "1" : "0");
}

static void python_attribute(void)
{
	/* A static text that needs no interpreter lock. */
	const char *(*version)(void) =
		(const char *(*)(void))wl_symbol_find(NULL, "Py_GetVersion", NULL);
	char text[64];

	if (!version)
		return;
	snprintf(text, sizeof(text), "%s", version());
	text[strcspn(text, " ")] = '\0';
	spool_attribute("python", text);
}

void wl_attributes_write(const char *why)
{
	const char *launcher = wl_ranks_launcher();
	char exe[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	spool_attribute("waylay", WAYLAY_VERSION);
	spool_attribute("began-with", why);
	spool_attribute("glibc", gnu_get_libc_version());
	command_attribute();
	if (length > 0) {
		exe[length] = '\0';
		spool_attribute("exe", exe);
	}
	if (launcher)
		spool_attribute("launcher", launcher);
	python_attribute();
	settings_attributes();
}
