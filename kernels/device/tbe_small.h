/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small tables. Forward: a warp counts how often each of 16 bags asks for each row, then multiplies
 * the counts with the table on the tensor cores: the indices are read once and the rows not at all
 * from beyond the multiprocessor. Backward: counts transposed times the output's gradient,
 * added up per chunk of bags and then over the chunks, both in a fixed order; no sort.
 */
#ifndef WAYLAY_KERNELS_TBE_SMALL_H
#define WAYLAY_KERNELS_TBE_SMALL_H

#include "tbe_backward_rows.h"
#include "tbe_common.h"

#define SMALL_WARPS (TBE_BLOCK / 32)
#define SMALL_AHEAD 16 /* indices a lane under way */

#define SMALL_STEPS  (TBE_SMALL_ROWS / 16) /* of 16 rows each */
#define SMALL_PAIRS  (TBE_SMALL_DIM / 16)  /* of tiles of 8 columns */
#define SMALL_STRIDE (TBE_SMALL_ROWS + 8)  /* counts of a bag and room, so that banks differ */

struct tbe_small_shared {
	/* the table as dev_mma() wants it: by step, pair, tile of the pair and lane */
	struct dev_v2 table[SMALL_STEPS][SMALL_PAIRS][2][32];
	u32 counts[SMALL_WARPS][TBE_SMALL_BAGS * SMALL_STRIDE]; /* of a warp, by bag and row */
};

DEV_FN u32 small_element(const struct tbe_args *a, const struct tbe_feature *f, u32 row, u32 column)
{
	return row < f->rows && column < f->dim
		       ? ((const unsigned short *)
				  a->weights)[f->weights + (u64)row * f->dim + column]
		       : 0;
}

/* Column n of a tile is not column n of the table: so arranged, what a lane gets of both tiles of a
 * pair are four neighbours. */
DEV_FN void small_load_table(const struct tbe_args *a, const struct tbe_feature *f,
			     struct tbe_small_shared *sh)
{
	struct dev_v2 *to = &sh->table[0][0][0][0];

	for (u32 i = DEV_TID; i < SMALL_STEPS * SMALL_PAIRS * 64; i += DEV_NTID) {
		u32 lane = i & 31, tile = i >> 5 & 1, pair = i / 64 % SMALL_PAIRS,
		    row = i / 64 / SMALL_PAIRS * 16 + lane % 4 * 2, n = lane / 4,
		    column = pair * 16 + n / 2 * 4 + n % 2 + tile * 2;

		to[i].x = small_element(a, f, row, column) | small_element(a, f, row + 1, column)
								     << 16;
		to[i].y = small_element(a, f, row + 8, column) |
			  small_element(a, f, row + 9, column) << 16;
	}
}

/* Counts the lookups of the warp's bags: lane l holds the begin of bag l, up to lane `bags` that of
 * the one after the last. */
DEV_FN void small_count(const struct tbe_args *a, const struct tbe_feature *f, u32 *counts,
			u32 offset, u32 bags)
{
	u32 lane = DEV_LANE, begin = dev_shfl(offset, 0), end = dev_shfl(offset, bags), bag = 0;

	for (u32 i = lane; i < TBE_SMALL_BAGS * SMALL_STRIDE; i += 32)
		counts[i] = 0;
	dev_warp_sync();
	for (u32 p = begin; p < end; p += 32 * SMALL_AHEAD) {
		u32 row[SMALL_AHEAD];

		DEV_UNROLL
		for (u32 j = 0; j < SMALL_AHEAD; j++) {
			row[j] = ROW_NONE;
			if (p + 32 * j + lane < end)
				row[j] = tbe_row(a, p + 32 * j + lane, f->rows);
		}
		DEV_UNROLL
		for (u32 j = 0; j < SMALL_AHEAD; j++) {
			for (;;) { /* on to the bag of this position */
				u32 until = dev_shfl(offset, bag + 1);
				int on = p + 32 * j + lane < end && p + 32 * j + lane >= until;

				if (!dev_ballot(on))
					break;
				bag += (u32)on;
			}
			if (row[j] != ROW_NONE)
				DEV_ADD(&counts[bag * SMALL_STRIDE + row[j]], 1u);
		}
	}
	dev_warp_sync();
}

