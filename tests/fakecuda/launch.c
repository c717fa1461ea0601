/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and launches. Parameters are copied at the launch, by the sizes in the kernel table. */
#include "tests/fakecuda/internal.h"
#include "tests/fakecuda/kernels.h"

#include <stdlib.h>
#include <string.h>

/* --- parameters -------------------------------------------------------------------------------------- */

/*
 * Where parameter index lies in the packed form. The table has sizes alone, so alignment is the
 * largest power of two that divides the size, at most 8: right for scalars, pointers, and structs
 * of those.
 */
size_t fc_param_offset(const struct cpu_kernel *kernel, size_t index)
{
	size_t at = 0;
	for (size_t i = 0; i <= index; i++) {
		size_t bytes = kernel->param_sizes[i], align = bytes & -bytes;
		align = align > 8 || !align ? 8 : align;
		at = (at + align - 1) / align * align;
		if (i < index)
			at += bytes;
	}
	return at;
}

static size_t params_bytes(const struct cpu_kernel *kernel)
{
	unsigned n = kernel->param_count;
	return n ? fc_param_offset(kernel, n - 1) + kernel->param_sizes[n - 1] : 0;
}

CUresult do_cuFuncGetParamInfo(CUfunction fn, size_t index, size_t *offset, size_t *bytes)
{
	struct fc_func *f = fc_func_get(fn);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!offset || index >= f->kernel->param_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = fc_param_offset(f->kernel, index);
	if (bytes)
		*bytes = f->kernel->param_sizes[index];
	return CUDA_SUCCESS;
}

CUresult do_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
	return do_cuFuncGetParamInfo((CUfunction)(uintptr_t)FC_HANDLE(kernel), index, offset,
				     bytes);
}

/* --- attributes -------------------------------------------------------------------------------------- */

CUresult do_cuFuncGetName(const char **name, CUfunction fn)
{
	struct fc_func *f = fc_func_get(fn);
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = f->kernel->name;
	return CUDA_SUCCESS;
}

CUresult do_cuKernelGetName(const char **name, CUkernel kernel)
{
	return do_cuFuncGetName(name, (CUfunction)(uintptr_t)FC_HANDLE(kernel));
}

CUresult do_cuFuncGetAttribute(int *value, CUfunction_attribute attr, CUfunction fn)
{
	enum { REGS = 32, ARCH = 90 };
	struct fc_func *f = fc_func_get(fn);
	if (!value || (int)attr < 0 || attr >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = FC_MAX_BLOCK_THREADS;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = REGS;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = ARCH;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = f->max_dynamic_shared;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = f->carveout;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = strcmp(f->kernel->name, FC_LOCAL_KERNEL) == 0 ? FC_LOCAL_BYTES : 0;
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult do_cuFuncSetAttribute(CUfunction fn, CUfunction_attribute attr, int value)
{
	struct fc_func *f = fc_func_get(fn);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > FC_SHARED_OPTIN)
			return CUDA_ERROR_INVALID_VALUE;
		f->max_dynamic_shared = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		f->carveout = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult do_cuKernelGetAttribute(int *value, CUfunction_attribute attr, CUkernel kernel,
				 CUdevice dev)
{
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return do_cuFuncGetAttribute(value, attr, (CUfunction)(uintptr_t)FC_HANDLE(kernel));
}

CUresult do_cuKernelSetAttribute(CUfunction_attribute attr, int value, CUkernel kernel,
				 CUdevice dev)
{
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return do_cuFuncSetAttribute((CUfunction)(uintptr_t)FC_HANDLE(kernel), attr, value);
}

CUresult do_cuFuncSetCacheConfig(CUfunction fn, CUfunc_cache config)
{
	(void)config;
	return fc_func_get(fn) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int fc_occupancy(const struct fc_func *fn, unsigned threads, size_t shared_bytes)
{
	enum { SM_BLOCKS = 32, SM_SHARED = 233472, BLOCK_SHARED = 1024 };
	if (shared_bytes > (size_t)fn->max_dynamic_shared)
		return 0;
	unsigned warps = (threads + FC_WARP - 1) / FC_WARP;
	unsigned by_threads = FC_MAX_SM_THREADS / (warps * FC_WARP);
	size_t by_shared = SM_SHARED / (shared_bytes + BLOCK_SHARED);
	unsigned blocks = by_threads < SM_BLOCKS ? by_threads : SM_BLOCKS;
	return (int)(by_shared < blocks ? by_shared : blocks);
}

CUresult do_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction fn, int block_size,
							size_t shared_bytes)
{
	struct fc_func *f = fc_func_get(fn);
	if (!blocks || block_size <= 0 || block_size > FC_MAX_BLOCK_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*blocks = fc_occupancy(f, (unsigned)block_size, shared_bytes);
	return CUDA_SUCCESS;
}

CUresult do_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction fn,
								 int block_size,
								 size_t shared_bytes,
								 unsigned int flags)
{
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	return do_cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, fn, block_size, shared_bytes);
}

CUresult do_cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size, CUfunction fn,
					     CUoccupancyB2DSize shared_for, size_t shared_bytes,
					     int limit)
{
	struct fc_func *f = fc_func_get(fn);
	if (!min_grid || !block_size || limit < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	int top = limit && limit < FC_MAX_BLOCK_THREADS ? limit : FC_MAX_BLOCK_THREADS;
	int best = 0;
	for (int size = top / FC_WARP * FC_WARP; size > 0; size -= FC_WARP) {
		size_t shared = shared_for ? shared_for(size) : shared_bytes;
		int blocks = fc_occupancy(f, (unsigned)size, shared);
		if (blocks * size > best) {
			best = blocks * size;
			*block_size = size;
			*min_grid = blocks * FC_SMS;
		}
	}
	return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- launches ---------------------------------------------------------------------------------------- */

struct launch {
	const struct cpu_kernel *kernel;
	unsigned grid[3], block[3];
	size_t shared_bytes;
	/* then the pointers to the parameters, then the parameters */
};

static void **launch_params(struct fc_op *op)
{
	return (void **)(op->data + sizeof(struct launch));
}

static void run_launch(const struct fc_op *op)
{
	const struct launch *l = (const struct launch *)op->data;
	void *const *params = (void *const *)(op->data + sizeof(*l));
	uint64_t end = fc_settings.launch_ns ? fc_now_ns() + fc_settings.launch_ns : 0;
	l->kernel->run(l->grid, l->block, l->shared_bytes, params);
	if (end)
		fc_sleep_until_ns(end);
}

/* The buffer of the `extra` form, or NULL if the list is not a valid one. */
static const void *extra_buffer(void **extra)
{
	const void *buffer = NULL;
	for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] != CU_LAUNCH_PARAM_BUFFER_SIZE)
			return NULL;
	}
	return buffer;
}

