/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for programs. Its schema is docs/report-json.md; members are added, never changed.
 */
#include "viewers/report_json.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

json_t *report_number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* Recorded bytes need not be UTF-8, which JSON is: what is not is shown as '?'. */
json_t *report_words(const char *value)
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

		json_object_set_new(object, "called_from", report_words(way->caller));
		json_object_set_new(object, "native", report_words(way->native));
		json_object_set_new(object, "count", report_number(way->count));
		json_object_set_new(object, "held_ns", report_number(way->held_ns));
		json_array_append_new(array, object);
	}
	return array;
}

void report_life(json_t *object, const struct registered_life *life)
{
	json_object_set_new(object, "live", report_number(life->live));
	json_object_set_new(object, "live_bytes", report_number(life->live_bytes));
	json_object_set_new(object, "peak_bytes", report_number(life->peak_bytes));
	json_object_set_new(object, "lifetime_p50_ns",
			    report_number(histogram_percentile(&life->lifetime, 50)));
	json_object_set_new(object, "lifetime_p99_ns",
			    report_number(histogram_percentile(&life->lifetime, 99)));
}

static json_t *site_json(const struct site *site, uint64_t process_ns)
{
	const struct wl_rule_info *rule = wl_rule_info(site->rule);
	json_t *object = json_object(), *apis = json_array();

	for (unsigned i = 0; i < SITE_APIS && site->api[i]; i++)
		json_array_append_new(apis, report_words(site->api[i]));
	json_object_set_new(object, "place", report_words(site->place));
	json_object_set_new(object, "file", report_words(site->file));
	json_object_set_new(object, "line", report_number(site->line));
	json_object_set_new(object, "function", report_words(site->function));
	json_object_set_new(object, "calls", apis);
	json_object_set_new(object, "count", report_number(site->count));
	json_object_set_new(object, "bytes", report_number(site->bytes));
	json_object_set_new(object, "pageable", report_number(site->pageable));
	json_object_set_new(object, "held_ns", report_number(site->held.sum_ns));
	json_object_set_new(object, "held_p50_ns",
			    report_number(histogram_percentile(&site->held, 50)));
	json_object_set_new(object, "held_p99_ns",
			    report_number(histogram_percentile(&site->held, 99)));
	json_object_set_new(object, "held_max_ns", report_number(site->held.max_ns));
	json_object_set_new(
		object, "share",
		json_real(process_ns ? (double)site->held.sum_ns / (double)process_ns : 0));
	json_object_set_new(object, "ways", ways_json(site));
	if (site->cls == WL_call_class_none) {
		static const struct registered_life none;

		json_object_set_new(object, "repeated", report_number(site->repeated));
		report_life(object, site->life ? site->life : &none);
		return object;
	}
	json_object_set_new(object, "folded", report_number(site->folded));
	json_object_set_new(object, "device_idle_ns", report_number(site->idle_ns));
	json_object_set_new(object, "class",
			    report_words(site->cls == WL_call_class_waits ? "waits" : "stages"));
	json_object_set_new(object, "rule", report_words(rule->word));
	json_object_set_new(object, "waits_for", report_words(rule->waits_for));
	json_object_set_new(object, "condition", report_words(rule->condition));
	json_object_set_new(object, "remedy", report_words(rule->remedy));
	return object;
}

json_t *report_sites(struct site *const *sites, unsigned count, uint64_t process_ns)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(array, site_json(sites[i], process_ns));
	return array;
}

static json_t *places_json(const struct range_stat *range)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < range->way_count; i++) {
		const struct range_way *at = &range->ways[i];
		const struct site *site = at->way->site;
		json_t *object = json_object();

		json_object_set_new(object, "place", report_words(site->place));
		json_object_set_new(object, "called_from", report_words(at->way->caller));
		json_object_set_new(object, "class",
				    report_words(site->cls == WL_call_class_waits ? "waits"
						 : site->cls == WL_call_class_stages
							 ? "stages"
							 : "registration"));
		json_object_set_new(object, "rule", report_words(wl_rule_info(site->rule)->word));
		json_object_set_new(object, "count", report_number(at->count));
		json_object_set_new(object, "held_ns", report_number(at->held_ns));
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

		json_object_set_new(object, "name", report_words(range->name));
		json_object_set_new(object, "instances", report_number(range->instances));
		json_object_set_new(object, "unclosed", report_number(range->unclosed));
		json_object_set_new(object, "synchronizations", report_number(range->waits));
		json_object_set_new(object, "synchronizations_worst",
				    report_number(range->waits_worst));
		json_object_set_new(object, "staged", report_number(range->stages));
		json_object_set_new(object, "staged_worst", report_number(range->stages_worst));
		json_object_set_new(object, "registrations", report_number(range->registrations));
		json_object_set_new(object, "registrations_worst",
				    report_number(range->registrations_worst));
		json_object_set_new(object, "unreturned", report_number(range->unreturned));
		json_object_set_new(object, "held_ns", report_number(range->held_ns));
		json_object_set_new(object, "length_p50_ns",
				    report_number(histogram_percentile(&range->length, 50)));
		json_object_set_new(object, "length_p99_ns",
				    report_number(histogram_percentile(&range->length, 99)));
		json_object_set_new(object, "places", places_json(range));
		json_array_append_new(array, object);
	}
	return array;
}

