/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three kinds of matching share.
 */
#ifndef WAYLAY_EXPORTERS_MATCH_H
#define WAYLAY_EXPORTERS_MATCH_H

#include "exporters/model/internal.h"

/* At most so many of each are kept open at once; the oldest is given up beyond. */
#define MATCH_OPEN_MAX 65536u

/*
 * Open things by a key of two numbers. Nodes of one key are found oldest first; all nodes hang in one
 * list by age, too. Indexes are stable until open_remove; 0 is none.
 */
struct open_table {
	uint8_t *nodes; /* node 0 is unused */
	size_t node_bytes;
	uint32_t count, capacity, used; /* live, allocated, ever handed out */
	uint32_t free;                  /* list through older */
	uint32_t oldest, newest;
	uint32_t *heads, *tails; /* by bucket */
	uint32_t mask;
};

/* Every node begins with this. */
struct open_node {
	uint64_t key[2];
	uint32_t next, previous; /* in its bucket, by age */
	uint32_t newer, older;   /* of all */
};

int open_table_init(struct open_table *table, size_t node_bytes);
void open_table_done(struct open_table *table);
static inline void *open_at(const struct open_table *table, uint32_t index)
{
	return table->nodes + (size_t)index * table->node_bytes;
}
/* A zeroed new node, the newest; 0 when memory is short or MATCH_OPEN_MAX are open. */
uint32_t open_add(struct open_table *table, uint64_t key0, uint64_t key1);
void open_remove(struct open_table *table, uint32_t index);
/* The oldest node of a key, or the next younger one of the same key after `after`; 0 none. */
uint32_t open_find(const struct open_table *table, uint64_t key0, uint64_t key1, uint32_t after);

/* The parts of a matcher. */
struct match_transfers;
struct match_ranges;
struct match_messages;

struct match_context {
	struct model *model;
	unsigned process;
	const struct model_match_ops *ops;
	void *user;
	struct model_match_counts counts;
	struct match_messages *messages; /* NULL: there is one process */
	int64_t now_ns;                  /* end of the newest record fed */
};

/* A matcher that only learns who sends to whom (model->senders). */
struct model_matcher *model_matcher_new_senders(struct model *model, unsigned process);

struct match_transfers *match_transfers_new(struct match_context *context);
void match_transfers_feed(struct match_transfers *transfers, const struct trace_event *event);
void match_transfers_finish(struct match_transfers *transfers, int64_t end_ns);
void match_transfers_free(struct match_transfers *transfers);

struct match_ranges *match_ranges_new(struct match_context *context);
void match_ranges_feed(struct match_ranges *ranges, const struct trace_event *event);
void match_ranges_finish(struct match_ranges *ranges, int64_t end_ns);
void match_ranges_free(struct match_ranges *ranges);

struct match_gpu;

struct match_gpu *match_gpu_new(struct match_context *context);
/* Device work, and the calls that give it. */
void match_gpu_feed(struct match_gpu *gpu, const struct trace_event *event);
void match_gpu_finish(struct match_gpu *gpu);
void match_gpu_free(struct match_gpu *gpu);
/* Whether calls of this type are numbered as model_activity.ordinal counts them. */
bool match_gpu_is_call(const struct wl_event_type *type);

#endif
