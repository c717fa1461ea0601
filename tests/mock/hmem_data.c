/* SPDX-License-Identifier: Apache-2.0
 *
 * hmemmock: every transfer's buffers are checked against the descriptor that comes with them, which is
 * then exchanged for shm's.
 */
#include "tests/mock/hmem.h"

#define ENDPOINTS 1024
#define RANGES    16

struct endpoint {
	struct fid_ep *ep; /* NULL: free */
	struct fi_ops *fid, *fid_before;
	struct fi_ops_ep *ops, *ops_before;
	struct fi_ops_msg *msg, *msg_before;
	struct fi_ops_tagged *tagged, *tagged_before;
	struct fi_ops_rma *rma, *rma_before;
};
static struct endpoint endpoints[ENDPOINTS];

/* By the object and not by its tables, which may be replaced by a tool's. */
static struct endpoint *endpoint_of(const void *ep)
{
	for (unsigned i = 0; i < ENDPOINTS; i++)
		if (__atomic_load_n(&endpoints[i].ep, __ATOMIC_ACQUIRE) == ep)
			return &endpoints[i];
	hmem_complain("a call on an endpoint that was never opened, or is closed");
	abort();
}

/* --- checks -------------------------------------------------------------------------------------- */

static int refuse(const char *why, const void *buf, size_t bytes)
{
	HMEM_COUNT(refused_transfers, 1);
	hmem_complain("transfer of %zu bytes at %p: %s", bytes, buf, why);
	return -FI_EINVAL;
}

/* Checks one range and puts shm's descriptor in *inner. */
static int check(const void *buf, size_t bytes, void *desc, void **inner)
{
	struct hmem_mr *mr = desc;

	*inner = NULL;
	if (!mr)
		return hmem_range_touches_device((uintptr_t)buf, bytes)
			       ? refuse("device memory without a descriptor", buf, bytes)
			       : 0;
	if (mr->magic != HMEM_MR_MAGIC)
		return refuse("not a descriptor, or one of a closed registration", buf, bytes);
	if ((uintptr_t)buf < mr->base || (uintptr_t)buf + bytes > mr->base + mr->bytes)
		return refuse("outside of what its descriptor was registered for", buf, bytes);
	if (mr->device && !hmem_range_is_device((uintptr_t)buf, bytes ? bytes : 1))
		return refuse("the device memory that was registered is no longer there", buf,
			      bytes);
	if (mr->device) {
		HMEM_COUNT(device_transfers, 1);
		HMEM_COUNT(device_bytes, bytes);
	}
	*inner = mr->inner->mem_desc;
	return 0;
}

static int check_all(const struct iovec *iov, void **desc, size_t count, void **inner)
{
	int ret = count > RANGES ? -FI_EINVAL : 0;

	for (size_t i = 0; i < count && !ret; i++)
		ret = check(iov[i].iov_base, iov[i].iov_len, desc ? desc[i] : NULL, &inner[i]);
	return ret;
}

/* --- transfers ------------------------------------------------------------------------------------ */

/* ONE(table, operation, parameters before desc and after, arguments): a single buffer. */
#define ONE(table, operation, parameters, arguments)                                               \
	static ssize_t table##_##operation parameters                                              \
	{                                                                                          \
		void *inner;                                                                       \
		int ret = check(buf, len, desc, &inner);                                           \
                                                                                                   \
		return ret ? ret : endpoint_of(ep)->table##_before->operation arguments;           \
	}
/* MANY: a vector with descriptors. */
#define MANY(table, operation, parameters, arguments)                                              \
	static ssize_t table##_##operation parameters                                              \
	{                                                                                          \
		void *inner[RANGES];                                                               \
		int ret = check_all(iov, desc, count, inner);                                      \
                                                                                                   \
		return ret ? ret : endpoint_of(ep)->table##_before->operation arguments;           \
	}
