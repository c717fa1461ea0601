/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills. The ...Async ones never hold the host; the others do when the target is pinned host
 * memory, or has SYNC_MEMOPS as managed memory does from the start (measured).
 */
#include "tests/fakecuda/internal.h"

#include <string.h>

struct fill {
	uintptr_t dst;
	size_t pitch, width, height; /* width in elements */
	uint32_t value;
	unsigned elem; /* bytes: 1, 2, 4 */
};

static void fill_row(char *row, const struct fill *f)
{
	uint16_t half = (uint16_t)f->value;
	switch (f->elem) {
	case 1:
		memset(row, (int)f->value, f->width);
		break;
	case 2:
		for (size_t i = 0; i < f->width; i++)
			memcpy(row + 2 * i, &half, 2);
		break;
	default:
		for (size_t i = 0; i < f->width; i++)
			memcpy(row + 4 * i, &f->value, 4);
	}
}

static void run_fill(const struct fc_op *op)
{
	struct fill f;
	memcpy(&f, op->data, sizeof(f));
	for (size_t y = 0; y < f.height; y++)
		fill_row((char *)f.dst + y * f.pitch, &f);
}

/* Whether the target is known memory all over, and the range it lies in. */
static bool target_ok(const struct fill *f, struct fc_range *range)
{
	size_t row, rows, bytes;
	if (!f->dst || f->dst % f->elem || (f->height > 1 && f->pitch % f->elem) ||
	    __builtin_mul_overflow(f->width, f->elem, &row) || (f->height > 1 && f->pitch < row) ||
	    __builtin_mul_overflow(f->pitch, f->height - 1, &rows) ||
	    __builtin_add_overflow(rows, row, &bytes))
		return false;
	return fc_range_find(f->dst, range) && f->dst + bytes <= range->base + range->bytes &&
	       range->writable;
}

static CUresult fill(bool ptds, CUstream stream, bool async, struct fill f)
{
	struct fc_stream *s;
	struct fc_range range;
	uint64_t seq = 0;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (!f.width || !f.height)
		return CUDA_SUCCESS;
	if (!target_ok(&f, &range))
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_MEMSET, sizeof(f), run_fill);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, &f, sizeof(f));
	op->tells.bytes = f.width * f.height * f.elem;
	bool capture = fc_capturing() && atomic_load(&s->capture);
	rc = fc_submit(s, op, &seq);
	if (!rc && !async && !capture &&
	    (!fc_kind_on_device(range.kind) || range.sync_memops ||
	     s->ctx->flags & CU_CTX_SYNC_MEMOPS))
		fc_wait(s, seq);
	return rc;
}

#define FILL_ENTRIES(bits, type)                                                                   \
	CUresult do_cuMemsetD##bits##_v2(bool ptds, CUdeviceptr dst, type value, size_t n)         \
	{                                                                                          \
		return fill(ptds, NULL, false, (struct fill){dst, 0, n, 1, value, bits / 8});      \
	}                                                                                          \
	CUresult do_cuMemsetD##bits##Async(bool ptds, CUdeviceptr dst, type value, size_t n,       \
					   CUstream stream)                                        \
	{                                                                                          \
		return fill(ptds, stream, true, (struct fill){dst, 0, n, 1, value, bits / 8});     \
	}                                                                                          \
	CUresult do_cuMemsetD2D##bits##_v2(bool ptds, CUdeviceptr dst, size_t pitch, type value,   \
					   size_t width, size_t height)                            \
	{                                                                                          \
		return fill(ptds, NULL, false,                                                     \
			    (struct fill){dst, pitch, width, height, value, bits / 8});            \
	}                                                                                          \
	CUresult do_cuMemsetD2D##bits##Async(bool ptds, CUdeviceptr dst, size_t pitch, type value, \
					     size_t width, size_t height, CUstream stream)         \
	{                                                                                          \
		return fill(ptds, stream, true,                                                    \
			    (struct fill){dst, pitch, width, height, value, bits / 8});            \
	}

FILL_ENTRIES(8, unsigned char)
FILL_ENTRIES(16, unsigned short)
FILL_ENTRIES(32, unsigned int)
