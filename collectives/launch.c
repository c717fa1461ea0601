/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a launcher's environment; see launch.h. */
#include "collectives/launch.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 29500 /* torch.distributed's */

/* How each launcher names things. The first whose rank and size are both set is taken: the more
 * specific before Slurm, whose variables are also there in a batch script that starts another
 * launcher. */
struct launcher {
	const char *name;
	const char *rank, *size, *local_rank, *local_size;
	const char *job; /* something that all ranks share and other jobs do not */
};

static const struct launcher launchers[] = {
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	 "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
	{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_PORT"},
	{"Slurm (PMIx)", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL,
	 "SLURM_JOB_ID"},
	{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_JOB_ID"},
};

bool launch_is_child(void)
{
	return getenv("COLL_NP_CHILD") != NULL;
}

static int number(const char *name, int min, int max, int fallback, int *out, char *error)
{
	const char *text = name ? getenv(name) : NULL;
	char *end;
	long v;

	if (!text || !*text) {
		*out = fallback;
		return 0;
	}
	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || *end || v < min || v > max) {
		snprintf(error, LAUNCH_ERROR_BYTES, "%s=%s is not a number from %d to %d", name,
			 text, min, max);
		return -EINVAL;
	}
	*out = (int)v;
	return 0;
}

/* The first host of Slurm's list: "node[07-09,12],other" begins with node07. */
static void first_host(const char *list, char *out, size_t bytes)
{
	size_t n = strcspn(list, ",[");
	const char *range = list + n;

	snprintf(out, bytes, "%.*s", (int)n, list);
	if (*range == '[') {
		size_t digits = strspn(range + 1, "0123456789");
		size_t have = strlen(out);

		snprintf(out + have, bytes - have, "%.*s", (int)digits, range + 1);
	}
}

static int find_host(const struct launcher *l, struct launch *out, char *error)
{
	const char *text = getenv("MASTER_ADDR");
	const char *nodes = getenv("SLURM_STEP_NODELIST");

	if (text && *text) {
		snprintf(out->host, sizeof(out->host), "%s", text);
		return 0;
	}
	if (!nodes)
		nodes = getenv("SLURM_JOB_NODELIST");
	if (strncmp(l->name, "Slurm", 5) == 0 && nodes) {
		first_host(nodes, out->host, sizeof(out->host));
		return 0;
	}
	if (out->local_size == out->size || out->size == 1) {
		snprintf(out->host, sizeof(out->host), "127.0.0.1");
		return 0;
	}
	snprintf(error, LAUNCH_ERROR_BYTES,
		 "%s started ranks on several hosts but MASTER_ADDR is not set: set it to a name "
		 "or address of rank 0's host",
		 l->name);
	return -EINVAL;
}

/* Jobs side by side on one host should not meet at one port. */
static int job_port(const struct launcher *l)
{
	const char *job = l->job ? getenv(l->job) : NULL;
	unsigned int h = 2166136261u;

	if (!job)
		return DEFAULT_PORT;
	for (; *job; job++)
		h = (h ^ (unsigned char)*job) * 16777619u;
	return 23000 + (int)(h % 8000);
}

static int find_port(const struct launcher *l, struct launch *out, char *error)
{
	const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
	int rc = number("MASTER_PORT", 1, 65535, job_port(l), &out->port, error);

	/* torchrun's agent listens on MASTER_PORT itself; the next one is ours. */
	if (!rc && agent && strcasecmp(agent, "true") == 0 && out->port < 65535)
		out->port++;
	return rc;
}

static int read_launcher(const struct launcher *l, struct launch *out, char *error)
{
	int rc = number(l->size, 1, 1 << 16, 1, &out->size, error);

	if (!rc)
		rc = number(l->rank, 0, INT_MAX, 0, &out->rank, error);
	if (!rc)
		rc = number(l->local_rank, 0, INT_MAX, 0, &out->local_rank, error);
	if (!rc)
		rc = number(l->local_size, 1, INT_MAX, 0, &out->local_size, error);
	if (!rc && out->rank >= out->size) {
		snprintf(error, LAUNCH_ERROR_BYTES, "%s=%d, but %s=%d: ranks count from 0", l->rank,
			 out->rank, l->size, out->size);
		rc = -EINVAL;
	}
	if (!rc)
		rc = find_host(l, out, error);
	if (!rc)
		rc = find_port(l, out, error);
	return rc;
}

int launch_from_environment(struct launch *out, int port, char *error)
{
	memset(out, 0, sizeof(*out));
	out->listen_fd = -1;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *l = &launchers[i];
		int rc;

		if (!getenv(l->rank) || !getenv(l->size))
			continue;
		out->source = launch_is_child() ? "--np" : l->name;
		rc = read_launcher(l, out, error);
		if (!rc && launch_is_child() && out->rank == 0)
			rc = number("COLL_NP_LISTEN_FD", 0, INT_MAX, -1, &out->listen_fd, error);
		if (!rc && port > 0 && !launch_is_child())
			out->port = port;
		return rc;
	}
	return -ENOENT;
}

void launch_alone(struct launch *out)
{
	memset(out, 0, sizeof(*out));
	out->size = out->local_size = 1;
	out->listen_fd = -1;
	out->source = "alone";
	snprintf(out->host, sizeof(out->host), "127.0.0.1");
}
