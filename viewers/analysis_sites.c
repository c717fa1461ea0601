/* SPDX-License-Identifier: Apache-2.0
 *
 * Call sites: everything that one line of source did by one rule.
 */
#include "viewers/analysis_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- histogram -------------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t ns)
{
	unsigned exponent;

	if (ns < 8)
		return (unsigned)ns;
	exponent = 63 - (unsigned)__builtin_clzll(ns);
	return (exponent - 2) * 8 + (unsigned)(ns >> (exponent - 3) & 7);
}

/* Upper edge of a bucket. */
static uint64_t bucket_limit(unsigned bucket)
{
	if (bucket < 8)
		return bucket;
	return ((uint64_t)(8 + bucket % 8) + 1) << (bucket / 8 - 1);
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
	histogram->count++;
	histogram->sum_ns += ns;
	if (ns > histogram->max_ns)
		histogram->max_ns = ns;
	histogram->bucket[bucket_of(ns)]++;
}

uint64_t histogram_percentile(const struct histogram *histogram, unsigned percent)
{
	uint64_t wanted = (histogram->count * percent + 99) / 100, seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->bucket[i];
		if (seen >= wanted && seen) {
			uint64_t limit = bucket_limit(i);

			return limit < histogram->max_ns ? limit : histogram->max_ns;
		}
	}
	return 0;
}

/* --- table ------------------------------------------------------------------------------------ */

struct site_entry {
	char *key; /* place, rule and class */
	struct site site;
	UT_hash_handle hh;
};

/* A stack's entry is found once per process, stack, rule and class. */
struct stack_key {
	uint32_t process, stack, rule, cls;
};
struct stack_entry {
	struct stack_key key;
	struct site_entry *entry;
	UT_hash_handle hh;
};

struct site_table {
	struct model *model;
	struct site_entry *sites;
	struct stack_entry *stacks;
};

struct site_table *site_table_new(struct model *model)
{
	struct site_table *table = calloc(1, sizeof(*table));

	if (table)
		table->model = model;
	return table;
}

static void site_entry_free(struct site_entry *entry)
{
	free(entry->key);
	free(entry->site.place);
	free(entry->site.file);
	free(entry->site.function);
	for (unsigned i = 0; i < SITE_APIS; i++)
		free((char *)(uintptr_t)entry->site.api[i]);
	free(entry);
}

void site_table_free(struct site_table *table)
{
	struct site_entry *entry, *next;
	struct stack_entry *stack, *next_stack;

	if (!table)
		return;
	HASH_ITER (hh, table->stacks, stack, next_stack) {
		HASH_DEL(table->stacks, stack);
		free(stack);
	}
	HASH_ITER (hh, table->sites, entry, next) {
		HASH_DEL(table->sites, entry);
		site_entry_free(entry);
	}
	free(table);
}

static struct site_entry *site_make(struct site_table *table, const struct model_frame *frame,
				    const char *place, const char *key, unsigned rule, unsigned cls)
{
	struct site_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->key = strdup(key);
	entry->site.place = strdup(place);
	if (!entry->key || !entry->site.place) {
		site_entry_free(entry);
		return NULL;
	}
	if (frame) {
		entry->site.file = frame->file ? strdup(frame->file) : NULL;
		entry->site.function = frame->function ? strdup(frame->function) : NULL;
		entry->site.line = frame->line;
	}
	entry->site.rule = rule;
	entry->site.cls = cls;
	HASH_ADD_KEYPTR(hh, table->sites, entry->key, strlen(entry->key), entry);
	return entry;
}

static struct site_entry *site_find(struct site_table *table, const struct stack_key *key)
{
	const struct model_frame *frame = model_site(table->model, key->process, key->stack);
	char place[1024], text[1100];
	struct site_entry *entry = NULL;

	if (!frame || model_frame_text(frame, place, sizeof(place)) <= 0)
		(void)snprintf(place, sizeof(place), "(no stack)");
	(void)snprintf(text, sizeof(text), "%u %u %s", key->rule, key->cls, place);
	HASH_FIND_STR(table->sites, text, entry);
	if (!entry)
		entry = site_make(table, frame, place, text, key->rule, key->cls);
	if (entry && !entry->site.example_stack) {
		entry->site.example_process = key->process;
		entry->site.example_stack = key->stack;
	}
	return entry;
}

struct site *site_of(struct site_table *table, unsigned process, uint32_t stack, unsigned rule,
		     unsigned cls)
{
	struct stack_key key = {process, stack, rule, cls};
	struct stack_entry *found = NULL;

	HASH_FIND(hh, table->stacks, &key, sizeof(key), found);
	if (found)
		return &found->entry->site;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->key = key;
	found->entry = site_find(table, &key);
	if (!found->entry) {
		free(found);
		return NULL;
	}
	HASH_ADD(hh, table->stacks, key, sizeof(key), found);
	return &found->entry->site;
}

void site_api(struct site *site, struct site_table *table, unsigned process, uint32_t api)
{
	const char *name = model_string(table->model, process, api);

	for (unsigned i = 0; i < SITE_APIS; i++) {
		if (!site->api[i]) {
			site->api[i] = strdup(name);
			return;
		}
		if (strcmp(site->api[i], name) == 0)
			return;
	}
}

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

bool site_same_place(struct model *model, unsigned process, uint32_t stack_a, uint32_t stack_b)
{
	const struct model_frame *a, *b;

	if (stack_a == stack_b)
		return true;
	a = model_site(model, process, stack_a);
	b = model_site(model, process, stack_b);
	if (!a || !b || a->kind != b->kind)
		return false;
	if (a->kind == TRACE_FRAME_PYTHON)
		return same_text(a->file, b->file) && a->line == b->line;
	return same_text(a->module, b->module) && same_text(a->function, b->function);
}

static int costlier(const void *left, const void *right)
{
	const struct site *a = *(struct site *const *)left, *b = *(struct site *const *)right;

	if (a->held.sum_ns != b->held.sum_ns)
		return a->held.sum_ns < b->held.sum_ns ? 1 : -1;
	if (a->count != b->count)
		return a->count < b->count ? 1 : -1;
	return strcmp(a->place, b->place);
}

struct site **site_table_sorted(struct site_table *table, unsigned *count)
{
	unsigned total = HASH_COUNT(table->sites), i = 0;
	struct site **all = calloc(total + 1, sizeof(struct site *));
	struct site_entry *entry, *next;

	*count = 0;
	if (!all)
		return NULL;
	HASH_ITER (hh, table->sites, entry, next) {
		all[i++] = &entry->site;
	}
	qsort(all, i, sizeof(struct site *), costlier);
	*count = i;
	return all;
}
