/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as Chrome's trace event JSON (the object form), for chrome://tracing, speedscope and older
 * tools.
 */
#include "exporters/chrome/chrome.h"
#include "exporters/model/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_process_fact(struct chrome *chrome, const char *what, const char *key,
			     const char *text, int64_t number)
{
	bool any = false;

	chrome_event(chrome, "M", what, "__metadata", chrome->process->unique_pid, chrome->base_ns);
	json_raw(&chrome->json, ",\"args\":{");
	chrome_member(chrome, &any, key);
	if (text)
		json_text(&chrome->json, text);
	else
		json_int(&chrome->json, number);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
}

static void describe_process(struct chrome *chrome)
{
	const struct model_process *process = chrome->process;
	const char *name = *process->info.process_name ? process->info.process_name : "process";
	char text[512];

	snprintf(text, sizeof(text), *process->label ? "%s (%s)" : "%s", name, process->label);
	put_process_fact(chrome, "process_name", "name", text, 0);
	put_process_fact(chrome, "process_sort_index", "sort_index", NULL, process->index);
	snprintf(text, sizeof(text), "%s%s%s", process->info.simulated ? "simulated driver" : "",
		 process->info.simulated && process->incomplete ? ", " : "",
		 process->incomplete ? "INCOMPLETE" : "");
	if (*text)
		put_process_fact(chrome, "process_labels", "labels", text, 0);
}

static void put_drops(struct json *json, const struct trace_info *info)
{
	const char *comma = "";

	for (unsigned i = 0; i < TRACE_DROP_MAX; i++) {
		if (!info->drops[i])
			continue;
		json_raw(json, comma);
		json_text(json, trace_drop_name((enum trace_drop)i));
		json_raw(json, ":");
		json_safe_uint(json, info->drops[i]);
		comma = ",";
	}
}

static void put_process_metadata(struct json *json, const struct model_process *process)
{
	const struct trace_info *info = &process->info;

	json_raw(json, "{\"pid\":");
	json_int(json, process->unique_pid);
	json_raw(json, ",\"real_pid\":");
	json_int(json, info->pid);
	json_raw(json, ",\"host\":");
	json_text(json, info->host);
	json_raw(json, ",\"rank\":");
	json_int(json, info->rank);
	json_raw(json, ",\"command\":");
	json_text(json, info->command);
	json_raw(json, ",\"recording\":");
	json_text(json, info->path);
	json_raw(json, info->ended ? ",\"ended\":true" : ",\"ended\":false");
	if (info->damaged) {
		json_raw(json, ",\"damage\":");
		json_text(json, info->damage);
	}
	json_raw(json, ",\"drops\":{");
	put_drops(json, info);
	json_raw(json, "},\"attributes\":{");
	for (unsigned i = 0; i < info->attribute_count; i++) {
		if (i)
			json_raw(json, ",");
		json_text(json, info->attributes[i][0]);
		json_raw(json, ":");
		json_text(json, info->attributes[i][1]);
	}
	json_raw(json, "}}");
}

static void put_tail(struct chrome *chrome, int64_t realtime_ns)
{
	struct json *json = &chrome->json;

	json_raw(json, "\n],\n\"stackFrames\":{");
	chrome_write_frames(chrome);
	/* What the times of the events count from. */
	json_raw(json, "},\n\"displayTimeUnit\":\"ns\",\n\"metadata\":{\"waylay_version\":");
	json_text(json, WAYLAY_VERSION);
	json_raw(json, ",\"run\":");
	json_text(json, model_run(chrome->model));
	json_raw(json, ",\"start_boottime_ns\":\"");
	json_int(json, chrome->base_ns);
	json_raw(json, "\",\"start_realtime_ns\":\"");
	json_int(json, realtime_ns);
	json_raw(json, "\",\"processes\":[");
	for (unsigned i = 0; i < model_process_count(chrome->model); i++) {
		if (i)
			json_raw(json, ",\n");
		put_process_metadata(json, model_process(chrome->model, i));
	}
	json_raw(json, "]}}\n");
}

/* The least step that stays when times as large as a trace's length, in microseconds, are summed as
 * doubles: each of them and of the sums is off by half a unit in the last place of 53 bits. */
static int step_ps(int64_t length_ns)
{
	uint64_t length_us = length_ns > 0 ? (uint64_t)length_ns / 1000 : 0;
	unsigned exponent = 63 - (unsigned)__builtin_clzll(length_us | 1);
	uint64_t four_last_places_ps = exponent < 40 ? 4000000ull << exponent >> 52 : 248;

	return four_last_places_ps < 248 ? (int)four_last_places_ps + 1 : 249;
}

static int write_all(struct chrome *chrome)
{
	int error = 0;

	for (unsigned i = 0; i < model_process_count(chrome->model) && !error; i++) {
		bool merged = false;

		chrome->process = model_process(chrome->model, i);
		if (!select_process(chrome->options->selection, chrome->process))
			continue;
		describe_process(chrome);
		error = chrome_threads(chrome, &merged);
		if (!error && merged)
			error = chrome_network(chrome);
	}
	if (!error && chrome->options->progress &&
	    chrome->options->progress(chrome->options->user, 1000))
		error = -EINTR;
	return error;
}

int chrome_export(struct model *model, const char *path, const struct export_options *options,
		  struct export_result *result, char *err, size_t err_size)
{
	static const struct export_options defaults;
	struct export_result unused = {0};
	struct chrome chrome = {.model = model,
				.options = options ? options : &defaults,
				.result = result ? result : &unused,
				.first = true};
	size_t length = strlen(path);
	bool gzip = chrome.options->compress != EXPORT_COMPRESS_NONE ||
		    (length > 3 && !strcmp(path + length - 3, ".gz"));
	int64_t last_ns, realtime_ns;
	int error;

	memset(chrome.result, 0, sizeof(*chrome.result));
	if (err_size)
		*err = 0;
	model_bounds(model, &chrome.base_ns, &last_ns, &realtime_ns);
	chrome.step_ps = step_ps(last_ns - chrome.base_ns);
	error = json_open(&chrome.json, path, gzip, chrome.options, err, err_size);
	if (error)
		return error;
	error = number_map_init(&chrome.nodes);
	json_raw(&chrome.json, "{\"traceEvents\":[\n");
	if (!error)
		error = write_all(&chrome);
	if (!error)
		put_tail(&chrome, realtime_ns);
	error = json_close(&chrome.json, error, err, err_size);
	chrome.result->bytes = chrome.json.output.bytes;
	number_map_done(&chrome.nodes);
	free(chrome.node_list);
	return error;
}
