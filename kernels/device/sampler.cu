/* SPDX-License-Identifier: Apache-2.0 */
/* The device code of the balanced sampler: one image with the kernels that sampler.def lists. */
#include "sampler_naive.h"
#include "sampler_static.h"
#include "sampler_fused.h"
#include "sampler_few.h"
