/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler in one launch. `group_blocks` thread blocks share a sample (one block: no traffic but
 * the data's).
 *
 *  1. classify  Read the labels once. Keep two bits an item (positive, negative) and count the
 *               classes.
 *  2. mark      Keys are uniform, so the threshold key of a class with `want` of `have` items
 *               drawn is near want / have x 2^32. Items below a window around that are drawn for
 *               certain; the few inside it are candidates and are counted into bins.
 *  3. resolve   The bins give the exact threshold; candidates up to it are drawn too. A block's
 *               drawn items are then counted, which gives every block the rank of its first.
 *  4. place     Walk the drawn bits in order of index and list the items by rank.
 *  5. gather    Go through the slots in order: which rank belongs there (the order backwards, which
 *               costs nothing beside the memory), then index, label and row out. Rows are read at
 *               random and written in order; the other way round the writes would be the random
 *               ones, and slower.
 *
 * A window that misses the threshold, or one that holds too much (each happens about once in a
 * million draws), leads to an exact search by the key's bits. Results never depend on which way was
 * taken.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_FUSED_H
#define WAYLAY_KERNELS_SAMPLER_FUSED_H

#include "sampler_emit.h"

/* Bits of 32 items in order of index. `rest` holds the negatives until marking makes it the drawn
 * items. */
struct fused_word {
	u32 positive, rest;
};

/* Where a thread block stands: its sample, its place in the group, its bits. */
struct fused {
	const struct sampler_args *a;
	struct sampler_fused_shared *sh;
	struct sampler_group *group;
	struct fused_word *bits; /* of the calling thread's warp */
	u32 sample, member;
	u32 first;  /* item where the calling thread's warp begins */
	u32 words;  /* words of items a warp */
	u32 stride; /* words from one warp's bits to the next one's: a multiple of 4 */
};

/* All blocks of the group have passed when the counter reaches `target`; what they wrote before is
 * seen after. */
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

/* Phase 1: bits of the warp's items and, in shared memory, how many of each class the block has. */
DEV_FN void fused_classify(struct fused *f, u32 label_bytes)
{
	const struct sampler_args *a = f->a;
	const unsigned char *labels =
		(const unsigned char *)a->labels + (u64)f->sample * a->n * label_bytes;
	u32 lane = DEV_LANE, have_pos = 0, have_neg = 0;

	for (u32 w = 0; w < f->words; w += 8) {
		u64 label[8];

		for (u32 s = 0; s < 8; s++) /* eight loads in flight a lane */
			label[s] = w + s < f->words
					   ? load_label(labels, f->first + (w + s) * 32 + lane,
							a->n, label_bytes)
					   : 2;
		for (u32 s = 0; s < 8; s++) {
			struct fused_word word;

			word.positive = dev_ballot(label[s] == 1);
			word.rest = dev_ballot(label[s] == 0);
			if (lane == 0 && w + s < f->stride)
				f->bits[w + s] = word;
		}
	}
	dev_warp_sync();
	for (u32 w = lane; w < f->words; w += 32) {
		have_pos += DEV_POPC(f->bits[w].positive);
		have_neg += DEV_POPC(f->bits[w].rest);
	}
	have_pos = dev_warp_scan(have_pos, lane);
	have_neg = dev_warp_scan(have_neg, lane);
	if (lane == 31) {
		DEV_ADD(&f->sh->have[0], have_pos);
		DEV_ADD(&f->sh->have[1], have_neg);
	}
}

/* Bins that the window is cut into: one a thread and class when the block has the sample alone. */
DEV_FN u32 fused_bins(const struct fused *f)
{
	return f->group ? SAMPLER_WINDOW_BINS : DEV_NTID / 2;
}

/* Where the threshold key of a class with `want` of `have` items drawn must be looked for. */
DEV_FN void fused_window(const struct fused *f, u32 c)
{
	struct sampler_fused_shared *sh = f->sh;
	float have = (float)sh->have[c], want = (float)sh->want[c], part, middle, half;
	u32 low = 0, width = 1, shift = 0;

	if (sh->want[c] == sh->have[c]) {
		/* All: everything below the last key is certain, and that one is a candidate. None:
		 * the same, with none. */
		low = sh->want[c] ? 0xffffffffu : 0;
	} else if (sh->want[c]) {
		part = want / have;
		middle = part * 4294967296.0f;
		half = (f->a->window * dev_sqrt(want * (1.0f - part)) + 4.0f * (f->a->window > 0)) /
		       have * 4294967296.0f;
		low = middle > half ? (u32)(middle - half) : 0;
		half = middle + half - (float)low;
		width = half < 1.0f ? 1 : half >= 4294967040.0f ? 0xffffff00u : (u32)half;
		if (width > 0u - low && low)
			width = 0u - low; /* up to the last key */
	}
	shift = 32 - DEV_CLZ(width -
			     1); /* bits of the last offset, down to those that number the bins */
	shift = shift + DEV_CLZ(fused_bins(f)) > 31 ? shift + DEV_CLZ(fused_bins(f)) - 31 : 0;
	sh->low[c] = low;
	sh->width[c] = width;
	sh->shift[c] = shift;
}

DEV_FN u32 fused_bin(const struct sampler_fused_shared *sh, u32 c, u32 key)
{
	return (key - sh->low[c]) >> sh->shift[c];
}

#define CANDIDATE_NEGATIVE 0x80000000u

/* Notes the calling lane's item of word w as a candidate, if it is one. */
DEV_FN void fused_candidate(struct fused *f, u32 w, struct fused_word word, u32 key)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 lane = DEV_LANE, c = word.positive >> lane & 1 ? 0 : 1;

	if (((word.positive | word.rest) >> lane & 1) && key - sh->low[c] < sh->width[c]) {
		u32 at = DEV_ADD(&sh->candidates, 1);

		if (at < SAMPLER_CANDIDATES) {
			sh->u.window.key[at] = key;
			sh->u.window.place[at] = (DEV_TID / 32 * f->stride + w) * 32 + lane +
						 (c ? CANDIDATE_NEGATIVE : 0);
		}
	}
}

