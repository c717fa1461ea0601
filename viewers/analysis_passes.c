/* SPDX-License-Identifier: Apache-2.0
 *
 * How often the records are read: once, and ranges once more where that has shown what the steps are and
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
};

/* Ranges and steps, of what the range table counted. wanted: the range that is the steps; NULL: the
 * likeliest. */
static int ranges_results(struct owned *owned, const char *wanted)
{
	struct analysis *analysis = &owned->analysis;
	const char *range;

	free(analysis->ranges);
	analysis->ranges = NULL;
	steps_free(&analysis->steps);
	memset(&analysis->steps, 0, sizeof(analysis->steps));
	if (!range_table_results(owned->ranges, analysis))
		return -ENOMEM;
	range = steps_choose(analysis, owned->ranges, wanted);
	analysis->steps.straggler = -1;
	return !range || steps_results(analysis, owned->ranges, range) ? 0 : -ENOMEM;
}

static int results(struct owned *owned)
{
	struct analysis *analysis = &owned->analysis;

	setup_results(analysis);
	analysis->sites = site_table_sorted(owned->sites, &analysis->site_count);
	analysis->registration_sites =
		site_table_sorted(owned->registration_sites, &analysis->registration_site_count);
	if (!analysis->sites || !analysis->registration_sites ||
	    !transfer_results(owned->transfers, analysis) ||
	    !detour_results(owned->detours, analysis) || !gpu_results(owned->gpus, analysis) ||
	    !reuse_curves(owned->reuse, &analysis->cache_entries, &analysis->cache_bytes))
		return -ENOMEM;
	for (unsigned i = 0; i < analysis->registration_site_count; i++)
		analysis->registrations_repeated += analysis->registration_sites[i]->repeated;
	return 0;
}

static int processes_read(struct pass *pass)
{
	int error = 0;

	args_prepare(pass);
	for (unsigned i = 0; !error && i < model_process_count(pass->model); i++) {
		pass->process = i;
		error = process_read(pass);
	}
	free(pass->launches);
	pass->launches = NULL;
	return error;
}

/* found: where to keep what repeats in each process's launches. */
static int first_pass(struct model *model, struct owned *owned,
		      const struct analysis_options *options, struct period *found)
{
	struct pass pass = {.model = model, .analysis = &owned->analysis, .found = found};
	int error;

	owned->analysis.model = model;
	pass.sites = owned->sites = site_table_new(model, options);
	pass.registration_sites = owned->registration_sites = site_table_new(model, options);
	pass.ranges = owned->ranges = range_table_new(options);
	pass.reuse = owned->reuse = reuse_new();
	pass.transfers = owned->transfers = transfer_table_new();
	pass.detours = owned->detours = detour_table_new(model);
	pass.gpus = owned->gpus = gpu_table_new();
	if (!pass.sites || !pass.registration_sites || !pass.ranges || !pass.reuse ||
	    !pass.transfers || !pass.detours || !pass.gpus)
		return -ENOMEM;
	totals(&owned->analysis);
	error = processes_read(&pass);
	return error ? error : results(owned);
}

/* Counts in ranges once more, now that it is known what the steps are. */
static int second_pass(struct owned *owned, const struct analysis_options *options,
		       const struct period *periods)
{
	struct analysis *unused = calloc(1, sizeof(*unused));
	struct pass pass = {.model = owned->analysis.model,
			    .analysis = unused,
			    .again = true,
			    .periods = periods,
			    .sites = owned->sites,
			    .registration_sites = owned->registration_sites};
	int error = -ENOMEM;

	range_table_free(owned->ranges);
	pass.ranges = owned->ranges = range_table_new(options);
	if (unused && owned->ranges)
		error = processes_read(&pass);
	free(unused);
	return error;
}

static void periods_free(struct period *periods, unsigned count)
{
	for (unsigned i = 0; periods && i < count; i++)
		free(periods[i].times);
	free(periods);
}

/* The most launches a step that were found; 0: none repeat. */
static unsigned longest_period(const struct period *periods, unsigned count)
{
	unsigned launches = 0;

	for (unsigned i = 0; i < count; i++)
		if (periods[i].count > 1 && periods[i].launches > launches)
			launches = periods[i].launches;
	return launches;
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

/* Once; ranges again where that has shown what the steps are and something is to be counted in them. */
static int passes_run(struct model *model, const struct analysis_options *given,
		      struct owned *owned, struct period *found)
{
	struct analysis_filter filters[ANALYSIS_FILTERS_MAX];
	struct analysis_options options = given ? *given : (struct analysis_options){0};
	struct steps *steps = &owned->analysis.steps;
	int error = first_pass(model, owned, given, found);
	unsigned period = 0;
	char *name;

	if (!error)
		error = ranges_results(owned, options.steps);
	if (error)
		return error;
	if (!owned->analysis.ranges_seen)
		period = longest_period(found, model_process_count(model));
	if (!period && !steps->range)
		return 0;
	name = strdup(period ? FOUND_STEPS : steps->range);
	if (!name)
		return -ENOMEM;
	if (name_steps(&options, filters, name) || period) {
		error = second_pass(owned, &options, period ? found : NULL);
		if (!error)
			error = ranges_results(owned, name);
		steps->found = period != 0;
		steps->period = period;
	}
	free(name);
	return error;
}

int analysis_run(struct model *model, const struct analysis_options *options,
		 struct analysis **analysis, char *err, size_t err_size)
{
	unsigned processes = model_process_count(model);
	struct owned *owned = calloc(1, sizeof(*owned));
	struct period *found = calloc(processes + 1u, sizeof(*found));
	int error = owned && found ? passes_run(model, options, owned, found) : -ENOMEM;

	periods_free(found, processes);
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
