/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CUDA wrappers record, leave alone and replace.
 */
#include "tests/unit/cuda_stand_in.h"
#include "tracer/inject/cuda/map.h"

#include <pthread.h>

/* --- what is recorded ----------------------------------------------------------------------------- */

static void streams_are_named_alike(void **state)
{
	(void)state;
	fresh();
	cuStreamSynchronize(STREAM(CU_STREAM_LEGACY));
	assert_int_equal(last.wait.stream, 0);
	assert_int_equal(last.wait.rule, WL_rule_legacy_wait);
	assert_int_equal(last.wait.stream_kind, WL_stream_kind_legacy);
	errno = EDOM;
	cuStreamSynchronize_ptsz(NULL);
	assert_int_equal(last.wait.stream, CU_STREAM_PER_THREAD);
	assert_int_equal(last.wait.rule, WL_rule_stream_wait);
	assert_int_equal(last.wait.stream_kind, WL_stream_kind_per_thread);
	errno = EDOM;
	cuMemcpyDtoH_v2_ptds(P(PAGEABLE), DEVICE, 5);
	assert_int_equal(last.copy.stream, CU_STREAM_PER_THREAD);
	assert_int_equal(last.copy.stream_kind, WL_stream_kind_per_thread);
	assert_string_equal(string(last.copy.api), "cuMemcpyDtoH_v2_ptds");
}

static void waits_and_stages_have_a_stack(void **state)
{
	(void)state;
	fresh();
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.stack, 1);
	assert_true(entered_waiting); /* the in-flight slot had it during the call */
	errno = EDOM;
	cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), 7, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.stack, 2);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, 7, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.stack, 0);
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
}

