/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of an import share.
 */
#ifndef WAYLAY_TRACER_LTTNG_IMPORT_INTERNAL_H
#define WAYLAY_TRACER_LTTNG_IMPORT_INTERNAL_H

#include "tracer/lttng/import.h"

#include <fcntl.h>

#define BLOCK_BYTES 16384u

/* A record as it lies in the temporary file, which this process alone reads; its arguments follow. */
struct record {
	const struct wl_event_type *type;
	uint32_t flags, argc;
	int64_t begin_ns, end_ns;
};

struct block {
	uint64_t at;
	uint32_t bytes;
};

struct texts {
	char **items; /* by id */
	uint32_t *hashes, *table;
	uint32_t count, capacity, table_size;
};
bool texts_init(struct texts *texts);
void texts_free(struct texts *texts);
uint32_t texts_add(struct texts *texts, const char *text, size_t length);
static inline const char *texts_get(const struct texts *texts, uint32_t id)
{
	return id < texts->count ? texts->items[id] : "?";
}

struct inflight {
	const struct wl_event_type *type; /* NULL: none */
	uint32_t api, stack;
	int64_t since_ns;
};

struct import_thread {
	int64_t tid;
	struct import_process *process;
	unsigned index;
	uint32_t name;
	struct block *blocks;
	unsigned block_count, block_capacity;
	uint8_t *buffer;
	uint32_t used;
	int64_t first_ns, last_ns;
	struct inflight inflight;
};

struct import_process {
	struct trace_reader base; /* first */
	struct import *import;
	char *host, *damage;
	const char *asked; /* where the caller's text of the host lies, which it keeps */
	struct import_thread **threads;
	unsigned thread_capacity;
	struct import_thread *last;
	struct trace_thread *shown;
	struct trace_clock *clocks;
	unsigned clock_capacity;
	uint32_t (*attributes)[2];
	unsigned attribute_count, attribute_capacity;
	const char *(*attribute_texts)[2];
};

struct import {
	unsigned references;
	char *path;
	int fd;
	uint64_t file_bytes;
	struct texts texts;
	struct import_process **processes;
	unsigned process_count, process_capacity;
	struct import_process *last;
	struct wl_event_type **types;
	unsigned type_count, type_capacity;
};

extern const struct trace_reader_ops import_ops;

#endif
