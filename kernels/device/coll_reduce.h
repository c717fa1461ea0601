/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out[i] = a[i] op b[i] and out[i] = a[i] / ranks for every type of the reference collectives, with
 * the results of their CPU counterparts: 16-bit floating point is computed in float32 and rounded to
 * nearest even, integers wrap around, minimum and maximum are `a < b ? a : b` and `a > b ? a : b`.
 *
 * The work is bound by memory: 16 bytes a load, several loads under way in a thread, each byte
 * touched once. Where the three arrays do not lie alike towards 16 bytes, elements go one by one.
 */
#ifndef WAYLAY_KERNELS_COLL_REDUCE_H
#define WAYLAY_KERNELS_COLL_REDUCE_H

#include "device.h"

#include "coll_args.h"

DEV_FN float coll_from_bf16(unsigned short bits)
{
	return dev_float((u32)bits << 16);
}

DEV_FN unsigned short coll_to_bf16(float v)
{
	u32 bits = dev_bits(v), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (unsigned short)((bits & 0x7fffffff) > 0x7f800000u ? bits >> 16 | 0x40 : rounded);
}

DEV_FN float coll_from_f16(unsigned short bits)
{
	return dev_from_f16(bits);
}

DEV_FN unsigned short coll_to_f16(float v)
{
	return (unsigned short)dev_to_f16(v);
}

#define COLL_SAME(v)       (v)
#define COLL_QUOTIENT(n)   ((n) / divisor)
#define COLL_QUOTIENT_F(n) dev_quotient((n), divisor)

/* One element: SUM is the type that sums and products are formed in, CMP the one of comparisons. */
#define COLL_ELEMENT(suffix, type, SUM, CMP, load, store)                                          \
	DEV_FN type coll_one_##suffix(type x, type y, u32 op)                                      \
	{                                                                                          \
		switch (op) {                                                                      \
		case COLL_DEVICE_SUM:                                                              \
			return (type)store((SUM)load(x) + (SUM)load(y));                           \
		case COLL_DEVICE_PROD:                                                             \
			return (type)store((SUM)load(x) * (SUM)load(y));                           \
		case COLL_DEVICE_MIN:                                                              \
			return (CMP)load(x) < (CMP)load(y) ? x : y;                                \
		default:                                                                           \
			return (CMP)load(x) > (CMP)load(y) ? x : y;                                \
		}                                                                                  \
	}

COLL_ELEMENT(u8, unsigned char, u32, u32, COLL_SAME, COLL_SAME)
COLL_ELEMENT(i32, u32, u32, int, COLL_SAME, COLL_SAME)
COLL_ELEMENT(i64, u64, u64, long long, COLL_SAME, COLL_SAME)
COLL_ELEMENT(f16, unsigned short, float, float, coll_from_f16, coll_to_f16)
COLL_ELEMENT(bf16, unsigned short, float, float, coll_from_bf16, coll_to_bf16)
COLL_ELEMENT(f32, float, float, float, COLL_SAME, COLL_SAME)
COLL_ELEMENT(f64, double, double, double, COLL_SAME, COLL_SAME)

/* 16 bytes as elements. */
#define COLL_VECTOR(suffix, type)                                                                  \
	union coll_vector_##suffix {                                                               \
		struct dev_v4 all;                                                                 \
		type one[16 / sizeof(type)];                                                       \
	};                                                                                         \
	DEV_FN struct dev_v4 coll_vector_of_##suffix(struct dev_v4 x, struct dev_v4 y, u32 op)     \
	{                                                                                          \
		union coll_vector_##suffix a, b;                                                   \
                                                                                                   \
		a.all = x;                                                                         \
		b.all = y;                                                                         \
		DEV_UNROLL                                                                         \
		for (u32 i = 0; i < 16 / sizeof(type); i++)                                        \
			a.one[i] = coll_one_##suffix(a.one[i], b.one[i], op);                      \
		return a.all;                                                                      \
	}

/*
 * Thread blocks take pieces of COLL_BLOCK * COLL_UNROLL vectors in turn. The loads of a piece are
 * made before its first store, as the compiler cannot know that out overlaps nothing but itself.
 */
