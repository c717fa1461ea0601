/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices did: a row a stream under the process that had it done, more rows where work overlaps, and
 * arrows from the calls.
 */
#include "exporters/chrome/chrome.h"
#include "exporters/model/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct chrome_stream *stream_of(struct chrome_streams *streams, uint32_t context,
				       uint32_t number, bool waits)
{
	struct chrome_stream *more;

	for (unsigned i = 0; i < streams->count; i++) {
		struct chrome_stream *stream = &streams->list[i];

		if (stream->context == context && stream->number == number &&
		    stream->waits == waits)
			return stream;
	}
	more = realloc(streams->list, (streams->count + 1u) * sizeof(*more));
	if (!more)
		return NULL;
	streams->list = more;
	more = &streams->list[streams->count++];
	memset(more, 0, sizeof(*more));
	more->context = context;
	more->number = number;
	more->waits = waits;
	return more;
}

void chrome_streams_done(struct chrome_streams *streams)
{
	for (unsigned i = 0; i < streams->count; i++) {
		lanes_done(&streams->list[i].lanes);
		free(streams->list[i].rows);
	}
	free(streams->list);
	memset(streams, 0, sizeof(*streams));
}

/* The row of a free lane, named if it is new; NULL without memory. */
static struct chrome_row *row_of(struct chrome *chrome, struct chrome_stream *stream,
				 int64_t begin_ns, int64_t end_ns)
{
	uint32_t before = stream->lanes.count;
	int64_t lane = lanes_take(&stream->lanes, begin_ns, end_ns);
	struct chrome_row *more;
	char name[96];

	if (lane < 0)
		return NULL;
	if (lane < before)
		return &stream->rows[lane];
	more = realloc(stream->rows, (size_t)(lane + 1) * sizeof(*more));
	if (!more)
		return NULL;
	stream->rows = more;
	more = &stream->rows[lane];
	*more = (struct chrome_row){.tid = CHROME_STREAM_TIDS + chrome->stream_rows++,
				    .end_ns = INT64_MIN};
	if (stream->waits)
		(void)snprintf(name, sizeof(name), "GPU waits (context %u)", stream->context);
	else
		(void)snprintf(name, sizeof(name), "GPU stream %u (context %u)", stream->number,
			       stream->context);
	chrome_name_row(chrome, more->tid, name, more->tid);
	return more;
}

/* The next slice of a row, after all that is there. */
static struct chrome_span span_on(struct chrome_row *row, int64_t begin_ns, int64_t end_ns)
{
	struct chrome_span span = {.begin_ns = begin_ns, .end_ns = end_ns};

	if (begin_ns == row->end_ns)
		span.begin_step = row->end_step + 1;
	if (begin_ns == end_ns)
		span.end_step = span.begin_step + 1;
	row->end_ns = end_ns;
	row->end_step = span.end_step;
	return span;
}

static const char *name_of(struct chrome *chrome, const struct trace_event *event, char *buf,
			   size_t size)
{
	const struct wl_arg *arg;
	uint64_t from, to;
	const char *name;

	switch (event->type->number) {
	case WL_EV_gpu_kernel:
		name = model_string(chrome->model, chrome->process->index,
				    (uint32_t)MODEL_ARG(event, gpu_kernel, name));
		return *name ? name : "kernel";
	case WL_EV_gpu_copy:
		arg = &event->type->args[WL_ARG(gpu_copy, src_kind)];
		from = MODEL_ARG(event, gpu_copy, src_kind);
		to = MODEL_ARG(event, gpu_copy, dst_kind);
		(void)snprintf(buf, size, "copy %s to %s",
			       arg->enumeration->words[from < arg->enumeration->count ? from : 0],
			       arg->enumeration->words[to < arg->enumeration->count ? to : 0]);
		return buf;
	case WL_EV_gpu_sync:
		arg = &event->type->args[WL_ARG(gpu_sync, wait)];
		from = MODEL_ARG(event, gpu_sync, wait);
		(void)snprintf(buf, size, "wait: %s",
			       arg->enumeration->words[from < arg->enumeration->count ? from : 0]);
		return buf;
	default:
		return event->type->number == WL_EV_gpu_graph ? "graph" : "memset";
	}
}

/* From inside the call's slice to the work. A slice without an inside gets no arrow. */
static void put_arrow(struct chrome *chrome, const struct model_activity *activity, int64_t tid,
		      int64_t begin)
{
	int64_t call = model_time(chrome->process, activity->call_begin_ns);
	int64_t call_end = model_time(chrome->process, activity->call_end_ns);

	if (!activity->called || call_end - call < 2 || begin <= call + 1 ||
	    !select_keeps(chrome->options->selection, chrome->process->index,
			  activity->call_category, call, call_end))
		return;
	chrome_event(chrome, "s", "launch", "gpu_flow",
		     chrome->process->threads[activity->thread].unique_tid, call + 1);
	json_raw(&chrome->json, ",\"id\":");
	json_hex(&chrome->json, ++chrome->async);
	chrome_end(chrome);
	chrome_event(chrome, "f", "launch", "gpu_flow", tid, begin);
	json_raw(&chrome->json, ",\"bp\":\"e\",\"id\":");
	json_hex(&chrome->json, chrome->async);
	chrome_end(chrome);
	chrome->result->flows++;
}

void chrome_activity(struct chrome *chrome, struct chrome_streams *streams,
		     const struct model_activity *activity)
{
	const struct trace_event *event = &activity->event;
	int64_t begin = model_time(chrome->process, event->begin_ns);
	int64_t end = model_time(chrome->process, event->end_ns);
	bool waits = event->type->number == WL_EV_gpu_sync;
	struct chrome_stream *stream;
	struct chrome_row *row;
	struct chrome_span span;
	char name[64];

	if (!select_takes(chrome->options->selection, chrome->process->index, WL_CAT_gpu, begin,
			  end))
		return;
	stream = stream_of(
		streams, (uint32_t)event->args[model_arg_index(event->type, "context")],
		waits ? 0 : (uint32_t)event->args[model_arg_index(event->type, "stream")], waits);
	row = stream ? row_of(chrome, stream, begin, end) : NULL;
	if (!row)
		return;
	span = span_on(row, begin, end);
	chrome_slice(chrome, name_of(chrome, event, name, sizeof(name)), "gpu", row->tid, &span);
	json_raw(&chrome->json, ",\"args\":{");
	chrome_args(chrome, event);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
	put_arrow(chrome, activity, row->tid, begin);
	chrome->result->activities++;
}
