/* SPDX-License-Identifier: Apache-2.0 */
/* The balanced sampler on the CPU: the oracle that device results are compared with, and the CPU
 * back end. */
#ifndef WAYLAY_KERNELS_SAMPLER_CPU_H
#define WAYLAY_KERNELS_SAMPLER_CPU_H

#include <stddef.h>

#include "kernels/device/sampler_args.h"

/*
 * Draws every sample of the batch: reads labels, x, n, batch, first_sample, k, k_pos, fill_pos,
 * row_bytes, label_bytes, seed, call and call_base of *a, and writes idx, labels_out, x_out and
 * counts. All pointers are host addresses; nothing else of *a is used. Returns 0, or -ENOMEM.
 */
int sampler_cpu_run(const struct sampler_args *a);

/* The select-th smallest (from 1) of n keys. Reorders keys. */
unsigned sampler_cpu_select(unsigned *keys, size_t n, size_t select);

/* 1 for a positive, 0 for a negative, 2 for an ignored item. */
unsigned sampler_cpu_class(const struct sampler_args *a, unsigned sample, unsigned item);

/* Writes one drawn item of `sample` to its slot. */
void sampler_cpu_emit(const struct sampler_args *a, unsigned sample, unsigned item,
		      unsigned positive, unsigned slot);

/* Writes the slots from `total` on: index and label -1, zeros. */
void sampler_cpu_tail(const struct sampler_args *a, unsigned sample, unsigned total);

/* The 2 x SAMPLER_ROUNDS_MAX order words of a stream. */
void sampler_cpu_order(unsigned long long stream, unsigned *words);

/* The random stream of a sample in this call. */
unsigned long long sampler_cpu_stream(const struct sampler_args *a, unsigned sample);

#endif
