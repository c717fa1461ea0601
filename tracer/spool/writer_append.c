/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow half of recording an event: whatever the few instructions of spool_append() do not do.
 */
#include "tracer/spool/writer.h"

#include <errno.h>

/* A chunk with room, of the clock in use. */
static bool room_make(struct spool_writer *w, struct spool_thread *self, size_t bytes,
		      enum trace_drop *why)
{
	*why = TRACE_DROP_SPACE;
	if (self->chunk &&
	    self->chunk->clock != __atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED))
		spool_chunk_close(w, self);
	if (bytes <= (size_t)(self->limit - self->cursor))
		return true;
	return bytes <= w->chunk_bytes - sizeof(struct spool_chunk) &&
	       spool_chunk_next(w, self, why);
}

static void snapshot_see_to(struct spool_writer *w, struct spool_thread *self, uint64_t end)
{
	if (end < atomic_load(&self->snapshot_due))
		return;
	spool_control_poll(w);
	spool_clock_snapshot(w, false);
	atomic_store(&self->snapshot_due, spool_clock_due(w, end));
	/* Whoever pokes threads sets its flag first, so that one of the two is seen. After a switch of
	 * clocks every record comes here to have its times looked at. */
	if (!atomic_load(&spool_recording) || atomic_load(&w->clock_switched))
		atomic_store(&self->snapshot_due, 0);
}

bool spool_append_slow(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
		       const void *args, size_t args_bytes)
{
	size_t bytes = (sizeof(struct spool_record) + args_bytes + 7) & ~(size_t)7;
	enum trace_drop why = SPOOL_SUPERSEDED;
	int saved = errno;
	struct spool_writer *w;
	bool done = false;

	/* With recording off, not even a spool is opened; but who is to switch it on again is heard. */
	if (!atomic_load_explicit(&spool_recording, memory_order_relaxed)) {
		w = spool_writer_open_now();
		if (w)
			spool_control_poll(w);
		errno = saved;
		if (!atomic_load_explicit(&spool_recording, memory_order_relaxed))
			return false;
	}
	w = spool_writer_get();
	while (w && !done && why == SPOOL_SUPERSEDED) {
		struct spool_thread *self = spool_thread_claim(w);

		if (!self)
			break;
		snapshot_see_to(w, self, end);
		done = spool_sink || room_make(w, self, bytes, &why);
		if (spool_sink) {
			spool_sink_event(w, self, event, begin, end < begin ? begin : end, flags,
					 args);
		} else if (done) {
			if (atomic_load(&w->clock_switched)) {
				begin = spool_clock_settle(begin, self->chunk->clock);
				end = spool_clock_settle(end, self->chunk->clock);
			}
			void *at = spool_put(self, bytes, event, begin, end < begin ? begin : end,
					     flags) +
				   1;

			if (args_bytes)
				memcpy(at, args, args_bytes);
			spool_commit(self, bytes);
		} else if (why != SPOOL_SUPERSEDED) {
			spool_drop(w, self, why, 1);
		}
		spool_thread_release(self);
	}
	errno = saved;
	return done;
}
