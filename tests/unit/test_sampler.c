/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's rule on the CPU back end: the cases that published samplers get wrong, counts by
 * hand, what a draw must look like, and whether draws are uniform: inclusion, slots, pairs of slots
 * and, for few items, whole permutations.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/device/sampler_rule.h"
#include "kernels/sampler.h"
#include "kernels/sampler_stats.h"

static int long_tests(void)
{
	return getenv("WAYLAY_TEST_LONG") != NULL;
}

/* Labels with the first `pos` items positive, `neg` negative, the rest ignored, shuffled. */
static void make_labels(int64_t *labels, uint32_t n, uint32_t pos, uint32_t neg, uint64_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		labels[i] = i < pos ? 1 : i < pos + neg ? 0 : i % 2 ? -1 : 7;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = (uint32_t)(sampler_mix64(seed * 1000003 + i) % i);
		int64_t t = labels[i - 1];

		labels[i - 1] = labels[j];
		labels[j] = t;
	}
}

struct draw {
	struct sampler_config config;
	int64_t *labels, *idx, *labels_out;
	int32_t *x, *x_out; /* x[i] = 3 i + 1 */
	int32_t counts[2];
	struct sampler *sampler;
	struct sampler_io io;
};

static void draw_open(struct draw *d, struct sampler_config config, uint32_t pos, uint32_t neg)
{
	memset(d, 0, sizeof(*d));
	d->config = config;
	d->config.batch = 1;
	d->config.row_bytes = 4;
	d->config.label = SAMPLER_I64;
	d->labels = calloc(config.n + 1, 8);
	d->x = calloc(config.n + 1, 4);
	d->idx = calloc(config.k + 1, 8);
	d->labels_out = calloc(config.k + 1, 8);
	d->x_out = calloc(config.k + 1, 4);
	make_labels(d->labels, config.n, pos, neg, config.seed);
	for (uint32_t i = 0; i < config.n; i++)
		d->x[i] = (int32_t)(3 * i + 1);
	d->io = (struct sampler_io){(uintptr_t)d->labels, (uintptr_t)d->x,
				    (uintptr_t)d->idx,    (uintptr_t)d->labels_out,
				    (uintptr_t)d->x_out,  (uintptr_t)d->counts};
	assert_int_equal(sampler_open(NULL, &d->config, &d->sampler), 0);
}

static void draw_close(struct draw *d)
{
	sampler_close(d->sampler);
	free(d->labels);
	free(d->x);
	free(d->idx);
	free(d->labels_out);
	free(d->x_out);
}

/* A draw must be what it says: distinct items of the right classes, their labels and rows, and
 * empty slots after them. */
static void assert_draw(const struct draw *d, uint32_t pos, uint32_t neg)
{
	uint8_t *seen = calloc(d->config.n + 1, 1);
	uint32_t got_pos = 0;

	assert_int_equal(d->counts[0], pos + neg);
	assert_int_equal(d->counts[1], pos);
	for (uint32_t s = 0; s < pos + neg; s++) {
		int64_t i = d->idx[s];

		assert_in_range(i, 0, d->config.n - 1);
		assert_false(seen[i]);
		seen[i] = 1;
		assert_int_equal(d->labels_out[s], d->labels[i]);
		assert_in_range(d->labels[i], 0, 1);
		got_pos += d->labels[i] == 1;
		assert_int_equal(d->x_out[s], 3 * i + 1);
	}
	assert_int_equal(got_pos, pos);
	for (uint32_t s = pos + neg; s < d->config.k; s++) {
		assert_int_equal(d->idx[s], -1);
		assert_int_equal(d->labels_out[s], -1);
		assert_int_equal(d->x_out[s], 0);
	}
	free(seen);
}

