/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomic operations and the provider's own collectives. bytes: of the operand (count x type).
 */
#include "tracer/inject/ofi/post.h"

#define OPERAND .addr = (uintptr_t)buf, .bytes = count * ofi_datatype_bytes(datatype)
#define TARGET  REMOTE, .peer = dest_addr
#define OPERANDS                                                                                   \
	ofi_post_atomics(it, iov, count, datatype);                                                \
	if (desc && count)                                                                         \
	it->desc = (uintptr_t)desc[0]
#define ATOMIC_MESSAGE                                                                             \
	ofi_post_atomics(it, msg->msg_iov, msg->iov_count, msg->datatype);                         \
	if (msg->desc && msg->iov_count)                                                           \
		it->desc = (uintptr_t)msg->desc[0];                                                \
	if (msg->rma_iov && msg->rma_iov_count) {                                                  \
		it->remote_addr = msg->rma_iov[0].addr;                                            \
		it->remote_key = msg->rma_iov[0].key;                                              \
	}                                                                                          \
	it->peer = msg->addr;                                                                      \
	it->context = (uintptr_t)msg->context;                                                     \
	it->data = msg->data

POST(hook_write, atomic, write, atomic, "fi_atomic", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context),
     (ep, buf, count, desc, dest_addr, addr, key, datatype, op, context),
     (OPERAND, DESC, CONTEXT, TARGET), )
POST(hook_writev, atomic, writev, atomic, "fi_atomicv", context,
     (struct fid_ep * ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context),
     (ep, iov, desc, count, dest_addr, addr, key, datatype, op, context), (CONTEXT, TARGET),
     OPERANDS)
POST(hook_writemsg, atomic, writemsg, atomic, "fi_atomicmsg", msg,
     (struct fid_ep * ep, const struct fi_msg_atomic *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), ATOMIC_MESSAGE)
POST(hook_inject, atomic, inject, atomic, "fi_inject_atomic", buf,
     (struct fid_ep * ep, const void *buf, size_t count, fi_addr_t dest_addr, uint64_t addr,
      uint64_t key, enum fi_datatype datatype, enum fi_op op),
     (ep, buf, count, dest_addr, addr, key, datatype, op), (OPERAND, TARGET, .inject = 1), )
POST(hook_readwrite, atomic, readwrite, fetch_atomic, "fi_fetch_atomic", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
      enum fi_datatype datatype, enum fi_op op, void *context),
     (ep, buf, count, desc, result, result_desc, dest_addr, addr, key, datatype, op, context),
     (OPERAND, DESC, CONTEXT, TARGET), )
POST(hook_readwritev, atomic, readwritev, fetch_atomic, "fi_fetch_atomicv", context,
     (struct fid_ep * ep, const struct fi_ioc *iov, void **desc, size_t count,
      struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context),
     (ep, iov, desc, count, resultv, result_desc, result_count, dest_addr, addr, key, datatype, op,
      context),
     (CONTEXT, TARGET), OPERANDS)
POST(hook_readwritemsg, atomic, readwritemsg, fetch_atomic, "fi_fetch_atomicmsg", msg,
     (struct fid_ep * ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
      void **result_desc, size_t result_count, uint64_t flags),
     (ep, msg, resultv, result_desc, result_count, flags), (.flags = flags), ATOMIC_MESSAGE)
POST(hook_compwrite, atomic, compwrite, compare_atomic, "fi_compare_atomic", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, const void *compare,
      void *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
      uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context),
     (ep, buf, count, desc, compare, compare_desc, result, result_desc, dest_addr, addr, key,
      datatype, op, context),
     (OPERAND, DESC, CONTEXT, TARGET), )
POST(hook_compwritev, atomic, compwritev, compare_atomic, "fi_compare_atomicv", context,
     (struct fid_ep * ep, const struct fi_ioc *iov, void **desc, size_t count,
      const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
      struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context),
     (ep, iov, desc, count, comparev, compare_desc, compare_count, resultv, result_desc,
      result_count, dest_addr, addr, key, datatype, op, context),
     (CONTEXT, TARGET), OPERANDS)
POST(hook_compwritemsg, atomic, compwritemsg, compare_atomic, "fi_compare_atomicmsg", msg,
     (struct fid_ep * ep, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
      void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
      size_t result_count, uint64_t flags),
     (ep, msg, comparev, compare_desc, compare_count, resultv, result_desc, result_count, flags),
     (.flags = flags), ATOMIC_MESSAGE)

