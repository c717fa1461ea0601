/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that record, found by number, directory or file, and what they are asked.
 */
#ifndef WAYLAY_VIEWERS_CONTROL_H
#define WAYLAY_VIEWERS_CONTROL_H

#include "tracer/spool/spool.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum control_life { CONTROL_ENDED, CONTROL_RUNNING, CONTROL_ELSEWHERE };

struct control_target {
	char path[PATH_MAX];
	int fd;
	void *mapping; /* the file as long as it was when opened */
	size_t bytes;
	struct spool_header *header; /* in the mapping */
	enum control_life life;
};

struct control_targets {
	struct control_target *items;
	unsigned count;
};

/* Adds what `what` names: a process id, a recording, or a directory of them. Says what is wrong and
 * returns -errno. write: to be asked, not only looked at. */
int control_find(struct control_targets *targets, const char *what, bool write);
void control_free(struct control_targets *targets);

/* Asks and waits for the answer, timeout_ms at most. 0, the process's own -errno with its words in
 * answer, -ETIMEDOUT when it does not answer (the request is withdrawn). */
int control_ask(struct control_target *target, enum spool_command command, const char *text,
		int timeout_ms, char *answer, size_t answer_size);

#endif
