/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of packets as one packet of compressed packets.
 */
#ifndef WAYLAY_EXPORTERS_PERFETTO_DEFLATE_H
#define WAYLAY_EXPORTERS_PERFETTO_DEFLATE_H

#include "exporters/output.h"

struct deflater;

/* batch: the most bytes given at once. NULL without memory (or in a build without zlib). */
struct deflater *deflater_new(size_t batch);
void deflater_free(struct deflater *deflater);
void deflater_write(struct deflater *deflater, struct output *output, const uint8_t *packets,
		    size_t bytes);

#endif
