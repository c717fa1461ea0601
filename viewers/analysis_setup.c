/* SPDX-License-Identifier: Apache-2.0
 *
 * What it costs a job to get ready: libfabric's set-up calls by name.
 */
#include "viewers/analysis_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void setup_event(struct analysis *analysis, const char *call, const struct trace_event *event,
		 bool failed)
{
	uint64_t held_ns = (uint64_t)(event->end_ns - event->begin_ns);
	struct setup_stat *stat = analysis->setup;
	unsigned i = 0;

	while (i < analysis->setup_count && strcmp(stat[i].call, call) != 0)
		i++;
	if (i ==
	    SETUP_CALLS_MAX) /* more names than libfabric has calls: the last is for the rest */
		i--;
	else if (i == analysis->setup_count) {
		(void)snprintf(stat[i].call, sizeof(stat[i].call), "%s", call);
		analysis->setup_count++;
	}
	stat[i].count++;
	stat[i].failed += failed;
	stat[i].held_ns += held_ns;
	if (held_ns > stat[i].longest_ns)
		stat[i].longest_ns = held_ns;
	analysis->setup_ns += held_ns;
}

static int costlier(const void *a, const void *b)
{
	const struct setup_stat *x = a, *y = b;

	if (x->held_ns != y->held_ns)
		return x->held_ns < y->held_ns ? 1 : -1;
	return strcmp(x->call, y->call);
}

void setup_results(struct analysis *analysis)
{
	qsort(analysis->setup, analysis->setup_count, sizeof(analysis->setup[0]), costlier);
}
