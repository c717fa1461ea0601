/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All variants through the driver API against the oracle: random cases on the simulated driver
 * where it has been built, on a real one with WAYLAY_TEST_GPU=1. Exits 77 where there is no driver.
 */
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/cuda.h"
#include "kernels/device/sampler_rule.h"
#include "kernels/image.h"
#include "kernels/perf_data.h"

static struct cuda *cuda;
static uint64_t random_state = 2463534242ull;

static uint32_t pick(uint32_t below)
{
	random_state = sampler_mix64(random_state + 1);
	return (uint32_t)(random_state >> 33) % below;
}

static void run_case(struct sampler_config config, double positive, double ignored, int calls)
{
	struct perf_data data = {
		.cuda = cuda, .config = config, .positive = positive, .ignored = ignored};
	struct sampler *sampler;
	uint64_t drawn;

	if (perf_data_open(&data))
		fail_msg("%s", data.error);
	if (sampler_open(cuda, &config, &sampler))
		fail_msg("%s", sampler_error(sampler));
	for (int i = 0; i < calls; i++)
		if (sampler_run(sampler, &data.io))
			fail_msg("%s", sampler_error(sampler));
	if (cuda_wait(cuda))
		fail_msg("%s", cuda->error);
	if (perf_data_check(&data, (uint64_t)calls - 1, &drawn))
		fail_msg(
			"%s n %u batch %u k %u (%u) row %u label %u positive %.3f ignored %.3f seed %llu window %.2f blocks %u "
			"call %d: %s",
			sampler_variant_names[config.variant], config.n, config.batch, config.k,
			config.k_pos, config.row_bytes, (unsigned)config.label, positive, ignored,
			(unsigned long long)config.seed, (double)config.window, config.blocks,
			calls - 1, data.error);
	sampler_close(sampler);
	perf_data_close(&data);
}

/* WAYLAY_TEST_CASES sets how many; each runs every variant. */
static void random_cases(void **state)
{
	static const double shares[] = {0, 0.001, 0.01, 0.1, 0.5, 0.9, 1};
	static const uint32_t rows[] = {0, 1, 2, 4, 6, 12, 16, 32, 64, 80, 528};
	const char *cases = getenv("WAYLAY_TEST_CASES");
	int count = cases ? atoi(cases) : 150;

	(void)state;
	for (int i = 0; i < count; i++) {
		struct sampler_config config = {.label = (enum sampler_label)pick(3),
						.n = pick(pick(8) ? 3000 : 60000),
						.batch = 1 + (pick(2) ? pick(5) : 0),
						.row_bytes = rows[pick(11)],
						.short_pos = (int)pick(2),
						.seed = (uint64_t)i,
						.window = pick(4) == 0   ? 0.3f
							  : pick(5) == 0 ? -1
									 : 0,
						.blocks = pick(3) == 0 ? 1 + pick(12) : 0};
		double positive = shares[pick(7)], ignored = positive < 1 ? shares[pick(4)] : 0;

		config.k = pick(pick(2) ? config.n + 1 : config.n * 2 + 2);
		config.k_pos = pick(2) ? config.k / 2 : pick(config.k + 1);
		for (unsigned v = 0; v < SAMPLER_VARIANT_MAX; v++) {
			config.variant = (enum sampler_variant)v;
			run_case(config, positive, ignored, 1 + (i + (int)v) % 3);
		}
	}
}

/* A graph that is run on other buffers is captured again, and goes on with the next call's draw. */
static void graph_follows_its_buffers(void **state)
{
	struct sampler_config config = {.variant = SAMPLER_GRAPH,
					.n = 2003,
					.batch = 2,
					.k = 211,
					.k_pos = 105,
					.row_bytes = 32,
					.seed = 9};
	struct perf_data a = {.cuda = cuda, .config = config, .positive = 0.3}, b = a;
	struct sampler *sampler;
	uint64_t drawn;

	(void)state;
	assert_int_equal(perf_data_open(&a), 0);
	assert_int_equal(perf_data_open(&b), 0);
	assert_int_equal(sampler_open(cuda, &config, &sampler), 0);
	for (uint64_t call = 0; call < 5; call++) {
		struct perf_data *data = call == 2 ? &b : &a;

		assert_int_equal(sampler_run(sampler, &data->io), 0);
		assert_int_equal(cuda_wait(cuda), 0);
		if (perf_data_check(data, call, &drawn))
			fail_msg("call %d: %s", (int)call, data->error);
	}
	sampler_close(sampler);
	perf_data_close(&a);
	perf_data_close(&b);
}

static void errors_have_words(void **state)
{
	struct CUfunc_st *function;
	struct CUmod_st *module;
	struct cuda *other;
	uint64_t address;

	(void)state;
	assert_int_equal(cuda_open(777, &other), -ENODEV);
	assert_non_null(strstr(other->error, "no CUDA device 777"));
	cuda_close(other);
	assert_int_equal(cuda_alloc(cuda, (size_t)1 << 50, &address, "a test"), -ENOMEM);
	assert_int_equal(address, 0);
	assert_non_null(strstr(cuda->error, "1125899906842624 bytes of device memory for a test"));
	assert_int_equal(cuda_load(cuda, kernels_sampler_image, "a test", &module), 0);
	assert_true(cuda_function(cuda, module, "no_such_kernel", &function) < 0);
	assert_non_null(strstr(cuda->error, "no_such_kernel"));
	cuda->api.module_unload(module);
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
		cmocka_unit_test(random_cases),
		cmocka_unit_test(graph_follows_its_buffers),
		cmocka_unit_test(errors_have_words),
	};
	int failed;

	if (!getenv("WAYLAY_TEST_GPU"))
		open_simulated();
	if (cuda_open(0, &cuda)) {
		fprintf(stderr, "skipped: %s\n", cuda ? cuda->error : "out of memory");
		cuda_close(cuda);
		return 77;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	cuda_close(cuda);
	return failed;
}
