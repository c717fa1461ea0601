/* SPDX-License-Identifier: Apache-2.0
 *
 * dump_trace RECORDING...: what the recordings hold, as lines of JSON on the standard output, for
 * check_trace.py and check_chrome.py.
 */
#include "tests/perfetto/dump.h"

int main(int argc, char **argv)
{
	struct model_options options = {.symbols = true};
	struct model *model;
	char err[512];

	if (argc < 2) {
		fprintf(stderr, "dump_trace: give recordings or directories\n");
		return 64;
	}
	if (model_open((const char *const *)(argv + 1), (unsigned)argc - 1, &options, &model, err,
		       sizeof(err))) {
		fprintf(stderr, "dump_trace: %s\n", err);
		return 1;
	}
	int error = dump_model(model, stdout);

	model_close(model);
	return error ? 1 : 0;
}
