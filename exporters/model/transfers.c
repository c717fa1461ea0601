/* SPDX-License-Identifier: Apache-2.0
 *
 * Posts to completions, registrations to their close.
 *
 * A completion names its queue and the operation's context, never the endpoint; the binds tell which
 * queue an endpoint's operations complete on. Contexts are distinct among outstanding operations only
 * if the job keeps them so: where several operations of one queue, direction and context are
 * outstanding at once the oldest is taken and the match is called approximate.
 *
 * A match is called exact only where no other operation can be meant. Records come by their end, so a post
 * that another thread is still in is not known yet: a context that says nothing (NULL) is never exact where
 * there are several threads or records are missing, nor one that several threads post with, nor a completion
 * that was read before its post returned; unless the provider asks for contexts of its own (FI_CONTEXT),
 * which are distinct.
 */
#include "exporters/model/match.h"
#include "exporters/model/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* libfabric's bits, which are part of its binary interface. */
#define OFI_READ                 (1ull << 8)
#define OFI_WRITE                (1ull << 9)
#define OFI_RECV                 (1ull << 10)
#define OFI_SEND                 (1ull << 11)
#define OFI_REMOTE_READ          (1ull << 12)
#define OFI_REMOTE_WRITE         (1ull << 13)
#define OFI_MULTI_RECV           (1ull << 16)
#define OFI_COMPLETION           (1ull << 24)
#define OFI_SELECTIVE_COMPLETION (1ull << 59)

#define OFI_CONTEXT2 (1ull << 52)
#define OFI_CONTEXT  (1ull << 59)

#define POSTERS   4096 /* contexts lately posted with, a power of two */
#define EARLY_MAX 1024 /* completions kept whose post has not been recorded yet */

enum direction { TRANSMIT, RECEIVE, DIRECTIONS };

/* An endpoint, or a context of one: where its operations complete. */
struct endpoint {
	struct open_node node; /* key: handle, 0 */
	uint64_t cq[DIRECTIONS];
	bool selective[DIRECTIONS];
	bool distinct;      /* its contexts are, as its provider demands */
	uint64_t shared_rx; /* shared receive context bound to it */
	uint32_t provider;  /* string id */
};

struct operation {
	struct open_node node; /* key: queue, context mixed with direction */
	struct trace_event post;
	uint64_t ordinal;
	uint32_t provider;
	uint64_t message;
	bool ambiguous; /* others of the same key are or were outstanding with it */
};

struct registration {
	struct open_node node; /* key: handle, 0 */
	struct model_registration life;
};

/* A completion read before its post returned (by another thread). */
struct early {
	struct open_node node; /* key: context, 0 */
	struct trace_event event;
	uint64_t ordinal;
};

struct match_transfers {
	struct match_context *context;
	struct open_table endpoints, operations, registrations, early;
	uint64_t *post_ordinals, *completion_ordinals; /* by thread */
	uint64_t registration_serial;
	struct {
		uint64_t key;
		uint32_t thread;
	} posters[POSTERS];
};

struct match_transfers *match_transfers_new(struct match_context *context)
{
	unsigned threads = context->model->processes[context->process]->public.thread_count;
	struct match_transfers *transfers = calloc(1, sizeof(*transfers));

	if (!transfers)
		return NULL;
	transfers->context = context;
	transfers->post_ordinals = calloc(threads + 1u, sizeof(uint64_t));
	transfers->completion_ordinals = calloc(threads + 1u, sizeof(uint64_t));
	if (open_table_init(&transfers->endpoints, sizeof(struct endpoint)) ||
	    open_table_init(&transfers->operations, sizeof(struct operation)) ||
	    open_table_init(&transfers->registrations, sizeof(struct registration)) ||
	    open_table_init(&transfers->early, sizeof(struct early)) || !transfers->post_ordinals ||
	    !transfers->completion_ordinals) {
		match_transfers_free(transfers);
		return NULL;
	}
	return transfers;
}

void match_transfers_free(struct match_transfers *transfers)
{
	if (!transfers)
		return;
	open_table_done(&transfers->endpoints);
	open_table_done(&transfers->operations);
	open_table_done(&transfers->registrations);
	open_table_done(&transfers->early);
	free(transfers->post_ordinals);
	free(transfers->completion_ordinals);
	free(transfers);
}

