/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scaling study: this program again with 2, 4, ... ranks, and for each size in words what the
 * time goes to: the wire, reductions, copies between device and host, registrations, or what a call
 * costs however little it moves. The last is what the smallest size takes.
 */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_NS  5000000000
#define ROWS_MAX  4096
#define FIELD_MAX 64

struct row {
	char collective[24], type[16];
	int ranks;
	size_t bytes;
	double time_us, busbw, registration_us, copy_us, reduce_us;
};

struct study {
	const struct perf_options *o;
	struct row rows[ROWS_MAX];
	int n;
	char provider[96];
};

/* --- running and reading -------------------------------------------------------------------- */

/* Splits a line of CSV in place; none of the fields is quoted. */
static int split_fields(char *line, char *field[FIELD_MAX])
{
	int n = 0;

	line[strcspn(line, "\n")] = 0;
	for (char *at = line; at && n < FIELD_MAX; n++) {
		field[n] = at;
		at = strchr(at, ',');
		if (at)
			*at++ = 0;
	}
	return n;
}

static const char *field_of(char *const names[], int n, char *const field[], const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return field[i];
	return "";
}

static void read_row(struct study *s, char *const names[], int n, char *const field[])
{
	struct row *r = &s->rows[s->n];
#define NUMBER(name) strtod(field_of(names, n, field, name), NULL)

	if (s->n == ROWS_MAX)
		return;
	snprintf(r->collective, sizeof(r->collective), "%s",
		 field_of(names, n, field, "collective"));
	snprintf(r->type, sizeof(r->type), "%s", field_of(names, n, field, "type"));
	snprintf(s->provider, sizeof(s->provider), "%s", field_of(names, n, field, "provider"));
	r->ranks = (int)NUMBER("ranks");
	r->bytes = (size_t)NUMBER("size_bytes");
	r->time_us = NUMBER("oop_time_us");
	r->busbw = NUMBER("oop_busbw_gbs");
	r->registration_us = NUMBER("oop_registration_us");
	r->copy_us = NUMBER("oop_copy_us");
	r->reduce_us = NUMBER("oop_reduce_us");
	s->n++;
#undef NUMBER
}

static int read_csv(struct study *s, FILE *f)
{
	char head[2048], line[2048], *names[FIELD_MAX], *field[FIELD_MAX];
	int n;

	if (!fgets(head, sizeof(head), f))
		return -ENODATA;
	n = split_fields(head, names);
	while (fgets(line, sizeof(line), f) && line[0] != '\n') {
		if (split_fields(line, field) == n)
			read_row(s, names, n, field);
	}
	return 0;
}

/* One run with `ranks` ranks; the exit status. */
static int run_with(struct study *s, int ranks, int argc, char **argv)
{
	char **args = calloc((size_t)argc + 5, sizeof(*args));
	char np[16], file[] = "/tmp/waylay-scaling-XXXXXX", error[LAUNCH_ERROR_BYTES] = "";
	int fd = mkstemp(file), status = 1;
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (args && f) {
		snprintf(np, sizeof(np), "--np=%d", ranks);
		memcpy(args, argv, (size_t)argc * sizeof(*args));
		args[argc] = np;
		args[argc + 1] = (char *)"--format=csv";
		args[argc + 2] = (char *)"-O";
		args[argc + 3] = file;
		fprintf(stderr, PERF_NAME ": %d ranks ...\n", ranks);
		status = launch_spawn(ranks, args, s->o->bind, GRACE_NS, error);
	}
	if (!status)
		status = read_csv(s, f) ? 1 : 0;
	if (error[0] || !f)
		fprintf(stderr, PERF_NAME ": %s\n", error[0] ? error : "no temporary file");
	if (f)
		fclose(f);
	if (fd >= 0)
		unlink(file);
	free(args);
	return status;
}

/* --- the verdict ---------------------------------------------------------------------------- */

enum share { SHARE_WIRE, SHARE_REDUCE, SHARE_COPY, SHARE_REGISTER, SHARE_LATENCY, SHARE_MAX };

static const char *const limits[SHARE_MAX] = {
	"the wire",     "reducing", "the data path (copies between device and host)",
	"registration", "latency",
};

static const struct row *find_row(const struct study *s, const struct row *like, int ranks,
				  size_t bytes)
{
	for (int i = 0; i < s->n; i++) {
		const struct row *r = &s->rows[i];

		if (r->ranks == ranks && r->bytes == bytes &&
		    strcmp(r->collective, like->collective) == 0 &&
		    strcmp(r->type, like->type) == 0)
			return r;
	}
	return NULL;
}

static const struct row *smallest(const struct study *s, const struct row *like)
{
	const struct row *best = like;

	for (int i = 0; i < s->n; i++) {
		const struct row *r = &s->rows[i];

		if (r->ranks == like->ranks && r->bytes && r->bytes < best->bytes &&
		    strcmp(r->collective, like->collective) == 0 &&
		    strcmp(r->type, like->type) == 0)
			best = r;
	}
	return best;
}

/* Parts of the time, which add up to 1; what else is not accounted for is the wire's. */
static enum share shares_of(const struct study *s, const struct row *r, double share[SHARE_MAX])
{
	const struct row *least = smallest(s, r);
	enum share most = SHARE_WIRE;
	double t = r->time_us > 0 ? r->time_us : 1, sum = 0;

