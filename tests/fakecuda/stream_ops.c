/* SPDX-License-Identifier: Apache-2.0 */
/* Small operations on a stream: host functions, waits and writes of values, memory hints. */
#include "tests/fakecuda/internal.h"

#include <string.h>
#include <time.h>

static void run_nothing(const struct fc_op *op)
{
	(void)op;
}

static CUresult submit_nothing(bool ptds, CUstream stream, CUgraphNodeType type)
{
	struct fc_stream *s;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	struct fc_op *op = fc_op_new(type, 0, run_nothing);
	return op ? fc_submit(s, op, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- host functions --------------------------------------------------------------------------------- */

struct host_call {
	CUhostFn fn;
	CUstreamCallback callback;
	CUstream stream;
	void *user_data;
};

static void run_host(const struct fc_op *op)
{
	struct host_call call;
	struct fc_thread *t = fc_self();
	memcpy(&call, op->data, sizeof(call));
	if (t)
		t->in_callback = true;
	if (call.fn)
		call.fn(call.user_data);
	else
		call.callback(call.stream, CUDA_SUCCESS, call.user_data);
	if (t)
		t->in_callback = false;
}

static CUresult submit_host(bool ptds, CUstream stream, const struct host_call *call)
{
	struct fc_stream *s;
	CUresult rc = fc_may_wait();
	if (!rc)
		rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_HOST, sizeof(*call), run_host);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, call, sizeof(*call));
	return fc_submit(s, op, NULL);
}

CUresult do_cuLaunchHostFunc(bool ptds, CUstream stream, CUhostFn fn, void *user_data)
{
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	return submit_host(ptds, stream, &(struct host_call){.fn = fn, .user_data = user_data});
}

CUresult do_cuStreamAddCallback(bool ptds, CUstream stream, CUstreamCallback fn, void *user_data,
				unsigned int flags)
{
	struct fc_stream *s;
	if (!fn || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (atomic_load(&s->capture))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return submit_host(
		ptds, stream,
		&(struct host_call){.callback = fn, .stream = stream, .user_data = user_data});
}

/* --- values in memory ------------------------------------------------------------------------------- */

struct value_op {
	CUdeviceptr addr;
	uint64_t value;
	unsigned flags;
	bool wide, write;
};

static bool value_reached(const struct value_op *v)
{
	uint64_t have;
	/* Pairs with whatever release store or kernel end made the value. */
	if (v->wide)
		have = atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)v->addr,
					    memory_order_acquire);
	else
		have = atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)v->addr,
					    memory_order_acquire);
	switch (v->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as the API defines it */
		return v->wide ? (int64_t)(have - v->value) >= 0
			       : (int32_t)((uint32_t)have - (uint32_t)v->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return have == v->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (have & v->value) != 0;
	default:
		return v->wide ? ~(have | v->value) != 0
			       : ~((uint32_t)have | (uint32_t)v->value) != 0;
	}
}

static void run_value(const struct fc_op *op)
{
	struct value_op v;
	memcpy(&v, op->data, sizeof(v));
	if (!v.write) {
		while (!value_reached(&v))
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	} else if (v.wide) {
		atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)v.addr, v.value,
				      memory_order_release);
	} else {
		atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)v.addr, (uint32_t)v.value,
				      memory_order_release);
	}
}

static CUresult submit_value(bool ptds, CUstream stream, const struct value_op *v)
{
	struct fc_stream *s;
	struct fc_range range;
	size_t bytes = v->wide ? 8 : 4;
	CUresult rc = fc_stream_get(stream, ptds, &s);
	if (rc)
		return rc;
	if (v->addr % bytes || !fc_range_find(v->addr, &range) ||
	    v->addr + bytes > range.base + range.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	struct fc_op *op = fc_op_new(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, sizeof(*v), run_value);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op->data, v, sizeof(*v));
	return fc_submit(s, op, NULL);
}

static bool wait_flags_ok(unsigned flags)
{
	return !(flags & ~(3u | (unsigned)CU_STREAM_WAIT_VALUE_FLUSH));
}

