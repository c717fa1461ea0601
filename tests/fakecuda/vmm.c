/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: physical memory is a memfd, an address range an empty mapping. */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GRANULARITY = 2 << 20 };

struct fc_mem {
	uint64_t handle;
	int fd;
	size_t bytes;
	struct fc_device *dev;
	unsigned refs; /* the handles' and each mapping's, under the lock */
	unsigned handle_refs;
	bool imported;
};

struct reservation {
	uintptr_t base;
	size_t bytes;
	struct reservation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;

/* --- physical memory --------------------------------------------------------------------------------- */

static struct fc_mem *mem_new(int fd, size_t bytes, struct fc_device *dev, bool imported)
{
	struct fc_mem *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	*m = (struct fc_mem){.fd = fd,
			     .bytes = bytes,
			     .dev = dev,
			     .refs = 1,
			     .handle_refs = 1,
			     .imported = imported};
	m->handle = fc_handle_new(FC_T_MEM, m);
	if (m->handle)
		return m;
	free(m);
	return NULL;
}

/* With the lock held. */
static void mem_unref(struct fc_mem *m)
{
	if (--m->refs)
		return;
	close(m->fd);
	if (!m->imported)
		atomic_fetch_sub(&m->dev->used, m->bytes);
	free(m);
}

CUresult do_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					  CUmemAllocationGranularity_flags option)
{
	if (!granularity || !prop || (int)option < 0 || (int)option > 1 ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	*granularity = GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult do_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (!handle || !prop || !bytes || bytes % GRANULARITY || flags ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_device *dev = fc_device_get(prop->location.id);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	size_t used = atomic_fetch_add(&dev->used, bytes);
	int fd = used + bytes > fc_settings.mem_bytes ? -1 : fc_memfd(bytes);
	struct fc_mem *m = fd < 0 ? NULL : mem_new(fd, bytes, dev, false);
	if (!m) {
		atomic_fetch_sub(&dev->used, bytes);
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = m->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	struct fc_mem *m = fc_handle_get(handle, FC_T_MEM);
	if (!m) {
		rc = CUDA_ERROR_INVALID_VALUE;
	} else if (!--m->handle_refs) {
		fc_handle_drop(handle);
		mem_unref(m);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult do_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct fc_range range;
	CUresult rc = CUDA_SUCCESS;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!fc_range_find((uintptr_t)addr, &range) || range.kind != FC_MAPPED) {
		rc = CUDA_ERROR_INVALID_VALUE;
	} else {
		struct fc_mem *m = range.mem;
		if (!m->handle_refs) {
			uint64_t again = fc_handle_new(FC_T_MEM, m);
			if (!again)
				rc = CUDA_ERROR_OUT_OF_MEMORY;
			else
				m->refs++, m->handle = again;
		}
		if (!rc) {
			m->handle_refs++;
			*handle = m->handle;
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult do_cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
					 CUmemAllocationHandleType type, unsigned long long flags)
{
	if (!shareable || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&lock);
	struct fc_mem *m = fc_handle_get(handle, FC_T_MEM);
	int fd = m ? dup(m->fd) : -1;
	pthread_mutex_unlock(&lock);
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

CUresult do_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
					   CUmemAllocationHandleType type)
{
	struct fc_ctx *ctx;
	struct stat st;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	int fd = dup((int)(uintptr_t)os_handle);
	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0 || st.st_size % GRANULARITY) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct fc_mem *m = mem_new(fd, (size_t)st.st_size, ctx->dev, true);
	if (!m) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = m->handle;
	return CUDA_SUCCESS;
}

/* --- addresses ---------------------------------------------------------------------------------------- */

CUresult do_cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t align, CUdeviceptr hint,
				unsigned long long flags)
{
	(void)hint;
	if (!align)
		align = GRANULARITY;
	if (!ptr || !bytes || bytes % GRANULARITY || align & (align - 1) || flags ||
	    bytes > SIZE_MAX / 4 || align > SIZE_MAX / 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (align < GRANULARITY)
		align = GRANULARITY;
	struct reservation *r = malloc(sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	char *p = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	if (p == MAP_FAILED) {
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	size_t head = (align - (uintptr_t)p % align) % align;
	if (head)
		munmap(p, head);
	munmap(p + head + bytes, align - head);
	r->base = (uintptr_t)p + head;
	r->bytes = bytes;
	pthread_mutex_lock(&lock);
	r->next = reservations;
	reservations = r;
	pthread_mutex_unlock(&lock);
	*ptr = r->base;
	return CUDA_SUCCESS;
}

CUresult do_cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (struct reservation **p = &reservations; *p; p = &(*p)->next) {
		struct reservation *r = *p;
		if (r->base != ptr || r->bytes != bytes || fc_range_overlaps(ptr, bytes))
			continue;
		*p = r->next;
		munmap((void *)r->base, r->bytes);
		free(r);
		rc = CUDA_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* With the lock held. */
static bool is_reserved(CUdeviceptr ptr, size_t bytes)
{
	for (struct reservation *r = reservations; r; r = r->next)
		if (ptr >= r->base && bytes <= r->bytes && ptr - r->base <= r->bytes - bytes)
			return true;
	return false;
}

static CUresult map_locked(CUdeviceptr ptr, size_t bytes, size_t offset, struct fc_mem *m,
			   struct fc_ctx *ctx)
{
	if (!m || !is_reserved(ptr, bytes) || offset > m->bytes || bytes > m->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_range range = {
		.base = ptr,
		.bytes = bytes,
		.kind = FC_MAPPED,
		.ctx = ctx,
		.dev = m->dev,
		.fd = m->fd,
		.fd_offset = offset,
		.mem = m,
	};
	if (fc_range_add(&range))
		return CUDA_ERROR_INVALID_VALUE;
	/* No access until cuMemSetAccess says so. */
	if (mmap((void *)(uintptr_t)ptr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, m->fd,
		 (off_t)offset) == MAP_FAILED) {
		fc_range_take(ptr, NULL, &range);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	m->refs++;
	return CUDA_SUCCESS;
}

CUresult do_cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
		     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!bytes || bytes % GRANULARITY || offset % GRANULARITY || ptr % GRANULARITY || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	rc = map_locked(ptr, bytes, offset, fc_handle_get(handle, FC_T_MEM), ctx);
	pthread_mutex_unlock(&lock);
	return rc;
}

static bool is_mapped(const struct fc_range *r)
{
	return r->kind == FC_MAPPED;
}

/* With the lock held: the range leaves, its addresses stay reserved. */
static CUresult unmap_one(const struct fc_range *found)
{
	struct fc_range range;
	if (mmap((void *)found->base, found->bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (fc_range_take(found->base, is_mapped, &range))
		mem_unref(range.mem);
	return CUDA_SUCCESS;
}

/* Whole mappings only; that there is none is no error. */
CUresult do_cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	struct fc_range range;
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	if (!bytes || bytes % GRANULARITY || ptr % GRANULARITY || !is_reserved(ptr, bytes))
		rc = CUDA_ERROR_INVALID_VALUE;
	for (size_t at = 0; at < bytes && !rc; at += GRANULARITY) {
		if (!fc_range_find(ptr + at, &range))
			continue;
		if (range.base < ptr || range.base + range.bytes > ptr + bytes)
			rc = CUDA_ERROR_INVALID_VALUE;
		else
			rc = unmap_one(&range);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static void set_writable(struct fc_range *range, void *arg)
{
	range->writable = *(bool *)arg;
}

CUresult do_cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	struct fc_range range;
	int prot = PROT_NONE;
	if (!desc || !count || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    !fc_device_get(desc[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			prot |= PROT_READ;
		else if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			prot |= PROT_READ | PROT_WRITE;
	}
	bool writable = prot & PROT_WRITE;
	pthread_mutex_lock(&lock);
	size_t done = 0;
	while (done < bytes && fc_range_find(ptr + done, &range) && is_mapped(&range))
		done = range.base + range.bytes - ptr;
	CUresult rc = done < bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (!rc && mprotect((void *)(uintptr_t)ptr, bytes, prot))
		rc = CUDA_ERROR_OPERATING_SYSTEM;
	for (size_t at = 0; !rc && at < bytes && fc_range_find(ptr + at, &range);
	     at = range.base + range.bytes - ptr)
		fc_range_update(ptr + at, set_writable, &writable);
	pthread_mutex_unlock(&lock);
	return rc;
}
