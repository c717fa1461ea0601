/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices did, as GPU render stages: Perfetto groups them by process, device and stream, keeps what
 * overlaps on a stream apart by itself, and draws an arrow from the call whose slice names the same event.
 */
#include "exporters/perfetto/trace.h"

#include "exporters/model/kineto.h"
#include "exporters/model/select.h"

#include <stdio.h>
#include <string.h>

#define API_CUDA         4u
#define CATEGORY_OTHER   0u
#define CATEGORY_COMPUTE 2u
/* GPUs are numbered through over hosts. */
#define GPUS_A_HOST 64u
/* Events that no call names, and those of a Kineto trace: apart from those of flow_id(). */
#define EVENT_UNCALLED (1ull << 63)

enum stage { STAGE_KERNEL, STAGE_COPY, STAGE_MEMSET, STAGE_GRAPH, STAGE_SYNC };
static const struct {
	const char *name;
	unsigned category;
} stages[] = {
	[STAGE_KERNEL] = {"Kernel", CATEGORY_COMPUTE}, [STAGE_COPY] = {"Copy", CATEGORY_OTHER},
	[STAGE_MEMSET] = {"Memset", CATEGORY_OTHER},   [STAGE_GRAPH] = {"Graph", CATEGORY_OTHER},
	[STAGE_SYNC] = {"Wait", CATEGORY_OTHER},
};

static enum stage stage_of(const struct wl_event_type *type)
{
	switch (type->number) {
	case WL_EV_gpu_kernel:
		return STAGE_KERNEL;
	case WL_EV_gpu_copy:
		return STAGE_COPY;
	case WL_EV_gpu_memset:
		return STAGE_MEMSET;
	case WL_EV_gpu_graph:
		return STAGE_GRAPH;
	default:
		return STAGE_SYNC;
	}
}

static uint64_t named_arg(const struct trace_event *event, const char *name)
{
	int index = model_arg_index(event->type, name);

	return index < 0 ? 0 : event->args[index];
}

/* --- interning: numbers of contexts and queues are unique in the whole trace ---------------------- */

static uint32_t declare_specification(struct trace *trace, uint64_t key, const char *name,
				      unsigned category)
{
	bool fresh;
	uint32_t number = number_map_get(&trace->spaces[SPACE_GPU], key, &fresh);
	uint32_t iid = trace->gpu_base + number;
	struct pb *side = &trace->side;
	uint8_t *entry;

	if (!fresh || !number)
		return iid;
	entry = pb_InternedData_gpu_specifications(side);
	pb_GpuSpecification_iid(side, iid);
	pb_GpuSpecification_name(side, name, strlen(name));
	pb_GpuSpecification_category(side, category);
	pb_end(side, entry);
	return iid;
}

static uint32_t declare_context(struct trace *trace, const struct model_process *process,
				uint32_t context)
{
	bool fresh;
	uint32_t number = number_map_get(&trace->spaces[SPACE_GPU], 3ull << 62 | context, &fresh);
	uint32_t iid = trace->gpu_base + number;
	struct pb *side = &trace->side;
	uint8_t *entry;

	if (!fresh || !number)
		return iid;
	entry = pb_InternedData_graphics_contexts(side);
	pb_GraphicsContext_iid(side, iid);
	pb_GraphicsContext_pid(side, process->unique_pid);
	pb_GraphicsContext_api(side, API_CUDA);
	pb_end(side, entry);
	return iid;
}

/* A stream's row; waits have one of their own, for they overlap the work they wait for. */
static uint32_t queue_of(struct trace *trace, const struct model_process *process,
			 const struct trace_event *event, enum stage stage)
{
	uint64_t context = named_arg(event, "context"), stream = named_arg(event, "stream");
	bool alone = model_process_count(trace->model) == 1;
	char name[96], owner[48] = "";

	if (!alone && process->info.rank >= 0)
		(void)snprintf(owner, sizeof(owner), ", rank %d", process->info.rank);
	else if (!alone)
		(void)snprintf(owner, sizeof(owner), ", process %lld",
			       (long long)process->unique_pid);
	if (stage == STAGE_SYNC)
		(void)snprintf(name, sizeof(name), "Waits (context %u%s)", (unsigned)context,
			       owner);
	else
		(void)snprintf(name, sizeof(name), "Stream %u (context %u%s)", (unsigned)stream,
			       (unsigned)context, owner);
	return declare_specification(trace,
				     stage == STAGE_SYNC
					     ? 1ull << 62 | context
					     : 2ull << 62 | context << 32 | (stream & UINT32_MAX),
				     name, CATEGORY_OTHER);
}

/* --- events --------------------------------------------------------------------------------------- */

