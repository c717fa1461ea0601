/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through bounce buffers; see transport_staged.h.
 *
 * Every message under way has a slot: a bounce buffer, a request of the inner transport and a state.
 *
 *   send: COPYING (device to bounce) -> MOVING (the network has it) -> free
 *   recv: MOVING -> COPYING (bounce to device) -> free
 *
 * A message with no free slot makes the caller poll and come again. That cannot lock up as long as
 * receives leave room for sends: each direction has half of the slots.
 */
#include "collectives/transport_staged.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum slot_state { SLOT_FREE, SLOT_COPYING, SLOT_READY, SLOT_MOVING };

struct slot {
	struct tp_req inner; /* first: the provider writes into it */
	enum slot_state state;
	struct tp_req *outer;
	char *bounce;
	void *device; /* where the message belongs */
	size_t bytes;
	uint64_t tag;
	int peer;
};

struct tp_staged {
	struct transport tp;
	struct transport *inner;
	struct coll_device *device;
	struct staged_config config;
	char *memory;
	struct tp_region *region; /* of all bounce buffers */
	struct slot *slots;       /* the first half sends, the other half receives */
	unsigned next_send;       /* where to look for a free slot first: the oldest */
	unsigned next_recv;
	/* Slots that are being copied, by lane, in the order in which the lane does them: only the
	 * first needs asking after. */
	unsigned *queue[DEVICE_LANE_MAX], queue_first[DEVICE_LANE_MAX], queued[DEVICE_LANE_MAX];
};

static struct tp_staged *staged(struct transport *tp)
{
	return (struct tp_staged *)tp;
}

/* The inner transport's words are this one's. */
static int inner_failed(struct tp_staged *t, int rc)
{
	if (t->inner->broken)
		return tp_break(&t->tp, rc, "%s", t->inner->error);
	return tp_fail(&t->tp, rc, "%s", t->inner->error);
}

static int device_failed(struct tp_staged *t, int rc)
{
	return tp_break(&t->tp, rc, "%s", t->device->error);
}

static void push(const struct tp_staged *t, const char *name)
{
	if (t->config.range_push)
		t->config.range_push(name);
}

static void pop(const struct tp_staged *t)
{
	if (t->config.range_pop)
		t->config.range_pop();
}

/* --- what goes straight to the inner transport ----------------------------------------------- */

static int staged_address(struct transport *tp, void *addr, size_t *bytes)
{
	struct tp_staged *t = staged(tp);
	int rc = t->inner->ops->address(t->inner, addr, bytes);

	return rc ? inner_failed(t, rc) : 0;
}

static int staged_connect(struct transport *tp, const void *addrs, int rank, int size)
{
	struct tp_staged *t = staged(tp);
	int rc = tp_connect(t->inner, addrs, rank, size);

	return rc ? inner_failed(t, rc) : 0;
}

static int staged_reg(struct transport *tp, const struct tp_range *range, struct tp_region **out)
{
	struct tp_staged *t = staged(tp);
	int rc;

	*out = NULL;
	if (range->memory != TP_MEMORY_HOST)
		return tp_fail(tp, -EOPNOTSUPP,
			       "a staged path registers its bounce buffers, not device memory");
	rc = t->inner->ops->reg(t->inner, range, out);
	return rc ? inner_failed(t, rc) : 0;
}

static int staged_dereg(struct transport *tp, struct tp_region *region)
{
	struct tp_staged *t = staged(tp);
	int rc = t->inner->ops->dereg(t->inner, region);

	return rc ? inner_failed(t, rc) : 0;
}

/* --- slots ----------------------------------------------------------------------------------- */

static unsigned half(const struct tp_staged *t)
{
	return t->config.slots / 2;
}

/* A free slot of a direction, in turn, so that the order of use is the order of age. */
static struct slot *slot_take(struct tp_staged *t, bool receive)
{
	unsigned *next = receive ? &t->next_recv : &t->next_send;
	unsigned first = receive ? half(t) : 0;

