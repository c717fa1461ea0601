/* SPDX-License-Identifier: Apache-2.0
 *
 * hmemmock: finding it, its fabric and domain, its registrations.
 */
#include "tests/mock/hmem.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct hmem_counts hmem_counts;

void hmem_complain(const char *format, ...)
{
	va_list arguments;

	(void)fputs("hmemmock: ", stderr);
	va_start(arguments, format);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
}

/* --- finding it --------------------------------------------------------------------------------- */

/* The same request or offer in shm's terms. The caller frees it. */
static struct fi_info *to_shm(const struct fi_info *info)
{
	struct fi_info *copy = fi_dupinfo(info);

	if (!copy || !copy->fabric_attr || !copy->domain_attr) {
		fi_freeinfo(copy);
		return NULL;
	}
	free(copy->fabric_attr->prov_name);
	copy->fabric_attr->prov_name = strdup("shm");
	copy->caps &= ~FI_HMEM;
	if (copy->tx_attr)
		copy->tx_attr->caps &= ~FI_HMEM;
	if (copy->rx_attr)
		copy->rx_attr->caps &= ~FI_HMEM;
	copy->domain_attr->caps &= ~FI_HMEM;
	copy->domain_attr->mr_mode &= ~FI_MR_HMEM;
	return copy;
}

/* shm's offer in ours: libfabric puts the provider's name in. */
static void from_shm(struct fi_info *info, bool device)
{
	for (; info; info = info->next) {
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = NULL;
		info->caps &= ~FI_ATOMIC; /* their descriptors would not be translated */
		if (!device)
			continue;
		info->caps |= FI_HMEM;
		info->domain_attr->caps |= FI_HMEM;
		info->domain_attr->mr_mode |= FI_MR_HMEM;
		if (info->tx_attr)
			info->tx_attr->caps |= FI_HMEM;
		if (info->rx_attr)
			info->rx_attr->caps |= FI_HMEM;
	}
}

static int mock_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			const struct fi_info *hints, struct fi_info **info)
{
	bool device = hints && (hints->caps & FI_HMEM);
	struct fi_info *wanted;
	int ret;

	/* Memory modes are the job's to offer; without this one it would pass no descriptors. */
	if (!hints || (hints->caps & FI_ATOMIC) ||
	    (device && hints->domain_attr && !(hints->domain_attr->mr_mode & FI_MR_HMEM)))
		return -FI_ENODATA;
	wanted = to_shm(hints);
	if (!wanted)
		return -FI_ENODATA;
	ret = fi_getinfo(version, node, service, flags, wanted, info);
	fi_freeinfo(wanted);
	if (ret == 0)
		from_shm(*info, device);
	return ret;
}

/* --- fabric and domain --------------------------------------------------------------------------- */

struct mock_fabric {
	struct fid_fabric fabric;
	struct fi_ops fid_ops;
	struct fi_ops_fabric ops;
	struct fid_fabric *inner;
};

/* One of shm's domains whose tables are ours while it is open. */
struct mock_domain {
	struct mock_domain *next;
	struct fid_domain *domain;
	struct fi_ops *fid_ops, *fid_ops_before;
	struct fi_ops_domain *ops, *ops_before;
	struct fi_ops_mr *mr, *mr_before;
};
static struct mock_domain *domains;
static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mock_domain *domain_of(const struct fid *fid)
{
	struct mock_domain *found;

	(void)pthread_mutex_lock(&domains_lock);
	found = domains;
	while (found && &found->domain->fid != fid)
		found = found->next;
	(void)pthread_mutex_unlock(&domains_lock);
	return found;
}

static int mr_close(struct fid *fid)
{
	struct hmem_mr *mr = (struct hmem_mr *)fid;
	int ret = fi_close(&mr->inner->fid);

	if (ret)
		return ret;
	mr->magic = 0;
	free(mr);
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	return fi_mr_bind(((struct hmem_mr *)fid)->inner, bound, flags);
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct hmem_mr *mr = (struct hmem_mr *)fid;
	int ret = fi_control(&mr->inner->fid, command, arg);

	mr->mr.key = mr->inner->key;
	return ret;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops), .close = mr_close, .bind = mr_bind, .control = mr_control};

