/* SPDX-License-Identifier: Apache-2.0
 *
 * The three kinds of line tables of CPython 3.9 to 3.14.
 */
#include "tracer/inject/pylines.h"

static int signed_byte(uint8_t byte)
{
	return byte < 128 ? byte : byte - 256;
}

static int lnotab_find(const uint8_t *table, size_t size, int line, int offset)
{
	int address = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		address += table[i];
		if (address > offset)
			break;
		line += signed_byte(table[i + 1]);
	}
	return line;
}

static int ranges_find(const uint8_t *table, size_t size, int line, int offset)
{
	int end = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int delta = signed_byte(table[i + 1]);

		end += table[i];
		if (delta != -128)
			line += delta;
		if (offset < end)
			return delta == -128 ? 0 : line;
	}
	return 0;
}

/* Six bits a byte, the lowest first; bit 6 says that more follow. */
static unsigned varint_read(const uint8_t *table, size_t size, size_t *at)
{
	unsigned value = 0, shift = 0;

	while (*at < size) {
		uint8_t byte = table[(*at)++];

		if (shift < 32)
			value |= (unsigned)(byte & 63) << shift;
		shift += 6;
		if (!(byte & 64))
			break;
	}
	return value;
}

static int location_find(const uint8_t *table, size_t size, int line, int offset)
{
	enum { NO_COLUMN = 13, LONG = 14, NO_LOCATION = 15 };
	int end = 0;
	size_t at = 0;

	while (at < size) {
		uint8_t first = table[at++];
		int code = (first >> 3) & 15;

		if (code == NO_COLUMN || code == LONG) {
			unsigned coded = varint_read(table, size, &at);

			line += coded & 1 ? -(int)(coded >> 1) : (int)(coded >> 1);
		} else if (code >= 10 && code <= 12) {
			line += code - 10;
		}
		end += 2 * ((first & 7) + 1);
		if (offset < end)
			return code == NO_LOCATION ? 0 : line;
		while (at < size && !(table[at] & 128)) /* what is left of this entry: columns */
			at++;
	}
	return 0;
}

int wl_pylines_find(enum wl_pylines_format format, const uint8_t *table, size_t size,
		    int first_line, int byte_offset)
{
	if (byte_offset < 0)
		return first_line;
	switch (format) {
	case WL_PYLINES_LNOTAB:
		return lnotab_find(table, size, first_line, byte_offset);
	case WL_PYLINES_RANGES:
		return ranges_find(table, size, first_line, byte_offset);
	case WL_PYLINES_LOCATION:
		return location_find(table, size, first_line, byte_offset);
	}
	return 0;
}
