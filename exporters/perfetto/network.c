/* SPDX-License-Identifier: Apache-2.0
 *
 * What no single thread shows: transfers from post to completion, registrations from birth to close,
 * ranges across threads, and the counters that follow from them. One merged pass over a process.
 */
#include "exporters/exporters.h"
#include "exporters/model/walk.h"
#include "exporters/perfetto/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tracks of one name under one parent, as many as its slices need. */
struct lane_group {
	uint64_t key;
	enum track_kind kind;
	uint64_t parent;
	uint64_t base; /* of its lanes' uuids */
	char name[128];
	struct lanes lanes;
	int64_t last_lane; /* and its uuid: mostly it is the same again */
	uint64_t last_uuid;
};

struct network_export {
	struct trace *trace;
	const struct model_process *process;
	struct lane_group *groups;
	unsigned group_count, group_capacity, group_last;
	bool network_declared;
	int64_t bytes_in_flight, bytes_posted, registered_bytes, registrations;
	uint64_t counters;                                /* bit by track_kind: declared */
	int64_t counter_ns[TRACK_REGISTRATIONS_LIVE + 1]; /* of the newest value shown */
	unsigned records;                                 /* since it was asked whether to stop */
	int error;
};

static bool is_receive(const struct trace_event *post)
{
	unsigned op = (unsigned)MODEL_ARG(post, ofi_post, op);

	return op == WL_ofi_op_recv || op == WL_ofi_op_trecv;
}

/* --- lanes -------------------------------------------------------------------------------------- */

static struct lane_group *group_find(struct network_export *export, enum track_kind kind,
				     uint64_t key)
{
	/* Mostly it is the one that was asked for last. */
	for (unsigned i = 0, at = export->group_last; i < export->group_count; i++, at++) {
		struct lane_group *group;

		if (at >= export->group_count)
			at = 0;
		group = &export->groups[at];
		if (group->key == key && group->kind == kind) {
			export->group_last = at;
			return group;
		}
	}
	return NULL;
}

static struct lane_group *group_add(struct network_export *export, enum track_kind kind,
				    uint64_t key, uint64_t parent, const char *name)
{
	struct lane_group *group;

	if (export->group_count == export->group_capacity) {
		unsigned capacity = export->group_capacity ? export->group_capacity * 2 : 8;
		struct lane_group *more = realloc(export->groups, capacity * sizeof(*more));

		if (!more)
			return NULL;
		export->groups = more;
		export->group_capacity = capacity;
	}
	group = &export->groups[export->group_count++];
	memset(group, 0, sizeof(*group));
	group->key = key;
	group->kind = kind;
	group->parent = parent;
	group->base = uuid_track(uuid_process(export->process), kind, key);
	group->last_lane = -1;
	snprintf(group->name, sizeof(group->name), "%s", name);
	return group;
}

static struct lane_group *group_of(struct network_export *export, enum track_kind kind,
				   uint64_t key, uint64_t parent, const char *name)
{
	struct lane_group *group = group_find(export, kind, key);

	return group ? group : group_add(export, kind, key, parent, name);
}

/* The track of a free lane, declared if it is new; 0 on failure. */
static uint64_t lane_track(struct network_export *export, struct lane_group *group,
			   int64_t begin_ns, int64_t end_ns)
{
	uint32_t before;
	int64_t lane;

	if (!group) {
		export->error = -ENOMEM;
		return 0;
	}
	before = group->lanes.count;
	lane = lanes_take(&group->lanes, begin_ns, end_ns);
	if (lane < 0) {
		export->error = -ENOMEM;
		return 0;
	}
	if (lane != group->last_lane) {
		group->last_lane = lane;
		group->last_uuid = uuid_track(group->base, TRACK_LANE, (uint64_t)lane);
	}
	if (lane == before)
		describe_track(export->trace, group->last_uuid, group->parent, group->name);
	return group->last_uuid;
}

static uint8_t *open_slice(struct network_export *export, uint64_t track, int64_t ts, uint32_t name,
			   enum wl_category category, uint8_t **packet)
{
	struct trace *trace = export->trace;
	uint32_t iid = intern_constant(trace, SPACE_CATEGORIES, wl_category_name(category));
	uint8_t *event;

	*packet = sequence_packet(trace, ts);
	event = pb_TracePacket_track_event(&trace->pb);
	pb_TrackEvent_type(&trace->pb, SLICE_BEGIN);
	pb_TrackEvent_track_uuid(&trace->pb, track);
	pb_TrackEvent_name_iid(&trace->pb, name);
	pb_TrackEvent_category_iids(&trace->pb, iid);
	return event;
}

