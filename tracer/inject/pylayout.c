/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of CPython's frames, code objects and strings (64-bit builds).
 */
#include "tracer/inject/pylayout.h"

#include <string.h>

#define ABSENT (-1)

static const struct wl_pylayout tables[] = {
	{
		.version = 0x0309,
		.lines = WL_PYLINES_LNOTAB,
		.frame_objects = true,
		.instr_is_index = true,
		.thread_next = 8,
		.thread_frame = 24,
		.thread_cframe = ABSENT,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_instr = 104,
		.frame_owner = ABSENT,
		.frame_tlbc = ABSENT,
		.code_first_line = 40,
		.code_filename = 104,
		.code_name = 112,
		.code_table = 120,
		.code_start = ABSENT,
		.code_tlbc = ABSENT,
		.object_type = 8,
		.bytes_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x030a,
		.lines = WL_PYLINES_RANGES,
		.frame_objects = true,
		.instr_is_index = true,
		.thread_next = 8,
		.thread_frame = 24,
		.thread_cframe = ABSENT,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_instr = 96,
		.frame_owner = ABSENT,
		.frame_tlbc = ABSENT,
		.code_first_line = 40,
		.code_filename = 104,
		.code_name = 112,
		.code_table = 120,
		.code_start = ABSENT,
		.code_tlbc = ABSENT,
		.object_type = 8,
		.bytes_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x030b,
		.lines = WL_PYLINES_LOCATION,
		.stepped_pointer = true,
		.thread_next = 8,
		.thread_frame = ABSENT,
		.thread_cframe = 56,
		.cframe_frame = 8,
		.frame_previous = 48,
		.frame_code = 32,
		.frame_instr = 56,
		.frame_owner = ABSENT, /* its frames all have code objects */
		.frame_tlbc = ABSENT,
		.code_first_line = 72,
		.code_filename = 112,
		.code_name = 120,
		.code_table = 136,
		.code_start = 184,
		.code_tlbc = ABSENT,
		.object_type = 8,
		.bytes_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x030c,
		.lines = WL_PYLINES_LOCATION,
		.stepped_pointer = true,
		.thread_next = 8,
		.thread_frame = ABSENT,
		.thread_cframe = 56,
		.cframe_frame = 0,
		.frame_previous = 8,
		.frame_code = 0,
		.frame_instr = 56,
		.frame_owner = 70,
		.frame_tlbc = ABSENT,
		.code_first_line = 68,
		.code_filename = 112,
		.code_name = 120,
		.code_table = 136,
		.code_start = 192,
		.code_tlbc = ABSENT,
		.object_type = 8,
		.bytes_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii = 40,
		.text_compact = 56,
	},
};

/* --- 3.13 and newer: what the interpreter publishes for debuggers --------------------------------- */

/* Positions of what we read in that table, counted in 64-bit words. The table begins with a cookie,
 * the version and whether the build is free-threaded; each minor version adds members. */
struct published {
	unsigned version;
	short frame_size, thread_next, thread_frame, frame_previous, frame_code, frame_instr,
		frame_owner, frame_tlbc;
	short code_size, code_filename, code_name, code_table, code_first_line, code_start,
		code_tlbc;
	short object_type, bytes_size, bytes_data, text_state, text_length, text_ascii;
};

static const struct published published[] = {
	{
		.version = 0x030d,
		.thread_next = 21,
		.thread_frame = 23,
		.frame_size = 28,
		.frame_previous = 29,
		.frame_code = 30,
		.frame_instr = 31,
		.frame_owner = 33,
		.frame_tlbc = ABSENT,
		.code_size = 34,
		.code_filename = 35,
		.code_name = 36,
		.code_table = 38,
		.code_first_line = 39,
		.code_start = 43,
		.code_tlbc = ABSENT,
		.object_type = 45,
		.bytes_size = 65,
		.bytes_data = 66,
		.text_state = 68,
		.text_length = 69,
		.text_ascii = 70,
	},
	{
		.version = 0x030e,
		.thread_next = 24,
		.thread_frame = 26,
		.frame_size = 31,
		.frame_previous = 32,
		.frame_code = 33,
		.frame_instr = 34,
		.frame_owner = 36,
		.frame_tlbc = 38,
		.code_size = 39,
		.code_filename = 40,
		.code_name = 41,
		.code_table = 43,
		.code_first_line = 44,
		.code_start = 48,
		.code_tlbc = 49,
		.object_type = 51,
		.bytes_size = 75,
		.bytes_data = 76,
		.text_state = 78,
		.text_length = 79,
		.text_ascii = 80,
	},
};

