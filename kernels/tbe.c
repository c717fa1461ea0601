/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the table-batched embedding: layout, scratch memory, the launches of each call. */
#include "kernels/tbe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/tbe_cpu.h"
#include "kernels/cuda.h"
#include "kernels/image.h"
#include "kernels/tbe_internal.h"
#include "kernels/tbe_shared.h"

const char *const tbe_type_names[TBE_TYPE_MAX] = {"f32", "f16", "bf16"};
const char *const tbe_pooling_names[TBE_POOLING_MAX] = {"sum", "mean", "none"};
const char *const tbe_optimizer_names[TBE_OPTIMIZER_MAX] = {"sgd", "adagrad"};
const char *const tbe_path_names[TBE_PATH_MAX] = {"auto", "gather", "small"};
const char *const tbe_bounds_names[TBE_BOUNDS_MAX] = {"fatal", "warning", "ignore", "none"};

const char *const tbe_kernel_names[K_MAX] = {
#define KERNEL(name) #name,
#include "kernels/device/tbe.def"
#undef KERNEL
};

enum { SMALL_HINT = 32 /* lookups a bag from which counting pays */ };

uint64_t tbe_weight_elements(const struct tbe *tbe)
{
	return tbe->weights;
}

uint64_t tbe_out_elements(const struct tbe *tbe, uint32_t n)
{
	return tbe->config.pooling == TBE_NONE ? (uint64_t)n * tbe->widest : tbe->outs;
}

uint64_t tbe_rows(const struct tbe *tbe)
{
	return tbe->rows;
}

uint32_t tbe_bags(const struct tbe *tbe)
{
	return tbe->bags;
}

int tbe_small(const struct tbe *tbe, uint32_t feature)
{
	return (int)tbe->features[feature].small;
}

const char *tbe_error(const struct tbe *tbe)
{
	return tbe->error;
}

uint64_t tbe_steps(const struct tbe *tbe)
{
	return tbe->steps;
}

int tbe_fail(struct tbe *t, int err, const char *doing)
{
	if (err && t->cuda)
		snprintf(t->error, sizeof(t->error), "%s: %s", doing, t->cuda->error);
	return err;
}

/* --- the configuration ------------------------------------------------------------------------ */

int tbe_wrong(struct tbe *t, const char *what, uint64_t which)
{
	snprintf(t->error, sizeof(t->error), "embedding: %s (%llu)", what,
		 (unsigned long long)which);
	return -EINVAL;
}

static int check_config(struct tbe *t)
{
	const struct tbe_config *c = &t->config;
	uint64_t bags = 0;

	if (!c->table_count || !c->feature_count || c->feature_count > 65534)
		return tbe_wrong(t, "there must be tables, and 1 to 65534 features",
				 c->feature_count);
	if (c->type >= TBE_TYPE_MAX || c->out_type >= TBE_TYPE_MAX ||
	    c->pooling >= TBE_POOLING_MAX || c->optimizer >= TBE_OPTIMIZER_MAX ||
	    c->path >= TBE_PATH_MAX)
		return tbe_wrong(t, "unknown type, pooling, optimizer or path", c->type);
	if (c->index_bytes != 4 && c->index_bytes != 8)
		return tbe_wrong(t, "indices have 4 or 8 bytes", c->index_bytes);
	if (c->max_indices > (1u << 31) - 2)
		return tbe_wrong(t, "more than 2^31 - 2 indices", c->max_indices);
	if (c->weighted && c->pooling == TBE_NONE)
		return tbe_wrong(t, "sample weights need pooling", c->pooling);
	if (c->warp_bags > 31)
		return tbe_wrong(t, "a warp takes at most 31 bags", c->warp_bags);
	for (uint32_t i = 0; i < c->table_count; i++) {
		if (!c->tables[i].rows || c->tables[i].rows >= 1u << 31)
			return tbe_wrong(t, "a table has 1 to 2^31 - 1 rows", c->tables[i].rows);
		if (!c->tables[i].dim || c->tables[i].dim % 4 || c->tables[i].dim > TBE_DIM_MAX)
			return tbe_wrong(t, "a row has a multiple of 4 columns, at most 1024",
					 c->tables[i].dim);
		if (c->pooling == TBE_NONE && c->tables[i].dim != c->tables[0].dim)
			return tbe_wrong(t, "without pooling all tables have the same columns",
					 c->tables[i].dim);
	}
	for (uint32_t i = 0; i < c->feature_count; i++) {
		if (c->feature_table[i] >= c->table_count)
			return tbe_wrong(t, "a feature's table does not exist",
					 c->feature_table[i]);
		bags += c->batches ? c->batches[i] : c->batch;
	}
	return bags >= 1ull << 32 ? tbe_wrong(t, "more than 2^32 - 1 bags", bags) : 0;
}

