/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets, sequences and interning.
 */
#include "exporters/perfetto/trace.h"

#include "exporters/model/match.h"
#include "exporters/model/text.h"
#include "exporters/perfetto/compress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (1u << 20)
#define SIDE_BYTES   (1u << 18)
#define ROOM_BYTES   (SIDE_BYTES + (1u << 16)) /* what one packet may need */
#define TEXT_MAX     4096u                     /* longer texts are cut */

/* --- the file ----------------------------------------------------------------------------------- */

static void trace_free(struct trace *trace)
{
	for (unsigned i = 0; i < SPACE_MAX; i++)
		number_map_done(&trace->spaces[i]);
	number_map_done(&trace->type_index);
	free(trace->types);
	free(trace->buffer);
	free(trace->side_buffer);
	compressor_free(trace->compressor);
}

int trace_open(struct trace *trace, struct model *model, const char *path,
	       const struct export_options *options, struct export_result *result, char *err,
	       size_t err_size)
{
	bool compress = options->compress != EXPORT_COMPRESS_NONE;
	int error = 0;

	memset(trace, 0, sizeof(*trace));
	trace->model = model;
	trace->options = options;
	trace->result = result;
	trace->buffer = malloc(BUFFER_BYTES);
	trace->side_buffer = malloc(SIDE_BYTES);
	if (compress)
		trace->compressor = compressor_new(options->compress, BUFFER_BYTES, &error);
	if (!trace->buffer || !trace->side_buffer)
		error = -ENOMEM;
	for (unsigned i = 0; i < SPACE_MAX && !error; i++)
		error = number_map_init(&trace->spaces[i]);
	if (!error)
		error = number_map_init(&trace->type_index);
	if (error)
		snprintf(err, err_size, "writing %s: %s", path,
			 error == -ENOTSUP
				 ? "this build has no zstd: install libzstd-dev and build "
				   "again, or use --compress=deflate"
				 : strerror(-error));
	else
		error = output_open(&trace->output, path, options, err, err_size);
	if (error) {
		trace_free(trace);
		return error;
	}
	pb_init(&trace->pb, trace->buffer, BUFFER_BYTES);
	pb_init(&trace->side, trace->side_buffer, SIDE_BYTES);
	return 0;
}

static void flush(struct trace *trace)
{
	size_t bytes = pb_used(&trace->pb);

	if (!bytes)
		return;
	if (trace->compressor)
		compressor_write(trace->compressor, &trace->output, trace->buffer, bytes);
	else
		output_write(&trace->output, trace->buffer, bytes);
	pb_init(&trace->pb, trace->buffer, BUFFER_BYTES);
}

int trace_close(struct trace *trace, int error, char *err, size_t err_size)
{
	if (!error)
		flush(trace);
	trace->result->bytes = trace->output.bytes;
	error = output_close(&trace->output, error, err, err_size);
	trace_free(trace);
	return error;
}

uint8_t *packet_begin(struct trace *trace)
{
	if (pb_left(&trace->pb) < ROOM_BYTES)
		flush(trace);
	return pb_Trace_packet(&trace->pb);
}

void packet_end(struct trace *trace, uint8_t *packet)
{
	pb_end(&trace->pb, packet);
}

/* --- sequences ---------------------------------------------------------------------------------- */

static void clock_put(struct pb *pb, uint64_t id, int64_t timestamp, bool incremental)
{
	uint8_t *clock = pb_ClockSnapshot_clocks(pb);

	pb_Clock_clock_id(pb, id);
	pb_Clock_timestamp(pb, (uint64_t)timestamp);
	if (incremental)
		pb_Clock_is_incremental(pb, 1);
	pb_end(pb, clock);
}

