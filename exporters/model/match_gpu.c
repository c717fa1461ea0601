/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device did, led back to the call that caused it.
 *
 * The device's tracer numbers the host's calls (correlation), the recording of the calls does not. But
 * work on one stream is done in the order in which it was given, and gpu_stream says which handle a
 * stream number is: so the calls on a stream and the work on it are two rows in the same order, joined
 * where kind and size agree and the work does not begin before the call did.
 *
 * Work is recorded when its tracer hands a buffer over: each buffer is in order, but one that was filled
 * slowly (the tracer keeps one a thread of the job) comes long after others with later work. So work is
 * held back and put in the order in which it began before it is joined.
 */
#include "exporters/model/match.h"

#include <stdlib.h>
#include <string.h>

#define CALLS_MAX   131072u /* on one stream, not yet seen on the device */
#define HELD_MAX    65536u  /* work held back, of all streams */
#define WAITING_MAX 256u    /* work on one stream whose call has not been seen */
#define LOOK_MAX    256u    /* calls looked at for one piece of work */
#define STREAMS_MAX 4096u
#define RECENT      65536u /* correlations remembered: a graph's work has one */
#define LEGACY      0u
#define PER_THREAD  2u
#define ANY_THREAD  UINT32_MAX
#define NO_STREAM   UINT32_MAX

enum work { WORK_NONE, WORK_KERNEL, WORK_COPY, WORK_MEMSET, WORK_GRAPH };

struct caller {
	uint64_t ordinal;
	int64_t begin_ns, end_ns;
	uint32_t thread;
	enum wl_category category;
};

struct call {
	struct caller caller;
	uint64_t bytes;
	enum work work;
};

struct stream {
	uint32_t context, number;
	struct call *calls; /* ring, oldest at head */
	uint32_t head, count, capacity;
	struct trace_event *waiting;
	uint32_t waiting_count;
};

/* Which stream a handle means, on a thread where that matters. */
struct handle {
	uint64_t handle;
	uint32_t thread, stream;
};

struct recent {
	uint32_t correlation; /* 0 free */
	struct caller caller;
};

struct match_gpu {
	struct match_context *context;
	struct stream *streams;
	uint32_t stream_count;
	struct handle *handles;
	uint32_t handle_count;
	struct recent *recent;
	struct trace_event *held;
	uint32_t held_count, held_capacity;
	uint64_t *ordinals; /* of device calls, by thread */
	uint32_t thread_count;
	/* Calls whose stream is not known yet. */
	struct {
		uint64_t handle;
		struct call call;
	} early[64];
	uint32_t early_count;
};

struct match_gpu *match_gpu_new(struct match_context *context)
{
	struct match_gpu *gpu = calloc(1, sizeof(*gpu));

	if (!gpu)
		return NULL;
	gpu->context = context;
	gpu->thread_count = model_process(context->model, context->process)->thread_count;
	gpu->ordinals = calloc(gpu->thread_count + 1u, sizeof(*gpu->ordinals));
	if (!gpu->ordinals) {
		free(gpu);
		return NULL;
	}
	return gpu;
}

void match_gpu_free(struct match_gpu *gpu)
{
	if (!gpu)
		return;
	for (uint32_t i = 0; i < gpu->stream_count; i++) {
		free(gpu->streams[i].calls);
		free(gpu->streams[i].waiting);
	}
	free(gpu->streams);
	free(gpu->handles);
	free(gpu->recent);
	free(gpu->held);
	free(gpu->ordinals);
	free(gpu);
}

bool match_gpu_is_call(const struct wl_event_type *type)
{
	return type == wl_event_type(WL_EV_cuda_launch) || type == wl_event_type(WL_EV_cuda_copy) ||
	       type == wl_event_type(WL_EV_cuda_memset) || type == wl_event_type(WL_EV_cuda_graph);
}

/* --- streams ------------------------------------------------------------------------------------ */

static uint32_t stream_of(struct match_gpu *gpu, uint32_t context, uint32_t number)
{
	struct stream *more;

	for (uint32_t i = 0; i < gpu->stream_count; i++) {
		if (gpu->streams[i].context == context && gpu->streams[i].number == number)
			return i;
	}
	if (gpu->stream_count == STREAMS_MAX)
		return NO_STREAM;
	more = realloc(gpu->streams, (gpu->stream_count + 1u) * sizeof(*more));
	if (!more)
		return NO_STREAM;
	gpu->streams = more;
	memset(&more[gpu->stream_count], 0, sizeof(*more));
	more[gpu->stream_count].context = context;
	more[gpu->stream_count].number = number;
	return gpu->stream_count++;
}

