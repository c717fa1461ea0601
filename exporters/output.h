/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an export goes: a file that gets its name when it is complete, or the standard output.
 */
#ifndef WAYLAY_EXPORTERS_OUTPUT_H
#define WAYLAY_EXPORTERS_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

struct output {
	const char *path; /* final name, "-" standard output */
	char *temporary;  /* NULL: written in place (standard output, devices, pipes) */
	int fd;
	int error; /* first failure, -errno; later writes do nothing */
	uint64_t bytes;
};

/* 0 or -errno with one line in err. */
int output_open(struct output *output, const char *path, char *err, size_t err_size);
void output_write(struct output *output, const void *data, size_t bytes);
/* error: 0 to complete the file, or why not: then nothing is left behind. Returns error, or the first
 * failure of writing; err then has one line (unless error was given and err is filled already). */
int output_close(struct output *output, int error, char *err, size_t err_size);
/* Bytes in a finished file, 0 if it cannot be asked. */
uint64_t output_size(const char *path);

#endif
