/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of several ranks, one of which may be slow: in each step every rank works, waits for its device once,
 * and then meets the others over the fabric, where all wait for the slowest. Prints what the report must say.
 *
 *     ground_straggler PROVIDER SLOW       SLOW: a rank, or -1
 *
 * Work is sleep, so that a busy machine makes no rank slow by chance. Ranks are processes that this one
 * starts; they tell each other their addresses by files in the working directory.
 */
#include "kernels/nvtx/nvtx.h"
#include "tests/fakecuda/fake_cuda.h"

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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 5, STEPS = 13, BYTES = 64, WORK_MS = 61, SLOW_MS = 37, PATIENCE_S = 60 };

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t peers[RANKS];
static struct fi_context2 contexts[2 * RANKS];
static char buffers[2 * RANKS][BYTES];
static CUstream stream;

static void check(long status, const char *call)
{
	if (status >= 0)
		return;
	(void)fprintf(stderr, "%s: %ld\n", call, status);
	exit(1);
}
#define CHECK(call) check((long)(call), #call)
#define MUST(call)  check(-(long)(call), #call)

/* NULL: the provider is not to be had. */
static struct fi_info *choose(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) != 0)
		info = NULL;
	fi_freeinfo(hints);
	return info;
}

/* --- the ranks meet --------------------------------------------------------------------------------------- */

static void nap(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void address_tell(int rank)
{
	char name[512] = {0}, path[32], temporary[32];
	size_t length = sizeof(name);
	FILE *file;

	CHECK(fi_getname(&ep->fid, name, &length));
	(void)snprintf(path, sizeof(path), "address.%d", rank);
	(void)snprintf(temporary, sizeof(temporary), "new.%d", rank);
	file = fopen(temporary, "wb");
	if (!file || fwrite(name, sizeof(name), 1, file) != 1 || fclose(file) != 0)
		check(-1, temporary);
	CHECK(rename(temporary, path));
}

static void address_learn(int rank)
{
	time_t limit = time(NULL) + PATIENCE_S;
	char name[512], path[32];
	FILE *file;

	(void)snprintf(path, sizeof(path), "address.%d", rank);
	while (!(file = fopen(path, "rb")))
		if (time(NULL) > limit)
			check(-1, path);
		else
			nap(5);
	if (fread(name, sizeof(name), 1, file) != 1)
		check(-1, path);
	(void)fclose(file);
	CHECK(fi_av_insert(av, name, 1, &peers[rank], 0, NULL) == 1 ? 0 : -1);
}

static void open_all(struct fi_info *info, int rank)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	CUcontext context;

	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	CHECK(fi_av_open(domain, &av_attr, &av, NULL));
	CHECK(fi_endpoint(domain, info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(ep));
	address_tell(rank);
	for (int i = 0; i < RANKS; i++)
		address_learn(i);
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* --- a step ----------------------------------------------------------------------------------------------- */

static int posted;

static void receive(int from)
{
	ssize_t status;

	while ((status = fi_trecv(ep, buffers[posted], BYTES, NULL, peers[from], 7, 0,
				  &contexts[posted])) == -FI_EAGAIN)
		(void)fi_cq_read(cq, NULL, 0);
	CHECK(status);
	posted++;
}

static void send_to(int to)
{
	ssize_t status;

	while ((status = fi_tsend(ep, buffers[posted], BYTES, NULL, peers[to], 7,
				  &contexts[posted])) == -FI_EAGAIN)
		(void)fi_cq_read(cq, NULL, 0);
	CHECK(status);
	posted++;
}

static void complete(void)
{
	struct fi_cq_tagged_entry entries[8];
	time_t limit = time(NULL) + PATIENCE_S;

	while (posted > 0) {
		ssize_t got = fi_cq_read(cq, entries, 8);

		if (got > 0)
			posted -= (int)got;
		else if (got != -FI_EAGAIN || time(NULL) > limit)
			check(-1, "fi_cq_read");
	}
}

/* All tell rank 0, which then tells all. */
static void meet(int rank)
{
	if (rank) {
		receive(0);
		send_to(0);
		complete();
		return;
	}
	for (int i = 1; i < RANKS; i++)
		receive(i);
	complete();
	for (int i = 1; i < RANKS; i++)
		send_to(i);
	complete();
}

static int rank_run(const char *provider, int rank, int slow, int from_line)
{
	struct fi_info *info = choose(provider);
	int wait_line = 0;

	if (!info)
		return 1;
	open_all(info, rank);
	for (int i = 0; i < STEPS; i++) {
		nvtx_push("step");
		nap(WORK_MS + (rank == slow ? SLOW_MS : 0));
		enum { WAIT_LINE_OF_STEP = __LINE__ + 1 };
		wait_line = __LINE__ + 1;
		MUST(cuStreamSynchronize(stream));
		meet(rank);
		nvtx_pop();
	}
	if (rank == 0)
		(void)printf(
			"{\"ranks\": %d, \"steps\": %d, \"bytes\": %d, \"slow\": %d, \"line\": %d, "
			"\"from_line\": %d, \"provider\": \"%s\"}\n",
			RANKS, STEPS, BYTES, slow, wait_line, from_line,
			info->fabric_attr->prov_name);
	CHECK(fi_close(&ep->fid));
	CHECK(fi_close(&av->fid));
	CHECK(fi_close(&cq->fid));
	CHECK(fi_close(&domain->fid));
	CHECK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	return 0;
}

/* --- the job ---------------------------------------------------------------------------------------------- */

static pid_t rank_start(char **argv, int rank)
{
	char number[16];
	pid_t pid = fork();

	CHECK(pid);
	if (pid)
		return pid;
	(void)snprintf(number, sizeof(number), "%d", rank);
	setenv("RANK", number, 1);
	setenv("LOCAL_RANK", number, 1);
	(void)snprintf(number, sizeof(number), "%d", RANKS);
	setenv("WORLD_SIZE", number, 1);
	(void)snprintf(number, sizeof(number), "%d", rank);
	execl("/proc/self/exe", argv[0], argv[1], argv[2], number, (char *)NULL);
	_exit(127);
}

int main(int argc, char **argv)
{
	int slow = argc > 2 ? atoi(argv[2]) : -1, failed = 0, status;
	struct fi_info *info;

	if (argc > 3)
		return rank_run(argv[1], atoi(argv[3]), slow, __LINE__);
	if (argc < 3)
		return 64;
	info = choose(argv[1]);
	if (!info) {
		(void)printf("provider %s is not to be had here\n", argv[1]);
		return 77;
	}
	fi_freeinfo(info);
	for (int rank = 0; rank < RANKS; rank++)
		(void)rank_start(argv, rank);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