static void a_refused_call_waits_for_nothing(void **state)
{
	(void)state;
	fresh();
	driver_status = CUDA_ERROR_INVALID_HANDLE;
	assert_int_equal(cuStreamSynchronize(STREAM(0xbad)), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(last.wait.status, CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(last.wait.cls, WL_call_class_none);
	fresh();
	driver_status = 700; /* an illegal access of earlier work: it was waited for */
	cuCtxSynchronize();
	assert_int_equal(last.wait.status, 700);
	assert_int_equal(last.wait.cls, WL_call_class_waits);
}

static void nothing_is_read_before_success(void **state)
{
	(void)state;
	fresh();
	driver_status = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(cuMemAlloc_v2(NULL, 17), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuMemcpy3D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuLaunchKernelEx(NULL, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuPointerSetAttribute(NULL, 6, DEVICE), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuMemcpyBatchAsync_v2(NULL, NULL, NULL, 3, NULL, NULL, 0, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuGetProcAddress_v2(NULL, NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(records, 5);
}

static void errno_and_depth(void **state)
{
	(void)state;
	fresh();
	driver_errno = EINTR; /* what the driver leaves behind is what the job sees */
	cuStreamSynchronize(STREAM(OTHER_STREAM));
	assert_int_equal(errno, EINTR);
	assert_int_equal(depth_inside, 1);
	assert_null(wl_depth.cuda.frame);
	fresh();
	driver_errno = EINTR; /* so it does when we asked the driver afterwards */
	cuLaunchKernel((CUfunction)P(NAMED_FUNCTION), 1, 1, 1, 1, 1, 1, 0, STREAM(OTHER_STREAM),
		       NULL, NULL);
	assert_int_equal(errno, EINTR);
	fresh();
	wl_enter(&wl_depth.cuda, WL_FRAME); /* inside another call */
	cuStreamSynchronize(STREAM(OTHER_STREAM));
	wl_leave(&wl_depth.cuda);
	assert_int_equal(records, 0);
	fresh();
	wl_enter(&wl_depth.ofi, WL_FRAME);
	cuMemcpyDtoD_v2(DEVICE, OTHER_DEVICE, 3);
	wl_leave(&wl_depth.ofi);
	assert_int_equal(last.flags, WL_FLAG_IN_PROVIDER);
}

static jmp_buf outside;

static CUresult real_that_is_left(CUstream stream)
{
	(void)stream;
	longjmp(outside, 1); /* as out of a signal handler */
}

static __attribute__((noinline)) unsigned deeper(unsigned levels)
{
	volatile uint64_t room[32];
	unsigned sum = 0;

	for (unsigned i = 0; i < 32; i++)
		room[i] = levels + i;
	if (levels)
		sum = deeper(levels - 1);
	else
		cuStreamSynchronize(STREAM(OTHER_STREAM));
	return sum + (unsigned)room[levels % 32];
}

static void a_call_that_was_left_hides_none(void **state)
{
	void *real = atomic_load(&cu_reals[CU_ID_cuStreamSynchronize]);
	volatile uintptr_t frame[2] = {0, 31};

	(void)state;
	fresh();
	for (volatile unsigned level = 0; level < 11; level++) {
		atomic_store(&cu_reals[CU_ID_cuStreamSynchronize], (void *)real_that_is_left);
		if (!setjmp(outside))
			cuStreamSynchronize(STREAM(OTHER_STREAM));
		atomic_store(&cu_reals[CU_ID_cuStreamSynchronize], real);
		deeper(level);
		assert_int_equal(records, level + 1);
		assert_null(wl_depth.cuda.frame);
	}
	fresh();
	wl_enter(&wl_depth.ofi, (const uintptr_t *)frame);
	frame[1] = 4711; /* another function's by now */
	cuMemcpyDtoD_v2(DEVICE, OTHER_DEVICE, 3);
	wl_leave(&wl_depth.ofi);
	assert_int_equal(last.flags, 0);
}

static void kinds_come_from_the_calls_seen(void **state)
{
	void *pinned = P(0x1700); /* the driver would say pageable */
	CUdeviceptr memory = 0x3700;

	(void)state;
	fresh();
	cuMemHostAlloc(&pinned, 4096, 0);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(0x1700 + 4095), DEVICE, 1, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.dst_kind, WL_mem_kind_pinned);
	assert_int_equal(kinds_asked, 0);
	errno = EDOM;
	cuMemFreeHost(pinned);
	assert_int_equal(last.mem.bytes, 4096);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(0x1700), DEVICE, 1, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.dst_kind, WL_mem_kind_pageable);
	assert_int_equal(kinds_asked, 1);
	/* A failed free leaves the memory as it was. */
	errno = EDOM;
	cuMemAllocManaged(&memory, 100, 1);
	fresh();
	driver_status = CUDA_ERROR_INVALID_CONTEXT;
	cuMemFree_v2(memory);
	fresh();
	cuMemcpy(DEVICE, memory + 99, 1);
	assert_int_equal(last.copy.src_kind, WL_mem_kind_managed);
	errno = EDOM;
	cuMemFree_v2(memory);
	errno = EDOM;
	cuMemFree_v2(0);
	assert_int_equal(last.mem.cls, WL_call_class_none);
}

static void sync_memops(void **state)
{
	CUdeviceptr memory = 0x3900;
	unsigned on = 1, off = 0;

	(void)state;
	fresh();
	cuMemAlloc_v2(&memory, 256);
	errno = EDOM;
	cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory);
	assert_int_equal(last.mem.rule, WL_rule_sync_memops);
	assert_int_equal(last.mem.cls, WL_call_class_waits);
	errno = EDOM;
	cuMemcpyDtoD_v2(memory + 100, OTHER_DEVICE, 11);
	assert_int_equal(last.copy.rule, WL_rule_copy_sync_memops);
	errno = EDOM;
	cuMemcpyDtoDAsync_v2(memory, OTHER_DEVICE, 11, NULL);
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
	errno = EDOM;
	cuMemsetD32_v2(memory, 0, 11);
	assert_int_equal(last.memset.rule, WL_rule_copy_sync_memops);
	assert_int_equal(last.memset.bytes, 44);
	errno = EDOM;
	cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory);
	assert_int_equal(last.mem.cls, WL_call_class_none);
	errno = EDOM;
	cuMemcpyDtoD_v2(memory, OTHER_DEVICE, 11);
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
	errno = EDOM;
	cuMemFree_v2(memory);
}

static void captured_work_is_marked(void **state)
{
	CUgraph graph = (CUgraph)P(0x123);
	CUstream stream = STREAM(OTHER_STREAM);

	(void)state;
	fresh();
	capturing_asked = 0;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, stream);
	assert_int_equal(capturing_asked, 0); /* nothing is being captured anywhere */
	errno = EDOM;
	cuStreamBeginCapture_v2(stream, 0);
	captured_stream = OTHER_STREAM;
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, stream);
	assert_int_equal(last.flags, WL_FLAG_CAPTURED);
	assert_int_equal(last.copy.cls, WL_call_class_none);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, STREAM(BLOCKING_STREAM));
	assert_int_equal(last.flags, 0);
	assert_int_equal(last.copy.cls, WL_call_class_waits);
	errno = EDOM;
	cuLaunchKernel((CUfunction)P(0xf00), 2, 3, 5, 7, 11, 13, 17, stream, NULL, NULL);
	assert_int_equal(last.flags, WL_FLAG_CAPTURED);
	errno = EDOM;
	cuStreamEndCapture(stream, &graph);
	assert_int_equal(last.graph.nodes, 13);
	capturing_asked = 0;
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, stream);
	assert_int_equal(capturing_asked, 0);
}

