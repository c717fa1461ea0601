/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of TBE_PIECE lookups and more, part of tbe_backward.h: a warp sums a piece, and the sums go up a
 * tree whose shape only the run's length decides. */
#ifndef WAYLAY_KERNELS_TBE_BACKWARD_LONG_H
#define WAYLAY_KERNELS_TBE_BACKWARD_LONG_H

#define LONG_FAN 32 /* sums that are added up at a time */

/* Adds up to 32 entries from e on, of which `end` is behind the last; neighbours of the same bag are
 * read once. The lane's own payload is given. */
DEV_FN void long_batch(const struct tbe_args *a, u32 e, u32 end, u32 payload, u32 column, u32 dim,
		       float *sum)
{
	u32 lane = DEV_LANE, valid = end - e < 32 ? end - e : 32;
	u32 before = dev_shfl_up(payload, 1), above;
	u32 heads =
		dev_ballot(lane < valid && (!lane || payload != before || a->sample_weights != 0));
	const float *grad = a->grad + (column < dim ? column : 0);
	struct tbe_source s = {0, 0.0f};

	above = heads >> lane >> 1;
	if (heads >> lane & 1) {
		u32 alike = (above ? lane + 1 + DEV_CTZ(above) : valid) - lane;

		s = backward_source(a, payload);
		s.scale *= (float)alike;
	}
	while (heads) {
		struct dev_v4 v[8];
		float scale[8];
		u32 left = DEV_POPC(heads), l = 0;

		DEV_UNROLL
		for (u32 j = 0; j < 8; j++) {
			l = heads ? DEV_CTZ(heads) : l; /* past the last one, that again */
			scale[j] = dev_shfl_float(s.scale, l);
			v[j] = dev_read_v4(grad + dev_shfl_u64(s.at, l));
			heads &= heads - 1;
		}
		DEV_UNROLL
		for (u32 j = 0; j < 8; j++)
			if (j < left && column < dim)
				backward_add(sum, v[j], scale[j]);
	}
}

DEV_FN float *long_partial(const struct tbe_args *a, u32 place, u32 column)
{
	return a->partial + (u64)place * a->partial_stride + column;
}

DEV_FN void long_store(const struct tbe_args *a, u32 place, u32 column, u32 dim, const float *sum)
{
	struct dev_v4 bits = {dev_bits(sum[0]), dev_bits(sum[1]), dev_bits(sum[2]),
			      dev_bits(sum[3])};

	if (column < dim)
		dev_put_v4((struct dev_v4 *)long_partial(a, place, column), bits);
}

/* The sum of one piece to its place. */
DEV_FN void long_piece(const struct tbe_args *a, struct tbe_long_run run, u32 place, u32 dim)
{
	const u32 *payloads = a->payloads[a->sorted];
	u32 begin = run.begin + (place - run.piece0) * TBE_PIECE, end = run.begin + run.length;

	end = end - begin < TBE_PIECE ? end : begin + TBE_PIECE;
	for (u32 c = 0; c < dim; c += 128) {
		u32 column = c + DEV_LANE * 4,
		    payload = DEV_LANE < end - begin ? payloads[begin + DEV_LANE] : ROW_NONE;
		float sum[4] = {0, 0, 0, 0};

		for (u32 e = begin; e < end; e += 32) {
			u32 here = payload;

			payload = end - e > 32 + DEV_LANE ? payloads[e + 32 + DEV_LANE] : ROW_NONE;
			long_batch(a, e, end, here, column, dim, sum);
		}
		long_store(a, place, column, dim, sum);
	}
}

/* Adds up `count` sums that lie `apart` pieces from each other into the first one's place. */
DEV_FN void long_sums(const struct tbe_args *a, u32 first, u32 apart, u32 count, u32 dim)
{
	for (u32 c = 0; c < dim; c += 128) {
		u32 column = c + DEV_LANE * 4;
		float sum[4] = {0, 0, 0, 0};

		for (u32 i = 0; i < count; i += 8) {
			struct dev_v4 v[8];

			DEV_UNROLL
			for (u32 j = 0; j < 8; j++)
				v[j] = dev_take_v4(long_partial(a, first + (i + j) * apart, column),
						   i + j < count && column < dim);
			DEV_UNROLL
			for (u32 j = 0; j < 8; j++)
				backward_add(sum, v[j], 1.0f);
		}
		long_store(a, first, column, dim, sum);
	}
}

