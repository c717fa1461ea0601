/* SPDX-License-Identifier: Apache-2.0
 *
 * Our declarations of CUPTI's records against NVIDIA's header, for every version of a record that the header
 * still has: what we read lies at one place in all of them.
 */
#include "tracer/inject/cupti/abi.h"

#include <cuda.h>
#include <cupti.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SAME(ours, field, theirs, name)                                                            \
	do {                                                                                       \
		assert_int_equal(offsetof(struct ours, field), offsetof(theirs, name));            \
		assert_int_equal(sizeof(((struct ours *)0)->field), sizeof(((theirs *)0)->name));  \
	} while (0)

#define KERNEL(theirs)                                                                             \
	SAME(cupti_kernel, registers, theirs, registersPerThread);                                 \
	SAME(cupti_kernel, start, theirs, start);                                                  \
	SAME(cupti_kernel, end, theirs, end);                                                      \
	SAME(cupti_kernel, device, theirs, deviceId);                                              \
	SAME(cupti_kernel, context, theirs, contextId);                                            \
	SAME(cupti_kernel, stream, theirs, streamId);                                              \
	SAME(cupti_kernel, grid[0], theirs, gridX);                                                \
	SAME(cupti_kernel, block[2], theirs, blockZ);                                              \
	SAME(cupti_kernel, static_shared, theirs, staticSharedMemory);                             \
	SAME(cupti_kernel, dynamic_shared, theirs, dynamicSharedMemory);                           \
	SAME(cupti_kernel, local_per_thread, theirs, localMemoryPerThread);                        \
	SAME(cupti_kernel, correlation, theirs, correlationId);                                    \
	SAME(cupti_kernel, name, theirs, name);                                                    \
	SAME(cupti_kernel, node, theirs, graphNodeId);                                             \
	SAME(cupti_kernel, graph, theirs, graphId)

#define COPY(ours, theirs)                                                                         \
	SAME(ours, src_kind, theirs, srcKind);                                                     \
	SAME(ours, dst_kind, theirs, dstKind);                                                     \
	SAME(ours, bytes, theirs, bytes);                                                          \
	SAME(ours, start, theirs, start);                                                          \
	SAME(ours, end, theirs, end);                                                              \
	SAME(ours, device, theirs, deviceId);                                                      \
	SAME(ours, context, theirs, contextId);                                                    \
	SAME(ours, stream, theirs, streamId);                                                      \
	SAME(ours, correlation, theirs, correlationId);                                            \
	SAME(ours, node, theirs, graphNodeId);                                                     \
	SAME(ours, graph, theirs, graphId)

#define SYNC(theirs)                                                                               \
	SAME(cupti_sync, type, theirs, type);                                                      \
	SAME(cupti_sync, start, theirs, start);                                                    \
	SAME(cupti_sync, end, theirs, end);                                                        \
	SAME(cupti_sync, correlation, theirs, correlationId);                                      \
	SAME(cupti_sync, context, theirs, contextId);                                              \
	SAME(cupti_sync, stream, theirs, streamId);                                                \
	SAME(cupti_sync, event, theirs, cudaEventId)

#define GRAPH(theirs)                                                                              \
	SAME(cupti_graph, correlation, theirs, correlationId);                                     \
	SAME(cupti_graph, start, theirs, start);                                                   \
	SAME(cupti_graph, end, theirs, end);                                                       \
	SAME(cupti_graph, device, theirs, deviceId);                                               \
	SAME(cupti_graph, graph, theirs, graphId);                                                 \
	SAME(cupti_graph, context, theirs, contextId);                                             \
	SAME(cupti_graph, stream, theirs, streamId)

static void kernels(void **state)
{
	(void)state;
	KERNEL(CUpti_ActivityKernel8); /* CUDA 11.8 */
	KERNEL(CUpti_ActivityKernel9); /* 12.0 */
	KERNEL(CUpti_ActivityKernel10);
}

static void copies(void **state)
{
	(void)state;
	COPY(cupti_memcpy, CUpti_ActivityMemcpy5); /* 11.6 */
	COPY(cupti_memcpy, CUpti_ActivityMemcpy6); /* 12.8 */
	COPY(cupti_memcpy2, CUpti_ActivityMemcpyPtoP4);
	SAME(cupti_memcpy2, src_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
	SAME(cupti_memcpy2, dst_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
	SAME(cupti_memset, value, CUpti_ActivityMemset4, value);
	SAME(cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
	SAME(cupti_memset, start, CUpti_ActivityMemset4, start);
	SAME(cupti_memset, correlation, CUpti_ActivityMemset4, correlationId);
	SAME(cupti_memset, memory_kind, CUpti_ActivityMemset4, memoryKind);
	SAME(cupti_memset, node, CUpti_ActivityMemset4, graphNodeId);
	SAME(cupti_memset, graph, CUpti_ActivityMemset4, graphId);
}

static void calls_and_waits(void **state)
{
	(void)state;
	SYNC(CUpti_ActivitySynchronization);
	SYNC(CUpti_ActivitySynchronization2); /* 12.8 */
	GRAPH(CUpti_ActivityGraphTrace);
	GRAPH(CUpti_ActivityGraphTrace2); /* 12.x */
	SAME(cupti_api, cbid, CUpti_ActivityAPI, cbid);
	SAME(cupti_api, start, CUpti_ActivityAPI, start);
	SAME(cupti_api, correlation, CUpti_ActivityAPI, correlationId);
}

static void numbers(void **state)
{
	(void)state;
	assert_int_equal(CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
	assert_int_equal(CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
	assert_int_equal(CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
	assert_int_equal(CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
	assert_int_equal(CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
	assert_int_equal(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	assert_int_equal(CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
	assert_int_equal(CUPTI_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
	assert_int_equal(CUPTI_KIND_UNIFIED_MEMORY_COUNTER,
			 CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
	assert_int_equal(CUPTI_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
	assert_int_equal(CUPTI_KIND_INTERNAL_LAUNCH_API, CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API);
	assert_int_equal(CUPTI_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	assert_int_equal(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	/* Offsets that the sharing code has as numbers. */
	assert_int_equal(24, offsetof(CUpti_ActivityOverhead3, start));
	assert_int_equal(24, offsetof(CUpti_ActivityOverhead2, start));
	assert_int_equal(16, offsetof(CUpti_ActivityUnifiedMemoryCounter2, start));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels),
		cmocka_unit_test(copies),
		cmocka_unit_test(calls_and_waits),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
