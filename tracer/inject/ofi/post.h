/* SPDX-License-Identifier: Apache-2.0
 *
 * What every data-path hook shares: one operation posted is one record, however often the provider
 * said "again".
 */
#ifndef WAYLAY_TRACER_INJECT_OFI_POST_H
#define WAYLAY_TRACER_INJECT_OFI_POST_H

#include "tracer/inject/ofi/ofi.h"

#include <sys/uio.h>

/* Notes that the provider answered -FI_EAGAIN: the job will come again with the same arguments. */
void ofi_post_again(const void *ep, const void *identity, uint64_t begin, enum ofi_how how);

/* Records the operation; identity is what it was called with at every attempt (its context, or the
 * message struct's address), so that earlier attempts are found. */
void ofi_post_record(struct wl_ev_ofi_post *event, const void *identity, uint64_t begin,
		     ssize_t ret, enum ofi_how how);

/* Sums a caller's ranges. Only after the real call has succeeded. */
void ofi_post_ranges(struct wl_ev_ofi_post *event, const struct iovec *iov, size_t count);
void ofi_post_atomics(struct wl_ev_ofi_post *event, const struct fi_ioc *iov, size_t count,
		      enum fi_datatype type);
uint64_t ofi_datatype_bytes(enum fi_datatype type);

/*
 * POST(hook, table, operation, kind, api, identity, parameters, arguments, plain, after)
 *     table      member of struct fid_ep
 *     kind       enum wl_ofi_op's word
 *     plain      initializers from arguments passed by value
 *     after      statements on `event` that look behind the caller's pointers (success only)
 */
#define POST(hook, table, operation_, kind_, api_, identity, parameters, arguments, plain, after)  \
	static ssize_t hook parameters                                                             \
	{                                                                                          \
		__typeof__(ep->table) real = OFI_REAL(ep->table);                                  \
		enum ofi_how how = OFI_ENTER();                                                    \
		uint64_t begin;                                                                    \
		ssize_t ret;                                                                       \
                                                                                                   \
		if (!how)                                                                          \
			return real->operation_ arguments;                                         \
		begin = spool_now();                                                               \
		ret = real->operation_ arguments;                                                  \
		ofi_leave(how);                                                                    \
		if (__builtin_expect(ret == -FI_EAGAIN, 0)) {                                      \
			ofi_post_again(ep, identity, begin, how);                                  \
			return ret;                                                                \
		}                                                                                  \
		struct wl_ev_ofi_post event = {.ep = (uintptr_t)ep,                                \
					       .api = OFI_NAME(api_),                              \
					       .op = WL_ofi_op_##kind_,                            \
					       POST_UNPACK plain};                                 \
		if (ret == 0) {                                                                    \
			after;                                                                     \
		}                                                                                  \
		ofi_post_record(&event, identity, begin, ret, how);                                \
		return ret;                                                                        \
	}
#define POST_UNPACK(...) __VA_ARGS__

/* Frequent groups of initializers. */
#define BUFFER  .addr = (uintptr_t)buf, .bytes = len
#define DESC    .desc = (uintptr_t)desc, .iface = ofi_descriptor_iface(desc)
#define CONTEXT .context = (uintptr_t)context
#define REMOTE  .remote_addr = addr, .remote_key = key

/* After success: a vector of ranges with its descriptors. */
#define RANGES                                                                                     \
	ofi_post_ranges(&event, iov, count);                                                       \
	if (desc && count) {                                                                       \
		event.desc = (uintptr_t)desc[0];                                                   \
		event.iface = ofi_descriptor_iface(desc[0]);                                       \
	}
/* After success: what every *msg struct has. */
#define MESSAGE                                                                                    \
	ofi_post_ranges(&event, msg->msg_iov, msg->iov_count);                                     \
	if (msg->desc && msg->iov_count) {                                                         \
		event.desc = (uintptr_t)msg->desc[0];                                              \
		event.iface = ofi_descriptor_iface(msg->desc[0]);                                  \
	}                                                                                          \
	event.peer = msg->addr;                                                                    \
	event.context = (uintptr_t)msg->context;                                                   \
	event.data = msg->data

#endif
