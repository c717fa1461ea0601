/* SPDX-License-Identifier: Apache-2.0
 *
 * The two passes that every exporter makes over a process: thread by thread as nested slices, and
 * merged for what no single thread shows.
 */
#ifndef WAYLAY_EXPORTERS_WALK_H
#define WAYLAY_EXPORTERS_WALK_H

#include "exporters/exporters.h"
#include "exporters/model/nest.h"
#include "exporters/model/select.h"

/* After so many records it is worth asking whether to stop. */
#define WALK_CHECK_EVERY 16384

struct walk_ops {
	/* Before a thread's first slice. */
	void (*thread)(void *user, unsigned thread);
	struct nest_ops nest;
	/* A run of polls: no call, but a stretch of time that calls and ranges may cross. */
	void (*run)(void *user, const struct trace_event *event);
	/* Now and then; done: 0 .. 1000 of this process. Non-zero ends the walk with that error. */
	int (*check)(void *user, unsigned done);
};

/* All threads of a process. Items carry the thread's running number of posts, of completions and
 * of device calls as ordinal. selection: what of it is told (NULL all), which counts.slices and counts.instants tell.
 * *merged: whether walk_merged would find anything but push / pop ranges. counts are added to. 0 or
 * -errno. */
int walk_threads(struct model *model, unsigned process, struct selection *selection,
		 const struct walk_ops *ops, void *user, struct nest_counts *counts, bool *merged);

/* One merged pass through a matcher. stop: asked after each record, non-zero ends it. counts are
 * added to. */
int walk_merged(struct model *model, unsigned process, const struct model_match_ops *ops,
		void *user, int (*stop)(void *user), struct model_match_counts *counts);

void walk_add_match_counts(struct model_match_counts *to, const struct model_match_counts *from);

/* A size for a counter: a damaged one must not overflow the sum of all that can be open. */
#define COUNTED_MAX (1ull << 46)
static inline int64_t counted_bytes(uint64_t bytes)
{
	return (int64_t)(bytes < COUNTED_MAX ? bytes : COUNTED_MAX);
}

/* Whether an item is a synchronization. cls_index: of its type's `cls` argument, -1 none. */
bool item_waits(const struct nest_item *item, int cls_index);

#endif
