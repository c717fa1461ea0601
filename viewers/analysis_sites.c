/* SPDX-License-Identifier: Apache-2.0
 *
 * Call sites: everything that one line of source did by one rule.
 */
#include "viewers/analysis_internal.h"
#include "viewers/pair_map.h"

#include <fnmatch.h>
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
	if (bucket / 8 - 1 == 60 && bucket % 8 == 7)
		return UINT64_MAX; /* 2^64 */
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

void histogram_prefetch(const struct histogram *histogram, uint64_t ns)
{
	__builtin_prefetch(histogram);
	__builtin_prefetch(&histogram->bucket[bucket_of(ns)]);
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

struct way_entry {
	char *key; /* the site's and the caller */
	struct site_way way;
	UT_hash_handle hh;
};

/* What names a way: what it does, and the stack from which it was done. */
struct stack_key {
	uint32_t process, stack, rule, cls;
};

struct site_table {
	struct model *model;
	const struct analysis_options *options;
	struct site_entry *sites;
	struct way_entry *ways;
	struct pair_map stacks; /* ways by process and stack, rule and class: found once */
};

struct site_table *site_table_new(struct model *model, const struct analysis_options *options)
{
	struct site_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->model = model;
	table->options = options;
	return table;
}

static void site_entry_free(struct site_entry *entry)
{
	free(entry->key);
	free(entry->site.place);
	free(entry->site.file);
	free(entry->site.function);
	free(entry->site.life);
	for (unsigned i = 0; i < SITE_APIS; i++)
		free(entry->site.api[i]);
	free(entry);
}

static void way_entry_free(struct way_entry *entry)
{
	free(entry->key);
	free(entry->way.caller);
	free(entry->way.native);
	free(entry);
}

void site_table_free(struct site_table *table)
{
	struct site_entry *entry, *next;
	struct way_entry *way, *next_way;

	if (!table)
		return;
	pair_map_done(&table->stacks);
	/* The tables go first; what they held stays chained by hh.next. */
	way = table->ways;
	HASH_CLEAR(hh, table->ways);
	for (; way; way = next_way) {
		next_way = way->hh.next;
		way_entry_free(way);
	}
	entry = table->sites;
	HASH_CLEAR(hh, table->sites);
	for (; entry; entry = next) {
		next = entry->hh.next;
		site_entry_free(entry);
	}
	free(table);
}

/* --- what filters count ----------------------------------------------------------------------- */

/* Patterns may leave out the folders before the file's name. */
static bool matches(const char *pattern, const char *place)
{
	const char *space = strchr(place, ' '), *base = place;

	for (const char *p = place; *p && p != space; p++)
		if (*p == '/')
			base = p + 1;
	return fnmatch(pattern, place, FNM_NOESCAPE) == 0 ||
	       fnmatch(pattern, base, FNM_NOESCAPE) == 0;
}

/* 1 + the pattern that lets it pass; 0: none. */
static unsigned allowed_by(const struct analysis_options *options, const struct site *site)
{
	for (unsigned i = 0; options && i < options->allowed_count; i++)
		if (matches(options->allowed[i], site->place))
			return i + 1;
	return 0;
}

static uint64_t filters_of(const struct analysis_options *options, const struct site *site)
{
	uint64_t mask = 0;

	for (unsigned i = 0; options && i < options->filter_count; i++) {
		const struct analysis_filter *filter = &options->filters[i];

		bool counts = filter->cls == WL_call_class_MAX ? site->cls != WL_call_class_none
							       : filter->cls == site->cls;

		if (counts && (filter->rule == WL_rule_MAX || filter->rule == site->rule) &&
		    (!filter->place || matches(filter->place, site->place)))
			mask |= 1ull << i;
	}
	return mask;
}

/* --- finding ---------------------------------------------------------------------------------- */

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
	entry->site.allowed = allowed_by(table->options, &entry->site);
	if (!entry->site.allowed)
		entry->site.filters = filters_of(table->options, &entry->site);
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
	return entry ? entry : site_make(table, frame, place, text, key->rule, key->cls);
}

/* The line that called the site: the next frame of its kind that has one. */
static void caller_of(struct model *model, const struct stack_key *key, char *buf, size_t size)
{
	const struct model_stack *stack = model_stack(model, key->process, key->stack);

	*buf = '\0';
	for (unsigned i = stack->site + 1; i < stack->count; i++) {
		const struct model_frame *frame = &stack->frames[i];

		if (frame->kind == stack->frames[stack->site].kind && frame->line) {
			(void)model_frame_text(frame, buf, size);
			return;
		}
	}
}

