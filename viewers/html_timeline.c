/* SPDX-License-Identifier: Apache-2.0
 *
 * Events for the page's timeline: rows (tracks) of processes and threads, packed as numbers. At most so
 * many are kept; the shortest are left out, all rows alike.
 */
#include "exporters/exporters.h"
#include "viewers/html.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <zlib.h>

#define LANES_MAX  6u /* rows of overlapping transfers of a process */
#define DEPTH_MAX  3u /* rows of ranges in ranges of a thread */
#define TRACKS_MAX 4096u

enum row { ROW_RANGES, ROW_WAITS, ROW_COPIES, ROW_DEVICE, ROW_TRANSFERS, ROW_REGISTRATIONS, ROWS };

struct track_key {
	uint32_t process, row, thread, lane;
};
struct track {
	struct track_key key;
	uint32_t index, count;
	char label[80];
	UT_hash_handle hh;
};

struct name_key {
	uint32_t process, row, api, stack, rule, cls;
};
struct name {
	struct name_key key;
	uint32_t index;
	UT_hash_handle hh;
};
/* One text for all keys that mean the same. */
struct name_text {
	char *text;
	uint32_t index;
	UT_hash_handle hh;
};

struct shown {
	int64_t begin_ns;
	uint64_t length_ns;
	uint32_t track, name;
};

struct html_timeline {
	struct model *model;
	const struct model_process *process;
	int64_t first_ns, length_ns;
	struct track *tracks;
	struct name *names;
	struct name_text *texts;
	json_t *names_json;
	size_t count, room, max;
	struct shown *events;
	uint64_t least_ns, left_out;
	struct lanes lanes;
	bool failed;
};

static const char *const row_kinds[ROWS] = {"ranges", "waits",     "copies",
					    "device", "transfers", "registrations"};

/* --- tracks and names ------------------------------------------------------------------------- */

static void label_make(const struct html_timeline *timeline, struct track *track)
{
	const struct model_process *process = timeline->process;
	char who[24];

	if (process->info.rank >= 0)
		(void)snprintf(who, sizeof(who), "rank %d", process->info.rank);
	else
		(void)snprintf(who, sizeof(who), "pid %lld", (long long)process->info.pid);
	switch ((enum row)track->key.row) {
	case ROW_DEVICE:
		(void)snprintf(track->label, sizeof(track->label), "%s, device %u, stream %u", who,
			       track->key.thread, track->key.lane);
		break;
	case ROW_TRANSFERS:
	case ROW_REGISTRATIONS:
		(void)snprintf(track->label, sizeof(track->label), "%s, %s", who,
			       row_kinds[track->key.row]);
		break;
	default: {
		const struct trace_thread *thread = &process->threads[track->key.thread].info;

		(void)snprintf(track->label, sizeof(track->label), "%s, %s, %.40s", who,
			       row_kinds[track->key.row], thread->name);
	}
	}
}

static struct track *track_of(struct html_timeline *timeline, enum row row, uint32_t thread,
			      uint32_t lane)
{
	struct track *track = NULL;
	struct track_key key;

	memset(&key, 0, sizeof(key));
	key.process = timeline->process->index;
	key.row = row;
	key.thread = thread;
	key.lane = lane;
	HASH_FIND(hh, timeline->tracks, &key, sizeof(key), track);
	if (track || HASH_COUNT(timeline->tracks) == TRACKS_MAX)
		return track;
	track = calloc(1, sizeof(*track));
	if (!track) {
		timeline->failed = true;
		return NULL;
	}
	track->key = key;
	track->index = HASH_COUNT(timeline->tracks);
	label_make(timeline, track);
	HASH_ADD(hh, timeline->tracks, key, sizeof(key), track);
	return track;
}

/* Adds or finds a name by its texts. site: as the page finds a place. */
static uint32_t text_index(struct html_timeline *timeline, const char *label, const char *place,
			   const char *site)
{
	struct name_text *found = NULL;
	char text[2600];
	json_t *object;

	(void)snprintf(text, sizeof(text), "%.400s\n%.1000s\n%.1100s", label, place, site);
	HASH_FIND_STR(timeline->texts, text, found);
	if (found)
		return found->index;
	found = calloc(1, sizeof(*found));
	if (found)
		found->text = strdup(text);
	if (!found || !found->text) {
		free(found);
		timeline->failed = true;
		return 0;
	}
	found->index = (uint32_t)json_array_size(timeline->names_json);
	object = json_object();
	json_object_set_new(object, "label", report_words(label));
	if (*place)
		json_object_set_new(object, "place", report_words(place));
	if (*site)
		json_object_set_new(object, "site", report_words(site));
	json_array_append_new(timeline->names_json, object);
	HASH_ADD_KEYPTR(hh, timeline->texts, found->text, strlen(found->text), found);
	return found->index;
}