void sequence_begin(struct trace *trace, unsigned process, int64_t first_ns, uint64_t track_uuid)
{
	struct pb *pb = &trace->pb;
	uint8_t *packet, *nested, *inner;

	trace->gpu_base += trace->spaces[SPACE_GPU].count;
	for (unsigned i = 0; i < SPACE_MAX; i++)
		number_map_clear(&trace->spaces[i]);
	number_map_clear(&trace->type_index);
	trace->type_count = 0;
	trace->sequence++;
	trace->process = process;
	trace->last_ts = first_ns;

	packet = packet_begin(trace);
	pb_TracePacket_trusted_packet_sequence_id(pb, trace->sequence);
	pb_TracePacket_sequence_flags(pb, SEQUENCE_CLEARED);
	pb_TracePacket_first_packet_on_sequence(pb, 1);
	nested = pb_TracePacket_trace_packet_defaults(pb);
	pb_TracePacketDefaults_timestamp_clock_id(pb, CLOCK_ID_INCREMENTAL);
	if (track_uuid) {
		inner = pb_TracePacketDefaults_track_event_defaults(pb);
		pb_TrackEventDefaults_track_uuid(pb, track_uuid);
		pb_end(pb, inner);
	}
	pb_end(pb, nested);
	nested = pb_TracePacket_clock_snapshot(pb);
	clock_put(pb, CLOCK_ID_BOOTTIME, first_ns, false);
	clock_put(pb, CLOCK_ID_INCREMENTAL, first_ns, true);
	pb_ClockSnapshot_primary_trace_clock(pb, CLOCK_ID_BOOTTIME);
	pb_end(pb, nested);
	packet_end(trace, packet);
}

uint8_t *sequence_packet(struct trace *trace, int64_t ts)
{
	uint8_t *packet = packet_begin(trace);
	struct pb *pb = &trace->pb;

	pb_TracePacket_trusted_packet_sequence_id(pb, trace->sequence);
	if (__builtin_expect(ts >= trace->last_ts, 1)) {
		pb_TracePacket_timestamp(pb, (uint64_t)(ts - trace->last_ts));
		trace->last_ts = ts;
	} else {
		pb_TracePacket_timestamp(pb, (uint64_t)ts);
		pb_TracePacket_timestamp_clock_id(pb, CLOCK_ID_BOOTTIME);
	}
	return packet;
}

void sequence_packet_end(struct trace *trace, uint8_t *packet)
{
	size_t interned = pb_used(&trace->side);

	if (interned) {
		uint8_t *data = pb_TracePacket_interned_data(&trace->pb);

		memcpy(trace->pb.at, trace->side_buffer, interned);
		trace->pb.at += interned;
		pb_end(&trace->pb, data);
		pb_init(&trace->side, trace->side_buffer, SIDE_BYTES);
	}
	pb_end(&trace->pb, packet);
}

/* --- interning ---------------------------------------------------------------------------------- */

static const uint32_t space_fields[SPACE_MAX] = {
	[SPACE_NAMES] = 2,     [SPACE_CATEGORIES] = 1, [SPACE_ARG_NAMES] = 3,  [SPACE_VALUES] = 29,
	[SPACE_FUNCTIONS] = 5, [SPACE_SOURCES] = 18,   [SPACE_BUILD_IDS] = 16, [SPACE_PATHS] = 17,
	[SPACE_MAPPINGS] = 19, [SPACE_FRAMES] = 6,     [SPACE_STACKS] = 7,
};

static void put_interned(struct trace *trace, enum space space, uint32_t iid, const void *data,
			 size_t bytes)
{
	uint8_t *entry = pb_begin(&trace->side, space_fields[space]);

	pb_InternedString_iid(&trace->side, iid);
	pb_InternedString_str(&trace->side, data, bytes);
	pb_end(&trace->side, entry);
}

uint32_t intern_text(struct trace *trace, enum space space, uint64_t key, const char *text)
{
	char clean[TEXT_MAX];
	bool fresh;
	uint32_t iid = number_map_get(&trace->spaces[space], key, &fresh);

	if (fresh && iid) {
		size_t length = text_clean(clean, sizeof(clean), text, strlen(text));

		put_interned(trace, space, iid, clean, length);
	}
	return iid;
}

uint32_t intern_constant(struct trace *trace, enum space space, const char *text)
{
	return intern_text(trace, space, TEXT_KEY(text), text);
}

uint32_t intern_string(struct trace *trace, enum space space, uint32_t id, const char *fallback)
{
	bool fresh;
	uint32_t iid = number_map_get(&trace->spaces[space], STRING_KEY(id), &fresh);

	if (fresh && iid) {
		const char *text = model_string(trace->model, trace->process, id);
		char clean[TEXT_MAX];

		if (!*text && fallback)
			text = fallback;
		put_interned(trace, space, iid, clean,
			     text_clean(clean, sizeof(clean), text, strlen(text)));
	}
	return iid;
}

