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
/* The launcher's name of the job, the same for all its processes; "" where it gives none: such
 * recordings are known to belong together by their times. */
void run_name_of_launcher(char *buf, size_t size);
/* An identifier made of the time and this process. */
void run_name_new(char *buf, size_t size);
/* "train.pftrace" for `python train.py`, "app.pftrace" for `./app`. */
void run_trace_name(char *const *command, char *buf, size_t size);
/* Makes a directory and those above it, 0700. 0 or -errno. */
int run_make_directory(const char *path);

#endif
