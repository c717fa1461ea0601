/* SPDX-License-Identifier: Apache-2.0
 *
 * Fabric and domain operations: everything a job opens passes here and is adopted.
 */
#include "tracer/inject/ofi/ofi.h"

/* The operations of a patched table as the provider wrote them. */
#define PATCHED(ops) ((__typeof__(ops))ofi_patched(ops))

struct opened {
	const void *object, *parent;
	enum wl_ofi_kind kind;
	uint32_t api, name, detail;
	uint64_t caps, mode;
};

static void open_record(const struct opened *what, uint64_t begin, int ret, enum ofi_how how)
{
	SPOOL_EMIT(ofi_open, begin, spool_now(), ofi_flags(how),
		   .object = ret == 0 ? (uintptr_t)what->object : 0,
		   .parent = (uintptr_t)what->parent, .caps = what->caps, .mode = what->mode,
		   .api = what->api, .name = what->name, .detail = what->detail, .status = ret,
		   .kind = (uint8_t)what->kind);
}

/* A call on an object that was adopted: what it opens is to be adopted and recorded. */
static inline __attribute__((always_inline)) enum ofi_how enter_on(const void *parent,
								   const void *caller)
{
	struct ofi_object *object = ofi_find(parent);
	enum ofi_how how = object ? ofi_enter_setup(caller) : OFI_PASS;

	if (how &&
	    __builtin_expect(atomic_load_explicit(&object->unrecorded, memory_order_relaxed), 0))
		ofi_door_used(object, how);
	return how;
}
#define ENTER_ON(parent) enter_on((parent), __builtin_return_address(0))

/* --- fabric ----------------------------------------------------------------------------------- */

static uint32_t provider_name(const struct fi_info *info)
{
	const char *name = info && info->fabric_attr ? info->fabric_attr->prov_name : NULL;

	return name ? spool_intern_string(name, strlen(name)) : 0;
}

static void domain_adopt(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain *domain)
{
	const struct ofi_object *parent = ofi_find(fabric);
	struct ofi_object *object = ofi_adopt(&domain->fid, WL_ofi_kind_domain, 0);

	if (object) {
		object->api_version = parent ? parent->api_version : 0;
		object->hmem = info && (info->caps & FI_HMEM) != 0;
		object->addr_format = info ? info->addr_format : FI_FORMAT_UNSPEC;
	}
	ofi_table_patch(domain->ops, sizeof(*domain->ops), OFI_TABLE_DOMAIN);
}

static void domain_record(struct fid_fabric *fabric, struct fi_info *info,
			  struct fid_domain **domain, uint32_t api, uint64_t begin, int ret,
			  enum ofi_how how)
{
	struct opened what = {.parent = fabric, .kind = WL_ofi_kind_domain, .api = api};

	if (ret == 0) {
		domain_adopt(fabric, info, *domain);
		what.object = *domain;
		what.name = provider_name(info);
		what.caps = info ? info->caps : 0;
		what.mode = info && info->domain_attr ? (uint64_t)info->domain_attr->mr_mode : 0;
	}
	open_record(&what, begin, ret, how);
}

static int hook_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	struct fi_ops_fabric *real = PATCHED(fabric->ops);
	enum ofi_how how = ENTER_ON(fabric);
	uint64_t begin = spool_now();
	int ret = real->domain(fabric, info, domain, context);

	if (!how)
		return ret;
	ofi_leave(how);
	domain_record(fabric, info, domain, OFI_NAME("fi_domain"), begin, ret, how);
	return ret;
}

static int hook_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
			uint64_t flags, void *context)
{
	struct fi_ops_fabric *real = PATCHED(fabric->ops);
	enum ofi_how how = ENTER_ON(fabric);
	uint64_t begin = spool_now();
	int ret = real->domain2(fabric, info, domain, flags, context);

	if (!how)
		return ret;
	ofi_leave(how);
	domain_record(fabric, info, domain, OFI_NAME("fi_domain2"), begin, ret, how);
	return ret;
}

/* Addresses have the same form throughout a domain. */
static void adopt_under(const void *parent, struct fid *fid, enum wl_ofi_kind kind, uint8_t format)
{
	const struct ofi_object *above = ofi_find(parent);
	struct ofi_object *object = ofi_adopt(fid, kind, format);

	if (object && above)
		object->addr_format = above->addr_format;
}

