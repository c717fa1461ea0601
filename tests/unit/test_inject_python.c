/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over frames of a free-threaded CPython 3.14, laid out here by hand as its headers say (with
 * Py_GIL_DISABLED), and of the ordinary 3.14, which traced/python.sh also holds against the real one: tagged
 * references, byte code of its own for each thread, frames of the interpreter itself in between.
 */
#include "tracer/inject/inject.h"
#include "tracer/inject/pyread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- what python.c wants from the rest ------------------------------------------------------------ */

static char strings[64][64];
static uint32_t string_count = 1;
__thread struct spool_thread *spool_self;

uint32_t spool_intern_string(const char *text, size_t length)
{
	assert_true(length < sizeof(strings[0]) && string_count < 64);
	memcpy(strings[string_count], text, length);
	strings[string_count][length] = 0;
	return string_count++;
}

void *wl_symbol_find(const char *soname_prefix, const char *name, const char *version)
{
	(void)soname_prefix, (void)name, (void)version;
	return NULL;
}

void spool_attribute(const char *key, const char *value)
{
	(void)key, (void)value;
}

void wl_debug(const char *format, ...)
{
	(void)format;
}

/* --- what the interpreter publishes --------------------------------------------------------------- */

#define WORDS 95
struct build {
	bool free_threaded;
	uint16_t next, frame, previous, executable, instr, owner, tlbc_index, frame_size, filename,
		name, linetable, first_line, code_start, tlbc, code_size, type, bytes_size,
		bytes_data, state, length, ascii;
};

static const struct build with_lock = {.next = 8,
				       .frame = 72,
				       .previous = 8,
				       .executable = 0,
				       .instr = 56,
				       .owner = 74,
				       .frame_size = 88,
				       .filename = 112,
				       .name = 120,
				       .linetable = 136,
				       .first_line = 68,
				       .code_start = 208,
				       .code_size = 216,
				       .type = 8,
				       .bytes_size = 16,
				       .bytes_data = 32,
				       .state = 32,
				       .length = 16,
				       .ascii = 40};
static const struct build without_lock = {.free_threaded = true,
					  .next = 8,
					  .frame = 72,
					  .previous = 8,
					  .executable = 0,
					  .instr = 56,
					  .owner = 78,
					  .tlbc_index = 72,
					  .frame_size = 88,
					  .filename = 128,
					  .name = 136,
					  .linetable = 152,
					  .first_line = 84,
					  .code_start = 232,
					  .tlbc = 224,
					  .code_size = 240,
					  .type = 24,
					  .bytes_size = 32,
					  .bytes_data = 48,
					  .state = 48,
					  .length = 32,
					  .ascii = 56};

static void publish(const struct build *b, uint64_t *w)
{
	memset(w, 0, WORDS * sizeof(*w));
	memcpy(w, "xdebugpy", 8);
	w[1] = 0x030e08f0;
	w[2] = b->free_threaded;
	w[24] = b->next, w[26] = b->frame;
	w[31] = b->frame_size, w[32] = b->previous, w[33] = b->executable, w[34] = b->instr;
	w[36] = b->owner, w[38] = b->tlbc_index;
	w[39] = b->code_size, w[40] = b->filename, w[41] = b->name, w[43] = b->linetable;
	w[44] = b->first_line, w[48] = b->code_start, w[49] = b->tlbc;
	w[51] = b->type, w[75] = b->bytes_size, w[76] = b->bytes_data;
	w[78] = b->state, w[79] = b->length, w[80] = b->ascii;
}

/* --- objects -------------------------------------------------------------------------------------- */

enum { THREADS = 5003 }; /* more copies of byte code than a short counts bytes of */
struct object {
	_Alignas(16) uint8_t bytes[512];
};
static const struct build *build;
static struct object thread, frames[5], codes[2], names[4], tables[2], copy;
static struct {
	uint64_t size;
	uintptr_t entries[THREADS];
} copies[2];
static uint64_t words[WORDS];

static void put(struct object *object, unsigned at, uint64_t value)
{
	memcpy(object->bytes + at, &value, sizeof(value));
}

static void put_int(struct object *object, unsigned at, int32_t value)
{
	memcpy(object->bytes + at, &value, sizeof(value));
}

static void text(struct object *object, const char *string)
{
	unsigned compact_ascii = 1 | 1 << 3 | 1 << 4; /* kind 1, compact, ASCII */

	put(object, build->type, wl_python.text_type);
	put(object, build->length, strlen(string));
	/* Two bits, or a byte of its own, say that it is interned. */
	put_int(object, build->state,
		(int32_t)(2 | compact_ascii << (build->free_threaded ? 8 : 2)));
	memcpy(object->bytes + build->ascii, string, strlen(string) + 1);
}

/* Lines of four bytes of code each: first, first + 1, first + 3. */
static void code(unsigned i, int first_line)
{
	static const uint8_t lines[] = {0x80 | 10 << 3 | 1, 0, 1, 0x80 | 11 << 3 | 1, 0, 1,
					0x80 | 12 << 3 | 1, 0, 1};
	struct object *c = &codes[i];

	put(&tables[i], build->type, wl_python.bytes_type);
	put(&tables[i], build->bytes_size, sizeof(lines));
	memcpy(tables[i].bytes + build->bytes_data, lines, sizeof(lines));
	put(c, build->type, wl_python.code_type);
	put_int(c, build->first_line, first_line);
	put(c, build->filename, (uintptr_t)&names[0]);
	put(c, build->name, (uintptr_t)&names[1 + i]);
	put(c, build->linetable, (uintptr_t)&tables[i]);
	if (build->free_threaded) {
		copies[i].size = THREADS;
		copies[i].entries[0] = (uintptr_t)c->bytes + build->code_start;
		put(c, build->tlbc, (uintptr_t)&copies[i]);
	}
}

