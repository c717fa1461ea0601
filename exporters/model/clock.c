/* SPDX-License-Identifier: Apache-2.0
 *
 * One clock for all: each process's MONOTONIC times are placed on BOOTTIME of the reference host,
 * the one with the earliest recording.
 *
 * On the reference host BOOTTIME - MONOTONIC is a constant, or grows where the machine was
 * suspended. On another host REALTIME joins the two. Where the host's snapshots agree over the
 * whole recording one offset is used, so that lengths stay exact; where they drift apart the offset
 * is interpolated; where REALTIME was set (a step), only what followed the last step is believed.
 */
#include "exporters/model/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGREE_NS     50000              /* snapshots that differ by less say the same */
#define STEP_NS      1000000            /* a clock that moved further than this between two */
#define STEP_PPM     1000               /* and than this rate allows was set */
#define SAME_BOOT_NS 2000000000         /* REALTIME - BOOTTIME of one boot stays within */
#define SANE_NS      ((int64_t)1 << 61) /* a clock beyond is not one */

static struct process *process_of(const struct model_process *public)
{
	return (struct process *)(uintptr_t) public;
}

static int64_t clamp(__int128 time)
{
	return time < 0 ? 0 : time > SANE_NS ? SANE_NS : (int64_t)time;
}

int64_t model_time(const struct model_process *public, int64_t monotonic_ns)
{
	const struct process *process = process_of(public);
	const struct clock_knot *knots = process->knots;
	unsigned low = 0, high = process->knot_count;

	if (!high)
		return clamp(monotonic_ns);
	/* The last knot at or before the time: low; beyond the ends the offset stays what it was. */
	while (high - low > 1) {
		unsigned middle = low + (high - low) / 2;

		if (knots[middle].monotonic_ns <= monotonic_ns)
			low = middle;
		else
			high = middle;
	}

	__int128 since = (__int128)monotonic_ns - knots[low].monotonic_ns;

	if (low + 1 < process->knot_count && since >= 0) {
		since *= knots[low + 1].model_ns - knots[low].model_ns;
		since /= knots[low + 1].monotonic_ns - knots[low].monotonic_ns;
	}
	return clamp(knots[low].model_ns + since);
}

static bool sane(const struct trace_clock *clock)
{
	return clock->monotonic_ns >= 0 && clock->monotonic_ns < SANE_NS &&
	       clock->boottime_ns >= 0 && clock->boottime_ns < SANE_NS && clock->realtime_ns >= 0 &&
	       clock->realtime_ns < SANE_NS;
}

static int compare_offsets(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return a < b ? -1 : a > b;
}

static int64_t offset_of(const struct clock_knot *knot)
{
	return knot->model_ns - knot->monotonic_ns;
}

/* Index of the first knot after the last step of the clock. */
static unsigned after_last_step(const struct clock_knot *knots, unsigned count)
{
	for (unsigned i = count; i-- > 1;) {
		int64_t moved = offset_of(&knots[i]) - offset_of(&knots[i - 1]);
		int64_t passed = knots[i].monotonic_ns - knots[i - 1].monotonic_ns;

		if (llabs(moved) > STEP_NS && llabs(moved) > passed / 1000000 * STEP_PPM)
			return i;
	}
	return 0;
}

/* Makes the knots as few as they can be and never falling. */
static unsigned simplify(struct clock_knot *knots, unsigned count, bool keep_steps)
{
	int64_t *offsets;

	if (count && !keep_steps) {
		unsigned skip = after_last_step(knots, count);

		memmove(knots, knots + skip, (count - skip) * sizeof(*knots));
		count -= skip;
	}
	if (count < 2)
		return count;
	offsets = malloc(count * sizeof(*offsets));
	if (!offsets)
		return 1;
	for (unsigned i = 0; i < count; i++)
		offsets[i] = offset_of(&knots[i]);
	qsort(offsets, count, sizeof(*offsets), compare_offsets);
	if (offsets[count - 1] - offsets[0] <= AGREE_NS) {
		knots[0].model_ns = knots[0].monotonic_ns + offsets[count / 2];
		count = 1;
	}
	free(offsets);
	for (unsigned i = 1; i < count; i++) {
		if (knots[i].model_ns < knots[i - 1].model_ns)
			knots[i].model_ns = knots[i - 1].model_ns;
	}
	return count;
}

/* The usable snapshots of a process in strict order of time. */
static unsigned usable(const struct trace_info *info, struct trace_clock *clocks)
{
	unsigned count = 0;

	for (unsigned i = 0; i < info->clock_count; i++) {
		if (sane(&info->clocks[i]) &&
		    (!count || info->clocks[i].monotonic_ns > clocks[count - 1].monotonic_ns))
			clocks[count++] = info->clocks[i];
	}
	return count;
}