/*
 * OPEN(hook, parent type, operation, result type, kind, format, api, parameters, arguments): an
 * operation that yields one object in *result. `format` is looked at only after success.
 */
#define OPEN(hook, ops_type, parent_, operation, result, kind_, format, api_, parameters,          \
	     arguments)                                                                            \
	static int hook parameters                                                                 \
	{                                                                                          \
		ops_type *real = PATCHED(parent_->ops);                                            \
		enum ofi_how how = ENTER_ON(parent_);                                              \
		uint64_t begin = spool_now();                                                      \
		int ret = real->operation arguments;                                               \
                                                                                                   \
		if (!how)                                                                          \
			return ret;                                                                \
		ofi_leave(how);                                                                    \
		if (ret == 0)                                                                      \
			adopt_under(parent_, &(*result)->fid, WL_ofi_kind_##kind_,                 \
				    (uint8_t)(format));                                            \
		open_record(&(struct opened){.object = ret == 0 ? (const void *)*result : NULL,    \
					     .parent = parent_,                                    \
					     .kind = WL_ofi_kind_##kind_,                          \
					     .api = OFI_NAME(api_)},                               \
			    begin, ret, how);                                                      \
		return ret;                                                                        \
	}

static int hook_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			   void *context)
{
	struct fi_ops_fabric *real = PATCHED(fabric->ops);
	enum ofi_how how = ENTER_ON(fabric);
	uint64_t begin = spool_now();
	int ret = real->passive_ep(fabric, info, pep, context);
	struct opened what = {
		.parent = fabric, .kind = WL_ofi_kind_pep, .api = OFI_NAME("fi_passive_ep")};

	if (!how)
		return ret;
	ofi_leave(how);
	if (ret == 0) {
		struct ofi_object *object = ofi_adopt(&(*pep)->fid, WL_ofi_kind_pep, 0);

		if (object)
			object->addr_format = info ? info->addr_format : FI_FORMAT_UNSPEC;
		what.object = *pep;
		what.name = provider_name(info);
	}
	open_record(&what, begin, ret, how);
	return ret;
}

OPEN(hook_eq_open, struct fi_ops_fabric, fabric, eq_open, eq, eq, 0, "fi_eq_open",
     (struct fid_fabric * fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context),
     (fabric, attr, eq, context))

static int hook_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			  struct fid_wait **waitset)
{
	struct fi_ops_fabric *real = PATCHED(fabric->ops);
	enum ofi_how how = ENTER_ON(fabric);
	uint64_t begin = spool_now();
	int ret = real->wait_open(fabric, attr, waitset);

	if (!how)
		return ret;
	ofi_leave(how);
	if (ret == 0)
		ofi_adopt(&(*waitset)->fid, WL_ofi_kind_wait, 0);
	open_record(&(struct opened){.object = ret == 0 ? (const void *)*waitset : NULL,
				     .parent = fabric,
				     .kind = WL_ofi_kind_wait,
				     .api = OFI_NAME("fi_wait_open")},
		    begin, ret, how);
	return ret;
}

static const struct ofi_slot fabric_slots[] = {
	OFI_SLOT(fi_ops_fabric, domain, hook_domain),
	OFI_SLOT(fi_ops_fabric, domain2, hook_domain2),
	OFI_SLOT(fi_ops_fabric, passive_ep, hook_passive_ep),
	OFI_SLOT(fi_ops_fabric, eq_open, hook_eq_open),
	OFI_SLOT(fi_ops_fabric, wait_open, hook_wait_open),
};
const struct ofi_slots ofi_fabric_slots = OFI_SLOTS(fabric_slots);

/* --- domain ----------------------------------------------------------------------------------- */

/* What the job asked for decides how its completion entries are to be read. */
static uint8_t cq_format(const struct fi_cq_attr *attr)
{
	return attr && attr->format != FI_CQ_FORMAT_UNSPEC ? (uint8_t)attr->format
							   : (uint8_t)FI_CQ_FORMAT_CONTEXT;
}

OPEN(hook_cq_open, struct fi_ops_domain, domain, cq_open, cq, cq, cq_format(attr), "fi_cq_open",
     (struct fid_domain * domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context),
     (domain, attr, cq, context))
OPEN(hook_cntr_open, struct fi_ops_domain, domain, cntr_open, cntr, cntr, 0, "fi_cntr_open",
     (struct fid_domain * domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context),
     (domain, attr, cntr, context))
