/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds check: one launch streams offsets and indices once and counts what is bad; its last block
 * reports, and where something was bad finds values and repairs. Lookups of one feature lie
 * together, so no thread needs to know its bag.
 */
#ifndef WAYLAY_KERNELS_TBE_BOUNDS_H
#define WAYLAY_KERNELS_TBE_BOUNDS_H

#include "tbe_common.h"

/* Whether a row number is neither in the table nor the mark of a pruned row, -1. */
DEV_FN int bounds_bad(long long row, u32 rows)
{
	return (u64)(row + 1) > rows;
}

#define BOUNDS_AHEAD  8
#define BOUNDS_BLOCKS 4 /* a multiprocessor */

/* A bit for each index of 16 bytes that is bad. */
DEV_FN u32 bounds_wrong(struct dev_v4 v, u32 index_bytes, u32 rows)
{
	if (index_bytes == 8)
		return (u32)bounds_bad((long long)((u64)v.y << 32 | v.x), rows) |
		       (u32)bounds_bad((long long)((u64)v.w << 32 | v.z), rows) << 1;
	return (u32)bounds_bad((int)v.x, rows) | (u32)bounds_bad((int)v.y, rows) << 1 |
	       (u32)bounds_bad((int)v.z, rows) << 2 | (u32)bounds_bad((int)v.w, rows) << 3;
}

/* What one thread has found. */
struct bounds_found {
	u32 bad;
	u64 first;
};

/* Counts over the threads of the grid; first_* are all ones between launches. */
DEV_FN void bounds_note(u64 *count, u64 *first, struct bounds_found found)
{
	if (found.bad) {
		DEV_ADD(count, (u64)found.bad);
		dev_min_u64(first, found.first);
	}
}

DEV_FN void bounds_add(struct bounds_found *found, u32 wrong, u64 at)
{
	if (wrong) {
		at += DEV_CTZ(wrong);
		found->bad += DEV_POPC(wrong);
		found->first = at < found->first ? at : found->first;
	}
}

/* Indices begin to end - 1; this is thread t of `threads`. */
DEV_FN void bounds_indices(const struct tbe_args *a, u32 rows, u32 begin, u32 end, u32 t,
			   u32 threads, struct bounds_found *found)
{
	u32 each = 16 / a->index_bytes, bytes = a->index_bytes, v0 = t;
	u32 skew = (u32)(((u64)a->indices + (u64)begin * bytes) % 16) / bytes;
	u32 head = skew ? each - skew : 0, vectors;
	const struct dev_v4 *from;

	head = head < end - begin ? head : end - begin;
	vectors = (end - begin - head) / each;
	from = (const struct dev_v4 *)((const char *)a->indices + ((u64)begin + head) * bytes);
	/* what is not whole 16 bytes, at either end */
	for (u32 i = t; i < end - begin - vectors * each; i += threads) {
		u32 p = begin + (i < head ? i : i + vectors * each);

		bounds_add(found, (u32)bounds_bad(tbe_raw(a->indices, p, bytes), rows), p);
	}
	for (; v0 + (u64)(BOUNDS_AHEAD - 1) * threads < vectors; v0 += threads * BOUNDS_AHEAD) {
		struct dev_v4 v[BOUNDS_AHEAD];

		DEV_UNROLL
		for (u32 j = 0; j < BOUNDS_AHEAD; j++)
			v[j] = dev_read_v4(from + v0 + j * threads);
		DEV_UNROLL
		for (u32 j = 0; j < BOUNDS_AHEAD; j++)
			bounds_add(found, bounds_wrong(v[j], bytes, rows),
				   (u64)begin + head + (u64)(v0 + j * threads) * each);
	}
	for (; v0 < vectors; v0 += threads)
		bounds_add(found, bounds_wrong(dev_read_v4(from + v0), bytes, rows),
			   (u64)begin + head + (u64)v0 * each);
}

