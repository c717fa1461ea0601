/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads as complete (X) slices. Chrome sorts by time and puts the longer of two that begin together
 * around the other, so slices that nest never overlap by half.
 */
#include "exporters/chrome/chrome.h"
#include "exporters/model/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Events of no length at one nanosecond nest in Perfetto's importer, 512 deep at most: beyond so many
 * they are moved on by one. */
#define MOMENT_MAX 100
/* The least step of those: after what else may begin or end there. */
#define MOVED_STEP 40

struct thread_export {
	struct chrome *chrome;
	unsigned thread;
	bool synchronizations; /* the row beside the thread has been named */
	int64_t moment_ns;     /* of the newest slice of no length */
	unsigned at_moment;
};

static int64_t tid_of(const struct thread_export *export)
{
	return export->chrome->process->threads[export->thread].unique_tid;
}

static const char *name_of(struct chrome *chrome, const struct nest_item *item)
{
	if (item->inflight)
		return *item->inflight->api ? item->inflight->api : item->event.type->name;
	return chrome_name(chrome, &item->event);
}

static uint32_t stack_of(struct chrome *chrome, const struct nest_item *item)
{
	int index = json_type_of(&chrome->types, item->event.type)->stack;

	if (item->inflight)
		return item->inflight->stack;
	return index < 0 ? 0 : (uint32_t)item->event.args[index];
}

static void put_site(struct chrome *chrome, bool *any, uint32_t stack)
{
	char text[1024];

	if (!stack || chrome->options->no_stacks)
		return;
	const struct model_frame *site = model_site(chrome->model, chrome->process->index, stack);

	if (!site)
		return;
	model_frame_text(site, text, sizeof(text));
	chrome_member(chrome, any, "site");
	json_text(&chrome->json, text);
}

void chrome_name_row(struct chrome *chrome, int64_t tid, const char *name, int64_t order)
{
	chrome_event(chrome, "M", "thread_name", "__metadata", tid, chrome->base_ns);
	json_raw(&chrome->json, ",\"args\":{\"name\":");
	json_text(&chrome->json, name);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
	chrome_event(chrome, "M", "thread_sort_index", "__metadata", tid, chrome->base_ns);
	json_raw(&chrome->json, ",\"args\":{\"sort_index\":");
	json_int(&chrome->json, order);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
}

static struct chrome_span span_of(const struct nest_item *item, int64_t begin_ns, int64_t end_ns)
{
	return (struct chrome_span){begin_ns, end_ns, item->begin_step, item->end_step};
}

/* Moves a slice of no length on where there are too many before it at that time. */
static void spread(struct thread_export *export, struct chrome_span *span)
{
	if (span->begin_ns != span->end_ns)
		return;
	if (span->begin_ns != export->moment_ns) {
		export->moment_ns = span->begin_ns;
		export->at_moment = 0;
		return;
	}
	span->end_ns += ++export->at_moment / MOMENT_MAX;
	if (span->end_ns == span->begin_ns)
		return;
	span->begin_ns = span->end_ns;
	span->begin_step = (int)(export->at_moment % MOMENT_MAX * 2 + MOVED_STEP);
	span->end_step = span->begin_step + 1;
}

static void put_synchronization(struct thread_export *export, const struct nest_item *item,
				int64_t ts)
{
	struct chrome *chrome = export->chrome;
	const struct model_process *process = chrome->process;
	int64_t tid = chrome_synchronization_tid(process, export->thread);
	int index = json_type_of(&chrome->types, item->event.type)->rule;
	struct chrome_span span;
	bool any = false;
	char name[128];

	if (!export->synchronizations) {
		export->synchronizations = true;
		snprintf(name, sizeof(name), "Synchronizations of %lld (%s)",
			 (long long)process->threads[export->thread].unique_tid,
			 process->threads[export->thread].info.name);
		chrome_name_row(chrome, tid, name, export->thread * 2 + 1);
	}
	span = span_of(item, ts, item->event.end_ns);
	chrome_slice(chrome, name_of(chrome, item), "cuda_sync", tid, &span);
	json_raw(&chrome->json, ",\"args\":{");
	if (index >= 0 && !item->inflight && !chrome->options->no_args) {
		const struct wl_rule_info *rule = wl_rule_info((unsigned)item->event.args[index]);

		chrome_member(chrome, &any, "rule");
		json_text(&chrome->json, rule->word);
		chrome_member(chrome, &any, "condition");
		json_text(&chrome->json, rule->condition);
		chrome_member(chrome, &any, "remedy");
		json_text(&chrome->json, rule->remedy);
	}
	put_site(chrome, &any, stack_of(chrome, item));
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
	chrome->result->synchronizations++;
}

