/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs for waylay-tbe-perf, and the check of its results: tables and gradients are functions of the
 * seed and the position, so that rows of tens of gigabytes are compared with the oracle without a copy
 * of them.
 */
#ifndef WAYLAY_KERNELS_TBE_DATA_H
#define WAYLAY_KERNELS_TBE_DATA_H

#include "kernels/tbe.h"

enum tbe_spread { TBE_UNIFORM, TBE_ZIPF, TBE_ONE, TBE_SPREAD_MAX };
extern const char *const tbe_spread_names[TBE_SPREAD_MAX];

struct tbe_data {
	struct cuda *cuda; /* set these before tbe_data_open */
	struct tbe *tbe;
	const struct tbe_config *config;
	uint32_t length; /* lookups a bag */
	enum tbe_spread spread;
	double exponent; /* zipf: of the rank; one: the share of the lookups that go to one row */

	struct tbe_io io;        /* where calls read and write */
	char *indices, *offsets; /* host copies */
	uint64_t unique;         /* rows that are looked up, over all tables */
	uint64_t longest;        /* lookups of one row */
	char error[400];
};

/* All return 0 or a negative errno with words in data->error; checks 1 for a wrong result. */
int tbe_data_open(struct tbe_data *data);
void tbe_data_close(struct tbe_data *data);

/* Weights and state as they were at first. */
int tbe_data_reset(struct tbe_data *data);

/* Compares bags of the last forward, and rows of a backward that followed a reset, with the oracle:
 * all of a small problem, a sample of a large one. */
int tbe_data_check_forward(struct tbe_data *data);
int tbe_data_check_backward(struct tbe_data *data);

#endif
