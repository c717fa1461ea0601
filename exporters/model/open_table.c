/* SPDX-License-Identifier: Apache-2.0
 *
 * Open things by key and by age: a hash table with two lists through its nodes.
 */
#include "exporters/model/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int open_table_init(struct open_table *table, size_t node_bytes)
{
	memset(table, 0, sizeof(*table));
	table->node_bytes = node_bytes;
	table->used = 1;
	table->capacity = 64;
	table->mask = 127;
	table->nodes = malloc(table->capacity * node_bytes);
	table->heads = calloc(table->mask + 1, sizeof(uint32_t));
	table->tails = calloc(table->mask + 1, sizeof(uint32_t));
	return table->nodes && table->heads && table->tails ? 0 : -ENOMEM;
}

void open_table_done(struct open_table *table)
{
	free(table->nodes);
	free(table->heads);
	free(table->tails);
}

static uint32_t bucket_of(const struct open_table *table, uint64_t key0, uint64_t key1)
{
	uint64_t x = key0 * 0x9e3779b97f4a7c15u + (key1 ^ key1 >> 32) * 0xd6e8feb86659fd93u;

	x ^= x >> 32;
	x *= 0x94d049bb133111ebu;
	return (uint32_t)(x >> 32) & table->mask;
}

static void link_bucket(struct open_table *table, uint32_t index)
{
	struct open_node *node = open_at(table, index);
	uint32_t bucket = bucket_of(table, node->key[0], node->key[1]);

	node->next = 0;
	node->previous = table->tails[bucket];
	if (node->previous)
		((struct open_node *)open_at(table, node->previous))->next = index;
	else
		table->heads[bucket] = index;
	table->tails[bucket] = index;
}

/* Twice the nodes and buckets. Relinking by age keeps each bucket in order. */
static int grow(struct open_table *table)
{
	uint32_t capacity = table->capacity * 2, mask = table->mask * 2 + 1;
	uint8_t *nodes = realloc(table->nodes, (size_t)capacity * table->node_bytes);
	uint32_t *heads, *tails;

	if (!nodes)
		return -ENOMEM;
	table->nodes = nodes;
	heads = calloc((size_t)mask + 1, sizeof(uint32_t));
	tails = calloc((size_t)mask + 1, sizeof(uint32_t));
	if (!heads || !tails) {
		free(heads);
		free(tails);
		return -ENOMEM;
	}
	free(table->heads);
	free(table->tails);
	table->heads = heads;
	table->tails = tails;
	table->mask = mask;
	table->capacity = capacity;
	for (uint32_t i = table->oldest; i; i = ((struct open_node *)open_at(table, i))->newer)
		link_bucket(table, i);
	return 0;
}

uint32_t open_add(struct open_table *table, uint64_t key0, uint64_t key1)
{
	uint32_t index = table->free;
	struct open_node *node;

	if (table->count >= MATCH_OPEN_MAX)
		return 0;
	if (!index && table->used == table->capacity && grow(table))
		return 0;
	if (index)
		table->free = ((struct open_node *)open_at(table, index))->older;
	else
		index = table->used++;
	node = open_at(table, index);
	memset(node, 0, table->node_bytes);
	node->key[0] = key0;
	node->key[1] = key1;
	node->older = table->newest;
	if (node->older)
		((struct open_node *)open_at(table, node->older))->newer = index;
	else
		table->oldest = index;
	table->newest = index;
	table->count++;
	link_bucket(table, index);
	return index;
}

void open_remove(struct open_table *table, uint32_t index)
{
	struct open_node *node = open_at(table, index);
	uint32_t bucket = bucket_of(table, node->key[0], node->key[1]);

	if (node->previous)
		((struct open_node *)open_at(table, node->previous))->next = node->next;
	else
		table->heads[bucket] = node->next;
	if (node->next)
		((struct open_node *)open_at(table, node->next))->previous = node->previous;
	else
		table->tails[bucket] = node->previous;
	if (node->older)
		((struct open_node *)open_at(table, node->older))->newer = node->newer;
	else
		table->oldest = node->newer;
	if (node->newer)
		((struct open_node *)open_at(table, node->newer))->older = node->older;
	else
		table->newest = node->older;
	node->older = table->free;
	table->free = index;
	table->count--;
}

uint32_t open_find(const struct open_table *table, uint64_t key0, uint64_t key1, uint32_t after)
{
	uint32_t index = after ? ((struct open_node *)open_at(table, after))->next
			       : table->heads[bucket_of(table, key0, key1)];

	for (; index; index = ((struct open_node *)open_at(table, index))->next) {
		const struct open_node *node = open_at(table, index);

		if (node->key[0] == key0 && node->key[1] == key1)
			return index;
	}
	return 0;
}
