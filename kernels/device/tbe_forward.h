/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward by gathering rows. A warp takes a few bags of one feature after the other: the offsets of
 * all of them come in at once and the indices of the next while the rows of this one do. A group of
 * lanes reads a row, 16 bytes a lane where rows allow it, and several rows a group are under way at
 * the same time. Sums are FP32 for 16-bit weights and FP64 for FP32 weights, in an order that only
 * the shape decides.
 */
#ifndef WAYLAY_KERNELS_TBE_FORWARD_H
#define WAYLAY_KERNELS_TBE_FORWARD_H

#include "tbe_common.h"

#define FORWARD_AHEAD 5 /* rows a lane group under way */

/* Up to 32 lookups of a bag, one a lane. */
struct tbe_lookups {
	u32 row;
	float weight;
};

DEV_FN struct tbe_lookups tbe_look_up(const struct tbe_args *a, const struct tbe_feature *f,
				      u32 position, u32 end)
{
	struct tbe_lookups l = {ROW_NONE, 1.0f};

	if (position < end) {
		l.row = tbe_row(a, position, f->rows);
		if (a->sample_weights)
			l.weight = a->sample_weights[position];
	}
	return l;
}

/* The lane of the n-th bit, from 0, of those set. */
DEV_FN u32 forward_nth(u32 bits, u32 n)
{
	u32 lane = 0;

	for (u32 half = 16; half; half /= 2) {
		u32 below = DEV_POPC(bits >> lane & ((1u << half) - 1));

		if (n >= below) {
			n -= below;
			lane += half;
		}
	}
	return lane;
}

/*
 * Leaves the lookups that are rows of the table in the first lanes and returns how many; where
 * neighbours ask for the same row, and there are no sample weights, a row is read once, with the
 * weight of their number. *weighted is set when weights are not all 1.
 */
DEV_FN u32 forward_compact(const struct tbe_args *a, struct tbe_lookups *l, u32 here, int *weighted)
{
	u32 lane = DEV_LANE, below = dev_shfl_up(l->row, 1), lead, alike, from;
	int merge = a->sample_weights == 0;

	*weighted = !merge;
	if (!dev_ballot(lane < here && (l->row == ROW_NONE || (merge && lane && below == l->row))))
		return here;
	alike = merge ? dev_match(l->row) : 1u << lane;
	lead = dev_ballot(l->row != ROW_NONE && DEV_CTZ(alike) == lane);
	if (merge)
		l->weight = (float)DEV_POPC(alike);
	*weighted = 1;
	here = DEV_POPC(lead);
	from = forward_nth(lead, lane) & 31;
	l->row = dev_shfl(l->row, from);
	l->weight = dev_shfl_float(l->weight, from);
	if (lane >= here)
		l->weight = 1.0f; /* of zeros */
	return here;
}

/*
 * The columns from vector c0 on of one bag: FORWARD_BAG(name, elements a lane loads, vector type,
 * its load, accumulator, how a vector is added). `first` are the bag's first 32 lookups.
 */
#define FORWARD_BAG(name, width, vector, fetch, accumulator, add)                                  \
	DEV_FN void name(const struct tbe_args *a, const struct tbe_feature *f, u32 type, u32 bag, \
			 u32 begin, u32 end, struct tbe_lookups first)                             \
	{                                                                                          \
		u32 vectors = f->dim / (width), log2 = 0, lane = DEV_LANE;                         \
		const vector *table = (const vector *)((const char *)a->weights +                  \
						       f->weights * (type == TBE_F32 ? 4 : 2));    \
		float scale = a->pooling == TBE_MEAN && end > begin ? tbe_mean_scale(end - begin)  \
								    : 1.0f;                        \
                                                                                                   \
		while (log2 < 5 && 1u << log2 < vectors)                                           \
			log2++;                                                                    \
		for (u32 c0 = 0; c0 < vectors; c0 += 1u << log2) {                                 \
			u32 c = c0 + (lane & ((1u << log2) - 1)), group = lane >> log2,            \
			    groups = 32 >> log2;                                                   \
			const vector *column = table + (c < vectors ? c : 0);                      \
			accumulator sum[width];                                                    \
			struct tbe_lookups l = first;                                              \
                                                                                                   \
			for (u32 i = 0; i < (width); i++)                                          \
				sum[i] = 0;                                                        \
			for (u32 p = begin; p < end; p += 32) {                                    \
				int weighted;                                                      \
				struct tbe_lookups next = tbe_look_up(a, f, p + 32 + lane, end);   \
				u32 here = forward_compact(a, &l, end - p < 32 ? end - p : 32,     \
							   &weighted);                             \
                                                                                                   \
				for (u32 r = 0; r < here; r += FORWARD_AHEAD * groups) {           \
					vector v[FORWARD_AHEAD];                                   \
					float w[FORWARD_AHEAD];                                    \
                                                                                                   \
					DEV_UNROLL                                                 \
					for (u32 j = 0; j < FORWARD_AHEAD; j++) {                  \
						u32 at = r + j * groups + group;                   \
                                                                                                   \
						v[j] = fetch(                                      \
							column + (u64)dev_shfl(l.row, at & 31) *   \
									 vectors,                  \
							at < here && c < vectors);                 \
						w[j] = weighted                                    \
							       ? dev_shfl_float(l.weight, at & 31) \
							       : 1.0f;                             \
					}                                                          \
					DEV_UNROLL                                                 \
					for (u32 j = 0; j < FORWARD_AHEAD; j++)                    \
						add(sum, v[j], w[j], weighted);                    \
				}                                                                  \
				l = next;                                                          \
			}                                                                          \
			forward_finish_##accumulator(a, f, bag, c *(width), c < vectors && !group, \
						     1u << log2, sum, (width), scale);             \
		}                                                                                  \
	}

