/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a trace of LTTng is read:  ctf_import DIR [TIMES [library]]
 * Prints CTF's events, the records they became, and million events a second of processor time for reading
 * it in, and for both that and walking over all records.
 */
#include "tracer/lttng/ctf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_seconds(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static unsigned long long walk(struct trace_reader *reader)
{
	unsigned long long count = 0;
	struct trace_event event;
	int error;

	for (unsigned t = 0; t < reader->thread_count; t++) {
		struct trace_cursor *cursor = reader->ops->cursor_open(reader, (int)t, &error);

		while (cursor && reader->ops->cursor_next(cursor, &event) == 1)
			count++;
		if (cursor)
			reader->ops->cursor_close(cursor);
	}
	return count;
}

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 3;
	double opened = 1e9, all = 1e9;
	unsigned long long records = 0;
	uint64_t events = 0;

	if (argc < 2)
		return 64;
	for (int i = 0; i < times; i++) {
		double start = cpu_seconds(), now;
		struct trace_reader **readers;
		unsigned count;
		char err[512];

		if (ctf_open(argv[1], wl_event_type, &readers, &count, argc > 3, &events, err,
			     sizeof(err)) != 0) {
			(void)fprintf(stderr, "ctf_import: %s\n", err);
			return 1;
		}
		now = cpu_seconds() - start;
		opened = now < opened ? now : opened;
		records = 0;
		for (unsigned r = 0; r < count; r++)
			records += walk(readers[r]);
		now = cpu_seconds() - start;
		all = now < all ? now : all;
		for (unsigned r = 0; r < count; r++)
			readers[r]->ops->close(readers[r]);
		free((void *)readers);
	}
	(void)printf("%llu %llu %.2f %.2f\n", (unsigned long long)events, records,
		     (double)events / opened / 1e6, (double)events / all / 1e6);
	return 0;
}
