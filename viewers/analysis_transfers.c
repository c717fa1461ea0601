/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers by operation and by peer: sizes, latencies, and how long the network was busy.
 */
#include "viewers/analysis_internal.h"
#include "viewers/pair_map.h"

#include <stdlib.h>
#include <string.h>

/* Peers that are told of one by one, over all processes. */
#define PEERS_MAX 8192u

/* A time in which at least one operation was under way. */
struct busy {
	uint64_t open, ns;
	int64_t since_ns;
};

struct peer_entry {
	struct peer_stat stat;
	struct busy busy;
};

struct transfer_table {
	struct pair_map peers; /* struct peer_entry by peer, process and operation */
	bool peers_left;
	struct transfer_stat operations[WL_ofi_op_MAX];
	struct busy operations_busy[WL_ofi_op_MAX]; /* of the process being read */
	struct network_stat network;
	/* of the process being read */
	struct busy busy;
	uint64_t bytes_open;
	int64_t first_ns, last_ns;
	bool any;
};

struct transfer_table *transfer_table_new(void)
{
	return calloc(1, sizeof(struct transfer_table));
}

void transfer_table_free(struct transfer_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; table->peers.slots && i <= table->peers.mask; i++)
		free(table->peers.slots[i].value);
	pair_map_done(&table->peers);
	free(table);
}

/* --- busy times ------------------------------------------------------------------------------- */

static void busy_begin(struct busy *busy, int64_t ns)
{
	if (busy->open++ == 0)
		busy->since_ns = ns;
}

static void busy_end(struct busy *busy, int64_t ns)
{
	if (!busy->open || --busy->open)
		return;
	if (ns > busy->since_ns)
		busy->ns += (uint64_t)(ns - busy->since_ns);
}

/* Was under way from begin to end, and is over: what lies in a time known to be busy counts once. */
static void busy_once(struct busy *busy, int64_t begin, int64_t end)
{
	if (!busy->open && end > begin)
		busy->ns += (uint64_t)(end - begin);
}

/* --- what the matcher tells -------------------------------------------------------------------- */

static uint8_t operation_of(const struct trace_event *post)
{
	uint64_t op = MODEL_ARG(post, ofi_post, op);

	return op < WL_ofi_op_MAX ? (uint8_t)op : 0;
}

/* *room: false when there are too many peers. */
static struct peer_entry *peer_of(struct transfer_table *table, unsigned process,
				  const struct trace_event *post, bool *room)
{
	uint8_t op = operation_of(post);
	uint64_t peer = MODEL_ARG(post, ofi_post, peer), whose = (uint64_t)process << 32 | op;
	struct peer_entry *found;

	found = pair_map_get(&table->peers, peer, whose);
	*room = true;
	if (found)
		return found;
	*room = table->peers.count < PEERS_MAX;
	table->peers_left |= !*room;
	found = *room ? calloc(1, sizeof(*found)) : NULL;
	if (!found || !pair_map_put(&table->peers, peer, whose, found)) {
		free(found);
		return NULL;
	}
	found->stat = (struct peer_stat){.process = process, .op = op, .peer = peer};
	return found;
}

static void seen(struct transfer_table *table, int64_t begin, int64_t end)
{
	if (!table->any || begin < table->first_ns)
		table->first_ns = begin;
	if (!table->any || end > table->last_ns)
		table->last_ns = end;
	table->any = true;
}

bool transfer_posted(struct transfer_table *table, unsigned process, const struct trace_event *post)
{
	bool room;
	struct peer_entry *peer = peer_of(table, process, post, &room);

	busy_begin(&table->busy, post->begin_ns);
	busy_begin(&table->operations_busy[operation_of(post)], post->begin_ns);
	table->bytes_open += MODEL_ARG(post, ofi_post, bytes);
	if (table->bytes_open > table->network.peak_bytes)
		table->network.peak_bytes = table->bytes_open;
	if (peer)
		busy_begin(&peer->busy, post->begin_ns);
	return peer || !room;
}

static unsigned size_class(uint64_t bytes)
{
	unsigned class = bytes > 1 ? 64u - (unsigned)__builtin_clzll(bytes - 1) : 0;

	return class < TRANSFER_SIZES ? class : TRANSFER_SIZES - 1;
}

