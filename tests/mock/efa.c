/* SPDX-License-Identifier: Apache-2.0
 *
 * efamock: binding an endpoint exchanges the table of the queue that is bound, and binding a counter once
 * more that of the queues bound before; the table of before must not be used any more. Endpoints are told
 * apart by the address of their table.
 */
#include "tests/mock/self.h"

const char self_name[] = "efamock";

static struct fi_ops_cq first_ops, later_ops, counted_ops;

static void not_first(const struct fid_cq *cq)
{
	if (((const struct self_cq *)cq)->exchanged)
		self_die("a queue is read by a table that was exchanged");
}

static ssize_t first_read(struct fid_cq *cq, void *buf, size_t count)
{
	not_first(cq);
	return self_cq_read(cq, buf, count);
}

static ssize_t first_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	not_first(cq);
	return self_cq_readfrom(cq, buf, count, src);
}

static struct fi_ops_cq first_ops = {.size = sizeof(first_ops),
				     .read = first_read,
				     .readfrom = first_readfrom,
				     .readerr = self_cq_readerr,
				     .strerror = self_cq_strerror};
static struct fi_ops_cq later_ops = {.size = sizeof(later_ops),
				     .read = self_cq_read,
				     .readfrom = self_cq_readfrom,
				     .readerr = self_cq_readerr,
				     .strerror = self_cq_strerror};
static struct fi_ops_cq counted_ops = {.size = sizeof(counted_ops),
				       .read = self_cq_read,
				       .readfrom = self_cq_readfrom,
				       .readerr = self_cq_readerr,
				       .strerror = self_cq_strerror};
struct fi_ops_cq *self_cq_first = &first_ops;

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), .recv = self_recv, .send = self_send};

void self_ep_opened(struct self_ep *ep)
{
	ep->ep.msg = &msg_ops;
}

void self_ep_bound(struct self_ep *ep, struct fid *bound)
{
	struct self_cq *cq = (struct self_cq *)bound;

	if (bound->fclass == FI_CLASS_CQ) {
		cq->cq.ops = &later_ops;
		cq->exchanged = true;
	} else if (bound->fclass == FI_CLASS_CNTR && ep->tx) {
		ep->tx->cq.ops = &counted_ops;
	}
}

void self_ep_enabled(struct self_ep *ep)
{
	if (ep->ep.msg != &msg_ops)
		self_die("at enable an endpoint's table is not the provider's");
}

void self_ep_closing(struct self_ep *ep)
{
	if (ep->ep.msg != &msg_ops)
		self_die("at close an endpoint's table is not the provider's");
}