static int goes_small(const struct tbe_config *c, const struct tbe_shape *table)
{
	return c->path != TBE_PATH_GATHER && c->type != TBE_F32 && !c->weighted &&
	       c->pooling != TBE_NONE && table->rows <= TBE_SMALL_ROWS &&
	       table->dim <= TBE_SMALL_DIM &&
	       (c->path == TBE_PATH_SMALL || c->bag_hint >= SMALL_HINT);
}

static void lay_out_features(struct tbe *t)
{
	const struct tbe_config *c = &t->config;
	uint64_t *begin = calloc(c->table_count, sizeof(*begin)),
		 *row0 = calloc(c->table_count, sizeof(*row0));
	uint64_t columns = 0;

	for (uint32_t i = 0; begin && row0 && i < c->table_count; i++) {
		begin[i] = t->weights;
		row0[i] = t->rows;
		t->weights +=
			((uint64_t)c->tables[i].rows * c->tables[i].dim + 7) / 8 * 8; /* 16 bytes */
		t->rows += c->tables[i].rows;
	}
	for (uint32_t i = 0; i < c->feature_count; i++)
		columns += c->tables[c->feature_table[i]].dim;
	for (uint32_t i = 0, column = 0; begin && row0 && i < c->feature_count; i++) {
		struct tbe_feature *f = &t->features[i];
		const struct tbe_shape *table = &c->tables[c->feature_table[i]];

		f->table = c->feature_table[i];
		f->weights = begin[f->table];
		f->row0 = (uint32_t)row0[f->table];
		f->rows = table->rows;
		f->dim = table->dim;
		f->bag0 = t->bags;
		f->bags = c->batches ? c->batches[i] : c->batch;
		f->out = c->batches ? t->outs : column;
		f->out_stride = c->batches ? f->dim : (uint32_t)columns;
		f->small = (uint32_t)goes_small(c, table);
		column += f->dim;
		t->bags += f->bags;
		t->outs += (uint64_t)f->bags * f->dim;
		t->widest = f->dim > t->widest ? f->dim : t->widest;
		t->most_bags = f->bags > t->most_bags ? f->bags : t->most_bags;
		if (!f->small) {
			t->most_rows = f->rows > t->most_rows ? f->rows : t->most_rows;
			continue;
		}
		f->counts = t->counts;
		f->chunk0 = (uint32_t)t->chunks;
		t->counts += (uint64_t)f->bags * TBE_SMALL_ROWS;
		t->chunks += (f->bags + TBE_SMALL_CHUNK - 1) / TBE_SMALL_CHUNK;
		t->small_features[t->small_feature_count++] = i;
		t->small_bags = f->bags > t->small_bags ? f->bags : t->small_bags;
		t->small_rows = f->rows > t->small_rows ? f->rows : t->small_rows;
	}
	if (!begin || !row0)
		t->bags = 0; /* told by tbe_open */
	free(begin);
	free(row0);
}