/* Keeps the counts for the backward. */
DEV_FN void small_save(const struct tbe_args *a, const struct tbe_feature *f, const u32 *counts,
		       u32 bag, u32 bags)
{
	u32 *to = a->histograms + f->counts + (u64)bag * TBE_SMALL_ROWS;

	DEV_UNROLL
	for (u32 i = DEV_LANE; i < TBE_SMALL_BAGS * TBE_SMALL_ROWS; i += 32)
		if (i / TBE_SMALL_ROWS < bags)
			to[i] = counts[i / TBE_SMALL_ROWS * SMALL_STRIDE + i % TBE_SMALL_ROWS];
}

/* Bits of a count that an element of 16 bits holds. */
DEV_FN u32 small_digit_bits(u32 type)
{
	return type == TBE_BF16 ? 8 : 11;
}

/* Two counts' digits from bit `shift` on as elements. */
DEV_FN u32 small_digits(u32 type, struct dev_v2 counts, u32 shift)
{
	u32 mask = (1u << small_digit_bits(type)) - 1;

	return tbe_pack_half(type, (float)(counts.x >> shift & mask),
			     (float)(counts.y >> shift & mask));
}

/* The counts' digits of all steps as dev_mma() wants them. */
DEV_FN void small_factors(u32 type, const u32 *counts, u32 shift, u32 (*factors)[4])
{
	const u32 *low = counts + DEV_LANE / 4 * SMALL_STRIDE + DEV_LANE % 4 * 2,
		  *high = low + 8 * SMALL_STRIDE;

	DEV_UNROLL
	for (u32 k = 0; k < SMALL_STEPS; k++) {
		DEV_UNROLL
		for (u32 i = 0; i < 4; i++)
			factors[k][i] = small_digits(
				type,
				*(const struct dev_v2 *)((i & 1 ? high : low) + 16 * k + i / 2 * 8),
				shift);
	}
}

/* Columns 64 part to 64 part + 63 of the warp's bags: counts times table. A count that an element
 * cannot hold is multiplied in digits, the highest first: every product is exact. */
DEV_FN void small_multiply(const struct tbe_args *a, u32 type, const struct tbe_feature *f,
			   const struct tbe_small_shared *sh, const u32 *counts, u32 digits,
			   u32 part, const float *scale, u32 bag, u32 bags)
{
	enum { PAIRS = SMALL_PAIRS / 2 };
	float sum[PAIRS][2][4];
	u32 factors[SMALL_STEPS][4], g = DEV_LANE / 4;

	DEV_UNROLL
	for (u32 i = 0; i < PAIRS * 8; i++)
		sum[i / 8][i / 4 % 2][i % 4] = 0;
	for (u32 d = digits; d-- > 0;) {
		DEV_UNROLL
		for (u32 i = 0; i < PAIRS * 8; i++)
			sum[i / 8][i / 4 % 2][i % 4] *= (float)(1u << small_digit_bits(type));
		small_factors(type, counts, d * small_digit_bits(type), factors);
		DEV_UNROLL
		for (u32 k = 0; k < SMALL_STEPS; k++) {
			DEV_UNROLL
			for (u32 i = 0; i < PAIRS * 2; i++)
				dev_mma(type == TBE_BF16, sum[i / 2][i % 2], factors[k],
					sh->table[k][part * PAIRS + i / 2][i % 2][DEV_LANE]);
		}
	}
	DEV_UNROLL
	for (u32 i = 0; i < PAIRS * 2; i++) {
		u32 half = i % 2, b = g + 8 * half,
		    column = (part * PAIRS + i / 2) * 16 + DEV_LANE % 4 * 4;
		float v[4] = {sum[i / 2][0][2 * half] * scale[half],
			      sum[i / 2][0][2 * half + 1] * scale[half],
			      sum[i / 2][1][2 * half] * scale[half],
			      sum[i / 2][1][2 * half + 1] * scale[half]};

		if (b < bags && column < f->dim)
			tbe_store_out(a, f->out + (u64)(bag + b) * f->out_stride + column, v);
	}
}

