/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a recording, through everything that `waylay report` does with it: names of ranges, threads,
 * stacks and calls end up in the text, which must not drive a terminal, and in JSON. A libFuzzer target
 * (tests/fuzz/module.mk).
 */
#include "tracer/spool/spool.h"
#include "viewers/viewers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void text_judge(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' && text[i] != '\n')
			abort(); /* drives a terminal */
}

static void report(struct model *model)
{
	struct analysis *analysis;
	char *text = NULL, err[1024];
	size_t length = 0;
	FILE *out;

	if (analysis_run(model, NULL, &analysis, err, sizeof(err)) != 0)
		return;
	for (int json = 0; json < 2; json++) {
		out = open_memstream(&text, &length);
		if (!out)
			abort();
		if (json && report_json(out, model, analysis) != 0)
			abort();
		if (!json)
			report_text(out, model, analysis);
		(void)fclose(out);
		text_judge(text, length);
		free(text);
	}
	analysis_free(analysis);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	struct trace_reader *reader;
	struct model *model;
	char err[1024];

	if (fd < 0) {
		fd = memfd_create("report", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (spool_reader_open(path, &reader, err, sizeof(err)) != 0)
		return 0;
	if (model_from_readers(&reader, 1, NULL, &model, err, sizeof(err)) != 0)
		return 0;
	report(model);
	model_close(model);
	return 0;
}