static void lay_out_tables(struct tbe *t)
{
	uint32_t place = 0;

	for (uint32_t i = 0; i < t->config.table_count; i++) {
		t->tables[i].feature0 = place;
		for (uint32_t f = 0; f < t->config.feature_count; f++)
			if (t->features[f].table == i) {
				t->order[place++] = f;
				t->tables[i].small = t->features[f].small;
			}
		t->tables[i].features = place - t->tables[i].feature0;
		if (t->tables[i].small)
			t->small_tables[t->small_table_count++] = i;
	}
}

/* The arguments that stay, with host addresses. */
static void set_oracle(struct tbe *t)
{
	const struct tbe_config *c = &t->config;
	struct tbe_args *a = &t->oracle;

	a->features = t->features;
	a->tables = t->tables;
	a->order = t->order;
	a->small_features = t->small_features;
	a->small_tables = t->small_tables;
	a->feature_count = c->feature_count;
	a->table_count = c->table_count;
	a->bags = t->bags;
	a->index_bytes = c->index_bytes;
	a->type = c->type;
	a->out_type = c->out_type;
	a->pooling = c->pooling;
	a->optimizer = c->optimizer;
	a->uniform_bags = c->batches ? 0 : c->batch;
	a->skip_small = 1;
	a->rate = c->rate;
	a->eps = c->eps;
	a->stochastic = c->stochastic && c->type != TBE_F32;
	a->plain =
		c->optimizer == TBE_SGD && !a->stochastic && !c->weighted && c->pooling != TBE_MEAN;
	a->seed = c->seed;
	a->warp_bags = c->warp_bags ? c->warp_bags : 4;
	a->partial_stride = t->widest;
}

/* --- memory of the device --------------------------------------------------------------------- */

static int scratch(struct tbe *t, size_t bytes, int zero, const char *what, void *pointer_ret)
{
	uint64_t address = 0;
	size_t words = (bytes + 3) / 4 + 4; /* never nothing */
	int err = cuda_alloc(t->cuda, words * 4, &address, what);

	if (!err) {
		t->scratch[t->scratch_used++] = address;
		if (zero)
			err = cuda_check(
				t->cuda,
				t->cuda->api.fill_async(address, 0, words, t->cuda->stream),
				"clearing %zu bytes of device memory for %s", bytes, what);
	}
	memcpy(pointer_ret, &address, sizeof(address));
	return err;
}

/* A host array's copy on the device. */
static int put(struct tbe *t, const void *from, size_t bytes, const char *what, void *pointer_ret)
{
	uint64_t address;
	int err = scratch(t, bytes, 0, what, pointer_ret);

	memcpy(&address, pointer_ret, sizeof(address));
	return err ? err : cuda_upload(t->cuda, address, from, bytes);
}

/* Words that say how often each table has each digit, pass by pass. */
static size_t digit_totals(const struct tbe *t)
{
	return ((size_t)t->args.passes * t->config.table_count) << t->args.bits;
}