static void put_dim(struct pb *pb, uint8_t *(*begin)(struct pb *), uint64_t x, uint64_t y,
		    uint64_t z)
{
	uint8_t *dim = begin(pb);

	pb_Dim3_x(pb, x);
	pb_Dim3_y(pb, y);
	pb_Dim3_z(pb, z);
	pb_end(pb, dim);
}

static void put_arg(struct pb *pb, const char *name, uint64_t value)
{
	uint8_t *arg = pb_ComputeKernelLaunch_args(pb);

	pb_ExtraComputeArg_name(pb, name, strlen(name));
	pb_ExtraComputeArg_int_value(pb, (int64_t)value);
	pb_end(pb, arg);
}

static void put_word(struct pb *pb, const char *name, const char *word)
{
	uint8_t *arg = pb_ComputeKernelLaunch_args(pb);

	pb_ExtraComputeArg_name(pb, name, strlen(name));
	pb_ExtraComputeArg_string_value(pb, word, strlen(word));
	pb_end(pb, arg);
}

/* Every argument; the interface groups by those called device and stream. */
static void put_launch(struct trace *trace, const struct trace_event *event)
{
	const struct wl_event_type *type = event->type;
	struct pb *pb = &trace->pb;
	uint8_t *launch = pb_GpuRenderStageEvent_launch(pb);

	if (type->number == WL_EV_gpu_kernel) {
		put_dim(pb, pb_ComputeKernelLaunch_grid_size, MODEL_ARG(event, gpu_kernel, grid_x),
			MODEL_ARG(event, gpu_kernel, grid_y), MODEL_ARG(event, gpu_kernel, grid_z));
		put_dim(pb, pb_ComputeKernelLaunch_workgroup_size,
			MODEL_ARG(event, gpu_kernel, block_x),
			MODEL_ARG(event, gpu_kernel, block_y),
			MODEL_ARG(event, gpu_kernel, block_z));
	}
	for (unsigned i = 0; i < type->arg_count; i++) {
		const struct wl_arg *arg = &type->args[i];
		uint64_t value = event->args[i];

		if (arg->show == WL_SHOW_STR || !strncmp(arg->name, "grid_", 5) ||
		    !strncmp(arg->name, "block_", 6) || (!value && arg->show == WL_SHOW_HEX))
			continue;
		if (arg->show != WL_SHOW_ENUM)
			put_arg(pb, arg->name, value);
		else if (value && value < arg->enumeration->count)
			put_word(pb, arg->name, arg->enumeration->words[value]);
	}
	pb_end(pb, launch);
}

static uint32_t name_of(struct trace *trace, const struct trace_event *event, enum stage stage)
{
	char text[64];

	if (stage == STAGE_KERNEL)
		return intern_string(trace, SPACE_NAMES,
				     (uint32_t)MODEL_ARG(event, gpu_kernel, name), "kernel");
	if (stage == STAGE_COPY) {
		const struct wl_arg *src = &event->type->args[WL_ARG(gpu_copy, src_kind)];
		uint64_t from = MODEL_ARG(event, gpu_copy, src_kind);
		uint64_t to = MODEL_ARG(event, gpu_copy, dst_kind);
		unsigned count = src->enumeration->count;

		(void)snprintf(text, sizeof(text), "copy %s to %s",
			       src->enumeration->words[from < count ? from : 0],
			       src->enumeration->words[to < count ? to : 0]);
		return intern_text(trace, SPACE_NAMES, 1ull << 62 | from << 8 | to, text);
	}
	if (stage == STAGE_SYNC) {
		const struct wl_arg *arg = &event->type->args[WL_ARG(gpu_sync, wait)];
		uint64_t wait = MODEL_ARG(event, gpu_sync, wait);

		if (wait >= arg->enumeration->count)
			wait = 0;
		(void)snprintf(text, sizeof(text), "wait: %s", arg->enumeration->words[wait]);
		return intern_text(trace, SPACE_NAMES, 1ull << 61 | wait, text);
	}
	return intern_constant(trace, SPACE_NAMES, stage == STAGE_GRAPH ? "graph" : "memset");
}

