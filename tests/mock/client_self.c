/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and closes everything of a mock provider many times, in two threads at once, and sends prime numbers
 * of messages in between. Prints what a trace of it must hold: lines "NAME COUNT".
 *
 *     mock_self PROVIDER
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum { THREADS = 2, DOMAINS = 11, ENDPOINTS = 3, MESSAGES = 13 };

#define CHECK(call)                                                                                \
	do {                                                                                       \
		long ret_ = (long)(call);                                                          \
		if (ret_ < 0) {                                                                    \
			(void)fprintf(stderr, "%s: %ld\n", #call, ret_);                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct fi_info *info;
static struct fid_fabric *fabric;

static void drain(struct fid_cq *cq, long want)
{
	struct fi_cq_tagged_entry entries[4];

	while (want) {
		ssize_t ret = fi_cq_read(cq, entries, 4);

		if (ret > 0)
			want -= ret;
		else if (ret != -FI_EAGAIN)
			exit(1);
	}
	for (int i = 0; i < 100; i++)
		if (fi_cq_read(cq, entries, 4) != -FI_EAGAIN)
			exit(1);
}

static void endpoint(struct fid_domain *domain, struct fid_cq *cq, struct fid_cntr *cntr)
{
	struct fid_ep *ep;
	struct fi_cq_tagged_entry entry;
	char to[8], from[8] = "message";
	int option = 1;

	CHECK(fi_endpoint(domain, info, &ep, NULL));
	if (fi_cq_read(cq, &entry, 1) !=
	    -FI_EAGAIN) /* before it is bound, where the queue is new */
		exit(1);
	CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	if (fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 0, &option, sizeof(option)) != -FI_ENOPROTOOPT)
		exit(1);
	CHECK(fi_ep_bind(ep, &cntr->fid, FI_SEND));
	CHECK(fi_enable(ep));
	for (int i = 0; i < MESSAGES; i++) {
		memset(to, 0, sizeof(to));
		CHECK(fi_recv(ep, to, sizeof(to), NULL, FI_ADDR_UNSPEC, to));
		CHECK(fi_send(ep, from, sizeof(from), NULL, FI_ADDR_UNSPEC, from));
		drain(cq, 2);
		if (strcmp(to, from) != 0)
			exit(1);
	}
	CHECK(fi_close(&ep->fid));
}

static void *work(void *unused)
{
	for (int d = 0; d < DOMAINS; d++) {
		struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
		struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
		struct fid_domain *domain;
		struct fid_cntr *cntr;
		struct fid_cq *cq;

		CHECK(fi_domain(fabric, info, &domain, NULL));
		CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
		CHECK(fi_cntr_open(domain, &cntr_attr, &cntr, NULL));
		for (int e = 0; e < ENDPOINTS; e++)
			endpoint(domain, cq, cntr);
		if (fi_cntr_read(cntr) != (uint64_t)ENDPOINTS * MESSAGES)
			exit(1);
		CHECK(fi_close(&cq->fid));
		CHECK(fi_close(&cntr->fid));
		CHECK(fi_close(&domain->fid));
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();
	long each = (long)THREADS * DOMAINS * ENDPOINTS * MESSAGES;
	pthread_t threads[THREADS];

	if (argc != 2)
		return 64;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG;
	hints->fabric_attr->prov_name = strdup(argv[1]);
	if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info)) {
		(void)printf("libfabric offers no %s here\n", argv[1]);
		return 77;
	}
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	CHECK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	(void)printf("send %ld\nrecv %ld\ncompletion %ld\nregistration 0\nclosed 0\n", each, each,
		     2 * each);
	return 0;
}
