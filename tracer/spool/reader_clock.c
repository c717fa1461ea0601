/* SPDX-License-Identifier: Apache-2.0
 *
 * From the processor's counter to CLOCK_MONOTONIC: straight lines between snapshots.
 */
#include "tracer/spool/reading.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPAN_LEAST_NS 5000000 /* a shorter stretch tells the rate too roughly to go on with */

static int by_monotonic(const void *a, const void *b)
{
	const struct trace_clock *x = a, *y = b;

	return (x->monotonic_ns > y->monotonic_ns) - (x->monotonic_ns < y->monotonic_ns);
}

/* Snapshots whose clocks run on together; others are of a damaged file. */
static void contradictions_drop(struct reading *r)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->clock_count; i++) {
		const struct trace_clock *c = &r->clocks[i];

		if (kept && (c->monotonic_ns <= r->clocks[kept - 1].monotonic_ns ||
			     (c->tsc && c->tsc <= r->clocks[kept - 1].tsc)))
			continue;
		r->clocks[kept++] = *c;
	}
	r->clock_count = kept;
}

/* The slope of the newest stretch that is long enough, else of all. */
static double rate_of_rest(const struct reading *r)
{
	const struct trace_clock *last;
	uint32_t n = r->clock_count, i;

	if (n < 2)
		return 1;
	last = &r->clocks[n - 1];
	for (i = n - 1; i-- > 0;)
		if (last->monotonic_ns - r->clocks[i].monotonic_ns >= SPAN_LEAST_NS)
			break;
	if (i == UINT32_MAX)
		i = 0;
	if (last->tsc <= r->clocks[i].tsc)
		return 1;
	return (double)(last->monotonic_ns - r->clocks[i].monotonic_ns) /
	       (double)(last->tsc - r->clocks[i].tsc);
}

int reading_clocks(struct reading *r)
{
	if (!r->clock_count) {
		/* The interface promises one. */
		if (!reading_grow(&r->clocks, 0, &r->clock_room, sizeof(*r->clocks)))
			return -ENOMEM;
		memset(&r->clocks[0], 0, sizeof(r->clocks[0]));
		r->clock_count = 1;
		reading_damaged(r,
				"no clock snapshot: times are those of the process's own counter");
	}
	qsort(r->clocks, r->clock_count, sizeof(*r->clocks), by_monotonic);
	contradictions_drop(r);
	r->rates = calloc(r->clock_count + 1u, sizeof(*r->rates));
	if (!r->rates)
		return -ENOMEM;
	r->rate_outside = rate_of_rest(r);
	for (uint32_t i = 0; i < r->clock_count; i++) {
		const struct trace_clock *a = &r->clocks[i];

		r->rates[i] = r->rate_outside;
		if (i + 1 < r->clock_count && a[1].tsc > a->tsc)
			r->rates[i] = (double)(a[1].monotonic_ns - a->monotonic_ns) /
				      (double)(a[1].tsc - a->tsc);
	}
	return 0;
}

/* The last snapshot at or before the time, 0 if there is none. */
static uint32_t place_of(const struct reading *r, uint64_t tsc)
{
	uint32_t low = 0, high = r->clock_count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (r->clocks[middle].tsc && r->clocks[middle].tsc <= tsc)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Whatever a damaged file says, the result is a time that can be reckoned with. */
static int64_t bounded(double ns)
{
	const double most = 4e18;

	if (!(ns > -most))
		return -(int64_t)most;
	return ns < most ? (int64_t)ns : (int64_t)most;
}

int64_t reading_ns_far(const struct reading *r, uint16_t clock, uint64_t time, uint32_t *place)
{
	const struct trace_clock *c = &r->clocks[*place];
	int64_t delta;
	double ns;

	if (clock != SPOOL_CLOCK_TSC)
		return time < (uint64_t)4e18 ? (int64_t)time : (int64_t)4e18;
	if (time < c->tsc || (*place + 1 < r->clock_count && time >= c[1].tsc)) {
		*place = place_of(r, time);
		c = &r->clocks[*place];
	}
	delta = (int64_t)(time - c->tsc);
	ns = (double)delta * (delta < 0 ? r->rate_outside : r->rates[*place]);
	if (ns > -1e15 && ns < 1e15 && c->monotonic_ns > -(int64_t)1e18 &&
	    c->monotonic_ns < (int64_t)1e18)
		return c->monotonic_ns + (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
	return bounded((double)c->monotonic_ns + ns);
}

int64_t reading_ns(const struct reading *r, uint16_t clock, uint64_t time)
{
	uint32_t place = 0;

	return reading_ns_near(r, clock, time, &place);
}