/* MESSAGE: a struct that holds the vector. */
#define MESSAGE(table, operation, type)                                                            \
	static ssize_t table##_##operation(struct fid_ep *ep, const struct type *msg,              \
					   uint64_t flags)                                         \
	{                                                                                          \
		void *inner[RANGES];                                                               \
		struct type own = *msg;                                                            \
		int ret = check_all(msg->msg_iov, msg->desc, msg->iov_count, inner);               \
                                                                                                   \
		own.desc = inner;                                                                  \
		return ret ? ret : endpoint_of(ep)->table##_before->operation(ep, &own, flags);    \
	}
/* INJECT: a buffer that is copied before the call returns. */
#define INJECT(table, operation, parameters, arguments)                                            \
	static ssize_t table##_##operation parameters                                              \
	{                                                                                          \
		if (hmem_range_touches_device((uintptr_t)buf, len))                                \
			return refuse("device memory without a descriptor", buf, len);             \
		return endpoint_of(ep)->table##_before->operation arguments;                       \
	}

ONE(msg, recv,
    (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t peer, void *context),
    (ep, buf, len, inner, peer, context))
MANY(msg, recvv,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,
      void *context),
     (ep, iov, inner, count, peer, context))
MESSAGE(msg, recvmsg, fi_msg)
ONE(msg, send,
    (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t peer, void *context),
    (ep, buf, len, inner, peer, context))
MANY(msg, sendv,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,
      void *context),
     (ep, iov, inner, count, peer, context))
MESSAGE(msg, sendmsg, fi_msg)
INJECT(msg, inject, (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t peer),
       (ep, buf, len, peer))
ONE(msg, senddata,
    (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t peer,
     void *context),
    (ep, buf, len, inner, data, peer, context))
INJECT(msg, injectdata,
       (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t peer),
       (ep, buf, len, data, peer))

ONE(tagged, recv,
    (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t peer, uint64_t tag,
     uint64_t ignore, void *context),
    (ep, buf, len, inner, peer, tag, ignore, context))
MANY(tagged, recvv,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,
      uint64_t tag, uint64_t ignore, void *context),
     (ep, iov, inner, count, peer, tag, ignore, context))
MESSAGE(tagged, recvmsg, fi_msg_tagged)
ONE(tagged, send,
    (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t peer, uint64_t tag,
     void *context),
    (ep, buf, len, inner, peer, tag, context))
MANY(tagged, sendv,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,
      uint64_t tag, void *context),
     (ep, iov, inner, count, peer, tag, context))
MESSAGE(tagged, sendmsg, fi_msg_tagged)
INJECT(tagged, inject,
       (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t peer, uint64_t tag),
       (ep, buf, len, peer, tag))
ONE(tagged, senddata,
    (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t peer,
     uint64_t tag, void *context),
    (ep, buf, len, inner, data, peer, tag, context))
INJECT(tagged, injectdata,
       (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t peer,
	uint64_t tag),
       (ep, buf, len, data, peer, tag))

ONE(rma, read,
    (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t peer, uint64_t addr,
     uint64_t key, void *context),
    (ep, buf, len, inner, peer, addr, key, context))
MANY(rma, readv,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,
      uint64_t addr, uint64_t key, void *context),
     (ep, iov, inner, count, peer, addr, key, context))
MESSAGE(rma, readmsg, fi_msg_rma)
ONE(rma, write,
    (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t peer, uint64_t addr,
     uint64_t key, void *context),
    (ep, buf, len, inner, peer, addr, key, context))
MANY(rma, writev,
     (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,
      uint64_t addr, uint64_t key, void *context),
     (ep, iov, inner, count, peer, addr, key, context))
MESSAGE(rma, writemsg, fi_msg_rma)
INJECT(rma, inject,
       (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t peer, uint64_t addr,
	uint64_t key),
       (ep, buf, len, peer, addr, key))
ONE(rma, writedata,
    (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t peer,
     uint64_t addr, uint64_t key, void *context),
    (ep, buf, len, inner, data, peer, addr, key, context))
INJECT(rma, injectdata,
       (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t peer,
	uint64_t addr, uint64_t key),
       (ep, buf, len, data, peer, addr, key))

/* --- the endpoint --------------------------------------------------------------------------------- */

/* The ladder of nccl plugins: an endpoint that may not call CUDA is one that goes directly. */
enum { OPT_FI_HMEM_P2P = 8, OPT_CUDA_API_PERMITTED = 10 };

