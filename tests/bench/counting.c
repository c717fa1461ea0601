/* SPDX-License-Identifier: Apache-2.0
 *
 * A hook provider that counts the tagged operations and the reads of completion queues of a job, and does
 * nothing else: the least that whoever stands between a job and libfabric can cost.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

static uint64_t counted[8] __attribute__((used));

/* Tables of the one provider that a measuring job opens, as they were and as they are. */
static struct fi_ops_fabric *fabric_before, fabric_now;
static struct fi_ops_domain *domain_before, domain_now;
static struct fi_ops_tagged *tagged_before, tagged_now;
static struct fi_ops_cq *cq_before, cq_now;

#define COPY(to, from) memcpy(&(to), (from), (from)->size < sizeof(to) ? (from)->size : sizeof(to))
#define COUNT(n)       ((void)__atomic_fetch_add(&counted[n], 1, __ATOMIC_RELAXED))

static ssize_t count_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			  fi_addr_t peer, uint64_t tag, void *context)
{
	COUNT(0);
	return tagged_before->send(ep, buf, len, desc, peer, tag, context);
}

static ssize_t count_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t peer,
			  uint64_t tag, uint64_t ignore, void *context)
{
	COUNT(1);
	return tagged_before->recv(ep, buf, len, desc, peer, tag, ignore, context);
}

static ssize_t count_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t peer,
			    uint64_t tag)
{
	COUNT(2);
	return tagged_before->inject(ep, buf, len, peer, tag);
}

static ssize_t count_read(struct fid_cq *cq, void *buf, size_t count)
{
	COUNT(3);
	return cq_before->read(cq, buf, count);
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	int ret = domain_before->cq_open(domain, attr, cq, context);

	if (ret)
		return ret;
	cq_before = (*cq)->ops;
	COPY(cq_now, cq_before);
	cq_now.read = count_read;
	(*cq)->ops = &cq_now;
	return 0;
}

static int open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 void *context)
{
	int ret = domain_before->endpoint(domain, info, ep, context);

	if (ret)
		return ret;
	tagged_before = (*ep)->tagged;
	COPY(tagged_now, tagged_before);
	tagged_now.send = count_send;
	tagged_now.recv = count_recv;
	tagged_now.inject = count_inject;
	(*ep)->tagged = &tagged_now;
	return 0;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	int ret = fabric_before->domain(fabric, info, domain, context);

	if (ret)
		return ret;
	domain_before = (*domain)->ops;
	COPY(domain_now, domain_before);
	domain_now.cq_open = open_cq;
	domain_now.endpoint = open_endpoint;
	(*domain)->ops = &domain_now;
	return 0;
}

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	(void)context;
	*fabric = attr->fabric;
	fabric_before = (*fabric)->ops;
	COPY(fabric_now, fabric_before);
	fabric_now.domain = open_domain;
	(*fabric)->ops = &fabric_now;
	return 0;
}

static void cleanup(void)
{
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);
struct fi_provider *fi_prov_ini(void)
{
	static struct fi_provider provider = {.version = FI_VERSION(1, 0),
					      .fi_version = FI_VERSION(1, 8),
					      .name = "counting",
					      .fabric = open_fabric,
					      .cleanup = cleanup};

	return &provider;
}
