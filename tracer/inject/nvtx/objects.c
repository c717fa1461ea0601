/* SPDX-License-Identifier: Apache-2.0
 *
 * Domains, registered strings and named categories: made once, looked up often, kept for ever. Memory
 * comes from a mapping of our own, so that a client which registers strings inside its allocator, or
 * in a forked child, is safe.
 */
#include "tracer/inject/nvtx/nvtx.h"

#include <sys/mman.h>

#define MAGIC       0x5857564eu
#define ARENA_BYTES (16u << 20)
#define TABLE_SLOTS 32768u
#define TEXT_MAX    1000u /* a longer name is cut */

static _Atomic(uint8_t *) arena;
static _Atomic size_t arena_used;
static _Atomic(_Atomic(struct nvtx_object *) *) table;

/* A mapping that all threads share from the first use on. */
static void *mapping_get(_Atomic(void *) *where, size_t bytes)
{
	void *known = atomic_load_explicit(where, memory_order_acquire), *fresh;

	if (known)
		return known;
	fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fresh == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(where, &known, fresh))
		return fresh;
	munmap(fresh, bytes); /* another thread was first */
	return known;
}

static void *arena_take(size_t bytes)
{
	uint8_t *base = mapping_get((_Atomic(void *) *)&arena, ARENA_BYTES);
	size_t at;

	bytes = (bytes + 15) & ~(size_t)15;
	if (!base)
		return NULL;
	at = atomic_fetch_add_explicit(&arena_used, bytes, memory_order_relaxed);
	if (at + bytes > ARENA_BYTES) {
		atomic_fetch_sub_explicit(&arena_used, bytes, memory_order_relaxed);
		return NULL;
	}
	return base + at;
}

static uint32_t hash_of(enum nvtx_kind kind, const struct nvtx_object *domain, uint64_t number,
			const char *text)
{
	uint64_t hash = (uint64_t)kind * 0x9e3779b97f4a7c15u ^ (uintptr_t)domain ^ number;

	if (!number)
		for (unsigned i = 0; i < TEXT_MAX && text[i]; i++)
			hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
	hash *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash >> 40);
}

static bool same(const struct nvtx_object *o, enum nvtx_kind kind, const struct nvtx_object *domain,
		 uint64_t number, const char *text)
{
	return o->kind == kind && o->domain == domain && o->number == number &&
	       (number || !strncmp(o->text, text, TEXT_MAX));
}

static struct nvtx_object *object_new(enum nvtx_kind kind, const struct nvtx_object *domain,
				      uint64_t number, const char *text)
{
	size_t length = strnlen(text, TEXT_MAX);
	struct nvtx_object *o = arena_take(sizeof(*o) + length + 1);

	if (!o)
		return NULL;
	o->magic = MAGIC;
	o->kind = kind;
	o->domain = domain;
	o->number = number;
	memcpy(o->text, text, length);
	o->text[length] = '\0';
	o->name.text = o->text;
	return o;
}

/* text NULL: only look. */
static struct nvtx_object *lookup(enum nvtx_kind kind, const struct nvtx_object *domain,
				  uint64_t number, const char *text)
{
	_Atomic(struct nvtx_object *) *slots =
		mapping_get((_Atomic(void *) *)&table, TABLE_SLOTS * sizeof(*slots));
	uint32_t at = hash_of(kind, domain, number, text);
	struct nvtx_object *fresh = NULL;

	for (uint32_t tries = 0; slots && tries < TABLE_SLOTS; tries++, at++) {
		_Atomic(struct nvtx_object *) *slot = &slots[at % TABLE_SLOTS];
		/* Pairs with the exchange below: who finds an object sees it whole. */
		struct nvtx_object *seen = atomic_load_explicit(slot, memory_order_acquire);

		if (!seen) {
			if (!text)
				return NULL;
			if (!fresh)
				fresh = object_new(kind, domain, number, text);
			if (!fresh || atomic_compare_exchange_strong(slot, &seen, fresh))
				return fresh;
		}
		if (same(seen, kind, domain, number, text))
			return seen;
	}
	return NULL;
}

struct nvtx_object *nvtx_object_get(enum nvtx_kind kind, const struct nvtx_object *domain,
				    uint64_t number, const char *text)
{
	return lookup(kind, domain, number, text ? text : "");
}

struct nvtx_object *nvtx_object_find(enum nvtx_kind kind, const struct nvtx_object *domain,
				     uint64_t number)
{
	return number ? lookup(kind, domain, number, NULL) : NULL;
}

struct nvtx_object *nvtx_object_of(const void *handle, enum nvtx_kind kind)
{
	const uint8_t *base = atomic_load_explicit(&arena, memory_order_acquire);
	struct nvtx_object *o = (struct nvtx_object *)handle;

	if (!handle)
		return NULL;
	if (nvtx_chained)
		return nvtx_object_find(kind, NULL, (uintptr_t)handle);
	/* A handle from before another tool was replaced, or no handle at all. */
	if (!base || (uintptr_t)handle < (uintptr_t)base || (uintptr_t)handle & 15 ||
	    (uintptr_t)handle >= (uintptr_t)base + ARENA_BYTES - sizeof(*o))
		return NULL;
	return o->magic == MAGIC && o->kind == kind ? o : NULL;
}

void nvtx_text_narrow(char *to, size_t size, const wchar_t *from)
{
	size_t used = 0;

	for (; from && *from && used + 5 < size; from++) {
		uint32_t c = (uint32_t)*from;

		if (c < 0x80) {
			to[used++] = (char)c;
			continue;
		}
		if (c >= 0x10000)
			to[used++] = (char)(0xf0 | (c >> 18 & 7));
		if (c >= 0x800)
			to[used++] = (char)((c >= 0x10000 ? 0x80 : 0xe0) |
					    (c >> 12 & (c >= 0x10000 ? 63 : 15)));
		to[used++] = (char)((c >= 0x800 ? 0x80 : 0xc0) | (c >> 6 & (c >= 0x800 ? 63 : 31)));
		to[used++] = (char)(0x80 | (c & 63));
	}
	to[used] = '\0';
}
