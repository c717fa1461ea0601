/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank this process is: from a launcher's environment (torchrun, Open MPI, PMI as MPICH's
 * Hydra sets it, Slurm), or as one of N processes that this program starts itself on this host.
 */
#ifndef WAYLAY_COLLECTIVES_LAUNCH_H
#define WAYLAY_COLLECTIVES_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCH_ERROR_BYTES 384

struct launch {
	int rank, size;
	int local_rank, local_size; /* on this host; local_size is 0 where the launcher is silent */
	char host[256];             /* where rank 0 listens */
	int port;
	int listen_fd;      /* rank 0 of a --np start inherits its listening socket, else -1 */
	const char *source; /* for people: "torchrun", "--np" */
};

/* True in the processes that launch_spawn() started. */
bool launch_is_child(void);

/* Reads the environment. 0; -ENOENT when no launcher has set it; -EINVAL with words when it
 * contradicts itself. `port` > 0 overrides the port. */
int launch_from_environment(struct launch *out, int port, char *error);

/* One rank alone, needing nobody. */
void launch_alone(struct launch *out);

/*
 * Runs this program `np` times more with the same arguments, as ranks 0 to np - 1, and waits for
 * them. When one fails, the rest have grace_ns to end by themselves before they are ended. Signals
 * that ask this process to end are passed on. `bind` gives each rank a CPU of its own where there
 * are enough.
 *
 * Returns the exit status for this process: that of the first rank that failed (128 + signal when
 * a signal ended it), or 0. 125 with words when the ranks could not be started.
 */
int launch_spawn(int np, char *const argv[], bool bind, int64_t grace_ns, char *error);

#endif
