/* SPDX-License-Identifier: Apache-2.0
 *
 * The report a person reads: steps, the network and detours.
 */
#include "viewers/report.h"

#include <string.h>

#define PEER_ROWS    8
#define SIZE_COLUMNS 6

/* "rank 3", or "pid 71" without ranks. */
static const char *process_name(struct model *model, unsigned index, char buf[64])
{
	const struct trace_info *info = &model_process(model, index)->info;

	if (info->rank >= 0)
		(void)snprintf(buf, 64, "rank %d", info->rank);
	else
		(void)snprintf(buf, 64, "pid %lld", (long long)info->pid);
	return buf;
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* --- steps ------------------------------------------------------------------------------------ */

/* What a long step had more of than its like, costliest first where that is time. */
static void differences(FILE *out, const struct step_sample *step, const struct step_process *like)
{
	char text[24], place[1024];
	bool any = false;

	if (step->held_ns > like->held_ns) {
		(void)fprintf(out, ": %s more in calls that hold the host",
			      words_ns(step->held_ns - like->held_ns, text));
		any = true;
	}
	if (step->network_ns > like->network_ns) {
		(void)fprintf(out, "%s %s more waiting for the network", any ? "," : ":",
			      words_ns(step->network_ns - like->network_ns, text));
		any = true;
	}
	if (step->waits > like->waits)
		(void)fprintf(out, "%s %u more synchronization%s", any ? "," : ":",
			      step->waits - like->waits, plural(step->waits - like->waits));
	any |= step->waits > like->waits;
	if (step->registrations > like->registrations)
		(void)fprintf(out, "%s %u more registration%s", any ? "," : ":",
			      step->registrations - like->registrations,
			      plural(step->registrations - like->registrations));
	any |= step->registrations > like->registrations;
	if (step->launches > like->launches)
		(void)fprintf(out, "%s %u more launch%s", any ? "," : ":",
			      step->launches - like->launches,
			      step->launches - like->launches == 1 ? "" : "es");
	any |= step->launches > like->launches;
	if (!any)
		(void)fputs(": the host was busy with something that is not recorded", out);
	(void)fputc('\n', out);
	if (step->longest && step->held_ns > like->held_ns)
		(void)fprintf(out, "      longest: %s at %s\n", words_ns(step->longest_ns, text),
			      words_clean(step->longest->site->place, place, sizeof(place)));
}

void report_steps_text(FILE *out, struct model *model, const struct analysis *analysis)
{
	const struct steps *steps = &analysis->steps;
	char name[128], length[24], busy[24], held[24], network[24], who[64], count[32];

	if (!steps->range || !steps->count)
		return;
	if (steps->found)
		(void)fprintf(out,
			      "\nSteps: %s, found where a sequence of %u launches begins again",
			      words_count(steps->count, count), steps->period);
	else
		(void)fprintf(out, "\nSteps: %s, the range '%s'", words_count(steps->count, count),
			      words_clean(steps->range, name, sizeof(name)));
	(void)fprintf(out, "%s\n  %-12s %7s %9s %9s %9s %9s %6s\n",
		      steps->thinned ? " (the first of more)" : "", "medians", "steps", "length",
		      "busy", "held", "network", "syncs");
	for (unsigned i = 0; i < steps->process_count; i++) {
		const struct step_process *one = &steps->processes[i];

		if (i == 16) {
			(void)fprintf(out, "  ... and %u more processes\n",
				      steps->process_count - i);
			break;
		}
		(void)fprintf(out, "  %-12s %7llu %9s %9s %9s %9s %6u\n",
			      process_name(model, one->process, who),
			      (unsigned long long)one->steps, words_ns(one->length_ns, length),
			      words_ns(one->busy_ns, busy), words_ns(one->held_ns, held),
			      words_ns(one->network_ns, network), one->waits);
	}
	if (steps->straggler >= 0)
		(void)fprintf(
			out,
			"  The others wait for %s: it is busy %s longer in each step than the "
			"median of them\n",
			process_name(model, steps->processes[steps->straggler].process, who),
			words_ns(steps->straggler_ns, busy));
	if (steps->outliers * 5 > steps->count) {
		(void)fprintf(out,
			      "  The steps differ among themselves: %s are much longer than the "
			      "median\n",
			      words_count(steps->outliers, count));
		return;
	}
	if (steps->outliers)
		(void)fprintf(out, "  %s step%s much longer than the median:\n",
			      words_count(steps->outliers, count), plural(steps->outliers));
	for (unsigned i = 0; i < steps->outlier_count; i++) {
		const struct step_sample *step = &steps->outlier[i];
		const struct step_process *like = steps_process(steps, step->process);

		(void)fprintf(out, "    step %u of %s took %s, %s longer", step->index,
			      process_name(model, step->process, who),
			      words_ns(step->length_ns, length),
			      words_ns(step->length_ns - like->length_ns, busy));
		differences(out, step, like);
	}
}

/* --- devices ---------------------------------------------------------------------------------- */

void report_devices_text(FILE *out, const struct analysis *analysis)
{
	char kernels[32], span[24], busy[24], idle[24], copies[24], place[1024];
	unsigned shown = 0;

	if (!analysis->device_count)
		return;
	(void)fprintf(out, "\nDevices%s\n  %6s %9s %9s %9s %9s %12s\n",
		      analysis->devices_thinned ? " (the first part of the recording)" : "",
		      "device", "kernels", "span", "busy", "copying", "idle by waits");
	for (unsigned i = 0; i < analysis->device_count; i++) {
		const struct device_stat *stat = &analysis->devices[i];

		(void)fprintf(out, "  %6u %9s %9s %9s %9s %13s\n", stat->device,
			      words_count(stat->kernels, kernels), words_ns(stat->span_ns, span),
			      words_ns(stat->busy_ns, busy), words_ns(stat->copy_busy_ns, copies),
			      words_ns(stat->wait_idle_ns, idle));
	}
	for (unsigned i = 0; i < analysis->site_count && shown < PEER_ROWS; i++) {
		const struct site *site = analysis->sites[i];

		if (!site->idle_ns)
			continue;
		shown++;
		(void)fprintf(out, "    idle %s because of %s\n", words_ns(site->idle_ns, idle),
			      words_clean(site->place, place, sizeof(place)));
	}
}

/* --- detours ---------------------------------------------------------------------------------- */

static void detour_line(FILE *out, const struct detours *detours, enum detour_kind kind,
			const char *what)
{
	const struct detour_stat *stat = &detours->kinds[kind];
	char bytes[24], held[24], transfers[32], copies[32];

	if (!stat->bytes)
		return;
	(void)fprintf(out, "  %9s %s", words_bytes(stat->bytes, bytes), what);
	if (stat->transfers)
		(void)fprintf(out, ", %s transfer%s", words_count(stat->transfers, transfers),
			      plural(stat->transfers));
	if (stat->copies)
		(void)fprintf(out, ", %s cop%s that held the host %s",
			      words_count(stat->copies, copies), stat->copies == 1 ? "y" : "ies",
			      words_ns(stat->held_ns, held));
	(void)fputc('\n', out);
}

#define SETUP_SHOWN 4 /* calls named in the text */

/* What getting ready took, and how device memory will go; the latter only where there is any. */
void report_setup_text(FILE *out, const struct analysis *analysis)
{
	const struct detours *detours = &analysis->detours;
	uint64_t calls = 0, detoured = 0;
	char total[24], count[32], why[320];

	for (unsigned i = 0; i < analysis->setup_count; i++)
		calls += analysis->setup[i].count;
	for (unsigned i = 0; i < DETOUR_KINDS; i++)
		detoured += detours->kinds[i].bytes;
	if (!calls)
		return;
	(void)fprintf(out, "\nSet-up of libfabric: %s in %s calls",
		      words_ns(analysis->setup_ns, total), words_count(calls, count));
	for (unsigned i = 0; i < analysis->setup_count && i < SETUP_SHOWN; i++)
		(void)fprintf(out, "%s %s %s (%s)", i ? "," : ";\n ", analysis->setup[i].call,
			      words_ns(analysis->setup[i].held_ns, total),
			      words_count(analysis->setup[i].count, count));
	(void)fputc('\n', out);
	if (*detours->why && !detoured &&
	    (analysis->launches || analysis->copy_count || detours->direct == DIRECT_USED ||
	     detours->direct == DIRECT_REFUSED))
		(void)fprintf(out, "  %s\n", words_clean(detours->why, why, sizeof(why)));
}

void report_detours_text(FILE *out, const struct analysis *analysis)
{
	const struct detours *detours = &analysis->detours;
	char place[1024], count[32], held[24], bytes[24], save[24], why[320];
	uint64_t total = 0;

	for (unsigned i = 0; i < DETOUR_KINDS; i++)
		total += detours->kinds[i].bytes;
	if (!total)
		return;
	(void)fprintf(out, "\nDetours through host memory\n");
	detour_line(out, detours, DETOUR_COPIED_OUT, "copied to the host, then sent");
	detour_line(out, detours, DETOUR_COPIED_IN, "received, then copied to the device");
	detour_line(out, detours, DETOUR_MAPPED_OUT,
		    "sent from pinned memory that no copy had filled (by kernels, or the host)");
	detour_line(out, detours, DETOUR_MAPPED_IN,
		    "received into pinned memory that no copy emptied (by kernels, or the host)");
	detour_line(out, detours, DETOUR_IN_PROVIDER, "copied inside libfabric calls");
	for (unsigned i = 0; i < detours->site_count && i < PEER_ROWS; i++) {
		const struct site *site = detours->sites[i];

		(void)fprintf(out, "    %s cop%s of %s (%s) at %s\n",
			      words_count(site->count, count), site->count == 1 ? "y" : "ies",
			      words_bytes(site->bytes, bytes), words_ns(site->held.sum_ns, held),
			      words_clean(site->place, place, sizeof(place)));
	}
	if (detours->kinds[DETOUR_COPIED_OUT].bytes || detours->kinds[DETOUR_COPIED_IN].bytes)
		(void)fprintf(out,
			      "  By address; that the host rewrote the memory in between cannot be "
			      "excluded\n");
	if (*detours->why)
		(void)fprintf(out, "  %s\n", words_clean(detours->why, why, sizeof(why)));
	if (detours->save_ns)
		(void)fprintf(out, "  Going directly would save about %s of copies\n",
			      words_ns(detours->save_ns, save));
}

/* --- the network ------------------------------------------------------------------------------ */

static void sizes(FILE *out, const struct analysis *analysis)
{
	uint64_t counts[TRANSFER_SIZES] = {0}, moved[TRANSFER_SIZES] = {0};
	char bytes[24], sum[24], count[32];
	unsigned shown = 0;

	for (unsigned op = 0; op < WL_ofi_op_MAX; op++)
		for (unsigned i = 0; i < TRANSFER_SIZES; i++) {
			counts[i] += analysis->transfers[op].sizes[i];
			moved[i] += analysis->transfers[op].size_bytes[i];
		}
	(void)fputs("  by size (at most):", out);
	for (unsigned i = 0; i < TRANSFER_SIZES; i++) {
		if (!counts[i])
			continue;
		(void)fprintf(out, "%s %s: %s (%s)", shown % SIZE_COLUMNS ? "," : "\n   ",
			      words_bytes((uint64_t)1 << i, bytes), words_count(counts[i], count),
			      words_bytes(moved[i], sum));
		shown++;
	}
	(void)fputc('\n', out);
}

static bool more_bytes(const struct peer_stat *a, const struct peer_stat *b)
{
	return a->bytes > b->bytes;
}

/* The busiest pairs, most bytes first. */
static void peers(FILE *out, struct model *model, const struct analysis *analysis)
{
	static const char *const ops[] = {
		"other", "send",   "recv",         "tagged send",    "tagged recv", "read",
		"write", "atomic", "fetch atomic", "compare atomic", "collective"};
	const struct peer_stat *best[PEER_ROWS];
	char who[64], count[32], bytes[24], rate[24], p50[24], p99[24], peer_text[24];
	unsigned kept = 0;

	for (unsigned i = 0; i < analysis->peer_count; i++) {
		unsigned at = kept < PEER_ROWS ? kept++ : PEER_ROWS;

		while (at > 0 && more_bytes(analysis->peers[i], best[at - 1])) {
			if (at < PEER_ROWS)
				best[at] = best[at - 1];
			at--;
		}
		if (at < PEER_ROWS)
			best[at] = analysis->peers[i];
	}
	(void)fprintf(out, "  %-10s %-12s %6s %9s %9s %11s %9s %9s\n", "process", "operation",
		      "peer", "count", "bytes", "bandwidth", "p50", "p99");
	for (unsigned i = 0; i < kept; i++) {
		const struct peer_stat *peer = best[i];

		if (peer->peer == UINT64_MAX)
			(void)snprintf(peer_text, sizeof(peer_text), "any");
		else
			(void)snprintf(peer_text, sizeof(peer_text), "%llu",
				       (unsigned long long)peer->peer);
		(void)fprintf(out, "  %-10s %-12s %6s %9s %9s %9s/s %9s %9s\n",
			      process_name(model, peer->process, who), ops[peer->op], peer_text,
			      words_count(peer->count, count), words_bytes(peer->bytes, bytes),
			      peer->busy_ns ? words_bytes((uint64_t)((double)peer->bytes * 1e9 /
								     (double)peer->busy_ns),
							  rate)
					    : "-",
			      words_ns(histogram_percentile(&peer->latency, 50), p50),
			      words_ns(histogram_percentile(&peer->latency, 99), p99));
	}
	if (analysis->peer_count > kept)
		(void)fprintf(out, "  ... and %u more (waylay report --json lists all)\n",
			      analysis->peer_count - kept);
}

void report_network_text(FILE *out, struct model *model, const struct analysis *analysis)
{
	const struct network_stat *network = &analysis->network;
	char idle[24], span[24], peak[24], mean[24];

	if (!analysis->peer_count)
		return;
	sizes(out, analysis);
	peers(out, model, analysis);
	(void)fprintf(out,
		      "  the network was idle %s of %s between the first post and the last "
		      "completion (%.0f %%); at most %s in flight, %s on the average\n",
		      words_ns(network->span_ns - network->busy_ns, idle),
		      words_ns(network->span_ns, span),
		      network->span_ns ? 100.0 * (double)(network->span_ns - network->busy_ns) /
						 (double)network->span_ns
				       : 0.0,
		      words_bytes(network->peak_bytes, peak),
		      words_bytes(network_mean_bytes(network), mean));
}
