/* SPDX-License-Identifier: Apache-2.0
 *
 * The provider: no wire, no memory registration, one message at a time from an endpoint to itself.
 */
#include "tests/mock/self.h"

#include <stdio.h>
#include <unistd.h>

void self_die(const char *what)
{
	(void)fprintf(stderr, "%s: %s\n", self_name, what);
	_exit(99);
}

/* --- queues and counters -------------------------------------------------------------------------- */

ssize_t self_cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct self_cq *cq = (struct self_cq *)fid;
	struct fi_cq_tagged_entry *entries = buf;
	size_t had = 0;

	while (had < count && cq->tail != cq->head) {
		entries[had] = cq->entries[cq->tail++ % SELF_DEPTH];
		if (src)
			src[had] = 0;
		had++;
	}
	return had ? (ssize_t)had : -FI_EAGAIN;
}

/* By the other read of the same queue, as providers do. */
ssize_t self_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return cq->ops->readfrom(cq, buf, count, NULL);
}

ssize_t self_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	(void)cq, (void)buf, (void)flags;
	return -FI_EAGAIN;
}

const char *self_cq_strerror(struct fid_cq *cq, int error, const void *data, char *buf, size_t len)
{
	(void)cq, (void)error, (void)data, (void)buf, (void)len;
	return "none";
}

static void complete(struct self_cq *cq, void *context, uint64_t flags, void *buf, size_t bytes)
{
	cq->entries[cq->head++ % SELF_DEPTH] = (struct fi_cq_tagged_entry){
		.op_context = context, .flags = flags | FI_MSG, .len = bytes, .buf = buf};
}

static int plain_close(struct fid *fid)
{
	free(fid); /* every object begins with its fid */
	return 0;
}

static int no_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	(void)fid, (void)bound, (void)flags;
	return -FI_ENOSYS;
}

static int no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

static struct fi_ops plain_ops = {.size = sizeof(struct fi_ops),
				  .close = plain_close,
				  .bind = no_bind,
				  .control = no_control};

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	struct self_cq *made = calloc(1, sizeof(*made));

	(void)domain;
	if (!made || attr->format != FI_CQ_FORMAT_TAGGED) {
		free(made);
		return -FI_EINVAL;
	}
	made->cq.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &plain_ops};
	made->cq.ops = self_cq_first;
	*cq = &made->cq;
	return 0;
}

static uint64_t cntr_read(struct fid_cntr *cntr)
{
	return ((struct self_cntr *)cntr)->value;
}

static int cntr_add(struct fid_cntr *cntr, uint64_t value)
{
	((struct self_cntr *)cntr)->value += value;
	return 0;
}

static struct fi_ops_cntr cntr_ops = {.size = sizeof(cntr_ops), .read = cntr_read, .add = cntr_add};

static int cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		     void *context)
{
	struct self_cntr *made = calloc(1, sizeof(*made));

	(void)domain, (void)attr;
	if (!made)
		return -FI_ENOMEM;
	made->cntr.fid =
		(struct fid){.fclass = FI_CLASS_CNTR, .context = context, .ops = &plain_ops};
	made->cntr.ops = &cntr_ops;
	*cntr = &made->cntr;
	return 0;
}

/* --- endpoints ------------------------------------------------------------------------------------ */

ssize_t self_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t peer,
		  void *context)
{
	struct self_ep *ep = (struct self_ep *)fid;

	(void)desc, (void)peer;
	if (ep->head - ep->tail == SELF_DEPTH)
		return -FI_EAGAIN;
	ep->posted[ep->head % SELF_DEPTH].buf = buf;
	ep->posted[ep->head % SELF_DEPTH].bytes = len;
	ep->posted[ep->head++ % SELF_DEPTH].context = context;
	return 0;
}

