/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers, generated from entries.def and forms.def: for each entry a function with the entry's
 * own types. While nothing is recorded it is a load, a test and a jump to the real entry.
 *
 * wrap_ENTRY is ours alone and what pointers are replaced with; ENTRY is its exported name, for
 * programs linked to libcuda, and could be preempted by another object's.
 *
 * Each wrappers_*.c makes those of some kinds of calls (compiling them all at once takes long): it defines
 * CU_MAKE_kind as CU_WRAPPER for these and as CU_SKIP for the others, and includes this.
 */
#include "tracer/inject/cuda/hot.h"

#include "tracer/inject/cuda/forms.def"

#define CU_OPEN(...) __VA_ARGS__
#define L            false
#define T            true

/* Tracing of CUDA is off, or this call is made inside another that is recorded. Lookups are answered
 * alike wherever they are made: what they give is called later. */
#define CU_PASS_OFF    (!wl_settings.enabled || !wl_settings.cuda)
#define CU_PASS_wait   (wl_is_inside(&wl_depth.cuda, WL_FRAME) || CU_PASS_OFF)
#define CU_PASS_poll   CU_PASS_wait
#define CU_PASS_order  CU_PASS_wait
#define CU_PASS_copy   CU_PASS_wait
#define CU_PASS_memset CU_PASS_wait
#define CU_PASS_launch CU_PASS_wait
#define CU_PASS_graph  CU_PASS_wait
#define CU_PASS_mem    CU_PASS_wait
#define CU_PASS_setup  CU_PASS_wait
#define CU_PASS_lookup CU_PASS_OFF

#define CU_HIDDEN __attribute__((visibility("hidden")))

#define CU_WRAPPER(symbol, own_stream, kind, params, args, before, after)                          \
	static __attribute__((noinline)) CUresult slow_##symbol params                             \
	{                                                                                          \
		CUresult(*real) params = (CUresult(*) params)cu_real(CU_ID_##symbol);              \
		CUresult status;                                                                   \
                                                                                                   \
		if (!real)                                                                         \
			return CUDA_ERROR_STUB_LIBRARY;                                            \
		if (CU_PASS_##kind || (!CU_ALWAYS_##kind && !wl_recording))                        \
			return real args;                                                          \
		struct cu_##kind call = {CU_OPEN before};                                          \
		call.f.at = WL_FRAME;                                                              \
		call.f.entry = CU_ID_##symbol;                                                     \
		call.f.per_thread = own_stream;                                                    \
		cu_##kind##_begin(&call);                                                          \
		status = real args;                                                                \
		if (status == CUDA_SUCCESS) {                                                      \
			after;                                                                     \
		}                                                                                  \
		cu_##kind##_end(&call, status);                                                    \
		return status;                                                                     \
	}                                                                                          \
	CU_HIDDEN CUresult wrap_##symbol params;                                                   \
	CUresult wrap_##symbol params                                                              \
	{                                                                                          \
		/* Relaxed: see cu_reals. */                                                       \
		CUresult(*real) params = (CUresult(*) params)atomic_load_explicit(                 \
			&cu_reals[CU_ID_##symbol], memory_order_relaxed);                          \
                                                                                                   \
		if (!CU_ALWAYS_##kind && __builtin_expect(!wl_recording && real, 1))               \
			return real args;                                                          \
		return slow_##symbol args;                                                         \
	}                                                                                          \
	WL_EXPORT CUresult symbol params __attribute__((alias("wrap_" #symbol)));

#define CU_SKIP(symbol, own_stream, kind, params, args, before, after)
#define CU_MAKE(symbol, own_stream, kind, ...) CU_MAKE_##kind(symbol, own_stream, kind, __VA_ARGS__)

#define CU_ENTRY(symbol, default_stream, form) FORM_##form(CU_MAKE, symbol, default_stream)
#include "tracer/inject/cuda/entries.def"
