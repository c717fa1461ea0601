/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler in one launch. `group_blocks` thread blocks share a sample (one block: no traffic but
 * the data's).
 *
 *  1. classify  Read the labels once. Keep two bits an item (positive, negative) and count the
 * classes.
 *  2. mark      Keys are uniform, so the threshold key of a class with `want` of `have` items drawn
 * is near want / have x 2^32. Items below a window around that are drawn for certain; the few
 * inside it are candidates and are counted into bins.
 *  3. resolve   The bins give the exact threshold; candidates up to it are drawn too. A block's
 * drawn items are then counted, which gives every block the rank of its first.
 *  4. emit      Walk the drawn bits in order of index and write index, label and row to slot
 * order(rank).
 *
 * A window that misses the threshold, or one that holds too much (each happens about once in a
 * million draws), leads to an exact search by the key's bits. Results never depend on which way was
 * taken.
 *
 * Items are kept in groups of 32 x per_lane: word j of a group holds item `lane x per_lane + j` of
 * the group in bit `lane`, as a vector load of per_lane labels by each lane delivers them.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_FUSED_H
#define WAYLAY_KERNELS_SAMPLER_FUSED_H

#include "sampler_emit.h"

/* Where a thread block stands: its sample, its place in the group, its bits. */
struct fused {
	const struct sampler_args *a;
	struct sampler_fused_shared *sh;
	struct sampler_group *group;
	u32 *bits; /* of the calling thread's warp: a group has per_lane words of positives, then as
		      many of the rest */
	u32 sample, member;
	u32 first;  /* item where the calling thread's warp begins */
	u32 groups; /* groups of items a warp */
};

/* All blocks of the group have passed when the counter reaches `target`. */
DEV_FN void group_barrier(u32 *counter, u32 target)
{
	DEV_SYNC();
	if (DEV_TID == 0) {
		dev_add_acq_rel(counter, 1);
		while (dev_load_acquire(counter) < target)
			dev_pause();
	}
	DEV_SYNC();
}

/* The labels from `item` on that one lane takes (two of 8 bytes, else four), as they lie in memory;
 * 2 from `end` on. */
DEV_FN void load_labels(const unsigned char *labels, u32 item, u32 end, int aligned,
			u32 label_bytes, struct dev_v4 *raw)
{
	u32 w[4] = {2, 2, 2, 2};

	if (label_bytes == 8) {
		w[1] = w[3] = 0;
		if (aligned && item + 2 <= end) {
			*raw = dev_load16_stream(labels + (u64)item * 8);
			return;
		}
		for (u32 j = 0; j < 2; j++)
			if (item + j < end) {
				u64 v = ((const u64 *)labels)[item + j];

				w[2 * j] = (u32)v;
				w[2 * j + 1] = (u32)(v >> 32);
			}
	} else if (label_bytes == 4) {
		if (aligned && item + 4 <= end) {
			*raw = dev_load16_stream(labels + (u64)item * 4);
			return;
		}
		for (u32 j = 0; j < 4; j++)
			if (item + j < end)
				w[j] = ((const u32 *)labels)[item + j];
	} else if (aligned && item + 4 <= end) {
		w[0] = *(const u32 *)(labels + item); /* taken apart below */
	} else {
		w[0] = 0x02020202u;
		for (u32 j = 0; j < 4; j++)
			if (item + j < end)
				w[0] = (w[0] & ~(0xffu << 8 * j)) | (u32)labels[item + j] << 8 * j;
	}
	raw->x = w[0];
	raw->y = w[1];
	raw->z = w[2];
	raw->w = w[3];
}

/* Label j of a lane, from what load_labels gave: 0, 1 or something else. */
DEV_FN u32 class_of(struct dev_v4 raw, u32 j, u32 label_bytes)
{
	if (label_bytes == 8) {
		u32 low = j ? raw.z : raw.x, high = j ? raw.w : raw.y;

		return high ? 2 : low;
	}
	if (label_bytes == 4)
		return j == 0 ? raw.x : j == 1 ? raw.y : j == 2 ? raw.z : raw.w;
	return raw.x >> 8 * j & 0xff;
}

/* Phase 1: bits of the warp's items and, in shared memory, how many of each class the block has. */
DEV_FN void fused_classify(struct fused *f, u32 per_lane, u32 label_bytes)
{
	const struct sampler_args *a = f->a;
	const unsigned char *labels =
		(const unsigned char *)a->labels + (u64)f->sample * a->n * label_bytes;
	int aligned = ((u64)(unsigned long)labels & (label_bytes == 1 ? 3 : 15)) == 0;
	u32 lane = DEV_LANE, have_pos = 0, have_neg = 0;
	u32 end = f->first + a->warp_items < a->n ? f->first + a->warp_items : a->n;

	for (u32 g = 0; g < f->groups; g += 4) {
		struct dev_v4 raw[4];

		for (u32 s = 0; s < 4; s++) /* four loads in flight a lane */
			load_labels(labels, f->first + ((g + s) * 32 + lane) * per_lane, end,
				    aligned, label_bytes, &raw[s]);
		for (u32 s = 0; s < 4; s++) {
			u32 mine = 0;

			if (g + s >= f->groups)
				break;
			for (u32 j = 0; j < per_lane; j++) {
				u32 c = class_of(raw[s], j, label_bytes);
				u32 pos = dev_ballot(c == 1), neg = dev_ballot(c == 0);

				have_pos += DEV_POPC(pos);
				have_neg += DEV_POPC(neg);
				if (lane == j)
					mine = pos;
				if (lane == per_lane + j)
					mine = neg;
			}
			if (lane < 2 * per_lane)
				f->bits[(g + s) * 2 * per_lane + lane] = mine;
		}
	}
	if (lane == 0) {
		DEV_ADD(&f->sh->have[0], have_pos);
		DEV_ADD(&f->sh->have[1], have_neg);
	}
}

/* Where the threshold key of a class with `want` of `have` items drawn must be looked for. */
DEV_FN void fused_window(const struct sampler_args *a, struct sampler_fused_shared *sh, u32 c)
{
	float have = (float)sh->have[c], want = (float)sh->want[c], middle, half;
	u64 low, high;

	if (sh->want[c] == 0 || sh->want[c] == sh->have[c]) {
		/* None: nothing lies below 0. All: everything below the last key is certain, and it
		 * is a candidate. */
		sh->low[c] = sh->want[c] ? 0xffffffffu : 0;
		sh->width[c] = 1;
	} else {
		middle = want / have * 4294967296.0f;
		half = (a->window * dev_sqrt(want * (1.0f - want / have)) +
			4.0f * (a->window > 0)) /
		       have * 4294967296.0f;
		low = middle > half ? (u64)(middle - half) : 0;
		if (low > 0xfffffffeu)
			low = 0xfffffffeu;
		high = (u64)(middle + half);
		if (high > 0xffffffffu)
			high = 0x100000000ull;
		sh->low[c] = (u32)low;
		sh->width[c] =
			high > low + 1 ? (u32)(high - low - (high - low == 0x100000000ull)) : 1;
	}
	sh->scale[c] = ((u64)SAMPLER_WINDOW_BINS << 32) / sh->width[c];
}

DEV_FN u32 fused_bin(const struct sampler_fused_shared *sh, u32 c, u32 key)
{
	return (u32)((u64)(key - sh->low[c]) * sh->scale[c] >> 32);
}

#define CANDIDATE_NEGATIVE 0x80000000u

/* Phase 2, over the warp's items: the second half of each group becomes the drawn bits. */
DEV_FN void fused_mark(struct fused *f, u32 per_lane)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 lane = DEV_LANE, warp = DEV_TID / 32, drawn = 0, drawn_pos = 0;
	u32 s0 = sh->s0, s1 = sh->s1;
	u32 low0 = sh->low[0], low1 = sh->low[1], width0 = sh->width[0], width1 = sh->width[1];

	for (u32 g = 0; g < f->groups; g++) {
		u32 *word = f->bits + g * 2 * per_lane, mine = 0;

		for (u32 j = 0; j < per_lane; j++) {
			u32 pos = word[j], both = pos | word[per_lane + j], marked = 0;

			if (both) {
				u32 is_pos = pos >> lane & 1, in = both >> lane & 1;
				u32 key = sampler_key(f->first + (g * 32 + lane) * per_lane + j, s0,
						      s1);
				u32 low = is_pos ? low0 : low1, width = is_pos ? width0 : width1;

				marked = dev_ballot(in && key < low);
				if (in && key - low < width) {
					u32 at = DEV_ADD(&sh->candidates, 1);

					if (at < SAMPLER_CANDIDATES) {
						sh->u.window.key[at] = key;
						sh->u.window.place[at] =
							((warp * f->groups + g) * per_lane + j) *
								32 +
							lane + (is_pos ? 0 : CANDIDATE_NEGATIVE);
					}
				}
				drawn += DEV_POPC(marked);
				drawn_pos += DEV_POPC(marked & pos);
			}
			if (lane == j)
				mine = marked;
		}
		dev_warp_sync(); /* every lane has read the group's words */
		if (lane < per_lane)
			word[per_lane + lane] = mine;
	}
	if (lane == 0) {
		sh->warp_drawn[warp] = drawn;
		DEV_ADD(&sh->certain[0], drawn_pos);
		DEV_ADD(&sh->certain[1], drawn - drawn_pos);
	}
}

