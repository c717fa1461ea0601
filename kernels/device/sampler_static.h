/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler with fixed shapes: every launch depends on n, k and batch alone, so the host never
 * waits and the sequence can be captured. Nine launches:
 *
 *   classify, pick, refine, pick, refine, pick    radix selection of the threshold key of each
 * class, by 11, 11, 10 bits mark, scan, emit                              drawn bits and tile
 * counts, ranks of the tiles, output
 *
 * The grid is (tiles, batch) or, for pick and scan, (1, batch). `histogram` is zero before the
 * first launch and again after each pick.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_STATIC_H
#define WAYLAY_KERNELS_SAMPLER_STATIC_H

#include "sampler_emit.h"

#define PICK_THREADS 1024

/* 1, 0 or, for every other label, 2. */
DEV_FN u32 label_class(const void *labels, u64 at, u32 label_bytes)
{
	if (label_bytes == 8) {
		long long v = ((const long long *)labels)[at];

		return v == 1 ? 1 : v == 0 ? 0 : 2;
	}
	if (label_bytes == 4) {
		int v = ((const int *)labels)[at];

		return v == 1 ? 1 : v == 0 ? 0 : 2;
	}
	return ((const unsigned char *)labels)[at];
}

/* Bits of a key below the digits of levels 0 to `level`. */
DEV_FN u32 level_shift(u32 level)
{
	return level == 0 ? 21 : level == 1 ? 10 : 0;
}

DEV_FN u32 level_bins(u32 level)
{
	return level == 2 ? 1024 : SAMPLER_DIGIT_BINS;
}

/* Class bits of the tile's items, and the first digit of their keys into the histogram. */
DEV_FN void static_classify(const struct sampler_args *a, u32 label_bytes)
{
	struct sampler_static_shared *sh = (struct sampler_static_shared *)dev_shared();
	u32 sample = DEV_BLOCK_Y, lane = DEV_LANE, first = DEV_BLOCK_X * SAMPLER_TILE;
	u32 *histogram = a->histogram + (u64)sample * 2 * SAMPLER_DIGIT_BINS;
	struct sampler_keys keys = sampler_keys_of(item_stream(a, sample));

	for (u32 i = DEV_TID; i < SAMPLER_DIGIT_BINS; i += DEV_NTID)
		sh->bins[0][i] = sh->bins[1][i] = 0;
	DEV_SYNC();
	for (u32 i = first + DEV_TID; i < first + SAMPLER_TILE && i - lane < a->n; i += DEV_NTID) {
		u32 kind =
			i < a->n ? label_class(a->labels, (u64)sample * a->n + i, label_bytes) : 2;
		u32 pos = dev_ballot(kind == 1), neg = dev_ballot(kind == 0);

		if (lane == 0) {
			a->positive[(u64)sample * a->words + i / 32] = pos;
			a->negative[(u64)sample * a->words + i / 32] = neg;
		}
		if (kind < 2)
			DEV_ADD(&sh->bins[1 - kind][sampler_key(i, keys) >> 21], 1);
	}
	DEV_SYNC();
	for (u32 i = DEV_TID; i < SAMPLER_DIGIT_BINS; i += DEV_NTID)
		for (u32 c = 0; c < 2; c++)
			if (sh->bins[c][i])
				DEV_ADD(&histogram[c * SAMPLER_DIGIT_BINS + i], sh->bins[c][i]);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_static_classify_i64)(DEV_PARAM struct sampler_args a)
{
	static_classify(&a, 8);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_static_classify_i32)(DEV_PARAM struct sampler_args a)
{
	static_classify(&a, 4);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_static_classify_u8)(DEV_PARAM struct sampler_args a)
{
	static_classify(&a, 1);
}

/* Fills in what the whole sample needs to know, from the class sizes that the first histogram adds
 * up to. */
