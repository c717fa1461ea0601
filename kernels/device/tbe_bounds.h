/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds check: one launch streams offsets and indices once and counts what is bad; a second one
 * returns at once when nothing was, and otherwise finds values, repairs and reports. Lookups of one
 * feature lie together, so no thread needs to know its bag.
 */
#ifndef WAYLAY_KERNELS_TBE_BOUNDS_H
#define WAYLAY_KERNELS_TBE_BOUNDS_H

#include "tbe_common.h"

/* Counts over the threads of the grid; first_* are all ones between launches. */
DEV_FN void bounds_note(u64 *count, u64 *first, u32 bad, u64 at)
{
	if (bad) {
		DEV_ADD(count, (u64)bad);
		dev_min_u64(first, at);
	}
}

/* Whether a row number is neither in the table nor the mark of a pruned row, -1. */
DEV_FN int bounds_bad(long long row, u32 rows)
{
	return (u64)(row + 1) > rows;
}

#define BOUNDS_AHEAD 4

/* Indices begin to end - 1; this is thread t of `threads`. */
DEV_FN void bounds_indices(const struct tbe_args *a, u32 rows, u32 begin, u32 end, u32 t,
			   u32 threads, u32 *bad, u64 *first)
{
	u32 each = 16 / a->index_bytes;
	u32 skew = (u32)(((u64)a->indices + (u64)begin * a->index_bytes) % 16) / a->index_bytes;
	u32 head = skew ? each - skew : 0, vectors;

	head = head < end - begin ? head : end - begin;
	vectors = (end - begin - head) / each;
	/* what is not whole 16 bytes, at either end */
	for (u32 i = t; i < end - begin - vectors * each; i += threads) {
		u32 p = begin + (i < head ? i : i + vectors * each);

		if (bounds_bad(tbe_raw(a->indices, p, a->index_bytes), rows)) {
			++*bad;
			*first = p < *first ? p : *first;
		}
	}
	for (u32 v0 = t; v0 < vectors; v0 += threads * BOUNDS_AHEAD) {
		struct dev_v4 v[BOUNDS_AHEAD];

		DEV_UNROLL
		for (u32 j = 0; j < BOUNDS_AHEAD; j++) {
			u64 at = ((u64)begin + head + (u64)(v0 + j * threads) * each) *
				 a->index_bytes;

			v[j] = dev_fetch_v4((const char *)a->indices + at,
					    v0 + j * threads < vectors);
		}
		DEV_UNROLL
		for (u32 j = 0; j < BOUNDS_AHEAD; j++) {
			u64 at = (u64)begin + head + (u64)(v0 + j * threads) * each;
			u32 wrong; /* a bit an index; zeros of what was not loaded are row 0 */

			if (a->index_bytes == 8)
				wrong = (u32)bounds_bad((long long)((u64)v[j].y << 32 | v[j].x),
							rows) |
					(u32)bounds_bad((long long)((u64)v[j].w << 32 | v[j].z),
							rows)
						<< 1;
			else
				wrong = (u32)bounds_bad((int)v[j].x, rows) |
					(u32)bounds_bad((int)v[j].y, rows) << 1 |
					(u32)bounds_bad((int)v[j].z, rows) << 2 |
					(u32)bounds_bad((int)v[j].w, rows) << 3;
			if (wrong && v0 + j * threads < vectors) {
				*bad += DEV_POPC(wrong);
				at += DEV_CTZ(wrong);
				*first = at < *first ? at : *first;
			}
		}
	}
}

DEV_FN int bounds_bad_bag(const struct tbe_args *a, u64 bag)
{
	long long begin = tbe_raw(a->offsets, bag, a->index_bytes),
		  end = tbe_raw(a->offsets, bag + 1, a->index_bytes);

	return begin < 0 || begin > end || end > (long long)a->n ||
	       (bag + 1 == a->bags && end != (long long)a->n);
}

/* The blocks of row y check feature y's indices, and all of them together the offsets. */
DEV_KERNEL(TBE_BLOCK, tbe_bounds_check)(DEV_PARAM struct tbe_args a)
{
	const struct tbe_feature *f = a.features + DEV_BLOCK_Y;
	u32 t = DEV_BLOCK_X * TBE_BLOCK + DEV_TID, threads = DEV_BLOCKS_X * TBE_BLOCK, bad = 0;
	u32 begin = tbe_offset(&a, f->bag0), end = tbe_offset(&a, (u64)f->bag0 + f->bags);
	u64 first = ~0ull;

	if (begin < end)
		bounds_indices(&a, f->rows, begin, end, t, threads, &bad, &first);
	bounds_note(&a.bounds->bad_indices, &a.bounds->first_index, bad, first);
	bad = 0;
	first = ~0ull;
	for (u64 bag = (u64)DEV_BLOCK_Y * threads + t; bag < a.bags;
	     bag += (u64)threads * a.feature_count)
		if (bounds_bad_bag(&a, bag)) {
			bad++;
			first = bag < first ? bag : first;
		}
	bounds_note(&a.bounds->bad_offsets, &a.bounds->first_offset, bad, first);
}

