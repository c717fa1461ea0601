/* SPDX-License-Identifier: Apache-2.0
 *
 * From records in order of their end to slices that nest: begin, end, instant, in an order that puts
 * parents around their children also where times are equal.
 */
#ifndef WAYLAY_EXPORTERS_NEST_H
#define WAYLAY_EXPORTERS_NEST_H

#include "tracer/events/reader.h"

#define NEST_DEPTH_MAX                                                                             \
	500 /* slices open at once on a track; deeper ones are left out and counted */

struct nest_item {
	struct trace_event event;              /* times on the model's clock */
	uint64_t ordinal;                      /* the caller's */
	const struct trace_inflight *inflight; /* of a call that had not returned, else NULL */
	/* Order of what begins and ends at one nanosecond, for formats that have no other order: of two
	 * such moments of a thread the later one has the greater step. Of a range: its piece's. The end
	 * of a call is known as it begins. What has no length ends a step after its begin. */
	int begin_step, end_step;
	/* nest.c's own: */
	bool hidden;
	uint64_t head, next;
};

enum nest_end {
	NEST_CONTINUED = 1 << 0, /* this was not its first piece */
	NEST_OPEN = 1 << 1,      /* the range was never closed */
};

struct nest_ops {
	/* A slice begins at event.begin_ns, or (continued) goes on at ts after an interruption. */
	void (*begin)(void *user, const struct nest_item *item, int64_t ts, bool continued);
	/* The innermost slice ends. piece_begin: its begin, or of its last piece; flags: enum nest_end. */
	void (*end)(void *user, const struct nest_item *item, int64_t ts, int64_t piece_begin,
		    unsigned flags);
	void (*instant)(void *user, const struct nest_item *item);
};

struct nest_counts {
	uint64_t slices, instants;
	uint64_t split; /* further pieces of ranges that began or ended inside a call, or in another
			      order than they began */
	uint64_t too_deep; /* slices left out */
	uint64_t orphans;  /* range ends without a begin */
	uint64_t adjusted; /* records whose times contradicted their order */
};

struct nest;

/* One thread's. window: how many records are looked back at: calls that hold more records than that
 * are placed right unless their begin equals that of the first call inside. A power of two. */
struct nest *nest_new(const struct nest_ops *ops, void *user, unsigned window);
/* event: times on the model's clock, ends never falling. */
void nest_feed(struct nest *nest, const struct trace_event *event, uint64_t ordinal,
	       const struct trace_inflight *inflight);
/* Tells what is left; ranges still open end at end_ns (or at the last record). Afterwards ready for
 * another thread. */
void nest_finish(struct nest *nest, int64_t end_ns);
const struct nest_counts *nest_counts(const struct nest *nest);
void nest_free(struct nest *nest);

#endif