/* --- endpoints ---------------------------------------------------------------------------------- */

static struct endpoint *endpoint_find(struct match_transfers *transfers, uint64_t handle)
{
	uint32_t index = open_find(&transfers->endpoints, handle, 0, 0);

	return index ? open_at(&transfers->endpoints, index) : NULL;
}

static struct endpoint *endpoint_get(struct match_transfers *transfers, uint64_t handle)
{
	struct endpoint *endpoint = endpoint_find(transfers, handle);
	uint32_t index;

	if (endpoint)
		return endpoint;
	index = open_add(&transfers->endpoints, handle, 0);
	return index ? open_at(&transfers->endpoints, index) : NULL;
}

static void endpoint_forget(struct match_transfers *transfers, uint64_t handle)
{
	uint32_t index = open_find(&transfers->endpoints, handle, 0, 0);

	if (index)
		open_remove(&transfers->endpoints, index);
}

static void feed_bind(struct match_transfers *transfers, const struct trace_event *event)
{
	uint64_t bound = MODEL_ARG(event, ofi_bind, bound),
		 flags = MODEL_ARG(event, ofi_bind, flags);
	unsigned kind = (unsigned)MODEL_ARG(event, ofi_bind, bound_kind);
	uint64_t bits[DIRECTIONS] = {OFI_SEND, OFI_RECV};
	struct endpoint *endpoint;

	if ((int64_t)MODEL_ARG(event, ofi_bind, status) < 0 ||
	    (kind != WL_ofi_kind_cq && kind != WL_ofi_kind_srx_ctx))
		return;
	endpoint = endpoint_get(transfers, MODEL_ARG(event, ofi_bind, object));
	if (!endpoint)
		return;
	if (kind == WL_ofi_kind_srx_ctx)
		endpoint->shared_rx = bound;
	for (int way = 0; way < DIRECTIONS && kind == WL_ofi_kind_cq; way++) {
		if (!(flags & bits[way]))
			continue;
		endpoint->cq[way] = bound;
		endpoint->selective[way] = flags & OFI_SELECTIVE_COMPLETION;
	}
	/* Posts on a shared receive context complete on the queues of the endpoints it is bound to. */
	if (endpoint->shared_rx && endpoint->cq[RECEIVE]) {
		uint64_t cq = endpoint->cq[RECEIVE];
		struct endpoint *shared = endpoint_get(transfers, endpoint->shared_rx);

		if (shared)
			shared->cq[RECEIVE] = cq;
	}
}

/* --- transfers ---------------------------------------------------------------------------------- */

static enum direction direction_of(unsigned op)
{
	return op == WL_ofi_op_recv || op == WL_ofi_op_trecv ? RECEIVE : TRANSMIT;
}

static uint64_t second_key(uint64_t context, enum direction way)
{
	return text_mix(context) * 2 + (uint64_t)way;
}

/* Completion flags that speak for this operation, or say nothing about the operation. */
static bool flags_fit(uint64_t flags, unsigned op)
{
	switch (op) {
	case WL_ofi_op_send:
	case WL_ofi_op_tsend:
		return !(flags & (OFI_READ | OFI_WRITE | OFI_RECV)) || flags & OFI_SEND;
	case WL_ofi_op_recv:
	case WL_ofi_op_trecv:
		return !(flags & (OFI_READ | OFI_WRITE | OFI_SEND)) || flags & OFI_RECV;
	case WL_ofi_op_read:
		return !(flags & (OFI_SEND | OFI_WRITE | OFI_RECV)) || flags & OFI_READ;
	case WL_ofi_op_write:
		return !(flags & (OFI_SEND | OFI_READ | OFI_RECV)) || flags & OFI_WRITE;
	default:
		return true;
	}
}

static void tell(struct match_transfers *transfers, const struct model_transfer *transfer)
{
	struct match_context *context = transfers->context;

	context->counts.transfers++;
	switch (transfer->how) {
	case MODEL_TRANSFER_COMPLETED:
		if (transfer->exact)
			context->counts.exact++;
		else
			context->counts.approximate++;
		break;
	case MODEL_TRANSFER_AT_RETURN:
		context->counts.at_return++;
		break;
	case MODEL_TRANSFER_UNFINISHED:
		context->counts.unfinished++;
		break;
	default:
		context->counts.lost++;
		break;
	}
	if (context->ops->transfer)
		context->ops->transfer(context->user, transfer);
}

