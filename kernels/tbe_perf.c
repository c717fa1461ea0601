/* SPDX-License-Identifier: Apache-2.0 */
/* waylay-tbe-perf: times table-batched embedding, forward, backward and bounds check, and checks it
 * against the oracle. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/cuda.h"
#include "kernels/image.h"
#include "kernels/nvtx/nvtx.h"
#include "kernels/perf_args.h"
#include "kernels/perf_time.h"
#include "kernels/tbe_data.h"

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

struct options {
	struct tbe_config config;
	uint32_t tables, rows, dim, length;
	enum tbe_spread spread;
	double exponent;
	uint32_t calls, warmup;
	enum cuda_backend backend;
	int device, check, hoist, forward_only, baselines;
	enum format format;
	const char *save;
};

enum {
	KEY_SPREAD = 256,
	KEY_INDEX,
	KEY_OUT,
	KEY_POOLING,
	KEY_WEIGHTED,
	KEY_OPTIMIZER,
	KEY_STOCHASTIC,
	KEY_FORWARD,
	KEY_HOIST,
	KEY_BASELINES,
	KEY_BACKEND,
	KEY_DEVICE,
	KEY_CHECK,
	KEY_CSV,
	KEY_JSON,
	KEY_WARP_BAGS,
	KEY_BLOCKS,
	KEY_SAVE
};

static const struct argp_option option_list[] = {
	{"config", 'C', "NAME", 0,
	 "a known problem, for the options after it to change: a, a-f32, a-zipf, s, r, u", 1},
	{"tables", 'T', "N", 0, "tables, one feature each (8)", 1},
	{"rows", 'E', "N", 0, "rows a table; 1e6 is a number too (100000)", 1},
	{"dim", 'D', "N", 0, "columns, a multiple of 4 (128)", 1},
	{"batch", 'B', "N", 0, "bags a feature (1024)", 1},
	{"length", 'L', "N", 0, "lookups a bag (20)", 1},
	{"distribution", KEY_SPREAD, "NAME[:X]", 0,
	 "of rows: uniform, zipf:EXPONENT (1.05), one:SHARE of lookups that go to one row (0.95)",
	 1},
	{"dtype", 't', "TYPE", 0, "tables: f32, f16, bf16 (f16)", 1},
	{"out-dtype", KEY_OUT, "TYPE", 0, "output (f32)", 1},
	{"index-type", KEY_INDEX, "TYPE", 0, "indices and offsets: i64, i32 (i64)", 1},
	{"pooling", KEY_POOLING, "NAME", 0, "sum, mean, none (sum)", 1},
	{"weighted", KEY_WEIGHTED, NULL, 0, "with a weight for each lookup", 1},
	{"optimizer", KEY_OPTIMIZER, "NAME", 0, "sgd, adagrad (sgd)", 1},
	{"stochastic", KEY_STOCHASTIC, NULL, 0, "16-bit tables are rounded at random", 1},
	{"seed", 's', "S", 0, "of inputs and rounding (1)", 1},
	{"path", 'p', "NAME", 0, "auto, gather, small: by histograms (auto)", 2},
	{"forward-only", KEY_FORWARD, NULL, 0, "bounds check and forward, no memory for training",
	 2},
	{"hoist", KEY_HOIST, NULL, 0, "what moving the transpose into the forward moves", 2},
	{"baselines", KEY_BASELINES, NULL, 0,
	 "also time what a bounds check is compared with: reading its inputs once, and a warp a bag",
	 2},
	{"calls", 'c', "N", 0, "timed calls of each (50)", 2},
	{"warmup", 'w', "N", 0, "calls before these (3)", 2},
	{"backend", KEY_BACKEND, "NAME", 0, "auto, cuda or cpu (auto)", 2},
	{"device", KEY_DEVICE, "N", 0, "CUDA device (0)", 2},
	{"warp-bags", KEY_WARP_BAGS, "N", OPTION_HIDDEN,
	 "bags a warp of the forward takes (chosen)", 2},
	{"blocks", KEY_BLOCKS, "N", OPTION_HIDDEN, "blocks of persistent launches (chosen)", 2},
	{"save", KEY_SAVE, "FILE", OPTION_HIDDEN, "writes the indices there", 2},
	{"check", KEY_CHECK, NULL, 0, "compare with the oracle", 3},
	{"csv", KEY_CSV, NULL, 0, "print CSV", 3},
	{"json", KEY_JSON, NULL, 0, "print JSON", 3},
	{0},
};

const char *argp_program_version = "waylay-tbe-perf " WAYLAY_VERSION;

static void parse_spread(struct argp_state *state, const char *arg, struct options *o)
{
	size_t len = strcspn(arg, ":");
	char *end = NULL;

	for (unsigned i = 0; i < TBE_SPREAD_MAX; i++)
		if (strlen(tbe_spread_names[i]) == len && !strncmp(arg, tbe_spread_names[i], len)) {
			o->spread = (enum tbe_spread)i;
			o->exponent = i == TBE_ONE ? 0.95 : 1.05;
			if (arg[len])
				o->exponent = strtod(arg + len + 1, &end);
			if ((end && (*end || end == arg + len + 1)) || !(o->exponent >= 0) ||
			    o->exponent > 8 || (i == TBE_ONE && o->exponent > 1))
				break;
			return;
		}
	argp_error(state, "'%s' is no distribution such as uniform, zipf:1.05 or one:0.95", arg);
}

/* The problems that facts and peers are known for. */
static void parse_config(struct argp_state *state, const char *arg, struct options *o)
{
	static const struct {
		const char *name;
		uint32_t tables, rows, dim, batch, length;
		enum tbe_type type;
		enum tbe_spread spread;
		double exponent;
	} known[] = {
		{"a", 64, 1000000, 128, 4096, 20, TBE_F16, TBE_UNIFORM, 0},
		{"a-f32", 64, 1000000, 128, 4096, 20, TBE_F32, TBE_UNIFORM, 0},
		{"a-zipf", 64, 1000000, 128, 4096, 20, TBE_F16, TBE_ZIPF, 1.05},
		{"s", 8, 64, 128, 65536, 100, TBE_F16, TBE_UNIFORM, 0},
		{"r", 1, 1000000, 128, 131072, 17, TBE_F32, TBE_ONE, 0.95},
		{"u", 32, 100000, 128, 16384, 20, TBE_F32, TBE_UNIFORM, 0},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(arg, known[i].name)) {
			o->tables = known[i].tables;
			o->rows = known[i].rows;
			o->dim = known[i].dim;
			o->config.batch = known[i].batch;
			o->length = known[i].length;
			o->config.type = known[i].type;
			o->spread = known[i].spread;
			o->exponent = known[i].exponent;
			return;
		}
	argp_error(state, "'%s' is no problem known here: see --help", arg);
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'p':
		o->config.path =
			(enum tbe_path)perf_parse_name(state, arg, tbe_path_names, TBE_PATH_MAX);
		return 0;
	case KEY_FORWARD:
		o->forward_only = 1;
		return 0;
	case KEY_HOIST:
		o->hoist = 1;
		return 0;
	case KEY_BASELINES:
		o->baselines = 1;
		return 0;
	case 'c':
		o->calls = (uint32_t)perf_parse_count(state, arg, 1, 1e6);
		return 0;
	case 'w':
		o->warmup = (uint32_t)perf_parse_count(state, arg, 0, 1e6);
		return 0;
	case KEY_BACKEND:
		if (cuda_backend_parse(arg, &o->backend))
			argp_error(state, "'%s' is no back end: auto, cuda or cpu", arg);
		return 0;
	case KEY_DEVICE:
		o->device = (int)perf_parse_count(state, arg, 0, 1023);
		return 0;
	case KEY_WARP_BAGS:
		o->config.warp_bags = (uint32_t)perf_parse_count(state, arg, 1, 31);
		return 0;
	case KEY_BLOCKS:
		o->config.blocks = (uint32_t)perf_parse_count(state, arg, 1, 65535);
		return 0;
	case KEY_SAVE:
		o->save = arg;
		return 0;
	case KEY_CHECK:
		o->check = 1;
		return 0;
	case KEY_CSV:
		o->format = FORMAT_CSV;
		return 0;
	case KEY_JSON:
		o->format = FORMAT_JSON;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const index_names[] = {"i32", "i64"};
	struct options *o = state->input;

	switch (key) {
	case 'C':
		parse_config(state, arg, o);
		return 0;
	case 'T':
		o->tables = (uint32_t)perf_parse_count(state, arg, 1, 65534);
		return 0;
	case 'E':
		o->rows = (uint32_t)perf_parse_count(state, arg, 1, 2147483647);
		return 0;
	case 'D':
		o->dim = (uint32_t)perf_parse_count(state, arg, 4, TBE_DIM_MAX);
		return 0;
	case 'B':
		o->config.batch = (uint32_t)perf_parse_count(state, arg, 1, 2147483647);
		return 0;
	case 'L':
		o->length = (uint32_t)perf_parse_count(state, arg, 0, 1e6);
		return 0;
	case KEY_SPREAD:
		parse_spread(state, arg, o);
		return 0;
	case 't':
		o->config.type =
			(enum tbe_type)perf_parse_name(state, arg, tbe_type_names, TBE_TYPE_MAX);
		return 0;
	case KEY_OUT:
		o->config.out_type =
			(enum tbe_type)perf_parse_name(state, arg, tbe_type_names, TBE_TYPE_MAX);
		return 0;
	case KEY_INDEX:
		o->config.index_bytes = perf_parse_name(state, arg, index_names, 2) ? 8 : 4;
		return 0;
	case KEY_POOLING:
		o->config.pooling = (enum tbe_pooling)perf_parse_name(state, arg, tbe_pooling_names,
								      TBE_POOLING_MAX);
		return 0;
	case KEY_WEIGHTED:
		o->config.weighted = 1;
		return 0;
	case KEY_OPTIMIZER:
		o->config.optimizer = (enum tbe_optimizer)perf_parse_name(
			state, arg, tbe_optimizer_names, TBE_OPTIMIZER_MAX);
		return 0;
	case KEY_STOCHASTIC:
		o->config.stochastic = 1;
		return 0;
	case 's':
		o->config.seed = strtoull(arg, NULL, 0);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return 0;
	default:
		return parse_run(key, arg, state);
	}
}

