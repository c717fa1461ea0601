/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: what each did, call by call, and its synchronizations once more on a track of their own.
 */
#include "exporters/model/kineto.h"
#include "exporters/exporters.h"
#include "exporters/model/match.h"
#include "exporters/model/walk.h"
#include "exporters/perfetto/trace.h"

#include <errno.h>
#include <string.h>

struct thread_export {
	struct trace *trace;
	const struct model_process *process;
	unsigned thread;
	uint64_t synchronizations; /* track, 0 while it has not been declared */
	struct lanes polls, waiting_polls;
	bool gpu;             /* the recording holds what devices did: calls may have arrows */
	uint32_t correlation; /* of Kineto's, the newest told */
	int64_t instant_ns;   /* of the newest event told, if that was an instant, else INT64_MIN */
};

static uint32_t name_of(struct thread_export *export, const struct type_cache *cache,
			const struct nest_item *item)
{
	struct trace *trace = export->trace;
	int index = cache->api >= 0 ? cache->api : cache->text;

	if (item->inflight && *item->inflight->api)
		return intern_constant(trace, SPACE_NAMES, item->inflight->api);
	if (index >= 0 && item->event.args[index])
		return intern_string(trace, SPACE_NAMES, (uint32_t)item->event.args[index],
				     item->event.type->name);
	return cache->name;
}

static uint32_t stack_of(const struct type_cache *cache, const struct nest_item *item)
{
	if (item->inflight)
		return item->inflight->stack;
	return cache->stack >= 0 ? (uint32_t)item->event.args[cache->stack] : 0;
}

/* Opens a track event with all that slices and instants share. */
static uint8_t *open_event(struct trace *trace, enum track_event_type type, uint64_t track,
			   uint32_t name, uint32_t category)
{
	uint8_t *event = pb_TracePacket_track_event(&trace->pb);

	pb_TrackEvent_type(&trace->pb, type);
	if (track)
		pb_TrackEvent_track_uuid(&trace->pb, track);
	if (name)
		pb_TrackEvent_name_iid(&trace->pb, name);
	if (category)
		pb_TrackEvent_category_iids(&trace->pb, category);
	return event;
}

/* The device work that a call caused: by its own place among the thread's calls; and the rows of a Kineto
 * trace, by the correlation of the call of Kineto's around it, which the first of ours in it tells. */
static void put_submission(struct thread_export *export, const struct nest_item *item)
{
	const struct kineto *with = export->trace->options->with;
	struct pb *pb = &export->trace->pb;
	uint32_t correlation = 0;
	uint8_t *nested;

	if (with && kineto_process(with) == export->process->index)
		correlation =
			kineto_correlation(with, export->process->threads[export->thread].info.tid,
					   item->event.begin_ns, item->event.end_ns);
	if (correlation == export->correlation)
		correlation = 0;
	if (correlation)
		export->correlation = correlation;
	if (!export->gpu && !correlation)
		return;
	nested = pb_TrackEvent_gpu_correlation(pb);
	if (export->gpu)
		pb_GpuCorrelation_render_stage_submission_event_ids(
			pb, flow_id(export->process, FLOW_LAUNCH, export->thread, item->ordinal));
	if (correlation)
		pb_GpuCorrelation_render_stage_submission_event_ids(pb, KINETO_EVENT(correlation));
	pb_end(pb, nested);
}

/* Both ends of the arrow from a post to its transfer, and from a transfer to its completion, carry
 * an id made of what the record is; the other end is written by export_network. */
static void put_flow(struct thread_export *export, const struct type_cache *cache,
		     const struct nest_item *item)
{
	enum flow_kind kind = cache->link == LINK_POST ? FLOW_POST : FLOW_COMPLETION;

	switch (cache->link) {
	case LINK_NONE:
		return;
	case LINK_DEVICE:
		if (!item->inflight)
			put_submission(export, item);
		return;
	case LINK_POST:
		if ((int64_t)MODEL_ARG(&item->event, ofi_post, status) < 0)
			return;
		break;
	default:
		break;
	}
	pb_TrackEvent_flow_ids(&export->trace->pb,
			       flow_id(export->process, kind, export->thread, item->ordinal));
}

/* The line to blame, of calls whose stack says it but which have no track of their own where it would be: staged
 * ones, and registrations. Queries cannot tell it from the stack. */
static void put_place(struct trace *trace, const struct type_cache *cache,
		      const struct nest_item *item)
{
	int stack = model_arg_index(cache->type, "stack");

	if (trace->options->no_args || stack < 0 ||
	    (cache->type != wl_event_type(WL_EV_ofi_mr_reg) &&
	     model_event_class(&item->event) != WL_call_class_stages))
		return;
	arg_text(trace, "place",
		 model_place(trace->model, trace->process, (uint32_t)item->event.args[stack]));
}

