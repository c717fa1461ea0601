/* SPDX-License-Identifier: Apache-2.0 */
/* The device code of the reference collectives: one image with the kernels that coll.def lists. */
#include "coll_reduce.h"
