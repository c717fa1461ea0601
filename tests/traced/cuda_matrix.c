/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes each call while a kernel runs on another stream and times it, for three kinds of the kernel's
 * stream and with no kernel; works on a GPU and on the simulated driver. One line a call and relation,
 * from which cuda_matrix_check judges what was recorded:
 *
 *     NAME|idle N B or D|known or gpu|busy stream, hex|ns the host was held|ns the kernel takes
 *
 * "gpu": the simulated driver does not have this one's behaviour.
 * Around the call the program asks the marker event (its handle is in the first line), so that the
 * recorded call is found.
 *
 *     cuda_matrix [KERNEL_MS [CUBIN]]
 *     cuda_matrix --ptx                 the kernel's text, to compile
 *
 * CUBIN: the compiled kernel for the machine's device; without it code is loaded as PTX only.
 */
#include "tests/fakecuda/fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
	size_t width, height;
	int format;
	unsigned channels;
} array_shape;

#define CALLS(F)                                                                                   \
	F(cuInit)                                                                                  \
	F(cuDevicePrimaryCtxRetain)                                                                \
	F(cuCtxSetCurrent)                                                                         \
	F(cuCtxSynchronize)                                                                        \
	F(cuCtxSetLimit)                                                                           \
	F(cuStreamCreate)                                                                          \
	F(cuStreamDestroy_v2)                                                                      \
	F(cuStreamSynchronize)                                                                     \
	F(cuStreamQuery)                                                                           \
	F(cuStreamWaitEvent)                                                                       \
	F(cuEventCreate)                                                                           \
	F(cuEventRecord)                                                                           \
	F(cuEventQuery)                                                                            \
	F(cuEventSynchronize)                                                                      \
	F(cuEventDestroy_v2)                                                                       \
	F(cuMemAlloc_v2)                                                                           \
	F(cuMemAllocManaged)                                                                       \
	F(cuMemFree_v2)                                                                            \
	F(cuMemHostAlloc)                                                                          \
	F(cuMemFreeHost)                                                                           \
	F(cuMemHostRegister_v2)                                                                    \
	F(cuMemHostUnregister)                                                                     \
	F(cuMemAllocAsync)                                                                         \
	F(cuMemFreeAsync)                                                                          \
	F(cuMemPoolTrimTo)                                                                         \
	F(cuDeviceGetDefaultMemPool)                                                               \
	F(cuPointerSetAttribute)                                                                   \
	F(cuMemcpy)                                                                                \
	F(cuMemcpyPeer)                                                                            \
	F(cuMemcpyHtoD_v2)                                                                         \
	F(cuMemcpyDtoH_v2)                                                                         \
	F(cuMemcpyDtoD_v2)                                                                         \
	F(cuMemcpyAsync)                                                                           \
	F(cuMemcpyHtoDAsync_v2)                                                                    \
	F(cuMemcpyDtoHAsync_v2)                                                                    \
	F(cuMemcpyDtoDAsync_v2)                                                                    \
	F(cuMemcpy2D_v2)                                                                           \
	F(cuMemcpy2DAsync_v2)                                                                      \
	F(cuMemcpyBatchAsync_v2)                                                                   \
	F(cuMemsetD8_v2)                                                                           \
	F(cuMemsetD8Async)                                                                         \
	F(cuModuleLoadData)                                                                        \
	F(cuModuleUnload)                                                                          \
	F(cuModuleGetFunction)                                                                     \
	F(cuLibraryLoadData)                                                                       \
	F(cuLibraryUnload)                                                                         \
	F(cuLibraryGetKernel)                                                                      \
	F(cuKernelGetFunction)                                                                     \
	F(cuLaunchKernel)                                                                          \
	F(cuLaunchHostFunc)                                                                        \
	F(cuStreamBeginCapture_v2)                                                                 \
	F(cuStreamEndCapture)                                                                      \
	F(cuGraphInstantiateWithFlags)                                                             \
	F(cuGraphUpload)                                                                           \
	F(cuGraphLaunch)                                                                           \
	F(cuGraphExecDestroy)                                                                      \
	F(cuGraphDestroy)                                                                          \
	F(cuMemPrefetchAsync_v2)