static struct site_way *way_find(struct site_table *table, struct site_entry *site,
				 const struct stack_key *key)
{
	char caller[1024], text[2200];
	const struct model_frame *native;
	struct way_entry *entry = NULL;

	caller_of(table->model, key, caller, sizeof(caller));
	(void)snprintf(text, sizeof(text), "%s\n%s", site->key, caller);
	HASH_FIND_STR(table->ways, text, entry);
	if (entry)
		return &entry->way;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = strdup(text);
	entry->way = (struct site_way){.site = &site->site,
				       .caller = strdup(caller),
				       .next = site->site.ways,
				       .process = key->process,
				       .stack = key->stack};
	native = model_native_site(table->model, key->process, key->stack);
	if (native && model_frame_text(native, caller, sizeof(caller)) > 0)
		entry->way.native = strdup(caller);
	if (!entry->way.caller || !entry->key) {
		way_entry_free(entry);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, table->ways, entry->key, strlen(entry->key), entry);
	site->site.ways = &entry->way;
	site->site.way_count++;
	return &entry->way;
}

struct site_way *site_of(struct site_table *table, unsigned process, uint32_t stack, unsigned rule,
			 unsigned cls)
{
	const struct stack_key key = {process, stack, rule, cls};
	uint64_t from = (uint64_t)process << 32 | stack, what = (uint64_t)rule << 32 | cls;
	struct site_way *way = pair_map_get(&table->stacks, from, what);
	struct site_entry *entry;

	if (way)
		return way;
	entry = site_find(table, &key);
	way = entry ? way_find(table, entry, &key) : NULL;
	return way && pair_map_put(&table->stacks, from, what, way) ? way : NULL;
}

static void site_api(struct site *site, const char *name)
{
	for (unsigned i = 0; i < SITE_APIS; i++) {
		if (!site->api[i]) {
			site->api[i] = strdup(name);
			return;
		}
		if (strcmp(site->api[i], name) == 0)
			return;
	}
}

void site_add(struct site_table *table, struct site_way *way, const struct counted *counted,
	      unsigned process, uint32_t api)
{
	struct site *site = way->site;
	bool counts = counted->kind != COUNTED_HELD;

	site->count += counts;
	site->folded += !counts;
	site->bytes += counted->bytes;
	site->pageable += counted->pageable;
	histogram_add(&site->held, counted->held_ns);
	way->count += counts;
	way->held_ns += counted->held_ns;
	way->bytes += counted->bytes;
	way->pageable += counted->pageable;
	if (way->last_api != ((uint64_t)process << 32 | api) || !way->api_known) {
		way->last_api = (uint64_t)process << 32 | api;
		way->api_known = true;
		site_api(site, model_string(table->model, process, api));
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

/* --- in order of cost ------------------------------------------------------------------------- */

static int compare_sites(uint64_t held_a, uint64_t count_a, const struct site *a, uint64_t held_b,
			 uint64_t count_b, const struct site *b)
{
	if (held_a != held_b)
		return held_a < held_b ? 1 : -1;
	if (count_a != count_b)
		return count_a < count_b ? 1 : -1;
	if (strcmp(a->place, b->place) != 0)
		return strcmp(a->place, b->place);
	return a->rule != b->rule ? (a->rule < b->rule ? -1 : 1) : (int)a->cls - (int)b->cls;
}

int site_way_compare(uint64_t held_a, uint64_t count_a, const struct site_way *a, uint64_t held_b,
		     uint64_t count_b, const struct site_way *b)
{
	int order = compare_sites(held_a, count_a, a->site, held_b, count_b, b->site);

	return order ? order : strcmp(a->caller, b->caller);
}

static int costlier(const void *left, const void *right)
{
	const struct site *a = *(struct site *const *)left, *b = *(struct site *const *)right;

	return compare_sites(a->held.sum_ns, a->count, a, b->held.sum_ns, b->count, b);
}

static int costlier_way(const void *left, const void *right)
{
	const struct site_way *a = *(struct site_way *const *)left;
	const struct site_way *b = *(struct site_way *const *)right;

	return site_way_compare(a->held_ns, a->count, a, b->held_ns, b->count, b);
}

static bool ways_sort(struct site *site)
{
	struct site_way **all, *way = site->ways;

	if (site->way_count < 2)
		return true;
	all = calloc(site->way_count, sizeof(struct site_way *));
	if (!all)
		return false;
	for (unsigned i = 0; i < site->way_count; i++, way = way->next)
		all[i] = way;
	qsort(all, site->way_count, sizeof(struct site_way *), costlier_way);
	site->ways = all[0];
	for (unsigned i = 0; i < site->way_count; i++)
		all[i]->next = i + 1 < site->way_count ? all[i + 1] : NULL;
	free(all);
	return true;
}

struct site **site_table_sorted(struct site_table *table, unsigned *count)
{
	unsigned total = HASH_COUNT(table->sites), i = 0;
	struct site **all = calloc(total + 1, sizeof(struct site *));
	struct site_entry *entry = NULL, *next = NULL;

	*count = 0;
	if (!all)
		return NULL;
	HASH_ITER (hh, table->sites, entry, next) {
		if (!ways_sort(&entry->site)) {
			free(all);
			return NULL;
		}
		all[i++] = &entry->site;
	}
	qsort(all, i, sizeof(struct site *), costlier);
	*count = i;
	return all;
}
