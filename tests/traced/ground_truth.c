/* SPDX-License-Identifier: Apache-2.0
 *
 * A job whose report is known: steps (NVTX ranges) with synchronizations, registrations of memory by
 * chance, copies that are sent or not and receives that are copied to the device or not. Prints what the
 * report must say, one JSON object.
 *
 *     ground_truth PROVIDER SEED
 */
#include "tests/fakecuda/fake_cuda.h"
#include "kernels/nvtx/nvtx.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(long status, const char *call)
{
	if (status >= 0)
		return;
	(void)fprintf(stderr, "%s: %ld\n", call, status);
	exit(1);
}
#define CHECK(call) check((long)(call), #call)
#define MUST(call)  check(-(long)(call), #call)

/* What the report tells apart: by the line it stands in, its function and the line of its caller. */
enum place { COPY_OUT, COPY_IN, WAIT, BUFFER, CHURN, PLACES };
static struct {
	const char *call, *function;
	int line, from_line;
	long count;
} places[PLACES] = {{"cuMemcpyDtoH_v2", "step", 0, 0, 0},
		    {"cuMemcpyHtoD_v2", "step", 0, 0, 0},
		    {"cuStreamSynchronize", "step", 0, 0, 0},
		    {"fi_mr_reg", "open_all", 0, 0, 0},
		    {"fi_mr_reg", "churn", 0, 0, 0}};
#define AT(place) (places[place].count++, places[place].line = __LINE__)

enum { STEPS = 31, SLOTS = 8, BYTES = 8192, PIECE = 1024, REGISTRATIONS = 211 };

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t self;
static long completions;
static struct fi_context2 contexts[2];

static CUstream stream;
static CUdeviceptr device;
static char host[SLOTS][BYTES] __attribute__((aligned(4096)));
static struct fid_mr *host_mr;

static unsigned long random_state;
static unsigned below(unsigned limit)
{
	random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
	return (unsigned)((random_state >> 33) % limit);
}

static struct fi_info *choose(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) != 0) {
		(void)printf("provider %s is not to be had here\n", provider);
		exit(77);
	}
	fi_freeinfo(hints);
	return info;
}

