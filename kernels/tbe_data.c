/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and checks of waylay-tbe-perf. */
#include "kernels/tbe_data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/tbe_cpu.h"
#include "kernels/cuda.h"

const char *const tbe_spread_names[TBE_SPREAD_MAX] = {"uniform", "zipf", "one"};

enum { CHECKED_BAGS = 4096, CHECKED_ROWS = 2048, CHECKED_TABLES = 3 };

static int say(struct tbe_data *d, int err, const char *what)
{
	if (err)
		snprintf(d->error, sizeof(d->error), "%s: %s", what,
			 d->cuda && err != -ENOMEM ? d->cuda->error : strerror(-err));
	return err;
}

static uint64_t draw(uint64_t *random)
{
	*random += 0x9e3779b97f4a7c15ull;
	return sampler_mix64(*random);
}

/* The integral of x^-exponent from k to k + 1. */
static double zipf_area(double k, double exponent)
{
	double s = 1 - exponent;

	return fabs(s) < 1e-9 ? log((k + 1) / k) : (pow(k + 1, s) - pow(k, s)) / s;
}

/* Ranks of a Zipf law, by rejection from the continuous one; ranks are spread over the rows. */
static uint64_t zipf(uint64_t *random, double exponent, uint64_t rows)
{
	double most = (double)rows, s = 1 - exponent;

	for (;;) {
		double u = (double)(draw(random) >> 11) * 0x1p-53,
		       accept = (double)(draw(random) >> 11) * 0x1p-53;
		double x = fabs(s) < 1e-9 ? exp(u * log(most + 1))
					  : pow(u * (pow(most + 1, s) - 1) + 1, 1 / s);
		double k = floor(x);

		if (k >= 1 && k <= most &&
		    accept * zipf_area(k, exponent) < pow(k, -exponent) * zipf_area(1, exponent))
			return ((uint64_t)k - 1) * 0x9e3779b1ull % rows;
	}
}

static uint64_t choose_row(const struct tbe_data *d, uint64_t *random, uint64_t rows)
{
	switch (d->spread) {
	case TBE_ZIPF:
		return zipf(random, d->exponent, rows);
	case TBE_ONE:
		if ((double)(draw(random) >> 11) * 0x1p-53 < d->exponent)
			return rows / 2;
		break;
	default:
		break;
	}
	return draw(random) % rows;
}

static void put(const struct tbe_data *d, char *array, uint64_t at, uint64_t value)
{
	if (d->config->index_bytes == 8)
		((uint64_t *)(void *)array)[at] = value;
	else
		((uint32_t *)(void *)array)[at] = (uint32_t)value;
}

static int make_indices(struct tbe_data *d)
{
	const struct tbe_config *c = d->config;
	uint64_t bags = tbe_bags(d->tbe), n = bags * d->length, random = c->seed, at = 0;
	uint32_t *seen = NULL;

	d->indices = malloc(n * c->index_bytes + 1);
	d->offsets = malloc((bags + 1) * c->index_bytes);
	if (!d->indices || !d->offsets)
		return say(d, -ENOMEM, "making indices");
	for (uint64_t b = 0; b <= bags; b++)
		put(d, d->offsets, b, b * d->length);
	for (uint32_t t = 0; t < c->feature_count;
	     t++) { /* each feature has a table of its own here */
		uint32_t rows = c->tables[c->feature_table[t]].rows;

		free(seen);
		seen = calloc(rows, sizeof(*seen));
		if (!seen)
			return say(d, -ENOMEM, "counting rows");
		for (uint64_t i = 0; i < (uint64_t)c->batch * d->length; i++) {
			uint64_t row = choose_row(d, &random, rows);

			put(d, d->indices, at++, row);
			d->unique += !seen[row]++;
			d->longest = seen[row] > d->longest ? seen[row] : d->longest;
		}
	}
	free(seen);
	return 0;
}

static int get_memory(struct tbe_data *d, uint64_t bytes, const char *what, uint64_t *address)
{
	void *p = NULL;

	if (d->cuda) {
		int err = cuda_alloc(d->cuda, bytes, address, what);

		if (err)
			snprintf(d->error, sizeof(d->error), "making room: %s", d->cuda->error);
		return err;
	}
	if (posix_memalign(&p, 64, bytes + 64))
		return say(d, -ENOMEM, what);
	*address = (uintptr_t)p;
	return 0;
}

