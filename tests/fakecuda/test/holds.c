/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls hold the host, and behind what: every row was measured on an H200 (driver 580) behind
 * a running kernel. Here the kernel is a closed gate, so that the answer needs no clock: a call that
 * is expected to wait must not come back before the gate opens, any other call must.
 */
#include "tests/fakecuda/test/driver.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

enum { KB = 1 << 10, MB = 1 << 20 };

/* What the calls use; made anew for each row, so that nothing leaks from one to the next. */
static struct {
	CUstream nonblocking, blocking, other;
	CUstream busy;
	CUevent done, pending, fresh;
	CUdeviceptr dev1, dev2, managed, sync, victim;
	char *pinned, *pageable, *victim_host;
	CUmodule module;
	CUlibrary library;
	CUkernel kernel;
	CUgraphExec exec;
	CUmemoryPool pool;
	CUmemGenericAllocationHandle physical;
} x;

/* --- the calls ---------------------------------------------------------------------------------------- */

#define CALL(name, expr)                                                                           \
	static CUresult name(void)                                                                 \
	{                                                                                          \
		return expr;                                                                       \
	}

CALL(ctx_sync, cu.cuCtxSynchronize())
CALL(ctx_sync_v2, cu.cuCtxSynchronize_v2(ctx))
CALL(sync_busy, cu.cuStreamSynchronize(x.busy))
CALL(sync_other, cu.cuStreamSynchronize(x.other))
CALL(sync_legacy, cu.cuStreamSynchronize(NULL))
CALL(sync_own, cu.cuStreamSynchronize_ptsz(NULL))
CALL(event_sync_done, cu.cuEventSynchronize(x.done))
CALL(query_busy, cu.cuStreamQuery(x.busy))
CALL(query_other, cu.cuStreamQuery(x.other))
CALL(query_legacy, cu.cuStreamQuery(NULL))
CALL(event_query_pending, cu.cuEventQuery(x.pending))
CALL(wait_event, cu.cuStreamWaitEvent(x.other, x.pending, 0))

static CUresult event_sync_busy(void)
{
	ok(cu.cuEventRecord(x.fresh, x.busy));
	return cu.cuEventSynchronize(x.fresh);
}

static void nothing(void *arg)
{
	(void)arg;
}
CALL(host_func, cu.cuLaunchHostFunc(x.busy, nothing, NULL))

#define H2D(n)   cu.cuMemcpyHtoD_v2(x.dev1, x.pageable, n)
#define D2H(n)   cu.cuMemcpyDtoH_v2(x.pageable, x.dev1, n)
#define H2D_P(n) cu.cuMemcpyHtoD_v2(x.dev1, x.pinned, n)
#define D2H_P(n) cu.cuMemcpyDtoH_v2(x.pinned, x.dev1, n)
CALL(h2d_4, H2D(4))
CALL(h2d_64k, H2D(64 * KB))
CALL(h2d_64k1, H2D(64 * KB + 1))
CALL(h2d_1m, H2D(MB))
CALL(h2d_pinned_4, H2D_P(4))
CALL(h2d_pinned_1m, H2D_P(MB))
CALL(d2h_4, D2H(4))
CALL(d2h_pinned_4, D2H_P(4))
CALL(d2h_pinned_1m, D2H_P(MB))
CALL(d2d, cu.cuMemcpyDtoD_v2(x.dev1, x.dev2, MB))
CALL(h2h, cu.cuMemcpy(DPTR(x.pageable), DPTR(x.pageable) + MB, MB))
CALL(managed_to_dev, cu.cuMemcpy(x.dev1, x.managed, MB))
CALL(dev_to_managed, cu.cuMemcpy(x.managed, x.dev1, MB))
CALL(d2d_sync_memops, cu.cuMemcpyDtoD_v2(x.sync, x.dev1, 4 * KB))
CALL(h2d_own, cu.cuMemcpyHtoD_v2_ptds(x.dev1, x.pinned, 4))
CALL(peer, cu.cuMemcpyPeer(x.dev1, ctx, x.dev2, ctx, 4 * KB))

static CUresult h2d_2d(void)
{
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = x.pinned,
			   .srcPitch = 512,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstDevice = x.dev1,
			   .dstPitch = 1024,
			   .WidthInBytes = 300,
			   .Height = 7};
	return cu.cuMemcpy2D_v2(&c);
}

