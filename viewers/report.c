/* SPDX-License-Identifier: Apache-2.0
 *
 * The report a person reads: the three costliest things first, each with its line and what to do, then
 * tables sorted by cost. The same trace always gives the same words.
 */
#include "viewers/report.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_ROWS   12
#define RANGE_ROWS   24
#define RANGE_PLACES 3

#define COMMANDS 4 /* of one job, shown in the first lines */
#define CALLERS  3
#define KNEE     95 /* percent of all hits that a cache could have */

static const char *plural(uint64_t count, const char *one, const char *more)
{
	return count == 1 ? one : more;
}

/* --- the first line --------------------------------------------------------------------------- */

static const char *command_of(const struct model_process *process)
{
	if (*process->info.command)
		return process->info.command;
	return *process->info.process_name ? process->info.process_name : process->info.path;
}

/* True if another recorded process started it: what was given to a shell is said by the parent. */
static bool has_parent(struct model *model, const struct model_process *process)
{
	for (unsigned i = 0; i < model_process_count(model); i++) {
		const struct model_process *other = model_process(model, i);

		if (other != process && other->host == process->host &&
		    other->info.pid == process->info.ppid)
			return true;
	}
	return false;
}

/* The different commands of processes that no other recorded one started, in order; all are counted,
 * the first few kept. */
static unsigned commands_find(struct model *model, const char **commands)
{
	unsigned count = 0, kept = 0;

	for (unsigned i = 0; i < model_process_count(model); i++) {
		const struct model_process *process = model_process(model, i);
		unsigned k = 0;

		if (has_parent(model, process))
			continue;
		while (k < kept && strcmp(commands[k], command_of(process)) != 0)
			k++;
		if (k < kept)
			continue;
		count++;
		if (kept < COMMANDS)
			commands[kept++] = command_of(process);
	}
	return count;
}

static void header(FILE *out, struct model *model, const struct analysis *analysis)
{
	char wall[24], events[32], text[512];
	unsigned processes = model_process_count(model), hosts = model_host_count(model);
	const char *commands[COMMANDS] = {0};
	unsigned count = commands_find(model, commands);

	for (unsigned i = 0; i < count && i < COMMANDS; i++)
		(void)fprintf(out, "%s\n", words_clean(commands[i], text, sizeof(text)));
	if (count > COMMANDS)
		(void)fprintf(out, "... and %u more commands\n", count - COMMANDS);
	(void)fprintf(out, "%u process%s on %u host%s, %s, %s events%s\n", processes,
		      plural(processes, "", "es"), hosts, plural(hosts, "", "s"),
		      words_ns((uint64_t)analysis->wall_ns, wall),
		      words_count(analysis->events, events),
		      analysis->simulated ? " (simulated CUDA driver)" : "");
}

/* --- the costliest ---------------------------------------------------------------------------- */

static void site_line(FILE *out, unsigned number, const struct site *site, const char *what)
{
	char held[24], count[32], place[1024];

	(void)fprintf(out, "  %u. %s %s%s held the host %s: %s\n", number,
		      words_count(site->count, count), what, plural(site->count, "", "s"),
		      words_ns(site->held.sum_ns, held),
		      words_clean(site->place, place, sizeof(place)));
}

/* Of the time of all processes together. */
static const char *words_share(uint64_t part, uint64_t whole, char buf[16])
{
	(void)snprintf(buf, 16, "%.1f %%", whole ? 100.0 * (double)part / (double)whole : 0.0);
	return buf;
}

/* How the place was reached: a helper's line says little without it. */
static void callers(FILE *out, const struct site *site)
{
	char caller[1024], count[32], held[24];
	unsigned shown = 0;

	if (site->ways && site->ways->native)
		(void)fprintf(out, "     natively in %s\n",
			      words_clean(site->ways->native, caller, sizeof(caller)));
	for (const struct site_way *way = site->ways; way; way = way->next) {
		if (!*way->caller)
			continue;
		if (shown++ == CALLERS) {
			(void)fprintf(out, "     and from elsewhere\n");
			return;
		}
		(void)fprintf(out, "     %s (%s) called from %s\n", words_count(way->count, count),
			      words_ns(way->held_ns, held),
			      words_clean(way->caller, caller, sizeof(caller)));
	}
}

