/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the recorder and an engine outside the process: what libwaylay.so hands to a shared object that
 * it opens when asked to. Nothing of the engine's own headers is seen here, so that a preload without it
 * works everywhere.
 */
#ifndef WAYLAY_TRACER_EVENTS_SINK_H
#define WAYLAY_TRACER_EVENTS_SINK_H

#include <stdbool.h>
#include <stdint.h>

#define SINK_ABI         1
#define SINK_SYMBOL      "waylay_sink"
#define SINK_LTTNG       "libwaylay-lttng.so"
#define SINK_STACK_BYTES 16384 /* of a stack as text */

/* What every event has besides its arguments. Times are CLOCK_MONOTONIC in ns. */
struct sink_record {
	uint64_t begin, duration;
	uint32_t flags; /* enum wl_flag */
	uint32_t pid, tid;
	/* The text behind a string id, "" for 0; valid as long as the process. */
	const char *(*text)(uint32_t id);
	const char *stack; /* the call stack as text (docs/lttng.md), "" without one */
};

/* A call that has begun and may block. */
struct sink_entry {
	const char *event, *api;
	uint64_t since, object;
	uint32_t pid, tid;
	const char *stack;
};

struct sink_process {
	uint32_t pid, ppid;
	uint64_t pid_namespace, start_ticks;
	int32_t rank, world_size, local_rank;
	const char *host, *run, *name, *version;
};

struct sink_clock {
	uint32_t pid;
	int64_t monotonic_ns, boottime_ns, realtime_ns;
};

/* All functions may be called from any thread and from signal handlers, and preserve errno. */
struct sink_ops {
	uint32_t abi;
	const char *version; /* of Waylay: the event tables must be the same */
	/* Whether any session takes our events. */
	bool (*active)(void);
	/* Whether one takes this event: else its stack need not be made. */
	bool (*wants)(uint16_t event);
	/* args: the event's struct wl_ev_NAME. */
	void (*event)(uint16_t event, const struct sink_record *record, const void *args);
	void (*entry)(const struct sink_entry *entry);
	void (*process)(const struct sink_process *process);
	void (*attribute)(uint32_t pid, const char *key, const char *value);
	void (*thread)(uint32_t pid, uint32_t tid, const char *name);
	void (*clock)(const struct sink_clock *clock);
	void (*lost)(uint32_t pid, uint32_t reason, uint64_t count);
	void (*end)(uint32_t pid, uint64_t monotonic_ns);
};

#endif
