/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for programs. Its schema is docs/report-json.md; members are added, never changed.
 */
#include "viewers/viewers.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* Recorded bytes need not be UTF-8, which JSON is: what is not is shown as '?'. */
static json_t *text(const char *value)
{
	json_t *string;
	size_t size;
	char *clean;

	if (!value)
		return json_null();
	string = json_string(value);
	if (string)
		return string;
	size = strlen(value) + 1;
	clean = malloc(size);
	string = clean ? json_string(words_clean(value, clean, size)) : NULL;
	free(clean);
	return string;
}

static json_t *ways_json(const struct site *site)
{
	json_t *array = json_array();

	for (const struct site_way *way = site->ways; way; way = way->next) {
		json_t *object = json_object();

		json_object_set_new(object, "called_from", text(way->caller));
		json_object_set_new(object, "count", number(way->count));
		json_object_set_new(object, "held_ns", number(way->held_ns));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *site_json(const struct site *site)
{
	const struct wl_rule_info *rule = wl_rule_info(site->rule);
	json_t *object = json_object(), *apis = json_array();

	for (unsigned i = 0; i < SITE_APIS && site->api[i]; i++)
		json_array_append_new(apis, text(site->api[i]));
	json_object_set_new(object, "place", text(site->place));
	json_object_set_new(object, "file", text(site->file));
	json_object_set_new(object, "line", number(site->line));
	json_object_set_new(object, "function", text(site->function));
	json_object_set_new(object, "calls", apis);
	json_object_set_new(object, "count", number(site->count));
	json_object_set_new(object, "bytes", number(site->bytes));
	json_object_set_new(object, "held_ns", number(site->held.sum_ns));
	json_object_set_new(object, "held_p50_ns", number(histogram_percentile(&site->held, 50)));
	json_object_set_new(object, "held_p99_ns", number(histogram_percentile(&site->held, 99)));
	json_object_set_new(object, "held_max_ns", number(site->held.max_ns));
	json_object_set_new(object, "ways", ways_json(site));
	if (site->cls == WL_call_class_none) {
		json_object_set_new(object, "repeated", number(site->repeated));
		return object;
	}
	json_object_set_new(object, "folded", number(site->folded));
	json_object_set_new(object, "class",
			    text(site->cls == WL_call_class_waits ? "waits" : "stages"));
	json_object_set_new(object, "rule", text(rule->word));
	json_object_set_new(object, "waits_for", text(rule->waits_for));
	json_object_set_new(object, "condition", text(rule->condition));
	json_object_set_new(object, "remedy", text(rule->remedy));
	return object;
}

static json_t *sites_json(struct site *const *sites, unsigned count)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(array, site_json(sites[i]));
	return array;
}

static json_t *places_json(const struct range_stat *range)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < range->way_count; i++) {
		const struct range_way *at = &range->ways[i];
		const struct site *site = at->way->site;
		json_t *object = json_object();

		json_object_set_new(object, "place", text(site->place));
		json_object_set_new(object, "called_from", text(at->way->caller));
		json_object_set_new(object, "class",
				    text(site->cls == WL_call_class_waits    ? "waits"
					 : site->cls == WL_call_class_stages ? "stages"
									     : "registration"));
		json_object_set_new(object, "rule", text(wl_rule_info(site->rule)->word));
		json_object_set_new(object, "count", number(at->count));
		json_object_set_new(object, "held_ns", number(at->held_ns));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *ranges_json(const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < analysis->range_count; i++) {
		const struct range_stat *range = analysis->ranges[i];
		json_t *object = json_object();

		json_object_set_new(object, "name", text(range->name));
		json_object_set_new(object, "instances", number(range->instances));
		json_object_set_new(object, "unclosed", number(range->unclosed));
		json_object_set_new(object, "synchronizations", number(range->waits));
		json_object_set_new(object, "synchronizations_worst", number(range->waits_worst));
		json_object_set_new(object, "staged", number(range->stages));
		json_object_set_new(object, "staged_worst", number(range->stages_worst));
		json_object_set_new(object, "registrations", number(range->registrations));
		json_object_set_new(object, "registrations_worst",
				    number(range->registrations_worst));
		json_object_set_new(object, "unreturned", number(range->unreturned));
		json_object_set_new(object, "held_ns", number(range->held_ns));
		json_object_set_new(object, "length_p50_ns",
				    number(histogram_percentile(&range->length, 50)));
		json_object_set_new(object, "length_p99_ns",
				    number(histogram_percentile(&range->length, 99)));
		json_object_set_new(object, "places", places_json(range));
		json_array_append_new(array, object);
	}
	return array;
}

