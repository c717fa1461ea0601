/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. A record is an operation of its stream; the event remembers how many records were asked
 * for and how many have happened, so that a query is two loads. Event objects are used again once
 * no operation refers to them, never freed.
 */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

struct fc_event {
	uint64_t handle;
	struct fc_ctx *ctx;
	unsigned flags;
	_Atomic unsigned refs; /* the handle's and each pending record's */
	_Atomic uint64_t recorded, happened;
	_Atomic uint64_t time_ns;
	_Atomic bool captured;
	pthread_mutex_t lock; /* protects the rest, and the order of records */
	struct fc_stream *stream;
	uint64_t seq;
	struct fc_captured capture;
	struct fc_event *next_free;
};

struct record {
	struct fc_event *event;
	uint64_t n;
};

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fc_event *free_events;

static void event_unref(struct fc_event *e)
{
	if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
		return;
	free(e->capture.deps);
	e->capture = (struct fc_captured){0};
	pthread_mutex_lock(&free_lock);
	e->next_free = free_events;
	free_events = e;
	pthread_mutex_unlock(&free_lock);
}

static struct fc_event *event_blank(void)
{
	pthread_mutex_lock(&free_lock);
	struct fc_event *e = free_events;
	if (e)
		free_events = e->next_free;
	pthread_mutex_unlock(&free_lock);
	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (e)
		pthread_mutex_init(&e->lock, NULL);
	return e;
}

static struct fc_event *event_get(CUevent event)
{
	return fc_handle_get(FC_HANDLE(event), FC_T_EVENT);
}

CUresult do_cuEventCreate(CUevent *event, unsigned int flags)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!event || flags & ~7u ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_event *e = event_blank();
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->ctx = ctx;
	e->flags = flags;
	e->stream = NULL;
	atomic_store(&e->refs, 1);
	atomic_store(&e->recorded, 0);
	atomic_store(&e->happened, 0);
	atomic_store(&e->captured, false);
	e->handle = fc_handle_new(FC_T_EVENT, e);
	if (!e->handle) {
		event_unref(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*event = (CUevent)(uintptr_t)e->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuEventDestroy(CUevent event)
{
	struct fc_event *e = event_get(event);
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	fc_handle_drop(FC_HANDLE(event));
	event_unref(e);
	return CUDA_SUCCESS;
}

static void event_forget(void *obj, void *ctx)
{
	struct fc_event *e = obj;
	if (e->ctx != ctx)
		return;
	fc_handle_drop(e->handle);
	event_unref(e);
}

void fc_events_forget(struct fc_ctx *ctx)
{
	fc_handle_each(FC_T_EVENT, event_forget, ctx);
}

static void event_happen(struct fc_event *e, uint64_t n)
{
	if (!(e->flags & CU_EVENT_DISABLE_TIMING))
		atomic_store_explicit(&e->time_ns, fc_now_ns(), memory_order_relaxed);
	uint64_t had = atomic_load_explicit(&e->happened, memory_order_relaxed);
	/* Pairs with the acquire in event_ready: the time is there before the count. */
	while (had < n &&
	       !atomic_compare_exchange_weak_explicit(&e->happened, &had, n, memory_order_release,
						      memory_order_relaxed))
		;
}

static void run_record(const struct fc_op *op)
{
	struct record r;
	memcpy(&r, op->data, sizeof(r));
	/* A newer record makes this one invisible. */
	if (r.n >= atomic_load_explicit(&r.event->recorded, memory_order_acquire))
		event_happen(r.event, r.n);
}

static void drop_record(struct fc_op *op)
{
	struct record r;
	memcpy(&r, op->data, sizeof(r));
	event_unref(r.event);
}

/* With the event's lock held. */
static CUresult record_queue(struct fc_event *e, struct fc_stream *s, uint64_t n)
{
	struct record r = {e, n};
	uint64_t seq = 0;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_EMPTY, sizeof(r), run_record);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, &r, sizeof(r));
	atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	op->drop = drop_record;
	CUresult rc = fc_submit(s, op, &seq);
	if (rc)
		return rc;
	e->stream = s;
	e->seq = seq;
	return CUDA_SUCCESS;
}

/* With the event's lock held. */
static CUresult record_captured(struct fc_event *e, struct fc_stream *s)
{
	struct fc_captured c = {0};
	CUresult rc = fc_capture_record(s, &c);
	if (rc)
		return rc;
	free(e->capture.deps);
	e->capture = c;
	atomic_store(&e->captured, true);
	return CUDA_SUCCESS;
}

