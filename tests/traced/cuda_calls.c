/* SPDX-License-Identifier: Apache-2.0
 *
 * Prime numbers of CUDA calls on the simulated driver, and what a trace of them must hold: one line a
 * kind of record with its arguments, how many there are and how many bytes they moved. Built three
 * times: linked to libcuda, by dlopen and dlsym, by cuGetProcAddress.
 */
#include "tests/fakecuda/fake_cuda.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BY_LINK   0
#define BY_DLSYM  1
#define BY_LOOKUP 2
#ifndef CUDA_BY
#define CUDA_BY BY_LINK
#endif

/* F(symbol, name that a lookup is asked for, its flags) */
#define CALLS(F)                                                                                   \
	F(cuInit, cuInit, 0)                                                                       \
	F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 0)                                   \
	F(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 0)                              \
	F(cuCtxSetCurrent, cuCtxSetCurrent, 0)                                                     \
	F(cuCtxSynchronize, cuCtxSynchronize, 0)                                                   \
	F(cuCtxSetLimit, cuCtxSetLimit, 0)                                                         \
	F(cuStreamCreate, cuStreamCreate, 0)                                                       \
	F(cuStreamDestroy_v2, cuStreamDestroy, 0)                                                  \
	F(cuStreamSynchronize, cuStreamSynchronize, 0)                                             \
	F(cuStreamSynchronize_ptsz, cuStreamSynchronize, 2)                                        \
	F(cuStreamQuery, cuStreamQuery, 0)                                                         \
	F(cuStreamWaitEvent, cuStreamWaitEvent, 0)                                                 \
	F(cuEventCreate, cuEventCreate, 0)                                                         \
	F(cuEventRecord, cuEventRecord, 0)                                                         \
	F(cuEventQuery, cuEventQuery, 0)                                                           \
	F(cuEventSynchronize, cuEventSynchronize, 0)                                               \
	F(cuEventDestroy_v2, cuEventDestroy, 0)                                                    \
	F(cuMemAlloc_v2, cuMemAlloc, 0)                                                            \
	F(cuMemAllocManaged, cuMemAllocManaged, 0)                                                 \
	F(cuMemFree_v2, cuMemFree, 0)                                                              \
	F(cuMemHostAlloc, cuMemHostAlloc, 0)                                                       \
	F(cuMemFreeHost, cuMemFreeHost, 0)                                                         \
	F(cuMemHostRegister_v2, cuMemHostRegister, 0)                                              \
	F(cuMemHostUnregister, cuMemHostUnregister, 0)                                             \
	F(cuMemAllocAsync, cuMemAllocAsync, 0)                                                     \
	F(cuMemFreeAsync, cuMemFreeAsync, 0)                                                       \
	F(cuMemcpyHtoD_v2, cuMemcpyHtoD, 0)                                                        \
	F(cuMemcpyDtoH_v2, cuMemcpyDtoH, 0)                                                        \
	F(cuMemcpyDtoD_v2, cuMemcpyDtoD, 0)                                                        \
	F(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 0)                                              \
	F(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 0)                                              \
	F(cuMemcpyAsync, cuMemcpyAsync, 0)                                                         \
	F(cuMemcpy2D_v2, cuMemcpy2D, 0)                                                            \
	F(cuMemsetD8_v2, cuMemsetD8, 0)                                                            \
	F(cuMemsetD32Async, cuMemsetD32Async, 0)                                                   \
	F(cuModuleLoadData, cuModuleLoadData, 0)                                                   \
	F(cuModuleGetFunction, cuModuleGetFunction, 0)                                             \
	F(cuModuleUnload, cuModuleUnload, 0)                                                       \
	F(cuLaunchKernel, cuLaunchKernel, 0)                                                       \
	F(cuLaunchHostFunc, cuLaunchHostFunc, 0)                                                   \
	F(cuStreamBeginCapture_v2, cuStreamBeginCapture, 0)                                        \
	F(cuStreamEndCapture, cuStreamEndCapture, 0)                                               \
	F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 0)                             \
	F(cuGraphLaunch, cuGraphLaunch, 0)                                                         \
	F(cuGraphExecDestroy, cuGraphExecDestroy, 0)                                               \
	F(cuGraphDestroy, cuGraphDestroy, 0)

