/* SPDX-License-Identifier: Apache-2.0 */
/* Order of work: within a stream, between streams, with events and host functions. */
#include "tests/fakecuda/test/driver.h"

#include <sched.h>

enum { N = 1009 };

/* Whether p holds value f(i), where the kernels applied are known. */
static void expect_u32(const uint32_t *p, uint32_t times, uint32_t plus)
{
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(p[i], i * times + plus);
}

static void test_fifo(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	struct gate gate = gate_new();
	CUdeviceptr d = mem_new(N * 4);
	uint32_t *host = pinned_new(N * 4);
	(void)state;
	gate_close(&gate, s);
	launch_fill(s, d, N, 7);
	launch_scale(s, d, N, 3); /* 21 + i */
	launch_scale(s, d, N, 2); /* 42 + 3i */
	ok(cu.cuMemcpyDtoHAsync_v2(host, d, N * 4, s));
	is(cu.cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	assert_int_equal(host[N - 1], 0);
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(s));
	ok(cu.cuStreamQuery(s));
	expect_u32(host, 3, 42);
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFreeHost(host));
	gate_free(&gate);
	ok(cu.cuStreamDestroy_v2(s));
}

/* b's work comes after a's through an event alone; a third stream runs on meanwhile. */
static void test_event_order(void **state)
{
	CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING),
		 c = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(CU_EVENT_DISABLE_TIMING);
	struct gate gate = gate_new();
	CUdeviceptr d = mem_new(N * 4);
	uint32_t *host = pinned_new(N * 4);
	(void)state;
	gate_close(&gate, a);
	launch_fill(a, d, N, 5);
	ok(cu.cuEventRecord(e, a));
	ok(cu.cuStreamWaitEvent(b, e, 0));
	launch_scale(b, d, N, 10);
	ok(cu.cuMemcpyDtoHAsync_v2(host, d, N * 4, b));
	launch_spin(c, 1);
	ok(cu.cuStreamSynchronize(c));
	is(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	is(cu.cuEventQuery(e), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(b));
	ok(cu.cuEventQuery(e));
	expect_u32(host, 1, 50);
	/* Recorded anew behind a closed gate it is pending again; what waited before is not. */
	gate_close(&gate, a);
	ok(cu.cuEventRecord(e, a));
	is(cu.cuEventQuery(e), CUDA_ERROR_NOT_READY);
	ok(cu.cuStreamQuery(b));
	gate_open(&gate);
	ok(cu.cuEventSynchronize(e));
	ok(cu.cuEventQuery(e));
	ok(cu.cuEventDestroy_v2(e));
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFreeHost(host));
	gate_free(&gate);
	ok(cu.cuStreamDestroy_v2(a));
	ok(cu.cuStreamDestroy_v2(b));
	ok(cu.cuStreamDestroy_v2(c));
}

/* Legacy work waits for blocking streams, later blocking work waits for it. */
static void test_legacy_order(void **state)
{
	CUstream a = stream_new(CU_STREAM_DEFAULT), b = stream_new(CU_STREAM_DEFAULT),
		 free_runner = stream_new(CU_STREAM_NON_BLOCKING);
	struct gate gate = gate_new();
	CUdeviceptr d = mem_new(N * 4);
	uint32_t *host = pinned_new(N * 4);
	(void)state;
	gate_close(&gate, a);
	launch_fill(a, d, N, 1);
	launch_scale(NULL, d, N, 4); /* 4 + i */
	launch_scale(b, d, N, 2);    /* 8 + 3i */
	ok(cu.cuMemcpyDtoHAsync_v2(host, d, N * 4, b));
	launch_spin(free_runner, 1);
	ok(cu.cuStreamSynchronize(free_runner));
	is(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	is(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(b));
	expect_u32(host, 3, 8);
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFreeHost(host));
	gate_free(&gate);
	ok(cu.cuStreamDestroy_v2(a));
	ok(cu.cuStreamDestroy_v2(b));
	ok(cu.cuStreamDestroy_v2(free_runner));
}

