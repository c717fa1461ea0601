/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's steps: which took long and what was different in them, and the rank for which the others
 * wait.
 */
#include "viewers/analysis_internal.h"

#include <stdlib.h>
#include <string.h>

/* A step is an outlier when it is longer than the median by a fifth and by five times the median
 * distance from it. */
#define OUTLIER_DISTANCES 5
#define OUTLIER_SHARE     5

/* A rank is a straggler when it is busy longer than the median of the others by a tenth. */
#define STRAGGLER_SHARE 10

const char *steps_choose(const struct analysis *analysis, struct range_table *table,
			 const char *wanted)
{
	const struct range_stat *best = NULL;

	if (wanted)
		return analysis_range(analysis, wanted) ? analysis_range(analysis, wanted)->name
							: NULL;
	for (unsigned i = 0; i < analysis->range_count; i++) {
		const struct range_stat *range = analysis->ranges[i];
		unsigned sounds = range_sounds_like_step(range->name);
		unsigned best_sounds = best ? range_sounds_like_step(best->name) : 0;
		size_t count;
		bool thinned;

		(void)range_samples(table, range->name, &count, &thinned);
		if (count < 2)
			continue;
		if (!best || sounds > best_sounds ||
		    (sounds == best_sounds && range->length.sum_ns > best->length.sum_ns))
			best = range;
	}
	return best ? best->name : NULL;
}

const struct step_process *steps_process(const struct steps *steps, uint32_t process)
{
	for (unsigned i = 0; i < steps->process_count; i++)
		if (steps->processes[i].process == process)
			return &steps->processes[i];
	return NULL;
}

/* --- medians ---------------------------------------------------------------------------------- */

static int ascending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The lower one of two in the middle; values are sorted in place. */
static uint64_t median(uint64_t *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), ascending);
	return values[(count - 1) / 2];
}

static uint64_t busy_of(const struct step_sample *sample)
{
	uint64_t waiting = sample->held_ns + sample->network_ns;

	return sample->length_ns > waiting ? sample->length_ns - waiting : 0;
}

static uint64_t value_of(const struct step_sample *sample, unsigned which)
{
	switch (which) {
	case 0:
		return sample->length_ns;
	case 1:
		return sample->held_ns;
	case 2:
		return sample->network_ns;
	case 3:
		return busy_of(sample);
	case 4:
		return sample->waits;
	case 5:
		return sample->stages;
	case 6:
		return sample->registrations;
	default:
		return sample->launches;
	}
}

static struct step_process medians(const struct step_sample *samples, size_t count,
				   uint64_t *scratch)
{
	uint64_t middle[8];

	for (unsigned which = 0; which < 8; which++) {
		for (size_t i = 0; i < count; i++)
			scratch[i] = value_of(&samples[i], which);
		middle[which] = median(scratch, count);
	}
	return (struct step_process){.process = samples->process,
				     .steps = count,
				     .length_ns = middle[0],
				     .held_ns = middle[1],
				     .network_ns = middle[2],
				     .busy_ns = middle[3],
				     .waits = (uint32_t)middle[4],
				     .stages = (uint32_t)middle[5],
				     .registrations = (uint32_t)middle[6],
				     .launches = (uint32_t)middle[7]};
}

/* --- outliers --------------------------------------------------------------------------------- */

static void outlier_add(struct steps *steps, const struct step_sample *sample, uint64_t excess)
{
	unsigned at = steps->outlier_count;

	steps->outliers++;
	while (at > 0) {
		const struct step_sample *other = &steps->outlier[at - 1];

		if (other->length_ns - steps_process(steps, other->process)->length_ns >= excess)
			break;
		at--;
	}
	if (at == STEP_OUTLIERS)
		return;
	if (steps->outlier_count < STEP_OUTLIERS)
		steps->outlier_count++;
	memmove(&steps->outlier[at + 1], &steps->outlier[at],
		(steps->outlier_count - 1 - at) * sizeof(*sample));
	steps->outlier[at] = *sample;
}

static void outliers(struct steps *steps, const struct step_sample *samples, size_t count,
		     uint64_t *scratch)
{
	uint64_t middle = steps->processes[steps->process_count - 1].length_ns, distance;

	if (count < 5)
		return;
	for (size_t i = 0; i < count; i++)
		scratch[i] = samples[i].length_ns > middle ? samples[i].length_ns - middle
							   : middle - samples[i].length_ns;
	distance = median(scratch, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t length = samples[i].length_ns;

		if (length > middle + OUTLIER_DISTANCES * distance &&
		    length - middle > middle / OUTLIER_SHARE)
			outlier_add(steps, &samples[i], length - middle);
	}
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void straggler_find(struct steps *steps, uint64_t *scratch)
{
	unsigned most = 0, others = 0;
	uint64_t middle;

	steps->straggler = -1;
	if (steps->process_count < 2)
		return;
	for (unsigned i = 1; i < steps->process_count; i++)
		if (steps->processes[i].busy_ns > steps->processes[most].busy_ns)
			most = i;
	for (unsigned i = 0; i < steps->process_count; i++)
		if (i != most)
			scratch[others++] = steps->processes[i].busy_ns;
	middle = median(scratch, others);
	if (steps->processes[most].busy_ns - middle <= middle / STRAGGLER_SHARE)
		return;
	steps->straggler = (int)most;
	steps->straggler_ns = steps->processes[most].busy_ns - middle;
}

bool steps_results(struct analysis *analysis, struct range_table *table, const char *range)
{
	struct steps *steps = &analysis->steps;
	size_t count, last;
	struct step_sample *samples = range_samples(table, range, &count, &steps->thinned);
	uint64_t *scratch =
		calloc(count + model_process_count(analysis->model) + 1, sizeof(*scratch));

	steps->range = range;
	steps->processes =
		calloc(model_process_count(analysis->model) + 1, sizeof(struct step_process));
	steps->straggler = -1;
	steps->count = count;
	for (size_t first = 0; scratch && steps->processes && first < count; first = last) {
		for (last = first + 1;
		     last < count && samples[last].process == samples[first].process;)
			last++;
		steps->processes[steps->process_count++] =
			medians(&samples[first], last - first, scratch);
		outliers(steps, &samples[first], last - first, scratch);
	}
	if (scratch && steps->processes)
		straggler_find(steps, scratch);
	free(scratch);
	return scratch && steps->processes;
}

void steps_free(struct steps *steps)
{
	free(steps->processes);
	steps->processes = NULL;
}
