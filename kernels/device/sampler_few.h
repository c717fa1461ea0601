/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler for up to SAMPLER_FEW items a sample, where what counts is how long one block takes from
 * its first load to its last store: items stay in registers, and all that does not depend on the
 * labels (keys, order, even which rank a slot gets if nothing is short) is done while they come in.
 *
 * Keys are binned by their first bits, both classes in one word. A scan of the bins gives the class
 * sizes and the bins of the two thresholds; the few keys there are ranked by comparison.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_FEW_H
#define WAYLAY_KERNELS_SAMPLER_FEW_H

#include "sampler_emit.h"

#define FEW_EACH  (SAMPLER_FEW / SAMPLER_FEW_THREADS) /* items a thread */
#define FEW_WARPS (SAMPLER_FEW_THREADS / 32)
#define FEW_BINS  (SAMPLER_FEW_BINS / SAMPLER_FEW_THREADS) /* bins a thread */
#define FEW_SHIFT 22                                       /* of a key to its bin */

/* Item j of a thread is number j * threads + thread. */
struct few {
	const struct sampler_args *a;
	struct sampler_few_shared *sh;
	u32 sample;
	u32 key[FEW_EACH];
	u32 positive, negative, drawn; /* bit j: of item j */
	u32 want[2];
};

/* Shared state and order words, while the labels come in. */
DEV_FN struct sampler_keys few_begin(const struct few *f)
{
	struct sampler_few_shared *sh = f->sh;
	u64 stream = item_stream(f->a, f->sample);
	u32 t = DEV_TID;

	for (u32 i = t; i < SAMPLER_FEW_BINS; i += SAMPLER_FEW_THREADS)
		sh->bins[i] = 0;
	if (t < 2)
		sh->fill[t] = sh->bin[t] = sh->place[t] = 0;
	if (t < SAMPLER_ROUNDS_MAX) {
		sampler_order_round(stream, t, sh->order);
		sampler_order_inverse(sh->order + 2 * t);
	}
	return sampler_keys_of(stream);
}

/* The rank that goes to a slot of `total`. */
DEV_FN u32 few_rank(const struct sampler_few_shared *sh, u32 slot, u32 total)
{
	u32 bits = total > 1 ? 32 - DEV_CLZ(total - 1) : 0;

	return slot < total
		       ? sampler_rank_in(sampler_order_rounds(bits), slot, total, bits, sh->order)
		       : 0;
}

/* Class sizes, how many to draw of each, and the bins that hold the thresholds. */
DEV_FN void few_split(struct few *f)
{
	const struct sampler_args *a = f->a;
	struct sampler_few_shared *sh = f->sh;
	u32 lane = DEV_LANE, warp = DEV_TID / 32, sum = 0, up_to, below, before;
	u32 here[FEW_BINS];

	DEV_UNROLL
	for (u32 i = 0; i < FEW_BINS; i++) {
		here[i] = sh->bins[DEV_TID * FEW_BINS + i];
		sum += here[i];
	}
	up_to = dev_warp_scan(sum, lane);
	if (lane == 31)
		sh->sums[warp] = up_to;
	DEV_SYNC();
	below = dev_warp_scan(lane < FEW_WARPS ? sh->sums[lane] : 0, lane);
	before = up_to - sum + (warp ? dev_shfl(below, warp - 1) : 0);
	below = dev_shfl(below, FEW_WARPS - 1);
	sampler_split(below & 0xffff, below >> 16, a->k, a->k_pos, a->fill_pos, &f->want[0],
		      &f->want[1]);
	DEV_UNROLL
	for (u32 i = 0; i < FEW_BINS; i++) {
		DEV_UNROLL
		for (u32 c = 0; c < 2; c++) {
			u32 from = before >> 16 * c & 0xffff, in = here[i] >> 16 * c & 0xffff;

			if (f->want[c] > from && f->want[c] <= from + in) {
				sh->bin[c] = DEV_TID * FEW_BINS + i;
				sh->place[c] = f->want[c] - from;
			}
		}
		before += here[i];
	}
	if (DEV_TID == 0) {
		a->counts[2 * f->sample] = (int)(f->want[0] + f->want[1]);
		a->counts[2 * f->sample + 1] = (int)f->want[0];
	}
	DEV_SYNC();
}