	for (unsigned i = 0; i < half(t); i++) {
		struct slot *slot = &t->slots[first + (*next + i) % half(t)];

		if (slot->state != SLOT_FREE)
			continue;
		*next = (*next + i + 1) % half(t);
		return slot;
	}
	return NULL;
}

static unsigned index_of(const struct tp_staged *t, const struct slot *slot)
{
	return (unsigned)(slot - t->slots);
}

static int finish(struct tp_staged *t, struct slot *slot, size_t moved)
{
	slot->state = SLOT_FREE;
	tp_complete(&t->tp, slot->outer, moved);
	return 1;
}

/* The bounce buffer holds the message: to the network. 0 also when it has no room yet. */
static int hand_over(struct tp_staged *t, struct slot *slot)
{
	struct tp_req *req = &slot->inner;
	int rc;

	req->state = TP_PENDING;
	req->peer = slot->peer;
	req->bytes = slot->bytes;
	req->receiving = false;
	rc = t->inner->ops->send(t->inner, slot->peer, slot->tag, slot->bounce, slot->bytes,
				 t->region, req);
	if (rc == -EAGAIN) {
		slot->state = SLOT_READY;
		return 0;
	}
	if (rc)
		return inner_failed(t, rc);
	t->inner->stats.sends++;
	t->inner->stats.sent_bytes += slot->bytes;
	slot->state = SLOT_MOVING;
	return 0;
}

static int start_copy(struct tp_staged *t, struct slot *slot, enum device_lane lane, void *to,
		      const void *from)
{
	unsigned index = index_of(t, slot);
	int rc = t->device->ops->start(t->device, lane, index, to, from, slot->bytes);

	if (rc)
		return device_failed(t, rc);
	t->queue[lane][(t->queue_first[lane] + t->queued[lane]++) % t->config.slots] = index;
	slot->state = SLOT_COPYING;
	return 0;
}

static int copy_down(struct tp_staged *t, struct slot *slot)
{
	const struct device_ops *ops = t->device->ops;
	int rc;

	if (t->config.pipelined)
		return start_copy(t, slot, DEVICE_LANE_DOWN, slot->bounce, slot->device);
	push(t, "copy to bounce buffer");
	rc = ops->download(t->device, slot->bounce, slot->device, slot->bytes);
	pop(t);
	return rc ? device_failed(t, rc) : hand_over(t, slot);
}

/* The message has come; 1 when it is where it belongs. */
static int copy_up(struct tp_staged *t, struct slot *slot)
{
	const struct device_ops *ops = t->device->ops;
	int rc;

	if (slot->inner.moved != slot->bytes) /* tp_complete() says so */
		return finish(t, slot, slot->inner.moved);
	if (t->config.pipelined)
		return start_copy(t, slot, DEVICE_LANE_UP, slot->device, slot->bounce);
	push(t, "copy from bounce buffer");
	rc = ops->upload(t->device, slot->device, slot->bounce, slot->bytes);
	pop(t);
	return rc ? device_failed(t, rc) : finish(t, slot, slot->bytes);
}

/* Takes what a lane has copied further. The number of slots that went on, or negative. */
static int lane_advance(struct tp_staged *t, enum device_lane lane)
{
	int n = 0;

	while (t->queued[lane]) {
		unsigned index = t->queue[lane][t->queue_first[lane]];
		struct slot *slot = &t->slots[index];
		int rc = t->device->ops->copied(t->device, index);

		if (rc < 0)
			return device_failed(t, rc);
		if (!rc)
			break;
		t->queue_first[lane] = (t->queue_first[lane] + 1) % t->config.slots;
		t->queued[lane]--;
		n++;
		rc = lane == DEVICE_LANE_UP ? finish(t, slot, slot->bytes) : hand_over(t, slot);
		if (rc < 0)
			return rc;
	}
	return n;
}

