/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading what LTTng recorded: CTF directories, local or written by a relay daemon, and what a relay
 * daemon is receiving.
 */
#ifndef WAYLAY_TRACER_LTTNG_CTF_H
#define WAYLAY_TRACER_LTTNG_CTF_H

#include "tracer/events/reader.h"

/* Whether path is a directory that holds a CTF trace, at any depth that LTTng makes. */
bool ctf_is(const char *path);
/* Whether path is the URL of a session that a relay daemon is receiving: net://HOST[:PORT]/host/NAME/SESSION.
 * What comes from now on is read, until the session ends, nothing has come for 3 s, or SIGINT. */
bool ctf_is_live(const char *path);
/*
 * Reads all traces under path, once, into temporary memory and a temporary file. One reader for each
 * process; *readers is an array to be freed, each reader is closed by its own operation. type_of:
 * wl_event_type() of the caller, since this may be another object with a table of its own. by_library: all
 * by libbabeltrace2, which is slower and gives the same. *events: of CTF, which are more than the records
 * made of them.
 * 0: what cannot be read is said in the readers' damage, and a folder that was lost as a whole in err,
 * else empty. -errno with one line in err: -ENOTSUP when built without libbabeltrace2, -ENODATA when
 * nothing can be read, -ENOMSG when there are no events, of a job that had nothing to record.
 */
typedef const struct wl_event_type *(*ctf_type_fn)(unsigned number);
int ctf_open(const char *path, ctf_type_fn type_of, struct trace_reader ***readers, unsigned *count,
	     bool by_library, uint64_t *events, char *err, size_t err_size);

/* The same, exported from an object that programs open when they meet such a directory, so that they need
 * neither babeltrace2 nor the time to load it. */
#define CTF_OBJECT "libwaylay-ctf.so"
#define CTF_SYMBOL "waylay_ctf_open"
typedef int (*ctf_open_fn)(const char *path, ctf_type_fn type_of, struct trace_reader ***readers,
			   unsigned *count, char *err, size_t err_size);

#endif
