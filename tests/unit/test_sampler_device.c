/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's device code and its host side against the oracle, bit for bit, with the device
 * code's own lines running on the CPU (simt.h): all variants but the captured one, edge cases and
 * random ones, one block and several a sample.
 */
#include <errno.h>
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
#include "kernels/device/sampler.cu"

#include "kernels/cuda.h"
#include "kernels/perf_data.h"
#include "tests/unit/simt_driver.h"

#define KERNEL(name)                                                                               \
	static void enter_##name(const void *args)                                                 \
	{                                                                                          \
		name(*(const struct sampler_args *)args);                                          \
	}
#include "kernels/device/sampler.def"
#undef KERNEL

#define KERNEL(name) {#name, enter_##name},
struct CUfunc_st simt_functions[] = {
#include "kernels/device/sampler.def"
};
#undef KERNEL
const unsigned simt_function_count = sizeof(simt_functions) / sizeof(simt_functions[0]);

/* --- tests --------------------------------------------------------------------------------------
 */

struct shape {
	struct sampler_config config;
	double positive, ignored;
	int shared_bytes; /* 0: plenty */
	int calls;
};

static void run_shape(const struct shape *shape)
{
	struct cuda cuda = simt_driver();
	struct perf_data data = {.cuda = &cuda,
				 .config = shape->config,
				 .positive = shape->positive,
				 .ignored = shape->ignored};
	struct sampler *sampler;
	uint64_t drawn;

	if (shape->shared_bytes)
		cuda.shared_bytes = shape->shared_bytes;
	if (perf_data_open(&data))
		fail_msg("%s", data.error);
	if (sampler_open(&cuda, &shape->config, &sampler))
		fail_msg("%s", sampler_error(sampler));
	for (int i = 0; i < shape->calls; i++) {
		if (sampler_run(sampler, &data.io))
			fail_msg("%s", sampler_error(sampler));
		if (perf_data_check(&data, (uint64_t)i, &drawn))
			fail_msg(
				"%s n %u batch %u k %u (%u) row %u label %u positive %.3f ignored %.3f seed %llu window %.2f "
				"blocks %u: %s",
				sampler_variant_names[shape->config.variant], shape->config.n,
				shape->config.batch, shape->config.k, shape->config.k_pos,
				shape->config.row_bytes, (unsigned)shape->config.label,
				shape->positive, shape->ignored,
				(unsigned long long)shape->config.seed,
				(double)shape->config.window, shape->config.blocks, data.error);
	}
	sampler_close(sampler);
	perf_data_close(&data);
}

static const enum sampler_variant variants[] = {SAMPLER_NAIVE, SAMPLER_STATIC, SAMPLER_FUSED};

static void edge_cases(void **state)
{
	static const struct {
		uint32_t n, k;
		double positive, ignored;
	} cases[] = {
		{0, 10, 0.5, 0},         {1, 1, 1, 0},        {1, 0, 1, 0},
		{1000, 0, 0.5, 0},       {1000, 100, 0, 0},   {1000, 100, 1, 0},
		{1000, 100, 0.5, 1},     {1000, 101, 0.5, 0}, {1000, 1000, 0.5, 0},
		{1000, 1500, 0.5, 0},    {997, 100, 0.06, 0}, {997, 100, 0.03, 0.93},
		{1000, 100, 0.06, 0.91}, {1000, 1, 0.5, 0},   {31, 7, 0.5, 0.1},
		{2017, 1999, 0.3, 0.1},
	};

	(void)state;
	for (unsigned v = 0; v < 3; v++)
		for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			for (int short_pos = 0; short_pos < 2; short_pos++) {
				struct shape s = {.config = {.variant = variants[v],
							     .label = (enum sampler_label)(i % 3),
							     .n = cases[i].n,
							     .batch = 1,
							     .k = cases[i].k,
							     .k_pos = cases[i].k / 2,
							     .row_bytes = 12,
							     .short_pos = short_pos,
							     .seed = i},
						  .positive = cases[i].positive,
						  .ignored = cases[i].ignored,
						  .calls = 2};

				run_shape(&s);
			}
}

static uint64_t random_state = 88172645463325252ull;

static uint32_t pick(uint32_t below)
{
	random_state = sampler_mix64(random_state + 1);
	return (uint32_t)(random_state >> 33) % below;
}

/* n up to 3000: one block a sample unless `blocks` says more. */
static void random_cases(void **state)
{
	static const double shares[] = {0, 0.01, 0.1, 0.5, 0.9, 1};
	static const uint32_t rows[] = {0, 1, 2, 4, 6, 12, 16, 64, 80, 528};
	int cases = getenv("WAYLAY_TEST_LONG") ? 2000 : 60;

	(void)state;
	for (int i = 0; i < cases; i++) {
		struct shape s = {
			.config = {.variant = variants[i % 3],
				   .label = (enum sampler_label)pick(3),
				   .n = pick(3000),
				   .batch = 1 + pick(3),
				   .row_bytes = rows[pick(10)],
				   .short_pos = (int)pick(2),
				   .seed = i,
				   .window = pick(4) == 0   ? 0.3f
					     : pick(5) == 0 ? -1
							    : 0,
				   .blocks = pick(3) == 0 ? 2 + pick(3) : 0},
			.positive = shares[pick(6)],
			.shared_bytes = pick(4) == 0 ? (int)sizeof(struct sampler_fused_shared) : 0,
			.calls = 2};

		s.ignored = s.positive < 1 ? shares[pick(3)] : 0;
		s.config.k = pick(pick(2) ? s.config.n + 1 : s.config.n * 2 + 2);
		s.config.k_pos = pick(2) ? s.config.k / 2 : pick(s.config.k + 1);
		simt_shuffle(i % 2 ? sampler_mix64((uint64_t)i) : 0);
		run_shape(&s);
	}
	simt_shuffle(0);
}

/* Every block count that the emulated device can run at once, with a window that holds and one that
 * misses. */
static void groups_of_blocks(void **state)
{
	(void)state;
	for (uint32_t blocks = 1; blocks <= 5; blocks++)
		for (int miss = 0; miss < 2; miss++) {
			struct shape s = {.config = {.variant = SAMPLER_FUSED,
						     .label = (enum sampler_label)(blocks % 3),
						     .n = 20011,
						     .batch = miss ? 1 : 3,
						     .k = 2003,
						     .k_pos = 1001,
						     .row_bytes = 16,
						     .seed = blocks,
						     .window = miss ? -1 : 0,
						     .blocks = blocks},
					  .positive = 0.4,
					  .ignored = 0.2,
					  .calls = miss ? 1 : 2};

			simt_shuffle(blocks % 2 ? blocks : 0);
			run_shape(&s);
		}
	simt_shuffle(0);
}

/* So many items under the window that a block cannot hold them as candidates. */
static void too_many_candidates(void **state)
{
	struct shape s = {.config = {.variant = SAMPLER_FUSED,
				     .label = SAMPLER_U8,
				     .n = 12007,
				     .batch = 1,
				     .k = 6007,
				     .k_pos = 3003,
				     .row_bytes = 4,
				     .seed = 3,
				     .window = 1000,
				     .blocks = 1},
			  .positive = 0.5,
			  .calls = 1};

	(void)state;
	run_shape(&s);
	s.config.blocks = 2;
	run_shape(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edge_cases),
		cmocka_unit_test(random_cases),
		cmocka_unit_test(groups_of_blocks),
		cmocka_unit_test(too_many_candidates),
	};

#if defined(__SANITIZE_THREAD__)
	fprintf(stderr, "skipped: the thread sanitizer does not follow changes of stack\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
