/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding's kernels for the simulated driver: tbe_run_NAME for each KERNEL(NAME). */
#ifndef WAYLAY_KERNELS_TBE_KERNELS_H
#define WAYLAY_KERNELS_TBE_KERNELS_H

#include <stddef.h>

#define KERNEL(name)                                                                               \
	void tbe_run_##name(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,  \
			    void *const *params);
#include "kernels/device/tbe.def"
#undef KERNEL

#endif
