/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a file of budgets, and as a baseline: read, and asked what `waylay check` asks. A libFuzzer
 * target (tests/fuzz/module.mk).
 */
#include "viewers/gate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void said(int rc, const char *err)
{
	if (rc && (!*err || strchr(err, '\n')))
		abort(); /* an error without a word, or of several lines */
}

static void verdict_of(struct gate *gate)
{
	struct gate_verdict verdict;
	char words[1024];

	(void)gate_analysis(gate);
	gate_decide(gate, NULL, &verdict);
	if (verdict.status == EXIT_HOLDS)
		abort(); /* nothing was recorded */
	for (unsigned i = 0; i < gate->budget_count; i++)
		gate_budget_text(gate, NULL, NULL, &verdict, i, words, sizeof(words));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];

	if (fd < 0) {
		fd = memfd_create("gate", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	for (int as_baseline = 0; as_baseline < 2; as_baseline++) {
		struct gate *gate = calloc(1, sizeof(*gate));
		char err[2048] = "";
		int rc;

		if (!gate)
			abort();
		*(as_baseline ? &gate->baseline_path : &gate->budgets_path) = path;
		rc = gate_prepare(gate, err, sizeof(err));
		said(rc, err);
		if (!rc)
			verdict_of(gate);
		gate_done(gate);
		free(gate);
	}
	return 0;
}
