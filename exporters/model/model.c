/* SPDX-License-Identifier: Apache-2.0
 *
 * The job as a whole: which recordings belong to it, in which order, under which numbers and names.
 */
#include "exporters/model/internal.h"
#include "exporters/model/messages.h"

#include "tracer/spool/spool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model *model_new(const struct model_options *options)
{
	struct model *model = calloc(1, sizeof(*model));

	if (!model)
		return NULL;
	model->texts = text_pool_new();
	if (!model->texts) {
		free(model);
		return NULL;
	}
	model->want_symbols = options && options->symbols;
	model->open_max =
		options && options->files_open ? options->files_open : MODEL_FILES_OPEN_MAX;
	model->run = "";
	return model;
}

void model_add_note(struct model *model, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (model->note_count == model->note_capacity) {
		unsigned capacity = model->note_capacity ? model->note_capacity * 2 : 16;
		const char **notes = realloc(model->notes, capacity * sizeof(*notes));

		if (!notes)
			return;
		model->notes = notes;
		model->note_capacity = capacity;
	}
	model->notes[model->note_count++] = text_keep(model->texts, text);
}

/* --- one recording ------------------------------------------------------------------------------
 */

/* The kernel keeps 15 characters of a name; the command line may have the rest. */
static const char *full_name(struct model *model, const char *name, const char *command)
{
	size_t length = strcspn(command, " '\"");
	const char *base = command + length;

	while (base > command && base[-1] != '/')
		base--;
	length -= (size_t)(base - command);
	if (strlen(name) != 15 || length < 15 || strncmp(base, name, 15) != 0)
		return text_keep(model->texts, name);
	return text_keepf(model->texts, "%.*s", (int)length, base);
}

static int copy_info(struct model *model, struct trace_info *to, const struct trace_info *from)
{
	struct text_pool *texts = model->texts;

	*to = *from;
	to->format = text_keep(texts, from->format ? from->format : "");
	to->path = text_keep(texts, from->path ? from->path : "");
	to->host = text_keep(texts, from->host ? from->host : "");
	to->run = text_keep(texts, from->run ? from->run : "");
	to->command = text_keep(texts, from->command ? from->command : "");
	to->process_name =
		full_name(model, from->process_name ? from->process_name : "", to->command);
	to->damage = text_keep(texts, from->damage ? from->damage : "");

	struct trace_clock *clocks = calloc(from->clock_count + 1u, sizeof(*clocks));
	const char *(*attributes)[2] = calloc(from->attribute_count + 1u, sizeof(*attributes));

	to->clocks = clocks;
	to->attributes = (const char *const(*)[2])attributes;
	if (!clocks || !attributes)
		return -ENOMEM;
	if (from->clock_count)
		memcpy(clocks, from->clocks, from->clock_count * sizeof(*clocks));
	for (unsigned i = 0; i < from->attribute_count; i++) {
		attributes[i][0] = text_keep(texts, from->attributes[i][0]);
		attributes[i][1] = text_keep(texts, from->attributes[i][1]);
	}
	return 0;
}