DEV_FN void bounds_put(const struct tbe_args *a, const void *array, u64 at, long long value)
{
	if (a->index_bytes == 8)
		((long long *)array)[at] = value;
	else
		((int *)array)[at] = (int)value;
}

/* Each offset becomes the largest up to it, within the indices; the last is their number. One block. */
DEV_COLD void bounds_repair_offsets(const struct tbe_args *a, u32 *shared)
{
	u32 most = 0, t = DEV_TID, threads = DEV_NTID;

	for (u64 base = 0; base <= a->bags; base += threads) {
		u32 here = base + t <= a->bags ? tbe_offset(a, base + t) : 0;

		shared[t] = here;
		for (u32 by = 1; by < threads; by *= 2) {
			u32 below;

			DEV_SYNC();
			below = t >= by ? shared[t - by] : 0;
			DEV_SYNC();
			shared[t] = shared[t] > below ? shared[t] : below;
		}
		DEV_SYNC();
		here = shared[t] > most ? shared[t] : most;
		most = shared[threads - 1] > most ? shared[threads - 1] : most;
		DEV_SYNC();
		if (base + t <= a->bags)
			bounds_put(a, a->offsets, base + t, base + t == a->bags ? a->n : here);
	}
	DEV_SYNC();
}

/* One block: what was found, in words, and the repairs. Leaves the counts as the next check needs
 * them. */
DEV_KERNEL(TBE_SINGLE_BLOCK, tbe_bounds_report)(DEV_PARAM struct tbe_args a)
{
	u32 *shared = (u32 *)dev_shared();
	struct tbe_bounds_report *r = a.report, *c = a.bounds;
	int again;

	if (DEV_TID == 0) {
		r->bad_indices = c->bad_indices;
		r->bad_offsets = c->bad_offsets;
		r->first_index = c->first_index;
		r->first_offset = c->first_offset;
		if (c->bad_offsets) {
			r->offset_begin = tbe_raw(a.offsets, c->first_offset, a.index_bytes);
			r->offset_end = tbe_raw(a.offsets, c->first_offset + 1, a.index_bytes);
		}
		if (c->bad_indices)
			r->index_value = tbe_raw(a.indices, c->first_index, a.index_bytes);
		shared[DEV_NTID] = c->bad_offsets != 0;
		shared[DEV_NTID + 1] = c->bad_indices != 0;
	}
	DEV_SYNC();
	again = shared[DEV_NTID] && a.repair;
	if (again || (shared[DEV_NTID + 1] && a.repair)) {
		if (again) { /* which index belongs to which table has changed */
			if (DEV_TID == 0)
				c->bad_indices = 0, c->first_index = ~0ull;
			bounds_repair_offsets(&a, shared);
		}
		for (u32 y = 0; y < a.feature_count; y++) {
			const struct tbe_feature *f = a.features + y;
			u32 begin = tbe_offset(&a, f->bag0),
			    end = tbe_offset(&a, (u64)f->bag0 + f->bags), bad = 0;
			u64 first = ~0ull;

			if (again && begin < end) {
				bounds_indices(&a, f->rows, begin, end, DEV_TID, DEV_NTID, &bad,
					       &first);
				bounds_note(&c->bad_indices, &c->first_index, bad, first);
			}
		}
		DEV_SYNC();
		if (again && DEV_TID == 0) {
			r->bad_indices = c->bad_indices;
			r->first_index = c->first_index;
			if (c->bad_indices)
				r->index_value = tbe_raw(a.indices, c->first_index, a.index_bytes);
		}
		DEV_SYNC();
		for (u32 y = 0; y < a.feature_count; y++) {
			const struct tbe_feature *f = a.features + y;
			u32 end = tbe_offset(&a, (u64)f->bag0 + f->bags);

			for (u32 p = tbe_offset(&a, f->bag0) + DEV_TID; p < end; p += DEV_NTID)
				if (bounds_bad(tbe_raw(a.indices, p, a.index_bytes), f->rows))
					bounds_put(&a, a.indices, p, 0);
		}
	}
	DEV_SYNC();
	if (DEV_TID == 0) {
		c->bad_indices = c->bad_offsets = 0;
		c->first_index = c->first_offset = ~0ull;
	}
}

#endif
