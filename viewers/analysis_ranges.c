/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened inside named ranges. A call belongs to the ranges in which it began, on whatever
 * thread of the process. Records come in order of their end, so that a call's ranges are known when it
 * comes: they are open still, or were closed while it ran.
 */
#include "viewers/analysis_internal.h"
#include "viewers/pair_map.h"

#include <stdlib.h>
#include <string.h>

/* Names that are listed. Tools that put a serial number into every name make millions. */
#define NAMES_MAX 4096
/* Closed instances kept for calls that began in them and still run; the older half of more is settled. */
#define CLOSED_MAX (1u << 19)
/* Instances kept one by one, of ranges that may be steps. */
#define SAMPLES_MAX     32768u
#define ALL_SAMPLES_MAX 131072u

struct instance {
	int64_t begin_ns, end_ns;
	uint64_t serial;
	struct range_entry *range;
	uint64_t *tallies; /* one a filter, where any counts in this range */
	uint64_t held_ns, network_ns, bytes;
	const struct site_way *longest;
	uint64_t longest_ns;
	uint32_t thread, index;
	uint32_t waits, stages, registrations, unreturned, launches;
	bool skipped, kept; /* kept: as a sample */
};

struct range_entry {
	struct range_stat stat;
	uint64_t seen;    /* instances of the process being read, to skip the first ones */
	uint64_t filters; /* those that count in it */
	bool appeared, thinned;
	unsigned order; /* of appearance */
	struct step_sample *samples;
	size_t sample_count, sample_room;
	UT_hash_handle hh;
};

/* What happened by a way in a range. */
struct way_entry {
	struct range_entry *range;
	struct range_way way;
};

struct list {
	struct instance *items;
	size_t count, room;
};

struct range_table {
	struct analysis_options options;
	struct range_entry *ranges;
	uint64_t run_filters;     /* those that count in the whole run */
	struct pair_map ways;     /* struct way_entry by range and way */
	struct list open, closed; /* closed: in order of their end */
	int64_t settled_ns;       /* end of the newest instance that was settled early */
	bool late;
	uint64_t left;
	unsigned appeared;
	unsigned process;
	size_t samples; /* of all ranges */
	uint64_t run_tallies[ANALYSIS_FILTERS_MAX];
	struct analysis_tally tallies[ANALYSIS_FILTERS_MAX];
};

static struct range_entry *entry_of(struct range_table *table, const char *name)
{
	struct range_entry *range = NULL;

	HASH_FIND_STR(table->ranges, name, range);
	if (range)
		return range;
	range = calloc(1, sizeof(*range));
	if (!range)
		return NULL;
	range->stat.name = strdup(name);
	if (!range->stat.name) {
		free(range);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, table->ranges, range->stat.name, strlen(range->stat.name), range);
	return range;
}

struct range_table *range_table_new(const struct analysis_options *options)
{
	struct range_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	if (options)
		table->options = *options;
	table->settled_ns = INT64_MIN;
	/* What is counted in has its place however many other names there are. */
	for (unsigned i = 0; i < table->options.filter_count; i++) {
		const struct analysis_filter *filter = &table->options.filters[i];
		const char *name = filter->scope == ANALYSIS_FOCUS ? table->options.focus
				   : filter->scope == ANALYSIS_RUN ? NULL
								   : filter->range;
		struct range_entry *range = name ? entry_of(table, name) : NULL;

		if (name && !range) {
			range_table_free(table);
			return NULL;
		}
		if (name)
			range->filters |= 1ull << i;
		else if (filter->scope == ANALYSIS_RUN || filter->scope == ANALYSIS_FOCUS)
			table->run_filters |= 1ull << i;
	}
	return table;
}

static void list_clear(struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].tallies);
	list->count = 0;
}

