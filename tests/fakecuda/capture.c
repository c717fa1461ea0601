/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. While a stream captures, what it is given becomes nodes of a graph. One lock
 * covers all of it: captures are rare and short.
 */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

struct fc_capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	uint64_t owner; /* thread */
	bool invalid;
	struct fc_graph *graph;
	struct fc_stream *origin;
	struct fc_stream **streams; /* the origin and those that joined */
	size_t stream_count;
	struct fc_capture *next;
};

_Atomic int fc_captures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fc_capture *captures;

/* --- with the lock held ------------------------------------------------------------------------------ */

static CUresult stream_join(struct fc_capture *c, struct fc_stream *s)
{
	struct fc_stream **streams =
		realloc(c->streams, (c->stream_count + 1) * sizeof(struct fc_stream *));
	if (!streams)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->streams = streams;
	streams[c->stream_count++] = s;
	s->cap_deps = NULL;
	s->cap_count = 0;
	atomic_fetch_add(&s->ctx->capturing, 1);
	if (fc_stream_blocking(s))
		atomic_fetch_add(&s->ctx->capturing_blocking, 1);
	atomic_store(&s->capture, c);
	return CUDA_SUCCESS;
}

static void stream_leave(struct fc_stream *s)
{
	atomic_store(&s->capture, NULL);
	free(s->cap_deps);
	s->cap_deps = NULL;
	s->cap_count = 0;
	atomic_fetch_sub(&s->ctx->capturing, 1);
	if (fc_stream_blocking(s))
		atomic_fetch_sub(&s->ctx->capturing_blocking, 1);
}

