/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing JSON text.
 */
#include "exporters/json.h"

#include "exporters/model/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BUFFER_BYTES (1u << 18)
#define TEXT_MAX     4096u
#define ROOM_BYTES   (8 * TEXT_MAX) /* the most that one call writes */
#define GZIP_LEVEL   3

static const char hex_digits[] = "0123456789abcdef";

struct json_gzip {
	z_stream stream;
	uint8_t out[1 << 16];
};

int json_open(struct json *json, const char *path, bool gzip, const struct export_options *options,
	      char *err, size_t err_size)
{
	int error;

	memset(json, 0, sizeof(*json));
	json->buffer = malloc(BUFFER_BYTES);
	json->gzip = gzip ? calloc(1, sizeof(*json->gzip)) : NULL;
	error = json->buffer && (json->gzip || !gzip) ? 0 : -ENOMEM;
	/* 15 bits of window, plus 16: a gzip header. */
	if (!error && gzip &&
	    deflateInit2(&json->gzip->stream, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(json->gzip);
		json->gzip = NULL;
		error = -ENOMEM;
	}
	if (error)
		snprintf(err, err_size, "writing %s: %s", path, strerror(-error));
	else
		error = output_open(&json->output, path, options, err, err_size);
	if (error) {
		if (json->gzip)
			deflateEnd(&json->gzip->stream);
		free(json->gzip);
		free(json->buffer);
	}
	return error;
}

static void deflate_out(struct json *json, const char *data, size_t bytes, int flush)
{
	z_stream *stream = &json->gzip->stream;
	int status;

	stream->next_in = (Bytef *)(uintptr_t)data;
	stream->avail_in = (uInt)bytes;
	do {
		stream->next_out = json->gzip->out;
		stream->avail_out = sizeof(json->gzip->out);
		status = deflate(stream, flush);
		if (status == Z_STREAM_ERROR) {
			json->output.error = json->output.error ? json->output.error : -EIO;
			return;
		}
		output_write(&json->output, json->gzip->out,
			     sizeof(json->gzip->out) - stream->avail_out);
	} while (stream->avail_out == 0 || (flush == Z_FINISH && status != Z_STREAM_END));
}

int json_memory_open(struct json *json)
{
	memset(json, 0, sizeof(*json));
	json->memory = true;
	json->buffer = malloc(BUFFER_BYTES);
	return json->buffer ? 0 : -ENOMEM;
}

const char *json_memory_text(struct json *json)
{
	json->buffer[json->used] = 0;
	json->used = 0;
	return json->buffer;
}

void json_memory_close(struct json *json)
{
	free(json->buffer);
	json->buffer = NULL;
}

static void flush(struct json *json)
{
	if (json->memory)
		/* Nothing: what comes last is overwritten. */;
	else if (json->gzip)
		deflate_out(json, json->buffer, json->used, Z_NO_FLUSH);
	else
		output_write(&json->output, json->buffer, json->used);
	json->used = 0;
}

int json_finish(struct json *json)
{
	if (!json->finished) {
		json->finished = true;
		flush(json);
		if (json->gzip)
			deflate_out(json, NULL, 0, Z_FINISH);
	}
	return json->output.error;
}

int json_close(struct json *json, int error, char *err, size_t err_size)
{
	if (!error)
		json_finish(json);
	if (json->gzip)
		deflateEnd(&json->gzip->stream);
	free(json->gzip);
	free(json->buffer);
	return output_close(&json->output, error, err, err_size);
}

static char *room(struct json *json)
{
	if (json->used + ROOM_BYTES > BUFFER_BYTES) {
		flush(json);
		if (json->memory)
			json->used = BUFFER_BYTES - ROOM_BYTES;
	}
	return json->buffer + json->used;
}

void json_raw(struct json *json, const char *text)
{
	size_t length = strlen(text);

	memcpy(room(json), text, length);
	json->used += length;
}

void json_put(struct json *json, const char *bytes, size_t length)
{
	while (length) {
		size_t part = length < ROOM_BYTES ? length : ROOM_BYTES;

		memcpy(room(json), bytes, part);
		json->used += part;
		bytes += part;
		length -= part;
	}
}

void json_text(struct json *json, const char *text)
{
	char clean[TEXT_MAX], *to = room(json), *start = to;
	size_t length = text_clean(clean, sizeof(clean), text, strlen(text));

	*to++ = '"';
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)clean[i];

		if (byte == '"' || byte == '\\') {
			*to++ = '\\';
			*to++ = (char)byte;
		} else if (byte < 0x20) {
			*to++ = '\\';
			*to++ = 'u';
			*to++ = '0';
			*to++ = '0';
			*to++ = hex_digits[byte >> 4];
			*to++ = hex_digits[byte & 15];
		} else {
			*to++ = (char)byte;
		}
	}
	*to++ = '"';
	json->used += (size_t)(to - start);
}

/* Decimal digits into a buffer that ends at `end`; their begin. */
static char *digits(char *end, uint64_t value)
{
	do {
		*--end = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return end;
}

static void put(struct json *json, const char *begin, const char *end)
{
	memcpy(room(json), begin, (size_t)(end - begin));
	json->used += (size_t)(end - begin);
}

void json_uint(struct json *json, uint64_t value)
{
	char buf[24], *end = buf + sizeof(buf);

	put(json, digits(end, value), end);
}

void json_int(struct json *json, int64_t value)
{
	char buf[24], *end = buf + sizeof(buf);
	char *begin = digits(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);

	if (value < 0)
		*--begin = '-';
	put(json, begin, end);
}

void json_hex(struct json *json, uint64_t value)
{
	char buf[24], *end = buf + sizeof(buf), *begin = end;

	*--begin = '"';
	do {
		*--begin = hex_digits[value & 15];
		value >>= 4;
	} while (value);
	*--begin = 'x';
	*--begin = '0';
	*--begin = '"';
	put(json, begin, end);
}

void json_safe_uint(struct json *json, uint64_t value)
{
	if (value <= 1ull << 53) {
		json_uint(json, value);
		return;
	}
	json_raw(json, "\"");
	json_uint(json, value);
	json_raw(json, "\"");
}

void json_double(struct json *json, double value)
{
	char buf[48];

	/* Not a number and infinity are no JSON. */
	snprintf(buf, sizeof(buf), isfinite(value) ? "%.17g" : "\"%g\"", value);
	json_raw(json, buf);
}

void json_decimal(struct json *json, int64_t value, unsigned digit_count)
{
	char buf[40], *end = buf + sizeof(buf), *begin = end;
	uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	for (; digit_count > 3; digit_count--) {
		if (begin != end || size % 10)
			*--begin = (char)('0' + size % 10);
		size /= 10;
	}
	if (begin != end || size % 1000) {
		for (unsigned i = 0; i < 3; i++, size /= 10)
			*--begin = (char)('0' + size % 10);
		*--begin = '.';
	} else {
		size /= 1000;
	}
	begin = digits(begin, size);
	if (value < 0)
		*--begin = '-';
	put(json, begin, end);
}

void json_us(struct json *json, int64_t ns)
{
	json_decimal(json, ns, 3);
}
