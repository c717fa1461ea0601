/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index transpose: lookups sorted by row, those of one row in the order of their positions. Every
 * table is a segment of its own, so that only the bits of its row numbers are sorted. A pass of the
 * radix sort is three launches: digits counted per tile, counts scanned per table, entries put in
 * place. The first pass reads the indices themselves. A lookup that is not in its table gets the key
 * past the last row and ends up last.
 */
#ifndef WAYLAY_KERNELS_TBE_SORT_H
#define WAYLAY_KERNELS_TBE_SORT_H

#include "tbe_common.h"

#define SORT_WARPS (TBE_BLOCK / 32)
#define SORT_EACH  (TBE_SORT_TILE / TBE_BLOCK) /* entries a thread */
#define SORT_BAGS  1024                        /* offsets kept in shared memory */

/* One block: where the entries of every feature and table go. */
DEV_KERNEL(TBE_SINGLE_BLOCK, tbe_sort_segments)(DEV_PARAM struct tbe_args a)
{
	u32 *sums = (u32 *)dev_shared(), run = 0, total, t = DEV_TID;

	for (u32 base = 0; base < a.feature_count; base += DEV_NTID) {
		u32 length = 0, before;

		if (base + t < a.feature_count) {
			const struct tbe_feature *f = a.features + a.order[base + t];
			u32 begin = tbe_offset(&a, f->bag0),
			    end = tbe_offset(&a, (u64)f->bag0 + f->bags);

			length = end > begin && !f->small ? end - begin : 0;
		}
		before = run + dev_block_scan(length, sums, &total);
		/* more than n only with offsets that overlap: those entries are left out */
		if (base + t < a.feature_count)
			a.feature_entry[base + t] = before < a.n ? before : a.n;
		run += total;
		run = run < a.n ? run : a.n;
	}
	if (t == 0)
		a.feature_entry[a.feature_count] = run;
	DEV_SYNC();
	run = 0;
	for (u32 base = 0; base < a.table_count; base += DEV_NTID) {
		u32 tiles = 0, before;
		struct tbe_segment s = {0, 0, 0, 0};

		if (base + t < a.table_count) {
			const struct tbe_table *table = a.tables + base + t;

			s.begin = a.feature_entry[table->feature0];
			s.end = a.feature_entry[table->feature0 + table->features];
			tiles = (s.end - s.begin + TBE_SORT_TILE - 1) / TBE_SORT_TILE;
		}
		before = run + dev_block_scan(tiles, sums, &total);
		s.tile0 = before;
		s.tiles = tiles;
		if (base + t < a.table_count)
			a.segments[base + t] = s;
		run += total;
	}
	if (t == 0)
		*a.tile_total = run;
}

