/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every kernel of the table-batched embedding is launched with, by value, and the rules that
 * device and CPU share. Pointers are device addresses.
 *
 * Bags are numbered feature after feature: bag number of (feature t, bag b) is bag0(t) + b, and bag k
 * owns indices[offsets[k]] up to, not including, indices[offsets[k + 1]]. An index outside of its
 * table is a pruned row: it adds nothing, gets no gradient and still counts in a mean's length.
 */
#ifndef WAYLAY_KERNELS_TBE_ARGS_H
#define WAYLAY_KERNELS_TBE_ARGS_H

#include "sampler_rule.h" /* RULE_FN, sampler_mix64 */

enum tbe_type { TBE_F32, TBE_F16, TBE_BF16, TBE_TYPE_MAX };
enum tbe_pooling { TBE_SUM, TBE_MEAN, TBE_NONE, TBE_POOLING_MAX };
enum tbe_optimizer { TBE_SGD, TBE_ADAGRAD, TBE_OPTIMIZER_MAX };

#define TBE_DIM_MAX      1024 /* columns of a row; a multiple of 4 */
#define TBE_BLOCK        256  /* threads of every kernel here but the single-block ones */
#define TBE_SINGLE_BLOCK 1024
#define TBE_SORT_BLOCK   512  /* threads that sort a tile */
#define TBE_SORT_TILE    4096 /* entries a block sorts at a time; never of two tables */
#define TBE_SORT_BITS    10   /* at most, of the key a pass */
#define TBE_STEP         128  /* sorted entries a warp of the backward takes at a time */
#define TBE_RING_F32     7    /* of these under way: 512 bytes of gradient and the row */
#define TBE_RING_16      10
#define TBE_RING_BYTES   7680
#define TBE_SHORT_BLOCKS 3   /* of the backward a multiprocessor, what shared memory allows */
#define TBE_PIECE        256 /* a run of as many equal rows or more is summed in pieces of this */
#define TBE_SMALL_ROWS   64  /* tables up to this size can go by histograms */
#define TBE_SMALL_DIM    128
#define TBE_SMALL_BAGS   16  /* bags that a warp counts at a time */
#define TBE_SMALL_CHUNK  512 /* bags whose gradient one block adds up */

struct tbe_feature {
	unsigned long long weights; /* element where its table begins */
	unsigned long long out;     /* element of the output where its bag 0 goes ... */
	unsigned out_stride;        /* ... and elements from one bag to the next */
	unsigned rows, dim;
	unsigned bag0, bags;
	unsigned table;
	unsigned row0;             /* of the table, in the numbering of all rows: state, rounding */
	unsigned small;            /* forward and backward by histograms */
	unsigned long long counts; /* small: where its histograms are, [bags][TBE_SMALL_ROWS] */
	unsigned chunk0;           /* small: its first partial gradient */
	unsigned pad;
};

struct tbe_table {
	unsigned feature0, features; /* places in `order` */
	unsigned small;
	unsigned pad;
};

/* Where the entries of a table go when they are sorted; made on the device from the offsets. */
struct tbe_segment {
	unsigned begin, end; /* entries */
	unsigned tile0, tiles;
};

/* A run of TBE_PIECE or more entries. */
struct tbe_long_run {
	unsigned begin, length, table, row;
	unsigned piece0;
	unsigned pad[3];
};

struct tbe_bounds_report {
	unsigned long long bad_indices, bad_offsets;
	unsigned long long first_index;  /* position of the first bad one, if any */
	unsigned long long first_offset; /* bag whose begin or end is the first bad one, if any */
	long long index_value;
	long long offset_begin, offset_end;
};

struct tbe_args {
	void *weights;
	const void *indices, *offsets; /* 4 or 8 bytes each; the bounds check may repair them */
	const float *sample_weights;   /* [n] or NULL */
	void *out;
	const float *grad;   /* in the layout of the output, FP32 */
	float *state;        /* rowwise Adagrad: one value a row of all tables */
	float *sample_grads; /* [n] or NULL */

	const struct tbe_feature *features;            /* [feature_count] */
	const struct tbe_table *tables;                /* [table_count] */
	const unsigned *small_features, *small_tables; /* those that go by histograms */
	const unsigned *order; /* features by table, those of one table in their own order */
	unsigned feature_count, table_count;
	unsigned n, bags; /* indices; bags of all features */
	unsigned index_bytes;
	unsigned type, out_type, pooling, optimizer;
	unsigned uniform_bags; /* bags of each feature if all have as many, else 0 */
	unsigned skip_small;   /* features that go by histograms are not this launch's */
	unsigned warp_bags;    /* bags of a feature that a warp of the forward takes, at most 31 */
	float rate, eps;
	unsigned stochastic;
	unsigned plain; /* SGD on unweighted sums, rounded to even */
	unsigned long long seed, step;