/* The block's candidates into the bins: of the group's memory, or of its own when it has the sample
 * alone. */
DEV_FN void fused_bin_candidates(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 n = sh->candidates < SAMPLER_CANDIDATES ? sh->candidates : SAMPLER_CANDIDATES;

	for (u32 i = DEV_TID; i < n; i += DEV_NTID) {
		u32 key = sh->u.window.key[i],
		    c = sh->u.window.place[i] & CANDIDATE_NEGATIVE ? 1 : 0;
		u32 bin = fused_bin(sh, c, key), at;

		if (!f->group) {
			DEV_ADD(&sh->u.window.bins[c][bin], 1);
			continue;
		}
		at = DEV_ADD(&f->group->bins[c][bin], 1);
		if (at < SAMPLER_BIN_KEYS)
			f->group->keys[c][bin][at] = key;
	}
	if (f->group && DEV_TID == 0) {
		DEV_ADD(&f->group->certain[0], sh->certain[0]);
		DEV_ADD(&f->group->certain[1], sh->certain[1]);
		if (sh->candidates > SAMPLER_CANDIDATES)
			DEV_ADD(&f->group->overflow, 1);
	}
}

/* Finds the bin that holds the threshold of each class. Sets sh->miss when the window does not hold
 * it. */
DEV_FN void fused_find_bin(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 threads = DEV_NTID / 2, c = DEV_TID / threads,
	    t = DEV_TID % threads; /* half of the block a class */
	u32 per = SAMPLER_WINDOW_BINS / threads, sum = 0, before, total, others;
	const u32 *bins = f->group ? f->group->bins[c] : sh->u.window.bins[c];

	if (DEV_TID < 2) {
		u32 certain = f->group ? f->group->certain[DEV_TID] : sh->certain[DEV_TID];

		if (certain > sh->want[DEV_TID]) {
			sh->miss = 1;
			certain = sh->want[DEV_TID];
		}
		sh->rest[DEV_TID] = sh->want[DEV_TID] - certain;
		sh->bin_fill[DEV_TID] = 0;
	}
	if (DEV_TID == 0 && (f->group ? f->group->overflow : sh->candidates > SAMPLER_CANDIDATES))
		sh->miss = 1;
	for (u32 i = 0; i < per; i++)
		sum += bins[t * per + i];
	before = dev_block_scan(sum, sh->sums, &total); /* its barriers also publish `rest` */
	if (t == 0)
		sh->place[c] = before;
	DEV_SYNC();
	before -= sh->place[c];
	others = c ? total - sh->place[1] : sh->place[1];
	if (t == 0 && sh->rest[c] > others)
		sh->miss = 1; /* not enough candidates: the threshold lies above the window */
	DEV_SYNC();
	if (sh->rest[c] > before && sh->rest[c] <= before + sum) {
		for (u32 i = 0; i < per; i++) {
			u32 here = bins[t * per + i];

			if (sh->rest[c] <= before + here) {
				sh->bin[c] = t * per + i;
				sh->place[c] = sh->rest[c] - before;
				if (here > SAMPLER_BIN_KEYS)
					sh->miss = 1;
				break;
			}
			before += here;
		}
	}
	DEV_SYNC();
}

