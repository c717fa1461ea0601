/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers that CUPTI fills. It asks for them on the job's threads, in the middle of a launch, and gives
 * them back on a thread of its own or in a flush: neither takes a lock, and nothing is done with a full one
 * there that the housekeeping thread can do later.
 */
#include "tracer/inject/cupti/cupti.h"

#include <errno.h>
#include <sys/mman.h>

#define BUFFER_BYTES (1024u * 1024)
#define BUFFER_MAX   256 /* CUPTI keeps one a thread */

enum { NONE, FREE, OUT, FULL, READING };

/* A slot's data belongs to whoever moved its state last. */
static struct buffer {
	_Atomic uint32_t state;
	_Atomic(uint8_t *) data;
	size_t valid;
	uint64_t serial; /* in the order in which they came back */
} buffers[BUFFER_MAX];
static _Atomic uint64_t serials;

static bool move(struct buffer *buffer, uint32_t from, uint32_t to)
{
	/* Pairs: what was written to a slot before it moved is seen by the next who moves it. */
	return atomic_compare_exchange_strong_explicit(&buffer->state, &from, to,
						       memory_order_acq_rel, memory_order_relaxed);
}

static void *pages(void)
{
	void *at = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	if (at == MAP_FAILED)
		return NULL;
	munlock(at, BUFFER_BYTES); /* not of what a job may lock that locks all its memory */
	return at;
}

void cupti_buffer_request(uint8_t **buffer, size_t *size, size_t *records_max)
{
	int saved = errno;

	*buffer = NULL;
	*size = 0;
	*records_max = 0;
	for (unsigned i = 0; i < BUFFER_MAX && !*buffer; i++)
		if (move(&buffers[i], FREE, OUT))
			*buffer = atomic_load_explicit(&buffers[i].data, memory_order_relaxed);
	for (unsigned i = 0; i < BUFFER_MAX && !*buffer; i++) {
		if (!move(&buffers[i], NONE, OUT))
			continue;
		*buffer = pages();
		/* Release: pairs with the look-up by address. */
		atomic_store_explicit(&buffers[i].data, *buffer, memory_order_release);
		if (!*buffer)
			move(&buffers[i], OUT, NONE);
		break;
	}
	if (*buffer)
		*size = BUFFER_BYTES;
	errno = saved;
}

static struct buffer *ours(const uint8_t *data)
{
	for (unsigned i = 0; i < BUFFER_MAX; i++)
		if (data && atomic_load_explicit(&buffers[i].data, memory_order_acquire) == data)
			return &buffers[i];
	return NULL;
}

static void read_now(struct buffer *buffer)
{
	uint8_t *data = atomic_load_explicit(&buffer->data, memory_order_relaxed);

	cupti_records_take(data, buffer->valid);
	move(buffer, READING, FREE);
}

void cupti_buffer_complete(void *context, uint32_t stream, uint8_t *data, size_t size, size_t valid)
{
	struct buffer *buffer = ours(data);
	int saved = errno;

	if (!buffer) {
		cupti_share_return(context, stream, data, size, valid);
		errno = saved;
		return;
	}
	buffer->valid = valid;
	buffer->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed);
	if (cupti_share_open())
		cupti_share_give(data, valid);
	move(buffer, OUT, FULL);
	if (!wl_settings.thread && move(buffer, FULL, READING))
		read_now(buffer);
	errno = saved;
}

void cupti_buffers_drain(void)
{
	for (;;) {
		struct buffer *oldest = NULL;

		for (unsigned i = 0; i < BUFFER_MAX; i++)
			if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) == FULL &&
			    (!oldest || buffers[i].serial < oldest->serial))
				oldest = &buffers[i];
		if (!oldest)
			return;
		if (move(oldest, FULL, READING))
			read_now(oldest);
	}
}

void cupti_buffers_finish(void)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	bool busy = true;

	cupti_buffers_drain();
	for (unsigned tries = 0; busy && tries < 2000; tries++) {
		busy = false;
		for (unsigned i = 0; i < BUFFER_MAX; i++)
			busy |= atomic_load_explicit(&buffers[i].state, memory_order_acquire) ==
				READING;
		if (busy)
			nanosleep(&pause, NULL);
	}
}
