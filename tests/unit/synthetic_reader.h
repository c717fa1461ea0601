/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording in memory, made by a test event by event, read through struct trace_reader: makes tests
 * of whatever consumes recordings exact.
 */
#ifndef WAYLAY_TESTS_SYNTHETIC_READER_H
#define WAYLAY_TESTS_SYNTHETIC_READER_H

#include "tracer/events/reader.h"

struct synthetic;

/* clocks: MONOTONIC 0 is BOOTTIME `boottime_ns` and REALTIME `realtime_ns`. Aborts without memory, as
 * all of these do. */
struct synthetic *synthetic_new(const char *host, int64_t pid, int64_t boottime_ns,
				int64_t realtime_ns);
/* The reader, ready to be consumed; from now on it owns everything (its close frees). Threads' bounds
 * and the process's end are set from the events. */
struct trace_reader *synthetic_reader(struct synthetic *synthetic);
/* For what is not set elsewhere: rank, run, command, drops, damage... Strings must outlive it. */
struct trace_info *synthetic_info(struct synthetic *synthetic);
void synthetic_clock(struct synthetic *synthetic, int64_t monotonic_ns, int64_t boottime_ns,
		     int64_t realtime_ns);
/* Index of the new thread. */
uint32_t synthetic_thread(struct synthetic *synthetic, int64_t tid, const char *name);
uint32_t synthetic_string(struct synthetic *synthetic, const char *text);
/* Frames are copied, their strings must outlive the reader. */
uint32_t synthetic_stack(struct synthetic *synthetic, const struct trace_frame *frames,
			 unsigned count);
void synthetic_inflight(struct synthetic *synthetic, uint32_t thread, unsigned event,
			const char *api, uint32_t stack, int64_t since_ns);
/* args: the event's packed struct wl_ev_NAME. Events of a thread must come in order of their end. */
void synthetic_event(struct synthetic *synthetic, uint32_t thread, unsigned event, int64_t begin_ns,
		     int64_t end_ns, uint32_t flags, const void *args);
/* As synthetic_event for a type that no build knows. args: type->arg_count values. */
void synthetic_foreign(struct synthetic *synthetic, uint32_t thread,
		       const struct wl_event_type *type, int64_t begin_ns, int64_t end_ns,
		       const uint64_t *args);

#define SYNTHETIC(synthetic, thread, name, begin, end, ...)                                        \
	do {                                                                                       \
		const struct wl_ev_##name args_ = {__VA_ARGS__};                                   \
		synthetic_event((synthetic), (thread), WL_EV_##name, (begin), (end), 0, &args_);   \
	} while (0)

#endif