static const struct argp argp = {
	option_list,
	parse,
	NULL,
	"Times table-batched embedding on a CUDA device, or on the CPU."
	"\vTimes are medians between device events; backward is transpose and update. A floor is the bytes that must "
	"move over the copy rate of the same run: those of every lookup, and those if each row that is looked up moved once. "
	"Each call is an NVTX range tbe-NAME. Exit status: 1 for a wrong result, 2 when something could not be done, 64 for "
	"a wrong option.",
	NULL,
	NULL,
	NULL,
};

/* --- what is timed ------------------------------------------------------------------------------ */

enum stage { BOUNDS, STREAM, BAGS, FORWARD, TRANSPOSE, UPDATE, BACKWARD, STAGE_MAX };
static const char *const stage_names[STAGE_MAX] = {"bounds",    "stream", "bags",    "forward",
						   "transpose", "update", "backward"};

struct run {
	struct options *o;
	struct cuda *cuda;
	struct tbe *tbe;
	struct tbe_data data;
	const enum stage *sequence;
	uint64_t bytes[STAGE_MAX],
		least[STAGE_MAX]; /* that must move: for all lookups, for each row once */
	struct perf_median times[STAGE_MAX];
	int ran[STAGE_MAX];
	double rate; /* of copies, bytes a second */
	const char *check;
};

