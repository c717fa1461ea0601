/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes, best fit: the lane that has been free for the shortest time is taken, which needs no more
 * lanes than slices overlap when they come in order of their ends.
 */
#include "exporters/exporters.h"

#include <stdlib.h>
#include <string.h>

int64_t lanes_take(struct lanes *lanes, int64_t begin_ns, int64_t end_ns)
{
	uint32_t low = 0, high = lanes->count, to;
	struct lane lane;

	while (low < high) { /* the first lane that ends after begin */
		uint32_t middle = low + (high - low) / 2;

		if (lanes->lanes[middle].end_ns <= begin_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low) {
		lane = lanes->lanes[low - 1];
		to = lanes->count - 1;
		memmove(&lanes->lanes[low - 1], &lanes->lanes[low],
			(lanes->count - low) * sizeof(lane));
	} else {
		if (lanes->count == lanes->capacity) {
			uint32_t capacity = lanes->capacity ? lanes->capacity * 2 : 8;
			struct lane *more = realloc(lanes->lanes, capacity * sizeof(*more));

			if (!more)
				return -1;
			lanes->lanes = more;
			lanes->capacity = capacity;
		}
		lane.number = lanes->count;
		to = lanes->count++;
	}
	lane.end_ns = end_ns;
	/* Ends nearly never fall, so this is the last place or close to it. */
	while (to && lanes->lanes[to - 1].end_ns > end_ns) {
		lanes->lanes[to] = lanes->lanes[to - 1];
		to--;
	}
	lanes->lanes[to] = lane;
	return lane.number;
}

void lanes_done(struct lanes *lanes)
{
	free(lanes->lanes);
	lanes->lanes = NULL;
	lanes->count = lanes->capacity = 0;
}
