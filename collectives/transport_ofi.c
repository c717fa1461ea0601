/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libfabric back end: one reliable-datagram endpoint, tagged messages, one completion queue.
 *
 * Peers are told apart by the tag (collectives put the sender's rank into it), since not every
 * provider can receive from one source only.
 */
#include "collectives/ofi_lib.h"
#include "collectives/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif
#ifndef PR_SET_PTRACER_ANY
#define PR_SET_PTRACER_ANY (-1UL)
#endif

#define COMPLETIONS_A_POLL 16
#define CQ_ENTRIES_MAX     65536

/* Every way of handling memory that this file follows: it registers local buffers, gives real
 * addresses or offsets as asked, registers only mapped memory, takes keys or makes them, and binds
 * registrations to the endpoint. */
#define MR_MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

/* Best first. A name with a layered provider stands before the bare one where both exist in some
 * release and only one of them can do reliable datagrams in each. */
static const char *const preferred[] = {
	"shm",  "sm2", "efa",         "cxi",     "verbs;ofi_rxm", "psm3", "opx",
	"psm2", "tcp", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd",   NULL,
};

struct tp_ofi {
	struct transport tp;
	const struct ofi_lib *lib;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t *peers;
	uint64_t next_key;
};

static struct tp_ofi *ofi(struct transport *tp)
{
	return (struct tp_ofi *)tp;
}

static const char *words(const struct tp_ofi *t, int rc)
{
	return t->lib->strerror(rc < 0 ? -rc : rc);
}

/* libfabric's own error numbers start at 256; to callers they are one failure. */
static int to_errno(int rc)
{
	return rc <= -FI_ERRNO_OFFSET ? -EIO : rc;
}

/* --- choosing a provider ------------------------------------------------------------------- */

/* Providers that join processes of one host, and know no network addresses. */
static bool shares_memory(const char *provider)
{
	return strcmp(provider, "shm") == 0 || strcmp(provider, "sm2") == 0;
}

static int query(const struct ofi_lib *lib, const char *provider, const char *address,
		 uint64_t caps, struct fi_info **out)
{
	uint64_t modes = MR_MODES | (caps & FI_HMEM ? FI_MR_HMEM : 0);
	struct fi_info *hints = lib->dupinfo(NULL);
	int rc;

	if (!hints)
		return -ENOMEM;
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = (int)modes;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	/* Waiting polls anyway; a provider that can do without a thread of its own should. */
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	if (provider) {
		hints->fabric_attr->prov_name = strdup(provider);
		if (!hints->fabric_attr->prov_name) {
			lib->freeinfo(hints);
			return -ENOMEM;
		}
	}
	*out = NULL;
	rc = lib->getinfo(caps & FI_HMEM ? lib->api_hmem : lib->api, address, NULL,
			  address ? FI_SOURCE : 0, hints, out);
	lib->freeinfo(hints);
	return rc;
}

/* A provider without network addresses takes the text for a name of its own, the same on all
 * ranks. */
static bool named_by_text(const struct fi_info *info)
{
	return info->addr_format == FI_ADDR_STR;
}

/* Network providers are asked for the interface that the ranks already reach each other by. */
static int query_any(const struct ofi_lib *lib, const struct tp_config *config,
		     const char *provider, struct fi_info **out)
{
	static const uint64_t caps[] = {FI_TAGGED | FI_RMA, FI_TAGGED};
	uint64_t more = config->memory == TP_MEMORY_HOST ? 0 : FI_HMEM;
	const char *address = config->bind_address;
	int rc = -FI_ENODATA;

	if (provider && shares_memory(provider))
		address = NULL;
	for (int i = 0; i < 2; i++) {
		if (address) {
			rc = query(lib, provider, address, caps[i] | more, out);
			if (!rc && !named_by_text(*out))
				return 0;
			if (!rc)
				lib->freeinfo(*out);
		}
		rc = query(lib, provider, NULL, caps[i] | more, out);
		if (!rc)
			return 0;
	}
	return rc;
}

/* The entry with exactly that name, else the first: "tcp" may give "tcp;ofi_rxm". */
static struct fi_info *pick(struct fi_info *list, const char *provider)
{
	for (struct fi_info *i = list; provider && i; i = i->next) {
		if (strcmp(i->fabric_attr->prov_name, provider) == 0)
			return i;
	}
	return list;
}

static int choose(const struct ofi_lib *lib, const struct tp_config *config, struct fi_info **out,
		  char *error)
{
	struct fi_info *list = NULL;
	int rc = -FI_ENODATA;

	if (config->provider) {
		rc = query_any(lib, config, config->provider, &list);
	} else {
		for (int i = 0; preferred[i] && rc; i++) {
			if (shares_memory(preferred[i]) && !config->one_host)
				continue;
			rc = query_any(lib, config, preferred[i], &list);
		}
		if (rc)
			rc = query_any(lib, config, NULL, &list);
	}
	if (rc && config->memory != TP_MEMORY_HOST) {
		snprintf(
			error, TP_ERROR_BYTES,
			"libfabric %u.%u offers no %s%sprovider that takes device memory (FI_HMEM: "
			"%s), so the direct path is closed: it was built without CUDA, or the "
			"provider cannot; --path staged goes through host memory",
			FI_MAJOR(lib->version), FI_MINOR(lib->version),
			config->provider ? config->provider : "", config->provider ? " " : "",
			lib->strerror(-rc));
		return rc == -FI_ENODATA ? -ENODEV : to_errno(rc);
	}
	if (rc) {
		snprintf(error, TP_ERROR_BYTES,
			 "libfabric %u.%u offers no %s%sprovider for reliable tagged messages here "
			 "(%s): `fi_info -l` lists what there is",
			 FI_MAJOR(lib->version), FI_MINOR(lib->version),
			 config->provider ? config->provider : "", config->provider ? " " : "",
			 lib->strerror(-rc));
		return rc == -FI_ENODATA ? -ENODEV : to_errno(rc);
	}
	*out = lib->dupinfo(pick(list, config->provider));
	lib->freeinfo(list);
	return *out ? 0 : -ENOMEM;
}

int tp_list_ofi(const struct tp_config *config, char **out, char *error)
{
	const struct ofi_lib *lib;
	struct fi_info *list;
	size_t bytes;
	FILE *f;
	int rc;

	*out = NULL;
	rc = ofi_lib_open(&lib, error, TP_ERROR_BYTES);
	if (rc)
		return rc;
	f = open_memstream(out, &bytes);
	if (!f)
		return -ENOMEM;
	for (int i = 0; preferred[i]; i++) {
		if (query_any(lib, config, preferred[i], &list))
			continue;
		if (strcmp(pick(list, preferred[i])->fabric_attr->prov_name, preferred[i]) == 0)
			fprintf(f, "%s\n", preferred[i]);
		lib->freeinfo(list);
	}
	return fclose(f) ? -ENOMEM : 0;
}

/* --- opening ------------------------------------------------------------------------------- */

static int open_queue(struct tp_ofi *t)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
	size_t entries = t->info->tx_attr->size + t->info->rx_attr->size;

	attr.size = entries < CQ_ENTRIES_MAX ? entries : CQ_ENTRIES_MAX;
	return fi_cq_open(t->domain, &attr, &t->cq, NULL);
}