void export_activity(struct trace *trace, const struct model_process *process,
		     const struct model_activity *activity)
{
	const struct trace_event *record = &activity->event;
	int64_t begin = model_time(process, record->begin_ns);
	int64_t end = model_time(process, record->end_ns);
	enum stage stage = stage_of(record->type);
	uint32_t name, queue, stage_iid, context;
	uint8_t *packet, *event;
	struct pb *pb = &trace->pb;

	name = name_of(trace, record, stage);
	queue = queue_of(trace, process, record, stage);
	stage_iid = declare_specification(trace, 1ull << 61 | stage, stages[stage].name,
					  stages[stage].category);
	context = declare_context(trace, process, (uint32_t)named_arg(record, "context"));
	packet = sequence_packet(trace, begin);
	event = pb_TracePacket_gpu_render_stage_event(pb);
	pb_GpuRenderStageEvent_event_id(
		pb, activity->called
			    ? flow_id(process, FLOW_LAUNCH, activity->thread, activity->ordinal)
			    : EVENT_UNCALLED | ++trace->gpu_uncalled);
	pb_GpuRenderStageEvent_duration(pb, (uint64_t)(end - begin));
	pb_GpuRenderStageEvent_context(pb, context);
	pb_GpuRenderStageEvent_gpu_id(
		pb, (int64_t)(process->host * GPUS_A_HOST + named_arg(record, "device")));
	pb_GpuRenderStageEvent_hw_queue_iid(pb, queue);
	pb_GpuRenderStageEvent_stage_iid(pb, stage_iid);
	pb_GpuRenderStageEvent_name_iid(pb, name);
	if (!trace->options->no_args)
		put_launch(trace, record);
	pb_end(pb, event);
	sequence_packet_end(trace, packet);
	trace->result->activities++;
}

/* --- a trace of torch.profiler -------------------------------------------------------------------- */

static void put_kineto_args(struct pb *pb, const struct kineto_row *row)
{
	uint8_t *launch = pb_GpuRenderStageEvent_launch(pb);

	if (row->grid[0]) {
		put_dim(pb, pb_ComputeKernelLaunch_grid_size, row->grid[0], row->grid[1],
			row->grid[2]);
		put_dim(pb, pb_ComputeKernelLaunch_workgroup_size, row->block[0], row->block[1],
			row->block[2]);
	}
	put_arg(pb, "device", row->device);
	put_arg(pb, "context", row->context);
	put_arg(pb, "stream", row->stream);
	put_arg(pb, "correlation", row->correlation);
	if (row->bytes)
		put_arg(pb, "bytes", row->bytes);
	put_word(pb, "source", "torch.profiler");
	pb_end(pb, launch);
}

static void put_kineto_row(struct trace *trace, const struct model_process *process,
			   const struct kineto_row *row)
{
	struct pb *pb = &trace->pb;
	bool kernel = !strcmp(row->category, "kernel");
	uint32_t name, queue, stage, context;
	uint8_t *packet, *event;
	char text[96];

	(void)snprintf(text, sizeof(text), "torch.profiler: stream %u (device %u)", row->stream,
		       row->device);
	name = intern_constant(trace, SPACE_NAMES, row->name);
	queue = declare_specification(trace, 2ull << 62 | (uint64_t)row->device << 32 | row->stream,
				      text, CATEGORY_OTHER);
	stage = declare_specification(trace, 1ull << 61 | TEXT_KEY(row->category), row->category,
				      kernel ? CATEGORY_COMPUTE : CATEGORY_OTHER);
	context = declare_context(trace, process, row->context);
	packet = sequence_packet(trace, row->begin_ns);
	event = pb_TracePacket_gpu_render_stage_event(pb);
	pb_GpuRenderStageEvent_event_id(pb, row->correlation
						    ? KINETO_EVENT(row->correlation)
						    : EVENT_UNCALLED | ++trace->gpu_uncalled);
	pb_GpuRenderStageEvent_duration(pb, (uint64_t)(row->end_ns - row->begin_ns));
	pb_GpuRenderStageEvent_context(pb, context);
	pb_GpuRenderStageEvent_gpu_id(pb, (int64_t)(process->host * GPUS_A_HOST + row->device));
	pb_GpuRenderStageEvent_hw_queue_iid(pb, queue);
	pb_GpuRenderStageEvent_stage_iid(pb, stage);
	pb_GpuRenderStageEvent_name_iid(pb, name);
	if (!trace->options->no_args)
		put_kineto_args(pb, row);
	pb_end(pb, event);
	sequence_packet_end(trace, packet);
	trace->result->activities++;
}

void export_kineto(struct trace *trace, const struct kineto *kineto)
{
	const struct model_process *process = model_process(trace->model, kineto_process(kineto));
	int64_t first_ns, last_ns, realtime_ns;

	if (!select_process(trace->options->selection, process))
		return;
	model_bounds(trace->model, &first_ns, &last_ns, &realtime_ns);
	sequence_begin(trace, process->index, first_ns, 0);
	for (unsigned i = 0; i < kineto_row_count(kineto); i++) {
		const struct kineto_row *row = kineto_row(kineto, i);

		if (row->begin_ns >= 0 && select_takes(trace->options->selection, process->index,
						       WL_CAT_gpu, row->begin_ns, row->end_ns)) {
			put_kineto_row(trace, process, row);
			trace->result->with_rows++;
		}
	}
}