CUresult do_cuEventRecordWithFlags(bool ptds, CUevent event, CUstream stream, unsigned int flags)
{
	struct fc_event *e = event_get(event);
	struct fc_stream *s;
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (!e || e->ctx != s->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&e->lock);
	if (FC_UNLIKELY(fc_capturing()) && atomic_load(&s->capture)) {
		rc = record_captured(e, s);
		pthread_mutex_unlock(&e->lock);
		return rc;
	}
	uint64_t n = atomic_load_explicit(&e->recorded, memory_order_relaxed) + 1;
	if (!fc_capturing() && fc_stream_ready(s)) {
		/* Nothing before it: it happens now, and nobody need be woken for it. */
		e->stream = NULL;
		event_happen(e, n);
	} else {
		rc = record_queue(e, s, n);
	}
	if (!rc) {
		atomic_store_explicit(&e->recorded, n, memory_order_release);
		atomic_store_explicit(&e->captured, false, memory_order_relaxed);
	}
	pthread_mutex_unlock(&e->lock);
	return rc;
}

CUresult do_cuEventRecord(bool ptds, CUevent event, CUstream stream)
{
	return do_cuEventRecordWithFlags(ptds, event, stream, 0);
}

static bool event_ready(const struct fc_event *e)
{
	uint64_t want = atomic_load_explicit(&e->recorded, memory_order_acquire);
	return atomic_load_explicit(&e->happened, memory_order_acquire) >= want;
}

/* While a capture is on: an event recorded in one has no state to ask for. */
static CUresult event_capture_check(struct fc_event *e)
{
	if (atomic_load(&e->captured)) {
		pthread_mutex_lock(&e->lock);
		fc_capture_invalidate(e->capture.capture_id);
		pthread_mutex_unlock(&e->lock);
		return CUDA_ERROR_CAPTURED_EVENT;
	}
	return fc_capture_unsafe();
}

CUresult do_cuEventQuery(CUevent event)
{
	struct fc_event *e = event_get(event);
	if (FC_UNLIKELY(!e))
		return CUDA_ERROR_INVALID_HANDLE;
	if (FC_UNLIKELY(fc_capturing() ||
			atomic_load_explicit(&e->captured, memory_order_relaxed))) {
		CUresult rc = event_capture_check(e);
		if (rc)
			return rc;
	}
	return event_ready(e) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult do_cuEventSynchronize(CUevent event)
{
	struct fc_event *e = event_get(event);
	if (FC_UNLIKELY(!e))
		return CUDA_ERROR_INVALID_HANDLE;
	if (FC_UNLIKELY(fc_capturing() ||
			atomic_load_explicit(&e->captured, memory_order_relaxed))) {
		CUresult rc = event_capture_check(e);
		if (rc)
			return rc;
	}
	if (FC_LIKELY(event_ready(e)))
		return CUDA_SUCCESS;
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	pthread_mutex_lock(&e->lock);
	struct fc_stream *s = e->stream;
	uint64_t seq = e->seq;
	pthread_mutex_unlock(&e->lock);
	if (s)
		fc_wait(s, seq);
	return CUDA_SUCCESS;
}

CUresult do_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	struct fc_event *a = event_get(start), *b = event_get(end);
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!a || !b || a->ctx != b->ctx || (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING ||
	    !atomic_load(&a->recorded) || !atomic_load(&b->recorded))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_ready(a) || !event_ready(b))
		return CUDA_ERROR_NOT_READY;
	int64_t ns = (int64_t)(atomic_load(&b->time_ns) - atomic_load(&a->time_ns));
	*ms = (float)((double)ns / 1e6);
	return CUDA_SUCCESS;
}

/* The dependency is all there is to it. */
static void run_wait(const struct fc_op *op)
{
	(void)op;
}

CUresult do_cuStreamWaitEvent(bool ptds, CUstream stream, CUevent event, unsigned int flags)
{
	struct fc_event *e = event_get(event);
	struct fc_stream *s;
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (FC_UNLIKELY(fc_capturing()) &&
	    (atomic_load(&s->capture) || atomic_load(&e->captured))) {
		pthread_mutex_lock(&e->lock);
		rc = fc_capture_wait(s, &e->capture);
		pthread_mutex_unlock(&e->lock);
		return rc;
	}
	if (atomic_load(&e->captured))
		return CUDA_ERROR_INVALID_VALUE;
	if (event_ready(e))
		return CUDA_SUCCESS;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_EMPTY, 0, run_wait);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&e->lock);
	if (e->stream)
		rc = fc_deps_add(&op->deps, e->stream, e->seq);
	pthread_mutex_unlock(&e->lock);
	if (!rc)
		return fc_submit(s, op, NULL);
	fc_op_unref(op);
	return rc;
}