static int open_backward(struct tbe *t)
{
	struct tbe_args *a = &t->args;
	size_t n = t->config.max_indices, tiles = n / TBE_SORT_TILE + t->config.table_count,
	       pieces = n / (TBE_PIECE / 2) + 1;
	uint32_t bits = 0;
	int err = 0;

	while (bits < 32 && t->most_rows >> bits)
		bits++; /* the key past the last row, too */
	a->passes = (bits + TBE_SORT_BITS - 1) / TBE_SORT_BITS;
	a->bits = a->passes ? (bits + a->passes - 1) / a->passes : 0;
	a->bits = a->bits < 2 ? 2 : a->bits; /* a thread has four digits */
	a->sorted = (a->passes - 1) & 1;
	a->tile_room = (unsigned)tiles;
	for (unsigned i = 0; i < 2 && !err && a->passes; i++) {
		err = scratch(t, n * 4, 0, "sorted rows", &a->keys[i]);
		err = err ? err : scratch(t, n * 4, 0, "sorted lookups", &a->payloads[i]);
	}
	if (t->config.weighted)
		err = err ? err : scratch(t, n * 4, 0, "the bags of positions", &a->position_bag);
	err = err ? err
		  : scratch(t, t->config.table_count * sizeof(*a->segments), 0, "segments",
			    &a->segments);
	err = err ? err
		  : scratch(t, (t->config.feature_count + 1ull) * 4, 0, "the features' entries",
			    &a->feature_entry);
	err = err ? err
		  : scratch(t, (a->passes * tiles << a->bits) * 4, 0, "digit counts", &a->counts);
	err = err ? err
		  : scratch(t, (digit_totals(t) + a->passes) * 4, 0, "the tables' digit counts",
			    &a->totals);
	a->sort_ticket = a->totals + digit_totals(t);
	err = err ? err : scratch(t, 4, 0, "the number of tiles", &a->tile_total);
	err = err ? err : scratch(t, tiles * 4, 0, "the tiles' tables", &a->tile_table);
	err = err ? err : scratch(t, 16, 1, "tickets", &t->control);
	a->ticket = (unsigned *)(uintptr_t)t->control;
	a->long_count = (unsigned long long *)(uintptr_t)(t->control + 8);
	err = err ? err
		  : scratch(t, (n / TBE_PIECE + 1) * sizeof(*a->long_runs), 0, "long runs",
			    &a->long_runs);
	err = err ? err
		  : scratch(t, pieces * a->partial_stride * 4, 0, "partial gradients", &a->partial);
	err = err ? err : scratch(t, pieces * 4, 1, "arrivals", &a->arrived);
	err = err ? err : scratch(t, t->counts * 4, 0, "histograms", &a->histograms);
	return err ? err
		   : scratch(t, t->chunks * TBE_SMALL_ROWS * TBE_SMALL_DIM * 4, 0,
			     "small tables' gradients", &a->chunk_grads);
}

static int open_device(struct tbe *t)
{
	const struct tbe_config *c = &t->config;
	static const struct tbe_bounds_report nothing = {.first_index = ~0ull,
							 .first_offset = ~0ull};
	struct tbe_args *a = &t->args;
	int err = cuda_load(t->cuda, kernels_tbe_image, "the embedding", &t->module);

	for (unsigned i = 0; i < K_MAX && !err; i++)
		err = cuda_function(t->cuda, t->module, tbe_kernel_names[i], &t->kernels[i]);
	*a = t->oracle;
	err = err ? err
		  : put(t, t->features, c->feature_count * sizeof(*t->features), "features",
			&a->features);
	err = err ? err
		  : put(t, t->tables, c->table_count * sizeof(*t->tables), "tables", &a->tables);
	err = err ? err
		  : put(t, t->order, c->feature_count * 4ull, "the features' order", &a->order);
	err = err ? err
		  : put(t, t->small_features, t->small_feature_count * 4ull, "small features",
			&a->small_features);
	err = err ? err
		  : put(t, t->small_tables, t->small_table_count * 4ull, "small tables",
			&a->small_tables);
	err = err ? err : put(t, &nothing, sizeof(nothing), "the bounds check", &a->bounds);
	err = err ? err : scratch(t, sizeof(nothing), 1, "the report", &a->report);
	err = err ? err : scratch(t, 4, 1, "the blocks of the bounds check", &a->bounds_arrived);
	if (!err && c->training)
		err = open_backward(t);
	return tbe_fail(t, err ? err : cuda_wait(t->cuda), "preparing the embedding");
}