static int upload(struct tbe_data *d, uint64_t to, const void *from, uint64_t bytes)
{
	if (d->cuda)
		return say(d, cuda_upload(d->cuda, to, from, bytes), "filling the inputs");
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int download(struct tbe_data *d, void *to, uint64_t from, uint64_t bytes)
{
	if (d->cuda)
		return say(d, cuda_download(d->cuda, to, from, bytes), "reading results");
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

static uint32_t width(enum tbe_type type)
{
	return type == TBE_F32 ? 4 : 2;
}

int tbe_data_reset(struct tbe_data *d)
{
	int err = tbe_fill(d->tbe, d->io.weights, tbe_weight_elements(d->tbe), d->config->type);

	if (err) {
		snprintf(d->error, sizeof(d->error), "%s", tbe_error(d->tbe));
		return err;
	}
	if (!d->io.state)
		return 0;
	if (!d->cuda) {
		memset((void *)(uintptr_t)d->io.state, 0, tbe_rows(d->tbe) * 4);
		return 0;
	}
	err = say(d,
		  cuda_check(d->cuda,
			     d->cuda->api.fill_async(d->io.state, 0, tbe_rows(d->tbe),
						     d->cuda->stream),
			     "clearing"),
		  "clearing the state");
	return err ? err : say(d, cuda_wait(d->cuda), "clearing the state");
}

int tbe_data_open(struct tbe_data *d)
{
	const struct tbe_config *c = d->config;
	uint64_t n = (uint64_t)tbe_bags(d->tbe) * d->length,
		 outs = tbe_out_elements(d->tbe, (uint32_t)n);
	int err = make_indices(d);

	d->io.n = (uint32_t)n;
	err = err ? err
		  : get_memory(d, tbe_weight_elements(d->tbe) * width(c->type), "tables",
			       &d->io.weights);
	err = err ? err : get_memory(d, n * c->index_bytes, "indices", &d->io.indices);
	err = err ? err
		  : get_memory(d, (tbe_bags(d->tbe) + 1ull) * c->index_bytes, "offsets",
			       &d->io.offsets);
	err = err ? err : get_memory(d, outs * width(c->out_type), "the output", &d->io.out);
	if (!err && c->weighted)
		err = get_memory(d, n * 4, "sample weights", &d->io.sample_weights);
	if (!err && c->training)
		err = get_memory(d, outs * 4, "gradients", &d->io.grad);
	if (!err && c->training && c->weighted)
		err = get_memory(d, n * 4, "the sample weights' gradients", &d->io.sample_grads);
	if (!err && c->training && c->optimizer == TBE_ADAGRAD)
		err = get_memory(d, tbe_rows(d->tbe) * 4, "the optimizer's state", &d->io.state);
	err = err ? err : upload(d, d->io.indices, d->indices, n * c->index_bytes);
	err = err ? err
		  : upload(d, d->io.offsets, d->offsets,
			   (tbe_bags(d->tbe) + 1ull) * c->index_bytes);
	if (!err && ((d->io.sample_weights && tbe_fill(d->tbe, d->io.sample_weights, n, TBE_F32)) ||
		     (d->io.grad && tbe_fill(d->tbe, d->io.grad, outs, TBE_F32)))) {
		snprintf(d->error, sizeof(d->error), "%s", tbe_error(d->tbe));
		err = -EIO;
	}
	return err ? err : tbe_data_reset(d);
}

void tbe_data_close(struct tbe_data *d)
{
	const uint64_t all[] = {d->io.weights, d->io.indices,        d->io.offsets,
				d->io.out,     d->io.sample_weights, d->io.grad,
				d->io.state,   d->io.sample_grads};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (d->cuda)
			cuda_free(d->cuda, all[i]);
		else
			free((void *)(uintptr_t)all[i]);
	}
	memset(&d->io, 0, sizeof(d->io));
	free(d->indices);
	free(d->offsets);
	d->indices = d->offsets = NULL;
}

/* --- checks ------------------------------------------------------------------------------------- */

/* The problem at host addresses. Tables are address space without memory until a row is made. */
struct host_side {
	struct tbe_args args;
	uint64_t weight_bytes, grads;
	double *sums, *sizes;
};

static void make(const struct tbe_args *a, void *array, enum tbe_type type, uint64_t first,
		 uint64_t count)
{
	struct tbe_args fill = *a;

	fill.fill = array;
	fill.fill_type = type;
	tbe_cpu_fill(&fill, first, count);
}

static void close_host(struct host_side *h)
{
	if (h->args.weights)
		munmap(h->args.weights, h->weight_bytes);
	free((void *)(uintptr_t)h->args.sample_weights);
	free((void *)(uintptr_t)h->args.grad);
	free(h->sums);
}

static int open_host(struct tbe_data *d, struct host_side *h, int backward)
{
	const struct tbe_config *c = d->config;
	struct tbe_io io = {
		.indices = (uintptr_t)d->indices, .offsets = (uintptr_t)d->offsets, .n = d->io.n};
	void *weights;

	memset(h, 0, sizeof(*h));
	h->weight_bytes = tbe_weight_elements(d->tbe) * width(c->type) + 1;
	h->args = *tbe_oracle_args(d->tbe, &io);
	weights = mmap(NULL, h->weight_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	h->args.weights = weights == MAP_FAILED ? NULL : weights;
	h->sums = calloc(2 * TBE_DIM_MAX, sizeof(*h->sums));
	h->sizes = h->sums ? h->sums + TBE_DIM_MAX : NULL;
	h->grads = backward ? tbe_out_elements(d->tbe, d->io.n) : 0;
	if (c->weighted) {
		float *w = malloc(d->io.n * 4ull + 4);

		h->args.sample_weights = w;
		if (w)
			make(&h->args, w, TBE_F32, 0, d->io.n);
	}
	if (backward) {
		float *g = malloc(h->grads * 4 + 4);

		h->args.grad = g;
		if (g)
			make(&h->args, g, TBE_F32, 0, h->grads);
	}
	if (h->args.weights && h->sums && (!c->weighted || h->args.sample_weights) &&
	    (!backward || h->args.grad))
		return 0;
	close_host(h);
	return say(d, -ENOMEM, "checking");
}

static int differ(struct tbe_data *d, const char *what, uint64_t at, double got, double want)
{
	snprintf(d->error, sizeof(d->error), "%s %llu is %.9g, the oracle says %.9g", what,
		 (unsigned long long)at, got, want);
	return 1;
}

static double ulp(enum tbe_type type, double v)
{
	static const int bits[] = {24, 11, 8};
	double size = ldexp(1, ilogb(fabs(v) + 1e-300) - bits[type] + 1);

	return type == TBE_F16 && size < 0x1p-24 ? 0x1p-24 : size;
}

static int check_bag(struct tbe_data *d, struct host_side *h, uint32_t feature, uint32_t bag,
		     const void *out)
{
	const struct tbe_feature *f = &h->args.features[feature];
	uint64_t first = tbe_cpu_offset(&h->args, (uint64_t)f->bag0 + bag);
	double each = d->config->type == TBE_F32 ? 0x1p-50 : 0x1p-24;

	for (uint64_t i = first; i < first + d->length; i++)
		make(&h->args, h->args.weights, d->config->type,
		     f->weights + (uint64_t)tbe_cpu_index(&h->args, i) * f->dim, f->dim);
	tbe_cpu_bag(&h->args, feature, bag, h->sums, h->sizes);
	for (uint32_t c = 0; c < f->dim; c++) {
		double got = (double)tbe_cpu_load(d->config->out_type, out, c);
		double off = each * (d->length + 4.0) * h->sizes[c] +
			     ulp(d->config->out_type, h->sums[c]);

		if (!(fabs(got - h->sums[c]) <= off))
			return differ(d, "output element",
				      f->out + (uint64_t)bag * f->out_stride + c, got, h->sums[c]);
	}
	return 0;
}

/* Without pooling: the rows of one bag's positions. */
static int check_copies(struct tbe_data *d, struct host_side *h, uint32_t feature, uint32_t bag)
{
	const struct tbe_feature *f = &h->args.features[feature];
	uint64_t first = tbe_cpu_offset(&h->args, (uint64_t)f->bag0 + bag),
		 bytes = f->dim * (uint64_t)width(d->config->out_type);
	unsigned char row[TBE_DIM_MAX * 4];
	int err = 0;

	for (uint64_t i = first; i < first + d->length && !err; i++) {
		uint64_t at = f->weights + (uint64_t)tbe_cpu_index(&h->args, i) * f->dim;

		make(&h->args, h->args.weights, d->config->type, at, f->dim);
		err = download(d, row, d->io.out + i * bytes, bytes);
		for (uint32_t c = 0; c < f->dim && !err; c++) {
			double got = (double)tbe_cpu_load(d->config->out_type, row, c);
			double want =
				(double)tbe_cpu_load(d->config->type, h->args.weights, at + c);

			if (!(fabs(got - want) <= ulp(d->config->out_type, want)))
				err = differ(d, "output element", i * f->dim + c, got, want);
		}
	}
	return err;
}

int tbe_data_check_forward(struct tbe_data *d)
{
	uint64_t bags = tbe_bags(d->tbe), step = bags / CHECKED_BAGS + 1;
	unsigned char row[TBE_DIM_MAX * 4];
	struct host_side h;
	int err = open_host(d, &h, 0);

	if (err)
		return err;
	for (uint64_t k = 0; k < bags && !err; k += step) {
		uint32_t feature = 0, bag;
		const struct tbe_feature *f;

		while (feature + 1 < h.args.feature_count && h.args.features[feature + 1].bag0 <= k)
			feature++;
		f = &h.args.features[feature];
		bag = (uint32_t)k - f->bag0;
		if (d->config->pooling == TBE_NONE) {
			err = check_copies(d, &h, feature, bag);
			continue;
		}
		err = download(d, row,
			       d->io.out + (f->out + (uint64_t)bag * f->out_stride) *
						   width(d->config->out_type),
			       f->dim * (uint64_t)width(d->config->out_type));
		err = err ? err : check_bag(d, &h, feature, bag, row);
	}
	close_host(&h);
	return err;
}

static int check_row(struct tbe_data *d, struct host_side *h, const struct tbe_entry *entries,
		     size_t count)
{
	const struct tbe_feature *f = &h->args.features[entries->feature];
	uint64_t at = f->weights + (uint64_t)entries->row * f->dim;
	enum tbe_type type = d->config->type;
	double rate = (double)h->args.rate, relative = 0x1p-23 * (double)(count + 8), squares = 0;
	unsigned char got[TBE_DIM_MAX * 4];
	int err =
		download(d, got, d->io.weights + at * width(type), f->dim * (uint64_t)width(type));

	make(&h->args, h->args.weights, type, at, f->dim);
	tbe_cpu_gradient(&h->args, entries, count, h->sums, h->sizes);
	for (uint32_t c = 0; c < f->dim; c++)
		squares += h->sums[c] * h->sums[c];
	if (d->config->optimizer == TBE_ADAGRAD)
		rate /= sqrt(squares / f->dim) + (double)h->args.eps;
	for (uint32_t c = 0; c < f->dim && !err; c++) {
		double want =
			(double)tbe_cpu_load(type, h->args.weights, at + c) - rate * h->sums[c];
		double is = (double)tbe_cpu_load(type, got, c);
		double off = rate * (h->sizes[c] * relative + fabs(h->sums[c]) * 1e-5) +
			     ulp(type, want) + ulp(TBE_F32, want);

		if (!(fabs(is - want) <= off))
			err = differ(d, "weight", at + c, is, want);
	}
	return err;
}

/* The longest run of the table, and runs spread over it. */
static int check_table(struct tbe_data *d, struct host_side *h, uint32_t table)
{
	struct tbe_entry *entries;
	size_t count, longest = 0, most = 0, step;
	int err = say(d, tbe_cpu_entries(&h->args, table, &entries, &count), "checking");

	step = count / CHECKED_ROWS + 1;
	for (size_t i = 0, end, next = 0; i < count && !err; i = end) {
		for (end = i + 1; end < count && entries[end].row == entries[i].row;)
			end++;
		if (end - i > most) {
			most = end - i;
			longest = i;
		}
		if (i < next)
			continue;
		err = check_row(d, h, entries + i, end - i);
		next = i + step;
	}
	if (!err && count)
		err = check_row(d, h, entries + longest, most);
	free(entries);
	return err;
}

int tbe_data_check_backward(struct tbe_data *d)
{
	uint32_t tables = d->config->table_count,
		 step = (tables + CHECKED_TABLES - 1) / CHECKED_TABLES;
	struct host_side h;
	int err = open_host(d, &h, 1);

	if (err)
		return err;
	for (uint32_t t = tables - 1; !err; t -= step) {
		err = check_table(d, &h, t);
		if (t < step)
			break;
	}
	close_host(&h);
	return err;
}