static CUresult params_copy(const struct cpu_kernel *k, struct fc_op *op, void **params,
			    void **extra)
{
	void **to = launch_params(op);
	char *bytes = (char *)(to + k->param_count);
	const char *buffer = NULL;
	if (k->param_count && !params == !extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (k->param_count && extra && !(buffer = extra_buffer(extra)))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < k->param_count; i++) {
		size_t at = fc_param_offset(k, i);
		const void *from = buffer ? buffer + at : params[i];
		if (!from)
			return CUDA_ERROR_INVALID_VALUE;
		to[i] = bytes + at;
		memcpy(to[i], from, k->param_sizes[i]);
	}
	return CUDA_SUCCESS;
}

static bool dims_ok(const struct launch *l, const struct fc_func *f)
{
	enum { GRID_YZ = 65535, BLOCK_Z = 64 };
	for (int i = 0; i < 3; i++)
		if (!l->grid[i] || !l->block[i])
			return false;
	if (l->grid[0] > INT32_MAX || l->grid[1] > GRID_YZ || l->grid[2] > GRID_YZ ||
	    l->block[0] > FC_MAX_BLOCK_THREADS || l->block[1] > FC_MAX_BLOCK_THREADS ||
	    l->block[2] > BLOCK_Z)
		return false;
	return (uint64_t)l->block[0] * l->block[1] * l->block[2] <= FC_MAX_BLOCK_THREADS &&
	       l->shared_bytes <= (size_t)f->max_dynamic_shared;
}

/* A cooperative grid has to be on the device all at once. */
static bool fits(const struct launch *l, const struct fc_func *f)
{
	unsigned threads = l->block[0] * l->block[1] * l->block[2];
	uint64_t room = (uint64_t)fc_occupancy(f, threads, l->shared_bytes) * FC_SMS;
	return (uint64_t)l->grid[0] * l->grid[1] <= room &&
	       (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] <= room;
}

static CUresult launch(struct fc_stream *s, CUfunction fn, const struct launch *want, void **params,
		       void **extra, bool cooperative)
{
	struct fc_func *f = fc_func_get(fn);
	if (!f || fc_func_ctx(f) != s->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!dims_ok(want, f))
		return CUDA_ERROR_INVALID_VALUE;
	if (cooperative && !fits(want, f))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	const struct cpu_kernel *k = f->kernel;
	size_t bytes = sizeof(*want) + k->param_count * sizeof(void *) + params_bytes(k);
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_KERNEL, bytes, run_launch);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, want, sizeof(*want));
	((struct launch *)op->data)->kernel = k;
	op->tells.name = k->name;
	memcpy(op->tells.grid, want->grid, sizeof(want->grid));
	memcpy(op->tells.block, want->block, sizeof(want->block));
	uint64_t seq = 0;
	CUresult rc = params_copy(k, op, params, extra);
	if (rc) {
		fc_op_unref(op);
		return rc;
	}
	atomic_store_explicit(&f->loaded, true, memory_order_relaxed);
	bool capture = fc_capturing() && atomic_load(&s->capture);
	rc = fc_submit(s, op, &seq);
	if (!rc && fc_settings.launch_blocking && !capture)
		fc_wait(s, seq);
	return rc;
}

CUresult do_cuLaunchKernel(bool ptds, CUfunction fn, unsigned int gx, unsigned int gy,
			   unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
			   unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
	struct fc_stream *s;
	CUresult rc = fc_may_wait();
	if (!rc)
		rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	struct launch want = {
		.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared_bytes};
	return launch(s, fn, &want, params, extra, false);
}

CUresult do_cuLaunchCooperativeKernel(bool ptds, CUfunction fn, unsigned int gx, unsigned int gy,
				      unsigned int gz, unsigned int bx, unsigned int by,
				      unsigned int bz, unsigned int shared_bytes, CUstream stream,
				      void **params)
{
	struct fc_stream *s;
	CUresult rc = fc_may_wait();
	if (!rc)
		rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	struct launch want = {
		.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared_bytes};
	return launch(s, fn, &want, params, NULL, true);
}

CUresult do_cuLaunchKernelEx(bool ptds, const CUlaunchConfig *config, CUfunction fn, void **params,
			     void **extra)
{
	struct fc_stream *s;
	bool cooperative = false;
	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_may_wait();
	if (!rc)
		rc = fc_stream_get(config->hStream, ptds, &s);
	if (rc)
		return rc;
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			cooperative = config->attrs[i].value.cooperative != 0;
	struct launch want = {
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
	};
	return launch(s, fn, &want, params, extra, cooperative);
}
