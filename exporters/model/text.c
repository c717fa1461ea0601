/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of texts: an arena of bytes and a hash table of numbers.
 */
#include "exporters/model/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64u * 1024)

struct text_block {
	struct text_block *next;
	char bytes[];
};

struct text_entry {
	const char *text;
	uint32_t length;
	uint32_t hash;
};

struct text_pool {
	struct text_block *blocks;
	size_t left; /* in the first block */
	char *at;
	struct text_entry *entries; /* entries[0] is unused, so that numbers begin at 1 */
	uint32_t count, capacity;
	uint32_t *slots; /* numbers; 0 free; twice as many as capacity */
	uint32_t slot_mask;
};

static uint32_t hash_bytes(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3u;
	return (uint32_t)text_mix(hash);
}

struct text_pool *text_pool_new(void)
{
	struct text_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->capacity = 256;
	pool->slot_mask = 511;
	pool->entries = calloc(pool->capacity, sizeof(*pool->entries));
	pool->slots = calloc(pool->slot_mask + 1, sizeof(*pool->slots));
	pool->count = 1;
	if (!pool->entries || !pool->slots) {
		text_pool_free(pool);
		return NULL;
	}
	return pool;
}

void text_pool_free(struct text_pool *pool)
{
	if (!pool)
		return;
	while (pool->blocks) {
		struct text_block *next = pool->blocks->next;

		free(pool->blocks);
		pool->blocks = next;
	}
	free(pool->entries);
	free(pool->slots);
	free(pool);
}

static char *arena(struct text_pool *pool, size_t bytes)
{
	if (bytes > pool->left) {
		size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
		struct text_block *block = malloc(sizeof(*block) + size);

		if (!block)
			return NULL;
		block->next = pool->blocks;
		pool->blocks = block;
		pool->at = block->bytes;
		pool->left = size;
	}
	char *at = pool->at;

	pool->at += bytes;
	pool->left -= bytes;
	return at;
}

static int grow(struct text_pool *pool)
{
	uint32_t capacity = pool->capacity * 2, mask = capacity * 2 - 1;
	struct text_entry *entries = realloc(pool->entries, capacity * sizeof(*entries));
	uint32_t *slots;

	if (!entries)
		return -1;
	pool->entries = entries;
	slots = calloc(mask + 1, sizeof(*slots));
	if (!slots)
		return -1;
	for (uint32_t i = 1; i < pool->count; i++) {
		uint32_t slot = entries[i].hash & mask;

		while (slots[slot])
			slot = (slot + 1) & mask;
		slots[slot] = i;
	}
	free(pool->slots);
	pool->slots = slots;
	pool->slot_mask = mask;
	pool->capacity = capacity;
	return 0;
}

uint32_t text_pool_add(struct text_pool *pool, const char *text, size_t length)
{
	uint32_t hash = hash_bytes(text, length), slot = hash & pool->slot_mask;

	for (; pool->slots[slot]; slot = (slot + 1) & pool->slot_mask) {
		const struct text_entry *entry = &pool->entries[pool->slots[slot]];

		if (entry->hash == hash && entry->length == length &&
		    !memcmp(entry->text, text, length))
			return pool->slots[slot];
	}
	if (length >= UINT32_MAX || (pool->count == pool->capacity && grow(pool)))
		return 0;
	char *copy = arena(pool, length + 1);

	if (!copy)
		return 0;
	memcpy(copy, text, length);
	copy[length] = 0;
	for (slot = hash & pool->slot_mask; pool->slots[slot];)
		slot = (slot + 1) & pool->slot_mask;
	pool->slots[slot] = pool->count;
	pool->entries[pool->count] = (struct text_entry){copy, (uint32_t)length, hash};
	return pool->count++;
}

const char *text_pool_get(const struct text_pool *pool, uint32_t number)
{
	return number && number < pool->count ? pool->entries[number].text : "";
}

uint32_t text_pool_count(const struct text_pool *pool)
{
	return pool->count - 1;
}

const char *text_keep(struct text_pool *pool, const char *text)
{
	return text ? text_pool_get(pool, text_pool_add(pool, text, strlen(text))) : NULL;
}

const char *text_keepf(struct text_pool *pool, const char *format, ...)
{
	char text[512], *longer;
	const char *kept;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length < 0)
		return "";
	if ((size_t)length < sizeof(text))
		return text_pool_get(pool, text_pool_add(pool, text, (size_t)length));
	longer = malloc((size_t)length + 1);
	if (!longer)
		return "";
	va_start(args, format);
	vsnprintf(longer, (size_t)length + 1, format, args);
	va_end(args);
	kept = text_pool_get(pool, text_pool_add(pool, longer, (size_t)length));
	free(longer);
	return kept;
}

/* Bytes of the valid UTF-8 character at `at`, 0 if there is none. */
static size_t utf8_bytes(const uint8_t *at, size_t left)
{
	uint32_t code, least;
	size_t bytes;

	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xc2 && at[0] <= 0xdf) {
		bytes = 2, code = at[0] & 0x1f, least = 0x80;
	} else if (at[0] >= 0xe0 && at[0] <= 0xef) {
		bytes = 3, code = at[0] & 0x0f, least = 0x800;
	} else if (at[0] >= 0xf0 && at[0] <= 0xf4) {
		bytes = 4, code = at[0] & 0x07, least = 0x10000;
	} else {
		return 0;
	}
	if (bytes > left)
		return 0;
	for (size_t i = 1; i < bytes; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return bytes;
}

size_t text_clean(char *to, size_t size, const char *from, size_t length)
{
	const uint8_t *in = (const uint8_t *)from;
	size_t out = 0;

	for (size_t i = 0; i < length;) {
		size_t bytes = utf8_bytes(in + i, length - i);
		size_t need = bytes ? bytes : 3;

		if (out + need >= size)
			break;
		if (bytes)
			memcpy(to + out, in + i, bytes);
		else
			memcpy(to + out, "\xef\xbf\xbd", 3);
		out += need;
		i += bytes ? bytes : 1;
	}
	to[out] = 0;
	return out;
}
