/* SPDX-License-Identifier: Apache-2.0 */
/* One row under its gradient: the optimizers, and rounding. */
#ifndef WAYLAY_KERNELS_TBE_BACKWARD_ROWS_H
#define WAYLAY_KERNELS_TBE_BACKWARD_ROWS_H

#include "tbe_common.h"

/* Four columns of a row as they lie in memory; 16-bit types use x and y. */
DEV_FN struct dev_v4 backward_take(const struct tbe_args *a, const struct tbe_feature *f, u32 row,
				   u32 column, int ok)
{
	u64 at = f->weights + (u64)row * f->dim + column;
	struct dev_v4 wide = {0, 0, 0, 0};
	struct dev_v2 v;

	ok = ok && column < f->dim;
	if (a->type == TBE_F32)
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

/* The rate for a row, after its state has taken the squares in. The whole warp calls it once. */
DEV_FN float backward_rate(const struct tbe_args *a, const struct tbe_feature *f, u32 row,
			   float squares)
{
	float state = 0;

	if (a->optimizer != TBE_ADAGRAD)
		return a->rate;
	if (DEV_LANE == 0) {
		state = a->state[f->row0 + row] + dev_quotient(squares, (float)f->dim);
		a->state[f->row0 + row] = state;
	}
	state = dev_shfl_float(state, 0);
	return dev_quotient(a->rate, dev_root(state) + a->eps);
}

DEV_FN u32 backward_round(const struct tbe_args *a, float v, u64 noise, u32 column)
{
	if (!a->stochastic)
		return tbe_round_half(a->type, v);
	if (a->type == TBE_BF16)
		return tbe_bf16_stochastic(dev_bits(v), tbe_noise_of(noise, column));
	return tbe_f16_stochastic(dev_bits(v), tbe_noise_of(noise, column));
}

/* Writes the columns that backward_take() has read. */
DEV_FN void backward_update(const struct tbe_args *a, const struct tbe_feature *f, u32 row,
			    u32 column, const float *g, float rate, struct dev_v4 was)
{
	u64 at = f->weights + (u64)row * f->dim + column, noise = 0;
	struct dev_v4 wide;
	struct dev_v2 v;

	if (column >= f->dim)
		return;
	if (a->type == TBE_F32) {
		wide.x = dev_bits(dev_fma(-rate, g[0], dev_float(was.x)));
		wide.y = dev_bits(dev_fma(-rate, g[1], dev_float(was.y)));
		wide.z = dev_bits(dev_fma(-rate, g[2], dev_float(was.z)));
		wide.w = dev_bits(dev_fma(-rate, g[3], dev_float(was.w)));
		dev_put_v4((struct dev_v4 *)((float *)a->weights + at), wide);
		return;
	}
	if (a->stochastic)
		noise = tbe_noise(a->seed, a->step, f->row0 + row, column);
	v.x = backward_round(a, dev_fma(-rate, g[0], tbe_half(a->type, was.x, 0)), noise, 0) |
	      backward_round(a, dev_fma(-rate, g[1], tbe_half(a->type, was.x, 1)), noise, 1) << 16;
	v.y = backward_round(a, dev_fma(-rate, g[2], tbe_half(a->type, was.y, 0)), noise, 2) |
	      backward_round(a, dev_fma(-rate, g[3], tbe_half(a->type, was.y, 1)), noise, 3) << 16;
	dev_put_v2((struct dev_v2 *)((unsigned short *)a->weights + at), v);
}

#endif
