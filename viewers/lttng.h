/* SPDX-License-Identifier: Apache-2.0
 *
 * The LTTng session that a job records into.
 */
#ifndef WAYLAY_VIEWERS_LTTNG_H
#define WAYLAY_VIEWERS_LTTNG_H

#include "tracer/settings/settings.h"

#include <limits.h>

struct lttng_session {
	char name[256];
	char output[PATH_MAX]; /* the folder of its traces, or the address they are streamed to */
	char lock[PATH_MAX];
	int lock_fd;
	bool open, own; /* own: to be destroyed by the last who uses it */
};

/*
 * Makes or joins the session that settings ask for, and the daemon where none is running. directory: of
 * the recordings; run: identifier of the run. False: it cannot be had, which has been said in one line;
 * the job is then recorded by the spool.
 */
bool lttng_begin(struct lttng_session *session, const struct wl_settings *settings,
		 const char *directory, const char *run);
static inline bool lttng_streams(const struct lttng_session *session)
{
	return session->output[0] != '/';
}
/* Lets go of it: the last user on this host stops and destroys a session of ours. */
void lttng_end(struct lttng_session *session);

#endif
