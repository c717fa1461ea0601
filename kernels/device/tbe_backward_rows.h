/* SPDX-License-Identifier: Apache-2.0 */
/* One row under its gradient: the optimizers, and rounding. */
#ifndef WAYLAY_KERNELS_TBE_BACKWARD_ROWS_H
#define WAYLAY_KERNELS_TBE_BACKWARD_ROWS_H

#include "tbe_common.h"

/* Four columns of a row as they lie in memory; 16-bit types use x and y. `type` is the tables', known
 * to the compiler where it matters. */
DEV_FN struct dev_v4 backward_take(const struct tbe_args *a, u32 type, const struct tbe_feature *f,
				   u32 row, u32 column, int ok)
{
	u64 at = f->weights + (u64)row * f->dim + column;
	struct dev_v4 wide = {0, 0, 0, 0};
	struct dev_v2 v;

	ok = ok && column < f->dim;
	if (type == TBE_F32)
		return dev_take_v4((const float *)a->weights + at, ok);
	v = dev_take_v2((const unsigned short *)a->weights + at, ok);
	wide.x = v.x;
	wide.y = v.y;
	return wide;
}

/* Sum of the squares of 128 columns, the same in every lane. */
DEV_FN float backward_squares(const float *g)
{
	return dev_warp_sum(
		dev_fma(g[3], g[3], dev_fma(g[2], g[2], dev_fma(g[1], g[1], g[0] * g[0]))));
}

/* Rowwise Adagrad's rate for a row, after its state has taken the squares in. */
DEV_COLD float backward_adagrad(const struct tbe_args *a, const struct tbe_feature *f, u32 row,
				float squares)
{
	float state = 0;

	if (DEV_LANE == 0) {
		state = a->state[f->row0 + row] + dev_quotient(squares, (float)f->dim);
		a->state[f->row0 + row] = state;
	}
	state = dev_shfl_float(state, 0);
	return dev_quotient(a->rate, dev_root(state) + a->eps);
}

/* The rate for a row whose gradient has these squares. The whole warp calls it once a row. */
DEV_FN float backward_rate(const struct tbe_args *a, const struct tbe_feature *f, u32 row,
			   float squares)
{
	return a->optimizer == TBE_ADAGRAD ? backward_adagrad(a, f, row, squares) : a->rate;
}

/* Four values rounded at random. Kept out of the callers: their instructions must stay few, or
 * fetching them takes longer than the memory. */
DEV_COLD struct dev_v2 backward_stochastic(const struct tbe_args *a, u32 type, u32 row, u32 column,
					   struct dev_v4 v)
{
	u64 noise = tbe_noise(a->seed, a->step, row, column);
	struct dev_v2 r;

	if (type == TBE_BF16) {
		r.x = tbe_bf16_stochastic(v.x, tbe_noise_of(noise, 0)) |
		      tbe_bf16_stochastic(v.y, tbe_noise_of(noise, 1)) << 16;
		r.y = tbe_bf16_stochastic(v.z, tbe_noise_of(noise, 2)) |
		      tbe_bf16_stochastic(v.w, tbe_noise_of(noise, 3)) << 16;
	} else {
		r.x = tbe_f16_stochastic(v.x, tbe_noise_of(noise, 0)) |
		      tbe_f16_stochastic(v.y, tbe_noise_of(noise, 1)) << 16;
		r.y = tbe_f16_stochastic(v.z, tbe_noise_of(noise, 2)) |
		      tbe_f16_stochastic(v.w, tbe_noise_of(noise, 3)) << 16;
	}
	return r;
}

/* Writes the columns that backward_take() has read. */
DEV_FN void backward_update(const struct tbe_args *a, u32 type, const struct tbe_feature *f,
			    u32 row, u32 column, const float *g, float rate, struct dev_v4 was)
{
	u64 at = f->weights + (u64)row * f->dim + column;
	struct dev_v2 half;

	if (type != TBE_F32) {
		half.x = was.x;
		half.y = was.y;
		was.x = dev_bits(tbe_half(type, half.x, 0));
		was.y = dev_bits(tbe_half(type, half.x, 1));
		was.z = dev_bits(tbe_half(type, half.y, 0));
		was.w = dev_bits(tbe_half(type, half.y, 1));
	}
	was.x = dev_bits(dev_fma(-rate, g[0], dev_float(was.x)));
	was.y = dev_bits(dev_fma(-rate, g[1], dev_float(was.y)));
	was.z = dev_bits(dev_fma(-rate, g[2], dev_float(was.z)));
	was.w = dev_bits(dev_fma(-rate, g[3], dev_float(was.w)));
	if (type == TBE_F32) {
		if (column < f->dim)
			dev_put_v4((struct dev_v4 *)((float *)a->weights + at), was);
		return;
	}
	if (a->stochastic) {
		half = backward_stochastic(a, type, f->row0 + row, column, was);
	} else {
		half.x = tbe_pack_half(type, dev_float(was.x), dev_float(was.y));
		half.y = tbe_pack_half(type, dev_float(was.z), dev_float(was.w));
	}
	if (column < f->dim)
		dev_put_v2((struct dev_v2 *)((unsigned short *)a->weights + at), half);
}

#endif
