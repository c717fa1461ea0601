/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a folder's packets lie as LTTng-UST writes them, by the words of its metadata, and how its events
 * lie in them, by what libbabeltrace2 made of it. At any doubt: no.
 */
#include "tracer/lttng/ctf_layout.h"
#include "tracer/lttng/leaf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_ID_MAX 65536u

/* --- the metadata's words --------------------------------------------------------------------- */

/* All of these must be there, once each. */
static const char *const needed[] = {
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;",
	"typealias integer { size = 16; align = 8; signed = false; } := uint16_t;",
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;",
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;",
	"typealias integer { size = 64; align = 8; signed = false; } := unsigned long;",
	"typealias integer { size = 5; align = 1; signed = false; } := uint5_t;",
	"typealias integer { size = 27; align = 1; signed = false; } := uint27_t;",
	"byte_order = le;",
	"packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t "
	"stream_instance_id; };",
	"freq = 1000000000;",
	"typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := "
	"uint27_clock_monotonic_t;",
	"typealias integer { size = 32; align = 8; signed = false; map = clock.monotonic.value; } := "
	"uint32_clock_monotonic_t;",
	"typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := "
	"uint64_clock_monotonic_t;",
	"struct packet_context { uint64_clock_monotonic_t timestamp_begin; uint64_clock_monotonic_t "
	"timestamp_end; uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num; "
	"unsigned long events_discarded; uint32_t cpu_id; };",
	"struct event_header_compact { enum : uint5_t { compact = 0 ... 30, extended = 31 } id; "
	"variant <id> { struct { uint27_clock_monotonic_t timestamp; } compact; struct { uint32_t id; "
	"uint64_clock_monotonic_t timestamp; } extended; } v; } align(8);",
	"struct event_header_large { enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id; "
	"variant <id> { struct { uint32_clock_monotonic_t timestamp; } compact; struct { uint32_t id; "
	"uint64_clock_monotonic_t timestamp; } extended; } v; } align(8);",
};

/* In place: one space between words, no comments. */
static void squeeze(char *text)
{
	char *to = text;

	for (const char *at = text; *at;) {
		if (at[0] == '/' && at[1] == '*') {
			const char *close = strstr(at + 2, "*/");

			at = close ? close + 2 : at + strlen(at);
		} else if (isspace((unsigned char)*at)) {
			if (to > text && to[-1] != ' ')
				*to++ = ' ';
			at++;
		} else {
			*to++ = *at++;
		}
	}
	*to = '\0';
}

static unsigned times(const char *text, const char *words)
{
	unsigned count = 0;

	for (; (text = strstr(text, words)) != NULL; text += strlen(words))
		count++;
	return count;
}