static void batches_are_as_bad_as_their_worst(void **state)
{
	CUdeviceptr dsts[] = {PAGEABLE, DEVICE, DEVICE, DEVICE};
	CUdeviceptr srcs[] = {DEVICE, PINNED, PAGEABLE, PAGEABLE};
	struct CUmemcpyAttributes how[] = {{.srcAccessOrder = CU_ORDER_STREAM},
					   {.srcAccessOrder = CU_ORDER_ANY},
					   {.srcAccessOrder = CU_ORDER_STREAM}};
	size_t sizes[] = {3, 5, 7, 11}, from[] = {0, 2, 3};

	(void)state;
	fresh();
	cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 4, how, from, 3, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.rule, WL_rule_batch_in_order);
	assert_int_equal(last.copy.src, PAGEABLE);
	assert_int_equal(last.copy.bytes, 26);
	assert_int_equal(last.copy.stack, 1);
	fresh();
	cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 4, how, from, 2, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.rule, WL_rule_async_from_pageable);
	assert_int_equal(last.copy.cls, WL_call_class_stages);
	fresh();
	cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 2, how, from, 1, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
	assert_int_equal(last.copy.stack, 0);
	how[0].srcAccessOrder = CU_ORDER_DURING_CALL;
	fresh();
	cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 1, how, from, 1, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.rule, WL_rule_batch_during_call);
}

static void kernels_have_names(void **state)
{
	const struct CUlaunchConfig how = {
		.gridDimX = 19, .blockDimX = 23, .hStream = STREAM(0x70)};
	CUfunction func = (CUfunction)P(0xf13);

	(void)state;
	fresh();
	cuLaunchKernel((CUfunction)P(0xf00), 2, 3, 5, 7, 11, 13, 17, NULL, NULL, NULL);
	assert_string_equal(string(last.launch.kernel), "told_by_the_driver");
	assert_int_equal(last.launch.block_z, 13);
	errno = EDOM;
	cuModuleGetFunction(&func, NULL, "asked_by_name");
	errno = EDOM;
	cuLaunchKernelEx(&how, func, NULL, NULL);
	assert_string_equal(string(last.launch.kernel), "asked_by_name");
	assert_int_equal(last.launch.grid_x, 19);
	assert_int_equal(last.launch.stream, 0x70);
	errno = EDOM;
	cuModuleUnload(NULL); /* the handle may now be another's */
	errno = EDOM;
	cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	assert_int_equal(last.launch.kernel, 0);
}

/* As measured: code that needs more local memory than the stack limit, or than code before it, waits at its
 * first launch and not again. */
static void local_memory(void **state)
{
	static const struct {
		unsigned bytes;
		bool waits;
	} launches[] = {{16, false},  {1024, false}, {1040, true},  {1040, false},
			{1536, true}, {1100, false}, {2048, true},  {1536, false},
			{4096, true}, {3000, false}, {16384, true}, {8192, false}};

	(void)state;
	for (unsigned i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		fresh();
		cuLaunchKernel((CUfunction)P(LOCAL_FUNCTIONS + launches[i].bytes), 1, 1, 1, 1, 1, 1,
			       0, STREAM(OTHER_STREAM), NULL, NULL);
		assert_int_equal(errno, EDOM);
		assert_int_equal(last.launch.cls,
				 launches[i].waits ? WL_call_class_waits : WL_call_class_none);
		assert_int_equal(last.launch.rule,
				 launches[i].waits ? WL_rule_local_memory : WL_rule_none);
		assert_int_equal(stacks_taken, launches[i].waits);
	}
	/* A captured launch is none; a raised limit has the room. */
	fresh();
	captured_stream = OTHER_STREAM;
	cuStreamBeginCapture_v2(STREAM(OTHER_STREAM), 0);
	cuLaunchKernel((CUfunction)P(LOCAL_FUNCTIONS + 20000), 1, 1, 1, 1, 1, 1, 0,
		       STREAM(OTHER_STREAM), NULL, NULL);
	assert_int_equal(last.launch.rule, WL_rule_none);
	cuStreamEndCapture(STREAM(OTHER_STREAM), &(CUgraph){NULL});
	fresh();
	cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536);
	assert_int_equal(last.setup.rule, WL_rule_stack_limit);
	cuLaunchKernel((CUfunction)P(LOCAL_FUNCTIONS + 20000), 1, 1, 1, 1, 1, 1, 0,
		       STREAM(OTHER_STREAM), NULL, NULL);
	assert_int_equal(last.launch.rule, WL_rule_none);
	cuLaunchKernel((CUfunction)P(LOCAL_FUNCTIONS + 65537), 1, 1, 1, 1, 1, 1, 0,
		       STREAM(OTHER_STREAM), NULL, NULL);
	assert_int_equal(last.launch.rule, WL_rule_local_memory);
}

