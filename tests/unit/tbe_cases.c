/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tbe_cases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/tbe_cpu.h"
#include "kernels/cuda.h"
#include "kernels/tbe.h"

enum { TABLES = 4, FEATURES = 6 };

/*
 * In an exact case all values are multiples of an eighth: integers first, and after a step integers
 * less an eighth of integers, which a shorter type only makes coarser. FP32 holds every sum of such,
 * whatever the order, while the sizes of what is added come to no more than 2^24 eighths. Then
 * results must be the oracle's bits; beyond, the error bound is all that can be asked.
 */
#define EXACT_SIZE 0x1p21

struct tbe_case {
	uint64_t random;
	struct tbe_shape tables[TABLES];
	uint32_t map[FEATURES], batches[FEATURES];
	struct tbe_config config;
	int exact;               /* see EXACT_SIZE */
	struct tbe *tbe, *other; /* the second with another grid */
	struct cuda *cuda;
	struct tbe_io host, io,
		again; /* host arrays; where the calls go; copies for the other grid */
	uint64_t weight_bytes, out_bytes, grad_elements;
	void *before; /* the weights before a backward */
	float *state_before;
	char *why;
	size_t why_bytes;
};

static uint32_t pick(struct tbe_case *c, uint32_t below)
{
	c->random = sampler_mix64(c->random + 0x9e3779b97f4a7c15ull);
	return (uint32_t)((c->random >> 32) % below);
}

static int bad(struct tbe_case *c, const char *what, uint64_t which, double got, double want)
{
	snprintf(
		c->why, c->why_bytes,
		"%s %llu: %.9g, the oracle says %.9g (type %s, out %s, pooling %s, optimizer %s, path %s, n %u%s%s%s)",
		what, (unsigned long long)which, got, want, tbe_type_names[c->config.type],
		tbe_type_names[c->config.out_type], tbe_pooling_names[c->config.pooling],
		tbe_optimizer_names[c->config.optimizer], tbe_path_names[c->config.path], c->host.n,
		c->config.weighted ? ", weighted" : "", c->config.stochastic ? ", stochastic" : "",
		c->exact ? ", exact" : "");
	return 1;
}

static int failed(struct tbe_case *c, const char *doing, const char *words)
{
	snprintf(c->why, c->why_bytes, "%s: %s", doing, words);
	return 1;
}

static void choose(struct tbe_case *c, uint32_t most)
{
	static const uint32_t rows[] = {1, 2, 7, 61, 64, 65, 300, 5003},
			      dims[] = {4, 8, 12, 20, 64, 100, 128, 132, 260};
	struct tbe_config *g = &c->config;
	uint32_t bags = 0, same = dims[pick(c, 9)];

	g->tables = c->tables;
	g->feature_table = c->map;
	g->table_count = 1 + pick(c, TABLES);
	g->feature_count = 1 + pick(c, FEATURES);
	g->pooling = (enum tbe_pooling)(pick(c, 5) % 3);
	g->type = (enum tbe_type)pick(c, TBE_TYPE_MAX);
	g->out_type = pick(c, 3) ? TBE_F32 : (enum tbe_type)pick(c, TBE_TYPE_MAX);
	g->index_bytes = pick(c, 2) ? 4 : 8;
	g->path = (enum tbe_path)pick(c, TBE_PATH_MAX);
	g->bag_hint = pick(c, 64);
	g->weighted = g->pooling != TBE_NONE && !pick(c, 3);
	g->training = 1;
	g->optimizer = (enum tbe_optimizer)pick(c, TBE_OPTIMIZER_MAX);
	g->rate = 0.125f;
	g->eps = 1e-4f;
	g->stochastic = (int)pick(c, 2);
	g->seed = c->random;
	g->warp_bags = pick(c, 3) ? 0 : 1 + pick(c, 31);
	g->blocks = 1 + pick(c, 4);
	g->batch = pick(c, 4) ? 1 + pick(c, 60) : pick(c, 3);
	for (uint32_t i = 0; i < g->table_count; i++) {
		c->tables[i].rows = rows[pick(c, 8)];
		c->tables[i].dim = g->pooling == TBE_NONE ? same : dims[pick(c, 9)];
	}
	if (!pick(c, 3))
		g->batches = c->batches;
	for (uint32_t i = 0; i < g->feature_count; i++) {
		c->map[i] = pick(c, g->table_count);
		c->batches[i] = pick(c, 70);
		bags += g->batches ? c->batches[i] : g->batch;
	}
	c->host.n = bags ? pick(c, 8) ? pick(c, most) : 0 : 0;
	g->max_indices = c->host.n;
	/* integers and a rate of an eighth: sums that FP32 holds to the eighth are rounded nowhere but in the result */
	c->exact = g->optimizer == TBE_SGD && g->pooling != TBE_MEAN && pick(c, 2);
}

