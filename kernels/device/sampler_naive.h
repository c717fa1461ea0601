/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler as programs with variable shapes write it: compact the indices of each class, ask the
 * device how many there are, and size everything after that accordingly. The question costs the
 * host a wait for each class, and because the shapes differ from sample to sample a batch can only
 * be a loop. One sample a launch.
 *
 *   for each class: count, scan, (the host reads the count), list
 *   histogram, pick, three times                  selection over the two lists
 *   mark, tiles, scan, emit
 *
 * pick, scan and emit are those of the static form.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_NAIVE_H
#define WAYLAY_KERNELS_SAMPLER_NAIVE_H

#include "sampler_static.h"

/* Items of class `which` in each tile. */
DEV_FN void naive_count(const struct sampler_args *a, u32 label_bytes)
{
	struct sampler_emit_shared *sh = (struct sampler_emit_shared *)dev_shared();
	u32 first = DEV_BLOCK_X * SAMPLER_TILE, count = 0, total;

	for (u32 i = first + DEV_TID; i < first + SAMPLER_TILE && i < a->n; i += DEV_NTID)
		count += label_class(a->labels, i, label_bytes) == 1 - a->which;
	(void)dev_block_scan(count, sh->sums, &total);
	if (DEV_TID == 0)
		a->tile_count[DEV_BLOCK_X] = total;
}

/* Their indices, in order. */
DEV_FN void naive_list(const struct sampler_args *a, u32 label_bytes)
{
	struct sampler_emit_shared *sh = (struct sampler_emit_shared *)dev_shared();
	u32 first = DEV_BLOCK_X * SAMPLER_TILE, at = a->tile_count[DEV_BLOCK_X], total;
	u32 *list = a->list[a->which];

	for (u32 i = first; i < first + SAMPLER_TILE && i < a->n; i += DEV_NTID) {
		u32 item = i + DEV_TID;
		u32 mine = item < a->n && label_class(a->labels, item, label_bytes) == 1 - a->which;
		u32 before = dev_block_scan(mine, sh->sums, &total);

		if (mine)
			list[at + before] = item;
		at += total;
	}
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_count_i64)(DEV_PARAM struct sampler_args a)
{
	naive_count(&a, 8);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_count_i32)(DEV_PARAM struct sampler_args a)
{
	naive_count(&a, 4);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_count_u8)(DEV_PARAM struct sampler_args a)
{
	naive_count(&a, 1);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_list_i64)(DEV_PARAM struct sampler_args a)
{
	naive_list(&a, 8);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_list_i32)(DEV_PARAM struct sampler_args a)
{
	naive_list(&a, 4);
}

DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_list_u8)(DEV_PARAM struct sampler_args a)
{
	naive_list(&a, 1);
}

/* One digit of the keys of the listed items; grid (blocks, 2), one row of blocks a class. */
DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_histogram)(DEV_PARAM struct sampler_args a)
{
	struct sampler_static_shared *sh = (struct sampler_static_shared *)dev_shared();
	u32 c = DEV_BLOCK_Y, shift = level_shift(a.level), mask = level_bins(a.level) - 1;
	const struct sampler_state *s = a.state;
	struct sampler_keys keys = sampler_keys_of(item_stream(&a, 0));

	for (u32 i = DEV_TID; i < SAMPLER_DIGIT_BINS; i += DEV_NTID)
		sh->bins[0][i] = 0;
	DEV_SYNC();
	for (u32 i = DEV_BLOCK_X * DEV_NTID + DEV_TID; i < a.list_n[c];
	     i += DEV_BLOCKS_X * DEV_NTID) {
		u32 key = sampler_key(a.list[c][i], keys);

		if (a.level == 0 ||
		    (s->drawn[c] && key >> level_shift(a.level - 1) == s->prefix[c]))
			DEV_ADD(&sh->bins[0][key >> shift & mask], 1);
	}
	DEV_SYNC();
	for (u32 i = DEV_TID; i < SAMPLER_DIGIT_BINS; i += DEV_NTID)
		if (sh->bins[0][i])
			DEV_ADD(&a.histogram[c * SAMPLER_DIGIT_BINS + i], sh->bins[0][i]);
}

/* The listed items that are drawn, as bits; `positive` and `selected` are zero before. Grid as
 * above. */
DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_mark)(DEV_PARAM struct sampler_args a)
{
	u32 c = DEV_BLOCK_Y;
	const struct sampler_state *s = a.state;

	for (u32 i = DEV_BLOCK_X * DEV_NTID + DEV_TID; i < a.list_n[c];
	     i += DEV_BLOCKS_X * DEV_NTID) {
		u32 item = a.list[c][i];

		if (sampler_key(item, s->keys) >= s->limit[c])
			continue;
		DEV_OR(&a.selected[item / 32], 1u << (item & 31));
		if (c == 0)
			DEV_OR(&a.positive[item / 32], 1u << (item & 31));
	}
}

/* Drawn items of each tile. */
DEV_KERNEL(SAMPLER_BLOCK, sampler_naive_tiles)(DEV_PARAM struct sampler_args a)
{
	struct sampler_emit_shared *sh = (struct sampler_emit_shared *)dev_shared();
	u32 word = DEV_BLOCK_X * (SAMPLER_TILE / 32) + DEV_TID, total;

	(void)dev_block_scan(word < a.words ? DEV_POPC(a.selected[word]) : 0, sh->sums, &total);
	if (DEV_TID == 0)
		a.tile_count[DEV_BLOCK_X] = total;
}

#endif
