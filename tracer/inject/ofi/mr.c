/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory registrations: cost, range, key, where the memory lives, and the line that asked.
 */
#include "tracer/inject/memory.h"
#include "tracer/inject/ofi/ofi.h"

#include <sys/uio.h>

/* Newer than the oldest headers this builds with; values are libfabric's ABI. */
#define MR_DMABUF (1ull << 40)
struct mr_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

static void sum_ranges(struct wl_ev_ofi_mr_reg *event, const struct iovec *iov, size_t count)
{
	event->addr = count ? (uintptr_t)iov[0].iov_base : 0;
	event->ranges = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		event->bytes += iov[i].iov_len;
}

static void reg_record(struct fid *domain, struct fid_mr **mr, struct wl_ev_ofi_mr_reg *event,
		       uint64_t begin, int ret, enum ofi_how how)
{
	uint64_t end = spool_now();

	event->domain = (uintptr_t)domain;
	event->status = ret;
	if (ret == 0) {
		struct ofi_object *object = ofi_adopt(&(*mr)->fid, WL_ofi_kind_mr, 0);

		event->mr = (uintptr_t)*mr;
		event->key = (*mr)->key;
		if (object) {
			object->address = event->addr;
			object->bytes = event->bytes;
			object->iface = event->iface;
		}
		ofi_descriptor_add((*mr)->mem_desc, (enum wl_hmem_iface)event->iface);
	}
	event->stack = wl_stack(WL_STACK_FOR_REGISTRATION);
	(void)spool_append(WL_EV_ofi_mr_reg, begin, end, ofi_flags(how), event, sizeof(*event));
}

static int hook_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		    uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct fi_ops_mr *real = OFI_REAL(((struct fid_domain *)fid)->mr);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->reg(fid, buf, len, access, offset, requested_key, flags, mr, context);
	struct wl_ev_ofi_mr_reg event = {.addr = (uintptr_t)buf,
					 .bytes = len,
					 .access = access,
					 .requested_key = requested_key,
					 .flags = flags,
					 .offset = offset,
					 .fd = -1,
					 .ranges = 1};

	if (!how)
		return ret;
	ofi_leave(how);
	event.api = OFI_NAME("fi_mr_reg");
	reg_record(fid, mr, &event, begin, ret, how);
	return ret;
}

static int hook_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		     uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		     void *context)
{
	struct fi_ops_mr *real = OFI_REAL(((struct fid_domain *)fid)->mr);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->regv(fid, iov, count, access, offset, requested_key, flags, mr, context);
	struct wl_ev_ofi_mr_reg event = {.access = access,
					 .requested_key = requested_key,
					 .flags = flags,
					 .offset = offset,
					 .fd = -1};

	if (!how)
		return ret;
	ofi_leave(how);
	event.api = OFI_NAME("fi_mr_regv");
	if (ret == 0)
		sum_ranges(&event, iov, count);
	reg_record(fid, mr, &event, begin, ret, how);
	return ret;
}

/* Which members of fi_mr_attr may be read depends on the version the job asked for and on what it
 * uses: older programs pass a shorter struct. */
static void attr_read(struct wl_ev_ofi_mr_reg *event, const struct fi_mr_attr *attr, uint64_t flags,
		      const struct ofi_object *domain)
{
	event->access = attr->access;
	event->requested_key = attr->requested_key;
	event->offset = attr->offset;
	if (domain && domain->hmem && domain->api_version >= FI_VERSION(1, 9)) {
		event->iface = (uint8_t)attr->iface;
		event->device = (uint64_t)attr->device.reserved;
	}
	if (flags & MR_DMABUF) {
		const struct mr_dmabuf *buffers = (const void *)attr->mr_iov;

		if (!attr->iov_count)
			return;
		event->addr = (uintptr_t)buffers[0].base_addr + buffers[0].offset;
		event->fd = buffers[0].fd;
		event->offset = buffers[0].offset;
		event->ranges = (uint32_t)attr->iov_count;
		for (size_t i = 0; i < attr->iov_count; i++)
			event->bytes += buffers[i].len;
	} else {
		sum_ranges(event, attr->mr_iov, attr->iov_count);
	}
}

/* A refused one is read with care: nobody says that the provider looked at all of it. What it was for is what
 * one wants to know of a refusal. */
static void refused_read(struct wl_ev_ofi_mr_reg *event, const struct fi_mr_attr *attr,
			 uint64_t flags, const struct ofi_object *domain)
{
	struct {
		union {
			struct iovec iov;
			struct mr_dmabuf dmabuf;
		} first;
		struct fi_mr_attr attr;
	} copy;
	bool device = domain && domain->hmem && domain->api_version >= FI_VERSION(1, 9);
	size_t bytes = device ? offsetof(struct fi_mr_attr, device) + sizeof(attr->device)
			      : offsetof(struct fi_mr_attr, context);

	memset(&copy, 0, sizeof(copy));
	if (!wl_memory_copy(attr, &copy.attr, bytes))
		return;
	bytes = flags & MR_DMABUF ? sizeof(copy.first.dmabuf) : sizeof(copy.first.iov);
	if (!copy.attr.mr_iov || !copy.attr.iov_count ||
	    !wl_memory_copy(copy.attr.mr_iov, &copy.first, bytes))
		copy.attr.iov_count = 0;
	else
		copy.attr.iov_count = 1;
	copy.attr.mr_iov = (const struct iovec *)&copy.first;
	attr_read(event, &copy.attr, flags, domain);
}

static int hook_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
			struct fid_mr **mr)
{
	struct fi_ops_mr *real = OFI_REAL(((struct fid_domain *)fid)->mr);
	enum ofi_how how = OFI_ENTER_SETUP();
	uint64_t begin = spool_now();
	int ret = real->regattr(fid, attr, flags, mr);
	struct wl_ev_ofi_mr_reg event = {.flags = flags, .fd = -1};

	if (!how)
		return ret;
	ofi_leave(how);
	event.api = OFI_NAME("fi_mr_regattr");
	if (ret == 0)
		attr_read(&event, attr, flags, ofi_find(fid));
	else
		refused_read(&event, attr, flags, ofi_find(fid));
	reg_record(fid, mr, &event, begin, ret, how);
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops_mr, reg, hook_reg),
	OFI_SLOT(fi_ops_mr, regv, hook_regv),
	OFI_SLOT(fi_ops_mr, regattr, hook_regattr),
};
const struct ofi_slots ofi_mr_slots = OFI_SLOTS(slots);
