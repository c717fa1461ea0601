/* SPDX-License-Identifier: Apache-2.0
 *
 * Return addresses of the calling thread by the objects' own call frame information, with what was
 * learnt about each address kept: a known stack costs a few nanoseconds a frame, where the unwinder of
 * libgcc reads the same tables anew each time.
 */
#ifndef WAYLAY_TRACER_INJECT_UNWIND_H
#define WAYLAY_TRACER_INJECT_UNWIND_H

#include <stdbool.h>

/* Where a return address's frame keeps things, or that this cannot be said in our terms. */
enum wl_unwind_end {
	WL_UNWIND_DONE,    /* the stack ended, or max was reached */
	WL_UNWIND_UNKNOWN, /* a frame is described in a way that only a full unwinder follows */
};

/*
 * Fills addresses with the return addresses of the frames above this call, innermost first, and count
 * with how many. Takes no lock, allocates nothing, and reads no memory that it has not found readable.
 * Needs wl_place_lock_free().
 */
enum wl_unwind_end wl_unwind(void **addresses, unsigned max, unsigned *count);

/* Forgets what was learnt: an object was unloaded and another one lies where it was. */
void wl_unwind_forget(void);

#endif
