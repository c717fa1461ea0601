/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the simulated driver share. They call the driver through pointers found with
 * dlsym, as a client does; FAKECUDA_TEST_DRIVER=PATH runs them on another driver, such as the real
 * one, which is how the expectations were checked.
 */
#ifndef TESTS_FAKECUDA_TEST_DRIVER_H
#define TESTS_FAKECUDA_TEST_DRIVER_H

#include "tests/fakecuda/fake_cuda.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct cu {
#define FC_EARLY(sym, base, since, impl, params, args) CUresult(*sym) params;
#define FC_PLAIN(sym, base, since, impl, params, args) CUresult(*sym) params;
#define FC_PTDS(sym, base, since, impl, params, args)                                              \
	CUresult(*sym) params;                                                                     \
	CUresult(*sym##_ptds) params;
#define FC_PTSZ(sym, base, since, impl, params, args)                                              \
	CUresult(*sym) params;                                                                     \
	CUresult(*sym##_ptsz) params;
#include "tests/fakecuda/entries.def"
};
extern struct cu cu;

extern bool on_fake; /* not on another driver */
extern const char test_image[];
extern CUdevice dev;
extern CUcontext ctx;
extern CUmodule module;
extern CUfunction spin_ns, fill_u32, scale_u32;

void *driver_library(void);
/* Finds all entries, without starting the driver. */
void driver_find(void);
/* Opens the driver, makes the primary context current to the thread, loads the test kernels. */
void driver_start(void);
/* Makes the context current to another thread. */
void driver_attach(void);

#define ok(call)         assert_int_equal((call), CUDA_SUCCESS)
#define is(call, result) assert_int_equal((call), (result))
#define DPTR(p)          ((CUdeviceptr)(uintptr_t)(p))
#define HOST(dptr)       ((void *)(uintptr_t)(dptr))

void launch_spin(CUstream stream, uint64_t ns);
void launch_fill(CUstream stream, CUdeviceptr ptr, uint32_t n, uint32_t value);
void launch_scale(CUstream stream, CUdeviceptr ptr, uint32_t n, uint32_t factor);

CUstream stream_new(unsigned flags);
CUevent event_new(unsigned flags);
CUdeviceptr mem_new(size_t bytes);
void *pinned_new(size_t bytes);

/*
 * A stream held up until the gate opens. A gate that is closed proves what a call waits for without
 * a clock: a call that comes back before it opens did not wait.
 */
struct gate {
	_Atomic uint32_t *word;
};
struct gate gate_new(void);
void gate_free(struct gate *gate);
void gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate);

int run_api_tests(void);
int run_holds_tests(void);
int run_streams_tests(void);
int run_capture_tests(void);
int run_memory_tests(void);
int run_share_tests(void);
int run_process_tests(const char *self);

/* What a copy of the test program, started by process.c, does; its exit status. */
int process_mode(int argc, char **argv);

#endif