/* Phase 2, over the warp's items: `rest` of each word becomes the drawn bits. */
DEV_FN void fused_mark(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 lane = DEV_LANE, warp = DEV_TID / 32, drawn = 0, drawn_pos = 0;
	u32 low0 = sh->low[0], low1 = sh->low[1], width0 = sh->width[0], width1 = sh->width[1];
	struct sampler_keys keys = sh->keys;

	for (u32 w = 0; w < f->words;
	     w += 4) { /* four at a time hide each other's latency; words past the end are 0 */
		struct fused_word word[4];
		u32 key[4];
		int near = 0;

		for (u32 s = 0; s < 4; s++)
			word[s] = f->bits[w + s];
		for (u32 s = 0; s < 4; s++)
			key[s] = sampler_key(f->first + (w + s) * 32 + lane, keys);
		for (u32 s = 0; s < 4; s++) {
			/* Both thresholds for every item and the classes by whole words: fewer
			 * instructions than a choice. */
			u32 marked = (dev_ballot(key[s] < low0) & word[s].positive) |
				     (dev_ballot(key[s] < low1) & word[s].rest);

			near |= key[s] - low0 < width0 || key[s] - low1 < width1;
			if (lane == 0)
				f->bits[w + s].rest = marked;
		}
		if (near)
			for (u32 s = 0; s < 4; s++)
				fused_candidate(f, w + s, word[s], key[s]);
	}
	dev_warp_sync();
	for (u32 w = lane; w < f->words; w += 32) {
		drawn += DEV_POPC(f->bits[w].rest);
		drawn_pos += DEV_POPC(f->bits[w].rest & f->bits[w].positive);
	}
	drawn = dev_warp_scan(drawn, lane);
	drawn_pos = dev_warp_scan(drawn_pos, lane);
	if (lane == 31) {
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
	u32 per = fused_bins(f) / threads, sum = 0, before, total, others;
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
		u32 *keys = sh->bin_keys[c];

		if (f->group)
			for (u32 i = lane; i < n; i += 32)
				keys[i] = f->group->keys[c][sh->bin[c]][i];
		dev_warp_sync();
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

/* Marks the candidates up to the threshold. `bits` are the block's. */
DEV_FN void fused_take_candidates(struct fused *f, struct fused_word *bits)
{
	struct sampler_fused_shared *sh = f->sh;

	for (u32 i = DEV_TID; i < sh->candidates; i += DEV_NTID) {
		u32 place = sh->u.window.place[i], c = place & CANDIDATE_NEGATIVE ? 1 : 0;

		if (sh->rest[c] && sh->u.window.key[i] <= sh->threshold[c]) {
			u32 word = (place & ~CANDIDATE_NEGATIVE) / 32;

			DEV_OR(&bits[word].rest, 1u << (place & 31));
			DEV_ADD(&sh->warp_drawn[word / f->stride], 1);
		}
	}
	DEV_SYNC();
}

/* Items of the warp with keys up to at_most[class], by class, added to sums[]; when `mark`, they
 * become the drawn bits. */
DEV_FN void fused_count_up_to(struct fused *f, const u32 *at_most, const u32 *any, u32 *sums,
			      int mark)
{
	u32 lane = DEV_LANE, warp = DEV_TID / 32, count[2] = {0, 0};

	for (u32 w = 0; w < f->words; w++) {
		struct fused_word word = f->bits[w];
		u32 c = word.positive >> lane & 1 ? 0 : 1, taken;
		u32 key = sampler_key(f->first + w * 32 + lane, f->sh->keys);

		taken = dev_ballot(((word.positive | word.rest) >> lane & 1) && any[c] &&
				   key <= at_most[c]);
		count[0] += DEV_POPC(taken & word.positive);
		count[1] += DEV_POPC(taken & ~word.positive);
		if (mark && lane == 0)
			f->bits[w].rest = taken;
	}
	dev_warp_sync();
	if (lane == 0) {
		if (mark)
			f->sh->warp_drawn[warp] = count[0] + count[1];
		DEV_ADD(&sums[0], count[0]);
		DEV_ADD(&sums[1], count[1]);
	}
}

/* The threshold by the key's bits, for when the window did not serve: 32 counts over all items,
 * then the drawn bits. */
DEV_COLD void fused_search(struct fused *f, u32 label_bytes)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 low[2] = {0, 0}, sums[2];

	/* Marking has overwritten the negatives' bits. What this adds to `have` is not used. */
	fused_classify(f, label_bytes);
	for (u32 bit = 32; bit-- > 0;) {
		u32 at_most[2] = {low[0] + (1u << bit) - 1, low[1] + (1u << bit) - 1};

		DEV_SYNC();
		if (DEV_TID < 2)
			sh->certain[DEV_TID] = 0;
		DEV_SYNC();
		fused_count_up_to(f, at_most, sh->want, sh->certain, 0);
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
	fused_count_up_to(f, low, sh->want, sh->certain, 1);
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

/* Phase 4, over the warp's items: items[rank] = item. A lane lists the drawn items of one word; then
 * the warp writes the list. */
DEV_FN void fused_place(struct fused *f, u32 *items)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 lane = DEV_LANE, warp = DEV_TID / 32, rank = sh->base + sh->warp_base[warp];
	u32 *list = sh->u.place.list[warp];

	for (u32 w = 0; w < f->words; w += 32) {
		struct fused_word word = {0, 0};
		u32 count, up_to, taken = 0, from = 0;

		if (w + lane < f->words)
			word = f->bits[w + lane];
		count = DEV_POPC(word.rest);
		up_to = dev_warp_scan(count, lane);
		while (from < 32) { /* as many words as the list holds */
			u32 fit = DEV_POPC(
				    dev_ballot(lane >= from && up_to - taken <= SAMPLER_LIST)),
			    listed;

			if (lane >= from && lane < from + fit) {
				u32 at = up_to - count - taken;

				for (u32 left = word.rest; left; left &= left - 1) {
					u32 b = DEV_CTZ(left);

					list[at++] = (f->first + (w + lane) * 32 + b) |
						     (word.positive >> b & 1 ? ITEM_POSITIVE : 0);
				}
			}
			dev_warp_sync();
			from += fit;
			listed = dev_shfl(up_to, from - 1) - taken;
			for (u32 e = lane; e < listed; e += 32)
				items[rank + e] = list[e];
			dev_warp_sync();
			taken += listed;
			rank += listed;
		}
	}
}

/* What belongs into a slot. */
DEV_FN u32 fused_entry(const struct fused *f, const u32 *items, u32 slot)
{
	u32 total = f->sh->total, bits = f->sh->order_bits, rank;

	if (slot >= total)
		return ITEM_NONE;
	rank = bits >= SAMPLER_LONG_BITS
		       ? sampler_rank_in(SAMPLER_ROUNDS_LONG, slot, total, bits, f->sh->order)
		       : sampler_rank_in(sampler_order_rounds(bits), slot, total, bits,
					 f->sh->order);
	return items[rank];
}

/* Phase 5: a warp takes 32 slots at a time; the next items come in while the rows of these do. */
DEV_FN void fused_gather(struct fused *f, const u32 *items, u32 label_bytes)
{
	const struct sampler_args *a = f->a;
	u32 warps = DEV_NTID / 32, lane = DEV_LANE;
	u32 s = (f->member * warps + DEV_TID / 32) * 32, step = a->group_blocks * warps * 32;
	u32 entry = fused_entry(f, items, s + lane);

	while (s < a->k) {
		u32 next = fused_entry(f, items, s + step + lane);

		emit_slots(a, f->sample, s, a->k - s < 32 ? a->k - s : 32, entry, label_bytes);
		entry = next;
		s += step;
	}
}

/* Clears the shared state and makes the order words for a sample. */
DEV_FN void fused_begin(struct fused *f)
{
	struct sampler_fused_shared *sh = f->sh;
	u32 t = DEV_TID;

	DEV_SYNC();
	if (t < SAMPLER_ROUNDS_MAX) {
		sampler_order_round(item_stream(f->a, f->sample), t, sh->order);
		sampler_order_inverse(sh->order + 2 * t);
	} else if (t == SAMPLER_ROUNDS_MAX) {
		sh->keys = sampler_keys_of(item_stream(f->a, f->sample));
		sh->candidates = sh->miss = sh->base = 0;
	}
	if (t < 2)
		sh->have[t] = sh->certain[t] = sh->threshold[t] = 0;
	if (!f->group) {
		u32 threads = DEV_NTID / 2;

		sh->u.window.bins[t / threads][t % threads] = 0;
	}
	DEV_SYNC();
}

/*
 * Adds up the classes over the group, decides how much to draw and where the thresholds must be.
 * Thread c handles class c; its count and the arrival travel in one word, so that no fence is
 * needed.
 */
DEV_FN void fused_split(struct fused *f)
{
	const struct sampler_args *a = f->a;
	struct sampler_fused_shared *sh = f->sh;

	DEV_SYNC();
	if (f->group) {
		if (DEV_TID < 2) {
			u64 *census = &f->group->census[DEV_TID], all;

			DEV_ADD(census, (u64)sh->have[DEV_TID] << 16 | 1);
			while (((all = dev_load_u64(census)) & 0xffff) < a->group_blocks)
				dev_pause();
			sh->have[DEV_TID] = (u32)(all >> 16);
		}
		DEV_SYNC();
	}
	if (DEV_TID == 0) {
		sampler_split(sh->have[0], sh->have[1], a->k, a->k_pos, a->fill_pos, &sh->want[0],
			      &sh->want[1]);
		sh->total = sh->want[0] + sh->want[1];
		sh->order_bits = sh->total > 1 ? 32 - DEV_CLZ(sh->total - 1) : 0;
		if (f->member == 0) {
			a->counts[2 * f->sample] = (int)sh->total;
			a->counts[2 * f->sample + 1] = (int)sh->want[0];
		}
	}
	DEV_SYNC();
	if (DEV_TID < 2)
		fused_window(f, DEV_TID);
	DEV_SYNC();
}

/* The last block to leave a sample clears what the group shared, so that the next launch finds
 * zeros. */
DEV_FN void fused_end(struct fused *f)
{
	struct sampler_group *group = f->group;
	u32 *words = (u32 *)group;

	DEV_SYNC();
	if (DEV_TID == 0)
		f->sh->last = dev_add_acq_rel(&group->left, 1) == f->a->group_blocks - 1;
	DEV_SYNC();
	if (!f->sh->last)
		return;
	for (u32 i = DEV_TID; i < __builtin_offsetof(struct sampler_group, drawn) / 4;
	     i += DEV_NTID)
		words[i] = 0;
	for (u32 i = DEV_TID; i < f->a->group_blocks; i += DEV_NTID)
		group->drawn[i] = 0;
	for (u32 i = DEV_TID; i < SAMPLER_WINDOW_BINS; i += DEV_NTID)
		group->bins[0][i] = group->bins[1][i] = 0;
}

DEV_FN void fused_sample(struct fused *f, struct fused_word *block_bits, u32 label_bytes)
{
	const struct sampler_args *a = f->a;
	u32 *items = a->items ? a->items + (u64)f->sample * a->k : f->sh->u.place.items;

	fused_begin(f);
	fused_classify(f, label_bytes);
	fused_split(f);
	fused_mark(f);
	DEV_SYNC();
	fused_bin_candidates(f);
	if (f->group)
		group_barrier(&f->group->arrived[0], a->group_blocks);
	else
		DEV_SYNC();
	fused_find_bin(f);
	if (f->sh->miss) {
		struct fused copy = *f; /* so that *f itself stays in registers */

		fused_search(&copy, label_bytes);
	} else {
		fused_find_threshold(f);
		fused_take_candidates(f, block_bits);
	}
	fused_rank(f);
	fused_place(f, items);
	if (f->group)
		group_barrier(&f->group->arrived[1], a->group_blocks);
	else
		DEV_SYNC();
	fused_gather(f, items, label_bytes);
	if (f->group)
		fused_end(f);
}

/* `bits`: where the blocks' item bits are when they are not in shared memory. */
DEV_FN void fused_run(const struct sampler_args *a, u32 *bits, u32 label_bytes)
{
	struct fused f;
	u32 warp = DEV_TID / 32, warps = DEV_NTID / 32,
	    samples_at_once = DEV_BLOCKS_X / a->group_blocks;
	struct fused_word *block_bits;

	f.a = a;
	f.sh = (struct sampler_fused_shared *)dev_shared();
	f.words = a->warp_items / 32;
	f.stride = (f.words + 3) / 4 * 4;
	block_bits = bits ? (struct fused_word *)bits + (u64)DEV_BLOCK_X * warps * f.stride
			  : (struct fused_word *)(f.sh + 1);
	f.bits = block_bits + warp * f.stride;
	f.member = DEV_BLOCK_X % a->group_blocks;
	f.first = (f.member * warps + warp) * a->warp_items;
	/*
	 * Samples that are under way at the same time would all read labels, then all compute, then
	 * all gather. Begun one after another they fill each other's gaps.
	 */
	if (a->stagger_ns)
		dev_sleep_ns((u64)(DEV_BLOCK_X / a->group_blocks) * a->stagger_ns);
	for (f.sample = DEV_BLOCK_X / a->group_blocks; f.sample < a->batch;
	     f.sample += samples_at_once) {
		f.group = a->group ? a->group + f.sample : 0;
		fused_sample(&f, block_bits, label_bytes);
	}
}

DEV_KERNEL(SAMPLER_FUSED_THREADS, sampler_fused_i64)(DEV_PARAM struct sampler_args a)
{
	fused_run(&a, a.bits, 8);
}

DEV_KERNEL(SAMPLER_FUSED_THREADS, sampler_fused_i32)(DEV_PARAM struct sampler_args a)
{
	fused_run(&a, a.bits, 4);
}

DEV_KERNEL(SAMPLER_FUSED_THREADS, sampler_fused_u8)(DEV_PARAM struct sampler_args a)
{
	fused_run(&a, a.bits, 1);
}

#endif
