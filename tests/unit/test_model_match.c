/* SPDX-License-Identifier: Apache-2.0
 *
 * Posts to completions, registrations to closes, range begins to ends.
 */
#include "tests/unit/export_check.h"
#include "tests/unit/synthetic_reader.h"

#include "exporters/exporters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECV       (1ull << 10)
#define SEND       (1ull << 11)
#define WRITE      (1ull << 9)
#define REMOTE_W   (1ull << 13)
#define MULTI      (1ull << 16)
#define COMPLETION (1ull << 24)
#define SELECTIVE  (1ull << 59)

enum { EP = 0xe0, EP2 = 0xe2, CQ = 0xc0, CQ2 = 0xc2 };

struct seen {
	struct model_transfer transfers[64];
	unsigned transfer_count, posted, lives, closed, range_begins, range_count, ranges_closed;
	struct model_range ranges[64];
	struct model_match_counts counts;
	int64_t outstanding;
};

static void on_posted(void *user, const struct trace_event *post)
{
	struct seen *seen = user;

	(void)post;
	seen->posted++;
	seen->outstanding++;
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct seen *seen = user;

	seen->outstanding -= transfer->counted;
	if (seen->transfer_count < sizeof(seen->transfers) / sizeof(seen->transfers[0]))
		seen->transfers[seen->transfer_count] = *transfer;
	seen->transfer_count++;
}

static void on_registered(void *user, const struct model_registration *registration)
{
	struct seen *seen = user;

	(void)registration;
	seen->lives++;
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct seen *seen = user;

	seen->closed += registration->closed;
	seen->lives--;
}

static void on_range_begin(void *user, const struct model_range *range)
{
	struct seen *seen = user;

	assert_int_equal(range->begin_ns, range->end_ns);
	seen->range_begins++;
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct seen *seen = user;

	seen->ranges_closed += range->closed;
	seen->ranges[seen->range_count++] = *range;
}

static const struct model_match_ops callbacks = {
	on_posted, on_transfer, on_registered, on_unregistered, on_range_begin, on_range_end, NULL};

/* Runs the one process through a matcher. Names in ranges live until model_close. */
static struct model *run(struct synthetic *recording, struct seen *seen)
{
	struct model *model = model_of(&recording, 1);
	struct model_matcher *matcher = model_matcher_new(model, 0, &callbacks, seen);
	struct trace_event event;
	int error;
	struct model_cursor *cursor = model_cursor_open(model, 0, MODEL_ALL_THREADS, &error);

	assert_non_null(matcher);
	assert_non_null(cursor);
	while (model_cursor_next(cursor, &event) > 0)
		model_matcher_feed(matcher, &event);
	model_matcher_finish(matcher);
	seen->counts = *model_matcher_counts(matcher);
	assert_int_equal(seen->counts.transfers, seen->transfer_count);
	assert_int_equal(seen->outstanding, 0);
	model_cursor_close(cursor);
	model_matcher_free(matcher);
	return model;
}

static struct synthetic *fresh(uint32_t *thread)
{
	struct synthetic *recording = synthetic_new("host1", 41, 0, 1700000000000000000);

	*thread = synthetic_thread(recording, 41, "main");
	return recording;
}

static void bind(struct synthetic *recording, uint32_t thread, uint64_t ep, uint64_t cq,
		 uint64_t flags)
{
	SYNTHETIC(recording, thread, ofi_bind, 1, 1, .object = ep, .bound = cq, .flags = flags,
		  .kind = WL_ofi_kind_ep, .bound_kind = WL_ofi_kind_cq);
}

static void post(struct synthetic *recording, uint32_t thread, int64_t at, uint64_t ep,
		 uint64_t context, uint8_t op, uint64_t flags)
{
	SYNTHETIC(recording, thread, ofi_post, at, at + 1, .ep = ep, .context = context,
		  .bytes = 100, .op = op, .flags = flags);
}

