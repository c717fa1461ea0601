/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened inside named ranges. Records come in order of their end, but a call belongs to the
 * ranges in which it began, so a process's ranges and countable calls are gathered and swept in
 * order of begin.
 */
#include "viewers/analysis_internal.h"

#include <stdlib.h>
#include <string.h>

struct instance {
	int64_t begin_ns, end_ns;
	uint32_t thread;
	bool closed, skipped;
	struct range_entry *range;
	uint64_t waits, stages, registrations, held_ns;
};

struct range_entry {
	struct range_stat stat;
	uint64_t seen; /* instances of the process being read, to skip the first ones */
	unsigned order;
	UT_hash_handle hh;
};

struct range_table {
	struct analysis_options options;
	struct range_entry *ranges;
	struct instance *instances;
	size_t instance_count, instance_room;
	struct counted *counted;
	size_t counted_count, counted_room;
};

struct range_table *range_table_new(const struct analysis_options *options)
{
	struct range_table *table = calloc(1, sizeof(*table));

	if (table && options)
		table->options = *options;
	return table;
}

void range_table_free(struct range_table *table)
{
	struct range_entry *range, *next;

	if (!table)
		return;
	HASH_ITER (hh, table->ranges, range, next) {
		HASH_DEL(table->ranges, range);
		free(range->stat.name);
		free(range);
	}
	free(table->instances);
	free(table->counted);
	free(table);
}

/* Room for one more in a growing array; false when memory is short. */
static bool grow(void **array, size_t count, size_t *room, size_t element)
{
	size_t wanted = *room ? *room * 2 : 256;
	void *bigger;

	if (count < *room)
		return true;
	bigger = realloc(*array, wanted * element);
	if (!bigger)
		return false;
	*array = bigger;
	*room = wanted;
	return true;
}

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
	range->order = HASH_COUNT(table->ranges);
	HASH_ADD_KEYPTR(hh, table->ranges, range->stat.name, strlen(range->stat.name), range);
	return range;
}

bool range_add(struct range_table *table, const struct model_range *range)
{
	struct range_entry *entry = entry_of(table, range->name);

	if (!entry || !grow((void **)&table->instances, table->instance_count,
			    &table->instance_room, sizeof(*table->instances)))
		return false;
	table->instances[table->instance_count++] = (struct instance){.begin_ns = range->begin_ns,
								      .end_ns = range->end_ns,
								      .thread = range->thread,
								      .closed = range->closed,
								      .range = entry};
	return true;
}

bool range_count(struct range_table *table, const struct counted *counted)
{
	if (!grow((void **)&table->counted, table->counted_count, &table->counted_room,
		  sizeof(*table->counted)))
		return false;
	table->counted[table->counted_count++] = *counted;
	return true;
}

static int by_begin_instance(const void *left, const void *right)
{
	const struct instance *a = left, *b = right;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

static int by_begin_counted(const void *left, const void *right)
{
	const struct counted *a = left, *b = right;

	return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

static void count_into(struct instance *instance, const struct counted *counted)
{
	if (counted->kind == COUNTED_WAIT)
		instance->waits++;
	else if (counted->kind == COUNTED_STAGE)
		instance->stages++;
	else
		instance->registrations++;
	instance->held_ns += counted->held_ns;
}

static bool sweep(struct range_table *table)
{
	size_t open_count = 0, next = 0;
	struct instance **open = calloc(table->instance_count + 1, sizeof(struct instance *));

	if (!open)
		return false;
	for (size_t i = 0; i < table->counted_count; i++) {
		const struct counted *counted = &table->counted[i];

		while (next < table->instance_count &&
		       table->instances[next].begin_ns <= counted->begin_ns)
			open[open_count++] = &table->instances[next++];
		for (size_t k = 0; k < open_count;) {
			if (open[k]->closed && open[k]->end_ns <= counted->begin_ns) {
				open[k] = open[--open_count];
				continue;
			}
			if (!table->options.same_thread || open[k]->thread == counted->thread)
				count_into(open[k], counted);
			k++;
		}
	}
	free(open);
	return true;
}

static void more(uint64_t *worst, uint64_t value)
{
	if (value > *worst)
		*worst = value;
}

static void instance_end(struct range_table *table, const struct instance *instance,
			 unsigned process)
{
	struct range_stat *stat = &instance->range->stat;

	if (!instance->closed) {
		stat->unclosed++;
		return;
	}
	if (instance->range->seen++ < table->options.skip) {
		stat->skipped++;
		return;
	}
	stat->instances++;
	stat->waits += instance->waits;
	stat->stages += instance->stages;
	stat->registrations += instance->registrations;
	stat->held_ns += instance->held_ns;
	if (instance->waits > stat->waits_worst)
		stat->worst_process = process;
	more(&stat->waits_worst, instance->waits);
	more(&stat->stages_worst, instance->stages);
	more(&stat->registrations_worst, instance->registrations);
	histogram_add(&stat->length, (uint64_t)(instance->end_ns - instance->begin_ns));
}

bool range_process_end(struct range_table *table, unsigned process)
{
	struct range_entry *range, *next;
	bool ok;

	if (table->instance_count)
		qsort(table->instances, table->instance_count, sizeof(*table->instances),
		      by_begin_instance);
	if (table->counted_count)
		qsort(table->counted, table->counted_count, sizeof(*table->counted),
		      by_begin_counted);
	ok = sweep(table);
	for (size_t i = 0; ok && i < table->instance_count; i++)
		instance_end(table, &table->instances[i], process);
	HASH_ITER (hh, table->ranges, range, next) {
		range->seen = 0;
	}
	table->instance_count = table->counted_count = 0;
	return ok;
}

struct range_stat **range_table_list(struct range_table *table, unsigned *count)
{
	struct range_stat **list =
		calloc(HASH_COUNT(table->ranges) + 1, sizeof(struct range_stat *));
	struct range_entry *range, *next;

	*count = 0;
	if (!list)
		return NULL;
	HASH_ITER (hh, table->ranges, range, next) {
		list[range->order] = &range->stat;
	}
	*count = HASH_COUNT(table->ranges);
	return list;
}
