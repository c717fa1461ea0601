/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture and graphs. The result codes were read off the real driver. */
#include "tests/fakecuda/test/driver.h"

enum { N = 211 };

static CUstream s, other, blocking;
static CUevent event, event2;
static CUdeviceptr d;
static uint32_t *host;

static int set_up(void **state)
{
	(void)state;
	s = stream_new(CU_STREAM_NON_BLOCKING);
	other = stream_new(CU_STREAM_NON_BLOCKING);
	blocking = stream_new(CU_STREAM_DEFAULT);
	event = event_new(CU_EVENT_DISABLE_TIMING);
	event2 = event_new(CU_EVENT_DISABLE_TIMING);
	d = mem_new(N * 4);
	host = pinned_new(N * 4);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ok(cu.cuCtxSynchronize());
	ok(cu.cuStreamDestroy_v2(s));
	ok(cu.cuStreamDestroy_v2(other));
	ok(cu.cuStreamDestroy_v2(blocking));
	ok(cu.cuEventDestroy_v2(event));
	ok(cu.cuEventDestroy_v2(event2));
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFreeHost(host));
	return 0;
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
	ok(cu.cuStreamBeginCapture_v2(stream, mode));
}

static void expect_status(CUstream stream, CUstreamCaptureStatus want)
{
	CUstreamCaptureStatus status;
	ok(cu.cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, want);
}

