/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over TCP; see rendezvous.h. Rank 0 holds a link to every other rank, the others one to
 * rank 0. A link that ends without a BYE frame means that its process died; rank 0 passes such news
 * on to everybody else.
 */
#include "collectives/link.h"
#include "collectives/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_NS     50000000   /* between attempts to reach a rank 0 that is not there yet */
#define HELLO_NS     5000000000 /* for a stranger to say hello */
#define WAIT_TICK_MS 1

struct rendezvous {
	int rank, size;
	int64_t timeout_ns;
	struct link *links; /* by rank; rank 0 uses all but its own, the others only [0] */
	char **blocks;      /* by rank: what came for the exchange under way; others: [0] */
	size_t *block_bytes;
	int failed; /* errno, once a rank is lost */
	char error[RDV_ERROR_BYTES];
	char local[64];
};

static int fail(struct rendezvous *r, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct rendezvous *r, int err, const char *format, ...)
{
	va_list ap;

	if (!r->failed) {
		va_start(ap, format);
		vsnprintf(r->error, sizeof(r->error), format, ap);
		va_end(ap);
		r->failed = err;
	}
	return r->failed;
}

const char *rdv_error(const struct rendezvous *r)
{
	return r->error;
}

const char *rdv_local_address(const struct rendezvous *r)
{
	return r->local;
}

/* --- news ----------------------------------------------------------------------------------- */

static void tell_all(struct rendezvous *r, const char *why, int except)
{
	int64_t deadline = link_now_ns() + 1000000000;

	for (int i = 0; i < r->size; i++) {
		struct link *l = &r->links[i];

		if (l->fd >= 0 && i != except && !l->bye)
			link_send(l, FRAME_ABORT, why, strlen(why), deadline);
	}
}

static int link_lost(struct rendezvous *r, int i, int rc)
{
	struct link *l = &r->links[i];
	struct hello who = l->peer;

	link_close(l);
	if (l->bye && rc == -ECONNRESET)
		return 0;
	if (rc == -ECONNRESET || rc == -EPIPE)
		fail(r, -ECONNRESET,
		     "rank %d (pid %u on %s) ended before the others: it crashed or was ended", i,
		     who.pid, who.host);
	else
		fail(r, rc, "lost rank %d (pid %u on %s): %s", i, who.pid, who.host, strerror(-rc));
	if (r->rank == 0)
		tell_all(r, r->error, i);
	return r->failed;
}

static int take_frame(struct rendezvous *r, int i)
{
	struct link *l = &r->links[i];

	switch (l->head.kind) {
	case FRAME_DATA:
		if (r->blocks[i])
			return fail(r, -EPROTO, "rank %d speaks out of turn", i);
		r->blocks[i] = l->body;
		r->block_bytes[i] = l->head.bytes;
		l->body = NULL;
		break;
	case FRAME_ABORT:
		l->body[l->head.bytes] = 0;
		fail(r, -ECONNABORTED, "%s", l->body);
		if (r->rank == 0)
			tell_all(r, r->error, i);
		break;
	case FRAME_BYE:
		l->bye = true;
		break;
	default:
		return fail(r, -EPROTO, "rank %d sent a frame of kind %u", i, l->head.kind);
	}
	link_done(l);
	return r->failed;
}

static size_t frame_limit(const struct rendezvous *r)
{
	return (size_t)r->size * RDV_BLOCK_BYTES + RDV_ERROR_BYTES;
}

int rdv_check(struct rendezvous *r)
{
	for (int i = 0; i < r->size && !r->failed; i++) {
		struct link *l = &r->links[i];
		int rc;

		while (l->fd >= 0 && (rc = link_recv(l, frame_limit(r))) != 0) {
			if (rc < 0)
				link_lost(r, i, rc);
			else
				take_frame(r, i);
			if (r->failed)
				break;
		}
	}
	return r->failed;
}

void rdv_abort(struct rendezvous *r, const char *why)
{
	/* News from others is passed on already, where it has to be. */
	if (!r->failed)
		tell_all(r, why, -1);
	fail(r, -ECONNABORTED, "%s", why);
}

/* --- exchange ------------------------------------------------------------------------------- */

static int missing(const struct rendezvous *r)
{
	for (int i = 0; i < r->size; i++) {
		if (i != r->rank && !r->blocks[i])
			return i;
		if (r->rank != 0)
			break;
	}
	return -1;
}

/* Sleeps in poll() unless there is something to do meanwhile. */
static void wait_tick(struct rendezvous *r, int timeout_ms)
{
	struct pollfd pfd = {.fd = -1, .events = POLLIN};

	/* Rank 0 waits for many: a short tick costs less than a list of descriptors. */
	if (r->rank != 0)
		pfd.fd = r->links[0].fd;
	if (timeout_ms)
		poll(&pfd, 1, timeout_ms);
}

