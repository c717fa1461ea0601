/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the rules agree with what was measured, by the records of the wrappers themselves. The table
 * is that of an NVIDIA H200 (driver 580, CUDA 13.0): each call was timed while a 15 ms kernel ran on a
 * non-blocking stream (N), a blocking one (B) or the legacy default stream (D), and either was held for
 * the kernel or was not.
 */
#include "tests/unit/cuda_stand_in.h"

enum kernel_on { ON_NON_BLOCKING, ON_BLOCKING, ON_LEGACY };

static uint8_t recorded_rule(uint8_t *cls, uint64_t *stream, uint64_t *object)
{
	*stream = *object = 0;
	*cls = WL_call_class_none;
	switch (last.event) {
	case WL_EV_cuda_wait:
		*cls = last.wait.cls;
		*stream = last.wait.stream;
		*object = last.wait.object;
		return last.wait.rule;
	case WL_EV_cuda_poll:
		*cls = last.poll.cls;
		return last.poll.rule;
	case WL_EV_cuda_copy:
		*cls = last.copy.cls;
		*stream = last.copy.stream;
		return last.copy.rule;
	case WL_EV_cuda_memset:
		*cls = last.memset.cls;
		*stream = last.memset.stream;
		return last.memset.rule;
	case WL_EV_cuda_mem:
		*cls = last.mem.cls;
		return last.mem.rule;
	case WL_EV_cuda_setup:
		*cls = last.setup.cls;
		return last.setup.rule;
	default:
		return WL_rule_none;
	}
}

/* What rules.def says of the recorded rule, applied to the situation that was measured. */
static bool would_hold(uint64_t busy, enum kernel_on on)
{
	bool ordered_with_legacy = on != ON_NON_BLOCKING;
	const char *waits_for;
	uint64_t stream, object;
	uint8_t cls, rule = recorded_rule(&cls, &stream, &object);

	waits_for = wl_rule_info(rule)->waits_for;
	if (cls != WL_call_class_waits)
		return false;
	if (!strcmp(waits_for, "CONTEXT"))
		return true;
	if (!strcmp(waits_for, "EVENT"))
		return object == PENDING;
	if (!strcmp(waits_for, "LEGACY"))
		return ordered_with_legacy;
	if (!strcmp(waits_for, "STREAM"))
		return stream == busy || (stream == 0 && ordered_with_legacy);
	return false;
}

static void agree(const char *call, const char *measured, uint64_t busy, enum kernel_on on)
{
	bool held = measured[on] == '*';

	if (!records)
		fail_msg("%s: nothing was recorded", call);
	if (would_hold(busy, on) != held)
		fail_msg("%s with the kernel on %s: measured %s, by the rule %s", call,
			 on == ON_LEGACY ? "the legacy stream"
					 : (on == ON_BLOCKING ? "a blocking stream"
							      : "a non-blocking stream"),
			 held ? "held" : "not held", held ? "not held" : "held");
	if (errno != EDOM)
		fail_msg("%s: errno was changed to %d", call, errno);
}

/* call, "NBD" (* held, . not), what the runtime does of it */
#define ROW(call, measured, ...)                                                                   \
	do {                                                                                       \
		fresh();                                                                           \
		__VA_ARGS__;                                                                       \
		agree(call, measured, busy, on);                                                   \
	} while (0)