/* The newest word on the handle, from this thread if there is one. */
static uint32_t stream_of_handle(const struct match_gpu *gpu, uint64_t handle, uint32_t thread)
{
	uint32_t found = NO_STREAM;

	for (uint32_t i = gpu->handle_count; i-- > 0;) {
		if (gpu->handles[i].handle != handle)
			continue;
		if (gpu->handles[i].thread == thread)
			return gpu->handles[i].stream;
		if (found == NO_STREAM && handle != PER_THREAD)
			found = gpu->handles[i].stream;
	}
	return found;
}

static void learn_handle(struct match_gpu *gpu, uint64_t handle, uint32_t thread, uint32_t stream)
{
	struct handle *more;

	for (uint32_t i = 0; i < gpu->handle_count; i++) {
		if (gpu->handles[i].handle == handle && gpu->handles[i].thread == thread) {
			gpu->handles[i].stream = stream;
			return;
		}
	}
	if (gpu->handle_count == STREAMS_MAX)
		return;
	more = realloc(gpu->handles, (gpu->handle_count + 1u) * sizeof(*more));
	if (!more)
		return;
	gpu->handles = more;
	more[gpu->handle_count++] = (struct handle){handle, thread, stream};
}

/* --- joining ------------------------------------------------------------------------------------ */

static enum work work_of(const struct trace_event *event)
{
	switch (event->type->number) {
	case WL_EV_gpu_kernel:
		return MODEL_ARG(event, gpu_kernel, graph) ? WORK_GRAPH : WORK_KERNEL;
	case WL_EV_gpu_copy:
		return MODEL_ARG(event, gpu_copy, graph) ? WORK_GRAPH : WORK_COPY;
	case WL_EV_gpu_memset:
		return MODEL_ARG(event, gpu_memset, graph) ? WORK_GRAPH : WORK_MEMSET;
	case WL_EV_gpu_graph:
		return WORK_GRAPH;
	default:
		return WORK_NONE;
	}
}

static uint64_t bytes_of(const struct trace_event *event, enum work work)
{
	return work == WORK_COPY     ? MODEL_ARG(event, gpu_copy, bytes)
	       : work == WORK_MEMSET ? MODEL_ARG(event, gpu_memset, bytes)
				     : 0;
}

static uint32_t correlation_of(const struct trace_event *event)
{
	int index = model_arg_index(event->type, "correlation");

	return index < 0 ? 0 : (uint32_t)event->args[index];
}

static void tell(struct match_gpu *gpu, const struct trace_event *event,
		 const struct caller *caller)
{
	struct model_activity activity = {.event = *event};

	gpu->context->counts.activities++;
	if (caller) {
		gpu->context->counts.activities_called++;
		activity.called = true;
		activity.thread = caller->thread;
		activity.ordinal = caller->ordinal;
		activity.call_begin_ns = caller->begin_ns;
		activity.call_end_ns = caller->end_ns;
		activity.call_category = caller->category;
	}
	gpu->context->ops->activity(gpu->context->user, &activity);
}

static void remember(struct match_gpu *gpu, uint32_t correlation, const struct caller *caller)
{
	if (!correlation)
		return;
	if (!gpu->recent)
		gpu->recent = calloc(RECENT, sizeof(*gpu->recent));
	if (gpu->recent)
		gpu->recent[correlation % RECENT] = (struct recent){correlation, *caller};
}

static const struct caller *recalled(const struct match_gpu *gpu, uint32_t correlation)
{
	const struct recent *recent;

	if (!correlation || !gpu->recent)
		return NULL;
	recent = &gpu->recent[correlation % RECENT];
	return recent->correlation == correlation ? &recent->caller : NULL;
}

/* The first call on the stream that may have caused it; those before it had nothing done. */
static bool find_call(struct stream *stream, const struct trace_event *event, struct caller *caller)
{
	enum work work = work_of(event);
	uint64_t bytes = bytes_of(event, work);

	for (uint32_t i = 0; i < stream->count && i < LOOK_MAX; i++) {
		const struct call *call = &stream->calls[(stream->head + i) % stream->capacity];

		if (call->caller.begin_ns > event->begin_ns)
			return false;
		if (call->work != work || call->bytes != bytes)
			continue;
		*caller = call->caller;
		stream->head = (stream->head + i + 1) % stream->capacity;
		stream->count -= i + 1;
		return true;
	}
	return false;
}

