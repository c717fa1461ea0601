/* SPDX-License-Identifier: Apache-2.0 */
/* Medians of back-to-back calls. */
#include "kernels/perf_time.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/cuda.h"

double perf_now_us(void)
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

double perf_median_of(double *values, uint32_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int record(struct cuda *cuda, struct CUevent_st *event)
{
	return cuda ? cuda_check(cuda, cuda->api.event_record(event, cuda->stream),
				 "recording an event")
		    : 0;
}

/* Times of call c of a stage lie at [stage * calls + c]. */
static int run(struct cuda *cuda, int (*call)(void *arg, uint32_t stage), void *arg,
	       uint32_t stages, uint32_t calls, struct CUevent_st **events, double *device,
	       double *host)
{
	int err = record(cuda, events[0]);

	for (uint32_t i = 0; i < stages * calls && !err; i++) {
		uint32_t at = i % stages * calls + i / stages;
		double begin = perf_now_us();

		err = call(arg, i % stages);
		host[at] = device[at] = perf_now_us() - begin;
		err = err ? err : record(cuda, events[i + 1]);
	}
	if (!err && cuda)
		err = cuda_wait(cuda);
	for (uint32_t i = 0; cuda && i < stages * calls && !err; i++) {
		float ms = 0;

		err = cuda_check(cuda, cuda->api.event_elapsed(&ms, events[i], events[i + 1]),
				 "reading event times");
		device[i % stages * calls + i / stages] = (double)ms * 1e3;
	}
	return err;
}

int perf_time(struct cuda *cuda, int (*call)(void *arg, uint32_t stage), void *arg, uint32_t stages,
	      uint32_t calls, struct perf_median *medians)
{
	uint32_t count = stages * calls;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers it is */
	struct CUevent_st **events = calloc(count + 1, sizeof(*events));
	double *times = calloc(2 * (size_t)count, sizeof(*times));
	int err = events && times ? 0 : -ENOMEM;

	for (uint32_t i = 0; cuda && i <= count && !err; i++)
		err = cuda_check(cuda, cuda->api.event_create(&events[i], 0), "creating an event");
	err = err ? err : run(cuda, call, arg, stages, calls, events, times, times + count);
	for (uint32_t s = 0; s < stages && !err; s++) {
		medians[s].device_us = perf_median_of(times + s * calls, calls);
		medians[s].host_us = perf_median_of(times + count + s * calls, calls);
	}
	for (uint32_t i = 0; events && cuda && i <= count; i++)
		if (events[i])
			cuda->api.event_destroy(events[i]);
	free(events);
	free(times);
	return err;
}