static void put_synchronization_args(struct trace *trace, const struct type_cache *cache,
				     const struct model_thread *thread,
				     const struct nest_item *item)
{
	const struct wl_rule_info *rule;
	int index = model_arg_index(cache->type, "rule"),
	    stack = model_arg_index(cache->type, "stack");
	unsigned cls = model_event_class(&item->event);

	if (index < 0 || item->inflight || trace->options->no_args)
		return;
	rule = wl_rule_info((unsigned)item->event.args[index]);
	arg_text(trace, "rule", rule->word);
	arg_text(trace, "class", cls == WL_call_class_stages ? "stages" : "waits");
	arg_text(trace, "place",
		 model_place(trace->model, trace->process,
			     stack < 0 ? 0 : (uint32_t)item->event.args[stack]));
	arg_int(trace, "tid", thread->info.tid);
	arg_text(trace, "waits_for", rule->waits_for);
	if (*rule->condition)
		arg_text(trace, "condition", rule->condition);
	if (*rule->remedy)
		arg_text(trace, "remedy", rule->remedy);
}

static void begin_synchronization(struct thread_export *export, const struct type_cache *cache,
				  const struct nest_item *item, int64_t ts, uint32_t name,
				  uint32_t stack)
{
	struct trace *trace = export->trace;
	uint64_t parent = uuid_process(export->process);
	uint8_t *packet, *event;

	if (!export->synchronizations) {
		export->synchronizations =
			uuid_track(parent, TRACK_SYNCHRONIZATIONS,
				   (uint64_t) export->process->threads[export->thread].unique_tid);
		describe_track(trace, export->synchronizations, parent, "Synchronizations");
	}
	packet = sequence_packet(trace, ts);
	event = open_event(trace, SLICE_BEGIN, export->synchronizations, name, cache->category);
	put_synchronization_args(trace, cache, &export->process->threads[export->thread], item);
	if (stack)
		pb_TrackEvent_callstack_iid(&trace->pb, stack);
	pb_end(&trace->pb, event);
	sequence_packet_end(trace, packet);
	trace->result->synchronizations++;
}

static void on_begin(void *user, const struct nest_item *item, int64_t ts, bool continued)
{
	struct thread_export *export = user;
	struct trace *trace = export->trace;
	const struct type_cache *cache = type_of(trace, item->event.type);
	uint32_t stack = 0, name;
	uint8_t *packet, *event;

	if (!cache)
		return;
	export->instant_ns = INT64_MIN;
	if (!continued)
		stack = intern_stack(trace, stack_of(cache, item));
	packet = sequence_packet(trace, ts);
	name = name_of(export, cache, item);
	event = open_event(trace, SLICE_BEGIN, 0, name, cache->category);
	if (continued)
		arg_bool(trace, "continued", true);
	else if (item->inflight)
		arg_bool(trace, "did_not_return", true);
	else
		args_event(trace, cache, &item->event);
	if (!continued && !item->inflight)
		put_place(trace, cache, item);
	if (!continued)
		put_flow(export, cache, item);
	if (stack)
		pb_TrackEvent_callstack_iid(&trace->pb, stack);
	pb_end(&trace->pb, event);
	sequence_packet_end(trace, packet);
	if (!continued && item_waits(item, cache->cls))
		begin_synchronization(export, cache, item, ts, name, stack);
}

static void put_end(struct trace *trace, int64_t ts, uint64_t track, bool open)
{
	uint8_t *packet = sequence_packet(trace, ts);
	uint8_t *event = open_event(trace, SLICE_END, track, 0, 0);

	if (open)
		arg_bool(trace, "open_at_end", true);
	pb_end(&trace->pb, event);
	sequence_packet_end(trace, packet);
}

static void on_end(void *user, const struct nest_item *item, int64_t ts, int64_t piece_begin,
		   unsigned flags)
{
	struct thread_export *export = user;
	const struct type_cache *cache = type_of(export->trace, item->event.type);

	(void)piece_begin;
	if (!cache)
		return;
	export->instant_ns = INT64_MIN;
	put_end(export->trace, ts, 0, flags & NEST_OPEN);
	if (item_waits(item, cache->cls))
		put_end(export->trace, ts, export->synchronizations, false);
}

static void on_instant(void *user, const struct nest_item *item)
{
	struct thread_export *export = user;
	struct trace *trace = export->trace;
	const struct type_cache *cache = type_of(trace, item->event.type);
	int64_t ts = item->event.begin_ns;
	/* Perfetto nests an instant in another of the same time, and drops what is 512 deep: a batch
	 * of completions is told as slices of no length where it would. */
	bool pair = export->instant_ns == ts;
	uint32_t stack;
	uint8_t *packet, *event;

	if (!cache)
		return;
	export->instant_ns = pair ? INT64_MIN : ts;
	stack = intern_stack(trace, stack_of(cache, item));
	packet = sequence_packet(trace, ts);
	event = open_event(trace, pair ? SLICE_BEGIN : INSTANT, 0, name_of(export, cache, item),
			   cache->category);
	args_event(trace, cache, &item->event);
	put_flow(export, cache, item);
	if (stack)
		pb_TrackEvent_callstack_iid(&trace->pb, stack);
	pb_end(&trace->pb, event);
	sequence_packet_end(trace, packet);
	if (pair)
		put_end(trace, ts, 0, false);
}

