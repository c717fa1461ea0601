/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's host side: scratch memory, and the launches of each variant. */
#include "kernels/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/sampler_cpu.h"
#include "kernels/cuda.h"
#include "kernels/image.h"

const char *const sampler_variant_names[SAMPLER_VARIANT_MAX] = {"naive", "static", "graph",
								"fused"};

/* Index into the kernels of one name that come in three label types. */
enum kernel {
	K_CLASSIFY,
	K_COUNT = K_CLASSIFY + SAMPLER_LABEL_MAX,
	K_LIST = K_COUNT + SAMPLER_LABEL_MAX,
	K_FUSED = K_LIST + SAMPLER_LABEL_MAX,
	K_FEW = K_FUSED + SAMPLER_LABEL_MAX,
	K_PICK = K_FEW + SAMPLER_LABEL_MAX,
	K_REFINE,
	K_MARK,
	K_SCAN,
	K_EMIT,
	K_ADVANCE,
	K_NAIVE_HISTOGRAM,
	K_NAIVE_MARK,
	K_NAIVE_TILES,
	K_MAX
};

static const char *const kernel_names[K_MAX] = {
	"sampler_static_classify_i64",
	"sampler_static_classify_i32",
	"sampler_static_classify_u8",
	"sampler_naive_count_i64",
	"sampler_naive_count_i32",
	"sampler_naive_count_u8",
	"sampler_naive_list_i64",
	"sampler_naive_list_i32",
	"sampler_naive_list_u8",
	"sampler_fused_i64",
	"sampler_fused_i32",
	"sampler_fused_u8",
	"sampler_few_i64",
	"sampler_few_i32",
	"sampler_few_u8",
	"sampler_static_pick",
	"sampler_static_refine",
	"sampler_static_mark",
	"sampler_static_scan",
	"sampler_static_emit",
	"sampler_advance",
	"sampler_naive_histogram",
	"sampler_naive_mark",
	"sampler_naive_tiles",
};

enum { PICK_THREADS = 1024, LIST_BLOCKS = 264 };

struct sampler {
	struct sampler_config config;
	struct cuda *cuda; /* NULL: the CPU back end */
	struct CUmod_st *module;
	struct CUfunc_st *kernels[K_MAX];
	struct sampler_args args; /* all that does not change from call to call */
	struct cuda_grid fused;
	unsigned fused_kernel; /* of 64-bit labels */
	uint64_t scratch[12];  /* device allocations to free */
	unsigned scratch_used;
	unsigned long long *count; /* pinned host memory that naive reads counts into */
	struct CUgraphExec_st *graph;
	struct sampler_io graph_io; /* what the graph was captured with */
	uint64_t calls;
	char error[400];
};

uint32_t sampler_label_bytes(enum sampler_label label)
{
	static const uint32_t bytes[SAMPLER_LABEL_MAX] = {8, 4, 1};

	return bytes[label];
}

uint64_t sampler_bytes(const struct sampler_config *config, uint64_t drawn)
{
	uint64_t label = sampler_label_bytes(config->label);

	return (uint64_t)config->batch * config->n * label +
	       drawn * (2ull * config->row_bytes + 8 + label);
}

const char *sampler_error(const struct sampler *sampler)
{
	return sampler->error;
}

uint64_t sampler_calls(const struct sampler *sampler)
{
	return sampler->calls;
}

static int fail(struct sampler *s, int err)
{
	if (err && s->cuda)
		snprintf(s->error, sizeof(s->error), "%s sampler: %s",
			 sampler_variant_names[s->config.variant], s->cuda->error);
	return err;
}

static int check_config(struct sampler *s)
{
	const struct sampler_config *c = &s->config;
	const char *wrong = NULL;

	if (c->variant >= SAMPLER_VARIANT_MAX || c->label >= SAMPLER_LABEL_MAX)
		wrong = "unknown variant or label type";
	else if (c->n > (1u << 31) - (1u << 24))
		wrong = "a sample has more than 2^31 - 2^24 items";
	else if (c->k >= 1u << 31)
		wrong = "more than 2^31 - 1 items to draw";
	else if (c->k_pos > c->k)
		wrong = "more slots for positives than slots";
	else if (!c->batch || c->batch > 65535)
		wrong = "a batch has 1 to 65535 samples";
	else if (c->row_bytes > 1u << 24)
		wrong = "a row of features has more than 16 MiB";
	if (wrong)
		snprintf(s->error, sizeof(s->error), "sampler: %s", wrong);
	return wrong ? -EINVAL : 0;
}

