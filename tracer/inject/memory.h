/* SPDX-License-Identifier: Apache-2.0
 *
 * Touching memory that may not be there.
 */
#ifndef WAYLAY_TRACER_INJECT_MEMORY_H
#define WAYLAY_TRACER_INJECT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether [address, address + bytes) can be read: one system call a page, no signal, nothing changed.
 * A negative answer is sure; a positive one holds until somebody unmaps it. */
bool wl_memory_readable(const void *address, size_t bytes);

/* Copies from an address that may vanish meanwhile; false if it could not all be read, or where the
 * kernel or a container's filter does not allow such copies. */
bool wl_memory_copy(const void *address, void *to, size_t bytes);

#endif
