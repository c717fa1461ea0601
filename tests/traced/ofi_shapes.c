/* SPDX-License-Identifier: Apache-2.0
 *
 * Both plugins in one object that is linked to libfabric and that a host opens for itself alone.
 */
#include "tests/traced/ofi_shapes.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* --- the wrapper ------------------------------------------------------------------------------------ */

static int w_getinfo(uint32_t version, const struct fi_info *hints, struct fi_info **info)
{
	return fi_getinfo(version, NULL, NULL, 0, hints, info);
}
static struct fi_info *w_allocinfo(void)
{
	return fi_allocinfo();
}
static int w_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric)
{
	return fi_fabric(attr, fabric, NULL);
}
static int w_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain)
{
	return fi_domain(fabric, info, domain, NULL);
}
static int w_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep)
{
	return fi_endpoint(domain, info, ep, NULL);
}
static int w_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq)
{
	return fi_cq_open(domain, attr, cq, NULL);
}
static int w_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av)
{
	return fi_av_open(domain, attr, av, NULL);
}
static int w_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *to)
{
	return fi_av_insert(av, addr, count, to, 0, NULL);
}
static int w_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr,
			struct fid_mr **mr)
{
	return fi_mr_regattr(domain, attr, 0, mr);
}
static ssize_t w_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		       uint64_t tag, void *context)
{
	return fi_trecv(ep, buf, len, desc, from, tag, 0, context);
}

EXPORT int create_plugin_handle(struct wrapper *wrapper);
int create_plugin_handle(struct wrapper *wrapper)
{
	*wrapper = (struct wrapper){w_getinfo,  w_allocinfo, fi_freeinfo,  w_fabric,   w_domain,
				    w_endpoint, w_cq_open,   w_av_open,    fi_ep_bind, fi_enable,
				    fi_getname, w_av_insert, w_mr_regattr, fi_mr_desc, fi_tsend,
				    w_trecv,    fi_cq_read,  fi_close};
	return 0;
}

EXPORT double get_version(void);
double get_version(void)
{
	return 1.2;
}

/* --- the net plugin ----------------------------------------------------------------------------------- */

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t self;

/* What NCCL holds of an operation; libfabric's part of it comes first. */
struct request {
	struct fi_context2 context;
	int done;
};

static int net_init(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	char name[256];
	size_t bytes = sizeof(name);

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info))
		return 77;
	fi_freeinfo(hints);
	return fi_fabric(info->fabric_attr, &fabric, NULL) ||
	       fi_domain(fabric, info, &domain, NULL) || fi_cq_open(domain, &cq_attr, &cq, NULL) ||
	       fi_av_open(domain, &av_attr, &av, NULL) || fi_endpoint(domain, info, &ep, NULL) ||
	       fi_ep_bind(ep, &av->fid, 0) || fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) ||
	       fi_enable(ep) || fi_getname(&ep->fid, name, &bytes) ||
	       fi_av_insert(av, name, 1, &self, 0, NULL) != 1;
}

static int net_reg(void *buf, size_t bytes, void **handle)
{
	struct iovec iov = {buf, bytes};
	static uint64_t key = 1;
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = FI_SEND | FI_RECV,
				  .requested_key = key++};

	return fi_mr_regattr(domain, &attr, 0, (struct fid_mr **)handle);
}

static int net_dereg(void *handle)
{
	return fi_close(&((struct fid_mr *)handle)->fid);
}

/* No request: the provider has no room now, and the host asks again later. */
static int posted(ssize_t ret, struct request *request, void **out)
{
	*out = ret == 0 ? request : NULL;
	if (ret)
		free(request);
	return ret && ret != -FI_EAGAIN;
}

static int net_isend(void *buf, size_t bytes, uint64_t tag, void *handle, void **out)
{
	struct request *request = calloc(1, sizeof(*request));

	return posted(fi_tsend(ep, buf, bytes, fi_mr_desc(handle), self, tag, request), request,
		      out);
}

static int net_irecv(void *buf, size_t bytes, uint64_t tag, void *handle, void **out)
{
	struct request *request = calloc(1, sizeof(*request));

	return posted(fi_trecv(ep, buf, bytes, fi_mr_desc(handle), self, tag, 0, request), request,
		      out);
}

static int net_test(void *of, int *done)
{
	struct fi_cq_tagged_entry entries[4];
	struct request *request = of;
	ssize_t had = fi_cq_read(cq, entries, 4);

	if (had < 0 && had != -FI_EAGAIN)
		return 1;
	for (ssize_t i = 0; i < had; i++)
		((struct request *)entries[i].op_context)->done = 1;
	*done = request ? request->done : 0;
	if (*done)
		free(request);
	return 0;
}

static int net_close(void)
{
	return fi_close(&ep->fid) || fi_close(&av->fid) || fi_close(&cq->fid) ||
	       fi_close(&domain->fid) || fi_close(&fabric->fid);
}

EXPORT const struct net net_plugin_v8 = {"shape",   net_init,  net_reg,  net_dereg,
					 net_isend, net_irecv, net_test, net_close};
