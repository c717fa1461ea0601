/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of simt_driver.h. */
#include "tests/unit/simt_driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/simt.h"

static int emulated_load(struct CUmod_st **module, const void *image)
{
	(void)image;
	*module = NULL;
	return 0;
}

static int emulated_function(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
	(void)module;
	for (unsigned i = 0; i < simt_function_count; i++)
		if (!strcmp(simt_functions[i].name, name)) {
			*function = &simt_functions[i];
			return 0;
		}
	return 500;
}

static int emulated_set(struct CUfunc_st *function, int attribute, int value)
{
	(void)function;
	(void)attribute;
	(void)value;
	return 0;
}

static int run_grid(struct CUfunc_st *f, unsigned x, unsigned y, unsigned threads, unsigned shared,
		    void **params, int cooperative)
{
	simt_run(f->entry, params[0], (struct simt_grid){x, y, threads, shared, cooperative});
	return 0;
}

static int emulated_launch(struct CUfunc_st *f, unsigned x, unsigned y, unsigned z,
			   unsigned threads, unsigned by, unsigned bz, unsigned shared,
			   struct CUstream_st *stream, void **params, void **extra)
{
	(void)z;
	(void)by;
	(void)bz;
	(void)stream;
	(void)extra;
	return run_grid(f, x, y, threads, shared, params, 0);
}

static int emulated_cooperative(struct CUfunc_st *f, unsigned x, unsigned y, unsigned z,
				unsigned threads, unsigned by, unsigned bz, unsigned shared,
				struct CUstream_st *stream, void **params)
{
	(void)z;
	(void)by;
	(void)bz;
	(void)stream;
	return run_grid(f, x, y, threads, shared, params, 1);
}

static int emulated_wait(struct CUstream_st *stream)
{
	(void)stream;
	return 0;
}

static int emulated_alloc(unsigned long long *address, size_t bytes)
{
	void *p = NULL;

	if (posix_memalign(&p, 256, bytes))
		return 2;
	memset(p, 0xcd, bytes);
	*address = (uintptr_t)p;
	return 0;
}

static int emulated_free(unsigned long long address)
{
	free((void *)(uintptr_t)address);
	return 0;
}

static int emulated_host_alloc(void **address, size_t bytes, unsigned flags)
{
	(void)flags;
	*address = malloc(bytes);
	return *address ? 0 : 2;
}

static int emulated_host_free(void *address)
{
	free(address);
	return 0;
}

static int emulated_upload(unsigned long long to, const void *from, size_t bytes)
{
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int emulated_download(void *to, unsigned long long from, size_t bytes)
{
	memcpy(to, (void *)(uintptr_t)from, bytes);
	return 0;
}

static int emulated_download_async(void *to, unsigned long long from, size_t bytes,
				   struct CUstream_st *stream)
{
	(void)stream;
	return emulated_download(to, from, bytes);
}

static int emulated_fill(unsigned long long address, unsigned value, size_t words,
			 struct CUstream_st *stream)
{
	(void)stream;
	for (size_t i = 0; i < words; i++)
		((unsigned *)(uintptr_t)address)[i] = value;
	return 0;
}

static int emulated_unload(struct CUmod_st *module)
{
	(void)module;
	return 0;
}

struct cuda simt_driver(void)
{
	return (struct cuda){
		.api = {.module_load = emulated_load,
			.module_unload = emulated_unload,
			.module_function = emulated_function,
			.function_set = emulated_set,
			.launch = emulated_launch,
			.launch_cooperative = emulated_cooperative,
			.stream_synchronize = emulated_wait,
			.mem_alloc = emulated_alloc,
			.mem_free = emulated_free,
			.host_alloc = emulated_host_alloc,
			.host_free = emulated_host_free,
			.upload = emulated_upload,
			.download = emulated_download,
			.download_async = emulated_download_async,
			.fill_async = emulated_fill},
		.sm_count = 5,
		.cooperative = 1,
		.shared_bytes = 227 * 1024,
		.name = "emulated",
	};
}
