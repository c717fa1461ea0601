/* SPDX-License-Identifier: Apache-2.0
 *
 * How a folder's packets and events lie in its files.
 */
#ifndef WAYLAY_TRACER_LTTNG_CTF_LAYOUT_H
#define WAYLAY_TRACER_LTTNG_CTF_LAYOUT_H

#include "tracer/lttng/ctf_internal.h"

#define LAYOUT_MEMBERS_MAX (2 * CTF_FIELDS_MAX)
enum { LAYOUT_SKIP = -1, LAYOUT_PID = -2, LAYOUT_TID = -3 };

/* A number or (bytes 0) a text, aligned to bytes. */
struct layout_member {
	uint8_t bytes;
	bool is_signed;
	int8_t field; /* of the plan; else what of the context it is */
};

/* Contexts and payload, in order. */
struct layout_event {
	uint64_t id;
	struct ctf_plan *plan;
	unsigned count;
	struct layout_member members[LAYOUT_MEMBERS_MAX];
};

struct layout_stream {
	uint64_t id;
	bool large; /* the event's header: 16 and 32 bits; else 5 and 27 */
	unsigned count;
	struct layout_event *events;
	uint32_t *places; /* by event id: index + 1 in events */
	uint64_t place_count;
};

struct layout {
	struct layout_stream *streams;
	unsigned count;
};

/* 1: it is such a folder; 0: it is not; -errno. To be freed in any case. */
int layout_of(struct layout *layout, struct ctf_decoding *d, const char *folder,
	      const bt_stream *stream);
void layout_free(struct layout *layout);
/* NULL: there is none of that number. */
const struct layout_stream *layout_stream_of(const struct layout *layout, uint64_t id);
static inline const struct layout_event *layout_event_of(const struct layout_stream *stream,
							 uint64_t id)
{
	uint32_t place = id < stream->place_count ? stream->places[id] : 0;

	return place ? &stream->events[place - 1] : NULL;
}

#endif
