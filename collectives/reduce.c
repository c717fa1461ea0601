/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction loops for each instruction set; see reduce_kernels.inc. */
#include "collectives/reduce_kernels.h"

#define KERNEL(name) name##_baseline
#define KERNEL_TARGET
#define KERNEL_TABLE reduce_baseline
#include "collectives/reduce_kernels.inc"

#if defined(__x86_64__)
#include <immintrin.h>

/* The CPU's conversions round to nearest even and keep NaNs, as the portable ones do. The operands
 * of min and max are in the order that gives `a < b ? a : b`. */
#define HALF_VECTOR      8
#define HALF_LOAD(p)     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define HALF_STORE(p, v) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph(v, 0))
#define HALF_sum_f16     _mm256_add_ps
#define HALF_prod_f16    _mm256_mul_ps
#define HALF_min_f16     _mm256_min_ps
#define HALF_max_f16     _mm256_max_ps

#define KERNEL(name)  name##_avx2
#define KERNEL_TARGET __attribute__((target("avx2,f16c")))
#define KERNEL_TABLE  reduce_avx2
#include "collectives/reduce_kernels.inc"

#define KERNEL(name)  name##_avx512
#define KERNEL_TARGET __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl")))
#define KERNEL_TABLE  reduce_avx512
#include "collectives/reduce_kernels.inc"
#endif