static void counts_by_hand(void **state)
{
	static const struct {
		uint32_t n, have_pos, have_neg, k, k_pos;
		int short_pos;
		uint32_t pos, neg;
	} cases[] = {
		{1000, 500, 500, 100, 50, 0, 50, 50},
		{1000, 500, 500, 101, 50, 0, 50,
		 51}, /* odd: the spare slot goes to the negatives */
		{1000, 30, 40, 100, 50, 0, 30,
		 40}, /* both short: all of them, the rest of the slots empty */
		{1000, 60, 30, 100, 50, 0, 60,
		 30}, /* negatives short: positives fill up, no ignored item is drawn */
		{1000, 500, 30, 100, 50, 0, 70, 30},
		{1000, 30, 500, 100, 50, 0, 30, 70}, /* positives short */
		{1000, 0, 1000, 100, 50, 0, 0, 100},
		{1000, 1000, 0, 100, 50, 0, 100, 0},
		{1000, 0, 0, 100, 50, 0, 0, 0},
		{50, 25, 25, 100, 50, 0, 25, 25}, /* fewer items than slots */
		{50, 1, 49, 100, 50, 0, 1, 49},
		{0, 0, 0, 10, 5, 0, 0, 0},
		{1000, 500, 500, 0, 0, 0, 0, 0},
		{1, 1, 0, 1, 0, 0, 1,
		 0}, /* no slot is meant for positives, but nobody else wants it */
		{1, 1, 0, 1, 0, 1, 0, 0},
		{1000, 500, 500, 512, 128, 0, 128, 384}, /* one in four */
		{1000, 500, 100, 512, 128, 1, 128,
		 100}, /* Detectron2: positives stay at their share */
		{1000, 500, 100, 512, 128, 0, 412, 100},
		{1000, 20, 900, 512, 128, 1, 20, 492},
		{7, 3, 2, 4294967, 2147483, 0, 3, 2},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sampler_config config = {.n = cases[i].n,
						.k = cases[i].k,
						.k_pos = cases[i].k_pos,
						.short_pos = cases[i].short_pos,
						.seed = i};
		struct draw d;

		draw_open(&d, config, cases[i].have_pos, cases[i].have_neg);
		for (unsigned call = 0; call < 3; call++) {
			assert_int_equal(sampler_run(d.sampler, &d.io), 0);
			assert_draw(&d, cases[i].pos, cases[i].neg);
		}
		draw_close(&d);
	}
}

/* The same seed and call give the same draw; another call, seed or sample another. */
static void draws_follow_the_seed(void **state)
{
	struct sampler_config config = {.n = 1009, .k = 101, .k_pos = 50, .seed = 5};
	int64_t first[101];
	struct draw d, e;

	(void)state;
	draw_open(&d, config, 300, 600);
	assert_int_equal(sampler_run(d.sampler, &d.io), 0);
	memcpy(first, d.idx, sizeof(first));
	assert_int_equal(sampler_run(d.sampler, &d.io), 0);
	assert_int_equal(sampler_calls(d.sampler), 2);
	assert_memory_not_equal(first, d.idx, sizeof(first));
	assert_int_equal(sampler_oracle(&d.config, 0, 0, &d.io), 0);
	assert_memory_equal(first, d.idx, sizeof(first));
	assert_int_equal(sampler_oracle(&d.config, 0, 1, &d.io), 0);
	assert_memory_not_equal(first, d.idx, sizeof(first));
	draw_open(&e, config, 300, 600);
	assert_int_equal(sampler_run(e.sampler, &e.io), 0);
	assert_memory_equal(first, e.idx, sizeof(first));
	e.config.seed = 6;
	assert_int_equal(sampler_oracle(&e.config, 0, 0, &e.io), 0);
	assert_memory_not_equal(first, e.idx, sizeof(first));
	draw_close(&d);
	draw_close(&e);
}

