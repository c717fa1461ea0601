/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a network plugin as hosts do and moves prime numbers of messages by it, in a thread of its own; prints
 * what a trace must hold: lines "NAME COUNT".
 *
 *     ofi_host wrapper|net PLUGIN PROVIDER
 */
#include "tests/traced/ofi_shapes.h"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 29, BYTES = 4099 };
static char from[BYTES], to[BYTES];

#define CHECK(call)                                                                                \
	do {                                                                                       \
		long ret_ = (long)(call);                                                          \
		if (ret_) {                                                                        \
			(void)fprintf(stderr, "%s: %ld\n", #call, ret_);                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void *open_plugin(const char *path, int how)
{
	void *plugin = dlopen(path, how);

	if (!plugin) {
		(void)fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return plugin;
}

static void unavailable(const char *provider)
{
	(void)printf("provider %s is not to be had here\n", provider);
	exit(77);
}

/* --- a wrapper --------------------------------------------------------------------------------------- */

static struct wrapper w;
static struct fid_cq *cq;
static struct fid_ep *ep;
static fi_addr_t self;

static void wrapper_until(int *count, int until)
{
	struct fi_cq_tagged_entry entry;

	while (*count < until) {
		ssize_t had = w.cq_read(cq, &entry, 1);

		if (had < 0 && had != -FI_EAGAIN)
			exit(1);
		*count += had > 0;
	}
}

static void wrapper_messages(struct fid_mr *mr_from, struct fid_mr *mr_to)
{
	static struct fi_context2 contexts[2 * MESSAGES];
	struct fi_cq_tagged_entry entry;
	int completions = 0;
	ssize_t ret;

	for (int i = 0; i < MESSAGES; i++) {
		from[0] = from[BYTES - 1] = (char)(i + 1);
		CHECK(w.trecv(ep, to, BYTES, w.mr_desc(mr_to), self, (uint64_t)i,
			      &contexts[2 * i]));
		while ((ret = w.tsend(ep, from, BYTES, w.mr_desc(mr_from), self, (uint64_t)i,
				      &contexts[2 * i + 1])) == -FI_EAGAIN)
			completions += w.cq_read(cq, &entry, 1) > 0;
		CHECK(ret);
		wrapper_until(&completions, 2 * (i + 1));
		CHECK(to[0] != (char)(i + 1) || to[BYTES - 1] != (char)(i + 1));
	}
}

static struct fid_mr *wrapper_reg(struct fid_domain *domain, void *buf, uint64_t key)
{
	struct iovec iov = {buf, BYTES};
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV, .requested_key = key};
	struct fid_mr *mr;

	CHECK(w.mr_regattr(domain, &attr, &mr));
	return mr;
}

static void by_wrapper(const char *path, const char *provider)
{
	void *plugin = open_plugin(path, RTLD_LAZY);
	int (*create)(struct wrapper *) = NULL;
	double (*version)(void) = NULL;
	struct fi_info *hints, *info = NULL;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_mr *mr_from, *mr_to;
	char name[256];
	size_t bytes = sizeof(name);

	*(void **)&create = dlsym(plugin, "create_plugin_handle");
	*(void **)&version = dlsym(plugin, "get_version");
	CHECK(!create || !version || version() < 1 || create(&w));
	hints = w.allocinfo();
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (w.getinfo(FI_VERSION(1, 9), hints, &info))
		unavailable(provider);
	w.freeinfo(hints);
	CHECK(w.fabric(info->fabric_attr, &fabric));
	CHECK(w.domain(fabric, info, &domain));
	CHECK(w.cq_open(domain, &cq_attr, &cq));
	CHECK(w.av_open(domain, &av_attr, &av));
	CHECK(w.endpoint(domain, info, &ep));
	CHECK(w.ep_bind(ep, &av->fid, 0));
	CHECK(w.ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(w.enable(ep));
	CHECK(w.getname(&ep->fid, name, &bytes));
	CHECK(w.av_insert(av, name, 1, &self) != 1);
	w.freeinfo(info);
	mr_from = wrapper_reg(domain, from, 1);
	mr_to = wrapper_reg(domain, to, 2);
	wrapper_messages(mr_from, mr_to);
	CHECK(w.close(&mr_from->fid));
	CHECK(w.close(&mr_to->fid));
	CHECK(w.close(&ep->fid));
	CHECK(w.close(&av->fid));
	CHECK(w.close(&cq->fid));
	CHECK(w.close(&domain->fid));
	CHECK(w.close(&fabric->fid));
}

/* --- a net plugin -------------------------------------------------------------------------------------- */

static void net_wait(const struct net *net, void *request)
{
	int done = 0;

	while (!done)
		CHECK(net->test(request, &done));
}

static void by_net(const char *path, const char *provider)
{
	const struct net *net = dlsym(open_plugin(path, RTLD_NOW | RTLD_LOCAL), "net_plugin_v8");
	void *mr_from, *mr_to;
	int ret;

	CHECK(!net);
	ret = net->init(provider);
	if (ret == 77)
		unavailable(provider);
	CHECK(ret);
	CHECK(net->reg(from, BYTES, &mr_from));
	CHECK(net->reg(to, BYTES, &mr_to));
	for (int i = 0; i < MESSAGES; i++) {
		void *sent = NULL, *received = NULL;
		int none;

		from[0] = from[BYTES - 1] = (char)(i + 1);
		CHECK(net->irecv(to, BYTES, (uint64_t)i, mr_to, &received));
		CHECK(!received);
		while (!sent) {
			CHECK(net->isend(from, BYTES, (uint64_t)i, mr_from, &sent));
			CHECK(net->test(NULL, &none));
		}
		net_wait(net, sent);
		net_wait(net, received);
		CHECK(to[0] != (char)(i + 1) || to[BYTES - 1] != (char)(i + 1));
	}
	CHECK(net->dereg(mr_from));
	CHECK(net->dereg(mr_to));
	CHECK(net->close());
}

static void *proxy(void *argv)
{
	char **words = argv;

	(strcmp(words[1], "net") == 0 ? by_net : by_wrapper)(words[2], words[3]);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 4)
		return 64;
	if (pthread_create(&thread, NULL, proxy, argv))
		return 1;
	(void)pthread_join(thread, NULL);
	(void)printf("tsend %d\ntrecv %d\ncompletion %d\nregistration 2\nclosed 2\n", MESSAGES,
		     MESSAGES, 2 * MESSAGES);
	return 0;
}
