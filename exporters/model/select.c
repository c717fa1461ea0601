/* SPDX-License-Identifier: Apache-2.0
 *
 * Selections: windows of time, categories, and how much is thinned out.
 */
#include "exporters/model/select.h"

#include "exporters/model/internal.h"
#include "exporters/model/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Durations by size: 16 steps an octave. */
#define STEPS   16
#define BUCKETS (64 * STEPS)
#define PARTS   65536u /* of the bucket that is thinned in part */
/* While thinning, a counter has about so many values. */
#define COUNTER_VALUES 20000

struct window {
	int64_t from_ns, to_ns;
};

struct windows {
	struct window *list; /* in order, apart */
	unsigned count, capacity;
};

struct selection {
	struct model *model;
	uint32_t categories;
	struct window whole;
	bool one_host;
	unsigned host;
	bool by_range;
	struct windows *ranges; /* by process */
	/* Thinning: buckets below are left out, of the bucket itself some. */
	unsigned least;
	uint32_t parts;
	uint64_t counts[BUCKETS]; /* asked for, by duration */
	uint64_t thinned;
};

/* --- windows ------------------------------------------------------------------------------------ */

static int window_add(struct windows *windows, int64_t from_ns, int64_t to_ns)
{
	if (windows->count == windows->capacity) {
		unsigned capacity = windows->capacity ? windows->capacity * 2 : 16;
		struct window *more = realloc(windows->list, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		windows->list = more;
		windows->capacity = capacity;
	}
	windows->list[windows->count++] = (struct window){from_ns, to_ns};
	return 0;
}

static int compare_windows(const void *left, const void *right)
{
	const struct window *a = left, *b = right;

	return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

static void windows_settle(struct windows *windows)
{
	unsigned kept = 0;

	if (!windows->count)
		return;
	qsort(windows->list, windows->count, sizeof(*windows->list), compare_windows);
	for (unsigned i = 1; i < windows->count; i++) {
		struct window *last = &windows->list[kept], *next = &windows->list[i];

		if (next->from_ns > last->to_ns)
			windows->list[++kept] = *next;
		else if (next->to_ns > last->to_ns)
			last->to_ns = next->to_ns;
	}
	windows->count = kept + 1;
}

static bool windows_touch(const struct windows *windows, int64_t begin_ns, int64_t end_ns)
{
	unsigned low = 0, high = windows->count;

	while (low < high) { /* the first that ends at or after begin */
		unsigned middle = low + (high - low) / 2;

		if (windows->list[middle].to_ns < begin_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < windows->count && windows->list[low].from_ns <= end_ns;
}

struct range_search {
	struct selection *selection;
	const struct model_process *process;
	const char *name;
	int error;
};

static void on_range_end(void *user, const struct model_range *range)
{
	struct range_search *search = user;

	if (strcmp(range->name, search->name) != 0 || search->error)
		return;
	search->error = window_add(&search->selection->ranges[search->process->index],
				   model_time(search->process, range->begin_ns),
				   model_time(search->process, range->end_ns));
}

static int on_stop(void *user)
{
	const struct range_search *search = user;

	return search->error;
}

static int find_ranges(struct selection *selection, const char *name)
{
	static const struct model_match_ops ops = {.range_end = on_range_end};
	unsigned count = model_process_count(selection->model), found = 0;

	selection->by_range = true;
	selection->ranges = calloc(count, sizeof(*selection->ranges));
	if (!selection->ranges)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		struct range_search search = {selection, model_process(selection->model, i), name,
					      0};
		struct model_match_counts unused = {0};
		int error = walk_merged(selection->model, i, &ops, &search, on_stop, &unused);

		if (error)
			return error;
		windows_settle(&selection->ranges[i]);
		found += selection->ranges[i].count;
	}
	return found ? 0 : -ENOENT;
}

struct selection *selection_new(struct model *model, const struct selection_spec *spec, int *error,
				char *err, size_t err_size)
{
	struct selection *selection = calloc(1, sizeof(*selection));

	*error = selection ? 0 : -ENOMEM;
	if (selection) {
		selection->model = model;
		selection->categories = spec->categories ? spec->categories : UINT32_MAX;
		selection->whole = (struct window){spec->from_ns, spec->to_ns};
		selection->one_host = spec->one_host;
		selection->host = spec->host;
		if (spec->range)
			*error = find_ranges(selection, spec->range);
	}
	if (!*error)
		return selection;
	if (*error == -ENOENT)
		(void)snprintf(err, err_size,
			       "no range named '%s' in the recordings; `waylay export -f csv "
			       "--table ranges -o -` lists them",
			       spec->range);
	else
		(void)snprintf(err, err_size, "selecting what to export: %s", strerror(-*error));
	selection_free(selection);
	return NULL;
}

void selection_free(struct selection *selection)
{
	if (!selection)
		return;
	for (unsigned i = 0; selection->ranges && i < model_process_count(selection->model); i++)
		free(selection->ranges[i].list);
	free(selection->ranges);
	free(selection);
}

/* --- thinning ----------------------------------------------------------------------------------- */

static unsigned bucket_of(int64_t duration_ns)
{
	uint64_t size = duration_ns > 0 ? (uint64_t)duration_ns : 0;
	unsigned octave;

	if (size < STEPS)
		return (unsigned)size;
	octave = 63u - (unsigned)__builtin_clzll(size);
	return (octave - 3) * STEPS + (unsigned)(size >> (octave - 4) & (STEPS - 1));
}

static bool thinned_out(const struct selection *selection, int64_t begin_ns, int64_t end_ns)
{
	unsigned bucket;

	if (!selection->least && !selection->parts)
		return false;
	bucket = bucket_of(end_ns - begin_ns);
	return bucket < selection->least ||
	       (bucket == selection->least &&
		text_mix((uint64_t)begin_ns) % PARTS < selection->parts);
}

void selection_thin(struct selection *selection, double keep)
{
	uint64_t total = 0, below = 0, drop;

	for (unsigned i = 0; i < BUCKETS; i++)
		total += selection->counts[i];
	drop = (uint64_t)((double)total * (keep < 0 ? 1 : keep < 1 ? 1 - keep : 0));
	selection->parts = 0;
	for (selection->least = 0; selection->least < BUCKETS; selection->least++) {
		uint64_t count = selection->counts[selection->least];

		if (below + count > drop) {
			selection->parts =
				(uint32_t)((double)(drop - below) / (double)count * (double)PARTS);
			break;
		}
		below += count;
	}
}

void selection_restart(struct selection *selection)
{
	memset(selection->counts, 0, sizeof(selection->counts));
	selection->thinned = 0;
}

uint64_t selection_thinned(const struct selection *selection, uint64_t *of)
{
	*of = 0;
	for (unsigned i = 0; i < BUCKETS; i++)
		*of += selection->counts[i];
	return selection->thinned;
}

/* --- questions ---------------------------------------------------------------------------------- */

bool select_process(const struct selection *selection, const struct model_process *process)
{
	return !selection || !selection->one_host || selection->host == process->host;
}

bool select_shows(const struct selection *selection, unsigned process, enum wl_category category,
		  int64_t begin_ns, int64_t end_ns)
{
	if (!selection)
		return true;
	if (!(selection->categories & 1u << category) || end_ns < selection->whole.from_ns ||
	    begin_ns > selection->whole.to_ns)
		return false;
	return !selection->by_range || windows_touch(&selection->ranges[process], begin_ns, end_ns);
}

bool select_keeps(const struct selection *selection, unsigned process, enum wl_category category,
		  int64_t begin_ns, int64_t end_ns)
{
	return select_shows(selection, process, category, begin_ns, end_ns) &&
	       (!selection || !thinned_out(selection, begin_ns, end_ns));
}

bool select_takes(struct selection *selection, unsigned process, enum wl_category category,
		  int64_t begin_ns, int64_t end_ns)
{
	if (!select_shows(selection, process, category, begin_ns, end_ns))
		return false;
	if (!selection)
		return true;
	selection->counts[bucket_of(end_ns - begin_ns)]++;
	if (!thinned_out(selection, begin_ns, end_ns))
		return true;
	selection->thinned++;
	return false;
}

bool select_counter(const struct selection *selection, unsigned process, enum wl_category category,
		    int64_t ts, int64_t *last_ns)
{
	int64_t first_ns, end_ns, realtime_ns;

	if (!select_shows(selection, process, category, ts, ts))
		return false;
	if (!selection || (!selection->least && !selection->parts))
		return true;
	model_bounds(selection->model, &first_ns, &end_ns, &realtime_ns);
	if (*last_ns != INT64_MIN && ts - *last_ns < (end_ns - first_ns) / COUNTER_VALUES)
		return false;
	*last_ns = ts;
	return true;
}

/* --- nested slices ------------------------------------------------------------------------------ */

static void tell_begin(struct select_nest *nest, const struct nest_item *item, int64_t ts,
		       bool continued)
{
	for (unsigned i = 0; i < nest->pending_count; i++) {
		const struct select_pending *outer = &nest->pending[i];

		nest->slices += !outer->continued;
		nest->ops->begin(nest->user, outer->item, outer->ts, outer->continued);
	}
	nest->pending_count = 0;
	if (!item)
		return;
	nest->slices += !continued;
	nest->ops->begin(nest->user, item, ts, continued);
}

/* Waits are what a trace is looked at for: never thinned out. */
static bool is_wait(const struct nest_item *item)
{
	return item->inflight || model_event_class(&item->event) == WL_call_class_waits;
}

static bool call_kept(const struct select_nest *nest, const struct nest_item *item)
{
	const struct trace_event *event = &item->event;

	return (is_wait(item) ? select_shows : select_keeps)(nest->selection, nest->process->index,
							     event->type->category, event->begin_ns,
							     event->end_ns);
}

/* A range that begins outside the time shown waits for something in it. False: told at once. */
static bool put_off(struct select_nest *nest, const struct nest_item *item, int64_t ts,
		    bool continued)
{
	if (nest->pending_count == nest->pending_capacity) {
		unsigned capacity = nest->pending_capacity ? nest->pending_capacity * 2 : 64;
		struct select_pending *more = realloc(nest->pending, capacity * sizeof(*more));

		if (!more)
			return false;
		nest->pending = more;
		nest->pending_capacity = capacity;
	}
	if (select_shows(nest->selection, nest->process->index, item->event.type->category, ts, ts))
		return false;
	nest->pending[nest->pending_count++] = (struct select_pending){item, ts, continued};
	return true;
}

static bool category_shown(const struct select_nest *nest, const struct nest_item *item)
{
	return !nest->selection || nest->selection->categories & 1u << item->event.type->category;
}

static void on_begin(void *user, const struct nest_item *item, int64_t ts, bool continued)
{
	struct select_nest *nest = user;
	const struct trace_event *event = &item->event;

	if (!nest->selection) {
		tell_begin(nest, item, ts, continued);
	} else if (event->type->form == WL_FORM_CALL) {
		if (is_wait(item)
			    ? call_kept(nest, item)
			    : select_takes(nest->selection, nest->process->index,
					   event->type->category, event->begin_ns, event->end_ns))
			tell_begin(nest, item, ts, continued);
	} else if (category_shown(nest, item) && !put_off(nest, item, ts, continued)) {
		tell_begin(nest, item, ts, continued);
	}
}

/* Takes a range off the list of those put off; false if it was told. */
static bool take_off(struct select_nest *nest, const struct nest_item *item)
{
	for (unsigned i = nest->pending_count; i-- > 0;) {
		if (nest->pending[i].item != item)
			continue;
		nest->pending_count--;
		memmove(&nest->pending[i], &nest->pending[i + 1],
			(nest->pending_count - i) * sizeof(*nest->pending));
		return true;
	}
	return false;
}

static void on_end(void *user, const struct nest_item *item, int64_t ts, int64_t piece_begin,
		   unsigned flags)
{
	struct select_nest *nest = user;
	const struct wl_event_type *type = item->event.type;

	if (nest->selection) {
		if (type->form == WL_FORM_CALL ? !call_kept(nest, item)
					       : !category_shown(nest, item))
			return;
		if (type->form != WL_FORM_CALL && take_off(nest, item)) {
			if (!select_shows(nest->selection, nest->process->index, type->category,
					  piece_begin, ts))
				return;
			tell_begin(nest, item, piece_begin, flags & NEST_CONTINUED);
		}
	}
	nest->ops->end(nest->user, item, ts, piece_begin, flags);
}

static void on_instant(void *user, const struct nest_item *item)
{
	struct select_nest *nest = user;
	const struct trace_event *event = &item->event;

	if (nest->selection &&
	    !select_takes(nest->selection, nest->process->index, event->type->category,
			  event->begin_ns, event->begin_ns))
		return;
	tell_begin(nest, NULL, 0, false);
	nest->instants++;
	nest->ops->instant(nest->user, item);
}

const struct nest_ops select_nest_ops = {on_begin, on_end, on_instant};

void select_nest_done(struct select_nest *nest)
{
	free(nest->pending);
	nest->pending = NULL;
	nest->pending_count = nest->pending_capacity = 0;
}
