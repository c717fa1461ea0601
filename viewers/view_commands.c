/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands for the UI's start. Most are the same for every trace; notes name the three places that held the
 * host longest, each at the longest call made there.
 */
#include "viewers/view_commands.h"

#include "viewers/viewers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SPOTS 3

/* A place, and the longest call seen there. */
struct spot {
	const struct site *site;
	bool any;
	uint64_t longest_ns;
	int64_t at_ns; /* on the trace's clock */
};

/* --- places ----------------------------------------------------------------------------------- */

/* Costliest first. */
static void spot_add(struct spot *spots, const struct site *site)
{
	for (unsigned i = 0; i < SPOTS; i++) {
		if (spots[i].site && spots[i].site->held.sum_ns >= site->held.sum_ns)
			continue;
		memmove(&spots[i + 1], &spots[i], (SPOTS - 1 - i) * sizeof(*spots));
		spots[i] = (struct spot){.site = site};
		return;
	}
}

static uint32_t argument(const struct trace_event *event, const char *name)
{
	int index = model_arg_index(event->type, name);

	return index < 0 ? 0 : (uint32_t)event->args[index];
}

/* Most calls are shorter than what was seen already: only for the others is the place looked up. */
static void call_look(struct model *model, unsigned process, const struct trace_event *event,
		      struct spot *spots)
{
	unsigned cls = model_event_class(event);
	uint64_t length = (uint64_t)(event->end_ns - event->begin_ns);

	if (event->type->number == WL_EV_ofi_mr_reg)
		cls = WL_call_class_none;
	else if (cls != WL_call_class_waits && cls != WL_call_class_stages)
		return;
	for (unsigned i = 0; i < SPOTS && spots[i].site; i++) {
		struct spot *spot = &spots[i];

		if (spot->site->cls != cls || (spot->any && length <= spot->longest_ns) ||
		    (cls != WL_call_class_none && spot->site->rule != argument(event, "rule")) ||
		    strcmp(spot->site->place,
			   model_place(model, process, argument(event, "stack"))) != 0)
			continue;
		spot->any = true;
		spot->longest_ns = length;
		spot->at_ns = model_time(model_process(model, process), event->begin_ns);
	}
}

static void spots_find(struct model *model, struct spot *spots)
{
	for (unsigned i = 0; i < model_process_count(model); i++) {
		int error = 0;
		struct model_cursor *cursor =
			model_cursor_open(model, i, MODEL_ALL_THREADS, &error);
		struct trace_event event;

		while (cursor && model_cursor_next(cursor, &event) > 0)
			if (wl_event_type(event.type->number) == event.type)
				call_look(model, i, &event, spots);
		model_cursor_close(cursor);
	}
}

/* --- commands --------------------------------------------------------------------------------- */

static void command(json_t *commands, const char *id, const char *first, const char *second)
{
	json_array_append_new(commands,
			      json_pack("{s:s,s:[s,s]}", "id", id, "args", first, second));
}

static const char *what_of(const struct site *site)
{
	bool one = site->count == 1;

	if (site->cls == WL_call_class_waits)
		return one ? "synchronization" : "synchronizations";
	if (site->cls == WL_call_class_stages)
		return one ? "staged copy" : "staged copies";
	return one ? "memory registration" : "memory registrations";
}

static void notes(json_t *commands, const struct spot *spots)
{
	for (unsigned i = 0; i < SPOTS && spots[i].site; i++) {
		const struct site *site = spots[i].site;
		char at[24], text[512], clean[300], count[32], held[24];

		if (!spots[i].any)
			continue;
		(void)snprintf(text, sizeof(text),
			       "%u. %s: %s %s held the host %s; here the longest", i + 1,
			       site->place, words_count(site->count, count), what_of(site),
			       words_ns(site->held.sum_ns, held));
		(void)snprintf(at, sizeof(at), "%" PRId64, spots[i].at_ns);
		command(commands, "dev.perfetto.AddNoteAtTimestamp", at,
			words_clean(text, clean, sizeof(clean)));
	}
}

static void costliest(json_t *commands, struct model *model)
{
	struct spot spots[SPOTS + 1] = {0};
	struct analysis *analysis = NULL;
	char err[512];

	/* Without it the trace is there all the same. */
	if (analysis_run(model, NULL, &analysis, err, sizeof(err)) != 0)
		return;
	for (unsigned i = 0; i < analysis->site_count && i < SPOTS; i++)
		spot_add(spots, analysis->sites[i]);
	for (unsigned i = 0; i < analysis->registration_site_count && i < SPOTS; i++)
		spot_add(spots, analysis->registration_sites[i]);
	spots_find(model, spots);
	notes(commands, spots);
	analysis_free(analysis);
}

char *view_commands(struct model *model)
{
	json_t *commands = json_array();
	char *text;

	command(commands, "dev.perfetto.PinTracksByRegex", "^Synchronizations$", "name");
	/* The processes, which are the outermost, and what is folded in them. */
	command(commands, "dev.perfetto.ExpandTracksByRegex", "^(?!System$)[^>]*$", "path");
	command(commands, "dev.perfetto.ExpandTracksByRegex",
		"^(Network|Synchronizations|Memory registrations|Endpoint .*)$", "name");
	command(commands, "dev.perfetto.AddDebugSliceTrack",
		"SELECT slice.ts, slice.dur, slice.name FROM slice JOIN track ON track.id = "
		"slice.track_id WHERE track.name = 'Synchronizations' ORDER BY slice.dur DESC LIMIT 3",
		"The three longest synchronizations");
	command(commands, "dev.perfetto.AddDebugSliceTrack",
		"SELECT ts, dur, name FROM slice WHERE category = 'ofi_mr' AND name LIKE '%reg%' AND "
		"track_id IN (SELECT id FROM thread_track)",
		"Calls that register memory");
	if (model)
		costliest(commands, model);
	text = json_dumps(commands, JSON_COMPACT);
	json_decref(commands);
	return text;
}
