/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of messages. Messages from one endpoint to another under one tag arrive in the order in which
 * they were sent, and meet receives in the order in which those were posted: the n-th sent is the n-th
 * received. A receive that names no sender is told apart by its tag alone, where only one endpoint sends
 * under that tag.
 */
#include "exporters/model/messages.h"

#include "exporters/model/number_map.h"

#include <stdlib.h>
#include <string.h>

#define SENDER_SLOTS (1u << 20)
#define SEVERAL      UINT32_MAX
#define COUNTERS_MAX (1u << 18) /* tags of their own for every message need no counting */

struct message_senders {
	uint32_t slots[SENDER_SLOTS]; /* 0 none */
};

struct endpoint {
	struct open_node node; /* key: handle, 0 */
	uint64_t name;         /* hash, 0 unknown */
	uint64_t av;
};

struct address {
	struct open_node node; /* key: address vector, fi_addr_t */
	uint64_t name;
};

struct match_messages {
	struct match_context *context;
	struct message_senders *senders;
	bool fill;
	struct open_table endpoints, addresses;
	struct number_map keys;
	uint32_t *counts; /* by number of the key */
	uint32_t capacity;
};

struct message_senders *message_senders_new(void)
{
	return calloc(1, sizeof(struct message_senders));
}

void message_senders_free(struct message_senders *senders)
{
	free(senders);
}

struct match_messages *match_messages_new(struct match_context *context,
					  struct message_senders *senders, bool fill)
{
	struct match_messages *messages = calloc(1, sizeof(*messages));

	if (!messages)
		return NULL;
	messages->context = context;
	messages->senders = senders;
	messages->fill = fill;
	if (!open_table_init(&messages->endpoints, sizeof(struct endpoint)) &&
	    !open_table_init(&messages->addresses, sizeof(struct address)) &&
	    !number_map_init(&messages->keys))
		return messages;
	match_messages_free(messages);
	return NULL;
}

void match_messages_free(struct match_messages *messages)
{
	if (!messages)
		return;
	open_table_done(&messages->endpoints);
	open_table_done(&messages->addresses);
	number_map_done(&messages->keys);
	free(messages->counts);
	free(messages);
}

/* --- names -------------------------------------------------------------------------------------- */

/* Names of shared memory mean something on their own host alone. */
static uint64_t name_hash(const struct match_messages *messages, const char *name, size_t length)
{
	const struct match_context *context = messages->context;
	uint64_t hash = 0x6d657373;

	if (!length)
		return 0;
	if (!strncmp(name, "fi_shm", 6))
		hash += 1u + model_process(context->model, context->process)->host;
	for (size_t i = 0; i < length; i++)
		hash = text_mix(hash * 31 + (unsigned char)name[i]);
	return hash ? hash : 1;
}

static struct endpoint *endpoint_of(struct match_messages *messages, uint64_t handle)
{
	uint32_t index = open_find(&messages->endpoints, handle, 0, 0);

	if (!index)
		index = open_add(&messages->endpoints, handle, 0);
	return index ? open_at(&messages->endpoints, index) : NULL;
}

static void name_endpoint(struct match_messages *messages, const struct trace_event *event)
{
	const struct match_context *context = messages->context;
	const char *api = model_string(context->model, context->process,
				       (uint32_t)MODEL_ARG(event, ofi_control, api));
	struct endpoint *endpoint;
	const char *name;

	if (strcmp(api, "fi_getname") != 0 || !MODEL_ARG(event, ofi_control, detail))
		return;
	name = model_string(context->model, context->process,
			    (uint32_t)MODEL_ARG(event, ofi_control, detail));
	endpoint = endpoint_of(messages, MODEL_ARG(event, ofi_control, object));
	if (endpoint)
		endpoint->name = name_hash(messages, name, strlen(name));
}

/* Several addresses are given at once as "a, b, c", to be numbered from the first on. */
static void learn_addresses(struct match_messages *messages, const struct trace_event *event)
{
	const struct match_context *context = messages->context;
	uint64_t av = MODEL_ARG(event, ofi_av, av), addr = MODEL_ARG(event, ofi_av, addr);
	const char *at = model_string(context->model, context->process,
				      (uint32_t)MODEL_ARG(event, ofi_av, detail));

	if (addr == UINT64_MAX || (int64_t)MODEL_ARG(event, ofi_av, status) < 0)
		return;
	for (uint64_t i = 0; *at && i < MODEL_ARG(event, ofi_av, count); i++) {
		size_t length = strcspn(at, ",");
		uint32_t index = open_find(&messages->addresses, av, addr + i, 0);

		if (!index)
			index = open_add(&messages->addresses, av, addr + i);
		if (!index)
			return;
		((struct address *)open_at(&messages->addresses, index))->name =
			name_hash(messages, at, length);
		at += length;
		at += strspn(at, ", ");
	}
}