static void a_library_is_loaded_by_its_first_use(void **state)
{
	CUlibrary library = (CUlibrary)P(0x71b), idle = (CUlibrary)P(0x71c);
	CUkernel one = (CUkernel)P(0x811), two = (CUkernel)P(0x812);
	CUfunction func = (CUfunction)P(0x813);

	(void)state;
	fresh();
	cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0);
	assert_int_equal(last.setup.cls, WL_call_class_none);
	errno = EDOM;
	cuLibraryLoadData(&idle, "", NULL, NULL, 0, NULL, NULL, 0);
	errno = EDOM;
	cuLibraryGetKernel(&one, library, "one");
	errno = EDOM;
	cuLibraryGetKernel(&two, library, "two");
	fresh();
	driver_status = 2; /* out of memory: it will be tried again */
	cuLaunchKernel((CUfunction)one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	fresh();
	cuLaunchKernel((CUfunction)one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	assert_int_equal(last.launch.rule, WL_rule_library_first_use);
	assert_int_equal(last.launch.cls, WL_call_class_waits);
	assert_int_equal(last.launch.stack, 1);
	assert_string_equal(string(last.launch.kernel), "one");
	errno = EDOM;
	cuLaunchKernel((CUfunction)two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	assert_int_equal(last.launch.cls, WL_call_class_none);
	errno = EDOM;
	cuKernelGetFunction(&func, two);
	assert_int_equal(last.setup.cls, WL_call_class_none);
	errno = EDOM;
	cuLibraryUnload(library);
	assert_int_equal(last.setup.cls, WL_call_class_waits);
	errno = EDOM;
	cuLibraryUnload(idle);
	assert_int_equal(last.setup.cls, WL_call_class_none);
	assert_int_equal(last.flags, WL_FLAG_GUESSED);
	fresh();
	cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0);
	errno = EDOM;
	cuLibraryGetKernel(&one, library, "one");
	errno = EDOM;
	cuKernelGetFunction(&func, one);
	assert_int_equal(last.setup.rule, WL_rule_library_first_use);
	assert_int_equal(last.setup.stack, 1);
}

/* --- polls ---------------------------------------------------------------------------------------- */

static void queries(unsigned not_ready, CUresult then)
{
	for (unsigned i = 0; i < not_ready; i++) {
		driver_status = CUDA_ERROR_NOT_READY;
		errno = EDOM;
		cuEventQuery(EVENT(PENDING));
	}
	driver_status = then;
	errno = EDOM;
	cuEventQuery(EVENT(PENDING));
}

static void a_loop_of_queries_is_one_wait(void **state)
{
	(void)state;
	fresh();
	queries(0, CUDA_SUCCESS);
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.polls, 1);
	assert_int_equal(last.poll.cls, WL_call_class_polls);
	fresh();
	queries(1, CUDA_SUCCESS);
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.polls, 2);
	assert_int_equal(last.poll.cls, WL_call_class_polls);
	assert_int_equal(last.poll.stack, 0);
	fresh();
	queries(101, CUDA_SUCCESS);
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.polls, 102);
	assert_int_equal(last.poll.rule, WL_rule_query_loop);
	assert_int_equal(last.poll.cls, WL_call_class_waits);
	assert_int_equal(last.poll.stack, 1);
	assert_int_equal(errno, EDOM);
}