static int slot_advance(struct tp_staged *t, struct slot *slot, bool receive)
{
	switch (slot->state) {
	case SLOT_READY:
		return hand_over(t, slot);
	case SLOT_MOVING:
		if (slot->inner.state == TP_FAILED)
			return inner_failed(t, t->inner->broken ? t->inner->broken : -EIO);
		if (slot->inner.state != TP_DONE)
			return 0;
		return receive ? copy_up(t, slot) : finish(t, slot, slot->bytes);
	default:
		return 0;
	}
}

/* --- messages -------------------------------------------------------------------------------- */

static int fits(struct tp_staged *t, size_t bytes, int peer)
{
	if (bytes <= t->config.slot_bytes)
		return 0;
	return tp_break(&t->tp, -EMSGSIZE,
			"a message of %zu bytes for rank %d does not fit a bounce buffer of %zu",
			bytes, peer, t->config.slot_bytes);
}

static int staged_send(struct transport *tp, int peer, uint64_t tag, const void *buf, size_t bytes,
		       const struct tp_region *region, struct tp_req *req)
{
	struct tp_staged *t = staged(tp);
	struct slot *slot;
	int rc;

	if (region || !bytes) {
		rc = t->inner->ops->send(t->inner, peer, tag, buf, bytes, region, req);
		return rc && rc != -EAGAIN ? inner_failed(t, rc) : rc;
	}
	rc = fits(t, bytes, peer);
	if (rc)
		return rc;
	slot = slot_take(t, false);
	if (!slot)
		return -EAGAIN;
	slot->outer = req;
	slot->device = (void *)buf;
	slot->bytes = bytes;
	slot->peer = peer;
	slot->tag = tag;
	return copy_down(t, slot);
}

static int staged_recv(struct transport *tp, int peer, uint64_t tag, void *buf, size_t bytes,
		       const struct tp_region *region, struct tp_req *req)
{
	struct tp_staged *t = staged(tp);
	struct slot *slot;
	int rc;

	if (region || !bytes) {
		rc = t->inner->ops->recv(t->inner, peer, tag, buf, bytes, region, req);
		return rc && rc != -EAGAIN ? inner_failed(t, rc) : rc;
	}
	rc = fits(t, bytes, peer);
	if (rc)
		return rc;
	slot = slot_take(t, true);
	if (!slot)
		return -EAGAIN;
	slot->outer = req;
	slot->device = buf;
	slot->bytes = bytes;
	slot->peer = peer;
	slot->tag = tag;
	slot->inner.state = TP_PENDING;
	slot->inner.peer = peer;
	slot->inner.bytes = bytes;
	slot->inner.receiving = true;
	rc = t->inner->ops->recv(t->inner, peer, tag, slot->bounce, bytes, t->region, &slot->inner);
	if (rc)
		return rc == -EAGAIN ? rc : inner_failed(t, rc);
	slot->state = SLOT_MOVING;
	return 0;
}

static int staged_write(struct transport *tp, int peer, const void *buf, size_t bytes,
			const struct tp_region *region, uint64_t remote_addr, uint64_t key,
			struct tp_req *req)
{
	(void)buf, (void)region, (void)remote_addr, (void)key, (void)req;
	return tp_fail(tp, -EOPNOTSUPP, "a staged path cannot write %zu bytes into rank %d", bytes,
		       peer);
}

