/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a spool file: opened, and everything in it read. A libFuzzer target:
 *
 *     make fuzz-spool && build/fuzz/fuzz_spool -max_len=200000 CORPUS_DIR
 */
#include "tracer/spool/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum;

static void cursor_read(struct trace_reader *reader, int thread)
{
	struct trace_frame frames[16];
	struct trace_event event;
	int error;
	struct trace_cursor *c = reader->ops->cursor_open(reader, thread, &error);

	if (!c)
		abort();
	while (reader->ops->cursor_next(c, &event) == 1) {
		if (event.thread >= reader->thread_count || event.end_ns < event.begin_ns)
			abort();
		for (unsigned i = 0; i < event.type->arg_count; i++) {
			sum += strlen(reader->ops->string(reader, (uint32_t)event.args[i]));
			sum += reader->ops->stack(reader, (uint32_t)event.args[i], frames, 16);
		}
	}
	reader->ops->cursor_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	struct trace_reader *reader;
	struct trace_inflight in[16];
	char err[200];

	if (fd < 0) {
		fd = memfd_create("spool", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (spool_reader_open(path, &reader, err, sizeof(err)) != 0)
		return 0;
	cursor_read(reader, -1);
	if (reader->thread_count)
		cursor_read(reader, 0);
	sum += reader->ops->inflight(reader, in, 16);
	for (unsigned t = 0; t < reader->thread_count; t++)
		sum += strlen(reader->threads[t].name);
	for (unsigned i = 0; i < reader->info.attribute_count; i++)
		sum += strlen(reader->info.attributes[i][1]);
	reader->ops->close(reader);
	return 0;
}