/* The track of a free lane beside the thread, declared if it is new. */
static uint64_t lane_beside(struct thread_export *export, struct lanes *lanes, enum track_kind kind,
			    const char *name, const struct trace_event *event)
{
	uint64_t parent = uuid_process(export->process), uuid;
	uint32_t before = lanes->count;
	int64_t lane = lanes_take(lanes, event->begin_ns, event->end_ns);

	if (lane < 0)
		return 0;
	uuid = uuid_track(uuid_track(parent, kind, (uint64_t)lane), TRACK_LANE,
			  (uint64_t) export->process->threads[export->thread].unique_tid);
	if (lane == before)
		describe_track(export->trace, uuid, parent, name);
	return uuid;
}

static void put_run(struct thread_export *export, const struct type_cache *cache,
		    const struct nest_item *item, uint64_t track, bool waiting, uint32_t stack)
{
	struct trace *trace = export->trace;
	uint8_t *packet, *event;

	if (!track)
		return;
	packet = sequence_packet(trace, item->event.begin_ns);
	event = open_event(trace, SLICE_BEGIN, track, name_of(export, cache, item),
			   cache->category);
	if (waiting)
		put_synchronization_args(trace, cache, &export->process->threads[export->thread],
					 item);
	else
		args_event(trace, cache, &item->event);
	if (stack)
		pb_TrackEvent_callstack_iid(&trace->pb, stack);
	pb_end(&trace->pb, event);
	sequence_packet_end(trace, packet);
	put_end(trace, item->event.end_ns, track, false);
}

static void on_run(void *user, const struct trace_event *event)
{
	struct thread_export *export = user;
	struct trace *trace = export->trace;
	const struct type_cache *cache = type_of(trace, event->type);
	struct nest_item item = {.event = *event};
	uint32_t stack;

	if (!cache)
		return;
	stack = intern_stack(trace, stack_of(cache, &item));
	put_run(export, cache, &item,
		lane_beside(export, &export->polls, TRACK_POLLS, "Polls", event), false, stack);
	trace->result->runs++;
	if (!item_waits(&item, cache->cls))
		return;
	put_run(export, cache, &item,
		lane_beside(export, &export->waiting_polls, TRACK_POLLS_WAITING, "Synchronizations",
			    event),
		true, stack);
	trace->result->synchronizations++;
}

static void on_thread(void *user, unsigned thread)
{
	struct thread_export *export = user;
	int64_t first_ns, last_ns, realtime_ns;

	model_bounds(export->trace->model, &first_ns, &last_ns, &realtime_ns);
	export->thread = thread;
	export->synchronizations = 0;
	lanes_done(&export->polls);
	lanes_done(&export->waiting_polls);
	export->instant_ns = INT64_MIN;
	describe_thread(export->trace, export->process, thread);
	sequence_begin(export->trace, export->process->index, first_ns,
		       uuid_thread(export->process, thread));
}

static int on_check(void *user, unsigned done)
{
	const struct thread_export *export = user;
	const struct export_options *options = export->trace->options;
	uint64_t count = model_process_count(export->trace->model);

	if (export->trace->output.error || !options->progress)
		return export->trace->output.error;
	done = (unsigned)((export->process->index * 1000ull + done) / count);
	return options->progress(options->user, done) ? -EINTR : 0;
}

static const struct walk_ops callbacks = {
	.thread = on_thread,
	.nest = {on_begin, on_end, on_instant},
	.run = on_run,
	.check = on_check,
};

/* Whether the job was to record what devices did. */
static bool records_devices(const struct trace_info *info)
{
	for (unsigned i = 0; i < info->attribute_count; i++) {
		if (!strcmp(info->attributes[i][0], "cupti"))
			return !strncmp(info->attributes[i][1], "on", 2);
	}
	return false;
}

int export_threads(struct trace *trace, unsigned index, bool *merged)
{
	struct thread_export export = {.trace = trace,
				       .process = model_process(trace->model, index)};
	struct nest_counts counts = {0};
	int error;

	export.gpu = records_devices(&export.process->info);
	error = walk_threads(trace->model, index, trace->options->selection, &callbacks, &export,
			     &counts, merged);

	lanes_done(&export.polls);
	lanes_done(&export.waiting_polls);
	trace->result->slices += counts.slices;
	trace->result->instants += counts.instants;
	trace->result->split += counts.split;
	trace->result->too_deep += counts.too_deep;
	return error;
}
