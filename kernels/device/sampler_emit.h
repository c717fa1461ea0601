/* SPDX-License-Identifier: Apache-2.0 */
/* Reading labels, and writing the drawn items: slot, index, label and row. Shared by the sampler's
 * kernels. */
#ifndef WAYLAY_KERNELS_SAMPLER_EMIT_H
#define WAYLAY_KERNELS_SAMPLER_EMIT_H

#include "device.h"
#include "sampler_args.h"

#define ITEM_POSITIVE 0x80000000u
#define ITEM_NONE     0xffffffffu

/* The random stream of a sample in this launch. */
DEV_FN u64 item_stream(const struct sampler_args *a, u32 sample)
{
	return sampler_stream(a->seed, a->call + (a->call_base ? *a->call_base : 0),
			      a->first_sample + sample);
}

/* 1, 0 or, for every other label and past the end, something else. */
DEV_FN u64 load_label(const unsigned char *labels, u32 item, u32 n, u32 label_bytes)
{
	if (item >= n)
		return 2;
	if (label_bytes == 8)
		return dev_stream_u64((const u64 *)labels + item);
	if (label_bytes == 4)
		return dev_stream_u32((const u32 *)labels + item);
	return dev_stream_u8(labels + item);
}

DEV_FN void store_label(const struct sampler_args *a, u64 at, int label, u32 label_bytes)
{
	if (label_bytes == 8)
		dev_put_u64((u64 *)a->labels_out + at, (u64)(long long)label);
	else if (label_bytes == 4)
		((int *)a->labels_out)[at] = label;
	else
		((unsigned char *)a->labels_out)[at] = (unsigned char)label;
}

/*
 * Copies `rows` rows: lane l of the warp holds the source item and the slot of row l. `ahead` rows
 * a lane group are loaded before the first is stored: the loads' latency is what the copy consists
 * of.
 */
#define ROW_COPY(attributes, name, type, ahead)                                                    \
	attributes void name(const type *x, type *out, u32 units, u32 log2, u32 item, u32 slot,    \
			     u32 rows)                                                             \
	{                                                                                          \
		u32 lanes = 1u << log2, sub = DEV_LANE & (lanes - 1), mine = DEV_LANE >> log2;     \
		u32 step = 32 >> log2;                                                             \
                                                                                                   \
		for (u32 first = 0; first < rows; first += ahead * step) {                         \
			u32 from[ahead], to[ahead];                                                \
                                                                                                   \
			for (u32 j = 0; j < ahead; j++) {                                          \
				from[j] = dev_shfl(item, (first + j * step + mine) & 31);          \
				to[j] = dev_shfl(slot, (first + j * step + mine) & 31);            \
			}                                                                          \
			for (u32 c = sub; c < units; c += lanes) {                                 \
				type v[ahead];                                                     \
                                                                                                   \
				for (u32 j = 0; j < ahead; j++)                                    \
					if (first + j * step + mine < rows)                        \
						v[j] = x[(u64)from[j] * units + c];                \
				for (u32 j = 0; j < ahead; j++)                                    \
					if (first + j * step + mine < rows)                        \
						out[(u64)to[j] * units + c] = v[j];                \
			}                                                                          \
		}                                                                                  \
	}
ROW_COPY(DEV_FN, copy_rows_16, struct dev_v4, 4)
ROW_COPY(DEV_COLD, copy_rows_4, u32, 4)
ROW_COPY(DEV_COLD, copy_rows_2, unsigned short, 1)
ROW_COPY(DEV_COLD, copy_rows_1, unsigned char, 1)

DEV_FN void copy_rows(const struct sampler_args *a, u32 sample, u32 item, u32 slot, u32 rows)
{
	const unsigned char *x = (const unsigned char *)a->x + (u64)sample * a->n * a->row_bytes;
	unsigned char *out = (unsigned char *)a->x_out + (u64)sample * a->k * a->row_bytes;

	if (a->unit == 16)
		copy_rows_16((const struct dev_v4 *)x, (struct dev_v4 *)out, a->row_bytes / 16,
			     a->lanes_log2, item, slot, rows);
	else if (a->unit == 4)
		copy_rows_4((const u32 *)x, (u32 *)out, a->row_bytes / 4, a->lanes_log2, item, slot,
			    rows);
	else if (a->unit == 2)
		copy_rows_2((const unsigned short *)x, (unsigned short *)out, a->row_bytes / 2,
			    a->lanes_log2, item, slot, rows);
	else
		copy_rows_1(x, out, a->row_bytes, a->lanes_log2, item, slot, rows);
}

/*
 * Emits up to 32 items with the ranks rank, rank + 1, ...: list[l] is the item of lane l, with
 * ITEM_POSITIVE or not. The whole warp calls it; `order` are the sample's order words, `total` all
 * its drawn items.
 */
DEV_FN void emit_items(const struct sampler_args *a, u32 sample, const u32 *list, u32 items,
		       u32 rank, u32 total, u32 order_bits, const u32 *order)
{
	u32 lane = DEV_LANE, item = 0, slot = 0;

	if (lane < items) {
		u32 entry = list[lane];
		u64 at;

		item = entry & ~ITEM_POSITIVE;
		slot = sampler_slot(rank + lane, total, order_bits, order);
		at = (u64)sample * a->k + slot;
		a->idx[at] = item;
		store_label(a, at, entry & ITEM_POSITIVE ? 1 : 0, a->label_bytes);
	}
	copy_rows(a, sample, item, slot, items);
}

