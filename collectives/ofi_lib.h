/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric, opened at run time, so that one program runs with whatever libfabric (or none) a
 * machine has. Only seven functions are exported symbols; all else are inline calls through the
 * tables of the objects.
 */
#ifndef WAYLAY_COLLECTIVES_OFI_LIB_H
#define WAYLAY_COLLECTIVES_OFI_LIB_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

struct ofi_lib {
	void *handle;
	uint32_t api;      /* what to ask of fi_getinfo: the older of the headers and the library */
	uint32_t api_hmem; /* and where device memory will be registered */
	uint32_t version;
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int err);
	uint32_t (*fi_version)(void);
};

/* Opens libfabric once for the process; it is never closed, as its providers have threads and
 * handlers that outlive their objects. 0, or -ENOENT / -ENOSYS with words in `error`. */
int ofi_lib_open(const struct ofi_lib **out, char *error, size_t error_bytes);

#endif