static int complain(const char *text)
{
	fprintf(stderr, "waylay-tbe-perf: %s\n", text);
	return 2;
}

static int call(void *arg, uint32_t stage)
{
	static const char *const ranges[STAGE_MAX] = {"tbe-bounds",  "tbe-stream",    "tbe-bags",
						      "tbe-forward", "tbe-transpose", "tbe-update",
						      "tbe-backward"};
	struct run *r = arg;
	enum stage what = r->sequence[stage];
	int err;

	nvtx_push_u64(ranges[what], r->bytes[what]);
	switch (what) {
	case BOUNDS:
		err = tbe_bounds(r->tbe, &r->data.io, TBE_BOUNDS_IGNORE, NULL);
		break;
	case STREAM:
	case BAGS:
		err = tbe_bounds_baseline(r->tbe, &r->data.io,
					  what == STREAM ? TBE_BOUNDS_STREAM : TBE_BOUNDS_BAGS);
		break;
	case FORWARD:
		err = tbe_forward(r->tbe, &r->data.io);
		break;
	case TRANSPOSE:
		err = tbe_transpose(r->tbe, &r->data.io);
		break;
	default:
		err = tbe_backward(r->tbe, &r->data.io);
	}
	nvtx_pop();
	return err;
}

static int fail(struct run *r, int err)
{
	const char *words = tbe_error(r->tbe);

	if (!*words && r->cuda)
		words = r->cuda->error;
	return err ? complain(*words ? words : strerror(-err)) : 0;
}