static int open_objects(struct tp_ofi *t, char *error)
{
	struct fi_av_attr av = {.type = FI_AV_UNSPEC, .count = 64};
	const char *what = "open the fabric";
	int rc;

	rc = t->lib->fabric(t->info->fabric_attr, &t->fabric, NULL);
	if (!rc) {
		what = "open the domain";
		rc = fi_domain(t->fabric, t->info, &t->domain, NULL);
	}
	if (!rc) {
		what = "open an address vector";
		rc = fi_av_open(t->domain, &av, &t->av, NULL);
	}
	if (!rc) {
		what = "open a completion queue";
		rc = open_queue(t);
	}
	if (!rc) {
		what = "open an endpoint";
		rc = fi_endpoint(t->domain, t->info, &t->ep, NULL);
	}
	if (!rc) {
		what = "bind the address vector";
		rc = fi_ep_bind(t->ep, &t->av->fid, 0);
	}
	if (!rc) {
		what = "bind the completion queue";
		rc = fi_ep_bind(t->ep, &t->cq->fid, FI_TRANSMIT | FI_RECV);
	}
	if (!rc) {
		what = "enable the endpoint";
		rc = fi_enable(t->ep);
	}
	if (rc)
		snprintf(error, TP_ERROR_BYTES,
			 "provider %s could not %s: %s (FI_LOG_LEVEL=warn shows its own words)",
			 t->info->fabric_attr->prov_name, what, words(t, rc));
	return to_errno(rc);
}

