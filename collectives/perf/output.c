/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 prints: the table that users of nccl-tests know, CSV, or JSON. Rows come out as they
 * are measured. */
#include "collectives/perf/perf.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int output_open(struct perf_output *out, const struct perf_options *o)
{
	*out = (struct perf_output){.file = stdout, .format = o->format};
	out->shown = PERF_COLLECTIVE_MAX;
	if (!o->output)
		return 0;
	out->file = fopen(o->output, "we");
	return out->file ? 0 : -errno;
}

/* --- head ----------------------------------------------------------------------------------- */

static void cache_words(const struct perf_options *o, char *text, size_t bytes)
{
	if (!o->coll.cache_entries)
		snprintf(text, bytes, "off");
	else if (o->coll.cache_bytes == SIZE_MAX)
		snprintf(text, bytes, "%zu entries", o->coll.cache_entries);
	else
		snprintf(text, bytes, "%zu entries, %zu bytes", o->coll.cache_entries,
			 o->coll.cache_bytes);
}

static void text_head(FILE *f, const struct perf_options *o, const struct world *w,
		      const struct launch *launch)
{
	char host[64] = "", cache[96];

	gethostname(host, sizeof(host) - 1);
	cache_words(o, cache, sizeof(cache));
	fprintf(f, "# " PERF_NAME " " WAYLAY_VERSION "  ranks %d (%s)  %s  rank 0: pid %d on %s\n",
		w->size, launch->source, w->one_host ? "one host" : "several hosts", (int)getpid(),
		host);
	fprintf(f, "# provider %s (%s)  path %s  algorithm %s  reduction %s\n", w->tp->provider,
		w->tp->library, perf_path_name(o->path), coll_algorithm_name(o->coll.algorithm),
		w->device ? "on the device" : coll_reduce_isa());
	if (w->device)
		fprintf(f, "# device %d: %s%s\n", w->device->ordinal, w->device->name,
			w->device->simulated
				? " (its rates are this CPU's: nothing that a device does)"
				: "");
	fprintf(f, "# registration: %s, cache %s\n",
		o->coll.registering == COLL_REGISTER_ALWAYS
			? "every buffer"
			: (w->tp->needs_regions ? "as the provider requires"
						: "none (not required)"),
		cache);
	fprintf(f, "# iters %d  warm-up %d  checked runs %d\n", o->iters, o->warmup_iters,
		o->checks);
}

void output_head(struct perf_output *out, const struct perf_options *o, const struct world *w,
		 const struct launch *launch)
{
	FILE *f = out->file;

	if (!f)
		return;
	out->world = w;
	switch (out->format) {
	case PERF_TEXT:
		text_head(f, o, w, launch);
		break;
	case PERF_CSV:
		fprintf(f,
			"collective,ranks,provider,size_bytes,count,type,redop,root,"
			"oop_time_us,oop_algbw_gbs,oop_busbw_gbs,oop_wrong,oop_cpu_s_per_gb,"
			"oop_cores,oop_registrations,oop_registration_us,oop_copy_us,oop_reduce_us,"
			"ip_time_us,ip_algbw_gbs,ip_busbw_gbs,ip_wrong,ip_cpu_s_per_gb,"
			"ip_cores,ip_registrations,ip_registration_us,ip_copy_us,ip_reduce_us\n");
		break;
	default:
		fprintf(f,
			"{\"program\":\"" PERF_NAME "\",\"version\":\"" WAYLAY_VERSION "\","
			"\"ranks\":%d,\"launcher\":\"%s\",\"one_host\":%s,\"provider\":\"%s\","
			"\"library\":\"%s\",\"path\":\"%s\",\"device\":\"%s\",\"simulated\":%s,"
			"\"algorithm\":\"%s\",\"reduction\":\"%s\",\"iters\":%d,\"results\":[",
			w->size, launch->source, w->one_host ? "true" : "false", w->tp->provider,
			w->tp->library, perf_path_name(o->path), w->device ? w->device->name : "",
			w->device && w->device->simulated ? "true" : "false",
			coll_algorithm_name(o->coll.algorithm),
			w->device ? "device" : coll_reduce_isa(), o->iters);
	}
	fflush(f);
}

/* --- rows ----------------------------------------------------------------------------------- */

