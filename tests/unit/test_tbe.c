/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedding's CPU back end and oracle: conversions over all values, rounding, random cases, clear
 * errors; and through the driver API on the simulated driver, or on a real one with
 * WAYLAY_TEST_GPU=1.
 */
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/cpu/tbe_cpu.h"
#include "kernels/cuda.h"
#include "kernels/tbe.h"
#include "tests/unit/tbe_cases.h"

static struct cuda *cuda;

static float from_bits(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* Every FP16 number survives, and what lies between two goes to the nearer, ties to the even one. */
static void half_conversions(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 0x7c00; bits++) {
		float v = tbe_cpu_from_f16((uint16_t)bits),
		      above = tbe_cpu_from_f16((uint16_t)(bits + 1));
		float middle = bits == 0x7bff ? 65520.0f : (v + above) / 2;

		assert_int_equal(tbe_cpu_to_f16(v), bits);
		assert_int_equal(tbe_cpu_to_f16(-v), bits | 0x8000);
		assert_int_equal(tbe_cpu_to_f16(middle), bits + (bits & 1));
		assert_int_equal(tbe_cpu_to_f16(nextafterf(middle, 0)), bits);
		assert_int_equal(tbe_cpu_to_f16(nextafterf(middle, INFINITY)), bits + 1);
	}
	assert_true(isnan(tbe_cpu_from_f16(tbe_cpu_to_f16(NAN))));
	assert_int_equal(tbe_cpu_to_f16(INFINITY), 0x7c00);
	assert_int_equal(tbe_bf16_round(0x3f808000), 0x3f80);
	assert_int_equal(tbe_bf16_round(0x3f818000), 0x3f82);
	assert_int_equal(tbe_bf16_round(0x7f800001), 0x7fc0);
}

/* Over all noise, a value goes up as often as its distance says, and never further than a neighbour. */
static void stochastic_rounding(void **state)
{
	static const float values[] = {1.0003f, -2.7183f, 0.1f,    6.1e-5f, 3.2e-6f,
				       1.7e-7f, -4e-8f,   1024.3f, 65519.0f};

	(void)state;
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		uint32_t bits;
		double sum[2] = {0, 0};

		memcpy(&bits, &values[i], 4);
		for (uint32_t noise = 0; noise < 65536; noise++) {
			sum[0] +=
				(double)tbe_cpu_from_f16((uint16_t)tbe_f16_stochastic(bits, noise));
			sum[1] += (double)from_bits(tbe_bf16_stochastic(bits, noise) << 16);
		}
		if (fabsf(values[i]) < 60000)
			assert_true(fabs(sum[0] / 65536 - (double)values[i]) <=
				    0x1p-24 * fabs((double)values[i]) + 0x1p-39);
		assert_true(fabs(sum[1] / 65536 - (double)values[i]) <=
			    0x1p-22 * fabs((double)values[i]));
	}
	assert_int_equal(tbe_f16_stochastic(0x7f800000, 65535), 0x7c00);
	assert_int_equal(tbe_bf16_stochastic(0xff800000, 65535), 0xff80);
	assert_int_equal(tbe_f16_stochastic(0x3c003c00 | 0x80000000, 0),
			 0x8000u | tbe_f16_stochastic(0x3c003c00, 0));
}

static void run(struct cuda *on, uint64_t from, uint64_t count, uint32_t most)
{
	char why[400];

	for (uint64_t seed = from; seed < from + count; seed++)
		if (tbe_case_run(on, seed, most, why, sizeof(why)))
			fail_msg("case %llu: %s", (unsigned long long)seed, why);
}

