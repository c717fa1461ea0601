/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a spool file: header and event table, and what a reader says about the process.
 */
#include "tracer/spool/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES_LEAST (16u * 1024)
#define CHUNK_BYTES_MOST  (16u * 1024 * 1024)
#define TABLE_BYTES_MOST  (1u << 20)

bool reading_bytes(struct reading *r, uint64_t offset, void *to, size_t bytes)
{
	size_t have = 0;

	while (have < bytes) {
		ssize_t n =
			pread(r->fd, (uint8_t *)to + have, bytes - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			reading_damaged(r, "reading at %llu failed: %s", (unsigned long long)offset,
					strerror(errno));
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

void reading_damaged(struct reading *r, const char *format, ...)
{
	static const char more[] = "; and more";
	size_t used = strlen(r->damage), n;
	char line[160];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	r->base.info.damaged = true;
	n = strlen(line);
	/* A second cursor meets the same. */
	if (strstr(r->damage, line) || strstr(r->damage, more))
		return;
	if (used + n + sizeof(more) + 2 > sizeof(r->damage))
		snprintf(r->damage + used, sizeof(r->damage) - used, "%s", more);
	else
		snprintf(r->damage + used, sizeof(r->damage) - used, "%s%s", used ? "; " : "",
			 line);
}

bool reading_grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
	void **at = array;
	uint32_t more = *room ? *room * 2 : 16;
	void *grown;

	if (count < *room)
		return true;
	grown = *room < UINT32_MAX / 2 ? reallocarray(*at, more, size) : NULL;
	if (!grown)
		return false;
	*at = grown;
	*room = more;
	return true;
}

uint64_t reading_chunk_offset(const struct reading *r, uint32_t number)
{
	return r->header.data_offset + (uint64_t)number * r->header.chunk_bytes;
}

/* --- header --- */

static int refuse(char *err, size_t size, int rc, const char *path, const char *why)
{
	snprintf(err, size, "cannot read %s: %s", path, why);
	return rc;
}

static const char *header_wrong(const struct spool_header *h)
{
	uint64_t directory_bytes = (uint64_t)h->chunk_max * sizeof(struct spool_dir_entry);

	if (h->header_bytes < sizeof(*h))
		return "its header is damaged (length of the header)";
	if (h->chunk_bytes < CHUNK_BYTES_LEAST || h->chunk_bytes > CHUNK_BYTES_MOST ||
	    (h->chunk_bytes & (h->chunk_bytes - 1)))
		return "its header is damaged (size of chunks)";
	if (h->table_bytes > TABLE_BYTES_MOST || h->table_offset < h->header_bytes ||
	    h->table_offset > INT64_MAX || h->table_offset + h->table_bytes > h->directory_offset ||
	    h->directory_offset > INT64_MAX || h->data_offset > INT64_MAX / 2 ||
	    h->directory_offset + directory_bytes > h->data_offset || h->directory_offset % 8 ||
	    h->data_offset % 8)
		return "its header is damaged (places of its parts)";
	return NULL;
}

static int header_read(struct reading *r, char *err, size_t size)
{
	struct spool_header *h = &r->header;
	static const char nothing[8];
	const char *why;

	if (r->file_bytes < sizeof(*h) || !reading_bytes(r, 0, h, sizeof(*h)))
		return refuse(err, size, r->file_bytes ? -EINVAL : -ENODATA, r->path,
			      r->file_bytes ? "it is no Waylay recording (too short)"
					    : "it is empty: the process wrote nothing");
	if (memcmp(h->magic, nothing, sizeof(nothing)) == 0 &&
	    h->version_major <= SPOOL_VERSION_MAJOR)
		return refuse(
			err, size, -ENODATA, r->path,
			"nothing is in it: the process died while making it, or only begins to");
	if (memcmp(h->magic, SPOOL_MAGIC, sizeof(h->magic)) != 0)
		return refuse(err, size, -EINVAL, r->path, "it is no Waylay recording");
	if (h->endian != SPOOL_ENDIAN)
		return refuse(err, size, -EINVAL, r->path,
			      "it was written on a machine of the other byte order");
	if (h->version_major > SPOOL_VERSION_MAJOR)
		return refuse(err, size, -EPROTONOSUPPORT, r->path,
			      "it was written by a newer Waylay: read it with that version");
	why = header_wrong(h);
	if (why)
		return refuse(err, size, -EINVAL, r->path, why);
	h->host[sizeof(h->host) - 1] = '\0';
	h->run[sizeof(h->run) - 1] = '\0';
	h->process_name[sizeof(h->process_name) - 1] = '\0';
	return 0;
}

static int table_read(struct reading *r, char *err, size_t size)
{
	uint32_t bytes = r->header.table_bytes;
	char *text = malloc(bytes + 1), why[200];
	int rc;

	if (!text)
		return refuse(err, size, -ENOMEM, r->path, "no memory");
	if (!reading_bytes(r, r->header.table_offset, text, bytes)) {
		free(text);
		return refuse(err, size, -EINVAL, r->path,
			      "it is cut off before its event table ends");
	}
	rc = wl_event_table_parse(&r->table, text, bytes, why, sizeof(why));
	free(text);
	if (rc)
		return refuse(err, size, rc, r->path, why);
	r->plans = reading_plans(&r->table);
	return r->plans ? 0 : refuse(err, size, -ENOMEM, r->path, "no memory");
}

/* --- what is said about the process --- */

static const char *attribute(const struct reading *r, const char *key)
{
	const char *value = "";

	/* A later one replaces it: a child repeats its parent's facts, then adds its own. */
	for (unsigned i = 0; i < r->base.info.attribute_count; i++)
		if (strcmp(r->attributes[i][0], key) == 0)
			value = r->attributes[i][1];
	return value;
}

static int attributes_resolve(struct reading *r)
{
	unsigned n = 0;

	r->attributes = calloc(r->pair_count + 1, sizeof(*r->attributes));
	if (!r->attributes)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->pair_count; i++) {
		uint32_t k;

		for (k = 0; k < i; k++)
			if (r->pairs[k].key == r->pairs[i].key &&
			    r->pairs[k].value == r->pairs[i].value)
				break;
		if (k < i)
			continue;
		r->attributes[n][0] = reading_string(r, r->pairs[i].key);
		r->attributes[n][1] = reading_string(r, r->pairs[i].value);
		n++;
	}
	r->base.info.attribute_count = n;
	r->base.info.attributes = (const char *const(*)[2])r->attributes;
	return 0;
}

static void info_fill(struct reading *r)
{
	struct trace_info *info = &r->base.info;
	const struct spool_header *h = &r->header;

	info->format = "spool";
	info->path = r->path;
	info->host = h->host;
	info->run = h->run;
	info->process_name = h->process_name;
	info->command = attribute(r, "command");
	info->simulated = strcmp(attribute(r, "cuda.simulated"), "1") == 0;
	info->pid = h->pid;
	info->ppid = h->ppid;
	info->rank = h->rank;
	info->world_size = h->world_size;
	info->local_rank = h->local_rank;
	info->ended = atomic_load(&h->ended) != 0;
	info->clock_count = r->clock_count;
	info->clocks = r->clocks;
	info->start_ns = r->clocks[0].monotonic_ns;
	info->end_ns = info->ended ? h->end_monotonic_ns : info->start_ns;
	for (int i = 0; i < TRACE_DROP_MAX; i++)
		info->drops[i] += atomic_load(&h->drops[i]);
	for (uint32_t t = 0; t < r->thread_count; t++) {
		for (int i = 0; i < TRACE_DROP_MAX; i++)
			info->drops[i] += r->threads[t].drops[i];
		if (r->threads[t].last_ns > info->end_ns)
			info->end_ns = r->threads[t].last_ns;
	}
	r->base.thread_count = r->thread_count;
	r->base.threads = r->threads;
}

/* --- the interface --- */

static const char *op_string(struct trace_reader *reader, uint32_t id)
{
	return reading_string((struct reading *)reader, id);
}

static unsigned op_stack(struct trace_reader *reader, uint32_t id, struct trace_frame *frames,
			 unsigned max)
{
	return reading_stack((struct reading *)reader, id, frames, max);
}

static unsigned op_inflight(struct trace_reader *reader, struct trace_inflight *calls, unsigned max)
{
	struct reading *r = (struct reading *)reader;
	unsigned n = r->inflight_count < max ? r->inflight_count : max;

	if (n)
		memcpy(calls, r->inflight, n * sizeof(*calls));
	return n;
}

static void op_close(struct trace_reader *reader)
{
	struct reading *r = (struct reading *)reader;

	for (uint32_t i = 0; i < r->meta_count; i++)
		free(r->metas[i].bytes);
	free(r->metas);
	free(r->chunks);
	free(r->first_chunk);
	free(r->slot_chunks);
	free(r->threads);
	free(r->thread_ended);
	free(r->clocks);
	free(r->rates);
	free(r->pairs);
	free((void *)r->attributes);
	free(r->inflight);
	free(r->plans);
	wl_event_table_free(&r->table);
	free(r->path);
	close(r->fd);
	free(r);
}

static const struct trace_reader_ops ops = {
	.cursor_open = reading_cursor_open,
	.cursor_next = reading_cursor_next,
	.cursor_close = reading_cursor_close,
	.string = op_string,
	.stack = op_stack,
	.inflight = op_inflight,
	.close = op_close,
};

static int content_read(struct reading *r, char *err, size_t size)
{
	int rc = header_read(r, err, size);

	if (!rc)
		rc = table_read(r, err, size);
	if (rc)
		return rc;
	rc = reading_index(r);
	if (!rc)
		rc = attributes_resolve(r);
	if (rc)
		return refuse(err, size, rc, r->path, strerror(-rc));
	info_fill(r);
	return 0;
}

int spool_reader_open(const char *path, struct trace_reader **reader, char *err, size_t err_size)
{
	/* It holds a copy of the file's header, which begins at a cache line. */
	struct reading *r = aligned_alloc(_Alignof(struct reading), sizeof(*r));
	struct stat st;
	int rc;

	*reader = NULL;
	if (r)
		memset(r, 0, sizeof(*r));
	if (!r || !(r->path = strdup(path))) {
		free(r);
		return refuse(err, err_size, -ENOMEM, path, "no memory");
	}
	r->base.ops = &ops;
	r->base.info.damage = r->damage;
	/* O_NONBLOCK: a pipe in the place of a file must not hold us. */
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0 || fstat(r->fd, &st) != 0) {
		rc = -errno;
		refuse(err, err_size, rc, path, strerror(-rc));
		if (r->fd >= 0)
			close(r->fd);
		free(r->path);
		free(r);
		return rc;
	}
	r->file_bytes = (uint64_t)st.st_size;
	if (S_ISREG(st.st_mode))
		rc = content_read(r, err, err_size);
	else
		rc = refuse(err, err_size, -EINVAL, path, "it is no Waylay recording (not a file)");
	if (rc) {
		op_close(&r->base);
		return rc;
	}
	*reader = &r->base;
	return 0;
}
