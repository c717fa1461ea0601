/* SPDX-License-Identifier: Apache-2.0
 *
 * An import's processes as readers: cursors over one thread or merged, texts, stacks.
 */
#include "tracer/lttng/import_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- texts ------------------------------------------------------------------------------------ */

static uint32_t hash(const char *text, size_t length)
{
	uint64_t h = 0x9e3779b97f4a7c15ull ^ length;

	for (; length >= 8; text += 8, length -= 8) {
		uint64_t word;

		memcpy(&word, text, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdull;
		h ^= h >> 29;
	}
	for (; length; text++, length--)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return (uint32_t)(h ^ (h >> 32));
}

bool texts_init(struct texts *t)
{
	t->table_size = 1024;
	t->capacity = 512;
	t->table = calloc(t->table_size, sizeof(*t->table));
	t->items = calloc(t->capacity, sizeof(*t->items));
	t->hashes = calloc(t->capacity, sizeof(*t->hashes));
	if (!t->table || !t->items || !t->hashes)
		return false;
	t->items[0] = strdup("");
	t->count = 1;
	return t->items[0] != NULL;
}

void texts_free(struct texts *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free(t->items[i]);
	free((void *)t->items);
	free(t->hashes);
	free(t->table);
}

static bool texts_grow(struct texts *t)
{
	uint32_t capacity = t->capacity * 2, size = t->table_size * 2;
	char **items = realloc((void *)t->items, capacity * sizeof(*items));
	uint32_t *hashes, *table;

	if (items)
		t->items = items;
	hashes = realloc(t->hashes, capacity * sizeof(*hashes));
	if (hashes)
		t->hashes = hashes;
	table = calloc(size, sizeof(*table));
	if (!items || !hashes || !table) {
		free(table);
		return false;
	}
	for (uint32_t id = 1; id < t->count; id++) {
		uint32_t at = t->hashes[id] & (size - 1);

		while (table[at])
			at = (at + 1) & (size - 1);
		table[at] = id;
	}
	free(t->table);
	t->table = table;
	t->table_size = size;
	t->capacity = capacity;
	return true;
}

uint32_t texts_add(struct texts *t, const char *text, size_t length)
{
	uint32_t h = hash(text, length), at;

	if (!length)
		return 0;
	for (at = h & (t->table_size - 1); t->table[at]; at = (at + 1) & (t->table_size - 1)) {
		const char *there = t->items[t->table[at]];

		if (t->hashes[t->table[at]] == h && strncmp(there, text, length) == 0 &&
		    there[length] == '\0')
			return t->table[at];
	}
	if (t->count == t->capacity) {
		if (!texts_grow(t))
			return UINT32_MAX;
		for (at = h & (t->table_size - 1); t->table[at];)
			at = (at + 1) & (t->table_size - 1);
	}
	t->items[t->count] = strndup(text, length);
	if (!t->items[t->count])
		return UINT32_MAX;
	t->hashes[t->count] = h;
	t->table[at] = t->count;
	return t->count++;
}

static const char *reader_string(struct trace_reader *reader, uint32_t id)
{
	return import_text_of(((struct import_process *)reader)->import, id);
}

/* --- stacks: "py[+]\tFILE\tLINE\tFUNCTION\n" or "so[+]\tPATH\tOFFSET\tBUILDID\n" ---------------- */

/* The next word up to a tab or the line's end, as a text of the import's. */
static const char *word(struct import *import, const char **at)
{
	size_t length = strcspn(*at, "\t\n");
	const char *text = import_text_of(import, import_text(import, *at, length));

	*at += length;
	if (**at == '\t')
		(*at)++;
	return text;
}

static unsigned nibble(char c)
{
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
				    : (c >= '0' && c <= '9' ? (unsigned)(c - '0') : 16);
}

static void build_id(const char *text, struct trace_frame *frame)
{
	while (frame->build_id_bytes < sizeof(frame->build_id) && nibble(text[0]) < 16 &&
	       nibble(text[1]) < 16) {
		frame->build_id[frame->build_id_bytes++] =
			(uint8_t)(nibble(text[0]) << 4 | nibble(text[1]));
		text += 2;
	}
}

static void frame_parse(struct import *import, const char *line, struct trace_frame *frame)
{
	const char *kind = word(import, &line), *first = word(import, &line);
	const char *second = word(import, &line), *third = word(import, &line);

	*frame = (struct trace_frame){.awaited = kind[0] && kind[1] && kind[2] == '+',
				      .file = first};
	if (strncmp(kind, "py", 2) == 0) {
		frame->kind = TRACE_FRAME_PYTHON;
		frame->line = (uint32_t)strtoul(second, NULL, 10);
		frame->function = third;
	} else {
		frame->kind = TRACE_FRAME_NATIVE;
		frame->offset = strtoull(second, NULL, 16);
		build_id(third, frame);
	}
}

static unsigned reader_stack(struct trace_reader *reader, uint32_t id, struct trace_frame *frames,
			     unsigned max)
{
	struct import *import = ((struct import_process *)reader)->import;
	const char *line = import_text_of(import, id);
	unsigned count = 0;

	if (!id || id >= import->texts.count)
		return 0;
	while (*line) {
		if (count < max)
			frame_parse(import, line, &frames[count]);
		count++;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return count;
}

static unsigned reader_inflight(struct trace_reader *reader, struct trace_inflight *calls,
				unsigned max)
{
	struct import_process *p = (struct import_process *)reader;
	unsigned count = 0;

	for (unsigned i = 0; i < reader->thread_count; i++) {
		const struct inflight *f = &p->threads[i]->inflight;

		if (!f->type)
			continue;
		if (count < max)
			calls[count] = (struct trace_inflight){
				.thread = i,
				.type = f->type,
				.api = import_text_of(p->import, f->api),
				.stack = f->stack,
				.since_ns = f->since_ns,
			};
		count++;
	}
	return count < max ? count : max;
}

/* --- cursors ---------------------------------------------------------------------------------- */

/* Over one thread. */
struct walk {
	const struct import_thread *thread;
	unsigned block; /* the next to be read */
	uint32_t at, bytes;
	uint8_t *buffer;
};

struct trace_cursor {
	struct import *import;
	unsigned count; /* walks with a record, as a heap by its end */
	unsigned all;
	struct walk **heap, *walks;
};

static const struct record *present(const struct walk *w)
{
	return (const struct record *)(w->buffer + w->at);
}

/* 1: there is a record; 0: no more; -errno. */
static int walk_fill(const struct import *import, struct walk *w)
{
	const struct block *block;
	uint32_t done = 0;

	if (w->at < w->bytes)
		return 1;
	if (w->block == w->thread->block_count)
		return 0;
	block = &w->thread->blocks[w->block++];
	while (done < block->bytes) {
		ssize_t n = pread(import->fd, w->buffer + done, block->bytes - done,
				  (off_t)(block->at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (uint32_t)n;
	}
	w->at = 0;
	w->bytes = block->bytes;
	return 1;
}

static bool before(const struct walk *a, const struct walk *b)
{
	int64_t x = present(a)->end_ns, y = present(b)->end_ns;

	return x != y ? x < y : a->thread->index < b->thread->index;
}

static void sift_down(struct trace_cursor *c, unsigned at)
{
	for (;;) {
		unsigned least = at, left = 2 * at + 1;
		struct walk *swapped;

		for (unsigned child = left; child < c->count && child < left + 2; child++)
			if (before(c->heap[child], c->heap[least]))
				least = child;
		if (least == at)
			return;
		swapped = c->heap[at];
		c->heap[at] = c->heap[least];
		c->heap[least] = swapped;
		at = least;
	}
}

static void cursor_close(struct trace_cursor *c)
{
	for (unsigned i = 0; i < c->all; i++)
		free(c->walks[i].buffer);
	free(c->walks);
	free((void *)c->heap);
	free(c);
}

static int cursor_fill(struct trace_cursor *c, struct import_process *p, unsigned first)
{
	for (unsigned i = 0; i < c->all; i++) {
		struct walk *w = &c->walks[i];
		int rc;

		w->thread = p->threads[first + i];
		w->buffer = malloc(BLOCK_BYTES);
		if (!w->buffer)
			return -ENOMEM;
		rc = walk_fill(c->import, w);
		if (rc < 0)
			return rc;
		if (rc)
			c->heap[c->count++] = w;
	}
	for (unsigned i = c->count; i-- > 0;)
		sift_down(c, i);
	return 0;
}

static struct trace_cursor *cursor_open(struct trace_reader *reader, int thread, int *error)
{
	struct import_process *p = (struct import_process *)reader;
	struct trace_cursor *c;

	*error = -EINVAL;
	if (thread >= 0 && (unsigned)thread >= reader->thread_count)
		return NULL;
	*error = -ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->import = p->import;
	c->all = thread >= 0 ? 1 : reader->thread_count;
	c->walks = calloc(c->all + 1u, sizeof(*c->walks));
	c->heap = calloc(c->all + 1u, sizeof(struct walk *));
	if (!c->walks || !c->heap) {
		c->all = 0;
		cursor_close(c);
		return NULL;
	}
	*error = cursor_fill(c, p, thread >= 0 ? (unsigned)thread : 0);
	if (!*error)
		return c;
	cursor_close(c);
	return NULL;
}

static int cursor_next(struct trace_cursor *c, struct trace_event *event)
{
	const struct record *record;
	struct walk *w;
	int rc;

	if (!c->count)
		return 0;
	w = c->heap[0];
	record = present(w);
	event->type = record->type;
	event->thread = w->thread->index;
	event->flags = record->flags;
	event->begin_ns = record->begin_ns;
	event->end_ns = record->end_ns;
	memcpy(event->args, record + 1, record->argc * sizeof(uint64_t));
	w->at += (uint32_t)(sizeof(*record) + record->argc * sizeof(uint64_t));
	rc = walk_fill(c->import, w);
	if (rc < 0)
		return rc;
	if (!rc)
		c->heap[0] = c->heap[--c->count];
	sift_down(c, 0);
	return 1;
}

static void reader_close(struct trace_reader *reader)
{
	import_free(((struct import_process *)reader)->import);
}

const struct trace_reader_ops import_ops = {
	.cursor_open = cursor_open,
	.cursor_next = cursor_next,
	.cursor_close = cursor_close,
	.string = reader_string,
	.stack = reader_stack,
	.inflight = reader_inflight,
	.close = reader_close,
};