static void end_invalid(CUstream stream)
{
	CUgraph graph = (CUgraph)1;
	is(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
	expect_status(stream, CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Nothing runs while it is recorded; every launch runs all of it, also after the graph is gone. */
static void test_record_and_launch(void **state)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	size_t count = 0;
	static const CUgraphNodeType want[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL,
					       CU_GRAPH_NODE_TYPE_MEMCPY};
	(void)state;
	ok(cu.cuMemsetD32_v2(d, 1, N));
	ok(cu.cuCtxSynchronize());
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	expect_status(s, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	expect_status(other, CU_STREAM_CAPTURE_STATUS_NONE);
	launch_scale(s, d, N, 2);
	launch_scale(s, d, N, 1);
	ok(cu.cuMemcpyDtoHAsync_v2(host, d, N * 4, s));
	ok(cu.cuStreamEndCapture(s, &graph));
	ok(cu.cuStreamSynchronize(s));
	assert_int_equal(host[1], 0);
	ok(cu.cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 3);
	count = 8;
	ok(cu.cuGraphGetNodes(graph, nodes, &count));
	for (size_t i = 0; i < 3; i++) {
		ok(cu.cuGraphNodeGetType(nodes[i], &type));
		assert_int_equal(type, want[i]);
	}
	ok(cu.cuGraphGetRootNodes(graph, NULL, &count));
	assert_int_equal(count, 1);
	ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cu.cuGraphDestroy(graph));
	ok(cu.cuGraphLaunch(exec, s));
	ok(cu.cuStreamSynchronize(s));
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(host[i], 2 + 2 * i);
	/* Twice more, on two streams: launches of one executable do not overlap. */
	ok(cu.cuGraphLaunch(exec, s));
	ok(cu.cuGraphLaunch(exec, other));
	ok(cu.cuGraphExecDestroy(exec));
	ok(cu.cuStreamSynchronize(other));
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(host[i], 8 + 14 * i);
	if (on_fake)
		is(cu.cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE);
}

static void test_fork_join(void **state)
{
	CUgraph graph, now;
	CUgraphExec exec;
	CUstreamCaptureStatus status;
	const CUgraphNode *deps;
	cuuint64_t id = 0, id2 = 0;
	size_t count;
	(void)state;
	begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	launch_fill(s, d, N, 9);
	ok(cu.cuEventRecord(event, s));
	ok(cu.cuStreamWaitEvent(other, event, 0));
	expect_status(other, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	launch_scale(other, d, N, 3);
	ok(cu.cuEventRecord(event2, other));
	ok(cu.cuStreamGetCaptureInfo_v2(s, &status, &id, &now, &deps, &count));
	assert_int_equal(count, 1);
	ok(cu.cuStreamGetCaptureInfo(other, &status, &id2));
	assert_true(id && id == id2);
	ok(cu.cuStreamWaitEvent(s, event2, 0));
	ok(cu.cuMemcpyDtoHAsync_v2(host, d, N * 4, s));
	ok(cu.cuStreamEndCapture(s, &graph));
	assert_ptr_equal(graph, now);
	expect_status(other, CU_STREAM_CAPTURE_STATUS_NONE);
	ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cu.cuGraphLaunch(exec, s));
	ok(cu.cuStreamSynchronize(s));
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(host[i], 27 + i);
	ok(cu.cuGraphExecDestroy(exec));
	ok(cu.cuGraphDestroy(graph));
}

/* Neither the event nor the stream of an ended capture has a place in what comes after. */
static void test_unjoined_and_unmatched(void **state)
{
	CUgraph graph = NULL;
	(void)state;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	is(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
	launch_fill(s, d, N, 1);
	ok(cu.cuEventRecord(event, s));
	ok(cu.cuStreamWaitEvent(other, event, 0));
	launch_fill(other, d, N, 2);
	is(cu.cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	assert_null(graph);
	expect_status(other, CU_STREAM_CAPTURE_STATUS_NONE);
	is(cu.cuStreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuStreamEndCapture(s, &graph), CUDA_ERROR_ILLEGAL_STATE);

	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	launch_fill(s, d, N, 1);
	ok(cu.cuEventRecord(event, s));
	ok(cu.cuStreamWaitEvent(other, event, 0));
	is(cu.cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	end_invalid(s);
}

/* What must not be asked of a capturing stream, or while it captures, ends the capture. */
static void test_invalidating(void **state)
{
	CUdeviceptr p;
	(void)state;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	is(cu.cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_status(s, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	is(cu.cuMemsetD32Async(d, 1, 4, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	end_invalid(s);

	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	launch_fill(s, d, N, 1);
	ok(cu.cuEventRecord(event, s));
	is(cu.cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	end_invalid(s);

	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	is(cu.cuStreamQuery(other), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(s);

	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	is(cu.cuMemAlloc_v2(&p, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(s);

	begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	ok(cu.cuMemAlloc_v2(&p, 64));
	ok(cu.cuStreamQuery(other));
	is(cu.cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(s);
	ok(cu.cuMemFree_v2(p));
}

static void test_legacy_meets_capture(void **state)
{
	uint32_t value = 0;
	(void)state;
	is(cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
	   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	is(cu.cuMemcpyHtoD_v2(d, &value, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	expect_status(blocking, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	is(cu.cuStreamQuery(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	end_invalid(blocking);
	/* A non-blocking stream has nothing to do with the legacy one. */
	begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	ok(cu.cuMemcpyHtoD_v2(d, &value, 4));
	CUgraph graph;
	ok(cu.cuStreamEndCapture(s, &graph));
	ok(cu.cuGraphDestroy(graph));
}

static void *query_elsewhere(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	CUresult *rc = arg;
	driver_attach();
	ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	rc[0] = cu.cuStreamQuery(other);
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	rc[1] = cu.cuStreamQuery(other);
	return NULL;
}

/* A global capture binds every thread that has not said otherwise. */
static void test_other_threads(void **state)
{
	CUresult rc[2];
	pthread_t thread;
	(void)state;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(pthread_create(&thread, NULL, query_elsewhere, rc), 0);
	pthread_join(thread, NULL);
	ok(rc[0]);
	is(rc[1], CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(s);
	begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	assert_int_equal(pthread_create(&thread, NULL, query_elsewhere, rc), 0);
	pthread_join(thread, NULL);
	ok(rc[0]);
	ok(rc[1]);
	CUgraph graph;
	ok(cu.cuStreamEndCapture(s, &graph));
	ok(cu.cuGraphDestroy(graph));
}

static void add_seven(void *arg)
{
	*(uint32_t *)arg += 7;
}

/* Memory allocated in a capture belongs to the graph; host functions run at every launch. */
static void test_alloc_and_host_nodes(void **state)
{
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr p;
	uint32_t sum = 0;
	size_t count;
	(void)state;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ok(cu.cuMemAllocAsync(&p, N * 4, s));
	launch_fill(s, p, N, 11);
	ok(cu.cuMemcpyDtoHAsync_v2(host, p, N * 4, s));
	ok(cu.cuMemFreeAsync(p, s));
	ok(cu.cuLaunchHostFunc(s, add_seven, &sum));
	ok(cu.cuStreamEndCapture(s, &graph));
	ok(cu.cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 5);
	ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t i = 1; i <= 3; i++) {
		memset(host, 0, N * 4);
		ok(cu.cuGraphLaunch(exec, s));
		ok(cu.cuStreamSynchronize(s));
		assert_int_equal(sum, 7 * i);
		assert_int_equal(host[N - 1], 11);
	}
	ok(cu.cuGraphExecDestroy(exec));
	ok(cu.cuGraphDestroy(graph));
}

int run_capture_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_record_and_launch, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_fork_join, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unjoined_and_unmatched, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_invalidating, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_legacy_meets_capture, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_threads, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_alloc_and_host_nodes, set_up, tear_down),
	};
	return cmocka_run_group_tests_name("capture and graphs", tests, NULL, NULL);
}