ssize_t self_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t peer,
		  void *context)
{
	struct self_ep *ep = (struct self_ep *)fid;
	unsigned at = ep->tail % SELF_DEPTH;

	(void)desc, (void)peer;
	if (ep->tail == ep->head)
		return -FI_EAGAIN;
	ep->tail++;
	memcpy(ep->posted[at].buf, buf, len < ep->posted[at].bytes ? len : ep->posted[at].bytes);
	complete(ep->rx, ep->posted[at].context, FI_RECV, ep->posted[at].buf, len);
	complete(ep->tx, context, FI_SEND, NULL, len);
	if (ep->cntr)
		ep->cntr->value++;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	struct self_ep *ep = (struct self_ep *)fid;

	if (bound->fclass == FI_CLASS_CQ && flags & FI_TRANSMIT)
		ep->tx = (struct self_cq *)bound;
	if (bound->fclass == FI_CLASS_CQ && flags & FI_RECV)
		ep->rx = (struct self_cq *)bound;
	if (bound->fclass == FI_CLASS_CNTR)
		ep->cntr = (struct self_cntr *)bound;
	self_ep_bound(ep, bound);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct self_ep *ep = (struct self_ep *)fid;

	(void)arg;
	if (command != FI_ENABLE || !ep->tx || !ep->rx)
		return -FI_EINVAL;
	self_domain_check(ep->domain);
	self_ep_enabled(ep);
	ep->enabled = true;
	return 0;
}

static int ep_close(struct fid *fid)
{
	struct self_ep *ep = (struct self_ep *)fid;

	self_domain_check(ep->domain);
	self_ep_closing(ep);
	free(ep);
	return 0;
}

static int ep_setopt(fid_t fid, int level, int option, const void *value, size_t bytes)
{
	(void)fid, (void)level, (void)option, (void)value, (void)bytes;
	return -FI_ENOPROTOOPT;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control};
static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .setopt = ep_setopt};

static int endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 void *context)
{
	struct self_ep *made = calloc(1, sizeof(*made));

	(void)info;
	if (!made)
		return -FI_ENOMEM;
	made->ep.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fid_ops};
	made->ep.ops = &ep_ops;
	made->domain = domain;
	self_ep_opened(made);
	*ep = &made->ep;
	return 0;
}

/* --- domain, fabric ------------------------------------------------------------------------------- */

static struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops),
					  .cq_open = cq_open,
					  .cntr_open = cntr_open,
					  .endpoint = endpoint_open};

/* tcp decides by this comparison what kind of domain it has before it. */
void self_domain_check(const struct fid_domain *domain)
{
	if (domain->ops != &domain_ops)
		self_die("a domain's table is not the provider's");
}

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	struct fid_domain *made = calloc(1, sizeof(*made));

	(void)fabric, (void)info;
	if (!made)
		return -FI_ENOMEM;
	made->fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &plain_ops};
	made->ops = &domain_ops;
	*domain = made;
	return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = domain_open};

static int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fid_fabric *made = calloc(1, sizeof(*made));

	(void)attr;
	if (!made)
		return -FI_ENOMEM;
	made->fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &plain_ops};
	made->ops = &fabric_ops;
	*fabric = made;
	return 0;
}

/* libfabric allocates infos by the job's ABI: a copy of the hints is the only one to be had here. */
static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *made;

	(void)version, (void)node, (void)service, (void)flags;
	if (!hints || !hints->fabric_attr || !hints->fabric_attr->prov_name ||
	    strcmp(hints->fabric_attr->prov_name, self_name) != 0)
		return -FI_ENODATA;
	made = fi_dupinfo(hints);
	if (!made)
		return -FI_ENOMEM;
	free(made->fabric_attr->prov_name);
	made->fabric_attr->prov_name = NULL;
	made->fabric_attr->name = strdup(self_name);
	made->domain_attr->name = strdup(self_name);
	made->addr_format = FI_SOCKADDR_IN;
	*info = made;
	return 0;
}

static void cleanup(void)
{
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);
struct fi_provider *fi_prov_ini(void)
{
	static struct fi_provider provider = {.version = FI_VERSION(1, 0),
					      .fi_version = FI_VERSION(1, 17),
					      .getinfo = getinfo,
					      .fabric = fabric_open,
					      .cleanup = cleanup};

	provider.name = self_name;
	return &provider;
}
