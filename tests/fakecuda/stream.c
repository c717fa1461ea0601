/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: queues, workers, and the order between them. A stream object is used again but never
 * freed, and its sequence numbers only grow, so anyone may wait for (stream, seq) at any time.
 */
#include "tests/fakecuda/internal.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fc_stream *free_streams;

static uint64_t completed(const struct fc_stream *s)
{
	/* Pairs with the release in op_done: what the work wrote is visible. */
	return atomic_load_explicit(&s->completed, memory_order_acquire);
}

static uint64_t submitted(const struct fc_stream *s)
{
	return atomic_load_explicit(&s->submitted, memory_order_acquire);
}

/* --- life ------------------------------------------------------------------------------------------ */

static struct fc_stream *stream_blank(void)
{
	pthread_mutex_lock(&free_lock);
	struct fc_stream *s = free_streams;
	if (s)
		free_streams = s->next;
	pthread_mutex_unlock(&free_lock);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_cond_init(&s->done, NULL);
	return s;
}

/* A drained stream leaves its context and can be used again. */
static void stream_recycle(struct fc_stream *s)
{
	struct fc_ctx *ctx = s->ctx;
	pthread_mutex_lock(&ctx->lock);
	for (struct fc_stream **p = &ctx->streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	pthread_mutex_unlock(&ctx->lock);
	pthread_mutex_lock(&free_lock);
	s->next = free_streams;
	free_streams = s;
	pthread_mutex_unlock(&free_lock);
}

struct fc_stream *fc_stream_new(struct fc_ctx *ctx, enum fc_stream_kind kind, unsigned flags,
				int priority)
{
	static _Atomic uint64_t next_id = 1;
	struct fc_stream *s = stream_blank();
	if (!s)
		return NULL;
	s->ctx = ctx;
	s->kind = kind;
	s->flags = flags;
	s->priority = priority;
	s->released = false;
	s->id = atomic_fetch_add(&next_id, 1);
	s->handle = kind == FC_STREAM_NORMAL ? fc_handle_new(FC_T_STREAM, s) : 0;
	pthread_mutex_lock(&ctx->lock);
	s->next = ctx->streams;
	ctx->streams = s;
	pthread_mutex_unlock(&ctx->lock);
	if (kind == FC_STREAM_NORMAL && !s->handle) {
		stream_recycle(s);
		return NULL;
	}
	return s;
}

/* Returns at once; what is queued still runs. Whoever releases last recycles: this or the worker. */
void fc_stream_release(struct fc_stream *s)
{
	pthread_mutex_lock(&s->lock);
	bool first = !s->released;
	bool drained = completed(s) == submitted(s);
	if (first) {
		fc_handle_drop(s->handle);
		s->handle = 0;
		s->released = true;
		s->dying = !drained;
	}
	pthread_mutex_unlock(&s->lock);
	if (first && drained)
		stream_recycle(s);
	else if (!first)
		sched_yield();
}

static struct fc_stream *own_stream(struct fc_ctx *ctx)
{
	struct fc_thread *t = fc_self();
	if (!t)
		return NULL;
	for (unsigned i = 0; i < t->own_count; i++) {
		if (t->own[i].ctx != ctx)
			continue;
		if (t->own[i].ctx_id == ctx->id)
			return t->own[i].stream;
		t->own[i] = t->own[--t->own_count]; /* of an earlier life of the context */
		break;
	}
	struct fc_own *own = realloc(t->own, (t->own_count + 1) * sizeof(*own));
	if (!own)
		return NULL;
	t->own = own;
	own += t->own_count;
	*own = (struct fc_own){ctx, ctx->id, fc_stream_new(ctx, FC_STREAM_OWN, 0, 0)};
	if (own->stream)
		t->own_count++;
	return own->stream;
}

CUresult fc_stream_get(CUstream handle, bool ptds, struct fc_stream **stream)
{
	struct fc_ctx *ctx;
	if (FC_LIKELY((uintptr_t)handle > (uintptr_t)CU_STREAM_PER_THREAD)) {
		*stream = fc_handle_get(FC_HANDLE(handle), FC_T_STREAM);
		if (FC_LIKELY(*stream != NULL))
			return CUDA_SUCCESS;
		CUresult rc = fc_current(&ctx);
		return rc == CUDA_ERROR_CONTEXT_IS_DESTROYED ? rc : CUDA_ERROR_INVALID_HANDLE;
	}
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (handle == CU_STREAM_PER_THREAD || (!handle && ptds))
		*stream = own_stream(ctx);
	else
		*stream = ctx->legacy;
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- waiting ---------------------------------------------------------------------------------------- */

void fc_wait(struct fc_stream *s, uint64_t seq)
{
	if (completed(s) >= seq)
		return;
	pthread_mutex_lock(&s->lock);
	s->waiters++;
	while (completed(s) < seq)
		pthread_cond_wait(&s->done, &s->lock);
	s->waiters--;
	pthread_mutex_unlock(&s->lock);
}

bool fc_stream_idle(const struct fc_stream *s)
{
	if (fc_stream_legacy(s))
		return !atomic_load_explicit(&s->ctx->pending_legacy, memory_order_acquire);
	uint64_t want = submitted(s);
	return completed(s) >= want;
}

bool fc_stream_ready(struct fc_stream *s)
{
	if (!fc_stream_idle(s))
		return false;
	return !fc_stream_blocking(s) || completed(s->ctx->legacy) >= submitted(s->ctx->legacy);
}

/* What is pending in the context now: everything, or what the legacy stream orders with. */
static CUresult pending_in(struct fc_ctx *ctx, bool all, struct fc_deps *deps)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&ctx->lock);
	for (struct fc_stream *s = ctx->streams; s && !rc; s = s->next) {
		uint64_t want = submitted(s);
		if (completed(s) < want && (all || fc_stream_legacy(s) || fc_stream_blocking(s)))
			rc = fc_deps_add(deps, s, want);
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

static CUresult wait_in(struct fc_ctx *ctx, bool all)
{
	struct fc_deps deps = {0};
	CUresult rc = pending_in(ctx, all, &deps);
	for (unsigned i = 0; i < deps.count && !rc; i++)
		fc_wait(fc_deps_at(&deps, i)->stream, fc_deps_at(&deps, i)->seq);
	fc_deps_free(&deps);
	return rc;
}

CUresult fc_ctx_drain(struct fc_ctx *ctx)
{
	/* Pairs with the release in op_done. */
	if (!atomic_load_explicit(&ctx->pending, memory_order_acquire))
		return CUDA_SUCCESS;
	return wait_in(ctx, true);
}

CUresult fc_stream_wait(struct fc_stream *s)
{
	if (FC_LIKELY(fc_stream_idle(s)))
		return CUDA_SUCCESS;
	if (fc_stream_legacy(s))
		return wait_in(s->ctx, false);
	fc_wait(s, submitted(s));
	return CUDA_SUCCESS;
}

/* --- work ------------------------------------------------------------------------------------------- */

static bool orders_with_legacy(const struct fc_stream *s)
{
	return fc_stream_legacy(s) || fc_stream_blocking(s);
}

/*
 * The counters go down before completed goes up: whoever has waited for the operation finds the
 * context idle. All this is under the lock, so a waiter misses no wake-up.
 */
static void op_done(struct fc_stream *s, struct fc_op *op)
{
	struct fc_ctx *ctx = s->ctx;
	uint64_t seq = op->seq;
	fc_op_unref(op);
	if (orders_with_legacy(s))
		atomic_fetch_sub_explicit(&ctx->pending_legacy, 1, memory_order_acq_rel);
	atomic_fetch_sub_explicit(&ctx->pending, 1, memory_order_acq_rel);
	pthread_mutex_lock(&s->lock);
	atomic_store_explicit(&s->completed, seq, memory_order_release);
	bool recycle = s->dying && !s->head;
	if (recycle)
		s->dying = false;
	if (s->waiters)
		pthread_cond_broadcast(&s->done);
	pthread_mutex_unlock(&s->lock);
	if (recycle)
		stream_recycle(s);
}

static void *stream_work(void *arg)
{
	static _Atomic unsigned workers;
	struct fc_stream *s = arg;
	char name[16];
	snprintf(name, sizeof(name), "fakecuda-%u", atomic_fetch_add(&workers, 1) % 100000);
	pthread_setname_np(pthread_self(), name);
	for (;;) {
		pthread_mutex_lock(&s->lock);
		while (!s->head)
			pthread_cond_wait(&s->work, &s->lock);
		struct fc_op *op = s->head;
		s->head = op->next;
		if (!s->head)
			s->tail = NULL;
		pthread_mutex_unlock(&s->lock);
		for (unsigned i = 0; i < op->deps.count; i++)
			fc_wait(fc_deps_at(&op->deps, i)->stream, fc_deps_at(&op->deps, i)->seq);
		fc_activity_run(s, op);
		op_done(s, op);
	}
	return NULL;
}

/* With the lock held. Detached, and deaf to signals, which are for the program's own threads. */
static CUresult worker_start(struct fc_stream *s)
{
	enum { STACK = 8 << 20 };
	pthread_t thread;
	pthread_attr_t attr;
	sigset_t all, old;
	sigfillset(&all);
	if (pthread_attr_init(&attr))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&thread, &attr, stream_work, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	s->has_worker = !err;
	return err ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* A full launch queue holds the host, as it does on a device. */
static void queue_room(struct fc_stream *s)
{
	uint64_t end = submitted(s);
	if (end - completed(s) >= fc_settings.queue_depth)
		fc_wait(s, end - fc_settings.queue_depth + 1);
}

static CUresult push(struct fc_stream *s, struct fc_op *op, uint64_t *seq)
{
	struct fc_ctx *ctx = s->ctx;
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&s->lock);
	if (!s->has_worker)
		rc = worker_start(s);
	if (!rc) {
		atomic_fetch_add_explicit(&ctx->pending, 1, memory_order_relaxed);
		if (orders_with_legacy(s))
			atomic_fetch_add_explicit(&ctx->pending_legacy, 1, memory_order_relaxed);
		op->seq = atomic_load_explicit(&s->submitted, memory_order_relaxed) + 1;
		if (seq)
			*seq = op->seq;
		if (s->tail)
			s->tail->next = op;
		else
			s->head = op;
		s->tail = op;
		atomic_store_explicit(&s->submitted, op->seq, memory_order_release);
		pthread_cond_signal(&s->work);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static CUresult submit_observed(struct fc_stream *s, struct fc_op *op, uint64_t *seq)
{
	uint64_t begin = fc_activity_begin();
	CUresult rc;

	fc_activity_given(s, op);
	atomic_fetch_add(&op->refs, 1); /* it may be done and gone before the call is told */
	rc = push(s, op, seq);
	if (!rc)
		fc_activity_call(s, op, begin);
	else
		fc_op_unref(op);
	fc_op_unref(op);
	return rc;
}

CUresult fc_submit(struct fc_stream *s, struct fc_op *op, uint64_t *seq)
{
	struct fc_ctx *ctx = s->ctx;
	CUresult rc = CUDA_SUCCESS;
	if (FC_UNLIKELY(fc_capturing())) {
		if (atomic_load(&s->capture))
			return fc_capture_add(s, op);
		if (fc_stream_legacy(s))
			rc = fc_capture_stream_slow(s);
	}
	queue_room(s);
	if (!rc && fc_stream_legacy(s)) {
		if (atomic_load_explicit(&ctx->pending_legacy, memory_order_acquire))
			rc = pending_in(ctx, false, &op->deps);
	} else if (!rc && fc_stream_blocking(s)) {
		uint64_t want = submitted(ctx->legacy);
		if (completed(ctx->legacy) < want)
			rc = fc_deps_add(&op->deps, ctx->legacy, want);
	}
	if (rc || FC_LIKELY(!atomic_load_explicit(&fc_observer, memory_order_relaxed))) {
		if (!rc)
			rc = push(s, op, seq);
		if (rc)
			fc_op_unref(op);
		return rc;
	}
	return submit_observed(s, op, seq);
}

/* --- entries ---------------------------------------------------------------------------------------- */

CUresult do_cuStreamQuery(bool ptds, CUstream stream)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (FC_UNLIKELY(rc))
		return rc;
	if (FC_UNLIKELY(fc_capturing())) {
		rc = fc_capture_stream_slow(s);
		if (!rc)
			rc = fc_capture_unsafe_slow();
		if (rc)
			return rc;
	}
	return fc_stream_idle(s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult do_cuStreamSynchronize(bool ptds, CUstream stream)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (FC_UNLIKELY(rc))
		return rc;
	if (FC_UNLIKELY(fc_capturing())) {
		rc = fc_capture_stream_slow(s);
		if (!rc)
			rc = fc_capture_unsafe_slow();
		if (rc)
			return rc;
	}
	uint64_t begin = fc_activity_begin();
	if (!fc_stream_idle(s)) {
		rc = fc_may_wait();
		if (!rc)
			rc = fc_stream_wait(s);
	}
	fc_activity_wait(s->ctx, s, FC_WAIT_STREAM, begin);
	return rc;
}

CUresult do_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (priority > 0)
		priority = 0;
	struct fc_stream *s =
		fc_stream_new(ctx, FC_STREAM_NORMAL, flags, priority < -5 ? -5 : priority);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*stream = (CUstream)(uintptr_t)s->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return do_cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult do_cuStreamDestroy(CUstream stream)
{
	struct fc_stream *s = fc_handle_get(FC_HANDLE(stream), FC_T_STREAM);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	fc_capture_stream_gone(s);
	fc_stream_release(s);
	return CUDA_SUCCESS;
}

CUresult do_cuStreamGetPriority(bool ptds, CUstream stream, int *priority)
{
	struct fc_stream *s;
	CUresult rc = priority ? fc_stream_get(stream, ptds, &s) : CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*priority = s->priority;
	return rc;
}

CUresult do_cuStreamGetFlags(bool ptds, CUstream stream, unsigned int *flags)
{
	struct fc_stream *s;
	CUresult rc = flags ? fc_stream_get(stream, ptds, &s) : CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*flags = s->flags;
	return rc;
}

CUresult do_cuStreamGetId(bool ptds, CUstream stream, unsigned long long *id)
{
	struct fc_stream *s;
	CUresult rc = id ? fc_stream_get(stream, ptds, &s) : CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*id = s->id;
	return rc;
}

CUresult do_cuStreamGetDevice(bool ptds, CUstream stream, CUdevice *dev)
{
	struct fc_stream *s;
	CUresult rc = dev ? fc_stream_get(stream, ptds, &s) : CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*dev = s->ctx->dev->ordinal;
	return rc;
}

CUresult do_cuStreamGetCtx(bool ptds, CUstream stream, CUcontext *ctx)
{
	struct fc_stream *s;
	CUresult rc = ctx ? fc_stream_get(stream, ptds, &s) : CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*ctx = (CUcontext)(uintptr_t)s->ctx->handle;
	return rc;
}

CUresult do_cuStreamGetCtx_v2(bool ptds, CUstream stream, CUcontext *ctx, CUgreenCtx *green)
{
	CUresult rc = do_cuStreamGetCtx(ptds, stream, ctx);
	if (!rc && green)
		*green = NULL;
	return rc;
}
