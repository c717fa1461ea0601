/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that holds the host by every rule of the rule table, each from a line of its own, a prime number of
 * times. Prints what the report must say of it, one JSON object.
 */
#include "tests/fakecuda/fake_cuda.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long events; /* calls that are recorded */
static long launches, polls;
static bool any;
static int from_line; /* of main(), which called the part */

static void must(CUresult status, const char *call)
{
	if (status == CUDA_SUCCESS)
		return;
	(void)fprintf(stderr, "%s: %d\n", call, (int)status);
	exit(1);
}
#define SILENT(function, ...) must(function(__VA_ARGS__), #function) /* not recorded */
#define MUST(function, ...)   (events++, must(function(__VA_ARGS__), #function))

struct held {
	const char *rule, *cls, *from, *to; /* from, to: of copies, else NULL */
	const char *call, *function;
	int line, count, bytes;
};

static void held(const struct held *held)
{
	(void)printf(
		"%s  {\"rule\": \"%s\", \"class\": \"%s\", \"from\": \"%s\", \"to\": \"%s\", "
		"\"call\": \"%s\", \"function\": \"%s\", \"line\": %d, \"from_line\": %d, \"count\": %d, "
		"\"bytes\": %d}",
		any ? ",\n" : "", held->rule, held->cls, held->from ? held->from : "",
		held->to ? held->to : "", held->call, held->function, held->line, from_line,
		held->count, held->bytes);
	any = true;
}

/* The report names the line on which these begin. */
#define HOLD(n, rule_, bytes_, function_, ...)                                                     \
	do {                                                                                       \
		for (int i_ = 0; i_ < (n); i_++)                                                   \
			MUST(function_, __VA_ARGS__);                                              \
		held(&(struct held){.rule = #rule_,                                                \
				    .cls = "waits",                                                \
				    .call = #function_,                                            \
				    .function = __func__,                                          \
				    .line = __LINE__,                                              \
				    .count = (n),                                                  \
				    .bytes = (n) * (bytes_)});                                     \
	} while (0)
#define COPY(n, rule_, cls_, from_, to_, bytes_, function_, ...)                                   \
	do {                                                                                       \
		for (int i_ = 0; i_ < (n); i_++)                                                   \
			MUST(function_, __VA_ARGS__);                                              \
		held(&(struct held){.rule = #rule_,                                                \
				    .cls = #cls_,                                                  \
				    .from = #from_,                                                \
				    .to = #to_,                                                    \
				    .call = #function_,                                            \
				    .function = __func__,                                          \
				    .line = __LINE__,                                              \
				    .count = (n),                                                  \
				    .bytes = (n) * (bytes_)});                                     \
	} while (0)

static CUstream stream;
static CUevent event;
static CUdeviceptr device, marked, managed;
static char page[4096], page2[4096];
static void *pin, *pin2;
#define AT(host) ((CUdeviceptr)(uintptr_t)(host))

static void explicit_part(void)
{
	HOLD(3, context_wait, 0, cuCtxSynchronize, );
	HOLD(5, stream_wait, 0, cuStreamSynchronize, stream);
	HOLD(7, legacy_wait, 0, cuStreamSynchronize, NULL);
	HOLD(11, event_wait, 0, cuEventSynchronize, event);
	HOLD(2, flush_writes, 0, cuFlushGPUDirectRDMAWrites, 0, 100);
}

static void synchronous_part(void)
{
	COPY(13, copy_to_host, waits, device, pageable, 11, cuMemcpyDtoH_v2, page, device, 11);
	COPY(3, copy_from_pageable, waits, pageable, device, 13, cuMemcpyHtoD_v2, device, page, 13);
	COPY(5, copy_from_pinned, waits, pinned, device, 17, cuMemcpyHtoD_v2, device, pin, 17);
	COPY(7, copy_host_to_host, waits, pinned, pageable, 19, cuMemcpy, AT(page), AT(pin), 19);
	COPY(11, copy_managed, waits, managed, device, 23, cuMemcpy, device, managed, 23);
	HOLD(2, memset_host, 29, cuMemsetD8_v2, AT(pin), 1, 29);
}

static void asynchronous_part(void)
{
	COPY(3, async_to_pageable, waits, device, pageable, 31, cuMemcpyDtoHAsync_v2, page, device,
	     31, stream);
	COPY(5, async_from_pageable, stages, pageable, device, 37, cuMemcpyHtoDAsync_v2, device,
	     page, 37, stream);
	COPY(7, async_host_to_host, waits, pinned, pageable, 41, cuMemcpyAsync, AT(page), AT(pin),
	     41, stream);
}

