/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: untagged and tagged.
 */
#include "tracer/inject/ofi/post.h"

/* --- untagged --------------------------------------------------------------------------------- */

POST(hook_recv, msg, recv, recv, "fi_recv", context,
     (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, void *context),
     (ep, buf, len, desc, src_addr, context), (BUFFER, DESC, CONTEXT, .peer = src_addr), )
POST(hook_recvv, msg, recvv, recv, "fi_recvv", context,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
      void *context),
     (ep, iov, desc, count, src_addr, context), (CONTEXT, .peer = src_addr), RANGES)
POST(hook_recvmsg, msg, recvmsg, recv, "fi_recvmsg", msg,
     (struct fid_ep * ep, const struct fi_msg *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), MESSAGE)
POST(hook_send, msg, send, send, "fi_send", context,
     (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
      void *context),
     (ep, buf, len, desc, dest_addr, context), (BUFFER, DESC, CONTEXT, .peer = dest_addr), )
POST(hook_sendv, msg, sendv, send, "fi_sendv", context,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
      void *context),
     (ep, iov, desc, count, dest_addr, context), (CONTEXT, .peer = dest_addr), RANGES)
POST(hook_sendmsg, msg, sendmsg, send, "fi_sendmsg", msg,
     (struct fid_ep * ep, const struct fi_msg *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), MESSAGE)
POST(hook_inject, msg, inject, send, "fi_inject", buf,
     (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t dest_addr),
     (ep, buf, len, dest_addr), (BUFFER, .peer = dest_addr, .inject = 1), )
POST(hook_senddata, msg, senddata, send, "fi_senddata", context,
     (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data,
      fi_addr_t dest_addr, void *context),
     (ep, buf, len, desc, data, dest_addr, context),
     (BUFFER, DESC, CONTEXT, .peer = dest_addr, .data = data), )
POST(hook_injectdata, msg, injectdata, send, "fi_injectdata", buf,
     (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr),
     (ep, buf, len, data, dest_addr), (BUFFER, .peer = dest_addr, .data = data, .inject = 1), )

static const struct ofi_slot msg_slots[] = {
	OFI_SLOT(fi_ops_msg, recv, hook_recv),
	OFI_SLOT(fi_ops_msg, recvv, hook_recvv),
	OFI_SLOT(fi_ops_msg, recvmsg, hook_recvmsg),
	OFI_SLOT(fi_ops_msg, send, hook_send),
	OFI_SLOT(fi_ops_msg, sendv, hook_sendv),
	OFI_SLOT(fi_ops_msg, sendmsg, hook_sendmsg),
	OFI_SLOT(fi_ops_msg, inject, hook_inject),
	OFI_SLOT(fi_ops_msg, senddata, hook_senddata),
	OFI_SLOT(fi_ops_msg, injectdata, hook_injectdata),
};
const struct ofi_slots ofi_msg_slots = OFI_SLOTS(msg_slots);

/* --- tagged ----------------------------------------------------------------------------------- */

#define TAGGED_MESSAGE                                                                             \
	MESSAGE;                                                                                   \
	it->tag = msg->tag;                                                                        \
	it->ignore = msg->ignore

POST(hook_trecv, tagged, recv, trecv, "fi_trecv", context,
     (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t tag,
      uint64_t ignore, void *context),
     (ep, buf, len, desc, src_addr, tag, ignore, context),
     (BUFFER, DESC, CONTEXT, .peer = src_addr, .tag = tag, .ignore = ignore), )
POST(hook_trecvv, tagged, recvv, trecv, "fi_trecvv", context,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
      uint64_t tag, uint64_t ignore, void *context),
     (ep, iov, desc, count, src_addr, tag, ignore, context),
     (CONTEXT, .peer = src_addr, .tag = tag, .ignore = ignore), RANGES)
POST(hook_trecvmsg, tagged, recvmsg, trecv, "fi_trecvmsg", msg,
     (struct fid_ep * ep, const struct fi_msg_tagged *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), TAGGED_MESSAGE)
POST(hook_tsend, tagged, send, tsend, "fi_tsend", context,
     (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
      uint64_t tag, void *context),
     (ep, buf, len, desc, dest_addr, tag, context),
     (BUFFER, DESC, CONTEXT, .peer = dest_addr, .tag = tag), )
POST(hook_tsendv, tagged, sendv, tsend, "fi_tsendv", context,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
      uint64_t tag, void *context),
     (ep, iov, desc, count, dest_addr, tag, context), (CONTEXT, .peer = dest_addr, .tag = tag),
     RANGES)
POST(hook_tsendmsg, tagged, sendmsg, tsend, "fi_tsendmsg", msg,
     (struct fid_ep * ep, const struct fi_msg_tagged *msg, uint64_t flags), (ep, msg, flags),
     (.flags = flags), TAGGED_MESSAGE)
POST(hook_tinject, tagged, inject, tsend, "fi_tinject", buf,
     (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag),
     (ep, buf, len, dest_addr, tag), (BUFFER, .peer = dest_addr, .tag = tag, .inject = 1), )
POST(hook_tsenddata, tagged, senddata, tsend, "fi_tsenddata", context,
     (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data,
      fi_addr_t dest_addr, uint64_t tag, void *context),
     (ep, buf, len, desc, data, dest_addr, tag, context),
     (BUFFER, DESC, CONTEXT, .peer = dest_addr, .tag = tag, .data = data), )
POST(hook_tinjectdata, tagged, injectdata, tsend, "fi_tinjectdata", buf,
     (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
      uint64_t tag),
     (ep, buf, len, data, dest_addr, tag),
     (BUFFER, .peer = dest_addr, .tag = tag, .data = data, .inject = 1), )

static const struct ofi_slot tagged_slots[] = {
	OFI_SLOT(fi_ops_tagged, recv, hook_trecv),
	OFI_SLOT(fi_ops_tagged, recvv, hook_trecvv),
	OFI_SLOT(fi_ops_tagged, recvmsg, hook_trecvmsg),
	OFI_SLOT(fi_ops_tagged, send, hook_tsend),
	OFI_SLOT(fi_ops_tagged, sendv, hook_tsendv),
	OFI_SLOT(fi_ops_tagged, sendmsg, hook_tsendmsg),
	OFI_SLOT(fi_ops_tagged, inject, hook_tinject),
	OFI_SLOT(fi_ops_tagged, senddata, hook_tsenddata),
	OFI_SLOT(fi_ops_tagged, injectdata, hook_tinjectdata),
};
const struct ofi_slots ofi_tagged_slots = OFI_SLOTS(tagged_slots);
