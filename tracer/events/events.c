/* SPDX-License-Identifier: Apache-2.0
 *
 * The event table as data: this build's own, made from events.def and rules.def, and its form as
 * text. Used inside traced jobs, so nothing here calls malloc or stdio (see parse.c for the reading
 * side).
 */
#include "tracer/events/events.h"
#include "tracer/events/reader.h"

#include <string.h>

/* --- enumerations --- */

#define V(name, number, word) [(number)] = #word,
#define WL_ENUM(name, values) static const char *const words_##name[] = {values};
#include "tracer/events/events.def"
#undef V

static const char *const words_rule[] = {
#define WL_RULE(number, word, waits_for, condition, source, remedy) [(number)] = #word,
#include "tracer/events/rules.def"
};

/* An argument's `show`, numbered: the plain ones as enum wl_show, then one for each enumeration. */
enum show_id {
	SHOW_NUM = WL_SHOW_NUM,
	SHOW_HEX = WL_SHOW_HEX,
	SHOW_BYTES = WL_SHOW_BYTES,
	SHOW_NS = WL_SHOW_NS,
	SHOW_STR = WL_SHOW_STR,
	SHOW_STACK = WL_SHOW_STACK,
	SHOW_STATUS = WL_SHOW_STATUS,
	SHOW_FLAGS = WL_SHOW_FLAGS,
	SHOW_E_rule = WL_SHOW_ENUM,
#define WL_ENUM(name, values) SHOW_E_##name,
#include "tracer/events/events.def"
	SHOW_MAX,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct wl_enumeration enumerations[] = {
	{"rule", COUNT(words_rule), words_rule},
#define WL_ENUM(name, values) {#name, COUNT(words_##name), words_##name},
#include "tracer/events/events.def"
};
_Static_assert(COUNT(enumerations) == (int)SHOW_MAX - (int)WL_SHOW_ENUM, "one show a enumeration");

/* --- events --- */

#define IS_ENUM(show)       ((int)SHOW_##show >= (int)WL_SHOW_ENUM)
#define SHOW_OF(show)       (IS_ENUM(show) ? WL_SHOW_ENUM : (enum wl_show)(int)SHOW_##show)
#define ENUM_AT(show)       (IS_ENUM(show) ? (int)SHOW_##show - (int)WL_SHOW_ENUM : 0)
#define ENUM_OF(show)       (IS_ENUM(show) ? &enumerations[ENUM_AT(show)] : NULL)
#define A(type, name, show) {#name, WL_TYPE_##type, SHOW_OF(show), ENUM_OF(show)},
#define WL_EVENT(name, number, category, form, args)                                               \
	static const struct wl_arg args_##name[] = {args};                                         \
	_Static_assert(COUNT(args_##name) <= WL_ARGS_MAX, "too many arguments: " #name);           \
	_Static_assert((number) > 0 && (number) < WL_EV_MAX, "number out of range: " #name);
#include "tracer/events/events.def"
#undef A

const struct wl_event_type wl_event_types[WL_EV_MAX] = {
#define WL_EVENT(name, number, category, form, args)                                               \
	[number] = {#name,          (number),           WL_CAT_##category,                         \
		    WL_FORM_##form, COUNT(args_##name), sizeof(struct wl_ev_##name),               \
		    args_##name},
#include "tracer/events/events.def"
};

static const struct wl_rule_info rules[] = {
#define WL_RULE(number, word, waits_for, condition, source, remedy)                                \
	[(number)] = {#word, #waits_for, condition, source, remedy},
#include "tracer/events/rules.def"
};

static const char *const category_names[WL_CAT_MAX] = {
	[WL_CAT_cuda_sync] = "cuda_sync",
	[WL_CAT_cuda_copy] = "cuda_copy",
	[WL_CAT_cuda_launch] = "cuda_launch",
	[WL_CAT_cuda_mem] = "cuda_mem",
	[WL_CAT_cuda_graph] = "cuda_graph",
	[WL_CAT_cuda_setup] = "cuda_setup",
	[WL_CAT_ofi_mr] = "ofi_mr",
	[WL_CAT_ofi_xfer] = "ofi_xfer",
	[WL_CAT_ofi_cq] = "ofi_cq",
	[WL_CAT_ofi_setup] = "ofi_setup",
	[WL_CAT_nvtx] = "nvtx",
	[WL_CAT_gpu] = "gpu",
	[WL_CAT_meta] = "meta",
};

static const char *const form_names[WL_FORM_MAX] = {"call", "instant", "begin", "end"};
static const char *const show_names[WL_SHOW_ENUM] = {"num", "hex",   "bytes",  "ns",
						     "str", "stack", "status", "flags"};
static const char *const type_names[WL_TYPE_MAX] = {"u8", "u16", "u32", "u64", "i32", "i64"};
static const unsigned char type_bytes[WL_TYPE_MAX] = {1, 2, 4, 8, 4, 8};

const struct wl_event_type *wl_event_type_named(const char *name)
{
	for (unsigned i = 0; i < WL_EV_MAX; i++)
		if (wl_event_types[i].name && strcmp(wl_event_types[i].name, name) == 0)
			return &wl_event_types[i];
	return NULL;
}

const char *wl_category_name(enum wl_category category)
{
	return (unsigned)category < WL_CAT_MAX ? category_names[category] : "?";
}

const char *wl_form_name(enum wl_form form)
{
	return (unsigned)form < WL_FORM_MAX ? form_names[form] : "?";
}

const char *wl_show_name(enum wl_show show)
{
	return (unsigned)show < WL_SHOW_ENUM ? show_names[show] : "?";
}

const char *wl_arg_type_name(enum wl_arg_type type)
{
	return (unsigned)type < WL_TYPE_MAX ? type_names[type] : "?";
}

const struct wl_rule_info *wl_rule_info(unsigned number)
{
	return number < COUNT(rules) && rules[number].word ? &rules[number] : &rules[0];
}

unsigned wl_arg_type_bytes(enum wl_arg_type type)
{
	return (unsigned)type < WL_TYPE_MAX ? type_bytes[type] : 0;
}

const char *trace_drop_name(enum trace_drop reason)
{
	static const char *const names[TRACE_DROP_MAX] = {
		[TRACE_DROP_SPACE] = "cap reached",
		[TRACE_DROP_DISK] = "disk full",
		[TRACE_DROP_INTERN] = "no room for names",
		[TRACE_DROP_THREAD] = "too many threads",
		[TRACE_DROP_OVERWRITTEN] = "overwritten",
		[TRACE_DROP_ENGINE] = "lost by the engine",
	};
	return (unsigned)reason < TRACE_DROP_MAX ? names[reason] : "?";
}

/* --- as text --- */

struct text {
	char *buf;
	size_t size, length;
};

static void text_add(struct text *t, const char *s)
{
	for (; *s; s++, t->length++)
		if (t->length + 1 < t->size)
			t->buf[t->length] = *s;
}

static void text_add_number(struct text *t, unsigned n)
{
	char digits[12];
	size_t at = sizeof(digits);

	digits[--at] = '\0';
	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	text_add(t, digits + at);
}

static void text_add_type(struct text *t, const struct wl_event_type *type)
{
	text_add(t, "event ");
	text_add_number(t, type->number);
	text_add(t, " ");
	text_add(t, type->name);
	text_add(t, " ");
	text_add(t, wl_category_name(type->category));
	text_add(t, " ");
	text_add(t, wl_form_name(type->form));
	for (unsigned i = 0; i < type->arg_count; i++) {
		const struct wl_arg *arg = &type->args[i];

		text_add(t, " ");
		text_add(t, arg->name);
		text_add(t, ":");
		text_add(t, wl_arg_type_name(arg->type));
		text_add(t, ":");
		text_add(t, arg->show == WL_SHOW_ENUM ? arg->enumeration->name
						      : wl_show_name(arg->show));
	}
	text_add(t, "\n");
}

size_t wl_event_table_text(char *buf, size_t size)
{
	struct text t = {buf, size, 0};

	for (size_t i = 0; i < COUNT(enumerations); i++) {
		text_add(&t, "enum ");
		text_add(&t, enumerations[i].name);
		for (unsigned n = 0; n < enumerations[i].count; n++) {
			text_add(&t, " ");
			text_add(&t, enumerations[i].words[n]);
		}
		text_add(&t, "\n");
	}
	for (unsigned i = 0; i < WL_EV_MAX; i++)
		if (wl_event_types[i].name)
			text_add_type(&t, &wl_event_types[i]);
	if (size)
		buf[t.length < size ? t.length : size - 1] = '\0';
	return t.length;
}
