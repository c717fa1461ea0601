/* SPDX-License-Identifier: Apache-2.0 */
/* waylay-coll-perf: what its files share. */
#ifndef WAYLAY_COLLECTIVES_PERF_H
#define WAYLAY_COLLECTIVES_PERF_H

#include <stdio.h>

#include "collectives/coll.h"
#include "collectives/world.h"

#define PERF_NAME "waylay-coll-perf"

enum perf_collective {
	PERF_ALL_REDUCE,
	PERF_REDUCE_SCATTER,
	PERF_ALL_GATHER,
	PERF_BROADCAST,
	PERF_ALL_TO_ALL,
	PERF_BARRIER,
	PERF_POINT, /* no collective: messages from even ranks to odd ones */
	PERF_COLLECTIVE_MAX
};

enum perf_average { PERF_RANK0, PERF_AVERAGE, PERF_MINIMUM, PERF_MAXIMUM };
enum perf_format { PERF_TEXT, PERF_CSV, PERF_JSON };

enum perf_workload { PERF_NO_WORKLOAD, PERF_DDP, PERF_ZERO2, PERF_WORKLOAD_MAX };
enum perf_path { PERF_HOST, PERF_STAGED_NAIVE, PERF_STAGED, PERF_DIRECT, PERF_PATH_MAX };

struct perf_options {
	unsigned int collectives; /* bits */
	unsigned int types, ops;  /* bits */
	size_t min_bytes, max_bytes;
	size_t step_bytes; /* added from size to size, or: */
	size_t step_factor;
	int iters, warmup_iters, checks;
	int rounds; /* of timed calls; the best is shown */
	int root;
	enum perf_average average;
	int np; /* 0: not given */
	bool bind;
	int port;
	double timeout_s;
	const char *provider;
	bool list_providers;
	enum perf_path path;
	int device; /* -1: rank modulo devices */
	struct coll_config coll;
	bool registration_table;
	bool scaling;
	enum perf_workload workload;
	int layers, hidden; /* of the workload's model */
	size_t bucket_bytes;
	enum perf_format format;
	const char *output; /* NULL: stdout */
};

/* Exits with 64 and words on a wrong command line. */
void perf_options_parse(struct perf_options *o, int argc, char **argv);
const char *perf_collective_name(enum perf_collective c);
const char *perf_path_name(enum perf_path path);

/* Where a rank's time went while collectives ran: differences of two of these. */
struct perf_split {
	double wall_us;
	double cpu_us;
	double registration_us; /* registering and deregistering */
	double copy_us;         /* calls that copy between device and host */
	double reduce_us;
	double registrations;
};

void split_now(const struct world *w, struct perf_split *now);
/* What happened since `from`, for each of n calls; an average over all ranks but for the count of
 * registrations, which is rank 0's. 0 or a negative errno. */
int split_since(struct world *w, const struct perf_split *from, int n, struct perf_split *out);

/* One line of the table. */
struct perf_row {
	enum perf_collective collective;
	size_t bytes, count;
	enum coll_type type;
	enum coll_op op;
	bool has_type, has_op;
	int root; /* -1: the collective has none */
	struct perf_figure {
		bool valid;
		double time_us, algbw, busbw; /* GB/s: 10^9 bytes a second */
		int64_t wrong;                /* -1: not checked */
		double cpu_s_per_gb;          /* CPU time of a rank, for each GB of the size */
		double cores;                 /* that a rank kept busy */
		struct perf_split split;      /* of a call */
	} figure[2];                          /* out of place, in place */
};

/* One line of the registration cost table; times in us, medians. */
struct perf_registration {
	const char *interface; /* by which the memory is named: "host", "cuda", "dmabuf" */
	size_t bytes;
	double register_us, use_us, deregister_us;
};

struct perf_summary {
	int64_t wrong;
	double busbw_sum;
	int busbw_count;
	struct device_stats moved; /* of all ranks, by what collectives did */
};

/* Output; only rank 0 has any. */
struct perf_output {
	FILE *file;
	enum perf_format format;
	const struct world *world;
	int rows;
	enum perf_collective shown; /* whose heading was printed last */
};

int output_open(struct perf_output *out, const struct perf_options *o);
void output_head(struct perf_output *out, const struct perf_options *o, const struct world *w,
		 const struct launch *launch);
void output_row(struct perf_output *out, const struct perf_row *row);
/* A remark, where the format has room for one. */
void output_note(struct perf_output *out, const char *what, const char *about, const char *why);
void output_registrations(struct perf_output *out, const struct perf_registration *rows, int n,
			  const struct world *w);
void output_tail(struct perf_output *out, const struct perf_summary *summary, struct world *w);
/* 0, or negative when the output could not be written. */
int output_close(struct perf_output *out);

/* Memory where the path has it, and a mirror on the host to fill and check it by. */
struct perf_memory {
	struct coll_device *device; /* NULL: the memory is the host's and its own mirror */
	char *at, *mirror;
	size_t bytes;
};

/* 0, or -ENOMEM; zeroed, its pages there. */
int memory_open(struct perf_memory *m, struct coll_device *device, size_t bytes);
void memory_close(struct perf_memory *m);
/* From the mirror to the memory and back; 0 or a negative errno. Nothing where they are one. */
int memory_put(const struct perf_memory *m, size_t offset, size_t bytes);
int memory_get(const struct perf_memory *m, size_t offset, size_t bytes);

/* A training step's collectives; see workload.c. Times are of a step. */
struct perf_step {
	const char *name;
	int layers, hidden;
	uint64_t parameters;
	enum coll_type type;
	int buckets;
	size_t largest, bytes; /* of a bucket; of all that is reduced */
	double gradients_us, parameters_us;
	struct perf_split split;
	int64_t wrong;
};
void output_step(struct perf_output *out, const struct perf_step *step);
int perf_run_workload(const struct perf_options *o, struct world *w, struct perf_output *out,
		      struct perf_summary *sum);
/* Runs this program with 2, 4, ... np ranks and says what limits it. The exit status. */
int perf_scaling(const struct perf_options *o, int argc, char **argv);

/* Sends (even ranks) or receives (odd ones) n messages; done when all have arrived. */
int perf_point_run(struct world *w, const struct perf_memory *m, const struct tp_region *region,
		   size_t bytes, int n);
int perf_point_register(struct world *w, const struct perf_memory *m, struct tp_region **region);

/* Buffers of known content. A rank's element i depends on the rank and on i modulo a prime. */
struct pattern {
	enum coll_type type;
	enum coll_op op;
	int ranks;
};

/* Opens the device that the path needs: NULL with 0 for the host's. Otherwise `staged` says how
 * messages bounce, when they do. */
int perf_open_device(const struct perf_options *o, int rank, struct coll_device **device,
		     struct staged_config *staged, struct coll_config *coll, int ranks,
		     char *error);

void pattern_fill(const struct pattern *p, void *data, size_t count, int rank, size_t first);
/* How many of `count` elements are not what rank `rank` gave. */
size_t pattern_wrong_copy(const struct pattern *p, const void *data, size_t count, int rank,
			  size_t first);
/* How many are not the reduction of what all ranks gave. */
size_t pattern_wrong_reduced(const struct pattern *p, const void *data, size_t count, size_t first);

/* Runs everything that the options ask for. 0, or negative with words in w->error. */
int perf_run(const struct perf_options *o, struct world *w, struct perf_output *out,
	     struct perf_summary *summary);
int perf_sum_moved(struct world *w, struct perf_summary *sum);
int perf_registration_table(const struct perf_options *o, struct world *w, struct perf_output *out);

#endif