static void wrong_configurations(void **state)
{
	static const struct sampler_config wrong[] = {
		{.n = 0x7fffffff, .batch = 1, .k = 1},
		{.n = 10, .batch = 0, .k = 1},
		{.n = 10, .batch = 65536, .k = 1},
		{.n = 10, .batch = 1, .k = 4, .k_pos = 5},
		{.n = 10, .batch = 1, .k = 0x80000000u},
		{.n = 10, .batch = 1, .variant = SAMPLER_VARIANT_MAX},
		{.n = 10, .batch = 1, .label = SAMPLER_LABEL_MAX},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct sampler *s;

		assert_int_equal(sampler_open(NULL, &wrong[i], &s), -EINVAL);
		assert_true(strlen(sampler_error(s)) > 20);
		sampler_close(s);
	}
}

/* --- uniformity ---------------------------------------------------------------------------------
 */

static void assert_share(const char *what, struct sampler_chi2 chi2, double least, double most)
{
	if (chi2.share < least || chi2.share > most)
		fail_msg(
			"%s: chi-square %.1f with freedom %.0f is larger than %.2f %% of uniform ones",
			what, chi2.value, chi2.freedom, chi2.share * 100);
}

/*
 * Seeds are fixed, so a test passes always or never. Each statistic must lie in the band from 1 %
 * to 99 %. A hundred uniform samplers would give one outlier each side; these seeds were not
 * chosen.
 */
static void uniform_case(const char *what, struct sampler_config config, uint32_t have_pos,
			 uint32_t have_neg, uint64_t draws)
{
	struct sampler_stats stats;
	uint8_t *kinds = calloc(config.n, 1);
	char name[80];
	struct draw d;

	draw_open(&d, config, have_pos, have_neg);
	assert_int_equal(sampler_stats_open(config.n, config.k, &stats), 0);
	for (uint64_t i = 0; i < draws; i++) {
		assert_int_equal(sampler_run(d.sampler, &d.io), 0);
		assert_int_equal(sampler_stats_add(&stats, d.idx, (uint32_t)d.counts[0]), 0);
	}
	for (uint32_t i = 0; i < config.n; i++)
		kinds[i] = d.labels[i] == 1 ? 1 : d.labels[i] == 0 ? 0 : 2;
	snprintf(name, sizeof(name), "%s, positives", what);
	assert_share(name, sampler_stats_inclusion(&stats, kinds, 1, (uint32_t)d.counts[1]), 0.01,
		     0.99);
	snprintf(name, sizeof(name), "%s, negatives", what);
	assert_share(
		name,
		sampler_stats_inclusion(&stats, kinds, 0, (uint32_t)(d.counts[0] - d.counts[1])),
		0.01, 0.99);
	snprintf(name, sizeof(name), "%s, ignored", what);
	assert_share(name, sampler_stats_inclusion(&stats, kinds, 2, 0), 0.01, 0.99);
	snprintf(name, sizeof(name), "%s, rank and slot", what);
	assert_share(name, sampler_stats_slots(&stats), 0.01, 0.99);
	sampler_stats_close(&stats);
	free(kinds);
	draw_close(&d);
}

static void uniform_draws(void **state)
{
	uint64_t draws = long_tests() ? 200000 : 20000;

	(void)state;
	uniform_case("balanced",
		     (struct sampler_config){.n = 1000, .k = 100, .k_pos = 50, .seed = 1}, 500, 500,
		     draws);
	uniform_case("skewed", (struct sampler_config){.n = 1000, .k = 100, .k_pos = 50, .seed = 2},
		     60, 940, draws);
	uniform_case("short", (struct sampler_config){.n = 300, .k = 100, .k_pos = 50, .seed = 3},
		     20, 60, draws);
	uniform_case("ignored",
		     (struct sampler_config){.n = 1000, .k = 100, .k_pos = 50, .seed = 4}, 200, 300,
		     draws);
	uniform_case("few", (struct sampler_config){.n = 40, .k = 9, .k_pos = 4, .seed = 5}, 11, 23,
		     4 * draws);
}