/* The range that an attribute names; 0 or the error that it deserves. */
static int attr_check(const struct fi_mr_attr *attr, uint64_t flags, bool *device,
		      struct iovec *range)
{
	if (!attr->iov_count || !attr->mr_iov)
		return -FI_EINVAL;
	*device = attr->iface == FI_HMEM_CUDA || flags & HMEM_MR_DMABUF;
	if (flags & HMEM_MR_DMABUF) {
		const struct hmem_dmabuf *buffer = (const void *)attr->mr_iov;
		int ret = attr->iov_count == 1 ? hmem_dmabuf_check(buffer) : -FI_EINVAL;

		if (ret) {
			hmem_complain(
				"DMA-BUF %d, offset %llu, length %zu is not what lies at %p: %s",
				buffer->fd, (unsigned long long)buffer->offset, buffer->len,
				buffer->base_addr, fi_strerror(-ret));
			return ret;
		}
		*range = (struct iovec){(char *)buffer->base_addr + buffer->offset, buffer->len};
		return 0;
	}
	*range = attr->mr_iov[0];
	if (attr->iface != FI_HMEM_SYSTEM && attr->iface != FI_HMEM_CUDA)
		return -FI_ENOSYS;
	for (size_t i = 0; i < attr->iov_count; i++) {
		uintptr_t base = (uintptr_t)attr->mr_iov[i].iov_base;
		size_t bytes = attr->mr_iov[i].iov_len;

		if (*device ? !hmem_range_is_device(base, bytes)
			    : hmem_range_touches_device(base, bytes)) {
			hmem_complain("%#lx, %zu bytes, is registered as %s memory and is not",
				      (unsigned long)base, bytes, *device ? "device" : "host");
			return -FI_EFAULT;
		}
	}
	return 0;
}

static int reg_attr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		    struct fid_mr **mr)
{
	struct mock_domain *domain = domain_of(fid);
	struct fi_mr_attr plain = {.access = attr->access,
				   .offset = attr->offset,
				   .requested_key = attr->requested_key,
				   .context = attr->context};
	struct iovec range;
	struct hmem_mr *made;
	bool device = false;
	int ret = attr_check(attr, flags, &device, &range);

	if (ret) {
		HMEM_COUNT(refused_registrations, 1);
		return ret;
	}
	made = calloc(1, sizeof(*made));
	if (!made)
		return -FI_ENOMEM;
	plain.mr_iov = flags & HMEM_MR_DMABUF ? &range : attr->mr_iov;
	plain.iov_count = attr->iov_count;
	ret = domain->mr_before->regattr(fid, &plain, flags & ~HMEM_MR_DMABUF, &made->inner);
	if (ret) {
		free(made);
		return ret;
	}
	made->mr.fid =
		(struct fid){.fclass = FI_CLASS_MR, .context = attr->context, .ops = &mr_fid_ops};
	made->mr.mem_desc = made;
	made->mr.key = made->inner->key;
	made->magic = HMEM_MR_MAGIC;
	made->device = device;
	made->base = (uintptr_t)range.iov_base;
	made->bytes = range.iov_len;
	*mr = &made->mr;
	if (flags & HMEM_MR_DMABUF)
		HMEM_COUNT(dmabuf_registrations, 1);
	else if (device)
		HMEM_COUNT(device_registrations, 1);
	else
		HMEM_COUNT(host_registrations, 1);
	return 0;
}

static int reg_vector(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
		      void *context)
{
	struct fi_mr_attr attr = {.mr_iov = iov,
				  .iov_count = count,
				  .access = access,
				  .offset = offset,
				  .requested_key = key,
				  .context = context};

	return reg_attr(fid, &attr, flags, mr);
}

static int reg_plain(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		     uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return reg_vector(fid, &iov, 1, access, offset, key, flags, mr, context);
}

static int domain_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			   void *context)
{
	struct fi_info *inner = to_shm(info);
	int ret = inner ? domain_of(&domain->fid)->ops_before->endpoint(domain, inner, ep, context)
			: -FI_ENOMEM;

	fi_freeinfo(inner);
	return ret ? ret : hmem_endpoint_wrap(*ep);
}

static void domain_unwrap(struct mock_domain *domain)
{
	domain->domain->fid.ops = domain->fid_ops_before;
	domain->domain->ops = domain->ops_before;
	domain->domain->mr = domain->mr_before;
}

static void domain_wrap(struct mock_domain *domain)
{
	domain->domain->fid.ops = domain->fid_ops;
	domain->domain->ops = domain->ops;
	domain->domain->mr = domain->mr;
}

static int domain_close(struct fid *fid)
{
	struct mock_domain *domain = domain_of(fid), **at = &domains;
	int ret;

	domain_unwrap(domain);
	ret = fi_close(fid);
	if (ret) {
		domain_wrap(domain);
		return ret;
	}
	(void)pthread_mutex_lock(&domains_lock);
	while (*at != domain)
		at = &(*at)->next;
	*at = domain->next;
	(void)pthread_mutex_unlock(&domains_lock);
	free(domain->fid_ops);
	free(domain->ops);
	free(domain->mr);
	free(domain);
	return 0;
}

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info,
			 struct fid_domain **domain, void *context)
{
	struct fi_info *inner = to_shm(info);
	struct mock_domain *made = calloc(1, sizeof(*made));
	int ret = inner && made
			  ? fi_domain(((struct mock_fabric *)fabric)->inner, inner, domain, context)
			  : -FI_ENOMEM;