/* Nothing lies otherwise than on a byte's boundary, in the machine's own order, but for the headers. */
static bool plain(const char *text)
{
	for (unsigned i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (times(text, needed[i]) != 1)
			return false;
	return times(text, "byte_order") == 1 && times(text, "align(") == 2 &&
	       times(text, "align = ") == times(text, "align = 8;") + 3 &&
	       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

/* The header of a stream's events: 1 large, 0 compact, -1 neither. */
static int header_large(const char *text, uint64_t id)
{
	static const char *const words[] = {"compact", "large"};
	char declaration[160];

	for (int large = 0; large < 2; large++) {
		(void)snprintf(declaration, sizeof(declaration),
			       "stream { id = %llu; event.header := struct event_header_%s; "
			       "packet.context := struct packet_context;",
			       (unsigned long long)id, words[large]);
		if (times(text, declaration) == 1)
			return large;
	}
	return -1;
}

/* --- events ----------------------------------------------------------------------------------- */

/* Adds the members of a structure; kind: of which they are. False: there is another kind of member. */
enum part { PART_COMMON, PART_OWN, PART_PAYLOAD };

static int8_t field_of(const struct ctf_plan *plan, enum part part, uint64_t index,
		       const char *name, bool *virtual_pid, bool *virtual_tid)
{
	if (part == PART_PAYLOAD) {
		for (unsigned i = 0; i < plan->count; i++)
			if (plan->fields[i].member == index)
				return (int8_t)i;
		return LAYOUT_SKIP;
	}
	if (part == PART_OWN)
		return LAYOUT_SKIP;
	/* Those of the process's own name space come first. */
	*virtual_pid |= strcmp(name, "vpid") == 0;
	*virtual_tid |= strcmp(name, "vtid") == 0;
	if (strcmp(name, "vpid") == 0 || (strcmp(name, "pid") == 0 && !*virtual_pid))
		return LAYOUT_PID;
	if (strcmp(name, "vtid") == 0 || (strcmp(name, "tid") == 0 && !*virtual_tid))
		return LAYOUT_TID;
	return LAYOUT_SKIP;
}

static bool members_add(struct layout_event *event, const bt_field_class *structure, enum part part)
{
	uint64_t count = structure ? bt_field_class_structure_get_member_count(structure) : 0;
	bool virtual_pid = false, virtual_tid = false;

	if (count > CTF_FIELDS_MAX)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *at =
			bt_field_class_structure_borrow_member_by_index_const(structure, i);
		const bt_field_class *class =
			bt_field_class_structure_member_borrow_field_class_const(at);
		enum ctf_form form = ctf_form_of(class);
		struct layout_member *m;
		uint64_t bits;

		if (form == FORM_OTHER || event->count == LAYOUT_MEMBERS_MAX)
			return false;
		m = &event->members[event->count++];
		m->field =
			field_of(event->plan, part, i, bt_field_class_structure_member_get_name(at),
				 &virtual_pid, &virtual_tid);
		if (form == FORM_TEXT)
			continue;
		bits = bt_field_class_integer_get_field_value_range(class);
		if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
			return false;
		m->bytes = (uint8_t)(bits / 8);
		m->is_signed = form == FORM_SIGNED;
	}
	return true;
}

/* 1, 0 or -errno as layout_of(). */
static int events_make(struct layout_stream *s, struct ctf_decoding *d, const bt_stream *stream,
		       const bt_stream_class *class)
{
	uint64_t count = bt_stream_class_get_event_class_count(class);

	s->events = calloc(count + 1, sizeof(*s->events));
	if (!s->events)
		return -ENOMEM;
	for (; s->count < count; s->count++) {
		const bt_event_class *of =
			bt_stream_class_borrow_event_class_by_index_const(class, s->count);
		struct layout_event *event = &s->events[s->count];

		event->id = bt_event_class_get_id(of);
		event->plan = ctf_plan_of(d, stream, of);
		if (!event->plan)
			return -ENOMEM;
		if (event->id >= EVENT_ID_MAX ||
		    !members_add(
			    event,
			    bt_stream_class_borrow_event_common_context_field_class_const(class),
			    PART_COMMON) ||
		    !members_add(event,
				 bt_event_class_borrow_specific_context_field_class_const(of),
				 PART_OWN) ||
		    !members_add(event, bt_event_class_borrow_payload_field_class_const(of),
				 PART_PAYLOAD))
			return 0;
		if (event->id >= s->place_count)
			s->place_count = event->id + 1;
	}
	s->places = calloc(s->place_count + 1, sizeof(*s->places));
	if (!s->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->count; i++)
		s->places[s->events[i].id] = i + 1;
	return 1;
}

static int streams_make(struct layout *layout, struct ctf_decoding *d, const char *text,
			const bt_stream *stream)
{
	const bt_trace_class *trace =
		bt_trace_borrow_class_const(bt_stream_borrow_trace_const(stream));
	uint64_t count = bt_trace_class_get_stream_class_count(trace);
	int rc = 1;

	layout->streams = calloc(count + 1, sizeof(*layout->streams));
	if (!layout->streams)
		return -ENOMEM;
	for (; layout->count < count && rc == 1; layout->count++) {
		const bt_stream_class *class =
			bt_trace_class_borrow_stream_class_by_index_const(trace, layout->count);
		struct layout_stream *s = &layout->streams[layout->count];
		int large;

		s->id = bt_stream_class_get_id(class);
		large = header_large(text, s->id);
		s->large = large == 1;
		rc = large < 0 ? 0 : events_make(s, d, stream, class);
	}
	return rc;
}

int layout_of(struct layout *layout, struct ctf_decoding *d, const char *folder,
	      const bt_stream *stream)
{
	char *text = leaf_metadata(folder);
	int rc = 0;

	if (text) {
		squeeze(text);
		rc = plain(text) ? streams_make(layout, d, text, stream) : 0;
	}
	free(text);
	return rc;
}

void layout_free(struct layout *layout)
{
	for (unsigned i = 0; i < layout->count; i++) {
		free(layout->streams[i].events);
		free(layout->streams[i].places);
	}
	free(layout->streams);
}

const struct layout_stream *layout_stream_of(const struct layout *layout, uint64_t id)
{
	for (unsigned i = 0; i < layout->count; i++)
		if (layout->streams[i].id == id)
			return &layout->streams[i];
	return NULL;
}
