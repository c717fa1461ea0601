/* SPDX-License-Identifier: Apache-2.0 */
/* The face of the library: exports and lookup, devices, contexts, modules, launches. */
#include "tests/fakecuda/test/driver.h"

#include <dlfcn.h>

static void *export_of(const char *name)
{
	return dlsym(driver_library(), name);
}

/* --- lookup ------------------------------------------------------------------------------------------- */

/* What cuGetProcAddress gives for a base name and a version is the export of that form. */
static void expect_entry(const char *base, int version, unsigned flags, const char *symbol)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *fn = NULL;
	ok(cu.cuGetProcAddress_v2(base, &fn, version, flags, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
	assert_non_null(fn);
	assert_ptr_equal(fn, export_of(symbol));
	fn = NULL;
	ok(cu.cuGetProcAddress(base, &fn, version, flags));
	assert_ptr_equal(fn, export_of(symbol));
}

static void test_every_entry(void **state)
{
	(void)state;
#define FC_EARLY(sym, base, since, impl, params, args) expect_entry(#base, since, 0, #sym);
#define FC_PLAIN(sym, base, since, impl, params, args) expect_entry(#base, since, 2, #sym);
#define FC_PTDS(sym, base, since, impl, params, args)                                              \
	expect_entry(#base, since, 0, #sym);                                                       \
	expect_entry(#base, since, 1, #sym);                                                       \
	expect_entry(#base, (since) > 7000 ? (since) : 7000, 2, #sym "_ptds");
#define FC_PTSZ(sym, base, since, impl, params, args)                                              \
	expect_entry(#base, since, 0, #sym);                                                       \
	expect_entry(#base, since, 1, #sym);                                                       \
	expect_entry(#base, (since) > 7000 ? (since) : 7000, 2, #sym "_ptsz");
#include "tests/fakecuda/entries.def"
}

static void expect_no_entry(const char *base, int version, unsigned flags,
			    CUdriverProcAddressQueryResult want)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *fn = &status;
	ok(cu.cuGetProcAddress_v2(base, &fn, version, flags, &status));
	assert_int_equal(status, want);
	assert_null(fn);
	fn = &status;
	is(cu.cuGetProcAddress(base, &fn, version, flags), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(fn, &status);
}

static void test_lookup_codes(void **state)
{
	void *fn = NULL;
	(void)state;
	expect_no_entry("nope", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_no_entry("", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_no_entry("cuMemAlloc_v2", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_no_entry("cuStreamQuery_ptsz", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_no_entry("cuMemAlloc", 1000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	expect_no_entry("cuStreamQuery", 5000, 2, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	expect_no_entry("cuMemcpyBatchAsync", 12000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	is(cu.cuGetProcAddress_v2("cuInit", &fn, 99000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuGetProcAddress_v2("cuInit", &fn, 12000, 4, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuGetProcAddress_v2("nope", &fn, 12000, 0, NULL));
	expect_entry("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
	expect_entry("cuCtxSynchronize", 12000, 0, "cuCtxSynchronize");
	expect_entry("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2");
}

static void test_error_texts(void **state)
{
	const char *text = NULL;
	const void *table;
	CUuuid id;
	(void)state;
	ok(cu.cuGetErrorName(CUDA_SUCCESS, &text));
	assert_string_equal(text, "CUDA_SUCCESS");
	ok(cu.cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	assert_string_equal(text, "CUDA_ERROR_NOT_READY");
	ok(cu.cuGetErrorString(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &text));
	assert_string_equal(text, "operation would make the legacy stream depend on a capturing "
				  "blocking stream");
	is(cu.cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	memset(&id, 9, sizeof(id));
	is(cu.cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
}

/* --- devices and contexts ------------------------------------------------------------------------------ */

static void test_device(void **state)
{
	char name[64], bus[32];
	CUdevice d = -1;
	CUuuid uuid;
	int count, value, major, minor;
	(void)state;
	ok(cu.cuDeviceGetCount(&count));
	assert_true(count >= 1);
	ok(cu.cuDeviceGetName(name, sizeof(name), dev));
	if (on_fake)
		assert_string_equal(name, "Waylay simulated device");
	is(cu.cuDeviceGet(&d, 97), CUDA_ERROR_INVALID_DEVICE);
	is(cu.cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuDeviceGetPCIBusId(bus, sizeof(bus), dev));
	ok(cu.cuDeviceGetByPCIBusId(&d, bus));
	assert_int_equal(d, dev);
	ok(cu.cuDeviceGetUuid_v2(&uuid, dev));
	ok(cu.cuDeviceComputeCapability(&major, &minor, dev));
	ok(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
	assert_int_equal(value, major);
	ok(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, dev));
	assert_int_equal(value, 32);
	ok(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, dev));
	assert_int_equal(value, 1);
	is(cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)0, dev), CUDA_ERROR_INVALID_VALUE);
}

static void *without_context(void *arg)
{
	CUstream s = *(CUstream *)arg;
	CUcontext c = (CUcontext)1;
	CUevent e;
	CUdeviceptr p;
	unsigned type = 9;
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	void *data = &type;
	ok(cu.cuCtxGetCurrent(&c));
	assert_null(c);
	ok(cu.cuStreamQuery(s));
	ok(cu.cuStreamSynchronize(s));
	is(cu.cuStreamQuery(NULL), CUDA_ERROR_INVALID_CONTEXT);
	is(cu.cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
	is(cu.cuEventCreate(&e, 0), CUDA_ERROR_INVALID_CONTEXT);
	is(cu.cuMemAlloc_v2(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
	is(cu.cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	is(cu.cuCtxPopCurrent_v2(&c), CUDA_ERROR_INVALID_CONTEXT);
	ok(cu.cuPointerGetAttributes(1, &attr, &data, DPTR(&type)));
	assert_int_equal(type, 0);
	return NULL;
}

static void test_no_context(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	pthread_t thread;
	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, without_context, &s), 0);
	pthread_join(thread, NULL);
	ok(cu.cuStreamDestroy_v2(s));
}

static void test_context_stack(void **state)
{
	CUcontext a, b, got;
	CUdevice d = -1;
	unsigned flags;
	CUstream s;
	CUevent e;
	(void)state;
	ok(cu.cuCtxCreate_v2(&a, CU_CTX_SCHED_BLOCKING_SYNC, dev));
	ok(cu.cuCtxCreate_v4(&b, NULL, 0, dev));
	ok(cu.cuCtxGetCurrent(&got));
	assert_ptr_equal(got, b);
	ok(cu.cuCtxGetDevice(&d));
	assert_int_equal(d, dev);
	ok(cu.cuCtxPopCurrent_v2(&got));
	assert_ptr_equal(got, b);
	ok(cu.cuCtxGetFlags(&flags));
	assert_int_equal(flags & 7, CU_CTX_SCHED_BLOCKING_SYNC);
	s = stream_new(0);
	e = event_new(0);
	/* An event of one context may not be recorded on a stream of another. */
	ok(cu.cuCtxPushCurrent_v2(ctx));
	is(cu.cuEventRecord(e, NULL), CUDA_ERROR_INVALID_HANDLE);
	ok(cu.cuCtxPopCurrent_v2(NULL));
	uint64_t ns = 1;
	void *params[] = {&ns};
	is(cu.cuLaunchKernel(spin_ns, 1, 1, 1, 1, 1, 1, 0, s, params, NULL),
	   CUDA_ERROR_INVALID_HANDLE); /* a function of another context */
	ok(cu.cuCtxDestroy_v2(a));
	ok(cu.cuCtxGetCurrent(&got));
	assert_ptr_equal(got, ctx);
	if (on_fake) {
		is(cu.cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
		is(cu.cuCtxDestroy_v2(a), CUDA_ERROR_INVALID_CONTEXT);
		is(cu.cuCtxSetCurrent(a), CUDA_ERROR_INVALID_CONTEXT);
	}
	ok(cu.cuCtxDestroy_v2(b));
}

static void test_limits(void **state)
{
	size_t value;
	(void)state;
	ok(cu.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20));
	ok(cu.cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
	assert_true(value >= 1 << 20);
	is(cu.cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

/* --- modules ------------------------------------------------------------------------------------------- */

static void test_modules(void **state)
{
	CUmodule m;
	CUlibrary lib;
	CUkernel kernel;
	CUfunction fn, again;
	CUdeviceptr p;
	const char *name;
	size_t n, offset, bytes;
	(void)state;
	is(cu.cuModuleLoadData(&m, "garbage"), CUDA_ERROR_INVALID_IMAGE);
	is(cu.cuModuleGetFunction(&fn, module, "nope"), CUDA_ERROR_NOT_FOUND);
	is(cu.cuModuleGetGlobal_v2(&p, &n, module, "nope"), CUDA_ERROR_NOT_FOUND);
	ok(cu.cuModuleGetGlobal_v2(&p, &n, module, "fake_global"));
	assert_int_equal(n, 256);
	ok(cu.cuModuleGetFunction(&fn, module, "fake_fill_u32"));
	assert_ptr_equal(fn, fill_u32);
	ok(cu.cuFuncGetName(&name, fn));
	assert_string_equal(name, "fake_fill_u32");
	static const size_t where[][2] = {{0, 8}, {8, 4}, {12, 4}};
	for (size_t i = 0; i < 3; i++) {
		ok(cu.cuFuncGetParamInfo(fn, i, &offset, &bytes));
		assert_true(offset == where[i][0] && bytes == where[i][1]);
	}
	is(cu.cuFuncGetParamInfo(fn, 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuLibraryLoadData(&lib, test_image, NULL, NULL, 0, NULL, NULL, 0));
	is(cu.cuLibraryGetKernel(&kernel, lib, "nope"), CUDA_ERROR_NOT_FOUND);
	ok(cu.cuLibraryGetKernel(&kernel, lib, "fake_spin_ns"));
	ok(cu.cuKernelGetFunction(&fn, kernel));
	ok(cu.cuKernelGetFunction(&again, kernel));
	assert_ptr_equal(fn, again);
	ok(cu.cuLibraryUnload(lib));
	if (!on_fake)
		return;
	/* An image of names has the functions it names, and no more. */
	ok(cu.cuModuleLoadData(&m, "WAYLAY-KERNELS\nfake_spin_ns\nnot_there\n"));
	ok(cu.cuModuleGetFunction(&fn, m, "fake_spin_ns"));
	is(cu.cuModuleGetFunction(&fn, m, "fake_spin"), CUDA_ERROR_NOT_FOUND);
	is(cu.cuModuleGetFunction(&fn, m, "fake_fill_u32"), CUDA_ERROR_NOT_FOUND);
	is(cu.cuModuleGetFunction(&fn, m, "not_there"), CUDA_ERROR_NOT_FOUND);
	ok(cu.cuModuleUnload(m));
	is(cu.cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
	is(cu.cuModuleGetFunction(&fn, m, "fake_spin_ns"), CUDA_ERROR_INVALID_HANDLE);
}

/* --- launches ------------------------------------------------------------------------------------------ */

static CUresult try_launch(unsigned gx, unsigned gy, unsigned bx, unsigned bz, unsigned shared)
{
	uint64_t ns = 1;
	void *params[] = {&ns};
	return cu.cuLaunchKernel(spin_ns, gx, gy, 1, bx, 1, bz, shared, NULL, params, NULL);
}

static void test_launch_codes(void **state)
{
	uint64_t ns = 1;
	void *params[] = {&ns};
	int blocks;
	(void)state;
	ok(try_launch(1, 1, 1024, 1, 0));
	is(try_launch(0, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	is(try_launch(1, 70000, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	is(try_launch(1, 1, 2048, 1, 0), CUDA_ERROR_INVALID_VALUE);
	is(try_launch(1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
	is(try_launch(1, 1, 32, 33, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuFuncSetAttribute(spin_ns, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000),
	   CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuFuncSetAttribute(spin_ns, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
	ok(try_launch(1, 1, 1, 1, 65536));
	is(try_launch(1, 1, 1, 1, 1 << 20), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuLaunchKernel(spin_ns, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	is(cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
	   CUDA_ERROR_INVALID_HANDLE);
	ok(cu.cuLaunchCooperativeKernel(spin_ns, 132, 1, 1, 1024, 1, 1, 0, NULL, params));
	is(cu.cuLaunchCooperativeKernel(spin_ns, 100000, 1, 1, 1024, 1, 1, 0, NULL, params),
	   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
	CUlaunchConfig config = {.gridDimX = 100000,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1024,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attr,
				 .numAttrs = 1};
	is(cu.cuLaunchKernelEx(&config, spin_ns, params, NULL),
	   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	config.gridDimX = 3;
	ok(cu.cuLaunchKernelEx(&config, spin_ns, params, NULL));
	ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin_ns, 128, 0));
	assert_int_equal(blocks, 16);
	ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin_ns, 1024, 0));
	assert_int_equal(blocks, 2);
	ok(cu.cuCtxSynchronize());
}

/* The kernel sees its dimensions, and the parameters as they were at the launch. */
static void test_launch_arguments(void **state)
{
	CUfunction report;
	CUdeviceptr out = mem_new(9 * 8);
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	struct gate gate = gate_new();
	uint8_t small = 211;
	uint64_t large = 0x123456789abcdef0, got[9];
	void *params[] = {&out, &small, &large};
	static const uint64_t want[9] = {3, 5, 7, 2, 4, 8, 4096, 211, 0x123456789abcdef0};
	(void)state;
	ok(cu.cuModuleGetFunction(&report, module, "fake_report_launch"));
	gate_close(&gate, s);
	ok(cu.cuLaunchKernel(report, 3, 5, 7, 2, 4, 8, 4096, s, params, NULL));
	small = 1;
	large = 2;
	params[1] = params[2] = NULL;
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(s));
	ok(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
	assert_memory_equal(got, want, sizeof(got));
	/* The same in one buffer. */
	ok(cu.cuMemsetD8Async(out, 0, sizeof(got), s));
	struct {
		CUdeviceptr out;
		uint8_t small;
		uint64_t large;
	} packed = {out, 211, 0x123456789abcdef0};
	size_t bytes = sizeof(packed);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &bytes, CU_LAUNCH_PARAM_END};
	ok(cu.cuLaunchKernel(report, 3, 5, 7, 2, 4, 8, 4096, s, NULL, extra));
	ok(cu.cuStreamSynchronize(s));
	ok(cu.cuMemcpyDtoH_v2(got, out, sizeof(got)));
	assert_memory_equal(got, want, sizeof(got));
	is(cu.cuLaunchKernel(report, 1, 1, 1, 1, 1, 1, 0, s, params, extra),
	   CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFree_v2(out));
	gate_free(&gate);
	ok(cu.cuStreamDestroy_v2(s));
}

int run_api_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_entry),  cmocka_unit_test(test_lookup_codes),
		cmocka_unit_test(test_error_texts),  cmocka_unit_test(test_device),
		cmocka_unit_test(test_no_context),   cmocka_unit_test(test_context_stack),
		cmocka_unit_test(test_limits),       cmocka_unit_test(test_modules),
		cmocka_unit_test(test_launch_codes), cmocka_unit_test(test_launch_arguments),
	};
	return cmocka_run_group_tests_name("entries, contexts, launches", tests, NULL, NULL);
}