static void put(const struct tbe_case *c, uint64_t array, uint64_t at, int64_t value)
{
	if (c->config.index_bytes == 8)
		((int64_t *)(uintptr_t)array)[at] = value;
	else
		((int32_t *)(uintptr_t)array)[at] = (int32_t)value;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Offsets that rise at random, with empty bags; or one bag that has nearly all. */
static int make_offsets(struct tbe_case *c)
{
	uint32_t bags = tbe_bags(c->tbe), *cut = calloc(bags + 2, sizeof(*cut)),
		 heap = pick(c, 4) ? 0 : 1;

	if (!cut)
		return failed(c, "making a case", "out of memory");
	for (uint32_t i = 1; i < bags; i++)
		cut[i] = heap ? (i > bags / 2 ? c->host.n : pick(c, 8)) : pick(c, c->host.n + 1);
	for (uint32_t i = 1; i < bags; i++)
		cut[i] = cut[i] > c->host.n ? c->host.n : cut[i];
	cut[bags] = c->host.n;
	qsort(cut, bags + 1, sizeof(*cut), by_value);
	cut[0] = 0;
	for (uint32_t i = 0; i <= bags; i++)
		put(c, c->host.offsets, i, cut[i]);
	free(cut);
	return 0;
}

static float value(struct tbe_case *c)
{
	if (c->exact)
		return (float)pick(c, 9) - 4;
	return ((float)pick(c, 1u << 20) - (1u << 19)) * 0x1p-20f;
}

static void fill(struct tbe_case *c)
{
	const struct tbe_args *a = tbe_oracle_args(c->tbe, &c->host);
	int hot = (int)pick(c, 3), pruned = pick(c, 8) ? (int)pick(c, 20) : 100;

	for (uint32_t t = 0; t < a->feature_count; t++) {
		const struct tbe_feature *f = &a->features[t];

		for (uint64_t i = tbe_cpu_offset(a, f->bag0);
		     i < tbe_cpu_offset(a, (uint64_t)f->bag0 + f->bags); i++)
			put(c, c->host.indices, i,
			    (int)pick(c, 100) < pruned ? -1
			    : hot && pick(c, 10)       ? f->rows / 2
						       : (int64_t)pick(c, f->rows));
	}
	for (uint64_t i = 0; i < tbe_weight_elements(c->tbe); i++)
		tbe_cpu_store(c->config.type, (void *)(uintptr_t)c->host.weights, i, value(c));
	for (uint64_t i = 0; i < c->grad_elements; i++)
		((float *)(uintptr_t)c->host.grad)[i] = value(c);
	for (uint64_t i = 0; i < tbe_rows(c->tbe); i++)
		((float *)(uintptr_t)c->host.state)[i] = fabsf(value(c));
	for (uint32_t i = 0; c->config.weighted && i < c->host.n; i++)
		((float *)(uintptr_t)c->host.sample_weights)[i] =
			c->exact ? (float)(1 + pick(c, 2)) : value(c);
}

/* --- memory: host arrays, and on a driver a copy of each ---------------------------------------- */

struct part {
	size_t at; /* in struct tbe_io */
	uint64_t bytes;
};

static unsigned parts_of(const struct tbe_case *c, struct part *parts)
{
	uint64_t n = c->host.n, index = c->config.index_bytes;
	const struct part all[] = {
		{offsetof(struct tbe_io, weights), c->weight_bytes},
		{offsetof(struct tbe_io, indices), n * index},
		{offsetof(struct tbe_io, offsets), (tbe_bags(c->tbe) + 1ull) * index},
		{offsetof(struct tbe_io, sample_weights), c->config.weighted ? n * 4 : 0},
		{offsetof(struct tbe_io, out), c->out_bytes},
		{offsetof(struct tbe_io, grad), c->grad_elements * 4},
		{offsetof(struct tbe_io, state), tbe_rows(c->tbe) * 4},
		{offsetof(struct tbe_io, sample_grads), c->config.weighted ? n * 4 : 0},
	};

	memcpy(parts, all, sizeof(all));
	return sizeof(all) / sizeof(all[0]);
}

static uint64_t *field(struct tbe_io *io, const struct part *part)
{
	return (uint64_t *)((char *)io + part->at);
}

static int get_memory(struct tbe_case *c)
{
	struct part parts[8];
	unsigned count;

	c->weight_bytes = tbe_weight_elements(c->tbe) * (c->config.type == TBE_F32 ? 4 : 2);
	c->grad_elements = tbe_out_elements(c->tbe, c->host.n);
	c->out_bytes = c->grad_elements * (c->config.out_type == TBE_F32 ? 4 : 2);
	count = parts_of(c, parts);
	for (unsigned i = 0; i < count; i++) {
		void *p = NULL;

		if (posix_memalign(&p, 64, parts[i].bytes + 64))
			return failed(c, "making a case", "out of memory");
		memset(p, 0xa5, parts[i].bytes + 64);
		*field(&c->host, &parts[i]) = (uintptr_t)p;
		for (int k = 0; k < 2; k++) {
			uint64_t *to = field(k ? &c->again : &c->io, &parts[i]);

			if (c->cuda && cuda_alloc(c->cuda, parts[i].bytes + 64, to, "a case"))
				return failed(c, "making a case", c->cuda->error);
			if (!c->cuda) {
				*to = (uintptr_t)calloc(1, parts[i].bytes + 64);
				if (!*to)
					return failed(c, "making a case", "out of memory");
			}
		}
	}
	c->io.n = c->again.n = c->host.n;
	c->before = malloc(c->weight_bytes + 1);
	c->state_before = malloc(tbe_rows(c->tbe) * 4 + 4);
	return c->before && c->state_before ? 0 : failed(c, "making a case", "out of memory");
}

static void free_memory(struct tbe_case *c)
{
	struct part parts[8];
	unsigned count = c->tbe ? parts_of(c, parts) : 0;

	for (unsigned i = 0; i < count; i++) {
		free((void *)(uintptr_t)*field(&c->host, &parts[i]));
		for (int k = 0; k < 2; k++) {
			uint64_t at = *field(k ? &c->again : &c->io, &parts[i]);

			if (c->cuda)
				cuda_free(c->cuda, at);
			else
				free((void *)(uintptr_t)at);
		}
	}
	free(c->before);
	free(c->state_before);
}

/* All host arrays to where the calls are. */
static int upload(struct tbe_case *c, struct tbe_io *to)
{
	struct part parts[8];
	unsigned count = parts_of(c, parts);

	for (unsigned i = 0; i < count; i++) {
		const void *from = (const void *)(uintptr_t)*field(&c->host, &parts[i]);

		if (!c->cuda)
			memcpy((void *)(uintptr_t)*field(to, &parts[i]), from, parts[i].bytes);
		else if (cuda_upload(c->cuda, *field(to, &parts[i]), from, parts[i].bytes))
			return failed(c, "uploading", c->cuda->error);
	}
	return 0;
}

static int download(struct tbe_case *c, void *to, uint64_t from, uint64_t bytes)
{
	if (!c->cuda)
		memcpy(to, (const void *)(uintptr_t)from, bytes);
	else if (cuda_wait(c->cuda) || cuda_download(c->cuda, to, from, bytes))
		return failed(c, "downloading", c->cuda->error);
	return 0;
}

/* --- checks ------------------------------------------------------------------------------------- */

/* Half the distance between neighbours of this size in a type. */
static double half_ulp(enum tbe_type type, double v)
{
	static const int bits[] = {24, 11, 8};
	static const double least[] = {0x1p-149, 0x1p-24, 0x1p-133};
	double ulp = ldexp(1, ilogb(fabs(v) + 1e-300) - bits[type] + 1);

	return (ulp > least[type] ? ulp : least[type]) / 2;
}

/* What is left of a value in a type. */
static double rounded(enum tbe_type type, double value)
{
	float bits;

	tbe_cpu_store(type, &bits, 0, (float)value);
	return (double)tbe_cpu_load(type, &bits, 0);
}

/*
 * How far the FP32 value that is stored may be off. FP32 weights: FP64 sums, rounded once. 16-bit
 * weights: an FP32 rounding for each addition and for the scale.
 */
static double forward_bound(const struct tbe_case *c, uint64_t length, double sum, double size)
{
	double error = c->config.type == TBE_F32 ? 0x1p-50 * (double)(length + 2) * size
						 : 0x1p-24 * (double)(length + 4) * size;

	return error + half_ulp(TBE_F32, sum);
}

/* Whether an output may be `got`: rounding keeps order, so that it lies between what the least and the
 * greatest allowed sum would be in the output's type, which may be infinite. */
static int output_right(const struct tbe_case *c, double got, uint64_t length, double sum,
			double size)
{
	double off = forward_bound(c, length, sum, size);

	if (c->exact && size <= EXACT_SIZE)
		return got == rounded(c->config.out_type, sum);
	return got >= rounded(c->config.out_type, sum - off) &&
	       got <= rounded(c->config.out_type, sum + off);
}

static int check_pooled(struct tbe_case *c, const struct tbe_args *a)
{
	double *sums = calloc(2 * TBE_DIM_MAX, sizeof(*sums)), *sizes = sums + TBE_DIM_MAX;
	int err = sums ? 0 : failed(c, "checking", "out of memory");

	for (uint32_t t = 0; t < a->feature_count && !err; t++) {
		const struct tbe_feature *f = &a->features[t];

		for (uint32_t b = 0; b < f->bags && !err; b++) {
			uint64_t at = f->out + (uint64_t)b * f->out_stride,
				 bag = (uint64_t)f->bag0 + b;
			uint64_t length = tbe_cpu_offset(a, bag + 1) - tbe_cpu_offset(a, bag);

			tbe_cpu_bag(a, t, b, sums, sizes);
			for (uint32_t d = 0; d < f->dim && !err; d++) {
				double got =
					(double)tbe_cpu_load(c->config.out_type, a->out, at + d);

				if (!output_right(c, got, length, sums[d], sizes[d]))
					err = bad(c, c->exact ? "exact output" : "output", at + d,
						  got, sums[d]);
			}
		}
	}
	free(sums);
	return err;
}

static int check_forward(struct tbe_case *c)
{
	const struct tbe_args *a = tbe_oracle_args(c->tbe, &c->host);
	void *want = malloc(c->out_bytes + 1);
	struct tbe_args w = *a;
	int err = want ? download(c, a->out, c->io.out, c->out_bytes)
		       : failed(c, "checking", "out of memory");

	if (!err && c->config.pooling != TBE_NONE)
		err = check_pooled(c, a);
	if (!err && c->config.pooling == TBE_NONE) { /* copies: the oracle's bits always */
		w.out = want;
		if (tbe_cpu_forward(&w))
			err = failed(c, "checking", "out of memory");
		for (uint64_t i = 0; i < c->grad_elements && !err; i++)
			if (tbe_cpu_load(c->config.out_type, want, i) !=
			    tbe_cpu_load(c->config.out_type, a->out, i))
				err = bad(c, "copied output", i,
					  (double)tbe_cpu_load(c->config.out_type, a->out, i),
					  (double)tbe_cpu_load(c->config.out_type, want, i));
	}
	free(want);
	return err;
}

/* One row after a backward; `a` has the weights and state after it. */
static int check_row(struct tbe_case *c, const struct tbe_args *a, const struct tbe_entry *entries,
		     size_t count, double *sums, double *sizes)
{
	const struct tbe_feature *f = &a->features[entries->feature];
	uint32_t row = f->row0 + entries->row;
	uint64_t at = f->weights + (uint64_t)entries->row * f->dim;
	double relative = 0x1p-24 * (double)(count + 8), rate = (double)a->rate, squares = 0,
	       slack = 0;
	unsigned char want[TBE_DIM_MAX * 4];
	float state = c->state_before[row];

	tbe_cpu_gradient(a, entries, count, sums, sizes);
	for (uint32_t d = 0; d < f->dim; d++) {
		squares += sums[d] * sums[d];
		slack += 2 * sizes[d] * sizes[d] * relative;
	}
	if (c->config.optimizer == TBE_ADAGRAD) {
		double after = (double)state + squares / f->dim,
		       off = slack / f->dim + 1e-6 * after;

		if (!(fabs((double)a->state[row] - after) <= off))
			return bad(c, "state", row, (double)a->state[row], after);
		rate /= sqrt(after) + (double)a->eps;
		slack = rate * (off / (after + 1e-30) + 1e-6);
	} else {
		slack = 0;
	}
	memcpy(want, (const char *)c->before + at * (c->config.type == TBE_F32 ? 4 : 2),
	       f->dim * (c->config.type == TBE_F32 ? 4u : 2u));
	tbe_cpu_update(a, row, f->dim, sums, want, &state);
	for (uint32_t d = 0; d < f->dim; d++) {
		double was = (double)tbe_cpu_load(c->config.type, c->before, at + d),
		       to = was - rate * sums[d];
		double got = (double)tbe_cpu_load(c->config.type, a->weights, at + d);
		double off =
			rate * sizes[d] * relative + fabs(slack * sums[d]) + half_ulp(TBE_F32, to);

		if (c->config.type != TBE_F32)
			off += half_ulp(c->config.type, fabs(to) + off) *
			       (a->stochastic ? 2 : 1.01);
		if (!(fabs(got - to) <= off))
			return bad(c, "weight", at + d, got, to);
		if (c->exact && sizes[d] <= EXACT_SIZE &&
		    got != (double)tbe_cpu_load(c->config.type, want, d))
			return bad(c, "exact weight", at + d, got,
				   (double)tbe_cpu_load(c->config.type, want, d));
	}
	return 0;
}

static int check_samples(struct tbe_case *c, const struct tbe_args *after)
{
	float *got = after->sample_grads, *want = calloc(c->host.n + 1, sizeof(*want));
	struct tbe_args a = *after;
	int err = want ? 0 : failed(c, "checking", "out of memory");

	a.sample_grads = want;
	a.weights = c->before;
	if (!err)
		tbe_cpu_sample_grads(&a);
	for (uint32_t i = 0; i < c->host.n && !err;
	     i++) /* values and gradients up to 4, TBE_DIM_MAX of them */
		if (!(fabs((double)got[i] - (double)want[i]) <=
		      0x1p-20 * 300 + 1e-5 * fabs((double)want[i])))
			err = bad(c, "sample weight's gradient", i, (double)got[i],
				  (double)want[i]);
	free(want);
	return err;
}

/* Host copies of the results, then row by row; what was not looked up must be as it was. */
static int check_backward(struct tbe_case *c, uint64_t step)
{
	struct tbe_args a = *tbe_oracle_args(c->tbe, &c->host);
	double *sums = calloc(2 * TBE_DIM_MAX, sizeof(*sums));
	uint32_t width = c->config.type == TBE_F32 ? 4 : 2;
	int err = sums ? 0 : failed(c, "checking", "out of memory");

	a.step = step;
	memcpy(c->before, a.weights, c->weight_bytes);
	memcpy(c->state_before, a.state, tbe_rows(c->tbe) * 4);
	err = err ? err : download(c, a.weights, c->io.weights, c->weight_bytes);
	err = err ? err : download(c, a.state, c->io.state, tbe_rows(c->tbe) * 4);
	if (!err && c->config.weighted) {
		err = download(c, a.sample_grads, c->io.sample_grads, c->host.n * 4ull);
		err = err ? err : check_samples(c, &a);
	}
	for (uint32_t table = 0; table < a.table_count && !err; table++) {
		struct tbe_entry *entries;
		size_t count, next = 0;

		if (!a.tables[table].features)
			continue;
		if (tbe_cpu_entries(&a, table, &entries, &count))
			err = failed(c, "checking", "out of memory");
		for (uint32_t row = 0; row < c->tables[table].rows && !err; row++) {
			const struct tbe_feature *f =
				&a.features[a.order[a.tables[table].feature0]];
			uint64_t at = (f->weights + (uint64_t)row * f->dim) * width;
			size_t first = next;

			while (next < count && entries[next].row == row)
				next++;
			if (next > first)
				err = check_row(c, &a, entries + first, next - first, sums,
						sums + TBE_DIM_MAX);
			else if (memcmp((char *)a.weights + at, (char *)c->before + at,
					f->dim * width) != 0)
				err = bad(c, "row that no one looked up,", row, 0, 0);
		}
		free(entries);
	}
	free(sums);
	return err;
}

/* The bits of the first grid's results. */
static int check_same(struct tbe_case *c)
{
	void *got = malloc(c->weight_bytes + c->out_bytes + 1);
	int err = got ? download(c, got, c->again.weights, c->weight_bytes)
		      : failed(c, "checking", "out of memory");

	if (!err && memcmp(got, (void *)(uintptr_t)c->host.weights, c->weight_bytes) != 0)
		err = failed(c, "another grid", "other weights");
	err = err ? err : download(c, got, c->again.out, c->out_bytes);
	if (!err && memcmp(got, (void *)(uintptr_t)c->host.out, c->out_bytes) != 0)
		err = failed(c, "another grid", "another output");
	free(got);
	return err;
}

/* --- bad inputs --------------------------------------------------------------------------------- */

static int same_report(const struct tbe_bounds_report *a, const struct tbe_bounds_report *b)
{
	if (a->bad_indices != b->bad_indices || a->bad_offsets != b->bad_offsets)
		return 0;
	if (a->bad_indices &&
	    (a->first_index != b->first_index || a->index_value != b->index_value))
		return 0;
	return !a->bad_offsets ||
	       (a->first_offset == b->first_offset && a->offset_begin == b->offset_begin &&
		a->offset_end == b->offset_end);
}

static void spoil(struct tbe_case *c)
{
	static const int64_t wrong[] = {-2, 5003, 2147483647, -2147483647 - 1, 65, 300};
	uint32_t indices = pick(c, 3) ? 1 + pick(c, 3) : 0,
		 offsets = pick(c, 3) ? 0 : 1 + pick(c, 2);

	for (uint32_t i = 0; i < indices && c->host.n; i++)
		put(c, c->host.indices, pick(c, c->host.n), wrong[pick(c, 6)]);
	for (uint32_t i = 0; i < offsets; i++)
		put(c, c->host.offsets, pick(c, tbe_bags(c->tbe) + 1),
		    (int64_t)pick(c, c->host.n * 2 + 3) - 1);
}

/* Check, find, repair: as the oracle does. Leaves the repaired inputs on both sides. */
static int check_bounds(struct tbe_case *c)
{
	enum tbe_bounds_mode mode = (enum tbe_bounds_mode)pick(c, 3);
	uint64_t bags = tbe_bags(c->tbe), index = c->config.index_bytes;
	struct tbe_bounds_report got, want;
	char *arrays = malloc((c->host.n + bags + 2) * index);
	struct tbe_args a;
	int err, bounds;

	spoil(c);
	a = *tbe_oracle_args(c->tbe, &c->host);
	a.report = &want;
	a.repair = mode != TBE_BOUNDS_FATAL;
	err = arrays ? upload(c, &c->io) : failed(c, "checking", "out of memory");
	if (!err) {
		bounds = tbe_bounds(c->tbe, &c->io, mode, &got);
		tbe_cpu_bounds(&a);
		if (!same_report(&got, &want))
			err = bad(c, "report: bad indices, bad offsets times 1000; first",
				  got.bad_indices ? got.first_index : got.first_offset,
				  (double)got.bad_indices + 1e3 * (double)got.bad_offsets,
				  (double)want.bad_indices + 1e3 * (double)want.bad_offsets);
		else if (bounds !=
			 (mode == TBE_BOUNDS_FATAL && (want.bad_indices || want.bad_offsets)
				  ? -ERANGE
				  : 0))
			err = failed(c, "the bounds check's status", tbe_error(c->tbe));
	}
	err = err ? err : download(c, arrays, c->io.indices, c->host.n * index);
	err = err ? err
		  : download(c, arrays + c->host.n * index, c->io.offsets, (bags + 1) * index);
	if (!err && (memcmp(arrays, a.indices, c->host.n * index) != 0 ||
		     memcmp(arrays + c->host.n * index, a.offsets, (bags + 1) * index) != 0))
		err = failed(c, "the bounds check", "repaired otherwise than the oracle");
	free(arrays);
	return err;
}

/* --- a case ------------------------------------------------------------------------------------- */

static int run_steps(struct tbe_case *c, uint32_t steps)
{
	int err = 0;

	if (upload(c, &c->io) || upload(c, &c->again))
		return 1;
	for (uint32_t s = 0; s < steps && !err; s++) {
		struct tbe *both[] = {c->tbe, c->other};

		for (int k = 0; k < 2 && !err; k++) {
			struct tbe_io *io = k ? &c->again : &c->io;

			if (tbe_forward(both[k], io) ||
			    ((s + (uint32_t)k) % 2 && tbe_transpose(both[k], io)))
				err = failed(c, "running", tbe_error(both[k]));
			err = err || k ? err : check_forward(c);
			if (!err && tbe_backward(both[k], io))
				err = failed(c, "running", tbe_error(both[k]));
			err = err || k ? err : check_backward(c, s);
		}
		err = err ? err : check_same(c);
	}
	return err;
}

int tbe_case_run(struct cuda *cuda, uint64_t seed, uint32_t most, char *why, size_t why_bytes)
{
	struct tbe_case c = {.random = sampler_mix64(seed + 1),
			     .cuda = cuda,
			     .why = why,
			     .why_bytes = why_bytes};
	int err;

	choose(&c, most);
	err = tbe_open(cuda, &c.config, &c.tbe) ? failed(&c, "opening", tbe_error(c.tbe)) : 0;
	c.config.blocks = c.config.blocks % 4 + 1;
	if (!err && tbe_open(cuda, &c.config, &c.other))
		err = failed(&c, "opening", tbe_error(c.other));
	err = err ? err : get_memory(&c);
	err = err ? err : make_offsets(&c);
	if (!err)
		fill(&c);
	err = err ? err : run_steps(&c, 1 + pick(&c, 2));
	if (!err && tbe_bags(c.tbe))
		err = check_bounds(&c);
	free_memory(&c);
	tbe_close(c.tbe);
	tbe_close(c.other);
	return err;
}