/*
 * Writes `rows` rows in order from `first` on: lane l of the warp holds the source item of row l,
 * or none for a row of zeros. As above, some rows a lane group are in flight at once.
 */
#define ROW_GATHER(attributes, name, type, ahead, zero, get, put)                                  \
	attributes void name(const type *x, type *out, u32 units, u32 log2, u32 item, u32 rows)    \
	{                                                                                          \
		u32 lanes = 1u << log2, sub = DEV_LANE & (lanes - 1), mine = DEV_LANE >> log2;     \
		u32 step = 32 >> log2;                                                             \
                                                                                                   \
		for (u32 first = 0; first < rows; first += ahead * step) {                         \
			u32 from[ahead];                                                           \
                                                                                                   \
			for (u32 j = 0; j < ahead; j++)                                            \
				from[j] = dev_shfl(item, (first + j * step + mine) & 31);          \
			for (u32 c = sub; c < units; c += lanes) {                                 \
				type v[ahead];                                                     \
                                                                                                   \
				for (u32 j = 0; j < ahead; j++) {                                  \
					v[j] = zero;                                               \
					if (first + j * step + mine < rows &&                      \
					    from[j] != ITEM_NONE)                                  \
						v[j] = get(&x[(u64)from[j] * units + c]);          \
				}                                                                  \
				for (u32 j = 0; j < ahead; j++)                                    \
					if (first + j * step + mine < rows)                        \
						put(&out[(u64)(first + j * step + mine) * units +  \
							 c],                                       \
						    v[j]);                                         \
			}                                                                          \
		}                                                                                  \
	}
DEV_FN struct dev_v4 zero_v4(void)
{
	struct dev_v4 zero = {0, 0, 0, 0};

	return zero;
}
#define GET_PLAIN(p)    (*(p))
#define PUT_PLAIN(p, v) (*(p) = (v))
ROW_GATHER(DEV_FN, gather_rows_16, struct dev_v4, 4, zero_v4(), dev_pass_v4, dev_put_v4)
ROW_GATHER(DEV_COLD, gather_rows_4, u32, 4, 0, GET_PLAIN, PUT_PLAIN)
ROW_GATHER(DEV_COLD, gather_rows_2, unsigned short, 1, 0, GET_PLAIN, PUT_PLAIN)
ROW_GATHER(DEV_COLD, gather_rows_1, unsigned char, 1, 0, GET_PLAIN, PUT_PLAIN)

/* Writes the slots first to first + count - 1, up to 32 of them: lane l holds what belongs into
 * slot first + l. */
DEV_FN void emit_slots(const struct sampler_args *a, u32 sample, u32 first, u32 count, u32 entry,
		       u32 label_bytes)
{
	u32 lane = DEV_LANE, item = entry == ITEM_NONE ? ITEM_NONE : entry & ~ITEM_POSITIVE;
	u64 row = a->row_bytes, at = (u64)sample * a->k + first;
	const unsigned char *x = (const unsigned char *)a->x + (u64)sample * a->n * row;
	unsigned char *out = (unsigned char *)a->x_out + at * row;

	if (lane < count) {
		dev_put_u64((u64 *)a->idx + at + lane, entry == ITEM_NONE ? (u64)-1 : (u64)item);
		store_label(a, at + lane,
			    entry == ITEM_NONE      ? -1
			    : entry & ITEM_POSITIVE ? 1
						    : 0,
			    label_bytes);
	}
	if (a->unit == 16)
		gather_rows_16((const struct dev_v4 *)x, (struct dev_v4 *)out, a->row_bytes / 16,
			       a->lanes_log2, item, count);
	else if (a->unit == 4)
		gather_rows_4((const u32 *)x, (u32 *)out, a->row_bytes / 4, a->lanes_log2, item,
			      count);
	else if (a->unit == 2)
		gather_rows_2((const unsigned short *)x, (unsigned short *)out, a->row_bytes / 2,
			      a->lanes_log2, item, count);
	else
		gather_rows_1(x, out, a->row_bytes, a->lanes_log2, item, count);
}

/* Slots past the drawn items: index -1, label -1, zeros. Done by `threads` threads together, of
 * which this is number t. */
DEV_FN void emit_tail(const struct sampler_args *a, u32 sample, u32 total, u64 t, u64 threads)
{
	u64 first = (u64)sample * a->k + total, end = (u64)sample * a->k + a->k;
	u64 row = a->row_bytes, unit = a->unit == 16 ? 16 : a->unit == 4 ? 4 : 1;
	unsigned char *out = (unsigned char *)a->x_out;
	struct dev_v4 zero = {0, 0, 0, 0};

	for (u64 at = first + t; at < end; at += threads) {
		a->idx[at] = -1;
		store_label(a, at, -1, a->label_bytes);
	}
	for (u64 at = first * row + t * unit; at < end * row; at += threads * unit) {
		if (unit == 16)
			*(struct dev_v4 *)(out + at) = zero;
		else if (unit == 4)
			*(u32 *)(out + at) = 0;
		else
			out[at] = 0;
	}
}

#endif
