/* SPDX-License-Identifier: Apache-2.0
 *
 * Endpoint options and contexts, connection management, event queues, address vectors: set-up,
 * whose cost is a job's start-up time.
 */
#include "tracer/inject/ofi/ofi.h"

static uint8_t kind_of(const void *fid)
{
	const struct ofi_object *object = ofi_find(fid);

	return object ? object->kind : WL_ofi_kind_other;
}

static void control_record(const void *object, uint32_t api, uint64_t arg, uint64_t value,
			   uint64_t begin, ssize_t ret)
{
	SPOOL_EMIT(ofi_control, begin, spool_now(), 0, .object = (uintptr_t)object, .arg = arg,
		   .value = value, .api = api, .status = (int32_t)(ret < 0 ? ret : 0),
		   .kind = kind_of(object));
}

/*
 * CONTROL(hook, object type, table member, operation, api, arg, value, parameters, arguments): a
 * call during which a provider may change the object's tables.
 */
#define CONTROL(hook, return_type, object, ops, operation, api_, arg, value, parameters,           \
		arguments)                                                                         \
	static return_type hook parameters                                                         \
	{                                                                                          \
		__typeof__(object->ops) real = OFI_REAL(object->ops);                              \
		bool record = OFI_ENTER_SETUP();                                                   \
		uint64_t begin;                                                                    \
		return_type ret;                                                                   \
                                                                                                   \
		ofi_unhook(&object->fid);                                                          \
		begin = spool_now();                                                               \
		ret = real->operation arguments;                                                   \
		ofi_rehook(&object->fid);                                                          \
		if (record) {                                                                      \
			ofi_leave();                                                               \
			control_record(object, OFI_NAME(api_), (uint64_t)(arg), (uint64_t)(value), \
				       begin, ret);                                                \
		}                                                                                  \
		return ret;                                                                        \
	}

/* --- endpoints -------------------------------------------------------------------------------- */

/* setopt, getopt and cancel are called with a fid; endpoints of every class begin alike. */
static struct fi_ops_ep *real_ep_ops(struct fid *fid)
{
	return OFI_REAL(((struct fid_ep *)fid)->ops);
}

static int hook_setopt(struct fid *fid, int level, int option, const void *value, size_t bytes)
{
	struct fi_ops_ep *real = real_ep_ops(fid);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin, shown = 0;
	int ret;

	ofi_unhook(fid);
	begin = spool_now();
	ret = real->setopt(fid, level, option, value, bytes);
	ofi_rehook(fid);
	if (!record)
		return ret;
	ofi_leave();
	if (ret == 0 && value)
		memcpy(&shown, value, bytes < sizeof(shown) ? bytes : sizeof(shown));
	control_record(fid, OFI_NAME("fi_setopt"), (uint64_t)option, shown, begin, ret);
	return ret;
}

static ssize_t hook_cancel(struct fid *fid, void *context)
{
	struct fi_ops_ep *real = real_ep_ops(fid);
	bool record = OFI_ENTER();
	uint64_t begin = spool_now();
	ssize_t ret = real->cancel(fid, context);

	if (!record)
		return ret;
	ofi_leave();
	control_record(fid, OFI_NAME("fi_cancel"), 0, (uintptr_t)context, begin, ret);
	return ret;
}

static void context_adopt(struct fid_ep *parent, struct fid_ep **opened, enum wl_ofi_kind kind,
			  uint32_t api, uint64_t begin, int ret)
{
	if (ret == 0)
		ofi_adopt(&(*opened)->fid, kind, 0);
	SPOOL_EMIT(ofi_open, begin, spool_now(), 0, .object = ret == 0 ? (uintptr_t)*opened : 0,
		   .parent = (uintptr_t)parent, .api = api, .status = ret, .kind = (uint8_t)kind);
}

static int hook_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
		       struct fid_ep **tx_ep, void *context)
{
	struct fi_ops_ep *real = OFI_REAL(sep->ops);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->tx_ctx(sep, index, attr, tx_ep, context);

	if (!record)
		return ret;
	ofi_leave();
	context_adopt(sep, tx_ep, WL_ofi_kind_tx_ctx, OFI_NAME("fi_tx_context"), begin, ret);
	return ret;
}

static int hook_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
		       struct fid_ep **rx_ep, void *context)
{
	struct fi_ops_ep *real = OFI_REAL(sep->ops);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->rx_ctx(sep, index, attr, rx_ep, context);

	if (!record)
		return ret;
	ofi_leave();
	context_adopt(sep, rx_ep, WL_ofi_kind_rx_ctx, OFI_NAME("fi_rx_context"), begin, ret);
	return ret;
}

static const struct ofi_slot ep_slots[] = {
	OFI_SLOT(fi_ops_ep, cancel, hook_cancel),
	OFI_SLOT(fi_ops_ep, setopt, hook_setopt),
	OFI_SLOT(fi_ops_ep, tx_ctx, hook_tx_ctx),
	OFI_SLOT(fi_ops_ep, rx_ctx, hook_rx_ctx),
};
const struct ofi_slots ofi_ep_slots = OFI_SLOTS(ep_slots);

