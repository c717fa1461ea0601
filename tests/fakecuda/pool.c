/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. An allocation is usable at once; a free takes effect when its stream
 * gets there, and then the pool keeps the memory for the next allocation of that size.
 */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

struct block {
	struct fc_range range;
	struct block *next;
};

struct fc_pool {
	uint64_t handle;
	struct fc_device *dev;
	bool is_default, destroyed;
	pthread_mutex_t lock;
	struct block *cached; /* newest first */
	uint64_t threshold;
	uint64_t reserved, reserved_high, used, used_high;
	int reuse[3];
};

/* The real driver gives memory back at a synchronization; ours keeps this much in any case. */
enum { KEEP_BYTES = 64 << 20 };

static struct fc_pool *pool_new(struct fc_device *dev)
{
	struct fc_pool *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	pool->dev = dev;
	for (size_t i = 0; i < FC_COUNT(pool->reuse); i++)
		pool->reuse[i] = 1;
	pool->handle = fc_handle_new(FC_T_POOL, pool);
	if (pool->handle)
		return pool;
	pthread_mutex_destroy(&pool->lock);
	free(pool);
	return NULL;
}

CUresult fc_pools_init(struct fc_device *dev)
{
	dev->default_pool = dev->pool = pool_new(dev);
	if (!dev->pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	dev->pool->is_default = true;
	return CUDA_SUCCESS;
}

static struct fc_pool *pool_get(CUmemoryPool handle)
{
	return fc_handle_get(FC_HANDLE(handle), FC_T_POOL);
}

CUmemoryPool fc_pool_handle(const struct fc_pool *pool)
{
	return pool ? (CUmemoryPool)(uintptr_t)pool->handle : NULL;
}

/* With the lock held: gives blocks back until at most keep bytes are reserved. */
static void pool_trim(struct fc_pool *pool, uint64_t keep)
{
	while (pool->cached && pool->reserved > keep) {
		struct block *b = pool->cached;
		pool->cached = b->next;
		pool->reserved -= b->range.mapped;
		fc_range_unmap(&b->range);
		free(b);
	}
}

static void pool_free(struct fc_pool *pool)
{
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* The last memory of a destroyed pool takes the pool with it. */
void fc_pool_forget(struct fc_range *range)
{
	struct fc_pool *pool = range->pool;
	pthread_mutex_lock(&pool->lock);
	pool->used -= range->mapped;
	pool->reserved -= range->mapped;
	bool last = pool->destroyed && !pool->used;
	pthread_mutex_unlock(&pool->lock);
	fc_range_unmap(range);
	if (last)
		pool_free(pool);
}

void fc_pool_give(struct fc_range *range)
{
	struct fc_pool *pool = range->pool;
	struct block *b = malloc(sizeof(*b));
	pthread_mutex_lock(&pool->lock);
	if (!b || pool->destroyed) {
		pthread_mutex_unlock(&pool->lock);
		free(b);
		fc_pool_forget(range);
		return;
	}
	pool->used -= range->mapped;
	b->range = *range;
	b->range.freeing = false;
	b->range.sync_memops = 0;
	b->next = pool->cached;
	pool->cached = b;
	uint64_t keep = pool->threshold > KEEP_BYTES ? pool->threshold : KEEP_BYTES;
	pool_trim(pool, pool->used + keep);
	pthread_mutex_unlock(&pool->lock);
}

/* Accounts for bytes taken out of the pool; fresh ones were not reserved before. */
static void pool_used(struct fc_pool *pool, size_t mapped, bool fresh)
{
	pthread_mutex_lock(&pool->lock);
	pool->used += mapped;
	if (fresh)
		pool->reserved += mapped;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	pthread_mutex_unlock(&pool->lock);
}

static bool pool_reuse(struct fc_pool *pool, size_t mapped, struct fc_range *range)
{
	bool found = false;
	pthread_mutex_lock(&pool->lock);
	for (struct block **p = &pool->cached; *p; p = &(*p)->next) {
		if ((*p)->range.mapped != mapped)
			continue;
		struct block *b = *p;
		*p = b->next;
		*range = b->range;
		free(b);
		found = true;
		break;
	}
	pthread_mutex_unlock(&pool->lock);
	return found;
}

static CUresult pool_take(struct fc_pool *pool, struct fc_ctx *ctx, size_t bytes, CUdeviceptr *ptr)
{
	struct fc_range range;
	bool reused = pool_reuse(pool, fc_page_round(bytes), &range);
	if (!reused) {
		CUresult rc = fc_device_alloc(ctx, bytes, FC_DEVICE, &range);
		if (rc == CUDA_ERROR_OUT_OF_MEMORY) {
			pthread_mutex_lock(&pool->lock);
			pool_trim(pool, 0);
			pthread_mutex_unlock(&pool->lock);
			rc = fc_device_alloc(ctx, bytes, FC_DEVICE, &range);
		}
		if (rc)
			return rc;
	}
	range.bytes = bytes;
	range.ctx = ctx;
	range.pool = pool;
	pool_used(pool, range.mapped, !reused);
	CUresult rc = fc_range_add(&range);
	if (rc)
		fc_pool_give(&range);
	else
		*ptr = range.base;
	return rc;
}

/* --- allocation on a stream ------------------------------------------------------------------------- */

static void run_nothing(const struct fc_op *op)
{
	(void)op;
}

static CUresult alloc_on(struct fc_stream *s, struct fc_pool *pool, CUdeviceptr *ptr, size_t bytes)
{
	CUdeviceptr p = 0;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) {
		*ptr = 0;
		return CUDA_SUCCESS;
	}
	CUresult rc = pool_take(pool ? pool : s->ctx->dev->pool, s->ctx, bytes, &p);
	if (rc)
		return rc;
	if (FC_UNLIKELY(fc_capturing()) && atomic_load(&s->capture)) {
		struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_MEM_ALLOC, 0, run_nothing);
		rc = op ? fc_submit(s, op, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
		if (!rc)
			rc = fc_capture_own_alloc(s, p);
	}
	if (rc) {
		struct fc_range range;
		if (fc_range_take(p, NULL, &range))
			fc_pool_give(&range);
		return rc;
	}
	*ptr = p;
	return CUDA_SUCCESS;
}

CUresult do_cuMemAllocAsync(bool ptds, CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	return rc ? rc : alloc_on(s, NULL, ptr, bytes);
}

CUresult do_cuMemAllocFromPoolAsync(bool ptds, CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
				    CUstream stream)
{
	struct fc_stream *s;
	struct fc_pool *p = pool_get(pool);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	return rc ? rc : alloc_on(s, p, ptr, bytes);
}

static void mark_freeing(struct fc_range *range, void *was)
{
	*(bool *)was = range->freeing;
	range->freeing = true;
}

static void unmark_freeing(struct fc_range *range, void *arg)
{
	(void)arg;
	range->freeing = false;
}

static void run_free(const struct fc_op *op)
{
	CUdeviceptr ptr;
	struct fc_range range;
	memcpy(&ptr, op->data, sizeof(ptr));
	if (!fc_range_take(ptr, NULL, &range))
		return;
	if (range.pool)
		fc_pool_give(&range);
	else
		fc_range_unmap(&range);
}

CUresult do_cuMemFreeAsync(bool ptds, CUdeviceptr ptr, CUstream stream)
{
	struct fc_stream *s;
	struct fc_range range;
	bool was = false;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc || !ptr)
		return rc;
	if (!fc_range_find(ptr, &range) || range.base != ptr || range.kind != FC_DEVICE ||
	    range.imported)
		return CUDA_ERROR_INVALID_VALUE;
	/* A graph keeps its allocations until it is destroyed: the free is order only. */
	bool graph = fc_capturing() && atomic_load(&s->capture);
	struct fc_op *op =
		fc_op_new(CU_GRAPH_NODE_TYPE_MEM_FREE, sizeof(ptr), graph ? run_nothing : run_free);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, &ptr, sizeof(ptr));
	if (!graph && (!fc_range_update(ptr, mark_freeing, &was) || was)) {
		fc_op_unref(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	rc = fc_submit(s, op, NULL);
	if (rc && !graph)
		fc_range_update(ptr, unmark_freeing, NULL);
	return rc;
}

/* --- pools ------------------------------------------------------------------------------------------- */

CUresult do_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct fc_device *d = fc_device_get(dev);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = (CUmemoryPool)(uintptr_t)d->default_pool->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct fc_device *d = fc_device_get(dev);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = (CUmemoryPool)(uintptr_t)d->pool->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct fc_device *d = fc_device_get(dev);
	struct fc_pool *p = pool_get(pool);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!p || p->dev != d)
		return CUDA_ERROR_INVALID_VALUE;
	d->pool = p;
	return CUDA_SUCCESS;
}

