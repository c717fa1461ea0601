/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks learn who they are and meet: launchers' variables, exchanges, strangers, ranks that
 * die, give up or hang. Ranks other than 0 are real processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/guard.h"
#include "collectives/launch.h"
#include "collectives/rendezvous.h"
#include "collectives/transport.h"

#define RANKS   3
#define SECONDS INT64_C(1000000000)

/* --- launchers ------------------------------------------------------------------------------ */

static void clear(void)
{
	static const char *const names[] = {
		"RANK",
		"WORLD_SIZE",
		"LOCAL_RANK",
		"LOCAL_WORLD_SIZE",
		"MASTER_ADDR",
		"MASTER_PORT",
		"OMPI_COMM_WORLD_RANK",
		"OMPI_COMM_WORLD_SIZE",
		"OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE",
		"PMI_RANK",
		"PMI_SIZE",
		"MPI_LOCALRANKID",
		"MPI_LOCALNRANKS",
		"PMI_PORT",
		"PMIX_RANK",
		"PMIX_NAMESPACE",
		"SLURM_PROCID",
		"SLURM_STEP_NUM_TASKS",
		"SLURM_LOCALID",
		"SLURM_JOB_ID",
		"SLURM_STEP_NODELIST",
		"SLURM_JOB_NODELIST",
		"TORCHELASTIC_USE_AGENT_STORE",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

/* Sets NAME=VALUE pairs, up to a NULL. */
static void set(const char *pair, ...)
{
	va_list ap;

	clear();
	va_start(ap, pair);
	for (; pair; pair = va_arg(ap, const char *)) {
		char *copy = strdup(pair);
		char *eq = strchr(copy, '=');

		*eq = 0;
		setenv(copy, eq + 1, 1);
		free(copy);
	}
	va_end(ap);
}

static void test_launchers(void **state)
{
	char error[LAUNCH_ERROR_BYTES];
	struct launch l;
	int port;

	(void)state;
	clear();
	assert_int_equal(launch_from_environment(&l, 0, error), -ENOENT);

	set("RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=h0",
	    "MASTER_PORT=1234", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", (char *)NULL);
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_string_equal(l.source, "torchrun");
	assert_int_equal(l.rank, 3);
	assert_int_equal(l.size, 8);
	assert_int_equal(l.local_rank, 1);
	assert_string_equal(l.host, "h0");
	assert_int_equal(l.port, 1234);
	assert_int_equal(launch_from_environment(&l, 77, error), 0);
	assert_int_equal(l.port, 77);
	setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1); /* the agent has 1234 */
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_int_equal(l.port, 1235);

	set("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
	    "PMIX_NAMESPACE=job7", (char *)NULL);
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_string_equal(l.source, "Open MPI");
	assert_string_equal(l.host, "127.0.0.1");
	port = l.port;
	setenv("PMIX_NAMESPACE", "job8", 1);
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_int_not_equal(l.port, port);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1); /* two hosts: where is rank 0? */
	assert_int_equal(launch_from_environment(&l, 0, error), -EINVAL);
	assert_non_null(strstr(error, "MASTER_ADDR"));

	set("PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", (char *)NULL);
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_string_equal(l.source, "PMI");

	set("SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=6", "SLURM_JOB_ID=99",
	    "SLURM_STEP_NODELIST=node[07-09,12],other", (char *)NULL);
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_string_equal(l.source, "Slurm");
	assert_string_equal(l.host, "node07");
	setenv("SLURM_STEP_NODELIST", "alpha,beta", 1);
	assert_int_equal(launch_from_environment(&l, 0, error), 0);
	assert_string_equal(l.host, "alpha");

	set("RANK=2", "WORLD_SIZE=2", "MASTER_ADDR=h", (char *)NULL);
	assert_int_equal(launch_from_environment(&l, 0, error), -EINVAL);
	assert_non_null(strstr(error, "RANK=2"));
	setenv("RANK", "1x", 1);
	assert_int_equal(launch_from_environment(&l, 0, error), -EINVAL);
	assert_non_null(strstr(error, "RANK=1x"));
	clear();
}

/* --- meeting -------------------------------------------------------------------------------- */

static int listen_somewhere(struct launch *l)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(addr);

	launch_alone(l);
	l->size = RANKS;
	l->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(l->listen_fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(l->listen_fd, 8), 0);
	assert_int_equal(getsockname(l->listen_fd, (struct sockaddr *)&addr, &len), 0);
	l->port = ntohs(addr.sin_port);
	return l->port;
}

