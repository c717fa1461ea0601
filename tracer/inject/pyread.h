/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the interpreter's memory, between python.c and pyawait.c.
 */
#ifndef WAYLAY_TRACER_INJECT_PYREAD_H
#define WAYLAY_TRACER_INJECT_PYREAD_H

#include "tracer/inject/memory.h"
#include "tracer/inject/python.h"

#include <string.h>

/* The interpreter in this process; valid once wl_python_ready(). */
struct wl_python {
	const struct wl_pylayout *layout;
	void *(*this_thread)(void);
	uintptr_t code_type, text_type, bytes_type;
};
extern struct wl_python wl_python;
bool wl_python_ready(void);

enum reach_how {
	REACH_PLAIN,   /* what hangs off the calling thread's frames stays there */
	REACH_CHECKED, /* the same, while it is not yet sure that the layout is right */
	REACH_COPIED,  /* of a thread that runs on: may vanish at any moment */
};

/* One walk's way to memory: an address that cannot be read is found out, not followed. */
struct reach {
	const struct wl_pylayout *layout;
	enum reach_how how;
	bool failed;
};

static inline bool get_bytes(struct reach *r, uintptr_t address, void *to, size_t bytes)
{
	if (__builtin_expect(r->how != REACH_PLAIN, 0)) {
		if (r->how == REACH_COPIED) {
			if (wl_memory_copy((void *)address, to, bytes))
				return true;
			r->failed = true;
			return false;
		}
		if (!wl_memory_readable((void *)address, bytes)) {
			r->failed = true;
			return false;
		}
	}
	memcpy(to, (const void *)address, bytes);
	return true;
}

static inline uintptr_t get_pointer(struct reach *r, uintptr_t base, short offset)
{
	uintptr_t value = 0;

	return get_bytes(r, base + (uintptr_t)(intptr_t)offset, &value, sizeof(value)) ? value : 0;
}

static inline int32_t get_int(struct reach *r, uintptr_t base, short offset)
{
	int32_t value = 0;

	return get_bytes(r, base + (uintptr_t)(intptr_t)offset, &value, sizeof(value)) ? value : 0;
}

static inline bool is_a(struct reach *r, uintptr_t object, uintptr_t type)
{
	return object && get_pointer(r, object, r->layout->object_type) == type;
}

/* The innermost frame of a thread state; 0 if it has none. */
uintptr_t wl_python_innermost(struct reach *r, uintptr_t thread);
/* Frames from there outwards; 0 with r->failed set if something was not as it should be. */
unsigned wl_python_frames(struct reach *r, uintptr_t frame, struct wl_python_frame *frames,
			  unsigned max);

#endif
