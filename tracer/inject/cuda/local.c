/* SPDX-License-Identifier: Apache-2.0
 *
 * Local memory. A context has as much as the code it has launched so far needed, and at least the stack limit;
 * the first launch of code that needs more has it moved, which waits for the work of the context (measured:
 * from the first byte beyond on, and not again). With several contexts the one that has most decides here.
 */
#include "tracer/inject/cuda/calls.h"

enum { LOCAL_SIZE_BYTES = 3, STACK_LIMIT_DEFAULT = 1024 };

static _Atomic uint64_t most = STACK_LIMIT_DEFAULT; /* bytes a thread */

static uint64_t bytes_of(uint64_t func)
{
	CUresult (*of_function)(int *, int, uint64_t) =
		(CUresult(*)(int *, int, uint64_t))cu_helper(CU_HELPER_cuFuncGetAttribute);
	CUresult (*of_kernel)(int *, int, uint64_t, CUdevice) = (CUresult(*)(
		int *, int, uint64_t, CUdevice))cu_helper(CU_HELPER_cuKernelGetAttribute);
	CUresult (*device_now)(CUdevice *) =
		(CUresult(*)(CUdevice *))cu_helper(CU_HELPER_cuCtxGetDevice);
	CUdevice device = 0;
	int bytes = 0;

	if (of_function && of_function(&bytes, LOCAL_SIZE_BYTES, func) == CUDA_SUCCESS)
		return (uint64_t)bytes;
	/* A launch also takes a kernel of a library for a function. */
	if (of_kernel && device_now && device_now(&device) == CUDA_SUCCESS &&
	    of_kernel(&bytes, LOCAL_SIZE_BYTES, func, device) == CUDA_SUCCESS)
		return (uint64_t)bytes;
	return 0;
}

static bool grows(uint64_t bytes)
{
	/* Relaxed: a number; who raises it is the one whose launch waits. */
	uint64_t before = atomic_load_explicit(&most, memory_order_relaxed);

	while (bytes > before)
		if (atomic_compare_exchange_weak_explicit(
			    &most, &before, bytes, memory_order_relaxed, memory_order_relaxed))
			return true;
	return false;
}

/* Known only after the launch: asking before would load the code, and take the launch's time for that away. */
bool cu_local_memory_grew(uint64_t func)
{
	int saved = errno;
	bool grew = grows(bytes_of(func));

	errno = saved;
	return grew;
}

void cu_limit_set(int limit, size_t value)
{
	if (limit == CU_LIMIT_STACK_SIZE)
		(void)grows(value);
}
