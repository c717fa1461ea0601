/* SPDX-License-Identifier: Apache-2.0
 *
 * Python frames of the calling thread, read from the interpreter's own structures without taking its
 * lock: a thread that is inside a call of ours cannot change its frames meanwhile.
 */
#ifndef WAYLAY_TRACER_INJECT_PYTHON_H
#define WAYLAY_TRACER_INJECT_PYTHON_H

#include "tracer/inject/pylayout.h"

/* A frame as found. Pointers are the interpreter's and valid while its thread stays where it is. */
struct wl_python_frame {
	uintptr_t code;
	int32_t offset; /* of the instruction, in bytes; negative before the first */
	int32_t first_line;
	uintptr_t name, filename, table;
	uint64_t guard; /* changes when another code object lies at the same address */
};

/* Looks for an interpreter in the process; cheap when there is none. Safe to call again. */
void wl_python_start(void);
/* The calling thread's frames, innermost first; 0 when it has none or Python is absent or unknown. */
unsigned wl_python_walk(struct wl_python_frame *frames, unsigned max);
/*
 * For a thread without Python frames: those of the one thread that waits for its kind, i.e. stands in
 * the call that runs PyTorch's backward pass. 0 if there is no such thread, or more than one. Reads a
 * thread that may run on: by copies that can fail, and twice, to see that it stood still.
 */
unsigned wl_python_awaited(struct wl_python_frame *frames, unsigned max);
/* Names and line of a frame, interned; false if they cannot be told. awaited: it came from the above. */
bool wl_python_resolve(const struct wl_python_frame *frame, bool awaited, uint32_t *file,
		       uint32_t *function, uint32_t *line);

#endif