static int wait_blocks(struct rendezvous *r, int (*idle)(void *arg), void *arg)
{
	int64_t deadline = link_now_ns() + r->timeout_ns;
	unsigned int rounds = 0;
	int who;

	while ((who = missing(r)) >= 0) {
		int rc = rdv_check(r);

		if (!rc && idle)
			rc = idle(arg);
		if (rc)
			return rc;
		if (link_now_ns() > deadline) {
			fail(r, -ETIMEDOUT,
			     "rank %d did not come to an exchange within %.1f s (--timeout)", who,
			     (double)r->timeout_ns / 1e9);
			tell_all(r, r->error, -1);
			return r->failed;
		}
		wait_tick(r, rounds++ > 1000 || !idle ? WAIT_TICK_MS : 0);
	}
	return 0;
}

static int gather_root(struct rendezvous *r, const void *mine, size_t bytes, char *all)
{
	int64_t deadline = link_now_ns() + r->timeout_ns;

	memcpy(all, mine, bytes);
	for (int i = 1; i < r->size; i++) {
		if (r->block_bytes[i] != bytes) {
			fail(r, -EPROTO,
			     "rank %d gave %zu bytes to an exchange of %zu: the ranks do not run "
			     "the same program",
			     i, r->block_bytes[i], bytes);
			tell_all(r, r->error, -1);
			return r->failed;
		}
		memcpy(all + (size_t)i * bytes, r->blocks[i], bytes);
		free(r->blocks[i]);
		r->blocks[i] = NULL;
	}
	for (int i = 1; i < r->size; i++) {
		int rc =
			link_send(&r->links[i], FRAME_DATA, all, bytes * (size_t)r->size, deadline);

		if (rc)
			return link_lost(r, i, rc);
	}
	return 0;
}

int rdv_allgather(struct rendezvous *r, const void *mine, size_t bytes, void *all,
		  int (*idle)(void *arg), void *arg)
{
	int rc;

	if (r->failed)
		return r->failed;
	if (bytes > RDV_BLOCK_BYTES)
		return fail(r, -EMSGSIZE, "%zu bytes are too many for an exchange", bytes);
	if (r->size == 1) {
		memcpy(all, mine, bytes);
		return 0;
	}
	if (r->rank != 0) {
		rc = link_send(&r->links[0], FRAME_DATA, mine, bytes,
			       link_now_ns() + r->timeout_ns);
		if (rc) {
			rdv_check(r); /* there may be a reason to read */
			return r->failed ? r->failed : link_lost(r, 0, rc);
		}
	}
	rc = wait_blocks(r, idle, arg);
	if (rc)
		return rc;
	if (r->rank == 0)
		return gather_root(r, mine, bytes, all);
	if (r->block_bytes[0] != bytes * (size_t)r->size)
		return fail(r, -EPROTO, "rank 0 answered an exchange with %zu bytes",
			    r->block_bytes[0]);
	memcpy(all, r->blocks[0], r->block_bytes[0]);
	free(r->blocks[0]);
	r->blocks[0] = NULL;
	return 0;
}

/* --- meeting -------------------------------------------------------------------------------- */

static void fd_prepare(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void note_local_address(struct rendezvous *r, int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len) ||
	    getnameinfo((struct sockaddr *)&addr, len, r->local, sizeof(r->local), NULL, 0,
			NI_NUMERICHOST))
		r->local[0] = 0;
}

static int resolve(const struct launch *launch, struct addrinfo **out, char *error)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	char port[16];
	int rc;

	snprintf(port, sizeof(port), "%d", launch->port);
	rc = getaddrinfo(launch->host, port, &hints, out);
	if (!rc)
		return 0;
	snprintf(error, RDV_ERROR_BYTES, "cannot find rank 0's host %s (MASTER_ADDR): %s",
		 launch->host, gai_strerror(rc));
	return -EHOSTUNREACH;
}

static int listen_at(const struct launch *launch, char *error)
{
	struct addrinfo *list, *a;
	int fd = -1, err = 0, one = 1;
	int rc = resolve(launch, &list, error);

	if (rc)
		return rc;
	for (a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd < 0) {
			err = errno;
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, SOMAXCONN)) {
			err = errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	if (fd >= 0)
		return fd;
	snprintf(error, RDV_ERROR_BYTES,
		 "rank 0 cannot listen on %s port %d: %s (MASTER_ADDR must name this host; --port "
		 "or MASTER_PORT choose another port)",
		 launch->host, launch->port, strerror(err));
	return -err;
}

