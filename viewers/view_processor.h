/* SPDX-License-Identifier: Apache-2.0
 *
 * Perfetto's trace_processor_shell as the server of a trace that is too large for a browser.
 */
#ifndef WAYLAY_VIEWERS_VIEW_PROCESSOR_H
#define WAYLAY_VIEWERS_VIEW_PROCESSOR_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct processor {
	pid_t pid;
	int end; /* pidfd: readable when it has ended */
};

/* The program: $TRACE_PROCESSOR, else trace_processor_shell or trace_processor in PATH. NULL: it is not here. */
const char *processor_find(void);
/* Starts it on the loopback, for pages of that origin. 0, or -errno with one line in err. */
int processor_start(struct processor *processor, const char *trace, const char *origin,
		    uint16_t port, char *err, size_t err_size);
/* Until it ends or one of the (blocked) signals comes, which ends it. The exit status of the command. */
int processor_wait(struct processor *processor, const sigset_t *signals);

#endif
