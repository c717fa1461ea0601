/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler as its rule reads (device/sampler_rule.h): gather the keys of each class, find the
 * key that is the last to be drawn, walk the items in order and send each drawn one to its slot. No
 * bit tricks: device code is measured against this.
 */
#include "kernels/cpu/sampler_cpu.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

unsigned long long sampler_cpu_stream(const struct sampler_args *a, unsigned sample)
{
	return sampler_stream(a->seed, a->call + (a->call_base ? *a->call_base : 0),
			      a->first_sample + sample);
}

void sampler_cpu_order(unsigned long long stream, unsigned *words)
{
	for (unsigned r = 0; r < SAMPLER_ROUNDS_MAX; r++)
		sampler_order_round(stream, r, words);
}

unsigned sampler_cpu_class(const struct sampler_args *a, unsigned sample, unsigned item)
{
	size_t at = (size_t)sample * a->n + item;
	int64_t label;

	if (a->label_bytes == 8)
		label = ((const int64_t *)a->labels)[at];
	else if (a->label_bytes == 4)
		label = ((const int32_t *)a->labels)[at];
	else
		label = ((const uint8_t *)a->labels)[at];
	return label == 1 ? 1 : label == 0 ? 0 : 2;
}

static void put_label(const struct sampler_args *a, size_t at, int label)
{
	if (a->label_bytes == 8)
		((int64_t *)a->labels_out)[at] = label;
	else if (a->label_bytes == 4)
		((int32_t *)a->labels_out)[at] = label;
	else
		((uint8_t *)a->labels_out)[at] = (uint8_t)label;
}

void sampler_cpu_emit(const struct sampler_args *a, unsigned sample, unsigned item,
		      unsigned positive, unsigned slot)
{
	size_t at = (size_t)sample * a->k + slot, from = (size_t)sample * a->n + item;

	a->idx[at] = item;
	put_label(a, at, positive ? 1 : 0);
	if (a->row_bytes)
		memcpy((char *)a->x_out + at * a->row_bytes,
		       (const char *)a->x + from * a->row_bytes, a->row_bytes);
}

void sampler_cpu_tail(const struct sampler_args *a, unsigned sample, unsigned total)
{
	size_t first = (size_t)sample * a->k + total, end = (size_t)sample * a->k + a->k;

	for (size_t at = first; at < end; at++) {
		a->idx[at] = -1;
		put_label(a, at, -1);
	}
	if (a->row_bytes && first < end)
		memset((char *)a->x_out + first * a->row_bytes, 0, (end - first) * a->row_bytes);
}

unsigned sampler_cpu_select(unsigned *keys, size_t n, size_t select)
{
	size_t low = 0, high = n - 1, want = select - 1;

	while (low < high) { /* quickselect by Hoare's partition; keys are as good as shuffled */
		unsigned pivot = keys[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (keys[i] < pivot)
				i++;
			while (keys[j] > pivot)
				j--;
			if (i >= j)
				break;
			unsigned t = keys[i];

			keys[i++] = keys[j];
			keys[j--] = t;
		}
		if (want <= j)
			high = j;
		else
			low = j + 1;
	}
	return keys[low];
}

static void run_sample(const struct sampler_args *a, unsigned sample, unsigned *keys)
{
	unsigned long long stream = sampler_cpu_stream(a, sample);
	struct sampler_keys by = sampler_keys_of(stream);
	unsigned order[SAMPLER_ORDER_WORDS];
	unsigned have[2] = {0, 0}, want[2], last[2] = {0, 0}, bits, total, rank = 0;

	sampler_cpu_order(stream, order);
	for (unsigned i = 0; i < a->n; i++) {
		unsigned kind = sampler_cpu_class(a, sample, i);

		if (kind == 1) /* positives from the front of the array, negatives from its end */
			keys[have[0]++] = sampler_key(i, by);
		else if (kind == 0)
			keys[a->n - ++have[1]] = sampler_key(i, by);
	}
	sampler_split(have[0], have[1], a->k, a->k_pos, a->fill_pos, &want[0], &want[1]);
	if (want[0])
		last[0] = sampler_cpu_select(keys, have[0], want[0]);
	if (want[1])
		last[1] = sampler_cpu_select(keys + a->n - have[1], have[1], want[1]);
	total = want[0] + want[1];
	bits = sampler_order_bits(total);
	for (unsigned i = 0; i < a->n && rank < total; i++) {
		unsigned kind = sampler_cpu_class(a, sample, i), c = kind == 1 ? 0 : 1;

		if (kind < 2 && want[c] && sampler_key(i, by) <= last[c])
			sampler_cpu_emit(a, sample, i, kind,
					 sampler_slot(rank++, total, bits, order));
	}
	sampler_cpu_tail(a, sample, total);
	a->counts[2 * sample] = (int)total;
	a->counts[2 * sample + 1] = (int)want[0];
}

int sampler_cpu_run(const struct sampler_args *a)
{
	unsigned *keys = calloc((size_t)a->n + 1, sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	for (unsigned s = 0; s < a->batch; s++)
		run_sample(a, s, keys);
	free(keys);
	return 0;
}
