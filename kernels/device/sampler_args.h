/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every sampler kernel is launched with, by value, and the layout of its scratch memory. Host
 * and device share it. Pointers are device addresses. A sample is one of `batch`; arrays of several
 * samples lie one after another.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_ARGS_H
#define WAYLAY_KERNELS_SAMPLER_ARGS_H

#include "sampler_rule.h"

/* Radix selection: keys are cut into digits of 11, 11 and 10 bits, from the top. */
#define SAMPLER_DIGIT_BINS 2048
#define SAMPLER_LEVELS     3
#define SAMPLER_TILE                                                                               \
	8192 /* items a block of the static and naive kernels takes; a multiple of 32 x its warps  \
	      */
#define SAMPLER_BLOCK 256 /* its threads */

/* The fused kernel: bins of the window around the predicted threshold, keys kept of one bin, and
 * candidates of one block. */
#define SAMPLER_WINDOW_BINS 1024
#define SAMPLER_BIN_KEYS    64
#define SAMPLER_CANDIDATES  4096
#define SAMPLER_LIST        128 /* items that a warp lists at a time, at least 32 */
#define SAMPLER_SHARED_ITEMS                                                                       \
	6144 /* drawn items that a block with a sample of its own keeps in shared memory */
#define SAMPLER_FUSED_THREADS 1024 /* at most */

/* The kernel for few items: one block a sample, every item in a register. */
#define SAMPLER_FEW         2048 /* items */
#define SAMPLER_FEW_THREADS 256
#define SAMPLER_FEW_BINS    1024
#define SAMPLER_GROUP_MAX   1024 /* blocks that may share a sample */

/* One sample's progress through the static and naive kernels; index 0 is the positives, 1 the
 * negatives. */
struct sampler_state {
	unsigned have[2];   /* items of the class */
	unsigned want[2];   /* of these to draw; the level kernels count it down to the rank inside
			       the prefix */
	unsigned prefix[2]; /* digits of the threshold key found so far */
	unsigned drawn[2];  /* what `want` was at first */
	unsigned long long limit[2]; /* draw keys below this; valid after the last level */
	unsigned total;              /* drawn[0] + drawn[1] */
	unsigned order_bits;
	struct sampler_keys keys;
	unsigned order[SAMPLER_ORDER_WORDS];
};

/* What the blocks that share one sample tell each other in the fused kernel. Zero before and after
 * every launch. */
struct sampler_group {
	unsigned long long census[2]; /* by class: items << 16 | blocks that have counted theirs */
	unsigned arrived[2];          /* at the barriers after marking and after placing */
	unsigned certain[2];          /* items whose key lies below the window */
	unsigned overflow;            /* a block had more candidates than it can hold */
	unsigned left;                /* blocks that are done with the sample */
	unsigned retry_arrived;       /* barrier of the exact search, counts on */
	unsigned pad;
	unsigned retry[32][2];             /* its counts, one pair a bit */
	unsigned drawn[SAMPLER_GROUP_MAX]; /* by block: 1 + items it draws */
	unsigned bins[2][SAMPLER_WINDOW_BINS];
	unsigned keys[2][SAMPLER_WINDOW_BINS]
		     [SAMPLER_BIN_KEYS]; /* not cleared: `bins` tells what is valid */
};

struct sampler_args {
	/* inputs: labels [batch][n] of label_bytes each, rows x [batch][n] of row_bytes each */
	const void *labels;
	const void *x;
	/* results: idx [batch][k], labels_out [batch][k], x_out [batch][k] rows, counts [batch][2]
	 * = drawn in all, positives */
	long long *idx;
	void *labels_out;
	void *x_out;
	int *counts;

	unsigned long long seed;
	unsigned long long call;
	const unsigned long long
		*call_base; /* added to `call` if not NULL, so that a replayed graph draws anew */