static uint32_t name_make(struct html_timeline *timeline, const struct name_key *key)
{
	const struct model_frame *frame = model_site(timeline->model, key->process, key->stack);
	const char *label = model_string(timeline->model, key->process, key->api);
	char place[1024] = "", site[1200] = "";
	bool holds = key->cls == WL_call_class_waits || key->cls == WL_call_class_stages;

	if (!frame || model_frame_text(frame, place, sizeof(place)) <= 0)
		(void)snprintf(place, sizeof(place), "%s", holds ? "(no stack)" : "");
	if (key->row == ROW_REGISTRATIONS)
		(void)snprintf(site, sizeof(site), "\nregistration\n%s",
			       *place ? place : "(no stack)");
	else if (holds)
		(void)snprintf(site, sizeof(site), "%s\n%s\n%s", wl_rule_info(key->rule)->word,
			       key->cls == WL_call_class_waits ? "waits" : "stages", place);
	return text_index(timeline, label, place, site);
}

static uint32_t name_of(struct html_timeline *timeline, enum row row, uint32_t api, uint32_t stack,
			uint32_t rule, uint32_t cls)
{
	struct name *name = NULL;
	struct name_key key;

	memset(&key, 0, sizeof(key));
	key.process = timeline->process->index;
	key.row = row;
	key.api = api;
	key.stack = stack;
	key.rule = rule;
	key.cls = cls;
	HASH_FIND(hh, timeline->names, &key, sizeof(key), name);
	if (name)
		return name->index;
	name = calloc(1, sizeof(*name));
	if (!name) {
		timeline->failed = true;
		return 0;
	}
	name->key = key;
	name->index = name_make(timeline, &key);
	HASH_ADD(hh, timeline->names, key, sizeof(key), name);
	return name->index;
}

/* --- events ----------------------------------------------------------------------------------- */

/* Leaves out what is shorter, twice as much each time, until a quarter of the room is free. */
static void thin(struct html_timeline *timeline)
{
	while (timeline->count > timeline->max / 4 * 3) {
		size_t kept = 0;

		timeline->least_ns = timeline->least_ns ? timeline->least_ns * 2 : 64;
		for (size_t i = 0; i < timeline->count; i++)
			if (timeline->events[i].length_ns >= timeline->least_ns)
				timeline->events[kept++] = timeline->events[i];
		timeline->left_out += timeline->count - kept;
		timeline->count = kept;
	}
}

static void show(struct html_timeline *timeline, struct track *track, uint32_t name, int64_t begin,
		 int64_t end)
{
	uint64_t length = end > begin ? (uint64_t)(end - begin) : 0;

	if (!track || length < timeline->least_ns) {
		timeline->left_out++;
		return;
	}
	if (timeline->count == timeline->max)
		thin(timeline);
	if (timeline->count == timeline->room) {
		size_t room = timeline->room ? timeline->room * 2 : 4096;
		struct shown *events = realloc(timeline->events, room * sizeof(*events));

		if (!events) {
			timeline->failed = true;
			return;
		}
		timeline->events = events;
		timeline->room = room;
	}
	begin = model_time(timeline->process, begin) - timeline->first_ns;
	timeline->events[timeline->count++] =
		(struct shown){begin > 0 ? begin : 0, length, track->index, name};
}

static uint32_t argument(const struct trace_event *event, const char *name)
{
	int index = model_arg_index(event->type, name);

	return index < 0 ? 0 : (uint32_t)event->args[index];
}

static void call(struct html_timeline *timeline, const struct trace_event *event, enum row row)
{
	show(timeline, track_of(timeline, row, row == ROW_REGISTRATIONS ? 0 : event->thread, 0),
	     name_of(timeline, row, argument(event, "api"), argument(event, "stack"),
		     argument(event, "rule"), argument(event, "cls")),
	     event->begin_ns, event->end_ns);
}

static void device(struct html_timeline *timeline, const struct trace_event *event)
{
	uint32_t name = event->type->number == WL_EV_gpu_kernel
				? name_of(timeline, ROW_DEVICE, argument(event, "name"), 0, 0, 0)
				: text_index(timeline, event->type->name, "", "");

	show(timeline,
	     track_of(timeline, ROW_DEVICE, argument(event, "device"), argument(event, "stream")),
	     name, event->begin_ns, event->end_ns);
}

