/* SPDX-License-Identifier: Apache-2.0
 *
 * What the launcher (torchrun, Open MPI, MPICH and its kin, PMIx, Slurm) says about this process's
 * place.
 */
#ifndef WAYLAY_TRACER_INJECT_RANKS_H
#define WAYLAY_TRACER_INJECT_RANKS_H

/* -1 each where nothing is known. */
void wl_ranks_read(int *rank, int *world_size, int *local_rank);
/* Its name in words, NULL without one. */
const char *wl_ranks_launcher(void);

#endif
