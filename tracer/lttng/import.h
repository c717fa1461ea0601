/* SPDX-License-Identifier: Apache-2.0
 *
 * What was read from another format, kept so that struct trace_reader can serve it: texts in memory,
 * records thread by thread in a temporary file. One import may hold many processes.
 */
#ifndef WAYLAY_TRACER_LTTNG_IMPORT_H
#define WAYLAY_TRACER_LTTNG_IMPORT_H

#include "tracer/events/reader.h"

struct import;
struct import_process;
struct import_thread;

/* path: what is read, for info.path and messages. NULL with *error = -errno. */
struct import *import_new(const char *path, int *error);
/* Ends the filling: what is in buffers is written, readers are complete. 0 or -errno. */
int import_finish(struct import *import);
/* Gives up what import_reader() has not handed out. */
void import_free(struct import *import);

/* Texts: 0 for the empty one; never fails, out of memory gives the text "?". */
uint32_t import_text(struct import *import, const char *text, size_t length);
const char *import_text_of(const struct import *import, uint32_t id);
/* A type that this build does not know; name and argument names are kept. */
const struct wl_event_type *import_type(struct import *import, const char *name,
					const struct wl_arg *args, unsigned arg_count);

/* The process pid of a host (a text of the import's), made at first sight. NULL: no memory. */
struct import_process *import_process(struct import *import, const char *host, int64_t pid);
struct import_thread *import_thread(struct import_process *process, int64_t tid);
struct trace_info *import_info(struct import_process *process);
void import_thread_name(struct import_thread *thread, uint32_t name);
void import_attribute(struct import_process *process, uint32_t key, uint32_t value);
void import_clock(struct import_process *process, const struct trace_clock *clock);
/* Adds words to what is wrong with a process. */
void import_damage(struct import_process *process, const char *words);

/* A record; event->thread is not looked at. 0 or -errno. */
int import_event(struct import_thread *thread, const struct trace_event *event);
/* A call that has begun; a record of the same type and begin ends it. */
void import_entry(struct import_thread *thread, const struct wl_event_type *type, uint32_t api,
		  uint32_t stack, int64_t since_ns);

unsigned import_process_count(const struct import *import);
struct import_process *import_process_at(struct import *import, unsigned index);
/* The process as a reader, which holds on to the import until it is closed. */
struct trace_reader *import_reader(struct import_process *process);

#endif