static void give_up(struct match_transfers *transfers, uint32_t index, enum model_transfer_end how,
		    int64_t end_ns)
{
	const struct operation *operation = open_at(&transfers->operations, index);
	struct model_transfer transfer = {
		.post = operation->post,
		.post_ordinal = operation->ordinal,
		.how = how,
		.counted = true,
		.message = operation->message,
		.provider = operation->provider,
		.bytes = MODEL_ARG(&operation->post, ofi_post, bytes),
		.end_ns = end_ns > operation->post.end_ns ? end_ns : operation->post.end_ns,
	};

	open_remove(&transfers->operations, index);
	tell(transfers, &transfer);
}

/* how, exact, multi, counted and provider are given. */
static void complete(struct match_transfers *transfers, struct model_transfer *transfer,
		     const struct trace_event *completion, uint64_t completion_ordinal)
{
	unsigned op = (unsigned)MODEL_ARG(&transfer->post, ofi_post, op);
	int64_t status = (int64_t)MODEL_ARG(completion, ofi_completion, status);

	transfer->how = MODEL_TRANSFER_COMPLETED;
	transfer->failed = status < 0;
	transfer->status = (int32_t)status;
	transfer->bytes = MODEL_ARG(&transfer->post, ofi_post, bytes);
	transfer->end_ns = completion->end_ns > transfer->post.begin_ns ? completion->end_ns
									: transfer->post.begin_ns;
	transfer->completion_thread = completion->thread;
	transfer->completion_ordinal = completion_ordinal;
	if (status < 0)
		transfer->bytes = 0;
	else if (direction_of(op) == RECEIVE)
		transfer->bytes = MODEL_ARG(completion, ofi_completion, bytes);
	if (!transfer->message && !transfer->failed && !transfer->multi &&
	    transfers->context->messages)
		transfer->message = match_messages_received(transfers->context->messages,
							    &transfer->post, completion);
	tell(transfers, transfer);
}

/* The completion that a post's key was already seen with, while the post had not returned; 0 none. */
static uint32_t early_find(struct match_transfers *transfers, uint64_t cq,
			   const struct trace_event *post)
{
	unsigned op = (unsigned)MODEL_ARG(post, ofi_post, op);
	uint64_t context = MODEL_ARG(post, ofi_post, context);
	uint32_t index = open_find(&transfers->early, context, 0, 0);

	for (; index; index = open_find(&transfers->early, context, 0, index)) {
		const struct early *early = open_at(&transfers->early, index);

		if (early->event.end_ns >= post->begin_ns &&
		    (!cq || MODEL_ARG(&early->event, ofi_completion, cq) == cq) &&
		    flags_fit(MODEL_ARG(&early->event, ofi_completion, flags), op))
			return index;
	}
	return 0;
}

static void early_keep(struct match_transfers *transfers, const struct trace_event *completion,
		       uint64_t ordinal)
{
	uint32_t index;
	struct early *early;

	if (transfers->early.count >= EARLY_MAX)
		open_remove(&transfers->early, transfers->early.oldest);
	index = open_add(&transfers->early, MODEL_ARG(completion, ofi_completion, context), 0);
	if (!index)
		return;
	early = open_at(&transfers->early, index);
	early->event = *completion;
	early->ordinal = ordinal;
}

static void over_at_return(struct match_transfers *transfers, const struct trace_event *post,
			   uint64_t ordinal, uint32_t provider, uint64_t message)
{
	struct model_transfer transfer = {
		.post = *post,
		.post_ordinal = ordinal,
		.how = MODEL_TRANSFER_AT_RETURN,
		.exact = true,
		.message = message,
		.provider = provider,
		.bytes = MODEL_ARG(post, ofi_post, bytes),
		.end_ns = post->end_ns,
	};

	if (!message && transfers->context->messages)
		transfer.message =
			match_messages_received(transfers->context->messages, post, NULL);
	tell(transfers, &transfer);
}

