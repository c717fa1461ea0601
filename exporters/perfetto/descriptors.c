/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands at the head of a trace: clocks, processes, threads, tracks, facts.
 */
#include "exporters/model/text.h"
#include "exporters/perfetto/trace.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 4096

/* A text field, as valid UTF-8 of bounded length. */
static void put_text(struct pb *pb, void (*set)(struct pb *, const void *, size_t),
		     const char *text)
{
	char clean[TEXT_MAX];

	set(pb, clean, text_clean(clean, sizeof(clean), text, strlen(text)));
}

static void put_clock(struct pb *pb, uint64_t id, int64_t timestamp)
{
	uint8_t *clock = pb_ClockSnapshot_clocks(pb);

	pb_Clock_clock_id(pb, id);
	pb_Clock_timestamp(pb, (uint64_t)timestamp);
	pb_end(pb, clock);
}

/* One sequence for what belongs to none: its packets carry no time. */
static void describe_clocks(struct trace *trace)
{
	struct trace_clock clock = model_reference(trace->model);
	struct pb *pb = &trace->pb;
	uint8_t *packet = packet_begin(trace), *snapshot;

	snapshot = pb_TracePacket_clock_snapshot(pb);
	put_clock(pb, CLOCK_ID_REALTIME, clock.realtime_ns);
	put_clock(pb, CLOCK_ID_MONOTONIC, clock.monotonic_ns);
	put_clock(pb, CLOCK_ID_BOOTTIME, clock.boottime_ns);
	pb_ClockSnapshot_primary_trace_clock(pb, CLOCK_ID_BOOTTIME);
	pb_end(pb, snapshot);
	packet_end(trace, packet);
}

/* --- attributes --------------------------------------------------------------------------------- */

static void put_attribute(struct trace *trace, const char *key, const char *text, int64_t number)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet = packet_begin(trace);
	uint8_t *attributes = pb_TracePacket_trace_attributes(pb);
	uint8_t *attribute = pb_TraceAttributes_attribute(pb);

	put_text(pb, pb_TraceAttribute_key, key);
	if (text)
		put_text(pb, pb_TraceAttribute_string_value, text);
	else
		pb_TraceAttribute_long_value(pb, number);
	pb_end(pb, attribute);
	pb_end(pb, attributes);
	packet_end(trace, packet);
}

static void process_attribute(struct trace *trace, const struct model_process *process,
			      const char *key, const char *text, int64_t number)
{
	char full[256];

	snprintf(full, sizeof(full), "process.%lld.%s", (long long)process->unique_pid, key);
	put_attribute(trace, full, text, number);
}

static void describe_attributes(struct trace *trace)
{
	put_attribute(trace, "waylay.version", WAYLAY_VERSION, 0);
	put_attribute(trace, "waylay.run", model_run(trace->model), 0);
	put_attribute(trace, "waylay.processes", NULL, model_process_count(trace->model));
	put_attribute(trace, "waylay.hosts", NULL, model_host_count(trace->model));
	for (unsigned i = 0; i < model_note_count(trace->model); i++) {
		char key[32];

		snprintf(key, sizeof(key), "waylay.note.%u", i);
		put_attribute(trace, key, model_note(trace->model, i), 0);
	}
}

/* A fact that was said again later: the last word counts. */
static bool said_again(const struct trace_info *info, unsigned index)
{
	for (unsigned i = index + 1; i < info->attribute_count; i++) {
		if (!strcmp(info->attributes[i][0], info->attributes[index][0]))
			return true;
	}
	return false;
}

static void describe_facts(struct trace *trace, const struct model_process *process)
{
	const struct trace_info *info = &process->info;
	char key[128];

	process_attribute(trace, process, "command", info->command, 0);
	process_attribute(trace, process, "host", info->host, 0);
	process_attribute(trace, process, "pid", NULL, info->pid);
	if (info->rank >= 0)
		process_attribute(trace, process, "rank", NULL, info->rank);
	if (info->world_size >= 0)
		process_attribute(trace, process, "world_size", NULL, info->world_size);
	process_attribute(trace, process, "recording", info->path, 0);
	process_attribute(trace, process, "ended", NULL, info->ended);
	if (info->simulated)
		process_attribute(trace, process, "simulated", NULL, 1);
	if (info->damaged)
		process_attribute(trace, process, "damage", info->damage, 0);
	if (!process->aligned)
		process_attribute(trace, process, "clock", "not aligned", 0);
	for (unsigned i = 0; i < TRACE_DROP_MAX; i++) {
		if (!info->drops[i])
			continue;
		snprintf(key, sizeof(key), "drops.%s", trace_drop_name((enum trace_drop)i));
		process_attribute(trace, process, key, NULL, (int64_t)info->drops[i]);
	}
	for (unsigned i = 0; i < info->attribute_count; i++) {
		if (!strcmp(info->attributes[i][0], "command") || said_again(info, i))
			continue;
		snprintf(key, sizeof(key), "attribute.%s", info->attributes[i][0]);
		process_attribute(trace, process, key, info->attributes[i][1], 0);
	}
}