/* Writes the interned data gathered so far as a packet of its own, if it is much. */
static void spill(struct trace *trace)
{
	uint8_t *packet;

	if (pb_left(&trace->side) > SIDE_BYTES / 2)
		return;
	packet = packet_begin(trace);
	pb_TracePacket_trusted_packet_sequence_id(&trace->pb, trace->sequence);
	sequence_packet_end(trace, packet);
}

static uint32_t intern_mapping(struct trace *trace, const struct model_frame *frame)
{
	uint32_t path = 0, build_id = 0, iid;
	bool fresh;

	iid = number_map_get(&trace->spaces[SPACE_MAPPINGS], TEXT_KEY(frame->module), &fresh);
	if (!fresh || !iid)
		return iid;
	path = intern_constant(trace, SPACE_PATHS, frame->module);
	if (frame->build_id_bytes) {
		build_id = number_map_get(&trace->spaces[SPACE_BUILD_IDS], TEXT_KEY(frame->module),
					  &fresh);
		put_interned(trace, SPACE_BUILD_IDS, build_id, frame->build_id,
			     frame->build_id_bytes);
	}
	uint8_t *entry = pb_InternedData_mappings(&trace->side);

	pb_Mapping_iid(&trace->side, iid);
	if (build_id)
		pb_Mapping_build_id(&trace->side, build_id);
	pb_Mapping_path_string_ids(&trace->side, path);
	pb_end(&trace->side, entry);
	return iid;
}

enum frame_kind { FRAME_NATIVE = 1, FRAME_INTERPRETED = 3 };

/* What a frame is called where no symbol is known. */
static const char *frame_fallback(const struct model_frame *frame, char *buf, size_t size)
{
	const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;

	snprintf(buf, size, "%s+0x%llx",
		 slash           ? slash + 1
		 : frame->module ? frame->module
				 : "?",
		 (unsigned long long)frame->offset);
	return buf;
}

static uint32_t intern_frame(struct trace *trace, const struct model_frame *frame)
{
	/* Frames of resolved stacks live as long as the model: equal contents, not addresses, are one
	 * frame, so the key is made of what they hold (texts of the model have one address each). */
	uint64_t key =
		text_mix(TEXT_KEY(frame->function) * 31 + text_mix(TEXT_KEY(frame->file))) ^
		text_mix(frame->offset * 37 + text_mix(TEXT_KEY(frame->module) + frame->line)) ^
		frame->awaited;
	uint32_t function, source = 0, mapping = 0, iid;
	struct pb *side = &trace->side;
	char name[TEXT_MAX];
	bool fresh;

	iid = number_map_get(&trace->spaces[SPACE_FRAMES], key, &fresh);
	if (!fresh || !iid)
		return iid;
	spill(trace);
	if (frame->function && *frame->function && frame->awaited) {
		snprintf(name, sizeof(name), "%s (in the thread that waits)", frame->function);
		function = intern_text(trace, SPACE_FUNCTIONS, key | 1, name);
	} else if (frame->function && *frame->function) {
		function = intern_constant(trace, SPACE_FUNCTIONS, frame->function);
	} else {
		frame_fallback(frame, name, sizeof(name));
		function = intern_text(trace, SPACE_FUNCTIONS, key | 1, name);
	}
	if (frame->file && *frame->file)
		source = intern_constant(trace, SPACE_SOURCES, frame->file);
	if (frame->kind == TRACE_FRAME_NATIVE && frame->module && *frame->module)
		mapping = intern_mapping(trace, frame);

	uint8_t *entry = pb_InternedData_frames(side);

	pb_Frame_iid(side, iid);
	pb_Frame_function_name_id(side, function);
	if (mapping) {
		pb_Frame_mapping_id(side, mapping);
		pb_Frame_rel_pc(side, frame->offset);
	}
	if (source)
		pb_Frame_source_path_iid(side, source);
	if (frame->line)
		pb_Frame_line_number(side, frame->line);
	pb_Frame_kind(side, frame->kind == TRACE_FRAME_PYTHON ? FRAME_INTERPRETED : FRAME_NATIVE);
	pb_end(side, entry);
	return iid;
}

