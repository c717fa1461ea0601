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
static __thread struct {
	unsigned used;
	struct pending operation[PENDING];
} pending __attribute__((tls_model("initial-exec")));

static struct pending *pending_find(const void *ep, const void *identity)
{
	for (unsigned i = 0; i < pending.used; i++)
		if (pending.operation[i].ep == ep && pending.operation[i].identity == identity)
			return &pending.operation[i];
	return NULL;
}

static void pending_remove(struct pending *operation)
{
	pending.used--;
	*operation = pending.operation[pending.used];
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
	if (pending.used == PENDING) {
		struct pending *oldest = &pending.operation[0];

		for (unsigned i = 1; i < PENDING; i++)
			if (pending.operation[i].begin < oldest->begin)
				oldest = &pending.operation[i];
		SPOOL_EMIT(ofi_post, oldest->begin, oldest->begin, 0, .ep = (uintptr_t)oldest->ep,
			   .context = (uintptr_t)oldest->identity, .retries = oldest->retries,
			   .api = OFI_NAME("(given up)"), .status = -FI_EAGAIN);
		pending_remove(oldest);
	}
	pending.operation[pending.used++] = (struct pending){ep, identity, begin, 1};
}

void ofi_post_record(struct wl_ev_ofi_post *event, const void *identity, uint64_t begin,
		     ssize_t ret, enum ofi_how how)
{
	if (__builtin_expect(pending.used != 0, 0) && how == OFI_JOB) {
		struct pending *operation =
			pending_find((const void *)(uintptr_t)event->ep, identity);

		if (operation) {
			begin = operation->begin;
			event->retries = operation->retries;
			pending_remove(operation);
		}
	}
	event->status = (int32_t)ret;
	(void)spool_append(WL_EV_ofi_post, begin, spool_now(), ofi_flags(how), event,
			   sizeof(*event));
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
