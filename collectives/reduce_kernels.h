/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of reduce_kernels.inc, compiled once for each instruction set, and conversions of the
 * 16-bit floating-point types. Private to dtype.c and reduce.c. */
#ifndef WAYLAY_COLLECTIVES_REDUCE_KERNELS_H
#define WAYLAY_COLLECTIVES_REDUCE_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "collectives/dtype.h"

typedef void reduce_fn(void *out, const void *a, const void *b, size_t count);
typedef reduce_fn *const reduce_table[COLL_TYPE_MAX][COLL_AVG];

extern reduce_table reduce_baseline;
#if defined(__x86_64__)
extern reduce_table reduce_avx2, reduce_avx512;
#endif

static inline float float_of_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t bits_of_float(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* Without a branch, so that loops over them can be vectorised. */
static inline float half_to_float(uint16_t h)
{
	/* The half's exponent and fraction at a float's place are the value times 2^-112;
	 * multiplying scales normal and subnormal numbers alike. Infinities and NaNs come out as
	 * large numbers and get the top exponent instead. */
	uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t scaled = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
	uint32_t special = magnitude | 0x7f800000u;

	return float_of_bits(sign | (magnitude >= 0x0f800000u ? special : scaled));
}

static inline uint16_t float_to_half(float f)
{
	uint32_t bits = bits_of_float(f);
	uint32_t sign = bits >> 16 & 0x8000;
	uint32_t magnitude = bits & 0x7fffffff;
	/* Normal results: rebase the exponent, round to nearest even on bit 13. */
	uint32_t normal = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
	/* Subnormal results: adding 0.5 lets the FPU round at the half's last place. */
	uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
	uint32_t result = magnitude < 0x38800000u ? subnormal : normal;

	result = magnitude >= 0x477ff000u ? 0x7c00 : result; /* rounds to infinity, or is it */
	result = magnitude > 0x7f800000u ? 0x7e00 | (magnitude >> 13 & 0x3ff) : result; /* NaN */
	return (uint16_t)(sign | result);
}

static inline float bfloat_to_float(uint16_t b)
{
	return float_of_bits((uint32_t)b << 16);
}

static inline uint16_t float_to_bfloat(float f)
{
	uint32_t bits = bits_of_float(f);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000u ? bits >> 16 | 0x40 : rounded);
}

#endif
