/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waylay-coll-perf: measures the collectives of this folder.
 *
 * It is a plain client of libfabric that knows nothing of any tracer; NVTX ranges, which any tool
 * sees, are its only instrumentation.
 */
#include "collectives/perf/perf.h"
#include "kernels/nvtx/nvtx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_FAILED 1
#define GRACE_NS      5000000000

static void push_range(const char *name)
{
	nvtx_push(name);
}

static void pop_range(void)
{
	nvtx_pop();
}

static int list_providers(void)
{
	struct tp_config config = {.one_host = true, .bind_address = "127.0.0.1"};
	char error[TP_ERROR_BYTES];
	char *list;

	if (tp_list_ofi(&config, &list, error)) {
		fprintf(stderr, PERF_NAME ": %s\n", error);
		return STATUS_FAILED;
	}
	fputs(list, stdout);
	free(list);
	return 0;
}

static int start_ranks(const struct perf_options *o, char **argv)
{
	char error[LAUNCH_ERROR_BYTES] = "";
	int status = launch_spawn(o->np ? o->np : 2, argv, o->bind, GRACE_NS, error);

	if (error[0])
		fprintf(stderr, PERF_NAME ": %s\n", error);
	return status;
}

static int measure_all(const struct perf_options *o, struct world *w, struct perf_output *out,
		       const struct launch *launch, struct perf_summary *sum)
{
	int rc;

	if (w->rank == 0) {
		rc = output_open(out, o);
		if (rc) {
			snprintf(w->error, sizeof(w->error), "cannot write %s: %s", o->output,
				 strerror(-rc));
			return rc;
		}
	}
	output_head(out, o, w, launch);
	rc = o->workload ? perf_run_workload(o, w, out, sum) : perf_run(o, w, out, sum);
	if (!rc && o->registration_table)
		rc = perf_registration_table(o, w, out);
	if (!rc)
		rc = world_leave(w);
	return rc;
}

/* On a thread of the guard's: the rank's own is caught in a call of the provider. */
static void end_stuck(void *arg)
{
	const struct world *w = arg;

	fprintf(stderr,
		PERF_NAME ": rank %d: another rank ended before the others, and %s waits for it "
			  "inside a call\n",
		w->rank, w->tp->provider);
	_exit(STATUS_FAILED);
}

static int run_rank(const struct perf_options *o, const struct launch *launch)
{
	struct world_config config = {.provider = o->provider,
				      .timeout_ns = (int64_t)(o->timeout_s * 1e9),
				      .coll = o->coll};
	struct staged_config staged = {.range_push = push_range, .range_pop = pop_range};
	struct perf_output out = {0};
	struct perf_summary sum = {0};
	char error[DEVICE_ERROR_BYTES];
	struct coll_device *device;
	struct world w;
	int rc;

	config.stuck = end_stuck;
	config.coll.range_push = push_range;
	config.coll.range_pop = pop_range;
	rc = perf_open_device(o, launch->rank, &device, &staged, &config.coll, launch->size, error);
	if (rc) {
		fprintf(stderr, PERF_NAME ": rank %d: %s (--path host needs no device)\n",
			launch->rank, error);
		return STATUS_FAILED;
	}
	config.coll.device = device;
	if (o->path == PERF_STAGED || o->path == PERF_STAGED_NAIVE)
		config.staged = &staged;
	rc = world_open(&w, launch, &config);
	if (!rc && o->root >= w.size) {
		snprintf(w.error, sizeof(w.error), "--root %d: there are %d ranks", o->root,
			 w.size);
		w.quiet = w.rank != 0;
		rc = -EINVAL;
	}
	if (!rc)
		rc = measure_all(o, &w, &out, launch, &sum);
	if (rc) {
		world_abort(&w, rc);
		if (!w.quiet)
			fprintf(stderr, PERF_NAME ": rank %d: %s\n", launch->rank, w.error);
	} else {
		output_tail(&out, &sum, &w);
	}
	if (output_close(&out)) {
		fprintf(stderr, PERF_NAME ": cannot write %s\n",
			o->output ? o->output : "standard output");
		rc = -EIO;
	}
	world_close(&w);
	device_close(device);
	return rc || sum.wrong ? STATUS_FAILED : 0;
}

int main(int argc, char **argv)
{
	char error[LAUNCH_ERROR_BYTES];
	struct perf_options o;
	struct launch launch;
	int rc;

	perf_options_parse(&o, argc, argv);
	if (o.list_providers)
		return list_providers();
	if (o.scaling && !launch_is_child())
		return perf_scaling(&o, argc, argv);
	if (o.np && !launch_is_child())
		return start_ranks(&o, argv);
	rc = launch_from_environment(&launch, o.port, error);
	if (rc == -ENOENT)
		return start_ranks(&o, argv);
	if (rc) {
		fprintf(stderr, PERF_NAME ": %s\n", error);
		return STATUS_FAILED;
	}
	return run_rank(&o, &launch);
}
