/* SPDX-License-Identifier: Apache-2.0 */
/* Timing of calls that come in a fixed sequence, by device events, or by the host's clock on the CPU. */
#ifndef WAYLAY_KERNELS_PERF_TIME_H
#define WAYLAY_KERNELS_PERF_TIME_H

#include <stdint.h>

struct cuda;

struct perf_median {
	double device_us; /* between the events before and after; on the CPU the host's time */
	double host_us;   /* that the call held the host */
};

/*
 * Runs stages 0 to stages - 1 of a sequence `calls` times, back to back, and gives the medians of each
 * stage. `call` returns 0, or a negative errno and leaves its words where it likes. Returns what it
 * returned; -ENOMEM; or an error of the driver with cuda->error.
 */
int perf_time(struct cuda *cuda, int (*call)(void *arg, uint32_t stage), void *arg, uint32_t stages,
	      uint32_t calls, struct perf_median *medians);

double perf_now_us(void);
double perf_median_of(double *values, uint32_t count); /* sorts them */

#endif