	/* scratch of the transpose: entries in the order of tables */
	unsigned *keys[2], *payloads[2]; /* a pass goes from one to the other */
	unsigned *position_bag; /* with sample weights the payload is the position, not the bag */
	struct tbe_segment *segments;
	unsigned *feature_entry; /* where a feature's entries begin, in the order of `order` */
	unsigned *counts;        /* [passes][tile_room][1 << bits] */
	unsigned *totals;        /* [passes][tables][1 << bits], zero before */
	unsigned *sort_ticket;   /* [passes], zero before */
	unsigned *tile_total, *tile_table; /* tiles in all; [tile_room], the table of each */
	unsigned tile_room;
	unsigned shift, bits, pass, passes;
	unsigned sorted; /* which of keys[] holds the result */

	/* scratch of the backward */
	unsigned *ticket;               /* [2], zero before and after */
	unsigned long long *long_count; /* runs << 32 | pieces */
	struct tbe_long_run *long_runs;
	float *partial;    /* [pieces][widest row] */
	unsigned *arrived; /* [pieces], zero before and after */
	unsigned partial_stride;
	unsigned *histograms; /* small tables */
	float *chunk_grads;   /* [chunks][TBE_SMALL_ROWS][TBE_SMALL_DIM] */
	unsigned save_histograms;

	/* for making inputs */
	void *fill;
	unsigned long long fill_elements;
	unsigned fill_type;

	struct tbe_bounds_report *report;
	struct tbe_bounds_report *bounds; /* counts of the check that runs */
	unsigned *bounds_arrived;         /* its blocks that are done, zero between launches */
	unsigned repair;
};

/* Element `at` of made-up data, from -1 to 1; short ones are exact in every type. */
RULE_FN float tbe_made_up(unsigned long long seed, unsigned long long at, unsigned type)
{
	unsigned long long h = sampler_mix64(at + seed * 0x9e3779b97f4a7c15ull);

	if (type == TBE_F32)
		return (float)((int)(h >> 40) - (1 << 23)) * 0x1p-23f;
	return (float)((int)(h >> 56) - 128) * 0x1p-7f;
}

/* Random bits for rounding element `column` of a row: one call gives the bits of four columns. */
RULE_FN unsigned long long tbe_noise(unsigned long long seed, unsigned long long step, unsigned row,
				     unsigned column)
{
	return sampler_mix64(sampler_mix64(seed + 0x9e3779b97f4a7c15ull * (step + 1)) ^
			     ((unsigned long long)row << 16 | column >> 2));
}

/* The 16 bits of the noise that are for one column. */
RULE_FN unsigned tbe_noise_of(unsigned long long noise, unsigned column)
{
	return (unsigned)(noise >> 16 * (column & 3)) & 0xffff;
}

/* A float's bits as BF16, rounded to even. */
RULE_FN unsigned tbe_bf16_round(unsigned bits)
{
	if ((bits & 0x7fffffff) > 0x7f800000)
		return bits >> 16 | 0x40; /* stays a NaN */
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/*
 * Stochastic rounding: random bits are added below the last bit that is kept, then the rest is cut
 * off, so that a value goes up with the probability of its distance. Infinities and NaNs stay.
 */
RULE_FN unsigned tbe_bf16_stochastic(unsigned bits, unsigned noise16)
{
	if ((bits & 0x7f800000) == 0x7f800000)
		return tbe_bf16_round(bits);
	return (bits + noise16) >> 16;
}

/* FP16 likewise, of normal numbers; `bits` get so many noise bits that cutting them off rounds. Below
 * the normal numbers the spacing is constant, so more bits are cut. */
RULE_FN unsigned tbe_f16_stochastic(unsigned bits, unsigned noise16)
{
	unsigned sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff, exponent, mantissa, cut;

	if (magnitude >= 0x7f800000) /* infinity, NaN */
		return sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x200 : 0);
	exponent = magnitude >> 23;
	if (exponent >= 113) { /* normal in FP16: 13 bits are cut */
		magnitude += noise16 >> 3;
		if (magnitude >= 0x47800000) /* 65536 and more */
			return sign | 0x7c00;
		return sign | ((magnitude - (112u << 23)) >> 13);
	}
	if (exponent < 86) /* below 2^-41: 16 bits of noise cannot tell it from nothing */
		return sign;
	mantissa = (magnitude & 0x7fffff) | 0x800000;
	cut = 126 - exponent; /* the value is mantissa / 2^cut units of the least FP16 number */
	return sign | (unsigned)(((unsigned long long)mantissa +
				  ((unsigned long long)noise16 << cut >> 16)) >>
				 cut);
}

#endif
