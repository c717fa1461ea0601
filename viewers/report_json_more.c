/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers, detours and steps as JSON.
 */
#include "viewers/report_json.h"

/* [bytes at most, count, bytes moved] */
static json_t *sizes_json(const struct transfer_stat *stat)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < TRANSFER_SIZES; i++)
		if (stat->sizes[i])
			json_array_append_new(array,
					      json_pack("[o,o,o]", report_number((uint64_t)1 << i),
							report_number(stat->sizes[i]),
							report_number(stat->size_bytes[i])));
	return array;
}

json_t *report_transfers(const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned op = 0; op < WL_ofi_op_MAX; op++) {
		const struct transfer_stat *stat = &analysis->transfers[op];
		json_t *object;

		if (!stat->count)
			continue;
		object = json_object();
		json_object_set_new(
			object, "operation",
			report_words(report_word(WL_EV_ofi_post, WL_ARG(ofi_post, op), op)));
		json_object_set_new(object, "count", report_number(stat->count));
		json_object_set_new(object, "bytes", report_number(stat->bytes));
		json_object_set_new(object, "failed", report_number(stat->failed));
		json_object_set_new(object, "unfinished", report_number(stat->unfinished));
		json_object_set_new(object, "matched_by_order", report_number(stat->approximate));
		json_object_set_new(object, "retries", report_number(stat->retries));
		json_object_set_new(object, "busy_ns", report_number(stat->busy_ns));
		json_object_set_new(object, "latency_p50_ns",
				    report_number(histogram_percentile(&stat->latency, 50)));
		json_object_set_new(object, "latency_p99_ns",
				    report_number(histogram_percentile(&stat->latency, 99)));
		json_object_set_new(object, "sizes", sizes_json(stat));
		json_array_append_new(array, object);
	}
	return array;
}

static void process_members(json_t *object, struct model *model, unsigned index)
{
	const struct model_process *process = model_process(model, index);

	json_object_set_new(object, "process", report_number(index));
	json_object_set_new(object, "rank", json_integer(process->info.rank));
	json_object_set_new(object, "pid", json_integer(process->info.pid));
}

json_t *report_peers(struct model *model, const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < analysis->peer_count; i++) {
		const struct peer_stat *peer = analysis->peers[i];
		json_t *object = json_object();

		process_members(object, model, peer->process);
		json_object_set_new(
			object, "operation",
			report_words(report_word(WL_EV_ofi_post, WL_ARG(ofi_post, op), peer->op)));
		json_object_set_new(object, "peer",
				    peer->peer == UINT64_MAX ? json_null()
							     : report_number(peer->peer));
		json_object_set_new(object, "count", report_number(peer->count));
		json_object_set_new(object, "bytes", report_number(peer->bytes));
		json_object_set_new(object, "busy_ns", report_number(peer->busy_ns));
		json_object_set_new(object, "latency_p50_ns",
				    report_number(histogram_percentile(&peer->latency, 50)));
		json_object_set_new(object, "latency_p99_ns",
				    report_number(histogram_percentile(&peer->latency, 99)));
		json_array_append_new(array, object);
	}
	return array;
}

json_t *report_network(const struct analysis *analysis)
{
	const struct network_stat *network = &analysis->network;

	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "span_ns", report_number(network->span_ns),
			 "busy_ns", report_number(network->busy_ns), "idle_ns",
			 report_number(network->span_ns - network->busy_ns), "peak_bytes_in_flight",
			 report_number(network->peak_bytes), "mean_bytes_in_flight",
			 report_number(network_mean_bytes(network)));
}

json_t *report_registered(const struct analysis *analysis)
{
	static const char *const kinds[REGISTERED_KINDS] = {"host", "device", "dmabuf"};
	json_t *array = json_array();

	for (unsigned i = 0; i < REGISTERED_KINDS; i++) {
		const struct registration_stat *stat = &analysis->registered[i];

		json_t *object;

		if (!stat->count && !stat->failed)
			continue;
		object = json_pack("{s:s,s:o,s:o,s:o,s:o}", "kind", kinds[i], "count",
				   report_number(stat->count), "failed",
				   report_number(stat->failed), "bytes", report_number(stat->bytes),
				   "time_ns", report_number(stat->time_ns));
		report_life(object, &stat->life);
		json_array_append_new(array, object);
	}
	return array;
}

json_t *report_devices(const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < analysis->device_count; i++) {
		const struct device_stat *stat = &analysis->devices[i];

		json_array_append_new(
			array, json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "device",
					 (int)stat->device, "kernels", report_number(stat->kernels),
					 "copies", report_number(stat->copies), "copy_bytes",
					 report_number(stat->copy_bytes), "span_ns",
					 report_number(stat->span_ns), "busy_ns",
					 report_number(stat->busy_ns), "copy_busy_ns",
					 report_number(stat->copy_busy_ns), "copy_idle_ns",
					 report_number(stat->span_ns - stat->copy_busy_ns),
					 "idle_by_waits_ns", report_number(stat->wait_idle_ns),
					 "idle_by_waits", report_number(stat->wait_gaps)));
	}
	return array;
}

