/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading Python's frames. The interpreter lock is never taken: bindings release it around the very
 * calls we are interested in, and taking it inside one of them can deadlock. Nothing of Python's is
 * called but PyGILState_GetThisThreadState(), which reads a thread-local value.
 */
#include "tracer/inject/python.h"
#include "tracer/inject/inject.h"
#include "tracer/inject/pyread.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECKED_WALKS    32 /* this many first walks test every address before they read it */
#define OFFSET_MAX       (1 << 26) /* no byte code is longer */
#define TEXT_BYTES_MAX   1024      /* longer names are cut */
#define GUARDED_BYTES    256       /* of a line table; of what is behind, the last eight count */
#define TABLE_BYTES_MAX  (1 << 24)
#define TABLE_COPY_BYTES 4096

enum { PYTHON_UNKNOWN, PYTHON_STARTING, PYTHON_READY, PYTHON_OFF };

static _Atomic unsigned state;
static _Atomic unsigned checked_walks; /* done with every address tested */
struct wl_python wl_python;

/* --- finding the interpreter -------------------------------------------------------------------- */

/* "3.11.2 (main, ...)" -> 0x030b0000 */
static unsigned version_parse(const char *text)
{
	char *end;
	unsigned long major = strtoul(text, &end, 10), minor;

	if (*end != '.')
		return 0;
	minor = strtoul(end + 1, &end, 10);
	return major > 255 || minor > 255 ? 0 : (unsigned)(major << 24 | minor << 16);
}

static void switch_off(const char *why)
{
	if (atomic_exchange(&state, PYTHON_OFF) != PYTHON_OFF) {
		spool_attribute("python-frames", why);
		wl_debug("Python frames are off: %s", why);
	}
}

static bool interpreter_read(const char **why)
{
	const char *(*version)(void) =
		(const char *(*)(void))wl_symbol_find(NULL, "Py_GetVersion", NULL);

	*why = "the interpreter lacks a symbol that a walk needs";
	wl_python.this_thread =
		(void *(*)(void))wl_symbol_find(NULL, "PyGILState_GetThisThreadState", NULL);
	wl_python.code_type = (uintptr_t)wl_symbol_find(NULL, "PyCode_Type", NULL);
	wl_python.text_type = (uintptr_t)wl_symbol_find(NULL, "PyUnicode_Type", NULL);
	wl_python.bytes_type = (uintptr_t)wl_symbol_find(NULL, "PyBytes_Type", NULL);
	if (!version || !wl_python.this_thread || !wl_python.code_type || !wl_python.text_type ||
	    !wl_python.bytes_type)
		return false;
	wl_python.layout = wl_pylayout_find(version_parse(version()),
					    wl_symbol_find(NULL, "_PyRuntime", NULL), why);
	return wl_python.layout != NULL;
}

void wl_python_start(void)
{
	unsigned unknown = PYTHON_UNKNOWN;
	const char *why;

	if (atomic_load_explicit(&state, memory_order_relaxed) != PYTHON_UNKNOWN ||
	    !wl_symbol_find(NULL, "PyGILState_GetThisThreadState", NULL) ||
	    !atomic_compare_exchange_strong(&state, &unknown, PYTHON_STARTING))
		return;
	if (!interpreter_read(&why)) {
		char line[160];

		snprintf(line, sizeof(line), "off: %s", why);
		switch_off(line);
		return;
	}
	/* Pairs with the acquire in wl_python_walk: who sees READY sees the layout. */
	atomic_store_explicit(&state, PYTHON_READY, memory_order_release);
}

/* --- reading ------------------------------------------------------------------------------------ */

uintptr_t wl_python_innermost(struct reach *r, uintptr_t thread)
{
	const struct wl_pylayout *l = r->layout;
	uintptr_t cframe;

	if (l->thread_cframe < 0)
		return get_pointer(r, thread, l->thread_frame);
	cframe = get_pointer(r, thread, l->thread_cframe);
	return cframe ? get_pointer(r, cframe, l->cframe_frame) : 0;
}

static bool frame_offset(struct reach *r, uintptr_t frame, uintptr_t code, int32_t *offset)
{
	const struct wl_pylayout *l = r->layout;
	uintptr_t start;
	intptr_t bytes;

	if (l->instr_is_index) {
		bytes = get_int(r, frame, l->frame_instr);
		if (l->lines == WL_PYLINES_RANGES)
			bytes *= 2;
	} else {
		start = code + (uintptr_t)l->code_start;
		if (l->code_tlbc >= 0) { /* an array of copies of the byte code: count, addresses */
			uintptr_t copies = get_pointer(r, code, l->code_tlbc);
			int32_t index = get_int(r, frame, l->frame_tlbc);

			if (!copies || index < 0 || (uintptr_t)index >= get_pointer(r, copies, 0))
				return false;
			start = get_pointer(r, copies + 8 * (uintptr_t)index, 8);
		}
		bytes = (intptr_t)(get_pointer(r, frame, l->frame_instr) - start);
	}
	*offset = (int32_t)bytes;
	return bytes >= -2 && bytes < OFFSET_MAX;
}

