/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks meet: TCP connections of every rank to rank 0, beside the network that moves the
 * data. They exchange addresses when ranks start, and afterwards carry the news that a rank failed
 * or died, so that the others end in bounded time with the reason in words.
 *
 * Not thread-safe. Functions return 0 or a negative errno, with words in rdv_error().
 */
#ifndef WAYLAY_COLLECTIVES_RENDEZVOUS_H
#define WAYLAY_COLLECTIVES_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/launch.h"

#define RDV_ERROR_BYTES 384
#define RDV_BLOCK_BYTES 4096 /* the most that a rank gives to one exchange */

struct rendezvous;

/* Meets all other ranks, for at most timeout_ns. On failure *out is NULL and `error`
 * (RDV_ERROR_BYTES) says who did not come. */
int rdv_open(const struct launch *launch, int64_t timeout_ns, struct rendezvous **out, char *error);

/* Gives `bytes` (the same on all ranks, at most RDV_BLOCK_BYTES) and gets those of all ranks in
 * rank order. While it waits it calls idle(arg), whose failure ends the wait; NULL for none. */
int rdv_allgather(struct rendezvous *rdv, const void *mine, size_t bytes, void *all,
		  int (*idle)(void *arg), void *arg);

/* Looks for news without waiting: negative when a rank failed or died. */
int rdv_check(struct rendezvous *rdv);

/* Tells the others why this rank gives up. */
void rdv_abort(struct rendezvous *rdv, const char *why);

/* Leaves in good order. */
void rdv_close(struct rendezvous *rdv);

/* Its open sockets; at most `size` of the job. Returns how many. */
int rdv_sockets(const struct rendezvous *rdv, int *out);

const char *rdv_error(const struct rendezvous *rdv);

/* This host's numeric address towards rank 0. */
const char *rdv_local_address(const struct rendezvous *rdv);

#endif