CUresult do_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_device *d = fc_device_get(props->location.id);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	struct fc_pool *p = pool_new(d);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = (CUmemoryPool)(uintptr_t)p->handle;
	return CUDA_SUCCESS;
}

/* Memory still allocated from it goes back to it later, so the pool itself stays. */
CUresult do_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct fc_pool *p = pool_get(pool);
	if (!p || p->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	fc_handle_drop(p->handle);
	if (p->dev->pool == p)
		p->dev->pool = p->dev->default_pool;
	pthread_mutex_lock(&p->lock);
	pool_trim(p, 0);
	p->destroyed = true;
	bool unused = !p->used;
	pthread_mutex_unlock(&p->lock);
	if (unused)
		pool_free(p);
	return CUDA_SUCCESS;
}

CUresult do_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct fc_pool *p = pool_get(pool);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&p->lock);
	pool_trim(p, keep);
	pthread_mutex_unlock(&p->lock);
	return CUDA_SUCCESS;
}

static uint64_t *pool_attr(struct fc_pool *p, CUmemPool_attribute attr)
{
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &p->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &p->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &p->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &p->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &p->used_high;
	default:
		return NULL;
	}
}

static bool is_reuse_attr(CUmemPool_attribute attr)
{
	return attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult do_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct fc_pool *p = pool_get(pool);
	uint64_t *field = p ? pool_attr(p, attr) : NULL;
	if (!p || !value || (!field && !is_reuse_attr(attr)))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&p->lock);
	if (field)
		*(uint64_t *)value = *field;
	else
		*(int *)value = p->reuse[attr - 1];
	pthread_mutex_unlock(&p->lock);
	return CUDA_SUCCESS;
}

CUresult do_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct fc_pool *p = pool_get(pool);
	if (!p || !value)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = CUDA_SUCCESS;
	pthread_mutex_lock(&p->lock);
	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = *(uint64_t *)value;
	else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !*(uint64_t *)value)
		p->reserved_high = p->reserved;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !*(uint64_t *)value)
		p->used_high = p->used;
	else if (is_reuse_attr(attr))
		p->reuse[attr - 1] = *(int *)value;
	else
		rc = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

CUresult do_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	struct fc_pool *p = pool_get(pool);
	if (!p || (count && !map))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !fc_device_get(map[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}
