/* SPDX-License-Identifier: Apache-2.0
 *
 * WAYLAY_TRIGGER: a copy of the recording when a call held the host for too long, or a range took too
 * long; for flight recorders, which would have written over it by the time that somebody looks.
 */
#include "tracer/inject/inject.h"

#include <stdio.h>
#include <time.h>

#define SNAPSHOTS_MAX 5 /* a process */
#define APART_NS      1000000000
#define THREADS       256
#define DEPTH         16

/* The ranges that a thread is in, as far as they have been looked at. */
static struct {
	uint32_t thread, depth;
	struct {
		uint64_t begin_ns;
		uint32_t text;
	} open[DEPTH];
} ranges[THREADS];

static struct wl_name names[WL_TRIGGERS_MAX];
static unsigned taken;
static uint64_t taken_ns, held_since_ns;
static uint32_t held_thread;
static const char *pulled; /* why, at this look */

/* Where the class of a call lies among its arguments; -1 for events without. */
static int class_offset(uint16_t event)
{
	const struct wl_event_type *type = wl_event_type(event);
	int at = 0;

	for (unsigned i = 0; type && i < type->arg_count; i++) {
		if (strcmp(type->args[i].name, "cls") == 0)
			return at;
		at += (int)wl_arg_type_bytes(type->args[i].type);
	}
	return -1;
}

static bool waited(const struct spool_watched *w)
{
	int at;

	if (w->event == WL_EV_ofi_wait || w->inflight)
		return true;
	at = class_offset(w->event);
	return at >= 0 && ((const uint8_t *)w->args)[at] == WL_call_class_waits;
}

static void held(const struct spool_watched *w)
{
	for (unsigned i = 0; i < wl_settings.triggers.count; i++) {
		const struct wl_trigger *t = &wl_settings.triggers.items[i];

		if (t->range[0] || w->duration_ns <= t->more_than_ns || !waited(w))
			continue;
		/* Told of while it lasted, and now again when it is over. */
		if (w->thread == held_thread && w->begin_ns == held_since_ns)
			continue;
		if (w->inflight) {
			held_thread = w->thread;
			held_since_ns = w->begin_ns;
		}
		pulled = "held";
	}
}

static void range_over(uint32_t text, uint64_t took_ns)
{
	for (unsigned i = 0; i < wl_settings.triggers.count; i++) {
		const struct wl_trigger *t = &wl_settings.triggers.items[i];

		if (!t->range[0] || took_ns <= t->more_than_ns)
			continue;
		names[i].text = t->range;
		if (text == wl_name_id(&names[i]))
			pulled = "range";
	}
}

static void range(const struct spool_watched *w)
{
	__typeof__(&ranges[0]) r = &ranges[w->thread % THREADS];

	if (r->thread != w->thread) {
		r->thread = w->thread;
		r->depth = 0;
	}
	if (w->event == WL_EV_nvtx_push) {
		if (r->depth < DEPTH) {
			struct wl_ev_nvtx_push push;

			memcpy(&push, w->args, sizeof(push));
			r->open[r->depth].begin_ns = w->begin_ns;
			r->open[r->depth].text = push.text;
		}
		r->depth++;
	} else if (r->depth && --r->depth < DEPTH) {
		range_over(r->open[r->depth].text, w->begin_ns - r->open[r->depth].begin_ns);
	}
}

static void seen(const struct spool_watched *w)
{
	if (!w->inflight && (w->event == WL_EV_nvtx_push || w->event == WL_EV_nvtx_pop))
		range(w);
	else
		held(w);
}

static void snapshot(void)
{
	char path[4352], name[64];
	struct timespec ts;
	uint64_t now;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	if (taken >= SNAPSHOTS_MAX || (taken && now - taken_ns < APART_NS))
		return;
	taken_ns = now;
	snprintf(name, sizeof(name), "snapshot-%u-%s", ++taken, pulled);
	rc = spool_snapshot(name, path, sizeof(path));
	if (rc)
		wl_debug("no snapshot %s: %s", name, strerror(-rc));
	else
		wl_debug("snapshot: %s", path);
}

void wl_trigger_tick(void)
{
	if (!wl_settings.triggers.count)
		return;
	pulled = NULL;
	spool_watch(seen);
	if (pulled)
		snapshot();
}
