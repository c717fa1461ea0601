/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves device memory over hmemmock with one endpoint that talks to itself, sees that wrong registrations
 * and descriptors are refused, and prints what a trace of it must hold: lines "NAME COUNT".
 */
#include "tests/fakecuda/fake_cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define MR_DMABUF (1ull << 40)
struct dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

enum { BYTES = 1 << 16, PART = 257, TAGGED = 7, WRITES = 5, OPT_CUDA_API_PERMITTED = 10 };

#define CHECK(call)                                                                                \
	do {                                                                                       \
		long ret_ = (long)(call);                                                          \
		if (ret_ < 0) {                                                                    \
			(void)fprintf(stderr, "%s: %ld\n", #call, ret_);                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define REFUSED(call, expected)                                                                    \
	do {                                                                                       \
		long ret_ = (long)(call);                                                          \
		if (ret_ != (expected)) {                                                          \
			(void)fprintf(stderr, "%s: %ld, not %ld\n", #call, ret_,                   \
				      (long)(expected));                                           \
			exit(1);                                                                   \
		}                                                                                  \
		refused++;                                                                         \
	} while (0)

static struct {
	CUresult (*init)(unsigned int);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set_current)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*release)(CUdeviceptr);
	CUresult (*handle)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
	CUresult (*set)(CUdeviceptr, unsigned char, size_t);
	CUresult (*wait)(void);
	CUresult (*read)(void *, CUdeviceptr, size_t);
} cuda;

static void cuda_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;

	if (!library) {
		(void)puts(dlerror());
		exit(77);
	}
	*(void **)&cuda.init = dlsym(library, "cuInit");
	*(void **)&cuda.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	*(void **)&cuda.set_current = dlsym(library, "cuCtxSetCurrent");
	*(void **)&cuda.alloc = dlsym(library, "cuMemAlloc_v2");
	*(void **)&cuda.release = dlsym(library, "cuMemFree_v2");
	*(void **)&cuda.handle = dlsym(library, "cuMemGetHandleForAddressRange");
	*(void **)&cuda.set = dlsym(library, "cuMemsetD8_v2");
	*(void **)&cuda.wait = dlsym(library, "cuCtxSynchronize");
	*(void **)&cuda.read = dlsym(library, "cuMemcpyDtoH_v2");
	if (cuda.init(0) || cuda.retain(&context, 0) || cuda.set_current(context)) {
		(void)puts("no simulated device");
		exit(77);
	}
}

static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t self;
static long completions, refused, registered, closed;

static void fabric_open(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_av *av;
	char name[256];
	size_t bytes = sizeof(name);
	bool permitted = false;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_HMEM;
	hints->domain_attr->mr_mode =
		FI_MR_HMEM | FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("hmemmock");
	if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info)) {
		(void)puts("libfabric offers no hmemmock here");
		exit(77);
	}
	if (!(info->caps & FI_HMEM) || strcmp(info->fabric_attr->prov_name, "hmemmock") != 0)
		exit(1);
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	CHECK(fi_av_open(domain, &av_attr, &av, NULL));
	CHECK(fi_endpoint(domain, info, &ep, NULL));
	CHECK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, OPT_CUDA_API_PERMITTED, &permitted,
			sizeof(permitted)));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_enable(ep));
	CHECK(fi_getname(&ep->fid, name, &bytes));
	CHECK(fi_av_insert(av, name, 1, &self, 0, NULL));
	fi_freeinfo(hints);
	fi_freeinfo(info);
}

static void progress(void)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(cq, &entry, 1);

	if (ret > 0)
		completions += ret;
	else if (ret != -FI_EAGAIN)
		exit(1);
}

static void drain(long until)
{
	while (completions < until)
		progress();
}

#define POST(call)                                                                                 \
	do {                                                                                       \
		long again_;                                                                       \
		while ((again_ = (long)(call)) == -FI_EAGAIN)                                      \
			progress();                                                                \
		CHECK(again_);                                                                     \
	} while (0)

static struct fid_mr *reg(const void *at, size_t bytes, enum fi_hmem_iface iface, long expected)
{
	struct iovec iov = {(void *)(uintptr_t)at, bytes};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = FI_SEND | FI_RECV | FI_REMOTE_WRITE | FI_WRITE,
				  .requested_key = (uint64_t)(registered + 1),
				  .iface = iface};
	struct fid_mr *mr = NULL;

	if (expected)
		REFUSED(fi_mr_regattr(domain, &attr, 0, &mr), expected);
	else
		CHECK(fi_mr_regattr(domain, &attr, 0, &mr));
	registered += !expected;
	return mr;
}