json_t *report_detours(const struct analysis *analysis)
{
	static const char *const kinds[DETOUR_KINDS] = {"copied_out", "copied_in", "mapped_out",
							"mapped_in", "in_provider"};
	static const char *const paths[] = {"unknown", "not offered", "refused", "unused", "used"};
	const struct detours *detours = &analysis->detours;
	json_t *root = json_object();

	for (unsigned i = 0; i < DETOUR_KINDS; i++) {
		const struct detour_stat *stat = &detours->kinds[i];

		json_object_set_new(root, kinds[i],
				    json_pack("{s:o,s:o,s:o,s:o,s:o}", "transfers",
					      report_number(stat->transfers), "bytes",
					      report_number(stat->bytes), "copies",
					      report_number(stat->copies), "copy_bytes",
					      report_number(stat->copy_bytes), "held_ns",
					      report_number(stat->held_ns)));
	}
	json_object_set_new(root, "direct", json_string(paths[detours->direct]));
	json_object_set_new(root, "why", report_words(detours->why));
	json_object_set_new(root, "dmabuf_exports", report_number(detours->exports));
	json_object_set_new(root, "save_ns", report_number(detours->save_ns));
	json_object_set_new(
		root, "sites",
		report_sites(detours->sites, detours->site_count, analysis->process_ns));
	return root;
}

/* --- steps ------------------------------------------------------------------------------------ */

static json_t *step_process_json(struct model *model, const struct step_process *process)
{
	json_t *object = json_object();

	process_members(object, model, process->process);
	json_object_set_new(object, "steps", report_number(process->steps));
	json_object_set_new(object, "length_p50_ns", report_number(process->length_ns));
	json_object_set_new(object, "busy_p50_ns", report_number(process->busy_ns));
	json_object_set_new(object, "held_p50_ns", report_number(process->held_ns));
	json_object_set_new(object, "network_p50_ns", report_number(process->network_ns));
	json_object_set_new(object, "synchronizations_p50", report_number(process->waits));
	json_object_set_new(object, "staged_p50", report_number(process->stages));
	json_object_set_new(object, "registrations_p50", report_number(process->registrations));
	json_object_set_new(object, "launches_p50", report_number(process->launches));
	return object;
}

static json_t *outlier_json(struct model *model, const struct steps *steps,
			    const struct step_sample *sample)
{
	const struct step_process *middle = steps_process(steps, sample->process);
	json_t *object = json_object();

	process_members(object, model, sample->process);
	json_object_set_new(object, "step", report_number(sample->index));
	json_object_set_new(object, "length_ns", report_number(sample->length_ns));
	json_object_set_new(object, "longer_ns",
			    report_number(sample->length_ns - middle->length_ns));
	json_object_set_new(object, "held_ns", report_number(sample->held_ns));
	json_object_set_new(object, "network_ns", report_number(sample->network_ns));
	json_object_set_new(object, "synchronizations", report_number(sample->waits));
	json_object_set_new(object, "staged", report_number(sample->stages));
	json_object_set_new(object, "registrations", report_number(sample->registrations));
	json_object_set_new(object, "launches", report_number(sample->launches));
	json_object_set_new(object, "bytes", report_number(sample->bytes));
	json_object_set_new(object, "longest_ns", report_number(sample->longest_ns));
	json_object_set_new(object, "longest_place",
			    report_words(sample->longest ? sample->longest->site->place : NULL));
	return object;
}

json_t *report_steps(struct model *model, const struct analysis *analysis)
{
	const struct steps *steps = &analysis->steps;
	json_t *root = json_object(), *processes = json_array(), *outliers = json_array();

	for (unsigned i = 0; i < steps->process_count; i++)
		json_array_append_new(processes, step_process_json(model, &steps->processes[i]));
	for (unsigned i = 0; i < steps->outlier_count; i++)
		json_array_append_new(outliers, outlier_json(model, steps, &steps->outlier[i]));
	json_object_set_new(root, "source",
			    !steps->range  ? json_null()
			    : steps->found ? json_string("launches")
					   : json_string("range"));
	json_object_set_new(root, "range", report_words(steps->range));
	json_object_set_new(root, "launches_each", report_number(steps->period));
	json_object_set_new(root, "count", report_number(steps->count));
	json_object_set_new(root, "thinned", json_boolean(steps->thinned));
	json_object_set_new(root, "processes", processes);
	json_object_set_new(root, "outliers_total", report_number(steps->outliers));
	json_object_set_new(root, "outliers", outliers);
	if (steps->range && steps->straggler >= 0) {
		json_t *object = json_object();

		process_members(object, model, steps->processes[steps->straggler].process);
		json_object_set_new(object, "longer_busy_ns", report_number(steps->straggler_ns));
		json_object_set_new(root, "straggler", object);
	} else {
		json_object_set_new(root, "straggler", json_null());
	}
	return root;
}

json_t *report_setup(const struct analysis *analysis)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < analysis->setup_count; i++) {
		const struct setup_stat *stat = &analysis->setup[i];
		json_t *object = json_object();

		json_object_set_new(object, "call", report_words(stat->call));
		json_object_set_new(object, "count", report_number(stat->count));
		json_object_set_new(object, "failed", report_number(stat->failed));
		json_object_set_new(object, "held_ns", report_number(stat->held_ns));
		json_object_set_new(object, "longest_ns", report_number(stat->longest_ns));
		json_array_append_new(array, object);
	}
	return array;
}