DEV_FN void static_begin(const struct sampler_args *a, struct sampler_state *s, u32 sample)
{
	u64 stream = item_stream(a, sample);

	s->keys = sampler_keys_of(stream);
	for (u32 r = 0; r < SAMPLER_ROUNDS_MAX; r++)
		sampler_order_round(stream, r, s->order);
	sampler_split(s->have[0], s->have[1], a->k, a->k_pos, a->fill_pos, &s->want[0],
		      &s->want[1]);
	for (u32 c = 0; c < 2; c++) {
		s->drawn[c] = s->want[c];
		s->prefix[c] = 0;
	}
	s->total = s->want[0] + s->want[1];
	s->order_bits = sampler_order_bits(s->total);
	a->counts[2 * sample] = (int)s->total;
	a->counts[2 * sample + 1] = (int)s->want[0];
}

/* Reads one digit's histogram: which bin of each class holds the last key to draw, and how many
 * keys there. */
DEV_KERNEL(PICK_THREADS, sampler_static_pick)(DEV_PARAM struct sampler_args a)
{
	struct sampler_static_shared *sh = (struct sampler_static_shared *)dev_shared();
	u32 sample = DEV_BLOCK_Y, t = DEV_TID, bins = level_bins(a.level),
	    per = SAMPLER_DIGIT_BINS / PICK_THREADS;
	u32 *histogram = a.histogram + (u64)sample * 2 * SAMPLER_DIGIT_BINS;
	struct sampler_state *s = a.state + sample;
	u32 before[2], total[2], count[2][SAMPLER_DIGIT_BINS / PICK_THREADS];

	for (u32 c = 0; c < 2; c++) {
		u32 sum = 0;

		for (u32 i = 0; i < per; i++) {
			u32 at = c * SAMPLER_DIGIT_BINS + t * per + i;

			count[c][i] = histogram[at];
			histogram[at] = 0;
			sum += count[c][i];
		}
		before[c] = dev_block_scan(sum, sh->sums, &total[c]);
	}
	if (a.level == 0 && t == 0) {
		s->have[0] = total[0];
		s->have[1] = total[1];
		static_begin(&a, s, sample);
	}
	DEV_SYNC();
	for (u32 c = 0; c < 2; c++) {
		u32 want = s->want[c], found = 0, bin = 0, left = 0;

		for (u32 i = 0; i < per; i++) {
			if (want > before[c] && want <= before[c] + count[c][i]) {
				found = 1;
				bin = t * per + i;
				left = want - before[c];
			}
			before[c] += count[c][i];
		}
		DEV_SYNC(); /* all have read `want` */
		if (found) {
			s->prefix[c] = s->prefix[c] * bins + bin;
			s->want[c] = left;
		}
		DEV_SYNC();
		if (a.level == SAMPLER_LEVELS - 1 && t == 0)
			s->limit[c] = s->drawn[c] ? (u64)s->prefix[c] + 1 : 0;
	}
}

/* The next digit of the keys that share the prefix found so far. */
DEV_KERNEL(SAMPLER_BLOCK, sampler_static_refine)(DEV_PARAM struct sampler_args a)
{
	u32 sample = DEV_BLOCK_Y, lane = DEV_LANE, first = DEV_BLOCK_X * SAMPLER_TILE;
	u32 *histogram = a.histogram + (u64)sample * 2 * SAMPLER_DIGIT_BINS;
	const struct sampler_state *s = a.state + sample;
	u32 shift = level_shift(a.level), above = level_shift(a.level - 1),
	    mask = level_bins(a.level) - 1;
	struct sampler_keys keys = s->keys;

	for (u32 i = first + DEV_TID; i < first + SAMPLER_TILE && i < a.n; i += DEV_NTID) {
		u64 word = (u64)sample * a.words + i / 32;
		u32 pos = a.positive[word] >> lane & 1, neg = a.negative[word] >> lane & 1,
		    c = pos ? 0 : 1;
		u32 key = sampler_key(i, keys);

		if ((pos | neg) && s->drawn[c] && key >> above == s->prefix[c])
			DEV_ADD(&histogram[c * SAMPLER_DIGIT_BINS + (key >> shift & mask)], 1);
	}
}

