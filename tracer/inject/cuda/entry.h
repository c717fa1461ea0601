/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrapped entries as numbers, and the real functions behind them.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_ENTRY_H
#define WAYLAY_TRACER_INJECT_CUDA_ENTRY_H

#include "tracer/inject/cuda/cuda_abi.h"
#include "tracer/inject/inject.h"

#pragma GCC visibility push(hidden)

#define CU_LIBRARY "libcuda.so" /* what the driver's file name starts with */

enum cu_entry {
#define CU_ENTRY(symbol, default_stream, form) CU_ID_##symbol,
#include "tracer/inject/cuda/entries.def"
	CU_ID_MAX,
};

/* The real address of each entry, NULL where not (yet) found. Relaxed: a stale NULL only means that it
 * is looked up again, and what a pointer points to was mapped by the loader before anyone had it. */
extern _Atomic(void *) cu_reals[CU_ID_MAX];
/* Exported symbol names, interned as the `api` of records. */
extern struct wl_name cu_names[CU_ID_MAX];
/* Our functions, not subject to symbol preemption. */
extern void *const cu_wrappers[CU_ID_MAX];

/* Finds the real entry in the loaded driver; NULL without one. */
void *cu_resolve(enum cu_entry id);

static inline void *cu_real(enum cu_entry id)
{
	void *real = atomic_load_explicit(&cu_reals[id], memory_order_relaxed);

	return __builtin_expect(real != NULL, 1) ? real : cu_resolve(id);
}

/* Entries that are called by us but not wrapped. */
enum cu_helper {
	CU_HELPER_cuPointerGetAttributes,
	CU_HELPER_cuStreamGetFlags,
	CU_HELPER_cuStreamIsCapturing,
	CU_HELPER_cuFuncGetName,
	CU_HELPER_cuKernelGetName,
	CU_HELPER_cuGraphGetNodes,
	CU_HELPER_cuDriverGetVersion,
	CU_HELPER_cuDeviceGetCount,
	CU_HELPER_cuDeviceGetName,
	CU_HELPER_cuModuleGetLoadingMode,
	CU_HELPER_cuCtxGetCurrent,
	CU_HELPER_cuCtxGetDevice,
	CU_HELPER_cuFuncGetAttribute,
	CU_HELPER_cuKernelGetAttribute,
	CU_HELPER_MAX,
};
/* NULL where the driver has none. */
void *cu_helper(enum cu_helper id);

/* Says in the recording which driver this is and which of its entries passed us by. Called whenever a
 * recording may have begun; does something once a recording. */
void cu_report_driver(void);

#pragma GCC visibility pop

#endif
