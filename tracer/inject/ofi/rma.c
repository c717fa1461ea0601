/* SPDX-License-Identifier: Apache-2.0
 *
 * Remote memory access.
 */
#include "tracer/inject/ofi/post.h"

#define RMA_MESSAGE                                                                                \
	MESSAGE;                                                                                   \
	if (msg->rma_iov && msg->rma_iov_count) {                                                  \
		it->remote_addr = msg->rma_iov[0].addr;                                            \
		it->remote_key = msg->rma_iov[0].key;                                              \
	}

POST(hook_read, rma, read, read, "fi_read", context,
     (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t addr,
      uint64_t key, void *context),
     (ep, buf, len, desc, src_addr, addr, key, context),
     (BUFFER, DESC, CONTEXT, REMOTE, .peer = src_addr), )
POST(hook_readv, rma, readv, read, "fi_readv", context,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
      uint64_t addr, uint64_t key, void *context),
     (ep, iov, desc, count, src_addr, addr, key, context), (CONTEXT, REMOTE, .peer = src_addr),
     RANGES)
POST(hook_readmsg, rma, readmsg, read, "fi_readmsg", msg,
     (struct fid_ep * ep, const struct fi_msg_rma *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), RMA_MESSAGE)
POST(hook_write, rma, write, write, "fi_write", context,
     (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key, void *context),
     (ep, buf, len, desc, dest_addr, addr, key, context),
     (BUFFER, DESC, CONTEXT, REMOTE, .peer = dest_addr), )
POST(hook_writev, rma, writev, write, "fi_writev", context,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key, void *context),
     (ep, iov, desc, count, dest_addr, addr, key, context), (CONTEXT, REMOTE, .peer = dest_addr),
     RANGES)
POST(hook_writemsg, rma, writemsg, write, "fi_writemsg", msg,
     (struct fid_ep * ep, const struct fi_msg_rma *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), RMA_MESSAGE)
POST(hook_inject, rma, inject, write, "fi_inject_write", buf,
     (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr,
      uint64_t key),
     (ep, buf, len, dest_addr, addr, key), (BUFFER, REMOTE, .peer = dest_addr, .inject = 1), )
POST(hook_writedata, rma, writedata, write, "fi_writedata", context,
     (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data,
      fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context),
     (ep, buf, len, desc, data, dest_addr, addr, key, context),
     (BUFFER, DESC, CONTEXT, REMOTE, .peer = dest_addr, .data = data), )
POST(hook_injectdata, rma, injectdata, write, "fi_inject_writedata", buf,
     (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
      uint64_t addr, uint64_t key),
     (ep, buf, len, data, dest_addr, addr, key),
     (BUFFER, REMOTE, .peer = dest_addr, .data = data, .inject = 1), )

static const struct ofi_slot rma_slots[] = {
	OFI_SLOT(fi_ops_rma, read, hook_read),
	OFI_SLOT(fi_ops_rma, readv, hook_readv),
	OFI_SLOT(fi_ops_rma, readmsg, hook_readmsg),
	OFI_SLOT(fi_ops_rma, write, hook_write),
	OFI_SLOT(fi_ops_rma, writev, hook_writev),
	OFI_SLOT(fi_ops_rma, writemsg, hook_writemsg),
	OFI_SLOT(fi_ops_rma, inject, hook_inject),
	OFI_SLOT(fi_ops_rma, writedata, hook_writedata),
	OFI_SLOT(fi_ops_rma, injectdata, hook_injectdata),
};
const struct ofi_slots ofi_rma_slots = OFI_SLOTS(rma_slots);