static void rows_of_waits(uint64_t busy, enum kernel_on on)
{
	CUstream b = STREAM(busy), other = STREAM(OTHER_STREAM);

	ROW("cudaDeviceSynchronize", "***", cuCtxSynchronize());
	ROW("cudaDeviceSynchronize (13)", "***", cuCtxSynchronize_v2(NULL));
	ROW("cudaStreamSynchronize(busy)", "***", cuStreamSynchronize(b));
	ROW("cudaStreamSynchronize(other)", "...", cuStreamSynchronize(other));
	ROW("cudaStreamSynchronize(0 legacy)", ".**", cuStreamSynchronize(NULL));
	ROW("cudaEventSynchronize(done)", "...", cuEventSynchronize(EVENT(DONE)));
	ROW("cudaEventRecord+Synchronize(busy)", "***", cuEventSynchronize(EVENT(PENDING)));
	ROW("cudaStreamQuery(busy)", "...", cuStreamQuery(b));
	ROW("cudaEventQuery(pending)", "...", cuEventQuery(EVENT(PENDING)));
	ROW("cudaStreamWaitEvent", "...", cuStreamWaitEvent(other, EVENT(PENDING), 0));
	ROW("cudaLaunchHostFunc(busy)", "...", cuLaunchHostFunc(b, NULL, NULL));
	ROW("kernel launch (warm, other)", "...",
	    cuLaunchKernel((CUfunction)P(0xf00), 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
	ROW("cudaGraphLaunch(other)", "...", cuGraphLaunch((CUgraphExec)P(0x900), other));
	ROW("cudaGraphExecDestroy (launched)", "...", cuGraphExecDestroy((CUgraphExec)P(0x900)));
}

static void rows_of_synchronous_copies(uint64_t busy, enum kernel_on on)
{
	const struct CUDA_MEMCPY2D to_device = {.srcMemoryType = CU_MEMORYTYPE_HOST,
						.srcHost = P(PINNED),
						.dstMemoryType = CU_MEMORYTYPE_DEVICE,
						.dstDevice = DEVICE,
						.WidthInBytes = 61,
						.Height = 7};

	ROW("cudaMemcpy H2D pageable 4B", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 4));
	ROW("cudaMemcpy H2D pageable 64KB", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 65536));
	ROW("cudaMemcpy H2D pageable 64KB+1", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 65537));
	ROW("cudaMemcpy H2D pageable 1MB", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 1 << 20));
	ROW("cudaMemcpy H2D pinned 4B", ".**", cuMemcpyHtoD_v2(DEVICE, P(PINNED), 4));
	ROW("cudaMemcpy H2D pinned 1MB", ".**", cuMemcpyHtoD_v2(DEVICE, P(PINNED), 1 << 20));
	ROW("cudaMemcpy D2H pageable 4B", ".**", cuMemcpyDtoH_v2(P(PAGEABLE), DEVICE, 4));
	ROW("cudaMemcpy D2H pinned 4B", ".**", cuMemcpyDtoH_v2(P(PINNED), DEVICE, 4));
	ROW("cudaMemcpy D2H pinned 1MB", ".**", cuMemcpyDtoH_v2(P(PINNED), DEVICE, 1 << 20));
	ROW("cudaMemcpy D2D 1MB", "...", cuMemcpyDtoD_v2(DEVICE, OTHER_DEVICE, 1 << 20));
	ROW("cudaMemcpy H2H 1MB", ".**", cuMemcpy(PAGEABLE, PAGEABLE, 1 << 20));
	ROW("cudaMemcpy managed->dev 1MB", ".**", cuMemcpy(DEVICE, MANAGED, 1 << 20));
	ROW("cudaMemcpy dev->managed 1MB", ".**", cuMemcpy(MANAGED, DEVICE, 1 << 20));
	ROW("cudaMemcpy2D H2D pinned", ".**", cuMemcpy2D_v2(&to_device));
	assert_int_equal(last.copy.bytes, 61 * 7);
	ROW("cudaMemcpyToSymbol 4B", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 4));
	ROW("cudaMemcpyFromSymbol 4B", ".**", cuMemcpyDtoH_v2(P(PAGEABLE), DEVICE, 4));
	ROW("cudaMemset dev 1MB", "...", cuMemsetD8_v2(DEVICE, 0, 1 << 20));
	ROW("cudaMemset pinned host 1MB", ".**", cuMemsetD8_v2(PINNED, 0, 1 << 20));
	ROW("cudaMemset managed 1MB", ".**", cuMemsetD8_v2(MANAGED, 0, 1 << 20));
	ROW("cudaMemsetAsync(busy) dev", "...", cuMemsetD8Async(DEVICE, 0, 1 << 20, STREAM(busy)));
}

static void rows_of_asynchronous_copies(uint64_t busy, enum kernel_on on)
{
	CUstream b = STREAM(busy), other = STREAM(OTHER_STREAM);
	size_t mb = 1 << 20, sizes[] = {4, 65536, 65537, mb, 32 * mb};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ROW("Async(other) H2D pageable", "...",
		    cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), sizes[i], other));
		assert_int_equal(last.copy.cls, WL_call_class_stages);
		ROW("Async(busy) H2D pageable", "...",
		    cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), sizes[i], b));
		assert_int_equal(last.copy.cls, WL_call_class_stages);
	}
	ROW("Async(other) H2D pinned 32MB", "...",
	    cuMemcpyHtoDAsync_v2(DEVICE, P(PINNED), 32 * mb, other));
	ROW("Async(other) D2H pageable 4B", "...",
	    cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 4, other));
	ROW("Async(other) D2H pinned 32MB", "...",
	    cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, 32 * mb, other));
	ROW("Async(other) H2H pageable 1MB", "...", cuMemcpyAsync(PAGEABLE, PAGEABLE, mb, other));
	ROW("Async(busy) H2D pinned 4B", "...", cuMemcpyHtoDAsync_v2(DEVICE, P(PINNED), 4, b));
	ROW("Async(busy) H2D pinned 1MB", "...", cuMemcpyHtoDAsync_v2(DEVICE, P(PINNED), mb, b));
	ROW("Async(busy) D2H pageable 4B", "***", cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 4, b));
	ROW("Async(busy) D2H pageable 1MB", "***",
	    cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, mb, b));
	ROW("Async(busy) D2H pinned 4B", "...", cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, 4, b));
	ROW("Async(busy) D2H pinned 1MB", "...", cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, mb, b));
	ROW("Async(busy) D2D 1MB", "...", cuMemcpyDtoDAsync_v2(DEVICE, OTHER_DEVICE, mb, b));
	ROW("Async(busy) H2H pageable 1MB", "***", cuMemcpyAsync(PAGEABLE, PAGEABLE, mb, b));
	ROW("Async(busy) H2H pinned 1MB", "***", cuMemcpyAsync(PINNED, PINNED, mb, b));
	ROW("Async(busy) managed->dev 1MB", "...", cuMemcpyAsync(DEVICE, MANAGED, mb, b));
	ROW("Async(busy) dev->managed 1MB", "...", cuMemcpyAsync(MANAGED, DEVICE, mb, b));
	ROW("Async(busy) ToSymbol 4B pageable", "...",
	    cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), 4, b));
}