#define COLL_REDUCE(suffix, type)                                                                  \
	COLL_VECTOR(suffix, type)                                                                  \
	DEV_KERNEL(COLL_BLOCK, coll_reduce_##suffix)(DEV_PARAM struct coll_args args)              \
	{                                                                                          \
		type *out = (type *)args.out;                                                      \
		const type *a = (const type *)args.a, *b = (const type *)args.b;                   \
		u64 aligned = ((args.out | args.a | args.b) & 15) == 0;                            \
		u64 vectors = aligned ? args.count / (16 / sizeof(type)) : 0;                      \
		u64 piece = (u64)COLL_BLOCK * COLL_UNROLL;                                         \
		u64 step = (u64)DEV_BLOCKS_X * piece;                                              \
		u64 first = vectors * (16 / sizeof(type));                                         \
                                                                                                   \
		for (u64 at = (u64)DEV_BLOCK_X * piece; at < vectors; at += step) {                \
			struct dev_v4 x[COLL_UNROLL], y[COLL_UNROLL];                              \
                                                                                                   \
			DEV_UNROLL                                                                 \
			for (u32 j = 0; j < COLL_UNROLL; j++) {                                    \
				u64 i = at + (u64)j * COLL_BLOCK + DEV_TID;                        \
                                                                                                   \
				x[j] = dev_take_v4((const struct dev_v4 *)a + i, i < vectors);     \
				y[j] = dev_take_v4((const struct dev_v4 *)b + i, i < vectors);     \
			}                                                                          \
			DEV_UNROLL                                                                 \
			for (u32 j = 0; j < COLL_UNROLL; j++) {                                    \
				u64 i = at + (u64)j * COLL_BLOCK + DEV_TID;                        \
                                                                                                   \
				if (i < vectors)                                                   \
					((struct dev_v4 *)out)[i] =                                \
						coll_vector_of_##suffix(x[j], y[j], args.op);      \
			}                                                                          \
		}                                                                                  \
		for (u64 i = first + (u64)DEV_BLOCK_X * COLL_BLOCK + DEV_TID; i < args.count;      \
		     i += (u64)DEV_BLOCKS_X * COLL_BLOCK)                                          \
			out[i] = coll_one_##suffix(a[i], b[i], args.op);                           \
	}

COLL_REDUCE(u8, unsigned char)
COLL_REDUCE(i32, u32)
COLL_REDUCE(i64, u64)
COLL_REDUCE(f16, unsigned short)
COLL_REDUCE(bf16, unsigned short)
COLL_REDUCE(f32, float)
COLL_REDUCE(f64, double)

/* An average is the sum, divided once at the end: a pass over what this rank reduced. */
#define COLL_AVERAGE(suffix, type, NUMBER, load, store, QUOTIENT)                                  \
	DEV_KERNEL(COLL_BLOCK, coll_average_##suffix)(DEV_PARAM struct coll_args args)             \
	{                                                                                          \
		type *out = (type *)args.out;                                                      \
		const type *a = (const type *)args.a;                                              \
		NUMBER divisor = (NUMBER)args.ranks;                                               \
                                                                                                   \
		for (u64 i = (u64)DEV_BLOCK_X * COLL_BLOCK + DEV_TID; i < args.count;              \
		     i += (u64)DEV_BLOCKS_X * COLL_BLOCK)                                          \
			out[i] = (type)store(QUOTIENT((NUMBER)load(a[i])));                        \
	}

COLL_AVERAGE(u8, unsigned char, int, COLL_SAME, COLL_SAME, COLL_QUOTIENT)
COLL_AVERAGE(i32, int, int, COLL_SAME, COLL_SAME, COLL_QUOTIENT)
COLL_AVERAGE(i64, long long, long long, COLL_SAME, COLL_SAME, COLL_QUOTIENT)
COLL_AVERAGE(f16, unsigned short, float, coll_from_f16, coll_to_f16, COLL_QUOTIENT_F)
COLL_AVERAGE(bf16, unsigned short, float, coll_from_bf16, coll_to_bf16, COLL_QUOTIENT_F)
COLL_AVERAGE(f32, float, float, COLL_SAME, COLL_SAME, COLL_QUOTIENT_F)
COLL_AVERAGE(f64, double, double, COLL_SAME, COLL_SAME, COLL_QUOTIENT)

#endif
