/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed packets: whole packets through zlib or zstd, wrapped in a packet.
 */
#include "exporters/perfetto/compress.h"

#include "exporters/perfetto/pb.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* The lowest levels that pay: beyond, the file shrinks little and the time doubles. */
#define DEFLATE_LEVEL 2
#define ZSTD_LEVEL    1

/* Fields of TracePacket. */
#define FIELD_DEFLATE 50u
#define FIELD_ZSTD    133u

struct compressor {
	uint32_t field;
	z_stream stream;
#ifdef HAVE_ZSTD
	ZSTD_CCtx *zstd;
#endif
	uint8_t *out;
	size_t out_bytes;
};

static int open_deflate(struct compressor *compressor, size_t batch)
{
	compressor->field = FIELD_DEFLATE;
	if (deflateInit(&compressor->stream, DEFLATE_LEVEL) != Z_OK)
		return -ENOMEM;
	compressor->out_bytes = deflateBound(&compressor->stream, batch);
	return 0;
}

static int open_zstd(struct compressor *compressor, size_t batch)
{
#ifdef HAVE_ZSTD
	compressor->field = FIELD_ZSTD;
	compressor->zstd = ZSTD_createCCtx();
	compressor->out_bytes = ZSTD_compressBound(batch);
	return compressor->zstd ? 0 : -ENOMEM;
#else
	(void)compressor;
	(void)batch;
	return -ENOTSUP;
#endif
}

struct compressor *compressor_new(enum export_compress method, size_t batch, int *error)
{
	struct compressor *compressor = calloc(1, sizeof(*compressor));

	*error = -ENOMEM;
	if (!compressor)
		return NULL;
	*error = (method == EXPORT_COMPRESS_ZSTD ? open_zstd : open_deflate)(compressor, batch);
	if (*error) {
		free(compressor);
		return NULL;
	}
	compressor->out = malloc(compressor->out_bytes);
	if (!compressor->out) {
		*error = -ENOMEM;
		compressor_free(compressor);
		return NULL;
	}
	return compressor;
}

void compressor_free(struct compressor *compressor)
{
	if (!compressor)
		return;
	if (compressor->field == FIELD_DEFLATE)
		deflateEnd(&compressor->stream);
#ifdef HAVE_ZSTD
	ZSTD_freeCCtx(compressor->zstd);
#endif
	free(compressor->out);
	free(compressor);
}

/* Bytes in out, 0 on failure. */
static size_t compress_packets(struct compressor *compressor, const uint8_t *packets, size_t bytes)
{
	z_stream *stream = &compressor->stream;

#ifdef HAVE_ZSTD
	if (compressor->field == FIELD_ZSTD) {
		size_t length =
			ZSTD_compressCCtx(compressor->zstd, compressor->out, compressor->out_bytes,
					  packets, bytes, ZSTD_LEVEL);

		return ZSTD_isError(length) ? 0 : length;
	}
#endif
	deflateReset(stream);
	stream->next_in = (Bytef *)(uintptr_t)packets;
	stream->avail_in = (uInt)bytes;
	stream->next_out = compressor->out;
	stream->avail_out = (uInt)compressor->out_bytes;
	return deflate(stream, Z_FINISH) == Z_STREAM_END ? compressor->out_bytes - stream->avail_out
							 : 0;
}

void compressor_write(struct compressor *compressor, struct output *output, const uint8_t *packets,
		      size_t bytes)
{
	uint8_t head[4 * PB_FIELD_MAX], inner[PB_FIELD_MAX];
	size_t length = compress_packets(compressor, packets, bytes);
	struct pb pb, inner_pb;

	if (!length) {
		output->error = output->error ? output->error : -EIO;
		return;
	}
	/* Key and length of the one field, then of the packet around it. */
	pb_init(&inner_pb, inner, sizeof(inner));
	pb_put_varint(&inner_pb, compressor->field << 3 | PB_WIRE_LENGTH);
	pb_put_varint(&inner_pb, length);
	pb_init(&pb, head, sizeof(head));
	pb_put_varint(&pb, 1u << 3 | PB_WIRE_LENGTH);
	pb_put_varint(&pb, pb_used(&inner_pb) + length);
	output_write(output, head, pb_used(&pb));
	output_write(output, inner, pb_used(&inner_pb));
	output_write(output, compressor->out, length);
}