/* Every subset of a few items equally often. */
static void uniform_subsets(void **state)
{
	struct sampler_config config = {.n = 7, .k = 3, .k_pos = 0, .short_pos = 1, .seed = 11};
	uint32_t seen[128] = {0}, draws = 140000, subsets = 0;
	struct sampler_chi2 chi2 = {0, 34, 0};
	double mean = draws / 35.0;
	struct draw d;

	(void)state;
	draw_open(&d, config, 0, 7);
	for (uint32_t i = 0; i < draws; i++) {
		assert_int_equal(sampler_run(d.sampler, &d.io), 0);
		seen[1 << d.idx[0] | 1 << d.idx[1] | 1 << d.idx[2]]++;
	}
	for (unsigned s = 0; s < 128; s++)
		if (__builtin_popcount(s) == 3) {
			subsets++;
			chi2.value += (seen[s] - mean) * (seen[s] - mean) / mean;
		} else {
			assert_int_equal(seen[s], 0);
		}
	assert_int_equal(subsets, 35);
	chi2.share = sampler_chi2_share(chi2.value, chi2.freedom);
	assert_share("subsets of 3 of 7", chi2, 0.01, 0.99);
	draw_close(&d);
}

static void order_words(uint64_t stream, unsigned *words)
{
	for (unsigned r = 0; r < SAMPLER_ROUNDS_MAX; r++)
		sampler_order_round(stream, r, words);
}

/* Every permutation of m slots equally often. */
static void uniform_permutations(void **state)
{
	(void)state;
	for (uint32_t m = 2; m <= 6; m++) {
		uint32_t count = 1, draws, bits = sampler_order_bits(m), *seen;
		struct sampler_chi2 chi2 = {0};
		char name[40];

		for (uint32_t i = 2; i <= m; i++)
			count *= i;
		draws = count * 200;
		seen = calloc(count, sizeof(*seen));
		for (uint32_t d = 0; d < draws; d++) {
			unsigned words[SAMPLER_ORDER_WORDS], slot[6], number = 0;

			order_words(sampler_stream(m, d, 0), words);
			for (unsigned i = 0; i < m; i++) {
				slot[i] = sampler_slot(i, m, bits, words);
				assert_true(slot[i] < m);
			}
			for (unsigned i = 0; i < m; i++) { /* its number in the factorial system */
				unsigned smaller = 0;

				for (unsigned j = i + 1; j < m; j++)
					smaller += slot[j] < slot[i];
				number = number * (m - i) + smaller;
			}
			seen[number]++;
		}
		for (uint32_t i = 0; i < count; i++)
			chi2.value += (seen[i] - 200.0) * (seen[i] - 200.0) / 200.0;
		chi2.freedom = count - 1.0;
		chi2.share = sampler_chi2_share(chi2.value, chi2.freedom);
		snprintf(name, sizeof(name), "permutations of %u", m);
		assert_share(name, chi2, 0.01, 0.99);
		free(seen);
	}
}

/* Slots of two ranks together, in up to 16 equal ranges each. */
static void uniform_pairs(void **state)
{
	static const uint32_t sizes[] = {16, 32, 48, 512, 1024, 4096, 65536};
	uint32_t draws = long_tests() ? 400000 : 60000;

	(void)state;
	for (unsigned q = 0; q < sizeof(sizes) / sizeof(sizes[0]); q++)
		for (unsigned p = 0; p < 3; p++) {
			uint32_t m = sizes[q], bits = sampler_order_bits(m), range = m / 16;
			uint32_t a = p == 1 ? m / 3 : 0, b = p == 0   ? 1
							     : p == 1 ? m / 3 + 1
								      : m - 1;
			uint32_t seen[16][16] = {{0}};
			struct sampler_chi2 chi2 = {0, 255, 0};
			char name[60];

			for (uint32_t d = 0; d < draws; d++) {
				unsigned words[SAMPLER_ORDER_WORDS];

				order_words(sampler_stream(q * 16 + p, d, 0), words);
				seen[sampler_slot(a, m, bits, words) / range]
				    [sampler_slot(b, m, bits, words) / range]++;
			}
			for (unsigned i = 0; i < 16; i++)
				for (unsigned j = 0; j < 16; j++) {
					double mean = draws / 16.0 * (range - (i == j)) / (m - 1.0);

					if (mean > 0)
						chi2.value += (seen[i][j] - mean) *
							      (seen[i][j] - mean) / mean;
					else
						assert_int_equal(seen[i][j], 0);
				}
			chi2.freedom = range == 1 ? 239 : 255;
			chi2.share = sampler_chi2_share(chi2.value, chi2.freedom);
			snprintf(name, sizeof(name), "slots of ranks %u and %u of %u", a, b, m);
			assert_share(name, chi2, 0.001, 0.999);
		}
}