/* The words of an enumeration, from the event table. */
const char *report_word(enum wl_event event, size_t index, unsigned value)
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

		json_object_set_new(
			object, "from",
			report_words(report_word(WL_EV_cuda_copy, WL_ARG(cuda_copy, src_kind),
						 copy->src_kind)));
		json_object_set_new(
			object, "to",
			report_words(report_word(WL_EV_cuda_copy, WL_ARG(cuda_copy, dst_kind),
						 copy->dst_kind)));
		json_object_set_new(object, "class",
				    report_words(report_word(WL_EV_cuda_copy,
							     WL_ARG(cuda_copy, cls), copy->cls)));
		json_object_set_new(object, "count", report_number(copy->count));
		json_object_set_new(object, "bytes", report_number(copy->bytes));
		json_object_set_new(object, "held_ns", report_number(copy->held_ns));
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
						    report_number(process->info.drops[reason]));
		json_object_set_new(object, "pid", json_integer(process->info.pid));
		json_object_set_new(object, "host", report_words(process->info.host));
		json_object_set_new(object, "rank", json_integer(process->info.rank));
		json_object_set_new(object, "command", report_words(process->info.command));
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

	return knee ? report_number(knee->capacity) : json_null();
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

	json_object_set_new(object, "count", report_number(analysis->registrations));
	json_object_set_new(object, "failed", report_number(analysis->registrations_failed));
	json_object_set_new(object, "repeated", report_number(analysis->registrations_repeated));
	json_object_set_new(object, "bytes", report_number(analysis->registered_bytes));
	json_object_set_new(object, "peak_bytes", report_number(analysis->registered_peak_bytes));
	json_object_set_new(object, "live", report_number(analysis->registrations_live));
	json_object_set_new(object, "live_bytes", report_number(analysis->registered_live_bytes));
	json_object_set_new(object, "time_ns", report_number(analysis->registration_ns));
	json_object_set_new(object, "kinds", report_registered(analysis));
	json_object_set_new(
		object, "lifetime_p50_ns",
		report_number(histogram_percentile(&analysis->registration_lifetime, 50)));
	json_object_set_new(
		object, "lifetime_p99_ns",
		report_number(histogram_percentile(&analysis->registration_lifetime, 99)));
	json_object_set_new(object, "cache", cache_json(analysis));
	json_object_set_new(object, "sites",
			    report_sites(analysis->registration_sites,
					 analysis->registration_site_count, analysis->process_ns));
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
			json_object_set_new(object, "call", report_words(calls[i].api));
			json_object_set_new(object, "place", report_words(place));
			json_object_set_new(object, "held_ns",
					    report_number(unreturned_ns(process, &calls[i])));
			json_array_append_new(array, object);
		}
	}
	return array;
}

static json_t *totals_json(const struct analysis *analysis)
{
	json_t *object = json_object();

	json_object_set_new(object, "events", report_number(analysis->events));
	json_object_set_new(object, "wall_ns", json_integer(analysis->wall_ns));
	json_object_set_new(object, "process_ns", report_number(analysis->process_ns));
	json_object_set_new(object, "synchronizations", report_number(analysis->waits));
	json_object_set_new(object, "staged", report_number(analysis->stages));
	json_object_set_new(object, "polls", report_number(analysis->polls));
	json_object_set_new(object, "captured", report_number(analysis->captured));
	json_object_set_new(object, "held_ns", report_number(analysis->held_ns));
	json_object_set_new(object, "launches", report_number(analysis->launches));
	json_object_set_new(object, "posts", report_number(analysis->posts));
	json_object_set_new(object, "completions", report_number(analysis->completions));
	json_object_set_new(object, "empty_polls", report_number(analysis->empty_polls));
	return object;
}

json_t *report_object(struct model *model, const struct analysis *analysis)
{
	json_t *root = json_object();

	json_object_set_new(root, "schema", json_integer(1));
	json_object_set_new(root, "run", report_words(model_run(model)));
	json_object_set_new(root, "simulated", json_boolean(analysis->simulated));
	json_object_set_new(root, "complete",
			    json_boolean(!analysis->incomplete_processes && !analysis->unreadable));
	json_object_set_new(root, "totals", totals_json(analysis));
	json_object_set_new(root, "processes", processes_json(model));
	json_object_set_new(root, "ranges", ranges_json(analysis));
	json_object_set_new(
		root, "sites",
		report_sites(analysis->sites, analysis->site_count, analysis->process_ns));
	json_object_set_new(root, "copies", copies_json(analysis));
	json_object_set_new(root, "registrations", registrations_json(analysis));
	json_object_set_new(root, "setup", report_setup(analysis));
	json_object_set_new(root, "transfers", report_transfers(analysis));
	json_object_set_new(root, "peers", report_peers(model, analysis));
	json_object_set_new(root, "network", report_network(analysis));
	json_object_set_new(root, "devices", report_devices(analysis));
	json_object_set_new(root, "detours", report_detours(analysis));
	json_object_set_new(root, "steps", report_steps(model, analysis));
	json_object_set_new(root, "unreturned", unreturned_json(model));
	json_object_set_new(root, "unreadable", report_number(analysis->unreadable));
	return root;
}

int report_json(FILE *out, struct model *model, const struct analysis *analysis)
{
	json_t *root = report_object(model, analysis);
	int failed = json_dumpf(root, out, JSON_INDENT(2));

	json_decref(root);
	return failed || fputc('\n', out) == EOF ? -EIO : 0;
}
