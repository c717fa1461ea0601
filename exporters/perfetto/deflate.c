/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed packets: zlib over whole packets, wrapped in a packet.
 */
#include "exporters/perfetto/deflate.h"

#include "exporters/perfetto/pb.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define LEVEL 2

struct deflater {
	z_stream stream;
	uint8_t *out;
	size_t out_bytes;
};

struct deflater *deflater_new(size_t batch)
{
	struct deflater *deflater = calloc(1, sizeof(*deflater));

	if (!deflater)
		return NULL;
	if (deflateInit(&deflater->stream, LEVEL) != Z_OK) {
		free(deflater);
		return NULL;
	}
	deflater->out_bytes = deflateBound(&deflater->stream, batch);
	deflater->out = malloc(deflater->out_bytes);
	if (!deflater->out) {
		deflater_free(deflater);
		return NULL;
	}
	return deflater;
}

void deflater_free(struct deflater *deflater)
{
	if (!deflater)
		return;
	deflateEnd(&deflater->stream);
	free(deflater->out);
	free(deflater);
}

void deflater_write(struct deflater *deflater, struct output *output, const uint8_t *packets,
		    size_t bytes)
{
	z_stream *stream = &deflater->stream;
	uint8_t head[4 * PB_FIELD_MAX], inner[PB_FIELD_MAX];
	struct pb pb, inner_pb;
	size_t length;

	deflateReset(stream);
	stream->next_in = (Bytef *)(uintptr_t)packets;
	stream->avail_in = (uInt)bytes;
	stream->next_out = deflater->out;
	stream->avail_out = (uInt)deflater->out_bytes;
	if (deflate(stream, Z_FINISH) != Z_STREAM_END) {
		output->error = output->error ? output->error : -EIO;
		return;
	}
	length = deflater->out_bytes - stream->avail_out;
	/* Key and length of the one field, then of the packet around it. */
	pb_init(&inner_pb, inner, sizeof(inner));
	pb_put_varint(&inner_pb, 50u << 3 | PB_WIRE_LENGTH);
	pb_put_varint(&inner_pb, length);
	pb_init(&pb, head, sizeof(head));
	pb_put_varint(&pb, 1u << 3 | PB_WIRE_LENGTH);
	pb_put_varint(&pb, pb_used(&inner_pb) + length);
	output_write(output, head, pb_used(&pb));
	output_write(output, inner, pb_used(&inner_pb));
	output_write(output, deflater->out, length);
}
