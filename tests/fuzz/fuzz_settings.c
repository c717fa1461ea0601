/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as settings: as an environment of lines, and as the value of each setting there is. A libFuzzer
 * target (tests/fuzz/module.mk).
 */
#include "tracer/settings/settings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 64

static void judge(int rc, const char *err)
{
	if (rc && (!*err || strchr(err, '\n')))
		abort(); /* an error without a word, or of several lines */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *lines[LINES_MAX + 1], err[512] = "";
	struct wl_settings settings;
	unsigned rows, count = 0;
	const struct wl_setting *row = wl_setting_rows(&rows);
	uint64_t ns;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	for (unsigned i = 0; i < rows; i++) {
		wl_settings_defaults(&settings);
		judge(wl_setting_parse(&settings, &row[i], text, err, sizeof(err)), err);
		judge(wl_setting_parse(NULL, &row[i], text, err, sizeof(err)), err);
	}
	(void)wl_time_parse(text, &ns);
	for (char *line = text, *rest = NULL; count < LINES_MAX; line = NULL) {
		line = strtok_r(line, "\n", &rest);
		if (!line)
			break;
		lines[count++] = line;
	}
	lines[count] = NULL;
	judge(wl_settings_read(&settings, lines, err, sizeof(err)), err);
	free(text);
	return 0;
}
