/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backward over the sorted lookups: for each run of lookups of one row, the sum of their gradients and
 * one update of the row. Warps fetch their next entries by ticket, so that a few long steps hold no
 * one up.
 *
 * A run shorter than TBE_PIECE is summed by one warp in order. A longer one goes on a list, and the
 * second kernel sums its pieces; of every 256 pieces, and of every 256 of these sums, the block that
 * arrives last adds them up in order, and the last of all updates the row. Which block that is makes
 * no difference to any sum: results are the same on every run and for every grid.
 */
#ifndef WAYLAY_KERNELS_TBE_BACKWARD_H
#define WAYLAY_KERNELS_TBE_BACKWARD_H

#include "tbe_backward_rows.h"
#include "tbe_sort.h"

#define BACKWARD_WARPS (TBE_BLOCK / 32)
#define BACKWARD_AHEAD 8 /* runs a warp under way, a power of two */

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

/* Adds the lookups that lanes first to first + count - 1 hold, in order. */
DEV_FN void backward_add_lanes(const struct tbe_args *a, struct tbe_source s, u32 first, u32 count,
			       u32 column, u32 dim, float *sum)
{
	enum { AHEAD = 4 };

	for (u32 i = 0; i < count; i += AHEAD) {
		struct dev_v4 v[AHEAD];
		float scale[AHEAD];

		DEV_UNROLL
		for (u32 j = 0; j < AHEAD; j++) {
			struct tbe_source one = backward_shuffle(s, (first + i + j) & 31);

			scale[j] = one.scale;
			v[j] = backward_grad(a, one.at, column, dim, i + j < count);
		}
		DEV_UNROLL
		for (u32 j = 0; j < AHEAD; j++)
			if (i + j < count) /* a scale may be infinite */
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
		backward_add_lanes(a, s, 0, end - e < 32 ? end - e : 32, column, dim, sum);
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

/* The lookups of a run after its first: those in the lanes of the step, then `extra` entries from
 * `rest` on. */
struct tbe_run {
	u32 row, lane, count; /* count of the lanes, the first included */
	u32 rest, extra;
};

/* Rare for most tables, and kept out of the way of what is not. Sums travel as bits, in registers. */
DEV_COLD struct dev_v4 backward_rest(const struct tbe_args *a, u32 dim, struct tbe_source s,
				     struct tbe_run run, u32 column, struct dev_v4 bits)
{
	float sum[4] = {dev_float(bits.x), dev_float(bits.y), dev_float(bits.z), dev_float(bits.w)};

	if (run.count > 1)
		backward_add_lanes(a, s, run.lane + 1, run.count - 1, column, dim, sum);
	if (run.extra)
		backward_add_entries(a, run.rest, run.rest + run.extra, column, dim, sum);
	bits.x = dev_bits(sum[0]);
	bits.y = dev_bits(sum[1]);
	bits.z = dev_bits(sum[2]);
	bits.w = dev_bits(sum[3]);
	return bits;
}

/* The gradient of four columns, given that of the first lookup. */
DEV_FN void backward_columns(const struct tbe_args *a, u32 dim, struct tbe_source s,
			     struct tbe_run run, u32 column, struct dev_v4 first, float *sum)
{
	float scale = dev_shfl_float(s.scale, run.lane);

	first.x = dev_bits(scale * dev_float(first.x));
	first.y = dev_bits(scale * dev_float(first.y));
	first.z = dev_bits(scale * dev_float(first.z));
	first.w = dev_bits(scale * dev_float(first.w));
	if (run.count > 1 || run.extra)
		first = backward_rest(a, dim, s, run, column, first);
	sum[0] = dev_float(first.x);
	sum[1] = dev_float(first.y);
	sum[2] = dev_float(first.z);
	sum[3] = dev_float(first.w);
}

/* A row of more than 128 columns: once over it for its rate, once for its update. */
DEV_COLD void backward_wide(const struct tbe_args *a, const struct tbe_feature *f,
			    struct tbe_source s, struct tbe_run run)
{
	const u32 type = a->type;
	float squares = 0, rate = 0, sum[4];

	for (u32 update = a->optimizer != TBE_ADAGRAD; update < 2; update++) {
		if (update)
			rate = backward_rate(a, f, run.row, squares);
		for (u32 c = 0; c < f->dim; c += 128) {
			u32 column = c + DEV_LANE * 4;
			struct dev_v4 first = backward_grad(a, dev_shfl_u64(s.at, run.lane), column,
							    f->dim, 1),
				      was = backward_take(a, type, f, run.row, column, (int)update);

			backward_columns(a, f->dim, s, run, column, first, sum);
			if (update)
				backward_update(a, type, f, run.row, column, sum, rate, was);
			else
				squares += backward_squares(sum);
		}
	}
}

/* What a warp has under way: a lane's columns of the first gradient and of the row, run by run. */
struct tbe_ahead {
	struct dev_v4 grad[BACKWARD_AHEAD][32];
	struct dev_v4 row[BACKWARD_AHEAD][32]; /* 16-bit types use the first halves */
};

/* Starts the copies of a run whose first lookup lane l holds. */
DEV_FN void backward_start(const struct tbe_args *a, u32 type, const struct tbe_feature *f, u32 row,
			   u64 at, u32 column, struct dev_v4 *grad, struct dev_v4 *to)
{
	u64 from = f->weights + (u64)row * f->dim + column;
	int ok = column < f->dim;

	dev_copy_16(grad, a->grad + at + column, ok);
	if (type == TBE_F32)
		dev_copy_16(to, (const float *)a->weights + from, ok);
	else
		dev_copy_8(to, (const unsigned short *)a->weights + from, ok);
}

/* Sums up the run that starts at the lowest bit of `starts`, and updates its row. */
DEV_FN void backward_run(const struct tbe_args *a, u32 type, const struct tbe_feature *f,
			 struct tbe_source s, const struct tbe_run *run, u32 column,
			 struct dev_v4 first, struct dev_v4 was)
{
	float sum[4], rate;

	backward_columns(a, f->dim, s, *run, column, first, sum);
	rate = backward_rate(a, f, run->row,
			     a->optimizer == TBE_ADAGRAD ? backward_squares(sum) : 0);
	backward_update(a, type, f, run->row, column, sum, rate, was);
}

/*
 * The runs that begin among entries e to e + 31 of a segment, whose keys and sources the lanes hold.
 * What they need first is copied to shared memory some runs ahead: held in registers it would take a
 * loop written out that often, whose instructions come in more slowly than the rows.
 */
DEV_FN void backward_step(const struct tbe_args *a, u32 table, const struct tbe_feature *f,
			  struct tbe_segment seg, u32 e, u32 key, u32 before, struct tbe_source s,
			  u32 type, struct tbe_ahead *sh)
{
	u32 lane = DEV_LANE, column = lane * 4, edges, starts, coming, last, end = 0;

	edges = dev_ballot(key >= f->rows || key != before);
	starts = dev_ballot(key < f->rows && key != before);
	if (!starts)
		return;
	last = 31 - DEV_CLZ(starts);
	if (!(edges >> last >> 1)) { /* the last run may go on */
		u32 row = dev_shfl(key, last);

		end = backward_run_end(a, e + 32, seg.end, row);
		if (end <= e + 32)
			end = 0;
		else if (end - (e + last) >= TBE_PIECE) {
			backward_note_long(a, e + last, end - (e + last), table, row);
			starts &= ~(1u << last);
			end = 0;
		}
	}
	coming = f->dim <= 128 ? starts : 0;
	for (u32 i = 0; starts; i++) {
		struct tbe_run run;
		u32 above;

		if (coming) {
			u32 l = DEV_CTZ(coming), row = dev_shfl(key, l);
			u64 at = dev_shfl_u64(s.at, l);

			backward_start(a, type, f, row, at, column,
				       &sh->grad[i % BACKWARD_AHEAD][lane],
				       &sh->row[i % BACKWARD_AHEAD][lane]);
			coming &= coming - 1;
		}
		dev_copy_group();
		if (i < BACKWARD_AHEAD - 1)
			continue;
		run.lane = DEV_CTZ(starts);
		run.row = dev_shfl(key, run.lane);
		above = edges >> run.lane >> 1;
		run.count = above ? DEV_CTZ(above) + 1 : 32 - run.lane;
		run.rest = e + 32;
		run.extra = run.lane == last && end ? end - (e + 32) : 0;
		starts &= starts - 1;
		dev_copy_wait(BACKWARD_AHEAD - 1);
		if (f->dim > 128)
			backward_wide(a, f, s, run);
		else
			backward_run(a, type, f, s, &run, column,
				     sh->grad[(i + 1) % BACKWARD_AHEAD][lane],
				     sh->row[(i + 1) % BACKWARD_AHEAD][lane]);
	}
	dev_copy_wait(0);
}

/* The entries of a ticket: two steps, whose keys and payloads come in together. */
DEV_FN void backward_entries(const struct tbe_args *a, u32 tile, u32 step, u32 type,
			     struct tbe_ahead *sh)
{
	u32 table = sort_table_of(a, tile), lane = DEV_LANE, key[2], payload[2], before;
	struct tbe_segment seg = a->segments[table];
	const struct tbe_feature *f = a->features + a->order[a->tables[table].feature0];
	u32 e = seg.begin + (tile - seg.tile0) * TBE_SORT_TILE + step * TBE_STEP;
	struct tbe_source s[2];

	if (e >= seg.end)
		return;
	before = e > seg.begin ? a->keys[a->sorted][e - 1] : ROW_NONE;
	DEV_UNROLL
	for (u32 i = 0; i < 2; i++) {
		u32 at = e + 32 * i + lane;

		key[i] = at < seg.end ? a->keys[a->sorted][at] : ROW_NONE;
		payload[i] = at < seg.end ? a->payloads[a->sorted][at] : 0;
	}
	DEV_UNROLL
	for (u32 i = 0; i < 2; i++) {
		s[i].at = 0;
		s[i].scale = 0;
		if (key[i] < f->rows)
			s[i] = backward_source(a, payload[i]);
	}
	DEV_UNROLL
	for (u32 i = 0; i < 2; i++) {
		u32 below = dev_shfl_up(key[i], 1), last = dev_shfl(key[i], 31);

		backward_step(a, table, f, seg, e + 32 * i, key[i], lane ? below : before, s[i],
			      type, sh);
		before = last;
	}
}

/* Warps fetch tickets, one ahead of what they work on. */
#define BACKWARD_SHORT(name, type)                                                                 \
	DEV_KERNEL_OF(TBE_BLOCK, 2, name)(DEV_PARAM struct tbe_args a)                             \
	{                                                                                          \
		enum { STEPS = TBE_SORT_TILE / TBE_STEP };                                         \
		struct tbe_ahead *sh = (struct tbe_ahead *)dev_shared() + DEV_TID / 32;            \
		u32 tiles = *a.tile_total, ticket = 0, next = 0;                                   \
                                                                                                   \
		if (DEV_LANE == 0)                                                                 \
			ticket = DEV_ADD(a.ticket, 1u);                                            \
		ticket = dev_shfl(ticket, 0);                                                      \
		while (ticket / STEPS < tiles) {                                                   \
			if (DEV_LANE == 0)                                                         \
				next = DEV_ADD(a.ticket, 1u);                                      \
			backward_entries(&a, ticket / STEPS, ticket % STEPS, type, sh);            \
			ticket = dev_shfl(next, 0);                                                \
		}                                                                                  \
	}
BACKWARD_SHORT(tbe_backward_short_f32, TBE_F32)
BACKWARD_SHORT(tbe_backward_short_f16, TBE_F16)
BACKWARD_SHORT(tbe_backward_short_bf16, TBE_BF16)

/* The next number of a ticket counter for the whole block. */
DEV_FN u32 backward_ticket(u32 *counter, u32 *shared)
{
	u32 ticket;

	DEV_SYNC();
	if (DEV_TID == 0)
		*shared = DEV_ADD(counter, 1u);
	DEV_SYNC();
	ticket = *shared;
	return ticket;
}

struct tbe_long_shared {
	u32 ticket, last;
	float sums[BACKWARD_WARPS][128];
};

/* Adds up a piece, 32 entries a warp, and then the warps; neighbours of the same bag are read once. */
DEV_FN void long_piece(const struct tbe_args *a, struct tbe_long_run run, u32 piece, u32 column0,
		       u32 dim, struct tbe_long_shared *sh)
{
	u32 begin = run.begin + piece * TBE_PIECE, end = run.begin + run.length, lane = DEV_LANE;
	u32 e = begin + DEV_TID, payload = ROW_NONE, before, heads, alike = 1, above;
	struct tbe_source s = {0, 0.0f};
	float sum[4] = {0, 0, 0, 0};

	end = end - begin < TBE_PIECE ? end : begin + TBE_PIECE;
	if (e < end)
		payload = a->payloads[a->sorted][e];
	before = dev_shfl_up(payload, 1);
	heads = dev_ballot(e < end && (!lane || payload != before || a->sample_weights != 0));
	above = heads >> lane >> 1;
	if (e < end) {
		u32 valid = end - (e - lane) < 32 ? end - (e - lane) : 32; /* lanes with an entry */

		alike = (above ? lane + 1 + DEV_CTZ(above) : valid) - lane;
		if (heads >> lane & 1) {
			s = backward_source(a, payload);
			s.scale *= (float)alike;
		}
	}
	while (heads) {
		struct dev_v4 v[8];
		float scale[8];

		DEV_UNROLL
		for (u32 j = 0; j < 8; j++) {
			u32 l = heads ? DEV_CTZ(heads) : 0;
			u64 at = dev_shfl_u64(s.at, l);

			scale[j] = dev_shfl_float(s.scale, l);
			if (!heads)
				scale[j] = 0;
			v[j] = backward_grad(a, at, column0 + lane * 4, dim, heads != 0);
			heads &= heads - 1;
		}
		DEV_UNROLL
		for (u32 j = 0; j < 8; j++)
			backward_add(sum, v[j], scale[j]);
	}
	for (u32 i = 0; i < 4; i++)
		sh->sums[DEV_TID / 32][lane * 4 + i] = sum[i];
}

/* Adds up `count` sums that lie `apart` pieces from each other, 32 a warp. */
DEV_FN void long_sums(const struct tbe_args *a, u32 first, u32 apart, u32 count, u32 column0,
		      u32 dim, struct tbe_long_shared *sh)
{
	u32 warp = DEV_TID / 32, lane = DEV_LANE, column = column0 + lane * 4;
	u32 end = count < (warp + 1) * 32 ? count : (warp + 1) * 32;
	float sum[4] = {0, 0, 0, 0};

	for (u32 i = warp * 32; i < end; i++) {
		const float *p =
			a->partial + ((u64)first + (u64)i * apart) * a->partial_stride + column;

		if (column < dim)
			for (u32 k = 0; k < 4; k++)
				sum[k] += p[k];
	}
	for (u32 i = 0; i < 4; i++)
		sh->sums[warp][lane * 4 + i] = sum[i];
}

/* The warps' sums into a place of `partial`. */
DEV_FN void long_combine(const struct tbe_args *a, u32 place, u32 column0, u32 dim,
			 struct tbe_long_shared *sh)
{
	DEV_SYNC();
	if (DEV_TID < 128 && column0 + DEV_TID < dim) {
		float sum = 0;

		for (u32 w = 0; w < BACKWARD_WARPS; w++)
			sum += sh->sums[w][DEV_TID];
		a->partial[(u64)place * a->partial_stride + column0 + DEV_TID] = sum;
	}
	DEV_SYNC();
}

/* The row's update from its whole gradient, by the first warp. */
DEV_FN void long_apply(const struct tbe_args *a, const struct tbe_feature *f,
		       struct tbe_long_run run)
{
	const float *g = a->partial + (u64)run.piece0 * a->partial_stride;
	const u32 type = a->type;
	float squares = 0, rate;

	if (DEV_TID >= 32)
		return;
	for (u32 c = 0; c < f->dim; c += 128) {
		u32 column = c + DEV_LANE * 4;
		float sum[4];

		for (u32 i = 0; i < 4; i++)
			sum[i] = column < f->dim ? g[column + i] : 0;
		squares += backward_squares(sum);
	}
	rate = backward_rate(a, f, run.row, squares);
	for (u32 c = 0; c < f->dim; c += 128) {
		u32 column = c + DEV_LANE * 4;
		struct dev_v4 was = backward_take(a, type, f, run.row, column, 1);
		float sum[4];

		for (u32 i = 0; i < 4; i++)
			sum[i] = column < f->dim ? g[column + i] : 0;
		backward_update(a, type, f, run.row, column, sum, rate, was);
	}
}

/* Whether this block is the last of `members` to arrive. */
DEV_FN int long_last(const struct tbe_args *a, u32 counter, u32 members, struct tbe_long_shared *sh)
{
	if (DEV_TID == 0) {
		sh->last = dev_add_acq_rel(&a->arrived[counter], 1) == members - 1;
		if (sh->last)
			a->arrived[counter] = 0;
	}
	DEV_SYNC();
	return (int)sh->last;
}

/*
 * After piece `index` of a run is summed: up the tree as long as this block is the last one. The sum
 * of a group lies where its first piece's was; its counter stands at the same place, one further for
 * each level.
 */
DEV_FN void long_climb(const struct tbe_args *a, const struct tbe_feature *f,
		       struct tbe_long_run run, u32 index, struct tbe_long_shared *sh)
{
	u32 count = (run.length + TBE_PIECE - 1) / TBE_PIECE, apart = 1;

	for (u32 level = 0; count > 1; level++) {
		u32 group = index / TBE_PIECE, first = group * TBE_PIECE;
		u32 members = count - first < TBE_PIECE ? count - first : TBE_PIECE;
		u32 place = run.piece0 + first * apart;

		if (!long_last(a, place + level, members, sh))
			return;
		for (u32 c = 0; c < f->dim; c += 128) {
			DEV_SYNC();
			long_sums(a, place, apart, members, c, f->dim, sh);
			long_combine(a, place, c, f->dim, sh);
		}
		index = group;
		count = (count + TBE_PIECE - 1) / TBE_PIECE;
		apart *= TBE_PIECE;
	}
	long_apply(a, f, run);
}

DEV_KERNEL(TBE_BLOCK, tbe_backward_long)(DEV_PARAM struct tbe_args a)
{
	struct tbe_long_shared *sh = (struct tbe_long_shared *)dev_shared();
	u64 all = *a.long_count;

	for (;;) {
		u32 ticket = backward_ticket(&a.ticket[1], &sh->ticket), low = 0,
		    high = (u32)(all >> 32);
		const struct tbe_feature *f;
		struct tbe_long_run run;

		if (ticket >= (u32)all)
			return;
		high--;
		while (low < high) {
			u32 middle = (low + high + 1) / 2;

			if (a.long_runs[middle].piece0 <= ticket)
				low = middle;
			else
				high = middle - 1;
		}
		run = a.long_runs[low];
		f = a.features + a.order[a.tables[run.table].feature0];
		for (u32 c = 0; c < f->dim; c += 128) {
			long_piece(&a, run, ticket - run.piece0, c, f->dim, sh);
			long_combine(&a, ticket, c, f->dim, sh);
		}
		long_climb(&a, f, run, ticket - run.piece0, sh);
	}
}

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