static void another_call_ends_a_run(void **state)
{
	(void)state;
	fresh();
	queries(6, CUDA_ERROR_NOT_READY);
	assert_int_equal(records, 0);
	driver_status = CUDA_SUCCESS;
	errno = EDOM;
	cuStreamQuery(STREAM(OTHER_STREAM));
	assert_int_equal(records, 2); /* the run that ended, and this one */
	assert_int_equal(last.poll.object, OTHER_STREAM);
	fresh();
	queries(2, CUDA_ERROR_NOT_READY);
	driver_status = CUDA_SUCCESS;
	errno = EDOM;
	cuCtxSynchronize();
	assert_int_equal(records, 2);
	assert_int_equal(last.event, WL_EV_cuda_wait);
	fresh();
	queries(3, 719); /* the work failed: the loop ends, and nothing was waited for in vain */
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.status, 719);
	assert_int_equal(last.poll.polls, 4);
	assert_int_equal(last.poll.cls, WL_call_class_polls);
}

/* --- pointers ------------------------------------------------------------------------------------- */

static CUresult (*found_cuInit)(unsigned);

static void replaced_by_address(void **state)
{
	void *(*replace)(const char *, const char *, void *, void *) = wl_domain_cuda.replace;
	void *real;

	(void)state;
	addresses_only = true;
	real = &driver[CU_ID_cuMemFree_v2];
	assert_ptr_equal(replace("cuMemFree_v2", NULL, real, NULL),
			 cu_wrappers[CU_ID_cuMemFree_v2]);
	/* Asked by the plain name, as cuGetProcAddress is: still the one that is there. */
	assert_ptr_equal(replace("cuMemFree", NULL, real, NULL), cu_wrappers[CU_ID_cuMemFree_v2]);
	/* Another address under a name that we know: not ours to replace. */
	real = &driver[CU_ID_MAX + 7];
	assert_ptr_equal(replace("cuMemcpyHtoDAsync", NULL, real, NULL), real);
	assert_ptr_equal(replace("cuMemcpyHtoDAsync", NULL, real, NULL), real);
	assert_non_null(strstr(attributes, "cuda.unknown-entry=cuMemcpyHtoDAsync\n"));
	assert_null(strstr(strstr(attributes, "cuMemcpyHtoDAsync") + 1, "cuMemcpyHtoDAsync"));
	/* Known and left alone: said nowhere. */
	real = &driver[CU_ID_MAX];
	assert_ptr_equal(replace("cuDeviceGet", NULL, real, NULL), real);
	assert_null(strstr(attributes, "cuDeviceGet\n"));
	/* Not in the driver at all. */
	assert_ptr_equal(replace("cuInit", NULL, (void *)&found_cuInit, NULL),
			 (void *)&found_cuInit);
	/* The driver was unloaded and loaded elsewhere. */
	driver = second_driver;
	real = &driver[CU_ID_cuInit];
	assert_ptr_equal(replace("cuInit", NULL, real, NULL), cu_wrappers[CU_ID_cuInit]);
	real = &driver[CU_ID_cuLaunchKernel];
	assert_ptr_equal(replace("cuLaunchKernel", NULL, real, NULL),
			 cu_wrappers[CU_ID_cuLaunchKernel]);
	addresses_only = false;
}

static CUresult real_lookup(const char *name, void **found)
{
	(void)name;
	*found = (void *)atomic_load(&cu_reals[CU_ID_cuStreamQuery_ptsz]);
	return CUDA_SUCCESS;
}

static void replaced_in_lookups(void **state)
{
	void *found = NULL;
	int outcome = 4711;

	(void)state;
	addresses_only = true;
	wl_enter(&wl_depth.cuda,
		 WL_FRAME); /* inside cuInit, another tool looks for what it will call later */
	atomic_store(&cu_reals[CU_ID_cuGetProcAddress_v2], (void *)real_lookup);
	assert_int_equal(cuGetProcAddress_v2("cuStreamQuery", &found, 12000, 2, &outcome),
			 CUDA_SUCCESS);
	wl_leave(&wl_depth.cuda);
	assert_ptr_equal(found, cu_wrappers[CU_ID_cuStreamQuery_ptsz]);
	assert_int_equal(outcome, 4711);
	wl_settings.cuda = false;
	assert_int_equal(cuGetProcAddress_v2("cuStreamQuery", &found, 12000, 2, &outcome),
			 CUDA_SUCCESS);
	wl_settings.cuda = true;
	assert_ptr_equal(found, (void *)atomic_load(&cu_reals[CU_ID_cuStreamQuery_ptsz]));
	addresses_only = false;
}

/* --- ranges --------------------------------------------------------------------------------------- */

