/* SPDX-License-Identifier: Apache-2.0
 *
 * Append-only protobuf writing: fields go straight into a buffer of the caller's, nothing is
 * allocated, no message exists as an object. A nested message reserves one byte for its length;
 * closing it fills the byte, or makes room for a longer length. The caller makes sure that the buffer
 * holds what it is about to write (pb_left).
 */
#ifndef WAYLAY_EXPORTERS_PB_H
#define WAYLAY_EXPORTERS_PB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pb {
	uint8_t *base, *at, *limit;
};

/* Wire types. */
#define PB_WIRE_VARINT  0u
#define PB_WIRE_FIXED64 1u
#define PB_WIRE_LENGTH  2u

/* What a field costs at most beside its payload: key and length or number. */
#define PB_FIELD_MAX 15u

static inline void pb_init(struct pb *pb, uint8_t *buffer, size_t bytes)
{
	pb->base = pb->at = buffer;
	pb->limit = buffer + bytes;
}

static inline size_t pb_used(const struct pb *pb)
{
	return (size_t)(pb->at - pb->base);
}

static inline size_t pb_left(const struct pb *pb)
{
	return (size_t)(pb->limit - pb->at);
}

static inline void pb_put_varint(struct pb *pb, uint64_t value)
{
	uint8_t *at = pb->at;

	while (value >= 0x80) {
		*at++ = (uint8_t)value | 0x80;
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	pb->at = at;
}

static inline void pb_varint(struct pb *pb, uint32_t field, uint64_t value)
{
	pb_put_varint(pb, field << 3 | PB_WIRE_VARINT);
	pb_put_varint(pb, value);
}

static inline void pb_fixed64(struct pb *pb, uint32_t field, uint64_t value)
{
	pb_put_varint(pb, field << 3 | PB_WIRE_FIXED64);
	for (int i = 0; i < 8; i++)
		pb->at[i] = (uint8_t)(value >> 8 * i);
	pb->at += 8;
}

static inline void pb_bytes(struct pb *pb, uint32_t field, const void *data, size_t bytes)
{
	pb_put_varint(pb, field << 3 | PB_WIRE_LENGTH);
	pb_put_varint(pb, bytes);
	memcpy(pb->at, data, bytes);
	pb->at += bytes;
}

/* Opens a nested message; give what it returns to pb_end, innermost first. */
static inline uint8_t *pb_begin(struct pb *pb, uint32_t field)
{
	pb_put_varint(pb, field << 3 | PB_WIRE_LENGTH);
	return pb->at++;
}

/* Moves a nested message's payload for a length of more than one byte. */
void pb_end_long(struct pb *pb, uint8_t *length, size_t bytes);

static inline void pb_end(struct pb *pb, uint8_t *length)
{
	size_t bytes = (size_t)(pb->at - length) - 1;

	if (__builtin_expect(bytes < 0x80, 1))
		*length = (uint8_t)bytes;
	else
		pb_end_long(pb, length, bytes);
}

/* Typed setters, one a field of fields.def: pb_MESSAGE_FIELD(pb, value), and for a nested message
 * pb_MESSAGE_FIELD(pb), which opens it. */
#define PB_UINT(message, field, number)                                                            \
	static inline void pb_##message##_##field(struct pb *pb, uint64_t value)                   \
	{                                                                                          \
		pb_varint(pb, number, value);                                                      \
	}
#define PB_INT(message, field, number)                                                             \
	static inline void pb_##message##_##field(struct pb *pb, int64_t value)                    \
	{                                                                                          \
		pb_varint(pb, number, (uint64_t)value);                                            \
	}
#define PB_FIXED(message, field, number)                                                           \
	static inline void pb_##message##_##field(struct pb *pb, uint64_t value)                   \
	{                                                                                          \
		pb_fixed64(pb, number, value);                                                     \
	}
#define PB_BYTES(message, field, number)                                                           \
	static inline void pb_##message##_##field(struct pb *pb, const void *data, size_t bytes)   \
	{                                                                                          \
		pb_bytes(pb, number, data, bytes);                                                 \
	}
#define PB_NESTED(message, field, number, type)                                                    \
	static inline uint8_t *pb_##message##_##field(struct pb *pb)                               \
	{                                                                                          \
		return pb_begin(pb, number);                                                       \
	}
#include "exporters/perfetto/fields.def"

#endif