static void complete(struct synthetic *recording, uint32_t thread, int64_t at, uint64_t cq,
		     uint64_t context, uint64_t flags)
{
	SYNTHETIC(recording, thread, ofi_completion, at, at, .cq = cq, .context = context,
		  .flags = flags, .bytes = 60, .src = UINT64_MAX);
}

static void by_context(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	post(recording, thread, 10, EP, 1, WL_ofi_op_tsend, 0);
	post(recording, thread, 20, EP, 2, WL_ofi_op_tsend, 0);
	post(recording, thread, 30, EP, 1, WL_ofi_op_trecv, 0); /* same context, other direction */
	complete(recording, thread, 40, CQ, 2, SEND);
	complete(recording, thread, 50, CQ, 1, RECV);
	complete(recording, thread, 60, CQ, 1, SEND);
	complete(recording, thread, 70, CQ, 1, SEND); /* one too many */
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.exact, 3);
	assert_int_equal(seen.counts.completions_unmatched, 1);
	assert_int_equal(seen.transfers[0].post.begin_ns, 20);
	assert_int_equal(seen.transfers[0].end_ns, 40);
	assert_int_equal(seen.transfers[0].post_ordinal, 1);
	assert_int_equal(seen.transfers[0].completion_ordinal, 0);
	assert_int_equal(seen.transfers[0].bytes, 100);
	assert_int_equal(seen.transfers[1].post.begin_ns, 30);
	assert_int_equal(seen.transfers[1].bytes, 60); /* what was received */
	assert_int_equal(seen.transfers[2].post.begin_ns, 10);
	assert_int_equal(seen.transfers[2].completion_ordinal, 2);
}

static void by_queue(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	bind(recording, thread, EP2, CQ2, SEND | RECV);
	post(recording, thread, 10, EP, 7, WL_ofi_op_send, 0);
	post(recording, thread, 20, EP2, 7, WL_ofi_op_send, 0);
	post(recording, thread, 30, 0xdead, 8, WL_ofi_op_send, 0); /* its bind was not seen */
	complete(recording, thread, 40, CQ2, 7, 0);                /* entries without flags */
	complete(recording, thread, 50, CQ, 7, 0);
	complete(recording, thread, 60, CQ, 8, 0);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.exact, 3);
	assert_int_equal(seen.transfers[0].post.begin_ns, 20);
	assert_int_equal(seen.transfers[1].post.begin_ns, 10);
	assert_int_equal(seen.transfers[2].post.begin_ns, 30);
}

static void repeated_contexts(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	for (int i = 0; i < 23; i++)
		post(recording, thread, 10 + i, EP, 0, WL_ofi_op_send, 0);
	post(recording, thread, 40, EP, 0, WL_ofi_op_write, 0);
	complete(recording, thread, 50, CQ, 0, WRITE); /* told apart by what it did */
	for (int i = 0; i < 23; i++)
		complete(recording, thread, 60 + i, CQ, 0, SEND);
	post(recording, thread, 90, EP, 0, WL_ofi_op_send, 0); /* alone again */
	complete(recording, thread, 95, CQ, 0, SEND);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.approximate, 24);
	assert_int_equal(seen.counts.exact, 1);
	assert_int_equal(seen.transfers[0].post.begin_ns, 40);
	for (int i = 0; i < 23; i++)
		assert_int_equal(seen.transfers[1 + i].post.begin_ns, 10 + i);
}

static void no_entry_comes(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | SELECTIVE);
	bind(recording, thread, EP, CQ, RECV);
	bind(recording, thread, EP2, CQ2, RECV); /* no queue for sends: counters alone */
	SYNTHETIC(recording, thread, ofi_post, 10, 12, .ep = EP, .bytes = 8, .op = WL_ofi_op_send,
		  .inject = 1);
	post(recording, thread, 20, EP, 1, WL_ofi_op_send, 0);
	post(recording, thread, 30, EP, 2, WL_ofi_op_send, COMPLETION);
	post(recording, thread, 40, EP2, 3, WL_ofi_op_send, 0);
	post(recording, thread, 50, EP, 4, WL_ofi_op_recv, 0);
	SYNTHETIC(recording, thread, ofi_post, 60, 61, .ep = EP, .status = -11,
		  .op = WL_ofi_op_send);
	complete(recording, thread, 70, CQ, 2, SEND);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.at_return, 3);
	assert_int_equal(seen.counts.exact, 1);
	assert_int_equal(seen.counts.unfinished, 1); /* the receive */
	assert_int_equal(seen.transfer_count, 5);
	assert_int_equal(seen.transfers[0].end_ns, 12);
	assert_int_equal(seen.posted, 2);
}

