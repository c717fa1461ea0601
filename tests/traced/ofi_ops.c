/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes prime numbers of libfabric calls on one endpoint that talks to itself, and prints what a trace of
 * it must hold: lines "KIND COUNT BYTES". Built twice: linked to libfabric, and (OFI_BY_DLSYM) finding it
 * with dlopen and dlsym as plugins do.
 *
 *     ofi_ops PROVIDER
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		long ret_ = (long)(call);                                                          \
		if (ret_ < 0) {                                                                    \
			(void)fprintf(stderr, "%s: %ld\n", #call, ret_);                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { TAGGED = 13, UNTAGGED = 7, INJECTED = 5, WRITTEN = 11, REGISTERED = 17, BYTES = 257 };

static struct {
	__typeof__(&fi_getinfo) getinfo;
	__typeof__(&fi_fabric) fabric;
	__typeof__(&fi_dupinfo) dupinfo;
	__typeof__(&fi_freeinfo) freeinfo;
} fabric_api;

static void find_api(void)
{
#ifdef OFI_BY_DLSYM
	void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		(void)fprintf(stderr, "%s\n", dlerror());
		exit(77);
	}
	*(void **)&fabric_api.getinfo = dlsym(library, "fi_getinfo");
	*(void **)&fabric_api.fabric = dlsym(library, "fi_fabric");
	*(void **)&fabric_api.dupinfo = dlsym(library, "fi_dupinfo");
	*(void **)&fabric_api.freeinfo = dlsym(library, "fi_freeinfo");
#else
	fabric_api.getinfo = fi_getinfo;
	fabric_api.fabric = fi_fabric;
	fabric_api.dupinfo = fi_dupinfo;
	fabric_api.freeinfo = fi_freeinfo;
#endif
}

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t self;
static long completions;

static struct fi_info *choose(const char *provider)
{
	struct fi_info *hints = fabric_api.dupinfo(NULL), *info = NULL;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fabric_api.getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) != 0) {
		(void)printf("provider %s is not to be had here\n", provider);
		exit(77);
	}
	fabric_api.freeinfo(hints);
	return info;
}

