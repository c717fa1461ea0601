/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of the table-batched embedding share: indices, offsets, elements. */
#ifndef WAYLAY_KERNELS_TBE_COMMON_H
#define WAYLAY_KERNELS_TBE_COMMON_H

#include "device.h"
#include "tbe_args.h"

#define ROW_NONE 0xffffffffu

DEV_FN long long tbe_raw(const void *array, u64 at, u32 bytes)
{
	if (bytes == 8)
		return (long long)dev_stream_u64((const u64 *)array + at);
	return (int)dev_stream_u32((const u32 *)array + at);
}

/* Where a bag begins; whatever the offsets hold, never out of the indices. */
DEV_FN u32 tbe_offset(const struct tbe_args *a, u64 bag)
{
	long long offset;

	if (a->index_bytes == 8)
		offset = ((const long long *)a->offsets)[bag];
	else
		offset = ((const int *)a->offsets)[bag];
	return offset < 0 ? 0 : offset > (long long)a->n ? a->n : (u32)offset;
}

/* The row that a position asks for, ROW_NONE for one that is not in the table. */
DEV_FN u32 tbe_row(const struct tbe_args *a, u64 position, u32 rows)
{
	u64 row = (u64)tbe_raw(a->indices, position, a->index_bytes);

	return row < rows ? (u32)row : ROW_NONE;
}

DEV_FN float tbe_mean_scale(u32 length)
{
	return dev_quotient(1.0f, (float)length);
}

/* Element `high` (0 or 1) of a word of two 16-bit elements. */
DEV_FN float tbe_half(u32 type, u32 word, u32 high)
{
	if (type == TBE_BF16)
		return dev_float(high ? word & 0xffff0000u : word << 16);
	return dev_from_f16(high ? word >> 16 : word & 0xffff);
}

DEV_FN u32 tbe_round_half(u32 type, float v)
{
	return type == TBE_BF16 ? tbe_bf16_round(dev_bits(v)) : dev_to_f16(v);
}

DEV_FN void tbe_halves(u32 type, u32 word, float *low, float *high)
{
	if (type == TBE_BF16) {
		*low = dev_float(word << 16);
		*high = dev_float(word & 0xffff0000u);
	} else {
		dev_from_f16_pair(word, low, high);
	}
}

DEV_FN u32 tbe_pack_half(u32 type, float low, float high)
{
	if (type == TBE_F16)
		return dev_to_f16_pair(low, high);
	return tbe_round_half(type, low) | tbe_round_half(type, high) << 16;
}

/* Four columns of the output, from element `at` on. */
DEV_FN void tbe_store_out(const struct tbe_args *a, u64 at, const float *v)
{
	if (a->out_type == TBE_F32) {
		struct dev_v4 bits = {dev_bits(v[0]), dev_bits(v[1]), dev_bits(v[2]),
				      dev_bits(v[3])};

		dev_put_v4((struct dev_v4 *)((float *)a->out + at), bits);
	} else {
		struct dev_v2 bits = {tbe_pack_half(a->out_type, v[0], v[1]),
				      tbe_pack_half(a->out_type, v[2], v[3])};

		dev_put_v2((struct dev_v2 *)((unsigned short *)a->out + at), bits);
	}
}

#endif