/* The row's update from its whole gradient, whose columns each lane has stored itself. */
DEV_FN void long_apply(const struct tbe_args *a, const struct tbe_feature *f,
		       struct tbe_long_run run)
{
	const u32 type = a->type;
	float squares = 0, rate;

	for (u32 update = 0; update < 2; update++) {
		rate = update ? backward_rate(a, f, run.row, squares) : 0;
		for (u32 c = 0; c < f->dim; c += 128) {
			u32 column = c + DEV_LANE * 4;
			struct dev_v4 g =
				dev_take_v4(long_partial(a, run.piece0, column), column < f->dim);
			float sum[4] = {dev_float(g.x), dev_float(g.y), dev_float(g.z),
					dev_float(g.w)};

			if (update)
				backward_update(a, type, f, run.row, column, sum, rate,
						backward_take(a, type, f, run.row, column, 1));
			else
				squares += backward_squares(sum);
		}
	}
}

/* Whether this warp is the last of `members` to arrive. What the others stored before is seen after. */
DEV_FN int long_last(const struct tbe_args *a, u32 counter, u32 members)
{
	u32 last = 0;

	dev_warp_sync();
	if (DEV_LANE == 0) {
		last = dev_add_acq_rel(&a->arrived[counter], 1) == members - 1;
		if (last)
			a->arrived[counter] = 0;
	}
	dev_warp_sync();
	return (int)dev_shfl(last, 0);
}

/*
 * After piece `index` of a run is summed: up the tree as long as this warp is the last one. The sum of
 * a group lies where its first piece's was; its counter stands at the same place, one further for each
 * level.
 */
DEV_FN void long_climb(const struct tbe_args *a, const struct tbe_feature *f,
		       struct tbe_long_run run, u32 index)
{
	u32 count = (run.length + TBE_PIECE - 1) / TBE_PIECE, apart = 1;

	for (u32 level = 0; count > 1; level++) {
		u32 group = index / LONG_FAN, first = group * LONG_FAN;
		u32 members = count - first < LONG_FAN ? count - first : LONG_FAN;
		u32 place = run.piece0 + first * apart;

		/* a group of one has nobody to wait for, and at the run's end no place of its own to
		 * count at */
		if (members > 1) {
			if (!long_last(a, place + level, members))
				return;
			long_sums(a, place, apart, members, f->dim);
		}
		index = group;
		count = (count + LONG_FAN - 1) / LONG_FAN;
		apart *= LONG_FAN;
	}
	long_apply(a, f, run);
}

DEV_KERNEL_OF(TBE_BLOCK, 4, tbe_backward_long)(DEV_PARAM struct tbe_args a)
{
	u64 all = *a.long_count;
	u32 ticket = 0, next = 0;

	if (DEV_LANE == 0)
		ticket = DEV_ADD(&a.ticket[1], 1u);
	ticket = dev_shfl(ticket, 0);
	while (ticket < (u32)all) {
		u32 low = 0, high = (u32)(all >> 32) - 1;
		const struct tbe_feature *f;
		struct tbe_long_run run;

		if (DEV_LANE == 0)
			next = DEV_ADD(&a.ticket[1], 1u);
		while (low < high) {
			u32 middle = (low + high + 1) / 2;

			if (a.long_runs[middle].piece0 <= ticket)
				low = middle;
			else
				high = middle - 1;
		}
		run = a.long_runs[low];
		f = a.features + a.order[a.tables[run.table].feature0];
		long_piece(&a, run, ticket, f->dim);
		long_climb(&a, f, run, ticket - run.piece0);
		ticket = dev_shfl(next, 0);
	}
}

#endif
