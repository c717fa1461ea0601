/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: recorded operations in an order that respects their dependencies, run one by one. */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

struct fc_exec {
	uint64_t handle;
	_Atomic unsigned refs; /* the handle's and each pending launch's */
	uint64_t flags;
	struct fc_graph *graph; /* keeps its allocations alive */
	struct fc_op **ops;
	size_t count;
	bool holds;
	pthread_mutex_t lock;
	struct fc_stream *last; /* where it ran last: launches of one graph never overlap */
	uint64_t last_seq;
};

/* --- graphs ------------------------------------------------------------------------------------------ */

struct fc_graph *fc_graph_new(void)
{
	struct fc_graph *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	atomic_init(&g->refs, 1);
	g->handle = fc_handle_new(FC_T_GRAPH, g);
	if (g->handle)
		return g;
	free(g);
	return NULL;
}

static void node_free(struct fc_node *node)
{
	fc_handle_drop(node->handle);
	fc_op_unref(node->op);
	free(node->deps);
	free(node);
}

void fc_graph_unref(struct fc_graph *g)
{
	if (atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < g->count; i++)
		node_free(g->nodes[i]);
	for (size_t i = 0; i < g->alloc_count; i++) {
		struct fc_range range;
		if (fc_range_take(g->allocs[i], NULL, &range))
			fc_pool_give(&range);
	}
	free(g->nodes);
	free(g->allocs);
	free(g);
}

struct fc_node *fc_graph_add(struct fc_graph *g, struct fc_op *op, struct fc_node **deps,
			     size_t dep_count)
{
	struct fc_node *node = calloc(1, sizeof(*node));
	if (!node)
		goto fail;
	if (g->count == g->cap) {
		size_t cap = g->cap ? g->cap * 2 : 16;
		struct fc_node **nodes = realloc(g->nodes, cap * sizeof(struct fc_node *));
		if (!nodes)
			goto fail;
		g->nodes = nodes;
		g->cap = cap;
	}
	node->deps = dep_count ? malloc(dep_count * sizeof(struct fc_node *)) : NULL;
	if (dep_count && !node->deps)
		goto fail;
	if (dep_count)
		memcpy(node->deps, deps, dep_count * sizeof(struct fc_node *));
	node->dep_count = dep_count;
	node->graph = g;
	node->op = op;
	node->handle = fc_handle_new(FC_T_NODE, node);
	if (!node->handle) {
		free(node->deps);
		goto fail;
	}
	g->nodes[g->count++] = node;
	return node;
fail:
	free(node);
	fc_op_unref(op);
	return NULL;
}

static struct fc_graph *graph_get(CUgraph graph)
{
	return fc_handle_get(FC_HANDLE(graph), FC_T_GRAPH);
}

CUresult do_cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_graph *g = fc_graph_new();
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*graph = (CUgraph)(uintptr_t)g->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuGraphDestroy(CUgraph graph)
{
	struct fc_graph *g = graph_get(graph);
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	fc_handle_drop(g->handle);
	fc_graph_unref(g);
	return CUDA_SUCCESS;
}

/* *count is the room in nodes, then how many there are; NULL nodes asks for the number alone. */
static CUresult nodes_list(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct fc_graph *g = graph_get(graph);
	size_t n = 0;
	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->count; i++) {
		if (roots && g->nodes[i]->dep_count)
			continue;
		if (nodes && n < *count)
			nodes[n] = (CUgraphNode)(uintptr_t)g->nodes[i]->handle;
		n++;
	}
	if (nodes)
		for (size_t i = n; i < *count; i++)
			nodes[i] = NULL;
	*count = n;
	return CUDA_SUCCESS;
}

CUresult do_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return nodes_list(graph, nodes, count, false);
}

CUresult do_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return nodes_list(graph, nodes, count, true);
}

CUresult do_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	struct fc_node *n = fc_handle_get(FC_HANDLE(node), FC_T_NODE);
	if (!n || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = n->op->type;
	return CUDA_SUCCESS;
}

/* --- executables ------------------------------------------------------------------------------------- */

static void exec_unref(struct fc_exec *x)
{
	if (atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < x->count; i++)
		fc_op_unref(x->ops[i]);
	fc_graph_unref(x->graph);
	pthread_mutex_destroy(&x->lock);
	free(x->ops);
	free(x);
}

