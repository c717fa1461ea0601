/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading CTF: what is read here is what libbabeltrace2 reads; damaged folders give what is whole of them,
 * and no byte of theirs makes the reader fall over.
 *
 * WAYLAY_TEST_DAMAGES: how many folders are damaged at random (300); WAYLAY_TEST_SEED: where it begins.
 */
#include "tests/unit/ctf_write.h"
#include "tracer/lttng/ctf.h"
#include "tracer/lttng/leaf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <babeltrace2/babeltrace.h>

/* What the library and its plugins leave behind is not ours; the plugins stay, so that they are known. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:babeltrace\nleak:libglib\n";
}

static char dir[256];
static const bt_plugin *kept;

static int dir_make(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/waylay-ctf-test-XXXXXX", tmp ? tmp : "/tmp");
	(void)bt_plugin_find("ctf", BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, &kept);
	return mkdtemp(dir) ? 0 : -1;
}

static void dir_clear(const char *below)
{
	char command[300];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'%s", dir, below);
	assert_int_equal(system(command), 0);
}

static int dir_remove(void **state)
{
	(void)state;
	dir_clear("");
	return 0;
}

/* --- what a folder holds, as text ------------------------------------------------------------- */

struct said {
	char *text;
	size_t size;
	uint64_t events, lost, records;
	char err[600], damage[600];
	int rc;
};

static void say_event(FILE *f, struct trace_reader *r, const struct trace_event *e)
{
	struct trace_frame frames[8];

	(void)fprintf(f, "%lld %s %lld %lld %u", (long long)r->threads[e->thread].tid,
		      e->type->name, (long long)e->begin_ns, (long long)e->end_ns, e->flags);
	for (unsigned i = 0; i < e->type->arg_count; i++) {
		uint32_t id = (uint32_t)e->args[i];

		if (e->type->args[i].show == WL_SHOW_STR)
			(void)fprintf(f, " %s", r->ops->string(r, id));
		else if (e->type->args[i].show == WL_SHOW_STACK)
			(void)fprintf(f, " %u", r->ops->stack(r, id, frames, 8));
		else
			(void)fprintf(f, " %llu", (unsigned long long)e->args[i]);
	}
	(void)fputc('\n', f);
}

static void say_process(FILE *f, struct trace_reader *r, struct said *said)
{
	struct trace_inflight in[16];
	struct trace_event event;
	struct trace_cursor *c;
	unsigned count;
	int error;

	(void)fprintf(f, "process %lld %s %s\n", (long long)r->info.pid, r->info.host,
		      r->info.process_name);
	said->lost += r->info.drops[TRACE_DROP_ENGINE];
	(void)snprintf(said->damage, sizeof(said->damage), "%s", r->info.damage);
	for (unsigned i = 0; i < r->info.attribute_count; i++)
		(void)fprintf(f, "%s=%s\n", r->info.attributes[i][0], r->info.attributes[i][1]);
	for (unsigned i = 0; i < r->info.clock_count; i++)
		(void)fprintf(f, "clock %lld\n", (long long)r->info.clocks[i].realtime_ns);
	for (unsigned i = 0; i < r->thread_count; i++)
		(void)fprintf(f, "thread %lld %s\n", (long long)r->threads[i].tid,
			      r->threads[i].name);
	count = r->ops->inflight(r, in, 16);
	for (unsigned i = 0; i < count; i++)
		(void)fprintf(f, "in %u %s %lld\n", in[i].thread, in[i].api,
			      (long long)in[i].since_ns);
	c = r->ops->cursor_open(r, -1, &error);
	assert_non_null(c);
	while (r->ops->cursor_next(c, &event) == 1) {
		say_event(f, r, &event);
		said->records++;
	}
	r->ops->cursor_close(c);
}

static void folder_say(struct said *said, bool by_library)
{
	struct trace_reader **readers = NULL;
	unsigned count;
	FILE *f;

	memset(said, 0, sizeof(*said));
	f = open_memstream(&said->text, &said->size);
	assert_non_null(f);
	said->rc = ctf_open(dir, wl_event_type, &readers, &count, by_library, &said->events,
			    said->err, sizeof(said->err));
	for (unsigned i = 0; said->rc == 0 && i < count; i++) {
		say_process(f, readers[i], said);
		readers[i]->ops->close(readers[i]);
	}
	free((void *)readers);
	(void)fclose(f);
}