static void operation_add(struct transfer_stat *stat, const struct model_transfer *transfer,
			  uint8_t op)
{
	unsigned size = size_class(transfer->bytes);

	stat->op = op;
	stat->count++;
	stat->bytes += transfer->bytes;
	stat->unfinished +=
		transfer->how == MODEL_TRANSFER_UNFINISHED || transfer->how == MODEL_TRANSFER_LOST;
	stat->failed += transfer->failed;
	stat->approximate += !transfer->exact;
	stat->retries += MODEL_ARG(&transfer->post, ofi_post, retries);
	stat->sizes[size]++;
	stat->size_bytes[size] += transfer->bytes;
}

bool transfer_ended(struct transfer_table *table, unsigned process,
		    const struct model_transfer *transfer)
{
	const struct trace_event *post = &transfer->post;
	int64_t begin = post->begin_ns, end = transfer->end_ns;
	uint64_t latency = end > begin ? (uint64_t)(end - begin) : 0;
	bool over = transfer->how == MODEL_TRANSFER_COMPLETED ||
		    transfer->how == MODEL_TRANSFER_AT_RETURN;
	bool room;
	struct peer_entry *peer = peer_of(table, process, post, &room);
	uint8_t op = operation_of(post);

	operation_add(&table->operations[op], transfer, op);
	if (over)
		histogram_add(&table->operations[op].latency, latency);
	if (over)
		seen(table, begin, end);
	if (transfer->counted) {
		busy_end(&table->busy, end);
		busy_end(&table->operations_busy[op], end);
		table->bytes_open -= MODEL_ARG(post, ofi_post, bytes);
	} else if (!transfer->multi) {
		busy_once(&table->busy, begin, end);
		busy_once(&table->operations_busy[op], begin, end);
	}
	if (transfer->counted || !transfer->multi)
		table->network.byte_ns +=
			(double)MODEL_ARG(post, ofi_post, bytes) * (double)latency;
	if (!peer)
		return !room;
	peer->stat.count++;
	peer->stat.bytes += transfer->bytes;
	if (over)
		histogram_add(&peer->stat.latency, latency);
	if (transfer->counted)
		busy_end(&peer->busy, end);
	else if (!transfer->multi)
		busy_once(&peer->busy, begin, end);
	return true;
}

void transfer_process_end(struct transfer_table *table)
{
	if (table->any)
		table->network.span_ns += (uint64_t)(table->last_ns - table->first_ns);
	table->network.busy_ns += table->busy.ns;
	table->busy = (struct busy){0};
	for (unsigned op = 0; op < WL_ofi_op_MAX; op++) {
		table->operations[op].busy_ns += table->operations_busy[op].ns;
		table->operations_busy[op] = (struct busy){0};
	}
	table->bytes_open = 0;
	table->any = false;
}

/* --- results ---------------------------------------------------------------------------------- */

static int in_order(const void *left, const void *right)
{
	const struct peer_stat *a = *(struct peer_stat *const *)left;
	const struct peer_stat *b = *(struct peer_stat *const *)right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->op != b->op)
		return a->op < b->op ? -1 : 1;
	return a->peer < b->peer ? -1 : a->peer > b->peer;
}

bool transfer_results(struct transfer_table *table, struct analysis *analysis)
{
	analysis->peers = calloc(table->peers.count + 1, sizeof(struct peer_stat *));
	if (!analysis->peers)
		return false;
	for (size_t i = 0; table->peers.slots && i <= table->peers.mask; i++) {
		struct peer_entry *peer = table->peers.slots[i].value;

		if (!peer || !peer->stat.count)
			continue;
		peer->stat.busy_ns = peer->busy.ns;
		analysis->peers[analysis->peer_count++] = &peer->stat;
	}
	if (analysis->peer_count)
		qsort(analysis->peers, analysis->peer_count, sizeof(struct peer_stat *), in_order);
	analysis->peers_left = table->peers_left;
	analysis->network = table->network;
	/* A transfer that the matcher tells of late may lie in a time that was counted already. */
	if (analysis->network.busy_ns > analysis->network.span_ns)
		analysis->network.busy_ns = analysis->network.span_ns;
	memcpy(analysis->transfers, table->operations, sizeof(analysis->transfers));
	return true;
}
