/* SPDX-License-Identifier: Apache-2.0
 *
 * How often the records are read: once, and once more where that has shown what the steps are and
 * something is to be counted in them.
 */
#include "viewers/analysis_pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sites and ranges outlive the pass inside the analysis. */
struct owned {
	struct analysis analysis;
	struct site_table *sites, *registration_sites;
	struct range_table *ranges;
	struct reuse *reuse;
	struct transfer_table *transfers;
	struct detour_table *detours;
	struct gpu_table *gpus;
	struct period *periods; /* one a process; NULL: steps have names, or there are none */
};

static int steps_fill(struct owned *owned, const struct analysis_options *options)
{
	struct analysis *analysis = &owned->analysis;
	const char *range = steps_choose(analysis, owned->ranges,
					 owned->periods ? FOUND_STEPS
					 : options      ? options->steps
							: NULL);

	analysis->steps.straggler = -1;
	analysis->steps.found = owned->periods != NULL;
	for (unsigned i = 0; owned->periods && i < model_process_count(analysis->model); i++)
		if (owned->periods[i].launches > analysis->steps.period)
			analysis->steps.period = owned->periods[i].launches;
	return !range || steps_results(analysis, owned->ranges, range) ? 0 : -ENOMEM;
}

static int results(struct owned *owned, const struct analysis_options *options)
{
	struct analysis *analysis = &owned->analysis;

	setup_results(analysis);
	analysis->sites = site_table_sorted(owned->sites, &analysis->site_count);
	analysis->registration_sites =
		site_table_sorted(owned->registration_sites, &analysis->registration_site_count);
	if (!analysis->sites || !analysis->registration_sites ||
	    !range_table_results(owned->ranges, analysis) ||
	    !transfer_results(owned->transfers, analysis) ||
	    !detour_results(owned->detours, analysis) || !gpu_results(owned->gpus, analysis) ||
	    !reuse_curves(owned->reuse, &analysis->cache_entries, &analysis->cache_bytes))
		return -ENOMEM;
	return steps_fill(owned, options);
}

/* found: where to keep what repeats in each process's launches; NULL: steps are known. */
static int pass_run(struct pass *pass, struct owned *owned, const struct analysis_options *options,
		    struct period *found)
{
	int error = 0;

	owned->analysis.model = pass->model;
	pass->analysis = &owned->analysis;
	pass->sites = owned->sites = site_table_new(pass->model, options);
	pass->registration_sites = owned->registration_sites = site_table_new(pass->model, options);
	pass->ranges = owned->ranges = range_table_new(options);
	pass->reuse = owned->reuse = reuse_new();
	pass->transfers = owned->transfers = transfer_table_new();
	pass->detours = owned->detours = detour_table_new(pass->model);
	pass->gpus = owned->gpus = gpu_table_new();
	pass->looking = found != NULL;
	pass->periods = owned->periods;
	if (!pass->sites || !pass->registration_sites || !pass->ranges || !pass->reuse ||
	    !pass->transfers || !pass->detours || !pass->gpus)
		error = -ENOMEM;
	args_prepare(pass);
	totals(&owned->analysis);
	for (unsigned i = 0; !error && i < model_process_count(pass->model); i++) {
		pass->process = i;
		error = process_read(pass);
		if (!error && looks_for_steps(pass) &&
		    !period_find(pass->launches, pass->launch_count, &found[i]))
			error = -ENOMEM;
	}
	free(pass->launches);
	return error ? error : results(owned, options);
}

static void periods_free(struct period *periods, unsigned count)
{
	for (unsigned i = 0; periods && i < count; i++)
		free(periods[i].times);
	free(periods);
}

static bool any_period(const struct period *periods, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (periods[i].count > 1)
			return true;
	return false;
}

