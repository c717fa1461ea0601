/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backward over the sorted lookups: for each run of lookups of one row, the sum of their gradients and
 * one update of the row. Warps fetch their next entries by ticket, so that a few long steps hold no
 * one up.
 *
 * A run shorter than TBE_PIECE is summed by one warp in order. A longer one goes on a list, and the
 * second kernel sums its pieces; of every LONG_FAN pieces, and of every LONG_FAN of these sums, the
 * warp that arrives last adds them up in order, and the last of all updates the row. Which warp that
 * is makes no difference to any sum: results are the same on every run and for every grid.
 */
#ifndef WAYLAY_KERNELS_TBE_BACKWARD_H
#define WAYLAY_KERNELS_TBE_BACKWARD_H

#include "tbe_backward_rows.h"
#include "tbe_sort.h"

#define BACKWARD_WARPS (TBE_BLOCK / 32)

/* Where a lookup's gradient begins and what it is multiplied by. */
struct tbe_source {
	u64 at;
	float scale;
};

DEV_FN struct tbe_source backward_source(const struct tbe_args *a, u32 payload)
{
	struct tbe_source s = {0, 1.0f};
	const struct tbe_feature *f = a->features;
	u32 bag = payload, t = 0;

	if (a->pooling == TBE_NONE) {
		s.at = (u64)payload * f->dim;
		return s;
	}
	if (a->sample_weights) {
		bag = a->position_bag[payload];
		s.scale = a->sample_weights[payload];
	}
	if (a->uniform_bags) {
		t = bag / a->uniform_bags;
	} else {
		u32 high = a->feature_count - 1;

		while (t < high) {
			u32 middle = (t + high + 1) / 2;

			if (a->features[middle].bag0 <= bag)
				t = middle;
			else
				high = middle - 1;
		}
	}
	f += t;
	s.at = f->out + (u64)(bag - f->bag0) * f->out_stride;
	if (a->pooling == TBE_MEAN)
		s.scale *= tbe_mean_scale(tbe_offset(a, (u64)bag + 1) - tbe_offset(a, bag));
	return s;
}

DEV_FN struct tbe_source backward_shuffle(struct tbe_source s, u32 lane)
{
	struct tbe_source r;

	r.at = dev_shfl_u64(s.at, lane);
	r.scale = dev_shfl_float(s.scale, lane);
	return r;
}

DEV_FN struct dev_v4 backward_grad(const struct tbe_args *a, u64 at, u32 column, u32 dim, int ok)
{
	return dev_fetch_v4(a->grad + at + column, ok && column < dim);
}

DEV_FN void backward_add(float *sum, struct dev_v4 v, float scale)
{
	sum[0] = dev_fma(scale, dev_float(v.x), sum[0]);
	sum[1] = dev_fma(scale, dev_float(v.y), sum[1]);
	sum[2] = dev_fma(scale, dev_float(v.z), sum[2]);
	sum[3] = dev_fma(scale, dev_float(v.w), sum[3]);
}

/* Adds the lookups that the first `count` lanes hold, at least one, in order. */
DEV_FN void backward_add_lanes(const struct tbe_args *a, struct tbe_source s, u32 count, u32 column,
			       u32 dim, float *sum)
{
	enum { AHEAD = 4 };
	const float *grad = a->grad + (column < dim ? column : 0);

	for (u32 i = 0; i < count; i += AHEAD) {
		struct dev_v4 v[AHEAD];
		float scale[AHEAD];

		DEV_UNROLL
		for (u32 j = 0; j < AHEAD; j++) {
			struct tbe_source one =
				backward_shuffle(s, i + j < count ? i + j : count - 1);

			scale[j] = one.scale;
			v[j] = dev_read_v4(grad + one.at);
		}
		DEV_UNROLL
		for (u32 j = 0; j < AHEAD; j++)
			if (i + j < count && column < dim) /* a scale may be infinite */
				backward_add(sum, v[j], scale[j]);
	}
}

