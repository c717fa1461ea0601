/* SPDX-License-Identifier: Apache-2.0 */
/* The B+ tree of ordmap.h. */
#include "collectives/ordmap.h"

#include <errno.h>
#include <string.h>

#define FANOUT       32
#define SLOTS_A_LINE 8
#define HEIGHT_MAX   16 /* 16^16 keys even when every node is half full */

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
	*map = (struct ordmap){.root = NULL};
	slab_init(&map->nodes, sizeof(struct ordmap_node));
}

void ordmap_free(struct ordmap *map)
{
	slab_free(&map->nodes);
	ordmap_init(map);
}

static struct ordmap_node *node_new(struct ordmap *map)
{
	struct ordmap_node *node = slab_get(&map->nodes);

	if (!node)
		return NULL;
	memset(node->keys, 0xff, sizeof(node->keys));
	node->prev = node->next = NULL;
	node->count = 0;
	return node;
}

/* Fetches all that a search of a node may read: which of it shows only bit by bit. */
static void node_fetch(const struct ordmap_node *node)
{
	for (int i = 0; i < FANOUT; i += SLOTS_A_LINE)
		__builtin_prefetch(&node->keys[i]);
	for (int i = 0; i < FANOUT; i += SLOTS_A_LINE)
		__builtin_prefetch(&node->slots[i]);
}

/* How many keys are <= key. Halves without a branch: keys are as good as random. */
static int rank_of(const struct ordmap_node *node, uint64_t key)
{
	int n = 0;

	for (int half = FANOUT / 2; half; half /= 2)
		n += node->keys[n + half - 1] <= key ? half : 0;
	return n + (node->keys[n] <= key);
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
		node_fetch(node);
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

/* Splits the full child at `slot` of a parent that has room. */
static int split_child(struct ordmap *map, struct ordmap_node *parent, int slot, int inner)
{
	struct ordmap_node *right = node_new(map);
	uint64_t separator;

	if (!right)
		return -ENOMEM;
	separator = split(parent->slots[slot], right, inner);
	put_at(parent, slot, separator, right, 1);
	return 0;
}

/* A new root above the old one, which is full. */
static int grow(struct ordmap *map)
{
	struct ordmap_node *root = node_new(map);

	if (!root)
		return -ENOMEM;
	root->slots[0] = map->root;
	root->count = 1;
	if (split_child(map, root, 0, map->height > 0)) {
		slab_put(&map->nodes, root);
		return -ENOMEM;
	}
	map->root = root;
	map->height++;
	return 0;
}

/* Keys that come in ascending order, as addresses often do, leave full leaves behind instead of
 * half full ones. */
static int append_leaf(struct ordmap *map, struct ordmap_node *parent, struct ordmap_node *leaf,
		       uint64_t key, void *value)
{
	struct ordmap_node *right = node_new(map);

	if (!right)
		return -ENOMEM;
	right->prev = leaf;
	leaf->next = right;
	put_at(right, 0, key, value, 0);
	put_at(parent, parent->count - 1, key, right, 1);
	map->count++;
	return 0;
}

/*
 * Full nodes are split on the way down, so that there is always room for a separator in the
 * parent. A split by itself changes nothing of what the map holds: running out of memory half way
 * does no harm.
 */
int ordmap_insert(struct ordmap *map, uint64_t key, void *value)
{
	struct ordmap_node *node;
	int at;

	if (!map->root && !(map->root = node_new(map)))
		return -ENOMEM;
	if (map->root->count == FANOUT && grow(map))
		return -ENOMEM;
	node = map->root;
	for (int level = map->height; level > 0; level--) {
		int slot = rank_of(node, key);
		struct ordmap_node *child = node->slots[slot];

		if (child->count == FANOUT) {
			if (level == 1 && !child->next && key > child->keys[FANOUT - 1])
				return append_leaf(map, node, child, key, value);
			if (split_child(map, node, slot, level > 1))
				return -ENOMEM;
			child = node->slots[rank_of(node, key)];
		}
		node = child;
	}
	at = rank_of(node, key);
	if (at && node->keys[at - 1] == key)
		return -EEXIST;
	put_at(node, at, key, value, 0);
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
	slab_put(&map->nodes, leaf);
	for (int level = map->height - 1; level >= 0; level--) {
		drop_child(path->node[level], path->slot[level]);
		if (path->node[level]->count)
			break;
		slab_put(&map->nodes, path->node[level]);
	}
	if (!map->count) {
		map->root = NULL;
		map->height = 0;
		return;
	}
	while (map->height && map->root->count == 1) {
		struct ordmap_node *only = map->root->slots[0];

		slab_put(&map->nodes, map->root);
		map->root = only;
		map->height--;
	}
}

void *ordmap_remove(struct ordmap *map, uint64_t key)
{
	struct ordmap_node *leaf;
	struct path path = {.node = {NULL}};
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
