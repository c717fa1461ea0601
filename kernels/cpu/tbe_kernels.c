/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated driver runs for each kernel of the embedding. Results are the oracle's; the
 * steps between (sorted lookups, partial sums) have no counterpart on the CPU and do nothing.
 */
#include "kernels/cpu/tbe_kernels.h"

#include <string.h>

#include "kernels/cpu/tbe_cpu.h"

/* A device kernel cannot say that it failed; short of memory, results stay as they were. */
static void forward(const struct tbe_args *a)
{
	(void)tbe_cpu_forward(a);
}

static void forward_small(const struct tbe_args *a)
{
	if (a->save_histograms != 2)
		(void)tbe_cpu_forward(a);
}

static void report(const struct tbe_args *a)
{
	tbe_cpu_bounds(a);
}

static void samples(const struct tbe_args *a)
{
	tbe_cpu_sample_grads(a);
}

static void update_large(const struct tbe_args *a)
{
	(void)tbe_cpu_update_tables(a, 0);
}

static void update_small(const struct tbe_args *a)
{
	(void)tbe_cpu_update_tables(a, 1);
}

static void fill(const struct tbe_args *a)
{
	tbe_cpu_fill(a, 0, a->fill_elements);
}

static void nothing(const struct tbe_args *a)
{
	(void)a;
}

static const struct {
	const char *kernel;
	void (*run)(const struct tbe_args *a);
} runs[] = {
	{"tbe_forward_f32", forward},
	{"tbe_forward_f16", forward},
	{"tbe_forward_bf16", forward},
	{"tbe_forward_rows", forward},
	{"tbe_forward_small", forward_small},
	{"tbe_bounds_check", report},
	{"tbe_backward_samples", samples},
	{"tbe_backward_short_f32", update_large},
	{"tbe_backward_short_f16", update_large},
	{"tbe_backward_short_bf16", update_large},
	{"tbe_small_apply", update_small},
	{"tbe_fill", fill},
};

#define KERNEL(name)                                                                               \
	void tbe_run_##name(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,  \
			    void *const *params)                                                   \
	{                                                                                          \
		void (*run)(const struct tbe_args *) = nothing;                                    \
                                                                                                   \
		(void)grid;                                                                        \
		(void)block;                                                                       \
		(void)shared_bytes;                                                                \
		for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)                        \
			if (!strcmp(runs[i].kernel, #name))                                        \
				run = runs[i].run;                                                 \
		run(params[0]);                                                                    \
	}
#include "kernels/device/tbe.def"
