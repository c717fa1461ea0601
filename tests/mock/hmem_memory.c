/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies at an address, read from the kernel and not from the driver, so that a wrong registration is
 * found whoever is wrong.
 */
#include "tests/mock/hmem.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct mapping {
	uintptr_t from, to;
	uint64_t offset; /* in the file */
	dev_t device;
	ino_t inode;
	bool ours; /* memory of the simulated device */
};

/* The mapping at an address; false if there is none. */
static bool mapping_at(uintptr_t address, struct mapping *found)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	bool there = false;

	while (maps && !there && fgets(line, sizeof(line), maps)) {
		unsigned long from, to, offset, inode;
		unsigned major_number, minor_number;

		if (sscanf(line, "%lx-%lx %*s %lx %x:%x %lu", &from, &to, &offset, &major_number,
			   &minor_number, &inode) != 6 ||
		    address < from || address >= to)
			continue;
		*found = (struct mapping){from,   to,
					  offset, makedev(major_number, minor_number),
					  inode,  strstr(line, "memfd:fakecuda") != NULL};
		there = true;
	}
	if (maps)
		(void)fclose(maps);
	return there;
}

bool hmem_range_is_device(uintptr_t base, size_t bytes)
{
	struct mapping mapping;
	ino_t inode = 0;

	for (uintptr_t at = base; at < base + bytes; at = mapping.to) {
		if (!mapping_at(at, &mapping) || !mapping.ours)
			return false;
		if (inode && mapping.inode != inode)
			return false;
		inode = mapping.inode;
	}
	return bytes != 0;
}

/* Host pages seen lately, each believed for a while: small messages are many. */
#define SEEN   1024
#define BELIEF 4096
static struct {
	uintptr_t page;
	uint64_t until;
} seen[SEEN];
static uint64_t lookups;

bool hmem_range_touches_device(uintptr_t base, size_t bytes)
{
	uintptr_t page = base >> 12;
	unsigned at = (unsigned)(page % SEEN);
	uint64_t now = __atomic_add_fetch(&lookups, 1, __ATOMIC_RELAXED);
	bool whole = bytes && page == (base + bytes - 1) >> 12;
	struct mapping mapping;

	if (!bytes)
		return false;
	if (whole && __atomic_load_n(&seen[at].page, __ATOMIC_RELAXED) == page &&
	    __atomic_load_n(&seen[at].until, __ATOMIC_RELAXED) > now)
		return false;
	for (uintptr_t p = base; p < base + bytes; p = mapping.to) {
		if (!mapping_at(p, &mapping))
			return false;
		if (mapping.ours)
			return true;
	}
	__atomic_store_n(&seen[at].until, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&seen[at].page, page, __ATOMIC_RELAXED);
	__atomic_store_n(&seen[at].until, now + BELIEF, __ATOMIC_RELAXED);
	return false;
}

int hmem_dmabuf_check(const struct hmem_dmabuf *buffer)
{
	uintptr_t at = (uintptr_t)buffer->base_addr + buffer->offset;
	struct mapping mapping;
	struct stat status;

	if (fstat(buffer->fd, &status) != 0)
		return -FI_EBADF;
	if (!buffer->len || buffer->offset + buffer->len < buffer->offset ||
	    buffer->offset + buffer->len > (uint64_t)status.st_size)
		return -FI_EINVAL;
	if (!mapping_at(at, &mapping) || !mapping.ours || mapping.inode != status.st_ino ||
	    mapping.offset + (at - mapping.from) != buffer->offset)
		return -FI_EINVAL; /* the descriptor of another allocation, or of another part */
	return hmem_range_is_device(at, buffer->len) ? 0 : -FI_EFAULT;
}
