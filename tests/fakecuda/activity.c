/* SPDX-License-Identifier: Apache-2.0 */
/* Telling an observer what is given to streams and done by them. */
#include "tests/fakecuda/activity.h"

#include "tests/fakecuda/internal.h"

#define EXPORT __attribute__((visibility("default")))

_Atomic(const struct fakecuda_observer *) fc_observer;
static _Atomic uint32_t correlations;

EXPORT void fakecuda_observe(const struct fakecuda_observer *observer)
{
	atomic_store(&fc_observer, observer);
}

EXPORT int fakecuda_numbers(void *context, void *stream, int per_thread, uint32_t *context_number,
			    uint32_t *stream_number)
{
	struct fc_ctx *ctx = fc_ctx_get(context), *now;
	struct fc_stream *s;
	CUresult rc = ctx ? fc_current(&now) : CUDA_ERROR_INVALID_CONTEXT;

	if (!rc)
		*context_number = (uint32_t)ctx->id;
	if (!rc && stream_number)
		rc = now == ctx ? fc_stream_get(stream, per_thread, &s)
				: CUDA_ERROR_INVALID_CONTEXT;
	if (!rc && stream_number)
		*stream_number = (uint32_t)s->id;
	return rc;
}

static enum fakecuda_work_type type_of(const struct fc_op *op)
{
	switch (op->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return FAKECUDA_KERNEL;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return FAKECUDA_COPY;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return FAKECUDA_MEMSET;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return FAKECUDA_GRAPH;
	default:
		return 0;
	}
}

static void work_fill(struct fakecuda_work *work, const struct fc_stream *s, const struct fc_op *op)
{
	*work = op->tells;
	work->type = type_of(op);
	work->context = (uint32_t)s->ctx->id;
	work->stream = (uint32_t)s->id;
}

uint64_t fc_activity_begin(void)
{
	const struct fakecuda_observer *observer = atomic_load(&fc_observer);

	return observer ? observer->now() : 0;
}

void fc_activity_given(struct fc_stream *s, struct fc_op *op)
{
	const struct fakecuda_observer *observer = atomic_load(&fc_observer);
	struct fakecuda_work work;

	if (!observer || !type_of(op))
		return;
	op->tells.correlation = atomic_fetch_add(&correlations, 1) + 1;
	work_fill(&work, s, op);
	op->observer = observer;
	op->on = s;
	op->given = observer->given(&work);
}

void fc_activity_call(const struct fc_stream *s, const struct fc_op *op, uint64_t begin)
{
	struct fakecuda_work work;

	if (!op->observer)
		return;
	work_fill(&work, s, op);
	work.begin = begin;
	work.end = op->observer->now();
	op->observer->call(&work);
}

void fc_activity_run(const struct fc_stream *s, struct fc_op *op)
{
	struct fakecuda_work work;

	if (FC_LIKELY(!op->observer)) {
		op->run(op);
		return;
	}
	work_fill(&work, s, op);
	work.begin = op->observer->now();
	op->run(op);
	work.end = op->observer->now();
	op->observer->done(op->given, &work);
}

/* The graph's own record says when, on which stream and by which launch; the node what. */
void fc_activity_node(const struct fc_op *graph, const struct fc_op *node, uint64_t number)
{
	struct fakecuda_work work;

	if (!graph->observer || !type_of(node)) {
		node->run(node);
		return;
	}
	work_fill(&work, graph->on, node);
	work.correlation = graph->tells.correlation;
	work.graph = graph->tells.graph;
	work.node = number;
	work.begin = graph->observer->now();
	node->run(node);
	work.end = graph->observer->now();
	graph->observer->node(&work);
}

void fc_activity_wait(const struct fc_ctx *ctx, const struct fc_stream *s, unsigned wait,
		      uint64_t begin)
{
	const struct fakecuda_observer *observer = atomic_load(&fc_observer);
	struct fakecuda_work work = {.type = FAKECUDA_WAIT, .wait = (unsigned char)wait};

	if (!observer)
		return;
	work.correlation = atomic_fetch_add(&correlations, 1) + 1;
	work.context = (uint32_t)ctx->id;
	work.stream = s ? (uint32_t)s->id : 0;
	work.begin = begin;
	work.end = observer->now();
	observer->call(&work);
}