/* The arguments that the rule needs; enough for the oracle. */
static void set_rule(const struct sampler_config *c, struct sampler_args *a)
{
	memset(a, 0, sizeof(*a));
	a->seed = c->seed;
	a->n = c->n;
	a->batch = c->batch;
	a->k = c->k;
	a->k_pos = c->k_pos;
	a->fill_pos = !c->short_pos;
	a->row_bytes = c->row_bytes;
	a->label_bytes = sampler_label_bytes(c->label);
}

static void set_io(struct sampler_args *a, const struct sampler_io *io)
{
	uintptr_t rows = (uintptr_t)(io->x | io->x_out | a->row_bytes);

	a->labels = (const void *)(uintptr_t)io->labels;
	a->x = (const void *)(uintptr_t)io->x;
	a->idx = (long long *)(uintptr_t)io->idx;
	a->labels_out = (void *)(uintptr_t)io->labels_out;
	a->x_out = (void *)(uintptr_t)io->x_out;
	a->counts = (int *)(uintptr_t)io->counts;
	a->unit = rows % 16 == 0 ? 16 : rows % 4 == 0 ? 4 : rows % 2 == 0 ? 2 : 1;
	for (a->lanes_log2 = 0; a->lanes_log2 < 5 && a->unit << a->lanes_log2 < a->row_bytes;)
		a->lanes_log2++;
}

int sampler_oracle(const struct sampler_config *config, uint64_t call, uint32_t first,
		   const struct sampler_io *io)
{
	struct sampler_args a;

	set_rule(config, &a);
	set_io(&a, io);
	a.call = call;
	a.first_sample = first;
	return sampler_cpu_run(&a);
}

/* Scratch memory, zeroed where the kernels expect zeros at first. */
static int scratch(struct sampler *s, size_t bytes, int zero, const char *what, void *pointer_ret)
{
	uint64_t address = 0;
	size_t words = (bytes + 3) / 4;
	int err = cuda_alloc(s->cuda, words * 4, &address, what);

	if (!err && address) {
		s->scratch[s->scratch_used++] = address;
		if (zero)
			err = cuda_check(
				s->cuda,
				s->cuda->api.fill_async(address, 0, words, s->cuda->stream),
				"clearing %zu bytes of device memory for %s", bytes, what);
	}
	memcpy(pointer_ret, &address, sizeof(address));
	return err;
}

static int open_static(struct sampler *s)
{
	struct sampler_args *a = &s->args;
	size_t batch = s->config.variant == SAMPLER_NAIVE ? 1 : a->batch, mask;
	int err;

	a->words = (a->n + 31) / 32;
	a->tiles = (a->n + SAMPLER_TILE - 1) / SAMPLER_TILE;
	a->tiles += !a->tiles; /* an empty sample still has results to write */
	mask = batch * a->words * 4;
	err = scratch(s, mask, 0, "the positives' bits", &a->positive);
	err = err ? err : scratch(s, mask, 0, "the negatives' bits", &a->negative);
	err = err ? err : scratch(s, mask, 0, "the drawn bits", &a->selected);
	err = err ? err
		  : scratch(s, batch * 2 * SAMPLER_DIGIT_BINS * 4, 1, "histograms", &a->histogram);
	err = err ? err : scratch(s, batch * a->tiles * 4, 0, "tile counts", &a->tile_count);
	err = err ? err
		  : scratch(s, batch * sizeof(struct sampler_state), 1, "the samples' state",
			    &a->state);
	if (err || s->config.variant == SAMPLER_STATIC)
		return err;
	if (s->config.variant == SAMPLER_GRAPH)
		return scratch(s, sizeof(*a->call_base), 1, "the call counter", &a->call_base);
	err = scratch(s, (size_t)a->n * 4, 0, "the positives' indices", &a->list[0]);
	err = err ? err : scratch(s, (size_t)a->n * 4, 0, "the negatives' indices", &a->list[1]);
	err = err ? err : scratch(s, sizeof(*a->list_count), 1, "the class count", &a->list_count);
	/* Pinned, so that the copy itself does not wait: each count costs the one wait of the
	 * stream synchronization. */
	return err ? err
		   : cuda_check(s->cuda,
				s->cuda->api.host_alloc((void **)&s->count, sizeof(*s->count), 0),
				"allocating pinned memory for the class count");
}

/*
 * How many thread blocks share a sample, and their threads. Measured on an H200: up to some 16 Ki
 * items the barriers among blocks cost more than a second block gains; above, more blocks help a
 * sample by itself down to 2 Ki items each. With a batch of large samples two smaller blocks a
 * multiprocessor do better: while some wait for memory, others compute, as long as several samples
 * are under way at once. Very large ones do that by themselves: four at once on a quarter of the
 * multiprocessors each.
 */
