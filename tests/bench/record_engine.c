/* SPDX-License-Identifier: Apache-2.0
 *
 * What an event costs in one engine:  record_engine bare|tsc|clock|lttng|tracepoint [WHERE]
 *
 * tsc, clock: the spool with the processor's counter or clock_gettime, in the directory WHERE; lttng: by
 * Waylay through libwaylay-lttng.so (WHERE), tracepoint: its tracepoint alone, as a program of LTTng's
 * would have it. Bursts with pauses, in which the engines see to their buffers.
 * Prints the fastest and the median burst of one time stamp, and of begin and end, in ns an event.
 */
#include "tests/bench/record_calls.h"
#include "tracer/spool/spool.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BURSTS 101
#define EVENTS 10007

static const struct sink_ops *sink;

static const char *no_text(uint32_t id)
{
	(void)id;
	return "";
}

/* Its time is LTTng's own stamp. */
CALL tracepoint(uint64_t n)
{
	const struct wl_ev_ofi_counter args = {.cntr = n, .value = n};
	const struct sink_record record = {.text = no_text, .stack = ""};

	sink->event(WL_EV_ofi_counter, &record, &args);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void measure(void (*call)(uint64_t n))
{
	double ns[BURSTS];

	for (int burst = 0; burst < BURSTS; burst++) {
		double began;

		spool_housekeep();
		usleep(2000);
		began = seconds();
		for (uint64_t n = 0; n < EVENTS; n++)
			call(n);
		ns[burst] = (seconds() - began) * 1e9 / EVENTS;
	}
	qsort(ns, BURSTS, sizeof(ns[0]), by_value);
	printf(" %.1f %.1f", ns[0], ns[BURSTS / 2]);
}

static int spool(const char *directory, enum spool_clock clock)
{
	struct spool_settings s = {.directory = directory,
				   .clock = clock,
				   .rank = -1,
				   .world_size = -1,
				   .local_rank = -1,
				   .sink = sink,
				   /* warm pages: what is written over is there already */
				   .max_bytes = 256u << 20,
				   .flight_recorder = true};

	if (spool_writer_open(&s) != 0) {
		fprintf(stderr, "record_engine: %s\n", spool_error());
		return 1;
	}
	if (!sink)
		unlink(spool_writer_path());
	measure(instant);
	measure(interval);
	return 0;
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "", *where = argc > 2 ? argv[2] : "/dev/shm";
	enum spool_clock clock = SPOOL_CLOCK_MONOTONIC;
	int rc = 0;

	if (strcmp(which, "lttng") == 0 || strcmp(which, "tracepoint") == 0) {
		void *lib = dlopen(where, RTLD_NOW);

		sink = lib ? dlsym(lib, SINK_SYMBOL) : NULL;
		if (!sink) {
			fprintf(stderr, "record_engine: %s\n", dlerror());
			return 1;
		}
	}
	if (strcmp(which, "tsc") == 0 && spool_clock_choose("tsc", &clock) != 0)
		return 77;
	if (strcmp(which, "bare") == 0)
		measure(bare), measure(bare);
	else if (strcmp(which, "tracepoint") == 0)
		measure(tracepoint), measure(tracepoint);
	else
		rc = spool(where, clock);
	printf("\n");
	return rc;
}
