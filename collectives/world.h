/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a rank number to a communicator: meets the other ranks, agrees on a provider, opens the
 * endpoint, connects, and keeps an eye on the others while collectives run.
 */
#ifndef WAYLAY_COLLECTIVES_WORLD_H
#define WAYLAY_COLLECTIVES_WORLD_H

#include "collectives/coll.h"
#include "collectives/guard.h"
#include "collectives/launch.h"
#include "collectives/rendezvous.h"
#include "collectives/transport_staged.h"

#define WORLD_ERROR_BYTES 1024

struct world {
	int rank, size;
	bool one_host;
	int host_ranks; /* ranks on this host */
	struct rendezvous *rdv;
	struct transport *tp;
	struct coll_comm *comm;
	struct coll_device *device; /* config.coll.device */
	struct guard *guard;
	char error[WORLD_ERROR_BYTES];
	bool quiet; /* another rank reports the same failure; saying it again helps nobody */
};

struct world_config {
	const char *provider; /* NULL: the best there is */
	int64_t timeout_ns;
	/* coll.device, if there is one, is memory that goes to the network as it is, or through
	 * bounce buffers as `staged` says. */
	const struct staged_config *staged;
	struct coll_config coll;
	/* Called on a thread of its own when another rank has ended and this one hangs inside the
	 * network library (see guard.h); says so and ends the process. NULL: hang. */
	void (*stuck)(void *world);
};

/* 0, or a negative errno with words in world->error. world_close() frees what is there in both
 * cases. */
int world_open(struct world *world, const struct launch *launch, const struct world_config *config);

/* Waits for all ranks, so that nobody's last messages are lost, and leaves. */
int world_leave(struct world *world);

/* Gives up: collects the reason (also what the others know), tells the others. `rc` is what
 * failed; the words are in world->error afterwards. */
void world_abort(struct world *world, int rc);

void world_close(struct world *world);

/* All ranks' `bytes` bytes in rank order (see rdv_allgather); makes progress meanwhile. */
int world_allgather(struct world *world, const void *mine, size_t bytes, void *all);

#endif