static void choose_blocks(const struct sampler *s, unsigned *blocks_ret, unsigned *threads_ret)
{
	const struct sampler_args *a = &s->args;
	unsigned sms = (unsigned)s->cuda->sm_count, threads = SAMPLER_FUSED_THREADS, blocks = 1,
		 least = 1;
	double candidates = 0;

	if (s->cuda->cooperative && a->n > 16384) {
		blocks = a->n / 2048 < sms / a->batch ? a->n / 2048 : sms / a->batch;
		if (a->batch > 1 && a->n >= 1u << 18) {
			threads = 512;
			blocks = a->n / 65536 < sms / 2 ? a->n / 65536 : sms / 2;
		}
		if (a->batch > 1 && a->n >= 1u << 22 && sms >= 4) {
			threads = SAMPLER_FUSED_THREADS;
			blocks = sms / 4;
		}
		/* Enough that none has more candidates than fit: window x deviation on both sides
		 * of both thresholds. */
		for (double k = a->k < a->n ? a->k : a->n;
		     candidates * candidates < k * 8 * a->window * a->window;)
			candidates += 64;
		while (least < sms && candidates / least > SAMPLER_CANDIDATES / 2.0)
			least++;
		blocks = blocks < least ? least : blocks;
	}
	if (s->config.blocks)
		blocks = s->config.blocks < sms ? s->config.blocks : sms;
	while (threads > 256 && (uint64_t)blocks * threads * 8 > a->n)
		threads /= 2;
	*blocks_ret = blocks;
	*threads_ret = s->config.threads ? s->config.threads : threads;
}

/* Three quarters of a sample's share of the time that the memory needs, where a few samples take turns:
 * what did best of four. */
static unsigned stagger_ns(const struct sampler *s, unsigned at_once)
{
	const struct sampler_args *a = &s->args;
	double bytes = (double)a->n * a->label_bytes + (double)a->k * (2.0 * a->row_bytes + 16);

	if (s->config.stagger_ns || a->batch < 4 * at_once || at_once < 2 || at_once > 8)
		return s->config.stagger_ns > 0 ? (unsigned)s->config.stagger_ns : 0;
	return s->cuda->memory_rate > 0 ? (unsigned)(bytes / s->cuda->memory_rate * 0.75e9) : 0;
}

static int open_fused(struct sampler *s)
{
	struct sampler_args *a = &s->args;
	unsigned sms = (unsigned)s->cuda->sm_count, threads = SAMPLER_FUSED_THREADS, blocks,
		 at_once, warps, resident;
	size_t bits, fixed = sizeof(struct sampler_fused_shared);
	int err = 0;

	s->fused_kernel = K_FUSED;
	if (a->n <= SAMPLER_FEW && s->config.window == 0 && !s->config.blocks &&
	    !s->config.threads) {
		s->fused_kernel = K_FEW;
		s->fused = (struct cuda_grid){a->batch, 1, SAMPLER_FEW_THREADS,
					      sizeof(struct sampler_few_shared), 0};
		return 0;
	}
	a->window = s->config.window < 0 ? 0 : s->config.window > 0 ? s->config.window : 5.0f;
	choose_blocks(s, &blocks, &threads);
	warps = threads / 32;
	a->group_blocks = blocks;
	a->warp_items = (unsigned)(((uint64_t)a->n + (uint64_t)blocks * warps - 1) /
				   ((uint64_t)blocks * warps));
	a->warp_items = (a->warp_items + 31) / 32 * 32;
	a->warp_items += a->warp_items ? 0 : 32;
	bits = (size_t)warps *
	       ((a->warp_items + 127) / 128 * 32); /* two bits an item, in whole 16 bytes a warp */
	s->fused.shared_bytes = (unsigned)fixed;
	if (fixed + bits <= (size_t)s->cuda->shared_bytes)
		s->fused.shared_bytes = (unsigned)(fixed + bits);
	/* Blocks that run at once: a quarter of a multiprocessor's registers for each 512 threads,
	 * a part of its shared memory. */
	resident = SAMPLER_FUSED_THREADS / threads;
	while (resident > 1 &&
	       resident * (s->fused.shared_bytes + 1024ull) > s->cuda->shared_bytes + 1024ull)
		resident--;
	at_once = a->batch;
	if (blocks > 1)
		at_once = sms * resident / blocks < a->batch ? sms * resident / blocks : a->batch;
	a->stagger_ns = stagger_ns(s, at_once);
	s->fused.x = at_once * blocks;
	s->fused.y = 1;
	s->fused.threads = threads;
	s->fused.cooperative = blocks > 1;
	/* Blocks that take one sample after another reuse their bits; with one block a sample each
	 * has its own. */
	if (s->fused.shared_bytes == fixed)
		err = scratch(s, (size_t)s->fused.x * bits, 0, "the items' bits", &a->bits);
	if (!err && (blocks > 1 || a->k > SAMPLER_SHARED_ITEMS))
		err = scratch(s, (size_t)a->batch * a->k * 4, 0, "the drawn items", &a->items);
	if (!err && blocks > 1)
		err = scratch(s, a->batch * sizeof(struct sampler_group), 1,
			      "what thread blocks share", &a->group);
	return err;
}