static CUresult d2h_2d_async_pageable(void)
{
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcDevice = x.dev1,
			   .srcPitch = 512,
			   .dstMemoryType = CU_MEMORYTYPE_HOST,
			   .dstHost = x.pageable,
			   .dstPitch = 512,
			   .WidthInBytes = 300,
			   .Height = 7};
	return cu.cuMemcpy2DAsync_v2(&c, x.busy);
}

static CUdeviceptr global(void)
{
	CUdeviceptr p = 0;
	size_t n;
	ok(cu.cuModuleGetGlobal_v2(&p, &n, module, "fake_global"));
	return p;
}
CALL(to_symbol, cu.cuMemcpyHtoD_v2(global(), x.pageable, 4))
CALL(from_symbol, cu.cuMemcpyDtoH_v2(x.pageable, global(), 4))

#define H2D_A(s, p, n) cu.cuMemcpyHtoDAsync_v2(x.dev1, p, n, s)
#define D2H_A(s, p, n) cu.cuMemcpyDtoHAsync_v2(p, x.dev1, n, s)
CALL(a_other_h2d_4, H2D_A(x.other, x.pageable, 4))
CALL(a_other_h2d_64k1, H2D_A(x.other, x.pageable, 64 * KB + 1))
CALL(a_other_h2d_4m, H2D_A(x.other, x.pageable, 4 * MB))
CALL(a_other_h2d_pinned, H2D_A(x.other, x.pinned, MB))
CALL(a_other_d2h_4, D2H_A(x.other, x.pageable, 4))
CALL(a_other_d2h_pinned, D2H_A(x.other, x.pinned, MB))
CALL(a_other_h2h, cu.cuMemcpyAsync(DPTR(x.pageable), DPTR(x.pageable) + MB, MB, x.other))
CALL(a_busy_h2d_4, H2D_A(x.busy, x.pageable, 4))
CALL(a_busy_h2d_64k, H2D_A(x.busy, x.pageable, 64 * KB))
CALL(a_busy_h2d_64k1, H2D_A(x.busy, x.pageable, 64 * KB + 1))
CALL(a_busy_h2d_1m, H2D_A(x.busy, x.pageable, MB))
CALL(a_busy_h2d_2m, H2D_A(x.busy, x.pageable, 2 * MB))
CALL(a_busy_h2d_2m1, H2D_A(x.busy, x.pageable, 2 * MB + 1))
CALL(a_busy_h2d_pinned_4, H2D_A(x.busy, x.pinned, 4))
CALL(a_busy_h2d_pinned_1m, H2D_A(x.busy, x.pinned, MB))
CALL(a_busy_d2h_4, D2H_A(x.busy, x.pageable, 4))
CALL(a_busy_d2h_1m, D2H_A(x.busy, x.pageable, MB))
CALL(a_busy_d2h_pinned_4, D2H_A(x.busy, x.pinned, 4))
CALL(a_busy_d2h_pinned_1m, D2H_A(x.busy, x.pinned, MB))
CALL(a_busy_d2d, cu.cuMemcpyDtoDAsync_v2(x.dev1, x.dev2, MB, x.busy))
CALL(a_busy_h2h, cu.cuMemcpyAsync(DPTR(x.pageable), DPTR(x.pageable) + MB, MB, x.busy))
CALL(a_busy_h2h_pinned, cu.cuMemcpyAsync(DPTR(x.pinned), DPTR(x.pinned) + 64 * KB, KB, x.busy))
CALL(a_busy_managed_to_dev, cu.cuMemcpyAsync(x.dev1, x.managed, MB, x.busy))
CALL(a_busy_dev_to_managed, cu.cuMemcpyAsync(x.managed, x.dev1, MB, x.busy))
CALL(a_busy_managed_to_pageable, cu.cuMemcpyAsync(DPTR(x.pageable), x.managed, 4 * KB, x.busy))
CALL(a_busy_sync_memops, cu.cuMemcpyDtoDAsync_v2(x.sync, x.dev1, 4 * KB, x.busy))

