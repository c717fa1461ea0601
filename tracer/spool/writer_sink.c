/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine outside the process in place of the file: records go to its sink, while names, stacks and
 * facts are kept in memory of our own, to be sent inline.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <string.h>

const struct sink_ops *spool_sink;

/* --- texts ------------------------------------------------------------------------------------ */

/* An entry of the names' region, NULL if there is none of that kind at that id. */
static const void *entry_at(const struct spool_writer *w, uint32_t id, enum spool_meta_kind kind)
{
	const _Atomic uint32_t *at;
	uint32_t head;

	if (!id || (uint64_t)id * 8 + 8 > w->mapped_bytes)
		return NULL;
	at = (const _Atomic uint32_t *)((const uint8_t *)w->header + (uint64_t)id * 8);
	/* Pairs with the release in spool_meta_append(). */
	head = atomic_load_explicit(at, memory_order_acquire);
	return (head & SPOOL_META_COMMITTED) && SPOOL_META_KIND(head) == (uint32_t)kind ? at : NULL;
}

static const char *text_of(uint32_t id)
{
	struct spool_writer *w = spool_writer_open_now();
	const struct spool_meta_string *s = w ? entry_at(w, id, SPOOL_META_STRING) : NULL;

	return s ? s->text : id ? "?" : "";
}

struct text {
	char *at, *end;
};

/* Separators within are not meant as such. */
static void add(struct text *t, const char *s)
{
	for (; *s && t->at < t->end; s++)
		*t->at++ = (char)(*s == '\t' || *s == '\n' ? '?' : *s);
}

static void add_char(struct text *t, char c)
{
	if (t->at < t->end)
		*t->at++ = c;
}

static void add_number(struct text *t, uint64_t n, unsigned base)
{
	char digits[21], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do
		*--at = "0123456789abcdef"[n % base];
	while (n /= base);
	add(t, at);
}

static void add_build_id(struct text *t, const struct spool_meta_module *m)
{
	for (unsigned i = 0; i < m->build_id_bytes && i < sizeof(m->build_id); i++) {
		add_char(t, "0123456789abcdef"[m->build_id[i] >> 4]);
		add_char(t, "0123456789abcdef"[m->build_id[i] & 15]);
	}
}

static void add_frame(const struct spool_writer *w, struct text *t,
		      const struct spool_meta_frame *f)
{
	bool python = (f->kind & 0xff) == TRACE_FRAME_PYTHON;
	const struct spool_meta_module *m;

	add(t, python ? "py" : "so");
	if (f->kind & SPOOL_FRAME_AWAITED)
		add_char(t, '+');
	add_char(t, '\t');
	if (python) {
		add(t, text_of(f->what));
		add_char(t, '\t');
		add_number(t, f->where, 10);
		add_char(t, '\t');
		add(t, text_of(f->name));
	} else {
		m = entry_at(w, f->what, SPOOL_META_MODULE);
		add(t, m ? text_of(m->path) : "");
		add_char(t, '\t');
		add_number(t, f->where, 16);
		add_char(t, '\t');
		if (m)
			add_build_id(t, m);
	}
	add_char(t, '\n');
}

/* Whole frames; the outermost are left out where the text has no room for them. */
static const char *stack_of(const struct spool_writer *w, uint32_t id, char *buf, size_t size)
{
	const struct spool_meta_stack *s = entry_at(w, id, SPOOL_META_STACK);
	struct text t = {buf, buf + size - 1};

	for (uint32_t i = 0; s && i < s->count; i++) {
		char *before = t.at;

		add_frame(w, &t, &s->frames[i]);
		if (t.at == t.end) {
			t.at = before;
			break;
		}
	}
	*t.at = '\0';
	return buf;
}

/* --- records ---------------------------------------------------------------------------------- */

/* Where an event's stack id lies among its arguments; -1 for one without. */
static int stack_offset(uint16_t event)
{
	const struct wl_event_type *type = wl_event_type(event);
	int at = 0;

	for (unsigned i = 0; type && i < type->arg_count; i++) {
		if (type->args[i].show == WL_SHOW_STACK)
			return at;
		at += (int)wl_arg_type_bytes(type->args[i].type);
	}
	return -1;
}

