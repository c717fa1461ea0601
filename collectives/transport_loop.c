/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-process back end: each rank is a thread, a hub joins them. It needs no library and no
 * second process, so tests of the algorithms run anywhere; and it is strict where a network may be
 * lenient: a message longer than the inject limit is copied only when its receive is posted, so
 * code that touches a buffer too early is found out.
 */
#include "collectives/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

struct message {
	struct message *next;
	int from;
	uint64_t tag;
	void *buf; /* receive: where to; send: the sender's memory, or the copy behind this */
	size_t bytes;
	struct tp_req *req;     /* NULL for a buffered send */
	struct tp_loop *sender; /* whom to tell, for a send that waits */
};

struct done {
	struct done *next;
	struct tp_req *req;
	size_t moved;
};

struct tp_loop {
	struct transport tp;
	struct loop_hub *hub;
	pthread_mutex_t lock;
	struct message *posted;     /* receives that wait for a message */
	struct message *unexpected; /* messages that wait for a receive, oldest first */
	struct done *done;
	uint64_t next_key;
};

struct loop_hub {
	int size;
	pthread_mutex_t lock;
	struct tp_loop *ranks[];
};

static struct tp_loop *loop(struct transport *tp)
{
	return (struct tp_loop *)tp;
}

struct loop_hub *loop_hub_new(int size)
{
	struct loop_hub *hub = calloc(1, sizeof(*hub) + (size_t)size * sizeof(struct tp_loop *));

	if (!hub)
		return NULL;
	hub->size = size;
	pthread_mutex_init(&hub->lock, NULL);
	return hub;
}

void loop_hub_free(struct loop_hub *hub)
{
	if (!hub)
		return;
	pthread_mutex_destroy(&hub->lock);
	free(hub);
}

static struct tp_loop *hub_rank(struct loop_hub *hub, int rank)
{
	struct tp_loop *t;

	pthread_mutex_lock(&hub->lock);
	t = hub->ranks[rank];
	pthread_mutex_unlock(&hub->lock);
	return t;
}

static void push_done(struct tp_loop *t, struct tp_req *req, size_t moved, struct done *d)
{
	d->req = req;
	d->moved = moved;
	d->next = t->done;
	t->done = d;
}

/* Takes the first entry with that sender and tag out of a list. */
static struct message *take(struct message **list, int from, uint64_t tag)
{
	for (; *list; list = &(*list)->next) {
		struct message *m = *list;

		if (m->from == from && m->tag == tag) {
			*list = m->next;
			return m;
		}
	}
	return NULL;
}

static void append(struct message **list, struct message *m)
{
	while (*list)
		list = &(*list)->next;
	m->next = NULL;
	*list = m;
}

static int loop_address(struct transport *tp, void *addr, size_t *bytes)
{
	memcpy(addr, &tp->rank, sizeof(tp->rank));
	*bytes = sizeof(tp->rank);
	return 0;
}

static int loop_connect(struct transport *tp, const void *addrs, int rank, int size)
{
	(void)addrs;
	(void)rank;
	if (size > loop(tp)->hub->size)
		return tp_fail(tp, -EINVAL, "the hub joins %d ranks, not %d", loop(tp)->hub->size,
			       size);
	return 0;
}

static int loop_reg(struct transport *tp, const struct tp_range *range, struct tp_region **out)
{
	struct tp_region *region = calloc(1, sizeof(*region));

	*out = region;
	if (!region)
		return tp_fail(tp, -ENOMEM, "no memory to register %zu bytes", range->bytes);
	region->addr = (uint64_t)(uintptr_t)range->addr;
	region->remote_base = region->addr;
	region->bytes = range->bytes;
	region->key = ++loop(tp)->next_key;
	return 0;
}

static int loop_dereg(struct transport *tp, struct tp_region *region)
{
	(void)tp;
	free(region);
	return 0;
}

/* A buffer that is not covered by its region would fail on a real network; here too. */
static int check_region(struct transport *tp, const void *buf, size_t bytes,
			const struct tp_region *region)
{
	uint64_t addr = (uint64_t)(uintptr_t)buf;

	if (!bytes || (!region && !tp->needs_regions))
		return 0;
	if (!region || addr < region->addr || addr + bytes > region->addr + region->bytes)
		return tp_break(tp, -EFAULT, "%zu bytes at %p are used but not registered", bytes,
				buf);
	return 0;
}

