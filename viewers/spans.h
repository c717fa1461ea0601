/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of memory that do not overlap, each with what filled it last.
 */
#ifndef WAYLAY_VIEWERS_SPANS_H
#define WAYLAY_VIEWERS_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As many are kept; the older half of more is forgotten. */
#define SPANS_MAX 4096u

struct span {
	uint64_t first, end; /* [first, end) */
	uint64_t serial;     /* of what filled it: later is higher; set by spans_fill() */
	uint32_t user;       /* the caller's */
	bool flag;           /* the caller's */
};

struct spans {
	struct span *items; /* by address */
	size_t count, room;
	uint64_t serial;
	/* Told of every part that is displaced by something newer or forgotten; NULL: nobody. */
	void (*gone)(void *user, const struct span *part);
	void *user;
};

/* What was filled there before is displaced. False when memory is short. */
bool spans_fill(struct spans *spans, uint64_t first, uint64_t end, uint32_t user, bool flag);
/* Takes out what lies there. False when memory is short. */
bool spans_take(struct spans *spans, uint64_t first, uint64_t end);
/* The first one that reaches into [first, end), or the next after `after`; NULL none. */
struct span *spans_find(struct spans *spans, uint64_t first, uint64_t end,
			const struct span *after);
/* How much of it lies in [first, end). */
uint64_t span_overlap(const struct span *span, uint64_t first, uint64_t end);
/* Forgets everything, telling of it. */
void spans_clear(struct spans *spans);
void spans_done(struct spans *spans);

#endif
