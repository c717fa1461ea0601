/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices that overlap, spread over as few lanes as hold them without overlap.
 */
#ifndef WAYLAY_EXPORTERS_LANES_H
#define WAYLAY_EXPORTERS_LANES_H

#include <stdint.h>

struct lane {
	int64_t end_ns; /* of its last slice */
	uint32_t number;
};

struct lanes {
	struct lane *lanes; /* in order of end_ns */
	uint32_t count, capacity;
};

/* A lane for a slice, given in order of their ends: one whose last slice is over when this begins.
 * Its number, from 0 on; equal to the count so far for a new lane; -1 without memory. */
int64_t lanes_take(struct lanes *lanes, int64_t begin_ns, int64_t end_ns);
void lanes_done(struct lanes *lanes);

#endif
