/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of the embedding's kernels, for the host that launches them. The device code asserts
 * that these are what its structures need.
 */
#ifndef WAYLAY_KERNELS_TBE_SHARED_H
#define WAYLAY_KERNELS_TBE_SHARED_H

#include "kernels/device/tbe_args.h"

#define TBE_SMALL_SHARED_BYTES                                                                     \
	(TBE_SMALL_ROWS * TBE_SMALL_DIM * 2 +                                                      \
	 TBE_BLOCK / 32 * TBE_SMALL_BAGS * (TBE_SMALL_ROWS + 8) * 4)
#define TBE_SMALL_GRAD_SHARED_BYTES (16 * (TBE_SMALL_DIM + TBE_SMALL_ROWS) * 4)
#define TBE_SORT_SHARED_BYTES                                                                      \
	((33 + 3 + (1 << TBE_SORT_BITS) * (1 + TBE_SORT_BLOCK / 64) + 1025 + 2 * TBE_SORT_TILE) * 4)
#define TBE_SHORT_SHARED_BYTES (TBE_BLOCK / 32 * (TBE_STEP * 12 + TBE_RING_BYTES))

#endif
