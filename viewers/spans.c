/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordered array: buffers are few and used again, so that most fills replace a span in its place.
 */
#include "viewers/spans.h"

#include <stdlib.h>
#include <string.h>

/* The first span that ends after an address. */
static size_t lower(const struct spans *spans, uint64_t address)
{
	size_t low = 0, high = spans->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (spans->items[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void tell(const struct spans *spans, const struct span *span, uint64_t first, uint64_t end)
{
	struct span part = *span;

	part.first = first;
	part.end = end;
	if (spans->gone && first < end)
		spans->gone(spans->user, &part);
}

static bool insert(struct spans *spans, size_t at, const struct span *span)
{
	if (spans->count == spans->room) {
		size_t room = spans->room ? spans->room * 2 : 32;
		struct span *items = realloc(spans->items, room * sizeof(*items));

		if (!items)
			return false;
		spans->items = items;
		spans->room = room;
	}
	memmove(&spans->items[at + 1], &spans->items[at],
		(spans->count - at) * sizeof(*spans->items));
	spans->items[at] = *span;
	spans->count++;
	return true;
}

bool spans_take(struct spans *spans, uint64_t first, uint64_t end)
{
	size_t at = lower(spans, first), last = at, kept;

	if (first >= end || at == spans->count || spans->items[at].first >= end)
		return true;
	if (spans->items[at].first < first) {
		struct span *span = &spans->items[at];

		if (span->end > end) { /* it lies in the middle */
			struct span rest = *span;

			rest.first = end;
			tell(spans, span, first, end);
			span->end = first;
			return insert(spans, at + 1, &rest);
		}
		tell(spans, span, first, span->end);
		span->end = first;
		at++;
		last = at;
	}
	while (last < spans->count && spans->items[last].end <= end) {
		tell(spans, &spans->items[last], spans->items[last].first, spans->items[last].end);
		last++;
	}
	if (last < spans->count && spans->items[last].first < end) {
		tell(spans, &spans->items[last], spans->items[last].first, end);
		spans->items[last].first = end;
	}
	kept = spans->count - last;
	memmove(&spans->items[at], &spans->items[last], kept * sizeof(*spans->items));
	spans->count = at + kept;
	return true;
}

static int by_serial(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void forget_half(struct spans *spans)
{
	uint64_t serials[SPANS_MAX], middle;
	size_t kept = 0;

	for (size_t i = 0; i < spans->count; i++)
		serials[i] = spans->items[i].serial;
	qsort(serials, spans->count, sizeof(serials[0]), by_serial);
	middle = serials[spans->count / 2];
	for (size_t i = 0; i < spans->count; i++) {
		const struct span *span = &spans->items[i];

		if (span->serial >= middle)
			spans->items[kept++] = *span;
		else
			tell(spans, span, span->first, span->end);
	}
	spans->count = kept;
}

bool spans_fill(struct spans *spans, uint64_t first, uint64_t end, uint32_t user, bool flag)
{
	const struct span span = {first, end, ++spans->serial, user, flag};
	size_t at;

	if (first >= end)
		return true;
	at = lower(spans, first);
	if (at < spans->count && spans->items[at].first == first && spans->items[at].end == end) {
		tell(spans, &spans->items[at], first, end);
		spans->items[at] = span;
		return true;
	}
	if (!spans_take(spans, first, end))
		return false;
	if (spans->count >= SPANS_MAX - 1)
		forget_half(spans);
	return insert(spans, lower(spans, first), &span);
}

struct span *spans_find(struct spans *spans, uint64_t first, uint64_t end, const struct span *after)
{
	size_t at = after ? (size_t)(after - spans->items) + 1 : lower(spans, first);

	return at < spans->count && spans->items[at].first < end ? &spans->items[at] : NULL;
}

uint64_t span_overlap(const struct span *span, uint64_t first, uint64_t end)
{
	uint64_t from = span->first > first ? span->first : first;
	uint64_t to = span->end < end ? span->end : end;

	return to > from ? to - from : 0;
}

void spans_clear(struct spans *spans)
{
	for (size_t i = 0; i < spans->count; i++)
		tell(spans, &spans->items[i], spans->items[i].first, spans->items[i].end);
	spans->count = 0;
}

void spans_done(struct spans *spans)
{
	free(spans->items);
	*spans = (struct spans){0};
}
