/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding retries, and recording an operation that was accepted or failed for good.
 */
#include "tracer/inject/ofi/post.h"

/* Operations of this thread that were answered "again" and not tried since. A job retries one or a
 * few at a time; when a further one needs room, the oldest is taken to be given up. */
#define PENDING 4
struct pending {
	const void *ep, *identity;
	uint64_t begin;
	uint32_t retries;
};
static __thread struct pending pending[PENDING] __attribute__((tls_model("initial-exec")));
__thread unsigned ofi_pending __attribute__((tls_model("initial-exec")));

static struct pending *pending_find(const void *ep, const void *identity)
{
	for (unsigned i = 0; i < ofi_pending; i++)
		if (pending[i].ep == ep && pending[i].identity == identity)
			return &pending[i];
	return NULL;
}

static void pending_remove(struct pending *operation)
{
	ofi_pending--;
	*operation = pending[ofi_pending];
}

void ofi_post_again(const void *ep, const void *identity, uint64_t begin, enum ofi_how how)
{
	struct pending *operation;

	if (how != OFI_JOB) /* a layer tries again in a way of its own */
		return;
	operation = pending_find(ep, identity);
	if (operation) {
		operation->retries++;
		return;
	}
	if (ofi_pending == PENDING) {
		struct pending *oldest = &pending[0];

		for (unsigned i = 1; i < PENDING; i++)
			if (pending[i].begin < oldest->begin)
				oldest = &pending[i];
		SPOOL_EMIT(ofi_post, oldest->begin, oldest->begin, 0, .ep = (uintptr_t)oldest->ep,
			   .context = (uintptr_t)oldest->identity, .retries = oldest->retries,
			   .api = OFI_NAME("(given up)"), .status = -FI_EAGAIN);
		pending_remove(oldest);
	}
	pending[ofi_pending++] = (struct pending){ep, identity, begin, 1};
}

uint32_t ofi_post_retries(const void *ep, const void *identity, uint64_t *begin, enum ofi_how how)
{
	struct pending *operation = how == OFI_JOB ? pending_find(ep, identity) : NULL;
	uint32_t retries;

	if (!operation)
		return 0;
	*begin = operation->begin;
	retries = operation->retries;
	pending_remove(operation);
	return retries;
}

void ofi_post_ranges(struct wl_ev_ofi_post *event, const struct iovec *iov, size_t count)
{
	if (!iov || !count)
		return;
	event->addr = (uintptr_t)iov[0].iov_base;
	for (size_t i = 0; i < count; i++)
		event->bytes += iov[i].iov_len;
}

uint64_t ofi_datatype_bytes(enum fi_datatype type)
{
	static const uint8_t bytes[] = {
		[FI_INT8] = 1,          [FI_UINT8] = 1,
		[FI_INT16] = 2,         [FI_UINT16] = 2,
		[FI_INT32] = 4,         [FI_UINT32] = 4,
		[FI_INT64] = 8,         [FI_UINT64] = 8,
		[FI_FLOAT] = 4,         [FI_DOUBLE] = 8,
		[FI_FLOAT_COMPLEX] = 8, [FI_DOUBLE_COMPLEX] = 16,
		[FI_LONG_DOUBLE] = 16,  [FI_LONG_DOUBLE_COMPLEX] = 32,
	};
	/* Types younger than these headers: 128-bit integers, then 16-bit and 8-bit floats. */
	return (size_t)type < sizeof(bytes) ? bytes[type] : 0;
}

void ofi_post_atomics(struct wl_ev_ofi_post *event, const struct fi_ioc *iov, size_t count,
		      enum fi_datatype type)
{
	if (!iov || !count)
		return;
	event->addr = (uintptr_t)iov[0].addr;
	for (size_t i = 0; i < count; i++)
		event->bytes += iov[i].count * ofi_datatype_bytes(type);
}
