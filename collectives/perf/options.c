/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: the flags of nccl-tests, where they have a meaning here, with long forms. */
#include "collectives/perf/perf.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const collective_names[PERF_COLLECTIVE_MAX] = {
	"all_reduce", "reduce_scatter", "all_gather", "broadcast", "alltoall", "barrier", "p2p",
};

const char *perf_collective_name(enum perf_collective c)
{
	return collective_names[c];
}

static const char *const path_names[PERF_PATH_MAX + 1] = {
	"host", "staged-naive", "staged", "direct", NULL,
};

const char *perf_path_name(enum perf_path path)
{
	return path_names[path];
}

const char *argp_program_version = PERF_NAME " " WAYLAY_VERSION;

enum key {
	KEY_PROVIDER = 256,
	KEY_LIST,
	KEY_PATH,
	KEY_DEVICE,
	KEY_INTERFACE,
	KEY_CACHE,
	KEY_REGISTER,
	KEY_ALGORITHM,
	KEY_CHUNK,
	KEY_WINDOW,
	KEY_NP,
	KEY_BIND,
	KEY_PORT,
	KEY_TIMEOUT,
	KEY_TABLE,
	KEY_WORKLOAD,
	KEY_MODEL,
	KEY_BUCKET,
	KEY_SCALING,
	KEY_ROUNDS,
	KEY_FORMAT,
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Sizes (1K, 32M, 1G; powers of 1024):", 1},
	{"minbytes", 'b', "SIZE", 0, "first size (default 1K)", 0},
	{"min-bytes", 0, NULL, OPTION_ALIAS, NULL, 0},
	{"maxbytes", 'e', "SIZE", 0, "last size (default 32M)", 0},
	{"max-bytes", 0, NULL, OPTION_ALIAS, NULL, 0},
	{"stepfactor", 'f', "N", 0, "multiply the size by N each time (default 2)", 0},
	{"step-factor", 0, NULL, OPTION_ALIAS, NULL, 0},
	{"stepbytes", 'i', "SIZE", 0, "or add SIZE each time", 0},
	{"step-bytes", 0, NULL, OPTION_ALIAS, NULL, 0},

	{NULL, 0, NULL, 0, "What to run:", 2},
	{"datatype", 'd', "TYPE", 0,
	 "uint8, int32, int64, float16, bfloat16, float32, float64, a list, or all (default float32)",
	 0},
	{"op", 'o', "OP", 0, "sum, prod, min, max, avg, a list, or all (default sum)", 0},
	{"root", 'r', "RANK", 0, "of broadcasts (default 0)", 0},
	{"algorithm", KEY_ALGORITHM, "NAME", 0,
	 "auto, ring, recursive-doubling, rabenseifner, direct or tree, for collectives that have it",
	 0},
	{"chunk", KEY_CHUNK, "SIZE", 0, "of the pipeline (default: what suits the provider)", 0},
	{"window", KEY_WINDOW, "N", 0, "chunks under way, 2 to 16 (default: likewise)", 0},

	{"workload", KEY_WORKLOAD, "ddp|zero2", 0,
	 "the collectives of a training step instead: gradients all-reduced in buckets, or "
	 "reduce-scattered and parameters all-gathered",
	 0},
	{"model", KEY_MODEL, "LAYERSxWIDTH", 0, "of the workload, as GPT-2's (default 12x768)", 0},
	{"bucket", KEY_BUCKET, "SIZE", 0, "of the workload's gradients (default 25M)", 0},

	{NULL, 0, NULL, 0, "Measuring:", 3},
	{"iters", 'n', "N", 0, "timed calls (default 20)", 0},
	{"warmup_iters", 'w', "N", 0, "calls before (default 5)", 0},
	{"warmup-iters", 0, NULL, OPTION_ALIAS, NULL, 0},
	{"rounds", KEY_ROUNDS, "N", 0,
	 "time that many rounds of calls and show the fastest, for a busy machine (default 1)", 0},
	{"check", 'c', "N", 0, "runs whose result is checked (default 1, 0 for none)", 0},
	{"scaling", KEY_SCALING, NULL, 0,
	 "run with 2, 4, ... up to --np ranks, and say what limits each size", 0},
	{"average", 'a', "HOW", 0,
	 "time shown: 0 rank 0's, 1 average (default), 2 least, 3 greatest", 0},