/* A slice of known length; mark: what to say of it beside its arguments. */
static void put_slice(struct thread_export *export, const struct nest_item *item, int64_t ts,
		      int64_t end_ns, bool whole, const char *mark)
{
	struct chrome *chrome = export->chrome;
	struct chrome_span span = span_of(item, ts, end_ns);
	bool any = false;

	spread(export, &span);
	chrome_slice(chrome, name_of(chrome, item), wl_category_name(item->event.type->category),
		     tid_of(export), &span);
	if (whole)
		chrome_stack(chrome, stack_of(chrome, item));
	json_raw(&chrome->json, ",\"args\":{");
	if (whole && !item->inflight)
		any = chrome_args(chrome, &item->event);
	if (mark) {
		chrome_member(chrome, &any, mark);
		json_raw(&chrome->json, "true");
	}
	if (whole)
		put_site(chrome, &any, stack_of(chrome, item));
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
}

/* Calls are told as they begin, so that of two that begin and end together the outer one comes first;
 * of ranges the end is not known yet. */
static void on_begin(void *user, const struct nest_item *item, int64_t ts, bool continued)
{
	struct thread_export *export = user;
	int cls = json_type_of(&export->chrome->types, item->event.type)->cls;

	(void)continued;
	if (item->event.type->form != WL_FORM_CALL)
		return;
	put_slice(export, item, ts, item->event.end_ns, true,
		  item->inflight ? "did_not_return" : NULL);
	if (item_waits(item, cls))
		put_synchronization(export, item, ts);
}

static void on_end(void *user, const struct nest_item *item, int64_t ts, int64_t piece_begin,
		   unsigned flags)
{
	bool continued = flags & NEST_CONTINUED;

	if (item->event.type->form == WL_FORM_CALL)
		return;
	put_slice(user, item, piece_begin, ts, !continued,
		  continued           ? "continued"
		  : flags & NEST_OPEN ? "open_at_end"
				      : NULL);
}

static void on_instant(void *user, const struct nest_item *item)
{
	struct thread_export *export = user;
	struct chrome *chrome = export->chrome;
	/* Arrows end at slices alone, so completions are slices of no length. */
	bool completion = item->event.type == wl_event_type(WL_EV_ofi_completion);
	struct chrome_span span = span_of(item, item->event.begin_ns, item->event.begin_ns);
	const char *category = wl_category_name(item->event.type->category);

	spread(export, &span);
	if (completion) {
		chrome_slice(chrome, name_of(chrome, item), category, tid_of(export), &span);
	} else {
		chrome_event(chrome, "i", name_of(chrome, item), category, tid_of(export),
			     span.begin_ns);
		json_raw(&chrome->json, ",\"s\":\"t\"");
	}
	chrome_stack(chrome, stack_of(chrome, item));
	json_raw(&chrome->json, ",\"args\":{");
	chrome_args(chrome, &item->event);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
}

/* Calls and ranges may cross a run of polls, so it is an asynchronous pair. */
static void on_run(void *user, const struct trace_event *event)
{
	struct thread_export *export = user;
	struct chrome *chrome = export->chrome;
	const char *name = chrome_name(chrome, event);
	const char *category = wl_category_name(event->type->category);

	chrome_event(chrome, "b", name, category, tid_of(export), event->begin_ns);
	json_raw(&chrome->json, ",\"id\":");
	json_hex(&chrome->json, ++chrome->async);
	json_raw(&chrome->json, ",\"args\":{");
	chrome_args(chrome, event);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
	chrome_event(chrome, "e", name, category, tid_of(export), event->end_ns);
	json_raw(&chrome->json, ",\"id\":");
	json_hex(&chrome->json, chrome->async);
	json_raw(&chrome->json, ",\"args\":{}");
	chrome_end(chrome);
	chrome->result->runs++;
}

static void on_thread(void *user, unsigned thread)
{
	struct thread_export *export = user;

	const char *name = export->chrome->process->threads[thread].info.name;

	export->thread = thread;
	export->synchronizations = false;
	export->moment_ns = INT64_MIN;
	chrome_name_row(export->chrome, tid_of(export), *name ? name : "thread", thread * 2);
}

static int on_check(void *user, unsigned done)
{
	const struct thread_export *export = user;
	const struct chrome *chrome = export->chrome;
	uint64_t count = model_process_count(chrome->model);

	if (chrome->json.output.error || !chrome->options->progress)
		return chrome->json.output.error;
	done = (unsigned)((chrome->process->index * 1000ull + done) / count);
	return chrome->options->progress(chrome->options->user, done) ? -EINTR : 0;
}

static const struct walk_ops callbacks = {
	.thread = on_thread,
	.nest = {on_begin, on_end, on_instant},
	.run = on_run,
	.check = on_check,
};

int chrome_threads(struct chrome *chrome, bool *merged)
{
	struct thread_export export = {.chrome = chrome};
	struct nest_counts counts = {0};
	int error = walk_threads(chrome->model, chrome->process->index, chrome->options->selection,
				 &callbacks, &export, &counts, merged);

	chrome->result->slices += counts.slices;
	chrome->result->instants += counts.instants;
	chrome->result->split += counts.split;
	chrome->result->too_deep += counts.too_deep;
	return error;
}