/* The threshold: the place-th smallest key of its bin. One warp a class. */
DEV_FN void fused_find_threshold(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 lane = DEV_LANE, c = DEV_TID / 32;

	if (!f->group) {
		for (u32 i = DEV_TID; i < sh->candidates; i += DEV_NTID) {
			u32 of = sh->u.window.place[i] & CANDIDATE_NEGATIVE ? 1 : 0,
			    key = sh->u.window.key[i];

			if (sh->rest[of] && fused_bin(sh, of, key) == sh->bin[of])
				sh->bin_keys[of][DEV_ADD(&sh->bin_fill[of], 1)] = key;
		}
		DEV_SYNC();
	}
	if (c < 2 && sh->rest[c]) {
		u32 n = f->group ? f->group->bins[c][sh->bin[c]] : sh->bin_fill[c];
		const u32 *keys = f->group ? f->group->keys[c][sh->bin[c]] : sh->bin_keys[c];

		for (u32 i = lane; i < n; i += 32) {
			u32 key = keys[i], place = 1;

			for (u32 k = 0; k < n; k++)
				place += keys[k] < key;
			if (place == sh->place[c])
				sh->threshold[c] = key;
		}
	}
	DEV_SYNC();
}

/* Marks the candidates up to the threshold. */
DEV_FN void fused_take_candidates(struct fused *f, u32 *block_bits, u32 per_lane)
{
	struct sampler_fused_shared *sh = f->sh;

	for (u32 i = DEV_TID; i < sh->candidates; i += DEV_NTID) {
		u32 place = sh->u.window.place[i], c = place & CANDIDATE_NEGATIVE ? 1 : 0;

		if (sh->rest[c] && sh->u.window.key[i] <= sh->threshold[c]) {
			u32 word = (place & ~CANDIDATE_NEGATIVE) / 32, group = word / per_lane,
			    j = word % per_lane;

			DEV_OR(&block_bits[group * 2 * per_lane + per_lane + j],
			       1u << (place & 31));
			DEV_ADD(&sh->warp_drawn[group / f->groups], 1);
		}
	}
	DEV_SYNC();
}

