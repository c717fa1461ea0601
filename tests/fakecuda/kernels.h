/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU kernels the simulated driver can run: its own and, where they are built, the back end's. */
#ifndef TESTS_FAKECUDA_KERNELS_H
#define TESTS_FAKECUDA_KERNELS_H

#include <stddef.h>

/* Says that it needs so much local memory a thread; else as fake_fill_u32. */
#define FC_LOCAL_KERNEL "fake_local_u32"
#define FC_LOCAL_BYTES  8192

#if FC_HAVE_CPU_KERNELS
#include "collectives/device_kernels.h"
#include "kernels/cpu/cpu_kernels.h"
#else
struct cpu_kernel {
	const char *name;
	unsigned param_count;
	const unsigned short *param_sizes; /* bytes, in the order of the device code's parameters */
	/* Runs the whole grid; params[i] points to a copy of parameter i. */
	void (*run)(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
		    void *const *params);
};
#endif

#endif
