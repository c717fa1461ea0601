/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations every object has: close, bind, control, and opening extension operations. Providers
 * rewrite and free tables in them, so the originals are in place while they run.
 */
#include "tracer/inject/ofi/ofi.h"

static enum wl_ofi_kind kind_of(const struct fid *fid)
{
	const struct ofi_object *object = ofi_find(fid);

	return object ? (enum wl_ofi_kind)object->kind : WL_ofi_kind_other;
}

void ofi_control_record(const void *object, uint32_t api, uint64_t arg, uint64_t value,
			uint64_t begin, ssize_t ret, enum ofi_how how)
{
	SPOOL_EMIT(ofi_control, begin, spool_now(), ofi_flags(how), .object = (uintptr_t)object,
		   .arg = arg, .value = value, .api = api, .status = (int32_t)(ret < 0 ? ret : 0),
		   .kind = (uint8_t)kind_of(object));
}

static void close_record(const struct fid *fid, const struct ofi_object *was, uint64_t begin,
			 int ret, enum ofi_how how)
{
	uint64_t end = spool_now();

	if (was->kind == WL_ofi_kind_mr)
		SPOOL_EMIT(ofi_mr_close, begin, end, ofi_flags(how), .mr = (uintptr_t)fid,
			   .addr = was->address, .bytes = was->bytes, .api = OFI_NAME("fi_close"),
			   .status = ret);
	else
		SPOOL_EMIT(ofi_close, begin, end, ofi_flags(how), .object = (uintptr_t)fid,
			   .api = OFI_NAME("fi_close"), .status = ret, .kind = was->kind);
}

/* Everything but whose it is. */
static void object_copy(struct ofi_object *to, const struct ofi_object *from)
{
	to->kind = from->kind;
	to->format = from->format;
	to->iface = from->iface;
	to->hmem = from->hmem;
	to->api_version = from->api_version;
	to->addr_format = from->addr_format;
	to->address = from->address;
	to->bytes = from->bytes;
}

static int hook_close(struct fid *fid)
{
	struct fi_ops *real = OFI_REAL(fid->ops);
	struct ofi_object *object = ofi_find(fid);
	struct ofi_object was = {0};
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin;
	int ret;

	if (object)
		object_copy(&was, object);
	if (was.kind == WL_ofi_kind_cq || was.kind == WL_ofi_kind_cntr)
		ofi_poll_flush(fid);
	ofi_unhook(fid);
	/* Forgotten before the call: the moment it returns, another thread may get the same
	 * address. */
	ofi_forget(fid);
	begin = spool_now();
	ret = real->close(fid);
	if (ret != 0 && object) {
		struct ofi_object *again = ofi_adopt(fid, (enum wl_ofi_kind)was.kind, was.format);

		if (again)
			object_copy(again, &was);
	}
	if (!how)
		return ret;
	ofi_leave(how);
	close_record(fid, &was, begin, ret, how);
	return ret;
}

static void bind_record(const struct fid *fid, const struct fid *bound, uint64_t flags,
			uint64_t begin, int ret, enum ofi_how how)
{
	uint64_t end = spool_now();

	if (kind_of(fid) == WL_ofi_kind_mr)
		SPOOL_EMIT(ofi_mr_control, begin, end, ofi_flags(how), .mr = (uintptr_t)fid,
			   .object = (uintptr_t)bound, .flags = flags,
			   .api = OFI_NAME("fi_mr_bind"), .status = ret);
	else
		SPOOL_EMIT(ofi_bind, begin, end, ofi_flags(how), .object = (uintptr_t)fid,
			   .bound = (uintptr_t)bound, .flags = flags, .api = OFI_NAME("fi_bind"),
			   .status = ret, .kind = (uint8_t)kind_of(fid),
			   .bound_kind = (uint8_t)kind_of(bound));
}

/* A queue or counter made by an extension operation is met here for the first time. One that is not ours (a
 * layer's, without --ofi-layers) stays so. */