	{NULL, 0, NULL, 0, "Network and memory:", 4},
	{"provider", KEY_PROVIDER, "NAME", 0,
	 "libfabric provider, as shm, tcp, 'tcp;ofi_rxm' (default: the best there is)", 0},
	{"list-providers", KEY_LIST, NULL, 0, "print the providers found here, best first", 0},
	{"path", KEY_PATH, "PATH", 0,
	 "memory that is moved and how: host (default); or device memory, staged-naive (copied to the "
	 "host whole, sent, copied back), staged (the same in pieces, pipelined), direct (registered "
	 "with the network)",
	 0},
	{"device", KEY_DEVICE, "N", 0, "CUDA device (default: rank modulo their number)", 0},
	{"mr-interface", KEY_INTERFACE, "auto|cuda|dmabuf", 0,
	 "how --path direct names device memory to the provider (default auto)", 0},
	{"mr-cache", KEY_CACHE, "N[,SIZE]|off", 0,
	 "registrations kept, and their bytes (default 1024)", 0},
	{"register", KEY_REGISTER, "always|needed", 0,
	 "register buffers even where the provider needs it not, so that the cost shows (default "
	 "always)",
	 0},
	{"reg-table", KEY_TABLE, NULL, 0, "also measure what registration costs", 0},

	{NULL, 0, NULL, 0, "Ranks:", 5},
	{"np", KEY_NP, "N", 0,
	 "start N ranks on this host (default 2, unless torchrun, Open MPI, PMI or Slurm started this)",
	 0},
	{"ngpus", 'g', "N", 0, "the same, as nccl-tests calls it", 0},
	{"bind", KEY_BIND, "core|none", 0,
	 "with --np: a CPU of its own for each rank (default core)", 0},
	{"port", KEY_PORT, "PORT", 0, "where rank 0 listens (default MASTER_PORT)", 0},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0,
	 "give up when a rank does not come, or nothing moves (default 60)", 0},

	{NULL, 0, NULL, 0, "Output:", 6},
	{"format", KEY_FORMAT, "text|csv|json", 0, "(default text)", 0},
	{"output", 'O', "FILE", 0, "write there instead of to standard output", 0},
	{0},
};

static const char doc[] =
	"Measures collectives over libfabric, with correctness checked on every size.\v"
	"COLLECTIVE is all_reduce (default), reduce_scatter, all_gather, broadcast, alltoall, barrier, "
	"p2p (messages from even ranks to odd ones) or all.\n\n"
	"Exit status: 0, 1 for wrong values or a failed run, 64 for a wrong command line; with --np, "
	"that of the first rank that failed (128 + signal when a signal ended it).\n\n"
	"Examples:\n"
	"  " PERF_NAME " --np 2\n"
	"  " PERF_NAME " --np 4 -b 8 -e 128M -f 2 --provider tcp all_gather\n"
	"  " PERF_NAME " --np 2 --path direct --workload zero2 -d bfloat16\n"
	"  torchrun --no-python --nproc-per-node 2 " PERF_NAME " -d all -o all\n";

static size_t parse_size(const char *text, struct argp_state *state, const char *name)
{
	static const char units[] = "kmgt";
	char *end;
	unsigned long long v;
	const char *unit;
	int shift = 0;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (end != text && *end && (unit = strchr(units, *end | 0x20))) {
		shift = 10 * (int)(unit - units + 1);
		end++;
		if (strcasecmp(end, "ib") == 0 || strcasecmp(end, "b") == 0)
			end += strlen(end);
	}
	if (end == text || *end || errno || *text == '-' || v > (SIZE_MAX >> 1) >> shift)
		argp_error(state, "%s: '%s' is not a size, as 4096, 64K or 1G", name, text);
	return (size_t)v << shift;
}

static int parse_int(const char *text, long min, long max, struct argp_state *state,
		     const char *name)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < min || v > max)
		argp_error(state, "%s: '%s' is not a number from %ld to %ld", name, text, min, max);
	return (int)v;
}

/* Calls take(word) for each word of a comma-separated list; "all" sets all of the `n` bits. */
static unsigned int parse_list(const char *text, int n, int (*take)(const char *word),
			       struct argp_state *state, const char *name)
{
	char copy[256], *save = NULL;
	unsigned int bits = 0;

	if (strcasecmp(text, "all") == 0)
		return (1u << n) - 1;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		int v = take(word);

		if (v < 0)
			argp_error(state, "%s: '%s' is unknown (--help lists what there is)", name,
				   word);
		bits |= 1u << (v & 31);
	}
	if (!bits)
		argp_error(state, "%s: an empty list", name);
	return bits;
}

