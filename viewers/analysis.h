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
/* Fetches what histogram_add() will change. */
void histogram_prefetch(const struct histogram *histogram, uint64_t ns);
uint64_t histogram_percentile(const struct histogram *histogram, unsigned percent);

/* Registrations from their beginning to their end. */
struct registered_life {
	uint64_t live, live_bytes; /* at the end of the recordings */
	uint64_t now_bytes;        /* while a process is being read */
	uint64_t peak_bytes;       /* of the process that had most at once */
	struct histogram lifetime; /* of those that ended */
};

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
	uint64_t repeated;            /* registrations of a range that had been registered before */
	uint64_t pageable;            /* copies from or to pageable host memory */
	uint64_t idle_ns;             /* a device stood idle because of them, where that is known */
	struct registered_life *life; /* of registrations; else NULL */
	struct histogram held;
	char *api[SITE_APIS]; /* calls seen */
	uint64_t filters;     /* bit i: options.filters[i] counts it */
	unsigned allowed;     /* 1 + the index of the pattern that lets it pass, 0: none */
	unsigned way_count;
	struct site_way *ways; /* costliest first */
};

/* One way by which a site was reached: from one line of a caller. */
struct site_way {
	struct site *site;
	char *caller; /* as site.place; "" without one */
	char *native; /* where native code called for a Python line, in one example; NULL: not so */
	uint64_t count, held_ns, bytes, pageable;
	struct site_way *next;
	unsigned process; /* an example of its stacks */
	uint32_t stack;
	uint64_t last_api; /* process and name of the call that came last, once one came */
	bool api_known;
};

