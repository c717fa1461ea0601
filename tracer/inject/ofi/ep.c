/* SPDX-License-Identifier: Apache-2.0
 *
 * Endpoint options, cancelling, and contexts of scalable endpoints.
 */
#include "tracer/inject/ofi/ofi.h"

/* setopt, getopt and cancel are called with a fid; endpoints of every class begin alike. */
static struct fi_ops_ep *real_ep_ops(struct fid *fid)
{
	return OFI_REAL(((struct fid_ep *)fid)->ops);
}

/* What an option was set to, as far as it fits a number. Only after success. */
static uint64_t option_value(const void *value, size_t bytes)
{
	uint64_t shown = 0;

	if (value)
		memcpy(&shown, value, bytes < sizeof(shown) ? bytes : sizeof(shown));
	return shown;
}

static int hook_setopt(struct fid *fid, int level, int option, const void *value, size_t bytes)
{
	struct fi_ops_ep *real = real_ep_ops(fid);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin;
	int ret;

	ofi_unhook(fid);
	begin = spool_now();
	ret = real->setopt(fid, level, option, value, bytes);
	ofi_rehook(fid);
	if (!how)
		return ret;
	ofi_leave(how);
	ofi_control_record(fid, OFI_NAME("fi_setopt"), (uint64_t)option,
			   ret == 0 ? option_value(value, bytes) : 0, begin, ret, how);
	return ret;
}

static int hook_getopt(struct fid *fid, int level, int option, void *value, size_t *bytes)
{
	struct fi_ops_ep *real = real_ep_ops(fid);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->getopt(fid, level, option, value, bytes);

	if (!how)
		return ret;
	ofi_leave(how);
	ofi_control_record(fid, OFI_NAME("fi_getopt"), (uint64_t)option,
			   ret == 0 && bytes ? option_value(value, *bytes) : 0, begin, ret, how);
	return ret;
}

static ssize_t hook_cancel(struct fid *fid, void *context)
{
	struct fi_ops_ep *real = real_ep_ops(fid);
	enum ofi_how how = OFI_ENTER();
	uint64_t begin = spool_now();
	ssize_t ret = real->cancel(fid, context);

	if (!how)
		return ret;
	ofi_leave(how);
	ofi_control_record(fid, OFI_NAME("fi_cancel"), 0, (uintptr_t)context, begin, ret, how);
	return ret;
}

static void context_adopt(struct fid_ep *parent, struct fid_ep **opened, enum wl_ofi_kind kind,
			  uint32_t api, uint64_t begin, int ret, enum ofi_how how)
{
	if (ret == 0)
		ofi_adopt(&(*opened)->fid, kind, 0);
	SPOOL_EMIT(ofi_open, begin, spool_now(), ofi_flags(how),
		   .object = ret == 0 ? (uintptr_t)*opened : 0, .parent = (uintptr_t)parent,
		   .api = api, .status = ret, .kind = (uint8_t)kind);
}

static int hook_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
		       struct fid_ep **tx_ep, void *context)
{
	struct fi_ops_ep *real = OFI_REAL(sep->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->tx_ctx(sep, index, attr, tx_ep, context);

	if (!how)
		return ret;
	ofi_leave(how);
	context_adopt(sep, tx_ep, WL_ofi_kind_tx_ctx, OFI_NAME("fi_tx_context"), begin, ret, how);
	return ret;
}

static int hook_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
		       struct fid_ep **rx_ep, void *context)
{
	struct fi_ops_ep *real = OFI_REAL(sep->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->rx_ctx(sep, index, attr, rx_ep, context);

	if (!how)
		return ret;
	ofi_leave(how);
	context_adopt(sep, rx_ep, WL_ofi_kind_rx_ctx, OFI_NAME("fi_rx_context"), begin, ret, how);
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops_ep, cancel, hook_cancel), OFI_SLOT(fi_ops_ep, getopt, hook_getopt),
	OFI_SLOT(fi_ops_ep, setopt, hook_setopt), OFI_SLOT(fi_ops_ep, tx_ctx, hook_tx_ctx),
	OFI_SLOT(fi_ops_ep, rx_ctx, hook_rx_ctx),
};
const struct ofi_slots ofi_ep_slots = OFI_SLOTS(slots);
