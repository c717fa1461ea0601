/* SPDX-License-Identifier: Apache-2.0 */
/* The device code of the table-batched embedding: one image with the kernels that tbe.def lists. */
#include "tbe_backward.h"
#include "tbe_bounds.h"
#include "tbe_forward.h"
#include "tbe_small.h"
#include "tbe_sort.h"
