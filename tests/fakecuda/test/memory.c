/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations, registrations, pointer attributes, and the contents that copies and fills leave. */
#include "tests/fakecuda/test/driver.h"

#include <sys/mman.h>

enum { KB = 1 << 10, MB = 1 << 20, PAGE = 4096 };

static void test_alloc_codes(void **state)
{
	CUdeviceptr a, base;
	size_t bytes, pitch;
	void *pinned = pinned_new(64 * KB);
	char plain[64];
	(void)state;
	is(cu.cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemAlloc_v2(NULL, 64), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemAlloc_v2(&a, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
	a = mem_new(MB + 1);
	ok(cu.cuMemGetAddressRange_v2(&base, &bytes, a + MB));
	assert_true(base == a && bytes == MB + 1);
	is(cu.cuMemGetAddressRange_v2(&base, &bytes, DPTR(plain)), CUDA_ERROR_NOT_FOUND);
	ok(cu.cuMemFree_v2(0));
	is(cu.cuMemFree_v2(a + 256), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemFree_v2(DPTR(plain)), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemFree_v2(DPTR(pinned)), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFreeHost(NULL));
	is(cu.cuMemFreeHost(HOST(a)), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemFreeHost(plain), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFree_v2(a));
	is(cu.cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFreeHost(pinned));
	is(cu.cuMemAllocManaged(&a, MB, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemAllocPitch_v2(&a, &pitch, 100, 10, 4));
	assert_int_equal(pitch, 512);
	ok(cu.cuMemFree_v2(a));
	is(cu.cuMemAllocPitch_v2(&a, &pitch, 100, 10, 5), CUDA_ERROR_INVALID_VALUE);
}

static void test_memory_info(void **state)
{
	size_t before, after, total, whole;
	(void)state;
	ok(cu.cuMemGetInfo_v2(&before, &total));
	ok(cu.cuDeviceTotalMem_v2(&whole, dev));
	assert_true(before <= total && total <= whole);
	CUdeviceptr a = mem_new(64 * MB);
	ok(cu.cuMemGetInfo_v2(&after, &total));
	assert_true(after + 64 * MB <= before);
	ok(cu.cuMemFree_v2(a));
	ok(cu.cuMemGetInfo_v2(&after, &total));
	assert_true(after >= before);
}

static void test_register_codes(void **state)
{
	char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *pinned = pinned_new(PAGE);
	CUdeviceptr d;
	unsigned flags;
	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	ok(cu.cuMemHostRegister_v2(p, 4 * PAGE, 0));
	is(cu.cuMemHostRegister_v2(p, 4 * PAGE, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is(cu.cuMemHostRegister_v2(p + PAGE, PAGE, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is(cu.cuMemHostRegister_v2(p + 3 * PAGE, 2 * PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is(cu.cuMemHostRegister_v2(pinned, PAGE, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemHostRegister_v2(NULL, PAGE, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemHostRegister_v2(p + 8 * PAGE, 0, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemHostRegister_v2(p + 8 * PAGE, PAGE, 0x80), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemHostRegister_v2((void *)0x10000, PAGE, 0), CUDA_ERROR_INVALID_VALUE);
	/* Two pieces of one page are two registrations. */
	ok(cu.cuMemHostRegister_v2(p + 8 * PAGE + 100, 1000, CU_MEMHOSTREGISTER_PORTABLE));
	ok(cu.cuMemHostRegister_v2(p + 8 * PAGE + 2000, 1000, 0));
	ok(cu.cuMemHostGetDevicePointer_v2(&d, p + 100, 0));
	assert_true(d == DPTR(p + 100));
	is(cu.cuMemHostGetDevicePointer_v2(&d, p + 12 * PAGE, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemHostGetFlags(&flags, p));
	assert_int_equal(flags, CU_MEMHOSTREGISTER_DEVICEMAP);
	is(cu.cuMemHostUnregister(p + PAGE), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemHostUnregister(p + 12 * PAGE), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	is(cu.cuMemHostUnregister(pinned), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemHostUnregister(p));
	ok(cu.cuMemHostUnregister(p + 8 * PAGE + 100));
	ok(cu.cuMemHostUnregister(p + 8 * PAGE + 2000));
	is(cu.cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ok(cu.cuMemFreeHost(pinned));
	munmap(p, 16 * PAGE);
}

/* --- pointer attributes --------------------------------------------------------------------------------- */

struct attrs {
	unsigned type, managed, sync;
	int ordinal;
	CUdeviceptr start;
	size_t bytes;
	CUcontext context;
	void *host;
	CUdeviceptr device;
};

/* Everything is preset, to see what is written and how wide. */
static struct attrs attrs_of(CUdeviceptr p)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
	};
	struct attrs a;
	memset(&a, 0x77, sizeof(a));
	void *data[] = {&a.type,  &a.managed, &a.sync, &a.ordinal, &a.start,
			&a.bytes, &a.context, &a.host, &a.device};
	ok(cu.cuPointerGetAttributes(sizeof(which) / sizeof(*which), which, data, p));
	return a;
}

static void expect_known(CUdeviceptr p, CUdeviceptr base, size_t bytes, unsigned type,
			 unsigned managed, unsigned sync)
{
	struct attrs a = attrs_of(p);
	unsigned single = 0;
	assert_int_equal(a.type, type);
	assert_int_equal(a.managed, managed);
	assert_int_equal(a.sync, sync);
	assert_int_equal(a.ordinal, dev);
	assert_true(a.start == base && a.bytes == bytes && a.device == p);
	assert_ptr_equal(a.context, ctx);
	ok(cu.cuPointerGetAttribute(&single, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	assert_int_equal(single, type);
}

static void test_pointer_attributes(void **state)
{
	CUdeviceptr d = mem_new(3 * MB), managed;
	char *pinned = pinned_new(MB), *pageable = calloc(1, 2 * PAGE);
	unsigned value, on = 1, off = 0;
	(void)state;
	ok(cu.cuMemAllocManaged(&managed, MB, CU_MEM_ATTACH_GLOBAL));
	expect_known(d + 99, d, 3 * MB, CU_MEMORYTYPE_DEVICE, 0, 0);
	assert_null(attrs_of(d).host);
	expect_known(managed + 16, managed, MB, CU_MEMORYTYPE_DEVICE, 1, 1);
	expect_known(DPTR(pinned) + 16, DPTR(pinned), MB, CU_MEMORYTYPE_HOST, 0, 0);
	assert_ptr_equal(attrs_of(DPTR(pinned) + 16).host, pinned + 16);

	struct attrs a = attrs_of(DPTR(pageable));
	assert_int_equal(a.type, 0);
	assert_int_equal(a.managed, 0);
	assert_int_equal(a.ordinal, -2);
	assert_null(a.context);
	assert_ptr_equal(a.host, pageable);
	assert_true(a.start == 0x7777777777777777); /* left alone */
	is(cu.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, DPTR(pageable)),
	   CUDA_ERROR_INVALID_VALUE);
	is(cu.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0),
	   CUDA_ERROR_INVALID_VALUE);

	ok(cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d + 5));
	assert_int_equal(attrs_of(d).sync, 1);
	ok(cu.cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
	assert_int_equal(attrs_of(d).sync, 0);
	is(cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, DPTR(pageable)),
	   CUDA_ERROR_INVALID_VALUE);
	is(cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d),
	   CUDA_ERROR_INVALID_VALUE);

	ok(cu.cuMemHostRegister_v2(pageable, PAGE, 0));
	assert_int_equal(attrs_of(DPTR(pageable)).type, CU_MEMORYTYPE_HOST);
	assert_int_equal(attrs_of(DPTR(pageable) + PAGE - 1).type, CU_MEMORYTYPE_HOST);
	ok(cu.cuMemHostUnregister(pageable));
	assert_int_equal(attrs_of(DPTR(pageable)).type, 0);
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFree_v2(managed));
	ok(cu.cuMemFreeHost(pinned));
	free(pageable);
}

/* --- contents ------------------------------------------------------------------------------------------- */

static void fill_pattern(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 131 + seed + (i >> 8));
}

static void test_copy_codes(void **state)
{
	CUdeviceptr a = mem_new(MB), b = mem_new(MB);
	char *plain = calloc(1, MB);
	CUDA_MEMCPY2D q = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcDevice = a,
			   .srcPitch = 512,
			   .dstMemoryType = CU_MEMORYTYPE_HOST,
			   .dstHost = plain,
			   .dstPitch = 512,
			   .WidthInBytes = 1000,
			   .Height = 8};
	(void)state;
	is(cu.cuMemcpyHtoD_v2(a + MB - 4, plain, 8), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemcpyHtoD_v2(0x1234, plain, 8), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemcpyHtoD_v2(a, NULL, 8), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemcpyHtoD_v2(DPTR(plain), plain + KB, 8), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemcpyHtoD_v2(0x1234, plain, 0));
	ok(cu.cuMemcpyDtoH_v2(HOST(a), b, 64));
	is(cu.cuMemcpyDtoD_v2(a, DPTR(plain), 64), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemcpy(DPTR(plain), DPTR(plain) + PAGE, 64));
	is(cu.cuMemcpy(a, 0, 64), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemcpyDtoHAsync_v2(plain, a + MB - 4, 8, NULL), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemsetD8_v2(a + MB - 4, 1, 8), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemsetD32_v2(a + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemsetD16_v2(a + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemsetD8_v2(DPTR(plain), 1, 4), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemcpy2D_v2(&q), CUDA_ERROR_INVALID_VALUE); /* wider than the pitch */
	q.WidthInBytes = 0;
	ok(cu.cuMemcpy2D_v2(&q));
	q.WidthInBytes = 10;
	q.dstMemoryType = 9;
	is(cu.cuMemcpy2D_v2(&q), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFree_v2(a));
	ok(cu.cuMemFree_v2(b));
	free(plain);
}

/* Every way there and back, at sizes around the staging limits; pageable sources may change at once. */
static void test_copy_contents(void **state)
{
	static const size_t sizes[] = {1, 4, 65536, 65537, 2 * MB, 2 * MB + 1, 3 * MB + 7};
	CUdeviceptr a = mem_new(4 * MB), b = mem_new(4 * MB), managed;
	unsigned char *pinned = pinned_new(4 * MB), *plain = calloc(1, 4 * MB),
		      *want = calloc(1, 4 * MB);
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	(void)state;
	ok(cu.cuMemAllocManaged(&managed, 4 * MB, CU_MEM_ATTACH_GLOBAL));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i];
		fill_pattern(want, n, (unsigned)i);
		memcpy(plain, want, n);
		ok(cu.cuMemcpyHtoDAsync_v2(a, plain, n, s));
		memset(plain, 0xee, n);
		ok(cu.cuMemcpyDtoDAsync_v2(b, a, n, s));
		ok(cu.cuMemcpyAsync(managed, b, n, s));
		ok(cu.cuMemcpyDtoHAsync_v2(pinned, managed, n, s));
		ok(cu.cuMemcpyDtoHAsync_v2(plain, managed, n, s));
		assert_memory_equal(plain, want, n);
		ok(cu.cuStreamSynchronize(s));
		assert_memory_equal(pinned, want, n);
		fill_pattern(pinned, n, 77);
		ok(cu.cuMemcpyHtoD_v2(a, pinned, n));
		ok(cu.cuMemcpy_ptds(b, a, n));
		ok(cu.cuStreamSynchronize_ptsz(NULL));
		ok(cu.cuMemcpyDtoH_v2(plain, b, n));
		assert_memory_equal(plain, pinned, n);
	}
	ok(cu.cuMemFree_v2(a));
	ok(cu.cuMemFree_v2(b));
	ok(cu.cuMemFree_v2(managed));
	ok(cu.cuMemFreeHost(pinned));
	ok(cu.cuStreamDestroy_v2(s));
	free(plain);
	free(want);
}

/* A box out of the middle of one layout into the middle of another. */
static void test_boxes(void **state)
{
	enum { SP = 64, SH = 11, DP = 96, DH = 13, W = 29, H = 7, L = 5, Z = 8 };
	static unsigned char src[SP * SH * Z], dst[DP * DH * Z], want[DP * DH * Z];
	CUdeviceptr a = mem_new(sizeof(src)), b = mem_new(sizeof(dst));
	(void)state;
	fill_pattern(src, sizeof(src), 3);
	for (int z = 0; z < L; z++)
		for (int y = 0; y < H; y++)
			memcpy(want + ((z + 2) * DH + y + 4) * DP + 9,
			       src + ((z + 1) * SH + y + 3) * SP + 5, W);
	ok(cu.cuMemcpyHtoD_v2(a, src, sizeof(src)));
	ok(cu.cuMemsetD8_v2(b, 0, sizeof(dst)));
	CUDA_MEMCPY3D c = {.srcXInBytes = 5,
			   .srcY = 3,
			   .srcZ = 1,
			   .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcDevice = a,
			   .srcPitch = SP,
			   .srcHeight = SH,
			   .dstXInBytes = 9,
			   .dstY = 4,
			   .dstZ = 2,
			   .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .dstDevice = b,
			   .dstPitch = DP,
			   .dstHeight = DH,
			   .WidthInBytes = W,
			   .Height = H,
			   .Depth = L};
	ok(cu.cuMemcpy3D_v2(&c));
	ok(cu.cuMemcpyDtoH_v2(dst, b, sizeof(dst)));
	assert_memory_equal(dst, want, sizeof(dst));
	/* The same to the host, one layer at a time. */
	memset(dst, 0, sizeof(dst));
	for (int z = 0; z < L; z++) {
		CUDA_MEMCPY2D q = {.srcXInBytes = 5,
				   .srcY = (size_t)(z + 1) * SH + 3,
				   .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				   .srcDevice = a,
				   .srcPitch = SP,
				   .dstXInBytes = 9,
				   .dstY = (size_t)(z + 2) * DH + 4,
				   .dstMemoryType = CU_MEMORYTYPE_HOST,
				   .dstHost = dst,
				   .dstPitch = DP,
				   .WidthInBytes = W,
				   .Height = H};
		ok(cu.cuMemcpy2DUnaligned_v2(&q));
	}
	assert_memory_equal(dst, want, sizeof(dst));
	ok(cu.cuMemFree_v2(a));
	ok(cu.cuMemFree_v2(b));
}

static void test_fills(void **state)
{
	enum { PITCH = 512, ROWS = 3 };
	CUdeviceptr d = mem_new(PITCH * ROWS);
	static unsigned char host[PITCH * ROWS];
	(void)state;
	ok(cu.cuMemsetD8_v2(d, 0x11, PITCH * ROWS));
	ok(cu.cuMemsetD2D16_v2(d + 2, PITCH, 0x2345, 5, ROWS));
	ok(cu.cuMemsetD2D32Async(d + 16, PITCH, 0x6789abcd, 3, ROWS, NULL));
	ok(cu.cuMemsetD2D8_v2(d + 40, PITCH, 0xee, 1, ROWS));
	ok(cu.cuMemcpyDtoH_v2(host, d, sizeof(host)));
	for (int y = 0; y < ROWS; y++) {
		const unsigned char *row = host + y * PITCH;
		assert_int_equal(row[1], 0x11);
		for (int i = 0; i < 5; i++)
			assert_true(row[2 + 2 * i] == 0x45 && row[3 + 2 * i] == 0x23);
		assert_int_equal(row[12], 0x11);
		for (int i = 0; i < 3; i++)
			assert_memory_equal(row + 16 + 4 * i, "\xcd\xab\x89\x67", 4);
		assert_int_equal(row[28], 0x11);
		assert_true(row[39] == 0x11 && row[40] == 0xee && row[41] == 0x11);
	}
	ok(cu.cuMemFree_v2(d));
}

static void test_batches(void **state)
{
	enum { COUNT = 5, BYTES = 997 };
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr d = mem_new(COUNT * KB), dsts[COUNT], srcs[COUNT];
	static unsigned char host[COUNT][KB], back[COUNT * KB];
	size_t sizes[COUNT], first[2] = {0, 3}, fail;
	CUmemcpyAttributes attrs[2] = {
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
	};
	(void)state;
	for (int i = 0; i < COUNT; i++) {
		fill_pattern(host[i], BYTES, (unsigned)i);
		dsts[i] = d + (CUdeviceptr)i * KB;
		srcs[i] = DPTR(host[i]);
		sizes[i] = BYTES - (size_t)i;
	}
	ok(cu.cuMemcpyBatchAsync_v2(dsts, srcs, sizes, COUNT, attrs, first, 2, s));
	ok(cu.cuStreamSynchronize(s));
	ok(cu.cuMemcpyDtoH_v2(back, d, sizeof(back)));
	for (int i = 0; i < COUNT; i++)
		assert_memory_equal(back + (size_t)i * KB, host[i], sizes[i]);
	if (on_fake) {
		dsts[2] = 0;
		is(cu.cuMemcpyBatchAsync(dsts, srcs, sizes, COUNT, attrs, first, 2, &fail, s),
		   CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(fail, 2);
		ok(cu.cuStreamSynchronize(s));
	}
	is(cu.cuMemcpyBatchAsync_v2(dsts, srcs, sizes, COUNT, attrs, first, 2, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuStreamDestroy_v2(s));
}

/* --- pools ---------------------------------------------------------------------------------------------- */

static void test_pools(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	struct gate gate = gate_new();
	CUmemoryPool pool, own;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
	CUdeviceptr a, b, c;
	cuuint64_t used, threshold = UINT64_MAX;
	char plain[16];
	(void)state;
	ok(cu.cuDeviceGetDefaultMemPool(&pool, dev));
	ok(cu.cuMemPoolCreate(&own, &props));
	ok(cu.cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	ok(cu.cuMemAllocFromPoolAsync(&a, 5 * MB, own, s));
	ok(cu.cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	assert_true(used >= 5 * MB);
	struct attrs of_pool = attrs_of(a);
	assert_null(of_pool.context);
	CUmemoryPool got;
	ok(cu.cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	assert_ptr_equal(got, own);
	/* Freed, but not yet: another allocation may not get the memory. */
	gate_close(&gate, s);
	ok(cu.cuMemFreeAsync(a, s));
	if (on_fake)
		is(cu.cuMemFreeAsync(a, s), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemAllocFromPoolAsync(&b, 5 * MB, own, CU_STREAM_PER_THREAD));
	assert_true(a != b);
	gate_open(&gate);
	ok(cu.cuStreamSynchronize(s));
	ok(cu.cuMemAllocFromPoolAsync(&c, 5 * MB, own, s));
	assert_true(c == a);
	ok(cu.cuMemFreeAsync(b, s));
	ok(cu.cuMemFreeAsync(c, s));
	ok(cu.cuStreamSynchronize(s));
	ok(cu.cuMemPoolTrimTo(own, 0));
	ok(cu.cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &used));
	assert_int_equal(used, 0);
	is(cu.cuMemFreeAsync(DPTR(plain), s), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemPoolTrimTo(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemPoolDestroy(own));
	/* Ordinary memory may be freed in stream order too. */
	a = mem_new(MB);
	ok(cu.cuMemFreeAsync(a, s));
	ok(cu.cuStreamSynchronize(s));
	is(cu.cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	gate_free(&gate);
	ok(cu.cuStreamDestroy_v2(s));
}

int run_memory_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc_codes),    cmocka_unit_test(test_memory_info),
		cmocka_unit_test(test_register_codes), cmocka_unit_test(test_pointer_attributes),
		cmocka_unit_test(test_copy_codes),     cmocka_unit_test(test_copy_contents),
		cmocka_unit_test(test_boxes),          cmocka_unit_test(test_fills),
		cmocka_unit_test(test_batches),        cmocka_unit_test(test_pools),
	};
	return cmocka_run_group_tests_name("memory and copies", tests, NULL, NULL);
}