static struct hello hello_of(const struct rendezvous *r)
{
	struct hello h = {
		.rank = (uint32_t)r->rank, .size = (uint32_t)r->size, .pid = (uint32_t)getpid()};

	gethostname(h.host, sizeof(h.host) - 1);
	return h;
}

/* Waits for a hello on a fresh link. -ECONNABORTED with the other side's words when it sends its
 * regrets instead. */
static int recv_hello(struct link *l, struct hello *out, int64_t deadline, char *why)
{
	for (;;) {
		struct pollfd pfd = {.fd = l->fd, .events = POLLIN};
		int rc = link_recv(l, RDV_ERROR_BYTES);

		if (rc < 0)
			return rc;
		if (rc == 1) {
			rc = -EPROTO;
			if (l->head.kind == FRAME_HELLO && l->head.bytes == sizeof(*out)) {
				memcpy(out, l->body, sizeof(*out));
				out->host[sizeof(out->host) - 1] = 0;
				rc = 0;
			} else if (l->head.kind == FRAME_ABORT) {
				l->body[l->head.bytes] = 0;
				snprintf(why, RDV_ERROR_BYTES, "%s", l->body);
				rc = -ECONNABORTED;
			}
			link_done(l);
			return rc;
		}
		if (link_now_ns() > deadline)
			return -ETIMEDOUT;
		poll(&pfd, 1, 100);
	}
}

/* Takes one connection. Whoever is no rank of this job is sent away; that is no failure. */
static int accept_one(struct rendezvous *r, int listen_fd, int64_t deadline)
{
	struct link l = {.fd = accept(listen_fd, NULL, NULL)};
	struct hello mine = hello_of(r);
	int64_t hello_by = link_now_ns() + HELLO_NS;
	char why[RDV_ERROR_BYTES];

	if (l.fd < 0)
		return 0;
	fd_prepare(l.fd);
	if (recv_hello(&l, &l.peer, hello_by < deadline ? hello_by : deadline, why)) {
		link_close(&l);
		return 0;
	}
	if ((int)l.peer.size != r->size || l.peer.rank < 1 || (int)l.peer.rank >= r->size ||
	    r->links[l.peer.rank].fd >= 0) {
		fail(r, -EPROTO,
		     "a process on %s (pid %u) came as rank %u of %u, which is wrong or taken in "
		     "this job of %d",
		     l.peer.host, l.peer.pid, l.peer.rank, l.peer.size, r->size);
		link_send(&l, FRAME_ABORT, r->error, strlen(r->error), deadline);
		link_close(&l);
		return r->failed;
	}
	if (link_send(&l, FRAME_HELLO, &mine, sizeof(mine), deadline)) {
		link_close(&l);
		return 0;
	}
	if (!r->local[0])
		note_local_address(r, l.fd);
	r->links[l.peer.rank] = l;
	return 1;
}

static int report_absent(struct rendezvous *r)
{
	char list[128] = "";
	size_t n = 0;
	int absent = 0;

	for (int i = 1; i < r->size; i++) {
		if (r->links[i].fd >= 0)
			continue;
		absent++;
		if (n < sizeof(list) - 16)
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%d", n ? ", " : "", i);
	}
	return fail(r, -ETIMEDOUT, "%d of %d ranks did not come within %.1f s (--timeout): %s",
		    absent, r->size, (double)r->timeout_ns / 1e9, list);
}

/* Ranks that knock after the meeting has failed get the reason instead of a closed door. */
static void turn_away(struct rendezvous *r, int listen_fd)
{
	struct pollfd pfd = {.fd = listen_fd, .events = POLLIN};

	while (poll(&pfd, 1, 0) > 0) {
		struct link l = {.fd = accept(listen_fd, NULL, NULL)};

		if (l.fd < 0)
			return;
		link_send(&l, FRAME_ABORT, r->error, strlen(r->error), link_now_ns() + RETRY_NS);
		shutdown(l.fd, SHUT_WR);
		poll(&(struct pollfd){.fd = l.fd, .events = POLLRDHUP}, 1, 50);
		link_close(&l);
	}
}

static int meet_root(struct rendezvous *r, const struct launch *launch, char *error)
{
	int64_t deadline = link_now_ns() + r->timeout_ns;
	int fd = launch->listen_fd >= 0 ? launch->listen_fd : listen_at(launch, error);
	int here = 1;

	if (fd < 0)
		return fail(r, fd, "%s", error);
	while (here < r->size && !r->failed) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};

		if (link_now_ns() > deadline) {
			report_absent(r);
		} else if (!rdv_check(r) && poll(&pfd, 1, 50) > 0) {
			int rc = accept_one(r, fd, deadline);

			here += rc > 0;
		}
	}
	if (r->failed) {
		tell_all(r, r->error, -1);
		turn_away(r, fd);
	}
	close(fd);
	return r->failed;
}