#define SLOT(symbol) __typeof__(symbol) *symbol;
static struct {
	CALLS(SLOT)
	CUresult (*cuArrayCreate_v2)(CUarray *, const array_shape *);
	CUresult (*cuArrayDestroy)(CUarray);
	CUresult (*cuMemcpyAtoH_v2)(void *, CUarray, size_t, size_t);
	CUresult (*cuMemcpyHtoA_v2)(CUarray, size_t, const void *, size_t);
	CUresult (*cuMemcpyAtoHAsync_v2)(void *, CUarray, size_t, size_t, CUstream);
} cu;

static void must(CUresult status, const char *call)
{
	if (status == CUDA_SUCCESS)
		return;
	fprintf(stderr, "cuda_matrix: %s gave %d\n", call, (int)status);
	exit(1);
}
#define MUST(symbol, ...) must(cu.symbol(__VA_ARGS__), #symbol)

/* The simulated driver runs its kernel of this name. */
static const char kernel_text[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				  ".visible .entry fake_spin_ns(.param .u64 ns)\n{\n"
				  "\t.reg .u64 %t<4>;\n\t.reg .pred %p;\n"
				  "\tld.param.u64 %t1, [ns];\n\tmov.u64 %t2, %globaltimer;\n"
				  "AGAIN:\n\tmov.u64 %t3, %globaltimer;\n\tsub.u64 %t3, %t3, %t2;\n"
				  "\tsetp.lt.u64 %p, %t3, %t1;\n\t@%p bra AGAIN;\n\tret;\n}\n";

enum { MB = 1 << 20 };
static CUcontext ctx;
static CUfunction spin;
static CUevent marker, done, pending;
static CUstream non_blocking, blocking, other;
static CUdeviceptr device, device2, managed;
static char *pageable, *pageable2;
static void *pinned, *pinned2;
static uint64_t kernel_ns = 15000000;
static char *cubin; /* NULL without one */

/* The situation of a row. */
static char relation;
static CUstream busy;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void kernel_start(void)
{
	void *params[] = {&kernel_ns};

	MUST(cuCtxSynchronize);
	if (relation != 'i')
		MUST(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, busy, params, NULL);
	MUST(cuEventRecord, pending, busy);
}

static int64_t begin_ns;
static void row_begin(void)
{
	MUST(cuEventQuery, marker);
	begin_ns = now_ns();
}

static void row_end(const char *name, const char *measured, CUresult status)
{
	int64_t held = now_ns() - begin_ns;

	MUST(cuEventQuery, marker);
	MUST(cuCtxSynchronize);
	if (status != CUDA_SUCCESS)
		fprintf(stderr, "cuda_matrix: %s (%c) gave %d\n", name, relation, (int)status);
	printf("%s|%s|%s|%llx|%lld|%llu\n", name, relation == 'i' ? "idle" : (char[]){relation, 0},
	       measured, (unsigned long long)(uintptr_t)busy, (long long)held,
	       (unsigned long long)(relation == 'i' ? 0 : kernel_ns));
}

/* ROW(name, "known" or "gpu", call, arguments): nothing if the driver does not have the call. */
#define ROW(name, measured, symbol, ...)                                                           \
	do {                                                                                       \
		CUresult status_;                                                                  \
                                                                                                   \
		if (!cu.symbol)                                                                    \
			break;                                                                     \
		kernel_start();                                                                    \
		row_begin();                                                                       \
		status_ = cu.symbol(__VA_ARGS__);                                                  \
		row_end(name, measured, status_);                                                  \
	} while (0)

static void nothing(void *data)
{
	(void)data;
}

static void waits(void)
{
	void *params[] = {&(uint64_t){0}};

	ROW("ctx synchronize", "known", cuCtxSynchronize);
	ROW("stream synchronize, busy", "known", cuStreamSynchronize, busy);
	ROW("stream synchronize, other", "known", cuStreamSynchronize, other);
	ROW("stream synchronize, legacy", "known", cuStreamSynchronize, NULL);
	ROW("event synchronize, done", "known", cuEventSynchronize, done);
	ROW("event synchronize, pending", "known", cuEventSynchronize, pending);
	ROW("stream query", "known", cuStreamQuery, other);
	ROW("stream wait event", "known", cuStreamWaitEvent, other, pending, 0);
	ROW("launch host function", "known", cuLaunchHostFunc, busy, nothing, NULL);
	ROW("launch", "known", cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, other, params, NULL);
}

static void synchronous_copies(void)
{
	CUDA_MEMCPY2D to_device = {.srcMemoryType = CU_MEMORYTYPE_HOST,
				   .srcHost = pinned,
				   .srcPitch = 1024,
				   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				   .dstDevice = device,
				   .dstPitch = 1024,
				   .WidthInBytes = 512,
				   .Height = 512};

	ROW("H2D pageable 4 B", "known", cuMemcpyHtoD_v2, device, pageable, 4);
	ROW("H2D pageable 64 KiB", "known", cuMemcpyHtoD_v2, device, pageable, 65536);
	ROW("H2D pageable 64 KiB + 1", "known", cuMemcpyHtoD_v2, device, pageable, 65537);
	ROW("H2D pageable 1 MiB", "known", cuMemcpyHtoD_v2, device, pageable, MB);
	ROW("H2D pinned 4 B", "known", cuMemcpyHtoD_v2, device, pinned, 4);
	ROW("H2D pinned 1 MiB", "known", cuMemcpyHtoD_v2, device, pinned, MB);
	ROW("D2H pageable 4 B", "known", cuMemcpyDtoH_v2, pageable, device, 4);
	ROW("D2H pinned 1 MiB", "known", cuMemcpyDtoH_v2, pinned, device, MB);
	ROW("D2D 1 MiB", "known", cuMemcpyDtoD_v2, device, device2, MB);
	ROW("H2H 1 MiB", "known", cuMemcpy, (uintptr_t)pageable, (uintptr_t)pageable2, MB);
	ROW("H2H pinned 1 MiB", "known", cuMemcpy, (uintptr_t)pinned, (uintptr_t)pinned2, MB);
	ROW("managed to device 1 MiB", "known", cuMemcpy, device, managed, MB);
	ROW("device to managed 1 MiB", "known", cuMemcpy, managed, device, MB);
	ROW("pageable to managed 1 MiB", "known", cuMemcpy, managed, (uintptr_t)pageable, MB);
	ROW("managed to pageable 1 MiB", "known", cuMemcpy, (uintptr_t)pageable, managed, MB);
	ROW("D2D by cuMemcpy 1 MiB", "known", cuMemcpy, device, device2, MB);
	ROW("2D H2D pinned", "known", cuMemcpy2D_v2, &to_device);
	ROW("D2H 0 B", "known", cuMemcpyDtoH_v2, pageable, device, 0);
	ROW("H2D 0 B", "known", cuMemcpyHtoD_v2, device, pageable, 0);
	ROW("peer, one context", "known", cuMemcpyPeer, device, ctx, device2, ctx, MB);
	ROW("memset device", "known", cuMemsetD8_v2, device, 0, MB);
	ROW("memset pinned", "known", cuMemsetD8_v2, (uintptr_t)pinned, 0, MB);
	ROW("memset managed", "known", cuMemsetD8_v2, managed, 0, MB);
}

static void asynchronous_copies(void)
{
	CUDA_MEMCPY2D to_host = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				 .srcDevice = device,
				 .srcPitch = 1024,
				 .dstMemoryType = CU_MEMORYTYPE_HOST,
				 .dstHost = pageable,
				 .dstPitch = 1024,
				 .WidthInBytes = 512,
				 .Height = 512};

	ROW("async H2D pageable 4 B, other", "known", cuMemcpyHtoDAsync_v2, device, pageable, 4,
	    other);
	ROW("async H2D pageable 1 MiB, other", "known", cuMemcpyHtoDAsync_v2, device, pageable, MB,
	    other);
	ROW("async D2H pageable 4 B, other", "known", cuMemcpyDtoHAsync_v2, pageable, device, 4,
	    other);
	ROW("async H2H 1 MiB, other", "known", cuMemcpyAsync, (uintptr_t)pageable,
	    (uintptr_t)pageable2, MB, other);
	ROW("async H2D pageable 4 B, busy", "known", cuMemcpyHtoDAsync_v2, device, pageable, 4,
	    busy);
	ROW("async H2D pageable 64 KiB, busy", "known", cuMemcpyHtoDAsync_v2, device, pageable,
	    65536, busy);
	ROW("async H2D pageable 64 KiB + 1, busy", "known", cuMemcpyHtoDAsync_v2, device, pageable,
	    65537, busy);
	ROW("async H2D pageable 1 MiB, busy", "known", cuMemcpyHtoDAsync_v2, device, pageable, MB,
	    busy);
	ROW("async H2D pinned 1 MiB, busy", "known", cuMemcpyHtoDAsync_v2, device, pinned, MB,
	    busy);
	ROW("async D2H pageable 4 B, busy", "known", cuMemcpyDtoHAsync_v2, pageable, device, 4,
	    busy);
	ROW("async D2H pageable 1 MiB, busy", "known", cuMemcpyDtoHAsync_v2, pageable, device, MB,
	    busy);
	ROW("async D2H pinned 1 MiB, busy", "known", cuMemcpyDtoHAsync_v2, pinned, device, MB,
	    busy);
	ROW("async D2D 1 MiB, busy", "known", cuMemcpyDtoDAsync_v2, device, device2, MB, busy);
	ROW("async H2H pageable 1 MiB, busy", "known", cuMemcpyAsync, (uintptr_t)pageable,
	    (uintptr_t)pageable2, MB, busy);
	ROW("async H2H pinned 1 MiB, busy", "known", cuMemcpyAsync, (uintptr_t)pinned,
	    (uintptr_t)pinned2, MB, busy);
	ROW("async managed to device, busy", "known", cuMemcpyAsync, device, managed, MB, busy);
	ROW("async device to managed, busy", "known", cuMemcpyAsync, managed, device, MB, busy);
	ROW("async pageable to managed, busy", "known", cuMemcpyAsync, managed, (uintptr_t)pageable,
	    MB, busy);
	ROW("async managed to pageable, busy", "known", cuMemcpyAsync, (uintptr_t)pageable, managed,
	    MB, busy);
	ROW("async D2H pageable 0 B, busy", "known", cuMemcpyDtoHAsync_v2, pageable, device, 0,
	    busy);
	ROW("async 2D D2H pageable, busy", "known", cuMemcpy2DAsync_v2, &to_host, busy);
	ROW("async memset device, busy", "known", cuMemsetD8Async, device, 0, MB, busy);
	ROW("async memset pinned, busy", "known", cuMemsetD8Async, (uintptr_t)pinned, 0, MB, busy);
	ROW("async memset managed, busy", "known", cuMemsetD8Async, managed, 0, MB, busy);
}

