/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CUDA wrappers stand on, for tests of them alone: a driver whose every entry just succeeds (or
 * fails as told), and a recording that keeps the last record.
 */
#ifndef TESTS_UNIT_CUDA_STAND_IN_H
#define TESTS_UNIT_CUDA_STAND_IN_H

#include "tracer/inject/cuda/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* The wrappers' exported names, as a program sees them. */
#define CU_DECLARE(symbol, own_stream, kind, params, args, before, after) CUresult symbol params;
#include "tracer/inject/cuda/forms.def"
#define CU_ENTRY(symbol, default_stream, form) FORM_##form(CU_DECLARE, symbol, default_stream)
#include "tracer/inject/cuda/entries.def"

/* The last record. */
struct record {
	uint16_t event;
	uint32_t flags;
	uint64_t begin, end;
	union {
		struct wl_ev_cuda_wait wait;
		struct wl_ev_cuda_poll poll;
		struct wl_ev_cuda_copy copy;
		struct wl_ev_cuda_memset memset;
		struct wl_ev_cuda_launch launch;
		struct wl_ev_cuda_graph graph;
		struct wl_ev_cuda_mem mem;
		struct wl_ev_cuda_order order;
		struct wl_ev_cuda_setup setup;
	};
};
extern struct record last;
extern unsigned records, stacks_taken, kinds_asked, capturing_asked;
extern bool entered_waiting;  /* the in-flight slot had a stack */
extern char attributes[4096]; /* "KEY=VALUE\n" each */

/* What every entry of the driver answers, and leaves in errno. */
extern CUresult driver_status;
extern int driver_errno;
extern int depth_inside;         /* whether the driver was called from inside a wrapped call */
extern uint64_t captured_stream; /* the one that is being captured; 0 none */

/* Addresses say what they are. */
enum {
	PAGEABLE = 0x1000,
	PINNED = 0x2000,
	DEVICE = 0x3000,
	MANAGED = 0x4000,
	OTHER_DEVICE = 0x5000
};
#define P(address)     ((void *)(uintptr_t)(address))
#define STREAM(handle) ((CUstream)(uintptr_t)(handle))
#define EVENT(handle)  ((CUevent)(uintptr_t)(handle))
enum { OTHER_STREAM = 0x70, BLOCKING_STREAM = 0x71, DONE = 0x80, PENDING = 0x81 };
/* The function whose name the driver tells. */
enum { NAMED_FUNCTION = 0xf00 };
/* What functions need of local memory: their own address, from here on. */
enum { LOCAL_FUNCTIONS = 0x1000000 };

/* Two drivers, loaded one after the other. With addresses_only an entry's address is its number's place
 * in the present one, and is not to be called. */
#define DRIVER_BYTES (CU_ID_MAX + 64)
extern char first_driver[DRIVER_BYTES], second_driver[DRIVER_BYTES], *driver;
extern bool addresses_only;

/* An interned string. */
const char *string(uint32_t id);
/* Forgets the last record and whatever the driver was told; errno is EDOM, which every call of a test
 * must find and leave. */
void fresh(void);

#endif
