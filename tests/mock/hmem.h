/* SPDX-License-Identifier: Apache-2.0
 *
 * The "hmemmock" provider: libfabric's shm, which takes device memory too. See README.md.
 */
#ifndef WAYLAY_TESTS_MOCK_HMEM_H
#define WAYLAY_TESTS_MOCK_HMEM_H

#include "tests/mock/mock.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Younger than the oldest headers this builds with; the values are libfabric's ABI. */
#define HMEM_MR_DMABUF (1ull << 40)
struct hmem_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

/* A registration as the job holds it. Its descriptor is its own address. */
struct hmem_mr {
	struct fid_mr mr;
	struct fid_mr *inner; /* shm's */
	uint64_t magic;
	uintptr_t base;
	size_t bytes;
	bool device;
};
#define HMEM_MR_MAGIC 0x6d6d656d6b636f6dull

/* --- hmem_memory.c ------------------------------------------------------------------------------ */

/* Whether all of the range is one allocation of the simulated driver's. */
bool hmem_range_is_device(uintptr_t base, size_t bytes);
/* Whether any of it is device memory; may answer by what it saw there a moment ago. */
bool hmem_range_touches_device(uintptr_t base, size_t bytes);
/* 0 when the descriptor is the allocation's at `base`, and [offset, offset + bytes) lies in it. */
int hmem_dmabuf_check(const struct hmem_dmabuf *buffer);

/* --- hmem.c ------------------------------------------------------------------------------------- */

struct hmem_counts {
	uint64_t host_registrations, device_registrations, dmabuf_registrations,
		refused_registrations;
	uint64_t device_transfers, device_bytes, refused_transfers;
};
extern struct hmem_counts hmem_counts;
void hmem_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define HMEM_COUNT(member, n) ((void)__atomic_fetch_add(&hmem_counts.member, (n), __ATOMIC_RELAXED))

/* --- hmem_data.c -------------------------------------------------------------------------------- */

/* Puts the checks in front of an endpoint's transfers. 0 or -FI_ENOMEM. */
int hmem_endpoint_wrap(struct fid_ep *ep);

#endif
