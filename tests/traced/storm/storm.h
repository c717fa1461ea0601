/* SPDX-License-Identifier: Apache-2.0
 *
 * What a storm's job tells its judge.
 */
#ifndef WAYLAY_TESTS_TRACED_STORM_H
#define WAYLAY_TESTS_TRACED_STORM_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { STORM_THREADS = 24 };

/* How the process ends, by its seed; all but the first while other threads are in and out of calls. */
enum storm_end {
	STORM_RETURN,         /* status 0 */
	STORM_EXIT_OF_THREAD, /* 9 */
	STORM_EXIT_AT_ONCE,   /* 3, by _exit */
	STORM_KILLED,         /* SIGKILL */
	STORM_LAST_THREAD,    /* 0, when the last thread is done */
	STORM_END_MAX,
};

struct storm_counts {
	pid_t pid;
	_Atomic uint64_t waits[STORM_THREADS]; /* cuStreamSynchronize calls that have returned */
};

#endif