/* Items of the warp with keys up to at_most[class], by class, added to sums[]; when `mark`, they
 * become the drawn bits. */
DEV_FN void fused_count_up_to(struct fused *f, u32 per_lane, const u32 *at_most, const u32 *any,
			      u32 *sums, int mark)
{
	u32 lane = DEV_LANE, warp = DEV_TID / 32, count[2] = {0, 0};

	for (u32 g = 0; g < f->groups; g++) {
		u32 *word = f->bits + g * 2 * per_lane;

		for (u32 j = 0; j < per_lane; j++) {
			u32 pos = word[j], both = pos | word[per_lane + j],
			    c = pos >> lane & 1 ? 0 : 1, taken;
			u32 key = sampler_key(f->first + (g * 32 + lane) * per_lane + j, f->sh->s0,
					      f->sh->s1);

			taken = dev_ballot((both >> lane & 1) && any[c] && key <= at_most[c]);
			count[0] += DEV_POPC(taken & pos);
			count[1] += DEV_POPC(taken & ~pos);
			if (mark && lane == 0)
				word[per_lane + j] = taken;
			dev_warp_sync();
		}
	}
	if (lane == 0) {
		if (mark)
			f->sh->warp_drawn[warp] = count[0] + count[1];
		DEV_ADD(&sums[0], count[0]);
		DEV_ADD(&sums[1], count[1]);
	}
}

/* The threshold by the key's bits, for when the window did not serve: 32 counts over all items,
 * then the drawn bits. */
DEV_COLD void fused_search(struct fused *f, u32 per_lane, u32 label_bytes)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 low[2] = {0, 0}, sums[2];

	fused_classify(f, per_lane, label_bytes); /* marking has overwritten the negatives' bits;
						     `have` is not used again */
	for (u32 bit = 32; bit-- > 0;) {
		u32 at_most[2] = {low[0] + (1u << bit) - 1, low[1] + (1u << bit) - 1};

		DEV_SYNC();
		if (DEV_TID < 2)
			sh->certain[DEV_TID] = 0;
		DEV_SYNC();
		fused_count_up_to(f, per_lane, at_most, sh->want, sh->certain, 0);
		DEV_SYNC();
		sums[0] = sh->certain[0];
		sums[1] = sh->certain[1];
		if (f->group) {
			if (DEV_TID < 2)
				DEV_ADD(&f->group->retry[bit][DEV_TID], sums[DEV_TID]);
			group_barrier(&f->group->retry_arrived, (32 - bit) * f->a->group_blocks);
			sums[0] = dev_load_acquire(&f->group->retry[bit][0]);
			sums[1] = dev_load_acquire(&f->group->retry[bit][1]);
		}
		for (u32 c = 0; c < 2; c++)
			if (sums[c] < sh->want[c])
				low[c] += 1u << bit;
	}
	DEV_SYNC();
	fused_count_up_to(f, per_lane, low, sh->want, sh->certain, 1);
	DEV_SYNC();
}

/* Ranks of the warps' first drawn items: within the block, then after the blocks of the group that
 * come before. */