DEV_FN void forward_store(const struct tbe_args *a, const struct tbe_feature *f, u32 bag,
			  u32 column, const float *v, u32 width)
{
	for (u32 i = 0; i < width; i += 4)
		tbe_store_out(a, f->out + (u64)bag * f->out_stride + column + i, v + i);
}

/* Adds up the lane groups, scales, stores. */
DEV_FN void forward_finish_float(const struct tbe_args *a, const struct tbe_feature *f, u32 bag,
				 u32 column, int mine, u32 lanes, float *sum, u32 width,
				 float scale)
{
	for (u32 mask = lanes; mask < 32; mask *= 2)
		for (u32 i = 0; i < width; i++)
			sum[i] += dev_float(dev_shfl_xor(dev_bits(sum[i]), mask));
	for (u32 i = 0; i < width; i++)
		sum[i] *= scale;
	if (mine)
		forward_store(a, f, bag, column, sum, width);
}

DEV_FN void forward_finish_double(const struct tbe_args *a, const struct tbe_feature *f, u32 bag,
				  u32 column, int mine, u32 lanes, double *sum, u32 width,
				  float scale)
{
	float v[4];

	for (u32 mask = lanes; mask < 32; mask *= 2)
		for (u32 i = 0; i < width; i++)
			sum[i] += dev_shfl_xor_double(sum[i], mask);
	for (u32 i = 0; i < 4; i++)
		v[i] = (float)(sum[i] * (double)scale);
	if (mine)
		forward_store(a, f, bag, column, v, 4);
}

DEV_FN void forward_add_f32(double *sum, struct dev_v4 v, float w, int weighted)
{
	double by = weighted ? (double)w : 1.0;

	sum[0] += weighted ? by * (double)dev_float(v.x) : (double)dev_float(v.x);
	sum[1] += weighted ? by * (double)dev_float(v.y) : (double)dev_float(v.y);
	sum[2] += weighted ? by * (double)dev_float(v.z) : (double)dev_float(v.z);
	sum[3] += weighted ? by * (double)dev_float(v.w) : (double)dev_float(v.w);
}

#define FORWARD_ADD_HALVES(name, type)                                                             \
	DEV_FN void name##_word(float *sum, u32 word, float w, int weighted)                       \
	{                                                                                          \
		float low = tbe_half(type, word, 0), high = tbe_half(type, word, 1);               \
                                                                                                   \
		sum[0] = weighted ? dev_fma(w, low, sum[0]) : sum[0] + low;                        \
		sum[1] = weighted ? dev_fma(w, high, sum[1]) : sum[1] + high;                      \
	}                                                                                          \
	DEV_FN void name##_v4(float *sum, struct dev_v4 v, float w, int weighted)                  \
	{                                                                                          \
		name##_word(sum, v.x, w, weighted);                                                \
		name##_word(sum + 2, v.y, w, weighted);                                            \
		name##_word(sum + 4, v.z, w, weighted);                                            \
		name##_word(sum + 6, v.w, w, weighted);                                            \
	}                                                                                          \
	DEV_FN void name##_v2(float *sum, struct dev_v2 v, float w, int weighted)                  \
	{                                                                                          \
		name##_word(sum, v.x, w, weighted);                                                \
		name##_word(sum + 2, v.y, w, weighted);                                            \
	}
FORWARD_ADD_HALVES(forward_add_f16, TBE_F16)
FORWARD_ADD_HALVES(forward_add_bf16, TBE_BF16)

FORWARD_BAG(forward_bag_f32, 4, struct dev_v4, dev_fetch_v4, double, forward_add_f32)
FORWARD_BAG(forward_bag_f16, 8, struct dev_v4, dev_fetch_v4, float, forward_add_f16_v4)
FORWARD_BAG(forward_bag_bf16, 8, struct dev_v4, dev_fetch_v4, float, forward_add_bf16_v4)
/* Rows of an odd number of 8 bytes. */
FORWARD_BAG(forward_bag_f16_odd, 4, struct dev_v2, dev_fetch_v2, float, forward_add_f16_v2)
FORWARD_BAG(forward_bag_bf16_odd, 4, struct dev_v2, dev_fetch_v2, float, forward_add_bf16_v2)