/* The REALTIME of the reference host that its BOOTTIME stands at, as an offset: from its last
 * snapshot, which is after any step. */
struct reference {
	struct trace_clock last;
};

static int make_knots(struct process *process, const struct reference *reference)
{
	const struct trace_info *info = &process->public.info;
	struct trace_clock *clocks = calloc(info->clock_count + 1u, sizeof(*clocks));
	struct clock_knot *knots = calloc(info->clock_count + 1u, sizeof(*knots));
	bool home = process->public.host == 0;

	if (!clocks || !knots) {
		free(clocks);
		free(knots);
		return -ENOMEM;
	}
	unsigned count = usable(info, clocks);

	for (unsigned i = 0; i < count; i++) {
		knots[i].monotonic_ns = clocks[i].monotonic_ns;
		knots[i].model_ns = home ? clocks[i].boottime_ns
					 : clocks[i].realtime_ns - reference->last.realtime_ns +
						    reference->last.boottime_ns;
	}
	free(clocks);
	process->public.aligned = count > 0;
	process->public.clock_error_ns = home ? 0 : -1;
	process->knots = knots;
	process->knot_count = simplify(knots, count, home);
	return 0;
}

static const struct trace_clock *first_clock(const struct process *process)
{
	const struct trace_info *info = &process->public.info;

	for (unsigned i = 0; i < info->clock_count; i++) {
		if (sane(&info->clocks[i]))
			return &info->clocks[i];
	}
	return NULL;
}

static const struct trace_clock *last_clock(const struct process *process)
{
	const struct trace_info *info = &process->public.info;

	for (unsigned i = info->clock_count; i-- > 0;) {
		if (sane(&info->clocks[i]))
			return &info->clocks[i];
	}
	return NULL;
}

/* Same machine, same boot. */
static bool same_host(const struct process *a, const struct process *b)
{
	const struct trace_clock *x = last_clock(a), *y = last_clock(b);

	if (strcmp(a->public.info.host, b->public.info.host) != 0)
		return false;
	if (!x || !y)
		return true;
	return llabs((x->realtime_ns - x->boottime_ns) - (y->realtime_ns - y->boottime_ns)) <
	       SAME_BOOT_NS;
}

static struct process *earliest(const struct model *model)
{
	struct process *best = model->processes[0];

	for (unsigned i = 1; i < model->process_count; i++) {
		const struct trace_clock *a = first_clock(model->processes[i]);
		const struct trace_clock *b = first_clock(best);

		if (a && (!b || a->realtime_ns < b->realtime_ns))
			best = model->processes[i];
	}
	return best;
}

/* Gives each process its host's number: 0 for the reference, the others as they come. */
static void find_hosts(struct model *model, struct process *reference)
{
	model->host_count = 1;
	for (unsigned i = 0; i < model->process_count; i++) {
		struct process *process = model->processes[i];

		if (same_host(process, reference)) {
			process->public.host = 0;
			continue;
		}
		process->public.host = model->host_count;
		for (unsigned j = 0; j < i; j++) {
			if (model->processes[j]->public.host &&
			    same_host(process, model->processes[j])) {
				process->public.host = model->processes[j]->public.host;
				break;
			}
		}
		if (process->public.host == model->host_count)
			model->host_count++;
	}
}

int model_align(struct model *model)
{
	struct process *first = earliest(model);
	const struct trace_clock *clock = last_clock(first);
	struct reference reference = {0};

	if (clock)
		reference.last = *clock;
	find_hosts(model, first);
	for (unsigned i = 0; i < model->process_count; i++) {
		int error = make_knots(model->processes[i], &reference);

		if (error)
			return error;
	}
	return 0;
}

struct trace_clock model_reference(const struct model *model)
{
	struct trace_clock reference = {0};

	for (unsigned i = 0; i < model->process_count; i++) {
		const struct process *process = model->processes[i];
		const struct trace_clock *clock = first_clock(process);

		if (process->public.host != 0 || !clock)
			continue;
		if (reference.monotonic_ns && clock->monotonic_ns >= reference.monotonic_ns)
			continue;
		reference = *clock;
		reference.boottime_ns = model_time(&process->public, clock->monotonic_ns);
	}
	return reference;
}

void model_bounds(const struct model *model, int64_t *first_ns, int64_t *last_ns,
		  int64_t *first_realtime_ns)
{
	struct trace_clock reference = model_reference(model);

	*first_ns = model->first_ns;
	*last_ns = model->last_ns;
	*first_realtime_ns = model->first_ns - reference.boottime_ns + reference.realtime_ns;
}