static void text_heading(FILE *f, enum perf_collective c)
{
	fprintf(f, "#\n# %s\n", perf_collective_name(c));
	fprintf(f, "# %58s %-33s %s\n", "", "          out-of-place", "          in-place");
	fprintf(f, "# %10s  %12s  %8s  %6s  %6s  %9s %7s %7s %6s  %9s %7s %7s %6s  %7s %6s\n",
		"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
		"time", "algbw", "busbw", "#wrong", "cpu", "cores");
	fprintf(f, "# %10s  %12s  %8s  %6s  %6s  %9s %7s %7s %6s  %9s %7s %7s %6s  %7s\n", "(B)",
		"(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
		"(GB/s)", "", "(s/GB)");
}

static void text_figure(FILE *f, const struct perf_figure *v)
{
	char wrong[24] = "N/A";

	if (!v->valid) {
		fprintf(f, "  %9s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	if (v->wrong >= 0)
		snprintf(wrong, sizeof(wrong), "%lld", (long long)v->wrong);
	fprintf(f, "  %9.*f %7.2f %7.2f %6s", v->time_us < 1e5 ? 2 : 0, v->time_us, v->algbw,
		v->busbw, wrong);
}

static void text_row(struct perf_output *out, const struct perf_row *row)
{
	FILE *f = out->file;

	if (out->shown != row->collective)
		text_heading(f, row->collective);
	out->shown = row->collective;
	fprintf(f, "  %10zu  %12zu  %8s  %6s  %6d", row->bytes, row->count,
		row->has_type ? coll_type_name(row->type) : "none",
		row->has_op ? coll_op_name(row->op) : "none", row->root);
	text_figure(f, &row->figure[0]);
	text_figure(f, &row->figure[1]);
	fprintf(f, "  %7.3f %6.2f\n", row->figure[0].cpu_s_per_gb, row->figure[0].cores);
}

static void csv_row(struct perf_output *out, const struct perf_row *row, const struct world *w)
{
	FILE *f = out->file;

	fprintf(f, "%s,%d,%s,%zu,%zu,%s,%s,%d", perf_collective_name(row->collective), w->size,
		w->tp->provider, row->bytes, row->count,
		row->has_type ? coll_type_name(row->type) : "",
		row->has_op ? coll_op_name(row->op) : "", row->root);
	for (int i = 0; i < 2; i++) {
		const struct perf_figure *v = &row->figure[i];

		if (!v->valid) {
			fprintf(f, ",,,,,,,,,,");
			continue;
		}
		fprintf(f, ",%.3f,%.6f,%.6f,", v->time_us, v->algbw, v->busbw);
		if (v->wrong >= 0)
			fprintf(f, "%lld", (long long)v->wrong);
		fprintf(f, ",%.6f,%.3f,%.4f,%.3f,%.3f,%.3f", v->cpu_s_per_gb, v->cores,
			v->split.registrations, v->split.registration_us, v->split.copy_us,
			v->split.reduce_us);
	}
	fprintf(f, "\n");
}

static void json_row(struct perf_output *out, const struct perf_row *row)
{
	static const char *const names[2] = {"out_of_place", "in_place"};
	FILE *f = out->file;

	fprintf(f, "%s\n{\"collective\":\"%s\",\"size_bytes\":%zu,\"count\":%zu",
		out->rows ? "," : "", perf_collective_name(row->collective), row->bytes,
		row->count);
	if (row->has_type)
		fprintf(f, ",\"type\":\"%s\"", coll_type_name(row->type));
	if (row->has_op)
		fprintf(f, ",\"redop\":\"%s\"", coll_op_name(row->op));
	if (row->root >= 0)
		fprintf(f, ",\"root\":%d", row->root);
	for (int i = 0; i < 2; i++) {
		const struct perf_figure *v = &row->figure[i];

		if (!v->valid)
			continue;
		fprintf(f, ",\"%s\":{\"time_us\":%.3f,\"algbw_gbs\":%.6f,\"busbw_gbs\":%.6f",
			names[i], v->time_us, v->algbw, v->busbw);
		if (v->wrong >= 0)
			fprintf(f, ",\"wrong\":%lld", (long long)v->wrong);
		fprintf(f,
			",\"cpu_s_per_gb\":%.6f,\"cores\":%.3f,"
			"\"registrations_per_call\":%.4f,\"registration_us\":%.3f,"
			"\"copy_us\":%.3f,\"reduce_us\":%.3f}",
			v->cpu_s_per_gb, v->cores, v->split.registrations, v->split.registration_us,
			v->split.copy_us, v->split.reduce_us);
	}
	fprintf(f, "}");
}

void output_row(struct perf_output *out, const struct perf_row *row)
{
	if (!out->file)
		return;
	if (out->format == PERF_TEXT)
		text_row(out, row);
	else if (out->format == PERF_CSV)
		csv_row(out, row, out->world);
	else
		json_row(out, row);
	out->rows++;
	fflush(out->file);
}

/* --- a training step ------------------------------------------------------------------------ */

static void text_step(FILE *f, const struct perf_step *s)
{
	const struct perf_split *t = &s->split;
	double step = s->gradients_us + s->parameters_us;
	double rest = step - t->registration_us - t->copy_us - t->reduce_us;

	fprintf(f,
		"#\n# workload %s: %d layers of %d, %llu parameters as %s; %d buckets, the largest "
		"%zu bytes, %zu in all\n",
		s->name, s->layers, s->hidden, (unsigned long long)s->parameters,
		coll_type_name(s->type), s->buckets, s->largest, s->bytes);
	fprintf(f, "# %10s  %12s  %12s  %12s  %12s  %12s  %12s  %6s\n", "step (ms)", "gradients",
		"parameters", "registering", "copying", "reducing", "moving", "#wrong");
	fprintf(f, "  %10.3f  %12.3f  %12.3f  %12.3f  %12.3f  %12.3f  %12.3f  %6lld\n", step / 1e3,
		s->gradients_us / 1e3, s->parameters_us / 1e3, t->registration_us / 1e3,
		t->copy_us / 1e3, t->reduce_us / 1e3, rest / 1e3, (long long)s->wrong);
}

void output_step(struct perf_output *out, const struct perf_step *s)
{
	const struct perf_split *t = &s->split;
	FILE *f = out->file;

	if (!f)
		return;
	if (out->format == PERF_TEXT) {
		text_step(f, s);
	} else if (out->format == PERF_CSV) {
		fprintf(f,
			"\nworkload,layers,hidden,parameters,type,buckets,largest_bytes,bytes,step_us,"
			"gradients_us,parameters_us,registration_us,copy_us,reduce_us,cpu_us,wrong\n"
			"%s,%d,%d,%llu,%s,%d,%zu,%zu,%.1f,%.1f,%.1f,%.1f,%.1f,%.1f,%.1f,%lld\n",
			s->name, s->layers, s->hidden, (unsigned long long)s->parameters,
			coll_type_name(s->type), s->buckets, s->largest, s->bytes,
			s->gradients_us + s->parameters_us, s->gradients_us, s->parameters_us,
			t->registration_us, t->copy_us, t->reduce_us, t->cpu_us,
			(long long)s->wrong);
	} else {
		fprintf(f,
			"\n],\"step\":{\"workload\":\"%s\",\"layers\":%d,\"hidden\":%d,"
			"\"parameters\":%llu,\"type\":\"%s\",\"buckets\":%d,\"largest_bytes\":%zu,"
			"\"bytes\":%zu,\"step_us\":%.1f,\"gradients_us\":%.1f,"
			"\"parameters_us\":%.1f,\"registration_us\":%.1f,\"copy_us\":%.1f,"
			"\"reduce_us\":%.1f,\"cpu_us\":%.1f,\"wrong\":%lld},\"more\":[",
			s->name, s->layers, s->hidden, (unsigned long long)s->parameters,
			coll_type_name(s->type), s->buckets, s->largest, s->bytes,
			s->gradients_us + s->parameters_us, s->gradients_us, s->parameters_us,
			t->registration_us, t->copy_us, t->reduce_us, t->cpu_us,
			(long long)s->wrong);
	}
	fflush(f);
}

void output_note(struct perf_output *out, const char *what, const char *about, const char *why)
{
	if (out->file && out->format == PERF_TEXT)
		fprintf(out->file, "#\n# %s %s: %s\n", what, about, why);
}

/* --- registration costs --------------------------------------------------------------------- */

void output_registrations(struct perf_output *out, const struct perf_registration *rows, int n,
			  const struct world *w)
{
	FILE *f = out->file;

	if (!f)
		return;
	if (out->format == PERF_TEXT) {
		fprintf(f, "#\n# registration cost over %s (medians; use: half of it each way)\n",
			w->tp->provider);
		fprintf(f, "# %6s  %10s  %12s  %12s  %14s  %s\n", "memory", "size (B)",
			"register (us)", "use (us)", "deregister (us)",
			"register + deregister / use");
	} else if (out->format == PERF_CSV) {
		fprintf(f, "\ninterface,size_bytes,register_us,use_us,deregister_us\n");
	} else {
		fprintf(f, "\n],\"registrations\":[");
	}
	for (int i = 0; i < n; i++) {
		const struct perf_registration *r = &rows[i];
		double ratio =
			r->use_us > 0 ? (r->register_us + r->deregister_us) / r->use_us * 100 : 0;

		if (out->format == PERF_TEXT)
			fprintf(f, "  %6s  %10zu  %13.2f  %12.2f  %15.2f  %25.1f %%\n",
				r->interface, r->bytes, r->register_us, r->use_us, r->deregister_us,
				ratio);
		else if (out->format == PERF_CSV)
			fprintf(f, "%s,%zu,%.3f,%.3f,%.3f\n", r->interface, r->bytes,
				r->register_us, r->use_us, r->deregister_us);
		else
			fprintf(f,
				"%s\n{\"interface\":\"%s\",\"size_bytes\":%zu,\"register_us\":%.3f,\"use_us\":%.3f,"
				"\"deregister_us\":%.3f}",
				i ? "," : "", r->interface, r->bytes, r->register_us, r->use_us,
				r->deregister_us);
	}
	fflush(f);
}

/* --- tail ----------------------------------------------------------------------------------- */

void output_tail(struct perf_output *out, const struct perf_summary *s, struct world *w)
{
	const struct tp_stats *t = &w->tp->stats;
	double average = s->busbw_count ? s->busbw_sum / s->busbw_count : 0;
	struct mr_cache_counters c;
	const struct device_stats *moved = &s->moved;
	FILE *f = out->file;

	if (!f)
		return;
	coll_cache_counters(w->comm, &c);
	if (out->format == PERF_TEXT) {
		fprintf(f, "#\n# Out of bounds values : %lld %s\n", (long long)s->wrong,
			s->wrong ? "FAILED" : "OK");
		fprintf(f, "# Avg bus bandwidth    : %g\n", average);
		fprintf(f,
			"# Rank 0: %llu registrations in %.1f us, cache hits %llu, misses %llu, "
			"evictions %llu\n",
			(unsigned long long)t->registrations, (double)t->registration_ns / 1e3,
			(unsigned long long)c.hits, (unsigned long long)c.misses,
			(unsigned long long)c.evictions);
		if (w->device)
			fprintf(f,
				"# All ranks: detour through the host: %llu bytes to the host (calls held "
				"%.3f ms), %llu bytes from it (%.3f ms); %llu reductions on the device, "
				"%llu flushes in %.3f ms\n",
				(unsigned long long)moved->down_bytes, (double)moved->down_ns / 1e6,
				(unsigned long long)moved->up_bytes, (double)moved->up_ns / 1e6,
				(unsigned long long)moved->reductions,
				(unsigned long long)moved->flushes, (double)moved->flush_ns / 1e6);
	} else if (out->format == PERF_JSON) {
		fprintf(f,
			"\n],\"wrong\":%lld,\"avg_busbw_gbs\":%.6f,\"rank0\":{"
			"\"registrations\":%llu,\"registration_us\":%.1f,\"cache_hits\":%llu,"
			"\"cache_misses\":%llu,\"cache_evictions\":%llu,\"sent_bytes\":%llu},"
			"\"all_ranks\":{"
			"\"down_bytes\":%llu,\"down_ns\":%llu,\"up_bytes\":%llu,\"up_ns\":%llu,"
			"\"reductions\":%llu,\"flushes\":%llu,\"flush_ns\":%llu}}\n",
			(long long)s->wrong, average, (unsigned long long)t->registrations,
			(double)t->registration_ns / 1e3, (unsigned long long)c.hits,
			(unsigned long long)c.misses, (unsigned long long)c.evictions,
			(unsigned long long)t->sent_bytes, (unsigned long long)moved->down_bytes,
			(unsigned long long)moved->down_ns, (unsigned long long)moved->up_bytes,
			(unsigned long long)moved->up_ns, (unsigned long long)moved->reductions,
			(unsigned long long)moved->flushes, (unsigned long long)moved->flush_ns);
	}
}

int output_close(struct perf_output *out)
{
	int bad;

	if (!out->file)
		return 0;
	bad = fflush(out->file) || ferror(out->file);
	if (out->file != stdout && fclose(out->file))
		bad = 1;
	out->file = NULL;
	return bad ? -EIO : 0;
}
