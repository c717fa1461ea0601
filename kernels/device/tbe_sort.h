/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index transpose: lookups sorted by row, those of one row in the order of their positions. Every
 * table is a segment of its own, so that only the bits of its row numbers are sorted. One launch
 * counts the digits of all passes; a pass is then one launch, in which every tile ranks its entries
 * and learns from the tiles before it where they go. The first pass reads the indices themselves. A
 * lookup that is not in its table gets the key past the last row and ends up last.
 */
#ifndef WAYLAY_KERNELS_TBE_SORT_H
#define WAYLAY_KERNELS_TBE_SORT_H

#include "tbe_common.h"

#define SORT_WARPS  (TBE_SORT_BLOCK / 32)
#define SORT_EACH   (TBE_SORT_TILE / TBE_SORT_BLOCK) /* entries a thread */
#define SORT_BAGS   1024                             /* offsets kept in shared memory */
#define SORT_BINS   (1 << TBE_SORT_BITS)
#define SORT_OWN    (SORT_BINS / TBE_SORT_BLOCK) /* digits a thread */
#define SORT_BLOCKS 2                            /* a multiprocessor */
#define SORT_LOOK   4                            /* tiles looked back at a time */

/* One block: where the entries of every feature and table go, and which table each tile is of. */
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
	DEV_SYNC();
	if (t == 0)
		*a.tile_total = run;
	for (u32 tile = t; tile < run; tile += DEV_NTID) {
		u32 low = 0, high = a.table_count - 1;

		while (low < high) { /* the last one that begins at or before it; empty ones begin
					with the next */
			u32 middle = (low + high + 1) / 2;

			if (a.segments[middle].tile0 <= tile)
				low = middle;
			else
				high = middle - 1;
		}
		a.tile_table[tile] = low;
	}
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

/* Where the entries of a stretch come from: all of one feature, or each to be looked for. */
struct sort_origin {
	const struct tbe_table *table;
	u32 feature, rows;
	u32 shift; /* position - entry, of one feature */
	int one;
};

/* Entries begin to end - 1, at least one. */
DEV_FN struct sort_origin sort_origin_of(const struct tbe_args *a, u32 table, u32 begin, u32 end)
{
	struct sort_origin o;
	u32 position, last;

	o.table = a->tables + table;
	o.feature = sort_source(a, o.table, begin, &position);
	o.one = sort_source(a, o.table, end - 1, &last) == o.feature;
	o.rows = a->features[o.feature].rows;
	o.shift = position - begin;
	return o;
}

/* The key of an entry in the first pass. */
DEV_FN u32 sort_first_key(const struct tbe_args *a, const struct sort_origin *o, u32 entry)
{
	u32 position = entry + o->shift, row;

	if (!o->one)
		(void)sort_source(a, o->table, entry, &position);
	row = tbe_row(a, position, o->rows); /* features of one table have its rows */
	return row == ROW_NONE ? o->rows : row;
}

/* How often a table has each digit of a pass. */
DEV_FN u32 *sort_totals(const struct tbe_args *a, u32 table, u32 pass)
{
	return a->totals + (((u64)pass * a->table_count + table) << a->bits);
}

/* What the tiles tell each other in a pass: for each tile and digit, see sort_look_back(). */
DEV_FN u32 *sort_states(const struct tbe_args *a, u32 tile)
{
	return a->counts + (((u64)a->pass * a->tile_room + tile) << a->bits);
}

/* The blocks of row y count the digits of table y, of all passes. They also clear what the tiles will
 * tell each other. */
DEV_KERNEL(TBE_SINGLE_BLOCK, tbe_sort_histogram)(DEV_PARAM struct tbe_args a)
{
	u32 *bins = (u32 *)dev_shared(), mask = (1u << a.bits) - 1, all = a.passes << a.bits;
	struct tbe_segment s = a.segments[DEV_BLOCK_Y];
	u32 threads = DEV_BLOCKS_X * DEV_NTID, t = DEV_BLOCK_X * DEV_NTID + DEV_TID;
	struct sort_origin o;
	struct dev_v4 zero = {0, 0, 0, 0};

	if (s.begin >= s.end)
		return;
	for (u32 d = DEV_TID; d < all; d += DEV_NTID)
		bins[d] = 0;
	for (u32 pass = 0; pass < a.passes; pass++) {
		struct dev_v4 *states =
			(struct dev_v4 *)(a.counts +
					  (((u64)pass * a.tile_room + s.tile0) << a.bits));

		for (u64 i = t; i < (u64)s.tiles << a.bits >> 2; i += threads)
			states[i] = zero;
	}
	DEV_SYNC();
	o = sort_origin_of(&a, DEV_BLOCK_Y, s.begin, s.end);
	for (u32 e = s.begin + t; e < s.end; e += 4 * threads) {
		u32 key[4];

		DEV_UNROLL
		for (u32 j = 0; j < 4; j++)
			key[j] = s.end - e > j * threads ? sort_first_key(&a, &o, e + j * threads)
							 : 0;
		DEV_UNROLL
		for (u32 j = 0; j < 4; j++)
			for (u32 pass = 0; s.end - e > j * threads && pass < a.passes; pass++)
				DEV_ADD(&bins[(pass << a.bits) + (key[j] >> pass * a.bits & mask)],
					1u);
		if (s.end - e <= 4 * threads) /* e may not pass 2^32 */
			break;
	}
	DEV_SYNC();
	for (u32 d = DEV_TID; d < all; d += DEV_NTID)
		if (bins[d])
			DEV_ADD(sort_totals(&a, DEV_BLOCK_Y, d >> a.bits) + (d & mask), bins[d]);
}

