/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing ranks together; see world.h. */
#include "collectives/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Idle polls before a rank offers its CPU to others: about a millisecond where every rank has a
 * CPU, nearly at once where they share. */
#define SPIN_OWN_CPU    20000
#define SPIN_SHARED_CPU 64

/* How long a failed rank waits for news that tell why. */
#define NEWS_NS 500000000

/* How long the rank's own thread has to notice that another rank ended. */
#define STUCK_NS 3000000000

/* --- who shares a host ---------------------------------------------------------------------- */

/* Where ranks can reach each other's memory: one kernel, one /dev/shm, one space of pids. */
struct host_identity {
	char boot[40];
	uint64_t shm_device, shm_inode, pid_namespace;
};

static struct host_identity identify_host(void)
{
	struct host_identity id;
	struct stat st;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	memset(&id, 0, sizeof(id)); /* compared as bytes */
	if (fd >= 0) {
		if (read(fd, id.boot, sizeof(id.boot) - 1) <= 0)
			id.boot[0] = 0;
		close(fd);
	}
	if (!id.boot[0])
		gethostname(id.boot, sizeof(id.boot) - 1);
	if (!stat("/dev/shm", &st)) {
		id.shm_device = st.st_dev;
		id.shm_inode = st.st_ino;
	}
	if (!stat("/proc/self/ns/pid", &st))
		id.pid_namespace = st.st_ino;
	return id;
}

static int rdv_failed(struct world *w, int rc)
{
	snprintf(w->error, sizeof(w->error), "%s", rdv_error(w->rdv));
	return rc;
}

static int find_neighbours(struct world *w)
{
	struct host_identity mine = identify_host();
	struct host_identity *all = calloc((size_t)w->size, sizeof(*all));
	int rc = -ENOMEM;

	if (all)
		rc = rdv_allgather(w->rdv, &mine, sizeof(mine), all, NULL, NULL);
	if (rc) {
		free(all);
		return rdv_failed(w, rc);
	}
	w->host_ranks = 0;
	for (int i = 0; i < w->size; i++)
		w->host_ranks += memcmp(&all[i], &mine, sizeof(mine)) == 0;
	w->one_host = w->host_ranks == w->size;
	free(all);
	return 0;
}

/* --- endpoints ------------------------------------------------------------------------------ */

struct opening {
	int32_t rc;
	char provider[96];
	char error[TP_ERROR_BYTES];
};

static int share_opening(struct world *w, const struct opening *mine, struct opening *all)
{
	int rc = rdv_allgather(w->rdv, mine, sizeof(*mine), all, NULL, NULL);

	return rc ? rdv_failed(w, rc) : 0;
}

/* The first rank that could not open speaks for all. */
static int any_failed(struct world *w, const struct opening *all)
{
	for (int i = 0; i < w->size; i++) {
		if (!all[i].rc)
			continue;
		snprintf(w->error, sizeof(w->error), "%s", all[i].error);
		w->quiet = i != w->rank;
		return all[i].rc;
	}
	return 0;
}

/* Rank 0 chooses, the others follow: the best provider of each need not be the same. */
static int open_endpoints(struct world *w, const struct world_config *config)
{
	struct tp_config tc = {.provider = config->provider,
			       .bind_address = rdv_local_address(w->rdv),
			       .one_host = w->one_host,
			       .memory = config->coll.device && !config->staged ? TP_MEMORY_CUDA
										: TP_MEMORY_HOST,
			       .timeout_ns = config->timeout_ns};
	struct opening mine, *all = calloc((size_t)w->size, sizeof(*all));
	int rc = all ? 0 : -ENOMEM;

	memset(&mine, 0, sizeof(mine));
	if (!rc && w->rank == 0) {
		mine.rc = tp_open_ofi(&tc, &w->tp, mine.error);
		if (w->tp)
			snprintf(mine.provider, sizeof(mine.provider), "%s", w->tp->provider);
	}
	if (!rc)
		rc = share_opening(w, &mine, all);
	if (!rc)
		rc = any_failed(w, all);
	if (!rc && w->rank != 0) {
		tc.provider = all[0].provider;
		mine.rc = tp_open_ofi(&tc, &w->tp, mine.error);
		if (!mine.rc && strcmp(w->tp->provider, tc.provider) != 0) {
			mine.rc = -ENODEV;
			snprintf(
				mine.error, sizeof(mine.error),
				"rank 0 uses provider %s, but rank %d has only %s: choose one that "
				"all have with --provider",
				tc.provider, w->rank, w->tp->provider);
		}
	}
	if (!rc)
		rc = share_opening(w, &mine, all);
	if (!rc)
		rc = any_failed(w, all);
	free(all);
	return rc;
}

static int watch_others(void *arg, struct transport *tp)
{
	struct world *w = arg;
	int rc = rdv_check(w->rdv);

	return rc ? tp_break(tp, rc, "%s", rdv_error(w->rdv)) : 0;
}

