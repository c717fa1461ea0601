/* SPDX-License-Identifier: Apache-2.0 */
/* Chi-square statistics over many draws. */
#include "kernels/sampler_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int sampler_stats_open(uint32_t n, uint32_t k, struct sampler_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (!n)
		return -EINVAL;
	stats->n = n;
	stats->k = k;
	stats->drawn = calloc(n, sizeof(*stats->drawn));
	stats->rank = calloc(n, sizeof(*stats->rank));
	if (k && k <= SAMPLER_STATS_SLOTS_MAX)
		stats->slots = calloc((size_t)k * k, sizeof(*stats->slots));
	if (!stats->drawn || !stats->rank || (k && k <= SAMPLER_STATS_SLOTS_MAX && !stats->slots)) {
		sampler_stats_close(stats);
		return -ENOMEM;
	}
	return 0;
}

void sampler_stats_close(struct sampler_stats *stats)
{
	free(stats->drawn);
	free(stats->rank);
	free(stats->slots);
	memset(stats, 0, sizeof(*stats));
}

int sampler_stats_add(struct sampler_stats *stats, const int64_t *idx, uint32_t total)
{
	uint32_t rank = 0;

	if (total > stats->k || (stats->draws && total != stats->total))
		return -EINVAL;
	memset(stats->rank, 0, stats->n * sizeof(*stats->rank));
	for (uint32_t s = 0; s < total; s++) {
		if (idx[s] < 0 || idx[s] >= stats->n || stats->rank[idx[s]])
			return -EINVAL;
		stats->rank[idx[s]] = s + 1; /* for now the slot, from 1 */
	}
	for (uint32_t s = total; s < stats->k; s++)
		if (idx[s] != -1)
			return -EINVAL;
	for (uint32_t i = 0; i < stats->n; i++) {
		if (!stats->rank[i])
			continue;
		stats->drawn[i]++;
		if (stats->slots)
			stats->slots[(size_t)rank * stats->k + stats->rank[i] - 1]++;
		rank++;
	}
	stats->total = total;
	stats->draws++;
	return 0;
}

/* Wilson and Hilferty's normal approximation: good to a percent of the share from a freedom of 3
 * on, exact in the limit. */
double sampler_chi2_share(double value, double freedom)
{
	double spread, z;

	if (freedom <= 0)
		return value > 0 ? 1 : 0.5;
	spread = 2 / (9 * freedom);
	z = (cbrt(value / freedom) - (1 - spread)) / sqrt(spread);
	return 0.5 * erfc(-z / sqrt(2));
}

struct sampler_chi2 sampler_stats_inclusion(const struct sampler_stats *stats, const uint8_t *kinds,
					    uint8_t kind, uint32_t want)
{
	struct sampler_chi2 chi2 = {0, 0, 0.5};
	uint32_t have = 0;
	double p, mean, sum = 0;

	for (uint32_t i = 0; i < stats->n; i++)
		have += kinds[i] == kind;
	if (!stats->draws || !have)
		return chi2;
	p = (double)want / have;
	mean = (double)stats->draws * p;
	for (uint32_t i = 0; i < stats->n; i++)
		if (kinds[i] == kind)
			sum += (stats->drawn[i] - mean) * (stats->drawn[i] - mean);
	if (p <= 0 || p >= 1) { /* all or none: any deviation at all is an error */
		chi2.value = sum;
		chi2.share = sampler_chi2_share(sum, 0);
		return chi2;
	}
	/* Counts of a draw without replacement correlate by -1 / (have - 1); the factor makes this
	 * a chi-square again. */
	chi2.value = sum / (mean * (1 - p)) * (have - 1) / have;
	chi2.freedom = have - 1.0;
	chi2.share = sampler_chi2_share(chi2.value, chi2.freedom);
	return chi2;
}

struct sampler_chi2 sampler_stats_slots(const struct sampler_stats *stats)
{
	struct sampler_chi2 chi2 = {0, 0, 0.5};
	double mean;

	if (!stats->slots || !stats->draws || stats->total < 2)
		return chi2;
	mean = (double)stats->draws / stats->total;
	for (uint32_t r = 0; r < stats->total; r++)
		for (uint32_t s = 0; s < stats->total; s++) {
			double off = stats->slots[(size_t)r * stats->k + s] - mean;

			chi2.value += off * off / mean;
		}
	/* Row and column sums are fixed, and rows correlate as above: the factor is (total - 1) /
	 * total once. */
	chi2.value *= (stats->total - 1.0) / stats->total;
	chi2.freedom = (stats->total - 1.0) * (stats->total - 1.0);
	chi2.share = sampler_chi2_share(chi2.value, chi2.freedom);
	return chi2;
}
