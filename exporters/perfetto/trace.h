/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace file as a row of packets: buffer, compression, packet sequences and their interning.
 * One sequence is written at a time, from its begin to the begin of the next.
 */
#ifndef WAYLAY_EXPORTERS_PERFETTO_TRACE_H
#define WAYLAY_EXPORTERS_PERFETTO_TRACE_H

#include "exporters/exporters.h"
#include "exporters/model/number_map.h"
#include "exporters/perfetto/pb.h"

/* Builtin clocks, and the one of each sequence whose timestamps are differences. */
#define CLOCK_ID_REALTIME    1
#define CLOCK_ID_MONOTONIC   3
#define CLOCK_ID_BOOTTIME    6
#define CLOCK_ID_INCREMENTAL 64

enum track_event_type { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };

#define SEQUENCE_CLEARED 1u

/* What is interned, each with numbers of its own. */
enum space {
	SPACE_NAMES,
	SPACE_CATEGORIES,
	SPACE_ARG_NAMES,
	SPACE_VALUES,
	SPACE_FUNCTIONS,
	SPACE_SOURCES,
	SPACE_BUILD_IDS,
	SPACE_PATHS,
	SPACE_MAPPINGS,
	SPACE_FRAMES,
	SPACE_STACKS,
	SPACE_GPU, /* contexts, queues and stages: numbers above gpu_base */
	SPACE_MAX,
};

/* What other records a record may have arrows to. */
enum type_link { LINK_NONE, LINK_POST, LINK_COMPLETION, LINK_DEVICE };

/* What a sequence knows about an event type. */
struct type_cache {
	const struct wl_event_type *type;
	enum type_link link;
	uint32_t category, name;                          /* iids */
	int api, text, stack, cls, payload, payload_type; /* indexes of arguments, -1 none */
	uint32_t arg_names[WL_ARGS_MAX];                  /* iids, 0 not yet */
};

struct trace {
	struct model *model;
	const struct export_options *options;
	struct export_result *result;
	struct output output;
	uint8_t *buffer;
	struct pb pb; /* packets not yet written out */
	uint8_t *side_buffer;
	struct pb side;                /* interned data for the packet being made */
	struct compressor *compressor; /* NULL: none */
	bool stopped;                  /* by the progress callback */
	/* The sequence being written. */
	uint32_t sequence;
	int64_t last_ts;
	unsigned process;  /* whose string ids are meant */
	uint32_t gpu_base; /* of SPACE_GPU: above all numbers of earlier sequences */
	uint64_t gpu_uncalled;
	struct number_map spaces[SPACE_MAX];
	struct type_cache *types;
	uint32_t type_count, type_capacity;
	struct number_map type_index;
	uint32_t type_recent[64]; /* by number: the index of the type asked for last, from 1 on */
};

int trace_open(struct trace *trace, struct model *model, const char *path,
	       const struct export_options *options, struct export_result *result, char *err,
	       size_t err_size);
/* error: 0, or why the trace is given up. */
int trace_close(struct trace *trace, int error, char *err, size_t err_size);

/* Opens a packet with room for anything bounded; the result goes to packet_end. */
uint8_t *packet_begin(struct trace *trace);
void packet_end(struct trace *trace, uint8_t *packet);

/* Begins the next sequence; its packets' timestamps count from first_ns and, where they name no track,
 * stand on track_uuid (0: each names its own). */
void sequence_begin(struct trace *trace, unsigned process, int64_t first_ns, uint64_t track_uuid);
/* Opens a packet of the sequence at a time: a difference where time went on, else in full. */
uint8_t *sequence_packet(struct trace *trace, int64_t ts);
/* Closes such a packet, with the interned data gathered since the last. */
void sequence_packet_end(struct trace *trace, uint8_t *packet);

/* The iid of a text in a space of texts. key: what tells texts apart: an address or STRING_KEY(id). */
uint32_t intern_text(struct trace *trace, enum space space, uint64_t key, const char *text);
#define TEXT_KEY(pointer) ((uint64_t)(uintptr_t)(pointer))
#define STRING_KEY(id)    ((uint64_t)(id) | 1ull << 63)
/* Of a constant or a text of the model. */
uint32_t intern_constant(struct trace *trace, enum space space, const char *text);
/* Of an interned string of the process; fallback: in place of an empty one, or NULL. */
uint32_t intern_string(struct trace *trace, enum space space, uint32_t id, const char *fallback);
/* Of a stack, 0 if it has no frames or stacks are left out. May write packets of its own: call it
 * before the packet that uses it. */
uint32_t intern_stack(struct trace *trace, uint32_t stack);

const struct type_cache *type_of(struct trace *trace, const struct wl_event_type *type);
/* args.c: debug annotations into an open track event. */
void args_event(struct trace *trace, const struct type_cache *cache,
		const struct trace_event *event);
void arg_uint(struct trace *trace, const char *name, uint64_t value);
void arg_int(struct trace *trace, const char *name, int64_t value);
void arg_bool(struct trace *trace, const char *name, bool value);
void arg_pointer(struct trace *trace, const char *name, uint64_t value);
/* text: a constant or a text of the model. */
void arg_text(struct trace *trace, const char *name, const char *text);

/* Ids of tracks, made from what they stand for, so that every part of the exporter agrees. */
uint64_t uuid_process(const struct model_process *process);
uint64_t uuid_thread(const struct model_process *process, unsigned thread);
enum track_kind {
	TRACK_SYNCHRONIZATIONS = 1,
	TRACK_POLLS,
	TRACK_POLLS_WAITING,
	TRACK_NETWORK,
	TRACK_LANE,
	TRACK_REGISTRATIONS,
	TRACK_RANGES,
	TRACK_BYTES_IN_FLIGHT,
	TRACK_BYTES_POSTED,
	TRACK_REGISTERED_BYTES,
	TRACK_REGISTRATIONS_LIVE,
};
uint64_t uuid_track(uint64_t parent, enum track_kind kind, uint64_t which);

/* Ids of flows: from the post to its transfer, from the transfer to its completion, from a call to what it
 * has a device do. */
enum flow_kind { FLOW_POST, FLOW_COMPLETION, FLOW_LAUNCH };
uint64_t flow_id(const struct model_process *process, enum flow_kind kind, unsigned thread,
		 uint64_t ordinal);

/* descriptors.c */
void describe_trace(struct trace *trace);
void describe_process(struct trace *trace, const struct model_process *process);
void describe_thread(struct trace *trace, const struct model_process *process, unsigned thread);
void describe_track(struct trace *trace, uint64_t uuid, uint64_t parent, const char *name);
enum counter_unit { UNIT_COUNT = 2, UNIT_BYTES = 3 };
void describe_counter(struct trace *trace, uint64_t uuid, uint64_t parent, const char *name,
		      enum counter_unit unit);

/* threads.c: all threads of a process; *merged if it holds anything that export_network shows. */
int export_threads(struct trace *trace, unsigned process, bool *merged);
/* gpu.c: something a device did, in the sequence of export_network. */
void export_activity(struct trace *trace, const struct model_process *process,
		     const struct model_activity *activity);
/* gpu.c: the GPU rows of a trace of torch.profiler, a sequence of their own. Its calls are ours. */
#define KINETO_EVENT(correlation) (3ull << 62 | (correlation))
void export_kineto(struct trace *trace, const struct kineto *kineto);
/* network.c: transfers, device work, registrations, ranges across threads, counters. */
int export_network(struct trace *trace, unsigned process);

#endif
