/* SPDX-License-Identifier: Apache-2.0
 *
 * Where CPython keeps what a walk over its frames needs: by version for 3.9 to 3.12, as the
 * interpreter itself says from 3.13 on.
 */
#ifndef WAYLAY_TRACER_INJECT_PYLAYOUT_H
#define WAYLAY_TRACER_INJECT_PYLAYOUT_H

#include "tracer/inject/pylines.h"

#include <stdbool.h>

/* Offsets in bytes. -1 where a version has no such member. */
struct wl_pylayout {
	unsigned version; /* 0x0309 ... */
	enum wl_pylines_format lines;
	bool frame_objects;   /* 3.9, 3.10: frames are Python objects */
	bool instr_is_index;  /* frame_instr is a number: of instructions (3.10) or bytes (3.9) */
	bool stepped_pointer; /* 3.11, 3.12: frame_instr may lie before the first instruction */
	short thread_next;    /* in the thread state: the next one of the interpreter */
	short thread_frame;   /* in the thread state: the innermost frame, or ... */
	short thread_cframe;  /* ... what points to it, */
	short cframe_frame;   /* there */
	short frame_previous, frame_code, frame_instr, frame_owner, frame_tlbc;
	short code_first_line, code_filename, code_name, code_table, code_start, code_tlbc;
	short object_type;
	short bytes_size, bytes_data;
	short text_length, text_state, text_ascii, text_compact;
};

/* Frames whose owner is this or more stand for C code and have no code object. */
#define WL_PYFRAME_OWNER_C 3

/* The layout of that version (0x03xxyyzz as in PY_VERSION_HEX), NULL if unknown. runtime: address of
 * _PyRuntime, used from 3.13 on. why gets words when NULL is returned. */
const struct wl_pylayout *wl_pylayout_find(unsigned version_hex, const void *runtime,
					   const char **why);

#endif
