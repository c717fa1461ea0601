/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of one analysis pass.
 */
#ifndef WAYLAY_VIEWERS_ANALYSIS_INTERNAL_H
#define WAYLAY_VIEWERS_ANALYSIS_INTERNAL_H

#include "viewers/analysis.h"

#include <uthash.h>

/* --- sites (analysis_sites.c) ----------------------------------------------------------------- */

struct site_table;
/* options may be NULL: no filters. */
struct site_table *site_table_new(struct model *model, const struct analysis_options *options);
void site_table_free(struct site_table *table);
/* The way of a stack to a site, for a rule and class; NULL when memory is short. */
struct site_way *site_of(struct site_table *table, unsigned process, uint32_t stack, unsigned rule,
			 unsigned cls);
/* One more call of it. counts: false for the second half of something counted already. */
void site_add(struct site_table *table, struct site_way *way, bool counts, uint64_t held_ns,
	      uint64_t bytes, unsigned process, uint32_t api);
/* True if both stacks blame the same place: the same Python line, or the same native function. */
bool site_same_place(struct model *model, unsigned process, uint32_t stack_a, uint32_t stack_b);
/* Orders what cost more first: time, then count, then place, rule, class and caller. */
int site_way_compare(uint64_t held_a, uint64_t count_a, const struct site_way *a, uint64_t held_b,
		     uint64_t count_b, const struct site_way *b);
/* All sites, the one that cost most first. The array is the caller's, the sites are the table's. */
struct site **site_table_sorted(struct site_table *table, unsigned *count);

/* --- ranges (analysis_ranges.c) --------------------------------------------------------------- */

enum counted_kind {
	COUNTED_WAIT,
	COUNTED_STAGE,
	COUNTED_REGISTRATION,
	COUNTED_HELD,       /* only held the host: counted with another */
	COUNTED_UNRETURNED, /* began and never returned */
};

/* Something that a range around it counts. Times in ns of the process. */
struct counted {
	int64_t begin_ns;
	uint64_t held_ns;
	uint32_t thread;
	enum counted_kind kind;
	const struct site_way *way; /* NULL for COUNTED_UNRETURNED */
};

/*
 * Fed in the order of a merged cursor, which is that of ends: when a call is counted, every range
 * that began before it did is known, open or closed.
 */
struct range_table;
struct range_table *range_table_new(const struct analysis_options *options);
void range_table_free(struct range_table *table);
/* Of the process being read; false when memory is short. */
bool range_begin(struct range_table *table, const struct model_range *range);
bool range_end(struct range_table *table, const struct model_range *range);
/* False when memory is short. */
bool range_count(struct range_table *table, const struct counted *counted);
/* Ends the process: the next thing is of another one. */
void range_process_end(struct range_table *table);
/* Fills ranges, tallies and what is missing. False when memory is short. */
bool range_table_results(struct range_table *table, struct analysis *analysis);

#endif
