/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: index, generation and type in one word, checked against a table that only grows. */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>

enum { CHUNK_BITS = 12, CHUNK = 1 << CHUNK_BITS, CHUNKS = 4096 };

struct slot {
	_Atomic uint64_t handle; /* 0 when free */
	void *_Atomic obj;
	uint32_t next_free; /* index + 1 */
	uint16_t gen;
};

static struct slot *_Atomic chunks[CHUNKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t free_head; /* index + 1 */
static uint32_t used;

static struct slot *slot_at(uint32_t index)
{
	/* Pairs with the release in slot_take. */
	struct slot *chunk =
		atomic_load_explicit(&chunks[index >> CHUNK_BITS], memory_order_acquire);
	return chunk ? &chunk[index & (CHUNK - 1)] : NULL;
}

/* With the lock held: a free slot, or NULL. */
static struct slot *slot_take(uint32_t *index)
{
	if (free_head) {
		*index = free_head - 1;
		struct slot *s = slot_at(*index);
		free_head = s->next_free;
		return s;
	}
	if (used == (uint32_t)CHUNK * CHUNKS)
		return NULL;
	if (!(used & (CHUNK - 1))) {
		struct slot *chunk = calloc(CHUNK, sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(&chunks[used >> CHUNK_BITS], chunk, memory_order_release);
	}
	*index = used++;
	return slot_at(*index);
}

uint64_t fc_handle_new(enum fc_type type, void *obj)
{
	uint64_t handle = 0;
	uint32_t index;
	pthread_mutex_lock(&lock);
	struct slot *s = slot_take(&index);
	if (s) {
		if (!++s->gen)
			s->gen = 1;
		handle = (uint64_t)s->gen << 32 | (uint64_t)index << 8 | (uint64_t)type << 4;
		atomic_store_explicit(&s->obj, obj, memory_order_relaxed);
		/* Pairs with the acquire in fc_handle_get: obj is there before the handle. */
		atomic_store_explicit(&s->handle, handle, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

void *fc_handle_get(uint64_t handle, enum fc_type type)
{
	if (!(handle >> 32) || (handle & 0xff) != (uint64_t)type << 4)
		return NULL;
	struct slot *s = slot_at(handle >> 8 & 0xffffff);
	if (!s || atomic_load_explicit(&s->handle, memory_order_acquire) != handle)
		return NULL;
	return atomic_load_explicit(&s->obj, memory_order_relaxed);
}

void fc_handle_drop(uint64_t handle)
{
	uint32_t index = handle >> 8 & 0xffffff;
	pthread_mutex_lock(&lock);
	struct slot *s = slot_at(index);
	if (s && atomic_load_explicit(&s->handle, memory_order_relaxed) == handle) {
		atomic_store_explicit(&s->handle, 0, memory_order_release);
		s->next_free = free_head;
		free_head = index + 1;
	}
	pthread_mutex_unlock(&lock);
}

void fc_handle_each(enum fc_type type, void (*fn)(void *obj, void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	uint32_t count = used;
	pthread_mutex_unlock(&lock);
	for (uint32_t i = 0; i < count; i++) {
		struct slot *s = slot_at(i);
		uint64_t handle = atomic_load_explicit(&s->handle, memory_order_acquire);
		if (handle && (handle & 0xff) == (uint64_t)type << 4)
			fn(atomic_load_explicit(&s->obj, memory_order_relaxed), arg);
	}
}
