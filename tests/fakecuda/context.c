/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and which one is current to a thread. */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

/* One pointer: a library opened late gets little static TLS. */
static __thread struct fc_thread *self __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;
static bool self_key_made;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* primary contexts, free contexts */
static struct fc_ctx *free_ctxs;

/* At thread exit: its own streams finish what they have and go. */
static void self_free(void *arg)
{
	struct fc_thread *t = arg;
	self = NULL;
	for (unsigned i = 0; i < t->own_count; i++)
		if (atomic_load(&t->own[i].ctx->alive) && t->own[i].ctx->id == t->own[i].ctx_id)
			fc_stream_release(t->own[i].stream);
	fc_ops_keep(t->ops);
	free(t->own);
	free(t);
}

static void self_key_make(void)
{
	self_key_made = !pthread_key_create(&self_key, self_free);
}

struct fc_thread *fc_self(void)
{
	static _Atomic uint64_t next_id = 1;
	if (FC_LIKELY(self))
		return self;
	pthread_once(&self_once, self_key_make);
	struct fc_thread *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->id = atomic_fetch_add(&next_id, 1);
	if (self_key_made)
		pthread_setspecific(self_key, t);
	self = t;
	return t;
}

CUresult fc_current(struct fc_ctx **ctx)
{
	struct fc_thread *t = fc_self();
	if (FC_UNLIKELY(!t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (FC_UNLIKELY(t->in_callback))
		return CUDA_ERROR_NOT_PERMITTED;
	if (FC_UNLIKELY(!t->depth || !t->stack[t->depth - 1].ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	struct fc_ctx *c = t->stack[t->depth - 1].ctx;
	if (FC_UNLIKELY(!atomic_load_explicit(&c->alive, memory_order_acquire) ||
			c->handle != t->stack[t->depth - 1].handle))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ctx = c;
	return CUDA_SUCCESS;
}

CUresult fc_may_wait(void)
{
	struct fc_thread *t = fc_self();
	return t && t->in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

struct fc_ctx *fc_ctx_get(CUcontext handle)
{
	struct fc_ctx *ctx = fc_handle_get(FC_HANDLE(handle), FC_T_CTX);
	return ctx && atomic_load_explicit(&ctx->alive, memory_order_acquire) ? ctx : NULL;
}

static void limits_reset(struct fc_ctx *ctx)
{
	static const size_t defaults[FC_COUNT(ctx->limits)] = {
		1024, 8650752, 8388608, 0, 2048, 64, 0, FC_SHARED_OPTIN,
	};
	memcpy(ctx->limits, defaults, sizeof(defaults));
}

/* With the lock held. */
static CUresult ctx_open(struct fc_ctx *ctx, unsigned flags)
{
	static _Atomic uint64_t next_id = 1;
	ctx->flags = flags | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX;
	ctx->id = atomic_fetch_add(&next_id, 1);
	ctx->peers = 0;
	ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
	limits_reset(ctx);
	ctx->legacy = fc_stream_new(ctx, FC_STREAM_LEGACY_DEFAULT, 0, 0);
	if (!ctx->legacy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_store_explicit(&ctx->alive, true, memory_order_release);
	return CUDA_SUCCESS;
}

/* With the lock held. */
static struct fc_ctx *ctx_new(struct fc_device *dev)
{
	struct fc_ctx *ctx = free_ctxs;
	if (ctx) {
		free_ctxs = ctx->next_free;
	} else {
		ctx = calloc(1, sizeof(*ctx));
		if (!ctx)
			return NULL;
		pthread_mutex_init(&ctx->lock, NULL);
	}
	ctx->dev = dev;
	ctx->handle = fc_handle_new(FC_T_CTX, ctx);
	if (ctx->handle)
		return ctx;
	ctx->next_free = free_ctxs;
	free_ctxs = ctx;
	return NULL;
}

/* Ends all that lives in the context. Its memory stays for the next one. */
static void ctx_close(struct fc_ctx *ctx)
{
	fc_ctx_drain(ctx);
	atomic_store_explicit(&ctx->alive, false, memory_order_release);
	for (;;) {
		pthread_mutex_lock(&ctx->lock);
		struct fc_stream *s = ctx->streams;
		pthread_mutex_unlock(&ctx->lock);
		if (!s)
			break;
		fc_capture_stream_gone(s);
		fc_stream_release(s);
	}
	ctx->legacy = NULL;
	fc_events_forget(ctx);
	fc_modules_forget(ctx);
	fc_memory_forget(ctx);
}

/* --- primary contexts --------------------------------------------------------------------------- */

CUresult do_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
	struct fc_device *d = fc_device_get(dev);
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!d->primary)
		d->primary = ctx_new(d);
	if (!d->primary)
		rc = CUDA_ERROR_OUT_OF_MEMORY;
	else if (!d->primary_refs)
		rc = ctx_open(d->primary, d->primary_flags);
	if (!rc) {
		d->primary_refs++;
		d->primary->api_version = 3020;
		*out = (CUcontext)(uintptr_t)d->primary->handle;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult do_cuDevicePrimaryCtxRelease(CUdevice dev)
{
	struct fc_device *d = fc_device_get(dev);
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!d->primary_refs)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	else if (!--d->primary_refs)
		ctx_close(d->primary);
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult do_cuDevicePrimaryCtxReset(CUdevice dev)
{
	struct fc_device *d = fc_device_get(dev);
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (d->primary_refs) {
		ctx_close(d->primary);
		rc = ctx_open(d->primary, d->primary_flags);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult do_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	struct fc_device *d = fc_device_get(dev);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~0xffu)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	d->primary_flags = flags;
	if (d->primary_refs)
		d->primary->flags = flags | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct fc_device *d = fc_device_get(dev);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*flags = d->primary_flags;
	*active = d->primary_refs != 0;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* --- created contexts ---------------------------------------------------------------------------- */

CUresult do_cuCtxPushCurrent(CUcontext handle)
{
	struct fc_thread *t = fc_self();
	struct fc_ctx *ctx = fc_ctx_get(handle);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!t || t->depth == FC_CTX_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->stack[t->depth].ctx = ctx;
	t->stack[t->depth++].handle = ctx->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice dev)
{
	struct fc_device *d = fc_device_get(dev);
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	if (!out || flags & ~0xffu)
		return CUDA_ERROR_INVALID_VALUE;
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	struct fc_ctx *ctx = ctx_new(d);
	rc = ctx ? ctx_open(ctx, flags) : CUDA_ERROR_OUT_OF_MEMORY;
	if (ctx && rc) {
		fc_handle_drop(ctx->handle);
		ctx->next_free = free_ctxs;
		free_ctxs = ctx;
	}
	pthread_mutex_unlock(&lock);
	if (rc)
		return rc;
	ctx->api_version = 3020;
	*out = (CUcontext)(uintptr_t)ctx->handle;
	return do_cuCtxPushCurrent(*out);
}

CUresult do_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count,
			   unsigned int flags, CUdevice dev)
{
	if (affinity || count)
		return CUDA_ERROR_NOT_SUPPORTED;
	return do_cuCtxCreate_v2(out, flags, dev);
}

CUresult do_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *create, unsigned int flags,
			   CUdevice dev)
{
	if (create)
		return CUDA_ERROR_NOT_SUPPORTED;
	return do_cuCtxCreate_v2(out, flags, dev);
}

CUresult do_cuCtxDestroy(CUcontext handle)
{
	struct fc_ctx *ctx = fc_ctx_get(handle);
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	if (ctx == ctx->dev->primary || !atomic_load(&ctx->alive)) {
		rc = CUDA_ERROR_INVALID_CONTEXT;
	} else {
		ctx_close(ctx);
		fc_handle_drop(ctx->handle);
	}
	pthread_mutex_unlock(&lock);
	if (rc)
		return rc;
	struct fc_thread *t = fc_self();
	if (t && t->depth && t->stack[t->depth - 1].ctx == ctx)
		t->depth--;
	pthread_mutex_lock(&lock);
	ctx->handle = 0; /* other threads find it destroyed, also once it is used again */
	ctx->next_free = free_ctxs;
	free_ctxs = ctx;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult do_cuCtxPopCurrent(CUcontext *out)
{
	struct fc_thread *t = fc_self();
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!t->depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	t->depth--;
	if (out)
		*out = (CUcontext)(uintptr_t)t->stack[t->depth].handle;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxSetCurrent(CUcontext handle)
{
	struct fc_thread *t = fc_self();
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!handle) {
		if (t->depth)
			t->depth--;
		return CUDA_SUCCESS;
	}
	struct fc_ctx *ctx = fc_ctx_get(handle);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!t->depth)
		t->depth = 1;
	t->stack[t->depth - 1].ctx = ctx;
	t->stack[t->depth - 1].handle = ctx->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxGetCurrent(CUcontext *out)
{
	struct fc_thread *t = fc_self();
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = t && t->depth ? (CUcontext)(uintptr_t)t->stack[t->depth - 1].handle : NULL;
	return CUDA_SUCCESS;
}

/* NULL is the current context. */
static CUresult ctx_or_current(CUcontext handle, struct fc_ctx **ctx)
{
	if (!handle)
		return fc_current(ctx);
	*ctx = fc_ctx_get(handle);
	return *ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult do_cuCtxGetDevice_v2(CUdevice *dev, CUcontext handle)
{
	struct fc_ctx *ctx;
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = ctx_or_current(handle, &ctx);
	if (!rc)
		*dev = ctx->dev->ordinal;
	return rc;
}

CUresult do_cuCtxGetDevice(CUdevice *dev)
{
	return do_cuCtxGetDevice_v2(dev, NULL);
}

CUresult do_cuCtxGetFlags(unsigned int *flags)
{
	struct fc_ctx *ctx;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_current(&ctx);
	if (!rc)
		*flags = ctx->flags;
	return rc;
}

CUresult do_cuCtxSetFlags(unsigned int flags)
{
	struct fc_ctx *ctx;
	if (flags & ~0xffu)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_current(&ctx);
	if (!rc)
		ctx->flags = flags | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX;
	return rc;
}

CUresult do_cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	struct fc_ctx *ctx;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = ctx_or_current(handle, &ctx);
	if (!rc)
		*id = ctx->id;
	return rc;
}

CUresult do_cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct fc_ctx *ctx;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = ctx_or_current(handle, &ctx);
	if (!rc)
		*version = ctx->api_version;
	return rc;
}

CUresult do_cuCtxSynchronize_v2(CUcontext handle)
{
	struct fc_ctx *ctx = NULL;
	CUresult rc = fc_may_wait();
	if (!rc)
		rc = ctx_or_current(handle, &ctx);
	if (rc)
		return rc;
	if (FC_UNLIKELY(fc_capturing())) {
		rc = fc_capture_ctx_slow(ctx);
		if (rc)
			return rc;
	}
	uint64_t begin = fc_activity_begin();
	rc = fc_ctx_drain(ctx);
	fc_activity_wait(ctx, NULL, FC_WAIT_CONTEXT, begin);
	return rc;
}

CUresult do_cuCtxSynchronize(void)
{
	return do_cuCtxSynchronize_v2(NULL);
}

CUresult do_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if ((int)limit < 0 || (size_t)limit >= FC_COUNT(ctx->limits))
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit == CU_LIMIT_SHMEM_SIZE)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	rc = fc_capture_unsafe();
	if (rc)
		return rc;
	/* The stacks of all threads are laid out anew, which the running work must not see. */
	pthread_mutex_lock(&ctx->lock);
	bool resize = limit == CU_LIMIT_STACK_SIZE && ctx->limits[limit] != value;
	ctx->limits[limit] = value;
	pthread_mutex_unlock(&ctx->lock);
	return resize ? fc_ctx_drain(ctx) : CUDA_SUCCESS;
}

CUresult do_cuCtxGetLimit(size_t *value, CUlimit limit)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!value || (int)limit < 0 || (size_t)limit >= FC_COUNT(ctx->limits))
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	pthread_mutex_lock(&ctx->lock);
	*value = ctx->limits[limit];
	pthread_mutex_unlock(&ctx->lock);
	return CUDA_SUCCESS;
}

CUresult do_cuCtxGetCacheConfig(CUfunc_cache *config)
{
	struct fc_ctx *ctx;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_current(&ctx);
	if (!rc)
		*config = ctx->cache_config;
	return rc;
}

CUresult do_cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (!rc)
		ctx->cache_config = config;
	return rc;
}

CUresult do_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct fc_ctx *ctx;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult do_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	struct fc_ctx *ctx, *other = fc_ctx_get(peer);
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!other)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (other->dev == ctx->dev)
		return CUDA_ERROR_INVALID_DEVICE;
	uint64_t bit = UINT64_C(1) << other->dev->ordinal;
	pthread_mutex_lock(&ctx->lock);
	rc = ctx->peers & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
	ctx->peers |= bit;
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

CUresult do_cuCtxDisablePeerAccess(CUcontext peer)
{
	struct fc_ctx *ctx, *other = fc_ctx_get(peer);
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!other)
		return CUDA_ERROR_INVALID_CONTEXT;
	uint64_t bit = UINT64_C(1) << other->dev->ordinal;
	pthread_mutex_lock(&ctx->lock);
	rc = ctx->peers & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	ctx->peers &= ~bit;
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}
