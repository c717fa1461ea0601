/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering what the buffers of collectives lie in: host memory by its address, device memory by
 * its address (FI_HMEM_CUDA) or as a DMA-BUF, whichever the provider takes.
 */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const interface_names[COLL_INTERFACE_MAX] = {"auto", "cuda", "dmabuf"};

const char *coll_interface_name(enum coll_interface interface)
{
	return interface_names[interface];
}

static int by_dmabuf(struct coll_comm *comm, struct tp_range *range, struct tp_region **out)
{
	struct coll_device *device = comm->config.device;
	int fd, rc = device->ops->export(device, range->addr, range->bytes, &fd,
					 &range->dmabuf_offset);

	if (rc)
		return tp_fail(comm->tp, rc, "%s", device->error);
	range->dmabuf_fd = fd;
	rc = tp_register(comm->tp, range, out);
	close(fd); /* the registration holds the memory */
	range->dmabuf_fd = -1;
	range->dmabuf_offset = 0;
	return rc;
}

int coll_register_device(struct coll_comm *comm, const void *addr, size_t bytes,
			 enum coll_interface wanted, struct tp_region **out)
{
	struct tp_range range = {.addr = (void *)addr,
				 .bytes = bytes,
				 .memory = TP_MEMORY_CUDA,
				 .device = comm->config.device->ordinal,
				 .dmabuf_fd = -1};
	/* Providers that share memory open it in the other process by CUDA's own means. */
	bool dmabuf_first = wanted == COLL_INTERFACE_DMABUF ||
			    (wanted == COLL_INTERFACE_AUTO && comm->tp->takes_dmabuf &&
			     !comm->tp->shares_memory);
	char first[TP_ERROR_BYTES];
	int rc;

	*out = NULL;
	rc = comm->config.device->ops->settle(comm->config.device, addr);
	if (rc)
		return tp_fail(comm->tp, rc, "%s", comm->config.device->error);
	rc = dmabuf_first ? by_dmabuf(comm, &range, out) : tp_register(comm->tp, &range, out);
	/* Out of room is for the cache to solve. */
	if (!rc || wanted != COLL_INTERFACE_AUTO || rc == -ENOMEM || rc == -ENOSPC || rc == -EAGAIN)
		return rc;
	snprintf(first, sizeof(first), "%.120s", tp_error(comm->tp));
	rc = -EOPNOTSUPP;
	if (dmabuf_first)
		rc = tp_register(comm->tp, &range, out);
	else if (comm->tp->takes_dmabuf)
		rc = by_dmabuf(comm, &range, out);
	else
		tp_fail(comm->tp, rc, "%s knows no DMA-BUFs (1.20 does)", comm->tp->library);
	if (rc) {
		char second[TP_ERROR_BYTES];

		snprintf(second, sizeof(second), "%.120s", tp_error(comm->tp));
		return tp_fail(
			comm->tp, rc,
			"the direct path is closed: %s; %s (%s was built without CUDA, or the "
			"provider cannot): --path staged goes through host memory",
			first, second, comm->tp->library);
	}
	/* The next buffer need not try in vain. */
	comm->config.interface = dmabuf_first ? COLL_INTERFACE_CUDA : COLL_INTERFACE_DMABUF;
	return 0;
}

int comm_cache_reg(void *ctx, uint64_t addr, size_t bytes, uint64_t space, void **handle)
{
	struct coll_comm *comm = ctx;
	struct tp_range range = {.addr = (void *)(uintptr_t)addr, .bytes = bytes, .dmabuf_fd = -1};
	struct tp_region *region;
	int rc;

	(void)space; /* it tells memory apart; what kind it is the communicator knows */
	if (comm->config.device)
		rc = coll_register_device(comm, range.addr, bytes, comm->config.interface, &region);
	else
		rc = tp_register(comm->tp, &range, &region);
	*handle = region;
	return rc;
}

void comm_cache_dereg(void *ctx, void *handle)
{
	struct coll_comm *comm = ctx;

	tp_deregister(comm->tp, handle);
}

/* A device numbers its allocations, so that one which is gone is told from one at its place. The
 * host does not: coll_forget() says so there. */
int comm_space(struct coll_comm *comm, const void *addr, uint64_t *space)
{
	struct coll_device *device = comm->config.device;
	struct device_allocation memory;
	int rc;

	*space = TP_MEMORY_HOST;
	if (!device)
		return 0;
	rc = device->ops->identify(device, addr, &memory);
	if (rc)
		return tp_break(comm->tp, rc, "%s", device->error);
	*space = memory.id << 1 | TP_MEMORY_CUDA;
	return 0;
}
