/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device for tests of the collectives: its memory is the process's own, and it is strict. A copy
 * that was started moves its bytes only when it has been asked for a few times, so a bounce buffer
 * that is used too early shows; and with `wants_flush` a reduction fails unless what the network
 * wrote was flushed before.
 */
#ifndef WAYLAY_TESTS_COLL_DEVICE_H
#define WAYLAY_TESTS_COLL_DEVICE_H

#include "collectives/device.h"

struct coll_device *test_device_new(bool wants_flush);
/* Memory that device_ops.alloc or host_alloc gave and nobody has released. */
int test_device_live(const struct coll_device *device);
/* From now on memory at any address is another allocation than before. */
void test_device_renumber(struct coll_device *device);

#endif
