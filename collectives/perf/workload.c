/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives of a training step, in the order and the sizes in which a framework makes them,
 * without the computation between them.
 *
 * The model is a decoder of `layers` layers of width `hidden` with a vocabulary of 50304 and 1024
 * positions, as GPT-2 has (12 x 768: 124 million parameters). Gradients become ready from the last
 * tensor to the first, and are packed into buckets at tensor boundaries:
 *
 *   ddp    each bucket (25 MiB, the first 1 MiB, PyTorch's defaults) is all-reduced to its average
 *   zero2  each bucket is reduce-scattered, so that a rank has the average of its shard alone; after
 *          the optimizer the parameters are all-gathered, bucket by bucket
 */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY   50304u
#define POSITIONS    1024u
#define BUCKETS_MAX  4096
#define FIRST_BYTES  (1u << 20)
#define BUCKET_BYTES (25u << 20)

struct workload {
	const struct perf_options *o;
	struct world *w;
	enum coll_type type;
	size_t esize;
	struct bucket {
		size_t first, count; /* elements; count is a multiple of the ranks' */
	} buckets[BUCKETS_MAX];
	int n;
	size_t total; /* elements of all buckets */
	uint64_t parameters;
	struct perf_memory gradients, weights;
};

/* --- the model ------------------------------------------------------------------------------ */

struct packing {
	struct workload *l;
	size_t open; /* elements in the bucket being filled */
	size_t limit;
};

static void close_bucket(struct packing *p)
{
	struct workload *l = p->l;
	/* Shards are equal, and begin at cache lines. */
	size_t unit = (size_t)l->w->size * 64 / l->esize;
	size_t count = (p->open + unit - 1) / unit * unit;

	if (!p->open || l->n == BUCKETS_MAX)
		return;
	l->buckets[l->n++] = (struct bucket){l->total, count};
	l->total += count;
	p->open = 0;
	p->limit = (l->o->bucket_bytes ? l->o->bucket_bytes : BUCKET_BYTES) / l->esize;
}

static void add_tensor(struct packing *p, size_t elements)
{
	p->l->parameters += elements;
	if (p->open && p->open + elements > p->limit)
		close_bucket(p);
	p->open += elements;
}

static void pack_model(struct workload *l)
{
	size_t h = (size_t)l->o->hidden;
	struct packing p = {.l = l, .limit = FIRST_BYTES / l->esize};

	add_tensor(&p, 2 * h); /* the last normalisation */
	for (int layer = l->o->layers; layer > 0; layer--) {
		add_tensor(&p, h); /* second linear map of the MLP: bias, weight */
		add_tensor(&p, 4 * h * h);
		add_tensor(&p, 4 * h); /* first */
		add_tensor(&p, 4 * h * h);
		add_tensor(&p, 2 * h); /* normalisation */
		add_tensor(&p, h);     /* attention: output, then query, key and value */
		add_tensor(&p, h * h);
		add_tensor(&p, 3 * h);
		add_tensor(&p, 3 * h * h);
		add_tensor(&p, 2 * h);
	}
	add_tensor(&p, POSITIONS * h);
	add_tensor(&p, VOCABULARY * h);
	close_bucket(&p);
}

/* --- a step --------------------------------------------------------------------------------- */

static int reduce_gradients(const struct workload *l)
{
	struct coll_comm *comm = l->w->comm;
	int rc = 0;

	for (int i = 0; i < l->n && !rc; i++) {
		char *at = l->gradients.at + l->buckets[i].first * l->esize;
		size_t count = l->buckets[i].count, shard = count / (size_t)l->w->size;

		if (l->o->workload == PERF_DDP)
			rc = coll_all_reduce(comm, at, at, count, l->type, COLL_AVG);
		else
			rc = coll_reduce_scatter(comm, at,
						 at + (size_t)l->w->rank * shard * l->esize, shard,
						 l->type, COLL_AVG);
	}
	return rc;
}

static int gather_weights(const struct workload *l)
{
	struct coll_comm *comm = l->w->comm;
	int rc = 0;

	for (int i = 0; i < l->n && !rc && l->o->workload == PERF_ZERO2; i++) {
		char *at = l->weights.at + l->buckets[i].first * l->esize;
		size_t shard = l->buckets[i].count / (size_t)l->w->size;

		rc = coll_all_gather(comm, at + (size_t)l->w->rank * shard * l->esize, at, shard,
				     l->type);
	}
	return rc;
}

static int run_step(const struct workload *l, struct perf_step *step)
{
	int64_t start, middle;
	int rc = coll_barrier(l->w->comm);

	start = tp_now_ns();
	if (!rc)
		rc = reduce_gradients(l);
	middle = tp_now_ns();
	if (!rc)
		rc = gather_weights(l);
	step->gradients_us += (double)(middle - start) / 1e3;
	step->parameters_us += (double)(tp_now_ns() - middle) / 1e3;
	return rc;
}

/* --- content -------------------------------------------------------------------------------- */

static int fill(const struct workload *l, const struct pattern *p)
{
	size_t bytes = l->total * l->esize;
	int rc;

	pattern_fill(p, l->gradients.mirror, l->total, l->w->rank, 0);
	rc = memory_put(&l->gradients, 0, bytes);
	if (rc || l->o->workload != PERF_ZERO2)
		return rc;
	memset(l->weights.mirror, 0xee, bytes);
	for (int i = 0; i < l->n; i++) {
		size_t shard = l->buckets[i].count / (size_t)l->w->size;
		size_t first = l->buckets[i].first + (size_t)l->w->rank * shard;

		pattern_fill(p, l->weights.mirror + first * l->esize, shard, l->w->rank, first);
	}
	return memory_put(&l->weights, 0, bytes);
}

static int64_t wrong_now(const struct workload *l, const struct pattern *p)
{
	int64_t wrong = 0;

	for (int i = 0; i < l->n; i++) {
		size_t first = l->buckets[i].first, count = l->buckets[i].count;
		size_t shard = count / (size_t)l->w->size;

		if (l->o->workload == PERF_ZERO2) {
			for (int r = 0; r < l->w->size; r++) {
				size_t at = first + (size_t)r * shard;

				wrong += (int64_t)pattern_wrong_copy(
					p, l->weights.mirror + at * l->esize, shard, r, at);
			}
			first += (size_t)l->w->rank * shard;
			count = shard;
		}
		wrong += (int64_t)pattern_wrong_reduced(p, l->gradients.mirror + first * l->esize,
							count, first);
	}
	return wrong;
}

static int check(const struct workload *l, struct perf_step *step)
{
	struct pattern p = {.type = l->type, .op = COLL_AVG, .ranks = l->w->size};
	int64_t mine = 0, *all = calloc((size_t)l->w->size, sizeof(*all));
	struct perf_step ignored = {0};
	size_t bytes = l->total * l->esize;
	int rc = all ? fill(l, &p) : -ENOMEM;

	if (!rc)
		rc = run_step(l, &ignored);
	if (!rc)
		rc = memory_get(&l->gradients, 0, bytes);
	if (!rc && l->o->workload == PERF_ZERO2)
		rc = memory_get(&l->weights, 0, bytes);
	if (!rc)
		mine = wrong_now(l, &p);
	if (!rc)
		rc = world_allgather(l->w, &mine, sizeof(mine), all);
	step->wrong = 0;
	for (int r = 0; r < l->w->size && !rc; r++)
		step->wrong += all[r];
	free(all);
	return rc;
}

/* --- all of it ------------------------------------------------------------------------------ */

static int measure(const struct workload *l, struct perf_step *step)
{
	struct perf_split before;
	struct perf_step ignored = {0};
	int n = l->o->iters, rc = 0;

	for (int i = 0; i < l->o->warmup_iters && !rc; i++)
		rc = run_step(l, &ignored);
	split_now(l->w, &before);
	for (int i = 0; i < n && !rc; i++)
		rc = run_step(l, step);
	step->gradients_us /= n;
	step->parameters_us /= n;
	return rc ? rc : split_since(l->w, &before, n, &step->split);
}

static int open_memory(struct workload *l)
{
	size_t bytes = l->total * l->esize;
	int rc = memory_open(&l->gradients, l->w->device, bytes);

	if (!rc && l->o->workload == PERF_ZERO2)
		rc = memory_open(&l->weights, l->w->device, bytes);
	if (rc)
		snprintf(l->w->error, sizeof(l->w->error),
			 "no memory for a model of %zu bytes: choose a smaller --model", bytes);
	return rc;
}

int perf_run_workload(const struct perf_options *o, struct world *w, struct perf_output *out,
		      struct perf_summary *sum)
{
	static const char *const names[PERF_WORKLOAD_MAX] = {"none", "ddp", "zero2"};
	struct perf_step step = {
		.name = names[o->workload], .layers = o->layers, .hidden = o->hidden, .wrong = -1};
	struct workload *l = calloc(1, sizeof(*l));
	int rc = l ? 0 : -ENOMEM;

	if (rc)
		return rc;
	l->o = o;
	l->w = w;
	l->type = (enum coll_type)__builtin_ctz(o->types);
	l->esize = coll_type_bytes(l->type);
	pack_model(l);
	rc = open_memory(l);
	if (!rc)
		rc = measure(l, &step);
	if (!rc && o->checks)
		rc = check(l, &step);
	step.parameters = l->parameters;
	step.type = l->type;
	step.buckets = l->n;
	step.bytes = l->total * l->esize;
	for (int i = 0; i < l->n; i++)
		if (l->buckets[i].count * l->esize > step.largest)
			step.largest = l->buckets[i].count * l->esize;
	if (!rc)
		output_step(out, &step);
	if (step.wrong > 0)
		sum->wrong += step.wrong;
	if (!rc)
		rc = perf_sum_moved(w, sum);
	if (l->gradients.at)
		coll_forget(w->comm, l->gradients.at, l->gradients.bytes);
	if (l->weights.at)
		coll_forget(w->comm, l->weights.at, l->weights.bytes);
	memory_close(&l->gradients);
	memory_close(&l->weights);
	free(l);
	return rc;
}
