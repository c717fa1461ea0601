/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hooked libfabric call costs over the inline one, beside two reads of the processor's counter.
 *
 *     bench_ofi [BUILD_DIR]
 *
 * On a fabric whose operations are over at once (null_fabric.c). Bare objects are opened first, then
 * libwaylay.so is given the fabric as libfabric gives it to a hook provider, and the same objects are opened
 * again. Bare and hooked calls alternate in rounds, with a pause in between in which the housekeeping thread
 * makes the next pages of the recording ready; the median round is shown.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#define ROUNDS   21
#define CALLS    2003
#define WARM     101    /* of them before, so that code and data are where a busy job has them */
#define PAUSE_US 110000 /* longer than the pace of the housekeeping thread */

struct objects {
	struct fid_ep *ep;
	struct fid_cq *empty, *full;
};

static char buffer[64];
static volatile ssize_t sink;

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

#define ROUND(name, statement)                                                                     \
	static double name(const struct objects *o)                                                \
	{                                                                                          \
		struct fi_cq_tagged_entry entry;                                                   \
		double begin;                                                                      \
                                                                                                   \
		(void)o, (void)entry;                                                              \
		for (int i = 0; i < WARM; i++)                                                     \
			statement;                                                                 \
		begin = now_ns();                                                                  \
		for (int i = 0; i < CALLS; i++)                                                    \
			statement;                                                                 \
		return (now_ns() - begin) / CALLS;                                                 \
	}
ROUND(tsend, sink = fi_tsend(o->ep, buffer, sizeof(buffer), NULL, 1, (uint64_t)i, buffer))
ROUND(trecv, sink = fi_trecv(o->ep, buffer, sizeof(buffer), NULL, 1, (uint64_t)i, 0, buffer))
ROUND(poll_empty, sink = fi_cq_read(o->empty, &entry, 1))
ROUND(poll_full, sink = fi_cq_read(o->full, &entry, 1))
#if defined(__x86_64__)
ROUND(clock_twice, sink = (ssize_t)(__rdtsc() + __rdtsc()))
#else
ROUND(clock_twice, sink = (ssize_t)(now_ns() + now_ns()))
#endif

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

static const struct {
	const char *name;
	double (*round)(const struct objects *o);
	double limit_ns; /* what it may cost more; 0: shown alone */
} rows[] = {{"fi_tsend", tsend, 30},
	    {"fi_trecv", trecv, 30},
	    {"fi_cq_read, one entry", poll_full, 30},
	    {"fi_cq_read, empty", poll_empty, 12}};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static struct objects objects_open(struct fid_fabric *fabric)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_domain *domain;
	struct objects o;

	if (fi_domain(fabric, NULL, &domain, NULL) || fi_endpoint(domain, NULL, &o.ep, NULL) ||
	    fi_cq_open(domain, &attr, &o.empty, NULL) || fi_cq_open(domain, &attr, &o.full, buffer))
		exit(1);
	return o;
}

/* As libfabric does with a hook provider. */
static struct objects objects_hooked(const char *build, struct fid_fabric *fabric)
{
	char path[PATH_MAX + 32];
	struct fi_provider *(*ini)(void), *provider;
	struct fi_fabric_attr attr = {.fabric = fabric};
	struct fid_fabric *hooked = NULL;
	void *library;

	(void)snprintf(path, sizeof(path), "%s/libwaylay.so", build);
	library = dlopen(path, RTLD_NOW);
	if (!library) {
		(void)fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&ini = dlsym(library, "fi_prov_ini");
	provider = ini ? ini() : NULL;
	if (!provider || provider->fabric(&attr, &hooked, NULL) || hooked != fabric)
		exit(1);
	return objects_open(hooked);
}

static void measure(const struct objects *bare, const struct objects *hooked)
{
	static double values[ROWS][2][ROUNDS], clock[ROUNDS];
	int missed = 0;

	for (int r = 0; r < ROUNDS; r++) {
		for (size_t i = 0; i < ROWS; i++) {
			(void)usleep(PAUSE_US);
			values[i][0][r] = rows[i].round(bare);
			values[i][1][r] = rows[i].round(hooked);
		}
		clock[r] = clock_twice(bare);
	}
	(void)printf("%-28s %8s %8s %8s %8s\n", "ns a call", "bare", "hooked", "more", "limit");
	for (size_t i = 0; i < ROWS; i++) {
		double a = median(values[i][0]), b = median(values[i][1]);

		missed += b - a > rows[i].limit_ns;
		(void)printf("%-28s %8.1f %8.1f %8.1f %8.0f%s\n", rows[i].name, a, b, b - a,
			     rows[i].limit_ns, b - a > rows[i].limit_ns ? "  exceeded" : "");
	}
	(void)printf("%-28s %8.1f\n", "two reads of the counter", median(clock));
	(void)printf("%d of %zu beyond its limit\n", missed, ROWS);
}

int main(int argc, char **argv)
{
	char own[PATH_MAX] = "", build[PATH_MAX], null[PATH_MAX + 32],
	     directory[] = "/tmp/bench_ofi.XXXXXX";
	struct objects bare, hooked;
	struct fid_fabric *fabric;
	void *library;

	if (readlink("/proc/self/exe", own, sizeof(own) - 1) < 0)
		return 1;
	(void)snprintf(build, sizeof(build), "%s", argc > 1 ? argv[1] : dirname(dirname(own)));
	(void)snprintf(null, sizeof(null), "%s/tests/provider/null-fi.so", build);
	library = dlopen(null, RTLD_NOW);
	fabric = library ? dlsym(library, "null_fabric") : NULL;
	if (!fabric || !mkdtemp(directory)) {
		(void)fprintf(stderr, "bench_ofi: %s\n", fabric ? directory : dlerror());
		return 1;
	}
	bare = objects_open(fabric);
	(void)setenv("WAYLAY_DIR", directory, 1);
	hooked = objects_hooked(build, fabric);
	measure(&bare, &hooked);
	(void)snprintf(null, sizeof(null), "rm -rf %s", directory);
	return system(null) != 0;
}
