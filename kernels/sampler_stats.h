/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether draws are uniform: how often each item was drawn, and how often the drawn item of each
 * rank (by index) came to each slot, both as chi-square statistics.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_STATS_H
#define WAYLAY_KERNELS_SAMPLER_STATS_H

#include <stdint.h>

struct sampler_stats {
	uint32_t n, k;
	uint32_t *drawn; /* [n] */
	uint32_t *slots; /* [k][k]: rank, slot; NULL where k is too large for it */
	uint32_t *rank;  /* [n] scratch */
	uint64_t draws;
	uint32_t total; /* items a draw, the same in each */
};

/* A chi-square statistic, and the share of uniform samplers that would have a smaller one: near 0
 * or 1 is suspicious. */
struct sampler_chi2 {
	double value, freedom, share;
};

#define SAMPLER_STATS_SLOTS_MAX 1024

/* -ENOMEM, -EINVAL when n is 0. */
int sampler_stats_open(uint32_t n, uint32_t k, struct sampler_stats *stats);
void sampler_stats_close(struct sampler_stats *stats);

/* Takes the k indices of one draw in, `total` of them filled. -EINVAL: the draw breaks the rule (an
 * index twice, out of range, a gap) or has another size than the draws before. */
int sampler_stats_add(struct sampler_stats *stats, const int64_t *idx, uint32_t total);

/* Over the items of one class: kinds[i] == kind, of which each draw has `want`. Freedom 0 when
 * nothing is left to chance. */
struct sampler_chi2 sampler_stats_inclusion(const struct sampler_stats *stats, const uint8_t *kinds,
					    uint8_t kind, uint32_t want);

/* Over ranks and slots. */
struct sampler_chi2 sampler_stats_slots(const struct sampler_stats *stats);

/* The share of chi-square variables with so much freedom that lie below `value`. */
double sampler_chi2_share(double value, double freedom);

#endif
