/* SPDX-License-Identifier: Apache-2.0 */
/* waylay-sampler-perf: times the balanced sampler in its variants, checks it against the oracle,
 * tests that it is uniform. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "kernels/cuda.h"
#include "kernels/image.h"
#include "kernels/nvtx/nvtx.h"
#include "kernels/perf_args.h"
#include "kernels/perf_data.h"
#include "kernels/sampler.h"
#include "kernels/sampler_stats.h"

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

struct options {
	struct sampler_config config;
	double positive, ignored;
	uint32_t dim, element_bytes;
	uint32_t ratio[2];
	uint32_t variants; /* bit mask */
	uint32_t calls, warmup;
	uint64_t stats; /* draws; 0: timing */
	enum cuda_backend backend;
	int device, check, k_given;
	enum format format;
};

enum {
	KEY_RATIO = 256,
	KEY_SHORT,
	KEY_BACKEND,
	KEY_DEVICE,
	KEY_CHECK,
	KEY_STATS,
	KEY_CSV,
	KEY_JSON,
	KEY_POS,
	KEY_IGNORED,
	KEY_WINDOW,
	KEY_BLOCKS,
	KEY_THREADS,
	KEY_STAGGER
};

static const struct argp_option option_list[] = {
	{"n", 'n', "N", 0, "items a sample; 1e5 is a number too (10000)", 1},
	{"batch", 'b', "B", 0, "samples a call (1)", 1},
	{"k", 'k', "K", 0, "items to draw of each sample (n / 10)", 1},
	{"dim", 'd', "D", 0, "features an item (16)", 1},
	{"dtype", 't', "TYPE", 0, "features: f32, f16, bf16 (f32)", 1},
	{"label-type", 'l', "TYPE", 0, "labels: i64, i32, u8 (i64)", 1},
	{"positives", KEY_POS, "SHARE", 0, "share of positive items (0.5)", 1},
	{"ignored", KEY_IGNORED, "SHARE", 0, "share of items that are neither (0)", 1},
	{"ratio", KEY_RATIO, "P:N", 0, "positives to negatives drawn (1:1)", 1},
	{"short", KEY_SHORT, NULL, 0, "positives fill no slots of negatives", 1},
	{"seed", 's', "S", 0, "of inputs and draws (1)", 1},
	{"variant", 'v', "NAME", 0, "naive, static, graph, fused or all (all)", 2},
	{"calls", 'c', "N", 0, "timed calls of each (50)", 2},
	{"warmup", 'w', "N", 0, "calls before these (5)", 2},
	{"backend", KEY_BACKEND, "NAME", 0, "auto, cuda or cpu (auto)", 2},
	{"device", KEY_DEVICE, "N", 0, "CUDA device (0)", 2},
	{"blocks", KEY_BLOCKS, "N", OPTION_HIDDEN, "fused: blocks a sample (chosen)", 2},
	{"threads", KEY_THREADS, "N", OPTION_HIDDEN, "fused: threads a block (chosen)", 2},
	{"stagger", KEY_STAGGER, "NS", OPTION_HIDDEN, "fused: between samples (chosen)", 2},
	{"window", KEY_WINDOW, "W", OPTION_HIDDEN, "fused: search window in deviations (5)", 2},
	{"check", KEY_CHECK, NULL, 0, "compare first and last call with the oracle", 3},
	{"stats", KEY_STATS, "DRAWS", OPTION_ARG_OPTIONAL, "test uniformity (200000 draws)", 3},
	{"csv", KEY_CSV, NULL, 0, "print CSV", 3},
	{"json", KEY_JSON, NULL, 0, "print JSON", 3},
	{0},
};

const char *argp_program_version = "waylay-sampler-perf " WAYLAY_VERSION;

static double parse_share(struct argp_state *state, const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= 0 && v <= 1))
		argp_error(state, "'%s' is not a share from 0 to 1", arg);
	return v;
}