	share[SHARE_REDUCE] = r->reduce_us / t;
	share[SHARE_COPY] = r->copy_us / t;
	share[SHARE_REGISTER] = r->registration_us / t;
	/* Of the smallest call, only what is not counted already. */
	share[SHARE_LATENCY] =
		(least->time_us - least->reduce_us - least->copy_us - least->registration_us) / t;
	for (int i = SHARE_REDUCE; i < SHARE_MAX; i++) {
		if (share[i] < 0)
			share[i] = 0;
		if (sum + share[i] > 1) /* threads of one CPU are held at each other's expense */
			share[i] = 1 - sum;
		sum += share[i];
	}
	share[SHARE_WIRE] = 1 - sum;
	for (int i = 1; i < SHARE_MAX; i++)
		if (share[i] > share[most])
			most = (enum share)i;
	return most;
}

static void size_words(size_t bytes, char *text, size_t room)
{
	if (bytes >= 1u << 20)
		snprintf(text, room, "%.4g MiB", (double)bytes / (1u << 20));
	else if (bytes >= 1024)
		snprintf(text, room, "%.4g KiB", (double)bytes / 1024);
	else
		snprintf(text, room, "%zu B", bytes);
}

static void text_row(FILE *f, const struct study *s, const struct row *r, int *widest)
{
	const struct row *pair = find_row(s, r, 2, r->bytes);
	double share[SHARE_MAX];
	enum share most = shares_of(s, r, share);
	char size[32];

	size_words(r->bytes, size, sizeof(size));
	fprintf(f,
		"%-14s %10s %6d %12.2f %8.3f %7.0f %%   %s: wire %.0f %%, reducing %.0f %%, "
		"copying %.0f %%, registering %.0f %%, latency %.0f %%\n",
		r->collective, size, r->ranks, r->time_us, r->busbw,
		pair && pair->busbw > 0 ? r->busbw / pair->busbw * 100 : 100.0, limits[most],
		share[SHARE_WIRE] * 100, share[SHARE_REDUCE] * 100, share[SHARE_COPY] * 100,
		share[SHARE_REGISTER] * 100, share[SHARE_LATENCY] * 100);
	if (r->ranks > *widest)
		*widest = r->ranks;
}

static void text_study(FILE *f, const struct study *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int widest = 0;

	fprintf(f, "# scaling over %s, path %s (busbw of 2 ranks is 100 %%)\n", s->provider,
		perf_path_name(s->o->path));
	fprintf(f, "# %-12s %10s %6s %12s %8s %9s   %s\n", "collective", "size", "ranks",
		"time (us)", "busbw", "of pair", "what limits it, and where the time goes");
	for (int i = 0; i < s->n; i++)
		text_row(f, s, &s->rows[i], &widest);
	if (widest > cpus)
		fprintf(f,
			"# From %ld ranks on they share %ld CPUs: what grows there is waiting for a "
			"CPU, and counts as the wire's or as latency.\n",
			cpus + 1, cpus);
	if (s->o->path == PERF_STAGED)
		fprintf(f, "# Copies run beside the network: their calls are counted, and what of "
			   "them is waited for is the wire's.\n");
}

static void data_study(FILE *f, const struct study *s, bool json)
{
	if (!json)
		fprintf(f, "collective,type,ranks,size_bytes,time_us,busbw_gbs,limit,wire,reducing,"
			   "copying,registering,latency\n");
	for (int i = 0; i < s->n; i++) {
		const struct row *r = &s->rows[i];
		double share[SHARE_MAX];
		enum share most = shares_of(s, r, share);

		fprintf(f,
			json ? "%s{\"collective\":\"%s\",\"type\":\"%s\",\"ranks\":%d,"
			       "\"size_bytes\":%zu,\"time_us\":%.3f,\"busbw_gbs\":%.6f,"
			       "\"limit\":\"%s\",\"wire\":%.4f,\"reducing\":%.4f,\"copying\":%.4f,"
			       "\"registering\":%.4f,\"latency\":%.4f}"
			     : "%s%s,%s,%d,%zu,%.3f,%.6f,%s,%.4f,%.4f,%.4f,%.4f,%.4f\n",
			!json ? ""
			: i   ? ",\n"
			      : "{\"scaling\":[\n",
			r->collective, r->type, r->ranks, r->bytes, r->time_us, r->busbw,
			limits[most], share[SHARE_WIRE], share[SHARE_REDUCE], share[SHARE_COPY],
			share[SHARE_REGISTER], share[SHARE_LATENCY]);
	}
	if (json)
		fprintf(f, "\n]}\n");
}

int perf_scaling(const struct perf_options *o, int argc, char **argv)
{
	struct study *s = calloc(1, sizeof(*s));
	int most = o->np > 2 ? o->np : 2, status = s ? 0 : 1;
	FILE *f = o->output ? fopen(o->output, "we") : stdout;

	if (!f)
		fprintf(stderr, PERF_NAME ": cannot write %s: %s\n", o->output, strerror(errno));
	if (s)
		s->o = o;
	for (int ranks = 2; !status && f; ranks = ranks * 2 < most ? ranks * 2 : most) {
		status = run_with(s, ranks, argc, argv);
		if (ranks >= most)
			break;
	}
	if (!status && f && o->format == PERF_TEXT)
		text_study(f, s);
	else if (!status && f)
		data_study(f, s, o->format == PERF_JSON);
	if (f && (fflush(f) || (f != stdout && fclose(f))))
		status = 1;
	free(s);
	return f ? status : 1;
}
