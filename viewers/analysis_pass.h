/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the records, and what it keeps.
 */
#ifndef WAYLAY_VIEWERS_ANALYSIS_PASS_H
#define WAYLAY_VIEWERS_ANALYSIS_PASS_H

#include "viewers/analysis_internal.h"

/* The steps that were found in launches. */
#define FOUND_STEPS "(step)"

/* Where an event type of this build keeps what the pass looks at; -1 where it has none. */
struct event_args {
	int stack, rule, bytes, stream, api, cls;
};

/* A copy that waited, until the thread gives the device more work: an explicit wait on its stream
 * from the same place is the same synchronization. */
struct last_copy {
	bool armed;
	uint64_t stream;
	uint32_t stack;
	struct site_way *way;
};

struct pass {
	struct analysis *analysis;
	struct model *model;
	unsigned process;
	struct event_args args[WL_EV_MAX];
	struct site_table *sites, *registration_sites;
	struct range_table *ranges;
	struct reuse *reuse;
	struct transfer_table *transfers;
	struct detour_table *detours;
	struct gpu_table *gpus;
	struct last_copy *last; /* one a thread */
	/* The second pass: only ranges count; analysis is one that nobody reads. */
	bool again;
	/* Where steps begin, by process; NULL: they have names, or are being looked for. */
	const struct period *periods;
	size_t step; /* the next of them */
	/* Where to put what repeats in each process's launches; NULL in the second pass. */
	struct period *found;
	bool period_settled; /* of the process being read; its launches until then: */
	struct launch *launches;
	size_t launch_count, launch_room;
	uint64_t live_bytes; /* registered, of the process being read */
	bool short_of_memory;
};

void args_prepare(struct pass *pass);
/* What is known without the records. */
void totals(struct analysis *analysis);
/* All records of pass->process; 0 or -errno. */
int process_read(struct pass *pass);
/* True while nothing has named the steps. */
bool looks_for_steps(const struct pass *pass);

#endif