int sampler_open(struct cuda *cuda, const struct sampler_config *config,
		 struct sampler **sampler_ret)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int err;

	*sampler_ret = s;
	if (!s)
		return -ENOMEM;
	s->config = *config;
	err = check_config(s);
	if (err)
		return err;
	set_rule(config, &s->args);
	if (!cuda)
		return 0;
	s->cuda = cuda;
	err = cuda_load(cuda, kernels_sampler_image, "the sampler", &s->module);
	for (unsigned i = 0; i < K_MAX && !err; i++)
		err = cuda_function(cuda, s->module, kernel_names[i], &s->kernels[i]);
	if (!err)
		err = config->variant == SAMPLER_FUSED ? open_fused(s) : open_static(s);
	return fail(s, err ? err : cuda_wait(cuda));
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	if (s->cuda) {
		(void)cuda_wait(s->cuda); /* scratch may be in use */
		if (s->graph)
			s->cuda->api.graph_exec_destroy(s->graph);
		for (unsigned i = 0; i < s->scratch_used; i++)
			cuda_free(s->cuda, s->scratch[i]);
		if (s->count)
			s->cuda->api.host_free(s->count);
		if (s->module)
			s->cuda->api.module_unload(s->module);
	}
	free(s);
}

static int launch(struct sampler *s, unsigned kernel, struct cuda_grid grid, struct sampler_args *a)
{
	void *params[] = {a};

	return cuda_launch(s->cuda, s->kernels[kernel], kernel_names[kernel], grid, params);
}

static struct cuda_grid tile_grid(const struct sampler_args *a, size_t shared)
{
	return (struct cuda_grid){a->tiles, a->batch, SAMPLER_BLOCK, (unsigned)shared, 0};
}

static struct cuda_grid pick_grid(const struct sampler_args *a)
{
	return (struct cuda_grid){1, a->batch, PICK_THREADS, sizeof(struct sampler_static_shared),
				  0};
}

static int run_static(struct sampler *s, struct sampler_args *a)
{
	struct cuda_grid big = tile_grid(a, sizeof(struct sampler_static_shared));
	struct cuda_grid small = tile_grid(a, sizeof(struct sampler_emit_shared));
	int err = launch(s, K_CLASSIFY + s->config.label, big, a);

	for (a->level = 0; a->level < SAMPLER_LEVELS && !err; a->level++) {
		if (a->level)
			err = launch(s, K_REFINE, small, a);
		err = err ? err : launch(s, K_PICK, pick_grid(a), a);
	}
	err = err ? err : launch(s, K_MARK, small, a);
	err = err ? err : launch(s, K_SCAN, pick_grid(a), a);
	return err ? err : launch(s, K_EMIT, small, a);
}

/* How many items of the class there are: the question that costs a wait. */
static int ask_count(struct sampler *s, struct sampler_args *a, unsigned which)
{
	int err;

	a->which = which;
	err = launch(s, K_COUNT + s->config.label, tile_grid(a, sizeof(struct sampler_emit_shared)),
		     a);
	err = err ? err : launch(s, K_SCAN, pick_grid(a), a);
	err = err ? err
		  : cuda_check(s->cuda,
			       s->cuda->api.download_async(s->count, (uintptr_t)a->list_count,
							   sizeof(*s->count), s->cuda->stream),
			       "reading a class count back");
	/* Called here rather than through cuda_wait(), so that a trace blames this line. */
	err = err ? err
		  : cuda_check(s->cuda, s->cuda->api.stream_synchronize(s->cuda->stream),
			       "waiting for a class count");
	a->list_n[which] = err ? 0 : (unsigned)*s->count;
	return err;
}