static void event_add(struct html_timeline *timeline, const struct trace_event *event)
{
	unsigned cls = model_event_class(event);

	if (wl_event_type(event->type->number) != event->type)
		return;
	if (cls == WL_call_class_waits || cls == WL_call_class_stages) {
		call(timeline, event, ROW_WAITS);
		return;
	}
	switch (event->type->number) {
	case WL_EV_cuda_copy:
	case WL_EV_cuda_memset:
		call(timeline, event, ROW_COPIES);
		break;
	case WL_EV_ofi_mr_reg:
		call(timeline, event, ROW_REGISTRATIONS);
		break;
	case WL_EV_gpu_kernel:
	case WL_EV_gpu_copy:
	case WL_EV_gpu_memset:
	case WL_EV_gpu_graph:
		device(timeline, event);
		break;
	default:
		break;
	}
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct html_timeline *timeline = user;

	if (range->depth < DEPTH_MAX && !range->across)
		show(timeline, track_of(timeline, ROW_RANGES, range->thread, range->depth),
		     text_index(timeline, range->name, "", ""), range->begin_ns, range->end_ns);
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct html_timeline *timeline = user;
	int64_t lane = lanes_take(&timeline->lanes, transfer->post.begin_ns, transfer->end_ns);

	if (lane < 0) {
		timeline->failed = true;
		return;
	}
	show(timeline,
	     track_of(timeline, ROW_TRANSFERS, 0,
		      (uint32_t)(lane < LANES_MAX ? lane : LANES_MAX - 1)),
	     name_of(timeline, ROW_TRANSFERS, (uint32_t)MODEL_ARG(&transfer->post, ofi_post, api),
		     0, 0, 0),
	     transfer->post.begin_ns, transfer->end_ns);
}

static int process_read(struct html_timeline *timeline, unsigned index)
{
	static const struct model_match_ops ops = {.transfer = on_transfer,
						   .range_end = on_range_end};
	struct model_matcher *matcher = model_matcher_new(timeline->model, index, &ops, timeline);
	struct trace_event event;
	int error = 0;
	struct model_cursor *cursor =
		matcher ? model_cursor_open(timeline->model, index, MODEL_ALL_THREADS, &error)
			: NULL;

	timeline->process = model_process(timeline->model, index);
	if (!cursor) {
		model_matcher_free(matcher);
		return error ? error : -ENOMEM;
	}
	/* What cannot be read to its end is shown as far as it goes. */
	while (model_cursor_next(cursor, &event) > 0) {
		model_matcher_feed(matcher, &event);
		event_add(timeline, &event);
	}
	model_matcher_finish(matcher);
	model_cursor_close(cursor);
	model_matcher_free(matcher);
	lanes_done(&timeline->lanes);
	timeline->lanes = (struct lanes){0};
	return timeline->failed ? -ENOMEM : 0;
}

/* --- results ---------------------------------------------------------------------------------- */

static int by_place(const struct track *a, const struct track *b)
{
	if (a->key.process != b->key.process)
		return a->key.process < b->key.process ? -1 : 1;
	if (a->key.row >= ROW_DEVICE || b->key.row >= ROW_DEVICE) {
		if (a->key.row != b->key.row)
			return a->key.row < b->key.row ? -1 : 1;
	}
	if (a->key.thread != b->key.thread)
		return a->key.thread < b->key.thread ? -1 : 1;
	if (a->key.row != b->key.row)
		return a->key.row < b->key.row ? -1 : 1;
	return a->key.lane < b->key.lane ? -1 : a->key.lane > b->key.lane;
}

static int by_begin(const void *left, const void *right)
{
	const struct shown *a = left, *b = right;

	if (a->track != b->track)
		return a->track < b->track ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return a->length_ns > b->length_ns ? -1 : a->length_ns < b->length_ns;
}

/* Tracks in the order in which they are shown, and their events in order of begin. */
static bool order(struct html_timeline *timeline)
{
	unsigned count = HASH_COUNT(timeline->tracks), i = 0;
	uint32_t *places = calloc(count + 1, sizeof(*places));
	struct track *track = NULL, *next = NULL;

	if (!places)
		return false;
	HASH_SORT(timeline->tracks, by_place);
	HASH_ITER (hh, timeline->tracks, track, next) {
		places[track->index] = i;
		track->index = i++;
	}
	for (size_t k = 0; k < timeline->count; k++)
		timeline->events[k].track = places[timeline->events[k].track];
	free(places);
	if (timeline->count)
		qsort(timeline->events, timeline->count, sizeof(*timeline->events), by_begin);
	HASH_ITER (hh, timeline->tracks, track, next) {
		track->count = 0;
	}
	track = timeline->tracks;
	for (size_t k = 0; k < timeline->count; k++) {
		while (track->index != timeline->events[k].track)
			track = track->hh.next;
		track->count++;
	}
	return true;
}

struct html_timeline *html_timeline_read(struct model *model, unsigned events_max, int *error)
{
	struct html_timeline *timeline = calloc(1, sizeof(*timeline));
	int64_t last, realtime;

