/* SPDX-License-Identifier: Apache-2.0 */
/* The B+ tree of ordmap.h. */
#include "collectives/ordmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FANOUT     32
#define HEIGHT_MAX 16 /* 16^16 keys even when every node is half full */

/*
 * One kind of node for both levels. Leaf: keys[i] belongs to slots[i]. Inner node: slots[i] is a
 * child, keys[i] is at most every key below slots[i + 1] and above every key below slots[i]; so it
 * has one key fewer than children. Unused keys are UINT64_MAX, which lets a search run over all
 * FANOUT of them without a branch.
 */
struct ordmap_node {
	uint64_t keys[FANOUT];
	void *slots[FANOUT];
	struct ordmap_node *prev, *next; /* leaves only */
	int count;                       /* slots in use */
};

struct path {
	struct ordmap_node *node[HEIGHT_MAX];
	int slot[HEIGHT_MAX];
};

void ordmap_init(struct ordmap *map)
{
	memset(map, 0, sizeof(*map));
}

static void node_free(struct ordmap_node *node, int height)
{
	for (int i = 0; height && i < node->count; i++)
		node_free(node->slots[i], height - 1);
	free(node);
}

void ordmap_free(struct ordmap *map)
{
	if (map->root)
		node_free(map->root, map->height);
	ordmap_init(map);
}

static struct ordmap_node *node_new(void)
{
	struct ordmap_node *node = calloc(1, sizeof(*node));

	if (node)
		memset(node->keys, 0xff, sizeof(node->keys));
	return node;
}

/* How many keys are <= key. */
static int rank_of(const struct ordmap_node *node, uint64_t key)
{
	int n = 0;

	for (int i = 0; i < FANOUT; i++)
		n += node->keys[i] <= key;
	return n;
}

static struct ordmap_node *descend(const struct ordmap *map, uint64_t key, struct path *path)
{
	struct ordmap_node *node = map->root;

	for (int level = 0; level < map->height; level++) {
		int slot = rank_of(node, key);

		if (path) {
			path->node[level] = node;
			path->slot[level] = slot;
		}
		node = node->slots[slot];
	}
	return node;
}

void *ordmap_floor(const struct ordmap *map, uint64_t key)
{
	struct ordmap_node *leaf;
	int n;

	if (!map->root)
		return NULL;
	leaf = descend(map, key, NULL);
	n = rank_of(leaf, key);
	if (n)
		return leaf->slots[n - 1];
	leaf = leaf->prev; /* no leaf is ever empty */
	return leaf ? leaf->slots[leaf->count - 1] : NULL;
}

void *ordmap_ceil(const struct ordmap *map, uint64_t key)
{
	struct ordmap_node *leaf;
	int n;

	if (!map->root)
		return NULL;
	leaf = descend(map, key, NULL);
	n = rank_of(leaf, key);
	if (n && leaf->keys[n - 1] == key)
		return leaf->slots[n - 1];
	if (n < leaf->count)
		return leaf->slots[n];
	return leaf->next ? leaf->next->slots[0] : NULL;
}

/* Puts a key and a slot at `at`; slot_shift is 1 for inner nodes, whose slot goes right of the
 * key. */
static void put_at(struct ordmap_node *node, int at, uint64_t key, void *slot, int slot_shift)
{
	int keys = node->count - slot_shift;
	int to = at + slot_shift;

	memmove(&node->keys[at + 1], &node->keys[at], (size_t)(keys - at) * sizeof(node->keys[0]));
	memmove(&node->slots[to + 1], &node->slots[to],
		(size_t)(node->count - to) * sizeof(node->slots[0]));
	node->keys[at] = key;
	node->slots[to] = slot;
	node->count++;
}

/* Moves the upper half of a full node to `right`; returns the key that separates the two. */
static uint64_t split(struct ordmap_node *node, struct ordmap_node *right, int inner)
{
	int keep = FANOUT / 2;
	int move = node->count - keep;
	uint64_t separator;

	memcpy(right->slots, &node->slots[keep], (size_t)move * sizeof(node->slots[0]));
	right->count = move;
	if (inner) { /* keys[keep - 1] separates; it moves up and out */
		separator = node->keys[keep - 1];
		memcpy(right->keys, &node->keys[keep], (size_t)(move - 1) * sizeof(node->keys[0]));
		memset(&node->keys[keep - 1], 0xff,
		       (size_t)(FANOUT - keep + 1) * sizeof(node->keys[0]));
	} else {
		separator = node->keys[keep];
		memcpy(right->keys, &node->keys[keep], (size_t)move * sizeof(node->keys[0]));
		memset(&node->keys[keep], 0xff, (size_t)(FANOUT - keep) * sizeof(node->keys[0]));
		right->next = node->next;
		right->prev = node;
		if (right->next)
			right->next->prev = right;
		node->next = right;
	}
	node->count = keep;
	return separator;
}

