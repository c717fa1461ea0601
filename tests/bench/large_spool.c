/* SPDX-License-Identifier: Apache-2.0
 *
 * A large recording:  large_spool fill DIRECTORY EVENTS | open FILE | walk FILE
 *
 * fill: four threads record so many events, of 48 and more bytes; prints the file. open: how long until its
 * threads, times and calls are known, in ms (what is not in memory of the file is read from disk). walk:
 * million events a second.
 */
#include "tracer/spool/spool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

static uint64_t events_each;
static _Atomic uint64_t refused;

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *record(void *arg)
{
	uint64_t who = (uintptr_t)arg, lost = 0;

	for (uint64_t n = 0; n < events_each; n++) {
		uint64_t begin = spool_now();
		bool done;

		/* As in a job: most of it repeats, addresses and counts differ. */
		if (n % 4)
			done = SPOOL_EMIT(ofi_counter, begin, spool_now(), 0,
					  .cntr = 0x7f0000001000 + who, .value = n, .api = 8,
					  .status = 0);
		else
			done = SPOOL_EMIT(cuda_wait, begin, spool_now(), 0, .stream = 0x55550000,
					  .object = n * 64, .stack = 16, .api = 8);
		lost += !done;
	}
	atomic_fetch_add(&refused, lost);
	return NULL;
}

static int fill(const char *directory, uint64_t events)
{
	struct spool_settings s = {.directory = directory,
				   .max_bytes = 32ull << 30,
				   .rank = -1,
				   .world_size = -1,
				   .local_rank = -1};
	pthread_t threads[THREADS];

	events_each = events / THREADS;
	if (spool_clock_choose("auto", &s.clock) != 0 || spool_writer_open(&s) != 0) {
		fprintf(stderr, "large_spool: %s\n", spool_error());
		return 1;
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, record, (void *)i) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", spool_writer_path());
	spool_writer_end();
	if (atomic_load(&refused))
		fprintf(stderr, "large_spool: %llu events found no room\n",
			(unsigned long long)atomic_load(&refused));
	return atomic_load(&refused) != 0;
}

static int look(const char *path, bool walk)
{
	double began = seconds(), opened;
	struct trace_reader *reader;
	struct trace_event event;
	struct trace_cursor *c;
	uint64_t count = 0;
	char err[512];
	int error;

	if (spool_reader_open(path, &reader, err, sizeof(err)) != 0) {
		fprintf(stderr, "large_spool: %s\n", err);
		return 1;
	}
	opened = seconds();
	if (!walk) {
		printf("%.1f\n", (opened - began) * 1e3);
		return 0;
	}
	for (unsigned t = 0; t < reader->thread_count; t++) {
		c = reader->ops->cursor_open(reader, (int)t, &error);
		while (c && reader->ops->cursor_next(c, &event) == 1)
			count++;
		if (c)
			reader->ops->cursor_close(c);
	}
	printf("%llu %.1f\n", (unsigned long long)count,
	       (double)count / (seconds() - opened) / 1e6);
	reader->ops->close(reader);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "fill") == 0)
		return fill(argv[2], strtoull(argv[3], NULL, 0));
	if (argc == 3 && strcmp(argv[1], "open") == 0)
		return look(argv[2], false);
	if (argc == 3 && strcmp(argv[1], "walk") == 0)
		return look(argv[2], true);
	fprintf(stderr, "usage: large_spool fill DIRECTORY EVENTS | open FILE | walk FILE\n");
	return 64;
}
