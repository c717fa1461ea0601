/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the transport that is the same for every back end: posting, waiting, giving up. */
#include "collectives/transport.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The clock and watch() are looked at once in so many idle polls: a poll can take 30 ns. Where each
 * of them offers the CPU to others, it can take long. */
#define IDLE_POLLS_PER_LOOK   512
#define YIELDING_POLLS_A_LOOK 16

int64_t tp_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int tp_fail(struct transport *tp, int err, const char *format, ...)
{
	va_list ap;

	if (!tp->broken) {
		va_start(ap, format);
		vsnprintf(tp->error, sizeof(tp->error), format, ap);
		va_end(ap);
	}
	return err;
}

int tp_break(struct transport *tp, int err, const char *format, ...)
{
	va_list ap;

	if (tp->broken)
		return tp->broken;
	va_start(ap, format);
	vsnprintf(tp->error, sizeof(tp->error), format, ap);
	va_end(ap);
	tp->broken = err;
	return err;
}

int tp_address(struct transport *tp, void *addr, size_t *bytes)
{
	return tp->ops->address(tp, addr, bytes);
}

int tp_connect(struct transport *tp, const void *addrs, int rank, int size)
{
	tp->rank = rank;
	tp->size = size;
	return tp->ops->connect(tp, addrs, rank, size);
}

int tp_register(struct transport *tp, const struct tp_range *range, struct tp_region **out)
{
	int64_t start = tp_now_ns();
	int rc = tp->ops->reg(tp, range, out);

	if (rc)
		return rc;
	tp->stats.registrations++;
	tp->stats.registration_ns += (uint64_t)(tp_now_ns() - start);
	return 0;
}

int tp_deregister(struct transport *tp, struct tp_region *region)
{
	int64_t start = tp_now_ns();
	int rc = tp->ops->dereg(tp, region);

	tp->stats.deregistrations++;
	tp->stats.deregistration_ns += (uint64_t)(tp_now_ns() - start);
	return rc;
}

void tp_complete(struct transport *tp, struct tp_req *req, size_t moved)
{
	req->moved = moved;
	if (req->receiving && moved != req->bytes) {
		tp_break(tp, -EPROTO,
			 "expected %zu bytes from rank %d but got %zu: the ranks do not run the "
			 "same collective",
			 req->bytes, req->peer, moved);
		req->state = TP_FAILED;
		return;
	}
	req->state = TP_DONE;
}

static void req_start(struct tp_req *req, int peer, size_t bytes, bool receiving)
{
	req->state = TP_PENDING;
	req->peer = peer;
	req->bytes = bytes;
	req->moved = 0;
	req->receiving = receiving;
}

/* A post that found no room: makes some. */
static int post_retry(struct transport *tp)
{
	tp->stats.retries++;
	return tp_progress(tp);
}

int tp_send(struct transport *tp, int peer, uint64_t tag, const void *buf, size_t bytes,
	    const struct tp_region *region, struct tp_req *req)
{
	int rc;

	req_start(req, peer, bytes, false);
	for (;;) {
		rc = tp->ops->send(tp, peer, tag, buf, bytes, region, req);
		if (rc != -EAGAIN)
			break;
		rc = post_retry(tp);
		if (rc)
			break;
	}
	if (rc) {
		req->state = TP_FAILED;
		return rc;
	}
	tp->stats.sends++;
	tp->stats.sent_bytes += bytes;
	return 0;
}

int tp_recv(struct transport *tp, int peer, uint64_t tag, void *buf, size_t bytes,
	    const struct tp_region *region, struct tp_req *req)
{
	int rc;

	req_start(req, peer, bytes, true);
	for (;;) {
		rc = tp->ops->recv(tp, peer, tag, buf, bytes, region, req);
		if (rc != -EAGAIN)
			break;
		rc = post_retry(tp);
		if (rc)
			break;
	}
	if (rc) {
		req->state = TP_FAILED;
		return rc;
	}
	tp->stats.receives++;
	tp->stats.received_bytes += bytes;
	return 0;
}

int tp_write(struct transport *tp, int peer, const void *buf, size_t bytes,
	     const struct tp_region *region, uint64_t remote_addr, uint64_t key, struct tp_req *req)
{
	int rc;

	if (!tp->can_write)
		return tp_fail(tp, -EOPNOTSUPP, "%s cannot write into a peer's memory",
			       tp->provider);
	req_start(req, peer, bytes, false);
	for (;;) {
		rc = tp->ops->write(tp, peer, buf, bytes, region, remote_addr, key, req);
		if (rc != -EAGAIN)
			break;
		rc = post_retry(tp);
		if (rc)
			break;
	}
	if (rc) {
		req->state = TP_FAILED;
		return rc;
	}
	tp->stats.writes++;
	tp->stats.sent_bytes += bytes;
	return 0;
}

void tp_rest(struct transport *tp)
{
	tp->idle = 0;
	tp->idle_since_ns = 0;
}

static int idle_look(struct transport *tp)
{
	int64_t now = tp_now_ns();

	if (!tp->idle_since_ns) {
		tp->idle_since_ns = now;
	} else if (tp->timeout_ns > 0 && now - tp->idle_since_ns > tp->timeout_ns) {
		return tp_break(
			tp, -ETIMEDOUT,
			"waited %.1f s and nothing arrived over %s: a rank hangs or the network "
			"drops messages (--timeout sets the limit)",
			(double)(now - tp->idle_since_ns) / 1e9, tp->provider);
	}
	return tp->watch ? tp->watch(tp->watch_arg, tp) : 0;
}

int tp_progress(struct transport *tp)
{
	int n = tp->ops->poll(tp);

	if (tp->broken)
		return tp->broken;
	if (n > 0) {
		tp_rest(tp);
		return 0;
	}
	if (n < 0)
		return n;
	tp->idle++;
	if (tp->idle % (tp->idle > tp->spin ? YIELDING_POLLS_A_LOOK : IDLE_POLLS_PER_LOOK) == 0) {
		int rc = idle_look(tp);

		if (rc)
			return rc;
	}
	if (tp->idle > tp->spin)
		sched_yield();
	return 0;
}

int tp_wait(struct transport *tp, struct tp_req *req)
{
	int rc;

	while (req->state == TP_PENDING) {
		rc = tp_progress(tp);
		if (rc)
			return rc;
	}
	if (req->state == TP_FAILED)
		return tp_break(tp, -EIO, "an exchange with rank %d failed", req->peer);
	return 0;
}

void tp_close(struct transport *tp)
{
	if (tp)
		tp->ops->close(tp);
}
