/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ABI by NVIDIA's header; and every prototype of ours against it, at compile time. Without that
 * header (a tool that reads all sources) there is nothing here, which the comparison would report.
 */
#include "tests/fakecuda/test/abi.h"

#if __has_include(<cuda.h>)
/* With this it declares every version under its own name. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaProfiler.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include <stdbool.h>

const struct abi_number abi_theirs[] = {
#include "tests/fakecuda/test/abi.def"
};
const unsigned abi_theirs_count = sizeof(abi_theirs) / sizeof(*abi_theirs);

/* The entry, and the type that goes with the version in which we say it appeared. */
#define FC_SAME(sym, params)                                                                       \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&sym), CUresult(*) params),         \
		       #sym " has other parameters in cuda.h");
#define FC_SINCE(base, since, params)                                                              \
	_Static_assert(__builtin_types_compatible_p(PFN_##base##_v##since, CUresult(*) params),    \
		       #base " of " #since " has other parameters in cudaTypedefs.h");
#define FC_EARLY(sym, base, since, impl, params, args)                                             \
	FC_SAME(sym, params)                                                                       \
	FC_SINCE(base, since, params)
#define FC_PLAIN FC_EARLY
#define FC_PTDS(sym, base, since, impl, params, args)                                              \
	FC_SAME(sym, params)                                                                       \
	FC_SAME(sym##_ptds, params)                                                                \
	FC_SINCE(base, since, params)
#define FC_PTSZ(sym, base, since, impl, params, args)                                              \
	FC_SAME(sym, params)                                                                       \
	FC_SAME(sym##_ptsz, params)                                                                \
	FC_SINCE(base, since, params)
#include "tests/fakecuda/entries.def"
#else
const struct abi_number abi_theirs[1];
const unsigned abi_theirs_count;
#endif