static void cuda_site(FILE *out, unsigned number, const struct site *site)
{
	const struct wl_rule_info *rule = wl_rule_info(site->rule);

	if (site->cls == WL_call_class_stages)
		site_line(out, number, site, "staged call");
	else
		site_line(out, number, site, "synchronization");
	callers(out, site);
	(void)fprintf(out, "     %s: %s\n", rule->word, rule->condition);
	if (*rule->remedy)
		(void)fprintf(out, "     -> %s\n", rule->remedy);
}

static void registration_site(FILE *out, unsigned number, const struct site *site)
{
	site_line(out, number, site, "memory registration");
	callers(out, site);
	if (site->repeated)
		(void)fprintf(out,
			      "     %llu of them of a range that had been registered before\n"
			      "     -> keep registrations in a cache\n",
			      (unsigned long long)site->repeated);
	else
		(void)fprintf(out, "     -> register once, before the first step\n");
}

static void costliest(FILE *out, const struct analysis *analysis)
{
	unsigned cuda = 0, fabric = 0;

	if (!analysis->site_count && !analysis->registration_site_count)
		return;
	(void)fprintf(out, "\nCostliest\n");
	for (unsigned number = 1; number <= 3; number++) {
		const struct site *a = cuda < analysis->site_count ? analysis->sites[cuda] : NULL;
		const struct site *b = fabric < analysis->registration_site_count
					       ? analysis->registration_sites[fabric]
					       : NULL;

		if (!a && !b)
			break;
		if (a && (!b || a->held.sum_ns >= b->held.sum_ns)) {
			cuda_site(out, number, a);
			cuda++;
		} else {
			registration_site(out, number, b);
			fabric++;
		}
	}
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Where a range waits, staged and registered: its costliest lines. */
static void range_places(FILE *out, const struct range_stat *range)
{
	char count[32], held[24], place[1024], caller[1024];

	for (unsigned i = 0; i < range->way_count && i < RANGE_PLACES; i++) {
		const struct site_way *way = range->ways[i].way;

		(void)fprintf(
			out, "    %s %s (%s) at %s%s%s\n", words_count(range->ways[i].count, count),
			way->site->cls == WL_call_class_none ? "registration"
							     : wl_rule_info(way->site->rule)->word,
			words_ns(range->ways[i].held_ns, held),
			words_clean(way->site->place, place, sizeof(place)),
			*way->caller ? ", called from " : "",
			words_clean(way->caller, caller, sizeof(caller)));
	}
	if (range->way_count > RANGE_PLACES)
		(void)fprintf(out, "    ... and at %u more places\n",
			      range->way_count - RANGE_PLACES);
}

static void ranges(FILE *out, const struct analysis *analysis)
{
	char length[24], held[24], name[64];
	unsigned i;

	if (!analysis->range_count)
		return;
	(void)fprintf(out, "\n%-28s %9s %10s %6s %8s %9s %10s\n", "Ranges (NVTX)", "instances",
		      "syncs/each", "worst", "staged", "held", "length p50");
	for (i = 0; i < analysis->range_count && i < RANGE_ROWS; i++) {
		const struct range_stat *range = analysis->ranges[i];
		double each =
			range->instances ? (double)range->waits / (double)range->instances : 0;

		(void)fprintf(out, "  %-26s %9llu %10.1f %6llu %8llu %9s %10s%s\n",
			      words_clean(range->name, name, 27),
			      (unsigned long long)range->instances, each,
			      (unsigned long long)range->waits_worst,
			      (unsigned long long)range->stages, words_ns(range->held_ns, held),
			      words_ns(histogram_percentile(&range->length, 50), length),
			      range->unclosed ? "  (some have no end)" : "");
		range_places(out, range);
	}
	if (i < analysis->range_count || analysis->ranges_left)
		(void)fprintf(out, "  ... and %s%u more names (waylay report --json lists %s)\n",
			      analysis->ranges_left ? "more than " : "", analysis->range_count - i,
			      analysis->ranges_left ? "the first 4,096" : "all");
}

static void sites(FILE *out, const struct analysis *analysis, unsigned cls, const char *title,
		  uint64_t total)
{
	char held[24], share[16], p50[24], p99[24], bytes[24], place[1024], count[32];
	unsigned shown = 0, left = 0;

	if (!total)
		return;
	(void)fprintf(out, "\n%s: %s\n  %9s %9s %7s %9s %9s %9s  %-18s %s\n", title,
		      words_count(total, count), "count", "held", "share", "p50", "p99", "bytes",
		      "rule", "place");
	for (unsigned i = 0; i < analysis->site_count; i++) {
		const struct site *site = analysis->sites[i];

		if (site->cls != cls)
			continue;
		if (shown == TABLE_ROWS) {
			left++;
			continue;
		}
		shown++;
		(void)fprintf(out, "  %9s %9s %7s %9s %9s %9s  %-18s %s\n",
			      words_count(site->count, count), words_ns(site->held.sum_ns, held),
			      words_share(site->held.sum_ns, analysis->process_ns, share),
			      words_ns(histogram_percentile(&site->held, 50), p50),
			      words_ns(histogram_percentile(&site->held, 99), p99),
			      site->bytes ? words_bytes(site->bytes, bytes) : "-",
			      wl_rule_info(site->rule)->word,
			      words_clean(site->place, place, sizeof(place)));
	}
	if (left)
		(void)fprintf(out, "  ... and %u more places (waylay report --json lists all)\n",
			      left);
}

static void copies(FILE *out, const struct analysis *analysis)
{
	static const char *const kinds[] = {"unknown", "pageable", "pinned",
					    "device",  "managed",  "array"};
	static const char *const classes[] = {"-", "waits", "stages", "polls", "asynchronous"};
	char bytes[24], held[24], count[32];

	if (!analysis->copy_count)
		return;
	(void)fprintf(out, "\nCopies\n  %9s %9s %9s  %-10s %-10s %s\n", "count", "bytes", "held",
		      "from", "to", "host");
	for (unsigned i = 0; i < analysis->copy_count; i++) {
		const struct copy_stat *copy = &analysis->copies[i];

		(void)fprintf(out, "  %9s %9s %9s  %-10s %-10s %s\n",
			      words_count(copy->count, count), words_bytes(copy->bytes, bytes),
			      words_ns(copy->held_ns, held),
			      kinds[copy->src_kind < 6 ? copy->src_kind : 0],
			      kinds[copy->dst_kind < 6 ? copy->dst_kind : 0],
			      classes[copy->cls < 5 ? copy->cls : 0]);
	}
}

/* What a cache would have saved, or that there is one. */
static void cache(FILE *out, const struct analysis *analysis)
{
	const struct reuse_point *entries = reuse_knee(&analysis->cache_entries, KNEE);
	const struct reuse_point *bytes_at = reuse_knee(&analysis->cache_bytes, KNEE);
	char count[32], capacity[32], bytes[24], saved[24];

	if (entries && bytes_at) {
		(void)fprintf(
			out,
			"  %s of them of ranges registered before: caches of %s registrations "
			"(or %s) a process would have saved %d %% of these, at most %s\n",
			words_count(analysis->registrations_repeated, count),
			words_count(entries->capacity, capacity),
			words_bytes(bytes_at->capacity, bytes), KNEE,
			words_ns(entries->time_ns, saved));
	} else if (analysis->registrations && analysis->posts >= 10 * analysis->registrations) {
		(void)fprintf(out,
			      "  No range was registered again, for %s transfers: a cache is "
			      "evidently there\n",
			      words_count(analysis->posts, count));
	}
}

/* By what memory it is, where it is not all the host's; and how long it stays. */
static void registered_kinds(FILE *out, const struct analysis *analysis)
{
	static const char *const kinds[REGISTERED_KINDS] = {"host memory", "device memory",
							    "device memory as DMA-BUF"};
	char bytes[24], time[24], count[32], p50[24], p99[24];

	for (unsigned i = 0; i < REGISTERED_KINDS; i++) {
		const struct registration_stat *stat = &analysis->registered[i];

		if (stat->count && stat->count != analysis->registrations)
			(void)fprintf(out, "  %s of %s, %s, took %s\n",
				      words_count(stat->count, count), kinds[i],
				      words_bytes(stat->bytes, bytes),
				      words_ns(stat->time_ns, time));
	}
	if (analysis->registration_lifetime.count)
		(void)fprintf(
			out, "  kept for %s (p50), %s (p99)\n",
			words_ns(histogram_percentile(&analysis->registration_lifetime, 50), p50),
			words_ns(histogram_percentile(&analysis->registration_lifetime, 99), p99));
}

static void registrations(FILE *out, const struct analysis *analysis)
{
	char bytes[24], held[24], peak[24], kept[24], live[24], count[32], place[1024];

	if (!analysis->registrations && !analysis->registrations_failed)
		return;
	(void)fprintf(
		out, "\nMemory registrations: %s of %s took %s; peak %s; %llu (%s) live at the end",
		words_count(analysis->registrations, count),
		words_bytes(analysis->registered_bytes, bytes),
		words_ns(analysis->registration_ns, held),
		words_bytes(analysis->registered_peak_bytes, peak),
		(unsigned long long)analysis->registrations_live,
		words_bytes(analysis->registered_live_bytes, live));
	if (analysis->registrations_failed)
		(void)fprintf(out, "; %llu failed",
			      (unsigned long long)analysis->registrations_failed);
	(void)fputc('\n', out);
	registered_kinds(out, analysis);
	cache(out, analysis);
	(void)fprintf(out, "  %9s %9s %9s %9s %9s %9s  %s\n", "count", "again", "time", "bytes",
		      "peak", "kept p50", "place");
	for (unsigned i = 0; i < analysis->registration_site_count && i < TABLE_ROWS; i++) {
		const struct site *site = analysis->registration_sites[i];

		(void)fprintf(
			out, "  %9s %9llu %9s %9s %9s %9s  %s\n", words_count(site->count, count),
			(unsigned long long)site->repeated, words_ns(site->held.sum_ns, held),
			words_bytes(site->bytes, bytes),
			site->life ? words_bytes(site->life->peak_bytes, peak) : "-",
			site->life && site->life->lifetime.count
				? words_ns(histogram_percentile(&site->life->lifetime, 50), kept)
				: "-",
			words_clean(site->place, place, sizeof(place)));
	}
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
	return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

static void transfers(FILE *out, const struct analysis *analysis)
{
	static const char *const ops[] = {
		"other", "send",   "recv",         "tagged send",    "tagged recv", "read",
		"write", "atomic", "fetch atomic", "compare atomic", "collective"};
	char count[32], bytes[24], rate[24], p50[24], p99[24];

	if (!analysis->posts)
		return;
	(void)fprintf(out, "\nTransfers: %s posted, ", words_count(analysis->posts, count));
	(void)fprintf(out, "%s completions read, ", words_count(analysis->completions, count));
	(void)fprintf(out, "%s empty polls\n  %-14s %9s %9s %11s %9s %9s %8s %10s %9s\n",
		      words_count(analysis->empty_polls, count), "operation", "count", "bytes",
		      "bandwidth", "p50", "p99", "retries", "unfinished", "by order");
	for (unsigned op = 0; op < WL_ofi_op_MAX; op++) {
		const struct transfer_stat *stat = &analysis->transfers[op];

		if (stat->count)
			(void)fprintf(out, "  %-14s %9s %9s %9s/s %9s %9s %8llu %10llu %9llu\n",
				      ops[op], words_count(stat->count, count),
				      words_bytes(stat->bytes, bytes),
				      words_bytes(per_second(stat->bytes, stat->busy_ns), rate),
				      words_ns(histogram_percentile(&stat->latency, 50), p50),
				      words_ns(histogram_percentile(&stat->latency, 99), p99),
				      (unsigned long long)stat->retries,
				      (unsigned long long)stat->unfinished,
				      (unsigned long long)stat->approximate);
	}
}

/* --- what was going on at the end, and what is missing ---------------------------------------- */

static void hanging(FILE *out, struct model *model)
{
	struct trace_inflight calls[64];
	bool titled = false;

	for (unsigned p = 0; p < model_process_count(model); p++) {
		const struct model_process *process = model_process(model, p);
		unsigned count = model_inflight(model, p, calls, 64);

		for (unsigned i = 0; i < count; i++) {
			char since[24], place[1024] = "", shown[1024], api[128];

			(void)model_frame_text(model_site(model, p, calls[i].stack), place,
					       sizeof(place));
			if (!titled)
				(void)fprintf(out, "\nNever returned\n");
			titled = true;
			(void)fprintf(out, "  pid %lld: %s for at least %s  %s\n",
				      (long long)process->info.pid,
				      words_clean(calls[i].api, api, sizeof(api)),
				      words_ns(unreturned_ns(process, &calls[i]), since),
				      words_clean(place, shown, sizeof(shown)));
		}
	}
}

static void missing(FILE *out, struct model *model)
{
	char count[32], text[512], damage[512];

	for (unsigned p = 0; p < model_process_count(model); p++) {
		const struct model_process *process = model_process(model, p);

		for (unsigned reason = 0; reason < TRACE_DROP_MAX; reason++)
			if (process->info.drops[reason])
				(void)fprintf(out, "Missing: pid %lld lost %s records (%s)\n",
					      (long long)process->info.pid,
					      words_count(process->info.drops[reason], count),
					      trace_drop_name((enum trace_drop)reason));
		if (process->info.damaged)
			(void)fprintf(
				out, "Missing: %s: %s\n",
				words_clean(process->info.path, text, sizeof(text)),
				words_clean(process->info.damage ? process->info.damage : "damaged",
					    damage, sizeof(damage)));
	}
}

/* What the tracer could not do in the processes, each thing once. */
static void limits(FILE *out, struct model *model)
{
	static const char *const keys[] = {"python-frames", "native-stacks", "spool.fallback",
					   "spool.unreachable", "spool.clock"};
	char text[512];

	for (unsigned k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const char *said = NULL;

		for (unsigned p = 0; p < model_process_count(model); p++) {
			const char *value = process_attribute(model_process(model, p), keys[k]);

			if (!value || (said && strcmp(said, value) == 0))
				continue;
			(void)fprintf(out, "Note: %s: %s\n", keys[k],
				      words_clean(value, text, sizeof(text)));
			said = value;
		}
	}
}

void report_text(FILE *out, struct model *model, const struct analysis *analysis)
{
	header(out, model, analysis);
	costliest(out, analysis);
	report_steps_text(out, model, analysis);
	ranges(out, analysis);
	sites(out, analysis, WL_call_class_waits, "Synchronizations", analysis->waits);
	sites(out, analysis, WL_call_class_stages, "Staged copies", analysis->stages);
	copies(out, analysis);
	report_devices_text(out, analysis);
	report_detours_text(out, analysis);
	report_setup_text(out, analysis);
	registrations(out, analysis);
	transfers(out, analysis);
	report_network_text(out, model, analysis);
	hanging(out, model);
	missing(out, model);
	limits(out, model);
	if (!analysis->events)
		(void)fprintf(out,
			      "\nNothing was recorded: the job made no CUDA or libfabric call "
			      "that Waylay knows. `waylay doctor` says what can be traced here.\n");
}