static void count_bytes(struct run *r)
{
	const struct tbe_config *c = &r->o->config;
	uint64_t n = r->data.io.n, bags = tbe_bags(r->tbe), index = c->index_bytes,
		 width = c->type == TBE_F32 ? 4 : 2;
	uint64_t row = r->o->dim * width, unique = r->data.unique,
		 outs = tbe_out_elements(r->tbe, (uint32_t)n);
	uint64_t inputs = (n + bags + 1) * index,
		 state = c->optimizer == TBE_ADAGRAD ? unique * 8 : 0;
	uint64_t extra = (c->weighted ? n * 4 : 0) + inputs;

	for (enum stage s = BOUNDS; s <= BAGS; s++)
		r->bytes[s] = r->least[s] = inputs;
	r->bytes[FORWARD] = n * row + outs * (c->out_type == TBE_F32 ? 4 : 2) + extra;
	r->least[FORWARD] = r->bytes[FORWARD] - (n - unique) * row;
	/* rows and lookups out, as 4 bytes each, and in again */
	r->bytes[TRANSPOSE] = r->least[TRANSPOSE] = inputs + n * 8;
	r->least[UPDATE] = 2 * unique * row + state + outs * 4 + n * 8;
	r->bytes[UPDATE] = r->least[UPDATE] + n * r->o->dim * 4 -
			   (outs * 4 < n * r->o->dim * 4 ? outs * 4 : n * r->o->dim * 4);
	if (tbe_small(r->tbe, 0)) {
		r->bytes[FORWARD] = r->least[FORWARD];
		r->bytes[TRANSPOSE] = r->least[TRANSPOSE] = 0;
		r->bytes[UPDATE] = r->least[UPDATE] = 2 * unique * row + state + outs * 4;
	}
	r->bytes[BACKWARD] = r->bytes[TRANSPOSE] + r->bytes[UPDATE];
	r->least[BACKWARD] = r->least[TRANSPOSE] + r->least[UPDATE];
}

/* Times a sequence of stages and keeps the medians of those that have none yet. */
static int time_sequence(struct run *r, const enum stage *sequence, uint32_t stages)
{
	struct perf_median medians[STAGE_MAX];
	int err = 0;

	r->sequence = sequence;
	for (uint32_t i = 0; i < r->o->warmup * stages && !err; i++)
		err = call(r, i % stages);
	if (!err && r->cuda)
		err = cuda_wait(r->cuda);
	err = err ? err : perf_time(r->cuda, call, r, stages, r->o->calls, medians);
	for (uint32_t i = 0; i < stages && !err; i++) {
		if (!r->ran[sequence[i]])
			r->times[sequence[i]] = medians[i];
		r->ran[sequence[i]] = 1;
	}
	return fail(r, err);
}

/* A forward and a backward from fresh tables, both against the oracle. */
static int check(struct run *r)
{
	static const enum stage all[] = {BOUNDS, FORWARD, BACKWARD};
	int err = 0, failed;

	r->sequence = all;
	for (uint32_t i = 0; i < 3 - (uint32_t)r->o->forward_only && !err; i++)
		err = call(r, i);
	if (!err && r->cuda)
		err = cuda_wait(r->cuda);
	if (err)
		return fail(r, err);
	failed = tbe_data_check_forward(&r->data);
	if (!failed && !r->o->forward_only)
		failed = tbe_data_check_backward(&r->data);
	r->check = failed > 0 ? "WRONG" : "ok";
	return failed ? complain(r->data.error) - (failed > 0) : 0;
}

/* --- output ------------------------------------------------------------------------------------- */

static void print_head(const struct run *r)
{
	const struct options *o = r->o;
	const struct tbe_config *c = &o->config;

	if (o->format == FORMAT_CSV) {
		printf("stage,tables,rows,dim,batch,length,distribution,dtype,optimizer,small,device_us,host_us,bytes,gb_per_s,"
		       "floor_us,floor_share,least_us,least_share,check\n");
		return;
	}
	if (o->format == FORMAT_JSON) {
		printf("[");
		return;
	}
	if (r->cuda)
		printf("# %s, %d multiprocessors, driver %d.%d, device code by %s", r->cuda->name,
		       r->cuda->sm_count, r->cuda->driver_version / 1000,
		       r->cuda->driver_version % 1000 / 10, kernels_image_maker);
	else
		printf("# CPU back end");
	if (r->rate > 0)
		printf(", copies run at %.0f GB/s", r->rate * 1e-9);
	printf("\n");
	printf("# %u tables of %u x %u %s, batch %u, %u lookups a bag (%s", o->tables, o->rows,
	       o->dim, tbe_type_names[c->type], c->batch, o->length, tbe_spread_names[o->spread]);
	if (o->spread != TBE_UNIFORM)
		printf(":%g", o->exponent);
	printf("), %s, %s%s%s; %u lookups of %llu rows, the most frequent %llu times\n",
	       tbe_pooling_names[c->pooling], tbe_optimizer_names[c->optimizer],
	       c->stochastic ? ", stochastic" : "", tbe_small(r->tbe, 0) ? ", by histograms" : "",
	       r->data.io.n, (unsigned long long)r->data.unique,
	       (unsigned long long)r->data.longest);
	printf("%-10s %12s %10s %12s %9s %11s %7s %11s %7s %6s\n", "stage", "device us", "host us",
	       "MB", "GB/s", "floor us", "%", "least us", "%", "check");
}

