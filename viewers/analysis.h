/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job waited for, registered and moved, and where in its source: one pass over the model.
 * Report, check and the viewers show these numbers; none of them counts by itself.
 */
#ifndef WAYLAY_VIEWERS_ANALYSIS_H
#define WAYLAY_VIEWERS_ANALYSIS_H

#include "exporters/exporters.h"
#include "viewers/reuse.h"

/* Durations in buckets of 1/8 of a power of two, for percentiles within 12 %. */
#define HISTOGRAM_BUCKETS 512
struct histogram {
	uint64_t count, sum_ns, max_ns;
	uint32_t bucket[HISTOGRAM_BUCKETS];
};
void histogram_add(struct histogram *histogram, uint64_t ns);
uint64_t histogram_percentile(const struct histogram *histogram, unsigned percent);

#define SITE_APIS 4

/* Everything of one kind that one line of source did. */
struct site {
	char *place;     /* "train.py:12 in step"; "(no stack)" */
	char *file;      /* as recorded, NULL unknown */
	char *function;  /* NULL unknown */
	uint32_t line;   /* 0 unknown */
	unsigned rule;   /* enum wl_rule; registrations: 0 */
	unsigned cls;    /* WL_call_class_waits or _stages; registrations: _none */
	uint64_t count;  /* what counts: a copy and its explicit wait are one */
	uint64_t folded; /* explicit waits that were counted with their copy */
	uint64_t bytes;
	uint64_t repeated; /* registrations of a range that had been registered before */
	struct histogram held;
	char *api[SITE_APIS];  /* calls seen */
	uint64_t filters;      /* bit i: options.filters[i] counts it */
	struct site_way *ways; /* costliest first */
};

/* One way by which a site was reached: from one line of a caller. */
struct site_way {
	struct site *site;
	char *caller; /* as site.place; "" without one */
	uint64_t count, held_ns;
	struct site_way *next;
	unsigned process; /* an example of its stacks */
	uint32_t stack;
};

/* What happened by a way inside the instances of a range. */
struct range_way {
	const struct site_way *way;
	uint64_t count, held_ns;
};

/* All instances of one range name. Worst: of one instance on one process. */
struct range_stat {
	char *name;
	uint64_t instances;                    /* closed ones, without those skipped */
	uint64_t skipped;                      /* closed or not */
	uint64_t unclosed;                     /* without those skipped; counted nowhere else */
	uint64_t unreturned;                   /* CUDA calls that began inside and never returned */
	uint64_t waits, stages, registrations; /* inside, summed */
	uint64_t waits_worst, stages_worst, registrations_worst;
	unsigned worst_process; /* index of the process with waits_worst */
	uint64_t held_ns;
	struct histogram length;
	unsigned way_count; /* costliest first; with those of instances that have no end */
	struct range_way *ways;
};

struct copy_stat {
	uint8_t src_kind, dst_kind, cls; /* enum wl_mem_kind, wl_call_class */
	uint64_t count, bytes, held_ns;
};

struct transfer_stat {
	uint8_t op; /* enum wl_ofi_op */
	uint64_t count, bytes, unfinished, failed, approximate, retries;
	struct histogram latency;
};

/* What a budget counts. */
struct analysis_filter {
	unsigned cls;      /* WL_call_class_waits or _stages, _MAX both; _none: registrations */
	unsigned rule;     /* WL_rule_MAX: any */
	const char *place; /* pattern (fnmatch) of a site's place, NULL: any */
	bool held;         /* sums nanoseconds instead of counting */
};
#define ANALYSIS_FILTERS_MAX 64

struct analysis_tally {
	uint64_t total;         /* in all instances on all processes; without a focus: in all */
	uint64_t worst;         /* in one instance */
	unsigned worst_process; /* the one with that */
};

struct analysis_options {
	unsigned skip;     /* leave out the first so many instances of every range, per process */
	bool same_thread;  /* a range holds what its own thread did, not the whole process */
	const char *focus; /* the range in which filters count, NULL: the whole run */
	const struct analysis_filter *filters; /* at most ANALYSIS_FILTERS_MAX */
	unsigned filter_count;
	const char *const *allowed; /* patterns of places that no filter counts */
	unsigned allowed_count;
};

struct analysis {
	struct model *model;
	int64_t wall_ns; /* of all recordings together */
	uint64_t events;
	uint64_t waits, stages, polls, captured; /* whole run, folded ones not counted twice */
	uint64_t unreturned;                     /* CUDA calls that never returned */
	uint64_t held_ns;
	uint64_t launches;
	unsigned site_count; /* waits and stages, costliest first */
	struct site **sites;
	unsigned registration_site_count; /* costliest first */
	struct site **registration_sites;
	uint64_t registrations, registrations_failed, registrations_repeated, registered_bytes;
	uint64_t registration_ns, registrations_live;
	uint64_t registered_peak_bytes; /* of the process that had most at once */
	/* What a cache of registrations would have saved, bounded by entries and by bytes; each process
	 * with one of its own. At most: that memory was freed in between is not seen. */
	struct reuse_curve cache_entries, cache_bytes;
	unsigned range_count; /* in order of first appearance */
	struct range_stat **ranges;
	uint64_t ranges_left; /* instances under names beyond those kept */
	bool late;            /* a call was too long to be placed in the ranges around its begin */
	unsigned copy_count;
	struct copy_stat copies[64];
	struct transfer_stat transfers[WL_ofi_op_MAX];
	uint64_t posts, completions, empty_polls;
	uint64_t drops_lost, overwritten; /* over all processes */
	unsigned incomplete_processes;
	unsigned unreadable;        /* recordings left out */
	unsigned ranks, ranks_seen; /* of the launcher's world; 0 without one */
	unsigned cuda_off, ofi_off; /* processes told not to record such calls */
	bool simulated;
	struct analysis_tally tallies[ANALYSIS_FILTERS_MAX]; /* by filter */
};

/* 0, or -errno with one line in err. Free with analysis_free(); the model must outlive it. */
int analysis_run(struct model *model, const struct analysis_options *options,
		 struct analysis **analysis, char *err, size_t err_size);
void analysis_free(struct analysis *analysis);
/* A fact recorded by the process, NULL if there is none of that name. */
const char *process_attribute(const struct model_process *process, const char *key);
/* How long a call that never returned was seen to last, at least. */
uint64_t unreturned_ns(const struct model_process *process, const struct trace_inflight *call);
/* By name, NULL if there is no such range. */
const struct range_stat *analysis_range(const struct analysis *analysis, const char *name);

#endif