static void open_all(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	char name[256];
	size_t length = sizeof(name);

	CHECK(fabric_api.fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	CHECK(fi_av_open(domain, &av_attr, &av, NULL));
	CHECK(fi_endpoint(domain, info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(ep));
	CHECK(fi_getname(&ep->fid, name, &length));
	CHECK(fi_av_insert(av, name, 1, &self, 0, NULL) == 1 ? 0 : -1);
}

static void drain(long until)
{
	struct fi_cq_tagged_entry entries[8];
	time_t limit = time(NULL) + 30;

	while (completions < until) {
		ssize_t got = fi_cq_read(cq, entries, 8);

		if (got > 0)
			completions += got;
		else if (got != -FI_EAGAIN || time(NULL) > limit) {
			(void)fprintf(stderr, "fi_cq_read: %zd after %ld of %ld\n", got,
				      completions, until);
			exit(1);
		}
	}
}

/* The endpoint makes progress only in fi_cq_read, so a post that cannot go yet polls. */
#define POST(call)                                                                                 \
	do {                                                                                       \
		ssize_t posted_;                                                                   \
		while ((posted_ = (call)) == -FI_EAGAIN)                                           \
			(void)fi_cq_read(cq, NULL, 0);                                             \
		CHECK(posted_);                                                                    \
	} while (0)

static char source[BYTES], target[BYTES];
static struct fi_context2 contexts[64];
static struct fid_mr *source_mr, *target_mr;

static void messages(void)
{
	void *source_desc = fi_mr_desc(source_mr), *target_desc = fi_mr_desc(target_mr);
	long done = completions;
	struct iovec iov = {.iov_base = source, .iov_len = BYTES};
	struct fi_msg_tagged msg = {.msg_iov = &iov,
				    .desc = &source_desc,
				    .iov_count = 1,
				    .addr = self,
				    .tag = 5,
				    .context = &contexts[2]};

	for (int i = 0; i < TAGGED; i++) {
		POST(fi_trecv(ep, target, BYTES, target_desc, self, 5, 0, &contexts[0]));
		if (i % 2)
			POST(fi_tsend(ep, source, BYTES, source_desc, self, 5, &contexts[1]));
		else
			POST(fi_tsendmsg(ep, &msg, FI_COMPLETION));
		drain(done += 2);
	}
	for (int i = 0; i < UNTAGGED; i++) {
		POST(fi_recv(ep, target, BYTES, target_desc, self, &contexts[0]));
		POST(fi_send(ep, source, BYTES, source_desc, self, &contexts[1]));
		drain(done += 2);
	}
	for (int i = 0; i < INJECTED; i++) {
		POST(fi_recv(ep, target, BYTES, target_desc, self, &contexts[0]));
		POST(fi_inject(ep, source, 32, self));
		drain(done += 1);
	}
}

static void remote(const struct fi_info *info)
{
	bool virtual_address = (info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)) != 0;
	uint64_t address = virtual_address ? (uintptr_t)target : 0;
	long done = completions;

	for (int i = 0; i < WRITTEN; i++) {
		POST(fi_write(ep, source, BYTES, fi_mr_desc(source_mr), self, address,
			      fi_mr_key(target_mr), &contexts[3]));
		drain(done += 1);
	}
}

static struct fid_mr *register_one(int i, void *memory, size_t bytes, uint64_t access)
{
	struct iovec iov = {.iov_base = memory, .iov_len = bytes};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = access,
				  .requested_key = 1000 + (uint64_t)i};
	struct fid_mr *mr;

	if (i % 3 == 0)
		CHECK(fi_mr_reg(domain, memory, bytes, access, 0, attr.requested_key, 0, &mr,
				NULL));
	else if (i % 3 == 1)
		CHECK(fi_mr_regv(domain, &iov, 1, access, 0, attr.requested_key, 0, &mr, NULL));
	else
		CHECK(fi_mr_regattr(domain, &attr, 0, &mr));
	return mr;
}

static void churn(void)
{
	static char memory[1 << 16];

	for (int i = 0; i < REGISTERED; i++)
		CHECK(fi_close(&register_one(10 + i, memory, sizeof(memory), FI_SEND)->fid));
}

int main(int argc, char **argv)
{
	uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct fi_info *info;

	find_api();
	info = choose(argc > 1 ? argv[1] : "shm");
	open_all(info);
	source_mr = register_one(0, source, BYTES, access);
	target_mr = register_one(1, target, BYTES, access);
	messages();
	remote(info);
	churn();
	CHECK(fi_close(&source_mr->fid));
	CHECK(fi_close(&target_mr->fid));
	CHECK(fi_close(&ep->fid));
	CHECK(fi_close(&av->fid));
	CHECK(fi_close(&cq->fid));
	CHECK(fi_close(&domain->fid));
	CHECK(fi_close(&fabric->fid));
	fabric_api.freeinfo(info);
	(void)printf("tsend %d %d\ntrecv %d %d\n", TAGGED, TAGGED * BYTES, TAGGED, TAGGED * BYTES);
	(void)printf("send %d %d\n", UNTAGGED + INJECTED, UNTAGGED * BYTES + INJECTED * 32);
	(void)printf("recv %d %d\n", UNTAGGED + INJECTED, (UNTAGGED + INJECTED) * BYTES);
	(void)printf("write %d %d\n", WRITTEN, WRITTEN * BYTES);
	(void)printf("completion %ld\n", completions);
	(void)printf("registration %d %d\nclosed %d\n", REGISTERED + 2,
		     REGISTERED * (1 << 16) + 2 * BYTES, REGISTERED + 2);
	return 0;
}