CALL(memset_dev, cu.cuMemsetD8_v2(x.dev1, 1, MB))
CALL(memset_pinned, cu.cuMemsetD8_v2(DPTR(x.pinned), 1, MB))
CALL(memset_managed, cu.cuMemsetD32_v2(x.managed, 1, KB))
CALL(memset_sync_memops, cu.cuMemsetD16_v2(x.sync, 1, KB))
CALL(memset_async, cu.cuMemsetD8Async(x.dev1, 1, MB, x.busy))
CALL(memset_async_pinned, cu.cuMemsetD8Async(DPTR(x.pinned), 1, KB, x.busy))

CALL(mem_alloc, cu.cuMemAlloc_v2(&x.victim, MB))
CALL(mem_free, cu.cuMemFree_v2(x.victim))
CALL(host_alloc, cu.cuMemHostAlloc((void **)&x.victim_host, MB, 0))
CALL(host_free, cu.cuMemFreeHost(x.victim_host))
CALL(host_register, cu.cuMemHostRegister_v2(x.pageable, MB, 0))
CALL(host_unregister, cu.cuMemHostUnregister(x.pageable))
CALL(managed_alloc, cu.cuMemAllocManaged(&x.victim, MB, CU_MEM_ATTACH_GLOBAL))
CALL(alloc_async, cu.cuMemAllocAsync(&x.victim, MB, x.other))
CALL(free_async, cu.cuMemFreeAsync(x.victim, x.other))
CALL(trim, cu.cuMemPoolTrimTo(x.pool, 0))
CALL(prefetch, cu.cuMemPrefetchAsync(x.managed, MB, dev, x.other))
CALL(unmap, cu.cuMemUnmap(x.victim, 2 * MB))

static CUresult map(void)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, dev},
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
	CUresult rc = cu.cuMemCreate(&x.physical, 2 * MB, &prop, 0);
	if (!rc)
		rc = cu.cuMemMap(x.victim, 2 * MB, 0, x.physical, 0);
	return rc ? rc : cu.cuMemSetAccess(x.victim, 2 * MB, &access, 1);
}

CALL(event_destroy, cu.cuEventDestroy_v2(x.pending))
CALL(limit_stack, cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4 * KB))
CALL(limit_stack_same, cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * KB))
CALL(limit_heap, cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MB))
CALL(func_attr, cu.cuFuncSetAttribute(spin_ns, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, KB))
CALL(module_load, cu.cuModuleLoadData(&x.module, test_image))
CALL(module_unload, cu.cuModuleUnload(x.module))
CALL(library_load, cu.cuLibraryLoadData(&x.library, test_image, 0, 0, 0, 0, 0, 0))
CALL(library_unload, cu.cuLibraryUnload(x.library))
CALL(graph_launch_other, cu.cuGraphLaunch(x.exec, x.other))
CALL(graph_launch_busy, cu.cuGraphLaunch(x.exec, x.busy))
CALL(graph_exec_destroy, cu.cuGraphExecDestroy(x.exec))

static CUresult stream_create(void)
{
	CUstream s;
	CUresult rc = cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	return rc ? rc : cu.cuStreamDestroy_v2(s);
}

static CUresult kernel_function(void)
{
	CUfunction fn;
	return cu.cuKernelGetFunction(&fn, x.kernel);
}

static CUresult mem_info(void)
{
	size_t a, b;
	return cu.cuMemGetInfo_v2(&a, &b);
}

static CUresult pointer_attr(void)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned type;
	void *data = &type;
	return cu.cuPointerGetAttributes(1, &attr, &data, x.dev1);
}

static CUresult set_sync_memops(void)
{
	unsigned on = 1;
	return cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, x.dev1);
}

static CUresult launch_other(void)
{
	launch_spin(x.other, 1);
	return CUDA_SUCCESS;
}

/* --- what some need first ----------------------------------------------------------------------------- */

static void need_victim(void)
{
	x.victim = mem_new(MB);
}

static void need_managed_victim(void)
{
	ok(cu.cuMemAllocManaged(&x.victim, MB, CU_MEM_ATTACH_GLOBAL));
}

static void need_pinned_victim(void)
{
	x.victim_host = pinned_new(MB);
}

static void need_registered(void)
{
	ok(cu.cuMemHostRegister_v2(x.pageable, MB, 0));
}

static void need_async_victim(void)
{
	ok(cu.cuMemAllocAsync(&x.victim, MB, x.other));
	ok(cu.cuStreamSynchronize(x.other));
}