static void ofi_close(struct transport *tp)
{
	struct tp_ofi *t = ofi(tp);

	if (t->ep)
		fi_close(&t->ep->fid);
	if (t->cq)
		fi_close(&t->cq->fid);
	if (t->av)
		fi_close(&t->av->fid);
	if (t->domain)
		fi_close(&t->domain->fid);
	if (t->fabric)
		fi_close(&t->fabric->fid);
	if (t->info)
		t->lib->freeinfo(t->info);
	free(t->peers);
	free(t);
}

static int ofi_address(struct transport *tp, void *addr, size_t *bytes)
{
	struct tp_ofi *t = ofi(tp);
	int rc;

	*bytes = TP_ADDRESS_BYTES;
	rc = fi_getname(&t->ep->fid, addr, bytes);
	if (rc)
		return tp_fail(tp, to_errno(rc), "provider %s does not tell its address: %s",
			       tp->provider, words(t, rc));
	return 0;
}

static int ofi_connect(struct transport *tp, const void *addrs, int rank, int size)
{
	struct tp_ofi *t = ofi(tp);
	const char *addr = addrs;

	(void)rank;
	free(t->peers);
	t->peers = calloc((size_t)size, sizeof(*t->peers));
	if (!t->peers)
		return tp_fail(tp, -ENOMEM, "no memory for the addresses of %d ranks", size);
	for (int i = 0; i < size; i++) {
		/* One by one: the entries are TP_ADDRESS_BYTES apart, longer than the address. */
		int rc = fi_av_insert(t->av, addr + (size_t)i * TP_ADDRESS_BYTES, 1, &t->peers[i],
				      0, NULL);

		if (rc != 1)
			return tp_fail(tp, rc < 0 ? to_errno(rc) : -EIO,
				       "provider %s does not take the address of rank %d: %s",
				       tp->provider, i, rc < 0 ? words(t, rc) : "unknown reason");
	}
	return 0;
}

/* --- memory -------------------------------------------------------------------------------- */

/* Younger than the oldest headers this builds with; part of libfabric's ABI since 1.20. */
#define MR_DMABUF (1ull << 40)
struct mr_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

/* fi_mr_attr as old headers know it, and zeros where later libraries look for what came since. */
union mr_attr {
	struct fi_mr_attr attr;
	char room[256];
};

static int mr_open_device(struct tp_ofi *t, const struct tp_range *range, uint64_t access,
			  uint64_t key, struct fid_mr **mr)
{
	/* FI_HMEM_DEVICE_ONLY: the host cannot touch it. Without that, providers that could hand
	 * the memory to the other process copy it through the host instead. */
	struct iovec whole = {range->addr, range->bytes};
	struct mr_dmabuf buffer = {.fd = range->dmabuf_fd,
				   .offset = range->dmabuf_offset,
				   .len = range->bytes,
				   .base_addr = (char *)range->addr - range->dmabuf_offset};
	union mr_attr a;

	memset(&a, 0, sizeof(a));
	a.attr.mr_iov = &whole;
	a.attr.iov_count = 1;
	a.attr.access = access;
	a.attr.requested_key = key;
	a.attr.iface = FI_HMEM_CUDA;
	a.attr.device.cuda = range->device;
	if (range->dmabuf_fd < 0)
		return fi_mr_regattr(t->domain, &a.attr, FI_HMEM_DEVICE_ONLY, mr);
	a.attr.mr_iov = (const struct iovec *)(const void *)&buffer; /* a union from 1.20 on */
	return fi_mr_regattr(t->domain, &a.attr, MR_DMABUF | FI_HMEM_DEVICE_ONLY, mr);
}