static void rows_of_memory(uint64_t busy, enum kernel_on on)
{
	CUdeviceptr memory = 0x3100, pooled = 0x3200;
	CUstream other = STREAM(OTHER_STREAM);
	void *pinned = P(0x2100);

	ROW("cudaMalloc", "...", cuMemAlloc_v2(&memory, 1 << 20));
	ROW("cudaFree", "***", cuMemFree_v2(memory));
	ROW("cudaMallocHost 1MB", "...", cuMemHostAlloc(&pinned, 1 << 20, 0));
	ROW("cudaFreeHost 1MB", "***", cuMemFreeHost(pinned));
	ROW("cudaHostRegister 1MB", "...", cuMemHostRegister_v2(P(0x1100), 1 << 20, 0));
	ROW("cudaHostUnregister 1MB", "***", cuMemHostUnregister(P(0x1100)));
	ROW("cudaMallocManaged 1MB", "...", cuMemAllocManaged(&memory, 1 << 20, 1));
	ROW("cudaFree managed 1MB", "***", cuMemFree_v2(memory));
	ROW("cudaMallocAsync(other) 1MB", "...", cuMemAllocAsync(&pooled, 1 << 20, other));
	ROW("cudaFreeAsync(other)", "...", cuMemFreeAsync(pooled, other));
	cuMemAllocAsync(&pooled, 1 << 20, other);
	ROW("cudaFree of async mem", "...", cuMemFree_v2(pooled));
	ROW("cudaMemPoolTrimTo(0)", "...", cuMemPoolTrimTo(NULL, 0));
	ROW("cudaMemPrefetchAsync(other)", "...", cuMemPrefetchAsync(MANAGED, 1 << 20, 0, other));
}

static void rows_of_setup(uint64_t busy, enum kernel_on on)
{
	const struct CUmemAllocationProp on_device = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUstream stream = STREAM(0x990);
	CUevent event = EVENT(0x991);
	CUmodule module = (CUmodule)P(0x992);
	CUgraphExec exec = (CUgraphExec)P(0x993);
	CUmemhandle handle = 0x994;

	ROW("cudaStreamCreate", "...", cuStreamCreate(&stream, 0));
	ROW("cudaStreamDestroy", "...", cuStreamDestroy_v2(stream));
	ROW("cudaEventCreate", "...", cuEventCreate(&event, 0));
	ROW("cudaEventDestroy pending", "...", cuEventDestroy_v2(event));
	ROW("cudaDeviceSetLimit StackSize", "***", cuCtxSetLimit(0, 4096));
	ROW("cudaDeviceSetLimit PrintfFifo", "...", cuCtxSetLimit(1, 4096));
	ROW("cudaDeviceSetLimit MallocHeap", "...", cuCtxSetLimit(2, 4096));
	ROW("cuModuleLoadData (PTX)", "***", cuModuleLoadData(&module, "x"));
	ROW("cuModuleUnload", "***", cuModuleUnload(module));
	ROW("cudaGraphInstantiate", "...", cuGraphInstantiateWithFlags(&exec, NULL, 0));
	ROW("cuMemCreate 2MB", "...", cuMemCreate(&handle, 2 << 20, &on_device, 0));
	ROW("cuMemMap 2MB", "...", cuMemMap(0x600000, 2 << 20, 0, handle, 0));
	ROW("cuMemSetAccess 2MB", "...", cuMemSetAccess(0x600000, 2 << 20, NULL, 1));
	ROW("cuMemUnmap 2MB", "...", cuMemUnmap(0x600000, 2 << 20));
	ROW("cuMemRelease 2MB", "...", cuMemRelease(handle));
}

/* Not here: rows of calls that are not wrapped (attributes and properties, which were not held), and
 * the first launch of a kernel that needs more local memory than any before it, which was held: the
 * driver alone knows when that happens. */
static void rules_agree_with_what_was_measured(void **state)
{
	static const uint64_t busy[] = {
		[ON_NON_BLOCKING] = 0x72, [ON_BLOCKING] = BLOCKING_STREAM, [ON_LEGACY] = 0};

	(void)state;
	for (int on = ON_NON_BLOCKING; on <= ON_LEGACY; on++) {
		rows_of_waits(busy[on], (enum kernel_on)on);
		rows_of_synchronous_copies(busy[on], (enum kernel_on)on);
		rows_of_asynchronous_copies(busy[on], (enum kernel_on)on);
		rows_of_memory(busy[on], (enum kernel_on)on);
		rows_of_setup(busy[on], (enum kernel_on)on);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_agree_with_what_was_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
