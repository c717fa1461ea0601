/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank that a launcher gave this process. Used inside the job and by the `waylay` command.
 */
#include "tracer/settings/settings.h"

#include <stdlib.h>

struct launcher {
	const char *rank, *size, *local;
	const char *name;
};

/* The most specific first: torchrun under mpirun or srun starts several ranks in one task. */
static const struct launcher launchers[] = {
	{"RANK", "WORLD_SIZE", "LOCAL_RANK", "torchrun"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI"},
	{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MVAPICH"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI"},
	{"PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS"},
	{"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "Flux"},
	{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "Slurm"},
	{"PMIX_RANK", NULL, NULL, "PMIx"},
};

/* A plain number, -1 if the variable is absent or anything else. */
static int number_of(const char *variable)
{
	const char *text = variable ? getenv(variable) : NULL;
	char *end;
	long value;

	if (!text || text[0] < '0' || text[0] > '9')
		return -1;
	value = strtol(text, &end, 10);
	return *end || value > 1 << 30 ? -1 : (int)value;
}

static const struct launcher *launcher_find(void)
{
	for (unsigned i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (number_of(launchers[i].rank) >= 0 &&
		    (!launchers[i].size || number_of(launchers[i].size) > 0))
			return &launchers[i];
	return NULL;
}

void wl_ranks_read(int *rank, int *world_size, int *local_rank)
{
	const struct launcher *launcher = launcher_find();

	*rank = launcher ? number_of(launcher->rank) : -1;
	*world_size = launcher ? number_of(launcher->size) : -1;
	*local_rank = launcher ? number_of(launcher->local) : -1;
}

const char *wl_ranks_launcher(void)
{
	const struct launcher *launcher = launcher_find();

	return launcher ? launcher->name : NULL;
}