OPEN(hook_av_open, struct fi_ops_domain, domain, av_open, av, av, 0, "fi_av_open",
     (struct fid_domain * domain, struct fi_av_attr *attr, struct fid_av **av, void *context),
     (domain, attr, av, context))
/* Deprecated wait and poll sets: opening and closing them is seen. */
static int hook_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
			  struct fid_poll **pollset)
{
	struct fi_ops_domain *real = PATCHED(domain->ops);
	enum ofi_how how = ENTER_ON(domain);
	uint64_t begin = spool_now();
	int ret = real->poll_open(domain, attr, pollset);

	if (!how)
		return ret;
	ofi_leave(how);
	if (ret == 0)
		ofi_adopt(&(*pollset)->fid, WL_ofi_kind_poll, 0);
	open_record(&(struct opened){.object = ret == 0 ? (const void *)*pollset : NULL,
				     .parent = domain,
				     .kind = WL_ofi_kind_poll,
				     .api = OFI_NAME("fi_poll_open")},
		    begin, ret, how);
	return ret;
}

OPEN(hook_scalable_ep, struct fi_ops_domain, domain, scalable_ep, sep, sep, 0, "fi_scalable_ep",
     (struct fid_domain * domain, struct fi_info *info, struct fid_ep **sep, void *context),
     (domain, info, sep, context))
OPEN(hook_stx_ctx, struct fi_ops_domain, domain, stx_ctx, stx, stx_ctx, 0, "fi_stx_context",
     (struct fid_domain * domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context),
     (domain, attr, stx, context))
OPEN(hook_srx_ctx, struct fi_ops_domain, domain, srx_ctx, rx_ep, srx_ctx, 0, "fi_srx_context",
     (struct fid_domain * domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context),
     (domain, attr, rx_ep, context))

static void endpoint_record(struct fid_domain *domain, const struct fi_info *info,
			    struct fid_ep **ep, uint32_t api, uint64_t begin, int ret,
			    enum ofi_how how)
{
	struct opened what = {.parent = domain, .kind = WL_ofi_kind_ep, .api = api};

	if (ret == 0) {
		struct ofi_object *object = ofi_adopt(&(*ep)->fid, WL_ofi_kind_ep, 0);

		if (object)
			object->addr_format = info ? info->addr_format : FI_FORMAT_UNSPEC;
		what.object = *ep;
		what.name = provider_name(info);
		what.caps = info ? info->caps : 0;
		what.mode = info ? info->mode : 0;
	}
	open_record(&what, begin, ret, how);
}

static int hook_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 void *context)
{
	struct fi_ops_domain *real = PATCHED(domain->ops);
	enum ofi_how how = ENTER_ON(domain);
	uint64_t begin = spool_now();
	int ret = real->endpoint(domain, info, ep, context);

	if (!how)
		return ret;
	ofi_leave(how);
	endpoint_record(domain, info, ep, OFI_NAME("fi_endpoint"), begin, ret, how);
	return ret;
}

static int hook_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			  uint64_t flags, void *context)
{
	struct fi_ops_domain *real = PATCHED(domain->ops);
	enum ofi_how how = ENTER_ON(domain);
	uint64_t begin = spool_now();
	int ret = real->endpoint2(domain, info, ep, flags, context);

	if (!how)
		return ret;
	ofi_leave(how);
	endpoint_record(domain, info, ep, OFI_NAME("fi_endpoint2"), begin, ret, how);
	return ret;
}

static const struct ofi_slot domain_slots[] = {
	OFI_SLOT(fi_ops_domain, av_open, hook_av_open),
	OFI_SLOT(fi_ops_domain, cq_open, hook_cq_open),
	OFI_SLOT(fi_ops_domain, endpoint, hook_endpoint),
	OFI_SLOT(fi_ops_domain, scalable_ep, hook_scalable_ep),
	OFI_SLOT(fi_ops_domain, poll_open, hook_poll_open),
	OFI_SLOT(fi_ops_domain, cntr_open, hook_cntr_open),
	OFI_SLOT(fi_ops_domain, stx_ctx, hook_stx_ctx),
	OFI_SLOT(fi_ops_domain, srx_ctx, hook_srx_ctx),
	OFI_SLOT(fi_ops_domain, endpoint2, hook_endpoint2),
};
const struct ofi_slots ofi_domain_slots = OFI_SLOTS(domain_slots);
