/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a thread come in order of their end: a post-order walk of the tree of calls. A window of
 * them is kept; the finished trees in it ("roots") are told in pre-order when it fills up.
 *
 * In a post-order sequence a tree is a contiguous run. Each record that begins a run (a leaf) heads a
 * chain of all records whose run begins there, outermost first: telling a record means telling the
 * begins of its chain, then its own end.
 */
#include "exporters/model/nest.h"

#include <stdlib.h>
#include <string.h>

#define NONE     UINT64_MAX
#define OPEN_MAX 4096 /* ranges and calls followed at once */

/* A slice that is open: a call of the window, or a range with its own copy. */
struct open_slice {
	struct nest_item *item;
	int64_t piece_begin;
	bool range, hidden, continued;
	bool closing; /* a range whose end came inside a call: ends with that call */
};

struct nest {
	const struct nest_ops *ops;
	void *user;
	struct nest_item *window;
	uint64_t mask;
	uint64_t tail, head; /* records tail .. head-1 are in the window */
	uint64_t *roots;     /* ring: indexes of finished trees, oldest at root_tail */
	uint64_t root_tail, root_head;
	struct open_slice *open;
	unsigned open_count, shown, closing;
	struct nest_item *free_items; /* linked through a pointer in the item */
	int64_t last_end;
	/* When a slice last began or ended, and the greatest step given out at that time. */
	int64_t moment_ns;
	int moment_step;
	struct nest_counts counts;
};

struct nest *nest_new(const struct nest_ops *ops, void *user, unsigned window)
{
	struct nest *nest = calloc(1, sizeof(*nest));

	if (!nest)
		return NULL;
	nest->ops = ops;
	nest->user = user;
	nest->mask = window - 1;
	nest->window = malloc(window * sizeof(*nest->window));
	nest->roots = malloc(window * sizeof(*nest->roots));
	nest->open = malloc(OPEN_MAX * sizeof(*nest->open));
	nest->last_end = nest->moment_ns = INT64_MIN;
	if (!nest->window || !nest->roots || !nest->open) {
		nest_free(nest);
		return NULL;
	}
	return nest;
}

void nest_free(struct nest *nest)
{
	if (!nest)
		return;
	for (unsigned i = 0; i < nest->open_count; i++) {
		if (nest->open[i].range)
			free(nest->open[i].item);
	}
	while (nest->free_items) {
		struct nest_item *next;

		memcpy(&next, nest->free_items->event.args, sizeof(struct nest_item *));
		free(nest->free_items);
		nest->free_items = next;
	}
	free(nest->window);
	free(nest->roots);
	free(nest->open);
	free(nest);
}

const struct nest_counts *nest_counts(const struct nest *nest)
{
	return &nest->counts;
}

static struct nest_item *item_at(const struct nest *nest, uint64_t index)
{
	return &nest->window[index & nest->mask];
}

static void item_copy(struct nest_item *to, const struct trace_event *event)
{
	size_t bytes = offsetof(struct trace_event, args) +
		       event->type->arg_count * sizeof(event->args[0]);

	memcpy(&to->event, event, bytes);
}

/* --- open slices -------------------------------------------------------------------------------- */

/* The step of what comes after all that was told. */
static int next_step(struct nest *nest, int64_t ts)
{
	nest->moment_step = ts == nest->moment_ns ? nest->moment_step + 1 : 0;
	nest->moment_ns = ts;
	return nest->moment_step;
}

/* The step of what begins inside open[0 .. count-1]. After the end of the call around it, if that ends now as
 * well: nothing but something without length can begin there, and it must not coincide with the end. */
static int begin_step(struct nest *nest, unsigned count, int64_t ts)
{
	int step = next_step(nest, ts);

	while (count && nest->open[count - 1].range)
		count--;
	if (count && step < 1 && nest->open[count - 1].item->event.end_ns == ts)
		step = nest->moment_step = 1;
	return step;
}

/* Calls that end together were given their ends as they began, the outermost 0, inner ones less; so what
 * ends inside one of them at that time goes below its end, what comes after above. */
static int end_step(struct nest *nest, unsigned at, int64_t ts)
{
	for (unsigned outer = at; outer-- > 0;) {
		const struct open_slice *slice = &nest->open[outer];

		if (slice->range)
			continue;
		if (slice->item->event.end_ns != ts)
			break;
		return slice->item->end_step - (int)(at - outer);
	}
	return nest->open[at].range ? next_step(nest, ts) : 0;
}

static void set_end_step(struct nest *nest, unsigned at, int64_t ts)
{
	const struct open_slice *slice = &nest->open[at];

	if (slice->range)
		slice->item->end_step =
			slice->piece_begin == ts ? next_step(nest, ts) : end_step(nest, at, ts);
	if (ts != nest->moment_ns || nest->moment_step < slice->item->end_step)
		nest->moment_step = slice->item->end_step;
	nest->moment_ns = ts;
}

