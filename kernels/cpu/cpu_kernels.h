/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU implementations of the device kernels, by the names that the device code exports. The
 * simulated driver runs these when a program launches a kernel of ours; each gives the bits that
 * the device kernel gives.
 */
#ifndef WAYLAY_KERNELS_CPU_KERNELS_H
#define WAYLAY_KERNELS_CPU_KERNELS_H

#include <stddef.h>

struct cpu_kernel {
	const char *name;
	unsigned param_count;
	const unsigned short *param_sizes; /* bytes of each parameter, param_count of them */
	/*
	 * Runs the whole grid on the calling thread. params[i] points at parameter i's value, as
	 * for cuLaunchKernel; device pointers among them must be addresses that the CPU can use.
	 * Waits for nothing, fails never: like a device kernel, it trusts its arguments.
	 */
	void (*run)(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
		    void *const *params);
};

extern const struct cpu_kernel cpu_kernel_table[];
extern const unsigned cpu_kernel_count;

#endif
