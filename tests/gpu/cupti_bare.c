/* SPDX-License-Identifier: Apache-2.0
 *
 * The least client of CUPTI's activity interface that there can be, to measure what that interface alone costs
 * a job: kernels, copies and memsets, buffers thrown away. Loaded by CUDA_INJECTION64_PATH; with
 * CUPTI_BARE_CALLS=1 the calls of runtime and driver and the waits too, as profilers have them.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*size = 4 << 20;
	*buffer = aligned_alloc(8, *size);
	*records = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size, (void)valid;
	free(buffer);
}

int InitializeInjection(void);
int InitializeInjection(void)
{
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
	int (*callbacks)(void *, void *);
	int (*enable)(int);

	if (!cupti)
		return 1;
	callbacks = (int (*)(void *, void *))dlsym(cupti, "cuptiActivityRegisterCallbacks");
	enable = (int (*)(int))dlsym(cupti, "cuptiActivityEnable");
	callbacks((void *)request, (void *)complete);
	enable(10);
	enable(1);
	enable(2);
	if (getenv("CUPTI_BARE_CALLS")) {
		enable(4);
		enable(5);
		enable(38);
	}
	return 1;
}