static void tell_end(struct nest *nest, unsigned at, int64_t ts, unsigned flags)
{
	const struct open_slice *slice = &nest->open[at];

	set_end_step(nest, at, ts);
	if (slice->continued)
		flags |= NEST_CONTINUED;
	if (!slice->hidden)
		nest->ops->end(nest->user, slice->item, ts, slice->piece_begin, flags);
}

static void item_give_back(struct nest *nest, struct nest_item *item)
{
	memcpy(item->event.args, &nest->free_items, sizeof(struct nest_item *));
	nest->free_items = item;
}

static struct nest_item *item_take(struct nest *nest)
{
	struct nest_item *item = nest->free_items;

	if (!item)
		return malloc(sizeof(*item));
	memcpy(&nest->free_items, item->event.args, sizeof(struct nest_item *));
	return item;
}

/* Ends open[at] at ts: what is open inside it is interrupted and goes on after it. */
static void end_at(struct nest *nest, unsigned at, int64_t ts, bool open)
{
	struct open_slice slice = nest->open[at];

	for (unsigned i = nest->open_count; i-- > at + 1;)
		tell_end(nest, i, ts, 0);
	tell_end(nest, at, ts, open ? NEST_OPEN : 0);
	nest->shown -= !slice.hidden;
	nest->closing -= slice.closing;
	memmove(&nest->open[at], &nest->open[at + 1], (nest->open_count - at - 1) * sizeof(slice));
	nest->open_count--;
	for (unsigned i = at; i < nest->open_count; i++) {
		struct open_slice *inner = &nest->open[i];

		inner->piece_begin = ts;
		inner->continued = true;
		inner->item->begin_step = begin_step(nest, i, ts);
		if (inner->hidden)
			continue;
		nest->counts.split++;
		nest->ops->begin(nest->user, inner->item, ts, true);
	}
	if (slice.range)
		item_give_back(nest, slice.item);
}

/* A slice begins. It goes under what began later: a call told late, around ranges still open. */
static void begin(struct nest *nest, struct nest_item *item, bool range)
{
	unsigned at = nest->open_count;
	int64_t ts = item->event.begin_ns;
	struct open_slice slice = {.item = item,
				   .piece_begin = ts,
				   .range = range,
				   .hidden = nest->shown >= NEST_DEPTH_MAX};

	while (at && nest->open[at - 1].piece_begin > ts)
		at--;
	memmove(&nest->open[at + 1], &nest->open[at], (nest->open_count - at) * sizeof(slice));
	nest->open[at] = slice;
	nest->open_count++;
	/* A call told late began before things that were told: after what ended then. */
	item->begin_step = at + 1 < nest->open_count ? 1 : begin_step(nest, at, ts);
	if (!range && item->event.end_ns == ts)
		item->end_step = next_step(nest, ts);
	else if (!range)
		item->end_step = end_step(nest, at, item->event.end_ns);
	if (slice.hidden) {
		nest->counts.too_deep++;
		return;
	}
	nest->shown++;
	nest->counts.slices++;
	nest->ops->begin(nest->user, item, ts, false);
}

static void begin_call(struct nest *nest, struct nest_item *item)
{
	item->hidden = nest->open_count >= OPEN_MAX;
	if (item->hidden)
		nest->counts.too_deep++;
	else
		begin(nest, item, false);
}

static void end_call(struct nest *nest, struct nest_item *item)
{
	unsigned at = nest->open_count;
	int64_t ts = item->event.end_ns;

	if (item->hidden)
		return;
	while (at && nest->open[at - 1].item != item)
		at--;
	if (!at)
		return;
	end_at(nest, at - 1, ts, false);
	/* Ranges whose end came inside this call end with it, unless another call is around them. */
	for (unsigned i = nest->open_count; nest->closing && i-- > 0 && nest->open[i].range;) {
		if (nest->open[i].closing) {
			end_at(nest, i, ts, false);
			i = nest->open_count;
		}
	}
}

static void begin_range(struct nest *nest, const struct nest_item *item)
{
	struct nest_item *copy = nest->open_count < OPEN_MAX ? item_take(nest) : NULL;

	if (!copy) {
		nest->counts.too_deep++;
		return;
	}
	item_copy(copy, &item->event);
	copy->ordinal = item->ordinal;
	copy->inflight = NULL;
	copy->hidden = false;
	begin(nest, copy, true);
}

/* The domain of a range: its first STR argument of that name; ranges of one domain form a stack. */
static uint64_t domain_of(const struct trace_event *event)
{
	const struct wl_event_type *type = event->type;

	for (unsigned i = 0; i < type->arg_count; i++) {
		if (!strcmp(type->args[i].name, "domain"))
			return event->args[i];
	}
	return 0;
}

