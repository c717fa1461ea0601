/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of kernels, by function handle: as the job asked for them, else as the driver tells.
 */
#include "tracer/inject/cuda/calls.h"

struct cu_map_slot cu_kernels[CU_KERNELS];
static const struct cu_map kernels = {.slots = cu_kernels, .mask = CU_KERNELS - 1};

_Atomic uint32_t cu_names_epoch;

/* 0 when nothing can be interned. */
static uint64_t stamp(void)
{
	return spool_generation() ? (uint64_t)cu_names_stamp() << 32 : 0;
}

/* Whether the value is of this writer and epoch. */
static bool is_current(uint64_t value)
{
	return (value & ~CU_LAUNCHED) >> 32 == stamp() >> 32;
}

void cu_names_forget(void)
{
	atomic_fetch_add_explicit(&cu_names_epoch, 1, memory_order_relaxed);
}

static uint32_t put(uint64_t func, const char *name)
{
	uint64_t now = stamp();
	uint32_t id = 0;

	if (!now)
		return 0;
	if (name)
		id = spool_intern_string(name, strlen(name));
	cu_map_put(&kernels, func, now | id);
	return id;
}

void cu_name_put(const void *func, const char *name)
{
	if (wl_recording)
		put((uintptr_t)func, name);
}

static const char *ask(uint64_t func)
{
	CUresult (*of_function)(const char **, uint64_t) =
		(CUresult(*)(const char **, uint64_t))cu_helper(CU_HELPER_cuFuncGetName);
	CUresult (*of_kernel)(const char **, uint64_t) =
		(CUresult(*)(const char **, uint64_t))cu_helper(CU_HELPER_cuKernelGetName);
	const char *name = NULL;
	int saved = errno;

	if (of_function && of_function(&name, func) == CUDA_SUCCESS && name)
		goto told;
	/* A launch also takes a kernel of a library for a function. */
	if (!of_kernel || of_kernel(&name, func) != CUDA_SUCCESS)
		name = NULL;
told:
	errno = saved;
	return name;
}

uint32_t cu_kernel_name(uint64_t func)
{
	uint64_t value = 0;

	if (cu_map_get(&kernels, func, &value) && is_current(value))
		return (uint32_t)value;
	return put(func, ask(func));
}

uint32_t cu_kernel_launched_slow(uint64_t func, bool captured, bool *first)
{
	uint64_t value = 0;
	uint32_t id = cu_kernel_name(func);

	if (!cu_map_get(&kernels, func, &value) || !is_current(value) || value & CU_LAUNCHED)
		return id; /* it found no room, or was launched before */
	if (captured)
		return id; /* not done yet */
	*first = true;
	cu_map_put(&kernels, func, value | CU_LAUNCHED);
	return id;
}

void cu_function_of_kernel(struct cu_setup *call, const void *func, const void *kernel)
{
	uint64_t value = 0;

	call->ev.object = (uintptr_t)func;
	cu_library_used((uintptr_t)kernel);
	if (wl_recording && cu_map_get(&kernels, (uintptr_t)kernel, &value) && is_current(value))
		cu_map_put(&kernels, (uintptr_t)func, value);
}
