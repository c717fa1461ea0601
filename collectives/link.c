/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over a socket; see link.h. */
#include "collectives/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t link_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Sends all of it, waiting at most until the deadline for the peer to take it. */
static int send_all(int fd, const void *data, size_t bytes, int64_t deadline)
{
	const char *p = data;

	while (bytes) {
		struct pollfd pfd = {.fd = fd, .events = POLLOUT};
		ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			p += n;
			bytes -= (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (link_now_ns() > deadline)
			return -ETIMEDOUT;
		poll(&pfd, 1, 100);
	}
	return 0;
}

int link_send(struct link *l, enum frame_kind kind, const void *body, size_t bytes,
	      int64_t deadline)
{
	struct frame f = {.magic = LINK_MAGIC, .kind = kind, .bytes = (uint32_t)bytes};
	int rc = send_all(l->fd, &f, sizeof(f), deadline);

	return rc ? rc : send_all(l->fd, body, bytes, deadline);
}

void link_close(struct link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	free(l->body);
	l->body = NULL;
	l->head_have = l->body_have = 0;
}

int link_recv(struct link *l, size_t max_bytes)
{
	for (;;) {
		void *to;
		size_t want;
		ssize_t n;

		if (l->head_have < sizeof(l->head)) {
			to = (char *)&l->head + l->head_have;
			want = sizeof(l->head) - l->head_have;
		} else if (l->body_have < l->head.bytes) {
			to = l->body + l->body_have;
			want = l->head.bytes - l->body_have;
		} else {
			return 1;
		}
		n = recv(l->fd, to, want, MSG_DONTWAIT);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (l->head_have < sizeof(l->head)) {
			l->head_have += (size_t)n;
			if (l->head_have < sizeof(l->head))
				continue;
			if (l->head.magic != LINK_MAGIC || !l->head.kind ||
			    l->head.kind >= FRAME_MAX || l->head.bytes > max_bytes)
				return -EPROTO;
			l->body = malloc(l->head.bytes + 1);
			if (!l->body)
				return -ENOMEM;
		} else {
			l->body_have += (size_t)n;
		}
	}
}

void link_done(struct link *l)
{
	free(l->body);
	l->body = NULL;
	l->head_have = l->body_have = 0;
}