	fi_freeinfo(inner);
	if (ret) {
		free(made);
		return ret;
	}
	made->domain = *domain;
	made->fid_ops_before = (*domain)->fid.ops;
	made->ops_before = (*domain)->ops;
	made->mr_before = (*domain)->mr;
	made->fid_ops = mock_table_copy(made->fid_ops_before);
	made->ops = mock_table_copy(made->ops_before);
	made->mr = mock_table_copy(made->mr_before);
	if (!made->fid_ops || !made->ops || !made->mr)
		return -FI_ENOMEM;
	made->fid_ops->close = domain_close;
	made->ops->endpoint = domain_endpoint;
	made->mr->reg = reg_plain;
	made->mr->regv = reg_vector;
	made->mr->regattr = reg_attr;
	(void)pthread_mutex_lock(&domains_lock);
	made->next = domains;
	domains = made;
	(void)pthread_mutex_unlock(&domains_lock);
	domain_wrap(made);
	return 0;
}

static int fabric_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			  void *context)
{
	(void)fabric, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static int fabric_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		     void *context)
{
	return fi_eq_open(((struct mock_fabric *)fabric)->inner, attr, eq, context);
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	return fi_trywait(((struct mock_fabric *)fabric)->inner, fids, count);
}

static int fabric_close(struct fid *fid)
{
	struct mock_fabric *fabric = (struct mock_fabric *)fid;
	int ret = fi_close(&fabric->inner->fid);

	if (!ret)
		free(fabric);
	return ret;
}

static int fabric_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	(void)fid, (void)bound, (void)flags;
	return -FI_ENOSYS;
}

static int fabric_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

static int mock_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fi_fabric_attr shm = *attr;
	struct mock_fabric *made = calloc(1, sizeof(*made));
	char name[] = "shm";
	int ret;

	if (!made)
		return -FI_ENOMEM;
	shm.prov_name = name;
	ret = fi_fabric(&shm, &made->inner, context);
	if (ret) {
		free(made);
		return ret;
	}
	made->fid_ops = (struct fi_ops){.size = sizeof(struct fi_ops),
					.close = fabric_close,
					.bind = fabric_bind,
					.control = fabric_control};
	made->ops = (struct fi_ops_fabric){.size = offsetof(struct fi_ops_fabric, domain2),
					   .domain = fabric_domain,
					   .passive_ep = fabric_passive,
					   .eq_open = fabric_eq,
					   .trywait = fabric_trywait};
	made->fabric.fid =
		(struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &made->fid_ops};
	made->fabric.ops = &made->ops;
	made->fabric.api_version = made->inner->api_version;
	*fabric = &made->fabric;
	return 0;
}

/* --- the end ------------------------------------------------------------------------------------- */

static void __attribute__((destructor)) report(void)
{
	const char *path = getenv("HMEM_MOCK_REPORT");
	FILE *file = path ? fopen(path, "ae") : NULL;

	if (!file)
		return;
	(void)fprintf(
		file,
		"{\"pid\": %ld, \"host_registrations\": %llu, \"device_registrations\": %llu, "
		"\"dmabuf_registrations\": %llu, \"refused_registrations\": %llu, "
		"\"device_transfers\": %llu, \"device_bytes\": %llu, \"refused_transfers\": %llu}\n",
		(long)getpid(), (unsigned long long)hmem_counts.host_registrations,
		(unsigned long long)hmem_counts.device_registrations,
		(unsigned long long)hmem_counts.dmabuf_registrations,
		(unsigned long long)hmem_counts.refused_registrations,
		(unsigned long long)hmem_counts.device_transfers,
		(unsigned long long)hmem_counts.device_bytes,
		(unsigned long long)hmem_counts.refused_transfers);
	(void)fclose(file);
}

static void mock_cleanup(void)
{
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);
struct fi_provider *fi_prov_ini(void)
{
	static struct fi_provider provider = {.version = FI_VERSION(1, 0),
					      .name = "hmemmock",
					      .getinfo = mock_getinfo,
					      .fabric = mock_fabric,
					      .cleanup = mock_cleanup};

	/* A request for a later interface than a provider's is not shown to it. */
	provider.fi_version = fi_version();
	return &provider;
}
