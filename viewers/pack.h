/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed recordings: all files of a run in one, compressed block by block, with an index and checksums
 * (docs/pack-format.md).
 */
#ifndef WAYLAY_VIEWERS_PACK_H
#define WAYLAY_VIEWERS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_SUFFIX ".wpack"

struct pack_counts {
	unsigned files;
	uint64_t raw_bytes, packed_bytes;
};

/* Writes the files into `to`, which must not exist. level: of zstd. 0 or -errno with one line in err. */
int pack_write(const char *to, const char *const *files, unsigned count, int level,
	       struct pack_counts *counts, char *err, size_t err_size);

struct pack;
/* 0, -EINVAL for what is no pack or has a damaged index, else -errno; err has one line. */
int pack_open(const char *path, struct pack **pack, char *err, size_t err_size);
void pack_close(struct pack *pack);
unsigned pack_count(const struct pack *pack);
const char *pack_name(const struct pack *pack, unsigned index);
/* A file's bytes into `to` (empty, at its beginning); -1: only checked. 0, -EBADMSG when a block's
 * checksum is wrong, else -errno. */
int pack_extract(const struct pack *pack, unsigned index, int to, uint64_t *bytes);

struct trace_reader;
/* model_options.open_other: the recordings in a pack. */
int pack_readers(const char *path, struct trace_reader ***readers, unsigned *count, char *err,
		 size_t err_size);

#endif
