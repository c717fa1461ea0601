/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that runs device code by simt.h, for a test that has included the device code and defines
 * `functions[]`: name and entry of each kernel. Memory is the host's.
 */
#ifndef TESTS_UNIT_SIMT_DRIVER_H
#define TESTS_UNIT_SIMT_DRIVER_H

#include "kernels/cuda.h"

struct CUfunc_st {
	const char *name;
	void (*entry)(const void *args);
};

extern struct CUfunc_st simt_functions[];
extern const unsigned simt_function_count;

/* A struct cuda whose driver this is. */
struct cuda simt_driver(void);

#endif
