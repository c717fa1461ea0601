/* SPDX-License-Identifier: Apache-2.0
 *
 * When to record: what `waylay ctl` or the job itself says, a delay and a duration, ranges of NVTX and
 * their instances. Each has its bit in wl_off; recording is on while none is set.
 */
#include "tracer/inject/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define STARTED_MAX 64 /* ranges of start and end that are open at one time */

_Atomic uint32_t wl_off;
bool wl_watching;

static bool begun; /* the settings have had their say: a forked child goes on as its parent */
static _Atomic uint64_t record_at, stop_at; /* MONOTONIC ns; 0: never */

/* Ranges of the name that are open, and how many there have been. */
static _Atomic uint32_t open_ranges;
static _Atomic uint64_t instances;
static struct wl_name range_name;
static _Atomic uint64_t started[STARTED_MAX];
/* The window's range on this thread: pushes in its domain above it, 0 outside. */
static __thread struct {
	uint32_t depth, domain;
} inside __attribute__((tls_model("initial-exec")));

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- the bits --------------------------------------------------------------------------------- */

/* Changes bits; says it in the recording when that changes whether there is one. */
static void off_change(uint32_t set, uint32_t clear)
{
	uint32_t before = atomic_load(&wl_off), after;

	do
		after = (before & ~clear) | set;
	while (!atomic_compare_exchange_weak(&wl_off, &before, after));
	if (before == after)
		return;
	wl_recording_apply();
	spool_control_state(after);
}

/* --- control ---------------------------------------------------------------------------------- */

static int set_one(const char *text, char *answer, size_t answer_size)
{
	static const char *const allowed[] = {"WAYLAY_STACK", "WAYLAY_STACK_DEPTH", "WAYLAY_DEBUG"};
	const char *equals = strchr(text, '=');
	const struct wl_setting *row = NULL;
	char name[40];

	if (!equals || (size_t)(equals - text) >= sizeof(name))
		return -EINVAL;
	memcpy(name, text, (size_t)(equals - text));
	name[equals - text] = '\0';
	for (unsigned i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (!strcmp(name, allowed[i]))
			row = wl_setting_by_variable(name);
	if (!row) {
		snprintf(answer, answer_size, "%s cannot be changed in a running process", name);
		return -EPERM;
	}
	/* What these rows hold is copied, no pointer to `text` is kept. */
	return wl_setting_parse(&wl_settings, row, equals + 1, answer, answer_size);
}

static int control(uint32_t command, const char *text, char *answer, size_t answer_size)
{
	switch (command) {
	case SPOOL_COMMAND_START:
		/* Whatever window there was: somebody wants to see now. */
		wl_watching = false;
		stop_at = 0;
		record_at = 0;
		off_change(0, UINT32_MAX);
		return 0;
	case SPOOL_COMMAND_STOP:
		off_change(SPOOL_OFF_STOPPED, 0);
		return 0;
	case SPOOL_COMMAND_SET:
		return set_one(text, answer, answer_size);
	default:
		snprintf(answer, answer_size, "this version of Waylay does not know the request");
		return -ENOSYS;
	}
}

/* For programs that choose themselves what is recorded of them; docs/man/waylay-ctl.1. */
WL_EXPORT void waylay_record(int on);
void waylay_record(int on)
{
	int saved = errno;

	if (on)
		off_change(0, SPOOL_OFF_STOPPED);
	else
		off_change(SPOOL_OFF_STOPPED, 0);
	errno = saved;
}

/* --- time ------------------------------------------------------------------------------------- */

void wl_window_begin(void)
{
	uint64_t now = monotonic_ns();
	uint32_t set = 0;

	spool_control_set(control, wl_settings.thread ? NULL : wl_window_tick);
	if (!begun) {
		begun = true;
		if (wl_settings.delay_ns) {
			record_at = now + wl_settings.delay_ns;
			set |= SPOOL_OFF_DELAY;
		}
		if (wl_settings.duration_ns)
			stop_at = now + wl_settings.delay_ns + wl_settings.duration_ns;
		range_name.text = wl_settings.only_range;
		if (wl_settings.steps.end && !*range_name.text)
			range_name.text = "step";
		if (*range_name.text) {
			wl_watching = true;
			set |= SPOOL_OFF_RANGE;
		}
		atomic_fetch_or(&wl_off, set);
	}
	if (atomic_load(&wl_off))
		spool_control_state(atomic_load(&wl_off));
}

void wl_window_tick(void)
{
	uint64_t now = record_at || stop_at ? monotonic_ns() : 0;

	if (record_at && now >= record_at) {
		record_at = 0;
		off_change(0, SPOOL_OFF_DELAY);
	}
	if (stop_at && now >= stop_at) {
		stop_at = 0;
		off_change(SPOOL_OFF_OVER, 0);
	}
}

/* --- ranges ----------------------------------------------------------------------------------- */

static bool instance_wanted(void)
{
	uint64_t number = atomic_fetch_add(&instances, 1);

	return !wl_settings.steps.end ||
	       (number >= wl_settings.steps.first && number < wl_settings.steps.end);
}

static void range_opened(void)
{
	if (atomic_fetch_add(&open_ranges, 1) == 0)
		off_change(0, SPOOL_OFF_RANGE);
}

static void range_closed(void)
{
	if (atomic_fetch_sub(&open_ranges, 1) != 1)
		return;
	off_change(SPOOL_OFF_RANGE, 0);
	/* Another thread may have opened one between the two. */
	if (atomic_load(&open_ranges))
		off_change(0, SPOOL_OFF_RANGE);
}

void wl_window_push(uint32_t text, uint32_t domain)
{
	if (inside.depth) {
		if (domain == inside.domain)
			inside.depth++;
		return;
	}
	if (text != wl_name_id(&range_name) || !text || !instance_wanted())
		return;
	inside.domain = domain;
	inside.depth = 1;
	range_opened();
}

void wl_window_pop(uint32_t domain)
{
	if (inside.depth && domain == inside.domain && --inside.depth == 0)
		range_closed();
}

void wl_window_start(uint64_t id, uint32_t text)
{
	if (!id || !text || text != wl_name_id(&range_name) || !instance_wanted())
		return;
	for (unsigned i = 0; i < STARTED_MAX; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&started[i], &none, id)) {
			range_opened();
			return;
		}
	}
}

void wl_window_end(uint64_t id)
{
	for (unsigned i = 0; id && i < STARTED_MAX; i++) {
		uint64_t open = id;

		if (atomic_compare_exchange_strong(&started[i], &open, 0)) {
			range_closed();
			return;
		}
	}
}