static const struct ofi_slot atomic_slots[] = {
	OFI_SLOT(fi_ops_atomic, write, hook_write),
	OFI_SLOT(fi_ops_atomic, writev, hook_writev),
	OFI_SLOT(fi_ops_atomic, writemsg, hook_writemsg),
	OFI_SLOT(fi_ops_atomic, inject, hook_inject),
	OFI_SLOT(fi_ops_atomic, readwrite, hook_readwrite),
	OFI_SLOT(fi_ops_atomic, readwritev, hook_readwritev),
	OFI_SLOT(fi_ops_atomic, readwritemsg, hook_readwritemsg),
	OFI_SLOT(fi_ops_atomic, compwrite, hook_compwrite),
	OFI_SLOT(fi_ops_atomic, compwritev, hook_compwritev),
	OFI_SLOT(fi_ops_atomic, compwritemsg, hook_compwritemsg),
};
const struct ofi_slots ofi_atomic_slots = OFI_SLOTS(atomic_slots);

/* --- collectives ------------------------------------------------------------------------------ */

#define GROUP .peer = coll_addr, .flags = flags

POST(hook_barrier, collective, barrier, collective, "fi_barrier", context,
     (struct fid_ep * ep, fi_addr_t coll_addr, void *context), (ep, coll_addr, context),
     (CONTEXT, .peer = coll_addr), )
POST(hook_barrier2, collective, barrier2, collective, "fi_barrier2", context,
     (struct fid_ep * ep, fi_addr_t coll_addr, uint64_t flags, void *context),
     (ep, coll_addr, flags, context), (CONTEXT, GROUP), )
POST(hook_broadcast, collective, broadcast, collective, "fi_broadcast", context,
     (struct fid_ep * ep, void *buf, size_t count, void *desc, fi_addr_t coll_addr,
      fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context),
     (ep, buf, count, desc, coll_addr, root_addr, datatype, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_alltoall, collective, alltoall, collective, "fi_alltoall", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags,
      void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, datatype, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_allreduce, collective, allreduce, collective, "fi_allreduce", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
      uint64_t flags, void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, datatype, op, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_allgather, collective, allgather, collective, "fi_allgather", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags,
      void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, datatype, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_reduce_scatter, collective, reduce_scatter, collective, "fi_reduce_scatter", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
      uint64_t flags, void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, datatype, op, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_reduce, collective, reduce, collective, "fi_reduce", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
      enum fi_op op, uint64_t flags, void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, root_addr, datatype, op, flags,
      context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_scatter, collective, scatter, collective, "fi_scatter", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
      uint64_t flags, void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, root_addr, datatype, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_gather, collective, gather, collective, "fi_gather", context,
     (struct fid_ep * ep, const void *buf, size_t count, void *desc, void *result,
      void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
      uint64_t flags, void *context),
     (ep, buf, count, desc, result, result_desc, coll_addr, root_addr, datatype, flags, context),
     (OPERAND, DESC, CONTEXT, GROUP), )
POST(hook_collective_msg, collective, msg, collective, "fi_collectivemsg", msg,
     (struct fid_ep * ep, const struct fi_msg_collective *msg, struct fi_ioc *resultv,
      void **result_desc, size_t result_count, uint64_t flags),
     (ep, msg, resultv, result_desc, result_count, flags), (.flags = flags),
     (void)(ofi_post_atomics(it, msg->msg_iov, msg->iov_count, msg->datatype),
	    it->peer = msg->coll_addr, it->context = (uintptr_t)msg->context))

static const struct ofi_slot collective_slots[] = {
	OFI_SLOT(fi_ops_collective, barrier, hook_barrier),
	OFI_SLOT(fi_ops_collective, broadcast, hook_broadcast),
	OFI_SLOT(fi_ops_collective, alltoall, hook_alltoall),
	OFI_SLOT(fi_ops_collective, allreduce, hook_allreduce),
	OFI_SLOT(fi_ops_collective, allgather, hook_allgather),
	OFI_SLOT(fi_ops_collective, reduce_scatter, hook_reduce_scatter),
	OFI_SLOT(fi_ops_collective, reduce, hook_reduce),
	OFI_SLOT(fi_ops_collective, scatter, hook_scatter),
	OFI_SLOT(fi_ops_collective, gather, hook_gather),
	OFI_SLOT(fi_ops_collective, msg, hook_collective_msg),
	OFI_SLOT(fi_ops_collective, barrier2, hook_barrier2),
};
const struct ofi_slots ofi_collective_slots = OFI_SLOTS(collective_slots);