/* A selective endpoint whose operations complete all the same (by its own default flags). */
static void selective_by_default(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | SELECTIVE);
	for (int i = 0; i < 23; i++) {
		post(recording, thread, 10 + i * 10, EP, 1, WL_ofi_op_send, 0);
		complete(recording, thread, 15 + i * 10, CQ, 1, SEND);
	}
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.at_return, 1);
	assert_int_equal(seen.counts.exact, 22);
}

static void multi_receive_and_errors(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	post(recording, thread, 10, EP, 1, WL_ofi_op_recv, MULTI);
	for (int i = 0; i < 4; i++)
		complete(recording, thread, 20 + i, CQ, 1, RECV);
	complete(recording, thread, 30, CQ, 1, RECV | MULTI); /* the buffer is given back */
	complete(recording, thread, 31, CQ, 1, RECV);
	post(recording, thread, 40, EP, 2, WL_ofi_op_recv, 0);
	SYNTHETIC(recording, thread, ofi_completion, 50, 50, .cq = CQ, .context = 2, .flags = RECV,
		  .status = -125, .bytes = 9);
	complete(recording, thread, 60, CQ, 9, REMOTE_W | WRITE); /* a peer wrote here */
	model_close(run(recording, &seen));
	assert_int_equal(seen.transfer_count, 6);
	for (int i = 0; i < 5; i++) {
		assert_true(seen.transfers[i].multi);
		assert_int_equal(seen.transfers[i].counted, i == 4);
	}
	assert_true(seen.transfers[5].failed);
	assert_int_equal(seen.transfers[5].status, -125);
	assert_int_equal(seen.transfers[5].bytes, 0);
	assert_int_equal(seen.counts.completions_unmatched, 2);
}

/* Another thread reads the completion before the post has returned. */
static void completion_before_return(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);
	uint32_t other = synthetic_thread(recording, 42, "progress");

	(void)state;
	memset(&seen, 0, sizeof(seen));
	/* One whose provider demands contexts of its own, one of which nothing is known. */
	SYNTHETIC(recording, thread, ofi_open, 1, 1, .object = EP, .mode = 1ull << 59,
		  .kind = WL_ofi_kind_ep);
	bind(recording, thread, EP, CQ, SEND | RECV);
	bind(recording, thread, EP2, CQ2, SEND | RECV);
	SYNTHETIC(recording, thread, ofi_post, 10, 30, .ep = EP, .context = 5, .bytes = 100,
		  .op = WL_ofi_op_send);
	complete(recording, other, 20, CQ, 5, SEND);
	SYNTHETIC(recording, thread, ofi_post, 31, 50, .ep = EP2, .context = 5, .bytes = 100,
		  .op = WL_ofi_op_send);
	complete(recording, other, 40, CQ2, 5, SEND);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.exact, 1);
	assert_int_equal(seen.counts.approximate, 1);
	assert_int_equal(seen.counts.completions_unmatched, 0);
	assert_int_equal(seen.transfers[0].end_ns, 20);
	assert_true(seen.transfers[0].exact);
	assert_int_equal(seen.transfers[1].end_ns, 40);
	assert_false(seen.transfers[1].exact);
	assert_int_equal(seen.posted, 0);
}