static int take_type(const char *word)
{
	enum coll_type type;

	return coll_type_parse(word, &type) ? -1 : (int)type;
}

static int take_op(const char *word)
{
	enum coll_op op;

	return coll_op_parse(word, &op) ? -1 : (int)op;
}

/* With or without underscores and hyphens: allreduce, all-reduce, all_reduce. */
static int take_collective(const char *word)
{
	char plain[64];
	size_t n = 0;

	for (; *word && n < sizeof(plain) - 1; word++) {
		if (*word != '-' && *word != '_')
			plain[n++] = *word;
	}
	plain[n] = 0;
	for (int i = 0; i < PERF_COLLECTIVE_MAX; i++) {
		char name[64];
		size_t m = 0;

		for (const char *c = collective_names[i]; *c; c++) {
			if (*c != '_')
				name[m++] = *c;
		}
		name[m] = 0;
		if (strcasecmp(plain, name) == 0)
			return i;
	}
	return -1;
}

static int pick_word(const char *text, const char *const *words, struct argp_state *state,
		     const char *name)
{
	for (int i = 0; words[i]; i++) {
		if (strcasecmp(text, words[i]) == 0)
			return i;
	}
	argp_error(state, "%s: '%s' is unknown (--help lists what there is)", name, text);
	return 0;
}

static void parse_cache(struct perf_options *o, const char *text, struct argp_state *state)
{
	char copy[64];
	char *comma;

	snprintf(copy, sizeof(copy), "%s", text);
	comma = strchr(copy, ',');
	if (comma) {
		*comma = 0;
		o->coll.cache_bytes = parse_size(comma + 1, state, "--mr-cache");
	}
	o->coll.cache_entries = strcasecmp(copy, "off") == 0
					? 0
					: (size_t)parse_int(copy, 0, 1 << 30, state, "--mr-cache");
}

static double parse_seconds(const char *text, struct argp_state *state)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v > 0 && v <= 86400))
		argp_error(state, "--timeout: '%s' is not a number of seconds up to 86400", text);
	return v;
}

static void parse_model(struct perf_options *o, const char *text, struct argp_state *state)
{
	int end = 0;

	if (sscanf(text, "%dx%d%n", &o->layers, &o->hidden, &end) != 2 || text[end] ||
	    o->layers < 1 || o->layers > 1000 || o->hidden < 64 || o->hidden > 65536)
		argp_error(state, "--model: '%s' is not LAYERSxWIDTH, as 12x768", text);
}

