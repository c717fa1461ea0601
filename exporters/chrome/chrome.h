/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the Chrome exporter share.
 */
#ifndef WAYLAY_EXPORTERS_CHROME_H
#define WAYLAY_EXPORTERS_CHROME_H

#include "exporters/json_args.h"
#include "exporters/exporters.h"
#include "exporters/model/number_map.h"

struct chrome {
	struct json json;
	struct model *model;
	const struct export_options *options;
	struct export_result *result;
	const struct model_process *process; /* being written */
	int64_t base_ns;     /* times count from here: they must stay small to stay exact */
	int step_ps;         /* see chrome_slice() */
	bool first;          /* no event written yet */
	uint64_t async;      /* ids of asynchronous pairs and of flows */
	int64_t stream_rows; /* given out so far, of all processes */
	struct json_types types;
	/* Frames of stacks as a tree: a node's number is its id in the file. */
	struct number_map nodes;
	struct chrome_node {
		uint32_t parent;
		const struct model_frame *frame;
	} * node_list;
	uint32_t node_capacity;
};

/* What a record is called. */
const char *chrome_name(struct chrome *chrome, const struct trace_event *event);

/* Opens an event: {"ph":..,"name":..,"cat":..,"pid":..,"tid":..,"ts":..  and leaves it open. */
void chrome_event(struct chrome *chrome, const char *phase, const char *name, const char *category,
		  int64_t tid, int64_t ts);
void chrome_end(struct chrome *chrome);
/* "args":{...} of a record, as members of an object that the caller opens and closes. Returns whether
 * anything was written. */
bool chrome_args(struct chrome *chrome, const struct trace_event *event);
/* One more member; *any: whether there was one before. */
void chrome_member(struct chrome *chrome, bool *any, const char *name);
/* The stack's node (0 none), written as "sf". */
uint32_t chrome_stack(struct chrome *chrome, uint32_t stack);
void chrome_write_frames(struct chrome *chrome);

/* Where a thread's synchronizations are shown: a row of its own beside it. */
int64_t chrome_synchronization_tid(const struct model_process *process, unsigned thread);

/* threads.c: names a row and gives it its place. */
void chrome_name_row(struct chrome *chrome, int64_t tid, const char *name, int64_t order);
/* Begin and end of a slice. Viewers add a begin and a duration as doubles, which makes of ends that are
 * equal ends that nearly are: slices that touch then seem to overlap. So where several begin or end at one
 * nanosecond, those after the first stand a few picoseconds later, in their order, less than a quarter of
 * a nanosecond in all: rounded to nanoseconds they are what was recorded.
 * What has no length lasts a step: speedscope leaves out what lasts nothing. */
struct chrome_span {
	int64_t begin_ns, end_ns;
	int begin_step, end_step;
};
/* A complete slice, left open as by chrome_event. */
void chrome_slice(struct chrome *chrome, const char *name, const char *category, int64_t tid,
		  const struct chrome_span *span);

/* Rows of device work: numbered above all threads and their synchronizations. */
#define CHROME_STREAM_TIDS ((int64_t)1 << 26)
struct chrome_stream {
	uint32_t context, number;
	bool waits;
	struct lanes lanes;
	struct chrome_row {
		int64_t tid;
		int64_t end_ns; /* of its last slice */
		int end_step;
	} * rows; /* by lane */
};
struct chrome_streams {
	struct chrome_stream *list;
	unsigned count;
};
void chrome_activity(struct chrome *chrome, struct chrome_streams *streams,
		     const struct model_activity *activity);
void chrome_streams_done(struct chrome_streams *streams);

int chrome_threads(struct chrome *chrome, bool *merged);
int chrome_network(struct chrome *chrome);

#endif