static void frame(unsigned i, uintptr_t executable, uintptr_t instr, int owner)
{
	put(&frames[i], build->executable, executable);
	put(&frames[i], build->previous, i + 1 < 5 ? (uintptr_t)&frames[i + 1] : 0);
	put(&frames[i], build->instr, instr);
	if (build->free_threaded)
		put_int(&frames[i], build->tlbc_index, 0);
	frames[i].bytes[build->owner] = (uint8_t)owner;
}

static void lay_out(const struct build *b)
{
	const char *why = NULL;
	uintptr_t tag = b->free_threaded ? 1 : 0;

	build = b;
	publish(b, words);
	wl_python.code_type = 0x1000, wl_python.text_type = 0x2000, wl_python.bytes_type = 0x3000;
	wl_python.layout = wl_pylayout_find(0x030e0000, words, &why);
	assert_non_null(wl_python.layout);
	text(&names[0], "/job/train.py");
	text(&names[1], "step");
	text(&names[2], "main");
	code(0, 10);
	code(1, 50);
	/* step, called through C; main's generator and main in one frame of the interpreter each. */
	frame(0, (uintptr_t)&codes[0] | tag, (uintptr_t)codes[0].bytes + b->code_start + 4, 0);
	frame(1, 0x4000 | tag, 0, 3);
	frame(2, (uintptr_t)&codes[1] | tag, (uintptr_t)codes[1].bytes + b->code_start + 8, 1);
	frame(3, (uintptr_t)&codes[1], (uintptr_t)codes[1].bytes + b->code_start, 2);
	frame(4, 0x4000 | tag, 0, 4);
	put(&thread, b->frame, (uintptr_t)&frames[0]);
}

static unsigned walk(struct wl_python_frame *found, unsigned max, enum reach_how how, bool *failed)
{
	struct reach r = {.layout = wl_python.layout, .how = how};
	unsigned count =
		wl_python_frames(&r, wl_python_innermost(&r, (uintptr_t)&thread), found, max);

	*failed = r.failed;
	return count;
}

static void expect(const struct wl_python_frame *found, const char *function, unsigned line)
{
	uint32_t file, name, at;

	assert_true(wl_python_resolve(found, false, &file, &name, &at));
	assert_string_equal(strings[file], "/job/train.py");
	assert_string_equal(strings[name], function);
	assert_int_equal(at, line);
}

static void frames_are_read(void **state)
{
	static const struct build *const builds[] = {&with_lock, &without_lock};
	struct wl_python_frame found[8];
	bool failed;

	(void)state;
	for (unsigned b = 0; b < 2; b++)
		for (enum reach_how how = REACH_PLAIN; how <= REACH_COPIED; how++) {
			lay_out(builds[b]);
			assert_int_equal(walk(found, 8, how, &failed), 3);
			assert_false(failed);
			expect(&found[0], "step", 11);
			expect(&found[1], "main", 53);
			expect(&found[2], "main", 50);
			string_count = 1;
		}
}

/* A thread that is not the first runs a copy of the byte code, which lies anywhere. */
static void byte_code_of_a_thread(void **state)
{
	struct wl_python_frame found[8];
	bool failed;

	(void)state;
	lay_out(&without_lock);
	copies[0].entries[THREADS - 1] = (uintptr_t)&copy;
	put(&frames[0], build->instr, (uintptr_t)&copy + 8);
	put_int(&frames[0], build->tlbc_index, THREADS - 1);
	assert_int_equal(walk(found, 8, REACH_CHECKED, &failed), 3);
	expect(&found[0], "step", 13);
	/* One that there is not: something is not as it should be, and nothing is shown. */
	put_int(&frames[0], build->tlbc_index, THREADS);
	assert_int_equal(walk(found, 8, REACH_CHECKED, &failed), 0);
	assert_true(failed);
	put_int(&frames[0], build->tlbc_index, -1);
	assert_int_equal(walk(found, 8, REACH_CHECKED, &failed), 0);
	assert_true(failed);
}

/* What does not look like such a table is not one. */
static void other_tables_are_refused(void **state)
{
	static const unsigned positions[] = {26, 32, 34, 36, 40, 41, 43, 44,
					     48, 49, 75, 76, 78, 79, 80};
	const char *why = NULL;

	(void)state;
	for (unsigned i = 0; i < sizeof(positions) / sizeof(positions[0]); i++) {
		publish(&without_lock, words);
		words[positions[i]] = 5000;
		assert_null(wl_pylayout_find(0x030e0000, words, &why));
		assert_non_null(strstr(why, "implausible"));
	}
	publish(&without_lock, words);
	assert_null(wl_pylayout_find(0x030f0000, words, &why));
	assert_null(wl_pylayout_find(0x030e0000, NULL, &why));
	words[0] ^= 1;
	assert_null(wl_pylayout_find(0x030e0000, words, &why));
	assert_non_null(strstr(why, "publishes no layout"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_are_read),
		cmocka_unit_test(byte_code_of_a_thread),
		cmocka_unit_test(other_tables_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
