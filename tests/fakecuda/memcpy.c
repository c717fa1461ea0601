/* SPDX-License-Identifier: Apache-2.0 */
/* The copy entries: each says what its arguments mean and leaves the rest to fc_copy. */
#include "tests/fakecuda/internal.h"

#include <string.h>

static CUresult linear(bool ptds, CUstream stream, uintptr_t dst, uintptr_t src, size_t bytes,
		       struct fc_copy copy)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	copy.box = (struct fc_box){.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
	return fc_copy(s, &copy);
}

/* --- plain ------------------------------------------------------------------------------------------- */

CUresult do_cuMemcpy(bool ptds, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return linear(ptds, NULL, dst, src, bytes, (struct fc_copy){0});
}

CUresult do_cuMemcpyHtoD_v2(bool ptds, CUdeviceptr dst, const void *src, size_t bytes)
{
	return linear(ptds, NULL, dst, (uintptr_t)src, bytes,
		      (struct fc_copy){.dst_side = FC_SIDE_DEVICE});
}

CUresult do_cuMemcpyDtoH_v2(bool ptds, void *dst, CUdeviceptr src, size_t bytes)
{
	return linear(ptds, NULL, (uintptr_t)dst, src, bytes,
		      (struct fc_copy){.src_side = FC_SIDE_DEVICE});
}

CUresult do_cuMemcpyDtoD_v2(bool ptds, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return linear(ptds, NULL, dst, src, bytes,
		      (struct fc_copy){.dst_side = FC_SIDE_DEVICE, .src_side = FC_SIDE_DEVICE});
}