/* The words of an enumeration, from the event table. */
static const char *word_of(enum wl_event event, size_t index, unsigned value)
{
	const struct wl_enumeration *words = wl_event_type(event)->args[index].enumeration;

	return words && value < words->count ? words->words[value] : "?";
}

static json_t *copies_json(const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < analysis->copy_count; i++) {
		const struct copy_stat *copy = &analysis->copies[i];
		json_t *object = json_object();

		json_object_set_new(object, "from",
				    text(word_of(WL_EV_cuda_copy, WL_ARG(cuda_copy, src_kind),
						 copy->src_kind)));
		json_object_set_new(object, "to",
				    text(word_of(WL_EV_cuda_copy, WL_ARG(cuda_copy, dst_kind),
						 copy->dst_kind)));
		json_object_set_new(
			object, "class",
			text(word_of(WL_EV_cuda_copy, WL_ARG(cuda_copy, cls), copy->cls)));
		json_object_set_new(object, "count", number(copy->count));
		json_object_set_new(object, "bytes", number(copy->bytes));
		json_object_set_new(object, "held_ns", number(copy->held_ns));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *transfers_json(const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned op = 0; op < WL_ofi_op_MAX; op++) {
		const struct transfer_stat *stat = &analysis->transfers[op];
		json_t *object;

		if (!stat->count)
			continue;
		object = json_object();
		json_object_set_new(object, "operation",
				    text(word_of(WL_EV_ofi_post, WL_ARG(ofi_post, op), op)));
		json_object_set_new(object, "count", number(stat->count));
		json_object_set_new(object, "bytes", number(stat->bytes));
		json_object_set_new(object, "failed", number(stat->failed));
		json_object_set_new(object, "unfinished", number(stat->unfinished));
		json_object_set_new(object, "matched_by_order", number(stat->approximate));
		json_object_set_new(object, "retries", number(stat->retries));
		json_object_set_new(object, "latency_p50_ns",
				    number(histogram_percentile(&stat->latency, 50)));
		json_object_set_new(object, "latency_p99_ns",
				    number(histogram_percentile(&stat->latency, 99)));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *processes_json(struct model *model)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < model_process_count(model); i++) {
		const struct model_process *process = model_process(model, i);
		json_t *object = json_object(), *drops = json_object();

		for (unsigned reason = 0; reason < TRACE_DROP_MAX; reason++)
			if (process->info.drops[reason])
				json_object_set_new(drops, trace_drop_name((enum trace_drop)reason),
						    number(process->info.drops[reason]));
		json_object_set_new(object, "pid", json_integer(process->info.pid));
		json_object_set_new(object, "host", text(process->info.host));
		json_object_set_new(object, "rank", json_integer(process->info.rank));
		json_object_set_new(object, "command", text(process->info.command));
		json_object_set_new(object, "ended", json_boolean(process->info.ended));
		json_object_set_new(object, "complete", json_boolean(!process->incomplete));
		json_object_set_new(object, "drops", drops);
		json_array_append_new(array, object);
	}
	return array;
}

#define CURVE_POINTS 512

/* [capacity, hits, time_ns] where hits are gained; thinned where there are many, the last one kept. */
static json_t *curve_json(const struct reuse_curve *curve)
{
	json_t *array = json_array();
	unsigned step = (curve->count + CURVE_POINTS - 1) / CURVE_POINTS;

	for (unsigned i = 0; i < curve->count; i++) {
		const struct reuse_point *point = &curve->points[i];

		if ((curve->count - 1 - i) % step == 0)
			json_array_append_new(array,
					      json_pack("[I,I,I]", (json_int_t)point->capacity,
							(json_int_t)point->hits,
							(json_int_t)point->time_ns));
	}
	return array;
}

static json_t *knee_json(const struct reuse_curve *curve)
{
	const struct reuse_point *knee = reuse_knee(curve, 95);

	return knee ? number(knee->capacity) : json_null();
}