/* Two threads that post with one context, or with none: what is outstanding alone need not be what completed. */
static void shared_by_threads(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);
	uint32_t other = synthetic_thread(recording, 42, "second");

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	post(recording, thread, 10, EP, 0, WL_ofi_op_send, 0);
	complete(recording, thread, 20, CQ, 0, SEND);
	post(recording, thread, 30, EP, 9, WL_ofi_op_send, 0);
	complete(recording, thread, 40, CQ, 9, SEND); /* nobody else has used it */
	post(recording, other, 50, EP, 9, WL_ofi_op_send, 0);
	complete(recording, thread, 60, CQ, 9, SEND);
	post(recording, other, 70, EP, 9, WL_ofi_op_send, 0);
	complete(recording, thread, 80, CQ, 9, SEND);
	post(recording, other, 90, EP, 10, WL_ofi_op_send, 0);
	complete(recording, thread, 95, CQ, 10, SEND);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.exact, 2);
	assert_int_equal(seen.counts.approximate, 3);
	assert_true(seen.transfers[1].exact && seen.transfers[4].exact);
}

/* --- a million ---------------------------------------------------------------------------------- */

/* Posts and completions of one thread by a fixed random order, on three endpoints with a queue each: contexts
 * all distinct, one of 7 for all, none at all. What was meant is known by ordinals. */
#define MILLION     1000003
#define OUTSTANDING 499

struct million {
	uint32_t *meant; /* post ordinal by completion ordinal */
	uint64_t exact[3], wrong[3], wrong_exact[3], matched[3];
};

static void on_one_of_million(void *user, const struct model_transfer *transfer)
{
	struct million *million = user;
	unsigned way = (unsigned)(MODEL_ARG(&transfer->post, ofi_post, ep) - EP);
	bool right = transfer->how == MODEL_TRANSFER_COMPLETED &&
		     million->meant[transfer->completion_ordinal] == transfer->post_ordinal;

	million->matched[way] += transfer->how == MODEL_TRANSFER_COMPLETED;
	million->exact[way] += transfer->exact;
	million->wrong[way] += !right;
	million->wrong_exact[way] += !right && transfer->exact;
}

struct outstanding {
	uint32_t ordinal;
	uint64_t ep, context, flags;
};

static void feed_one(struct model_matcher *matcher, const struct outstanding *one, int64_t at,
		     bool completed)
{
	struct trace_event event = {.begin_ns = at, .end_ns = at};

	if (completed) {
		event.type = wl_event_type(WL_EV_ofi_completion);
		event.args[WL_ARG(ofi_completion, cq)] = one->ep + 0x1000;
		event.args[WL_ARG(ofi_completion, context)] = one->context;
		event.args[WL_ARG(ofi_completion, flags)] = one->flags;
	} else {
		event.type = wl_event_type(WL_EV_ofi_post);
		event.args[WL_ARG(ofi_post, ep)] = one->ep;
		event.args[WL_ARG(ofi_post, context)] = one->context;
		event.args[WL_ARG(ofi_post, op)] =
			one->flags & SEND ? WL_ofi_op_tsend : WL_ofi_op_trecv;
	}
	model_matcher_feed(matcher, &event);
}

static void a_million(void **state)
{
	static const struct model_match_ops ops = {.transfer = on_one_of_million};
	static struct outstanding open[OUTSTANDING];
	struct million million = {.meant = calloc(MILLION, sizeof(uint32_t))};
	uint64_t random = 88172645463325252u, counts[3] = {0};
	uint32_t thread, posted = 0, completed = 0;
	unsigned used = 0;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	assert_non_null(million.meant);
	for (uint64_t way = 0; way < 3; way++)
		bind(recording, thread, EP + way, EP + way + 0x1000, SEND | RECV);
	struct model *model = model_of(&recording, 1);
	struct model_matcher *matcher = model_matcher_new(model, 0, &ops, &million);
	struct trace_event event;
	int error;
	struct model_cursor *cursor = model_cursor_open(model, 0, MODEL_ALL_THREADS, &error);

	while (model_cursor_next(cursor, &event) > 0)
		model_matcher_feed(matcher, &event);
	model_cursor_close(cursor);
	for (int64_t at = 100; completed < MILLION; at++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		if (posted < MILLION && (!used || (used < OUTSTANDING && random % 256 < 130))) {
			unsigned way = (unsigned)(random >> 20) % 3;

			open[used] = (struct outstanding){posted, EP + way,
							  way == 0   ? 0x10000u + posted
							  : way == 1 ? 1 + (random >> 30) % 7
								     : 0,
							  random >> 40 & 1 ? SEND : RECV};
			counts[way]++;
			posted++;
			feed_one(matcher, &open[used++], at, false);
			continue;
		}
		unsigned which = (unsigned)(random >> 20) % used;

		million.meant[completed++] = open[which].ordinal;
		feed_one(matcher, &open[which], at, true);
		open[which] = open[--used];
	}
	model_matcher_finish(matcher);
	for (int way = 0; way < 3; way++) {
		assert_int_equal(million.matched[way], counts[way]);
		assert_int_equal(million.wrong_exact[way], 0);
	}
	assert_int_equal(million.exact[0], counts[0]);
	assert_int_equal(million.wrong[0], 0);
	/* The test is one that can fail: such contexts do mislead. */
	assert_true(million.wrong[1] && million.wrong[2] && million.exact[1]);
	model_matcher_free(matcher);
	model_close(model);
	free(million.meant);
}

