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
struct site_table *site_table_new(struct model *model);
void site_table_free(struct site_table *table);
/* The site of a stack for a rule and class; NULL when memory is short. */
struct site *site_of(struct site_table *table, unsigned process, uint32_t stack, unsigned rule,
		     unsigned cls);
void site_api(struct site *site, struct site_table *table, unsigned process, uint32_t api);
/* True if both stacks blame the same place: the same Python line, or the same native function. */
bool site_same_place(struct model *model, unsigned process, uint32_t stack_a, uint32_t stack_b);
/* All sites, the one that cost most first. The array is the caller's, the sites are the table's. */
struct site **site_table_sorted(struct site_table *table, unsigned *count);

/* --- ranges (analysis_ranges.c) --------------------------------------------------------------- */

enum counted_kind { COUNTED_WAIT, COUNTED_STAGE, COUNTED_REGISTRATION };

/* Something that a range around it counts. Times in ns of the process. */
struct counted {
	int64_t begin_ns;
	uint64_t held_ns;
	uint32_t thread;
	enum counted_kind kind;
};

struct range_table;
struct range_table *range_table_new(const struct analysis_options *options);
void range_table_free(struct range_table *table);
/* Of the process being read; false when memory is short. */
bool range_add(struct range_table *table, const struct model_range *range);
bool range_count(struct range_table *table, const struct counted *counted);
/* Puts the process's counted things into its ranges, and starts over for the next process. */
bool range_process_end(struct range_table *table, unsigned process);
struct range_stat **range_table_list(struct range_table *table, unsigned *count);

/* --- registrations (analysis_mr.c) ------------------------------------------------------------ */

struct mr_table;
struct mr_table *mr_table_new(void);
void mr_table_free(struct mr_table *table);
/* A successful registration of a process; true in *repeated if that page-rounded range had been
 * registered before in this process. False when memory is short. */
bool mr_add(struct mr_table *table, unsigned process, uint64_t address, uint64_t bytes,
	    bool *repeated);

#endif