typedef int rank_fn(struct rendezvous *rdv, int rank);

/* Starts ranks 1 and up; each runs fn and exits with what it returns. */
static void start(const struct launch *root, pid_t *pids, rank_fn *fn)
{
	for (int i = 1; i < RANKS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct launch l = *root;
			struct rendezvous *rdv;
			char error[RDV_ERROR_BYTES];

			l.rank = i;
			l.listen_fd = -1;
			close(root->listen_fd);
			if (rdv_open(&l, 20 * SECONDS, &rdv, error)) {
				fprintf(stderr, "rank %d: %s\n", i, error);
				_exit(99);
			}
			_exit(fn(rdv, i));
		}
	}
}

static void finish(pid_t *pids, int want1, int want2)
{
	int status;

	assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
	assert_int_equal(WEXITSTATUS(status), want1);
	assert_int_equal(waitpid(pids[2], &status, 0), pids[2]);
	assert_int_equal(WEXITSTATUS(status), want2);
}

static struct rendezvous *meet(struct launch *l)
{
	struct rendezvous *rdv;
	char error[RDV_ERROR_BYTES];

	if (rdv_open(l, 20 * SECONDS, &rdv, error))
		fail_msg("%s", error);
	return rdv;
}

/* Some exchanges of different sizes; 0 when all came in the right order. */
static int exchange(struct rendezvous *rdv, int rank)
{
	for (size_t bytes = 1; bytes <= RDV_BLOCK_BYTES; bytes = bytes * 4) {
		char mine[RDV_BLOCK_BYTES], all[RANKS * RDV_BLOCK_BYTES];

		memset(mine, 'a' + rank, bytes);
		if (rdv_allgather(rdv, mine, bytes, all, NULL, NULL))
			return 1;
		for (size_t i = 0; i < bytes * RANKS; i++) {
			if (all[i] != 'a' + (int)(i / bytes))
				return 2;
		}
	}
	rdv_close(rdv);
	return 0;
}

static void test_exchange(void **state)
{
	struct launch l;
	pid_t pids[RANKS];

	(void)state;
	listen_somewhere(&l);
	start(&l, pids, exchange);
	assert_int_equal(exchange(meet(&l), 0), 0);
	finish(pids, 0, 0);
}

