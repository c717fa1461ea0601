/* SPDX-License-Identifier: Apache-2.0
 *
 * Address vectors: what it costs to know one's peers, and who they are.
 */
#include "tracer/inject/ofi/ofi.h"

static void av_record(const struct fid_av *av, uint32_t api, const fi_addr_t *addr, size_t count,
		      uint32_t detail, uint64_t begin, uint64_t end, int ret, enum ofi_how how)
{
	SPOOL_EMIT(ofi_av, begin, end, ofi_flags(how), .av = (uintptr_t)av,
		   .addr = ret >= 0 && addr && count ? *addr : FI_ADDR_UNSPEC, .count = count,
		   .api = api, .detail = detail, .status = ret < 0 ? ret : 0);
}

static int hook_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
		       uint64_t flags, void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now(), end;
	int ret = real->insert(av, addr, count, fi_addr, flags, context);
	const struct ofi_object *object;

	if (!how)
		return ret;
	ofi_leave(how);
	end = spool_now();
	object = ofi_find(av);
	av_record(av, OFI_NAME("fi_av_insert"), fi_addr, count,
		  ret > 0 && object ? ofi_address_names(object->addr_format, addr, count) : 0,
		  begin, end, ret, how);
	return ret;
}

static int hook_insertsvc(struct fid_av *av, const char *node, const char *service,
			  fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now(), end;
	int ret = real->insertsvc(av, node, service, fi_addr, flags, context);

	if (!how)
		return ret;
	ofi_leave(how);
	end = spool_now();
	av_record(av, OFI_NAME("fi_av_insertsvc"), fi_addr, 1,
		  ret > 0 ? ofi_service_name(node, service) : 0, begin, end, ret, how);
	return ret;
}

static int hook_insertsym(struct fid_av *av, const char *node, size_t nodes, const char *service,
			  size_t services, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now(), end;
	int ret = real->insertsym(av, node, nodes, service, services, fi_addr, flags, context);

	if (!how)
		return ret;
	ofi_leave(how);
	end = spool_now();
	av_record(av, OFI_NAME("fi_av_insertsym"), fi_addr, nodes * services,
		  ret > 0 ? ofi_service_name(node, service) : 0, begin, end, ret, how);
	return ret;
}

static int hook_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->remove(av, fi_addr, count, flags);

	if (!how)
		return ret;
	ofi_leave(how);
	av_record(av, OFI_NAME("fi_av_remove"), fi_addr, count, 0, begin, spool_now(), ret, how);
	return ret;
}

static int hook_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
		       void *context)
{
	struct fi_ops_av *real = OFI_REAL(av->ops);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->av_set(av, attr, set, context);

	if (!how)
		return ret;
	ofi_leave(how);
	if (ret == 0)
		ofi_adopt(&(*set)->fid, WL_ofi_kind_av_set, 0);
	SPOOL_EMIT(ofi_open, begin, spool_now(), ofi_flags(how),
		   .object = ret == 0 ? (uintptr_t)*set : 0, .parent = (uintptr_t)av,
		   .api = OFI_NAME("fi_av_set"), .status = ret, .kind = WL_ofi_kind_av_set);
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops_av, insert, hook_insert),
	OFI_SLOT(fi_ops_av, insertsvc, hook_insertsvc),
	OFI_SLOT(fi_ops_av, insertsym, hook_insertsym),
	OFI_SLOT(fi_ops_av, remove, hook_remove),
	OFI_SLOT(fi_ops_av, av_set, hook_av_set),
};
const struct ofi_slots ofi_av_slots = OFI_SLOTS(slots);
