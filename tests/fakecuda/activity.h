/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated driver tells the simulated CUPTI (tests/fakecupti): which work was given to a stream
 * by which call, and when it was done. Times are the observer's. Correlation numbers count the calls that
 * give work, in their order, as the real ones do.
 */
#ifndef TESTS_FAKECUDA_ACTIVITY_H
#define TESTS_FAKECUDA_ACTIVITY_H

#include <stdint.h>

enum fakecuda_work_type {
	FAKECUDA_KERNEL = 1,
	FAKECUDA_COPY,
	FAKECUDA_MEMSET,
	FAKECUDA_GRAPH,
	FAKECUDA_WAIT
};

struct fakecuda_work {
	enum fakecuda_work_type type;
	uint32_t correlation, context, stream, graph;
	uint64_t node, bytes;
	const char *name;
	unsigned char dst_kind, src_kind; /* as CUPTI's memory kinds */
	unsigned char wait;               /* as CUPTI's synchronization types */
	unsigned grid[3], block[3];
	uint64_t begin, end;
};

struct fakecuda_observer {
	uint64_t (*now)(void);
	/* In the call that gives work to a stream; what it returns comes back when that is done. */
	void *(*given)(const struct fakecuda_work *work);
	void (*done)(void *given, const struct fakecuda_work *work);
	/* A node of a graph is done. */
	void (*node)(const struct fakecuda_work *work);
	/* The call itself: begin to end. A wait is one too. */
	void (*call)(const struct fakecuda_work *work);
};

/* NULL: no more. The observer must live on: work in flight still calls it. */
void fakecuda_observe(const struct fakecuda_observer *observer);
/* The numbers of a context and a stream of it. 0 or a CUresult. */
int fakecuda_numbers(void *context, void *stream, int per_thread, uint32_t *context_number,
		     uint32_t *stream_number);

#endif
