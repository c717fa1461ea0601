/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device whose memory is reduced and moved: what collectives ask of it, a table of calls that a
 * back end fills in. device_cuda.c talks to the CUDA driver, which it opens at run time; tests have
 * one of their own. Memory of the host needs none of this.
 *
 * A device belongs to one thread. Functions return 0 or a negative errno; device->error then says
 * in words what failed.
 */
#ifndef WAYLAY_COLLECTIVES_DEVICE_H
#define WAYLAY_COLLECTIVES_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/dtype.h"

#define DEVICE_ERROR_BYTES 384

/* Copies of one lane are done in the order in which they were started; lanes run side by side. */
enum device_lane { DEVICE_LANE_DOWN, DEVICE_LANE_UP, DEVICE_LANE_MAX };

/* What an address belongs to. */
struct device_allocation {
	uint64_t base;
	size_t bytes;
	uint64_t id; /* differs from that of memory that was at the same address before */
};

/* What was moved between device and host, and how long calls that do so held the caller. */
struct device_stats {
	uint64_t down_copies, down_bytes, down_ns; /* device to host */
	uint64_t up_copies, up_bytes, up_ns;
	uint64_t reductions, reduced_bytes; /* of the result */
	uint64_t flushes, flush_ns;
};

struct coll_device;

struct device_ops {
	/* Memory of the device, zeroed; and memory of the host that it copies to and from at full
	 * speed. */
	int (*alloc)(struct coll_device *device, size_t bytes, void **out);
	void (*release)(struct coll_device *device, void *memory);
	int (*host_alloc)(struct coll_device *device, size_t bytes, void **out);
	void (*host_release)(struct coll_device *device, void *memory);
	/* Copies that are done when they return. */
	int (*download)(struct coll_device *device, void *to, const void *from, size_t bytes);
	int (*upload)(struct coll_device *device, void *to, const void *from, size_t bytes);
	int (*copy)(struct coll_device *device, void *to, const void *from, size_t bytes);
	/* Starts a copy on a lane. `slot`, below the number given to `slots`, names it until
	 * copied() says 1; 0 means that it is still under way. The host's side must be memory of
	 * host_alloc. */
	int (*slots)(struct coll_device *device, unsigned count);
	int (*start)(struct coll_device *device, enum device_lane lane, unsigned slot, void *to,
		     const void *from, size_t bytes);
	int (*copied)(struct coll_device *device, unsigned slot);
	/* See coll_reduce() and coll_average(); done when they return. */
	int (*reduce)(struct coll_device *device, void *out, const void *a, const void *b,
		      size_t count, enum coll_type type, enum coll_op op);
	int (*average)(struct coll_device *device, void *data, size_t count, enum coll_type type,
		       int ranks);
	/* What the network wrote into device memory is seen by whatever runs there next. */
	int (*flush)(struct coll_device *device);
	int (*identify)(struct coll_device *device, const void *address,
			struct device_allocation *out);
	/* Copies from and to this memory that others make are done when they say so: a provider that
	 * copies within the device completes a message before the device has moved it. */
	int (*settle)(struct coll_device *device, const void *address);
	/* A DMA-BUF of the allocation that holds the range, and where in it the range begins; the
	 * caller closes *fd. */
	int (*export)(struct coll_device *device, const void *address, size_t bytes, int *fd,
		      uint64_t *offset);
	void (*close)(struct coll_device *device);
};

/* The common part; a back end embeds it first. */
struct coll_device {
	const struct device_ops *ops;
	int ordinal;
	bool simulated; /* its rates tell nothing of a device's */
	char name[96];
	struct device_stats stats;
	char error[DEVICE_ERROR_BYTES];
};

/* Opens the CUDA driver and device `ordinal`. On failure *out is NULL and `error`
 * (DEVICE_ERROR_BYTES) says why. */
int device_open_cuda(int ordinal, struct coll_device **out, char *error);
/* How many CUDA devices there are; negative without a driver, with words in `error`. */
int device_count_cuda(char *error);

static inline void device_close(struct coll_device *device)
{
	if (device)
		device->ops->close(device);
}

#endif
