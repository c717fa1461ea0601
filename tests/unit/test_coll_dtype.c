/* SPDX-License-Identifier: Apache-2.0 */
/* Types and reductions: conversions of the 16-bit floats over all their values, and every loop
 * against arithmetic in double, whatever instruction set this CPU has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/dtype.h"
#include "collectives/reduce_kernels.h"

#define COUNT 1013 /* leaves a tail for every vector width */

static void test_names(void **state)
{
	enum coll_type type;
	enum coll_op op;

	(void)state;
	for (int i = 0; i < COLL_TYPE_MAX; i++) {
		assert_int_equal(coll_type_parse(coll_type_name((enum coll_type)i), &type), 0);
		assert_int_equal(type, i);
	}
	for (int i = 0; i < COLL_OP_MAX; i++) {
		assert_int_equal(coll_op_parse(coll_op_name((enum coll_op)i), &op), 0);
		assert_int_equal(op, i);
	}
	assert_int_equal(coll_type_parse("half", &type), 0);
	assert_int_equal(type, COLL_FLOAT16);
	assert_int_equal(coll_type_parse("float8", &type), -EINVAL);
	assert_int_equal(coll_op_parse("", &op), -EINVAL);
}

/* The definition of a half, spelled out. */
static double half_value(uint16_t h)
{
	int exponent = h >> 10 & 31, fraction = h & 1023;
	double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

	if (exponent == 31)
		v = fraction ? NAN : INFINITY;
	return h & 0x8000 ? -v : v;
}

static void test_half(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 65536; h++) {
		double want = half_value((uint16_t)h);
		float got = half_to_float((uint16_t)h);

		if (isnan(want)) {
			assert_true(isnan(got));
			assert_true(isnan(half_to_float(float_to_half(got))));
			continue;
		}
		assert_true(got == (float)want && !signbit(got) == !signbit(want));
		assert_int_equal(float_to_half(got), h);
	}
	/* Between two neighbours: nearest, the middle to the even one. */
	for (uint32_t h = 0; h < 0x7bff; h++) {
		float low = (float)half_value((uint16_t)h);
		float middle =
			(float)((half_value((uint16_t)h) + half_value((uint16_t)(h + 1))) / 2);

		assert_int_equal(float_to_half(middle), h + (h & 1));
		assert_int_equal(float_to_half(nextafterf(middle, INFINITY)), h + 1);
		assert_int_equal(float_to_half(nextafterf(middle, low)), h);
	}
	assert_int_equal(float_to_half(65519.996f), 0x7bff);
	assert_int_equal(float_to_half(65520.0f), 0x7c00);
	assert_int_equal(float_to_half(-FLT_MAX), 0xfc00);
	assert_int_equal(float_to_half(-0.0f), 0x8000);
	assert_int_equal(float_to_half(1e-10f), 0);
}

static void test_bfloat(void **state)
{
	(void)state;
	for (uint32_t b = 0; b < 65536; b++) {
		float f = bfloat_to_float((uint16_t)b);

		if (isnan(f))
			assert_true(isnan(bfloat_to_float(float_to_bfloat(f))));
		else
			assert_int_equal(float_to_bfloat(f), b);
	}
	assert_int_equal(float_to_bfloat(float_of_bits(0x3f808000)), 0x3f80); /* tie, to even */
	assert_int_equal(float_to_bfloat(float_of_bits(0x3f818000)), 0x3f82);
	assert_int_equal(float_to_bfloat(float_of_bits(0x3f808001)), 0x3f81);
	assert_true(isinf(bfloat_to_float(float_to_bfloat(FLT_MAX))));
}

static double apply(enum coll_op op, double a, double b)
{
	switch (op) {
	case COLL_PROD:
		return a * b;
	case COLL_MIN:
		return a < b ? a : b;
	case COLL_MAX:
		return a > b ? a : b;
	default:
		return a + b;
	}
}