static void batched_part(void)
{
	CUmemcpyAttributes in_order = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUmemcpyAttributes at_once = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
	CUdeviceptr to[] = {device}, pageable[] = {AT(page2)}, pinned[] = {AT(pin2)};
	size_t size[] = {43}, first = 0;

	COPY(11, batch_in_order, waits, pageable, device, 43, cuMemcpyBatchAsync_v2, to, pageable,
	     size, 1, &in_order, &first, 1, stream);
	COPY(13, batch_during_call, waits, pinned, device, 43, cuMemcpyBatchAsync_v2, to, pinned,
	     size, 1, &at_once, &first, 1, stream);
}

static void marked_part(void)
{
	unsigned on = 1;

	HOLD(3, sync_memops, 0, cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
	     marked);
	COPY(5, copy_sync_memops, waits, device, device, 47, cuMemcpyDtoD_v2, marked, device, 47);
}

/* A loop of queries while the stream is held. */
static atomic_bool let_go;
static void hold_stream(void *data)
{
	(void)data;
	while (!atomic_load(&let_go))
		;
}

static void asking_part(void)
{
	CUresult status;
	int asked = 0, line;

	for (int i = 0; i < 17; i++)
		MUST(cuEventQuery, event);
	polls += 17;
	MUST(cuLaunchHostFunc, stream, hold_stream, NULL);
	launches++;
	line = __LINE__ + 1;
	while ((status = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		if (++asked == 61)
			atomic_store(&let_go, true);
	must(status, "cuStreamQuery");
	held(&(struct held){.rule = "query_loop",
			    .cls = "waits",
			    .call = "cuStreamQuery",
			    .function = __func__,
			    .line = line,
			    .count = 1});
	events++;
}

static void code_part(void)
{
	static const char image[] = "WAYLAY-KERNELS\nfake_fill_u32\nfake_local_u32\n";
	uint32_t count = 1, value = 7;
	void *params[] = {&device, &count, &value};
	CUmodule module;
	CUlibrary library;
	CUfunction local, fill;
	CUkernel kernel;

	HOLD(1, module_load, 0, cuModuleLoadData, &module, image);
	MUST(cuModuleGetFunction, &local, module, "fake_local_u32");
	HOLD(1, local_memory, 0, cuLaunchKernel, local, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	MUST(cuLaunchKernel, local, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	launches += 2;
	MUST(cuLibraryLoadData, &library, image, NULL, NULL, 0, NULL, NULL, 0);
	MUST(cuLibraryGetKernel, &kernel, library, "fake_fill_u32");
	HOLD(1, library_first_use, 0, cuKernelGetFunction, &fill, kernel);
	MUST(cuKernelGetFunction, &fill, kernel);
	MUST(cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	launches++;
	HOLD(3, stack_limit, 0, cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 16384);
	HOLD(1, module_unload, 0, cuModuleUnload, module);
}

static void last_part(void)
{
	CUcontext second;

	HOLD(1, memory_free, 4096, cuMemFree_v2, marked);
	HOLD(1, host_unpin, 8192, cuMemFreeHost, pin2);
	MUST(cuCtxCreate_v2, &second, 0, 0);
	HOLD(1, teardown, 0, cuCtxDestroy_v2, second);
}

#define PART(function) (from_line = __LINE__, function())

int main(void)
{
	CUcontext context;

	MUST(cuInit, 0);
	MUST(cuDevicePrimaryCtxRetain, &context, 0);
	SILENT(cuCtxSetCurrent, context);
	MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	MUST(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	MUST(cuMemAlloc_v2, &device, 4096);
	MUST(cuMemAlloc_v2, &marked, 4096);
	MUST(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
	MUST(cuMemHostAlloc, &pin, 8192, 0);
	MUST(cuMemHostAlloc, &pin2, 8192, 0);
	(void)printf("{\"held\": [\n");
	PART(explicit_part);
	PART(synchronous_part);
	PART(asynchronous_part);
	PART(batched_part);
	PART(marked_part);
	PART(asking_part);
	PART(code_part);
	PART(last_part);
	(void)printf("],\n \"events\": %ld, \"launches\": %ld, \"polls\": %ld\n}\n", events,
		     launches, polls);
	return 0;
}
