/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries of code. Loading one does nothing yet, unless the process asks for eager loading: the first
 * use of any of its kernels, a launch or cuKernelGetFunction, puts all of it on the device and waits
 * for the context. (A library used in a second context is loaded there too; that is not followed.)
 */
#include "tracer/inject/cuda/calls.h"

#include "tracer/inject/cuda/map.h"

enum { UNKNOWN, NOT_LOADED, LOADED };
enum { EAGER_LOADING = 1 };

CU_MAP_DEFINE(states, 4096);     /* library -> UNKNOWN, NOT_LOADED or LOADED */
CU_MAP_DEFINE(libraries, 16384); /* kernel -> library */
_Atomic int cu_libraries_not_loaded;

static bool loads_eagerly(void)
{
	CUresult (*ask)(int *) = (CUresult(*)(int *))cu_helper(CU_HELPER_cuModuleGetLoadingMode);
	int mode = 0, saved = errno;
	bool eager = !ask || ask(&mode) != CUDA_SUCCESS || mode == EAGER_LOADING;

	errno = saved;
	return eager;
}

/* Moves a library to another state; tells the former one. */
static uint64_t state_set(uint64_t library, uint64_t state)
{
	uint64_t was = UNKNOWN;

	cu_map_get(&states, library, &was);
	if (was != state)
		cu_map_put(&states, library, state);
	if (was == NOT_LOADED && state != NOT_LOADED)
		atomic_fetch_sub_explicit(&cu_libraries_not_loaded, 1, memory_order_relaxed);
	if (was != NOT_LOADED && state == NOT_LOADED)
		atomic_fetch_add_explicit(&cu_libraries_not_loaded, 1, memory_order_relaxed);
	return was;
}

void cu_library_made(struct cu_setup *call, CUlibrary library)
{
	call->ev.object = (uintptr_t)library;
	state_set(call->ev.object, loads_eagerly() ? LOADED : NOT_LOADED);
}

void cu_library_kernel(struct cu_setup *call, CUkernel kernel, CUlibrary library, const char *name)
{
	cu_map_put(&libraries, (uintptr_t)kernel, (uintptr_t)library);
	cu_function_found(call, kernel, name);
}

bool cu_library_first_use_slow(uint64_t kernel)
{
	uint64_t library = 0, state = UNKNOWN;

	return cu_map_get(&libraries, kernel, &library) && cu_map_get(&states, library, &state) &&
	       state == NOT_LOADED;
}

bool cu_library_unused(uint64_t library)
{
	uint64_t state = UNKNOWN;

	return cu_map_get(&states, library, &state) && state == NOT_LOADED;
}

/* Relaxed: a use that another thread has just begun waits like the first. */
void cu_library_used(uint64_t kernel)
{
	uint64_t library = 0;

	if (cu_map_get(&libraries, kernel, &library))
		state_set(library, LOADED);
}

void cu_library_gone(CUlibrary library)
{
	state_set((uintptr_t)library, UNKNOWN);
	cu_names_forget();
}