	*error = timeline ? 0 : -ENOMEM;
	if (!timeline)
		return NULL;
	timeline->model = model;
	timeline->max = events_max;
	timeline->names_json = json_array();
	model_bounds(model, &timeline->first_ns, &last, &realtime);
	timeline->length_ns = last > timeline->first_ns ? last - timeline->first_ns : 1;
	for (unsigned i = 0; !*error && i < model_process_count(model); i++)
		*error = process_read(timeline, i);
	if (!*error && !order(timeline))
		*error = -ENOMEM;
	if (!*error)
		return timeline;
	html_timeline_free(timeline);
	return NULL;
}

void html_timeline_free(struct html_timeline *timeline)
{
	struct track *track, *next_track;
	struct name *name, *next_name;
	struct name_text *text, *next_text;

	if (!timeline)
		return;
	/* The tables go first; what they held stays chained by hh.next. */
	track = timeline->tracks;
	HASH_CLEAR(hh, timeline->tracks);
	for (; track; track = next_track) {
		next_track = track->hh.next;
		free(track);
	}
	name = timeline->names;
	HASH_CLEAR(hh, timeline->names);
	for (; name; name = next_name) {
		next_name = name->hh.next;
		free(name);
	}
	text = timeline->texts;
	HASH_CLEAR(hh, timeline->texts);
	for (; text; text = next_text) {
		next_text = text->hh.next;
		free(text->text);
		free(text);
	}
	lanes_done(&timeline->lanes);
	json_decref(timeline->names_json);
	free(timeline->events);
	free(timeline);
}

json_t *html_timeline_json(const struct html_timeline *timeline)
{
	json_t *root = json_object(), *tracks = json_array();
	struct track *track, *next;

	HASH_ITER (hh, timeline->tracks, track, next) {
		if (!track->count)
			continue;
		json_array_append_new(tracks, json_pack("{s:o,s:s,s:i}", "label",
							report_words(track->label), "kind",
							row_kinds[track->key.row], "count",
							(int)track->count));
	}
	json_object_set_new(root, "length_ns", json_integer(timeline->length_ns));
	json_object_set_new(root, "left_out", report_number(timeline->left_out));
	json_object_set_new(root, "least_ns", report_number(timeline->least_ns));
	json_object_set_new(root, "tracks", tracks);
	json_object_set(root, "names", timeline->names_json);
	return root;
}

static uint8_t *put_number(uint8_t *to, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		*to++ = (uint8_t)(value | 128);
	*to++ = (uint8_t)value;
	return to;
}

/* For each track the distances of the begins, then the lengths, then the names. */
static uint8_t *pack(const struct html_timeline *timeline, size_t *length)
{
	uint8_t *bytes = malloc(timeline->count * 25 + 1), *to = bytes;
	size_t first = 0, last;

	for (; bytes && first < timeline->count; first = last) {
		int64_t before = 0;

		for (last = first; last < timeline->count &&
				   timeline->events[last].track == timeline->events[first].track;
		     last++) {
			to = put_number(to, (uint64_t)(timeline->events[last].begin_ns - before));
			before = timeline->events[last].begin_ns;
		}
		for (size_t i = first; i < last; i++)
			to = put_number(to, timeline->events[i].length_ns);
		for (size_t i = first; i < last; i++)
			to = put_number(to, timeline->events[i].name);
	}
	*length = bytes ? (size_t)(to - bytes) : 0;
	return bytes;
}

static size_t base64(const uint8_t *from, size_t length, char *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *start = to;

	for (size_t i = 0; i < length; i += 3) {
		uint32_t three = (uint32_t)from[i] << 16 |
				 (i + 1 < length ? (uint32_t)from[i + 1] << 8 : 0) |
				 (i + 2 < length ? from[i + 2] : 0);

		*to++ = digits[three >> 18];
		*to++ = digits[three >> 12 & 63];
		*to++ = i + 1 < length ? digits[three >> 6 & 63] : '=';
		*to++ = i + 2 < length ? digits[three & 63] : '=';
	}
	return (size_t)(to - start);
}

int html_timeline_events(const struct html_timeline *timeline, char **text, size_t *length)
{
	size_t bytes;
	uint8_t *plain = pack(timeline, &bytes), *small;
	uLongf size = compressBound(bytes);

	*text = NULL;
	small = malloc(size);
	if (plain && small && compress2(small, &size, plain, bytes, 6) == Z_OK)
		*text = malloc((size + 2) / 3 * 4 + 1);
	if (*text)
		*length = base64(small, size, *text);
	free(plain);
	free(small);
	return *text ? 0 : -ENOMEM;
}