static void batches(void)
{
	static const struct {
		const char *name;
		int order;
	} orders[] = {{"stream order", CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
		      {"during call", CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
		      {"any order", CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};
	CUdeviceptr dev[] = {device}, page[] = {(uintptr_t)pageable},
		    page2[] = {(uintptr_t)pageable2}, pin[] = {(uintptr_t)pinned};
	size_t mb[] = {MB}, four[] = {4}, first = 0;
	char name[64];

	if (!busy) /* the legacy stream takes no batches */
		return;
	for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		CUmemcpyAttributes how = {.srcAccessOrder = orders[i].order};

#define BATCH(what, dst, src, size)                                                                \
	snprintf(name, sizeof(name), "batch " what ", %s", orders[i].name);                        \
	ROW(name, "gpu", cuMemcpyBatchAsync_v2, dst, src, size, 1, &how, &first, 1, busy)
		BATCH("H2D pageable 1 MiB", dev, page, mb);
		BATCH("H2D pageable 4 B", dev, page, four);
		BATCH("D2H pageable 1 MiB", page, dev, mb);
		BATCH("D2H pageable 4 B", page, dev, four);
		BATCH("H2H pageable 1 MiB", page, page2, mb);
		BATCH("H2D pinned 1 MiB", dev, pin, mb);
		BATCH("D2H pinned 1 MiB", pin, dev, mb);
	}
}

static void memory(void)
{
	CUdeviceptr made = 0;
	CUmemoryPool pool = NULL;
	void *host = NULL;
	CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	unsigned on = 1;

	ROW("alloc 1 MiB", "known", cuMemAlloc_v2, &made, MB);
	ROW("free 1 MiB", "known", cuMemFree_v2, made);
	ROW("free of nothing", "known", cuMemFree_v2, 0);
	ROW("host alloc 1 MiB", "known", cuMemHostAlloc, &host, MB, 0);
	ROW("host free 1 MiB", "known", cuMemFreeHost, host);
	ROW("host register 1 MiB", "known", cuMemHostRegister_v2, pageable2, MB, 0);
	ROW("async D2H registered, busy", "known", cuMemcpyDtoHAsync_v2, pageable2, device, MB,
	    busy);
	ROW("host unregister 1 MiB", "known", cuMemHostUnregister, pageable2);
	ROW("managed alloc 1 MiB", "known", cuMemAllocManaged, &made, MB, CU_MEM_ATTACH_GLOBAL);
	ROW("managed free 1 MiB", "known", cuMemFree_v2, made);
	ROW("pool alloc 1 MiB, other", "known", cuMemAllocAsync, &made, MB, other);
	ROW("pool free 1 MiB, other", "known", cuMemFreeAsync, made, other);
	MUST(cuMemAllocAsync, &made, MB, other);
	ROW("free of pool memory", "known", cuMemFree_v2, made);
	MUST(cuDeviceGetDefaultMemPool, &pool, 0);
	ROW("pool trim", "known", cuMemPoolTrimTo, pool, 0);
	ROW("prefetch, other", "known", cuMemPrefetchAsync_v2, managed, MB, where, 0, other);
	MUST(cuMemAlloc_v2, &made, MB);
	ROW("mark SYNC_MEMOPS", "known", cuPointerSetAttribute, &on,
	    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, made);
	ROW("D2D of marked memory", "known", cuMemcpyDtoD_v2, made, device, MB);
	ROW("memset of marked memory", "known", cuMemsetD8_v2, made, 0, MB);
	MUST(cuMemFree_v2, made);
	/* With a copy of that memory still queued behind the kernel. */
	MUST(cuMemAlloc_v2, &made, MB);
	kernel_start();
	MUST(cuMemcpyDtoD_v2, made, device, MB);
	row_begin();
	row_end("mark SYNC_MEMOPS, copy pending", "gpu",
		cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, made));
	MUST(cuMemFree_v2, made);
}

static void arrays(void)
{
	const array_shape shape = {.width = 65536, .format = 1, .channels = 1};
	CUarray array = NULL;

	if (!cu.cuArrayCreate_v2)
		return;
	ROW("array create", "known", cuArrayCreate_v2, &array, &shape);
	ROW("H2A pageable", "known", cuMemcpyHtoA_v2, array, 0, pageable, 65536);
	ROW("A2H pageable", "known", cuMemcpyAtoH_v2, pageable, array, 0, 65536);
	ROW("async A2H pageable, busy", "known", cuMemcpyAtoHAsync_v2, pageable, array, 0, 65536,
	    busy);
	ROW("array destroy", "known", cuArrayDestroy, array);
}

/* Code that is compiled already. */
static void compiled_code(void)
{
	void *params[] = {&(uint64_t){0}};
	CUmodule module = NULL;
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUfunction func = NULL;

	ROW("module load, cubin", "known", cuModuleLoadData, &module, cubin);
	ROW("module get function, cubin", "known", cuModuleGetFunction, &func, module,
	    "fake_spin_ns");
	ROW("first launch, cubin", "known", cuLaunchKernel, func, 1, 1, 1, 1, 1, 1, 0, other,
	    params, NULL);
	ROW("module unload, cubin", "known", cuModuleUnload, module);
	ROW("library load, cubin", "known", cuLibraryLoadData, &library, cubin, NULL, NULL, 0, NULL,
	    NULL, 0);
	ROW("library get kernel, cubin", "known", cuLibraryGetKernel, &kernel, library,
	    "fake_spin_ns");
	if (relation != 'B')
		ROW("kernel get function, cubin", "known", cuKernelGetFunction, &func, kernel);
	ROW("launch of a library's kernel, cubin", "known", cuLaunchKernel, (CUfunction)kernel, 1,
	    1, 1, 1, 1, 1, 0, other, params, NULL);
	ROW("library unload, cubin", "known", cuLibraryUnload, library);
}

static void code_and_graphs(void)
{
	void *params[] = {&(uint64_t){0}};
	CUmodule module = NULL;
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUfunction func = NULL;
	CUstream made = NULL;
	CUevent event = NULL;
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	ROW("module load", "known", cuModuleLoadData, &module, kernel_text);
	ROW("module get function", "known", cuModuleGetFunction, &func, module, "fake_spin_ns");
	ROW("module unload", "known", cuModuleUnload, module);
	ROW("library load", "known", cuLibraryLoadData, &library, kernel_text, NULL, NULL, 0, NULL,
	    NULL, 0);
	ROW("library get kernel", "known", cuLibraryGetKernel, &kernel, library, "fake_spin_ns");
	if (relation != 'B') /* then the launch is what loads it */
		ROW("kernel get function", "known", cuKernelGetFunction, &func, kernel);
	if (relation != 'B')
		ROW("kernel get function again", "known", cuKernelGetFunction, &func, kernel);
	ROW("launch of a library's kernel", "gpu", cuLaunchKernel, (CUfunction)kernel, 1, 1, 1, 1,
	    1, 1, 0, other, params, NULL);
	ROW("library unload", "known", cuLibraryUnload, library);
	ROW("stream create", "known", cuStreamCreate, &made, 0);
	ROW("stream destroy", "known", cuStreamDestroy_v2, made);
	ROW("event create", "known", cuEventCreate, &event, 0);
	MUST(cuEventRecord, event, busy);
	ROW("event destroy", "known", cuEventDestroy_v2, event);
	ROW("limit stack", "known", cuCtxSetLimit, CU_LIMIT_STACK_SIZE,
	    relation == 'N' || relation == 'D' ? 4096 : 2048);
	ROW("limit printf", "known", cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
	MUST(cuStreamBeginCapture_v2, other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	MUST(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, other, params, NULL);
	MUST(cuStreamEndCapture, other, &graph);
	ROW("graph instantiate", "known", cuGraphInstantiateWithFlags, &exec, graph, 0);
	ROW("graph upload, other", "known", cuGraphUpload, exec, other);
	ROW("graph launch, other", "known", cuGraphLaunch, exec, other);
	ROW("graph destroy", "known", cuGraphExecDestroy, exec);
	MUST(cuGraphDestroy, graph);
}

static int find_all(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver) {
		fprintf(stderr, "cuda_matrix: %s\n", dlerror());
		return 1;
	}
#define FIND(symbol) cu.symbol = (__typeof__(cu.symbol))dlsym(driver, #symbol);
	CALLS(FIND)
	FIND(cuArrayCreate_v2)
	FIND(cuArrayDestroy)
	FIND(cuMemcpyAtoH_v2)
	FIND(cuMemcpyHtoA_v2)
	FIND(cuMemcpyAtoHAsync_v2)
	return 0;
}

static void objects(void)
{
	CUmodule module;

	MUST(cuInit, 0);
	MUST(cuDevicePrimaryCtxRetain, &ctx, 0);
	MUST(cuCtxSetCurrent, ctx);
	MUST(cuModuleLoadData, &module, kernel_text);
	MUST(cuModuleGetFunction, &spin, module, "fake_spin_ns");
	MUST(cuStreamCreate, &non_blocking, CU_STREAM_NON_BLOCKING);
	MUST(cuStreamCreate, &blocking, 0);
	MUST(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
	MUST(cuEventCreate, &marker, CU_EVENT_DISABLE_TIMING);
	MUST(cuEventCreate, &done, CU_EVENT_DISABLE_TIMING);
	MUST(cuEventCreate, &pending, CU_EVENT_DISABLE_TIMING);
	MUST(cuEventRecord, done, other);
	MUST(cuMemAlloc_v2, &device, 2 * MB);
	MUST(cuMemAlloc_v2, &device2, 2 * MB);
	MUST(cuMemAllocManaged, &managed, 2 * MB, CU_MEM_ATTACH_GLOBAL);
	MUST(cuMemHostAlloc, &pinned, 2 * MB, 0);
	MUST(cuMemHostAlloc, &pinned2, 2 * MB, 0);
	pageable = aligned_alloc(4096, 2 * MB);
	pageable2 = aligned_alloc(4096, 2 * MB);
	memset(pageable, 1, 2 * MB);
	memset(pageable2, 1, 2 * MB);
	MUST(cuMemsetD8_v2, managed, 1, 2 * MB);
}

static char *file_read(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *content = calloc(1, MB);

	if (!file || !content || !fread(content, 1, MB, file)) {
		fprintf(stderr, "cuda_matrix: %s cannot be read\n", path);
		exit(1);
	}
	fclose(file);
	return content;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--ptx")) {
		fputs(kernel_text, stdout);
		return 0;
	}
	if (argc > 1)
		kernel_ns = strtoull(argv[1], NULL, 10) * 1000000;
	if (argc > 2)
		cubin = file_read(argv[2]);
	if (find_all())
		return 77;
	objects();
	printf("markers|%llx|%llx\n", (unsigned long long)(uintptr_t)marker,
	       (unsigned long long)(uintptr_t)pending);
	for (const char *r = "iNBD"; *r; r++) {
		relation = *r;
		busy = relation == 'B' ? blocking : relation == 'D' ? NULL : non_blocking;
		waits();
		synchronous_copies();
		asynchronous_copies();
		batches();
		memory();
		arrays();
		code_and_graphs();
		if (cubin)
			compiled_code();
	}
	return 0;
}