void range_table_free(struct range_table *table)
{
	struct range_entry *range, *next;

	if (!table)
		return;
	for (size_t i = 0; table->ways.slots && i <= table->ways.mask; i++)
		free(table->ways.slots[i].value);
	pair_map_done(&table->ways);
	/* The table goes first; what it held stays chained by hh.next. */
	range = table->ranges;
	HASH_CLEAR(hh, table->ranges);
	for (; range; range = next) {
		next = range->hh.next;
		free(range->stat.name);
		free(range->stat.ways);
		free(range->samples);
		free(range);
	}
	list_clear(&table->open);
	list_clear(&table->closed);
	free(table->open.items);
	free(table->closed.items);
	free(table);
}

static bool list_add(struct list *list, const struct instance *instance)
{
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct instance *items = realloc(list->items, room * sizeof(*items));

		if (!items)
			return false;
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = *instance;
	return true;
}

/* --- counting --------------------------------------------------------------------------------- */

static uint64_t amount(const struct analysis_filter *filter, const struct counted *counted)
{
	switch (filter->measure) {
	case ANALYSIS_HELD:
		return counted->held_ns;
	case ANALYSIS_BYTES:
		return counted->bytes;
	case ANALYSIS_PAGEABLE:
		return counted->pageable;
	case ANALYSIS_CALLS:
		break;
	}
	return counted->kind != COUNTED_HELD;
}

static void tallies_add(const struct range_table *table, const struct counted *counted,
			uint64_t filters, uint64_t *tallies)
{
	for (filters &= counted->way->site->filters; filters; filters &= filters - 1) {
		int i = __builtin_ctzll(filters);

		tallies[i] += amount(&table->options.filters[i], counted);
	}
}

static bool way_add(struct range_table *table, struct range_entry *range,
		    const struct counted *counted)
{
	uint64_t a = (uintptr_t)range, b = (uintptr_t)counted->way;
	struct way_entry *found = pair_map_get(&table->ways, a, b);

	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found || !pair_map_put(&table->ways, a, b, found)) {
			free(found);
			return false;
		}
		found->range = range;
		found->way.way = counted->way;
	}
	found->way.count += counted->kind != COUNTED_HELD;
	found->way.held_ns += counted->held_ns;
	found->way.bytes += counted->bytes;
	found->way.pageable += counted->pageable;
	return true;
}

static bool count_into(struct range_table *table, struct instance *instance,
		       const struct counted *counted)
{
	switch (counted->kind) {
	case COUNTED_WAIT:
		instance->waits++;
		break;
	case COUNTED_STAGE:
		instance->stages++;
		break;
	case COUNTED_REGISTRATION:
		instance->registrations++;
		break;
	case COUNTED_UNRETURNED:
		instance->unreturned++;
		break;
	case COUNTED_NETWORK:
		instance->network_ns += counted->held_ns;
		break;
	case COUNTED_LAUNCH:
		instance->launches++;
		break;
	case COUNTED_HELD:
		break;
	}
	if (!counted->way)
		return true;
	instance->held_ns += counted->held_ns;
	instance->bytes += counted->bytes;
	if (counted->held_ns > instance->longest_ns) {
		instance->longest_ns = counted->held_ns;
		instance->longest = counted->way;
	}
	if (instance->tallies)
		tallies_add(table, counted, instance->range->filters, instance->tallies);
	return instance->skipped || way_add(table, instance->range, counted);
}

static bool try_instance(struct range_table *table, struct instance *instance,
			 const struct counted *counted)
{
	if (instance->begin_ns > counted->begin_ns ||
	    (table->options.same_thread && instance->thread != counted->thread))
		return true;
	return count_into(table, instance, counted);
}

bool range_count(struct range_table *table, const struct counted *counted)
{
	bool ok = true;

	if (table->run_filters && counted->way)
		tallies_add(table, counted, table->run_filters, table->run_tallies);
	for (size_t i = 0; i < table->open.count; i++)
		ok &= try_instance(table, &table->open.items[i], counted);
	for (size_t i = table->closed.count; i-- > 0;) {
		if (table->closed.items[i].end_ns <= counted->begin_ns)
			break;
		ok &= try_instance(table, &table->closed.items[i], counted);
	}
	table->late |= counted->begin_ns < table->settled_ns;
	return ok;
}