static uint64_t cases(uint64_t otherwise)
{
	const char *text = getenv("WAYLAY_TEST_CASES");

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void cpu_cases(void **state)
{
	(void)state;
	if (!getenv("WAYLAY_TEST_GPU"))
		run(NULL, 0, cases(getenv("WAYLAY_TEST_LONG") ? 10000 : 1500), 60);
}

static void driver_cases(void **state)
{
	(void)state;
	if (!cuda)
		skip();
	run(cuda, 0, cases(100), 300);
	run(cuda, 1000072, 1, 200000); /* sums beyond what FP32 holds exactly, */
	run(cuda, 1000077, 1, 200000); /* and beyond what FP16 holds at all */
	if (getenv("WAYLAY_TEST_GPU"))
		run(cuda, 1000000, cases(100) / 20, 200000);
}

/* A table by hand: what the sums must be is written down here. */
static void by_hand(void **state)
{
	static const struct tbe_shape table = {3, 4};
	static const uint32_t map[] = {0, 0};
	float weights[16] = {1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400}, out[16], grad[16];
	int64_t indices[] = {0, 2, 2, -1, 1, 0}, offsets[] = {0, 3, 3, 5, 6};
	struct tbe_config config = {.tables = &table,
				    .feature_table = map,
				    .table_count = 1,
				    .feature_count = 2,
				    .batch = 2,
				    .max_indices = 6,
				    .index_bytes = 8,
				    .pooling = TBE_MEAN,
				    .training = 1,
				    .rate = 0.5f};
	struct tbe_io io = {.weights = (uintptr_t)weights,
			    .indices = (uintptr_t)indices,
			    .offsets = (uintptr_t)offsets,
			    .out = (uintptr_t)out,
			    .grad = (uintptr_t)grad,
			    .n = 6};
	struct tbe *tbe;

	(void)state;
	assert_int_equal(tbe_open(NULL, &config, &tbe), 0);
	assert_int_equal(tbe_forward(tbe, &io), 0);
	/* [bag][feature]: feature 0 has bags {0, 2, 2} and {}, feature 1 {pruned, 1} and {0} */
	assert_float_equal(out[0], 67, 1e-4);
	assert_float_equal(out[4], 5, 1e-6);
	assert_float_equal(out[8], 0, 0);
	assert_float_equal(out[15], 4, 0);
	for (int i = 0; i < 16; i++)
		grad[i] = 3;
	assert_int_equal(tbe_backward(tbe, &io), 0);
	assert_float_equal(weights[0], 1 - 0.5f * (1 + 3),
			   1e-6); /* a third of bag 0, all of the last */
	assert_float_equal(weights[4], 10 - 0.5f * 1.5f, 1e-6);
	assert_float_equal(weights[8], 100 - 0.5f * 2, 1e-5);
	tbe_close(tbe);
}

static void errors_have_words(void **state)
{
	static const struct tbe_shape table = {10, 8}, odd = {10, 6}, none = {0, 8};
	static const uint32_t map[] = {0}, beyond[] = {1};
	const struct tbe_config good = {.tables = &table,
					.feature_table = map,
					.table_count = 1,
					.feature_count = 1,
					.batch = 1,
					.max_indices = 4,
					.index_bytes = 4};
	int32_t indices[4] = {1, 10, 2, 3}, offsets[2] = {0, 4};
	struct tbe_io io = {.indices = (uintptr_t)indices, .offsets = (uintptr_t)offsets, .n = 4};
	struct tbe_bounds_report report;
	struct tbe_config c;
	struct tbe *tbe;

	(void)state;
#define REFUSED(change, words)                                                                     \
	do {                                                                                       \
		c = good;                                                                          \
		change;                                                                            \
		assert_int_equal(tbe_open(NULL, &c, &tbe), -EINVAL);                               \
		assert_non_null(strstr(tbe_error(tbe), words));                                    \
		tbe_close(tbe);                                                                    \
	} while (0)
	REFUSED(c.tables = &odd, "a multiple of 4 columns");
	REFUSED(c.tables = &none, "1 to 2^31 - 1 rows");
	REFUSED(c.feature_table = beyond, "table does not exist");
	REFUSED(c.index_bytes = 2, "4 or 8 bytes");
	REFUSED(c.feature_count = 0, "1 to 65534 features");
	REFUSED(c.max_indices = (1u << 31) - 1, "2^31 - 2 indices");
	REFUSED((c.weighted = 1, c.pooling = TBE_NONE), "need pooling");
	REFUSED(c.warp_bags = 32, "at most 31");
	assert_int_equal(tbe_open(NULL, &good, &tbe), 0);
	assert_int_equal(tbe_backward(tbe, &io), -EINVAL);
	assert_non_null(strstr(tbe_error(tbe), "for training"));
	assert_int_equal(tbe_bounds(tbe, &io, TBE_BOUNDS_FATAL, &report), -ERANGE);
	assert_non_null(strstr(
		tbe_error(tbe),
		"the first is 10 at position 1, in bag 0 of feature 0, whose table has 10 rows"));
	io.n = 5;
	assert_int_equal(tbe_forward(tbe, &io), -EINVAL);
	assert_non_null(strstr(tbe_error(tbe), "more indices"));
	tbe_close(tbe);
	if (cuda) { /* memory that is not there, and nothing is leaked when it fails */
		size_t before, after, total;

		c = good;
		c.training = 1;
		c.max_indices = (1u << 31) - 2;
		assert_int_equal(cuda->api.mem_info(&before, &total), 0);
		if (total < (size_t)40 << 30) { /* four arrays of 8 GiB */
			assert_int_equal(tbe_open(cuda, &c, &tbe), -ENOMEM);
			assert_non_null(strstr(tbe_error(tbe), "bytes of device memory for"));
			tbe_close(tbe);
			assert_int_equal(cuda->api.mem_info(&after, &total), 0);
			assert_int_equal(before, after);
		}
	}
}

/* The simulated driver beside this program; once it is in the process, "libcuda.so.1" means it. */
static void open_simulated(void)
{
	char path[PATH_MAX], library[PATH_MAX + 40];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (len <= 0)
		return;
	path[len] = 0;
	snprintf(library, sizeof(library), "%s/fakecuda/libcuda.so.1", dirname(path));
	(void)dlopen(library, RTLD_NOW | RTLD_GLOBAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_conversions), cmocka_unit_test(stochastic_rounding),
		cmocka_unit_test(by_hand),          cmocka_unit_test(cpu_cases),
		cmocka_unit_test(driver_cases),     cmocka_unit_test(errors_have_words),
	};
	int failures;

	if (!getenv("WAYLAY_TEST_GPU"))
		open_simulated();
	if (cuda_open(0, &cuda)) {
		fprintf(stderr, "no driver: %s\n", cuda ? cuda->error : "out of memory");
		cuda_close(cuda);
		cuda = NULL;
	}
	failures = cmocka_run_group_tests(tests, NULL, NULL);
	cuda_close(cuda);
	return failures;
}
