/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory outside the driver: DMA-BUF export and handles for other processes. */
#include "tests/fakecuda/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The descriptor is the memfd itself, whose contents begin where the allocation does: an export
 * that begins elsewhere in it would need a descriptor with an offset, which a memfd has not.
 */
CUresult do_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t bytes,
					  CUmemRangeHandleType type, unsigned long long flags)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1 || !bytes ||
	    ptr % page || bytes % page || !fc_range_find(ptr, &range) ||
	    (range.kind != FC_DEVICE && range.kind != FC_MAPPED) ||
	    ptr + bytes > range.base + range.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.fd < 0 || ptr != range.base || range.fd_offset)
		return CUDA_ERROR_NOT_SUPPORTED;
	int fd = fcntl(range.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}

/* Names the memfd by where its owner has it open, and by its inode lest that changes. */
struct ipc_handle {
	char magic[8];
	pid_t pid;
	int fd;
	dev_t dev;
	ino_t inode;
	size_t bytes, mapped;
};
_Static_assert(sizeof(struct ipc_handle) <= CU_IPC_HANDLE_SIZE, "an IPC handle is 64 bytes");
static const char ipc_magic[8] = "fakecuda";

CUresult do_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	struct stat st;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!handle || !fc_range_find(ptr, &range) || range.kind != FC_DEVICE || range.pool ||
	    range.imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.fd < 0 || fstat(range.fd, &st))
		return CUDA_ERROR_NOT_SUPPORTED;
	struct ipc_handle h = {
		.pid = getpid(),
		.fd = range.fd,
		.dev = st.st_dev,
		.inode = st.st_ino,
		.bytes = range.bytes,
		.mapped = range.mapped,
	};
	memcpy(h.magic, ipc_magic, sizeof(h.magic));
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &h, sizeof(h));
	return CUDA_SUCCESS;
}

/* A descriptor of the memory the handle names, or -1. */
static int ipc_descriptor(const struct ipc_handle *h)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)h->pid, h->fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || st.st_dev != h->dev || st.st_ino != h->inode ||
			(size_t)st.st_size < h->mapped)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

CUresult do_cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	enum { LAZY_PEER_ACCESS = 1 };
	struct fc_ctx *ctx;
	struct ipc_handle h;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	memcpy(&h, &handle, sizeof(h));
	if (!ptr || flags != LAZY_PEER_ACCESS || memcmp(h.magic, ipc_magic, sizeof(h.magic)) != 0 ||
	    !h.mapped || h.bytes > h.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* one's own memory cannot be opened */
	int fd = ipc_descriptor(&h);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	void *p = mmap(NULL, h.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct fc_range range = {
		.base = (uintptr_t)p,
		.bytes = h.bytes,
		.mapped = h.mapped,
		.kind = FC_DEVICE,
		.ctx = ctx,
		.dev = ctx->dev,
		.fd = fd,
		.imported = true,
		.writable = true,
	};
	rc = fc_range_add(&range);
	if (rc)
		fc_range_unmap(&range);
	else
		*ptr = range.base;
	return rc;
}

static bool is_imported(const struct fc_range *r)
{
	return r->imported;
}

CUresult do_cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!fc_range_find(ptr, &range) || range.base != ptr || !is_imported(&range))
		return CUDA_ERROR_INVALID_VALUE;
	rc = fc_ctx_drain(range.ctx);
	if (!rc && !fc_range_take(ptr, is_imported, &range))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		fc_range_unmap(&range);
	return rc;
}
