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

/* --- a driver that runs our kernels by simt ------------------------------------------------------
 */

struct CUfunc_st {
	const char *name;
	void (*entry)(const void *args);
};

#define KERNEL(name)                                                                               \
	static void enter_##name(const void *args)                                                 \
	{                                                                                          \
		name(*(const struct sampler_args *)args);                                          \
	}
#include "kernels/device/kernels.def"
#undef KERNEL

#define KERNEL(name) {#name, enter_##name},
static struct CUfunc_st functions[] = {
#include "kernels/device/kernels.def"
};
#undef KERNEL

static int emulated_load(struct CUmod_st **module, const void *image)
{
	(void)image;
	*module = NULL;
	return 0;
}

static int emulated_function(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
	(void)module;
	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name)) {
			*function = &functions[i];
			return 0;
		}
	return 500;
}

static int emulated_set(struct CUfunc_st *function, int attribute, int value)
{
	(void)function;
	(void)attribute;
	(void)value;
	return 0;
}

static int run_grid(struct CUfunc_st *f, unsigned x, unsigned y, unsigned threads, unsigned shared,
		    void **params, int cooperative)
{
	simt_run(f->entry, params[0], (struct simt_grid){x, y, threads, shared, cooperative});
	return 0;
}

static int emulated_launch(struct CUfunc_st *f, unsigned x, unsigned y, unsigned z,
			   unsigned threads, unsigned by, unsigned bz, unsigned shared,
			   struct CUstream_st *stream, void **params, void **extra)
{
	(void)z;
	(void)by;
	(void)bz;
	(void)stream;
	(void)extra;
	return run_grid(f, x, y, threads, shared, params, 0);
}

static int emulated_cooperative(struct CUfunc_st *f, unsigned x, unsigned y, unsigned z,
				unsigned threads, unsigned by, unsigned bz, unsigned shared,
				struct CUstream_st *stream, void **params)
{
	(void)z;
	(void)by;
	(void)bz;
	(void)stream;
	return run_grid(f, x, y, threads, shared, params, 1);
}

static int emulated_wait(struct CUstream_st *stream)
{
	(void)stream;
	return 0;
}

static int emulated_alloc(unsigned long long *address, size_t bytes)
{
	void *p = NULL;

	if (posix_memalign(&p, 256, bytes))
		return 2;
	memset(p, 0xcd, bytes);
	*address = (uintptr_t)p;
	return 0;
}

static int emulated_free(unsigned long long address)
{
	free((void *)(uintptr_t)address);
	return 0;
}

static int emulated_host_alloc(void **address, size_t bytes, unsigned flags)
{
	(void)flags;
	*address = malloc(bytes);
	return *address ? 0 : 2;
}

static int emulated_host_free(void *address)
{
	free(address);
	return 0;
}

static int emulated_upload(unsigned long long to, const void *from, size_t bytes)
{
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int emulated_download(void *to, unsigned long long from, size_t bytes)
{
	memcpy(to, (void *)(uintptr_t)from, bytes);
	return 0;
}

static int emulated_download_async(void *to, unsigned long long from, size_t bytes,
				   struct CUstream_st *stream)
{
	(void)stream;
	return emulated_download(to, from, bytes);
}

static int emulated_fill(unsigned long long address, unsigned value, size_t words,
			 struct CUstream_st *stream)
{
	(void)stream;
	for (size_t i = 0; i < words; i++)
		((unsigned *)(uintptr_t)address)[i] = value;
	return 0;
}

static int emulated_unload(struct CUmod_st *module)
{
	(void)module;
	return 0;
}

static struct cuda emulated(void)
{
	return (struct cuda){
		.api = {.module_load = emulated_load,
			.module_unload = emulated_unload,
			.module_function = emulated_function,
			.function_set = emulated_set,
			.launch = emulated_launch,
			.launch_cooperative = emulated_cooperative,
			.stream_synchronize = emulated_wait,
			.mem_alloc = emulated_alloc,
			.mem_free = emulated_free,
			.host_alloc = emulated_host_alloc,
			.host_free = emulated_host_free,
			.upload = emulated_upload,
			.download = emulated_download,
			.download_async = emulated_download_async,
			.fill_async = emulated_fill},
		.sm_count = 5,
		.cooperative = 1,
		.shared_bytes = 227 * 1024,
		.name = "emulated",
	};
}

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
	struct cuda cuda = emulated();
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
				   .prefetch_kib = pick(3) == 0 ? 1 + (int)pick(64) : 0,
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