/* What happened by a way inside the instances of a range. */
struct range_way {
	const struct site_way *way;
	uint64_t count, held_ns, bytes, pageable;
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

/* One step of the job on one process. */
struct step_sample {
	uint32_t process, index; /* index: from 0 in its process, skipped ones counted */
	int64_t begin_ns;
	uint64_t length_ns, held_ns, network_ns; /* network: in waits for completions */
	uint64_t bytes;                          /* of waits and staged calls */
	uint32_t waits, stages, registrations, launches;
	const struct site_way *longest; /* the call that held the host longest; NULL: none did */
	uint64_t longest_ns;
};

/* Medians of a process's steps. busy: neither held nor waiting for the network. */
struct step_process {
	uint32_t process;
	uint64_t steps, length_ns, held_ns, network_ns, busy_ns;
	uint32_t waits, stages, registrations, launches;
};

#define STEP_OUTLIERS 8
struct steps {
	const char *range; /* in which they were counted; NULL: none were found */
	bool found;        /* by repetition in the launches; else a named range */
	unsigned period;   /* launches a step, where found */
	bool thinned;      /* there were too many: the first ones are told of */
	uint64_t count;
	unsigned process_count;
	struct step_process *processes; /* in order of processes */
	uint64_t outliers;              /* steps much longer than the median of their process */
	unsigned outlier_count;         /* the longest of them, worst first */
	struct step_sample outlier[STEP_OUTLIERS];
	int straggler;         /* index into processes: others wait for it; -1: none */
	uint64_t straggler_ns; /* so much longer busy a step than the median of the others */
};
/* The medians of a sample's process. */
const struct step_process *steps_process(const struct steps *steps, uint32_t process);

struct copy_stat {
	uint8_t src_kind, dst_kind, cls; /* enum wl_mem_kind, wl_call_class */
	uint64_t count, bytes, held_ns;
};

#define TRANSFER_SIZES 64
struct transfer_stat {
	uint8_t op; /* enum wl_ofi_op */
	uint64_t count, bytes, unfinished, failed, approximate, retries;
	uint64_t busy_ns; /* at least one was under way, summed over processes */
	struct histogram latency;
	uint64_t sizes[TRANSFER_SIZES];      /* how many of at most 2^i bytes, more than 2^(i-1) */
	uint64_t size_bytes[TRANSFER_SIZES]; /* what they moved */
};

/* All operations of a kind between a process and one of its peers. */
struct peer_stat {
	uint32_t process;
	uint8_t op;
	uint64_t peer; /* as the process numbers it; UINT64_MAX: not told */
	uint64_t count, bytes;
	uint64_t busy_ns; /* at least one of them was under way */
	struct histogram latency;
};

/* How busy the network was, summed over processes: from the first post to the last completion. */
struct network_stat {
	uint64_t span_ns, busy_ns;
	uint64_t peak_bytes; /* in flight at once, of the process that had most */
	double byte_ns;      /* bytes in flight, over all of that time */
};

/* Over the network's whole span. */
static inline uint64_t network_mean_bytes(const struct network_stat *network)
{
	return network->span_ns ? (uint64_t)(network->byte_ns / (double)network->span_ns) : 0;
}

enum registration_kind { REGISTERED_HOST, REGISTERED_DEVICE, REGISTERED_DMABUF, REGISTERED_KINDS };
struct registration_stat {
	uint64_t count, failed, bytes, time_ns;
	struct registered_life life;
};

/* A device, over all processes that used it under that number; times where CUPTI recorded them. */
struct device_stat {
	unsigned device;
	bool seen;
	uint64_t kernels, copies, copy_bytes;
	uint64_t span_ns, busy_ns, copy_busy_ns; /* span: from the first to the last thing it did */
	uint64_t wait_idle_ns; /* idle since a wait of the host's had nothing queued behind it */
	uint64_t wait_gaps;
};

/* Ways through host memory that bytes of the device took. */
enum detour_kind {
	DETOUR_COPIED_OUT,  /* copied to the host, then sent from there */
	DETOUR_COPIED_IN,   /* received into the host, then copied to the device */
	DETOUR_MAPPED_OUT,  /* pinned host memory that no copy had filled was sent */
	DETOUR_MAPPED_IN,   /* received into pinned host memory that no copy emptied */
	DETOUR_IN_PROVIDER, /* copied inside a libfabric call */
	DETOUR_KINDS,
};
struct detour_stat {
	uint64_t transfers, bytes; /* network operations, and what of them took the detour */
	uint64_t copies, copy_bytes, held_ns;
};
/* A set-up call of libfabric's: what it took in all processes together. */
#define SETUP_CALLS_MAX 64
struct setup_stat {
	char call[40];
	uint64_t count, failed, held_ns, longest_ns;
};
/* Could device memory have gone directly? */
enum direct_path {
	DIRECT_UNKNOWN,
	DIRECT_NOT_OFFERED, /* no provider that was opened offers FI_HMEM */
	DIRECT_REFUSED,     /* registering device memory failed */
	DIRECT_UNUSED,      /* offered, but no device memory was registered */
	DIRECT_USED,        /* device memory was registered */
};
struct detours {
	struct detour_stat kinds[DETOUR_KINDS];
	enum direct_path direct;
	char why[320];    /* of direct, in words; "" unknown */
	uint64_t exports; /* of device memory as DMA-BUF that worked */
	uint64_t
		save_ns; /* what the copies took, by measured rates where they did not hold the host */
	unsigned site_count;
	struct site **sites; /* of the copies, costliest first */
};

enum analysis_measure {
	ANALYSIS_CALLS,
	ANALYSIS_HELD,     /* nanoseconds */
	ANALYSIS_BYTES,    /* that the calls moved */
	ANALYSIS_PAGEABLE, /* copies from or to pageable host memory */
};
/* Inside what it counts. */
enum analysis_scope {
	ANALYSIS_FOCUS, /* options.focus, or the whole run without one */
	ANALYSIS_RUN,
	ANALYSIS_RANGE, /* the range that the filter names */
	ANALYSIS_STEPS, /* the job's steps: a range, or found in its launches */
};

/* What a budget counts. */
struct analysis_filter {
	unsigned cls;      /* WL_call_class_waits or _stages, _MAX both; _none: registrations */
	unsigned rule;     /* WL_rule_MAX: any */
	const char *place; /* pattern (fnmatch) of a site's place, NULL: any */
	enum analysis_measure measure;
	enum analysis_scope scope;
	const char *range; /* with ANALYSIS_RANGE */
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
	const char *steps; /* the range that a step is; NULL: to be found out */
};

struct analysis {
	struct model *model;
	int64_t wall_ns;     /* of all recordings together */
	uint64_t process_ns; /* from start to end, summed over processes */
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
	uint64_t registered_live_bytes; /* at the end */
	/* What a cache of registrations would have saved, bounded by entries and by bytes; each process
	 * with one of its own. At most: that memory was freed in between is not seen. */
	struct reuse_curve cache_entries, cache_bytes;
	unsigned range_count; /* in order of first appearance */
	struct range_stat **ranges;
	uint64_t ranges_left; /* instances under names beyond those kept */
	bool ranges_seen;     /* any NVTX range */
	bool late;            /* a call was too long to be placed in the ranges around its begin */
	unsigned copy_count;
	struct copy_stat copies[64];
	unsigned setup_count; /* costliest first */
	uint64_t setup_ns;
	struct setup_stat setup[SETUP_CALLS_MAX];
	struct transfer_stat transfers[WL_ofi_op_MAX];
	unsigned peer_count; /* by process, operation and peer */
	struct peer_stat **peers;
	bool peers_left; /* there were more than are kept */
	struct network_stat network;
	struct registration_stat registered[REGISTERED_KINDS];
	struct histogram registration_lifetime;
	struct detours detours;
	unsigned device_count; /* 0: nothing is known of devices */
	struct device_stat *devices;
	bool devices_thinned; /* there was more than is looked at */
	struct steps steps;
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
