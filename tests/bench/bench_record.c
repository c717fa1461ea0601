/* SPDX-License-Identifier: Apache-2.0
 *
 * What recording an event costs, beside a bare call and the clocks themselves.
 *
 *     bench_record [DIRECTORY]
 *
 * Bursts of events with a pause for housekeeping between them, as in a job: pages have been touched
 * before they are written to. Records are 48 bytes long. Shown: the fastest and the median burst, and
 * what they are over the bare call. Then several threads at once: each one's own processor time.
 */
#include "tests/bench/record_calls.h"
#include "tracer/spool/spool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BURSTS 201
#define EVENTS 10007

static volatile uint64_t sink;

CALL call_ticks(uint64_t n)
{
	__asm__ volatile("" : : "r"(n));
	sink = spool_ticks();
}

CALL call_clock(uint64_t n)
{
	struct timespec ts;

	__asm__ volatile("" : : "r"(n));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	sink = (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void measure(const char *name, void (*call)(uint64_t n), bool first)
{
	static double bare_least, bare_median;
	double ns[BURSTS];

	for (int burst = 0; burst < BURSTS; burst++) {
		double began, ended;

		spool_housekeep();
		began = seconds();
		for (uint64_t n = 0; n < EVENTS; n++)
			call(n);
		ended = seconds();
		ns[burst] = (ended - began) * 1e9 / EVENTS;
	}
	qsort(ns, BURSTS, sizeof(ns[0]), by_value);
	if (first) {
		bare_least = ns[0];
		bare_median = ns[BURSTS / 2];
	}
	printf("  %-38s %7.1f %7.1f %9.1f %9.1f\n", name, ns[0], ns[BURSTS / 2], ns[0] - bare_least,
	       ns[BURSTS / 2] - bare_median);
}

/* --- threads ---------------------------------------------------------------------------------- */

#define THREADS_MOST 8

static pthread_barrier_t ready;
static pthread_mutex_t house = PTHREAD_MUTEX_INITIALIZER;
static double least_of[THREADS_MOST];

static double own_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *thread_measure(void *arg)
{
	double *least = arg;

	*least = 1e9;
	pthread_barrier_wait(&ready);
	for (int burst = 0; burst < BURSTS; burst++) {
		double began, ns;

		/* In a job, another thread's work. */
		pthread_mutex_lock(&house);
		spool_housekeep();
		pthread_mutex_unlock(&house);
		began = own_seconds();
		for (uint64_t n = 0; n < EVENTS; n++)
			interval(n);
		ns = (own_seconds() - began) * 1e9 / EVENTS;
		*least = ns < *least ? ns : *least;
	}
	return NULL;
}

/* Processor time of an event while others record too: the same, since they share no line. */
static void measure_threads(unsigned count)
{
	pthread_t threads[THREADS_MOST];
	double sum = 0, most = 0;
	char name[64];

	pthread_barrier_init(&ready, NULL, count);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, thread_measure, &least_of[i]) != 0)
			exit(1);
	for (unsigned i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		sum += least_of[i];
		most = least_of[i] > most ? least_of[i] : most;
	}
	pthread_barrier_destroy(&ready);
	snprintf(name, sizeof(name), "event, begin and end, %u thread%s", count,
		 count > 1 ? "s" : "");
	printf("  %-38s %7.1f %7s   slowest thread %.1f\n", name, sum / count, "", most);
}

static int run(const char *directory, enum spool_clock clock)
{
	struct spool_settings s = {
		.directory = directory,
		.max_bytes = 1u << 30,
		.clock = clock,
		.rank = -1,
		.world_size = -1,
		.local_rank = -1,
		/* warm pages: what is written over is there already */
		.flight_recorder = true,
	};

	if (spool_writer_open(&s) != 0) {
		fprintf(stderr, "bench_record: %s\n", spool_error());
		return 1;
	}
	unlink(spool_writer_path());
	printf("\n  recording with %-23s %7s %7s %9s %9s\n",
	       clock == SPOOL_CLOCK_TSC ? "the TSC" : "CLOCK_MONOTONIC", "min ns", "median",
	       "over bare", "median");
	measure("bare call", bare, true);
	measure(clock == SPOOL_CLOCK_TSC ? "counter read (rdtsc)" : "clock_gettime",
		clock == SPOOL_CLOCK_TSC ? call_ticks : call_clock, false);
	measure("event, one time stamp", instant, false);
	measure("event, begin and end", interval, false);
	measure("event, begin and end, in-flight slot", waiting, false);
	for (unsigned count = 1; count <= THREADS_MOST; count *= 2)
		measure_threads(count);
	return 0;
}

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : "/dev/shm";
	enum spool_clock clocks[2] = {SPOOL_CLOCK_TSC, SPOOL_CLOCK_MONOTONIC}, clock;

	printf("recording an event of 48 bytes: %d bursts of %d, in %s\n", BURSTS, EVENTS,
	       directory);
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid;

		if (spool_clock_choose(clocks[i] == SPOOL_CLOCK_TSC ? "tsc" : "monotonic",
				       &clock) != 0) {
			printf("  (this machine's TSC cannot be used)\n");
			continue;
		}
		fflush(NULL);
		pid = fork();
		if (pid == 0)
			exit(run(directory, clock));
		if (waitpid(pid, &status, 0) != pid || status != 0)
			return 1;
	}
	return 0;
}
