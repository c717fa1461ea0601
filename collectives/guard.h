/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps until the connection to another rank ends. Normally the rank's own thread
 * notices then, within milliseconds. But a provider may be waiting for the dead rank inside one of
 * its calls, for ever: shm's senders take a lock in the receiver's memory, which a rank that was
 * killed never gives back. The guard ends such a wait by ending the process.
 */
#ifndef WAYLAY_COLLECTIVES_GUARD_H
#define WAYLAY_COLLECTIVES_GUARD_H

#include <stdint.h>

struct guard;

/* Watches `n` sockets, which stay the caller's. When one was closed by its peer and guard_stop()
 * was not called within grace_ns, calls stuck(arg) on the guard's thread; it should end the
 * process. NULL when there is no thread to be had. */
struct guard *guard_start(const int *sockets, int n, int64_t grace_ns, void (*stuck)(void *arg),
			  void *arg);
/* Returns once the thread has ended. NULL is fine. */
void guard_stop(struct guard *guard);

#endif