/* --- connection management -------------------------------------------------------------------- */

CONTROL(hook_connect, int, ep, cm, connect, "fi_connect", 0, 0,
	(struct fid_ep * ep, const void *addr, const void *param, size_t bytes),
	(ep, addr, param, bytes))
CONTROL(hook_accept, int, ep, cm, accept, "fi_accept", 0, 0,
	(struct fid_ep * ep, const void *param, size_t bytes), (ep, param, bytes))
CONTROL(hook_shutdown, int, ep, cm, shutdown, "fi_shutdown", 0, flags,
	(struct fid_ep * ep, uint64_t flags), (ep, flags))
CONTROL(hook_listen, int, pep, cm, listen, "fi_listen", 0, 0, (struct fid_pep * pep), (pep))
CONTROL(hook_join, int, ep, cm, join, "fi_join", 0, flags,
	(struct fid_ep * ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context),
	(ep, addr, flags, mc, context))

static const struct ofi_slot cm_slots[] = {
	OFI_SLOT(fi_ops_cm, connect, hook_connect), OFI_SLOT(fi_ops_cm, listen, hook_listen),
	OFI_SLOT(fi_ops_cm, accept, hook_accept),   OFI_SLOT(fi_ops_cm, shutdown, hook_shutdown),
	OFI_SLOT(fi_ops_cm, join, hook_join),
};
const struct ofi_slots ofi_cm_slots = OFI_SLOTS(cm_slots);

/* --- event queues ----------------------------------------------------------------------------- */

static ssize_t hook_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
			     uint64_t flags)
{
	struct fi_ops_eq *real = OFI_REAL(eq->ops);
	uint64_t begin;
	uint32_t api, stack;
	ssize_t ret;

	if (!OFI_ENTER())
		return real->sread(eq, event, buf, len, timeout, flags);
	api = OFI_NAME("fi_eq_sread");
	stack = wl_stack(WL_STACK_FOR_SYNC);
	begin = spool_now();
	spool_enter(WL_EV_ofi_wait, api, begin, stack, (uintptr_t)eq);
	ret = real->sread(eq, event, buf, len, timeout, flags);
	spool_leave();
	ofi_leave();
	SPOOL_EMIT(ofi_wait, begin, spool_now(), 0, .object = (uintptr_t)eq, .stack = stack,
		   .api = api, .timeout_ms = timeout, .status = ret < 0 ? (int32_t)ret : 0);
	return ret;
}

static const struct ofi_slot eq_slots[] = {OFI_SLOT(fi_ops_eq, sread, hook_eq_sread)};
const struct ofi_slots ofi_eq_slots = OFI_SLOTS(eq_slots);

/* --- address vectors -------------------------------------------------------------------------- */

static void av_record(const struct fid_av *av, uint32_t api, const fi_addr_t *addr, size_t count,
		      uint64_t begin, int ret)
{
	SPOOL_EMIT(ofi_av, begin, spool_now(), 0, .av = (uintptr_t)av,
		   .addr = ret >= 0 && addr && count ? *addr : FI_ADDR_UNSPEC, .count = count,
		   .api = api, .status = ret < 0 ? ret : 0);
}

static int hook_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
			  uint64_t flags, void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->insert(av, addr, count, fi_addr, flags, context);

	if (!record)
		return ret;
	ofi_leave();
	av_record(av, OFI_NAME("fi_av_insert"), fi_addr, count, begin, ret);
	return ret;
}

static int hook_av_insertsvc(struct fid_av *av, const char *node, const char *service,
			     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->insertsvc(av, node, service, fi_addr, flags, context);

	if (!record)
		return ret;
	ofi_leave();
	av_record(av, OFI_NAME("fi_av_insertsvc"), fi_addr, 1, begin, ret);
	return ret;
}

static int hook_av_insertsym(struct fid_av *av, const char *node, size_t nodes, const char *service,
			     size_t services, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->insertsym(av, node, nodes, service, services, fi_addr, flags, context);

	if (!record)
		return ret;
	ofi_leave();
	av_record(av, OFI_NAME("fi_av_insertsym"), fi_addr, nodes * services, begin, ret);
	return ret;
}

static int hook_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	bool record = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->remove(av, fi_addr, count, flags);

	if (!record)
		return ret;
	ofi_leave();
	av_record(av, OFI_NAME("fi_av_remove"), fi_addr, count, begin, ret);
	return ret;
}

static const struct ofi_slot av_slots[] = {
	OFI_SLOT(fi_ops_av, insert, hook_av_insert),
	OFI_SLOT(fi_ops_av, insertsvc, hook_av_insertsvc),
	OFI_SLOT(fi_ops_av, insertsym, hook_av_insertsym),
	OFI_SLOT(fi_ops_av, remove, hook_av_remove),
};
const struct ofi_slots ofi_av_slots = OFI_SLOTS(av_slots);