static void queue_bound(const struct fid *fid, struct fid *bound, enum ofi_how how)
{
	bool is_cq = bound->fclass == FI_CLASS_CQ;

	if (!is_cq && bound->fclass != FI_CLASS_CNTR) {
		if (ofi_find(bound))
			ofi_rehook(bound);
		return;
	}
	if (!ofi_find(bound)) {
		if (!how)
			return;
		ofi_adopt(bound, is_cq ? WL_ofi_kind_cq : WL_ofi_kind_cntr,
			  is_cq ? FI_CQ_FORMAT_UNSPEC : 0);
	}
	if (kind_of(fid) != WL_ofi_kind_mr)
		ofi_bound(fid, bound);
}

static int hook_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	struct fi_ops *real = OFI_REAL(fid->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin;
	int ret;

	ofi_unhook(fid);
	begin = spool_now();
	ret = real->bind(fid, bound, flags);
	ofi_rehook(fid);
	if (ret == 0)
		queue_bound(fid, bound, how);
	ofi_rehook_queues(fid);
	if (!how)
		return ret;
	ofi_leave(how);
	bind_record(fid, bound, flags, begin, ret, how);
	return ret;
}

static uint32_t control_name(int command, enum wl_ofi_kind kind)
{
	switch (command) {
	case FI_ENABLE:
		return kind == WL_ofi_kind_mr ? OFI_NAME("fi_mr_enable") : OFI_NAME("fi_enable");
	case FI_ALIAS:
		return OFI_NAME("fi_ep_alias");
	case FI_REFRESH:
		return OFI_NAME("fi_mr_refresh");
	case FI_QUEUE_WORK:
		return OFI_NAME("fi_control(FI_QUEUE_WORK)");
	case FI_CANCEL_WORK:
		return OFI_NAME("fi_control(FI_CANCEL_WORK)");
	case FI_FLUSH_WORK:
		return OFI_NAME("fi_control(FI_FLUSH_WORK)");
	default:
		return OFI_NAME("fi_control");
	}
}

static void control_record(const struct fid *fid, int command, uint64_t begin, int ret,
			   enum ofi_how how)
{
	enum wl_ofi_kind kind = kind_of(fid);
	uint64_t end = spool_now();

	if (kind == WL_ofi_kind_mr)
		SPOOL_EMIT(ofi_mr_control, begin, end, ofi_flags(how), .mr = (uintptr_t)fid,
			   .key = ret == 0 ? ((const struct fid_mr *)fid)->key : 0,
			   .api = control_name(command, kind), .status = ret);
	else
		SPOOL_EMIT(ofi_control, begin, end, ofi_flags(how), .object = (uintptr_t)fid,
			   .arg = (uint64_t)command, .api = control_name(command, kind),
			   .status = ret, .kind = (uint8_t)kind);
}

static int hook_control(struct fid *fid, int command, void *arg)
{
	struct fi_ops *real = OFI_REAL(fid->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin;
	int ret;

	ofi_unhook(fid);
	begin = spool_now();
	ret = real->control(fid, command, arg);
	ofi_rehook(fid);
	if (command == FI_ENABLE)
		ofi_rehook_queues(fid);
	if (!how)
		return ret;
	ofi_leave(how);
	if (ret == 0 && command == FI_ALIAS && arg) {
		const struct fi_alias *alias = arg;

		if (alias->fid && *alias->fid)
			ofi_adopt(*alias->fid, kind_of(fid), 0);
	}
	control_record(fid, command, begin, ret, how);
	return ret;
}

static int hook_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			 void *context)
{
	struct fi_ops *real = OFI_REAL(fid->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->ops_open(fid, name, flags, ops, context);

	if (!how)
		return ret;
	ofi_leave(how);
	/* Calls through such a table cannot be seen, so the trace says that there is one. */
	SPOOL_EMIT(ofi_control, begin, spool_now(), ofi_flags(how), .object = (uintptr_t)fid,
		   .value = flags, .api = OFI_NAME("fi_open_ops"),
		   .detail = ret == 0 && name ? spool_intern_string(name, strlen(name)) : 0,
		   .status = ret, .kind = (uint8_t)kind_of(fid));
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops, close, hook_close),
	OFI_SLOT(fi_ops, bind, hook_bind),
	OFI_SLOT(fi_ops, control, hook_control),
	OFI_SLOT(fi_ops, ops_open, hook_ops_open),
};
const struct ofi_slots ofi_fid_slots = OFI_SLOTS(slots);