static void test_elapsed(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent a = event_new(0), b = event_new(0), untimed = event_new(CU_EVENT_DISABLE_TIMING);
	float ms = -1;
	(void)state;
	is(cu.cuEventElapsedTime_v2(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
	ok(cu.cuEventQuery(a));
	ok(cu.cuEventSynchronize(a));
	ok(cu.cuEventRecord(a, s));
	launch_spin(s, 5000000);
	ok(cu.cuEventRecord(b, s));
	ok(cu.cuEventRecord(untimed, s));
	is(cu.cuEventElapsedTime_v2(&ms, a, b), CUDA_ERROR_NOT_READY);
	ok(cu.cuEventSynchronize(b));
	ok(cu.cuEventElapsedTime_v2(&ms, a, b));
	assert_true(ms >= 5 && ms < 5000);
	ok(cu.cuStreamSynchronize(s));
	is(cu.cuEventElapsedTime_v2(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
	ok(cu.cuEventDestroy_v2(a));
	ok(cu.cuEventDestroy_v2(b));
	ok(cu.cuEventDestroy_v2(untimed));
	ok(cu.cuStreamDestroy_v2(s));
}

/* --- host functions ------------------------------------------------------------------------------------- */

struct seen {
	_Atomic int calls;
	CUresult alloc, sync, version;
	CUstream stream;
	CUresult status;
};

static void host_function(void *arg)
{
	struct seen *seen = arg;
	CUdeviceptr p;
	int version;
	seen->alloc = cu.cuMemAlloc_v2(&p, 64);
	seen->sync = cu.cuCtxSynchronize();
	seen->version = cu.cuDriverGetVersion(&version);
	atomic_fetch_add(&seen->calls, 1);
}

static void host_callback(CUstream stream, CUresult status, void *arg)
{
	struct seen *seen = arg;
	seen->stream = stream;
	seen->status = status;
	atomic_fetch_add(&seen->calls, 1);
}

static void test_host_functions(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	struct gate gate = gate_new();
	struct seen seen = {.status = CUDA_ERROR_UNKNOWN};
	(void)state;
	gate_close(&gate, s);
	ok(cu.cuLaunchHostFunc(s, host_function, &seen));
	ok(cu.cuStreamAddCallback(s, host_callback, &seen, 0));
	assert_int_equal(atomic_load(&seen.calls), 0);
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(s));
	assert_int_equal(atomic_load(&seen.calls), 2);
	is(seen.alloc, CUDA_ERROR_NOT_PERMITTED);
	is(seen.sync, CUDA_ERROR_NOT_PERMITTED);
	ok(seen.version);
	ok(seen.status);
	assert_ptr_equal(seen.stream, s);
	is(cu.cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	gate_free(&gate);
	ok(cu.cuStreamDestroy_v2(s));
}

static void test_values(void **state)
{
	CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr flag = mem_new(64);
	CUstreamBatchMemOpParams ops[2];
	uint64_t have = 0;
	(void)state;
	ok(cu.cuMemsetD8_v2(flag, 0, 64));
	ok(cu.cuStreamSynchronize(NULL)); /* the streams below do not wait for it */
	ok(cu.cuStreamWaitValue64_v2(b, flag + 8, 29, CU_STREAM_WAIT_VALUE_EQ));
	is(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	memset(ops, 0, sizeof(ops));
	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = flag;
	ops[0].writeValue.value = 31;
	ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	ops[1].writeValue.address = flag + 8;
	ops[1].writeValue.value64 = 29;
	ok(cu.cuStreamBatchMemOp_v2(a, 2, ops, 0));
	ok(cu.cuStreamSynchronize(b));
	ok(cu.cuMemcpyDtoH_v2(&have, flag + 8, 8));
	assert_int_equal(have, 29);
	ok(cu.cuMemcpyDtoH_v2(&have, flag, 4));
	assert_int_equal((uint32_t)have, 31);
	is(cu.cuStreamWaitValue32_v2(a, flag + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFree_v2(flag));
	ok(cu.cuStreamDestroy_v2(a));
	ok(cu.cuStreamDestroy_v2(b));
}

/* --- life of streams -------------------------------------------------------------------------------------- */

static void test_destroy_pending(void **state)
{
	struct gate gate = gate_new();
	CUdeviceptr d = mem_new(N * 4);
	uint32_t *host = pinned_new(N * 4);
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(0);
	(void)state;
	gate_close(&gate, s);
	launch_fill(s, d, N, 3);
	ok(cu.cuMemcpyDtoHAsync_v2(host, d, N * 4, s));
	ok(cu.cuEventRecord(e, s));
	ok(cu.cuStreamDestroy_v2(s));
	if (on_fake) { /* the real driver follows the stale handle */
		is(cu.cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
		is(cu.cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE);
		is(cu.cuStreamQuery((CUstream)host), CUDA_ERROR_INVALID_HANDLE);
	}
	gate_open(&gate);
	ok(cu.cuEventSynchronize(e));
	expect_u32(host, 0, 3);
	ok(cu.cuEventDestroy_v2(e));
	if (on_fake)
		is(cu.cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFreeHost(host));
	gate_free(&gate);
}

static void test_stream_properties(void **state)
{
	CUstream s;
	unsigned flags;
	int priority, least, greatest;
	unsigned long long id, id2;
	CUcontext c;
	CUdevice d = -1;
	(void)state;
	ok(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
	assert_true(greatest < least);
	ok(cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
	ok(cu.cuStreamGetPriority(s, &priority));
	assert_int_equal(priority, greatest);
	ok(cu.cuStreamGetFlags(s, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	ok(cu.cuStreamGetId(s, &id));
	ok(cu.cuStreamGetId(NULL, &id2));
	assert_true(id != id2);
	ok(cu.cuStreamGetCtx(s, &c));
	assert_ptr_equal(c, ctx);
	ok(cu.cuStreamGetDevice(s, &d));
	assert_int_equal(d, dev);
	ok(cu.cuStreamDestroy_v2(s));
	is(cu.cuStreamCreate(&s, 7), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuStreamDestroy_v2(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
	is(cu.cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
}

/* --- many threads ------------------------------------------------------------------------------------------ */

static void *storm(void *arg)
{
	uint32_t seed = *(uint32_t *)arg, *host;
	driver_attach();
	for (uint32_t round = 0; round < 43; round++) {
		CUstream s = stream_new(round & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
		CUevent e = event_new(round & 2 ? CU_EVENT_DISABLE_TIMING : 0);
		CUdeviceptr d;
		host = pinned_new(N * 4);
		ok(cu.cuMemAllocAsync(&d, N * 4, s));
		launch_fill(s, d, N, seed);
		ok(cu.cuEventRecord(e, s));
		ok(cu.cuStreamWaitEvent(CU_STREAM_PER_THREAD, e, 0));
		launch_scale(CU_STREAM_PER_THREAD, d, N, round);
		ok(cu.cuMemcpyDtoHAsync_v2_ptsz(host, d, N * 4, NULL));
		ok(cu.cuStreamDestroy_v2(s));
		while (cu.cuStreamQuery_ptsz(NULL) == CUDA_ERROR_NOT_READY)
			sched_yield();
		ok(cu.cuStreamSynchronize_ptsz(NULL));
		expect_u32(host, 1, seed * round);
		ok(cu.cuEventDestroy_v2(e));
		ok(cu.cuMemFreeAsync(d, CU_STREAM_PER_THREAD));
		ok(cu.cuMemFreeHost(host));
	}
	return NULL;
}

static void test_storm(void **state)
{
	enum { THREADS = 5 };
	pthread_t thread[THREADS];
	uint32_t seed[THREADS];
	(void)state;
	for (uint32_t i = 0; i < THREADS; i++) {
		seed[i] = 1000 + i;
		assert_int_equal(pthread_create(&thread[i], NULL, storm, &seed[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ok(cu.cuCtxSynchronize());
}

int run_streams_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_event_order),
		cmocka_unit_test(test_legacy_order),
		cmocka_unit_test(test_elapsed),
		cmocka_unit_test(test_host_functions),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_destroy_pending),
		cmocka_unit_test(test_stream_properties),
		cmocka_unit_test(test_storm),
	};
	return cmocka_run_group_tests_name("streams and events", tests, NULL, NULL);
}