static int staged_poll(struct transport *tp)
{
	struct tp_staged *t = staged(tp);
	int n = t->inner->ops->poll(t->inner);

	if (n < 0 || t->inner->broken)
		return inner_failed(t, t->inner->broken ? t->inner->broken : n);
	for (int lane = 0; lane < DEVICE_LANE_MAX; lane++) {
		int moved = lane_advance(t, (enum device_lane)lane);

		if (moved < 0)
			return moved;
		n += moved;
	}
	for (unsigned i = 0; i < t->config.slots; i++) {
		struct slot *slot = &t->slots[i];
		enum slot_state before = slot->state;
		int rc;

		if (before == SLOT_FREE || before == SLOT_COPYING)
			continue;
		rc = slot_advance(t, slot, i >= half(t));
		if (rc < 0)
			return rc;
		n += slot->state != before;
	}
	return n;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void staged_free(struct tp_staged *t)
{
	if (t->region)
		t->inner->ops->dereg(t->inner, t->region);
	if (t->memory)
		t->device->ops->host_release(t->device, t->memory);
	for (int lane = 0; lane < DEVICE_LANE_MAX; lane++)
		free(t->queue[lane]);
	free(t->slots);
	free(t);
}

static void staged_close(struct transport *tp)
{
	struct tp_staged *t = staged(tp);
	struct transport *inner = t->inner;

	/* After a failure receives may be under way: the endpoint goes before their memory. */
	if (t->region)
		inner->ops->dereg(inner, t->region);
	t->region = NULL;
	tp_close(inner);
	staged_free(t);
}

static const struct tp_ops staged_ops = {
	.name = "staged",
	.address = staged_address,
	.connect = staged_connect,
	.reg = staged_reg,
	.dereg = staged_dereg,
	.send = staged_send,
	.recv = staged_recv,
	.write = staged_write,
	.poll = staged_poll,
	.close = staged_close,
};

static int make_slots(struct tp_staged *t, char *error)
{
	size_t bytes = t->config.slot_bytes * t->config.slots;
	struct tp_range range = {.bytes = bytes, .dmabuf_fd = -1};
	void *memory = NULL;
	int rc;

	t->slots = calloc(t->config.slots, sizeof(*t->slots));
	for (int lane = 0; lane < DEVICE_LANE_MAX; lane++) {
		t->queue[lane] = calloc(t->config.slots, sizeof(*t->queue[lane]));
		if (!t->queue[lane])
			return -ENOMEM;
	}
	if (!t->slots)
		return -ENOMEM;
	rc = t->device->ops->host_alloc(t->device, bytes, &memory);
	if (!rc)
		rc = t->device->ops->slots(t->device, t->config.slots);
	t->memory = memory;
	if (rc) {
		snprintf(error, TP_ERROR_BYTES, "no bounce buffers: %.300s", t->device->error);
		return rc;
	}
	memset(t->memory, 0, bytes); /* page faults now */
	for (unsigned i = 0; i < t->config.slots; i++)
		t->slots[i].bounce = t->memory + i * t->config.slot_bytes;
	range.addr = t->memory;
	rc = tp_register(t->inner, &range, &t->region);
	if (rc)
		snprintf(error, TP_ERROR_BYTES, "%s", t->inner->error);
	return rc;
}

int tp_open_staged(struct transport *inner, struct coll_device *device,
		   const struct staged_config *config, struct transport **out, char *error)
{
	struct tp_staged *t = calloc(1, sizeof(*t));
	int rc = -ENOMEM;

	*out = NULL;
	snprintf(error, TP_ERROR_BYTES, "no memory for bounce buffers");
	if (!t)
		return rc;
	t->tp = *inner; /* limits, provider, timeout */
	t->tp.ops = &staged_ops;
	t->tp.error[0] = 0;
	t->tp.stages = true;
	t->tp.inject_bytes = 0;
	t->tp.can_write = false;
	t->tp.needs_regions = false; /* of device memory */
	t->inner = inner;
	t->device = device;
	t->config = *config;
	if (t->config.slots < 2)
		t->config.slots = 2;
	t->config.slots &= ~1u;
	if (t->config.slot_bytes > inner->max_msg_bytes)
		t->config.slot_bytes = inner->max_msg_bytes;
	t->tp.max_msg_bytes = t->config.slot_bytes;
	t->tp.max_receives = half(t);
	rc = make_slots(t, error);
	t->tp.stats = inner->stats; /* what registering the bounce buffers cost */
	if (rc) {
		staged_free(t);
		return rc;
	}
	*out = &t->tp;
	return 0;
}