/* --- instances -------------------------------------------------------------------------------- */

static void more(uint64_t *worst, uint64_t value)
{
	if (value > *worst)
		*worst = value;
}

static void sample_add(struct range_table *table, const struct instance *instance)
{
	struct range_entry *range = instance->range;

	if (range->sample_count == SAMPLES_MAX || table->samples == ALL_SAMPLES_MAX) {
		range->thinned = true;
		return;
	}
	if (range->sample_count == range->sample_room) {
		size_t room = range->sample_room ? range->sample_room * 2 : 64;
		struct step_sample *samples =
			realloc(range->samples, room * sizeof(struct step_sample));

		if (!samples) {
			range->thinned = true;
			return;
		}
		range->samples = samples;
		range->sample_room = room;
	}
	table->samples++;
	range->samples[range->sample_count++] =
		(struct step_sample){.process = table->process,
				     .index = instance->index,
				     .begin_ns = instance->begin_ns,
				     .length_ns = (uint64_t)(instance->end_ns - instance->begin_ns),
				     .held_ns = instance->held_ns,
				     .network_ns = instance->network_ns,
				     .bytes = instance->bytes,
				     .waits = instance->waits,
				     .stages = instance->stages,
				     .registrations = instance->registrations,
				     .launches = instance->launches,
				     .longest = instance->longest,
				     .longest_ns = instance->longest_ns};
}

/* A closed instance joins the statistics of its range. */
static void settle(struct range_table *table, struct instance *instance)
{
	struct range_stat *stat = &instance->range->stat;

	if (!instance->skipped && instance->kept)
		sample_add(table, instance);
	if (!instance->skipped) {
		stat->instances++;
		stat->waits += instance->waits;
		stat->stages += instance->stages;
		stat->registrations += instance->registrations;
		stat->unreturned += instance->unreturned;
		stat->held_ns += instance->held_ns;
		if (instance->waits > stat->waits_worst)
			stat->worst_process = table->process;
		more(&stat->waits_worst, instance->waits);
		more(&stat->stages_worst, instance->stages);
		more(&stat->registrations_worst, instance->registrations);
		histogram_add(&stat->length, (uint64_t)(instance->end_ns - instance->begin_ns));
		for (unsigned i = 0; instance->tallies && i < table->options.filter_count; i++) {
			struct analysis_tally *tally = &table->tallies[i];

			tally->total += instance->tallies[i];
			if (instance->tallies[i] > tally->worst) {
				tally->worst = instance->tallies[i];
				tally->worst_process = table->process;
			}
		}
	}
	free(instance->tallies);
	instance->tallies = NULL;
}

static void settle_first(struct range_table *table, size_t count)
{
	struct list *closed = &table->closed;

	for (size_t i = 0; i < count; i++)
		settle(table, &closed->items[i]);
	if (count)
		table->settled_ns = closed->items[count - 1].end_ns;
	if (count < closed->count)
		memmove(closed->items, closed->items + count,
			(closed->count - count) * sizeof(*closed->items));
	closed->count -= count;
}

bool range_begin(struct range_table *table, const struct model_range *range)
{
	struct instance instance = {
		.begin_ns = range->begin_ns, .serial = range->serial, .thread = range->thread};

	if (HASH_COUNT(table->ranges) >= NAMES_MAX) {
		HASH_FIND_STR(table->ranges, range->name, instance.range);
		if (!instance.range) {
			table->left++;
			return true;
		}
	} else {
		instance.range = entry_of(table, range->name);
	}
	if (!instance.range)
		return false;
	if (!instance.range->appeared) {
		instance.range->appeared = true;
		instance.range->order = table->appeared++;
	}
	instance.index = (uint32_t)instance.range->seen;
	instance.skipped = instance.range->seen++ < table->options.skip;
	instance.kept = range->depth == 0 || range_sounds_like_step(range->name);
	if (instance.range->filters && !instance.skipped) {
		instance.tallies = calloc(table->options.filter_count, sizeof(uint64_t));
		if (!instance.tallies)
			return false;
	}
	instance.range->stat.skipped += instance.skipped;
	if (list_add(&table->open, &instance))
		return true;
	free(instance.tallies);
	return false;
}