static void need_reserved(void)
{
	ok(cu.cuMemAddressReserve(&x.victim, 2 * MB, 0, 0, 0));
}

static void need_mapped(void)
{
	need_reserved();
	ok(map());
}

static void need_module(void)
{
	ok(cu.cuModuleLoadData(&x.module, test_image));
}

static void need_library(void)
{
	ok(cu.cuLibraryLoadData(&x.library, test_image, 0, 0, 0, 0, 0, 0));
	ok(cu.cuLibraryGetKernel(&x.kernel, x.library, "fake_fill_u32"));
}

static void need_loaded_library(void)
{
	need_library();
	ok(kernel_function());
}

/* A graph of a kernel and, perhaps, a copy to target. */
static void need_graph(void *target)
{
	CUgraph graph;
	ok(cu.cuStreamBeginCapture_v2(x.other, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch_spin(x.other, 1);
	if (target)
		ok(cu.cuMemcpyDtoHAsync_v2(target, x.dev1, 64, x.other));
	ok(cu.cuStreamEndCapture(x.other, &graph));
	ok(cu.cuGraphInstantiateWithFlags(&x.exec, graph, 0));
	ok(cu.cuGraphDestroy(graph));
}

static void need_plain_graph(void)
{
	need_graph(NULL);
}

static void need_pinned_graph(void)
{
	need_graph(x.pinned);
}

static void need_pageable_graph(void)
{
	need_graph(x.pageable);
}

static void need_warm_pool(void)
{
	need_async_victim();
	ok(cu.cuMemFreeAsync(x.victim, x.other));
	ok(cu.cuStreamSynchronize(x.other));
}

/* --- the table ---------------------------------------------------------------------------------------- */

enum { N = 1, B = 2, D = 4, NBD = N | B | D, BD = B | D };

struct row {
	const char *name;
	CUresult (*call)(void);
	unsigned held; /* behind work on the non-blocking, blocking, legacy stream */
	void (*need)(void);
	CUresult result;     /* success, but for queries */
	unsigned result_for; /* the relations with that result; 0: all */
};

#define READY CUDA_ERROR_NOT_READY
static const struct row rows[] = {
	{"ctx synchronize", ctx_sync, NBD, 0, 0, 0},
	{"ctx synchronize v2", ctx_sync_v2, NBD, 0, 0, 0},
	{"stream synchronize busy", sync_busy, NBD, 0, 0, 0},
	{"stream synchronize other", sync_other, 0, 0, 0, 0},
	{"stream synchronize legacy", sync_legacy, BD, 0, 0, 0},
	{"stream synchronize own", sync_own, 0, 0, 0, 0},
	{"event synchronize done", event_sync_done, 0, 0, 0, 0},
	{"event record and synchronize busy", event_sync_busy, NBD, 0, 0, 0},
	{"stream query busy", query_busy, 0, 0, READY, 0},
	{"stream query other", query_other, 0, 0, 0, 0},
	{"stream query legacy", query_legacy, 0, 0, READY, BD},
	{"event query pending", event_query_pending, 0, 0, READY, 0},
	{"stream wait event", wait_event, 0, 0, 0, 0},
	{"launch host func", host_func, 0, 0, 0, 0},
	{"HtoD pageable 4", h2d_4, BD, 0, 0, 0},
	{"HtoD pageable 64K", h2d_64k, BD, 0, 0, 0},
	{"HtoD pageable 64K+1", h2d_64k1, BD, 0, 0, 0},
	{"HtoD pageable 1M", h2d_1m, BD, 0, 0, 0},
	{"HtoD pinned 4", h2d_pinned_4, BD, 0, 0, 0},
	{"HtoD pinned 1M", h2d_pinned_1m, BD, 0, 0, 0},
	{"DtoH pageable 4", d2h_4, BD, 0, 0, 0},
	{"DtoH pinned 4", d2h_pinned_4, BD, 0, 0, 0},
	{"DtoH pinned 1M", d2h_pinned_1m, BD, 0, 0, 0},
	{"DtoD", d2d, 0, 0, 0, 0},
	{"HtoH", h2h, BD, 0, 0, 0},
	{"managed to device", managed_to_dev, BD, 0, 0, 0},
	{"device to managed", dev_to_managed, BD, 0, 0, 0},
	{"DtoD with SYNC_MEMOPS", d2d_sync_memops, BD, 0, 0, 0},
	{"HtoD per-thread stream", h2d_own, D, 0, 0, 0},
	{"peer", peer, 0, 0, 0, 0},
	{"2D HtoD pinned", h2d_2d, BD, 0, 0, 0},
	{"to symbol", to_symbol, BD, 0, 0, 0},
	{"from symbol", from_symbol, BD, 0, 0, 0},
	{"async other HtoD pageable 4", a_other_h2d_4, 0, 0, 0, 0},
	{"async other HtoD pageable 64K+1", a_other_h2d_64k1, 0, 0, 0, 0},
	{"async other HtoD pageable 4M", a_other_h2d_4m, 0, 0, 0, 0},
	{"async other HtoD pinned", a_other_h2d_pinned, 0, 0, 0, 0},
	{"async other DtoH pageable 4", a_other_d2h_4, 0, 0, 0, 0},
	{"async other DtoH pinned", a_other_d2h_pinned, 0, 0, 0, 0},
	{"async other HtoH", a_other_h2h, 0, 0, 0, 0},
	{"async busy HtoD pageable 4", a_busy_h2d_4, 0, 0, 0, 0},
	{"async busy HtoD pageable 64K", a_busy_h2d_64k, 0, 0, 0, 0},
	{"async busy HtoD pageable 64K+1", a_busy_h2d_64k1, 0, 0, 0, 0},
	{"async busy HtoD pageable 1M", a_busy_h2d_1m, 0, 0, 0, 0},
	{"async busy HtoD pageable 2M", a_busy_h2d_2m, 0, 0, 0, 0},
	{"async busy HtoD pageable 2M+1", a_busy_h2d_2m1, NBD, 0, 0, 0},
	{"async busy HtoD pinned 4", a_busy_h2d_pinned_4, 0, 0, 0, 0},
	{"async busy HtoD pinned 1M", a_busy_h2d_pinned_1m, 0, 0, 0, 0},
	{"async busy DtoH pageable 4", a_busy_d2h_4, NBD, 0, 0, 0},
	{"async busy DtoH pageable 1M", a_busy_d2h_1m, NBD, 0, 0, 0},
	{"async busy DtoH pinned 4", a_busy_d2h_pinned_4, 0, 0, 0, 0},
	{"async busy DtoH pinned 1M", a_busy_d2h_pinned_1m, 0, 0, 0, 0},
	{"async busy DtoD", a_busy_d2d, 0, 0, 0, 0},
	{"async busy HtoH pageable", a_busy_h2h, NBD, 0, 0, 0},
	{"async busy HtoH pinned", a_busy_h2h_pinned, NBD, 0, 0, 0},
	{"async busy managed to device", a_busy_managed_to_dev, 0, 0, 0, 0},
	{"async busy device to managed", a_busy_dev_to_managed, 0, 0, 0, 0},
	{"async busy managed to pageable", a_busy_managed_to_pageable, NBD, 0, 0, 0},
	{"async busy DtoD with SYNC_MEMOPS", a_busy_sync_memops, 0, 0, 0, 0},
	{"async busy 2D DtoH pageable", d2h_2d_async_pageable, NBD, 0, 0, 0},
	{"memset device", memset_dev, 0, 0, 0, 0},
	{"memset pinned", memset_pinned, BD, 0, 0, 0},
	{"memset managed", memset_managed, BD, 0, 0, 0},
	{"memset with SYNC_MEMOPS", memset_sync_memops, BD, 0, 0, 0},
	{"memset async", memset_async, 0, 0, 0, 0},
	{"memset async pinned", memset_async_pinned, 0, 0, 0, 0},
	{"alloc", mem_alloc, 0, 0, 0, 0},
	{"free", mem_free, NBD, need_victim, 0, 0},
	{"host alloc", host_alloc, 0, 0, 0, 0},
	{"host free", host_free, NBD, need_pinned_victim, 0, 0},
	{"host register", host_register, 0, 0, 0, 0},
	{"host unregister", host_unregister, NBD, need_registered, 0, 0},
	{"managed alloc", managed_alloc, 0, 0, 0, 0},
	{"managed free", mem_free, NBD, need_managed_victim, 0, 0},
	{"alloc async", alloc_async, 0, need_warm_pool, 0, 0},
	{"free async", free_async, 0, need_async_victim, 0, 0},
	{"free of async memory", mem_free, 0, need_async_victim, 0, 0},
	{"pool trim", trim, 0, 0, 0, 0},
	{"prefetch", prefetch, 0, 0, 0, 0},
	{"map", map, 0, need_reserved, 0, 0},
	{"unmap", unmap, 0, need_mapped, 0, 0},
	{"stream create and destroy", stream_create, 0, 0, 0, 0},
	{"event destroy pending", event_destroy, 0, 0, 0, 0},
	{"limit stack", limit_stack, NBD, 0, 0, 0},
	{"limit stack, as it is", limit_stack_same, 0, 0, 0, 0},
	{"limit heap", limit_heap, 0, 0, 0, 0},
	{"function attribute", func_attr, 0, 0, 0, 0},
	{"memory info", mem_info, 0, 0, 0, 0},
	{"pointer attribute", pointer_attr, 0, 0, 0, 0},
	{"set SYNC_MEMOPS", set_sync_memops, 0, 0, 0, 0},
	{"launch other", launch_other, 0, 0, 0, 0},
	{"module load", module_load, NBD, 0, 0, 0},
	{"module unload", module_unload, NBD, need_module, 0, 0},
	{"library load", library_load, 0, 0, 0, 0},
	{"library's first function", kernel_function, NBD, need_library, 0, 0},
	{"library unload", library_unload, NBD, need_loaded_library, 0, 0},
	{"library unload, nothing loaded", library_unload, 0, need_library, 0, 0},
	{"graph launch other", graph_launch_other, 0, need_plain_graph, 0, 0},
	{"graph launch busy", graph_launch_busy, 0, need_plain_graph, 0, 0},
	{"graph with DtoH pinned", graph_launch_busy, 0, need_pinned_graph, 0, 0},
	{"graph with DtoH pageable", graph_launch_busy, NBD, need_pageable_graph, 0, 0},
	{"graph exec destroy", graph_exec_destroy, 0, need_plain_graph, 0, 0},
};

/* --- measuring ---------------------------------------------------------------------------------------- */

struct opener {
	struct gate gate;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool returned;
	_Atomic bool opened;
	long patience_ms;
};

/* Opens the gate when the call is back, or when it has waited long enough to show that it waits. */
static void *opener_run(void *arg)
{
	struct opener *o = arg;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += o->patience_ms / 1000;
	until.tv_nsec += o->patience_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&o->lock);
	while (!o->returned && pthread_cond_timedwait(&o->cond, &o->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&o->lock);
	atomic_store(&o->opened, true);
	gate_open(&o->gate);
	return NULL;
}

static void fixture_make(void)
{
	unsigned on = 1;
	memset(&x, 0, sizeof(x));
	x.nonblocking = stream_new(CU_STREAM_NON_BLOCKING);
	x.blocking = stream_new(CU_STREAM_DEFAULT);
	x.other = stream_new(CU_STREAM_NON_BLOCKING);
	x.done = event_new(0);
	x.pending = event_new(0);
	x.fresh = event_new(0);
	x.dev1 = mem_new(4 * MB);
	x.dev2 = mem_new(MB);
	x.sync = mem_new(64 * KB);
	ok(cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, x.sync));
	ok(cu.cuMemAllocManaged(&x.managed, MB, CU_MEM_ATTACH_GLOBAL));
	x.pinned = pinned_new(MB + 64 * KB);
	/* Its own pages, so that registering it registers nothing else. */
	x.pageable = aligned_alloc(4 * KB, 4 * MB);
	assert_non_null(x.pageable);
	memset(x.pageable, 1, 4 * MB);
	ok(cu.cuEventRecord(x.done, x.other));
	ok(cu.cuStreamSynchronize(x.other));
	ok(cu.cuDeviceGetDefaultMemPool(&x.pool, dev));
	ok(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * KB));
}