static CUresult peers_check(CUcontext a, CUcontext b)
{
	return fc_ctx_get(a) && fc_ctx_get(b) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult do_cuMemcpyPeer(bool ptds, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			 CUcontext src_ctx, size_t bytes)
{
	CUresult rc = peers_check(dst_ctx, src_ctx);
	return rc ? rc : do_cuMemcpyDtoD_v2(ptds, dst, src, bytes);
}

CUresult do_cuMemcpyAsync(bool ptds, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
			  CUstream stream)
{
	return linear(ptds, stream, dst, src, bytes, (struct fc_copy){.async = true});
}

CUresult do_cuMemcpyHtoDAsync_v2(bool ptds, CUdeviceptr dst, const void *src, size_t bytes,
				 CUstream stream)
{
	return linear(ptds, stream, dst, (uintptr_t)src, bytes,
		      (struct fc_copy){.async = true, .dst_side = FC_SIDE_DEVICE});
}

CUresult do_cuMemcpyDtoHAsync_v2(bool ptds, void *dst, CUdeviceptr src, size_t bytes,
				 CUstream stream)
{
	return linear(ptds, stream, (uintptr_t)dst, src, bytes,
		      (struct fc_copy){.async = true, .src_side = FC_SIDE_DEVICE});
}

CUresult do_cuMemcpyDtoDAsync_v2(bool ptds, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
				 CUstream stream)
{
	return linear(ptds, stream, dst, src, bytes,
		      (struct fc_copy){.async = true,
				       .dst_side = FC_SIDE_DEVICE,
				       .src_side = FC_SIDE_DEVICE});
}

CUresult do_cuMemcpyPeerAsync(bool ptds, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			      CUcontext src_ctx, size_t bytes, CUstream stream)
{
	CUresult rc = peers_check(dst_ctx, src_ctx);
	return rc ? rc : do_cuMemcpyDtoDAsync_v2(ptds, dst, src, bytes, stream);
}

/* --- boxes ------------------------------------------------------------------------------------------- */

/* One side of a 2D or 3D copy. */
struct plane {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	size_t x, y, z, pitch, height;
};

static CUresult plane_start(const struct plane *p, const struct fc_box *box, uintptr_t *start,
			    size_t *pitch, size_t *slice, enum fc_side *side)
{
	uintptr_t base;
	switch (p->type) {
	case CU_MEMORYTYPE_HOST:
		base = (uintptr_t)p->host;
		*side = FC_SIDE_ANY;
		break;
	case CU_MEMORYTYPE_DEVICE:
		base = p->device;
		*side = FC_SIDE_DEVICE;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		base = p->device;
		*side = FC_SIDE_ANY;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED; /* there are no arrays here */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	*pitch = p->pitch ? p->pitch : p->x + box->width;
	size_t rows = p->height ? p->height : p->y + box->height;
	if (*pitch < p->x + box->width || (box->depth > 1 && rows < p->y + box->height) ||
	    __builtin_mul_overflow(*pitch, rows, slice))
		return CUDA_ERROR_INVALID_VALUE;
	*start = base ? base + p->z * *slice + p->y * *pitch + p->x : 0;
	return CUDA_SUCCESS;
}

static CUresult box_copy(bool ptds, CUstream stream, const struct plane *dst,
			 const struct plane *src, struct fc_copy copy)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	struct fc_box *b = &copy.box;
	if (!b->width || !b->height || !b->depth)
		return CUDA_SUCCESS;
	rc = plane_start(dst, b, &b->dst, &b->dst_pitch, &b->dst_slice, &copy.dst_side);
	if (!rc)
		rc = plane_start(src, b, &b->src, &b->src_pitch, &b->src_slice, &copy.src_side);
	return rc ? rc : fc_copy(s, &copy);
}

static CUresult copy_2d(bool ptds, const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	struct plane dst = {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
			    c->dstY,          0,          c->dstPitch,  0};
	struct plane src = {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes,
			    c->srcY,          0,          c->srcPitch,  0};
	struct fc_copy copy = {.async = async};
	copy.box.width = c->WidthInBytes;
	copy.box.height = c->Height;
	copy.box.depth = 1;
	return box_copy(ptds, stream, &dst, &src, copy);
}

CUresult do_cuMemcpy2D_v2(bool ptds, const CUDA_MEMCPY2D *copy)
{
	return copy_2d(ptds, copy, NULL, false);
}

CUresult do_cuMemcpy2DAsync_v2(bool ptds, const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return copy_2d(ptds, copy, stream, true);
}

static CUresult copy_3d(bool ptds, const CUDA_MEMCPY3D *c, CUstream stream, bool async)
{
	if (!c || c->srcLOD || c->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	struct plane dst = {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
			    c->dstY,          c->dstZ,    c->dstPitch,  c->dstHeight};
	struct plane src = {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes,
			    c->srcY,          c->srcZ,    c->srcPitch,  c->srcHeight};
	struct fc_copy copy = {.async = async};
	copy.box.width = c->WidthInBytes;
	copy.box.height = c->Height;
	copy.box.depth = c->Depth;
	return box_copy(ptds, stream, &dst, &src, copy);
}

CUresult do_cuMemcpy3D_v2(bool ptds, const CUDA_MEMCPY3D *copy)
{
	return copy_3d(ptds, copy, NULL, false);
}

CUresult do_cuMemcpy3DAsync_v2(bool ptds, const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return copy_3d(ptds, copy, stream, true);
}

/* The two structs differ in the contexts alone, which stand where the other has reserved words. */
static CUresult copy_3d_peer(bool ptds, const CUDA_MEMCPY3D_PEER *c, CUstream stream, bool async)
{
	CUDA_MEMCPY3D plain;
	_Static_assert(sizeof(plain) == sizeof(*c), "same layout");
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = peers_check(c->dstContext, c->srcContext);
	if (rc)
		return rc;
	memcpy(&plain, c, sizeof(plain));
	return copy_3d(ptds, &plain, stream, async);
}

CUresult do_cuMemcpy3DPeer(bool ptds, const CUDA_MEMCPY3D_PEER *copy)
{
	return copy_3d_peer(ptds, copy, NULL, false);
}

CUresult do_cuMemcpy3DPeerAsync(bool ptds, const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	return copy_3d_peer(ptds, copy, stream, true);
}

/* --- batches ----------------------------------------------------------------------------------------- */

static bool during_call(CUmemcpySrcAccessOrder order)
{
	return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
}

static bool order_ok(CUmemcpySrcAccessOrder order)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* A batch may not go to the legacy stream. */
static CUresult batch_stream(bool ptds, CUstream stream, struct fc_stream **s)
{
	CUresult rc = fc_stream_get(stream, ptds, s);
	return rc ? rc : fc_stream_legacy(*s) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult do_cuMemcpyBatchAsync(bool ptds, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			       size_t count, CUmemcpyAttributes *attrs, size_t *attr_idx,
			       size_t attr_count, size_t *fail_idx, CUstream stream)
{
	struct fc_stream *s;
	if (fail_idx)
		*fail_idx = SIZE_MAX;
	if (!dsts || !srcs || !sizes || !count || !attrs || !attr_idx || !attr_count ||
	    attr_count > count || attr_idx[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < attr_count; i++)
		if (!order_ok(attrs[i].srcAccessOrder) || (i && attr_idx[i] <= attr_idx[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = batch_stream(ptds, stream, &s);
	for (size_t i = 0, a = 0; i < count && !rc; i++) {
		while (a + 1 < attr_count && attr_idx[a + 1] <= i)
			a++;
		rc = linear(ptds, stream, dsts[i], srcs[i], sizes[i],
			    (struct fc_copy){.async = true,
					     .stage_always = during_call(attrs[a].srcAccessOrder)});
		if (rc && fail_idx)
			*fail_idx = i;
	}
	return rc;
}

CUresult do_cuMemcpyBatchAsync_v2(bool ptds, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				  size_t count, CUmemcpyAttributes *attrs, size_t *attr_idx,
				  size_t attr_count, CUstream stream)
{
	return do_cuMemcpyBatchAsync(ptds, dsts, srcs, sizes, count, attrs, attr_idx, attr_count,
				     NULL, stream);
}

static CUresult batch_3d_one(bool ptds, CUstream stream, const CUDA_MEMCPY3D_BATCH_OP *op)
{
	if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
	    op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!order_ok(op->srcAccessOrder))
		return CUDA_ERROR_INVALID_VALUE;
	struct plane dst = {.type = CU_MEMORYTYPE_UNIFIED,
			    .device = op->dst.op.ptr.ptr,
			    .pitch = op->dst.op.ptr.rowLength,
			    .height = op->dst.op.ptr.layerHeight};
	struct plane src = {.type = CU_MEMORYTYPE_UNIFIED,
			    .device = op->src.op.ptr.ptr,
			    .pitch = op->src.op.ptr.rowLength,
			    .height = op->src.op.ptr.layerHeight};
	struct fc_copy copy = {.async = true, .stage_always = during_call(op->srcAccessOrder)};
	copy.box.width = op->extent.width;
	copy.box.height = op->extent.height;
	copy.box.depth = op->extent.depth;
	return box_copy(ptds, stream, &dst, &src, copy);
}

CUresult do_cuMemcpy3DBatchAsync(bool ptds, size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
				 size_t *fail_idx, unsigned long long flags, CUstream stream)
{
	struct fc_stream *s;
	if (fail_idx)
		*fail_idx = SIZE_MAX;
	if (!count || !ops || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = batch_stream(ptds, stream, &s);
	for (size_t i = 0; i < count && !rc; i++) {
		rc = batch_3d_one(ptds, stream, &ops[i]);
		if (rc && fail_idx)
			*fail_idx = i;
	}
	return rc;
}

CUresult do_cuMemcpy3DBatchAsync_v2(bool ptds, size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
				    unsigned long long flags, CUstream stream)
{
	return do_cuMemcpy3DBatchAsync(ptds, count, ops, NULL, flags, stream);
}
