/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels/device/coll.def on the CPU, by name: what the simulated driver runs. */
#include "collectives/device_kernels.h"
#include "collectives/dtype.h"
#include "kernels/device/coll_args.h"

#include <stdint.h>
#include <string.h>

static void *memory(unsigned long long address)
{
	return (void *)(uintptr_t)address;
}

static void reduce(const struct coll_args *a, enum coll_type type)
{
	coll_reduce(memory(a->out), memory(a->a), memory(a->b), a->count, type,
		    (enum coll_op)a->op);
}

static void average(const struct coll_args *a, enum coll_type type)
{
	size_t bytes = a->count * coll_type_bytes(type);

	if (a->out != a->a)
		memmove(memory(a->out), memory(a->a), bytes);
	coll_average(memory(a->out), a->count, type, a->ranks);
}

static const unsigned short args_size[] = {sizeof(struct coll_args)};

#define PAIR(suffix, type)                                                                         \
	static void run_coll_reduce_##suffix(const unsigned grid[3], const unsigned block[3],      \
					     size_t shared_bytes, void *const *params)             \
	{                                                                                          \
		(void)grid, (void)block, (void)shared_bytes;                                       \
		reduce(params[0], type);                                                           \
	}                                                                                          \
	static void run_coll_average_##suffix(const unsigned grid[3], const unsigned block[3],     \
					      size_t shared_bytes, void *const *params)            \
	{                                                                                          \
		(void)grid, (void)block, (void)shared_bytes;                                       \
		average(params[0], type);                                                          \
	}
PAIR(u8, COLL_UINT8)
PAIR(i32, COLL_INT32)
PAIR(i64, COLL_INT64)
PAIR(f16, COLL_FLOAT16)
PAIR(bf16, COLL_BFLOAT16)
PAIR(f32, COLL_FLOAT32)
PAIR(f64, COLL_FLOAT64)

/* The names come from the list that the device code is built with: one that is missing here does not
 * compile. */

const struct cpu_kernel coll_kernel_table[] = {
#define KERNEL(name) {#name, 1, args_size, run_##name},
#include "kernels/device/coll.def"
#undef KERNEL
};
const unsigned coll_kernel_count = sizeof(coll_kernel_table) / sizeof(coll_kernel_table[0]);
