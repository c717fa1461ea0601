/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of guard.h. */
#include "collectives/guard.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct guard {
	pthread_t thread;
	int stop; /* eventfd */
	int n;
	int64_t grace_ns;
	void (*stuck)(void *arg);
	void *arg;
	struct pollfd fds[]; /* the sockets, then `stop` */
};

static void *guard_main(void *arg)
{
	struct guard *g = arg;
	struct pollfd stop = {.fd = g->stop, .events = POLLIN};

	while (poll(g->fds, (nfds_t)g->n + 1, -1) < 0)
		; /* interrupted */
	if (g->fds[g->n].revents)
		return NULL;
	if (poll(&stop, 1, (int)(g->grace_ns / 1000000)) == 0)
		g->stuck(g->arg);
	return NULL;
}

struct guard *guard_start(const int *sockets, int n, int64_t grace_ns, void (*stuck)(void *arg),
			  void *arg)
{
	struct guard *g = calloc(1, sizeof(*g) + ((size_t)n + 1) * sizeof(g->fds[0]));
	sigset_t all, before;
	int rc;

	if (!g)
		return NULL;
	*g = (struct guard){.n = n, .grace_ns = grace_ns, .stuck = stuck, .arg = arg};
	/* POLLRDHUP: the peer has closed, whatever is still unread. */
	for (int i = 0; i < n; i++)
		g->fds[i] = (struct pollfd){.fd = sockets[i], .events = POLLRDHUP};
	g->stop = eventfd(0, EFD_CLOEXEC);
	g->fds[n] = (struct pollfd){.fd = g->stop, .events = POLLIN};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
	rc = g->stop < 0 ? -1 : pthread_create(&g->thread, NULL, guard_main, g);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		return g;
	if (g->stop >= 0)
		close(g->stop);
	free(g);
	return NULL;
}

void guard_stop(struct guard *g)
{
	if (!g)
		return;
	eventfd_write(g->stop, 1);
	pthread_join(g->thread, NULL);
	close(g->stop);
	free(g);
}