static json_t *cache_json(const struct analysis *analysis)
{
	json_t *object = json_object();

	json_object_set_new(object, "knee_entries", knee_json(&analysis->cache_entries));
	json_object_set_new(object, "knee_bytes", knee_json(&analysis->cache_bytes));
	json_object_set_new(object, "by_entries", curve_json(&analysis->cache_entries));
	json_object_set_new(object, "by_bytes", curve_json(&analysis->cache_bytes));
	return object;
}

static json_t *registrations_json(const struct analysis *analysis)
{
	json_t *object = json_object();

	json_object_set_new(object, "count", number(analysis->registrations));
	json_object_set_new(object, "failed", number(analysis->registrations_failed));
	json_object_set_new(object, "repeated", number(analysis->registrations_repeated));
	json_object_set_new(object, "bytes", number(analysis->registered_bytes));
	json_object_set_new(object, "peak_bytes", number(analysis->registered_peak_bytes));
	json_object_set_new(object, "live", number(analysis->registrations_live));
	json_object_set_new(object, "time_ns", number(analysis->registration_ns));
	json_object_set_new(object, "cache", cache_json(analysis));
	json_object_set_new(
		object, "sites",
		sites_json(analysis->registration_sites, analysis->registration_site_count));
	return object;
}

/* Calls that had not returned when their process was last seen. */
static json_t *unreturned_json(struct model *model)
{
	struct trace_inflight calls[256];
	json_t *array = json_array();
	char place[1024];

	for (unsigned p = 0; p < model_process_count(model); p++) {
		const struct model_process *process = model_process(model, p);
		unsigned count = model_inflight(model, p, calls, 256);

		for (unsigned i = 0; i < count; i++) {
			json_t *object = json_object();

			*place = '\0';
			(void)model_frame_text(model_site(model, p, calls[i].stack), place,
					       sizeof(place));
			json_object_set_new(object, "pid", json_integer(process->info.pid));
			json_object_set_new(object, "rank", json_integer(process->info.rank));
			json_object_set_new(object, "call", text(calls[i].api));
			json_object_set_new(object, "place", text(place));
			json_object_set_new(object, "held_ns",
					    number(unreturned_ns(process, &calls[i])));
			json_array_append_new(array, object);
		}
	}
	return array;
}

static json_t *totals_json(const struct analysis *analysis)
{
	json_t *object = json_object();

	json_object_set_new(object, "events", number(analysis->events));
	json_object_set_new(object, "wall_ns", json_integer(analysis->wall_ns));
	json_object_set_new(object, "synchronizations", number(analysis->waits));
	json_object_set_new(object, "staged", number(analysis->stages));
	json_object_set_new(object, "polls", number(analysis->polls));
	json_object_set_new(object, "captured", number(analysis->captured));
	json_object_set_new(object, "held_ns", number(analysis->held_ns));
	json_object_set_new(object, "launches", number(analysis->launches));
	json_object_set_new(object, "posts", number(analysis->posts));
	json_object_set_new(object, "completions", number(analysis->completions));
	json_object_set_new(object, "empty_polls", number(analysis->empty_polls));
	return object;
}

int report_json(FILE *out, struct model *model, const struct analysis *analysis)
{
	json_t *root = json_object();
	int failed;

	json_object_set_new(root, "schema", json_integer(1));
	json_object_set_new(root, "run", text(model_run(model)));
	json_object_set_new(root, "simulated", json_boolean(analysis->simulated));
	json_object_set_new(root, "complete",
			    json_boolean(!analysis->incomplete_processes && !analysis->unreadable));
	json_object_set_new(root, "totals", totals_json(analysis));
	json_object_set_new(root, "processes", processes_json(model));
	json_object_set_new(root, "ranges", ranges_json(analysis));
	json_object_set_new(root, "sites", sites_json(analysis->sites, analysis->site_count));
	json_object_set_new(root, "copies", copies_json(analysis));
	json_object_set_new(root, "registrations", registrations_json(analysis));
	json_object_set_new(root, "transfers", transfers_json(analysis));
	json_object_set_new(root, "unreturned", unreturned_json(model));
	json_object_set_new(root, "unreadable", number(analysis->unreadable));
	failed = json_dumpf(root, out, JSON_INDENT(2));
	json_decref(root);
	return failed || fputc('\n', out) == EOF ? -EIO : 0;
}