struct tbe_sort_shared {
	u32 sums[33];
	u32 tile;
	u32 first, last; /* bags of the tile's first and last position */
	u32 base[SORT_BINS];
	unsigned short digits[SORT_WARPS][SORT_BINS];
	u32 offsets[SORT_BAGS + 1];
	u32 keys[TBE_SORT_TILE];
	u32 payloads[TBE_SORT_TILE];
};

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
DEV_FN void sort_bags_begin(const struct tbe_args *a, const struct sort_origin *o, u32 begin,
			    u32 end, struct tbe_sort_shared *sh)
{
	if (!o->one) {
		if (DEV_TID == 0) { /* so that no one uses the offsets */
			sh->first = 0;
			sh->last = SORT_BAGS;
		}
		DEV_SYNC();
		return;
	}
	if (DEV_TID % 32 == 0 && DEV_TID < 64) {
		const struct tbe_feature *f = a->features + o->feature;
		u32 bag = sort_bag(a, f->bag0, f->bag0 + f->bags - 1,
				   (DEV_TID ? end - 1 : begin) + o->shift);

		if (DEV_TID)
			sh->last = bag;
		else
			sh->first = bag;
	}
	DEV_SYNC();
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
DEV_FN u32 sort_payload(const struct tbe_args *a, const struct sort_origin *o, u32 entry,
			const struct tbe_sort_shared *sh)
{
	u32 position = entry + o->shift, feature = o->feature, bag;

	if (a->pass)
		return a->payloads[(a->pass - 1) & 1][entry];
	if (!o->one)
		feature = sort_source(a, o->table, entry, &position);
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

/*
 * Entries with each of a thread's digits in the tiles of the table before this one. A tile's word of a
 * digit is 0, or 1 + its entries, or, with the top bit, 1 + its entries and those of all tiles
 * before. Words are whole by themselves, so that nothing needs ordering.
 */
#define SORT_UP_TO 0x80000000u

DEV_FN void sort_look_back(const struct tbe_args *a, u32 tile, u32 tile0, u32 digit0,
			   const u32 *here, u32 *before)
{
	u32 *own = sort_states(a, tile) + digit0, open = SORT_OWN;

	DEV_UNROLL
	for (u32 i = 0; i < SORT_OWN; i++) {
		before[i] = 0;
		dev_store_relaxed(&own[i], (tile == tile0 ? SORT_UP_TO : 0) | (1 + here[i]));
	}
	for (u32 at = tile; open && at > tile0;) {
		u32 word[SORT_LOOK][SORT_OWN];

		DEV_UNROLL
		for (u32 k = 0; k < SORT_LOOK; k++) {
			const u32 *state =
				sort_states(a, at - tile0 > k ? at - 1 - k : tile0) + digit0;

			DEV_UNROLL
			for (u32 i = 0; i < SORT_OWN; i++)
				word[k][i] = dev_load_relaxed(&state[i]);
		}
		/* A tile publishes one digit after the other: sums go on until every digit has met a
		 * word with the top bit. */
		DEV_UNROLL
		for (u32 k = 0; k < SORT_LOOK; k++) {
			u32 ready = open != 0 && at > tile0;

			DEV_UNROLL
			for (u32 i = 0; i < SORT_OWN; i++)
				ready &= word[k][i] != 0;
			if (!ready)
				break;
			at--;
			open = 0;
			DEV_UNROLL
			for (u32 i = 0; i < SORT_OWN; i++) {
				if (!(before[i] & SORT_UP_TO))
					before[i] = (before[i] + (word[k][i] & ~SORT_UP_TO) - 1) |
						    (word[k][i] & SORT_UP_TO);
				open += !(before[i] >> 31);
			}
		}
		dev_pause();
	}
	DEV_UNROLL
	for (u32 i = 0; i < SORT_OWN; i++) {
		before[i] &= ~SORT_UP_TO;
		if (tile != tile0)
			dev_store_relaxed(&own[i], SORT_UP_TO | (1 + before[i] + here[i]));
	}
}

/* From counts by warp and digit to the places of the warps' first entries in the tile, and where in
 * the sorted order each digit's entries begin less their place in the tile. */
DEV_FN void sort_places(const struct tbe_args *a, u32 tile, u32 table, struct tbe_segment s,
			struct tbe_sort_shared *sh)
{
	u32 digit0 = DEV_TID * SORT_OWN, have = digit0 >> a->bits ? 0 : 1, sum = 0, all = 0, total;
	const u32 *totals = sort_totals(a, table, a->pass) + digit0;
	u32 here[SORT_OWN], before[SORT_OWN], in_table[SORT_OWN];

	DEV_UNROLL
	for (u32 i = 0; i < SORT_OWN; i++) {
		here[i] = before[i] = in_table[i] = 0;
		if (have) { /* a pass has at least SORT_OWN digits */
			in_table[i] = totals[i];
			for (u32 w = 0; w < SORT_WARPS; w++) {
				u32 count = sh->digits[w][digit0 + i];

				sh->digits[w][digit0 + i] = (unsigned short)here[i];
				here[i] += count;
			}
		}
		sum += here[i];
		all += in_table[i];
	}
	if (have)
		sort_look_back(a, tile, s.tile0, digit0, here, before);
	sum = dev_block_scan(sum, sh->sums, &total);
	all = dev_block_scan(all, sh->sums, &total);
	DEV_UNROLL
	for (u32 i = 0; i < SORT_OWN; i++) {
		if (have) {
			for (u32 w = 0; w < SORT_WARPS; w++)
				sh->digits[w][digit0 + i] += (unsigned short)sum;
			sh->base[digit0 + i] = s.begin + all + before[i] - sum;
		}
		sum += here[i];
		all += in_table[i];
	}
	DEV_SYNC();
}

DEV_KERNEL_OF(TBE_SORT_BLOCK, SORT_BLOCKS, tbe_sort_place)(DEV_PARAM struct tbe_args a)
{
	struct tbe_sort_shared *sh = (struct tbe_sort_shared *)dev_shared();
	u32 tile, mask = (1u << a.bits) - 1, warp = DEV_TID / 32, lane = DEV_LANE;
	u32 key[SORT_EACH], rank[SORT_EACH], begin, end, table;
	unsigned short *digits = sh->digits[warp];
	struct sort_origin o = {0, 0, 0, 0, 0};
	struct tbe_segment s;

	/* By ticket: the tiles that this one waits for have begun. */
	if (DEV_TID == 0)
		sh->tile = DEV_ADD(&a.sort_ticket[a.pass], 1u);
	for (u32 d = lane; d < SORT_BINS / 2; d += 32)
		((u32 *)digits)[d] = 0;
	DEV_SYNC();
	tile = sh->tile;
	if (tile >= *a.tile_total)
		return;
	table = a.tile_table[tile];
	s = a.segments[table];
	begin = s.begin + (tile - s.tile0) * TBE_SORT_TILE;
	end = s.end - begin < TBE_SORT_TILE ? s.end : begin + TBE_SORT_TILE;
	if (!a.pass) {
		o = sort_origin_of(&a, table, begin, end);
		DEV_UNROLL
		for (u32 j = 0; j < SORT_EACH; j++) {
			u32 e = begin + (warp * SORT_EACH + j) * 32 + lane;

			key[j] = e < end ? sort_first_key(&a, &o, e) : 0;
		}
		if (a.pooling != TBE_NONE)
			sort_bags_begin(&a, &o, begin, end, sh);
	} else {
		DEV_UNROLL
		for (u32 j = 0; j < SORT_EACH; j++) {
			u32 e = begin + (warp * SORT_EACH + j) * 32 + lane;

			key[j] = e < end ? a.keys[(a.pass - 1) & 1][e] : 0;
		}
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
			digits[digit] = (unsigned short)(rank[j] + 1);
		dev_warp_sync();
	}
	DEV_SYNC();
	sort_places(&a, tile, table, s, sh);
	DEV_UNROLL
	for (u32 j = 0; j < SORT_EACH; j++) {
		u32 e = begin + (warp * SORT_EACH + j) * 32 + lane;

		if (e < end) {
			u32 at = digits[key[j] >> a.shift & mask] + rank[j];

			sh->keys[at] = key[j];
			sh->payloads[at] = sort_payload(&a, &o, e, sh);
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