/* Filters that count in steps need to know them: what range they are, or where they were found. */
static bool name_steps(struct analysis_options *options, struct analysis_filter *filters,
		       const char *range)
{
	bool any = false;

	for (unsigned i = 0; i < options->filter_count; i++) {
		filters[i] = options->filters[i];
		if (filters[i].scope == ANALYSIS_STEPS) {
			filters[i].range = range;
			any = true;
		}
	}
	options->filters = filters;
	return any;
}

/* Once; again where that has shown what the steps are and something is to be counted in them. */
static int passes_run(struct model *model, const struct analysis_options *given,
		      struct owned **result)
{
	unsigned processes = model_process_count(model);
	struct period *found = calloc(processes + 1, sizeof(*found));
	struct analysis_filter filters[ANALYSIS_FILTERS_MAX];
	struct analysis_options options = given ? *given : (struct analysis_options){0};
	struct owned *owned = *result;
	struct pass pass = {.model = model};
	bool repeats, named;
	char *name;
	int error = found ? pass_run(&pass, owned, given, found) : -ENOMEM;

	repeats = !error && !owned->analysis.ranges_seen && any_period(found, processes);
	named = !error && owned->analysis.steps.range &&
		name_steps(&options, filters, owned->analysis.steps.range);
	if (error || (!repeats && !named)) {
		periods_free(found, processes);
		return error;
	}
	name = strdup(repeats ? FOUND_STEPS : owned->analysis.steps.range);
	(void)name_steps(&options, filters, name);
	options.steps = name;
	*result = calloc(1, sizeof(**result));
	analysis_free(&owned->analysis);
	if (*result && name) {
		(*result)->periods = repeats ? found : NULL;
		pass = (struct pass){.model = model};
		error = pass_run(&pass, *result, &options, NULL);
	}
	if (!*result || !repeats)
		periods_free(found, processes);
	free(name);
	return *result && name ? error : -ENOMEM;
}

int analysis_run(struct model *model, const struct analysis_options *options,
		 struct analysis **analysis, char *err, size_t err_size)
{
	struct owned *owned = calloc(1, sizeof(*owned));
	int error = owned ? passes_run(model, options, &owned) : -ENOMEM;

	*analysis = NULL;
	if (error) {
		(void)snprintf(err, err_size, "analysing the recording: %s%s", strerror(-error),
			       error == -ENOMEM ? "; give fewer recordings at once" : "");
		analysis_free(owned ? &owned->analysis : NULL);
		return error;
	}
	*analysis = &owned->analysis;
	return 0;
}

void analysis_free(struct analysis *analysis)
{
	struct owned *owned = (struct owned *)analysis;

	if (!owned)
		return;
	site_table_free(owned->sites);
	site_table_free(owned->registration_sites);
	range_table_free(owned->ranges);
	reuse_free(owned->reuse);
	transfer_table_free(owned->transfers);
	periods_free(owned->periods, analysis->model ? model_process_count(analysis->model) : 0);
	steps_free(&analysis->steps);
	free(analysis->detours.sites);
	detour_table_free(owned->detours);
	gpu_table_free(owned->gpus);
	free(analysis->devices);
	free(analysis->peers);
	free(analysis->sites);
	free(analysis->registration_sites);
	free(analysis->ranges);
	free(owned);
}

uint64_t unreturned_ns(const struct model_process *process, const struct trace_inflight *call)
{
	const struct trace_info *info = &process->info;
	int64_t seen = info->end_ns;

	/* Clocks are noted also while nothing is recorded. */
	if (info->clock_count && info->clocks[info->clock_count - 1].monotonic_ns > seen)
		seen = info->clocks[info->clock_count - 1].monotonic_ns;
	return seen > call->since_ns ? (uint64_t)(seen - call->since_ns) : 0;
}

const struct range_stat *analysis_range(const struct analysis *analysis, const char *name)
{
	for (unsigned i = 0; i < analysis->range_count; i++)
		if (strcmp(analysis->ranges[i]->name, name) == 0)
			return analysis->ranges[i];
	return NULL;
}