DEV_FN void fused_rank(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 warp = DEV_TID / 32, lane = DEV_LANE, mine, before = 0, total;

	if (warp == 0) {
		u32 v = lane < DEV_NTID / 32 ? sh->warp_drawn[lane] : 0,
		    up_to = dev_warp_scan(v, lane);

		sh->warp_base[lane] = up_to - v;
		if (f->group && lane == 31)
			dev_store_release(&f->group->drawn[f->member], 1 + up_to);
	}
	if (!f->group) {
		DEV_SYNC();
		return;
	}
	for (u32 m = DEV_TID; m < f->member; m += DEV_NTID) {
		while (!(mine = dev_load_acquire(&f->group->drawn[m])))
			dev_pause();
		before += mine - 1;
	}
	(void)dev_block_scan(before, sh->sums, &total);
	if (DEV_TID == 0)
		sh->base = total;
	DEV_SYNC();
}

/* Appends the drawn items of one group to the warp's list in order of index; returns how many. */
DEV_FN u32 fused_list(struct fused *f, u32 g, u32 per_lane, u32 *list)
{
	const u32 *word = f->bits + g * 2 * per_lane;
	u32 lane = DEV_LANE, below = (1u << lane) - 1, at = 0, count = 0;

	for (u32 j = 0; j < per_lane; j++) {
		u32 drawn = word[per_lane + j];

		at += DEV_POPC(drawn & below);
		count += DEV_POPC(drawn);
	}
	for (u32 j = 0; j < per_lane; j++)
		if (word[per_lane + j] >> lane & 1)
			list[at++] = (f->first + (g * 32 + lane) * per_lane + j) |
				     (word[j] >> lane & 1 ? ITEM_POSITIVE : 0);
	return count;
}

/* Phase 4, over the warp's items. */
DEV_FN void fused_emit(struct fused *f, u32 per_lane)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 lane = DEV_LANE, warp = DEV_TID / 32, fill = 0;
	u32 rank = sh->base + sh->warp_base[warp];
	u32 *list = sh->u.list[warp];

	for (u32 g = 0; g <= f->groups; g++) {
		u32 done = 0, left;

		if (g < f->groups) {
			u32 count = fused_list(f, g, per_lane, list + fill);

			if (!count)
				continue;
			fill += count;
			dev_warp_sync();
		}
		/* whole warps of items; after the last group, what is left */
		while (fill - done >= 32 || (g == f->groups && fill > done)) {
			u32 items = fill - done < 32 ? fill - done : 32;

			emit_items(f->a, f->sample, list + done, items, rank, sh->total,
				   sh->order_bits, sh->order);
			rank += items;
			done += items;
		}
		if (done) {
			left = done + lane < fill ? list[done + lane] : 0;
			dev_warp_sync();
			list[lane] = left;
			fill -= done;
			dev_warp_sync();
		}
	}
}

/* Clears the shared state and the order words for a sample. */
DEV_FN void fused_begin(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 t = DEV_TID;
	u64 stream = item_stream(f->a, f->sample);

	DEV_SYNC();
	if (t <= SAMPLER_ROUNDS_MAX) {
		u64 w = sampler_word(stream, t);

		if (t == 0) {
			sh->s0 = (u32)w;
			sh->s1 = (u32)(w >> 32);
			sh->candidates = sh->miss = sh->base = 0;
		} else {
			sh->order[2 * t - 2] = (u32)w;
			sh->order[2 * t - 1] = (u32)(w >> 32);
		}
	}
	if (t < 2)
		sh->have[t] = sh->certain[t] = sh->threshold[t] = 0;
	if (!f->group)
		for (u32 i = t; i < SAMPLER_WINDOW_BINS; i += DEV_NTID)
			sh->u.window.bins[0][i] = sh->u.window.bins[1][i] = 0;
	DEV_SYNC();
}

/* Adds up the classes over the group and decides how much to draw, and where the thresholds must
 * be. */