DEV_FN int bounds_bad_bag(const struct tbe_args *a, u64 bag)
{
	long long begin = tbe_raw(a->offsets, bag, a->index_bytes),
		  end = tbe_raw(a->offsets, bag + 1, a->index_bytes);

	return begin < 0 || begin > end || end > (long long)a->n ||
	       (bag + 1 == a->bags && end != (long long)a->n);
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

/* By the last block, when something was bad: what it is, and the repairs. */
DEV_COLD void bounds_mend(const struct tbe_args *a, u32 *shared)
{
	struct tbe_bounds_report *r = a->report, *c = a->bounds;
	int again = c->bad_offsets != 0 && a->repair;

	if (DEV_TID == 0) {
		if (c->bad_offsets) {
			r->offset_begin = tbe_raw(a->offsets, c->first_offset, a->index_bytes);
			r->offset_end = tbe_raw(a->offsets, c->first_offset + 1, a->index_bytes);
		}
		if (c->bad_indices)
			r->index_value = tbe_raw(a->indices, c->first_index, a->index_bytes);
	}
	DEV_SYNC();
	if (again) { /* which index belongs to which table changes */
		if (DEV_TID == 0)
			c->bad_indices = 0, c->first_index = ~0ull;
		bounds_repair_offsets(a, shared);
	}
	for (u32 y = 0; again && y < a->feature_count; y++) {
		const struct tbe_feature *f = a->features + y;
		u32 begin = tbe_offset(a, f->bag0), end = tbe_offset(a, (u64)f->bag0 + f->bags);
		struct bounds_found found = {0, ~0ull};

		if (begin < end)
			bounds_indices(a, f->rows, begin, end, DEV_TID, DEV_NTID, &found);
		bounds_note(&c->bad_indices, &c->first_index, found);
	}
	DEV_SYNC();
	if (again && DEV_TID == 0) {
		r->bad_indices = c->bad_indices;
		r->first_index = c->first_index;
		if (c->bad_indices)
			r->index_value = tbe_raw(a->indices, c->first_index, a->index_bytes);
	}
	DEV_SYNC();
	for (u32 y = 0; a->repair && y < a->feature_count; y++) {
		const struct tbe_feature *f = a->features + y;
		u32 end = tbe_offset(a, (u64)f->bag0 + f->bags);

		for (u32 p = tbe_offset(a, f->bag0) + DEV_TID; p < end; p += DEV_NTID)
			if (bounds_bad(tbe_raw(a->indices, p, a->index_bytes), f->rows))
				bounds_put(a, a->indices, p, 0);
	}
	DEV_SYNC();
}

/* The last block: the report. Leaves the counts as the next check needs them. */
DEV_FN void bounds_report(const struct tbe_args *a, u32 *shared)
{
	struct tbe_bounds_report *r = a->report, *c = a->bounds;

	if (DEV_TID == 0) {
		r->bad_indices = c->bad_indices;
		r->bad_offsets = c->bad_offsets;
		r->first_index = c->first_index;
		r->first_offset = c->first_offset;
		shared[0] = c->bad_indices || c->bad_offsets;
		*a->bounds_arrived = 0;
	}
	DEV_SYNC();
	if (!shared[0])
		return;
	DEV_SYNC();
	bounds_mend(a, shared);
	if (DEV_TID == 0) {
		c->bad_indices = c->bad_offsets = 0;
		c->first_index = c->first_offset = ~0ull;
	}
}

/* The blocks of row y check feature y's indices, and all of them together the offsets. */
DEV_KERNEL_OF(TBE_BLOCK, BOUNDS_BLOCKS, tbe_bounds_check)(DEV_PARAM struct tbe_args a)
{
	const struct tbe_feature *f = a.features + DEV_BLOCK_Y;
	u32 t = DEV_BLOCK_X * TBE_BLOCK + DEV_TID, threads = DEV_BLOCKS_X * TBE_BLOCK;
	u32 bags = a.uniform_bags, bag0 = DEV_BLOCK_Y * bags;
	u32 begin, end, *shared = (u32 *)dev_shared();
	struct bounds_found found = {0, ~0ull};

	if (!bags) {
		bag0 = f->bag0;
		bags = f->bags;
	}
	begin = tbe_offset(&a, bag0);
	end = tbe_offset(&a, (u64)bag0 + bags);
	if (DEV_TID == 0)
		shared[1] = 0;
	if (begin < end)
		bounds_indices(&a, f->rows, begin, end, t, threads, &found);
	bounds_note(&a.bounds->bad_indices, &a.bounds->first_index, found);
	DEV_SYNC();
	if (found.bad)
		shared[1] = 1;
	found.bad = 0;
	found.first = ~0ull;
	for (u64 bag = (u64)DEV_BLOCK_Y * threads + t; bag < a.bags;
	     bag += (u64)threads * a.feature_count)
		bounds_add(&found, (u32)bounds_bad_bag(&a, bag), bag);
	bounds_note(&a.bounds->bad_offsets, &a.bounds->first_offset, found);
	if (found.bad)
		shared[1] = 1;
	DEV_SYNC();
	if (DEV_TID == 0) {
		/* a block that has found nothing has nothing that others must see */
		u32 before = shared[1] ? dev_add_acq_rel(a.bounds_arrived, 1)
				       : DEV_ADD(a.bounds_arrived, 1u);

		shared[0] = before == DEV_BLOCKS_X * a.feature_count - 1;
		if (shared[0])
			(void)dev_load_acquire(a.bounds_arrived);
	}
	DEV_SYNC();
	if (!shared[0])
		return;
	DEV_SYNC();
	bounds_report(&a, shared);
}

/* For comparison. As little as a check can do: every index and offset is read once. */
DEV_KERNEL_OF(TBE_BLOCK, BOUNDS_BLOCKS, tbe_bounds_stream)(DEV_PARAM struct tbe_args a)
{
	u64 bytes[2] = {(u64)a.n * a.index_bytes, (a.bags + 1ull) * a.index_bytes};
	u64 threads = (u64)DEV_BLOCKS_X * TBE_BLOCK;
	u32 sum = 0;

	for (u32 i = 0; i < 2; i++) {
		const struct dev_v4 *from = (const struct dev_v4 *)(i ? a.offsets : a.indices);
		u64 v0 = (u64)DEV_BLOCK_X * TBE_BLOCK + DEV_TID, vectors = bytes[i] / 16;

		for (; v0 + (BOUNDS_AHEAD - 1) * threads < vectors; v0 += threads * BOUNDS_AHEAD) {
			struct dev_v4 v[BOUNDS_AHEAD];

			DEV_UNROLL
			for (u32 j = 0; j < BOUNDS_AHEAD; j++)
				v[j] = dev_read_v4(from + v0 + j * threads);
			DEV_UNROLL
			for (u32 j = 0; j < BOUNDS_AHEAD; j++)
				sum ^= v[j].x + v[j].y + v[j].z + v[j].w;
		}
		for (; v0 < vectors; v0 += threads)
			sum ^= dev_read_v4(from + v0).x;
	}
	if (sum == 0x9e3779b1u) /* so that the loads stay; harmless when it happens */
		a.report->offset_end = 0;
}

/* For comparison: the scheme that FBGEMM publishes, a warp a bag, whose lanes take its indices; counts
 * alone. */
DEV_KERNEL(TBE_BLOCK, tbe_bounds_bags)(DEV_PARAM struct tbe_args a)
{
	u32 warps = DEV_BLOCKS_X * (TBE_BLOCK / 32), most = a.uniform_bags;

	for (u32 bag = DEV_BLOCK_X * (TBE_BLOCK / 32) + DEV_TID / 32; bag < a.bags; bag += warps) {
		const struct tbe_feature *f = a.features + (most ? bag / most : 0);
		long long begin = tbe_raw(a.offsets, bag, a.index_bytes),
			  end = tbe_raw(a.offsets, (u64)bag + 1, a.index_bytes);
		struct bounds_found found = {0, ~0ull};

		if (begin < 0 || begin > end || end > (long long)a.n) {
			if (DEV_LANE == 0)
				DEV_ADD(&a.report->bad_offsets, 1ull);
			continue;
		}
		for (long long p = begin + DEV_LANE; p < end; p += 32)
			bounds_add(
				&found,
				(u32)bounds_bad(tbe_raw(a.indices, (u64)p, a.index_bytes), f->rows),
				(u64)p);
		bounds_note(&a.report->bad_indices, &a.report->first_index, found);
	}
}

#endif