static int loop_send(struct transport *tp, int peer, uint64_t tag, const void *buf, size_t bytes,
		     const struct tp_region *region, struct tp_req *req)
{
	struct tp_loop *self = loop(tp), *to = hub_rank(self->hub, peer);
	bool buffered = bytes <= tp->inject_bytes;
	struct message *m, *want;
	struct done *d = NULL;

	if (!to)
		return -EAGAIN; /* its thread has not come yet */
	if (!buffered && check_region(tp, buf, bytes, region))
		return tp->broken;
	m = malloc(sizeof(*m) + (buffered ? bytes : 0));
	if (!m)
		return tp_break(tp, -ENOMEM, "no memory to send %zu bytes", bytes);
	*m = (struct message){.from = tp->rank, .tag = tag, .bytes = bytes, .buf = (void *)buf};
	if (buffered) {
		m->buf = m + 1;
		memcpy(m->buf, buf, bytes);
	} else {
		m->req = req;
		m->sender = self;
	}

	pthread_mutex_lock(&to->lock);
	want = take(&to->posted, tp->rank, tag);
	if (want) {
		d = (struct done *)want; /* the receive's node becomes its completion */
		memcpy(want->buf, m->buf, bytes < want->bytes ? bytes : want->bytes);
		push_done(to, want->req, bytes, d);
	} else {
		append(&to->unexpected, m);
	}
	pthread_mutex_unlock(&to->lock);
	if (want)
		free(m);
	if (buffered || want)
		tp_complete(tp, req, bytes);
	return 0;
}

static int loop_recv(struct transport *tp, int peer, uint64_t tag, void *buf, size_t bytes,
		     const struct tp_region *region, struct tp_req *req)
{
	struct tp_loop *self = loop(tp);
	struct message *m;

	if (check_region(tp, buf, bytes, region))
		return tp->broken;
	pthread_mutex_lock(&self->lock);
	m = take(&self->unexpected, peer, tag);
	if (!m) {
		m = malloc(sizeof(*m) > sizeof(struct done) ? sizeof(*m) : sizeof(struct done));
		if (m) {
			*m = (struct message){
				.from = peer, .tag = tag, .buf = buf, .bytes = bytes, .req = req};
			append(&self->posted, m);
		}
		pthread_mutex_unlock(&self->lock);
		return m ? 0 : tp_break(tp, -ENOMEM, "no memory to receive %zu bytes", bytes);
	}
	pthread_mutex_unlock(&self->lock);
	memcpy(buf, m->buf, m->bytes < bytes ? m->bytes : bytes);
	tp_complete(tp, req, m->bytes);
	if (m->sender) { /* tell it that its buffer is free */
		struct tp_loop *sender = m->sender;
		struct tp_req *sent = m->req;

		pthread_mutex_lock(&sender->lock);
		push_done(sender, sent, m->bytes, (struct done *)m);
		pthread_mutex_unlock(&sender->lock);
	} else {
		free(m);
	}
	return 0;
}

static int loop_write(struct transport *tp, int peer, const void *buf, size_t bytes,
		      const struct tp_region *region, uint64_t remote_addr, uint64_t key,
		      struct tp_req *req)
{
	(void)peer;
	(void)key;
	if (check_region(tp, buf, bytes, region))
		return tp->broken;
	memcpy((void *)(uintptr_t)remote_addr, buf, bytes);
	tp_complete(tp, req, bytes);
	return 0;
}

static int loop_poll(struct transport *tp)
{
	struct tp_loop *self = loop(tp);
	struct done *list, *next;
	int n = 0;

	pthread_mutex_lock(&self->lock);
	list = self->done;
	self->done = NULL;
	pthread_mutex_unlock(&self->lock);
	for (; list; list = next, n++) {
		next = list->next;
		tp_complete(tp, list->req, list->moved);
		free(list);
	}
	return n;
}

static void free_messages(struct message *m)
{
	while (m) {
		struct message *next = m->next;

		free(m);
		m = next;
	}
}

static void loop_close(struct transport *tp)
{
	struct tp_loop *self = loop(tp);

	pthread_mutex_lock(&self->hub->lock);
	self->hub->ranks[tp->rank] = NULL;
	pthread_mutex_unlock(&self->hub->lock);
	free_messages(self->posted);
	free_messages(self->unexpected);
	while (self->done) {
		struct done *next = self->done->next;

		free(self->done);
		self->done = next;
	}
	pthread_mutex_destroy(&self->lock);
	free(self);
}

static const struct tp_ops loop_ops = {
	.name = "loop",
	.address = loop_address,
	.connect = loop_connect,
	.reg = loop_reg,
	.dereg = loop_dereg,
	.send = loop_send,
	.recv = loop_recv,
	.write = loop_write,
	.poll = loop_poll,
	.close = loop_close,
};

int tp_open_loop(struct loop_hub *hub, int rank, size_t inject_bytes, struct transport **out)
{
	struct tp_loop *t = calloc(1, sizeof(*t));

	*out = NULL;
	if (!t)
		return -ENOMEM;
	t->tp.ops = &loop_ops;
	t->tp.rank = rank;
	t->tp.size = hub->size;
	t->tp.inject_bytes = inject_bytes;
	t->tp.max_msg_bytes = SIZE_MAX;
	t->tp.needs_regions = true;
	t->tp.can_write = true;
	t->tp.timeout_ns = (int64_t)60 * 1000000000;
	snprintf(t->tp.provider, sizeof(t->tp.provider), "loop");
	snprintf(t->tp.library, sizeof(t->tp.library), "in-process");
	t->hub = hub;
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_lock(&hub->lock);
	hub->ranks[rank] = t;
	pthread_mutex_unlock(&hub->lock);
	*out = &t->tp;
	return 0;
}