void match_messages_feed(struct match_messages *messages, const struct trace_event *event)
{
	struct endpoint *endpoint;

	switch (event->type->number) {
	case WL_EV_ofi_control:
		name_endpoint(messages, event);
		break;
	case WL_EV_ofi_av:
		learn_addresses(messages, event);
		break;
	case WL_EV_ofi_bind:
		if (MODEL_ARG(event, ofi_bind, bound_kind) != WL_ofi_kind_av)
			break;
		endpoint = endpoint_of(messages, MODEL_ARG(event, ofi_bind, object));
		if (endpoint)
			endpoint->av = MODEL_ARG(event, ofi_bind, bound);
		break;
	default:
		break;
	}
}

static uint64_t name_of_peer(const struct match_messages *messages, const struct endpoint *endpoint,
			     uint64_t peer)
{
	uint32_t index;

	if (peer == UINT64_MAX || !endpoint->av)
		return 0;
	index = open_find(&messages->addresses, endpoint->av, peer, 0);
	return index ? ((const struct address *)open_at(&messages->addresses, index))->name : 0;
}

/* --- numbers ------------------------------------------------------------------------------------ */

static uint32_t fingerprint(uint64_t name)
{
	uint32_t print = (uint32_t)(name >> 32) | 1u;

	return print == SEVERAL ? 1 : print;
}

static uint32_t count_up(struct match_messages *messages, uint64_t key)
{
	bool fresh;
	uint32_t number;

	if (messages->keys.count >= COUNTERS_MAX)
		number_map_clear(&messages->keys);
	number = number_map_get(&messages->keys, key, &fresh);
	if (!number)
		return 0;
	if (number > messages->capacity) {
		uint32_t capacity = messages->capacity ? messages->capacity * 2 : 256;
		uint32_t *more = realloc(messages->counts, capacity * sizeof(*more));

		if (!more)
			return 0;
		messages->counts = more;
		messages->capacity = capacity;
	}
	if (fresh)
		messages->counts[number - 1] = 0;
	return messages->counts[number - 1]++;
}

/* The next message from src (0: whoever it is) to dst under a tag; 0 where that says too little. */
static uint64_t number_of(struct match_messages *messages, uint64_t src, uint64_t dst, uint64_t tag)
{
	uint64_t key = text_mix(dst + text_mix(tag));
	uint32_t sender = messages->senders->slots[key % SENDER_SLOTS];
	uint64_t number;

	if (!sender || (sender == SEVERAL && !src))
		return 0;
	if (sender == SEVERAL)
		key = text_mix(key + src);
	number = text_mix(key + text_mix(1u + count_up(messages, key)));
	return number ? number : 1;
}

static bool is_send(unsigned op)
{
	return op == WL_ofi_op_send || op == WL_ofi_op_tsend;
}

static bool is_receive(unsigned op)
{
	return op == WL_ofi_op_recv || op == WL_ofi_op_trecv;
}

uint64_t match_messages_posted(struct match_messages *messages, const struct trace_event *post)
{
	unsigned op = (unsigned)MODEL_ARG(post, ofi_post, op);
	uint64_t tag = MODEL_ARG(post, ofi_post, tag), peer;
	const struct endpoint *endpoint;
	uint32_t index;

	if (!is_send(op) && !is_receive(op))
		return 0;
	index = open_find(&messages->endpoints, MODEL_ARG(post, ofi_post, ep), 0, 0);
	endpoint = index ? open_at(&messages->endpoints, index) : NULL;
	if (!endpoint || !endpoint->name)
		return 0;
	peer = name_of_peer(messages, endpoint, MODEL_ARG(post, ofi_post, peer));
	if (is_receive(op))
		return messages->fill || MODEL_ARG(post, ofi_post, ignore)
			       ? 0
			       : number_of(messages, peer, endpoint->name, tag);
	if (!peer)
		return 0;
	if (messages->fill) {
		uint32_t *slot =
			&messages->senders->slots[text_mix(peer + text_mix(tag)) % SENDER_SLOTS];

		if (!*slot)
			*slot = fingerprint(endpoint->name);
		else if (*slot != fingerprint(endpoint->name))
			*slot = SEVERAL;
		return 0;
	}
	return number_of(messages, endpoint->name, peer, tag);
}

uint64_t match_messages_received(struct match_messages *messages, const struct trace_event *post,
				 const struct trace_event *completion)
{
	uint64_t tag =
		completion ? MODEL_ARG(completion, ofi_completion, tag)
			   : MODEL_ARG(post, ofi_post, tag) & ~MODEL_ARG(post, ofi_post, ignore);
	uint64_t src;
	const struct endpoint *endpoint;
	uint32_t index;

	/* With a tag that was given in full the number was known at the post, if it can be. */
	if (messages->fill || !is_receive((unsigned)MODEL_ARG(post, ofi_post, op)) ||
	    !MODEL_ARG(post, ofi_post, ignore) || !tag)
		return 0;
	index = open_find(&messages->endpoints, MODEL_ARG(post, ofi_post, ep), 0, 0);
	endpoint = index ? open_at(&messages->endpoints, index) : NULL;
	if (!endpoint || !endpoint->name)
		return 0;
	src = completion
		      ? name_of_peer(messages, endpoint, MODEL_ARG(completion, ofi_completion, src))
		      : 0;
	if (!src)
		src = name_of_peer(messages, endpoint, MODEL_ARG(post, ofi_post, peer));
	return number_of(messages, src, endpoint->name, tag);
}