/* Whoever connects without being a rank of the job neither hurts nor counts. */
static void test_strangers(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	struct launch l;
	pid_t pids[RANKS];
	int noisy, hasty;

	(void)state;
	addr.sin_port = htons((uint16_t)listen_somewhere(&l));
	noisy = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(noisy, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(send(noisy, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
	hasty = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(hasty, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(hasty);
	start(&l, pids, exchange);
	assert_int_equal(exchange(meet(&l), 0), 0);
	finish(pids, 0, 0);
	close(noisy);
}

/* Waits for bad news; 0 when they have the words. */
static int wait_news(struct rendezvous *rdv, const char *words)
{
	int64_t deadline = tp_now_ns() + 20 * SECONDS;

	while (!rdv_check(rdv)) {
		if (tp_now_ns() > deadline)
			return 3;
		usleep(1000);
	}
	return strstr(rdv_error(rdv), words) ? 0 : 4;
}

static int die_or_wait(struct rendezvous *rdv, int rank)
{
	char byte = 0, all[RANKS];

	if (rdv_allgather(rdv, &byte, 1, all, NULL, NULL)) /* everybody is there */
		return 9;
	return rank == 1 ? 7 : wait_news(rdv, "rank 1 (pid ");
}

static void test_death(void **state)
{
	struct launch l;
	struct rendezvous *rdv;
	pid_t pids[RANKS];

	(void)state;
	listen_somewhere(&l);
	start(&l, pids, die_or_wait);
	rdv = meet(&l);
	assert_int_equal(die_or_wait(rdv, 0), 0);
	assert_non_null(strstr(rdv_error(rdv), "ended before the others"));
	rdv_close(rdv);
	finish(pids, 7, 0);
}

static int abort_or_wait(struct rendezvous *rdv, int rank)
{
	char byte = 0, all[RANKS];

	if (rdv_allgather(rdv, &byte, 1, all, NULL, NULL)) /* everybody is there */
		return 9;
	if (rank == 1) {
		rdv_abort(rdv, "rank 1 gave up: out of paper");
		rdv_close(rdv);
		return 0;
	}
	/* News reach a rank that waits in an exchange, too. */
	if (rdv_allgather(rdv, &byte, 1, all, NULL, NULL) != -ECONNABORTED)
		return 5;
	return strstr(rdv_error(rdv), "out of paper") ? 0 : 6;
}

static void test_abort(void **state)
{
	struct launch l;
	struct rendezvous *rdv;
	pid_t pids[RANKS];

	(void)state;
	listen_somewhere(&l);
	start(&l, pids, abort_or_wait);
	rdv = meet(&l);
	assert_int_equal(abort_or_wait(rdv, 0), 0);
	rdv_close(rdv);
	finish(pids, 0, 0);
}

static int wait_for_root(struct rendezvous *rdv, int rank)
{
	(void)rank;
	return wait_news(rdv, "rank 0 (pid ");
}

static void test_root_dies(void **state)
{
	struct launch l;
	pid_t pids[RANKS], root;
	int status;

	(void)state;
	listen_somewhere(&l);
	start(&l, pids, wait_for_root);
	root = fork();
	if (root == 0) {
		meet(&l);
		_exit(0); /* without a word */
	}
	close(l.listen_fd);
	assert_int_equal(waitpid(root, &status, 0), root);
	finish(pids, 0, 0);
}

static void test_absent(void **state)
{
	struct launch l;
	struct rendezvous *rdv;
	char error[RDV_ERROR_BYTES];

	(void)state;
	listen_somewhere(&l);
	assert_int_equal(rdv_open(&l, SECONDS / 10, &rdv, error), -ETIMEDOUT);
	assert_null(rdv);
	assert_non_null(strstr(error, "2 of 3 ranks did not come"));
	assert_non_null(strstr(error, ": 1, 2"));
}

static int other_size(struct rendezvous *rdv, int rank)
{
	char mine[3] = {0}, all[RANKS * 3];

	return rdv_allgather(rdv, mine, rank == 1 ? 3 : 2, all, NULL, NULL) ? 0 : 8;
}

static void test_other_program(void **state)
{
	struct launch l;
	struct rendezvous *rdv;
	pid_t pids[RANKS];
	char mine[2] = {0}, all[RANKS * 2];

	(void)state;
	listen_somewhere(&l);
	start(&l, pids, other_size);
	rdv = meet(&l);
	assert_int_equal(rdv_allgather(rdv, mine, 2, all, NULL, NULL), -EPROTO);
	assert_non_null(strstr(rdv_error(rdv), "do not run the same program"));
	rdv_close(rdv);
	finish(pids, 0, 0);
}

/* --- the guard ------------------------------------------------------------------------------ */

static void note_stuck(void *arg)
{
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static void test_guard(void **state)
{
	int64_t deadline = tp_now_ns() + 20 * SECONDS;
	struct guard *g;
	int pair[2], stuck = 0;

	(void)state;
	/* Nobody ends: nothing happens. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	g = guard_start(pair, 1, SECONDS / 100, note_stuck, &stuck);
	assert_non_null(g);
	guard_stop(g);
	assert_int_equal(stuck, 0);
	/* The peer ends and somebody notices in time. */
	g = guard_start(pair, 1, 20 * SECONDS, note_stuck, &stuck);
	close(pair[1]);
	guard_stop(g);
	assert_int_equal(stuck, 0);
	/* It ended and nobody notices. */
	g = guard_start(pair, 1, SECONDS / 100, note_stuck, &stuck);
	while (!__atomic_load_n(&stuck, __ATOMIC_ACQUIRE) && tp_now_ns() < deadline)
		usleep(1000);
	assert_int_equal(stuck, 1);
	guard_stop(g);
	close(pair[0]);
	guard_stop(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launchers), cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_strangers), cmocka_unit_test(test_death),
		cmocka_unit_test(test_abort),     cmocka_unit_test(test_root_dies),
		cmocka_unit_test(test_absent),    cmocka_unit_test(test_other_program),
		cmocka_unit_test(test_guard),
	};

	return cmocka_run_group_tests_name("coll_rdv", tests, NULL, NULL);
}
