/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. What holds the host was measured on an H200 (driver 580): a synchronous copy always,
 * unless both sides are device memory without SYNC_MEMOPS; an asynchronous one when both sides are
 * host memory, when the target is pageable, and when a pageable source is too large to be staged.
 */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

/* --- moving ------------------------------------------------------------------------------------------ */

void fc_box_move(const struct fc_box *b)
{
	bool rows = b->height == 1 || (b->dst_pitch == b->width && b->src_pitch == b->width);
	for (size_t z = 0; z < b->depth; z++) {
		char *dst = (char *)b->dst + z * b->dst_slice;
		const char *src = (const char *)b->src + z * b->src_slice;
		if (rows) {
			memmove(dst, src, b->width * b->height);
			continue;
		}
		for (size_t y = 0; y < b->height; y++)
			memmove(dst + y * b->dst_pitch, src + y * b->src_pitch, b->width);
	}
}

static void run_copy(const struct fc_op *op)
{
	struct fc_box box;
	memcpy(&box, op->data, sizeof(box));
	fc_box_move(&box);
}

static struct fc_op *copy_op(const struct fc_box *box)
{
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_MEMCPY, sizeof(*box), run_copy);
	if (op)
		memcpy(op->data, box, sizeof(*box));
	return op;
}

/* A copy of the source, dense, kept in the operation itself. */
static struct fc_op *staged_op(const struct fc_box *box)
{
	size_t bytes = box->width * box->height * box->depth;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_MEMCPY, sizeof(*box) + bytes, run_copy);
	if (!op)
		return NULL;
	struct fc_box in = *box, out = *box;
	in.dst = (uintptr_t)(op->data + sizeof(*box));
	in.dst_pitch = box->width;
	in.dst_slice = box->width * box->height;
	fc_box_move(&in);
	out.src = in.dst;
	out.src_pitch = in.dst_pitch;
	out.src_slice = in.dst_slice;
	memcpy(op->data, &out, sizeof(out));
	return op;
}

/* --- deciding ---------------------------------------------------------------------------------------- */

/* The bytes from the first to the last that the box touches, or 0 if they overflow. */
static size_t extent(size_t pitch, size_t slice, const struct fc_box *b)
{
	size_t rows, layers, all;
	if (__builtin_mul_overflow(pitch, b->height - 1, &rows) ||
	    __builtin_mul_overflow(slice, b->depth - 1, &layers) ||
	    __builtin_add_overflow(rows, layers, &all) ||
	    __builtin_add_overflow(all, b->width, &all))
		return 0;
	return all;
}

struct side {
	enum fc_kind kind;
	bool sync_memops;
};

static CUresult side_find(uintptr_t ptr, size_t bytes, enum fc_side want, struct side *side)
{
	struct fc_range r;
	if (!ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_range_find(ptr, &r)) {
		*side = (struct side){FC_PAGEABLE, false};
		return want == FC_SIDE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	*side = (struct side){r.kind, r.sync_memops != 0};
	if (ptr + bytes <= r.base + r.bytes)
		return r.kind == FC_MAPPED && !r.writable ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	/* Pinned only in part is not pinned. */
	if (want == FC_SIDE_DEVICE || fc_kind_on_device(r.kind))
		return CUDA_ERROR_INVALID_VALUE;
	side->kind = FC_PAGEABLE;
	return CUDA_SUCCESS;
}

enum way { WAY_QUEUE, WAY_STAGE, WAY_HOLD };

static enum way choose(const struct fc_copy *c, const struct side *dst, const struct side *src,
		       const struct fc_ctx *ctx)
{
	bool dst_dev = fc_kind_on_device(dst->kind), src_dev = fc_kind_on_device(src->kind);
	if (!c->async) {
		if (!dst_dev || !src_dev || dst->sync_memops || src->sync_memops)
			return WAY_HOLD;
		return ctx->flags & CU_CTX_SYNC_MEMOPS ? WAY_HOLD : WAY_QUEUE;
	}
	if (!dst_dev && !src_dev)
		return WAY_HOLD;
	if (dst->kind == FC_PAGEABLE)
		return WAY_HOLD;
	if (src->kind == FC_PAGEABLE)
		return c->stage_always ||
				       c->box.width * c->box.height * c->box.depth <= FC_STAGE_BYTES
			       ? WAY_STAGE
			       : WAY_HOLD;
	return c->stage_always && !src_dev ? WAY_STAGE : WAY_QUEUE;
}

/* As CUPTI numbers kinds of memory. */
static unsigned char shown_kind(enum fc_kind kind)
{
	enum { PAGEABLE = 1, PINNED, DEVICE, MANAGED = 5 };
	return kind == FC_PAGEABLE                        ? PAGEABLE
	       : kind == FC_HOST || kind == FC_REGISTERED ? PINNED
	       : kind == FC_MANAGED                       ? MANAGED
							  : DEVICE;
}

CUresult fc_copy(struct fc_stream *s, const struct fc_copy *c)
{
	const struct fc_box *b = &c->box;
	struct side dst, src;
	if (!b->width || !b->height || !b->depth)
		return CUDA_SUCCESS;
	CUresult rc = side_find(b->dst, extent(b->dst_pitch, b->dst_slice, b), c->dst_side, &dst);
	if (!rc)
		rc = side_find(b->src, extent(b->src_pitch, b->src_slice, b), c->src_side, &src);
	if (rc)
		return rc;
	enum way way = choose(c, &dst, &src, s->ctx);
	bool capture = FC_UNLIKELY(fc_capturing());
	if (way == WAY_HOLD || way == WAY_STAGE) {
		rc = fc_may_wait();
		if (rc)
			return rc;
		/* Nothing to come after: the host may as well do it itself. */
		if (!capture && !atomic_load_explicit(&fc_observer, memory_order_relaxed) &&
		    fc_stream_ready(s)) {
			fc_box_move(b);
			return CUDA_SUCCESS;
		}
	}
	capture = capture && atomic_load(&s->capture);
	struct fc_op *op = way == WAY_STAGE && !capture ? staged_op(b) : copy_op(b);
	uint64_t seq = 0;
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->tells.bytes = b->width * b->height * b->depth;
	op->tells.dst_kind = shown_kind(dst.kind);
	op->tells.src_kind = shown_kind(src.kind);
	op->holds_launch = fc_kind_on_device(src.kind) && dst.kind == FC_PAGEABLE;
	rc = fc_submit(s, op, &seq);
	if (!rc && way == WAY_HOLD && !capture)
		fc_wait(s, seq);
	return rc;
}
