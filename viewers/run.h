/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the job and naming what it leaves.
 */
#ifndef WAYLAY_VIEWERS_RUN_H
#define WAYLAY_VIEWERS_RUN_H

#include <stdbool.h>
#include <stddef.h>

/* Becomes the command. Returns only on failure: 126 or 127, said on standard error. */
int run_become(char *const *command);
/* Starts the command and waits for it. Its exit status, 128 + signal when a signal ended it, or
 * -125 to -127 when it could not be started (said on standard error). */
int run_child(char *const *command);
/* An identifier for this run: the launcher's name of the job, the same for all its processes, else
 * made of the time and this process. */
void run_identifier(char *buf, size_t size);
/* "train.pftrace" for `python train.py`, "app.pftrace" for `./app`. */
void run_trace_name(char *const *command, char *buf, size_t size);
/* True if WAYLAY_DIR holds a recording of WAYLAY_RUN. */
bool run_recorded(void);

#endif