static int mr_open(struct tp_ofi *t, const struct tp_range *range, struct fid_mr **mr)
{
	uint64_t access = FI_SEND | FI_RECV;
	bool own_keys = !(t->info->domain_attr->mr_mode & FI_MR_PROV_KEY);
	int rc;

	if (t->tp.can_write)
		access |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	do {
		uint64_t key = own_keys ? t->next_key++ : 0;

		if (range->memory == TP_MEMORY_HOST)
			rc = fi_mr_reg(t->domain, range->addr, range->bytes, access, 0, key, 0, mr,
				       NULL);
		else
			rc = mr_open_device(t, range, access, key, mr);
	} while (rc == -FI_ENOKEY && own_keys); /* somebody else's key in this domain */
	if (rc || !(t->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		return rc;
	rc = fi_mr_bind(*mr, &t->ep->fid, 0);
	if (!rc)
		rc = fi_mr_enable(*mr);
	if (rc)
		fi_close(&(*mr)->fid);
	return rc;
}

static int ofi_reg(struct transport *tp, const struct tp_range *range, struct tp_region **out)
{
	struct tp_ofi *t = ofi(tp);
	struct tp_region *region;
	struct fid_mr *mr = NULL;
	int rc;

	*out = NULL;
	if (range->memory != TP_MEMORY_HOST && !tp->takes_device)
		return tp_fail(tp, -EOPNOTSUPP, "only host memory can be registered with %s here",
			       tp->provider);
	region = calloc(1, sizeof(*region));
	if (!region)
		return tp_fail(tp, -ENOMEM, "no memory to register %zu bytes", range->bytes);
	rc = mr_open(t, range, &mr);
	if (rc) {
		free(region);
		return tp_fail(tp, to_errno(rc), "cannot register %zu bytes%s at %p with %s: %s%s",
			       range->bytes,
			       range->dmabuf_fd >= 0             ? " of a DMA-BUF"
			       : range->memory == TP_MEMORY_CUDA ? " of device memory"
								 : "",
			       range->addr, tp->provider, words(t, rc),
			       rc == -ENOMEM ? " (see `ulimit -l`)" : "");
	}
	region->addr = (uint64_t)(uintptr_t)range->addr;
	region->bytes = range->bytes;
	region->memory = range->memory;
	region->desc = fi_mr_desc(mr);
	region->key = fi_mr_key(mr);
	region->remote_base = t->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? region->addr : 0;
	region->handle = mr;
	*out = region;
	return 0;
}

static int ofi_dereg(struct transport *tp, struct tp_region *region)
{
	struct tp_ofi *t = ofi(tp);
	struct fid_mr *mr = region->handle;
	int rc = fi_close(&mr->fid);

	free(region);
	if (rc)
		return tp_fail(tp, to_errno(rc), "cannot close a registration of %s: %s",
			       tp->provider, words(t, rc));
	return 0;
}

/* --- messages ------------------------------------------------------------------------------ */

static void *desc_of(const struct tp_region *region)
{
	return region ? region->desc : NULL;
}

static int post_failed(struct tp_ofi *t, const char *what, size_t bytes, int peer, ssize_t rc)
{
	return tp_break(&t->tp, to_errno((int)rc),
			"cannot %s %zu bytes (peer: rank %d) over %s: %s", what, bytes, peer,
			t->tp.provider, words(t, (int)rc));
}

static int ofi_send(struct transport *tp, int peer, uint64_t tag, const void *buf, size_t bytes,
		    const struct tp_region *region, struct tp_req *req)
{
	struct tp_ofi *t = ofi(tp);
	ssize_t rc;

	/* Only host memory can be injected. */
	if (bytes <= tp->inject_bytes && (!region || region->memory == TP_MEMORY_HOST)) {
		rc = fi_tinject(t->ep, buf, bytes, t->peers[peer], tag);
		if (!rc)
			tp_complete(tp, req, bytes);
	} else {
		rc = fi_tsend(t->ep, buf, bytes, desc_of(region), t->peers[peer], tag,
			      req->context);
	}
	if (rc && rc != -FI_EAGAIN)
		return post_failed(t, "send", bytes, peer, rc);
	return (int)rc;
}

static int ofi_recv(struct transport *tp, int peer, uint64_t tag, void *buf, size_t bytes,
		    const struct tp_region *region, struct tp_req *req)
{
	struct tp_ofi *t = ofi(tp);
	ssize_t rc =
		fi_trecv(t->ep, buf, bytes, desc_of(region), FI_ADDR_UNSPEC, tag, 0, req->context);

	if (rc && rc != -FI_EAGAIN)
		return post_failed(t, "receive", bytes, peer, rc);
	return (int)rc;
}

static int ofi_write(struct transport *tp, int peer, const void *buf, size_t bytes,
		     const struct tp_region *region, uint64_t remote_addr, uint64_t key,
		     struct tp_req *req)
{
	struct tp_ofi *t = ofi(tp);
	ssize_t rc = fi_write(t->ep, buf, bytes, desc_of(region), t->peers[peer], remote_addr, key,
			      req->context);

	if (rc && rc != -FI_EAGAIN)
		return post_failed(t, "write", bytes, peer, rc);
	return (int)rc;
}

static int read_error(struct tp_ofi *t)
{
	struct fi_cq_err_entry entry = {0};
	struct tp_req *req;
	ssize_t n = fi_cq_readerr(t->cq, &entry, 0);

	if (n == -FI_EAGAIN)
		return 0;
	if (n < 0)
		return tp_break(&t->tp, to_errno((int)n), "cannot read an error of %s: %s",
				t->tp.provider, words(t, (int)n));
	req = entry.op_context;
	if (!req)
		return tp_break(&t->tp, -EIO, "%s reports %s", t->tp.provider, words(t, entry.err));
	req->state = TP_FAILED;
	return tp_break(&t->tp, -EIO, "%s of %zu bytes %s rank %d failed over %s: %s (%s)",
			req->receiving ? "receive" : "send", req->bytes,
			req->receiving ? "from" : "to", req->peer, t->tp.provider,
			words(t, entry.err),
			fi_cq_strerror(t->cq, entry.prov_errno, entry.err_data, NULL, 0));
}

static int ofi_poll(struct transport *tp)
{
	struct tp_ofi *t = ofi(tp);
	struct fi_cq_msg_entry entries[COMPLETIONS_A_POLL];
	ssize_t n = fi_cq_read(t->cq, entries, COMPLETIONS_A_POLL);

	if (n == -FI_EAGAIN || n == -FI_EINTR)
		return 0;
	if (n == -FI_EAVAIL)
		return read_error(t);
	if (n < 0)
		return tp_break(tp, to_errno((int)n), "cannot poll %s: %s", tp->provider,
				words(t, (int)n));
	for (ssize_t i = 0; i < n; i++) {
		struct tp_req *req = entries[i].op_context;

		tp_complete(tp, req, req->receiving ? entries[i].len : req->bytes);
	}
	return (int)n;
}

static const struct tp_ops ofi_ops = {
	.name = "ofi",
	.address = ofi_address,
	.connect = ofi_connect,
	.reg = ofi_reg,
	.dereg = ofi_dereg,
	.send = ofi_send,
	.recv = ofi_recv,
	.write = ofi_write,
	.poll = ofi_poll,
	.close = ofi_close,
};

/* Tags are 64 bits wide here; a provider that matches fewer would confuse messages. */
static int check_tags(const struct tp_ofi *t, char *error)
{
	if (t->info->ep_attr->mem_tag_format >> 62)
		return 0;
	snprintf(error, TP_ERROR_BYTES,
		 "provider %s matches fewer than 64 bits of a tag: choose another with --provider",
		 t->info->fabric_attr->prov_name);
	return -EOPNOTSUPP;
}

static void describe(struct tp_ofi *t)
{
	struct transport *tp = &t->tp;

	snprintf(tp->provider, sizeof(tp->provider), "%s", t->info->fabric_attr->prov_name);
	snprintf(tp->library, sizeof(tp->library), "libfabric %u.%u", FI_MAJOR(t->lib->version),
		 FI_MINOR(t->lib->version));
	tp->inject_bytes = t->info->tx_attr->inject_size;
	tp->max_msg_bytes = t->info->ep_attr->max_msg_size;
	tp->needs_regions = t->info->domain_attr->mr_mode & FI_MR_LOCAL;
	tp->can_write = (t->info->caps & FI_RMA) != 0;
	tp->takes_device = (t->info->caps & FI_HMEM) != 0;
	tp->takes_dmabuf = tp->takes_device && FI_VERSION_GE(t->lib->version, FI_VERSION(1, 20));
	tp->shares_memory = shares_memory(tp->provider);
	tp->has_threads = t->info->domain_attr->data_progress == FI_PROGRESS_AUTO;
}

int tp_open_ofi(const struct tp_config *config, struct transport **out, char *error)
{
	struct tp_ofi *t = calloc(1, sizeof(*t));
	int rc;

	*out = NULL;
	if (!t) {
		snprintf(error, TP_ERROR_BYTES, "no memory for a transport");
		return -ENOMEM;
	}
	t->tp.ops = &ofi_ops;
	t->tp.timeout_ns = config->timeout_ns;
	t->tp.size = 1;
	t->next_key = 1;
	rc = ofi_lib_open(&t->lib, error, TP_ERROR_BYTES);
	if (!rc)
		rc = choose(t->lib, config, &t->info, error);
	if (!rc)
		rc = check_tags(t, error);
	if (rc) {
		ofi_close(&t->tp);
		return rc;
	}
	describe(t);
	/* shm lets peers read this process's memory directly (one copy instead of two); the Yama
	 * security module wants to be told that siblings may. Without Yama this does nothing. */
	if (t->tp.shares_memory || named_by_text(t->info))
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	rc = open_objects(t, error);
	if (rc) {
		ofi_close(&t->tp);
		return rc;
	}
	*out = &t->tp;
	return 0;
}