static void open_all(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	CUcontext context;
	char name[256];
	size_t length = sizeof(name);

	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	CHECK(fi_av_open(domain, &av_attr, &av, NULL));
	CHECK(fi_endpoint(domain, info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(ep));
	CHECK(fi_getname(&ep->fid, name, &length));
	CHECK(fi_av_insert(av, name, 1, &self, 0, NULL) == 1 ? 0 : -1);
	AT(BUFFER), CHECK(fi_mr_reg(domain, host, sizeof(host), FI_SEND | FI_RECV, 0, 1, 0,
				    &host_mr, NULL));
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc_v2(&device, BYTES));
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

/* --- transfers: what each piece of host memory holds is known --------------------------------- */

enum holds { NOTHING, FROM_DEVICE, FROM_NETWORK };

static enum holds holds[SLOTS];
static bool sent[SLOTS]; /* since the copy that filled it */
static long sends, out_transfers, out_copies, in_copies, waits;

/* A message to ourselves: from one slot into another. */
static void exchange(unsigned from, unsigned to)
{
	void *desc = fi_mr_desc(host_mr);
	ssize_t posted;

	while ((posted = fi_trecv(ep, host[to], PIECE, desc, self, 5, 0, &contexts[0])) ==
	       -FI_EAGAIN)
		(void)fi_cq_read(cq, NULL, 0);
	CHECK(posted);
	while ((posted = fi_tsend(ep, host[from], PIECE, desc, self, 5, &contexts[1])) ==
	       -FI_EAGAIN)
		(void)fi_cq_read(cq, NULL, 0);
	CHECK(posted);
	drain(completions + 2);
	sends++;
	if (holds[from] == FROM_DEVICE) {
		out_transfers++;
		out_copies += !sent[from];
		sent[from] = true;
	}
	holds[to] = FROM_NETWORK;
}

static void step(void)
{
	unsigned calls = below(7);

	nvtx_push("step");
	for (unsigned i = 0; i < calls; i++) {
		unsigned slot = below(SLOTS), other = (slot + 1 + below(SLOTS - 1)) % SLOTS;

		switch (below(4)) {
		case 0:
			AT(COPY_OUT), MUST(cuMemcpyDtoH_v2(host[slot], device, PIECE));
			waits++;
			holds[slot] = FROM_DEVICE;
			sent[slot] = false;
			break;
		case 1:
			AT(COPY_IN), MUST(cuMemcpyHtoD_v2(device, host[slot], PIECE));
			waits++;
			in_copies += holds[slot] == FROM_NETWORK;
			if (holds[slot] == FROM_NETWORK)
				holds[slot] = NOTHING;
			break;
		case 2:
			exchange(slot, other);
			break;
		default:
			AT(WAIT), MUST(cuStreamSynchronize(stream));
			waits++;
		}
	}
	nvtx_pop();
}

/* --- registrations ----------------------------------------------------------------------------- */

/* [page, pages] of each, in order. */
static void churn(void)
{
	static char memory[64 * 4096] __attribute__((aligned(4096)));
	struct fid_mr *mr;

	(void)printf(" \"registered\": [");
	for (int i = 0; i < REGISTRATIONS; i++) {
		unsigned page = below(below(60) + 1), pages = 1 + page % 4;

		void *at = memory + 4096 * (size_t)page;
		size_t bytes = 4096 * (size_t)pages;

		AT(CHURN), CHECK(fi_mr_reg(domain, at, bytes, FI_SEND, 0, 100 + (uint64_t)i, 0, &mr,
					   NULL));
		CHECK(fi_close(&mr->fid));
		(void)printf("%s[%u, %u]", i ? ", " : "", page, pages);
	}
	(void)printf("],\n");
}

int main(int argc, char **argv)
{
	struct fi_info *info = choose(argc > 1 ? argv[1] : "shm");
	long worst = 0, waits_each[STEPS];

	random_state = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	places[BUFFER].from_line = __LINE__ + 1;
	open_all(info);
	(void)printf("{\n");
	places[CHURN].from_line = __LINE__ + 1;
	churn();
	for (int i = 0; i < STEPS; i++) {
		long before = waits;

		places[COPY_OUT].from_line = places[COPY_IN].from_line = places[WAIT].from_line =
			__LINE__ + 1;
		step();
		waits_each[i] = waits - before;
		worst = waits_each[i] > worst ? waits_each[i] : worst;
	}
	(void)printf(" \"provider\": \"%s\", \"self\": %llu,\n", info->fabric_attr->prov_name,
		     (unsigned long long)self);
	(void)printf(" \"places\": [");
	for (int i = 0; i < PLACES; i++)
		(void)printf(
			"%s\n  {\"call\": \"%s\", \"function\": \"%s\", \"line\": %d, \"from_line\": %d, "
			"\"count\": %ld}",
			i ? "," : "", places[i].call, places[i].function, places[i].line,
			places[i].from_line, places[i].count);
	(void)printf("],\n \"waits_each\": [");
	for (int i = 0; i < STEPS; i++)
		(void)printf("%s%ld", i ? ", " : "", waits_each[i]);
	(void)printf("],\n");
	(void)printf(" \"steps\": %d, \"waits\": %ld, \"waits_worst\": %ld,\n", STEPS, waits,
		     worst);
	(void)printf(" \"sends\": %ld, \"piece\": %d, \"out_transfers\": %ld, \"out_copies\": %ld, "
		     "\"in_copies\": %ld\n}\n",
		     sends, PIECE, out_transfers, out_copies, in_copies);
	CHECK(fi_close(&host_mr->fid));
	CHECK(fi_close(&ep->fid));
	CHECK(fi_close(&av->fid));
	CHECK(fi_close(&cq->fid));
	CHECK(fi_close(&domain->fid));
	CHECK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	return 0;
}