uint32_t intern_stack(struct trace *trace, uint32_t id)
{
	const struct model_stack *stack;
	uint32_t iid, frames[MODEL_STACK_MAX];
	unsigned count;
	uint8_t *entry;
	bool fresh;

	if (!id || trace->options->no_stacks)
		return 0;
	stack = model_stack(trace->model, trace->process, id);
	if (!stack->count)
		return 0;
	iid = number_map_get(&trace->spaces[SPACE_STACKS], id, &fresh);
	if (!fresh || !iid)
		return iid;
	count = stack->count < MODEL_STACK_MAX ? stack->count : MODEL_STACK_MAX;
	for (unsigned i = 0; i < count; i++)
		frames[i] = intern_frame(trace, &stack->frames[i]);
	entry = pb_InternedData_callstacks(&trace->side);
	pb_Callstack_iid(&trace->side, iid);
	for (unsigned i = count; i-- > 0;) /* outermost first */
		pb_Callstack_frame_ids(&trace->side, frames[i]);
	pb_end(&trace->side, entry);
	spill(trace);
	return iid;
}

/* --- event types -------------------------------------------------------------------------------- */

static enum type_link link_of(const struct wl_event_type *type)
{
	if (type == wl_event_type(WL_EV_ofi_post))
		return LINK_POST;
	if (type == wl_event_type(WL_EV_ofi_completion))
		return LINK_COMPLETION;
	return match_gpu_is_call(type) ? LINK_DEVICE : LINK_NONE;
}

const struct type_cache *type_of(struct trace *trace, const struct wl_event_type *type)
{
	uint32_t *recent = &trace->type_recent[type->number % 64];
	uint32_t index = *recent;
	struct type_cache *cache;
	bool fresh;

	if (index && index <= trace->type_count && trace->types[index - 1].type == type)
		return &trace->types[index - 1];
	index = number_map_get(&trace->type_index, TEXT_KEY(type), &fresh);
	if (!index)
		return NULL;
	*recent = index;
	if (!fresh)
		return &trace->types[index - 1];
	if (trace->type_count == trace->type_capacity) {
		uint32_t capacity = trace->type_capacity ? trace->type_capacity * 2 : 64;

		cache = realloc(trace->types, capacity * sizeof(*cache));
		if (!cache)
			return NULL;
		trace->types = cache;
		trace->type_capacity = capacity;
	}
	cache = &trace->types[trace->type_count++];
	memset(cache, 0, sizeof(*cache));
	cache->type = type;
	cache->link = link_of(type);
	cache->category =
		intern_constant(trace, SPACE_CATEGORIES, wl_category_name(type->category));
	cache->name = intern_constant(trace, SPACE_NAMES, type->name);
	cache->api = model_arg_index(type, "api");
	cache->text = model_arg_index(type, "text");
	cache->stack = model_arg_index(type, "stack");
	cache->cls = model_arg_index(type, "cls");
	cache->payload = model_arg_index(type, "payload");
	cache->payload_type = model_arg_index(type, "payload_type");
	return cache;
}

/* --- ids ---------------------------------------------------------------------------------------- */

static uint64_t nonzero(uint64_t id)
{
	return id ? id : 1;
}

uint64_t uuid_process(const struct model_process *process)
{
	return nonzero(text_mix((uint64_t)process->unique_pid * 2));
}

uint64_t uuid_thread(const struct model_process *process, unsigned thread)
{
	return nonzero(text_mix((uint64_t)process->unique_pid << 32 |
				((uint64_t)process->threads[thread].unique_tid * 2 + 1)));
}

uint64_t uuid_track(uint64_t parent, enum track_kind kind, uint64_t which)
{
	/* Handles of a damaged recording use all their bits: none may be shifted out. */
	return nonzero(text_mix(parent + text_mix(text_mix(which) + (uint64_t)kind)));
}

uint64_t flow_id(const struct model_process *process, enum flow_kind kind, unsigned thread,
		 uint64_t ordinal)
{
	return (uint64_t)(process->index + 1) << 50 | (uint64_t)(thread & 0x3fff) << 36 |
	       (ordinal & 0x3ffffffffull) << 2 | (uint64_t)kind;
}
