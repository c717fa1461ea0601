/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and results of a sampler run: made, kept on the device or in host memory, and compared
 * with the oracle. */
#ifndef WAYLAY_KERNELS_PERF_DATA_H
#define WAYLAY_KERNELS_PERF_DATA_H

#include "kernels/sampler.h"

struct cuda;

struct perf_data {
	struct cuda *cuda; /* NULL: everything is in host memory */
	struct sampler_config config;
	double positive; /* share of the items that are positive */
	double ignored;  /* share that is neither */
	int same;        /* every sample of the batch has the labels of the first */
	struct sampler_io io;
	char error[400];
};

/* Makes inputs by config.seed and room for the results. Sets the text in error and returns a
 * negative errno on failure; call perf_data_close either way. */
int perf_data_open(struct perf_data *data);
void perf_data_close(struct perf_data *data);

/* The labels of one sample as small integers: 1, 0, or 2 for an ignored item. */
void perf_data_kinds(const struct perf_data *data, uint32_t sample, uint8_t *kinds);

/*
 * Compares the results in data->io with what call number `call` must give, bit for bit. 0: they
 * agree. 1: they do not, and error says where. Negative: it could not be done. *drawn_ret gets the
 * items drawn over the whole batch.
 */
int perf_data_check(struct perf_data *data, uint64_t call, uint64_t *drawn_ret);

/* Items drawn over the whole batch by the last call. */
int perf_data_drawn(struct perf_data *data, uint64_t *drawn_ret);

/* Copies results to host memory: `bytes` from the address `from` of data->io. */
int perf_data_read(struct perf_data *data, void *to, uint64_t from, size_t bytes);

#endif