static void endpoint_closed(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	post(recording, thread, 10, EP, 1, WL_ofi_op_recv, 0);
	SYNTHETIC(recording, thread, ofi_close, 20, 22, .object = EP, .kind = WL_ofi_kind_ep);
	/* The same address again, with another queue. */
	bind(recording, thread, EP, CQ2, SEND | RECV);
	post(recording, thread, 30, EP, 1, WL_ofi_op_recv, 0);
	complete(recording, thread, 40, CQ2, 1, RECV);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.unfinished, 1);
	assert_int_equal(seen.transfers[0].end_ns, 22);
	assert_int_equal(seen.counts.exact, 1);
	assert_int_equal(seen.transfers[1].post.begin_ns, 30);
}

/* More outstanding than are kept: the oldest are given up, memory stays bounded. */
static void too_many_outstanding(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	bind(recording, thread, EP, CQ, SEND | RECV);
	for (int i = 0; i < 65536 + 101; i++)
		post(recording, thread, 10 + i, EP, (uint64_t)i, WL_ofi_op_recv, 0);
	complete(recording, thread, 100000, CQ, 50, RECV); /* given up */
	complete(recording, thread, 100001, CQ, 5000, RECV);
	model_close(run(recording, &seen));
	assert_int_equal(seen.counts.lost, 101);
	assert_int_equal(seen.counts.exact, 1);
	assert_int_equal(seen.counts.unfinished, 65535);
	assert_int_equal(seen.counts.completions_unmatched, 1);
}

static void registrations(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	for (int i = 0; i < 23; i++)
		SYNTHETIC(recording, thread, ofi_mr_reg, 10 + i, 11 + i, .mr = 0x100 + (unsigned)i,
			  .bytes = 4096);
	SYNTHETIC(recording, thread, ofi_mr_reg, 40, 41, .mr = 0x200, .status = -12);
	SYNTHETIC(recording, thread, ofi_mr_reg, 42, 43, .mr = 0x100, .bytes = 1); /* used again */
	for (int i = 0; i < 19; i++)
		SYNTHETIC(recording, thread, ofi_mr_close, 50 + i, 51 + i,
			  .mr = 0x100 + (unsigned)i);
	SYNTHETIC(recording, thread, ofi_mr_close, 80, 81, .mr = 0x999);
	model_close(run(recording, &seen));
	assert_int_equal(seen.closed, 19);
	assert_int_equal(seen.lives, 0);
	assert_int_equal(seen.counts.closes_unmatched, 1);
}