/* Whether the piece of work was told. */
static bool settle(struct match_gpu *gpu, struct stream *stream, const struct trace_event *event)
{
	uint32_t correlation = correlation_of(event);
	const struct caller *known = recalled(gpu, correlation);
	struct caller caller;

	if (known) {
		tell(gpu, event, known);
		return true;
	}
	if (!find_call(stream, event, &caller))
		return false;
	remember(gpu, correlation, &caller);
	tell(gpu, event, &caller);
	return true;
}

static void settle_waiting(struct match_gpu *gpu, struct stream *stream)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < stream->waiting_count; i++) {
		/* What waits longer than it took to begin another call was caused by none we saw. */
		if (!settle(gpu, stream, &stream->waiting[i]))
			stream->waiting[kept++] = stream->waiting[i];
	}
	stream->waiting_count = kept;
}

static void put_off(struct match_gpu *gpu, struct stream *stream, const struct trace_event *event)
{
	if (!stream->waiting)
		stream->waiting = malloc(WAITING_MAX * sizeof(*stream->waiting));
	if (!stream->waiting) {
		tell(gpu, event, NULL);
		return;
	}
	if (stream->waiting_count == WAITING_MAX) {
		tell(gpu, &stream->waiting[0], NULL);
		memmove(stream->waiting, stream->waiting + 1,
			--stream->waiting_count * sizeof(*stream->waiting));
	}
	stream->waiting[stream->waiting_count++] = *event;
}

static void add_call(struct stream *stream, const struct call *call)
{
	if (stream->count == stream->capacity && stream->capacity < CALLS_MAX) {
		uint32_t capacity = stream->capacity ? stream->capacity * 2 : 64;
		struct call *more = malloc(capacity * sizeof(*more));

		if (!more)
			return;
		for (uint32_t i = 0; i < stream->count; i++)
			more[i] = stream->calls[(stream->head + i) % stream->capacity];
		free(stream->calls);
		stream->calls = more;
		stream->capacity = capacity;
		stream->head = 0;
	}
	if (stream->count == stream->capacity) { /* the oldest is given up */
		stream->head = (stream->head + 1) % stream->capacity;
		stream->count--;
	}
	stream->calls[(stream->head + stream->count++) % stream->capacity] = *call;
}

static void place_call(struct match_gpu *gpu, uint64_t handle, const struct call *call)
{
	uint32_t index = stream_of_handle(gpu, handle, call->caller.thread);

	if (index != NO_STREAM) {
		add_call(&gpu->streams[index], call);
		settle_waiting(gpu, &gpu->streams[index]);
		return;
	}
	if (gpu->early_count == sizeof(gpu->early) / sizeof(gpu->early[0]))
		memmove(gpu->early, gpu->early + 1, --gpu->early_count * sizeof(gpu->early[0]));
	gpu->early[gpu->early_count].handle = handle;
	gpu->early[gpu->early_count++].call = *call;
}

static void feed_stream(struct match_gpu *gpu, const struct trace_event *event)
{
	uint64_t handle = MODEL_ARG(event, gpu_stream, stream);
	uint32_t index = stream_of(gpu, (uint32_t)MODEL_ARG(event, gpu_stream, context),
				   (uint32_t)MODEL_ARG(event, gpu_stream, number));
	uint32_t count = gpu->early_count;
	bool by_thread = handle == LEGACY || handle == PER_THREAD;

	if (index == NO_STREAM)
		return;
	learn_handle(gpu, handle, by_thread ? event->thread : ANY_THREAD, index);
	/* The calls that waited for it, in their order; the others wait on. */
	gpu->early_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t wanted = gpu->early[i].handle;
		struct call call = gpu->early[i].call;

		place_call(gpu, wanted, &call);
	}
}

/* --- the matcher -------------------------------------------------------------------------------- */

