/* SPDX-License-Identifier: Apache-2.0
 *
 * From a place in Python byte code to a line, by the tables that code objects carry.
 */
#ifndef WAYLAY_TRACER_INJECT_PYLINES_H
#define WAYLAY_TRACER_INJECT_PYLINES_H

#include <stddef.h>
#include <stdint.h>

enum wl_pylines_format {
	WL_PYLINES_LNOTAB,   /* up to 3.9: byte and line increments */
	WL_PYLINES_RANGES,   /* 3.10: ranges of byte code, some without a line */
	WL_PYLINES_LOCATION, /* 3.11 and newer: variable-length entries with columns */
};

/* The line of the instruction at that byte offset (negative: before the first one); 0 if it has none.
 * Reads nothing outside table[0 .. size). */
int wl_pylines_find(enum wl_pylines_format format, const uint8_t *table, size_t size,
		    int first_line, int byte_offset);

#endif