static int ep_setopt(struct fid *fid, int level, int option, const void *value, size_t bytes)
{
	if (level == FI_OPT_ENDPOINT &&
	    (option == OPT_FI_HMEM_P2P || option == OPT_CUDA_API_PERMITTED))
		return 0;
	return endpoint_of(fid)->ops_before->setopt(fid, level, option, value, bytes);
}

/* shm puts other tables in, and compares them, in control calls: it has its own while they run. */
static void tables_before(struct endpoint *e)
{
	e->ep->fid.ops = e->fid_before;
	e->ep->ops = e->ops_before;
	e->ep->msg = e->msg_before;
	e->ep->tagged = e->tagged_before;
	e->ep->rma = e->rma_before;
}

/* Copies what shm has there now. The copies of before live on: calls may be in them. */
static int tables_wrap(struct endpoint *e)
{
	struct fid_ep *ep = e->ep;

	e->fid_before = ep->fid.ops;
	e->ops_before = ep->ops;
	e->msg_before = ep->msg;
	e->tagged_before = ep->tagged;
	e->rma_before = ep->rma;
#define SET(table, operation) e->table->operation = table##_##operation
	if (e->msg) {
		SET(msg, recv), SET(msg, recvv), SET(msg, recvmsg);
		SET(msg, send), SET(msg, sendv), SET(msg, sendmsg);
		SET(msg, inject), SET(msg, senddata), SET(msg, injectdata);
		ep->msg = e->msg;
	}
	if (e->tagged) {
		SET(tagged, recv), SET(tagged, recvv), SET(tagged, recvmsg);
		SET(tagged, send), SET(tagged, sendv), SET(tagged, sendmsg);
		SET(tagged, inject), SET(tagged, senddata), SET(tagged, injectdata);
		ep->tagged = e->tagged;
	}
	if (e->rma) {
		SET(rma, read), SET(rma, readv), SET(rma, readmsg);
		SET(rma, write), SET(rma, writev), SET(rma, writemsg);
		SET(rma, inject), SET(rma, writedata), SET(rma, injectdata);
		ep->rma = e->rma;
	}
#undef SET
	ep->fid.ops = e->fid;
	ep->ops = e->ops;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	struct endpoint *e = endpoint_of(fid);
	int ret;

	tables_before(e);
	ret = fid->ops->bind(fid, bound, flags);
	(void)tables_wrap(e);
	return ret;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct endpoint *e = endpoint_of(fid);
	int ret;

	tables_before(e);
	ret = fid->ops->control(fid, command, arg);
	(void)tables_wrap(e);
	return ret;
}

static int ep_close(struct fid *fid)
{
	struct endpoint *e = endpoint_of(fid);
	int ret;

	tables_before(e);
	ret = fid->ops->close(fid);
	if (ret) {
		(void)tables_wrap(e);
		return ret;
	}
	free(e->fid);
	free(e->ops);
	free(e->msg);
	free(e->tagged);
	free(e->rma);
	__atomic_store_n(&e->ep, NULL, __ATOMIC_RELEASE);
	return 0;
}

int hmem_endpoint_wrap(struct fid_ep *ep)
{
	struct endpoint *e = NULL;

	for (unsigned i = 0; i < ENDPOINTS && !e; i++) {
		struct fid_ep *expected = NULL;

		if (__atomic_compare_exchange_n(&endpoints[i].ep, &expected, ep, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			e = &endpoints[i];
	}
	if (!e)
		return -FI_ENOMEM;
	e->fid = mock_table_copy(ep->fid.ops);
	e->ops = mock_table_copy(ep->ops);
	e->msg = mock_table_copy(ep->msg);
	e->tagged = mock_table_copy(ep->tagged);
	e->rma = mock_table_copy(ep->rma);
	if (!e->fid || !e->ops)
		return -FI_ENOMEM;
	e->fid->close = ep_close;
	e->fid->bind = ep_bind;
	e->fid->control = ep_control;
	e->ops->setopt = ep_setopt;
	return tables_wrap(e);
}
