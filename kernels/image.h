/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device code that is built into the programs: a fat binary where nvcc made it, PTX text where
 * clang did, and where neither was there a list of kernel names ("WAYLAY-KERNELS", then a name a
 * line) that only the simulated driver accepts.
 */
#ifndef WAYLAY_KERNELS_IMAGE_H
#define WAYLAY_KERNELS_IMAGE_H

extern const unsigned char kernels_sampler_image[];
extern const unsigned char kernels_sampler_image_end[];
extern const unsigned char kernels_tbe_image[];
extern const unsigned char kernels_coll_image[]; /* in libcollkernels */

/* How the device code was made: "nvcc", "clang" or "names". */
extern const char kernels_image_maker[];

#endif