static void close_slice(struct trace *trace, uint8_t *packet, uint8_t *event)
{
	pb_end(&trace->pb, event);
	sequence_packet_end(trace, packet);
}

/* The arrow from a send to its receive: from the begin of the one to the end of the other, for a receive
 * is often posted first. */
#define MESSAGE_FLOW(message) ((message) | 1ull << 63)

static void put_end_of(struct trace *trace, uint64_t track, int64_t ts, uint64_t flow)
{
	uint8_t *packet = sequence_packet(trace, ts);
	uint8_t *event = pb_TracePacket_track_event(&trace->pb);

	pb_TrackEvent_type(&trace->pb, SLICE_END);
	pb_TrackEvent_track_uuid(&trace->pb, track);
	if (flow)
		pb_TrackEvent_flow_ids(&trace->pb, flow);
	close_slice(trace, packet, event);
}

static void put_end(struct trace *trace, uint64_t track, int64_t ts)
{
	put_end_of(trace, track, ts, 0);
}

static uint32_t name_of(struct trace *trace, const struct trace_event *event, unsigned api)
{
	return event->args[api] ? intern_string(trace, SPACE_NAMES, (uint32_t)event->args[api],
						event->type->name)
				: intern_constant(trace, SPACE_NAMES, event->type->name);
}

/* --- counters ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum counter_unit unit;
	enum wl_category category;
} counter_tracks[] = {
	[TRACK_BYTES_IN_FLIGHT] = {"Bytes in flight", UNIT_BYTES, WL_CAT_ofi_xfer},
	[TRACK_BYTES_POSTED] = {"Receive bytes posted", UNIT_BYTES, WL_CAT_ofi_xfer},
	[TRACK_REGISTERED_BYTES] = {"Registered bytes", UNIT_BYTES, WL_CAT_ofi_mr},
	[TRACK_REGISTRATIONS_LIVE] = {"Live registrations", UNIT_COUNT, WL_CAT_ofi_mr},
};

static void put_counter(struct network_export *export, enum track_kind kind, int64_t ts,
			int64_t value)
{
	struct trace *trace = export->trace;
	uint64_t parent = uuid_process(export->process), uuid = uuid_track(parent, kind, 0);
	uint8_t *packet, *event;

	if (!select_counter(trace->options->selection, export->process->index,
			    counter_tracks[kind].category, ts, &export->counter_ns[kind]))
		return;
	if (!(export->counters & 1ull << kind)) {
		export->counters |= 1ull << kind;
		describe_counter(trace, uuid, parent, counter_tracks[kind].name,
				 counter_tracks[kind].unit);
	}
	packet = sequence_packet(trace, ts);
	event = pb_TracePacket_track_event(&trace->pb);
	pb_TrackEvent_type(&trace->pb, COUNTER);
	pb_TrackEvent_track_uuid(&trace->pb, uuid);
	pb_TrackEvent_counter_value(&trace->pb, value);
	close_slice(trace, packet, event);
	trace->result->counters++;
}

static void count_bytes(struct network_export *export, const struct trace_event *post, int64_t ts,
			int sign)
{
	int64_t bytes = counted_bytes(MODEL_ARG(post, ofi_post, bytes)) * sign;

	if (!bytes)
		return;
	if (is_receive(post)) {
		export->bytes_posted += bytes;
		put_counter(export, TRACK_BYTES_POSTED, ts, export->bytes_posted);
	} else {
		export->bytes_in_flight += bytes;
		put_counter(export, TRACK_BYTES_IN_FLIGHT, ts, export->bytes_in_flight);
	}
}

static void on_posted(void *user, const struct trace_event *post)
{
	struct network_export *export = user;

	count_bytes(export, post, model_time(export->process, post->end_ns), 1);
}

/* --- transfers ---------------------------------------------------------------------------------- */

static const char *how_text(const struct model_transfer *transfer)
{
	switch (transfer->how) {
	case MODEL_TRANSFER_COMPLETED:
		return transfer->exact ? "completion, exact" : "completion, first in first out";
	case MODEL_TRANSFER_AT_RETURN:
		return "at return, no completion entry";
	case MODEL_TRANSFER_UNFINISHED:
		return "not completed when the recording or the endpoint ended";
	default:
		return "given up: too many operations outstanding";
	}
}

