/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows about a pointer. */
#include "tests/fakecuda/internal.h"

#include <string.h>

/* The attributes of memory that the driver does not know; what is not here is left as it was. */
static CUresult attr_unknown(void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
	switch (attr) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		memset(data, 0, sizeof(uint64_t));
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(uint64_t *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = -2;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult attr_known(void *data, CUpointer_attribute attr, CUdeviceptr ptr,
			   const struct fc_range *r)
{
	bool host = !fc_kind_on_device(r->kind);
	switch (attr) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = r->pool ? NULL : (CUcontext)(uintptr_t)r->ctx->handle;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host && r->kind != FC_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)ptr;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned *)data = r->sync_memops != 0;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = r->id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = r->kind == FC_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = r->dev->ordinal;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)data = r->kind == FC_DEVICE && !r->pool && r->fd >= 0;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = r->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = r->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(uint64_t *)data =
			r->kind == FC_MAPPED ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned *)data = (r->kind == FC_DEVICE && !r->pool) || r->kind == FC_MAPPED;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned *)data = r->writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						: CU_MEM_ACCESS_FLAGS_PROT_NONE;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = fc_pool_handle(r->pool);
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = r->mapped ? r->mapped : r->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = r->base;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = r->id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned *)data = 0;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult do_cuPointerGetAttribute(void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
	struct fc_ctx *ctx;
	struct fc_range range;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!data || !fc_range_find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	return attr_known(data, attr, ptr, &range);
}

/* Needs no context, and does not fail for memory that it does not know (measured). */
CUresult do_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attrs, void **data,
				   CUdeviceptr ptr)
{
	struct fc_range range;
	CUresult rc = CUDA_SUCCESS;
	if (!count || !attrs || !data)
		return CUDA_ERROR_INVALID_VALUE;
	bool known = fc_range_find(ptr, &range);
	for (unsigned i = 0; i < count; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (!known)
			rc = attr_unknown(data[i], attrs[i], ptr);
		else if (attrs[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
			 (range.kind == FC_DEVICE || range.kind == FC_MAPPED))
			*(void **)data[i] = NULL;
		else
			rc = attr_known(data[i], attrs[i], ptr, &range);
		if (rc)
			return rc;
	}
	return CUDA_SUCCESS;
}

static void sync_memops_set(struct fc_range *range, void *value)
{
	range->sync_memops = *(unsigned *)value != 0;
}

CUresult do_cuPointerSetAttribute(const void *value, CUpointer_attribute attr, CUdeviceptr ptr)
{
	struct fc_ctx *ctx;
	unsigned on;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!value || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&on, value, sizeof(on));
	return fc_range_update(ptr, sync_memops_set, &on) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