/* How wide a string's characters are and whether they are ASCII: bit fields that begin after the
 * `interned` member, whose width differs between versions and builds (2, 8 or 16 bits). */
static bool text_form(uint32_t fields, unsigned *kind, bool *ascii)
{
	uint32_t bits = fields & 0xfc ? fields >> 2 : fields & 0xff00 ? fields >> 8 : fields >> 16;

	*kind = bits & 7;
	*ascii = bits >> 4 & 1;
	return (bits >> 3 & 1) && (*kind == 1 || *kind == 2 || *kind == 4); /* compact */
}

/* One word of two, either of which changes it in all its bits. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product =
		(unsigned __int128)(a ^ 0xa0761d6478bd642fu) * (b ^ 0xe7037ed1a0b428dbu);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The last eight of so many bytes: what is numbered differs there. */
static inline uint64_t last_bytes(struct reach *r, uintptr_t from, uint64_t bytes)
{
	uint64_t tail = 0;

	if (bytes >= 8)
		get_bytes(r, from + bytes - 8, &tail, 8);
	else
		get_bytes(r, from, &tail, bytes);
	return tail;
}

/* A string's characters: where they are, how many bytes, how wide each. */
struct text {
	uintptr_t from;
	uint64_t bytes;
	unsigned kind;
	bool ascii;
};

static inline bool text_find(struct reach *r, uintptr_t text, struct text *t)
{
	const struct wl_pylayout *l = r->layout;

	if (!text_form((uint32_t)get_int(r, text, l->text_state), &t->kind, &t->ascii))
		return false;
	t->from = text + (uintptr_t)(t->ascii ? l->text_ascii : l->text_compact);
	t->bytes = get_pointer(r, text, l->text_length) * t->kind;
	return !r->failed;
}

/*
 * Code objects are freed and others made in their place, whose line tables and names then lie where
 * those before lay: only what is in them tells them apart. Names of functions are interned, so that
 * they have a hash, which lies behind their length.
 */
static uint64_t frame_guard(struct reach *r, const struct wl_python_frame *f)
{
	const struct wl_pylayout *l = r->layout;
	uint64_t size = get_pointer(r, f->table, l->bytes_size), copy[GUARDED_BYTES / 8];
	uint64_t name = get_pointer(r, f->name, (short)(l->text_length + 8)), guard, pair[2];
	uint64_t bytes = size < GUARDED_BYTES ? size : GUARDED_BYTES;
	uintptr_t from = f->table + (uintptr_t)l->bytes_data;
	const uint8_t *table = (const uint8_t *)from;
	struct text file;

	if (!text_find(r, f->filename, &file))
		return 0;
	guard = fold(f->name ^ name, last_bytes(r, file.from, file.bytes) ^ file.bytes);
	guard += 3 * fold(f->filename, f->table ^ (uint64_t)f->first_line << 40);
	guard += 5 * fold(size, last_bytes(r, from, size));
	if (r->how != REACH_PLAIN) {
		if (!get_bytes(r, from, copy, bytes))
			return 0;
		table = (const uint8_t *)copy;
	}
	for (const uint8_t *end = table + bytes; table + sizeof(pair) <= end;
	     table += sizeof(pair)) {
		memcpy(pair, table, sizeof(pair));
		guard = (guard << 1 | guard >> 63) + fold(pair[0], pair[1]);
	}
	return guard ^ guard >> 32;
}

static bool frame_read(struct reach *r, uintptr_t frame, struct wl_python_frame *f)
{
	const struct wl_pylayout *l = r->layout;

	f->code = get_pointer(r, frame, l->frame_code) & ~(uintptr_t)7; /* 3.14 tags it */
	if (!is_a(r, f->code, wl_python.code_type) || !frame_offset(r, frame, f->code, &f->offset))
		return false;
	f->first_line = get_int(r, f->code, l->code_first_line);
	f->name = get_pointer(r, f->code, l->code_name);
	f->filename = get_pointer(r, f->code, l->code_filename);
	f->table = get_pointer(r, f->code, l->code_table);
	if (r->failed)
		return false;
	if (r->how != REACH_PLAIN &&
	    (!is_a(r, f->name, wl_python.text_type) || !is_a(r, f->filename, wl_python.text_type) ||
	     !is_a(r, f->table, wl_python.bytes_type)))
		return false;
	f->guard = frame_guard(r, f);
	return !r->failed;
}