static int copy_threads(struct model *model, struct process *process)
{
	const struct trace_reader *reader = process->reader;
	struct model_thread *threads = calloc(reader->thread_count + 1u, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	for (unsigned i = 0; i < reader->thread_count; i++) {
		threads[i].info = reader->threads[i];
		threads[i].info.name = text_keep(
			model->texts, reader->threads[i].name ? reader->threads[i].name : "");
	}
	process->public.threads = threads;
	process->public.thread_count = reader->thread_count;
	return 0;
}

static void process_free(struct process *process)
{
	if (process->reader)
		process->reader->ops->close(process->reader);
	model_stacks_free(process);
	free((void *)(uintptr_t)process->public.info.clocks);
	free((void *)(uintptr_t)process->public.info.attributes);
	free((void *)(uintptr_t)process->public.threads);
	free(process->knots);
	free(process);
}

/* The same process's recording given twice, under whatever name. */
static bool same_recording(const struct trace_info *a, const struct trace_info *b)
{
	return a->pid == b->pid && a->start_ns == b->start_ns && !strcmp(a->host, b->host) &&
	       !strcmp(a->run, b->run) && a->clock_count && b->clock_count &&
	       a->clocks[0].realtime_ns == b->clocks[0].realtime_ns;
}

static void judge(struct model_process *public)
{
	for (unsigned i = 0; i < TRACE_DROP_MAX; i++) {
		if (i != TRACE_DROP_OVERWRITTEN)
		public->drops_lost += public->info.drops[i];
	}
	public->incomplete = public->drops_lost || public->info.damaged;
}

int model_add(struct model *model, struct trace_reader *reader, const char *path)
{
	struct process *process;
	int error;

	if (model->process_count == model->process_capacity) {
		unsigned capacity = model->process_capacity ? model->process_capacity * 2 : 16;
		struct process **more =
			realloc(model->processes, capacity * sizeof(struct process *));

		if (!more) {
			reader->ops->close(reader);
			return -ENOMEM;
		}
		model->processes = more;
		model->process_capacity = capacity;
	}
	process = calloc(1, sizeof(*process));
	if (!process) {
		reader->ops->close(reader);
		return -ENOMEM;
	}
	process->reader = reader;
	process->path = text_keep(model->texts, path);
	error = copy_info(model, &process->public.info, &reader->info);
	if (!error)
		error = copy_threads(model, process);
	if (error) {
		process_free(process);
		return error;
	}
	judge(&process->public);
	for (unsigned i = 0; i < model->process_count; i++) {
		const struct trace_info *other = &model->processes[i]->public.info;

		if (!same_recording(other, &process->public.info))
			continue;
		model_add_note(model, "%s: the same recording as %s: left out",
			       process->public.info.path, other->path);
		process_free(process);
		return 0;
	}
	model->processes[model->process_count++] = process;
	model->open_count++;
	return 0;
}

/* Closes the reader that was unused for longest, unless all are in use. */
static void close_oldest(struct model *model)
{
	struct process *oldest = NULL;

	for (unsigned i = 0; i < model->process_count; i++) {
		struct process *process = model->processes[i];

		if (process->reader && process->path && !process->pins &&
		    (!oldest || process->used < oldest->used))
			oldest = process;
	}
	if (!oldest)
		return;
	oldest->reader->ops->close(oldest->reader);
	oldest->reader = NULL;
	model->open_count--;
}

struct trace_reader *model_reader(struct model *model, unsigned index, int *error)
{
	struct process *process = model->processes[index];
	char err[256];

	process->used = ++model->clock;
	if (process->reader)
		return process->reader;
	if (model->open_count >= model->open_max)
		close_oldest(model);
	*error = spool_reader_open(process->path, &process->reader, err, sizeof(err));
	if (*error) {
		process->reader = NULL;
		return NULL;
	}
	model->open_count++;
	return process->reader;
}

/* --- which run ----------------------------------------------------------------------------------
 */

/* REALTIME of a monotonic moment; a damaged recording's may be any number. */
static int64_t realtime_of(const struct trace_info *info, int64_t monotonic_ns)
{
	const struct trace_clock *clock = info->clocks;

	if (!info->clock_count)
		return monotonic_ns;
	return (int64_t)((uint64_t)monotonic_ns - (uint64_t)clock->monotonic_ns +
			 (uint64_t)clock->realtime_ns);
}

static void leave_out(struct model *model, const bool *keep)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < model->process_count; i++) {
		if (keep[i]) {
			model->processes[kept++] = model->processes[i];
			continue;
		}
		if (model->processes[i]->reader)
			model->open_count--;
		process_free(model->processes[i]);
	}
	model->process_count = kept;
}

/* Recordings without a run identifier belong together when their times overlap, directly or through
 * others: what a bare preload leaves in one directory, job after job. */
static void keep_overlapping(const struct model *model, unsigned newest, bool *keep)
{
	const struct trace_info *info = &model->processes[newest]->public.info;
	int64_t begin = realtime_of(info, info->start_ns), end = realtime_of(info, info->end_ns);
	bool grown = true;

	keep[newest] = true;
	while (grown) {
		grown = false;
		for (unsigned i = 0; i < model->process_count; i++) {
			const struct trace_info *other = &model->processes[i]->public.info;
			int64_t from = realtime_of(other, other->start_ns);
			int64_t to = realtime_of(other, other->end_ns);

			if (keep[i] || *other->run || to < begin || from > end)
				continue;
			keep[i] = grown = true;
			begin = from < begin ? from : begin;
			end = to > end ? to : end;
		}
	}
}

