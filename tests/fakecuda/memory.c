/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about addresses, and the mappings behind device and pinned memory. */
#include "tests/fakecuda/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct fc_range **ranges; /* by base; they never overlap */
static size_t range_count, range_cap;
static _Atomic uint64_t changes; /* of the table; with the lock held for writing */

/* --- the table -------------------------------------------------------------------------------------- */

/* The number of ranges with a base <= ptr. */
static size_t ranges_upto(uintptr_t ptr)
{
	size_t lo = 0, hi = range_count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (ranges[mid]->base <= ptr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* With the lock held. */
static struct fc_range *range_at(uintptr_t ptr)
{
	size_t i = ranges_upto(ptr);
	return i && ptr - ranges[i - 1]->base < ranges[i - 1]->bytes ? ranges[i - 1] : NULL;
}

/* A driver knows its memory without a lock: so do threads that ask for the same again. */
bool fc_range_find(CUdeviceptr ptr, struct fc_range *out)
{
	struct fc_thread *t = fc_self();
	/* Pairs with the release in table_unlock. */
	uint64_t now = atomic_load_explicit(&changes, memory_order_acquire);
	for (unsigned i = 0; t && i < FC_COUNT(t->near); i++) {
		const struct fc_near *near = &t->near[i];
		if (near->changes == now && ptr - near->range.base < near->range.bytes) {
			*out = near->range;
			return true;
		}
	}
	pthread_rwlock_rdlock(&lock);
	struct fc_range *r = range_at(ptr);
	if (r) {
		*out = *r;
		if (t) {
			struct fc_near *near = &t->near[t->near_next++ % FC_COUNT(t->near)];
			near->changes = atomic_load_explicit(&changes, memory_order_relaxed);
			near->range = *r;
		}
	}
	pthread_rwlock_unlock(&lock);
	return r != NULL;
}

static void table_lock(void)
{
	pthread_rwlock_wrlock(&lock);
}

static void table_unlock(void)
{
	atomic_fetch_add_explicit(&changes, 1, memory_order_release);
	pthread_rwlock_unlock(&lock);
}

/* With the lock held. */
static bool overlaps(uintptr_t base, size_t bytes)
{
	size_t i = ranges_upto(base + bytes - 1);
	return i && ranges[i - 1]->base + ranges[i - 1]->bytes > base;
}

bool fc_range_overlaps(CUdeviceptr ptr, size_t bytes)
{
	pthread_rwlock_rdlock(&lock);
	bool found = overlaps(ptr, bytes);
	pthread_rwlock_unlock(&lock);
	return found;
}

/* With the lock held for writing. */
static CUresult range_insert(const struct fc_range *range)
{
	static uint64_t next_id = 1;
	if (overlaps(range->base, range->bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (range_count == range_cap) {
		size_t cap = range_cap ? range_cap * 2 : 64;
		struct fc_range **more = realloc(ranges, cap * sizeof(struct fc_range *));
		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		ranges = more;
		range_cap = cap;
	}
	struct fc_range *copy = malloc(sizeof(*copy));
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*copy = *range;
	copy->id = next_id++;
	size_t i = ranges_upto(range->base);
	memmove(&ranges[i + 1], &ranges[i], (range_count - i) * sizeof(struct fc_range *));
	ranges[i] = copy;
	range_count++;
	return CUDA_SUCCESS;
}

CUresult fc_range_add(const struct fc_range *range)
{
	table_lock();
	CUresult rc = range_insert(range);
	table_unlock();
	return rc;
}

bool fc_range_take(CUdeviceptr ptr, bool (*match)(const struct fc_range *), struct fc_range *out)
{
	bool found = false;
	table_lock();
	size_t i = ranges_upto(ptr);
	if (i && ranges[i - 1]->base == ptr && (!match || match(ranges[i - 1]))) {
		struct fc_range *r = ranges[i - 1];
		*out = *r;
		free(r);
		range_count--;
		memmove(&ranges[i - 1], &ranges[i],
			(range_count - (i - 1)) * sizeof(struct fc_range *));
		found = true;
	}
	table_unlock();
	return found;
}

bool fc_range_update(CUdeviceptr ptr, void (*fn)(struct fc_range *, void *arg), void *arg)
{
	table_lock();
	struct fc_range *r = range_at(ptr);
	if (r)
		fn(r, arg);
	table_unlock();
	return r != NULL;
}

/* --- mappings --------------------------------------------------------------------------------------- */

size_t fc_page_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

/*
 * A descriptor of bytes of zeroed memory, or -1. It stays out of the program's way: high numbers,
 * and none at all once three quarters of what the program may have are in use.
 */
int fc_memfd(size_t bytes)
{
	struct rlimit limit;
	int fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		int budget = limit.rlim_cur > 1 << 20 ? 1 << 20 : (int)limit.rlim_cur;
		int high = fcntl(fd, F_DUPFD_CLOEXEC, budget / 4);
		close(fd);
		fd = high;
		if (fd > budget / 4 * 3) {
			close(fd);
			return -1;
		}
	}
	if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool budget_take(struct fc_device *dev, size_t bytes)
{
	size_t used = atomic_load(&dev->used);
	do {
		if (bytes > fc_settings.mem_bytes || used > fc_settings.mem_bytes - bytes)
			return false;
	} while (!atomic_compare_exchange_weak(&dev->used, &used, used + bytes));
	return true;
}

/* Without a descriptor the memory works as well, only it cannot be exported. */
CUresult fc_device_alloc(struct fc_ctx *ctx, size_t bytes, enum fc_kind kind, struct fc_range *out)
{
	if (bytes > fc_settings.mem_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t mapped = fc_page_round(bytes);
	if (!budget_take(ctx->dev, mapped))
		return CUDA_ERROR_OUT_OF_MEMORY;
	int fd = fc_memfd(mapped);
	void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		       MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (p == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		atomic_fetch_sub(&ctx->dev->used, mapped);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = (struct fc_range){
		.base = (uintptr_t)p,
		.bytes = bytes,
		.mapped = mapped,
		.kind = kind,
		.ctx = ctx,
		.dev = ctx->dev,
		.fd = fd,
		.sync_memops = kind == FC_MANAGED, /* as the real driver reports it */
		.writable = true,
	};
	return CUDA_SUCCESS;
}

void fc_range_unmap(struct fc_range *range)
{
	if (range->mapped) {
		munmap((void *)range->base, range->mapped);
		if (range->kind != FC_HOST && !range->imported)
			atomic_fetch_sub(&range->dev->used, range->mapped);
	}
	if (range->fd >= 0)
		close(range->fd);
}

/* At the end of a context: what it allocated goes. */
void fc_memory_forget(struct fc_ctx *ctx)
{
	table_lock();
	size_t kept = 0;
	for (size_t i = 0; i < range_count; i++) {
		struct fc_range *r = ranges[i];
		if (r->ctx != ctx || r->kind == FC_MAPPED) {
			ranges[kept++] = r;
			continue;
		}
		if (r->pool)
			fc_pool_forget(r);
		else
			fc_range_unmap(r);
		free(r);
	}
	range_count = kept;
	table_unlock();
}

static CUresult add_or_unmap(struct fc_range *range)
{
	CUresult rc = fc_range_add(range);
	if (rc)
		fc_range_unmap(range);
	return rc;
}

/* What every allocation and release checks first. */
static CUresult enter(struct fc_ctx **ctx)
{
	CUresult rc = fc_current(ctx);
	return rc ? rc : fc_capture_unsafe();
}

/* --- device memory ---------------------------------------------------------------------------------- */

static CUresult alloc(CUdeviceptr *ptr, size_t bytes, enum fc_kind kind)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = enter(&ctx);
	if (rc)
		return rc;
	if (!ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	rc = fc_device_alloc(ctx, bytes, kind, &range);
	if (!rc)
		rc = add_or_unmap(&range);
	if (!rc)
		*ptr = range.base;
	return rc;
}

CUresult do_cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	return alloc(ptr, bytes, FC_DEVICE);
}

CUresult do_cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height,
			       unsigned int elem)
{
	enum { PITCH = 512 };
	if (!pitch || (elem != 4 && elem != 8 && elem != 16) || !width || !height ||
	    width > fc_settings.mem_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	size_t row = (width + PITCH - 1) / PITCH * PITCH;
	if (height > fc_settings.mem_bytes / row)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult rc = alloc(ptr, row * height, FC_DEVICE);
	if (!rc)
		*pitch = row;
	return rc;
}

CUresult do_cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc(ptr, bytes, FC_MANAGED);
}

static bool is_freeable(const struct fc_range *r)
{
	return (r->kind == FC_DEVICE || r->kind == FC_MANAGED) && !r->freeing && !r->imported;
}

CUresult do_cuMemFree_v2(CUdeviceptr ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = enter(&ctx);
	if (rc || !ptr)
		return rc;
	if (!fc_range_find(ptr, &range) || range.base != ptr || !is_freeable(&range))
		return CUDA_ERROR_INVALID_VALUE;
	/* Anything that runs may still use the memory; a pool keeps it, so that need not wait. */
	if (!range.pool) {
		rc = fc_ctx_drain(range.ctx);
		if (rc)
			return rc;
	}
	if (!fc_range_take(ptr, is_freeable, &range))
		return CUDA_ERROR_INVALID_VALUE;
	if (range.pool)
		fc_pool_give(&range);
	else
		fc_range_unmap(&range);
	return CUDA_SUCCESS;
}

CUresult do_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!free_bytes || !total_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*total_bytes = fc_settings.mem_bytes;
	*free_bytes = fc_settings.mem_bytes - atomic_load(&ctx->dev->used);
	return CUDA_SUCCESS;
}

CUresult do_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!fc_range_find(ptr, &range))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = range.base;
	if (bytes)
		*bytes = range.bytes;
	return CUDA_SUCCESS;
}

/* --- pinned host memory ----------------------------------------------------------------------------- */

CUresult do_cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	struct fc_ctx *ctx;
	CUresult rc = enter(&ctx);
	if (rc)
		return rc;
	if (!ptr || !bytes || flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > SIZE_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t mapped = fc_page_round(bytes);
	void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct fc_range range = {
		.base = (uintptr_t)p,
		.bytes = bytes,
		.mapped = mapped,
		.kind = FC_HOST,
		.ctx = ctx,
		.dev = ctx->dev,
		.flags = flags | CU_MEMHOSTALLOC_DEVICEMAP,
		.fd = -1,
		.writable = true,
	};
	rc = add_or_unmap(&range);
	if (!rc)
		*ptr = p;
	return rc;
}

CUresult do_cuMemAllocHost_v2(void **ptr, size_t bytes)
{
	return do_cuMemHostAlloc(ptr, bytes, 0);
}

static bool is_host(const struct fc_range *r)
{
	return r->kind == FC_HOST;
}

CUresult do_cuMemFreeHost(void *ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = enter(&ctx);
	if (rc || !ptr)
		return rc;
	if (!fc_range_find((uintptr_t)ptr, &range) || range.base != (uintptr_t)ptr ||
	    !is_host(&range))
		return CUDA_ERROR_INVALID_VALUE;
	rc = fc_ctx_drain(range.ctx);
	if (rc)
		return rc;
	if (!fc_range_take((uintptr_t)ptr, is_host, &range))
		return CUDA_ERROR_INVALID_VALUE;
	fc_range_unmap(&range);
	return CUDA_SUCCESS;
}

/* Whether every page of it is mapped: registering a hole is an error, as pinning one is. */
static bool is_mapped(uintptr_t base, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char in_core[256];
	uintptr_t p = base / page * page, end = base + bytes;
	while (p < end) {
		size_t n = end - p < page * sizeof(in_core) ? end - p : page * sizeof(in_core);
		if (mincore((void *)p, n, in_core))
			return false;
		p += n;
	}
	return true;
}

CUresult do_cuMemHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
	struct fc_ctx *ctx;
	struct fc_range old;
	uintptr_t base = (uintptr_t)ptr;
	CUresult rc = enter(&ctx);
	if (rc)
		return rc;
	if (!ptr || !bytes || flags & ~15u || base + bytes < base)
		return CUDA_ERROR_INVALID_VALUE;
	if (fc_range_find(base, &old) && old.kind != FC_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_mapped(base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return fc_range_add(&(struct fc_range){
		.base = base,
		.bytes = bytes,
		.kind = FC_REGISTERED,
		.ctx = ctx,
		.dev = ctx->dev,
		.flags = (flags & CU_MEMHOSTREGISTER_PORTABLE) | CU_MEMHOSTREGISTER_DEVICEMAP,
		.fd = -1,
		.writable = true,
	});
}

static bool is_registered(const struct fc_range *r)
{
	return r->kind == FC_REGISTERED;
}

CUresult do_cuMemHostUnregister(void *ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = enter(&ctx);
	if (rc)
		return rc;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_range_find((uintptr_t)ptr, &range))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (range.base != (uintptr_t)ptr || !is_registered(&range))
		return CUDA_ERROR_INVALID_VALUE;
	rc = fc_ctx_drain(range.ctx);
	if (rc)
		return rc;
	return fc_range_take((uintptr_t)ptr, is_registered, &range)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool pinned_find(void *ptr, struct fc_range *range)
{
	return fc_range_find((uintptr_t)ptr, range) &&
	       (range->kind == FC_HOST || range->kind == FC_REGISTERED);
}

CUresult do_cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *ptr, unsigned int flags)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!dptr || flags || !pinned_find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = (uintptr_t)ptr;
	return CUDA_SUCCESS;
}

CUresult do_cuMemHostGetFlags(unsigned int *flags, void *ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!flags || !pinned_find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = range.flags;
	return CUDA_SUCCESS;
}