/* True if no completion entry will come for it. */
static bool completes_at_return(const struct endpoint *endpoint, const struct trace_event *post,
				enum direction way)
{
	if (MODEL_ARG(post, ofi_post, inject))
		return true;
	if (!endpoint)
		return false;
	if (!endpoint->cq[way]) /* bound, but to no queue in this direction: counters alone tell */
		return endpoint->cq[!way] != 0;
	return endpoint->selective[way] && !(MODEL_ARG(post, ofi_post, flags) & OFI_COMPLETION);
}

/* Whether another post may have the same context at the same time without being known yet. */
static bool may_be_shared(struct match_transfers *transfers, const struct endpoint *endpoint,
			  const struct trace_event *post, uint64_t key)
{
	const struct model_process *process =
		&transfers->context->model->processes[transfers->context->process]->public;
	unsigned at = (unsigned)(key % POSTERS);
	bool other =
		transfers->posters[at].key == key && transfers->posters[at].thread != post->thread;

	transfers->posters[at].key = key;
	transfers->posters[at].thread = other ? UINT32_MAX : post->thread;
	if (endpoint && endpoint->distinct)
		return false;
	return other || (!MODEL_ARG(post, ofi_post, context) &&
			 (process->thread_count > 1 || process->incomplete));
}

static void feed_post(struct match_transfers *transfers, const struct trace_event *post)
{
	uint64_t ordinal = transfers->post_ordinals[post->thread]++;
	enum direction way = direction_of((unsigned)MODEL_ARG(post, ofi_post, op));
	const struct endpoint *endpoint = endpoint_find(transfers, MODEL_ARG(post, ofi_post, ep));
	uint64_t cq = endpoint ? endpoint->cq[way] : 0;
	uint64_t key = second_key(MODEL_ARG(post, ofi_post, context), way);
	uint64_t message = 0;
	uint32_t index, other;

	if ((int64_t)MODEL_ARG(post, ofi_post, status) < 0)
		return;
	/* Of many receives in one post none has a number of its own. */
	if (transfers->context->messages && !(MODEL_ARG(post, ofi_post, flags) & OFI_MULTI_RECV))
		message = match_messages_posted(transfers->context->messages, post);
	if (completes_at_return(endpoint, post, way)) {
		over_at_return(transfers, post, ordinal, endpoint ? endpoint->provider : 0,
			       message);
		return;
	}
	index = early_find(transfers, cq, post);
	if (index) {
		const struct early early = *(struct early *)open_at(&transfers->early, index);

		open_remove(&transfers->early, index);
		transfers->context->counts.completions_unmatched--;
		complete(transfers,
			 &(struct model_transfer){.post = *post,
						  .post_ordinal = ordinal,
						  .provider = endpoint ? endpoint->provider : 0,
						  .message = message,
						  .exact = endpoint && endpoint->distinct},
			 &early.event, early.ordinal);
		return;
	}
	if (transfers->operations.count >= MATCH_OPEN_MAX)
		give_up(transfers, transfers->operations.oldest, MODEL_TRANSFER_LOST, post->end_ns);
	other = open_find(&transfers->operations, cq, key, 0);
	index = open_add(&transfers->operations, cq, key);
	if (!index)
		return;

	struct operation *operation = open_at(&transfers->operations, index);

	operation->post = *post;
	operation->ordinal = ordinal;
	operation->provider = endpoint ? endpoint->provider : 0;
	operation->message = message;
	operation->ambiguous = may_be_shared(transfers, endpoint, post, key);
	if (other) {
		((struct operation *)open_at(&transfers->operations, other))->ambiguous = true;
		operation->ambiguous = true;
	}
	if (transfers->context->ops->posted)
		transfers->context->ops->posted(transfers->context->user, post);
}

/* The oldest operation of a key that the completion's flags fit; 0 none. */
static uint32_t find_fitting(const struct match_transfers *transfers, uint64_t cq, uint64_t key,
			     uint64_t flags)
{
	uint32_t index = 0;

	for (int tries = 0; tries < 64; tries++) {
		index = open_find(&transfers->operations, cq, key, index);
		if (!index)
			return 0;
		const struct operation *operation = open_at(&transfers->operations, index);

		if (flags_fit(flags, (unsigned)MODEL_ARG(&operation->post, ofi_post, op)))
			return index;
	}
	return 0;
}

