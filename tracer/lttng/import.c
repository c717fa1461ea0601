/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling an import, and its processes as readers.
 */
#include "tracer/lttng/import_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DAMAGE_BYTES 512

/* --- growing ---------------------------------------------------------------------------------- */

/* Room for one more of `size` bytes; false: no memory. */
static bool grow(void **items, unsigned count, unsigned *capacity, size_t size)
{
	unsigned more;
	void *grown;

	if (count < *capacity)
		return true;
	more = *capacity ? *capacity * 2 : 16;
	grown = realloc(*items, more * size);
	if (!grown)
		return false;
	*items = grown;
	*capacity = more;
	return true;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Deleted at once: it goes with the process. */
static int temporary_file(void)
{
	const char *directory = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/waylay-import-XXXXXX",
			     directory && *directory ? directory : "/tmp") >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)unlink(path);
	return fd;
}

struct import *import_new(const char *path, int *error)
{
	struct import *import = calloc(1, sizeof(*import));

	*error = -ENOMEM;
	if (!import)
		return NULL;
	import->references = 1;
	import->path = strdup(path);
	import->fd = temporary_file();
	if (import->fd < 0)
		*error = import->fd;
	else if (import->path && texts_init(&import->texts))
		return import;
	import_free(import);
	return NULL;
}

static void process_free(struct import_process *p)
{
	for (unsigned i = 0; i < p->base.thread_count; i++) {
		free(p->threads[i]->blocks);
		free(p->threads[i]->buffer);
		free(p->threads[i]);
	}
	free((void *)p->threads);
	free(p->shown);
	free(p->clocks);
	free((void *)p->attributes);
	free((void *)p->attribute_texts);
	free(p->host);
	free(p->damage);
	free(p);
}

void import_free(struct import *import)
{
	if (!import || --import->references)
		return;
	for (unsigned i = 0; i < import->process_count; i++)
		process_free(import->processes[i]);
	free((void *)import->processes);
	for (unsigned i = 0; i < import->type_count; i++) {
		free((void *)import->types[i]->args);
		free(import->types[i]);
	}
	free((void *)import->types);
	texts_free(&import->texts);
	if (import->fd >= 0)
		(void)close(import->fd);
	free(import->path);
	free(import);
}

uint32_t import_text(struct import *import, const char *text, size_t length)
{
	return texts_add(&import->texts, text, length);
}

const char *import_text_of(const struct import *import, uint32_t id)
{
	return texts_get(&import->texts, id);
}

const struct wl_event_type *import_type(struct import *import, const char *name,
					const struct wl_arg *args, unsigned arg_count)
{
	struct wl_event_type *type = calloc(1, sizeof(*type));
	struct wl_arg *own = calloc(arg_count + 1, sizeof(*own));

	if (!type || !own ||
	    !grow((void **)&import->types, import->type_count, &import->type_capacity,
		  sizeof(struct wl_event_type *))) {
		free(type);
		free(own);
		return NULL;
	}
	for (unsigned i = 0; i < arg_count; i++) {
		own[i] = args[i];
		own[i].name = import_text_of(
			import, import_text(import, args[i].name, strlen(args[i].name)));
		type->args_bytes += wl_arg_type_bytes(args[i].type);
	}
	type->name = import_text_of(import, import_text(import, name, strlen(name)));
	type->category = WL_CAT_meta;
	type->form = WL_FORM_INSTANT;
	type->number = (uint16_t)(WL_EV_MAX + import->type_count);
	type->arg_count = arg_count;
	type->args = own;
	import->types[import->type_count++] = type;
	return type;
}

/* --- processes -------------------------------------------------------------------------------- */

struct import_process *import_process(struct import *import, const char *host, int64_t pid)
{
	struct import_process *p = import->last;

	if (p && p->base.info.pid == pid && (p->asked == host || strcmp(p->host, host) == 0))
		return p;
	for (unsigned i = 0; i < import->process_count; i++) {
		p = import->processes[i];
		if (p->base.info.pid == pid && strcmp(p->host, host) == 0)
			return import->last = p;
	}
	if (!grow((void **)&import->processes, import->process_count, &import->process_capacity,
		  sizeof(struct import_process *)))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->host = strdup(host);
	if (!p->host) {
		free(p);
		return NULL;
	}
	p->import = import;
	p->asked = host;
	p->base.info = (struct trace_info){
		.format = "ctf",
		.path = import->path,
		.host = p->host,
		.run = "",
		.command = "",
		.process_name = "",
		.pid = pid,
		.rank = -1,
		.world_size = -1,
		.local_rank = -1,
		.damage = "",
		.start_ns = INT64_MAX,
		.end_ns = INT64_MIN,
	};
	import->processes[import->process_count++] = p;
	return import->last = p;
}