/* Block x takes bags of feature y: rows that many ask for stay in the cache while they are asked for. */
#define FORWARD_KERNEL(name, type, even, odd)                                                      \
	DEV_KERNEL(TBE_BLOCK, name)(DEV_PARAM struct tbe_args a)                                   \
	{                                                                                          \
		const struct tbe_feature *f = a.features + DEV_BLOCK_Y;                            \
		u32 warp = DEV_BLOCK_X * (TBE_BLOCK / 32) + DEV_TID / 32, lane = DEV_LANE;         \
		u32 bag = warp * a.warp_bags, last = bag + a.warp_bags, offset = 0, begin, end;    \
		struct tbe_lookups l;                                                              \
                                                                                                   \
		last = last < f->bags ? last : f->bags;                                            \
		if ((f->small && a.skip_small) || bag >= last)                                     \
			return;                                                                    \
		if (bag + lane <= last)                                                            \
			offset = tbe_offset(&a, (u64)f->bag0 + bag + lane);                        \
		begin = dev_shfl(offset, 0);                                                       \
		end = dev_shfl(offset, 1);                                                         \
		l = tbe_look_up(&a, f, begin + lane, end);                                         \
		for (u32 i = 0; bag < last; i++, bag++) {                                          \
			struct tbe_lookups now = l;                                                \
			u32 from = begin, to = end;                                                \
                                                                                                   \
			begin = dev_shfl(offset, i + 1);                                           \
			end = dev_shfl(offset, (i + 2) & 31);                                      \
			if (bag + 1 < last)                                                        \
				l = tbe_look_up(&a, f, begin + lane, end);                         \
			if (type != TBE_F32 && (f->dim | (u32)f->weights) % 8)                     \
				odd(&a, f, type, bag, from, to, now);                              \
			else                                                                       \
				even(&a, f, type, bag, from, to, now);                             \
		}                                                                                  \
	}
FORWARD_KERNEL(tbe_forward_f32, TBE_F32, forward_bag_f32, forward_bag_f32)
FORWARD_KERNEL(tbe_forward_f16, TBE_F16, forward_bag_f16, forward_bag_f16_odd)
FORWARD_KERNEL(tbe_forward_bf16, TBE_BF16, forward_bag_bf16, forward_bag_bf16_odd)

/* Without pooling: every position's row goes where the position says. A warp takes positions of
 * feature y. */
DEV_KERNEL(TBE_BLOCK, tbe_forward_rows)(DEV_PARAM struct tbe_args a)
{
	const struct tbe_feature *f = a.features + DEV_BLOCK_Y;
	u32 begin = tbe_offset(&a, f->bag0), end = tbe_offset(&a, (u64)f->bag0 + f->bags);
	u32 lane = DEV_LANE, warp = DEV_BLOCK_X * (TBE_BLOCK / 32) + DEV_TID / 32;
	u32 warps = DEV_BLOCKS_X * (TBE_BLOCK / 32);

	for (u32 p = begin + warp; p < end; p += warps) {
		u32 row = tbe_row(&a, p, f->rows);
		u64 from = f->weights + (u64)row * f->dim;

		for (u32 c = lane * 4; c < f->dim; c += 128) {
			float v[4];

			if (a.type == TBE_F32) {
				struct dev_v4 w = dev_fetch_v4((const float *)a.weights + from + c,
							       row != ROW_NONE);

				v[0] = dev_float(w.x), v[1] = dev_float(w.y);
				v[2] = dev_float(w.z), v[3] = dev_float(w.w);
			} else {
				struct dev_v2 w =
					dev_fetch_v2((const unsigned short *)a.weights + from + c,
						     row != ROW_NONE);

				v[0] = tbe_half(a.type, w.x, 0), v[1] = tbe_half(a.type, w.x, 1);
				v[2] = tbe_half(a.type, w.y, 0), v[3] = tbe_half(a.type, w.y, 1);
			}
			tbe_store_out(&a, (u64)p * f->dim + c, v);
		}
	}
}

/* Makes inputs. */
DEV_KERNEL(TBE_BLOCK, tbe_fill)(DEV_PARAM struct tbe_args a)
{
	u64 threads = (u64)DEV_BLOCKS_X * TBE_BLOCK;

	for (u64 i = (u64)DEV_BLOCK_X * TBE_BLOCK + DEV_TID; i < a.fill_elements; i += threads) {
		float v = tbe_made_up(a.seed, i, a.fill_type);

		if (a.fill_type == TBE_F32)
			((float *)a.fill)[i] = v;
		else
			((unsigned short *)a.fill)[i] =
				(unsigned short)tbe_round_half(a.fill_type, v);
	}
}

#endif