void spool_sink_event(struct spool_writer *w, const struct spool_thread *self, uint16_t event,
		      uint64_t begin, uint64_t end, uint32_t flags, const void *args)
{
	struct sink_record record = {
		.begin = begin,
		.duration = end - begin,
		.flags = flags,
		.pid = (uint32_t)w->header->pid,
		.tid = (uint32_t)atomic_load_explicit(&self->owner->tid, memory_order_relaxed),
		.text = text_of,
		.stack = "",
	};
	char stack[SINK_STACK_BYTES];
	int at;
	uint32_t id;

	if (!spool_sink->wants(event))
		return;
	at = stack_offset(event);
	if (at >= 0) {
		memcpy(&id, (const uint8_t *)args + at, sizeof(id));
		if (id)
			record.stack = stack_of(w, id, stack, sizeof(stack));
	}
	spool_sink->event(event, &record, args);
}

void spool_sink_entry(struct spool_writer *w, uint16_t event, uint32_t api, uint64_t since,
		      uint32_t stack, uint64_t object)
{
	const struct wl_event_type *type = wl_event_type(event);
	struct spool_thread *self = spool_thread_claim(w);
	struct sink_entry entry = {.since = since, .object = object};
	char text[SINK_STACK_BYTES];

	if (!self)
		return;
	entry.event = type ? type->name : "?";
	entry.api = text_of(api);
	entry.pid = (uint32_t)w->header->pid;
	entry.tid = (uint32_t)atomic_load(&self->owner->tid);
	entry.stack = stack ? stack_of(w, stack, text, sizeof(text)) : "";
	spool_sink->entry(&entry);
	spool_thread_release(self);
}

/* --- facts ------------------------------------------------------------------------------------ */

static void process_send(const struct spool_writer *w)
{
	const struct spool_header *h = w->header;
	const struct sink_process process = {
		.pid = (uint32_t)h->pid,
		.ppid = (uint32_t)h->ppid,
		.pid_namespace = h->pid_namespace,
		.start_ticks = h->start_ticks,
		.rank = h->rank,
		.world_size = h->world_size,
		.local_rank = h->local_rank,
		.host = h->host,
		.run = h->run,
		.name = h->process_name,
		.version = WAYLAY_VERSION,
	};

	spool_sink->process(&process);
}

/* One entry of the names' region, to whom it may concern. */
void spool_sink_meta(struct spool_writer *w, const void *entry)
{
	uint32_t pid = (uint32_t)w->header->pid, head;

	memcpy(&head, entry, sizeof(head));
	if (SPOOL_META_KIND(head) == SPOOL_META_THREAD) {
		const struct spool_meta_thread *t = entry;

		spool_sink->thread(pid, (uint32_t)t->tid, text_of(t->name));
	} else if (SPOOL_META_KIND(head) == SPOOL_META_ATTRIBUTE) {
		const struct spool_meta_attribute *a = entry;

		spool_sink->attribute(pid, text_of(a->key), text_of(a->value));
	} else if (SPOOL_META_KIND(head) == SPOOL_META_CLOCK) {
		const struct spool_meta_clock *c = entry;
		const struct sink_clock clock = {pid, c->monotonic_ns, c->boottime_ns,
						 c->realtime_ns};

		spool_sink->clock(&clock);
	}
}

void spool_sink_all(struct spool_writer *w)
{
	uint64_t count = atomic_load(&w->header->chunk_next);

	process_send(w);
	for (uint64_t n = 0; n < count; n++) {
		uint8_t *chunk = (uint8_t *)spool_chunk_at(w, n);
		uint32_t off = sizeof(struct spool_chunk);

		if (((struct spool_chunk *)chunk)->type != SPOOL_CHUNK_META)
			continue;
		while (off + 8 <= w->chunk_bytes) {
			uint32_t head = atomic_load_explicit((_Atomic uint32_t *)(chunk + off),
							     memory_order_acquire);

			if (!SPOOL_META_BYTES(head))
				break;
			if (head & SPOOL_META_COMMITTED)
				spool_sink_meta(w, chunk + off);
			off += SPOOL_META_BYTES(head);
		}
	}
}

void spool_sink_tick(struct spool_writer *w)
{
	bool active = spool_sink->active();

	/* A session that began only now knows nothing of us. */
	if (active && !w->sink_active)
		spool_sink_all(w);
	w->sink_active = active;
}

void spool_sink_end(struct spool_writer *w)
{
	for (uint32_t i = 0; i < TRACE_DROP_MAX; i++) {
		uint64_t count = atomic_load(&w->header->drops[i]);

		if (count)
			spool_sink->lost((uint32_t)w->header->pid, i, count);
	}
	spool_sink->end((uint32_t)w->header->pid, spool_monotonic_ns());
}