static int connect_once(const struct addrinfo *list)
{
	int err = ECONNREFUSED;

	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);

		if (fd < 0) {
			err = errno;
			continue;
		}
		if (!connect(fd, a->ai_addr, a->ai_addrlen))
			return fd;
		err = errno;
		close(fd);
	}
	return -err;
}

static int meet_other(struct rendezvous *r, const struct launch *launch, char *error)
{
	const struct timespec retry = {.tv_nsec = RETRY_NS};
	int64_t deadline = link_now_ns() + r->timeout_ns;
	struct hello mine = hello_of(r);
	struct link *l = &r->links[0];
	struct addrinfo *list;
	int rc = resolve(launch, &list, error);

	if (rc)
		return fail(r, rc, "%s", error);
	while ((l->fd = connect_once(list)) < 0 && link_now_ns() < deadline)
		nanosleep(&retry, NULL);
	freeaddrinfo(list);
	if (l->fd < 0)
		return fail(r, l->fd, "could not reach rank 0 at %s port %d in %.1f s: %s",
			    launch->host, launch->port, (double)r->timeout_ns / 1e9,
			    strerror(-l->fd));
	fd_prepare(l->fd);
	note_local_address(r, l->fd);
	rc = link_send(l, FRAME_HELLO, &mine, sizeof(mine), deadline);
	if (!rc)
		rc = recv_hello(l, &l->peer, deadline, error);
	if (rc == -ECONNABORTED)
		return fail(r, rc, "%s", error);
	if (rc)
		return fail(r, rc, "rank 0 at %s port %d did not answer: %s", launch->host,
			    launch->port,
			    rc == -EPROTO ? "something else listens there (--port)"
					  : strerror(-rc));
	return 0;
}

int rdv_sockets(const struct rendezvous *r, int *out)
{
	int n = 0;

	for (int i = 0; i < r->size; i++) {
		if (r->links[i].fd >= 0)
			out[n++] = r->links[i].fd;
	}
	return n;
}

static void rdv_free(struct rendezvous *r)
{
	for (int i = 0; r->links && i < r->size; i++)
		link_close(&r->links[i]);
	for (int i = 0; r->blocks && i < r->size; i++)
		free(r->blocks[i]);
	free(r->links);
	free(r->blocks);
	free(r->block_bytes);
	free(r);
}

int rdv_open(const struct launch *launch, int64_t timeout_ns, struct rendezvous **out, char *error)
{
	struct rendezvous *r = calloc(1, sizeof(*r));
	size_t n = (size_t)launch->size;
	int rc = 0;

	*out = NULL;
	if (r) {
		r->rank = launch->rank;
		r->size = launch->size;
		r->timeout_ns = timeout_ns;
		r->links = calloc(n, sizeof(*r->links));
		r->blocks = calloc(n, sizeof(*r->blocks));
		r->block_bytes = calloc(n, sizeof(*r->block_bytes));
	}
	if (!r || !r->links || !r->blocks || !r->block_bytes) {
		snprintf(error, RDV_ERROR_BYTES, "no memory for %d ranks", launch->size);
		if (r)
			rdv_free(r);
		return -ENOMEM;
	}
	for (int i = 0; i < r->size; i++)
		r->links[i].fd = -1;
	if (r->size > 1)
		rc = r->rank ? meet_other(r, launch, error) : meet_root(r, launch, error);
	else
		snprintf(r->local, sizeof(r->local), "127.0.0.1");
	if (rc) {
		snprintf(error, RDV_ERROR_BYTES, "%s", r->error);
		rdv_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* Closing a socket with unread data resets the connection, and the peer might lose the last frame
 * with it; so what still comes is read first, for a short while. */
static void drain(struct rendezvous *r)
{
	int64_t deadline = link_now_ns() + 200000000;

	for (int i = 0; i < r->size; i++) {
		struct link *l = &r->links[i];
		struct pollfd pfd = {.fd = l->fd, .events = POLLIN};
		char waste[4096];

		if (l->fd < 0)
			continue;
		shutdown(l->fd, SHUT_WR);
		while (link_now_ns() < deadline && poll(&pfd, 1, 50) > 0) {
			if (recv(l->fd, waste, sizeof(waste), MSG_DONTWAIT) <= 0)
				break;
		}
	}
}

void rdv_close(struct rendezvous *r)
{
	if (!r)
		return;
	if (r->failed)
		drain(r);
	for (int i = 0; i < r->size; i++) {
		struct link *l = &r->links[i];

		if (l->fd >= 0 && !r->failed)
			link_send(l, FRAME_BYE, NULL, 0, link_now_ns() + 1000000000);
	}
	rdv_free(r);
}
