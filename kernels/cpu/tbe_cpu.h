/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table-batched embedding on the CPU, every sum in double: the oracle that device results are
 * compared with, and the CPU back end. Reads the inputs of struct tbe_args (device/tbe_args.h has
 * the rules) at host addresses and no scratch.
 */
#ifndef WAYLAY_KERNELS_TBE_CPU_H
#define WAYLAY_KERNELS_TBE_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/device/tbe_args.h"

/* One lookup of a row, for the backward. */
struct tbe_entry {
	uint32_t row, position, feature, bag; /* bag of the feature */
};

int64_t tbe_cpu_index(const struct tbe_args *a, uint64_t position);
uint64_t tbe_cpu_offset(const struct tbe_args *a, uint64_t bag); /* clamped to [0, n] */

float tbe_cpu_load(uint32_t type, const void *elements, uint64_t at);
/* Rounds to even. */
void tbe_cpu_store(uint32_t type, void *elements, uint64_t at, float value);
float tbe_cpu_from_f16(uint16_t bits);
uint16_t tbe_cpu_to_f16(float value);

/* Elements from `first` on of made-up data: those of a->fill. */
void tbe_cpu_fill(const struct tbe_args *a, uint64_t first, uint64_t count);

/*
 * Columns of one pooled bag: sums[dim] in double, before rounding, and in sizes[dim] (unless NULL)
 * the sums of the magnitudes, which error bounds go by.
 */
void tbe_cpu_bag(const struct tbe_args *a, uint32_t feature, uint32_t bag, double *sums,
		 double *sizes);

/* The whole output. 0 or -ENOMEM. */
int tbe_cpu_forward(const struct tbe_args *a);

/* The lookups of a table that reach a row, by row and then by position. Free *entries. 0 or
 * -ENOMEM. */
int tbe_cpu_entries(const struct tbe_args *a, uint32_t table, struct tbe_entry **entries,
		    size_t *count);

/* The gradient of a row from its lookups; `sizes` as above. */
void tbe_cpu_gradient(const struct tbe_args *a, const struct tbe_entry *entries, size_t count,
		      double *sums, double *sizes);

/* What a row of `type` elements becomes under its gradient; *state is rowwise Adagrad's, and is
 * updated. `row` is numbered over all tables. */
void tbe_cpu_update(const struct tbe_args *a, uint32_t row, uint32_t dim, const double *gradient,
		    void *elements, float *state);

/* Gradients of the sample weights, with the rows as they are before the update. */
void tbe_cpu_sample_grads(const struct tbe_args *a);

/* One update of each row that was looked up, of the small tables or of the others. 0 or -ENOMEM. */
int tbe_cpu_update_tables(const struct tbe_args *a, int small);

/* All of the above. 0 or -ENOMEM. */
int tbe_cpu_backward(const struct tbe_args *a);

/* Checks offsets and indices, fills *a->report, and repairs them when a->repair. */
void tbe_cpu_bounds(const struct tbe_args *a);

#endif