static void capture_end(struct fc_capture *c)
{
	for (size_t i = 0; i < c->stream_count; i++)
		stream_leave(c->streams[i]);
	for (struct fc_capture **p = &captures; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	atomic_fetch_sub(&fc_captures, 1);
	free(c->streams);
	free(c);
}

/* The graph of an abandoned capture goes with it. */
static void capture_drop(struct fc_capture *c)
{
	fc_handle_drop(c->graph->handle);
	fc_graph_unref(c->graph);
	capture_end(c);
}

static struct fc_capture *capture_find(uint64_t id)
{
	for (struct fc_capture *c = captures; c; c = c->next)
		if (id && c->id == id)
			return c;
	return NULL;
}

/* Adds to what the stream's next node comes after. */
static CUresult deps_merge(struct fc_stream *s, struct fc_node *const *deps, size_t count)
{
	struct fc_node **all =
		realloc(s->cap_deps, (s->cap_count + count + 1) * sizeof(struct fc_node *));
	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->cap_deps = all;
	for (size_t i = 0; i < count; i++) {
		bool have = false;
		for (size_t j = 0; j < s->cap_count; j++)
			have |= all[j] == deps[i];
		if (!have)
			all[s->cap_count++] = deps[i];
	}
	return CUDA_SUCCESS;
}

static void mark_before(struct fc_node *node)
{
	if (node->seen)
		return;
	node->seen = true;
	for (size_t i = 0; i < node->dep_count; i++)
		mark_before(node->deps[i]);
}

/* Whether all work of the other streams comes before what the origin has reached. */
static bool all_joined(struct fc_capture *c)
{
	for (size_t i = 0; i < c->graph->count; i++)
		c->graph->nodes[i]->seen = false;
	for (size_t i = 0; i < c->origin->cap_count; i++)
		mark_before(c->origin->cap_deps[i]);
	for (size_t i = 0; i < c->stream_count; i++)
		for (size_t j = 0; j < c->streams[i]->cap_count; j++)
			if (!c->streams[i]->cap_deps[j]->seen)
				return false;
	return true;
}

/* --- checks by other calls ---------------------------------------------------------------------------- */

static bool forbids(const struct fc_capture *c, const struct fc_thread *t)
{
	bool mine = c->owner == t->id;
	if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (mine)
		return true;
	return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       t->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult fc_capture_unsafe_slow(void)
{
	struct fc_thread *t = fc_self();
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	for (struct fc_capture *c = captures; c && t; c = c->next)
		if (forbids(c, t)) {
			c->invalid = true;
			rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* With the lock held: all captures in the context, or those of blocking streams. */
static void invalidate_in(struct fc_ctx *ctx, bool blocking_only)
{
	for (struct fc_capture *c = captures; c; c = c->next)
		for (size_t i = 0; i < c->stream_count; i++)
			if (c->streams[i]->ctx == ctx &&
			    (!blocking_only || fc_stream_blocking(c->streams[i])))
				c->invalid = true;
}

/* A query or wait, or legacy work: neither may meet a capture. */
CUresult fc_capture_stream_slow(struct fc_stream *s)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	struct fc_capture *c = atomic_load(&s->capture);
	if (c) {
		c->invalid = true;
		rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (fc_stream_legacy(s) && atomic_load(&s->ctx->capturing_blocking)) {
		invalidate_in(s->ctx, true);
		rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult fc_capture_ctx_slow(struct fc_ctx *ctx)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	if (atomic_load(&ctx->capturing)) {
		invalidate_in(ctx, false);
		rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void fc_capture_invalidate(uint64_t capture_id)
{
	pthread_mutex_lock(&lock);
	struct fc_capture *c = capture_find(capture_id);
	if (c)
		c->invalid = true;
	pthread_mutex_unlock(&lock);
}

void fc_capture_stream_gone(struct fc_stream *s)
{
	if (!fc_capturing())
		return;
	pthread_mutex_lock(&lock);
	struct fc_capture *c = atomic_load(&s->capture);
	if (c && c->origin == s) {
		capture_drop(c);
	} else if (c) {
		c->invalid = true;
		for (size_t i = 0; i < c->stream_count; i++)
			if (c->streams[i] == s)
				c->streams[i] = c->streams[--c->stream_count];
		stream_leave(s);
	}
	pthread_mutex_unlock(&lock);
}

/* --- recording ----------------------------------------------------------------------------------------- */

CUresult fc_capture_add(struct fc_stream *s, struct fc_op *op)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	struct fc_capture *c = atomic_load(&s->capture);
	if (!c || c->invalid) {
		fc_op_unref(op);
		rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		struct fc_node *node = fc_graph_add(c->graph, op, s->cap_deps, s->cap_count);
		s->cap_count = node ? 0 : s->cap_count;
		rc = node ? deps_merge(s, &node, 1) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult fc_capture_own_alloc(struct fc_stream *s, CUdeviceptr ptr)
{
	CUresult rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	pthread_mutex_lock(&lock);
	struct fc_capture *c = atomic_load(&s->capture);
	if (c) {
		struct fc_graph *g = c->graph;
		CUdeviceptr *allocs = realloc(g->allocs, (g->alloc_count + 1) * sizeof(*allocs));
		rc = allocs ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (allocs) {
			g->allocs = allocs;
			allocs[g->alloc_count++] = ptr;
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult fc_capture_record(struct fc_stream *s, struct fc_captured *out)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	struct fc_capture *c = atomic_load(&s->capture);
	if (!c || c->invalid) {
		rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		out->capture_id = c->id;
		out->count = s->cap_count;
		out->deps = malloc((s->cap_count + 1) * sizeof(struct fc_node *));
		if (!out->deps)
			rc = CUDA_ERROR_OUT_OF_MEMORY;
		else if (s->cap_count)
			memcpy(out->deps, s->cap_deps, s->cap_count * sizeof(struct fc_node *));
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult fc_capture_wait(struct fc_stream *s, const struct fc_captured *event)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	struct fc_capture *mine = atomic_load(&s->capture);
	struct fc_capture *c = capture_find(event->capture_id);
	if (mine && mine->invalid)
		rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (mine && !event->capture_id)
		rc = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	else if (!c || c->invalid)
		rc = CUDA_ERROR_INVALID_VALUE; /* of a capture that has ended */
	else if (mine && mine != c)
		rc = CUDA_ERROR_STREAM_CAPTURE_MERGE;
	else if (!mine && fc_stream_legacy(s))
		rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	else if (!mine)
		rc = stream_join(c, s);
	if (!rc)
		rc = deps_merge(s, event->deps, event->count);
	else if (mine)
		mine->invalid = true;
	pthread_mutex_unlock(&lock);
	return rc;
}

/* --- entries ------------------------------------------------------------------------------------------- */

CUresult do_cuStreamBeginCapture_v2(bool ptds, CUstream stream, CUstreamCaptureMode mode)
{
	static uint64_t next_id;
	struct fc_stream *s;
	struct fc_thread *t = fc_self();
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if ((int)mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (fc_stream_legacy(s))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct fc_capture *c = calloc(1, sizeof(*c));
	struct fc_graph *g = c ? fc_graph_new() : NULL;
	if (!g || !t) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&lock);
	*c = (struct fc_capture){
		.id = ++next_id, .mode = mode, .owner = t->id, .graph = g, .origin = s};
	rc = atomic_load(&s->capture) ? CUDA_ERROR_ILLEGAL_STATE : stream_join(c, s);
	if (!rc) {
		c->next = captures;
		captures = c;
		atomic_fetch_add(&fc_captures, 1);
	}
	pthread_mutex_unlock(&lock);
	if (rc) {
		fc_handle_drop(g->handle);
		fc_graph_unref(g);
		free(c);
	}
	return rc;
}

CUresult do_cuStreamBeginCapture(bool ptds, CUstream stream)
{
	return do_cuStreamBeginCapture_v2(ptds, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* With the lock held. *graph is set only if the capture has a result. */
static CUresult capture_finish(struct fc_stream *s, struct fc_thread *t, CUgraph *graph)
{
	struct fc_capture *c = atomic_load(&s->capture);
	if (!c)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->origin != s) {
		c->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->owner != t->id) {
		c->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	}
	if (c->invalid || !all_joined(c)) {
		CUresult rc = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
					 : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		capture_drop(c);
		return rc;
	}
	*graph = (CUgraph)(uintptr_t)c->graph->handle;
	capture_end(c);
	return CUDA_SUCCESS;
}

CUresult do_cuStreamEndCapture(bool ptds, CUstream stream, CUgraph *graph)
{
	struct fc_stream *s;
	struct fc_thread *t = fc_self();
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (!graph || !t)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = NULL;
	pthread_mutex_lock(&lock);
	rc = capture_finish(s, t, graph);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* With the lock held: the handles of what the next node comes after, kept by the stream. */
static CUresult capture_deps(struct fc_stream *s, const CUgraphNode **deps, size_t *count)
{
	static _Thread_local CUgraphNode few[64];
	size_t n = s->cap_count < FC_COUNT(few) ? s->cap_count : FC_COUNT(few);
	for (size_t i = 0; i < n; i++)
		few[i] = (CUgraphNode)(uintptr_t)s->cap_deps[i]->handle;
	if (deps)
		*deps = few;
	if (count)
		*count = n;
	return n < s->cap_count ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult capture_info(bool ptds, CUstream stream, CUstreamCaptureStatus *status,
			     cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
			     size_t *count)
{
	struct fc_stream *s;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!fc_capturing())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	struct fc_capture *c = atomic_load(&s->capture);
	if (!c && fc_stream_legacy(s) && atomic_load(&s->ctx->capturing_blocking)) {
		rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	} else if (c) {
		*status = c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
		if (id)
			*id = c->id;
		if (graph)
			*graph = (CUgraph)(uintptr_t)c->graph->handle;
		if (deps || count)
			rc = capture_deps(s, deps, count);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult do_cuStreamIsCapturing(bool ptds, CUstream stream, CUstreamCaptureStatus *status)
{
	return capture_info(ptds, stream, status, NULL, NULL, NULL, NULL);
}

CUresult do_cuStreamGetCaptureInfo(bool ptds, CUstream stream, CUstreamCaptureStatus *status,
				   cuuint64_t *id)
{
	return capture_info(ptds, stream, status, id, NULL, NULL, NULL);
}

CUresult do_cuStreamGetCaptureInfo_v2(bool ptds, CUstream stream, CUstreamCaptureStatus *status,
				      cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
				      size_t *count)
{
	return capture_info(ptds, stream, status, id, graph, deps, count);
}

CUresult do_cuStreamGetCaptureInfo_v3(bool ptds, CUstream stream, CUstreamCaptureStatus *status,
				      cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
				      const CUgraphEdgeData **edges, size_t *count)
{
	if (edges)
		*edges = NULL;
	return capture_info(ptds, stream, status, id, graph, deps, count);
}

CUresult do_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct fc_thread *t = fc_self();
	if (!mode || (int)*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUstreamCaptureMode old = t->capture_mode;
	t->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