#define COOKIE          "xdebugpy"
#define PLAUSIBLE_BYTES 1024 /* no structure that we look into is larger */

static short word(const uint64_t *words, short position)
{
	if (position == ABSENT)
		return ABSENT;
	return words[position] < PLAUSIBLE_BYTES ? (short)words[position] : ABSENT;
}

/* In order, inside their structure: what a table of another shape would hardly pass. */
static bool plausible(const struct wl_pylayout *l, short frame_size, short code_size)
{
	return l->thread_next >= 0 && l->thread_frame > l->thread_next && l->frame_previous >= 0 &&
	       l->frame_code >= 0 && l->frame_instr > l->frame_previous &&
	       l->frame_owner > l->frame_instr && l->frame_owner < frame_size &&
	       l->code_first_line > 0 && l->code_filename > l->code_first_line &&
	       l->code_name > l->code_filename && l->code_table > l->code_name &&
	       l->code_start > l->code_table && l->code_start <= code_size && l->object_type > 0 &&
	       l->bytes_size > l->object_type && l->bytes_data > l->bytes_size &&
	       l->text_length > l->object_type && l->text_state > l->text_length &&
	       l->text_ascii > l->text_state;
}

static const struct wl_pylayout *published_read(const uint64_t *words, const struct published *p)
{
	static struct wl_pylayout layout;
	struct wl_pylayout l = {
		.version = p->version,
		.lines = WL_PYLINES_LOCATION,
		.thread_next = word(words, p->thread_next),
		.thread_frame = word(words, p->thread_frame),
		.thread_cframe = ABSENT,
		.frame_previous = word(words, p->frame_previous),
		.frame_code = word(words, p->frame_code),
		.frame_instr = word(words, p->frame_instr),
		.frame_owner = word(words, p->frame_owner),
		.frame_tlbc = ABSENT,
		.code_first_line = word(words, p->code_first_line),
		.code_filename = word(words, p->code_filename),
		.code_name = word(words, p->code_name),
		.code_table = word(words, p->code_table),
		.code_start = word(words, p->code_start),
		.code_tlbc = ABSENT,
		.object_type = word(words, p->object_type),
		.bytes_size = word(words, p->bytes_size),
		.bytes_data = word(words, p->bytes_data),
		.text_length = word(words, p->text_length),
		.text_state = word(words, p->text_state),
		.text_ascii = word(words, p->text_ascii),
	};

	l.text_compact = (short)(l.text_ascii + 16); /* the UTF-8 form: its length, a pointer */
	if (words[2] &&
	    p->frame_tlbc != ABSENT) { /* free-threaded: byte code of its own a thread */
		l.frame_tlbc = word(words, p->frame_tlbc);
		l.code_tlbc = word(words, p->code_tlbc);
		if (l.frame_tlbc <= 0 || l.code_tlbc <= 0)
			return NULL;
	}
	if (!plausible(&l, word(words, p->frame_size), word(words, p->code_size)))
		return NULL;
	layout = l;
	return &layout;
}

const struct wl_pylayout *wl_pylayout_find(unsigned version_hex, const void *runtime,
					   const char **why)
{
	const uint64_t *words = runtime;
	const struct wl_pylayout *layout = NULL;

	for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (tables[i].version == version_hex >> 16)
			return &tables[i];
	*why = "this version of CPython is not known";
	if (!runtime || version_hex >> 16 < 0x030d)
		return NULL;
	if (memcmp(words, COOKIE, 8) != 0 || words[1] >> 16 != version_hex >> 16) {
		*why = "this build of CPython publishes no layout";
		return NULL;
	}
	for (unsigned i = 0; i < sizeof(published) / sizeof(published[0]); i++)
		if (published[i].version == version_hex >> 16) {
			layout = published_read(words, &published[i]);
			*why = "the layout that this build of CPython publishes is implausible";
		}
	return layout;
}