static int choose_run(struct model *model, const struct model_options *options, char *err,
		      size_t err_size)
{
	unsigned count = model->process_count, newest = 0, kept = 0;
	bool *keep = calloc(count + 1u, sizeof(*keep));
	const char *run = options ? options->run : NULL;

	if (!keep)
		return -ENOMEM;
	for (unsigned i = 1; i < count; i++) {
		const struct trace_info *a = &model->processes[i]->public.info;
		const struct trace_info *b = &model->processes[newest]->public.info;

		if (realtime_of(a, a->start_ns) > realtime_of(b, b->start_ns))
			newest = i;
	}
	if (!run)
		run = model->processes[newest]->public.info.run;
	for (unsigned i = 0; i < count; i++) {
		if (*run || (options && options->run))
			keep[i] = !strcmp(model->processes[i]->public.info.run, run);
	}
	if (!*run && !(options && options->run))
		keep_overlapping(model, newest, keep);
	for (unsigned i = 0; i < count; i++)
		kept += keep[i];
	if (!kept) {
		snprintf(err, err_size,
			 "no recording of run '%s' among %u: the newest run there is '%s'", run,
			 count, model->processes[newest]->public.info.run);
		free(keep);
		return -ENOENT;
	}
	model->run = text_keep(model->texts, run);
	if (kept < count)
		model_add_note(model,
			       "%u recordings of other runs left out (--all-runs takes them)",
			       count - kept);
	leave_out(model, keep);
	free(keep);
	return 0;
}

/* --- order and numbers --------------------------------------------------------------------------
 */

static int compare_processes(const void *left, const void *right)
{
	const struct process *a = *(struct process *const *)left;
	const struct process *b = *(struct process *const *)right;
	unsigned rank_a = (unsigned)a->public.info.rank, rank_b = (unsigned)b->public.info.rank;

	if (rank_a != rank_b) /* none (-1) comes last */
		return rank_a < rank_b ? -1 : 1;
	if (a->public.host != b->public.host)
		return a->public.host < b->public.host ? -1 : 1;

	int64_t start_a = model_time(&a->public, a->public.info.start_ns);
	int64_t start_b = model_time(&b->public, b->public.info.start_ns);

	if (start_a != start_b)
		return start_a < start_b ? -1 : 1;
	return a->public.info.pid < b->public.info.pid ? -1
						       : a->public.info.pid > b->public.info.pid;
}

/* A small set of numbers in use; sized once. */
struct number_set {
	int64_t *slots;
	uint64_t mask;
};

/* True if the number was not there yet. */
static bool number_take(struct number_set *set, int64_t number)
{
	uint64_t slot = text_mix((uint64_t)number) & set->mask;

	for (; set->slots[slot]; slot = (slot + 1) & set->mask) {
		if (set->slots[slot] == number)
			return false;
	}
	set->slots[slot] = number;
	return true;
}

/* Real numbers where they are free, else numbers above what a kernel gives out. */
static int64_t number_unique(struct number_set *set, int64_t wanted, int64_t *spare)
{
	if (wanted > 0 && wanted < INT32_MAX && number_take(set, wanted))
		return wanted;
	while (!number_take(set, *spare))
		++*spare;
	return (*spare)++;
}

static int give_numbers(struct model *model)
{
	struct number_set set = {.mask = 15};
	uint64_t need = 0;
	int64_t spare = 1 << 23; /* kernels give out at most 2^22 */

	for (unsigned i = 0; i < model->process_count; i++)
		need += 1u + model->processes[i]->public.thread_count;
	while (set.mask < need * 2)
		set.mask = set.mask * 2 + 1;
	set.slots = calloc(set.mask + 1, sizeof(*set.slots));
	if (!set.slots)
		return -ENOMEM;
	for (unsigned i = 0; i < model->process_count; i++) {
		struct model_process *public = &model->processes[i]->public;

		public->index = i;
		public->unique_pid = number_unique(&set, public->info.pid, &spare);
	}
	for (unsigned i = 0; i < model->process_count; i++) {
		struct model_process *public = &model->processes[i]->public;
		struct model_thread *threads = (struct model_thread *)(uintptr_t) public->threads;
		bool main_seen = false;

		for (unsigned t = 0; t < public->thread_count; t++) {
			bool is_main = threads[t].info.tid == public->info.pid && !main_seen;

			main_seen |= is_main;
			threads[t].unique_tid =
				is_main ? public->unique_pid
					: number_unique(&set, threads[t].info.tid, &spare);
		}
	}
	free(set.slots);
	return 0;
}

