/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host and its two network plugins agree on (ofi_shapes.c, ofi_host.c): one shaped as collective
 * libraries of accelerators load theirs, by two functions that give a table of forwards, and one as NCCL's, by
 * an exported table of a request-and-test interface.
 */
#ifndef WAYLAY_TESTS_OFI_SHAPES_H
#define WAYLAY_TESTS_OFI_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>

/* Forwards, one line each. */
struct wrapper {
	int (*getinfo)(uint32_t version, const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*allocinfo)(void);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric);
	int (*domain)(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain);
	int (*endpoint)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep);
	int (*cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq);
	int (*av_open)(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av);
	int (*ep_bind)(struct fid_ep *ep, struct fid *fid, uint64_t flags);
	int (*enable)(struct fid_ep *ep);
	int (*getname)(struct fid *fid, void *addr, size_t *bytes);
	int (*av_insert)(struct fid_av *av, const void *addr, size_t count, fi_addr_t *to);
	int (*mr_regattr)(struct fid_domain *domain, const struct fi_mr_attr *attr,
			  struct fid_mr **mr);
	void *(*mr_desc)(struct fid_mr *mr);
	ssize_t (*tsend)(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			 uint64_t tag, void *context);
	ssize_t (*trecv)(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
			 uint64_t tag, void *context);
	ssize_t (*cq_read)(struct fid_cq *cq, void *buf, size_t count);
	int (*close)(struct fid *fid);
};

/* Requests and tests; everything else is the plugin's own. */
struct net {
	const char *name;
	int (*init)(const char *provider);
	int (*reg)(void *buf, size_t bytes, void **handle);
	int (*dereg)(void *handle);
	int (*isend)(void *buf, size_t bytes, uint64_t tag, void *handle, void **request);
	int (*irecv)(void *buf, size_t bytes, uint64_t tag, void *handle, void **request);
	int (*test)(void *request, int *done);
	int (*close)(void);
};

#endif