/* Against a plain byte map: 499 operations on 211 addresses. */
static void ranges_like_a_byte_map(void **state)
{
	enum { BASE = 0x100000, SPAN = 211 };
	uint8_t map[SPAN] = {0};
	uint32_t random = 7;
	struct cu_range range;

	(void)state;
	cu_range_cut(BASE, SPAN);
	for (int round = 0; round < 499; round++) {
		unsigned at, bytes, kind;

		random = random * 1664525u + 1013904223u;
		at = (random >> 8) % SPAN;
		bytes = 1 + (random >> 20) % 17;
		kind = 1 + round % 4;
		if (at + bytes > SPAN)
			bytes = SPAN - at;
		/* What overlaps is forgotten whole. */
		for (unsigned i = 0; i < bytes; i++)
			if (cu_range_find(BASE + at + i, &range))
				memset(map + (range.start - BASE), 0, range.bytes);
		if (round % 3) {
			cu_range_add(BASE + at, bytes, (uint8_t)kind, 0);
			memset(map + at, (int)kind, bytes);
		} else {
			cu_range_cut(BASE + at, bytes);
		}
		for (unsigned i = 0; i < SPAN; i++) {
			bool found = cu_range_find(BASE + i, &range);

			assert_int_equal(found ? range.kind : 0, map[i]);
		}
	}
	cu_range_cut(BASE, SPAN);
	assert_false(cu_range_find(BASE + 1, &range));
}

/* --- threads --------------------------------------------------------------------------------------- */

enum { THREADS = 5, ROUNDS = 3001, FOREVER = 0x900000, OWN = 0xa00000 };

/* Adds and takes its own ranges; the one that is always there may be forgotten when a writer cannot get
 * in for long, but must never look otherwise. */
static void *at_ranges(void *number)
{
	uint64_t mine = OWN + (uintptr_t)number * 0x10000;
	uintptr_t wrong = 0;
	struct cu_range range;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		cu_range_add(mine + i % 7 * 0x100, 0x80, WL_mem_kind_pinned, 0);
		if (cu_range_find(FOREVER + i % 0x1000, &range) &&
		    (range.kind != WL_mem_kind_managed || range.start != FOREVER))
			wrong++;
		if (cu_range_find(mine + i % 7 * 0x100 + 0x7f, &range) &&
		    range.kind != WL_mem_kind_pinned)
			wrong++;
		if (i % 3 == 0)
			cu_range_take(mine + i % 7 * 0x100, &range);
	}
	return (void *)wrong;
}

CU_MAP_DEFINE(shared_map, 64);

/* A key's value is always its own, whoever else writes to its slot. */
static void *at_map(void *number)
{
	uintptr_t wrong = 0;
	uint64_t value;

	for (uint64_t i = 1; i < ROUNDS; i++) {
		uint64_t key = 1 + i * 31 % 211 + (uintptr_t)number;

		cu_map_put(&shared_map, key, key * 3);
		if (cu_map_get(&shared_map, key, &value) && value != key * 3)
			wrong++;
	}
	return (void *)wrong;
}

static void in_threads(void *(*work)(void *))
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

static void ranges_and_maps_by_many_threads(void **state)
{
	struct cu_range range;

	(void)state;
	cu_range_add(FOREVER, 0x1000, WL_mem_kind_managed, 0);
	in_threads(at_ranges);
	cu_range_add(FOREVER, 0x1000, WL_mem_kind_managed, 0);
	assert_true(cu_range_find(FOREVER, &range));
	cu_range_cut(FOREVER, 0x1000);
	assert_false(cu_range_find(FOREVER, &range));
	in_threads(at_map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_memory),
		cmocka_unit_test(streams_are_named_alike),
		cmocka_unit_test(waits_and_stages_have_a_stack),
		cmocka_unit_test(a_refused_call_waits_for_nothing),
		cmocka_unit_test(nothing_is_read_before_success),
		cmocka_unit_test(errno_and_depth),
		cmocka_unit_test(a_call_that_was_left_hides_none),
		cmocka_unit_test(kinds_come_from_the_calls_seen),
		cmocka_unit_test(sync_memops),
		cmocka_unit_test(captured_work_is_marked),
		cmocka_unit_test(batches_are_as_bad_as_their_worst),
		cmocka_unit_test(kernels_have_names),
		cmocka_unit_test(a_library_is_loaded_by_its_first_use),
		cmocka_unit_test(a_loop_of_queries_is_one_wait),
		cmocka_unit_test(another_call_ends_a_run),
		cmocka_unit_test(ranges_like_a_byte_map),
		cmocka_unit_test(ranges_and_maps_by_many_threads),
		cmocka_unit_test(replaced_by_address),
		cmocka_unit_test(replaced_in_lookups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