/* The outputs of the warp's bags; lane l holds the begin of bag l. */
DEV_FN void small_outputs(const struct tbe_args *a, u32 type, const struct tbe_feature *f,
			  const struct tbe_small_shared *sh, const u32 *counts, u32 offset, u32 bag,
			  u32 bags)
{
	u32 lane = DEV_LANE, next = dev_shfl(offset, (lane + 1) & 31), length = 0, digits = 1;
	float scale[2];

	if (lane < bags)
		length = next - offset;
	while (dev_ballot((u64)length >> digits * small_digit_bits(type) != 0))
		digits++;
	for (u32 half = 0; half < 2; half++) {
		u32 of = dev_shfl(length, lane / 4 + 8 * half);

		scale[half] = a->pooling == TBE_MEAN && of ? tbe_mean_scale(of) : 1.0f;
	}
	for (u32 part = 0; part < 2; part++)
		if (part * 64 < f->dim)
			small_multiply(a, type, f, sh, counts, digits, part, scale, bag, bags);
}

/* Feature y, if it is small; its blocks share its bags. With save_histograms == 2 only the counts
 * are made. */
DEV_KERNEL_OF(TBE_BLOCK, 3, tbe_forward_small)(DEV_PARAM struct tbe_args a)
{
	struct tbe_small_shared *sh = (struct tbe_small_shared *)dev_shared();
	const struct tbe_feature *f = a.features + a.small_features[DEV_BLOCK_Y];
	u32 warp = DEV_TID / 32, lane = DEV_LANE,
	    step = DEV_BLOCKS_X * SMALL_WARPS * TBE_SMALL_BAGS;
	u32 *counts = sh->counts[warp];

	if (a.save_histograms != 2)
		small_load_table(&a, f, sh);
	DEV_SYNC();
	for (u32 bag = (DEV_BLOCK_X * SMALL_WARPS + warp) * TBE_SMALL_BAGS; bag < f->bags;
	     bag += step) {
		u32 bags = f->bags - bag < TBE_SMALL_BAGS ? f->bags - bag : TBE_SMALL_BAGS;
		u32 at = lane < bags ? lane : bags,
		    offset = tbe_offset(&a, (u64)f->bag0 + bag + at);

		small_count(&a, f, counts, offset, bags);
		if (a.save_histograms)
			small_save(&a, f, counts, bag, bags);
		if (a.save_histograms != 2 && a.type == TBE_BF16)
			small_outputs(&a, TBE_BF16, f, sh, counts, offset, bag, bags);
		else if (a.save_histograms != 2)
			small_outputs(&a, TBE_F16, f, sh, counts, offset, bag, bags);
		dev_warp_sync();
	}
}

#define SMALL_TILE 16 /* bags in shared memory at a time */

struct tbe_small_grad_shared {
	float grad[SMALL_TILE][TBE_SMALL_DIM];
	float counts[SMALL_TILE][TBE_SMALL_ROWS];
};

/* Adds up the gradient of each row over a chunk of the bags of feature y: a warp has 8 rows, a lane 4
 * columns. */
