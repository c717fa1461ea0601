/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding's device code, its own lines running on the CPU (simt.h), against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#define DEVICE_EMULATION "tests/unit/simt.h"
#include "kernels/device/tbe.cu"

#include "kernels/tbe_shared.h"
#include "tests/unit/simt_driver.h"
#include "tests/unit/tbe_cases.h"

_Static_assert(sizeof(struct tbe_small_shared) <= TBE_SMALL_SHARED_BYTES,
	       "what the host launches with");
_Static_assert(sizeof(struct tbe_small_grad_shared) <= TBE_SMALL_GRAD_SHARED_BYTES,
	       "what the host launches with");
_Static_assert(sizeof(struct tbe_sort_shared) <= TBE_SORT_SHARED_BYTES,
	       "what the host launches with");
_Static_assert(TBE_BLOCK / 32 * sizeof(struct tbe_stretch) <= TBE_SHORT_SHARED_BYTES,
	       "what the host launches with");
_Static_assert(TBE_RING_F32 * 1024 <= TBE_RING_BYTES && TBE_RING_16 * 768 <= TBE_RING_BYTES,
	       "room for what is under way");

#define KERNEL(name)                                                                               \
	static void enter_##name(const void *args)                                                 \
	{                                                                                          \
		name(*(const struct tbe_args *)args);                                              \
	}
#include "kernels/device/tbe.def"
#undef KERNEL

#define KERNEL(name) {#name, enter_##name},
struct CUfunc_st simt_functions[] = {
#include "kernels/device/tbe.def"
};
#undef KERNEL
const unsigned simt_function_count = sizeof(simt_functions) / sizeof(simt_functions[0]);

static void run(uint64_t from, uint64_t to, uint32_t most)
{
	for (uint64_t seed = from; seed < to; seed++) {
		struct cuda cuda = simt_driver();
		char why[400];

		simt_shuffle(seed % 2 ? sampler_mix64(seed) : 0);
		if (tbe_case_run(&cuda, seed, most, why, sizeof(why)))
			fail_msg("case %llu: %s", (unsigned long long)seed, why);
	}
	simt_shuffle(0);
}

static void random_cases(void **state)
{
	const char *cases = getenv("WAYLAY_TEST_CASES");

	(void)state;
	run(0, cases ? (uint64_t)atoi(cases) : 40, 700);
}

/* Runs of many pieces, several tiles. */
static void larger_cases(void **state)
{
	(void)state;
	run(100000, getenv("WAYLAY_TEST_LONG") ? 100060 : 100003, 14000);
}

/* Sums of 6.7 million that FP32 holds only to the half: within the bound, though not the oracle's bits.
 * And sums that FP16 does not hold at all. */
static void sums_beyond_what_is_exact(void **state)
{
	(void)state;
	if (!getenv("WAYLAY_TEST_LONG")) /* a quarter of a minute */
		skip();
	run(1000072, 1000073, 200000);
	run(1000077, 1000078, 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_cases),
		cmocka_unit_test(sums_beyond_what_is_exact),
		cmocka_unit_test(larger_cases),
	};

#if defined(__SANITIZE_THREAD__)
	fprintf(stderr, "skipped: the thread sanitizer does not follow changes of stack\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