static void print_stage(const struct run *r, enum stage s, int first)
{
	const struct options *o = r->o;
	const struct tbe_config *c = &o->config;
	double us = r->times[s].device_us, host = r->times[s].host_us, bytes = (double)r->bytes[s],
	       gb = bytes / us * 1e-3;
	double floor_us = r->rate > 0 ? bytes / r->rate * 1e6 : 0,
	       least_us = r->rate > 0 ? (double)r->least[s] / r->rate * 1e6 : 0;

	switch (o->format) {
	case FORMAT_CSV:
		printf("%s,%u,%u,%u,%u,%u,%s,%s,%s,%d,%.3f,%.3f,%llu,%.3f,%.3f,%.4f,%.3f,%.4f,%s\n",
		       stage_names[s], o->tables, o->rows, o->dim, c->batch, o->length,
		       tbe_spread_names[o->spread], tbe_type_names[c->type],
		       tbe_optimizer_names[c->optimizer], tbe_small(r->tbe, 0), us, host,
		       (unsigned long long)r->bytes[s], gb, floor_us, floor_us / us, least_us,
		       least_us / us, r->check);
		break;
	case FORMAT_JSON:
		printf("%s\n {\"stage\": \"%s\", \"tables\": %u, \"rows\": %u, \"dim\": %u, \"batch\": %u, \"length\": %u, "
		       "\"distribution\": \"%s\", \"dtype\": \"%s\", \"optimizer\": \"%s\", \"small\": %s, \"device_us\": %.3f, "
		       "\"host_us\": %.3f, \"bytes\": %llu, \"gb_per_s\": %.3f, \"floor_us\": %.3f, \"floor_share\": %.4f, "
		       "\"least_us\": %.3f, \"least_share\": %.4f, \"check\": \"%s\"}",
		       first ? "" : ",", stage_names[s], o->tables, o->rows, o->dim, c->batch,
		       o->length, tbe_spread_names[o->spread], tbe_type_names[c->type],
		       tbe_optimizer_names[c->optimizer], tbe_small(r->tbe, 0) ? "true" : "false",
		       us, host, (unsigned long long)r->bytes[s], gb, floor_us, floor_us / us,
		       least_us, least_us / us, r->check);
		break;
	default:
		printf("%-10s %12.2f %10.2f %12.3f %9.1f", stage_names[s], us, host, bytes * 1e-6,
		       gb);
		if (r->rate > 0)
			printf(" %11.2f %7.1f %11.2f %7.1f", floor_us, floor_us / us * 100,
			       least_us, least_us / us * 100);
		else
			printf(" %11s %7s %11s %7s", "-", "-", "-", "-");
		printf(" %6s\n", r->check);
	}
}

static void print_hoist(const struct run *r)
{
	double forward = r->times[FORWARD].device_us, transpose = r->times[TRANSPOSE].device_us;
	double update = r->times[UPDATE].device_us, backward = r->times[BACKWARD].device_us;

	printf("# transpose in     %12s %12s %12s\n", "forward us", "backward us", "total us");
	printf("# backward         %12.2f %12.2f %12.2f\n", forward, backward, forward + backward);
	printf("# forward          %12.2f %12.2f %12.2f\n", forward + transpose, update,
	       forward + transpose + update);
	printf("# It moves %.2f us from the backward to the forward; the total changes by %+.1f %%.\n",
	       transpose, ((forward + transpose + update) / (forward + backward) - 1) * 100);
}

/* --- a run -------------------------------------------------------------------------------------- */