DEV_FN void fused_split(struct fused *f)
{
	const struct sampler_args *a = f->a;
	struct sampler_fused_shared *sh = f->sh;

	DEV_SYNC();
	if (f->group) {
		if (DEV_TID < 2)
			DEV_ADD(&f->group->have[DEV_TID], sh->have[DEV_TID]);
		group_barrier(&f->group->arrived[0], a->group_blocks);
		if (DEV_TID < 2)
			sh->have[DEV_TID] = dev_load_acquire(&f->group->have[DEV_TID]);
		DEV_SYNC();
	}
	if (DEV_TID == 0) {
		sampler_split(sh->have[0], sh->have[1], a->k, a->k_pos, a->fill_pos, &sh->want[0],
			      &sh->want[1]);
		sh->total = sh->want[0] + sh->want[1];
		sh->order_bits = sampler_order_bits(sh->total);
		if (f->member == 0) {
			a->counts[2 * f->sample] = (int)sh->total;
			a->counts[2 * f->sample + 1] = (int)sh->want[0];
		}
	}
	DEV_SYNC();
	if (DEV_TID < 2)
		fused_window(a, sh, DEV_TID);
	DEV_SYNC();
}

/* The last block to leave a sample clears what the group shared, so that the next launch finds
 * zeros. */
DEV_FN void fused_end(struct fused *f)
{
	struct sampler_group *group = f->group;
	u32 *words = (u32 *)group;

	if (!group)
		return;
	DEV_SYNC();
	if (DEV_TID == 0)
		f->sh->last = dev_add_acq_rel(&group->left, 1) == f->a->group_blocks - 1;
	DEV_SYNC();
	if (!f->sh->last)
		return;
	for (u32 i = DEV_TID; i < SAMPLER_GROUP_CLEAR / 4; i += DEV_NTID)
		words[i] = 0;
	for (u32 i = DEV_TID; i < f->a->group_blocks; i += DEV_NTID)
		group->drawn[i] = 0;
	for (u32 i = DEV_TID; i < SAMPLER_WINDOW_BINS; i += DEV_NTID)
		group->bins[0][i] = group->bins[1][i] = 0;
	DEV_SYNC();
	if (DEV_TID == 0)
		group->left = 0;
}

DEV_FN void fused_sample(struct fused *f, u32 *block_bits, u32 per_lane, u32 label_bytes)
{
	const struct sampler_args *a = f->a;

	fused_begin(f);
	fused_classify(f, per_lane, label_bytes);
	fused_split(f);
	fused_mark(f, per_lane);
	DEV_SYNC();
	fused_bin_candidates(f);
	if (f->group)
		group_barrier(&f->group->arrived[1], a->group_blocks);
	else
		DEV_SYNC();
	fused_find_bin(f);
	if (f->sh->miss) {
		struct fused copy = *f; /* so that *f itself stays in registers */

		fused_search(&copy, per_lane, label_bytes);
	} else {
		fused_find_threshold(f);
		fused_take_candidates(f, block_bits, per_lane);
	}
	fused_rank(f);
	fused_emit(f, per_lane);
	emit_tail(a, f->sample, f->sh->total, (u64)f->member * DEV_NTID + DEV_TID,
		  (u64)a->group_blocks * DEV_NTID);
	fused_end(f);
}

DEV_FN void fused_run(const struct sampler_args *a, u32 per_lane, u32 label_bytes)
{
	struct fused f;
	u32 warp = DEV_TID / 32, warps = DEV_NTID / 32,
	    samples_at_once = DEV_BLOCKS_X / a->group_blocks;
	u32 warp_words = a->warp_items / 16; /* two bits an item */
	u32 *block_bits;

	f.a = a;
	f.sh = (struct sampler_fused_shared *)dev_shared();
	block_bits = a->bits ? a->bits + (u64)DEV_BLOCK_X * warps * warp_words : (u32 *)(f.sh + 1);
	f.bits = block_bits + warp * warp_words;
	f.groups = a->warp_items / (32 * per_lane);
	f.member = DEV_BLOCK_X % a->group_blocks;
	f.first = (f.member * warps + warp) * a->warp_items;
	for (f.sample = DEV_BLOCK_X / a->group_blocks; f.sample < a->batch;
	     f.sample += samples_at_once) {
		f.group = a->group ? a->group + f.sample : 0;
		fused_sample(&f, block_bits, per_lane, label_bytes);
	}
}

DEV_KERNEL(SAMPLER_FUSED_THREADS, sampler_fused_i64)(DEV_PARAM struct sampler_args a)
{
	fused_run(&a, 2, 8);
}

DEV_KERNEL(SAMPLER_FUSED_THREADS, sampler_fused_i32)(DEV_PARAM struct sampler_args a)
{
	fused_run(&a, 4, 4);
}

DEV_KERNEL(SAMPLER_FUSED_THREADS, sampler_fused_u8)(DEV_PARAM struct sampler_args a)
{
	fused_run(&a, 4, 1);
}

#endif