static void fixture_free(const struct row *row)
{
	ok(cu.cuCtxSynchronize());
	ok(cu.cuStreamDestroy_v2(x.nonblocking));
	ok(cu.cuStreamDestroy_v2(x.blocking));
	ok(cu.cuStreamDestroy_v2(x.other));
	ok(cu.cuEventDestroy_v2(x.done));
	if (row->call != event_destroy)
		ok(cu.cuEventDestroy_v2(x.pending));
	ok(cu.cuEventDestroy_v2(x.fresh));
	ok(cu.cuMemFree_v2(x.dev1));
	ok(cu.cuMemFree_v2(x.dev2));
	ok(cu.cuMemFree_v2(x.sync));
	ok(cu.cuMemFree_v2(x.managed));
	ok(cu.cuMemFreeHost(x.pinned));
	if (row->call == mem_alloc || row->call == managed_alloc || row->call == alloc_async)
		ok(cu.cuMemFree_v2(x.victim));
	if (row->call == host_alloc)
		ok(cu.cuMemFreeHost(x.victim_host));
	if (row->call == host_register)
		ok(cu.cuMemHostUnregister(x.pageable));
	if (row->call == map)
		ok(cu.cuMemUnmap(x.victim, 2 * MB));
	if (row->call == map || row->call == unmap) {
		ok(cu.cuMemRelease(x.physical));
		ok(cu.cuMemAddressFree(x.victim, 2 * MB));
	}
	if (row->call == module_load)
		ok(cu.cuModuleUnload(x.module));
	if (row->call == library_load || row->call == kernel_function)
		ok(cu.cuLibraryUnload(x.library));
	if (x.exec && row->call != graph_exec_destroy)
		ok(cu.cuGraphExecDestroy(x.exec));
	free(x.pageable);
}

