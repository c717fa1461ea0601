/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table-batched embedding: many tables of rows, looked up by many features in one call, forward and
 * backward (device/tbe_args.h has the rules). On an open CUDA driver, or on the CPU, where every sum
 * is in double.
 *
 * Functions return 0 or a negative errno and leave a sentence in the error text. Device work is on
 * cuda->stream when they return; only tbe_bounds() waits, and only where it is asked for a report.
 */
#ifndef WAYLAY_KERNELS_TBE_H
#define WAYLAY_KERNELS_TBE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/device/tbe_args.h"

struct cuda;
struct tbe;

enum tbe_path { TBE_PATH_AUTO, TBE_PATH_GATHER, TBE_PATH_SMALL, TBE_PATH_MAX };
enum tbe_bounds_mode {
	TBE_BOUNDS_FATAL,   /* an error, nothing is repaired */
	TBE_BOUNDS_WARNING, /* repaired and reported */
	TBE_BOUNDS_IGNORE,  /* repaired */
	TBE_BOUNDS_NONE,
	TBE_BOUNDS_MAX
};

extern const char *const tbe_type_names[TBE_TYPE_MAX];
extern const char *const tbe_pooling_names[TBE_POOLING_MAX];
extern const char *const tbe_optimizer_names[TBE_OPTIMIZER_MAX];
extern const char *const tbe_path_names[TBE_PATH_MAX];
extern const char *const tbe_bounds_names[TBE_BOUNDS_MAX];

struct tbe_shape {
	uint32_t rows, dim; /* dim: a multiple of 4, at most TBE_DIM_MAX */
};

struct tbe_config {
	const struct tbe_shape *tables;
	const uint32_t *feature_table; /* table of each feature */
	uint32_t table_count, feature_count;
	uint32_t batch;          /* bags of every feature, unless ... */
	const uint32_t *batches; /* ... each has its own number */
	uint32_t max_indices;    /* of a call, below 2^31 */
	uint32_t index_bytes;    /* 4 or 8, of indices and offsets */
	enum tbe_type type, out_type;
	enum tbe_pooling pooling; /* TBE_NONE: one dim for all tables */
	enum tbe_path path;       /* by histograms where tables are small, see tbe_small() */
	uint32_t bag_hint;        /* usual length of a bag, for the choice of path */
	int weighted;             /* calls bring sample weights; not without pooling */
	int training;             /* there will be backwards: memory for them is taken */
	enum tbe_optimizer optimizer;
	float rate, eps;
	int stochastic; /* 16-bit rows are rounded at random, by hash of seed, step, row and column */
	uint64_t seed;
	/* for tuning and tests; 0 chooses */
	uint32_t warp_bags; /* bags a warp of the forward takes */
	uint32_t blocks;    /* of the backward's persistent launches */
};

/* Where a call reads and writes: device addresses, host ones for the CPU. */
struct tbe_io {
	uint64_t weights;        /* tbe_weight_elements(), the tables one after another */
	uint64_t indices;        /* [n] */
	uint64_t offsets;        /* [bags + 1] */
	uint64_t sample_weights; /* [n] float, where the configuration has them */
	uint64_t out;            /* tbe_out_elements() */
	uint64_t grad;           /* of the output, FP32, same layout */
	uint64_t state;          /* [tbe_rows()] float for rowwise Adagrad */
	uint64_t sample_grads;   /* [n] float, or 0 */
	uint32_t n;
};

/* Sets *tbe_ret for its error text unless memory is out; free it with tbe_close. -EINVAL: the
 * configuration is out of range. `config` and its arrays are copied. */
int tbe_open(struct cuda *cuda, const struct tbe_config *config, struct tbe **tbe_ret);
void tbe_close(struct tbe *tbe);

uint64_t tbe_weight_elements(const struct tbe *tbe);
uint64_t tbe_out_elements(const struct tbe *tbe, uint32_t n);
uint64_t tbe_rows(const struct tbe *tbe);
uint32_t tbe_bags(const struct tbe *tbe);
/* Whether a feature goes by histograms. */
int tbe_small(const struct tbe *tbe, uint32_t feature);
const char *tbe_error(const struct tbe *tbe);

int tbe_forward(struct tbe *tbe, const struct tbe_io *io);

/* Sorts the lookups for the next backward, which has to be with the same indices and offsets. Without
 * it the backward sorts them itself. */
int tbe_transpose(struct tbe *tbe, const struct tbe_io *io);

/*
 * One update of each row that was looked up. Small tables use what the forward counted, so that the
 * last forward must have had the same indices, or there was none since the last backward.
 */
int tbe_backward(struct tbe *tbe, const struct tbe_io *io);

/*
 * Checks offsets and indices. *report (unless NULL) says what was bad; asking waits. FATAL: -ERANGE
 * and a sentence about the first offender.
 */
int tbe_bounds(struct tbe *tbe, const struct tbe_io *io, enum tbe_bounds_mode mode,
	       struct tbe_bounds_report *report);

/* What a bounds check is compared with, on a device: reading its inputs once and no more, and a warp a
 * bag as FBGEMM does it. Nothing is reported. */
enum tbe_bounds_baseline { TBE_BOUNDS_STREAM, TBE_BOUNDS_BAGS };
int tbe_bounds_baseline(struct tbe *tbe, const struct tbe_io *io, enum tbe_bounds_baseline which);

/* What the oracle needs: everything of a call, with host addresses in *io. Valid until the next
 * call. */
const struct tbe_args *tbe_oracle_args(struct tbe *tbe, const struct tbe_io *io);
/* Makes up `elements` of a type (tbe_made_up, by the configuration's seed) at an address of the back
 * end. */
int tbe_fill(struct tbe *tbe, uint64_t address, uint64_t elements, enum tbe_type type);

/* How many backwards there have been: the next one rounds by this number. */
uint64_t tbe_steps(const struct tbe *tbe);

#endif