static uint32_t find_operation(const struct match_transfers *transfers, uint64_t cq,
			       const struct trace_event *completion, bool *exact)
{
	uint64_t context = MODEL_ARG(completion, ofi_completion, context);
	uint64_t flags = MODEL_ARG(completion, ofi_completion, flags);
	uint32_t transmit = find_fitting(transfers, cq, second_key(context, TRANSMIT), flags);
	uint32_t receive = find_fitting(transfers, cq, second_key(context, RECEIVE), flags);
	uint32_t found = transmit ? transmit : receive;

	if (!found)
		return 0;
	if (transmit && receive) { /* an entry without flags: the older of both */
		const struct operation *a = open_at(&transfers->operations, transmit);
		const struct operation *b = open_at(&transfers->operations, receive);

		found = a->post.end_ns <= b->post.end_ns ? transmit : receive;
	}
	const struct operation *operation = open_at(&transfers->operations, found);

	*exact = !operation->ambiguous && !(transmit && receive);
	return found;
}

/* Nothing fits: perhaps its post has not returned yet; perhaps a peer wrote to this side; perhaps the
 * endpoint completes although it was bound to do so selectively (by its default flags). */
static void unmatched(struct match_transfers *transfers, const struct trace_event *completion,
		      uint64_t ordinal)
{
	uint64_t flags = MODEL_ARG(completion, ofi_completion, flags);
	uint64_t cq = MODEL_ARG(completion, ofi_completion, cq);

	transfers->context->counts.completions_unmatched++;
	if (flags & (OFI_REMOTE_READ | OFI_REMOTE_WRITE))
		return;
	for (uint32_t i = transfers->endpoints.oldest; i;
	     i = ((struct open_node *)open_at(&transfers->endpoints, i))->newer) {
		struct endpoint *endpoint = open_at(&transfers->endpoints, i);

		for (int way = 0; way < DIRECTIONS; way++) {
			if (endpoint->cq[way] == cq &&
			    flags & (way == RECEIVE ? OFI_RECV : OFI_SEND | OFI_READ | OFI_WRITE))
				endpoint->selective[way] = false;
		}
	}
	early_keep(transfers, completion, ordinal);
}

static void feed_completion(struct match_transfers *transfers, const struct trace_event *completion)
{
	uint64_t ordinal = transfers->completion_ordinals[completion->thread]++;
	uint64_t cq = MODEL_ARG(completion, ofi_completion, cq);
	uint64_t flags = MODEL_ARG(completion, ofi_completion, flags);
	bool exact = false, failed = (int64_t)MODEL_ARG(completion, ofi_completion, status) < 0;
	uint32_t index = 0;

	if (!(flags & (OFI_REMOTE_READ | OFI_REMOTE_WRITE)) || flags & OFI_RECV) {
		index = find_operation(transfers, cq, completion, &exact);
		if (!index) /* endpoints whose binds were not recorded */
			index = find_operation(transfers, 0, completion, &exact);
	}
	if (!index) {
		unmatched(transfers, completion, ordinal);
		return;
	}
	struct operation *operation = open_at(&transfers->operations, index);
	bool multi = MODEL_ARG(&operation->post, ofi_post, flags) & OFI_MULTI_RECV;
	bool stays = multi && !failed && !(flags & OFI_MULTI_RECV);
	struct model_transfer transfer = {
		.post = operation->post,
		.post_ordinal = operation->ordinal,
		.message = operation->message,
		.provider = operation->provider,
		.exact = exact,
		.multi = multi,
		.counted = !stays,
	};

	if (!stays)
		open_remove(&transfers->operations, index);
	complete(transfers, &transfer, completion, ordinal);
}

static bool is_endpoint(uint64_t kind)
{
	return kind == WL_ofi_kind_ep || kind == WL_ofi_kind_sep || kind == WL_ofi_kind_tx_ctx ||
	       kind == WL_ofi_kind_rx_ctx || kind == WL_ofi_kind_srx_ctx;
}

