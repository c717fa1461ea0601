/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives' kernels as the CPU runs them, in the form of kernels/cpu/cpu_kernels.h; for the
 * simulated driver. */
#ifndef WAYLAY_COLLECTIVES_DEVICE_KERNELS_H
#define WAYLAY_COLLECTIVES_DEVICE_KERNELS_H

#include "kernels/cpu/cpu_kernels.h"

extern const struct cpu_kernel coll_kernel_table[];
extern const unsigned coll_kernel_count;

#endif
