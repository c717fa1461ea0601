/* SPDX-License-Identifier: Apache-2.0
 *
 * Event queues: what connections and address vectors have to say. Polls that find nothing are not
 * recorded; a wait is.
 */
#include "tracer/inject/ofi/ofi.h"

static uint32_t event_name(uint32_t event)
{
	switch (event) {
	case FI_CONNREQ:
		return OFI_NAME("FI_CONNREQ");
	case FI_CONNECTED:
		return OFI_NAME("FI_CONNECTED");
	case FI_SHUTDOWN:
		return OFI_NAME("FI_SHUTDOWN");
	case FI_MR_COMPLETE:
		return OFI_NAME("FI_MR_COMPLETE");
	case FI_AV_COMPLETE:
		return OFI_NAME("FI_AV_COMPLETE");
	case FI_JOIN_COMPLETE:
		return OFI_NAME("FI_JOIN_COMPLETE");
	default:
		return 0;
	}
}

/* value: the object that the event is about. */
static void event_record(const struct fid_eq *eq, uint32_t api, uint32_t event, const void *buf,
			 size_t bytes, int status, enum ofi_how how)
{
	uint64_t now = spool_now();

	SPOOL_EMIT(ofi_control, now, now, ofi_flags(how), .object = (uintptr_t)eq, .arg = event,
		   .value = buf && bytes >= sizeof(struct fid *)
				    ? (uintptr_t)((const struct fi_eq_entry *)buf)->fid
				    : 0,
		   .api = api, .detail = event_name(event), .status = status,
		   .kind = WL_ofi_kind_eq);
}

static ssize_t hook_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct fi_ops_eq *real = OFI_REAL(eq->ops);
	enum ofi_how how = OFI_ENTER();
	ssize_t ret;

	if (!how)
		return real->read(eq, event, buf, len, flags);
	ret = real->read(eq, event, buf, len, flags);
	ofi_leave(how);
	if (ret > 0 && event && !(flags & FI_PEEK))
		event_record(eq, OFI_NAME("fi_eq_read"), *event, buf, (size_t)ret, 0, how);
	return ret;
}

static ssize_t hook_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct fi_ops_eq *real = OFI_REAL(eq->ops);
	enum ofi_how how = OFI_ENTER();
	ssize_t ret;

	if (!how)
		return real->readerr(eq, buf, flags);
	ret = real->readerr(eq, buf, flags);
	ofi_leave(how);
	if (ret > 0 && buf)
		event_record(eq, OFI_NAME("fi_eq_readerr"), 0, buf, sizeof(*buf), -buf->err, how);
	return ret;
}

static ssize_t hook_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
			  uint64_t flags)
{
	struct fi_ops_eq *real = OFI_REAL(eq->ops);
	enum ofi_how how = OFI_ENTER();
	struct ofi_blocked blocked;
	ssize_t ret;

	if (!how)
		return real->sread(eq, event, buf, len, timeout, flags);
	blocked = ofi_block_begin(eq, OFI_NAME("fi_eq_sread"), how);
	ret = real->sread(eq, event, buf, len, timeout, flags);
	ofi_leave(how);
	ofi_block_end(&blocked, eq, timeout, ret, how);
	if (ret > 0 && event && !(flags & FI_PEEK))
		event_record(eq, OFI_NAME("fi_eq_sread"), *event, buf, (size_t)ret, 0, how);
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops_eq, read, hook_read),
	OFI_SLOT(fi_ops_eq, readerr, hook_readerr),
	OFI_SLOT(fi_ops_eq, sread, hook_sread),
};
const struct ofi_slots ofi_eq_slots = OFI_SLOTS(slots);