static void put_transfer_args(struct trace *trace, const struct model_transfer *transfer)
{
	const struct trace_event *post = &transfer->post;

	if (trace->options->no_args)
		return;
	arg_uint(trace, "bytes", transfer->bytes);
	if (is_receive(post))
		arg_uint(trace, "posted_bytes", MODEL_ARG(post, ofi_post, bytes));
	arg_uint(trace, "peer", MODEL_ARG(post, ofi_post, peer));
	arg_pointer(trace, "tag", MODEL_ARG(post, ofi_post, tag));
	arg_pointer(trace, "addr", MODEL_ARG(post, ofi_post, addr));
	arg_pointer(trace, "context", MODEL_ARG(post, ofi_post, context));
	arg_text(trace, "matched", how_text(transfer));
	if (MODEL_ARG(post, ofi_post, retries))
		arg_uint(trace, "retries", MODEL_ARG(post, ofi_post, retries));
	if (transfer->failed)
		arg_int(trace, "status", transfer->status);
	if (transfer->multi)
		arg_bool(trace, "multi_receive", true);
}

static struct lane_group *endpoint_group(struct network_export *export, uint64_t endpoint,
					 uint32_t provider)
{
	struct lane_group *group = group_find(export, TRACK_NETWORK, endpoint);
	uint64_t process, network;
	const char *text;
	char name[128];

	if (group)
		return group;
	process = uuid_process(export->process);
	network = uuid_track(process, TRACK_NETWORK, 0);
	text = model_string(export->trace->model, export->process->index, provider);
	if (!export->network_declared) {
		export->network_declared = true;
		describe_track(export->trace, network, process, "Network");
	}
	snprintf(name, sizeof(name), "Endpoint %#llx%s%s", (unsigned long long)endpoint,
		 *text ? " " : "", text);
	return group_add(export, TRACK_NETWORK, endpoint, network, name);
}

/* Whether a record of the transfer's is shown on its thread, for an arrow to end at. */
static bool record_shown(const struct network_export *export, enum wl_category category,
			 int64_t begin_ns, int64_t end_ns)
{
	return select_keeps(export->trace->options->selection, export->process->index, category,
			    begin_ns, end_ns);
}

static void put_transfer_flows(struct network_export *export, const struct model_transfer *transfer,
			       int64_t begin, int64_t end)
{
	struct trace *trace = export->trace;
	const struct trace_event *post = &transfer->post;

	if (record_shown(export, WL_CAT_ofi_xfer, begin,
			 model_time(export->process, post->end_ns))) {
		pb_TrackEvent_flow_ids(&trace->pb, flow_id(export->process, FLOW_POST, post->thread,
							   transfer->post_ordinal));
		trace->result->flows++;
	}
	if (transfer->message && !is_receive(post))
		pb_TrackEvent_flow_ids(&trace->pb, MESSAGE_FLOW(transfer->message));
	if (transfer->how == MODEL_TRANSFER_COMPLETED &&
	    record_shown(export, WL_CAT_ofi_cq, end, end)) {
		pb_TrackEvent_flow_ids(&trace->pb, flow_id(export->process, FLOW_COMPLETION,
							   transfer->completion_thread,
							   transfer->completion_ordinal));
		trace->result->flows++;
	}
}

static void put_transfer(struct network_export *export, const struct model_transfer *transfer,
			 int64_t begin, int64_t end)
{
	struct trace *trace = export->trace;
	const struct trace_event *post = &transfer->post;
	struct lane_group *group =
		endpoint_group(export, MODEL_ARG(post, ofi_post, ep), transfer->provider);
	uint64_t track = lane_track(export, group, begin, end);
	uint8_t *packet, *event;
	uint32_t name;
	bool arrives;

	if (!track)
		return;
	name = name_of(trace, post, WL_ARG(ofi_post, api));
	event = open_slice(export, track, begin, name, WL_CAT_ofi_xfer, &packet);
	put_transfer_args(trace, transfer);
	put_transfer_flows(export, transfer, begin, end);
	close_slice(trace, packet, event);
	arrives =
		transfer->message && is_receive(post) && transfer->how == MODEL_TRANSFER_COMPLETED;
	put_end_of(trace, track, end, arrives ? MESSAGE_FLOW(transfer->message) : 0);
	trace->result->messages += arrives;
	trace->result->transfers++;
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct network_export *export = user;
	int64_t begin = model_time(export->process, transfer->post.begin_ns);
	int64_t end = model_time(export->process, transfer->end_ns);

	if (select_takes(export->trace->options->selection, export->process->index, WL_CAT_ofi_xfer,
			 begin, end))
		put_transfer(export, transfer, begin, end);
	if (transfer->counted)
		count_bytes(export, &transfer->post, end, -1);
}

/* --- registrations and ranges ------------------------------------------------------------------- */

static void count_registration(struct network_export *export, const struct trace_event *reg,
			       int64_t ts, int sign)
{
	export->registered_bytes += counted_bytes(MODEL_ARG(reg, ofi_mr_reg, bytes)) * sign;
	export->registrations += sign;
	put_counter(export, TRACK_REGISTERED_BYTES, ts, export->registered_bytes);
	put_counter(export, TRACK_REGISTRATIONS_LIVE, ts, export->registrations);
}