/* Which items are drawn. */
DEV_FN void few_draw(struct few *f)
{
	struct sampler_few_shared *sh = f->sh;
	u32 bin[2] = {sh->bin[0], sh->bin[1]}, near = 0;

	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++) {
		u32 c = f->positive >> j & 1 ? 0 : 1, of = f->key[j] >> FEW_SHIFT;

		if (!((f->positive | f->negative) >> j & 1))
			continue;
		if (of < bin[c])
			f->drawn |= 1u << j;
		if (of == bin[c]) {
			near |= 1u << j;
			sh->keys[c][DEV_ADD(&sh->fill[c], 1u)] = f->key[j];
		}
	}
	DEV_SYNC();
	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++) {
		u32 c = f->positive >> j & 1 ? 0 : 1, rank = 0;

		if (!(near >> j & 1))
			continue;
		for (u32 i = 0; i < sh->fill[c]; i++)
			rank += sh->keys[c][i] < f->key[j];
		if (rank < sh->place[c])
			f->drawn |= 1u << j;
	}
}

/* The drawn items by rank, which is their order by index. */
DEV_FN void few_place(const struct few *f)
{
	struct sampler_few_shared *sh = f->sh;
	u32 lane = DEV_LANE, warp = DEV_TID / 32, low, high, low_to, high_to;
	u32 mask[FEW_EACH];

	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++) {
		mask[j] = dev_ballot(f->drawn >> j & 1);
		if (lane == 0)
			sh->drawn[j * FEW_WARPS + warp] = DEV_POPC(mask[j]);
	}
	DEV_SYNC();
	low = sh->drawn[lane];
	high = sh->drawn[32 + lane];
	low_to = dev_warp_scan(low, lane);
	high_to = dev_warp_scan(high, lane) + dev_shfl(low_to, 31);
	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++) {
		u32 at = j * FEW_WARPS + warp;
		u32 rank = at < 32 ? dev_shfl(low_to - low, at) : dev_shfl(high_to - high, at - 32);

		if (mask[j] >> lane & 1)
			sh->items[rank + DEV_POPC(mask[j] & ((1u << lane) - 1))] =
				(j * SAMPLER_FEW_THREADS + DEV_TID) |
				(f->positive >> j & 1 ? ITEM_POSITIVE : 0);
	}
	DEV_SYNC();
}

DEV_FN void few_run(const struct sampler_args *a, u32 label_bytes)
{
	struct few f = {a, (struct sampler_few_shared *)dev_shared(), 0, {0}, 0, 0, 0, {0, 0}};
	const unsigned char *labels;
	u64 label[FEW_EACH];
	struct sampler_keys keys;
	u32 rank, total, slot = DEV_TID;

	f.sample = DEV_BLOCK_X;
	labels = (const unsigned char *)a->labels + (u64)f.sample * a->n * label_bytes;
	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++)
		label[j] = load_label(labels, j * SAMPLER_FEW_THREADS + DEV_TID, a->n, label_bytes);
	keys = few_begin(&f);
	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++)
		f.key[j] = sampler_key(j * SAMPLER_FEW_THREADS + DEV_TID, keys);
	DEV_SYNC();
	rank = few_rank(f.sh, slot, a->k); /* right if as many as asked for can be drawn */
	DEV_UNROLL
	for (u32 j = 0; j < FEW_EACH; j++) {
		f.positive |= (u32)(label[j] == 1) << j;
		f.negative |= (u32)(label[j] == 0) << j;
		if (label[j] <= 1)
			DEV_ADD(&f.sh->bins[f.key[j] >> FEW_SHIFT], label[j] == 1 ? 1u : 1u << 16);
	}
	DEV_SYNC();
	few_split(&f);
	few_draw(&f);
	few_place(&f);
	total = f.want[0] + f.want[1];
	for (u32 first = DEV_TID / 32 * 32; first < a->k; first += SAMPLER_FEW_THREADS) {
		if (total != a->k || slot != DEV_TID)
			rank = few_rank(f.sh, slot, total);
		emit_slots(a, f.sample, first, a->k - first < 32 ? a->k - first : 32,
			   slot < total ? f.sh->items[rank] : ITEM_NONE, label_bytes);
		slot += SAMPLER_FEW_THREADS;
	}
}

DEV_KERNEL(SAMPLER_FEW_THREADS, sampler_few_i64)(DEV_PARAM struct sampler_args a)
{
	few_run(&a, 8);
}

DEV_KERNEL(SAMPLER_FEW_THREADS, sampler_few_i32)(DEV_PARAM struct sampler_args a)
{
	few_run(&a, 4);
}

DEV_KERNEL(SAMPLER_FEW_THREADS, sampler_few_u8)(DEV_PARAM struct sampler_args a)
{
	few_run(&a, 1);
}

#endif