bool range_end(struct range_table *table, const struct model_range *range)
{
	struct list *open = &table->open;
	size_t i = open->count;
	struct instance instance;

	while (i > 0 && open->items[i - 1].serial != range->serial)
		i--;
	if (!i) /* under a name that is not kept */
		return true;
	instance = open->items[--i];
	open->items[i] = open->items[--open->count];
	if (!range->closed) {
		instance.range->stat.unclosed += !instance.skipped;
		free(instance.tallies);
		return true;
	}
	if (table->closed.count == CLOSED_MAX)
		settle_first(table, CLOSED_MAX / 2);
	instance.end_ns = range->end_ns;
	if (list_add(&table->closed, &instance))
		return true;
	free(instance.tallies);
	return false;
}

void range_process_end(struct range_table *table)
{
	struct range_entry *range, *next;

	list_clear(&table->open);
	settle_first(table, table->closed.count);
	table->settled_ns = INT64_MIN;
	HASH_ITER (hh, table->ranges, range, next) {
		range->seen = 0;
	}
	table->process++;
}

/* --- results ---------------------------------------------------------------------------------- */

unsigned range_sounds_like_step(const char *name)
{
	static const char *const words[] = {"batch", "iter", "step"};

	for (unsigned i = 3; i > 0; i--)
		if (strcasestr(name, words[i - 1]))
			return i;
	return 0;
}

struct step_sample *range_samples(struct range_table *table, const char *name, size_t *count,
				  bool *thinned)
{
	struct range_entry *range = NULL;

	HASH_FIND_STR(table->ranges, name, range);
	*count = range ? range->sample_count : 0;
	*thinned = range && range->thinned;
	return range ? range->samples : NULL;
}

static int costlier_way(const void *left, const void *right)
{
	const struct range_way *a = left, *b = right;

	return site_way_compare(a->held_ns, a->count, a->way, b->held_ns, b->count, b->way);
}

static bool ways_gather(struct range_table *table)
{
	struct range_entry *range = NULL, *next_range = NULL;
	const struct pair_slot *slots = table->ways.slots;
	size_t count = slots ? table->ways.mask + 1 : 0;

	for (size_t i = 0; i < count; i++)
		if (slots[i].value)
			((struct way_entry *)slots[i].value)->range->stat.way_count++;
	HASH_ITER (hh, table->ranges, range, next_range) {
		range->stat.ways = calloc(range->stat.way_count + 1u, sizeof(struct range_way));
		if (!range->stat.ways)
			return false;
		range->stat.way_count = 0;
	}
	for (size_t i = 0; i < count; i++) {
		const struct way_entry *way = slots[i].value;

		if (way)
			way->range->stat.ways[way->range->stat.way_count++] = way->way;
	}
	HASH_ITER (hh, table->ranges, range, next_range) {
		if (range->stat.way_count)
			qsort(range->stat.ways, range->stat.way_count, sizeof(struct range_way),
			      costlier_way);
	}
	return true;
}

bool range_table_results(struct range_table *table, struct analysis *analysis)
{
	struct range_entry *range = NULL, *next = NULL;
	struct range_stat **ordered = calloc(table->appeared + 1u, sizeof(struct range_stat *));

	if (!ordered || !ways_gather(table)) {
		free(ordered);
		return false;
	}
	/* A range that is counted in has an entry also when it never occurred. */
	HASH_ITER (hh, table->ranges, range, next) {
		if (range->appeared)
			ordered[range->order] = &range->stat;
	}
	analysis->ranges = ordered;
	analysis->range_count = table->appeared;
	analysis->ranges_left = table->left;
	analysis->late = table->late;
	memcpy(analysis->tallies, table->tallies, sizeof(analysis->tallies));
	for (unsigned i = 0; i < table->options.filter_count; i++)
		analysis->tallies[i].total += table->run_tallies[i];
	return true;
}