static void give_labels(struct model *model)
{
	for (unsigned i = 0; i < model->process_count; i++) {
		struct model_process *public = &model->processes[i]->public;
		const char *host = model->host_count > 1 ? public->info.host : "";

		if (public->info.rank >= 0)
		public->label = text_keepf(model->texts, "rank %d%s%s", public->info.rank,
					   *host ? ", " : "", host);
		else public->label = text_keep(model->texts, host);
	}
}

static void find_bounds(struct model *model)
{
	model->first_ns = INT64_MAX;
	model->last_ns = INT64_MIN;
	for (unsigned i = 0; i < model->process_count; i++) {
		const struct model_process *public = &model->processes[i]->public;
		int64_t first = model_time(public, public->info.start_ns);
		int64_t last = model_time(public, public->info.end_ns);

		for (unsigned t = 0; t < public->thread_count; t++) {
			const struct trace_thread *thread = &public->threads[t].info;

			if (!thread->last_ns)
				continue;
			if (model_time(public, thread->first_ns) < first)
				first = model_time(public, thread->first_ns);
			if (model_time(public, thread->last_ns) > last)
				last = model_time(public, thread->last_ns);
		}
		if (first < model->first_ns)
			model->first_ns = first;
		if (last > model->last_ns)
			model->last_ns = last;
	}
}

int model_settle(struct model *model, const struct model_options *options, char *err,
		 size_t err_size)
{
	int error = 0;

	if (!model->process_count) {
		snprintf(err, err_size, "no recording to read");
		return -ENOENT;
	}
	if (!options || !options->all_runs)
		error = choose_run(model, options, err, err_size);
	if (error == -ENOENT)
		return error;
	if (!error)
		error = model_align(model);
	if (!error) {
		qsort(model->processes, model->process_count, sizeof(struct process *),
		      compare_processes);
		error = give_numbers(model);
	}
	if (error) {
		snprintf(err, err_size, "reading %u recordings: %s", model->process_count,
			 strerror(-error));
		return error;
	}
	give_labels(model);
	error = model_align_by_messages(model);
	if (error) {
		snprintf(err, err_size, "aligning the clocks of %u hosts: %s", model->host_count,
			 strerror(-error));
		return error;
	}
	find_bounds(model);
	return 0;
}

int model_keep_ranks(struct model *model, const uint64_t *ranks, unsigned words)
{
	bool *keep = calloc(model->process_count + 1u, sizeof(*keep));
	unsigned kept = 0;

	if (!keep)
		return -ENOMEM;
	for (unsigned i = 0; i < model->process_count; i++) {
		unsigned rank = (unsigned)model->processes[i]->public.info.rank;

		keep[i] = rank / 64 < words && ranks[rank / 64] >> rank % 64 & 1;
		kept += keep[i];
	}
	if (kept) {
		leave_out(model, keep);
		for (unsigned i = 0; i < model->process_count; i++)
			model->processes[i]->public.index = i;
		find_bounds(model);
	}
	free(keep);
	return kept ? 0 : -ENOENT;
}

int model_from_readers(struct trace_reader *const *readers, unsigned count,
		       const struct model_options *options, struct model **model, char *err,
		       size_t err_size)
{
	struct model *made = model_new(options);
	int error = made ? 0 : -ENOMEM;

	for (unsigned i = 0; i < count; i++) {
		if (error)
			readers[i]->ops->close(readers[i]);
		else
			error = model_add(made, readers[i], NULL);
	}
	if (error)
		snprintf(err, err_size, "reading %u recordings: %s", count, strerror(-error));
	else
		error = model_settle(made, options, err, err_size);
	if (error) {
		model_close(made);
		return error;
	}
	*model = made;
	return 0;
}

void model_close(struct model *model)
{
	if (!model)
		return;
	for (unsigned i = 0; i < model->process_count; i++)
		process_free(model->processes[i]);
	model_symbols_free(model->symbols);
	message_senders_free(model->senders);
	free(model->processes);
	free(model->notes);
	text_pool_free(model->texts);
	free(model);
}

unsigned model_process_count(const struct model *model)
{
	return model->process_count;
}

const struct model_process *model_process(const struct model *model, unsigned index)
{
	return &model->processes[index]->public;
}

unsigned model_host_count(const struct model *model)
{
	return model->host_count;
}

unsigned model_unreadable_count(const struct model *model)
{
	return model->unreadable_count;
}

unsigned model_note_count(const struct model *model)
{
	return model->note_count;
}

const char *model_note(const struct model *model, unsigned index)
{
	return model->notes[index];
}

const char *model_run(const struct model *model)
{
	return model->run;
}