static struct fid_mr *reg_dmabuf(int fd, uint64_t offset, size_t len, CUdeviceptr base,
				 long expected)
{
	struct dmabuf buffer = {fd, offset, len, (void *)(uintptr_t)base};
	struct fi_mr_attr attr = {.mr_iov = (const struct iovec *)&buffer,
				  .iov_count = 1,
				  .access = FI_SEND | FI_RECV | FI_REMOTE_WRITE | FI_WRITE,
				  .requested_key = (uint64_t)(registered + 1),
				  .iface = FI_HMEM_CUDA};
	struct fid_mr *mr = NULL;

	if (expected)
		REFUSED(fi_mr_regattr(domain, &attr, MR_DMABUF, &mr), expected);
	else
		CHECK(fi_mr_regattr(domain, &attr, MR_DMABUF, &mr));
	registered += !expected;
	return mr;
}

static void moved(CUdeviceptr at, unsigned char value)
{
	unsigned char seen[PART];

	if (cuda.read(seen, at, PART) || seen[0] != value || seen[PART - 1] != value) {
		(void)fprintf(stderr, "the data is not there\n");
		exit(1);
	}
}

int main(void)
{
	static char host[BYTES];
	CUdeviceptr a, b;
	struct fid_mr *mr_host, *mr_a, *mr_b;
	char *pa, *pb;
	int fd_a = -1, fd_b = -1;

	cuda_open();
	fabric_open();
	if (cuda.alloc(&a, BYTES) || cuda.alloc(&b, BYTES) ||
	    cuda.handle(&fd_a, a, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) ||
	    cuda.handle(&fd_b, b, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		return 1;
	pa = (char *)(uintptr_t)a;
	pb = (char *)(uintptr_t)b;

	/* Registrations that lie. */
	(void)reg(host, BYTES, FI_HMEM_CUDA, -FI_EFAULT);
	(void)reg(pa, BYTES, FI_HMEM_SYSTEM, -FI_EFAULT);
	(void)reg(pa, 1 << 30, FI_HMEM_CUDA, -FI_EFAULT);
	(void)reg_dmabuf(fd_b, 0, BYTES, a, -FI_EINVAL);
	(void)reg_dmabuf(fd_a, 4096, BYTES, a, -FI_EINVAL);
	(void)reg_dmabuf(1023, 0, BYTES, a, -FI_EBADF);

	mr_host = reg(host, BYTES, FI_HMEM_SYSTEM, 0);
	mr_a = reg(pa, BYTES, FI_HMEM_CUDA, 0);
	mr_b = reg_dmabuf(fd_b, 4096, BYTES - 4096, b, 0);
	(void)close(fd_a);
	(void)close(fd_b);

	/* Transfers with the wrong descriptor, or none. */
	REFUSED(fi_tsend(ep, pa, PART, NULL, self, 1, NULL), -FI_EINVAL);
	REFUSED(fi_tsend(ep, pa, PART, fi_mr_desc(mr_b), self, 1, NULL), -FI_EINVAL);
	REFUSED(fi_tsend(ep, host, PART, fi_mr_desc(mr_a), self, 1, NULL), -FI_EINVAL);
	REFUSED(fi_tsend(ep, pb, PART, fi_mr_desc(mr_b), self, 1, NULL),
		-FI_EINVAL); /* before it */

	for (int i = 0; i < TAGGED; i++) {
		if (cuda.set(a, (unsigned char)(i + 1), BYTES) || cuda.wait())
			return 1;
		POST(fi_trecv(ep, pb + 4096, PART, fi_mr_desc(mr_b), self, (uint64_t)i, 0, &pb));
		POST(fi_tsend(ep, pa, PART, fi_mr_desc(mr_a), self, (uint64_t)i, &pa));
		drain(2 * (i + 1));
		moved(b + 4096, (unsigned char)(i + 1));
	}
	for (int i = 0; i < WRITES; i++) {
		memset(host, 100 + i, PART);
		POST(fi_write(ep, host, PART, fi_mr_desc(mr_host), self, (uint64_t)(uintptr_t)pa,
			      fi_mr_key(mr_a), &host));
		drain(2 * TAGGED + i + 1);
		moved(a, (unsigned char)(100 + i));
	}
	CHECK(fi_close(&mr_host->fid));
	CHECK(fi_close(&mr_a->fid));
	CHECK(fi_close(&mr_b->fid));
	closed = 3;
	CHECK(fi_close(&ep->fid));
	if (cuda.release(a) || cuda.release(b))
		return 1;
	(void)printf(
		"tsend %d\ntrecv %d\nwrite %d\ncompletion %ld\nregistration %ld\nclosed %ld\nrefused %ld\n",
		TAGGED, TAGGED, WRITES, completions, registered, closed, refused);
	return 0;
}