unsigned import_process_count(const struct import *import)
{
	return import->process_count;
}

struct import_process *import_process_at(struct import *import, unsigned index)
{
	return import->processes[index];
}

struct trace_info *import_info(struct import_process *process)
{
	return &process->base.info;
}

struct import_thread *import_thread(struct import_process *p, int64_t tid)
{
	struct import_thread *t = p->last;

	if (t && t->tid == tid)
		return t;
	for (unsigned i = 0; i < p->base.thread_count; i++)
		if (p->threads[i]->tid == tid)
			return p->last = p->threads[i];
	if (!grow((void **)&p->threads, p->base.thread_count, &p->thread_capacity,
		  sizeof(struct import_thread *)))
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	t->process = p;
	t->index = p->base.thread_count;
	t->first_ns = INT64_MAX;
	t->last_ns = INT64_MIN;
	p->threads[p->base.thread_count++] = t;
	return p->last = t;
}

void import_thread_name(struct import_thread *thread, uint32_t name)
{
	thread->name = name;
}

void import_attribute(struct import_process *p, uint32_t key, uint32_t value)
{
	/* A session that begins late is told everything again. */
	for (unsigned i = 0; i < p->attribute_count; i++)
		if (p->attributes[i][0] == key && p->attributes[i][1] == value)
			return;
	if (!grow((void **)&p->attributes, p->attribute_count, &p->attribute_capacity,
		  sizeof(*p->attributes)))
		return;
	p->attributes[p->attribute_count][0] = key;
	p->attributes[p->attribute_count++][1] = value;
}

void import_clock(struct import_process *p, const struct trace_clock *clock)
{
	unsigned at = p->base.info.clock_count;

	if (!grow((void **)&p->clocks, at, &p->clock_capacity, sizeof(*p->clocks)))
		return;
	for (unsigned i = 0; i < at; i++)
		if (p->clocks[i].monotonic_ns == clock->monotonic_ns)
			return;
	while (at > 0 && p->clocks[at - 1].monotonic_ns > clock->monotonic_ns) {
		p->clocks[at] = p->clocks[at - 1];
		at--;
	}
	p->clocks[at] = *clock;
	p->base.info.clock_count++;
}

void import_damage(struct import_process *p, const char *words)
{
	if (!p->damage)
		p->damage = calloc(1, DAMAGE_BYTES);
	p->base.info.damaged = true;
	if (!p->damage)
		return;
	if (strstr(p->damage, words))
		return;
	(void)snprintf(p->damage + strlen(p->damage), DAMAGE_BYTES - strlen(p->damage), "%s%s",
		       *p->damage ? "; " : "", words);
	p->base.info.damage = p->damage;
}

/* --- records ---------------------------------------------------------------------------------- */