DEV_KERNEL(TBE_BLOCK, tbe_small_grad)(DEV_PARAM struct tbe_args a)
{
	struct tbe_small_grad_shared *sh = (struct tbe_small_grad_shared *)dev_shared();
	const struct tbe_feature *f = a.features + a.small_features[DEV_BLOCK_Y];
	u32 bag0 = DEV_BLOCK_X * TBE_SMALL_CHUNK, row0 = DEV_TID / 32 * 8, column = DEV_LANE * 4;
	u32 last = f->bags < bag0 + TBE_SMALL_CHUNK ? f->bags : bag0 + TBE_SMALL_CHUNK;
	float sum[8][4], *to;

	if (bag0 >= f->bags)
		return;
	for (u32 r = 0; r < 8; r++)
		sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = 0;
	for (u32 bag = bag0; bag < last; bag += SMALL_TILE) {
		DEV_SYNC();
		for (u32 i = DEV_TID; i < SMALL_TILE * TBE_SMALL_DIM / 4; i += DEV_NTID) {
			u32 b = bag + i / (TBE_SMALL_DIM / 4), c = i % (TBE_SMALL_DIM / 4) * 4;

			*(struct dev_v4 *)&sh->grad[i / (TBE_SMALL_DIM / 4)][c] =
				dev_fetch_v4(a.grad + f->out + (u64)b * f->out_stride + c,
					     b < last && c < f->dim);
		}
		for (u32 i = DEV_TID; i < SMALL_TILE * TBE_SMALL_ROWS; i += DEV_NTID) {
			u32 b = bag + i / TBE_SMALL_ROWS, count = 0;
			float scale = 1.0f;

			if (b < last)
				count = a.histograms[f->counts + (u64)b * TBE_SMALL_ROWS +
						     i % TBE_SMALL_ROWS];
			if (a.pooling == TBE_MEAN && count)
				scale = tbe_mean_scale(tbe_offset(&a, (u64)f->bag0 + b + 1) -
						       tbe_offset(&a, (u64)f->bag0 + b));
			sh->counts[i / TBE_SMALL_ROWS][i % TBE_SMALL_ROWS] = (float)count * scale;
		}
		DEV_SYNC();
		for (u32 b = 0; b < SMALL_TILE; b++) {
			struct dev_v4 g = *(const struct dev_v4 *)&sh->grad[b][column];
			const struct dev_v4 *of = (const struct dev_v4 *)&sh->counts[b][row0];
			struct dev_v4 low = of[0], high = of[1];
			u32 c[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};

			DEV_UNROLL
			for (u32 r = 0; r < 8; r++) {
				sum[r][0] = dev_fma(dev_float(c[r]), dev_float(g.x), sum[r][0]);
				sum[r][1] = dev_fma(dev_float(c[r]), dev_float(g.y), sum[r][1]);
				sum[r][2] = dev_fma(dev_float(c[r]), dev_float(g.z), sum[r][2]);
				sum[r][3] = dev_fma(dev_float(c[r]), dev_float(g.w), sum[r][3]);
			}
		}
	}
	to = a.chunk_grads +
	     ((u64)(f->chunk0 + DEV_BLOCK_X) * TBE_SMALL_ROWS + row0) * TBE_SMALL_DIM + column;
	for (u32 r = 0; r < 8; r++)
		for (u32 i = 0; i < 4; i++)
			to[r * TBE_SMALL_DIM + i] = sum[r][i];
}

/* The lookups of a row, up to the first chunk that has any: a row without is not updated. */
DEV_FN int small_looked_up(const struct tbe_args *a, const struct tbe_table *table, u32 row)
{
	for (u32 i = 0; i < table->features; i++) {
		const struct tbe_feature *f = a->features + a->order[table->feature0 + i];

		for (u32 b = 0; b < f->bags; b += 32) {
			u32 here =
				b + DEV_LANE < f->bags
					? a->histograms[f->counts +
							(u64)(b + DEV_LANE) * TBE_SMALL_ROWS + row]
					: 0;

			if (dev_ballot(here != 0))
				return 1;
		}
	}
	return 0;
}

/* Row x of small table y: adds up the chunks and updates the row. One warp. */
DEV_KERNEL(32, tbe_small_apply)(DEV_PARAM struct tbe_args a)
{
	const struct tbe_table *table = a.tables + a.small_tables[DEV_BLOCK_Y];
	const struct tbe_feature *f = a.features + a.order[table->feature0];
	u32 row = DEV_BLOCK_X, column = DEV_LANE * 4;
	float sum[4] = {0, 0, 0, 0};

	if (row >= f->rows || !small_looked_up(&a, table, row))
		return;
	for (u32 i = 0; i < table->features; i++) {
		const struct tbe_feature *of = a.features + a.order[table->feature0 + i];
		u32 chunks = (of->bags + TBE_SMALL_CHUNK - 1) / TBE_SMALL_CHUNK;

		for (u32 c = 0; c < chunks; c += 8) {
			struct dev_v4 v[8];

			DEV_UNROLL
			for (u32 j = 0; j < 8; j++)
				v[j] = dev_fetch_v4(
					a.chunk_grads +
						((u64)(of->chunk0 + c + j) * TBE_SMALL_ROWS + row) *
							TBE_SMALL_DIM +
						column,
					c + j < chunks);
			DEV_UNROLL
			for (u32 j = 0; j < 8; j++) {
				sum[0] += dev_float(v[j].x);
				sum[1] += dev_float(v[j].y);
				sum[2] += dev_float(v[j].z);
				sum[3] += dev_float(v[j].w);
			}
		}
	}
	if (column >= f->dim)
		sum[0] = sum[1] = sum[2] = sum[3] = 0;
	backward_update(&a, a.type, f, row, column, sum,
			backward_rate(&a, f, row, backward_squares(sum)),
			backward_take(&a, a.type, f, row, column, 1));
}

#endif
