/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of one analysis pass.
 */
#ifndef WAYLAY_VIEWERS_ANALYSIS_INTERNAL_H
#define WAYLAY_VIEWERS_ANALYSIS_INTERNAL_H

#include "viewers/analysis.h"

#include <uthash.h>

/* --- what is counted -------------------------------------------------------------------------- */

enum counted_kind {
	COUNTED_WAIT,
	COUNTED_STAGE,
	COUNTED_REGISTRATION,
	COUNTED_HELD,       /* only held the host: counted with another */
	COUNTED_UNRETURNED, /* began and never returned */
	COUNTED_NETWORK,    /* waited for the network */
	COUNTED_LAUNCH,
};

/* Something that a range around it counts. Times in ns of the process. */
struct counted {
	int64_t begin_ns;
	uint64_t held_ns, bytes;
	uint32_t thread;
	enum counted_kind kind;
	bool pageable;              /* a copy from or to pageable host memory */
	const struct site_way *way; /* NULL for those that have no place */
};

/* --- sites (analysis_sites.c) ----------------------------------------------------------------- */

struct site_table;
/* options may be NULL: no filters. */
struct site_table *site_table_new(struct model *model, const struct analysis_options *options);
void site_table_free(struct site_table *table);
/* The way of a stack to a site, for a rule and class; NULL when memory is short. */
struct site_way *site_of(struct site_table *table, unsigned process, uint32_t stack, unsigned rule,
			 unsigned cls);
/* One more call of it. counts: false for the second half of something counted already. */
void site_add(struct site_table *table, struct site_way *way, const struct counted *counted,
	      unsigned process, uint32_t api);
/* True if both stacks blame the same place: the same Python line, or the same native function. */
bool site_same_place(struct model *model, unsigned process, uint32_t stack_a, uint32_t stack_b);
/* Orders what cost more first: time, then count, then place, rule, class and caller. */
int site_way_compare(uint64_t held_a, uint64_t count_a, const struct site_way *a, uint64_t held_b,
		     uint64_t count_b, const struct site_way *b);
/* All sites, the one that cost most first. The array is the caller's, the sites are the table's. */
struct site **site_table_sorted(struct site_table *table, unsigned *count);

/* --- ranges (analysis_ranges.c) --------------------------------------------------------------- */

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
/* The instances kept of a range that may be a step, in order of process and end; NULL: none were.
 * *thinned: there were more. */
struct step_sample *range_samples(struct range_table *table, const char *name, size_t *count,
				  bool *thinned);
/* How much a range's name sounds like one of steps: 0 not at all. */
unsigned range_sounds_like_step(const char *name);

/* --- steps (analysis_steps.c, analysis_period.c) ---------------------------------------------- */

/* The range that is the steps: wanted, if it occurred, else the likeliest; NULL: none is. */
const char *steps_choose(const struct analysis *analysis, struct range_table *table,
			 const char *wanted);
/* Fills analysis->steps from the range's instances. False when memory is short. */
bool steps_results(struct analysis *analysis, struct range_table *table, const char *range);
void steps_free(struct steps *steps);

/* A launch of a kernel or graph. */
struct launch {
	int64_t begin_ns;
	uint32_t thread, what;
};
/* In so many launches of a process a repetition is looked for. */
#define PERIOD_LAUNCHES (1u << 18)
/* Where the launches of a process begin again: times at which steps begin, the last one ends the last
 * whole step. Times are the caller's to free. */
struct period {
	unsigned launches;     /* a step; 0: no repetition was found */
	uint32_t thread, what; /* a step begins with that launch */
	size_t count, room;
	int64_t *times;
};
/* In the first launches. False when memory is short. */
bool period_find(const struct launch *launches, size_t count, struct period *period);
/* One that came after those. False when memory is short. */
bool period_go_on(struct period *period, const struct launch *launch);

/* --- transfers (analysis_transfers.c) --------------------------------------------------------- */

struct transfer_table;
struct transfer_table *transfer_table_new(void);
void transfer_table_free(struct transfer_table *table);
/* As the matcher tells. False when memory is short. */
bool transfer_posted(struct transfer_table *table, unsigned process,
		     const struct trace_event *post);
bool transfer_ended(struct transfer_table *table, unsigned process,
		    const struct model_transfer *transfer);
void transfer_process_end(struct transfer_table *table);
bool transfer_results(struct transfer_table *table, struct analysis *analysis);

/* --- devices (analysis_gpu.c) ------------------------------------------------------------------ */

struct gpu_table;
struct gpu_table *gpu_table_new(void);
void gpu_table_free(struct gpu_table *table);
/* False when memory is short. */
bool gpu_event(struct gpu_table *table, const struct trace_event *event);
/* A call that waited. */
bool gpu_wait(struct gpu_table *table, const struct trace_event *event, struct site_way *way);
void gpu_process_end(struct gpu_table *table);
bool gpu_results(struct gpu_table *table, struct analysis *analysis);

/* --- set-up (analysis_setup.c) ------------------------------------------------------------------- */

void setup_event(struct analysis *analysis, const char *call, const struct trace_event *event,
		 bool failed);
void setup_results(struct analysis *analysis);

/* --- the path of device memory (analysis_path.c) ------------------------------------------------ */

struct path_facts {
	bool wanted, offered;     /* FI_HMEM, by fi_getinfo */
	bool opened, opened_hmem; /* a domain or endpoint, with it */
	char provider[64];        /* of the first that was opened */
	int32_t offer_status, permit_status, refused_status;
	uint64_t registered, registered_dmabuf, refused; /* of device memory */
};
void path_event(struct path_facts *facts, struct model *model, unsigned process,
		const struct trace_event *event);
/* One sentence in why ("" when nothing was opened). */
enum direct_path path_verdict(const struct path_facts *facts, char *why, size_t size);

/* --- detours (analysis_detours.c) ------------------------------------------------------------- */

struct detour_table;
struct detour_table *detour_table_new(struct model *model);
void detour_table_free(struct detour_table *table);
/* Records in order of their end, transfers as they end. False when memory is short. */
bool detour_event(struct detour_table *table, unsigned process, const struct trace_event *event);
bool detour_transfer(struct detour_table *table, const struct model_transfer *transfer);
void detour_process_end(struct detour_table *table);
bool detour_results(struct detour_table *table, struct analysis *analysis);

#endif