static void ranges(void **state)
{
	static struct seen seen;
	uint32_t thread;
	struct synthetic *recording = fresh(&thread);
	uint32_t other = synthetic_thread(recording, 42, "other");
	uint32_t step = synthetic_string(recording, "step");
	uint32_t inner = synthetic_string(recording, "inner");
	uint32_t domain = synthetic_string(recording, "torch");

	(void)state;
	memset(&seen, 0, sizeof(seen));
	SYNTHETIC(recording, thread, nvtx_push, 10, 10, .text = step, .color = 0xff00ff00);
	SYNTHETIC(recording, thread, nvtx_push, 11, 11, .text = inner, .domain = domain);
	SYNTHETIC(recording, thread, nvtx_push, 12, 12, .text = inner);
	SYNTHETIC(recording, thread, nvtx_pop, 13, 13, .domain = domain); /* out of order */
	SYNTHETIC(recording, thread, nvtx_pop, 14, 14);
	SYNTHETIC(recording, thread, nvtx_pop, 15, 15);
	SYNTHETIC(recording, thread, nvtx_pop, 16, 16); /* one too many */
	SYNTHETIC(recording, thread, nvtx_start, 20, 20, .id = 7, .text = step, .domain = domain);
	SYNTHETIC(recording, other, nvtx_end, 30, 30, .id = 7);
	SYNTHETIC(recording, thread, nvtx_start, 40, 40, .id = 8, .text = step);
	SYNTHETIC(recording, thread, nvtx_push, 41, 41, .text = step);

	struct model *model = run(recording, &seen);

	assert_int_equal(seen.range_begins, 6);
	assert_int_equal(seen.range_count, 6);
	assert_int_equal(seen.ranges_closed, 4);
	assert_int_equal(seen.counts.pops_unmatched, 1);
	assert_string_equal(seen.ranges[0].name, "inner");
	assert_string_equal(seen.ranges[0].domain, "torch");
	assert_int_equal(seen.ranges[0].serial, 1);
	assert_int_equal(seen.ranges[0].end_ns, 13);
	assert_int_equal(seen.ranges[1].depth, 1);
	assert_string_equal(seen.ranges[2].name, "step");
	assert_int_equal(seen.ranges[2].begin_ns, 10);
	assert_int_equal(seen.ranges[2].end_ns, 15);
	assert_int_equal(seen.ranges[2].color, 0xff00ff00);
	assert_true(seen.ranges[3].across);
	assert_int_equal(seen.ranges[3].thread, thread);
	assert_int_equal(seen.ranges[3].end_thread, other);
	assert_int_equal(seen.ranges[3].end_ns, 30);
	assert_false(seen.ranges[4].closed);
	assert_int_equal(seen.ranges[4].end_ns, 41);
	model_close(model);
}

static void lanes_hold_without_overlap(void **state)
{
	struct lanes lanes = {0};
	int64_t last[64];

	(void)state;
	/* Three that overlap, then one after another again. */
	assert_int_equal(lanes_take(&lanes, 0, 10), 0);
	assert_int_equal(lanes_take(&lanes, 5, 11), 1);
	assert_int_equal(lanes_take(&lanes, 8, 12), 2);
	assert_int_equal(lanes_take(&lanes, 10, 13), 0);
	assert_int_equal(lanes_take(&lanes, 12, 14), 2); /* the one free for the shortest time */
	lanes_done(&lanes);
	for (int i = 0; i < 64; i++)
		last[i] = INT64_MIN;
	for (int64_t end = 1; end < 4999; end++) {
		int64_t begin = end - end * 7919 % 41;
		int64_t lane = lanes_take(&lanes, begin, end);

		assert_in_range(lane, 0, 63);
		assert_true(last[lane] <= begin);
		last[lane] = end;
	}
	assert_true(lanes.count <= 41);
	lanes_done(&lanes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_context),
		cmocka_unit_test(by_queue),
		cmocka_unit_test(repeated_contexts),
		cmocka_unit_test(no_entry_comes),
		cmocka_unit_test(selective_by_default),
		cmocka_unit_test(multi_receive_and_errors),
		cmocka_unit_test(completion_before_return),
		cmocka_unit_test(shared_by_threads),
		cmocka_unit_test(a_million),
		cmocka_unit_test(endpoint_closed),
		cmocka_unit_test(too_many_outstanding),
		cmocka_unit_test(registrations),
		cmocka_unit_test(ranges),
		cmocka_unit_test(lanes_hold_without_overlap),
	};

	return cmocka_run_group_tests_name("model_match", tests, NULL, NULL);
}
