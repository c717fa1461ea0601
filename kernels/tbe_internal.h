/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the embedding's host side share. */
#ifndef WAYLAY_KERNELS_TBE_INTERNAL_H
#define WAYLAY_KERNELS_TBE_INTERNAL_H

#include "kernels/cuda.h"
#include "kernels/tbe.h"

enum kernel {
#define KERNEL(name) K_##name,
#include "kernels/device/tbe.def"
#undef KERNEL
	K_MAX
};

extern const char *const tbe_kernel_names[K_MAX];

enum { SCRATCH_MAX = 32 };

struct tbe {
	struct tbe_config config;
	struct cuda *cuda; /* NULL: the CPU back end */
	struct CUmod_st *module;
	struct CUfunc_st *kernels[K_MAX];
	struct tbe_args args;   /* device addresses, or host ones on the CPU */
	struct tbe_args oracle; /* host addresses always */
	struct tbe_feature *features;
	struct tbe_table *tables;
	uint32_t *order, *small_features, *small_tables;
	uint32_t small_feature_count, small_table_count, small_rows, small_bags;
	uint64_t weights, outs, rows, counts, chunks;
	uint32_t bags, widest, most_bags, most_rows;
	uint64_t scratch[SCRATCH_MAX];
	uint32_t scratch_used;
	uint64_t control; /* device: tickets, then the count of long runs; cleared together */
	int transposed, counted;
	uint64_t steps;
	char error[480];
};

/* Keeps a sentence about a wrong configuration or call; -EINVAL. */
int tbe_wrong(struct tbe *t, const char *what, uint64_t which);

/* Keeps the driver's sentence if `err` is one, and returns it. */
int tbe_fail(struct tbe *t, int err, const char *doing);

/* Whether a call's arrays can be used; takes them over into t->args. */
int tbe_check_io(struct tbe *t, const struct tbe_io *io);

int tbe_launch(struct tbe *t, enum kernel kernel, struct cuda_grid grid);

/* Blocks of a launch that fills the device with `each` a multiprocessor. */
uint32_t tbe_persistent(const struct tbe *t, uint32_t each);

#endif