static void on_registered(void *user, const struct model_registration *registration)
{
	struct network_export *export = user;

	count_registration(export, &registration->reg,
			   model_time(export->process, registration->reg.end_ns), 1);
}

static void put_registration(struct network_export *export,
			     const struct model_registration *registration, int64_t begin,
			     int64_t end)
{
	struct trace *trace = export->trace;
	const struct trace_event *reg = &registration->reg;
	const struct type_cache *cache;
	struct lane_group *group = group_of(export, TRACK_REGISTRATIONS, 0,
					    uuid_process(export->process), "Memory registrations");
	uint64_t track = lane_track(export, group, begin, end);
	uint8_t *packet, *event;
	uint32_t name, stack;

	cache = type_of(trace, reg->type);
	if (!track || !cache)
		return;
	stack = intern_stack(trace, (uint32_t)MODEL_ARG(reg, ofi_mr_reg, stack));
	name = name_of(trace, reg, WL_ARG(ofi_mr_reg, api));
	event = open_slice(export, track, begin, name, WL_CAT_ofi_mr, &packet);
	args_event(trace, cache, reg);
	if (!trace->options->no_args)
		arg_bool(trace, "closed", registration->closed);
	if (stack)
		pb_TrackEvent_callstack_iid(&trace->pb, stack);
	close_slice(trace, packet, event);
	put_end(trace, track, end);
	trace->result->registrations++;
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct network_export *export = user;
	int64_t begin = model_time(export->process, registration->reg.begin_ns);
	int64_t end = model_time(export->process, registration->end_ns);

	if (select_shows(export->trace->options->selection, export->process->index, WL_CAT_ofi_mr,
			 begin, end))
		put_registration(export, registration, begin, end);
	count_registration(export, &registration->reg, end, -1);
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct network_export *export = user;
	struct trace *trace = export->trace;
	int64_t begin = model_time(export->process, range->begin_ns);
	int64_t end = model_time(export->process, range->end_ns);
	struct lane_group *group;
	uint8_t *packet, *event;
	uint64_t track;
	char name[128];

	if (!range->across || /* shown on its thread */
	    !select_shows(trace->options->selection, export->process->index, WL_CAT_nvtx, begin,
			  end))
		return;
	snprintf(name, sizeof(name), "Ranges%s%s", *range->domain ? ": " : "", range->domain);
	group = group_of(export, TRACK_RANGES, range->domain_id, uuid_process(export->process),
			 name);
	track = lane_track(export, group, begin, end);
	if (!track)
		return;
	event = open_slice(
		export, track, begin,
		intern_constant(trace, SPACE_NAMES, *range->name ? range->name : "nvtx_start"),
		WL_CAT_nvtx, &packet);
	if (!range->closed)
		arg_bool(trace, "open_at_end", true);
	close_slice(trace, packet, event);
	put_end(trace, track, end);
	trace->result->ranges_across++;
}

static void on_activity(void *user, const struct model_activity *activity)
{
	struct network_export *export = user;
	const struct trace_event *event = &activity->event;

	if (select_takes(export->trace->options->selection, export->process->index, WL_CAT_gpu,
			 model_time(export->process, event->begin_ns),
			 model_time(export->process, event->end_ns)))
		export_activity(export->trace, export->process, activity);
}

static const struct model_match_ops match_callbacks = {
	.posted = on_posted,
	.transfer = on_transfer,
	.registered = on_registered,
	.unregistered = on_unregistered,
	.range_end = on_range_end,
	.activity = on_activity,
};

static int on_stop(void *user)
{
	struct network_export *export = user;
	const struct output *output = &export->trace->output;

	if (++export->records % WALK_CHECK_EVERY == 0 && output_stopped(output))
		return -EINTR;
	return export->error ? export->error : output->error;
}

int export_network(struct trace *trace, unsigned index)
{
	struct network_export export = {.trace = trace,
					.process = model_process(trace->model, index)};
	int64_t first_ns, last_ns, realtime_ns;
	int error;

	for (unsigned i = 0; i <= TRACK_REGISTRATIONS_LIVE; i++)
		export.counter_ns[i] = INT64_MIN;
	model_bounds(trace->model, &first_ns, &last_ns, &realtime_ns);
	sequence_begin(trace, index, first_ns, 0);
	error = walk_merged(trace->model, index, &match_callbacks, &export, on_stop,
			    &trace->result->match);
	for (unsigned i = 0; i < export.group_count; i++)
		lanes_done(&export.groups[i].lanes);
	free(export.groups);
	return error;
}
