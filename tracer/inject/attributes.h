/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the process that a recording carries.
 */
#ifndef WAYLAY_TRACER_INJECT_ATTRIBUTES_H
#define WAYLAY_TRACER_INJECT_ATTRIBUTES_H

/* What the launcher (torchrun, Open MPI, MPICH and its kin, PMIx, Slurm) says about this process's
 * place; -1 each where nothing is known. */
void wl_attributes_ranks(int *rank, int *world_size, int *local_rank);
/* Writes them to the open spool. why: what kind of object the recording began with. */
void wl_attributes_write(const char *why);

#endif