/* --- tracks ------------------------------------------------------------------------------------- */

void describe_trace(struct trace *trace)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet, *descriptor;

	describe_clocks(trace);
	describe_attributes(trace);
	/* Track 0 says how processes are ordered: by rank, as the model has them. */
	packet = packet_begin(trace);
	descriptor = pb_TracePacket_track_descriptor(pb);
	pb_TrackDescriptor_uuid(pb, 0);
	pb_TrackDescriptor_process_ordering(pb, 1);
	pb_end(pb, descriptor);
	packet_end(trace, packet);
}

static void put_labels(struct trace *trace, const struct model_process *process)
{
	struct pb *pb = &trace->pb;
	char text[128];

	if (*process->label)
		put_text(pb, pb_ProcessDescriptor_process_labels, process->label);
	if (process->info.simulated)
		put_text(pb, pb_ProcessDescriptor_process_labels, "simulated driver");
	if (process->drops_lost) {
		snprintf(text, sizeof(text), "INCOMPLETE: %llu records dropped",
			 (unsigned long long)process->drops_lost);
		put_text(pb, pb_ProcessDescriptor_process_labels, text);
	}
	if (process->info.damaged)
		put_text(pb, pb_ProcessDescriptor_process_labels, "INCOMPLETE: recording damaged");
}

void describe_process(struct trace *trace, const struct model_process *process)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet = packet_begin(trace), *descriptor, *nested;
	const char *name = process->info.process_name;
	char full[512];

	if (!*name)
		name = "process";
	if (*process->label)
		snprintf(full, sizeof(full), "%s (%s)", name, process->label);
	else
		snprintf(full, sizeof(full), "%s", name);
	descriptor = pb_TracePacket_track_descriptor(pb);
	pb_TrackDescriptor_uuid(pb, uuid_process(process));
	nested = pb_TrackDescriptor_process(pb);
	pb_ProcessDescriptor_pid(pb, process->unique_pid);
	put_text(pb, pb_ProcessDescriptor_cmdline, process->info.command);
	put_text(pb, pb_ProcessDescriptor_process_name, full);
	pb_ProcessDescriptor_start_timestamp_ns(pb, model_time(process, process->info.start_ns));
	put_labels(trace, process);
	pb_end(pb, nested);
	pb_TrackDescriptor_sibling_order_rank(pb, (int64_t)process->index);
	pb_end(pb, descriptor);
	packet_end(trace, packet);
	describe_facts(trace, process);
}

void describe_thread(struct trace *trace, const struct model_process *process, unsigned thread)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet = packet_begin(trace), *descriptor, *nested;
	const char *name = process->threads[thread].info.name;

	descriptor = pb_TracePacket_track_descriptor(pb);
	pb_TrackDescriptor_uuid(pb, uuid_thread(process, thread));
	nested = pb_TrackDescriptor_thread(pb);
	pb_ThreadDescriptor_pid(pb, process->unique_pid);
	pb_ThreadDescriptor_tid(pb, process->threads[thread].unique_tid);
	if (*name)
		put_text(pb, pb_ThreadDescriptor_thread_name, name);
	pb_end(pb, nested);
	pb_end(pb, descriptor);
	packet_end(trace, packet);
}

void describe_track(struct trace *trace, uint64_t uuid, uint64_t parent, const char *name)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet = packet_begin(trace);
	uint8_t *descriptor = pb_TracePacket_track_descriptor(pb);

	pb_TrackDescriptor_uuid(pb, uuid);
	pb_TrackDescriptor_parent_uuid(pb, parent);
	put_text(pb, pb_TrackDescriptor_name, name);
	pb_end(pb, descriptor);
	packet_end(trace, packet);
}

void describe_counter(struct trace *trace, uint64_t uuid, uint64_t parent, const char *name,
		      enum counter_unit unit)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet = packet_begin(trace);
	uint8_t *descriptor = pb_TracePacket_track_descriptor(pb), *counter;

	pb_TrackDescriptor_uuid(pb, uuid);
	pb_TrackDescriptor_parent_uuid(pb, parent);
	put_text(pb, pb_TrackDescriptor_name, name);
	counter = pb_TrackDescriptor_counter(pb);
	pb_CounterDescriptor_unit(pb, unit);
	pb_end(pb, counter);
	pb_end(pb, descriptor);
	packet_end(trace, packet);
}