/* Whether the call gives the device anything to do that its tracer would tell of. */
static bool call_of(struct match_gpu *gpu, const struct trace_event *event, struct call *call,
		    uint64_t *handle)
{
	const struct match_context *context = gpu->context;
	const char *api;

	if (event->flags & WL_FLAG_CAPTURED)
		return false;
	switch (event->type->number) {
	case WL_EV_cuda_launch:
		call->work = WORK_KERNEL;
		*handle = MODEL_ARG(event, cuda_launch, stream);
		return !MODEL_ARG(event, cuda_launch, status);
	case WL_EV_cuda_copy:
		call->work = WORK_COPY;
		call->bytes = MODEL_ARG(event, cuda_copy, bytes);
		*handle = MODEL_ARG(event, cuda_copy, stream);
		return call->bytes && !MODEL_ARG(event, cuda_copy, status);
	case WL_EV_cuda_memset:
		call->work = WORK_MEMSET;
		call->bytes = MODEL_ARG(event, cuda_memset, bytes);
		*handle = MODEL_ARG(event, cuda_memset, stream);
		return call->bytes && !MODEL_ARG(event, cuda_memset, status);
	default:
		api = model_string(context->model, context->process,
				   (uint32_t)MODEL_ARG(event, cuda_graph, api));
		call->work = WORK_GRAPH;
		*handle = MODEL_ARG(event, cuda_graph, stream);
		return !strncmp(api, "cuGraphLaunch", 13) && !MODEL_ARG(event, cuda_graph, status);
	}
}

static void join(struct match_gpu *gpu, const struct trace_event *event)
{
	uint32_t index;

	/* Context and stream have the same places in no two types. */
	index = stream_of(gpu, (uint32_t)event->args[model_arg_index(event->type, "context")],
			  (uint32_t)event->args[model_arg_index(event->type, "stream")]);
	if (index == NO_STREAM)
		tell(gpu, event, NULL);
	else if (!settle(gpu, &gpu->streams[index], event))
		put_off(gpu, &gpu->streams[index], event);
}

static int by_begin(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;
	uint32_t first = correlation_of(x), second = correlation_of(y);

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return first < second ? -1 : first > second;
}

/* Joins the oldest n of what is held. */
static void join_oldest(struct match_gpu *gpu, uint32_t n)
{
	qsort(gpu->held, gpu->held_count, sizeof(*gpu->held), by_begin);
	for (uint32_t i = 0; i < n; i++)
		join(gpu, &gpu->held[i]);
	gpu->held_count -= n;
	memmove(gpu->held, gpu->held + n, gpu->held_count * sizeof(*gpu->held));
}

static void feed_activity(struct match_gpu *gpu, const struct trace_event *event)
{
	if (event->type->number == WL_EV_gpu_sync) {
		tell(gpu, event, NULL);
		return;
	}
	if (gpu->held_count == HELD_MAX)
		join_oldest(gpu, HELD_MAX / 2);
	if (gpu->held_count == gpu->held_capacity) {
		uint32_t capacity = gpu->held_capacity ? gpu->held_capacity * 2 : 256;
		struct trace_event *more = realloc(gpu->held, capacity * sizeof(*more));

		if (!more) {
			join(gpu, event);
			return;
		}
		gpu->held = more;
		gpu->held_capacity = capacity;
	}
	gpu->held[gpu->held_count++] = *event;
}

void match_gpu_feed(struct match_gpu *gpu, const struct trace_event *event)
{
	struct call call = {0};
	uint64_t handle = 0;

	if (!gpu->context->ops->activity)
		return;
	if (event->type->number == WL_EV_gpu_stream) {
		feed_stream(gpu, event);
	} else if (event->type->category == WL_CAT_gpu) {
		feed_activity(gpu, event);
	} else if (match_gpu_is_call(event->type) && event->thread < gpu->thread_count) {
		call.caller.thread = event->thread;
		call.caller.ordinal = gpu->ordinals[event->thread]++;
		call.caller.begin_ns = event->begin_ns;
		call.caller.end_ns = event->end_ns;
		call.caller.category = event->type->category;
		if (call_of(gpu, event, &call, &handle))
			place_call(gpu, handle, &call);
	}
}

void match_gpu_finish(struct match_gpu *gpu)
{
	if (gpu->held_count)
		join_oldest(gpu, gpu->held_count);
	for (uint32_t i = 0; i < gpu->stream_count; i++) {
		struct stream *stream = &gpu->streams[i];

		settle_waiting(gpu, stream);
		for (uint32_t w = 0; w < stream->waiting_count; w++)
			tell(gpu, &stream->waiting[w], NULL);
		stream->waiting_count = 0;
	}
}
