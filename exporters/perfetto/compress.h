/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of packets as one packet of compressed packets, by zlib or zstd.
 */
#ifndef WAYLAY_EXPORTERS_PERFETTO_COMPRESS_H
#define WAYLAY_EXPORTERS_PERFETTO_COMPRESS_H

#include "exporters/exporters.h"

struct compressor;

/* batch: the most bytes given at once. NULL without memory, or (-ENOTSUP) in a build without the method's
 * library. */
struct compressor *compressor_new(enum export_compress method, size_t batch, int *error);
void compressor_free(struct compressor *compressor);
void compressor_write(struct compressor *compressor, struct output *output, const uint8_t *packets,
		      size_t bytes);

#endif