/* The buffer becomes a block of the file. */
static int buffer_write(struct import *import, struct import_thread *t)
{
	uint64_t at = import->file_bytes;
	size_t done = 0;

	if (!grow((void **)&t->blocks, t->block_count, &t->block_capacity, sizeof(*t->blocks)))
		return -ENOMEM;
	while (done < t->used) {
		ssize_t n =
			pwrite(import->fd, t->buffer + done, t->used - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	t->blocks[t->block_count++] = (struct block){at, t->used};
	import->file_bytes += t->used;
	t->used = 0;
	return 0;
}

int import_event(struct import_thread *t, const struct trace_event *event)
{
	struct import *import = t->process->import;
	struct trace_info *info = &t->process->base.info;
	unsigned argc = event->type->arg_count;
	uint32_t bytes = (uint32_t)(sizeof(struct record) + argc * sizeof(uint64_t));
	struct record *record;
	int rc;

	if (!t->buffer) {
		t->buffer = malloc(BLOCK_BYTES);
		if (!t->buffer)
			return -ENOMEM;
	}
	if (t->used + bytes > BLOCK_BYTES) {
		rc = buffer_write(import, t);
		if (rc)
			return rc;
	}
	record = (struct record *)(t->buffer + t->used);
	record->type = event->type;
	record->flags = event->flags;
	record->argc = argc;
	record->begin_ns = event->begin_ns;
	record->end_ns = event->end_ns;
	memcpy(record + 1, event->args, argc * sizeof(uint64_t));
	t->used += bytes;
	if (t->inflight.type == event->type && t->inflight.since_ns == event->begin_ns)
		t->inflight.type = NULL;
	if (event->begin_ns < t->first_ns)
		t->first_ns = event->begin_ns;
	if (event->end_ns > t->last_ns)
		t->last_ns = event->end_ns;
	if (event->begin_ns < info->start_ns)
		info->start_ns = event->begin_ns;
	if (event->end_ns > info->end_ns)
		info->end_ns = event->end_ns;
	return 0;
}

void import_entry(struct import_thread *t, const struct wl_event_type *type, uint32_t api,
		  uint32_t stack, int64_t since_ns)
{
	t->inflight = (struct inflight){type, api, stack, since_ns};
	if (since_ns > t->process->base.info.end_ns)
		t->process->base.info.end_ns = since_ns;
	if (since_ns < t->process->base.info.start_ns)
		t->process->base.info.start_ns = since_ns;
}

/* --- the end of filling ----------------------------------------------------------------------- */

/* The newest of a key holds. */
static const char *attribute_of(const struct import_process *p, const char *key)
{
	const char *value = "";

	for (unsigned i = 0; i < p->attribute_count; i++)
		if (strcmp(import_text_of(p->import, p->attributes[i][0]), key) == 0)
			value = import_text_of(p->import, p->attributes[i][1]);
	return value;
}

static int attributes_finish(struct import_process *p)
{
	struct trace_info *info = &p->base.info;

	p->attribute_texts = calloc(p->attribute_count + 1, sizeof(*p->attribute_texts));
	if (!p->attribute_texts)
		return -ENOMEM;
	for (unsigned i = 0; i < p->attribute_count; i++)
		for (int k = 0; k < 2; k++)
			p->attribute_texts[i][k] = import_text_of(p->import, p->attributes[i][k]);
	info->attributes = (const char *const(*)[2])p->attribute_texts;
	info->attribute_count = p->attribute_count;
	info->command = attribute_of(p, "command");
	info->simulated = strcmp(attribute_of(p, "cuda.simulated"), "1") == 0;
	return 0;
}

static int process_finish(struct import_process *p)
{
	struct trace_info *info = &p->base.info;
	int rc = attributes_finish(p);

	p->shown = calloc(p->base.thread_count + 1u, sizeof(*p->shown));
	if (rc || !p->shown)
		return -ENOMEM;
	if (info->start_ns > info->end_ns)
		info->start_ns = info->end_ns = p->clocks ? p->clocks[0].monotonic_ns : 0;
	for (unsigned i = 0; i < p->base.thread_count; i++) {
		struct import_thread *t = p->threads[i];

		rc = t->used ? buffer_write(p->import, t) : 0;
		if (rc)
			return rc;
		free(t->buffer);
		t->buffer = NULL;
		if (info->ended)
			t->inflight.type = NULL;
		if (t->first_ns > t->last_ns)
			t->first_ns = t->last_ns = info->start_ns;
		p->shown[i] = (struct trace_thread){
			.serial = i + 1,
			.tid = t->tid,
			.name = import_text_of(p->import, t->name),
			.first_ns = t->first_ns,
			.last_ns = t->last_ns,
		};
	}
	p->base.threads = p->shown;
	p->base.ops = &import_ops;
	info->clocks = p->clocks;
	return 0;
}

int import_finish(struct import *import)
{
	int rc = 0;

	for (unsigned i = 0; i < import->process_count && !rc; i++) {
		struct import_process *p = import->processes[i];
		const struct trace_clock none = {0};

		if (!p->base.info.clock_count)
			import_clock(p, &none);
		rc = process_finish(p);
	}
	return rc;
}

struct trace_reader *import_reader(struct import_process *process)
{
	process->import->references++;
	return &process->base;
}