/* The nodes that an insertion may need, made beforehand so that running out of memory changes
 * nothing. */
struct spare {
	struct ordmap_node *node[HEIGHT_MAX + 2];
	int count;
};

static int spare_fill(struct spare *spare, int need)
{
	for (spare->count = 0; spare->count < need; spare->count++) {
		spare->node[spare->count] = node_new();
		if (!spare->node[spare->count]) {
			while (spare->count)
				free(spare->node[--spare->count]);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Splits the leaf and every full node above it, then puts the key in. */
static void insert_splitting(struct ordmap *map, struct path *path, struct ordmap_node *leaf,
			     uint64_t key, void *value, struct spare *spare)
{
	struct ordmap_node *right = spare->node[--spare->count];
	uint64_t separator = split(leaf, right, 0);
	struct ordmap_node *into = key < separator ? leaf : right;
	int level = map->height - 1;

	put_at(into, rank_of(into, key), key, value, 0);
	for (; level >= 0; level--) {
		struct ordmap_node *parent = path->node[level];
		struct ordmap_node *new_right = right;
		uint64_t new_key = separator;

		if (parent->count < FANOUT) {
			put_at(parent, path->slot[level], new_key, new_right, 1);
			return;
		}
		right = spare->node[--spare->count];
		separator = split(parent, right, 1);
		into = new_key < separator ? parent : right;
		put_at(into, rank_of(into, new_key), new_key, new_right, 1);
	}
	into = spare->node[--spare->count]; /* the root was split: one level more */
	into->slots[0] = map->root;
	into->slots[1] = right;
	into->keys[0] = separator;
	into->count = 2;
	map->root = into;
	map->height++;
}

int ordmap_insert(struct ordmap *map, uint64_t key, void *value)
{
	struct ordmap_node *leaf;
	struct path path;
	struct spare spare;
	int at, need = 0;

	if (!map->root) {
		map->root = node_new();
		if (!map->root)
			return -ENOMEM;
	}
	leaf = descend(map, key, &path);
	at = rank_of(leaf, key);
	if (at && leaf->keys[at - 1] == key)
		return -EEXIST;
	if (leaf->count < FANOUT) {
		put_at(leaf, at, key, value, 0);
		map->count++;
		return 0;
	}
	for (int level = map->height; level >= 0; level--) {
		need++;
		if (level && path.node[level - 1]->count < FANOUT)
			break;
		if (!level)
			need++; /* the new root */
	}
	if (spare_fill(&spare, need))
		return -ENOMEM;
	insert_splitting(map, &path, leaf, key, value, &spare);
	map->count++;
	return 0;
}

/* Takes slot `at` out of an inner node, with the separator on its left (its right for the first).
 */
static void drop_child(struct ordmap_node *node, int at)
{
	int key = at ? at - 1 : 0;
	int keys = node->count - 1;

	if (keys > 0) {
		memmove(&node->keys[key], &node->keys[key + 1],
			(size_t)(keys - key - 1) * sizeof(node->keys[0]));
		node->keys[keys - 1] = UINT64_MAX;
	}
	memmove(&node->slots[at], &node->slots[at + 1],
		(size_t)(node->count - at - 1) * sizeof(node->slots[0]));
	node->count--;
}

/* An emptied leaf leaves the tree, and so does every inner node that loses its last child. */
static void drop_leaf(struct ordmap *map, struct path *path, struct ordmap_node *leaf)
{
	if (leaf->prev)
		leaf->prev->next = leaf->next;
	if (leaf->next)
		leaf->next->prev = leaf->prev;
	free(leaf);
	for (int level = map->height - 1; level >= 0; level--) {
		drop_child(path->node[level], path->slot[level]);
		if (path->node[level]->count)
			break;
		free(path->node[level]);
		if (!level)
			map->root = NULL;
	}
	if (!map->height || !map->root) {
		ordmap_init(map);
		return;
	}
	while (map->height && map->root->count == 1) {
		struct ordmap_node *only = map->root->slots[0];

		free(map->root);
		map->root = only;
		map->height--;
	}
}

void *ordmap_remove(struct ordmap *map, uint64_t key)
{
	struct ordmap_node *leaf;
	struct path path;
	void *value;
	int at;

	if (!map->root)
		return NULL;
	leaf = descend(map, key, &path);
	at = rank_of(leaf, key) - 1;
	if (at < 0 || leaf->keys[at] != key)
		return NULL;
	value = leaf->slots[at];
	memmove(&leaf->keys[at], &leaf->keys[at + 1],
		(size_t)(leaf->count - at - 1) * sizeof(leaf->keys[0]));
	memmove(&leaf->slots[at], &leaf->slots[at + 1],
		(size_t)(leaf->count - at - 1) * sizeof(leaf->slots[0]));
	leaf->count--;
	leaf->keys[leaf->count] = UINT64_MAX;
	map->count--;
	if (!leaf->count)
		drop_leaf(map, &path, leaf);
	return value;
}