/* Adds entries begin to end - 1 of the sorted order. */
DEV_FN void backward_add_entries(const struct tbe_args *a, u32 begin, u32 end, u32 column, u32 dim,
				 float *sum)
{
	for (u32 e = begin; e < end; e += 32) {
		struct tbe_source s = {0, 0.0f};

		if (e + DEV_LANE < end)
			s = backward_source(a, a->payloads[a->sorted][e + DEV_LANE]);
		backward_add_lanes(a, s, end - e < 32 ? end - e : 32, column, dim, sum);
	}
}

/* Where the run that reaches past `from` ends; entries before `from` and the one there have `key`. */
DEV_FN u32 backward_run_end(const struct tbe_args *a, u32 from, u32 end, u32 key)
{
	const u32 *keys = a->keys[a->sorted];
	u32 checked = 0;

	for (; from < end && checked < TBE_PIECE; from += 32, checked += 32) {
		u32 same = dev_ballot(from + DEV_LANE < end && keys[from + DEV_LANE] == key);

		if (~same)
			return from + DEV_CTZ(~same);
	}
	if (from >= end)
		return end;
	while (from < end) { /* a long one: keys are sorted */
		u32 middle = from + (end - from) / 2;

		if (keys[middle] == key)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

DEV_FN void backward_note_long(const struct tbe_args *a, u32 begin, u32 length, u32 table, u32 row)
{
	u32 pieces = (length + TBE_PIECE - 1) / TBE_PIECE;

	if (DEV_LANE == 0) {
		u64 old = DEV_ADD(a->long_count, 1ull << 32 | pieces);
		struct tbe_long_run run = {begin, length, table, row, (u32)old, {0, 0, 0}};

		a->long_runs[old >> 32] = run;
	}
}

/* Sums up entries begin to end - 1, a run, and updates its row: any number of columns, without haste. */
DEV_COLD void backward_run(const struct tbe_args *a, const struct tbe_feature *f, u32 begin,
			   u32 end, u32 row)
{
	const u32 type = a->type;
	float squares = 0, rate = 0;

	for (u32 update = a->optimizer != TBE_ADAGRAD; update < 2; update++) {
		if (update)
			rate = backward_rate(a, f, row, squares);
		for (u32 c = 0; c < f->dim; c += 128) {
			u32 column = c + DEV_LANE * 4;
			struct dev_v4 was = backward_take(a, type, f, row, column, (int)update);
			float sum[4] = {0, 0, 0, 0};

			backward_add_entries(a, begin, end, column, f->dim, sum);
			if (update)
				backward_update(a, type, f, row, column, sum, rate, was);
			else
				squares += backward_squares(sum);
		}
	}
}

#define ENTRY_LAST 0x80000000u /* of its run */

/*
 * What a warp has under way: a stretch of the sorted order, and a ring of copies into which gradients
 * and rows come while the warp adds up what is there. Held in registers they would take a loop
 * written out for each, whose instructions come in more slowly than the rows.
 */
struct tbe_stretch {
	struct dev_v2 entry[TBE_STEP]; /* where its gradient is, in 16 bytes; its row, ENTRY_LAST */
	float scale[TBE_STEP];
	struct dev_v4 ring[TBE_RING_BYTES / 16];
};

/* What a lane needs of a table again and again: copies, since what is read through a pointer would be
 * read again after every copy that is started. */
struct tbe_lane {
	const char *grad; /* its columns of the first gradient */
	char *rows;       /* and of row 0 */
	u32 pitch;        /* bytes of a row */
	u32 row0;
	int ok;
};

DEV_FN struct tbe_lane backward_lane(const struct tbe_args *a, u32 type,
				     const struct tbe_feature *f)
{
	u32 width = type == TBE_F32 ? 4 : 2;
	struct tbe_lane l;

	l.grad = (const char *)a->grad + DEV_LANE * 16;
	l.rows = (char *)a->weights + (f->weights + DEV_LANE * 4) * width;
	l.pitch = f->dim * width;
	l.row0 = f->row0;
	l.ok = DEV_LANE * 4 < f->dim;
	return l;
}

/* Starts the copies of an entry: its gradient, and with the last one of a run the row. */
DEV_FN void backward_start(u32 type, const struct tbe_lane *l, struct dev_v2 entry, char *to)
{
	dev_copy_16(to + DEV_LANE * 16, l->grad + (u64)entry.x * 16, l->ok);
	if (entry.y & ENTRY_LAST) {
		const char *from = l->rows + (u64)(entry.y & ~ENTRY_LAST) * l->pitch;

		if (type == TBE_F32)
			dev_copy_16(to + 512 + DEV_LANE * 16, from, l->ok);
		else
			dev_copy_8(to + 512 + DEV_LANE * 8, from, l->ok);
	}
}

/* The row that has come with the last entry of its run. */
DEV_FN struct dev_v4 backward_came(u32 type, const char *at)
{
	struct dev_v4 row = {0, 0, 0, 0};
	struct dev_v2 half;

	if (type == TBE_F32)
		return *(const struct dev_v4 *)(at + 512 + DEV_LANE * 16);
	half = *(const struct dev_v2 *)(at + 512 + DEV_LANE * 8);
	row.x = half.x;
	row.y = half.y;
	return row;
}

/* Adds the entry that has come to the place `at` of the ring; the last one of a run updates its row. */
DEV_FN void backward_entry(const struct tbe_args *a, u32 type, int plain,
			   const struct tbe_feature *f, const struct tbe_lane *l,
			   const struct tbe_stretch *sh, u32 p, const char *at, float *sum)
{
	struct dev_v2 entry = sh->entry[p];
	u32 row = entry.y & ~ENTRY_LAST;
	float rate = a->rate;

	backward_add(sum, *(const struct dev_v4 *)(at + DEV_LANE * 16),
		     plain ? 1.0f : sh->scale[p]);
	if (!(entry.y & ENTRY_LAST))
		return;
	if (!plain && a->optimizer == TBE_ADAGRAD)
		rate = backward_adagrad(a, f, row, backward_squares(sum));
	backward_write(a, type, plain ? 0 : a->stochastic, l->rows + (u64)row * l->pitch,
		       l->row0 + row, DEV_LANE * 4, l->ok, sum, rate, backward_came(type, at));
	sum[0] = sum[1] = sum[2] = sum[3] = 0;
}

/*
 * Adds up entries from to to - 1 of the stretch, which are whole runs, and updates their rows. Up to
 * 128 columns. `plain`: nothing but SGD on unweighted sums, rounded to even, for which the loop is a
 * short one; what takes calls has another.
 */
DEV_FN void backward_stream(const struct tbe_args *a, u32 type, int plain,
			    const struct tbe_feature *f, u32 from, u32 to, struct tbe_stretch *sh)
{
	const u32 ahead = (type == TBE_F32 ? TBE_RING_F32 : TBE_RING_16) - 1,
		  size = type == TBE_F32 ? 1024 : 768, wrap = (ahead + 1) * size;
	struct tbe_lane l = backward_lane(a, type, f);
	float sum[4] = {0, 0, 0, 0};
	u32 put = 0, get = 0;
	char *ring = (char *)sh->ring;

	for (u32 p = from; p < from + ahead; p++) {
		if (p < to)
			backward_start(type, &l, sh->entry[p], ring + put);
		put += size;
		dev_copy_group();
	}
	for (u32 p = from; p < to; p++) {
		if (p + ahead < to)
			backward_start(type, &l, sh->entry[p + ahead], ring + put);
		put = put + size == wrap ? 0 : put + size;
		dev_copy_group();
		if (type == TBE_F32)
			dev_copy_wait(TBE_RING_F32 - 1);
		else
			dev_copy_wait(TBE_RING_16 - 1);
		backward_entry(a, type, plain, f, &l, sh, p, ring + get, sum);
		get = get + size == wrap ? 0 : get + size;
	}
	dev_copy_wait(0);
}

#define STRETCH_STEPS (TBE_STEP / 32)

/* Which entries of a stretch are whole runs that begin there, and the run that goes on behind it. */
struct tbe_runs {
	u32 from, to;
	u32 tail; /* where the run begins that goes on; TBE_STEP: none */
	u32 row;  /* of that run */
};

/* Loads a stretch of the sorted order from entry e0 on. */
DEV_FN struct tbe_runs backward_load(const struct tbe_args *a, const struct tbe_feature *f,
				     struct tbe_segment seg, u32 e0, struct tbe_stretch *sh)
{
	const u32 *keys = a->keys[a->sorted], *payloads = a->payloads[a->sorted];
	u32 lane = DEV_LANE, key[STRETCH_STEPS], payload[STRETCH_STEPS], before = ROW_NONE,
	    after = ROW_NONE;
	struct tbe_runs runs = {TBE_STEP, 0, TBE_STEP, 0};

	if (e0 > seg.begin)
		before = keys[e0 - 1];
	if (seg.end - e0 > TBE_STEP)
		after = keys[e0 + TBE_STEP];
	DEV_UNROLL
	for (u32 i = 0; i < STRETCH_STEPS; i++) {
		u32 at = 32 * i + lane;

		key[i] = at < seg.end - e0 ? keys[e0 + at] : ROW_NONE;
		payload[i] = at < seg.end - e0 ? payloads[e0 + at] : 0;
	}
	DEV_UNROLL
	for (u32 i = 0; i < STRETCH_STEPS; i++) {
		u32 above =
			dev_shfl(i + 1 < STRETCH_STEPS ? key[(i + 1) % STRETCH_STEPS] : after, 0);
		u32 next = dev_shfl(key[i], (lane + 1) & 31), last = dev_shfl_up(key[i], 1), starts,
		    in_table = dev_ballot(key[i] < f->rows);
		struct tbe_source s = {0, 0};
		struct dev_v2 entry;

		starts = dev_ballot(key[i] < f->rows && key[i] != (lane ? last : before));
		before = dev_shfl(key[i], 31);
		if (starts && runs.from == TBE_STEP)
			runs.from = 32 * i + DEV_CTZ(starts);
		if (starts) {
			runs.tail = 32 * i + 31 - DEV_CLZ(starts);
			runs.row = dev_shfl(key[i], runs.tail & 31);
		}
		if (in_table)
			runs.to = 32 * i + 32 - DEV_CLZ(in_table);
		if (key[i] < f->rows)
			s = backward_source(a, payload[i]);
		entry.x = (u32)(s.at >> 2);
		entry.y = key[i] | (key[i] != (lane == 31 ? above : next) ? ENTRY_LAST : 0);
		sh->entry[32 * i + lane] = entry;
		sh->scale[32 * i + lane] = s.scale;
	}
	if (runs.to == TBE_STEP && after == before && runs.from < TBE_STEP)
		runs.to = runs.tail;
	else
		runs.tail = TBE_STEP;
	dev_warp_sync();
	return runs;
}

/* The runs that begin in a stretch. */
DEV_FN void backward_stretch(const struct tbe_args *a, u32 tile, u32 step, u32 type,
			     struct tbe_stretch *sh)
{
	u32 table = a->tile_table[tile];
	struct tbe_segment seg = a->segments[table];
	const struct tbe_feature *f = a->features + a->order[a->tables[table].feature0];
	u32 e0 = seg.begin + (tile - seg.tile0) * TBE_SORT_TILE + step * TBE_STEP;
	struct tbe_runs runs;

	if (e0 >= seg.end)
		return;
	runs = backward_load(a, f, seg, e0, sh);
	if (runs.from >= TBE_STEP)
		return;
	if (f->dim <= 128) {
		if (a->plain)
			backward_stream(a, type, 1, f, runs.from, runs.to, sh);
		else
			backward_stream(a, type, 0, f, runs.from, runs.to, sh);
	} else {
		for (u32 p = runs.from, end; p < runs.to; p = end) {
			for (end = p + 1; !(sh->entry[end - 1].y & ENTRY_LAST);)
				end++;
			backward_run(a, f, e0 + p, e0 + end, sh->entry[p].y & ~ENTRY_LAST);
		}
	}
	if (runs.tail < TBE_STEP) {
		u32 begin = e0 + runs.tail,
		    end = backward_run_end(a, e0 + TBE_STEP, seg.end, runs.row);

		if (end - begin >= TBE_PIECE)
			backward_note_long(a, begin, end - begin, table, runs.row);
		else
			backward_run(a, f, begin, end, runs.row);
	}
	dev_warp_sync();
}

/* Warps fetch tickets, one ahead of what they work on. */
#define BACKWARD_SHORT(name, type)                                                                 \
	DEV_KERNEL_OF(TBE_BLOCK, TBE_SHORT_BLOCKS, name)(DEV_PARAM struct tbe_args a)              \
	{                                                                                          \
		enum { STEPS = TBE_SORT_TILE / TBE_STEP };                                         \
		struct tbe_stretch *sh = (struct tbe_stretch *)dev_shared() + DEV_TID / 32;        \
		u32 tiles = *a.tile_total, ticket = 0, next = 0;                                   \
                                                                                                   \
		if (DEV_LANE == 0)                                                                 \
			ticket = DEV_ADD(a.ticket, 1u);                                            \
		ticket = dev_shfl(ticket, 0);                                                      \
		while (ticket / STEPS < tiles) {                                                   \
			if (DEV_LANE == 0)                                                         \
				next = DEV_ADD(a.ticket, 1u);                                      \
			backward_stretch(&a, ticket / STEPS, ticket % STEPS, type, sh);            \
			ticket = dev_shfl(next, 0);                                                \
		}                                                                                  \
	}
BACKWARD_SHORT(tbe_backward_short_f32, TBE_F32)
BACKWARD_SHORT(tbe_backward_short_f16, TBE_F16)
BACKWARD_SHORT(tbe_backward_short_bf16, TBE_BF16)

#include "tbe_backward_long.h"

/* Gradients of the sample weights, with the rows as they are before the update. A warp takes a bag of
 * feature y at a time, a lane group of it 4 columns a lane. */
DEV_KERNEL(TBE_BLOCK, tbe_backward_samples)(DEV_PARAM struct tbe_args a)
{
	const struct tbe_feature *f = a.features + DEV_BLOCK_Y;
	u32 warp = DEV_BLOCK_X * BACKWARD_WARPS + DEV_TID / 32,
	    warps = DEV_BLOCKS_X * BACKWARD_WARPS;
	u32 lane = DEV_LANE;

	for (u32 bag = warp; bag < f->bags; bag += warps) {
		u32 begin = tbe_offset(&a, (u64)f->bag0 + bag),
		    end = tbe_offset(&a, (u64)f->bag0 + bag + 1);
		u64 grad = f->out + (u64)bag * f->out_stride;
		float scale =
			a.pooling == TBE_MEAN && end > begin ? tbe_mean_scale(end - begin) : 1.0f;

		for (u32 p = begin; p < end; p++) {
			u32 row = tbe_row(&a, p, f->rows);
			float dot = 0;

			for (u32 c = lane * 4; c < f->dim; c += 128) {
				struct dev_v4 g = backward_grad(&a, grad, c, f->dim, 1),
					      w = backward_take(&a, a.type, f, row, c,
								row != ROW_NONE);
				float v[4] = {dev_float(w.x), dev_float(w.y), dev_float(w.z),
					      dev_float(w.w)};

				if (a.type != TBE_F32) {
					v[0] = tbe_half(a.type, w.x, 0);
					v[1] = tbe_half(a.type, w.x, 1);
					v[2] = tbe_half(a.type, w.y, 0);
					v[3] = tbe_half(a.type, w.y, 1);
				}
				dot = dev_fma(dev_float(g.x), v[0], dot);
				dot = dev_fma(dev_float(g.y), v[1], dot);
				dot = dev_fma(dev_float(g.z), v[2], dot);
				dot = dev_fma(dev_float(g.w), v[3], dot);
			}
			dot = dev_warp_sum(dot);
			if (lane == 0)
				a.sample_grads[p] = row == ROW_NONE ? 0 : dot * scale;
		}
	}
}

#endif
