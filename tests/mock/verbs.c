/* SPDX-License-Identifier: Apache-2.0
 *
 * verbsmock: every endpoint has a table of message operations of its own, which is rewritten when it is
 * enabled and freed, through the pointer in the object, when it is closed.
 */
#include "tests/mock/self.h"

const char self_name[] = "verbsmock";

static ssize_t not_yet(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t peer,
		       void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)peer, (void)context;
	return -FI_EOPBADSTATE;
}

void self_ep_opened(struct self_ep *ep)
{
	ep->own = calloc(1, sizeof(*ep->own));
	if (!ep->own)
		self_die("no memory");
	ep->own->size = sizeof(*ep->own);
	ep->own->recv = not_yet;
	ep->own->send = self_send;
	ep->ep.msg = ep->own;
}

void self_ep_bound(struct self_ep *ep, struct fid *bound)
{
	(void)bound;
	if (ep->ep.msg != ep->own)
		self_die("at bind an endpoint's table is not its own");
}

void self_ep_enabled(struct self_ep *ep)
{
	if (ep->ep.msg != ep->own)
		self_die("at enable an endpoint's table is not its own");
	ep->ep.msg->recv = self_recv;
}

void self_ep_closing(struct self_ep *ep)
{
	if (ep->ep.msg != ep->own)
		self_die("at close an endpoint's table is not its own");
	memset(ep->ep.msg, 0, sizeof(*ep->ep.msg)); /* whoever uses it later falls */
	free(ep->ep.msg);
}

static struct fi_ops_cq cq_ops = {.size = sizeof(cq_ops),
				  .read = self_cq_read,
				  .readfrom = self_cq_readfrom,
				  .readerr = self_cq_readerr,
				  .strerror = self_cq_strerror};
struct fi_ops_cq *self_cq_first = &cq_ops;