static int connect_all(struct world *w)
{
	char mine[TP_ADDRESS_BYTES] = {0};
	char *all = calloc((size_t)w->size, TP_ADDRESS_BYTES);
	size_t bytes;
	int rc = all ? 0 : -ENOMEM;

	w->tp->spin =
		w->host_ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? SPIN_OWN_CPU : SPIN_SHARED_CPU;
	w->tp->watch = watch_others;
	w->tp->watch_arg = w;
	w->tp->rank = w->rank;
	if (!rc)
		rc = tp_address(w->tp, mine, &bytes);
	if (!rc) {
		rc = rdv_allgather(w->rdv, mine, sizeof(mine), all, NULL, NULL);
		if (rc) {
			free(all);
			return rdv_failed(w, rc);
		}
		rc = tp_connect(w->tp, all, w->rank, w->size);
	}
	free(all);
	if (rc)
		snprintf(w->error, sizeof(w->error), "%s",
			 w->tp->error[0] ? w->tp->error : "no memory for the ranks' addresses");
	return rc;
}

static int start_guard(struct world *w, void (*stuck)(void *world))
{
	int *sockets = calloc((size_t)w->size, sizeof(*sockets));

	if (!sockets)
		return -ENOMEM;
	w->guard = guard_start(sockets, rdv_sockets(w->rdv, sockets), STUCK_NS, stuck, w);
	free(sockets);
	return w->guard ? 0 : -EAGAIN;
}

static void stop_guard(struct world *w)
{
	guard_stop(w->guard);
	w->guard = NULL;
}

/* Puts bounce buffers between the collectives and the network. */
static int add_stage(struct world *w, const struct world_config *config)
{
	struct transport *staged;
	int rc;

	if (!config->coll.device || !config->staged)
		return 0;
	rc = tp_open_staged(w->tp, config->coll.device, config->staged, &staged, w->error);
	if (!rc)
		w->tp = staged;
	return rc;
}

int world_open(struct world *w, const struct launch *launch, const struct world_config *config)
{
	int rc;

	memset(w, 0, sizeof(*w));
	w->rank = launch->rank;
	w->size = launch->size;
	w->device = config->coll.device;
	rc = rdv_open(launch, config->timeout_ns, &w->rdv, w->error);
	if (!rc)
		rc = find_neighbours(w);
	if (!rc)
		rc = open_endpoints(w, config);
	if (!rc)
		rc = add_stage(w, config);
	if (!rc)
		rc = connect_all(w);
	if (!rc)
		rc = coll_comm_new(w->tp, &config->coll, &w->comm, w->error);
	if (!rc && config->stuck)
		rc = start_guard(w, config->stuck);
	return rc;
}

/* --- the end -------------------------------------------------------------------------------- */

static int progress(void *arg)
{
	struct world *w = arg;

	tp_rest(w->tp); /* the exchange has a deadline of its own */
	return tp_progress(w->tp);
}

int world_allgather(struct world *w, const void *mine, size_t bytes, void *all)
{
	int rc = rdv_allgather(w->rdv, mine, bytes, all, progress, w);

	if (rc)
		snprintf(w->error, sizeof(w->error), "%s",
			 w->tp->broken ? tp_error(w->tp) : rdv_error(w->rdv));
	return rc;
}

int world_leave(struct world *w)
{
	char mine = 0;
	char *all = calloc((size_t)w->size, 1);
	int rc = all ? world_allgather(w, &mine, 1, all) : -ENOMEM;

	free(all);
	stop_guard(w); /* from here on ranks end in good order */
	return rc;
}

void world_abort(struct world *w, int rc)
{
	const struct timespec tick = {.tv_nsec = 10000000};
	int64_t deadline = tp_now_ns() + NEWS_NS;
	char why[RDV_ERROR_BYTES];

	stop_guard(w);
	if (!w->error[0])
		snprintf(w->error, sizeof(w->error), "%s",
			 w->tp && w->tp->error[0] ? w->tp->error : strerror(-rc));
	if (!w->rdv || w->quiet)
		return;
	/* A broken connection is often the first sign of a rank that died: the news follow. */
	while (w->size > 1 && !rdv_check(w->rdv) && tp_now_ns() < deadline && w->tp &&
	       w->tp->broken && w->tp->broken != -ETIMEDOUT)
		nanosleep(&tick, NULL);
	if (rdv_check(w->rdv) && !strstr(w->error, rdv_error(w->rdv))) {
		size_t have = strlen(w->error);

		snprintf(w->error + have, sizeof(w->error) - have, "; %s", rdv_error(w->rdv));
	}
	snprintf(why, sizeof(why), "rank %d gave up: %.300s", w->rank, w->error);
	rdv_abort(w->rdv, why);
}

void world_close(struct world *w)
{
	stop_guard(w);
	coll_comm_free(w->comm);
	tp_close(w->tp);
	rdv_close(w->rdv);
	w->comm = NULL;
	w->tp = NULL;
	w->rdv = NULL;
}