#if CUDA_BY == BY_LINK
#define DO(symbol) symbol
static int find_all(void)
{
	return 0;
}
#else
#define DO(symbol)                   found.symbol
#define SLOT(symbol, base, flags)    __typeof__(symbol) *symbol;
static struct {
	CALLS(SLOT)
} found;

static int find_all(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(cuGetProcAddress_v2) *look_up;
	CUdriverProcAddressQueryResult outcome;

	if (!driver) {
		fprintf(stderr, "cuda_calls: %s\n", dlerror());
		return 1;
	}
	look_up = (__typeof__(look_up))dlsym(driver, "cuGetProcAddress_v2");
#define BY_NAME(symbol, base, flags) found.symbol = (__typeof__(symbol) *)dlsym(driver, #symbol);
#define BY_ADDRESS(symbol, base, flags)                                                            \
	if (!look_up || look_up(#base, (void **)&found.symbol, 12000, flags, &outcome) || outcome) \
		return 1;
	if (CUDA_BY == BY_DLSYM) {
		CALLS(BY_NAME)
	} else {
		CALLS(BY_ADDRESS)
	}
#define IS_THERE(symbol, base, flags)                                                              \
	if (!found.symbol)                                                                         \
		return 1;
	CALLS(IS_THERE)
	return 0;
}
#endif

static void must(CUresult status, const char *call)
{
	if (status == CUDA_SUCCESS)
		return;
	fprintf(stderr, "cuda_calls: %s gave %d\n", call, (int)status);
	exit(1);
}
#define MUST(symbol, ...) must(DO(symbol)(__VA_ARGS__), #symbol)
#define TIMES(n, ...)                                                                              \
	for (int time_ = 0; time_ < (n); time_++)                                                  \
	__VA_ARGS__
#define WANT(count, bytes, ...)                                                                    \
	do {                                                                                       \
		printf("%d %d ", (int)(count), (int)(bytes));                                      \
		printf(__VA_ARGS__);                                                               \
		printf("\n");                                                                      \
	} while (0)
#define WANT_COPY(count, each, api, dst, src, rule, cls)                                           \
	WANT(count, (count) * (each),                                                              \
	     "cuda_copy api=" api " dst_kind=" dst " src_kind=" src " rule=" rule " cls=" cls      \
	     " status=0 flags=0")
#define WANT_MEM(count, bytes, api, op, kind, rule, cls)                                           \
	WANT(count, bytes,                                                                         \
	     "cuda_mem api=" api " op=" op " kind=" kind " rule=" rule " cls=" cls                 \
	     " status=0 flags=0")
#define WANT_WAIT(count, api, rule)                                                                \
	WANT(count, 0, "cuda_wait api=" api " rule=" rule " cls=waits status=0 flags=0")

static CUstream stream;
static CUevent event;
static CUdeviceptr device, other_device, managed;
static char pageable[4096];
static void *pinned;

static void waits(void)
{
	TIMES(7, MUST(cuStreamSynchronize, stream));
	WANT_WAIT(7, "cuStreamSynchronize", "stream_wait");
	TIMES(5, MUST(cuStreamSynchronize, NULL));
	WANT_WAIT(5, "cuStreamSynchronize", "legacy_wait");
	TIMES(3, MUST(cuStreamSynchronize_ptsz, NULL));
	WANT_WAIT(3, "cuStreamSynchronize_ptsz", "stream_wait");
	TIMES(3, MUST(cuCtxSynchronize));
	WANT_WAIT(3, "cuCtxSynchronize", "context_wait");
	TIMES(11, MUST(cuEventRecord, event, stream));
	WANT(11, 0, "cuda_order api=cuEventRecord status=0 flags=0");
	TIMES(13, MUST(cuEventSynchronize, event));
	WANT_WAIT(13, "cuEventSynchronize", "event_wait");
	TIMES(2, MUST(cuStreamWaitEvent, stream, event, 0));
	WANT(2, 0, "cuda_order api=cuStreamWaitEvent status=0 flags=0");
	TIMES(3, if (DO(cuStreamSynchronize)((CUstream)pageable) != CUDA_ERROR_INVALID_HANDLE)
			 exit(1));
	WANT(3, 0, "cuda_wait api=cuStreamSynchronize rule=none cls=none status=400 flags=0");
}

static void asynchronous_copies(void)
{
	TIMES(13, MUST(cuMemcpyHtoDAsync_v2, device, pinned, 1009, stream));
	WANT_COPY(13, 1009, "cuMemcpyHtoDAsync_v2", "device", "pinned", "none", "device_only");
	TIMES(17, MUST(cuMemcpyHtoDAsync_v2, device, pageable, 127, stream));
	WANT_COPY(17, 127, "cuMemcpyHtoDAsync_v2", "device", "pageable", "async_from_pageable",
		  "stages");
	TIMES(19, MUST(cuMemcpyDtoHAsync_v2, pageable, device, 131, stream));
	WANT_COPY(19, 131, "cuMemcpyDtoHAsync_v2", "pageable", "device", "async_to_pageable",
		  "waits");
	TIMES(23, MUST(cuMemcpyDtoHAsync_v2, pinned, device, 3, stream));
	WANT_COPY(23, 3, "cuMemcpyDtoHAsync_v2", "pinned", "device", "none", "device_only");
	TIMES(5, MUST(cuMemcpyAsync, (uintptr_t)pageable, (uintptr_t)pinned, 17, stream));
	WANT_COPY(5, 17, "cuMemcpyAsync", "pageable", "pinned", "async_host_to_host", "waits");
	TIMES(7, MUST(cuMemcpyAsync, device, managed, 19, stream));
	WANT_COPY(7, 19, "cuMemcpyAsync", "device", "managed", "none", "device_only");
	MUST(cuStreamSynchronize, stream);
	WANT_WAIT(1, "cuStreamSynchronize", "stream_wait");
}

static void synchronous_copies(void)
{
	CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcDevice = device,
			       .srcPitch = 64,
			       .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .dstHost = pageable,
			       .dstPitch = 64,
			       .WidthInBytes = 61,
			       .Height = 7};

	TIMES(2, MUST(cuMemcpyDtoH_v2, pageable, device, 11));
	WANT_COPY(2, 11, "cuMemcpyDtoH_v2", "pageable", "device", "copy_to_host", "waits");
	TIMES(3, MUST(cuMemcpyHtoD_v2, device, pinned, 13));
	WANT_COPY(3, 13, "cuMemcpyHtoD_v2", "device", "pinned", "copy_from_pinned", "waits");
	TIMES(5, MUST(cuMemcpyHtoD_v2, device, pageable, 17));
	WANT_COPY(5, 17, "cuMemcpyHtoD_v2", "device", "pageable", "copy_from_pageable", "waits");
	TIMES(7, MUST(cuMemcpyDtoD_v2, device, other_device, 19));
	WANT_COPY(7, 19, "cuMemcpyDtoD_v2", "device", "device", "none", "device_only");
	TIMES(3, MUST(cuMemcpy2D_v2, &plane));
	WANT_COPY(3, 61 * 7, "cuMemcpy2D_v2", "pageable", "device", "copy_to_host", "waits");
	TIMES(11, MUST(cuMemsetD8_v2, device, 1, 23));
	WANT(11, 11 * 23,
	     "cuda_memset api=cuMemsetD8_v2 dst_kind=device rule=none cls=device_only status=0 flags=0");
	TIMES(5, MUST(cuMemsetD8_v2, (uintptr_t)pinned, 1, 29));
	WANT(5, 5 * 29,
	     "cuda_memset api=cuMemsetD8_v2 dst_kind=pinned rule=memset_host cls=waits status=0 flags=0");
	TIMES(13, MUST(cuMemsetD32Async, device, 1, 31, stream));
	WANT(13, 13 * 31 * 4,
	     "cuda_memset api=cuMemsetD32Async dst_kind=device rule=none cls=device_only status=0 flags=0");
}

/* Holds its stream until it is let go. */
static atomic_int holding, let_go;
static void hold(void *data)
{
	(void)data;
	atomic_store(&holding, 1);
	while (!atomic_load(&let_go))
		usleep(100);
}

static void queries(void)
{
	TIMES(17, MUST(cuEventQuery, event));
	WANT(17, 0, "cuda_poll api=cuEventQuery rule=query cls=polls status=0 flags=0");
	MUST(cuLaunchHostFunc, stream, hold, NULL);
	WANT(1, 0, "cuda_launch api=cuLaunchHostFunc kernel= rule=none cls=none status=0 flags=0");
	while (!atomic_load(&holding))
		usleep(100);
	TIMES(29, if (DO(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY) exit(1));
	MUST(cuEventQuery, event); /* ends the run, which says nothing yet */
	WANT(1, 0, "cuda_poll api=cuStreamQuery rule=query cls=polls status=600 flags=0");
	WANT(1, 0, "cuda_poll api=cuEventQuery rule=query cls=polls status=0 flags=0");
	TIMES(31, if (DO(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY) exit(1));
	atomic_store(&let_go, 1);
	while (DO(cuStreamQuery)(stream) != CUDA_SUCCESS)
		;
	WANT(1, 0, "cuda_poll api=cuStreamQuery rule=query_loop cls=waits status=0 flags=0");
}

static void kernels_and_graphs(void)
{
	static const char image[] = "WAYLAY-KERNELS\nfake_fill_u32\nfake_scale_u32\n";
	uint32_t count = 5, value = 7;
	void *params[] = {&device, &count, &value};
	CUfunction fill;
	CUmodule module;
	CUgraph graph;
	CUgraphExec exec;

	MUST(cuModuleLoadData, &module, image);
	WANT(1, 0, "cuda_setup api=cuModuleLoadData rule=module_load cls=waits status=0 flags=0");
	MUST(cuModuleGetFunction, &fill, module, "fake_fill_u32");
	WANT(1, 0, "cuda_setup api=cuModuleGetFunction rule=none cls=none status=0 flags=0");
	TIMES(37, MUST(cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	WANT(37, 0,
	     "cuda_launch api=cuLaunchKernel kernel=fake_fill_u32 rule=none cls=none status=0 flags=0");
	MUST(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	WANT(1, 0, "cuda_graph api=cuStreamBeginCapture_v2 nodes=0 status=0 flags=0");
	TIMES(3, MUST(cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	WANT(3, 0,
	     "cuda_launch api=cuLaunchKernel kernel=fake_fill_u32 rule=none cls=none status=0 flags=1");
	TIMES(2, MUST(cuMemcpyDtoHAsync_v2, pinned, device, 5, stream));
	WANT(2, 10,
	     "cuda_copy api=cuMemcpyDtoHAsync_v2 dst_kind=unknown src_kind=unknown rule=none cls=none"
	     " status=0 flags=1");
	MUST(cuStreamEndCapture, stream, &graph);
	WANT(1, 0, "cuda_graph api=cuStreamEndCapture nodes=5 status=0 flags=0");
	MUST(cuGraphInstantiateWithFlags, &exec, graph, 0);
	WANT(1, 0, "cuda_graph api=cuGraphInstantiateWithFlags nodes=5 status=0 flags=0");
	TIMES(13, MUST(cuGraphLaunch, exec, stream));
	WANT(13, 0, "cuda_graph api=cuGraphLaunch nodes=5 status=0 flags=0");
	MUST(cuStreamSynchronize, stream);
	WANT_WAIT(1, "cuStreamSynchronize", "stream_wait");
	MUST(cuGraphExecDestroy, exec);
	WANT(1, 0, "cuda_graph api=cuGraphExecDestroy nodes=5 status=0 flags=0");
	MUST(cuGraphDestroy, graph);
	MUST(cuModuleUnload, module);
	WANT(1, 0, "cuda_setup api=cuModuleUnload rule=module_unload cls=waits status=0 flags=0");
	MUST(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 2048);
	WANT(1, 0, "cuda_setup api=cuCtxSetLimit rule=stack_limit cls=waits status=0 flags=0");
	MUST(cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
	WANT(1, 0, "cuda_setup api=cuCtxSetLimit rule=none cls=none status=0 flags=0");
}

static void memory_had(void)
{
	TIMES(2, MUST(cuMemAlloc_v2, time_ ? &other_device : &device, 4096));
	WANT_MEM(2, 8192, "cuMemAlloc_v2", "alloc", "device", "none", "none");
	MUST(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
	WANT_MEM(1, 4096, "cuMemAllocManaged", "alloc", "managed", "none", "none");
	MUST(cuMemHostAlloc, &pinned, 8192, 0);
	WANT_MEM(1, 8192, "cuMemHostAlloc", "alloc", "pinned", "none", "none");
}

static void memory_given_back(void)
{
	CUdeviceptr pooled[5];
	void *more = malloc(4096);

	TIMES(3, {
		MUST(cuMemHostRegister_v2, more, 4096, 0);
		MUST(cuMemcpyDtoHAsync_v2, more, device, 7, stream);
		MUST(cuMemHostUnregister, more);
	});
	free(more);
	WANT_MEM(3, 3 * 4096, "cuMemHostRegister_v2", "register", "pinned", "none", "none");
	WANT_COPY(3, 7, "cuMemcpyDtoHAsync_v2", "pinned", "device", "none", "device_only");
	WANT_MEM(3, 3 * 4096, "cuMemHostUnregister", "unregister", "pinned", "host_unpin", "waits");
	TIMES(5, MUST(cuMemAllocAsync, &pooled[time_], 100, stream));
	WANT_MEM(5, 500, "cuMemAllocAsync", "alloc", "device", "none", "none");
	TIMES(3, MUST(cuMemFreeAsync, pooled[time_], stream));
	WANT_MEM(3, 300, "cuMemFreeAsync", "free", "device", "none", "device_only");
	TIMES(2, MUST(cuMemFree_v2, pooled[3 + time_]));
	WANT_MEM(2, 200, "cuMemFree_v2", "free", "device", "none", "none");
	TIMES(2, MUST(cuMemFree_v2, time_ ? other_device : device));
	WANT_MEM(2, 8192, "cuMemFree_v2", "free", "device", "memory_free", "waits");
	MUST(cuMemFree_v2, managed);
	WANT_MEM(1, 4096, "cuMemFree_v2", "free", "managed", "memory_free", "waits");
	MUST(cuMemFreeHost, pinned);
	WANT_MEM(1, 8192, "cuMemFreeHost", "free", "pinned", "host_unpin", "waits");
}

int main(void)
{
	CUcontext ctx;

	if (find_all()) {
		fprintf(stderr, "cuda_calls: the driver lacks a call\n");
		return 1;
	}
	MUST(cuInit, 0);
	WANT(1, 0, "cuda_setup api=cuInit rule=none cls=none status=0 flags=0");
	MUST(cuDevicePrimaryCtxRetain, &ctx, 0);
	WANT(1, 0, "cuda_setup api=cuDevicePrimaryCtxRetain rule=none cls=none status=0 flags=0");
	MUST(cuCtxSetCurrent, ctx);
	MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	WANT(1, 0, "cuda_setup api=cuStreamCreate rule=none cls=none status=0 flags=0");
	MUST(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	WANT(1, 0, "cuda_setup api=cuEventCreate rule=none cls=none status=0 flags=0");
	memory_had();
	waits();
	asynchronous_copies();
	synchronous_copies();
	queries();
	kernels_and_graphs();
	memory_given_back();
	MUST(cuEventDestroy_v2, event);
	WANT(1, 0, "cuda_setup api=cuEventDestroy_v2 rule=none cls=none status=0 flags=0");
	MUST(cuStreamDestroy_v2, stream);
	WANT(1, 0, "cuda_setup api=cuStreamDestroy_v2 rule=none cls=none status=0 flags=0");
	return 0;
}
