/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table-batched embedding as its rules read. Nothing here is clever: device code is measured against
 * it.
 */
#include "kernels/cpu/tbe_cpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers ---------------------------------------------------------------------------------- */

static float from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint32_t to_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

float tbe_cpu_from_f16(uint16_t bits)
{
	uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
		 mantissa = bits & 0x3ff;

	if (exponent == 31)
		return from_bits(sign | 0x7f800000 | mantissa << 13);
	if (exponent)
		return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
	return from_bits(sign | to_bits((float)mantissa * 0x1p-24f));
}

uint16_t tbe_cpu_to_f16(float value)
{
	uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (magnitude >= 0x477ff000) /* 65520 rounds to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude >= 0x38800000) /* normal: 13 bits go */
		return (uint16_t)(sign |
				  ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
	/* Adding 0.5 leaves multiples of 2^-24 in the float's last bits, rounded to even. */
	return (uint16_t)(sign | (to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000));
}

float tbe_cpu_load(uint32_t type, const void *elements, uint64_t at)
{
	if (type == TBE_F32)
		return ((const float *)elements)[at];
	if (type == TBE_F16)
		return tbe_cpu_from_f16(((const uint16_t *)elements)[at]);
	return from_bits((uint32_t)((const uint16_t *)elements)[at] << 16);
}

void tbe_cpu_store(uint32_t type, void *elements, uint64_t at, float value)
{
	if (type == TBE_F32)
		((float *)elements)[at] = value;
	else
		((uint16_t *)elements)[at] = type == TBE_F16
						     ? tbe_cpu_to_f16(value)
						     : (uint16_t)tbe_bf16_round(to_bits(value));
}

int64_t tbe_cpu_index(const struct tbe_args *a, uint64_t position)
{
	return a->index_bytes == 8 ? ((const int64_t *)a->indices)[position]
				   : ((const int32_t *)a->indices)[position];
}

static int64_t raw_offset(const struct tbe_args *a, uint64_t bag)
{
	return a->index_bytes == 8 ? ((const int64_t *)a->offsets)[bag]
				   : ((const int32_t *)a->offsets)[bag];
}

uint64_t tbe_cpu_offset(const struct tbe_args *a, uint64_t bag)
{
	int64_t offset = raw_offset(a, bag);

	return offset < 0 ? 0 : (uint64_t)offset > a->n ? a->n : (uint64_t)offset;
}

void tbe_cpu_fill(const struct tbe_args *a, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		tbe_cpu_store(a->fill_type, a->fill, i, tbe_made_up(a->seed, i, a->fill_type));
}

/* --- forward ---------------------------------------------------------------------------------- */

/* 1 / length where the mean is asked for; a float, as on the device. */
static double bag_scale(const struct tbe_args *a, uint64_t length)
{
	return a->pooling == TBE_MEAN && length ? (double)(1.0f / (float)length) : 1;
}

void tbe_cpu_bag(const struct tbe_args *a, uint32_t feature, uint32_t bag, double *sums,
		 double *sizes)
{
	const struct tbe_feature *f = &a->features[feature];
	uint64_t begin = tbe_cpu_offset(a, (uint64_t)f->bag0 + bag),
		 end = tbe_cpu_offset(a, (uint64_t)f->bag0 + bag + 1);
	double scale = bag_scale(a, end > begin ? end - begin : 0);

	for (uint32_t d = 0; d < f->dim; d++)
		sums[d] = 0;
	for (uint32_t d = 0; sizes && d < f->dim; d++)
		sizes[d] = 0;
	for (uint64_t i = begin; i < end; i++) {
		int64_t row = tbe_cpu_index(a, i);
		double weight = a->sample_weights ? (double)a->sample_weights[i] : 1;

		if (row < 0 || row >= f->rows)
			continue;
		for (uint32_t d = 0; d < f->dim; d++) {
			double v = weight *
				   (double)tbe_cpu_load(a->type, a->weights,
							f->weights + (uint64_t)row * f->dim + d);

			sums[d] += v;
			if (sizes)
				sizes[d] += fabs(v);
		}
	}
	for (uint32_t d = 0; d < f->dim; d++) {
		sums[d] *= scale;
		if (sizes)
			sizes[d] *= scale;
	}
}

/* Without pooling each index has a row of output of its own. */
static void copy_rows(const struct tbe_args *a, uint32_t feature)
{
	const struct tbe_feature *f = &a->features[feature];
	uint64_t begin = tbe_cpu_offset(a, f->bag0),
		 end = tbe_cpu_offset(a, (uint64_t)f->bag0 + f->bags);

	for (uint64_t i = begin; i < end; i++) {
		int64_t row = tbe_cpu_index(a, i);

		for (uint32_t d = 0; d < f->dim; d++) {
			float v = row < 0 || row >= f->rows
					  ? 0
					  : tbe_cpu_load(a->type, a->weights,
							 f->weights + (uint64_t)row * f->dim + d);

			tbe_cpu_store(a->out_type, a->out, i * f->dim + d, v);
		}
	}
}

int tbe_cpu_forward(const struct tbe_args *a)
{
	double *sums = malloc(TBE_DIM_MAX * sizeof(*sums));

	if (!sums)
		return -ENOMEM;
	for (uint32_t t = 0; t < a->feature_count; t++) {
		const struct tbe_feature *f = &a->features[t];

		if (a->pooling == TBE_NONE) {
			copy_rows(a, t);
			continue;
		}
		for (uint32_t b = 0; b < f->bags; b++) {
			tbe_cpu_bag(a, t, b, sums, NULL);
			for (uint32_t d = 0; d < f->dim; d++)
				tbe_cpu_store(a->out_type, a->out,
					      f->out + (uint64_t)b * f->out_stride + d,
					      (float)sums[d]);
		}
	}
	free(sums);
	return 0;
}

/* --- backward --------------------------------------------------------------------------------- */

static int by_row(const void *x, const void *y)
{
	const struct tbe_entry *a = x, *b = y;

	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	return a->feature != b->feature ? (a->feature < b->feature ? -1 : 1)
					: (a->position > b->position) - (a->position < b->position);
}

int tbe_cpu_entries(const struct tbe_args *a, uint32_t table, struct tbe_entry **entries,
		    size_t *count)
{
	size_t room = 1, n = 0;
	struct tbe_entry *all;

	for (uint32_t t = 0; t < a->feature_count; t++) {
		const struct tbe_feature *f = &a->features[t];

		if (f->table == table)
			for (uint32_t b = 0; b < f->bags; b++) {
				uint64_t begin = tbe_cpu_offset(a, (uint64_t)f->bag0 + b),
					 end = tbe_cpu_offset(a, (uint64_t)f->bag0 + b + 1);

				room += end > begin ? end - begin : 0;
			}
	}
	all = malloc(room * sizeof(*all));
	*entries = all;
	*count = 0;
	if (!all)
		return -ENOMEM;
	for (uint32_t t = 0; t < a->feature_count; t++) {
		const struct tbe_feature *f = &a->features[t];

		for (uint32_t b = 0; f->table == table && b < f->bags; b++)
			for (uint64_t i = tbe_cpu_offset(a, (uint64_t)f->bag0 + b);
			     i < tbe_cpu_offset(a, (uint64_t)f->bag0 + b + 1); i++) {
				int64_t row = tbe_cpu_index(a, i);

				if (row >= 0 && row < f->rows)
					all[n++] = (struct tbe_entry){(uint32_t)row, (uint32_t)i, t,
								      b};
			}
	}
	qsort(all, n, sizeof(*all), by_row);
	*count = n;
	return 0;
}

/* Where the gradient of a lookup is, and what it is multiplied by. */
static const float *lookup_gradient(const struct tbe_args *a, const struct tbe_entry *e,
				    double *scale)
{
	const struct tbe_feature *f = &a->features[e->feature];
	uint64_t bag = (uint64_t)f->bag0 + e->bag;

	if (a->pooling == TBE_NONE) {
		*scale = 1;
		return a->grad + (uint64_t)e->position * f->dim;
	}
	*scale = bag_scale(a, tbe_cpu_offset(a, bag + 1) - tbe_cpu_offset(a, bag));
	return a->grad + f->out + (uint64_t)e->bag * f->out_stride;
}

void tbe_cpu_gradient(const struct tbe_args *a, const struct tbe_entry *entries, size_t count,
		      double *sums, double *sizes)
{
	uint32_t dim = count ? a->features[entries->feature].dim : 0;

	memset(sums, 0, dim * sizeof(*sums));
	if (sizes)
		memset(sizes, 0, dim * sizeof(*sizes));
	for (size_t i = 0; i < count; i++) {
		double scale;
		const float *grad = lookup_gradient(a, &entries[i], &scale);

		if (a->sample_weights)
			scale *= (double)a->sample_weights[entries[i].position];
		for (uint32_t d = 0; d < dim; d++) {
			sums[d] += scale * (double)grad[d];
			if (sizes)
				sizes[d] += fabs(scale * (double)grad[d]);
		}
	}
}

static void store_rounded(const struct tbe_args *a, void *elements, uint32_t row, uint32_t d,
			  float value)
{
	uint32_t noise = tbe_noise_of(tbe_noise(a->seed, a->step, row, d), d);

	if (!a->stochastic || a->type == TBE_F32)
		tbe_cpu_store(a->type, elements, d, value);
	else
		((uint16_t *)elements)[d] =
			(uint16_t)(a->type == TBE_F16 ? tbe_f16_stochastic(to_bits(value), noise)
						      : tbe_bf16_stochastic(to_bits(value), noise));
}

void tbe_cpu_update(const struct tbe_args *a, uint32_t row, uint32_t dim, const double *gradient,
		    void *elements, float *state)
{
	double rate = (double)a->rate, squares = 0;

	if (a->optimizer == TBE_ADAGRAD) {
		for (uint32_t d = 0; d < dim; d++)
			squares += gradient[d] * gradient[d];
		*state = (float)((double)*state + squares / dim);
		rate /= sqrt((double)*state) + (double)a->eps;
	}
	for (uint32_t d = 0; d < dim; d++)
		store_rounded(
			a, elements, row, d,
			(float)((double)tbe_cpu_load(a->type, elements, d) - rate * gradient[d]));
}

static uint32_t element_bytes(uint32_t type)
{
	return type == TBE_F32 ? 4 : 2;
}

void tbe_cpu_sample_grads(const struct tbe_args *a)
{
	for (uint32_t t = 0; t < a->feature_count; t++) {
		const struct tbe_feature *f = &a->features[t];

		for (uint32_t b = 0; b < f->bags; b++) {
			uint64_t begin = tbe_cpu_offset(a, (uint64_t)f->bag0 + b),
				 end = tbe_cpu_offset(a, (uint64_t)f->bag0 + b + 1);

			for (uint64_t i = begin; i < end; i++) {
				struct tbe_entry e = {0, (uint32_t)i, t, b};
				int64_t row = tbe_cpu_index(a, i);
				double scale, dot = 0;
				const float *grad = lookup_gradient(a, &e, &scale);

				for (uint32_t d = 0; row >= 0 && row < f->rows && d < f->dim; d++)
					dot += (double)grad[d] *
					       (double)tbe_cpu_load(
						       a->type, a->weights,
						       f->weights + (uint64_t)row * f->dim + d);
				a->sample_grads[i] = (float)(dot * scale);
			}
		}
	}
}

static int update_table(const struct tbe_args *a, uint32_t table, double *sums)
{
	struct tbe_entry *entries;
	size_t count;
	int err = tbe_cpu_entries(a, table, &entries, &count);

	for (size_t i = 0, end; !err && i < count; i = end) {
		const struct tbe_feature *f = &a->features[entries[i].feature];
		uint32_t row = entries[i].row;

		for (end = i + 1; end < count && entries[end].row == row;)
			end++;
		tbe_cpu_gradient(a, entries + i, end - i, sums, NULL);
		tbe_cpu_update(a, f->row0 + row, f->dim, sums,
			       (char *)a->weights + (f->weights + (uint64_t)row * f->dim) *
							    element_bytes(a->type),
			       a->state ? &a->state[f->row0 + row] : NULL);
	}
	free(entries);
	return err;
}

int tbe_cpu_update_tables(const struct tbe_args *a, int small)
{
	double *sums = malloc(TBE_DIM_MAX * sizeof(*sums));
	int err = sums ? 0 : -ENOMEM;

	for (uint32_t table = 0; table < a->table_count && !err; table++)
		if (!a->tables[table].small == !small)
			err = update_table(a, table, sums);
	free(sums);
	return err;
}

int tbe_cpu_backward(const struct tbe_args *a)
{
	int err;

	if (a->sample_grads && a->sample_weights)
		tbe_cpu_sample_grads(a);
	err = tbe_cpu_update_tables(a, 0);
	return err ? err : tbe_cpu_update_tables(a, 1);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void put(const struct tbe_args *a, const void *array, uint64_t at, int64_t value)
{
	if (a->index_bytes == 8)
		((int64_t *)(uintptr_t)array)[at] = value;
	else
		((int32_t *)(uintptr_t)array)[at] = (int32_t)value;
}

/* Bag `bag` has a bad begin or end. */
static int bad_bag(const struct tbe_args *a, uint64_t bag)
{
	int64_t begin = raw_offset(a, bag), end = raw_offset(a, bag + 1);

	return begin < 0 || begin > end || end > (int64_t)a->n ||
	       (bag + 1 == a->bags && end != (int64_t)a->n);
}

static void check_offsets(const struct tbe_args *a)
{
	struct tbe_bounds_report *r = a->report;
	int64_t most = 0;

	for (uint64_t bag = 0; bag < a->bags; bag++)
		if (bad_bag(a, bag) && !r->bad_offsets++) {
			r->first_offset = bag;
			r->offset_begin = raw_offset(a, bag);
			r->offset_end = raw_offset(a, bag + 1);
		}
	if (!r->bad_offsets || !a->repair)
		return;
	for (uint64_t bag = 0; bag <= a->bags; bag++) {
		int64_t offset = (int64_t)tbe_cpu_offset(a, bag);

		most = offset > most ? offset : most;
		put(a, a->offsets, bag, bag == a->bags ? (int64_t)a->n : most);
	}
}

void tbe_cpu_bounds(const struct tbe_args *a)
{
	struct tbe_bounds_report *r = a->report;

	memset(r, 0, sizeof(*r));
	check_offsets(a);
	for (uint32_t t = 0; t < a->feature_count; t++) {
		const struct tbe_feature *f = &a->features[t];
		uint64_t end = tbe_cpu_offset(a, (uint64_t)f->bag0 + f->bags);

		for (uint64_t i = tbe_cpu_offset(a, f->bag0); i < end; i++) {
			int64_t row = tbe_cpu_index(a, i);

			if (row >= -1 && row < f->rows)
				continue;
			if (!r->bad_indices++ || i < r->first_index) {
				r->first_index = i;
				r->index_value = row;
			}
			if (a->repair)
				put(a, a->indices, i, 0);
		}
	}
}