static error_t parse_measure(int key, char *arg, struct argp_state *state)
{
	static const char *const workloads[] = {"ddp", "zero2", NULL};
	struct perf_options *o = state->input;

	switch (key) {
	case 'b':
		o->min_bytes = parse_size(arg, state, "--minbytes");
		break;
	case 'e':
		o->max_bytes = parse_size(arg, state, "--maxbytes");
		break;
	case 'f':
		o->step_factor = (size_t)parse_int(arg, 1, 1 << 20, state, "--stepfactor");
		break;
	case 'i':
		o->step_bytes = parse_size(arg, state, "--stepbytes");
		o->step_factor = 1;
		break;
	case 'd':
		o->types = parse_list(arg, COLL_TYPE_MAX, take_type, state, "--datatype");
		break;
	case 'o':
		o->ops = parse_list(arg, COLL_OP_MAX, take_op, state, "--op");
		break;
	case 'r':
		o->root = parse_int(arg, 0, 1 << 16, state, "--root");
		break;
	case 'n':
		o->iters = parse_int(arg, 1, 1 << 30, state, "--iters");
		break;
	case 'w':
		o->warmup_iters = parse_int(arg, 0, 1 << 30, state, "--warmup_iters");
		break;
	case 'c':
		o->checks = parse_int(arg, 0, 1 << 20, state, "--check");
		break;
	case KEY_WORKLOAD:
		o->workload =
			(enum perf_workload)(1 + pick_word(arg, workloads, state, "--workload"));
		break;
	case KEY_MODEL:
		parse_model(o, arg, state);
		break;
	case KEY_BUCKET:
		o->bucket_bytes = parse_size(arg, state, "--bucket");
		break;
	case KEY_ROUNDS:
		o->rounds = parse_int(arg, 1, 1 << 20, state, "--rounds");
		break;
	case KEY_SCALING:
		o->scaling = true;
		break;
	case 'a':
		o->average = (enum perf_average)parse_int(arg, 0, 3, state, "--average");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_network(int key, char *arg, struct argp_state *state)
{
	static const char *const registering[] = {"always", "needed", NULL};
	static const char *const interfaces[] = {"auto", "cuda", "dmabuf", NULL};
	struct perf_options *o = state->input;

	switch (key) {
	case KEY_PROVIDER:
		o->provider = arg;
		break;
	case KEY_LIST:
		o->list_providers = true;
		break;
	case KEY_PATH:
		o->path = (enum perf_path)pick_word(arg, path_names, state, "--path");
		break;
	case KEY_DEVICE:
		o->device = parse_int(arg, 0, 4096, state, "--device");
		break;
	case KEY_INTERFACE:
		o->coll.interface =
			(enum coll_interface)pick_word(arg, interfaces, state, "--mr-interface");
		break;
	case KEY_CACHE:
		parse_cache(o, arg, state);
		break;
	case KEY_REGISTER:
		o->coll.registering =
			(enum coll_registering)pick_word(arg, registering, state, "--register");
		break;
	case KEY_TABLE:
		o->registration_table = true;
		break;
	case KEY_ALGORITHM:
		if (coll_algorithm_parse(arg, &o->coll.algorithm))
			argp_error(state, "--algorithm: '%s' is unknown", arg);
		break;
	case KEY_CHUNK:
		o->coll.chunk_bytes = parse_size(arg, state, "--chunk");
		break;
	case KEY_WINDOW:
		o->coll.window = parse_int(arg, 2, COLL_WINDOW_MAX, state, "--window");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_ranks(int key, char *arg, struct argp_state *state)
{
	static const char *const binding[] = {"none", "core", NULL};
	static const char *const formats[] = {"text", "csv", "json", NULL};
	struct perf_options *o = state->input;

	switch (key) {
	case KEY_NP:
	case 'g':
		o->np = parse_int(arg, 1, 4096, state, key == 'g' ? "--ngpus" : "--np");
		break;
	case KEY_BIND:
		o->bind = pick_word(arg, binding, state, "--bind");
		break;
	case KEY_PORT:
		o->port = parse_int(arg, 1, 65535, state, "--port");
		break;
	case KEY_TIMEOUT:
		o->timeout_s = parse_seconds(arg, state);
		break;
	case KEY_FORMAT:
		o->format = (enum perf_format)pick_word(arg, formats, state, "--format");
		break;
	case 'O':
		o->output = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void check_all(struct perf_options *o, struct argp_state *state)
{
	if (!o->collectives)
		o->collectives = 1u << PERF_ALL_REDUCE;
	if (o->max_bytes < o->min_bytes)
		argp_error(state, "--minbytes %zu is more than --maxbytes %zu", o->min_bytes,
			   o->max_bytes);
	if (o->step_factor <= 1 && !o->step_bytes && o->max_bytes > o->min_bytes)
		argp_error(state,
			   "the size would never grow: --stepfactor of 2 or more, or --stepbytes");
	if (o->step_factor > 1 && !o->min_bytes && o->max_bytes)
		argp_error(state, "a size of 0 does not grow by a factor: use --stepbytes");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct perf_options *o = state->input;
	error_t rc;

	if (key == ARGP_KEY_ARG) {
		o->collectives |=
			parse_list(arg, PERF_COLLECTIVE_MAX, take_collective, state, "COLLECTIVE");
		return 0;
	}
	if (key == ARGP_KEY_END) {
		check_all(o, state);
		return 0;
	}
	rc = parse_measure(key, arg, state);
	if (rc == ARGP_ERR_UNKNOWN)
		rc = parse_network(key, arg, state);
	return rc == ARGP_ERR_UNKNOWN ? parse_ranks(key, arg, state) : rc;
}

void perf_options_parse(struct perf_options *o, int argc, char **argv)
{
	static const struct argp argp = {options, parse, "[COLLECTIVE...]", doc, NULL, NULL, NULL};

	*o = (struct perf_options){
		.types = 1u << COLL_FLOAT32,
		.ops = 1u << COLL_SUM,
		.min_bytes = 1u << 10,
		.max_bytes = 32u << 20,
		.step_factor = 2,
		.iters = 20,
		.warmup_iters = 5,
		.checks = 1,
		.rounds = 1,
		.average = PERF_AVERAGE,
		.bind = true,
		.timeout_s = 60,
		.device = -1,
		.layers = 12,
		.hidden = 768,
		.coll = coll_config_default(),
	};
	argp_parse(&argp, argc, argv, 0, NULL, o);
}