static int copy_config(struct tbe *t, const struct tbe_config *config)
{
	struct tbe_config *c = &t->config;
	size_t features = config->feature_count, tables = config->table_count;
	struct tbe_shape *shapes = calloc(tables, sizeof(*shapes));
	uint32_t *map = calloc(features, 4),
		 *batches = config->batches ? calloc(features, 4) : NULL;

	*c = *config;
	c->tables = shapes;
	c->feature_table = map;
	c->batches = batches;
	t->features = calloc(features, sizeof(*t->features));
	t->tables = calloc(tables, sizeof(*t->tables));
	t->order = calloc(features, 4);
	t->small_features = calloc(features, 4);
	t->small_tables = calloc(tables, 4);
	if (!shapes || !map || (config->batches && !batches) || !t->features || !t->tables ||
	    !t->order || !t->small_features || !t->small_tables)
		return -ENOMEM;
	memcpy(shapes, config->tables, tables * sizeof(*shapes));
	memcpy(map, config->feature_table, features * 4);
	if (batches)
		memcpy(batches, config->batches, features * 4);
	return 0;
}

/* Elements of gradient that a backward may have to find. */
static uint64_t gradient_elements(const struct tbe *t)
{
	return t->config.training ? tbe_out_elements(t, t->config.max_indices) : 0;
}

int tbe_open(struct cuda *cuda, const struct tbe_config *config, struct tbe **tbe_ret)
{
	struct tbe *t = calloc(1, sizeof(*t));
	int err;

	*tbe_ret = t;
	if (!t)
		return -ENOMEM;
	t->config = *config;
	err = check_config(t);
	if (err) {
		memset(&t->config, 0, sizeof(t->config)); /* the arrays are the caller's */
		return err;
	}
	err = copy_config(t, config);
	if (err) {
		snprintf(t->error, sizeof(t->error), "embedding: out of memory");
		return err;
	}
	lay_out_features(t);
	if (t->rows >= 1ull << 32)
		return tbe_wrong(t, "more than 2^32 - 1 rows in all", t->rows);
	if (gradient_elements(t) >> 34)
		return tbe_wrong(t, "more than 2^34 elements of gradient", gradient_elements(t));
	lay_out_tables(t);
	set_oracle(t);
	t->args = t->oracle;
	t->cuda = cuda;
	return cuda ? open_device(t) : 0;
}