static bool frame_is_python(struct reach *r, uintptr_t frame)
{
	uint8_t owner = 0;

	if (r->layout->frame_owner < 0)
		return true;
	get_bytes(r, frame + (uintptr_t)r->layout->frame_owner, &owner, 1);
	return owner < WL_PYFRAME_OWNER_C;
}

/* Frames from an innermost one outwards; r->failed tells if something was not as it should be. */
unsigned wl_python_frames(struct reach *r, uintptr_t frame, struct wl_python_frame *frames,
			  unsigned max)
{
	unsigned count = 0;

	for (unsigned steps = 0; frame && count < max && steps < 4 * max + 16; steps++) {
		if (frame_is_python(r, frame)) {
			if (r->failed || !frame_read(r, frame, &frames[count])) {
				r->failed = true;
				return 0;
			}
			count++;
		}
		frame = get_pointer(r, frame, r->layout->frame_previous);
	}
	return r->failed ? 0 : count;
}

bool wl_python_ready(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == PYTHON_READY;
}

unsigned wl_python_walk(struct wl_python_frame *frames, unsigned max)
{
	struct reach r = {0};
	uintptr_t thread;
	unsigned count;

	if (!wl_python_ready())
		return 0;
	r.layout = wl_python.layout;
	thread = (uintptr_t)wl_python.this_thread();
	if (!thread)
		return 0;
	if (atomic_load_explicit(&checked_walks, memory_order_relaxed) < CHECKED_WALKS)
		r.how = REACH_CHECKED;
	count = wl_python_frames(&r, wl_python_innermost(&r, thread), frames, max);
	if (r.failed)
		switch_off("off: this build's frames are not laid out as its version's are");
	else if (r.how == REACH_CHECKED && count)
		atomic_fetch_add_explicit(&checked_walks, 1, memory_order_relaxed);
	return count;
}

/* --- names and lines ---------------------------------------------------------------------------- */

static size_t utf8_put(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

static uint32_t character(const uint8_t *data, unsigned kind, size_t i)
{
	uint16_t two;
	uint32_t four;

	if (kind == 1)
		return data[i];
	if (kind == 2) {
		memcpy(&two, data + 2 * i, 2);
		return two;
	}
	memcpy(&four, data + 4 * i, 4);
	return four;
}

static uint32_t text_intern(struct reach *r, uintptr_t text)
{
	char utf8[TEXT_BYTES_MAX + 4];
	uint8_t data[TEXT_BYTES_MAX];
	size_t used = 0;
	struct text t;

	if (!is_a(r, text, wl_python.text_type) || !text_find(r, text, &t))
		return 0;
	if (t.bytes > TEXT_BYTES_MAX)
		t.bytes = TEXT_BYTES_MAX;
	if (!get_bytes(r, t.from, data, t.bytes))
		return 0;
	if (t.ascii)
		return spool_intern_string((const char *)data, t.bytes);
	for (size_t i = 0; i < t.bytes / t.kind && used < TEXT_BYTES_MAX; i++)
		used += utf8_put(utf8 + used, character(data, t.kind, i));
	return spool_intern_string(utf8, used);
}

static uint32_t line_find(struct reach *r, const struct wl_python_frame *frame)
{
	const struct wl_pylayout *l = r->layout;
	uintptr_t from = frame->table + (uintptr_t)l->bytes_data;
	size_t size = get_pointer(r, frame->table, l->bytes_size);
	uint8_t copy[TABLE_COPY_BYTES];
	const uint8_t *table = (const uint8_t *)from;

	if (r->how == REACH_COPIED) { /* a long one is cut: then late lines are not found */
		if (size > sizeof(copy))
			size = sizeof(copy);
		if (!get_bytes(r, from, copy, size))
			return 0;
		table = copy;
	} else if (size > TABLE_BYTES_MAX || !wl_memory_readable(table, size)) {
		r->failed = true;
		return 0;
	}
	return (uint32_t)wl_pylines_find(l->lines, table, size, frame->first_line, frame->offset);
}

bool wl_python_resolve(const struct wl_python_frame *frame, bool awaited, uint32_t *file,
		       uint32_t *function, uint32_t *line)
{
	struct reach r = {.layout = wl_python.layout,
			  .how = awaited ? REACH_COPIED : REACH_CHECKED};

	if (!is_a(&r, frame->table, wl_python.bytes_type))
		return false;
	*line = line_find(&r, frame);
	*file = text_intern(&r, frame->filename);
	*function = text_intern(&r, frame->name);
	return !r.failed;
}
