/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a function that was compiled for uftrace, timed in bursts as record_engine does: prints the
 * fastest and the median burst in ns a call, twice.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BURSTS 101
#define EVENTS 10007
/* Only the call itself is seen by uftrace. */
#define UNSEEN __attribute__((no_instrument_function))

void called(uint64_t n);
__attribute__((noinline)) void called(uint64_t n)
{
	__asm__ volatile("" : : "r"(n));
}

UNSEEN static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

UNSEEN static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

UNSEEN int main(void)
{
	static double ns[BURSTS];

	for (int burst = 0; burst < BURSTS; burst++) {
		double began;

		usleep(2000);
		began = seconds();
		for (uint64_t n = 0; n < EVENTS; n++)
			called(n);
		ns[burst] = (seconds() - began) * 1e9 / EVENTS;
	}
	qsort(ns, BURSTS, sizeof(ns[0]), by_value);
	printf(" %.1f %.1f %.1f %.1f\n", ns[0], ns[BURSTS / 2], ns[0], ns[BURSTS / 2]);
	return 0;
}