static struct fc_exec *exec_get(CUgraphExec exec)
{
	return fc_handle_get(FC_HANDLE(exec), FC_T_EXEC);
}

CUresult do_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	struct fc_ctx *ctx;
	struct fc_graph *g = graph_get(graph);
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!exec || !g || flags & ~15ull)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_exec *x = calloc(1, sizeof(*x));
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	x->ops = calloc(g->count + 1, sizeof(struct fc_op *));
	x->handle = x->ops ? fc_handle_new(FC_T_EXEC, x) : 0;
	if (!x->handle) {
		free(x->ops);
		free(x);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_init(&x->lock, NULL);
	atomic_init(&x->refs, 1);
	atomic_fetch_add(&g->refs, 1);
	x->graph = g;
	x->flags = flags;
	for (size_t i = 0; i < g->count; i++) {
		x->ops[x->count++] = g->nodes[i]->op;
		atomic_fetch_add(&g->nodes[i]->op->refs, 1);
		x->holds |= g->nodes[i]->op->holds_launch;
	}
	*exec = (CUgraphExec)(uintptr_t)x->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
				  char *log, size_t log_bytes)
{
	CUresult rc = do_cuGraphInstantiateWithFlags(exec, graph, 0);
	if (error_node)
		*error_node = NULL;
	if (log && log_bytes)
		*log = 0;
	return rc;
}

CUresult do_cuGraphInstantiateWithParams(bool ptds, CUgraphExec *exec, CUgraph graph,
					 CUDA_GRAPH_INSTANTIATE_PARAMS *create)
{
	(void)ptds;
	if (!create)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = do_cuGraphInstantiateWithFlags(exec, graph, create->flags);
	create->hErrNode_out = NULL;
	create->result_out = rc ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return rc;
}

CUresult do_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	struct fc_exec *x = exec_get(exec);
	if (!x || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = x->flags;
	return CUDA_SUCCESS;
}

CUresult do_cuGraphExecDestroy(CUgraphExec exec)
{
	struct fc_exec *x = exec_get(exec);
	if (!x)
		return CUDA_ERROR_INVALID_VALUE;
	fc_handle_drop(x->handle);
	exec_unref(x);
	return CUDA_SUCCESS;
}

CUresult do_cuGraphUpload(bool ptds, CUgraphExec exec, CUstream stream)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	return rc ? rc : exec_get(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct fc_exec *launch_exec(const struct fc_op *op)
{
	struct fc_exec *x;
	memcpy(&x, op->data, sizeof(struct fc_exec *));
	return x;
}

static void run_graph(const struct fc_op *op)
{
	struct fc_exec *x = launch_exec(op);
	for (size_t i = 0; i < x->count; i++)
		fc_activity_node(op, x->ops[i], i + 1);
}

static void drop_graph(struct fc_op *op)
{
	exec_unref(launch_exec(op));
}

/* In a capture the launch becomes one node that runs the whole graph. */
CUresult do_cuGraphLaunch(bool ptds, CUgraphExec exec, CUstream stream)
{
	struct fc_stream *s;
	struct fc_exec *x = exec_get(exec);
	uint64_t seq = 0;
	CUresult rc = fc_may_wait();
	if (!rc)
		rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (!x)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_GRAPH, sizeof(struct fc_exec *), run_graph);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, &x, sizeof(struct fc_exec *));
	atomic_fetch_add(&x->refs, 1);
	op->drop = drop_graph;
	op->tells.graph = (uint32_t)x->handle;
	op->holds_launch = x->holds;
	bool capture = fc_capturing() && atomic_load(&s->capture);
	pthread_mutex_lock(&x->lock);
	if (!capture && x->last)
		rc = fc_deps_add(&op->deps, x->last, x->last_seq);
	if (rc)
		fc_op_unref(op);
	else
		rc = fc_submit(s, op, &seq);
	if (!rc && !capture) {
		x->last = s;
		x->last_seq = seq;
	}
	bool hold = !rc && !capture && x->holds;
	pthread_mutex_unlock(&x->lock);
	if (hold)
		fc_wait(s, seq);
	return rc;
}