static void end_range(struct nest *nest, const struct nest_item *item)
{
	uint64_t domain = domain_of(&item->event);
	bool inside_call = false;

	for (unsigned i = nest->open_count; i-- > 0;) {
		struct open_slice *slice = &nest->open[i];

		if (!slice->range) {
			inside_call = true;
			continue;
		}
		if (slice->closing || domain_of(&slice->item->event) != domain)
			continue;
		if (inside_call) {
			slice->closing = true;
			nest->closing++;
		} else {
			end_at(nest, i, item->event.end_ns, false);
		}
		return;
	}
	nest->counts.orphans++;
}

/* --- the window --------------------------------------------------------------------------------- */

static void tell(struct nest *nest, uint64_t index)
{
	struct nest_item *item = item_at(nest, index);

	for (uint64_t outer = item->head; outer != NONE; outer = item_at(nest, outer)->next) {
		if (item_at(nest, outer)->event.type->form == WL_FORM_CALL)
			begin_call(nest, item_at(nest, outer));
	}
	switch (item->event.type->form) {
	case WL_FORM_CALL:
		end_call(nest, item);
		break;
	case WL_FORM_BEGIN:
		begin_range(nest, item);
		break;
	case WL_FORM_END:
		end_range(nest, item);
		break;
	default:
		nest->counts.instants++;
		item->begin_step = begin_step(nest, nest->open_count, item->event.begin_ns);
		item->end_step = next_step(nest, item->event.begin_ns);
		nest->ops->instant(nest->user, item);
		break;
	}
}

/* Tells the oldest trees until at most `keep` records are left, at least one tree. */
static void flush(struct nest *nest, uint64_t keep)
{
	do {
		uint64_t root = nest->roots[nest->root_tail++ & nest->mask];

		while (nest->tail <= root)
			tell(nest, nest->tail++);
	} while (nest->root_tail != nest->root_head && nest->head - nest->tail > keep);
}

/* Whether a call that begins at the same time as this earlier record holds it. */
static bool nests_at_equal_begin(const struct trace_event *event)
{
	return event->type->form == WL_FORM_CALL &&
	       (event->end_ns > event->begin_ns ||
		event->flags & (WL_FLAG_IN_PROVIDER | WL_FLAG_INNER_LAYER));
}

/* Makes the newest record the root of the trees inside it. */
static void adopt(struct nest *nest, struct nest_item *item, uint64_t index)
{
	struct trace_event *event = &item->event;
	uint64_t first = index;

	while (nest->root_head != nest->root_tail) {
		uint64_t top = nest->roots[(nest->root_head - 1) & nest->mask];
		const struct trace_event *root = &item_at(nest, top)->event;

		if (root->begin_ns < event->begin_ns ||
		    (root->begin_ns == event->begin_ns && !nests_at_equal_begin(root))) {
			if (root->end_ns > event->begin_ns) {
				event->begin_ns = root->end_ns;
				nest->counts.adjusted++;
			}
			break;
		}
		nest->root_head--;
		first = nest->root_head == nest->root_tail
				? nest->tail
				: nest->roots[(nest->root_head - 1) & nest->mask] + 1;
	}
	item->head = first == index ? index : NONE;
	item->next = NONE;
	if (first != index) {
		item->next = item_at(nest, first)->head;
		item_at(nest, first)->head = index;
	}
	nest->roots[nest->root_head++ & nest->mask] = index;
}

void nest_feed(struct nest *nest, const struct trace_event *event, uint64_t ordinal,
	       const struct trace_inflight *inflight)
{
	struct nest_item *item;
	uint64_t index;

	if (nest->head - nest->tail > nest->mask)
		flush(nest, (nest->mask + 1) / 2);
	index = nest->head++;
	item = item_at(nest, index);
	item_copy(item, event);
	item->ordinal = ordinal;
	item->inflight = inflight;
	item->hidden = false;
	if (event->end_ns < nest->last_end) {
		nest->counts.adjusted++;
		item->event.end_ns = nest->last_end;
		if (event->type->form != WL_FORM_CALL)
			item->event.begin_ns = nest->last_end;
	}
	nest->last_end = item->event.end_ns;
	if (event->type->form != WL_FORM_CALL && item->event.begin_ns != item->event.end_ns)
		item->event.begin_ns = item->event.end_ns;
	adopt(nest, item, index);
}

void nest_finish(struct nest *nest, int64_t end_ns)
{
	if (nest->head != nest->tail)
		flush(nest, 0);
	if (end_ns < nest->last_end)
		end_ns = nest->last_end;
	while (nest->open_count)
		end_at(nest, nest->open_count - 1, end_ns, true);
	nest->last_end = nest->moment_ns = INT64_MIN;
	nest->head = nest->tail = nest->root_head = nest->root_tail = 0;
}