/* The drawn bits and how many there are in each tile. */
DEV_KERNEL(SAMPLER_BLOCK, sampler_static_mark)(DEV_PARAM struct sampler_args a)
{
	struct sampler_emit_shared *sh = (struct sampler_emit_shared *)dev_shared();
	u32 sample = DEV_BLOCK_Y, lane = DEV_LANE, first = DEV_BLOCK_X * SAMPLER_TILE, drawn = 0,
	    total;
	const struct sampler_state *s = a.state + sample;
	u64 limit0 = s->limit[0], limit1 = s->limit[1];
	struct sampler_keys keys = s->keys;

	for (u32 i = first + DEV_TID; i < first + SAMPLER_TILE && i - lane < a.n; i += DEV_NTID) {
		u64 word = (u64)sample * a.words + i / 32;
		u32 pos = a.positive[word] >> lane & 1, neg = a.negative[word] >> lane & 1;
		u32 bits =
			dev_ballot((pos | neg) && sampler_key(i, keys) < (pos ? limit0 : limit1));

		if (lane == 0) {
			a.selected[word] = bits;
			drawn += DEV_POPC(bits);
		}
	}
	(void)dev_block_scan(drawn, sh->sums, &total);
	if (DEV_TID == 0)
		a.tile_count[(u64)sample * a.tiles + DEV_BLOCK_X] = total;
}

/* Tile counts become the ranks of the tiles' first items. One block a sample. */
DEV_KERNEL(PICK_THREADS, sampler_static_scan)(DEV_PARAM struct sampler_args a)
{
	struct sampler_emit_shared *sh = (struct sampler_emit_shared *)dev_shared();
	u32 *count = a.tile_count + (u64)DEV_BLOCK_Y * a.tiles;
	u32 carry = 0, total;

	for (u32 first = 0; first < a.tiles; first += DEV_NTID) {
		u32 i = first + DEV_TID, v = i < a.tiles ? count[i] : 0;
		u32 before = dev_block_scan(v, sh->sums, &total);

		if (i < a.tiles)
			count[i] = carry + before;
		carry += total;
	}
	if (DEV_TID == 0 && a.list_count)
		*a.list_count = carry;
}

/* Writes the drawn items of a tile; a warp takes a run of words. */
DEV_KERNEL(SAMPLER_BLOCK, sampler_static_emit)(DEV_PARAM struct sampler_args a)
{
	struct sampler_emit_shared *sh = (struct sampler_emit_shared *)dev_shared();
	u32 sample = DEV_BLOCK_Y, lane = DEV_LANE, warp = DEV_TID / 32, below = (1u << lane) - 1;
	const struct sampler_state *s = a.state + sample;
	u32 each = SAMPLER_TILE / SAMPLER_BLOCK; /* words a warp; also one word a lane */
	u32 first = DEV_BLOCK_X * (SAMPLER_TILE / 32) + warp * each, word = first + lane, mine,
	    rank, total, fill = 0;
	u64 base = (u64)sample * a.words;
	u32 *list = sh->list[warp];

	mine = word < a.words ? a.selected[base + word] : 0;
	rank = dev_block_scan(DEV_POPC(mine), sh->sums, &total);
	rank = dev_shfl(rank, 0) + a.tile_count[(u64)sample * a.tiles + DEV_BLOCK_X];
	for (u32 j = 0; j < each; j++) {
		u32 drawn = dev_shfl(mine, j);

		if (drawn) {
			if (drawn >> lane & 1)
				list[fill + DEV_POPC(drawn & below)] =
					((first + j) * 32 + lane) |
					(a.positive[base + first + j] >> lane & 1 ? ITEM_POSITIVE
										  : 0);
			fill += DEV_POPC(drawn);
			dev_warp_sync();
		}
		if (fill >= 32) {
			u32 left;

			emit_items(&a, sample, list, 32, rank, s->total, s->order_bits, s->order);
			left = 32 + lane < fill ? list[32 + lane] : 0;
			dev_warp_sync();
			list[lane] = left;
			dev_warp_sync();
			rank += 32;
			fill -= 32;
		}
	}
	if (fill)
		emit_items(&a, sample, list, fill, rank, s->total, s->order_bits, s->order);
	emit_tail(&a, sample, s->total, (u64)DEV_BLOCK_X * DEV_NTID + DEV_TID,
		  (u64)DEV_BLOCKS_X * DEV_NTID);
}

/* Ends a captured sequence: the next replay draws as the next call. */
DEV_KERNEL(32, sampler_advance)(DEV_PARAM struct sampler_args a)
{
	if (DEV_TID == 0)
		*(u64 *)a.call_base += 1;
}

#endif