static void parse_ratio(struct argp_state *state, const char *arg, uint32_t *ratio)
{
	char rest;

	if (sscanf(arg, "%u:%u%c", &ratio[0], &ratio[1], &rest) != 2 || ratio[0] > 1000000 ||
	    ratio[1] > 1000000 || ratio[0] + ratio[1] == 0)
		argp_error(state, "'%s' is not a ratio such as 1:3", arg);
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'c':
		o->calls = (uint32_t)perf_parse_count(state, arg, 1, 1e6);
		return 0;
	case 'w':
		o->warmup = (uint32_t)perf_parse_count(state, arg, 0, 1e6);
		return 0;
	case 'v':
		o->variants = !strcmp(arg, "all")
				      ? (1u << SAMPLER_VARIANT_MAX) - 1
				      : 1u << perf_parse_name(state, arg, sampler_variant_names,
							      SAMPLER_VARIANT_MAX);
		return 0;
	case KEY_BACKEND:
		if (cuda_backend_parse(arg, &o->backend))
			argp_error(state, "'%s' is no back end: auto, cuda or cpu", arg);
		return 0;
	case KEY_DEVICE:
		o->device = (int)perf_parse_count(state, arg, 0, 1023);
		return 0;
	case KEY_BLOCKS:
		o->config.blocks = (uint32_t)perf_parse_count(state, arg, 1, 1024);
		return 0;
	case KEY_THREADS:
		o->config.threads = (uint32_t)perf_parse_count(state, arg, 64, 1024);
		if (o->config.threads & (o->config.threads - 1))
			argp_error(state, "'%s' is not a power of two", arg);
		return 0;
	case KEY_STAGGER:
		o->config.stagger_ns = atoi(arg);
		return 0;
	case KEY_WINDOW:
		o->config.window = (float)atof(arg);
		return 0;
	case KEY_CHECK:
		o->check = 1;
		return 0;
	case KEY_STATS:
		o->stats = arg ? perf_parse_count(state, arg, 1000, 1e9) : 200000;
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
	static const char *const dtypes[] = {"f32", "f16", "bf16"}, *const labels[] = {"i64", "i32",
										       "u8"};
	struct options *o = state->input;

	switch (key) {
	case 'n':
		o->config.n = (uint32_t)perf_parse_count(state, arg, 0, 2e9);
		return 0;
	case 'b':
		o->config.batch = (uint32_t)perf_parse_count(state, arg, 1, 65535);
		return 0;
	case 'k':
		o->config.k = (uint32_t)perf_parse_count(state, arg, 0, 2e9);
		o->k_given = 1;
		return 0;
	case 'd':
		o->dim = (uint32_t)perf_parse_count(state, arg, 0, 1e6);
		return 0;
	case 't':
		o->element_bytes = perf_parse_name(state, arg, dtypes, 3) ? 2 : 4;
		return 0;
	case 'l':
		o->config.label = (enum sampler_label)perf_parse_name(state, arg, labels, 3);
		return 0;
	case 's':
		o->config.seed = strtoull(arg, NULL, 0);
		return 0;
	case KEY_POS:
		o->positive = parse_share(state, arg);
		return 0;
	case KEY_IGNORED:
		o->ignored = parse_share(state, arg);
		return 0;
	case KEY_RATIO:
		parse_ratio(state, arg, o->ratio);
		return 0;
	case KEY_SHORT:
		o->config.short_pos = 1;
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
	"Times the balanced sampler on a CUDA device, or on the CPU."
	"\vTimes are medians between device events, the floor is the bytes that must move over the copy "
	"rate of the same run. Each call is an NVTX range sampler-VARIANT. Exit status: 1 for a result "
	"that is wrong or not uniform, 2 when something could not be done, 64 for a wrong option.",
	NULL,
	NULL,
	NULL,
};

/* --- one variant --------------------------------------------------------------------------------
 */

struct result {
	double device_us; /* median between events, or of host time on the CPU back end */
	double host_us;   /* median time that the call held the host */
	uint64_t drawn, bytes;
	const char *check;
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int complain(const char *text)
{
	fprintf(stderr, "waylay-sampler-perf: %s\n", text);
	return 2;
}

/* One call, in its range. */
static int call_once(struct sampler *sampler, const struct options *o, const struct sampler_io *io)
{
	static const char *const ranges[SAMPLER_VARIANT_MAX] = {"sampler-naive", "sampler-static",
								"sampler-graph", "sampler-fused"};
	int err;

	nvtx_push(ranges[o->config.variant]);
	err = sampler_run(sampler, io);
	nvtx_pop();
	return err ? complain(sampler_error(sampler)) : 0;
}

/* Gaps between the events around back-to-back calls. */
static int time_device(struct cuda *cuda, struct sampler *sampler, const struct options *o,
		       const struct sampler_io *io, double *device, double *host)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers it is */
	struct CUevent_st **events = calloc(o->calls + 1, sizeof(*events));
	int err = events ? 0 : complain("out of memory for events");

	for (uint32_t i = 0; i <= o->calls && !err; i++)
		if (cuda_check(cuda, cuda->api.event_create(&events[i], 0), "creating an event"))
			err = complain(cuda->error);
	for (uint32_t i = 0; i <= o->calls && !err; i++) {
		double begin;

		if (cuda_check(cuda, cuda->api.event_record(events[i], cuda->stream),
			       "recording an event"))
			err = complain(cuda->error);
		if (err || i == o->calls)
			break;
		begin = now_us();
		err = call_once(sampler, o, io);
		host[i] = now_us() - begin;
	}
	if (!err && cuda_wait(cuda))
		err = complain(cuda->error);
	for (uint32_t i = 0; i < o->calls && !err; i++) {
		float ms = 0;

		if (cuda_check(cuda, cuda->api.event_elapsed(&ms, events[i], events[i + 1]),
			       "reading event times"))
			err = complain(cuda->error);
		device[i] = (double)ms * 1e3;
	}
	for (uint32_t i = 0; events && i <= o->calls; i++)
		if (events[i])
			cuda->api.event_destroy(events[i]);
	free(events);
	return err;
}

static int time_calls(struct cuda *cuda, struct sampler *sampler, const struct options *o,
		      const struct sampler_io *io, struct result *r)
{
	double *device = calloc(o->calls, sizeof(*device)), *host = calloc(o->calls, sizeof(*host));
	int err = device && host ? 0 : complain("out of memory for times");

	if (!err && cuda)
		err = time_device(cuda, sampler, o, io, device, host);
	for (uint32_t i = 0; !cuda && i < o->calls && !err; i++) {
		double begin = now_us();

		err = call_once(sampler, o, io);
		device[i] = host[i] = now_us() - begin;
	}
	if (!err) {
		r->device_us = median(device, o->calls);
		r->host_us = median(host, o->calls);
	}
	free(device);
	free(host);
	return err;
}

static int check_call(struct perf_data *data, struct sampler *sampler, struct result *r)
{
	int err = perf_data_check(data, sampler_calls(sampler) - 1, &r->drawn);

	if (err > 0)
		r->check = "WRONG";
	return err ? complain(data->error) - (err > 0) : 0;
}

/* Warm-up, check of the first call, timed calls, check of the last. 0, 1 for a wrong result, 2 for
 * a failure. */
static int measure(struct cuda *cuda, const struct options *o, struct perf_data *data,
		   struct result *r)
{
	struct sampler *sampler = NULL;
	int err = sampler_open(cuda, &o->config, &sampler);

	if (err) {
		err = complain(sampler ? sampler_error(sampler) : "out of memory");
	} else {
		r->check = o->check ? "ok" : "-";
		for (uint32_t i = 0; i < o->warmup && !err; i++) {
			err = call_once(sampler, o, &data->io);
			if (!err && cuda && cuda_wait(cuda))
				err = complain(cuda->error);
			if (!err && !i && o->check)
				err = check_call(data, sampler, r);
		}
		err = err ? err : time_calls(cuda, sampler, o, &data->io, r);
		if (!err && o->check)
			err = check_call(data, sampler, r);
		else if (!err && perf_data_drawn(data, &r->drawn))
			err = complain(data->error);
		r->bytes = sampler_bytes(&o->config, r->drawn);
	}
	sampler_close(sampler);
	return err;
}

/* --- statistics ---------------------------------------------------------------------------------
 */

/* Takes one call's draws in. */
static int add_draws(struct perf_data *data, struct sampler_stats *stats, int64_t *idx,
		     int32_t *counts)
{
	uint64_t k = data->config.k;

	if (perf_data_read(data, idx, data->io.idx, data->config.batch * k * 8) ||
	    perf_data_read(data, counts, data->io.counts, data->config.batch * 8ull))
		return complain(data->error);
	for (uint32_t s = 0; s < data->config.batch; s++)
		if (sampler_stats_add(stats, idx + s * k, (uint32_t)counts[2 * s])) {
			complain(
				"a draw breaks the rule: an index twice or out of range, or a gap");
			return 1;
		}
	return 0;
}

static int draw_all(struct cuda *cuda, const struct options *o, struct perf_data *data,
		    struct sampler_stats *stats, uint32_t *positives)
{
	struct sampler *sampler = NULL;
	int64_t *idx = calloc((size_t)o->config.batch * o->config.k + 1, 8);
	int32_t *counts = calloc(o->config.batch, 8);
	int err = idx && counts ? 0 : complain("out of memory for draws");

	if (!err && sampler_open(cuda, &o->config, &sampler))
		err = complain(sampler ? sampler_error(sampler) : "out of memory");
	while (!err && stats->draws < o->stats) {
		err = call_once(sampler, o, &data->io);
		if (!err && cuda && cuda_wait(cuda))
			err = complain(cuda->error);
		err = err ? err : add_draws(data, stats, idx, counts);
	}
	*positives = counts ? (uint32_t)counts[1] : 0;
	sampler_close(sampler);
	free(idx);
	free(counts);
	return err;
}

static int print_chi2(const char *variant, const char *what, struct sampler_chi2 chi2)
{
	int off = chi2.share < 0.001 || chi2.share > 0.999;

	if (chi2.freedom <= 0 && chi2.value <= 0) {
		printf("%-8s %-22s nothing left to chance\n", variant, what);
		return 0;
	}
	printf("%-8s %-22s chi-square %10.1f  freedom %8.0f  larger than %6.2f %% of uniform samplers%s\n",
	       variant, what, chi2.value, chi2.freedom, chi2.share * 100,
	       off ? "  NOT UNIFORM" : "");
	return off;
}

static int statistics(struct cuda *cuda, const struct options *o, struct perf_data *data)
{
	const char *variant = sampler_variant_names[o->config.variant];
	struct sampler_stats stats;
	uint8_t *kinds = malloc(o->config.n + 1);
	uint32_t positives = 0;
	int err;

	if (!kinds || sampler_stats_open(o->config.n, o->config.k, &stats)) {
		free(kinds);
		return complain("statistics need items, and memory for them");
	}
	perf_data_kinds(data, 0, kinds);
	err = draw_all(cuda, o, data, &stats, &positives);
	if (!err) {
		printf("%-8s %llu draws of %u (%u positives) from %u items\n", variant,
		       (unsigned long long)stats.draws, stats.total, positives, o->config.n);
		err |= print_chi2(variant, "positives, inclusion",
				  sampler_stats_inclusion(&stats, kinds, 1, positives));
		err |= print_chi2(
			variant, "negatives, inclusion",
			sampler_stats_inclusion(&stats, kinds, 0, stats.total - positives));
		err |= print_chi2(variant, "rank x slot", sampler_stats_slots(&stats));
	}
	sampler_stats_close(&stats);
	free(kinds);
	return err;
}

/* --- output -------------------------------------------------------------------------------------
 */

static void print_head(const struct options *o, const struct cuda *cuda, double rate)
{
	if (o->format == FORMAT_CSV) {
		printf("variant,n,batch,k,row_bytes,label_bytes,seed,device_us,host_us,bytes,gb_per_s,floor_us,floor_share,"
		       "drawn,check\n");
		return;
	}
	if (o->format == FORMAT_JSON) {
		printf("[");
		return;
	}
	if (cuda)
		printf("# %s, %d multiprocessors, driver %d.%d, device code by %s", cuda->name,
		       cuda->sm_count, cuda->driver_version / 1000,
		       cuda->driver_version % 1000 / 10, kernels_image_maker);
	else
		printf("# CPU back end");
	if (rate > 0)
		printf(", copies run at %.0f GB/s", rate * 1e-9);
	printf("\n");
	printf("# n %u, batch %u, k %u (%u for positives), row %u bytes, label %u bytes, seed %llu; %u calls after %u\n",
	       o->config.n, o->config.batch, o->config.k, o->config.k_pos, o->config.row_bytes,
	       sampler_label_bytes(o->config.label), (unsigned long long)o->config.seed, o->calls,
	       o->warmup);
	printf("%-8s %12s %12s %12s %10s %12s %8s %10s %6s\n", "variant", "device us", "host us",
	       "MB", "GB/s", "floor us", "% floor", "drawn", "check");
}

static void print_result(const struct options *o, const struct result *r, double rate, int first)
{
	const char *variant = sampler_variant_names[o->config.variant];
	double floor_us = rate > 0 ? (double)r->bytes / rate * 1e6 : 0,
	       gb = (double)r->bytes / r->device_us * 1e-3;
	double share = floor_us / r->device_us;

	switch (o->format) {
	case FORMAT_CSV:
		printf("%s,%u,%u,%u,%u,%u,%llu,%.3f,%.3f,%llu,%.3f,%.3f,%.4f,%llu,%s\n", variant,
		       o->config.n, o->config.batch, o->config.k, o->config.row_bytes,
		       sampler_label_bytes(o->config.label), (unsigned long long)o->config.seed,
		       r->device_us, r->host_us, (unsigned long long)r->bytes, gb, floor_us, share,
		       (unsigned long long)r->drawn, r->check);
		break;
	case FORMAT_JSON:
		printf("%s\n {\"variant\": \"%s\", \"n\": %u, \"batch\": %u, \"k\": %u, \"row_bytes\": %u, \"label_bytes\": %u, "
		       "\"seed\": %llu, \"device_us\": %.3f, \"host_us\": %.3f, \"bytes\": %llu, \"gb_per_s\": %.3f, "
		       "\"floor_us\": %.3f, \"floor_share\": %.4f, \"drawn\": %llu, \"check\": \"%s\"}",
		       first ? "" : ",", variant, o->config.n, o->config.batch, o->config.k,
		       o->config.row_bytes, sampler_label_bytes(o->config.label),
		       (unsigned long long)o->config.seed, r->device_us, r->host_us,
		       (unsigned long long)r->bytes, gb, floor_us, share,
		       (unsigned long long)r->drawn, r->check);
		break;
	default:
		printf("%-8s %12.2f %12.2f %12.3f %10.1f", variant, r->device_us, r->host_us,
		       (double)r->bytes * 1e-6, gb);
		if (rate > 0)
			printf(" %12.2f %8.1f", floor_us, share * 100);
		else
			printf(" %12s %8s", "-", "-");
		printf(" %10llu %6s\n", (unsigned long long)r->drawn, r->check);
	}
	fflush(stdout);
}

static int run_variants(struct cuda *cuda, struct options *o)
{
	struct perf_data data = {.cuda = cuda,
				 .config = o->config,
				 .positive = o->positive,
				 .ignored = o->ignored,
				 .same = o->stats > 0};
	double rate = 0;
	int err = perf_data_open(&data) ? complain(data.error) : 0, worst = 0, first = 1;

	if (!err && cuda && !o->stats && cuda_copy_rate(cuda, &rate))
		err = complain(cuda->error);
	if (!err && !o->stats)
		print_head(o, cuda, rate);
	for (unsigned v = 0; v < SAMPLER_VARIANT_MAX && !err; v++) {
		struct result r = {.check = "-"};
		int status;

		if (!(o->variants >> v & 1))
			continue;
		o->config.variant = (enum sampler_variant)v;
		status = o->stats ? statistics(cuda, o, &data) : measure(cuda, o, &data, &r);
		if (!o->stats && (!status || r.check[0] == 'W'))
			print_result(o, &r, rate, first);
		first = 0;
		if (status > 1)
			err = status;
		worst = status > worst ? status : worst;
	}
	if (o->format == FORMAT_JSON && !o->stats && !err)
		printf("\n]\n");
	perf_data_close(&data);
	return err ? err : worst;
}

int main(int argc, char **argv)
{
	struct options o = {
		.config = {.n = 10000, .batch = 1, .seed = 1},
		.positive = 0.5,
		.dim = 16,
		.element_bytes = 4,
		.ratio = {1, 1},
		.variants = (1u << SAMPLER_VARIANT_MAX) - 1,
		.calls = 50,
		.warmup = 5,
	};
	struct cuda *cuda = NULL;
	int err;

	argp_err_exit_status = EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (!o.k_given)
		o.config.k = o.config.n / 10;
	o.config.k_pos =
		(uint32_t)((uint64_t)o.config.k * o.ratio[0] / ((uint64_t)o.ratio[0] + o.ratio[1]));
	o.config.row_bytes = o.dim * o.element_bytes;
	if (o.backend != CUDA_BACKEND_CPU) {
		err = cuda_open(o.device, &cuda);
		if (err && (o.backend == CUDA_BACKEND_CUDA || !cuda)) {
			complain(cuda ? cuda->error : "out of memory");
			if (cuda)
				fprintf(stderr,
					"waylay-sampler-perf: --backend cpu needs no driver\n");
			cuda_close(cuda);
			return 2;
		}
		if (err) { /* auto: the CPU back end, and why */
			fprintf(stderr,
				"waylay-sampler-perf: no CUDA device (%s); running on the CPU\n",
				cuda->error);
			cuda_close(cuda);
			cuda = NULL;
		}
	}
	err = run_variants(cuda, &o);
	cuda_close(cuda);
	return err;
}
