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

/* The columns at `to`, whose bits were `was`, after their gradient; `row` is the row's number among
 * all tables', for rounding at random. Written only if `ok`. */
DEV_FN void backward_write(const struct tbe_args *a, u32 type, u32 stochastic, void *to, u32 row,
			   u32 column, int ok, const float *g, float rate, struct dev_v4 was)
{
	struct dev_v2 half;
	float v[4] = {dev_float(was.x), dev_float(was.y), dev_float(was.z), dev_float(was.w)};

	if (type != TBE_F32) {
		tbe_halves(type, was.x, &v[0], &v[1]);
		tbe_halves(type, was.y, &v[2], &v[3]);
	}
	DEV_UNROLL
	for (u32 i = 0; i < 4; i++)
		v[i] = dev_fma(-rate, g[i], v[i]);
	was.x = dev_bits(v[0]);
	was.y = dev_bits(v[1]);
	was.z = dev_bits(v[2]);
	was.w = dev_bits(v[3]);
	if (type == TBE_F32) {
		if (ok)
			dev_put_v4((struct dev_v4 *)to, was);
		return;
	}
	if (stochastic) {
		half = backward_stochastic(a, type, row, column, was);
	} else {
		half.x = tbe_pack_half(type, v[0], v[1]);
		half.y = tbe_pack_half(type, v[2], v[3]);
	}
	if (ok)
		dev_put_v2((struct dev_v2 *)to, half);
}

/* Writes the columns that backward_take() has read. */
DEV_FN void backward_update(const struct tbe_args *a, u32 type, const struct tbe_feature *f,
			    u32 row, u32 column, const float *g, float rate, struct dev_v4 was)
{
	u64 at = f->weights + (u64)row * f->dim + column;

	backward_write(a, type, a->stochastic, (char *)a->weights + at * (type == TBE_F32 ? 4 : 2),
		       f->row0 + row, column, column < f->dim, g, rate, was);
}

#endif