/* What was known of the address is no longer true. */
static void feed_open(struct match_transfers *transfers, const struct trace_event *event)
{
	uint64_t object = MODEL_ARG(event, ofi_open, object);
	struct endpoint *endpoint;

	if (!is_endpoint(MODEL_ARG(event, ofi_open, kind)) ||
	    (int64_t)MODEL_ARG(event, ofi_open, status) < 0)
		return;
	endpoint_forget(transfers, object);
	endpoint = endpoint_get(transfers, object);
	if (!endpoint)
		return;
	endpoint->provider = (uint32_t)MODEL_ARG(event, ofi_open, name);
	endpoint->distinct = (MODEL_ARG(event, ofi_open, mode) & (OFI_CONTEXT | OFI_CONTEXT2)) != 0;
}

/* Operations of an endpoint that is no more will not complete. */
static void feed_close(struct match_transfers *transfers, const struct trace_event *event)
{
	uint64_t object = MODEL_ARG(event, ofi_close, object);

	if (!is_endpoint(MODEL_ARG(event, ofi_close, kind)))
		return;
	for (uint32_t i = transfers->operations.oldest, newer; i; i = newer) {
		const struct operation *operation = open_at(&transfers->operations, i);

		newer = operation->node.newer;
		if (MODEL_ARG(&operation->post, ofi_post, ep) == object)
			give_up(transfers, i, MODEL_TRANSFER_UNFINISHED, event->end_ns);
	}
	endpoint_forget(transfers, object);
}

/* --- registrations ------------------------------------------------------------------------------ */

static void end_registration(struct match_transfers *transfers, uint32_t index, int64_t end_ns,
			     bool closed)
{
	struct registration *registration = open_at(&transfers->registrations, index);
	struct model_registration life = registration->life;

	life.closed = closed;
	life.end_ns = end_ns;
	open_remove(&transfers->registrations, index);
	if (transfers->context->ops->unregistered)
		transfers->context->ops->unregistered(transfers->context->user, &life);
}

static void feed_registration(struct match_transfers *transfers, const struct trace_event *event)
{
	uint64_t handle = MODEL_ARG(event, ofi_mr_reg, mr);
	uint32_t index;

	if ((int64_t)MODEL_ARG(event, ofi_mr_reg, status) < 0 || !handle)
		return;
	index = open_find(&transfers->registrations, handle, 0, 0);
	if (index) /* its close was not recorded */
		end_registration(transfers, index, event->begin_ns, false);
	if (transfers->registrations.count >= MATCH_OPEN_MAX)
		end_registration(transfers, transfers->registrations.oldest, event->end_ns, false);
	index = open_add(&transfers->registrations, handle, 0);
	if (!index)
		return;

	struct registration *registration = open_at(&transfers->registrations, index);

	registration->life.reg = *event;
	registration->life.serial = transfers->registration_serial++;
	registration->life.end_ns = event->end_ns;
	if (transfers->context->ops->registered)
		transfers->context->ops->registered(transfers->context->user, &registration->life);
}

static void feed_deregistration(struct match_transfers *transfers, const struct trace_event *event)
{
	uint32_t index;

	if ((int64_t)MODEL_ARG(event, ofi_mr_close, status) < 0)
		return;
	index = open_find(&transfers->registrations, MODEL_ARG(event, ofi_mr_close, mr), 0, 0);
	if (index)
		end_registration(transfers, index, event->end_ns, true);
	else
		transfers->context->counts.closes_unmatched++;
}

void match_transfers_feed(struct match_transfers *transfers, const struct trace_event *event)
{
	switch (event->type->number) {
	case WL_EV_ofi_post:
		feed_post(transfers, event);
		break;
	case WL_EV_ofi_completion:
		feed_completion(transfers, event);
		break;
	case WL_EV_ofi_bind:
		feed_bind(transfers, event);
		break;
	case WL_EV_ofi_open:
		feed_open(transfers, event);
		break;
	case WL_EV_ofi_close:
		feed_close(transfers, event);
		break;
	case WL_EV_ofi_mr_reg:
		feed_registration(transfers, event);
		break;
	case WL_EV_ofi_mr_close:
		feed_deregistration(transfers, event);
		break;
	default:
		break;
	}
}

void match_transfers_finish(struct match_transfers *transfers, int64_t end_ns)
{
	while (transfers->operations.oldest)
		give_up(transfers, transfers->operations.oldest, MODEL_TRANSFER_UNFINISHED, end_ns);
	while (transfers->registrations.oldest)
		end_registration(transfers, transfers->registrations.oldest, end_ns, false);
}
