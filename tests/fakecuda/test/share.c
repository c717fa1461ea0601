/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that leaves the driver or is mapped piecewise: DMA-BUF, shareable handles, VMM. */
#include "tests/fakecuda/test/driver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KB = 1 << 10, MB = 1 << 20, PAGE = 4096 };

static CUresult export_fd(int *fd, CUdeviceptr p, size_t n)
{
	*fd = -1;
	return cu.cuMemGetHandleForAddressRange(fd, p, n, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

/* The descriptor shows the device's memory, both ways, and outlives the allocation. */
static void test_dma_buf_contents(void **state)
{
	enum { N = 4 * PAGE };
	CUdeviceptr d = mem_new(N);
	uint32_t value;
	int fd;
	(void)state;
	if (!on_fake)
		skip(); /* a device's memory need not be mappable by the host */
	launch_fill(NULL, d, N / 4, 0xabcd0123);
	ok(cu.cuCtxSynchronize());
	ok(export_fd(&fd, d, N));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(lseek(fd, 0, SEEK_END) >= N);
	uint32_t *map = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(map[0], 0xabcd0123);
	assert_int_equal(map[N / 4 - 1], 0xabcd0123);
	map[17] = 19;
	ok(cu.cuMemcpyDtoH_v2(&value, d + 17 * 4, 4));
	assert_int_equal(value, 19);
	ok(cu.cuMemFree_v2(d));
	assert_int_equal(map[17], 19);
	assert_int_equal(map[18], 0xabcd0123);
	munmap(map, N);
	close(fd);
}

static void test_dma_buf_codes(void **state)
{
	CUdeviceptr d = mem_new(MB), small = mem_new(1000), managed;
	char *pinned = pinned_new(PAGE), *plain = aligned_alloc(PAGE, PAGE);
	int fd;
	(void)state;
	ok(cu.cuMemAllocManaged(&managed, MB, CU_MEM_ATTACH_GLOBAL));
	ok(export_fd(&fd, d, 64 * KB));
	close(fd);
	is(export_fd(&fd, d + 1, 64 * KB), CUDA_ERROR_INVALID_VALUE);
	is(export_fd(&fd, d, 100), CUDA_ERROR_INVALID_VALUE);
	is(export_fd(&fd, d, 4 * MB), CUDA_ERROR_INVALID_VALUE);
	is(export_fd(&fd, managed, 64 * KB), CUDA_ERROR_INVALID_VALUE);
	is(export_fd(&fd, DPTR(pinned), PAGE), CUDA_ERROR_INVALID_VALUE);
	is(export_fd(&fd, DPTR(plain), PAGE), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemGetHandleForAddressRange(&fd, d, MB, 5, 0), CUDA_ERROR_INVALID_VALUE);
	if (on_fake) {
		/* A device may have more behind it. */
		is(export_fd(&fd, small, PAGE), CUDA_ERROR_INVALID_VALUE);
		/* Said to be so, rather than a descriptor of something else. */
		is(export_fd(&fd, d + 64 * KB, 64 * KB), CUDA_ERROR_NOT_SUPPORTED);
	}
	ok(cu.cuMemFree_v2(d));
	ok(cu.cuMemFree_v2(small));
	ok(cu.cuMemFree_v2(managed));
	ok(cu.cuMemFreeHost(pinned));
	free(plain);
}

/* --- virtual memory --------------------------------------------------------------------------------------- */

static void test_vmm(void **state)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
	CUmemAccessDesc rw = {{CU_MEM_LOCATION_TYPE_DEVICE, dev},
			      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle h, again, imported;
	CUdeviceptr va;
	size_t g;
	uint32_t value = 0;
	int fd;
	(void)state;
	ok(cu.cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_int_equal(g, 2 * MB);
	is(cu.cuMemCreate(&h, 100, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cu.cuMemCreate(&h, g, &prop, 0));
	ok(cu.cuMemAddressReserve(&va, 3 * g, 0, 0, 0));
	ok(cu.cuMemMap(va, g, 0, h, 0));
	is(cu.cuMemMap(va, g, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemcpyHtoD_v2(va, &value, 4), CUDA_ERROR_INVALID_VALUE); /* no access yet */
	ok(cu.cuMemSetAccess(va, g, &rw, 1));
	/* The same memory a second time, through an exported descriptor. */
	ok(cu.cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ok(cu.cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	ok(cu.cuMemMap(va + 2 * g, g, 0, imported, 0));
	ok(cu.cuMemSetAccess(va + 2 * g, g, &rw, 1));
	launch_fill(NULL, va, 23, 0x5a5a);
	ok(cu.cuMemcpyDtoH_v2(&value, va + 2 * g + 22 * 4, 4));
	assert_int_equal(value, 0x5a5a);
	ok(cu.cuMemRetainAllocationHandle(&again, HOST(va + 8)));
	assert_true(again == h);
	ok(cu.cuMemRelease(again));
	ok(cu.cuMemRelease(h));
	ok(cu.cuMemRelease(imported));
	if (on_fake)
		is(cu.cuMemRelease(imported), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemFree_v2(va), CUDA_ERROR_INVALID_VALUE);
	is(cu.cuMemAddressFree(va, 3 * g), CUDA_ERROR_INVALID_VALUE); /* still mapped */
	ok(cu.cuMemUnmap(va, g));
	ok(cu.cuMemUnmap(va + 2 * g, g));
	ok(cu.cuMemUnmap(va, g)); /* nothing there any more is no error */
	ok(cu.cuMemAddressFree(va, 3 * g));
}

int run_share_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dma_buf_contents),
		cmocka_unit_test(test_dma_buf_codes),
		cmocka_unit_test(test_vmm),
	};
	return cmocka_run_group_tests_name("memory outside the driver", tests, NULL, NULL);
}