CUresult do_cuStreamWaitValue32(bool ptds, CUstream stream, CUdeviceptr addr, cuuint32_t value,
				unsigned int flags)
{
	if (!wait_flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	return submit_value(ptds, stream, &(struct value_op){addr, value, flags, false, false});
}

CUresult do_cuStreamWaitValue64(bool ptds, CUstream stream, CUdeviceptr addr, cuuint64_t value,
				unsigned int flags)
{
	if (!wait_flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	return submit_value(ptds, stream, &(struct value_op){addr, value, flags, true, false});
}

CUresult do_cuStreamWriteValue32(bool ptds, CUstream stream, CUdeviceptr addr, cuuint32_t value,
				 unsigned int flags)
{
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	return submit_value(ptds, stream, &(struct value_op){addr, value, flags, false, true});
}

CUresult do_cuStreamWriteValue64(bool ptds, CUstream stream, CUdeviceptr addr, cuuint64_t value,
				 unsigned int flags)
{
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	return submit_value(ptds, stream, &(struct value_op){addr, value, flags, true, true});
}

CUresult do_cuStreamBatchMemOp(bool ptds, CUstream stream, unsigned int count,
			       CUstreamBatchMemOpParams *ops, unsigned int flags)
{
	enum { OPS_MAX = 256 };
	if (!ops || count > OPS_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = CUDA_SUCCESS;
	for (unsigned i = 0; i < count && !rc; i++) {
		CUdeviceptr addr = ops[i].waitValue.address;
		unsigned how = ops[i].waitValue.flags;
		switch (ops[i].operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
			rc = do_cuStreamWaitValue32(ptds, stream, addr, ops[i].waitValue.value,
						    how);
			break;
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			rc = do_cuStreamWaitValue64(ptds, stream, addr, ops[i].waitValue.value64,
						    how);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
			rc = do_cuStreamWriteValue32(ptds, stream, addr, ops[i].writeValue.value,
						     how);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			rc = do_cuStreamWriteValue64(ptds, stream, addr, ops[i].writeValue.value64,
						     how);
			break;
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		case CU_STREAM_MEM_OP_BARRIER:
			break; /* every operation of a stream is ordered as it is */
		default:
			rc = CUDA_ERROR_INVALID_VALUE;
		}
	}
	return rc;
}

/* --- hints about managed memory: accepted, ordered, without effect ---------------------------------- */

static CUresult managed_check(CUdeviceptr ptr, size_t bytes)
{
	struct fc_range range;
	if (!bytes || !fc_range_find(ptr, &range) || range.kind != FC_MANAGED ||
	    ptr + bytes > range.base + range.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult do_cuMemPrefetchAsync(bool ptds, CUdeviceptr ptr, size_t bytes, CUdevice dev,
			       CUstream stream)
{
	enum { TO_HOST = -1 };
	if (dev != TO_HOST && !fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	CUresult rc = managed_check(ptr, bytes);
	return rc ? rc : submit_nothing(ptds, stream, CU_GRAPH_NODE_TYPE_EMPTY);
}

CUresult do_cuMemPrefetchAsync_v2(bool ptds, CUdeviceptr ptr, size_t bytes, CUmemLocation where,
				  unsigned int flags, CUstream stream)
{
	if (flags || (where.type == CU_MEM_LOCATION_TYPE_DEVICE && !fc_device_get(where.id)))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = managed_check(ptr, bytes);
	return rc ? rc : submit_nothing(ptds, stream, CU_GRAPH_NODE_TYPE_EMPTY);
}

CUresult do_cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice dev)
{
	(void)advice, (void)dev;
	return managed_check(ptr, bytes);
}

CUresult do_cuMemAdvise_v2(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUmemLocation where)
{
	(void)advice, (void)where;
	return managed_check(ptr, bytes);
}

CUresult do_cuStreamAttachMemAsync(bool ptds, CUstream stream, CUdeviceptr ptr, size_t length,
				   unsigned int flags)
{
	struct fc_range range;
	(void)length;
	if (!flags || flags & ~7u || !fc_range_find(ptr, &range) || range.kind != FC_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	return submit_nothing(ptds, stream, CU_GRAPH_NODE_TYPE_EMPTY);
}