/* One sample; the launches after the counts have the shapes that the counts ask for. */
static int run_naive_sample(struct sampler *s, struct sampler_args *a)
{
	struct cuda_grid tiles = tile_grid(a, sizeof(struct sampler_emit_shared)), lists = {0};
	unsigned longest;
	int err = 0;

	for (unsigned which = 0; which < 2 && !err; which++) {
		err = ask_count(s, a, which);
		if (!err && a->list_n[which])
			err = launch(s, K_LIST + s->config.label, tiles, a);
	}
	longest = a->list_n[0] > a->list_n[1] ? a->list_n[0] : a->list_n[1];
	lists.x = longest / SAMPLER_BLOCK + 1 < LIST_BLOCKS ? longest / SAMPLER_BLOCK + 1
							    : LIST_BLOCKS;
	lists.y = 2;
	lists.threads = SAMPLER_BLOCK;
	lists.shared_bytes = sizeof(struct sampler_static_shared);
	for (a->level = 0; a->level < SAMPLER_LEVELS && !err; a->level++) {
		err = launch(s, K_NAIVE_HISTOGRAM, lists, a);
		err = err ? err : launch(s, K_PICK, pick_grid(a), a);
	}
	for (unsigned i = 0; i < 2 && !err && a->words; i++)
		err = cuda_check(s->cuda,
				 s->cuda->api.fill_async((uintptr_t)(i ? a->selected : a->positive),
							 0, a->words, s->cuda->stream),
				 "clearing the drawn bits");
	err = err ? err : launch(s, K_NAIVE_MARK, lists, a);
	err = err ? err : launch(s, K_NAIVE_TILES, tiles, a);
	err = err ? err : launch(s, K_SCAN, pick_grid(a), a);
	return err ? err : launch(s, K_EMIT, tiles, a);
}

static int run_naive(struct sampler *s, struct sampler_args *a)
{
	unsigned batch = a->batch;
	int err = 0;

	a->batch = 1;
	for (unsigned i = 0; i < batch && !err; i++) {
		a->first_sample = i;
		err = run_naive_sample(s, a);
		a->labels = (const char *)a->labels + (size_t)a->n * a->label_bytes;
		a->x = (const char *)a->x + (size_t)a->n * a->row_bytes;
		a->idx += a->k;
		a->labels_out = (char *)a->labels_out + (size_t)a->k * a->label_bytes;
		a->x_out = (char *)a->x_out + (size_t)a->k * a->row_bytes;
		a->counts += 2;
	}
	return err;
}

/* Captures the static form. The call number is on the device and the last node of the graph
 * advances it. */
static int capture(struct sampler *s, struct sampler_args *a)
{
	const int thread_local_mode = 1;
	struct CUgraph_st *graph = NULL;
	struct cuda_grid one = {1, 1, 32, 0, 0};
	int err, ended;

	if (s->graph)
		s->cuda->api.graph_exec_destroy(s->graph);
	s->graph = NULL;
	err = cuda_check(s->cuda, s->cuda->api.capture_begin(s->cuda->stream, thread_local_mode),
			 "beginning to capture a graph");
	if (err)
		return err;
	a->call = 0;
	err = run_static(s, a);
	err = err ? err : launch(s, K_ADVANCE, one, a);
	ended = s->cuda->api.capture_end(
		s->cuda->stream, &graph); /* also after a failure, or the stream stays captured */
	err = err ? err : cuda_check(s->cuda, ended, "ending the capture of a graph");
	err = err ? err
		  : cuda_check(s->cuda, s->cuda->api.graph_instantiate(&s->graph, graph, 0),
			       "instantiating a graph");
	if (graph)
		s->cuda->api.graph_destroy(graph);
	return err;
}

static int run_graph(struct sampler *s, struct sampler_args *a, const struct sampler_io *io)
{
	int err = 0;

	if (!s->graph || memcmp(&s->graph_io, io, sizeof(*io)) != 0) {
		err = capture(s, a);
		s->graph_io = *io;
	}
	return err ? err
		   : cuda_check(s->cuda, s->cuda->api.graph_launch(s->graph, s->cuda->stream),
				"launching a graph");
}

int sampler_run(struct sampler *s, const struct sampler_io *io)
{
	struct sampler_args a = s->args;
	int err;

	set_io(&a, io);
	a.call = s->calls;
	if (!s->cuda) {
		err = sampler_cpu_run(&a);
		if (err)
			snprintf(s->error, sizeof(s->error),
				 "sampler on the CPU: out of memory for %u keys", a.n);
	} else {
		switch (s->config.variant) {
		case SAMPLER_NAIVE:
			err = run_naive(s, &a);
			break;
		case SAMPLER_STATIC:
			err = run_static(s, &a);
			break;
		case SAMPLER_GRAPH:
			err = run_graph(s, &a, io);
			break;
		default:
			err = launch(s, s->fused_kernel + s->config.label, s->fused, &a);
		}
		err = fail(s, err);
	}
	if (!err)
		s->calls++;
	return err;
}