static int wrong_at(enum coll_type type, enum coll_op op, const void *out, const void *a,
		    const void *b)
{
	char want[8], got[8];
	size_t bytes = coll_type_bytes(type);

	for (size_t i = 0; i < COUNT; i++) {
		coll_store(want, 0, type, apply(op, coll_load(a, i, type), coll_load(b, i, type)));
		memcpy(got, (const char *)out + i * bytes, bytes);
		if (memcmp(want, got, bytes) != 0)
			return (int)i;
	}
	return -1;
}

static void fill(void *data, enum coll_type type, int seed)
{
	for (size_t i = 0; i < COUNT; i++) {
		int v = (int)((i * 31 + (size_t)seed * 17) % 97);
		double x = type == COLL_UINT8 ? v : v - 48;

		if (type >= COLL_FLOAT16)
			x = x * 0.37 + seed; /* so that results need rounding */
		coll_store(data, i, type, x);
	}
}

static void test_reduce(void **state)
{
	uint64_t a[COUNT], b[COUNT], out[COUNT], keep[COUNT];

	(void)state;
	for (int t = 0; t < COLL_TYPE_MAX; t++) {
		enum coll_type type = (enum coll_type)t;
		size_t bytes = COUNT * coll_type_bytes(type);

		for (int o = 0; o < COLL_OP_MAX; o++) {
			enum coll_op op = (enum coll_op)o;

			fill(a, type, 1);
			fill(b, type, 2);
			memset(out, 0x55, sizeof(out));
			coll_reduce(out, a, b, COUNT, type, op);
			assert_int_equal(wrong_at(type, op, out, a, b), -1);
			if (bytes < sizeof(out)) /* not one byte too many */
				assert_int_equal(((uint8_t *)out)[bytes], 0x55);
			memcpy(keep, a, sizeof(a));
			coll_reduce(a, a, b, COUNT, type, op); /* in place, on the left */
			assert_memory_equal(a, out, bytes);
			coll_reduce(b, keep, b, COUNT, type, op); /* and on the right */
			assert_memory_equal(b, out, bytes);
		}
	}
}

#if defined(__x86_64__)
/* All instruction sets give the same bits, unaligned too. */
static void test_same_bits(void **state)
{
	uint64_t a[COUNT + 1], b[COUNT + 1], x[COUNT], y[COUNT];

	(void)state;
	if (strcmp(coll_reduce_isa(), "baseline") == 0)
		skip(); /* nothing to compare */
	for (int t = 0; t < COLL_TYPE_MAX; t++) {
		enum coll_type type = (enum coll_type)t;
		size_t one = coll_type_bytes(type);

		fill((char *)a + one, type, 3);
		fill((char *)b + one, type, 4);
		for (int op = 0; op < COLL_AVG; op++) {
			reduce_baseline[type][op](x, (char *)a + one, (char *)b + one, COUNT);
			reduce_avx2[type][op](y, (char *)a + one, (char *)b + one, COUNT);
			assert_memory_equal(x, y, COUNT * one);
			if (strcmp(coll_reduce_isa(), "avx512") != 0)
				continue;
			reduce_avx512[type][op](y, (char *)a + one, (char *)b + one, COUNT);
			assert_memory_equal(x, y, COUNT * one);
		}
	}
}
#endif

static void test_average(void **state)
{
	uint64_t data[COUNT];

	(void)state;
	for (int t = 0; t < COLL_TYPE_MAX; t++) {
		enum coll_type type = (enum coll_type)t;
		char want[8];

		fill(data, type, 5);
		coll_average(data, COUNT, type, 3);
		for (size_t i = 0; i < COUNT; i++) {
			uint64_t one[COUNT];
			double sum;

			fill(one, type, 5);
			sum = coll_load(one, i, type) / 3;
			if (type < COLL_FLOAT16)
				sum = trunc(sum);
			coll_store(want, 0, type, sum);
			assert_memory_equal((char *)data + i * coll_type_bytes(type), want,
					    coll_type_bytes(type));
			i += 40;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_bfloat),
		cmocka_unit_test(test_reduce),
#if defined(__x86_64__)
		cmocka_unit_test(test_same_bits),
#endif
		cmocka_unit_test(test_average),
	};

	return cmocka_run_group_tests_name("coll_dtype", tests, NULL, NULL);
}