void tbe_close(struct tbe *t)
{
	if (!t)
		return;
	if (t->cuda) {
		(void)cuda_wait(t->cuda);
		for (uint32_t i = 0; i < t->scratch_used; i++)
			cuda_free(t->cuda, t->scratch[i]);
		if (t->module)
			t->cuda->api.module_unload(t->module);
	}
	free((void *)(uintptr_t)t->config.tables);
	free((void *)(uintptr_t)t->config.feature_table);
	free((void *)(uintptr_t)t->config.batches);
	free(t->features);
	free(t->tables);
	free(t->order);
	free(t->small_features);
	free(t->small_tables);
	free(t);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void set_io(const struct tbe *t, struct tbe_args *a, const struct tbe_io *io)
{
	a->weights = (void *)(uintptr_t)io->weights;
	a->indices = (const void *)(uintptr_t)io->indices;
	a->offsets = (const void *)(uintptr_t)io->offsets;
	a->sample_weights = (const float *)(uintptr_t)(t->config.weighted ? io->sample_weights : 0);
	a->out = (void *)(uintptr_t)io->out;
	a->grad = (const float *)(uintptr_t)io->grad;
	a->state = (float *)(uintptr_t)io->state;
	a->sample_grads = (float *)(uintptr_t)io->sample_grads;
	a->n = io->n;
	a->step = t->steps;
}

const struct tbe_args *tbe_oracle_args(struct tbe *t, const struct tbe_io *io)
{
	set_io(t, &t->oracle, io);
	return &t->oracle;
}

int tbe_check_io(struct tbe *t, const struct tbe_io *io)
{
	if (io->n > t->config.max_indices)
		return tbe_wrong(t, "more indices than the configuration has room for", io->n);
	if (!io->offsets || (io->n && !io->indices))
		return tbe_wrong(t, "indices or offsets are missing", io->n);
	if (t->config.weighted && io->n && !io->sample_weights)
		return tbe_wrong(t, "sample weights are missing", io->n);
	set_io(t, &t->args, io);
	return 0;
}

int tbe_launch(struct tbe *t, enum kernel kernel, struct cuda_grid grid)
{
	void *params[] = {&t->args};

	return cuda_launch(t->cuda, t->kernels[kernel], tbe_kernel_names[kernel], grid, params);
}

uint32_t tbe_persistent(const struct tbe *t, uint32_t each)
{
	return t->config.blocks ? t->config.blocks : (uint32_t)t->cuda->sm_count * each;
}

/* Blocks of small features: enough to fill the device, and none without bags. */
static int launch_small(struct tbe *t, unsigned save)
{
	uint32_t of_a_block = TBE_BLOCK / 32 * TBE_SMALL_BAGS;
	uint32_t blocks = tbe_persistent(t, 3) / t->small_feature_count,
		 most = (t->small_bags + of_a_block - 1) / of_a_block;
	/* not one block more than can run at once: it would run alone */
	struct cuda_grid grid = {blocks < 1      ? most > 0
				 : blocks < most ? blocks
						 : most,
				 t->small_feature_count, TBE_BLOCK, TBE_SMALL_SHARED_BYTES, 0};
	int err;

	t->args.save_histograms = save;
	err = grid.x ? tbe_launch(t, K_tbe_forward_small, grid) : 0;
	t->counted = !err && save;
	return err;
}

static int forward_device(struct tbe *t)
{
	static const enum kernel gather[TBE_TYPE_MAX] = {K_tbe_forward_f32, K_tbe_forward_f16,
							 K_tbe_forward_bf16};
	uint32_t a_block = TBE_BLOCK / 32 * t->args.warp_bags;
	struct cuda_grid grid = {(t->most_bags + a_block - 1) / a_block, t->config.feature_count,
				 TBE_BLOCK, 0, 0};
	int err = 0;

	if (t->config.pooling == TBE_NONE) {
		grid.x = tbe_persistent(t, 8) / t->config.feature_count + 1;
		return tbe_launch(t, K_tbe_forward_rows, grid);
	}
	if (t->small_feature_count)
		err = launch_small(t, t->config.training);
	if (!err && grid.x && t->small_feature_count < t->config.feature_count)
		err = tbe_launch(t, gather[t->config.type], grid);
	return err;
}

int tbe_forward(struct tbe *t, const struct tbe_io *io)
{
	int err = tbe_check_io(t, io);

	if (!err && !io->out && tbe_out_elements(t, io->n))
		err = tbe_wrong(t, "there is no output", 0);
	if (err)
		return err;
	if (!t->cuda)
		return tbe_cpu_forward(&t->args);
	return tbe_fail(t, forward_device(t), "embedding's forward");
}

static int transpose_device(struct tbe *t)
{
	struct tbe_args *a = &t->args;
	uint32_t tiles = a->n / TBE_SORT_TILE + t->config.table_count;
	uint32_t counters = 2 * (uint32_t)t->cuda->sm_count / t->config.table_count;
	struct cuda_grid one = {1, 1, TBE_SINGLE_BLOCK, 33 * 4, 0},
			 count = {counters ? counters : 1, t->config.table_count, TBE_SINGLE_BLOCK,
				  (a->passes << a->bits) * 4, 0},
			 all = {tiles, 1, TBE_SORT_BLOCK, TBE_SORT_SHARED_BYTES, 0};
	int err = tbe_launch(t, K_tbe_sort_segments, one);

	err = err ? err
		  : cuda_check(t->cuda,
			       t->cuda->api.fill_async((uintptr_t)a->totals, 0,
						       digit_totals(t) + a->passes,
						       t->cuda->stream),
			       "clearing digit counts");
	err = err ? err : tbe_launch(t, K_tbe_sort_histogram, count);
	for (uint32_t pass = 0; pass < a->passes && !err; pass++) {
		a->pass = pass;
		a->shift = pass * a->bits;
		err = tbe_launch(t, K_tbe_sort_place, all);
	}
	t->transposed = !err;
	return err;
}

int tbe_transpose(struct tbe *t, const struct tbe_io *io)
{
	int err = tbe_check_io(t, io);

	if (!err && !t->config.training)
		err = tbe_wrong(t, "a transpose needs a configuration for training", 0);
	if (err || !t->cuda || t->small_table_count == t->config.table_count)
		return err;
	return tbe_fail(t, transpose_device(t), "embedding's transpose");
}

static int backward_sorted(struct tbe *t)
{
	static const enum kernel update[TBE_TYPE_MAX] = {
		K_tbe_backward_short_f32, K_tbe_backward_short_f16, K_tbe_backward_short_bf16};
	struct cuda_grid shorts = {tbe_persistent(t, TBE_SHORT_BLOCKS), 1, TBE_BLOCK,
				   TBE_SHORT_SHARED_BYTES, 0};
	struct cuda_grid longs = {tbe_persistent(t, 4), 1, TBE_BLOCK, 0, 0};
	int err = t->transposed ? 0 : transpose_device(t);

	err = err ? err
		  : cuda_check(t->cuda, t->cuda->api.fill_async(t->control, 0, 4, t->cuda->stream),
			       "clearing tickets");
	err = err ? err : tbe_launch(t, update[t->config.type], shorts);
	return err ? err : tbe_launch(t, K_tbe_backward_long, longs);
}

static int backward_small(struct tbe *t)
{
	struct cuda_grid grad = {(t->small_bags + TBE_SMALL_CHUNK - 1) / TBE_SMALL_CHUNK,
				 t->small_feature_count, TBE_BLOCK, TBE_SMALL_GRAD_SHARED_BYTES, 0};
	struct cuda_grid apply = {t->small_rows, t->small_table_count, 32, 0, 0};
	int err = t->counted ? 0 : launch_small(t, 2);

	if (!grad.x)
		return err;
	err = err ? err : tbe_launch(t, K_tbe_small_grad, grad);
	return err ? err : tbe_launch(t, K_tbe_small_apply, apply);
}

static int backward_device(struct tbe *t)
{
	struct cuda_grid samples = {tbe_persistent(t, 8) / t->config.feature_count + 1,
				    t->config.feature_count, TBE_BLOCK, 0, 0};
	int err = 0;

	if (t->config.weighted && t->args.sample_grads)
		err = tbe_launch(t, K_tbe_backward_samples, samples);
	if (!err && t->small_table_count < t->config.table_count)
		err = backward_sorted(t);
	if (!err && t->small_table_count)
		err = backward_small(t);
	return err;
}

int tbe_backward(struct tbe *t, const struct tbe_io *io)
{
	int err = tbe_check_io(t, io);

	if (!err && !t->config.training)
		err = tbe_wrong(t, "a backward needs a configuration for training", 0);
	if (!err && (!io->grad || !io->weights) && tbe_out_elements(t, io->n))
		err = tbe_wrong(t, "the gradient or the weights are missing", 0);
	if (!err && t->config.optimizer == TBE_ADAGRAD && !io->state)
		err = tbe_wrong(t, "rowwise Adagrad needs its state", 0);
	if (err)
		return err;
	err = t->cuda ? tbe_fail(t, backward_device(t), "embedding's backward")
		      : tbe_cpu_backward(&t->args);
	t->transposed = t->counted = 0;
	t->steps += !err;
	return err;
}

int tbe_fill(struct tbe *t, uint64_t address, uint64_t elements, enum tbe_type type)
{
	struct cuda_grid grid = {0, 1, TBE_BLOCK, 0, 0};

	t->args.fill = (void *)(uintptr_t)address;
	t->args.fill_elements = elements;
	t->args.fill_type = type;
	if (!t->cuda) {
		tbe_cpu_fill(&t->args, 0, elements);
		return 0;
	}
	grid.x = tbe_persistent(t, 8);
	return tbe_fail(t, tbe_launch(t, K_tbe_fill, grid), "making inputs");
}
