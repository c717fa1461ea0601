/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits, order, launches, graphs, set-up.
 */
#include "tracer/inject/cuda/calls.h"

#include "tracer/inject/cuda/map.h"

/* --- launches ------------------------------------------------------------------------------------ */

void cu_launch_told(struct cu_launch *call, const struct CUlaunchConfig *how)
{
	call->ev.grid_x = how->gridDimX;
	call->ev.grid_y = how->gridDimY;
	call->ev.grid_z = how->gridDimZ;
	call->ev.block_x = how->blockDimX;
	call->ev.block_y = how->blockDimY;
	call->ev.block_z = how->blockDimZ;
	call->ev.shared_bytes = how->sharedMemBytes;
	call->ev.stream = (uintptr_t)how->hStream;
}

/* One record for the launch on all devices: that of the first. */
void cu_launch_told_multi(struct cu_launch *call, const struct CUDA_LAUNCH_PARAMS *list,
			  unsigned count)
{
	if (!count)
		return;
	call->ev.func = (uintptr_t)list->function;
	call->ev.grid_x = list->gridDimX;
	call->ev.grid_y = list->gridDimY;
	call->ev.grid_z = list->gridDimZ;
	call->ev.block_x = list->blockDimX;
	call->ev.block_y = list->blockDimY;
	call->ev.block_z = list->blockDimZ;
	call->ev.shared_bytes = list->sharedMemBytes;
	call->ev.stream = (uintptr_t)list->hStream;
}

/* --- graphs -------------------------------------------------------------------------------------- */

CU_MAP_DEFINE(graph_nodes, 1024); /* executable graph -> nodes + 1 */

static uint32_t nodes_of(CUgraph graph)
{
	CUresult (*get)(CUgraph, void *, size_t *) =
		(CUresult(*)(CUgraph, void *, size_t *))cu_helper(CU_HELPER_cuGraphGetNodes);
	size_t nodes = 0;
	int saved = errno;

	if (!get || get(graph, NULL, &nodes) != CUDA_SUCCESS)
		nodes = 0;
	errno = saved;
	return (uint32_t)nodes;
}

void cu_graph_made(struct cu_graph *call, CUgraphExec exec, CUgraph graph)
{
	call->ev.exec = (uintptr_t)exec;
	call->ev.nodes = nodes_of(graph);
	cu_map_put(&graph_nodes, call->ev.exec, (uint64_t)call->ev.nodes + 1);
}

void cu_graph_captured(struct cu_graph *call, CUgraph graph)
{
	call->ev.graph = (uintptr_t)graph;
	if (graph)
		call->ev.nodes = nodes_of(graph);
}

void cu_graph_begin(struct cu_graph *call)
{
	uint64_t nodes = 0;

	cu_frame_enter(&call->f);
	call->ev.stream = cu_stream(call->ev.stream, call->f.per_thread);
	if (call->sized && cu_map_get(&graph_nodes, call->ev.exec, &nodes) && nodes)
		call->ev.nodes = (uint32_t)(nodes - 1);
	if (call->f.recorded) {
		if (call->ev.exec && cu_stream_captured(call->ev.stream))
			call->f.flags |= WL_FLAG_CAPTURED;
		call->ev.api = cu_api(&call->f);
	}
	cu_frame_start(&call->f);
	if (call->f.recorded)
		spool_enter(WL_EV_cuda_graph, call->ev.api, call->f.begin, 0, call->ev.stream);
}

void cu_graph_end(struct cu_graph *call, CUresult status)
{
	uint64_t end = cu_frame_stop(&call->f);

	if (call->ends_capture)
		cu_capture_ended(status);
	if (call->f.recorded) {
		spool_leave();
		SPOOL_RECORD(cuda_graph, call->f.begin, end, call->f.flags, call->ev,
			     it->status = status);
		if (call->ev.exec && call->sized)
			cu_device_work(&call->f, call->ev.stream, status);
	}
	cu_frame_leave(&call->f);
}

/* --- contexts, streams, events, code ------------------------------------------------------------- */

void cu_ctx_flags(unsigned flags)
{
	if (flags & CU_CTX_SYNC_MEMOPS)
		cu_memory_ctx_sync_memops();
}

void cu_ctx_made(struct cu_setup *call, CUcontext ctx, unsigned flags)
{
	call->ev.object = (uintptr_t)ctx;
	cu_ctx_flags(flags);
}

void cu_function_found(struct cu_setup *call, const void *func, const char *name)
{
	call->ev.object = (uintptr_t)func;
	cu_name_put(func, name);
}

void cu_setup_begin(struct cu_setup *call)
{
	struct cu_verdict verdict;

	cu_frame_enter(&call->f);
	if (!call->f.recorded) {
		cu_frame_start(&call->f);
		call->ticks = spool_ticks();
		return;
	}
	if (call->uses && cu_library_first_use(call->uses))
		call->ev.rule = WL_rule_library_first_use;
	if (call->unloads && cu_library_unused(call->unloads)) {
		call->ev.rule = WL_rule_none;
		call->guessed = true;
	}
	verdict = cu_classify_rule(call->ev.rule);
	call->ev.cls = verdict.cls;
	if (call->guessed)
		call->f.flags |= WL_FLAG_GUESSED;
	call->ev.api = cu_api(&call->f);
	call->ev.stack = wl_stack(verdict.cls == WL_call_class_waits ? WL_STACK_FOR_SYNC
								     : WL_STACK_FOR_OTHER);
	cu_frame_start(&call->f);
	spool_enter(WL_EV_cuda_setup, call->ev.api, call->f.begin, call->ev.stack, call->ev.object);
}

/* The call that begins the recording is its first event, by whichever clock the recording then uses. */
static bool setup_begins(struct cu_setup *call, uint64_t *end)
{
	enum spool_clock clock_before = spool_clock_used;
	uint64_t ticks = spool_ticks();

	wl_recording_begin("cuda");
	if (!wl_recording)
		return false;
	call->ev.api = cu_api(&call->f);
	call->ev.cls = cu_classify_rule(call->ev.rule).cls;
	if (spool_clock_used != clock_before && spool_clock_used == SPOOL_CLOCK_TSC) {
		call->f.begin = call->ticks;
		*end = ticks;
		return true;
	}
	return spool_clock_used == clock_before;
}

void cu_setup_end(struct cu_setup *call, CUresult status)
{
	uint64_t end = cu_frame_stop(&call->f);
	bool recorded = call->f.recorded;

	if (recorded)
		spool_leave();
	else if (status == CUDA_SUCCESS)
		recorded = setup_begins(call, &end);
	if (recorded) {
		cu_report_driver();
		CU_REFUSED(call, status);
		SPOOL_RECORD(cuda_setup, call->f.begin, end, call->f.flags, call->ev,
			     it->status = status);
	}
	cu_frame_leave(&call->f);
}
