/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own kernels, for tests of the driver and of whatever watches it. */
#include "tests/fakecuda/kernels.h"
#include "tests/fakecuda/internal.h"

#include <string.h>

#define PARAM(type, params, i) (*(const type *)(params)[i])

/* The device is busy for that long. */
static void spin_ns(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
		    void *const *params)
{
	(void)grid, (void)block, (void)shared_bytes;
	fc_sleep_until_ns(fc_now_ns() + PARAM(uint64_t, params, 0));
}

static void fill_u32(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
		     void *const *params)
{
	uint32_t *p = (uint32_t *)(uintptr_t)PARAM(CUdeviceptr, params, 0);
	(void)grid, (void)block, (void)shared_bytes;
	for (uint32_t i = 0, n = PARAM(uint32_t, params, 1); i < n; i++)
		p[i] = PARAM(uint32_t, params, 2);
}

/* p[i] = p[i] * factor + i: what ran before can be read off the result. */
static void scale_u32(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
		      void *const *params)
{
	uint32_t *p = (uint32_t *)(uintptr_t)PARAM(CUdeviceptr, params, 0);
	(void)grid, (void)block, (void)shared_bytes;
	for (uint32_t i = 0, n = PARAM(uint32_t, params, 1); i < n; i++)
		p[i] = p[i] * PARAM(uint32_t, params, 2) + i;
}

/* out = grid and block dimensions, shared bytes, and two parameters of odd sizes. */
static void report_launch(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
			  void *const *params)
{
	uint64_t *out = (uint64_t *)(uintptr_t)PARAM(CUdeviceptr, params, 0);
	for (int i = 0; i < 3; i++) {
		out[i] = grid[i];
		out[3 + i] = block[i];
	}
	out[6] = shared_bytes;
	out[7] = PARAM(uint8_t, params, 1);
	out[8] = PARAM(uint64_t, params, 2);
}

static const unsigned short spin_params[] = {8}, fill_params[] = {8, 4, 4},
			    report_params[] = {8, 1, 8};

static const struct cpu_kernel own[] = {
	{"fake_spin_ns", FC_COUNT(spin_params), spin_params, spin_ns},
	{"fake_fill_u32", FC_COUNT(fill_params), fill_params, fill_u32},
	{"fake_scale_u32", FC_COUNT(fill_params), fill_params, scale_u32},
	{"fake_report_launch", FC_COUNT(report_params), report_params, report_launch},
	{FC_LOCAL_KERNEL, FC_COUNT(fill_params), fill_params, fill_u32},
};

static const struct cpu_kernel *find_in(const struct cpu_kernel *table, size_t count,
					const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

const struct cpu_kernel *fc_kernel_find(const char *name)
{
	const struct cpu_kernel *k = find_in(own, FC_COUNT(own), name);
#if FC_HAVE_CPU_KERNELS
	if (!k)
		k = find_in(cpu_kernel_table, cpu_kernel_count, name);
	if (!k)
		k = find_in(coll_kernel_table, coll_kernel_count, name);
#endif
	return k;
}
