/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a packed recording: opened, and all files in it unpacked. The checksum of the index is put
 * right, so that what is behind it is reached. A libFuzzer target:
 *
 *     make fuzz-pack && build/release/fuzz/fuzz_pack -max_len=20000 CORPUS_DIR
 */
#include "viewers/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FOOTER 32 /* index's offset and bytes, checksum, count, magic */

/* Magic numbers, without a NUL. */
static const char begins[8] = {'W', 'A', 'Y', 'P', 'A', 'C', 'K', '1'};
static const char ends[8] = {'P', 'A', 'C', 'K', 'E', 'N', 'D', '1'};

static void put_right(uint8_t *bytes, size_t size)
{
	uint64_t index;
	uint32_t crc;

	if (size < FOOTER + 8)
		return;
	memcpy(bytes, begins, sizeof(begins));
	memcpy(bytes + size - sizeof(ends), ends, sizeof(ends));
	memcpy(&index, bytes + size - FOOTER, sizeof(index));
	index %= size - FOOTER + 1;
	memcpy(bytes + size - FOOTER, &index, sizeof(index));
	index = size - FOOTER - index;
	memcpy(bytes + size - FOOTER + 8, &index, sizeof(index));
	crc = (uint32_t)crc32_z(0, bytes + size - FOOTER - index, index);
	memcpy(bytes + size - 16, &crc, sizeof(crc));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	uint8_t *bytes = malloc(size + 1);
	struct pack *pack;
	uint64_t out;
	char err[200];

	if (fd < 0) {
		fd = memfd_create("pack", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	memcpy(bytes, data, size);
	put_right(bytes, size);
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
		abort();
	free(bytes);
	if (pack_open(path, &pack, err, sizeof(err)) != 0)
		return 0;
	for (unsigned i = 0; i < pack_count(pack) && i < 64; i++) {
		if (strchr(pack_name(pack, i), '/'))
			abort();
		(void)pack_extract(pack, i, -1, &out);
	}
	pack_close(pack);
	return 0;
}
