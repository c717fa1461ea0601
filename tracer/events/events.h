/* SPDX-License-Identifier: Apache-2.0
 *
 * What is recorded: the event table of events.def as C types, and as data for whoever handles
 * events without knowing them (the recording's own copy, exporters, documents).
 */
#ifndef WAYLAY_TRACER_EVENTS_H
#define WAYLAY_TRACER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the table as types ----------------------------------------------------------------------- */

#define WL_T_u8  uint8_t
#define WL_T_u16 uint16_t
#define WL_T_u32 uint32_t
#define WL_T_u64 uint64_t
#define WL_T_i32 int32_t
#define WL_T_i64 int64_t

/* struct wl_ev_NAME: the arguments exactly as they lie in a record (little endian, no padding). */
#define A(type, name, show) WL_T_##type name;
#define WL_EVENT(name, number, category, form, args)                                               \
	struct wl_ev_##name {                                                                      \
		args                                                                               \
	} __attribute__((packed));
#include "tracer/events/events.def"
#undef A

/* wl_fill_NAME: copies the arguments one by one, so that those still in registers need no memory. */
#define A(type, name, show) to->name = from->name;
#define WL_EVENT(name, number, category, form, args)                                               \
	static inline __attribute__((always_inline)) void wl_fill_##name(                          \
		struct wl_ev_##name *to, const struct wl_ev_##name *from)                          \
	{                                                                                          \
		(void)to, (void)from;                                                              \
		args                                                                               \
	}
#include "tracer/events/events.def"
#undef A

/* WL_EV_NAME: an event's number. */
enum wl_event {
#define WL_EVENT(name, number, category, form, args) WL_EV_##name = (number),
#include "tracer/events/events.def"
	WL_EV_MAX = 64, /* above every number given */
};

/* WL_ARG(event, arg): an argument's index in trace_event.args. One char a member, so that the
 * offset is the index. */
#define A(type, name, show) char name;
#define WL_EVENT(name, number, category, form, args)                                               \
	struct wl_index_##name {                                                                   \
		args                                                                               \
	};
#include "tracer/events/events.def"
#undef A
#define WL_ARG(event, arg) offsetof(struct wl_index_##event, arg)

/* enum wl_NAME { WL_NAME_WORD = number } for each WL_ENUM. */
#define V(name, number, word) WL_##name##_##word = (number),
#define WL_ENUM(name, values) enum wl_##name{values WL_##name##_MAX};
#include "tracer/events/events.def"
#undef V

enum wl_rule {
#define WL_RULE(number, word, waits_for, condition, source, remedy) WL_rule_##word = (number),
#include "tracer/events/rules.def"
	WL_rule_MAX,
};

enum wl_category {
	WL_CAT_cuda_sync,
	WL_CAT_cuda_copy,
	WL_CAT_cuda_launch,
	WL_CAT_cuda_mem,
	WL_CAT_cuda_graph,
	WL_CAT_cuda_setup,
	WL_CAT_ofi_mr,
	WL_CAT_ofi_xfer,
	WL_CAT_ofi_cq,
	WL_CAT_ofi_setup,
	WL_CAT_nvtx,
	WL_CAT_gpu,
	WL_CAT_meta,
	WL_CAT_MAX,
};

/* Bits of a record's flags, the same for every event. */
enum wl_flag {
	WL_FLAG_CAPTURED = 1 << 0, /* inside stream capture: recorded into a graph, not executed */
	WL_FLAG_IN_PROVIDER = 1 << 1, /* a CUDA call made inside a libfabric call */
	WL_FLAG_INNER_LAYER = 1 << 2, /* a libfabric call of the core provider's (--ofi-layers) */
	WL_FLAG_GUESSED = 1 << 3, /* an argument is a best guess (memory kind not known for sure) */
};

/* --- the table as data ------------------------------------------------------------------------ */

enum wl_form { WL_FORM_CALL, WL_FORM_INSTANT, WL_FORM_BEGIN, WL_FORM_END, WL_FORM_MAX };

enum wl_arg_type {
	WL_TYPE_u8,
	WL_TYPE_u16,
	WL_TYPE_u32,
	WL_TYPE_u64,
	WL_TYPE_i32,
	WL_TYPE_i64,
	WL_TYPE_MAX
};

enum wl_show {
	WL_SHOW_NUM,
	WL_SHOW_HEX,
	WL_SHOW_BYTES,
	WL_SHOW_NS,
	WL_SHOW_STR,
	WL_SHOW_STACK,
	WL_SHOW_STATUS,
	WL_SHOW_FLAGS,
	WL_SHOW_ENUM, /* the words of wl_arg.enumeration */
	WL_SHOW_MAX,
};

struct wl_enumeration {
	const char *name;
	unsigned count; /* numbers 0 .. count-1 have a word */
	const char *const *words;
};

struct wl_arg {
	const char *name;
	enum wl_arg_type type;
	enum wl_show show;
	const struct wl_enumeration *enumeration; /* with WL_SHOW_ENUM, else NULL */
};

#define WL_ARGS_MAX 24

struct wl_event_type {
	const char *name;
	uint16_t number;
	enum wl_category category;
	enum wl_form form;
	unsigned arg_count;
	unsigned args_bytes; /* of all arguments, packed */
	const struct wl_arg *args;
};

struct wl_rule_info {
	const char *word, *waits_for, *condition, *source, *remedy;
};

/* By number; absent ones have no name. */
extern const struct wl_event_type wl_event_types[WL_EV_MAX];
/* The type with that number, or NULL. */
static inline const struct wl_event_type *wl_event_type(unsigned number)
{
	return number < WL_EV_MAX && wl_event_types[number].name ? &wl_event_types[number] : NULL;
}
/* This build's type of that name, or NULL. */
const struct wl_event_type *wl_event_type_named(const char *name);
/* The words of the table's text; "?" for anything else. */
const char *wl_category_name(enum wl_category category);
const char *wl_form_name(enum wl_form form);
const char *wl_show_name(enum wl_show show);
const char *wl_arg_type_name(enum wl_arg_type type);
/* Rule number -> its row; an unknown number gives the row of rule 0. */
const struct wl_rule_info *wl_rule_info(unsigned number);
unsigned wl_arg_type_bytes(enum wl_arg_type type);

/*
 * The table as text, as a recording carries it: one line an enumeration, then one line an event,
 *     enum NAME WORD WORD ...
 *     event NUMBER NAME CATEGORY FORM ARG:TYPE:SHOW ...
 * with FORM one of call instant begin end and SHOW one of num hex bytes ns str stack status flags
 * or the name of an enumeration above it. Returns the length without the NUL; writes at most size
 * bytes, NUL included, as snprintf does.
 */
size_t wl_event_table_text(char *buf, size_t size);

/*
 * A table read back from such text. Types of this build are found by name, whatever their number
 * in the recording was. Everything hangs off the one allocation that wl_event_table_free gives back.
 */
struct wl_event_table {
	unsigned count;              /* numbers 0 .. count-1; absent ones have name == NULL */
	struct wl_event_type *types; /* as recorded */
	const struct wl_event_type **known; /* this build's type of the same name, or NULL */
	signed char (
		*map)[WL_ARGS_MAX]; /* per type: recorded argument -> index in the known type, -1 */
	void *memory;
};
/* 0, -EINVAL for text that is not such a table (err says what and where), -ENOMEM. */
int wl_event_table_parse(struct wl_event_table *table, const char *text, size_t length, char *err,
			 size_t err_size);
void wl_event_table_free(struct wl_event_table *table);

#endif