static int save_indices(const struct run *r)
{
	FILE *f = fopen(r->o->save, "wb");
	size_t bytes = (size_t)r->data.io.n * r->o->config.index_bytes;
	int ok = f && fwrite(r->data.indices, 1, bytes, f) == bytes;

	if (f && fclose(f))
		ok = 0;
	if (!ok)
		fprintf(stderr, "waylay-tbe-perf: writing %s: %s\n", r->o->save, strerror(errno));
	return ok ? 0 : 2;
}

static int measure(struct run *r)
{
	static const enum stage plain[] = {BOUNDS, FORWARD, BACKWARD},
				hoisted[] = {FORWARD, TRANSPOSE, UPDATE},
				checks[] = {BOUNDS, STREAM, BAGS};
	int err = 0, first = 1;

	if (r->o->baselines && !r->cuda)
		return complain(
			"--baselines needs a CUDA device: on the CPU there is nothing to compare");
	count_bytes(r);
	r->check = "-";
	if (r->o->save)
		err = save_indices(r);
	if (!err && r->cuda && cuda_copy_rate(r->cuda, &r->rate))
		err = complain(r->cuda->error);
	if (!err && r->o->check)
		err = check(r);
	if (err > 1)
		return err;
	print_head(r);
	if ((r->o->baselines && time_sequence(r, checks, 3)) ||
	    time_sequence(r, plain, r->o->forward_only ? 2 : 3) ||
	    (!r->o->forward_only && time_sequence(r, hoisted, 3)))
		return 2;
	for (enum stage s = BOUNDS; s < STAGE_MAX; s++) {
		if (r->ran[s])
			print_stage(r, s, first);
		first = 0;
	}
	if (r->o->format == FORMAT_JSON)
		printf("\n]\n");
	if (r->o->hoist && !r->o->forward_only && r->o->format == FORMAT_TEXT)
		print_hoist(r);
	return err;
}

static int run(struct options *o, struct cuda *cuda)
{
	struct run r = {.o = o, .cuda = cuda};
	struct tbe_config *c = &o->config;
	struct tbe_shape *shapes = calloc(o->tables, sizeof(*shapes));
	uint32_t *map = calloc(o->tables, sizeof(*map));
	uint64_t n = (uint64_t)o->tables * c->batch * o->length;
	int err = shapes && map ? 0 : complain("out of memory");

	for (uint32_t i = 0; i < o->tables && !err; i++) {
		shapes[i] = (struct tbe_shape){o->rows, o->dim};
		map[i] = i;
	}
	c->tables = shapes;
	c->feature_table = map;
	c->table_count = c->feature_count = o->tables;
	c->training = !o->forward_only;
	c->bag_hint = o->length;
	c->max_indices = n < 1ull << 31 ? (uint32_t)n : 1u << 31; /* which is refused */
	if (!err && tbe_open(cuda, c, &r.tbe))
		err = complain(r.tbe ? tbe_error(r.tbe) : "out of memory");
	r.data = (struct tbe_data){.cuda = cuda,
				   .tbe = r.tbe,
				   .config = c,
				   .length = o->length,
				   .spread = o->spread,
				   .exponent = o->exponent};
	if (!err && tbe_data_open(&r.data))
		err = complain(r.data.error);
	err = err ? err : measure(&r);
	tbe_data_close(&r.data);
	tbe_close(r.tbe);
	free(shapes);
	free(map);
	return err;
}

int main(int argc, char **argv)
{
	struct options o = {
		.config = {.batch = 1024,
			   .index_bytes = 8,
			   .type = TBE_F16,
			   .rate = 0.01f,
			   .eps = 1e-8f,
			   .seed = 1},
		.tables = 8,
		.rows = 100000,
		.dim = 128,
		.length = 20,
		.calls = 50,
		.warmup = 3,
	};
	struct cuda *cuda = NULL;
	int err;

	argp_err_exit_status = EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (o.backend != CUDA_BACKEND_CPU) {
		err = cuda_open(o.device, &cuda);
		if (err && (o.backend == CUDA_BACKEND_CUDA || !cuda)) {
			complain(cuda ? cuda->error : "out of memory");
			if (cuda)
				fprintf(stderr, "waylay-tbe-perf: --backend cpu needs no driver\n");
			cuda_close(cuda);
			return 2;
		}
		if (err) { /* auto: the CPU back end, and why */
			fprintf(stderr,
				"waylay-tbe-perf: no CUDA device (%s); running on the CPU\n",
				cuda->error);
			cuda_close(cuda);
			cuda = NULL;
		}
	}
	err = run(&o, cuda);
	cuda_close(cuda);
	return err;
}
