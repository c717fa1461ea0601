/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that does nothing but record, and prints what an event took: the least and the median of many
 * bursts, in ns of its own time on the processor, so that what else runs on the machine counts little.
 *
 *     watched_loop DIRECTORY BURSTS
 */
#include "tracer/spool/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EVENTS 10007

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double processor_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double burst(uint32_t api, uint32_t stack)
{
	double began = processor_ns();

	for (unsigned n = 0; n < EVENTS; n++) {
		uint64_t begin = spool_now();

		SPOOL_EMIT(cuda_wait, begin, spool_now(), 0, .stream = n % 7, .stack = stack,
			   .api = api, .rule = WL_rule_stream_wait, .cls = WL_call_class_waits);
	}
	return (processor_ns() - began) / EVENTS;
}

int main(int argc, char **argv)
{
	struct spool_settings settings = {.max_bytes = 64u << 20,
					  .flight_recorder = true,
					  .rank = -1,
					  .world_size = -1,
					  .local_rank = -1};
	int bursts = argc > 2 ? atoi(argv[2]) : 0;
	struct spool_meta_frame frame = {.where = 12, .kind = TRACE_FRAME_PYTHON};
	uint32_t api, stack;
	double *ns;

	if (bursts < 1) {
		(void)fprintf(stderr, "usage: watched_loop DIRECTORY BURSTS\n");
		return 64;
	}
	settings.directory = argv[1];
	ns = calloc((size_t)bursts, sizeof(*ns));
	if (!ns || spool_clock_choose("auto", &settings.clock) != 0 ||
	    spool_writer_open(&settings) != 0) {
		(void)fprintf(stderr, "watched_loop: %s\n", spool_error());
		free(ns);
		return 1;
	}
	api = spool_intern_string("cuStreamSynchronize", 19);
	frame.what = spool_intern_string("/job/loop.py", 12);
	frame.name = spool_intern_string("loop", 4);
	stack = spool_intern_stack(&frame, 1);
	for (int i = 0; i < bursts; i++) {
		spool_housekeep();
		ns[i] = burst(api, stack);
	}
	spool_writer_end();
	qsort(ns, (size_t)bursts, sizeof(*ns), by_value);
	printf("%.2f %.2f\n", ns[0], ns[bursts / 2]);
	free(ns);
	return 0;
}