/* The result in *rc; whether the call was held behind work on the stream. */
static bool is_held(const struct row *row, CUstream busy, bool expected, CUresult *rc)
{
	struct opener o = {.lock = PTHREAD_MUTEX_INITIALIZER,
			   .cond = PTHREAD_COND_INITIALIZER,
			   .patience_ms = expected ? 13 : 20000};
	pthread_t thread;
	x.busy = busy;
	if (row->need)
		row->need();
	o.gate = gate_new();
	gate_close(&o.gate, busy);
	ok(cu.cuEventRecord(x.pending, busy));
	assert_int_equal(pthread_create(&thread, NULL, opener_run, &o), 0);
	*rc = row->call();
	bool held = atomic_load(&o.opened);
	pthread_mutex_lock(&o.lock);
	o.returned = true;
	pthread_cond_signal(&o.cond);
	pthread_mutex_unlock(&o.lock);
	pthread_join(thread, NULL);
	ok(cu.cuCtxSynchronize());
	gate_free(&o.gate);
	return held;
}

static void test_holds(void **state)
{
	static const char relation[] = "NBD";
	int wrong = 0;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (unsigned r = 0; r < 3; r++) {
			const struct row *row = &rows[i];
			bool want = row->held >> r & 1;
			CUresult rc, want_rc = CUDA_SUCCESS;
			if (!row->result_for || row->result_for >> r & 1)
				want_rc = row->result;
			fixture_make();
			CUstream busy[] = {x.nonblocking, x.blocking, NULL};
			bool held = is_held(row, busy[r], want, &rc);
			if (held != want || rc != want_rc) {
				print_error("%s behind %c: %s, expected %s; result %d\n", row->name,
					    relation[r], held ? "held" : "not held",
					    want ? "held" : "not held", rc);
				wrong++;
			}
			fixture_free(row);
		}
	assert_int_equal(wrong, 0);
}

/* A call on another thread does not wait for that thread's per-thread stream, and so on. */
static void *own_stream_busy(void *arg)
{
	struct gate *gate = arg;
	driver_attach();
	gate_close(gate, CU_STREAM_PER_THREAD);
	is(cu.cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	is(cu.cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
	return NULL;
}

static void test_own_streams(void **state)
{
	struct gate gate = gate_new();
	pthread_t thread;
	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, own_stream_busy, &gate), 0);
	pthread_join(thread, NULL);
	/* That thread is gone, its work is not; ours is another stream, legacy waits for both. */
	ok(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	ok(cu.cuStreamSynchronize_ptsz(NULL));
	is(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	is(cu.cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
	ok(cu.cuStreamQuery(NULL));
	gate_free(&gate);
}

int run_holds_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_own_streams),
	};
	return cmocka_run_group_tests_name("what holds the host", tests, NULL, NULL);
}