/* The first line that differs, not thousands of them. */
static void texts_same(const char *a, const char *b)
{
	while (*a || *b) {
		size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");

		if (n != m || strncmp(a, b, n) != 0)
			fail_msg("here: %.*s; by the library: %.*s", (int)n, a, (int)m, b);
		a += n + (a[n] != '\0');
		b += m + (b[m] != '\0');
	}
}

static void both_same(const struct ctf_write *how)
{
	uint64_t events;
	struct said here, library;

	dir_clear("/*");
	events = ctf_write(dir, how);
	folder_say(&here, false);
	folder_say(&library, true);
	assert_string_equal(here.err, "");
	assert_string_equal(library.err, "");
	assert_int_equal(here.events, events);
	assert_int_equal(library.events, events);
	assert_true(here.records > events / 2);
	assert_string_equal(here.damage, "");
	texts_same(here.text, library.text);
	assert_int_equal(here.lost,
			 how->streams * (how->packets - 1) * (how->discarded + how->missing));
	assert_int_equal(library.lost, here.lost);
	free(here.text);
	free(library.text);
}

static const struct ctf_write usual = {
	.plain = true, .streams = 3, .packets = 5, .events = 211, .step_ns = 1009};

static void test_same(void **state)
{
	struct ctf_write how = usual;

	(void)state;
	both_same(&how);
	how.context = true;
	how.packed = true;
	both_same(&how);
	how.large = true;
	both_same(&how);
	/* The clock's lower bits go round, and round more than once between two events. */
	how.large = false;
	how.step_ns = 100000007;
	both_same(&how);
	how.step_ns = 200000033;
	both_same(&how);
	how.large = true;
	how.step_ns = 5000000029;
	both_same(&how);
	/* Other kinds of members are the library's. */
	how = usual;
	how.plain = false;
	both_same(&how);
	/* A packet larger than what is looked at at a time. */
	how = usual;
	how.events = 10007;
	how.packets = 2;
	both_same(&how);
}

static void test_lost(void **state)
{
	struct ctf_write how = usual;

	(void)state;
	how.discarded = 31;
	both_same(&how);
	how.discarded = 0;
	how.missing = 2;
	both_same(&how);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void path_of(const char *name, char path[300])
{
	assert_true(snprintf(path, 300, "%s/%s", dir, name) < 300);
}

static void test_cut_stream(void **state)
{
	char path[300];
	struct said said, whole;
	struct stat st;

	(void)state;
	dir_clear("/*");
	(void)ctf_write(dir, &usual);
	folder_say(&whole, false);
	path_of("waylay_1", path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 100), 0);
	folder_say(&said, false);
	assert_int_equal(said.rc, 0);
	/* One packet of it is not whole any more. */
	assert_int_equal(said.events, whole.events - usual.events);
	assert_non_null(strstr(said.damage, "bytes of packets that are not whole were left out"));
	free(said.text);
	/* All of a stream. */
	assert_int_equal(truncate(path, 50), 0);
	folder_say(&said, false);
	assert_int_equal(said.events, whole.events - usual.events * usual.packets);
	free(said.text);
	free(whole.text);
}

/* Wherever metadata ends: what was declared is read, or it is said that nothing was. */
static void test_cut_metadata(void **state)
{
	struct said said;
	char path[300];
	struct stat st;
	unsigned read = 0, refused = 0;

	(void)state;
	path_of("metadata", path);
	for (off_t cut = 2; cut < 9000; cut += 397) {
		dir_clear("/*");
		(void)ctf_write(dir, &usual);
		assert_int_equal(stat(path, &st), 0);
		if (cut >= st.st_size)
			break;
		assert_int_equal(truncate(path, st.st_size - cut), 0);
		folder_say(&said, false);
		if (said.rc == 0) {
			read++;
			assert_true(*said.damage || *said.err);
		} else {
			refused++;
			assert_true(*said.err);
		}
		free(said.text);
	}
	assert_true(read > 0 && refused > 0);
}

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

