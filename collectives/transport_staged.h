/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport whose messages lie in device memory although the network takes host memory only: each
 * goes through a bounce buffer in pinned host memory on both sides. It stands on another transport
 * and looks like one, so the collectives above are the same.
 *
 * Two ways of doing that. Plain (`pipelined` false): a message is copied whole, the thread waits for
 * the copy, and only then the network moves it; the peer likewise. Pipelined: copies are started on
 * a lane of the device for each direction and messages are cut into pieces, so that copy engines and
 * network work at the same time.
 */
#ifndef WAYLAY_COLLECTIVES_TRANSPORT_STAGED_H
#define WAYLAY_COLLECTIVES_TRANSPORT_STAGED_H

#include "collectives/device.h"
#include "collectives/transport.h"

struct staged_config {
	bool pipelined;
	size_t slot_bytes; /* of a bounce buffer: no message is longer */
	unsigned slots;    /* bounce buffers, for messages under way in both directions together */
	/* Around copies that the thread waits for; or NULL. */
	void (*range_push)(const char *name);
	void (*range_pop)(void);
};

/*
 * `inner` is open and becomes the new transport's, closed with it; the device stays the caller's.
 * A message whose region is NULL lies in device memory; one with a region of this transport lies in
 * host memory and goes straight to `inner`. On failure *out is NULL, inner is still the caller's,
 * and `error` (TP_ERROR_BYTES) says why.
 */
int tp_open_staged(struct transport *inner, struct coll_device *device,
		   const struct staged_config *config, struct transport **out, char *error);

#endif
