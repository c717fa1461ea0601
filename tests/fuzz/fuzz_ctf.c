/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a stream of CTF beside good metadata: all of it read. The first byte chooses how events are
 * laid out; magic and sizes of the first packet are put right. A libFuzzer target:
 *
 *     make fuzz-ctf && build/release/fuzz/fuzz_ctf -max_len=4000 CORPUS_DIR
 */
#include "tests/unit/ctf_write.h"
#include "tracer/lttng/ctf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER 84

static char dirs[4][64];

static void dirs_make(void)
{
	for (unsigned i = 0; i < 4; i++) {
		const struct ctf_write how = {
			.plain = true, .large = i & 1, .context = i & 2, .streams = 0};

		snprintf(dirs[i], sizeof(dirs[i]), "/dev/shm/waylay-fuzz-%d-%u", (int)getpid(), i);
		if (mkdir(dirs[i], 0700) != 0)
			abort();
		(void)ctf_write(dirs[i], &how);
	}
}

static void stream_put(const char *dir, const uint8_t *data, size_t size)
{
	char path[100];
	uint32_t magic = 0xc1fc1fc1;
	uint64_t bits = size * 8;
	int fd;

	snprintf(path, sizeof(path), "%s/waylay_0", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (size >= HEADER && (pwrite(fd, &magic, 4, 0) != 4 || pwrite(fd, &bits, 8, 48) != 8 ||
			       pwrite(fd, &bits, 8, 56) != 8))
		abort();
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_reader **readers = NULL;
	struct trace_event event;
	const char *dir;
	unsigned count;
	uint64_t events;
	char err[300];
	int error;

	if (!*dirs[0])
		dirs_make();
	if (!size)
		return 0;
	dir = dirs[data[0] % 4];
	stream_put(dir, data + 1, size - 1);
	if (ctf_open(dir, wl_event_type, &readers, &count, false, &events, err, sizeof(err)) != 0)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		struct trace_cursor *c = readers[i]->ops->cursor_open(readers[i], -1, &error);

		while (c && readers[i]->ops->cursor_next(c, &event) == 1)
			if (event.thread >= readers[i]->thread_count)
				abort();
		if (c)
			readers[i]->ops->cursor_close(c);
		readers[i]->ops->close(readers[i]);
	}
	free((void *)readers);
	return 0;
}