/* Bytes of a file are changed; a part of it is taken out or put in again. */
static void damage(const char *name)
{
	static uint8_t bytes[1 << 20];
	char path[300];
	size_t size;
	FILE *f;

	path_of(name, path);
	f = fopen(path, "r+b");
	if (!f)
		return;
	size = fread(bytes, 1, sizeof(bytes), f);
	if (size > 1) {
		for (uint64_t i = random_next() % 4; i < 4; i++) {
			size_t at = random_next() % size;

			if (random_next() % 3)
				at %= 600; /* headers sooner than events */
			if (at < size)
				bytes[at] = (uint8_t)random_next();
		}
		if (random_next() % 4 == 0) {
			size_t from = random_next() % size, to = random_next() % size;
			size_t n = size - (from > to ? from : to);

			memmove(bytes + to, bytes + from, n < 512 ? n : 512);
		}
		if (random_next() % 4 == 0)
			size = random_next() % size;
		rewind(f);
		assert_int_equal(fwrite(bytes, 1, size, f), size);
	}
	(void)fclose(f);
	assert_int_equal(truncate(path, (off_t)size), 0);
}

/* A text without an end, in packets of some megabytes. */
static void test_endless_text(void **state)
{
	struct ctf_write how = usual;
	struct said said;
	char path[300];
	struct stat st;
	uint64_t bits;
	char *bytes;
	FILE *f;

	(void)state;
	how.events = 60013;
	how.packets = 2;
	how.streams = 1;
	dir_clear("/*");
	(void)ctf_write(dir, &how);
	path_of("waylay_0", path);
	assert_int_equal(stat(path, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_non_null(bytes);
	/* An event's header of these is that of a call that has begun, whose name comes first. */
	memset(bytes, 0x41, (size_t)st.st_size);
	f = fopen(path, "r+b");
	assert_true(f && fseek(f, 48, SEEK_SET) == 0);
	assert_int_equal(fread(&bits, sizeof(bits), 1, f), 1);
	assert_int_equal(fseek(f, 84, SEEK_SET), 0);
	assert_int_equal(fwrite(bytes, 1, bits / 8 - 84, f), bits / 8 - 84);
	assert_int_equal(fclose(f), 0);
	free(bytes);
	folder_say(&said, false);
	assert_int_equal(said.rc, 0);
	assert_int_equal(said.events, how.events); /* of the other packet */
	assert_non_null(strstr(said.damage, "not read to their ends"));
	free(said.text);
}

static void test_any_damage(void **state)
{
	const char *times = getenv("WAYLAY_TEST_DAMAGES"), *seed = getenv("WAYLAY_TEST_SEED");
	static const char *const names[] = {"waylay_0", "waylay_1", "metadata"};
	int all = times ? atoi(times) : 300, opened = 0, damaged = 0;
	struct ctf_write how = usual;

	(void)state;
	how.events = 31;
	how.streams = 2;
	random_state = seed ? strtoull(seed, NULL, 0) : 4711;
	for (int i = 0; i < all; i++) {
		struct said said;

		dir_clear("/*");
		how.context = random_next() % 2;
		how.large = random_next() % 2;
		how.packed = random_next() % 2;
		(void)ctf_write(dir, &how);
		/* Mostly streams: the library stops at the first word of metadata that is no word. */
		damage(names[random_next() % 7 / 3]);
		folder_say(&said, false);
		opened += said.rc == 0;
		damaged += said.rc == 0 && *said.damage;
		assert_true(said.rc == 0 || *said.err);
		free(said.text);
	}
	print_message("%d damaged folders, %d read, %d of them with words about it\n", all, opened,
		      damaged);
	assert_true(opened > all / 3 && damaged > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),       cmocka_unit_test(test_lost),
		cmocka_unit_test(test_cut_stream), cmocka_unit_test(test_cut_metadata),
		cmocka_unit_test(test_any_damage), cmocka_unit_test(test_endless_text),
	};

	return cmocka_run_group_tests(tests, dir_make, dir_remove);
}
