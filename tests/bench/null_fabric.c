/* SPDX-License-Identifier: Apache-2.0
 *
 * A fabric on which every operation is over at once: what is measured is the way there. Named as providers
 * are (...-fi.so), so that its code counts as libfabric's.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

static int null_close(struct fid *fid)
{
	free(fid);
	return 0;
}

static int null_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	(void)fid, (void)bound, (void)flags;
	return 0;
}

static int null_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops), .close = null_close, .bind = null_bind, .control = null_control};

static ssize_t null_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			  fi_addr_t peer, uint64_t tag, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)peer, (void)tag, (void)context;
	return 0;
}

static ssize_t null_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t peer,
			  uint64_t tag, uint64_t ignore, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)peer, (void)tag, (void)ignore,
		(void)context;
	return 0;
}

static struct fi_ops_tagged tagged_ops = {
	.size = sizeof(tagged_ops), .send = null_tsend, .recv = null_trecv};

/* A full queue gives one entry a read, an empty one none; `context` of the queue says which it is. */
static ssize_t null_read(struct fid_cq *cq, void *buf, size_t count)
{
	struct fi_cq_tagged_entry entry = {.op_context = cq, .flags = FI_SEND | FI_TAGGED};

	if (!count || !cq->fid.context)
		return -FI_EAGAIN;
	memcpy(buf, &entry, sizeof(entry));
	return 1;
}

static struct fi_ops_cq cq_ops = {.size = sizeof(cq_ops), .read = null_read};

static int null_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	(void)domain, (void)attr;
	*cq = calloc(1, sizeof(**cq));
	if (!*cq)
		return -FI_ENOMEM;
	(*cq)->fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &fid_ops};
	(*cq)->ops = &cq_ops;
	return 0;
}

static int null_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 void *context)
{
	(void)domain, (void)info;
	*ep = calloc(1, sizeof(**ep));
	if (!*ep)
		return -FI_ENOMEM;
	(*ep)->fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &fid_ops};
	(*ep)->tagged = &tagged_ops;
	return 0;
}

static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops), .cq_open = null_cq, .endpoint = null_endpoint};

static int null_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	(void)fabric, (void)info;
	*domain = calloc(1, sizeof(**domain));
	if (!*domain)
		return -FI_ENOMEM;
	(*domain)->fid =
		(struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &fid_ops};
	(*domain)->ops = &domain_ops;
	return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = null_domain};

__attribute__((visibility("default"))) struct fid_fabric null_fabric = {
	.fid = {.fclass = FI_CLASS_FABRIC, .ops = &fid_ops}, .ops = &fabric_ops};
