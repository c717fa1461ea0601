/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of `waylay ctl`, which lie in the recording's header: no signal, no socket, no file of its
 * own, and whoever may write to the recording may ask.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WINDOWS_SAID 64 /* a job may switch at every step; the region of names is bounded */

static _Atomic(spool_control_fn) handler;
static void (*_Atomic ticker)(void);

void spool_control_set(spool_control_fn fn, void (*tick)(void))
{
	atomic_store(&handler, fn);
	atomic_store(&ticker, tick);
}

static void answer_request(struct spool_writer *w)
{
	spool_control_fn fn = atomic_load(&handler);
	struct spool_header *h = w->header;
	uint32_t idle = 0, asked, command;
	char text[SPOOL_CONTROL_TEXT], answer[SPOOL_CONTROL_TEXT] = "";
	int status = -ENOSYS;

	if (!atomic_compare_exchange_strong(&w->control_busy, &idle, 1))
		return;
	asked = atomic_load_explicit(&h->asked, memory_order_acquire);
	command = h->command;
	/* A copy, since the asker can write to it at any time. */
	memcpy(text, h->command_text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	if (asked != atomic_load(&h->answered)) {
		if (fn)
			status = fn(command, text, answer, sizeof(answer));
		memcpy(h->answer_text, answer, sizeof(answer));
		h->answer_status = status;
		/* Pairs with the asker's acquire: the answer is there. */
		atomic_store_explicit(&h->answered, asked, memory_order_release);
	}
	atomic_store(&w->control_busy, 0);
}

void spool_control_poll(struct spool_writer *w)
{
	void (*tick)(void) = atomic_load_explicit(&ticker, memory_order_relaxed);
	/* Pairs with the asker's release: command and text are there. */
	uint32_t asked = atomic_load_explicit(&w->header->asked, memory_order_acquire);

	if (tick)
		tick();
	if (asked != atomic_load_explicit(&w->header->answered, memory_order_relaxed))
		answer_request(w);
}

void spool_control_state(uint32_t off)
{
	struct spool_writer *w = spool_writer_open_now();
	char key[40], value[64];
	int saved = errno;

	if (!w)
		return;
	atomic_store(&w->header->off, off);
	if (atomic_load(&w->windows) >= WINDOWS_SAID)
		return;
	snprintf(key, sizeof(key), "recording.%u", atomic_fetch_add(&w->windows, 1) + 1);
	snprintf(value, sizeof(value), "%s %llu", off ? "off" : "on",
		 (unsigned long long)spool_monotonic_ns());
	spool_attribute_own(key, value);
	errno = saved;
}
