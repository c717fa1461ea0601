/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CTF reader share.
 */
#ifndef WAYLAY_TRACER_LTTNG_CTF_INTERNAL_H
#define WAYLAY_TRACER_LTTNG_CTF_INTERNAL_H

#include "tracer/lttng/ctf.h"
#include "tracer/lttng/import.h"

#include <signal.h>

#include <babeltrace2/babeltrace.h>

#define CTF_PROVIDER   "waylay:"
#define CTF_FIELDS_MAX 40
#define CTF_PAYLOADS   64 /* remembered for each event class; a power of two */

/* What a member of the payload is for. */
enum ctf_role { ROLE_ARG, ROLE_BEGIN, ROLE_DURATION, ROLE_FLAGS, ROLE_PID, ROLE_TID, ROLE_NONE };
enum ctf_form { FORM_UNSIGNED, FORM_SIGNED, FORM_TEXT, FORM_RULE, FORM_OTHER };
enum ctf_kind { CTF_RECORD, CTF_FOREIGN, CTF_ENTRY, CTF_FACT };

/* Members of the events that tell facts about a process; of a CTF_FACT plan's fields `arg` says which. */
#define CTF_FACTS(X)                                                                               \
	X(pid)                                                                                     \
	X(ppid)                                                                                    \
	X(rank)                                                                                    \
	X(world_size)                                                                              \
	X(local_rank)                                                                              \
	X(run)                                                                                     \
	X(name)                                                                                    \
	X(tid)                                                                                     \
	X(key)                                                                                     \
	X(value)                                                                                   \
	X(reason)                                                                                  \
	X(count)                                                                                   \
	X(monotonic_ns)                                                                            \
	X(boottime_ns)                                                                             \
	X(realtime_ns)
enum ctf_fact {
#define X(name) FACT_##name,
	CTF_FACTS(X)
#undef X
		FACT_MAX
};
/* Members of a CTF_ENTRY plan, in this order in its fields. */
enum ctf_entry_member { ENTRY_EVENT, ENTRY_API, ENTRY_SINCE, ENTRY_PID, ENTRY_TID, ENTRY_STACK };

/* Where a trace says that it is from. */
struct ctf_origin {
	const bt_trace *trace;
	const char *host, *name; /* of the machine and the program, the import's */
	int64_t env_pid;         /* 0: it holds several processes */
	struct ctf_origin *next;
};

/* A member that is read. */
struct ctf_field {
	uint8_t role, form, arg; /* arg: of the event's type, with ROLE_ARG */
	uint8_t member;          /* in the payload */
	/* The newest text and what it was turned into: mostly the next is the same. */
	const char *text;
	size_t length;
	uint64_t value;
};

/* A payload and its members. An event class has few payloads, used again and again, and finding a
 * member takes longer than reading it. */
struct ctf_payload {
	const bt_field *payload;
	const bt_field *members[CTF_FIELDS_MAX]; /* by field of the plan */
};

/* How an event class is read, worked out at its first event. */
struct ctf_plan {
	const bt_event_class *class;
	const struct ctf_origin *origin;
	enum ctf_kind kind;
	const struct wl_event_type *type; /* of a record, foreign or ours; of the newest entry */
	const char *entry_name;           /* that entry's, the import's text */
	bool has_clock;
	int64_t clock_offset_ns; /* from LTTng's clock to REALTIME */
	unsigned count;
	struct ctf_field fields[CTF_FIELDS_MAX];
	struct ctf_payload *payloads; /* CTF_PAYLOADS of them */
};

struct ctf_decoding {
	struct import *import;
	ctf_type_fn type_of;
	bt_message_iterator *iterator;
	struct ctf_plan **plans; /* hashed by class */
	size_t plan_count, plan_room;
	struct ctf_plan *newest;
	struct ctf_origin *origins;     /* of what is being read, the newest first */
	struct import_process *process; /* of the newest event */
	const char *folder;             /* being read; NULL: a live session */
	bool looked;                    /* at its first message */
	bool by_library;                /* by libbabeltrace2 alone */
	const char *damage;             /* found on the way, NULL if none */
	uint64_t events, lost;
	int error;
};

/* --- ctf_plan.c --- */

/* The plan of an event's class; NULL: no memory. */
struct ctf_plan *ctf_plan_of(struct ctf_decoding *d, const bt_stream *stream,
			     const bt_event_class *class);
/* Where a stream is from; NULL: no memory. */
const struct ctf_origin *ctf_origin_of(struct ctf_decoding *d, const bt_stream *stream);
/* Forgets all plans and origins, for the next folder. */
void ctf_plans_clear(struct ctf_decoding *d);
enum ctf_form ctf_form_of(const bt_field_class *class);
/* The caller's type of that name, or NULL. */
const struct wl_event_type *ctf_type_named(const struct ctf_decoding *d, const char *name);

/* --- ctf_event.c --- */

/* When an event was, and by its context, whose (0: that says nothing). */
struct ctf_moment {
	int64_t ns, pid, tid;
};
/* values: by field of the plan. 0 or -errno. */
int ctf_take(struct ctf_decoding *d, struct ctf_plan *plan, const uint64_t *values,
	     const struct ctf_moment *moment);
/* A text as the number that it becomes: its id, or its rule. */
uint64_t ctf_text_value(struct ctf_decoding *d, struct ctf_field *f, const char *text,
			size_t length);
/* Events that buffers had no room for. origin NULL: no memory. */
int ctf_lost(struct ctf_decoding *d, const struct ctf_origin *origin, uint64_t count);

/* --- ctf_message.c --- */

/* 0 or -errno. */
int ctf_message(struct ctf_decoding *d, const bt_message *message);

/* --- ctf_packets.c --- */

/* Reads a folder's packets here, when they are laid out as LTTng-UST does and all events are of numbers
 * and texts. stream: any of its. 1 when all of it was read, 0 when it is libbabeltrace2's, -errno. */
int ctf_packets_read(struct ctf_decoding *d, const char *folder, const bt_stream *stream);

/* --- ctf_graph.c --- */

struct ctf_plugins {
	const bt_plugin *ctf, *utils;
};
/* False: libbabeltrace2's plugins are not installed. */
bool ctf_plugins_find(struct ctf_plugins *plugins);
void ctf_plugins_put(struct ctf_plugins *plugins);
/* Reads a folder, or a live session by its URL, to its end; the latter also until nothing came for a while
 * or *stop is set. False: it could not be. */
bool ctf_graph_run(struct ctf_decoding *d, const struct ctf_plugins *plugins, const char *path,
		   const volatile sig_atomic_t *stop);

#endif
