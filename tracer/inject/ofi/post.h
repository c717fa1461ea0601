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

/* How many operations of this thread were answered so and not tried since. */
extern __thread unsigned ofi_pending __attribute__((tls_model("initial-exec")));
/* How often this one was, and when it was tried first. identity is what it was called with at every attempt
 * (its context, or the message struct's address), so that earlier attempts are found. */
uint32_t ofi_post_retries(const void *ep, const void *identity, uint64_t *begin, enum ofi_how how);

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
 *     after      statements on `it`, the record's arguments, that look behind the caller's pointers
 *                (success only)
 */
#define POST(hook, table, operation_, kind_, api_, identity, parameters, arguments, plain, after)  \
	static ssize_t hook parameters                                                             \
	{                                                                                          \
		__typeof__(ep->table) real = OFI_REAL(ep->table);                                  \
		enum ofi_how how = OFI_ENTER();                                                    \
		uint32_t tries = 0;                                                                \
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
		if (__builtin_expect(ofi_pending, 0))                                              \
			tries = ofi_post_retries(ep, identity, &begin, how);                       \
		SPOOL_RECORD(                                                                      \
			ofi_post, begin, spool_now(), ofi_flags(how),                              \
			((struct wl_ev_ofi_post){.ep = (uintptr_t)ep,                              \
						 .api = OFI_NAME(api_),                            \
						 .status = (int32_t)ret,                           \
						 .op = WL_ofi_op_##kind_,                          \
						 .retries = tries,                                 \
						 POST_UNPACK plain}),                              \
			if (ret == 0) { after; });                                                 \
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
	ofi_post_ranges(it, iov, count);                                                           \
	if (desc && count) {                                                                       \
		it->desc = (uintptr_t)desc[0];                                                     \
		it->iface = ofi_descriptor_iface(desc[0]);                                         \
	}
/* After success: what every *msg struct has. */
#define MESSAGE                                                                                    \
	ofi_post_ranges(it, msg->msg_iov, msg->iov_count);                                         \
	if (msg->desc && msg->iov_count) {                                                         \
		it->desc = (uintptr_t)msg->desc[0];                                                \
		it->iface = ofi_descriptor_iface(msg->desc[0]);                                    \
	}                                                                                          \
	it->peer = msg->addr;                                                                      \
	it->context = (uintptr_t)msg->context;                                                     \
	it->data = msg->data

#endif
