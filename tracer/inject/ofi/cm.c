/* SPDX-License-Identifier: Apache-2.0
 *
 * Connection management and names: set-up, whose cost is a job's start-up time.
 */
#include "tracer/inject/ofi/ofi.h"

/*
 * CONTROL(hook, object, operation, api, value, parameters, arguments, after): a call during which a
 * provider may change the object's tables. `after` runs when the call has succeeded and is recorded.
 */
#define CONTROL(hook, object, operation, api_, value, parameters, arguments, after)                \
	static int hook parameters                                                                 \
	{                                                                                          \
		struct fi_ops_cm *real = OFI_REAL(object->cm);                                     \
		enum ofi_how how = OFI_ENTER_SETUP();                                              \
		uint64_t begin;                                                                    \
		int ret;                                                                           \
                                                                                                   \
		ofi_unhook(&object->fid);                                                          \
		begin = spool_now();                                                               \
		ret = real->operation arguments;                                                   \
		ofi_rehook(&object->fid);                                                          \
		if (!how)                                                                          \
			return ret;                                                                \
		ofi_leave(how);                                                                    \
		ofi_control_record(object, OFI_NAME(api_), 0, (uint64_t)(value), begin, ret, how); \
		if (ret == 0) {                                                                    \
			after;                                                                     \
		}                                                                                  \
		return ret;                                                                        \
	}

CONTROL(hook_connect, ep, connect, "fi_connect", 0,
	(struct fid_ep * ep, const void *addr, const void *param, size_t bytes),
	(ep, addr, param, bytes), )
CONTROL(hook_accept, ep, accept, "fi_accept", 0,
	(struct fid_ep * ep, const void *param, size_t bytes), (ep, param, bytes), )
CONTROL(hook_reject, pep, reject, "fi_reject", 0,
	(struct fid_pep * pep, fid_t handle, const void *param, size_t bytes),
	(pep, handle, param, bytes), )
CONTROL(hook_shutdown, ep, shutdown, "fi_shutdown", flags, (struct fid_ep * ep, uint64_t flags),
	(ep, flags), )
CONTROL(hook_listen, pep, listen, "fi_listen", 0, (struct fid_pep * pep), (pep), )
CONTROL(hook_join, ep, join, "fi_join", flags,
	(struct fid_ep * ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context),
	(ep, addr, flags, mc, context), ofi_adopt(&(*mc)->fid, WL_ofi_kind_mc, 0))

/* --- names ------------------------------------------------------------------------------------ */

/* Endpoints, passive ones too, have their table of these at the same place. */
static struct fi_ops_cm *real_cm(struct fid *fid)
{
	return fid->fclass == FI_CLASS_PEP ? OFI_REAL(((struct fid_pep *)fid)->cm)
					   : OFI_REAL(((struct fid_ep *)fid)->cm);
}

static void name_record(const struct fid *fid, uint32_t api, const void *addr, size_t bytes,
			uint64_t begin, int ret, enum ofi_how how)
{
	const struct ofi_object *object = ofi_find(fid);
	uint64_t end = spool_now();

	SPOOL_EMIT(ofi_control, begin, end, ofi_flags(how), .object = (uintptr_t)fid, .api = api,
		   .detail = ret == 0 && object ? ofi_address_name(object->addr_format, addr, bytes)
						: 0,
		   .status = ret, .kind = object ? object->kind : WL_ofi_kind_other);
}

/* The size as it was given: what does not fit in it was not written, though the call may succeed. */
static size_t least(size_t given, const size_t *wanted)
{
	return *wanted < given ? *wanted : given;
}

static int hook_getname(fid_t fid, void *addr, size_t *bytes)
{
	struct fi_ops_cm *real = real_cm(fid);
	size_t given = addr && bytes ? *bytes : 0;
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->getname(fid, addr, bytes);

	if (!how)
		return ret;
	ofi_leave(how);
	name_record(fid, OFI_NAME("fi_getname"), addr, given ? least(given, bytes) : 0, begin, ret,
		    how);
	return ret;
}

static int hook_getpeer(struct fid_ep *ep, void *addr, size_t *bytes)
{
	struct fi_ops_cm *real = OFI_REAL(ep->cm);
	size_t given = addr && bytes ? *bytes : 0;
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->getpeer(ep, addr, bytes);

	if (!how)
		return ret;
	ofi_leave(how);
	name_record(&ep->fid, OFI_NAME("fi_getpeer"), addr, given ? least(given, bytes) : 0, begin,
		    ret, how);
	return ret;
}

static int hook_setname(fid_t fid, void *addr, size_t bytes)
{
	struct fi_ops_cm *real = real_cm(fid);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->setname(fid, addr, bytes);

	if (!how)
		return ret;
	ofi_leave(how);
	name_record(fid, OFI_NAME("fi_setname"), addr, bytes, begin, ret, how);
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops_cm, connect, hook_connect), OFI_SLOT(fi_ops_cm, listen, hook_listen),
	OFI_SLOT(fi_ops_cm, accept, hook_accept),   OFI_SLOT(fi_ops_cm, reject, hook_reject),
	OFI_SLOT(fi_ops_cm, join, hook_join),       OFI_SLOT(fi_ops_cm, shutdown, hook_shutdown),
	OFI_SLOT(fi_ops_cm, getname, hook_getname), OFI_SLOT(fi_ops_cm, getpeer, hook_getpeer),
	OFI_SLOT(fi_ops_cm, setname, hook_setname),
};
const struct ofi_slots ofi_cm_slots = OFI_SLOTS(slots);