	unsigned n; /* below 2^31 */
	unsigned batch;
	unsigned first_sample; /* of the launch, in the numbering that the random streams go by */
	unsigned k;
	unsigned k_pos; /* slots meant for positives, at most k */
	unsigned fill_pos;
	unsigned row_bytes;
	unsigned unit; /* bytes that a row is copied by: 16, 4, 2 or 1; divides row_bytes and every
			  row's address */
	unsigned lanes_log2; /* 2^this lanes copy a row: one a unit, at most 32 */
	unsigned label_bytes;

	/* static and naive scratch */
	unsigned words;       /* 32-item words a sample */
	unsigned tiles;       /* SAMPLER_TILE-item tiles a sample */
	unsigned level;       /* digit that this launch works on, 0 to SAMPLER_LEVELS - 1 */
	unsigned which;       /* naive: class that this launch compacts */
	unsigned *positive;   /* [batch][words] bit masks */
	unsigned *negative;   /* [batch][words] */
	unsigned *selected;   /* [batch][words] */
	unsigned *histogram;  /* [batch][2][SAMPLER_DIGIT_BINS], zero between uses */
	unsigned *tile_count; /* [batch][tiles] */
	struct sampler_state *state;
	unsigned *list[2];              /* naive: indices of each class */
	unsigned list_n[2];             /* as the host read them back */
	unsigned long long *list_count; /* what the host reads back */

	/* fused scratch */
	unsigned group_blocks; /* blocks that share a sample */
	unsigned warp_items;   /* items a warp takes, a multiple of 32 */
	float window;          /* half width of the window in standard deviations */
	unsigned *bits; /* [blocks][warps x warp_items / 16], NULL when they are in shared memory */
	unsigned *items; /* drawn items by rank, [batch][k], NULL when they are in shared memory */
	unsigned stagger_ns; /* between the beginnings of samples that are under way at once */
	struct sampler_group *group; /* [batch], NULL when group_blocks is 1 */
};

/* Shared memory of the fused kernel, without the item bits that may follow it. */
struct sampler_fused_shared {
	unsigned sums[33];
	unsigned warp_drawn[32];
	unsigned warp_base[32];
	unsigned order[SAMPLER_ORDER_WORDS];
	struct sampler_keys keys;
	unsigned have[2];
	unsigned certain[2];
	unsigned want[2];  /* to draw of each class */
	unsigned low[2];   /* keys below are drawn for certain ... */
	unsigned width[2]; /* ... and keys in [low, low + width) are candidates */
	unsigned shift[2]; /* key - low >> shift is its bin */
	unsigned rest[2];  /* candidates to draw */
	unsigned bin[2];   /* bin that holds the threshold, and its place there */
	unsigned place[2];
	unsigned threshold[2];
	unsigned candidates;
	unsigned miss;
	unsigned total, order_bits, base;
	unsigned last;
	unsigned bin_fill[2];
	unsigned bin_keys[2][SAMPLER_BIN_KEYS];
	union {
		struct { /* until the threshold is known */
			unsigned bins[2][SAMPLER_WINDOW_BINS];
			unsigned key[SAMPLER_CANDIDATES];
			unsigned place[SAMPLER_CANDIDATES];
		} window;
		struct {                                 /* then */
			unsigned list[32][SAMPLER_LIST]; /* a warp's drawn items, in order */
			unsigned items[SAMPLER_SHARED_ITEMS];
		} place;
	} u;
};

/* Of the kernel for few items. */
struct sampler_few_shared {
	unsigned order[SAMPLER_ORDER_WORDS];
	unsigned sums[SAMPLER_FEW_THREADS / 32];
	unsigned fill[2];
	unsigned bin[2], place[2]; /* where the threshold of each class is */
	unsigned drawn[SAMPLER_FEW / 32];
	unsigned bins[SAMPLER_FEW_BINS]; /* negatives << 16 | positives */
	unsigned keys[2][SAMPLER_FEW];   /* of the thresholds' bins */
	unsigned items[SAMPLER_FEW];     /* drawn, by rank */
};

struct sampler_static_shared {
	unsigned sums[33];
	unsigned first;
	unsigned bins[2][SAMPLER_DIGIT_BINS];
};

struct sampler_emit_shared {
	unsigned sums[33];
	unsigned list[SAMPLER_BLOCK / 32][64];
};

#endif