/* A longer order is a bijection too. */
static void orders_are_bijections(void **state)
{
	static const uint32_t sizes[] = {1,    2,     3,     255,   256,    257,
					 1000, 65535, 65536, 65537, 1000003};

	(void)state;
	for (unsigned q = 0; q < sizeof(sizes) / sizeof(sizes[0]); q++) {
		uint32_t m = sizes[q], bits = sampler_order_bits(m);
		uint8_t *seen = calloc(m, 1);
		unsigned words[SAMPLER_ORDER_WORDS];

		order_words(sampler_stream(q, 1, 2), words);
		for (uint32_t r = 0; r < m; r++) {
			uint32_t s = sampler_slot(r, m, bits, words);

			assert_true(s < m && !seen[s]);
			seen[s] = 1;
		}
		free(seen);
	}
}

/* The statistics see a sampler that is not uniform: one with the rarer class last, as published
 * code has it. */
static void statistics_notice(void **state)
{
	struct sampler_config config = {.n = 1000, .k = 100, .k_pos = 50, .seed = 1};
	struct sampler_stats stats;
	uint8_t kinds[1000];
	struct draw d;

	(void)state;
	draw_open(&d, config, 500, 500);
	assert_int_equal(sampler_stats_open(config.n, config.k, &stats), 0);
	for (unsigned call = 0; call < 2000; call++) {
		unsigned end = 0;

		assert_int_equal(sampler_run(d.sampler, &d.io), 0);
		for (unsigned s = 0; s < 100; s++) /* negatives to the front */
			if (!d.labels[d.idx[s]]) {
				int64_t t = d.idx[end];

				d.idx[end++] = d.idx[s];
				d.idx[s] = t;
			}
		assert_int_equal(sampler_stats_add(&stats, d.idx, 100), 0);
	}
	for (unsigned i = 0; i < 1000; i++)
		kinds[i] = d.labels[i] == 1;
	assert_true(sampler_stats_slots(&stats).share > 0.9999);
	assert_share("inclusion in spite of the order",
		     sampler_stats_inclusion(&stats, kinds, 1, 50), 0.01, 0.99);
	d.idx[0] = d.idx[1];
	assert_int_equal(sampler_stats_add(&stats, d.idx, 100), -EINVAL);
	assert_int_equal(sampler_stats_add(&stats, d.idx, 99), -EINVAL);
	sampler_stats_close(&stats);
	draw_close(&d);
	/* 5 % points of the chi-square distribution, from its tables */
	assert_true(fabs(sampler_chi2_share(18.307, 10) - 0.95) < 0.002);
	assert_true(fabs(sampler_chi2_share(124.342, 100) - 0.95) < 0.001);
	assert_true(fabs(sampler_chi2_share(77.929, 100) - 0.05) < 0.001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_by_hand),       cmocka_unit_test(draws_follow_the_seed),
		cmocka_unit_test(wrong_configurations), cmocka_unit_test(orders_are_bijections),
		cmocka_unit_test(uniform_draws),        cmocka_unit_test(uniform_subsets),
		cmocka_unit_test(uniform_permutations), cmocka_unit_test(uniform_pairs),
		cmocka_unit_test(statistics_notice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