/* The table that a tile belongs to. */
DEV_FN u32 sort_table_of(const struct tbe_args *a, u32 tile)
{
	u32 low = 0, high = a->table_count - 1;

	while (low <
	       high) { /* the last one that begins at or before it; empty ones begin with the next */
		u32 middle = (low + high + 1) / 2;

		if (a->segments[middle].tile0 <= tile)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* The feature of an entry and the position that the entry comes from. */
DEV_FN u32 sort_source(const struct tbe_args *a, const struct tbe_table *table, u32 entry,
		       u32 *position)
{
	u32 low = table->feature0, high = table->feature0 + table->features - 1, feature;

	while (low < high) {
		u32 middle = (low + high + 1) / 2;

		if (a->feature_entry[middle] <= entry)
			low = middle;
		else
			high = middle - 1;
	}
	feature = a->order[low];
	*position = tbe_offset(a, a->features[feature].bag0) + entry - a->feature_entry[low];
	return feature;
}

DEV_FN u32 sort_key(const struct tbe_args *a, const struct tbe_table *table, u32 entry)
{
	u32 position, feature, rows, row;

	if (a->pass)
		return a->keys[(a->pass - 1) & 1][entry];
	feature = sort_source(a, table, entry, &position);
	rows = a->features[feature].rows;
	row = tbe_row(a, position, rows);
	return row == ROW_NONE ? rows : row;
}

struct tbe_sort_shared {
	u32 sums[33];
	u32 digits[SORT_WARPS][1 << TBE_SORT_BITS];
	u32 base[1 << TBE_SORT_BITS];
	u32 first, last; /* bags of the tile's first and last position */
	u32 offsets[SORT_BAGS + 1];
	u32 keys[TBE_SORT_TILE];
	u32 payloads[TBE_SORT_TILE];
};

/* How often a table has each digit of this pass. */
DEV_FN u32 *sort_totals(const struct tbe_args *a, u32 table)
{
	return a->totals + (((u64)a->pass * a->table_count + table) << a->bits);
}

DEV_KERNEL(TBE_BLOCK, tbe_sort_count)(DEV_PARAM struct tbe_args a)
{
	struct tbe_sort_shared *sh = (struct tbe_sort_shared *)dev_shared();
	u32 tile = DEV_BLOCK_X, *bins = sh->digits[0], mask = (1u << a.bits) - 1, table;
	struct tbe_segment s;
	u32 begin, end;

	if (tile >= *a.tile_total)
		return;
	table = sort_table_of(&a, tile);
	s = a.segments[table];
	begin = s.begin + (tile - s.tile0) * TBE_SORT_TILE;
	end = s.end - begin < TBE_SORT_TILE ? s.end : begin + TBE_SORT_TILE;
	for (u32 d = DEV_TID; d <= mask; d += DEV_NTID)
		bins[d] = 0;
	DEV_SYNC();
	for (u32 e = begin + DEV_TID; e < end; e += 4 * TBE_BLOCK) {
		u32 key[4];

		DEV_UNROLL
		for (u32 j = 0; j < 4; j++)
			key[j] = e + j * TBE_BLOCK < end
					 ? sort_key(&a, a.tables + table, e + j * TBE_BLOCK)
					 : 0;
		DEV_UNROLL
		for (u32 j = 0; j < 4; j++)
			if (e + j * TBE_BLOCK < end)
				DEV_ADD(&bins[key[j] >> a.shift & mask], 1u);
	}
	DEV_SYNC();
	for (u32 d = DEV_TID; d <= mask; d += DEV_NTID) {
		a.counts[((u64)s.tile0 << a.bits) + (u64)d * s.tiles + tile - s.tile0] = bins[d];
		if (bins[d])
			DEV_ADD(sort_totals(&a, table) + d, bins[d]);
	}
}

/* Where the entries of each digit and tile of table x begin. A warp has one digit. */
DEV_KERNEL(TBE_BLOCK, tbe_sort_scan)(DEV_PARAM struct tbe_args a)
{
	struct tbe_segment s = a.segments[DEV_BLOCK_X];
	u32 digit = DEV_BLOCK_Y * SORT_WARPS + DEV_TID / 32, lane = DEV_LANE, sum = 0, next = 0;
	u32 *counts = a.counts + ((u64)s.tile0 << a.bits) + (u64)digit * s.tiles;
	const u32 *totals = sort_totals(&a, DEV_BLOCK_X);

	if (digit >> a.bits || !s.tiles)
		return;
	for (u32 d = lane; d < digit; d += 32)
		sum += totals[d];
	for (u32 mask = 16; mask; mask /= 2)
		sum += dev_shfl_xor(sum, mask);
	sum += s.begin;
	if (lane < s.tiles)
		next = counts[lane];
	for (u32 i = lane; i - lane < s.tiles; i += 32) {
		u32 here = next, up_to;

		next = i + 32 < s.tiles ? counts[i + 32] : 0;
		up_to = dev_warp_scan(here, lane);
		if (i < s.tiles)
			counts[i] = sum + up_to - here;
		sum += dev_shfl(up_to, 31);
	}
}

/* The last bag of [low, high] that begins at or before a position. */
DEV_FN u32 sort_bag(const struct tbe_args *a, u32 low, u32 high, u32 position)
{
	while (low < high) {
		u32 middle = low + (high - low + 1) / 2;

		if (tbe_offset(a, middle) <= position)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Prepares the search for bags: the first and the last one of the tile, and the offsets between them
 * if the tile is of one feature and has not too many. */
DEV_FN void sort_bags_begin(const struct tbe_args *a, const struct tbe_table *table, u32 begin,
			    u32 end, struct tbe_sort_shared *sh)
{
	u32 position[2], feature[2];

	feature[0] = sort_source(a, table, begin, &position[0]);
	feature[1] = sort_source(a, table, end - 1, &position[1]);
	if (DEV_TID < 2) {
		const struct tbe_feature *f = a->features + feature[DEV_TID];
		u32 bag = sort_bag(a, f->bag0, f->bag0 + f->bags - 1, position[DEV_TID]);

		if (DEV_TID)
			sh->last = bag;
		else
			sh->first = bag;
	}
	DEV_SYNC();
	if (feature[0] != feature[1]) {
		if (DEV_TID == 0)
			sh->last = sh->first + SORT_BAGS; /* so that no one uses the offsets */
		DEV_SYNC();
		return;
	}
	for (u32 i = DEV_TID; i < SORT_BAGS && sh->first + i <= sh->last; i += DEV_NTID)
		sh->offsets[i] = tbe_offset(a, sh->first + i);
	DEV_SYNC();
}

DEV_FN u32 sort_bag_of(const struct tbe_args *a, u32 feature, u32 position,
		       const struct tbe_sort_shared *sh)
{
	const struct tbe_feature *f = a->features + feature;
	u32 low = 0, high = sh->last - sh->first;

	if (high >= SORT_BAGS)
		return sort_bag(a, f->bag0, f->bag0 + f->bags - 1, position);
	while (low < high) {
		u32 middle = (low + high + 1) / 2;

		if (sh->offsets[middle] <= position)
			low = middle;
		else
			high = middle - 1;
	}
	return sh->first + low;
}

/* What travels with a key: the bag, or where weights differ by sample and where bags are not pooled
 * the position. */
DEV_FN u32 sort_payload(const struct tbe_args *a, const struct tbe_table *table, u32 entry,
			const struct tbe_sort_shared *sh)
{
	u32 position, feature, bag;

	if (a->pass)
		return a->payloads[(a->pass - 1) & 1][entry];
	feature = sort_source(a, table, entry, &position);
	if (a->pooling == TBE_NONE)
		return position;
	bag = sort_bag_of(a, feature, position, sh);
	if (!a->sample_weights)
		return bag;
	a->position_bag[position] = bag;
	return position;
}

/* The lanes whose digit is the calling lane's, among those with an entry. */
DEV_FN u32 sort_peers(u32 digit, u32 bits, u32 valid)
{
	u32 peers = valid;

	for (u32 b = 0; b < bits; b++) {
		u32 set = dev_ballot((int)(digit >> b & 1));

		peers &= digit >> b & 1 ? set : ~set;
	}
	return peers;
}

DEV_KERNEL(TBE_BLOCK, tbe_sort_place)(DEV_PARAM struct tbe_args a)
{
	struct tbe_sort_shared *sh = (struct tbe_sort_shared *)dev_shared();
	u32 tile = DEV_BLOCK_X, mask = (1u << a.bits) - 1, warp = DEV_TID / 32, lane = DEV_LANE;
	u32 key[SORT_EACH], rank[SORT_EACH], begin, end, table, sum = 0, total;
	u32 *digits = sh->digits[warp];
	struct tbe_segment s;

	if (tile >= *a.tile_total)
		return;
	table = sort_table_of(&a, tile);
	s = a.segments[table];
	begin = s.begin + (tile - s.tile0) * TBE_SORT_TILE;
	end = s.end - begin < TBE_SORT_TILE ? s.end : begin + TBE_SORT_TILE;
	if (!a.pass && a.pooling != TBE_NONE)
		sort_bags_begin(&a, a.tables + table, begin, end, sh);
	for (u32 d = lane; d <= mask; d += 32)
		digits[d] = 0;
	DEV_UNROLL
	for (u32 j = 0; j < SORT_EACH; j++) {
		u32 e = begin + (warp * SORT_EACH + j) * 32 + lane;

		key[j] = e < end ? sort_key(&a, a.tables + table, e) : 0;
	}
	dev_warp_sync();
	/* ranks among the warp's entries with the same digit, in order */
	DEV_UNROLL
	for (u32 j = 0; j < SORT_EACH; j++) {
		int ok = begin + (warp * SORT_EACH + j) * 32 + lane < end;
		u32 digit = key[j] >> a.shift & mask;
		u32 peers = sort_peers(digit, a.bits, dev_ballot(ok));

		rank[j] = digits[digit] + DEV_POPC(peers & ((1u << lane) - 1));
		dev_warp_sync();
		if (ok && !(peers >> lane >> 1)) /* the last of them */
			digits[digit] = rank[j] + 1;
		dev_warp_sync();
	}
	DEV_SYNC();
	/* thread d: digit d's entries before each warp's, and before the digit's own */
	if (DEV_TID <= mask)
		for (u32 w = 0; w < SORT_WARPS; w++) {
			u32 here = sh->digits[w][DEV_TID];

			sh->digits[w][DEV_TID] = sum;
			sum += here;
		}
	sum = dev_block_scan(sum, sh->sums, &total);
	if (DEV_TID <= mask) {
		for (u32 w = 0; w < SORT_WARPS; w++)
			sh->digits[w][DEV_TID] += sum;
		sh->base[DEV_TID] = a.counts[((u64)s.tile0 << a.bits) + (u64)DEV_TID * s.tiles +
					     tile - s.tile0] -
				    sum;
	}
	DEV_SYNC();
	DEV_UNROLL
	for (u32 j = 0; j < SORT_EACH; j++) {
		u32 e = begin + (warp * SORT_EACH + j) * 32 + lane;

		if (e < end) {
			u32 at = digits[key[j] >> a.shift & mask] + rank[j];

			sh->keys[at] = key[j];
			sh->payloads[at] = sort_payload(&a, a.tables + table, e, sh);
		}
	}
	DEV_SYNC();
	for (u32 i = DEV_TID; i < end - begin; i += DEV_NTID) {
		u32 k = sh->keys[i], to = sh->base[k >> a.shift & mask] + i;

		a.keys[a.pass & 1][to] = k;
		a.payloads[a.pass & 1][to] = sh->payloads[i];
	}
}

#endif
