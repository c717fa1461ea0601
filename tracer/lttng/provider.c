/* SPDX-License-Identifier: Apache-2.0
 *
 * libwaylay-lttng.so: hands events to LTTng-UST. Opened by libwaylay.so when asked for, never linked,
 * since liblttng-ust starts threads and walks every loaded object in whatever process it is in.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracer/lttng/provider.h"

#include <errno.h>

static bool active(void)
{
#define WL_EVENT(name, number, category, form, args)                                               \
	if (lttng_ust_tracepoint_enabled(waylay, name))                                            \
		return true;
#include "tracer/events/events.def"
	return false;
}

static bool wants(uint16_t event)
{
	switch (event) {
#define WL_EVENT(name, number, category, form, args)                                               \
	case number:                                                                               \
		return lttng_ust_tracepoint_enabled(waylay, name);
#include "tracer/events/events.def"
	default:
		return false;
	}
}

static void event_emit(uint16_t event, const struct sink_record *record, const void *args)
{
	int saved = errno;

	switch (event) {
#define WL_EVENT(name, number, category, form, args_)                                              \
	case number:                                                                               \
		lttng_ust_tracepoint(waylay, name, record, (const struct wl_ev_##name *)args);     \
		break;
#include "tracer/events/events.def"
	default:
		break;
	}
	errno = saved;
}

static void entry_emit(const struct sink_entry *entry)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, entry, entry);
	errno = saved;
}

static void process_emit(const struct sink_process *process)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, process, process);
	errno = saved;
}

static void attribute_emit(uint32_t pid, const char *key, const char *value)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, attribute, pid, key, value);
	errno = saved;
}

static void thread_emit(uint32_t pid, uint32_t tid, const char *name)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, thread, pid, tid, name);
	errno = saved;
}

static void clock_emit(const struct sink_clock *clock)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, clock, clock);
	errno = saved;
}

static void lost_emit(uint32_t pid, uint32_t reason, uint64_t count)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, lost, pid, reason, count);
	errno = saved;
}

static void end_emit(uint32_t pid, uint64_t monotonic_ns)
{
	int saved = errno;

	lttng_ust_tracepoint(waylay, end, pid, monotonic_ns);
	errno = saved;
}

extern const struct sink_ops waylay_sink;
__attribute__((visibility("default"))) const struct sink_ops waylay_sink = {
	.abi = SINK_ABI,
	.version = WAYLAY_VERSION,
	.active = active,
	.wants = wants,
	.event = event_emit,
	.entry = entry_emit,
	.process = process_emit,
	.attribute = attribute_emit,
	.thread = thread_emit,
	.clock = clock_emit,
	.lost = lost_emit,
	.end = end_emit,
};
