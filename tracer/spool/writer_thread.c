/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: their structs and slots, from the first record to the end.
 *
 * Struct number i and slot number i belong together for ever. Structs lie in blocks that a fork wipes,
 * made as they are needed and never given back, and no child uses its parent's blocks: whatever a
 * child's thread still points to is empty, and stays so.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* glibc keeps this many values inside a thread's own control block; setting a further one calls
 * calloc, which a thread's first event must not. */
#define KEYS_INLINE 32

__thread struct spool_thread *spool_self __attribute__((tls_model("initial-exec")));
/* Rounds of destructors that the ending thread has been through. */
static __thread unsigned rounds __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static bool key_usable;

/* Destructors run in up to 4 rounds (PTHREAD_DESTRUCTOR_ITERATIONS). In the third, those of other
 * libraries have had two to record in, and runtimes that go in the last (ThreadSanitizer's) are there. */
#define ROUNDS 3

/* --- drops --- */

void spool_drop(struct spool_writer *w, struct spool_thread *self, enum trace_drop reason,
		uint64_t n)
{
	_Atomic uint64_t *drops = self && self->slot ? self->slot->drops : w->header->drops;

	/* Atomic, since a signal handler may do the same; not on the path of a recorded event. */
	atomic_fetch_add_explicit(&drops[reason], n, memory_order_relaxed);
}

/* --- structs --- */

static struct spool_thread *thread_at(const struct spool_writer *w, uint32_t index)
{
	struct spool_thread *block = atomic_load(&w->blocks[index / SPOOL_BLOCK_THREADS]);

	return block ? block + index % SPOOL_BLOCK_THREADS : NULL;
}

static bool block_make(struct spool_writer *w, uint32_t number)
{
	size_t bytes = SPOOL_BLOCK_THREADS * sizeof(struct spool_thread);
	struct spool_thread *none = NULL;
	void *at;

	if (atomic_load(&w->blocks[number]))
		return true;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return false;
	madvise(at, bytes, MADV_WIPEONFORK);
	if (!atomic_compare_exchange_strong(&w->blocks[number], &none, (struct spool_thread *)at))
		munmap(at, bytes);
	return true;
}

/* From the list of those given back. The upper half of the list's head changes with every operation,
 * so that a head that looks the same is the same. */
static struct spool_thread *struct_reuse(struct spool_writer *w)
{
	uint64_t head = atomic_load(&w->free_list), next;
	struct spool_thread *t;

	do {
		if (!(uint32_t)head)
			return NULL;
		t = thread_at(w, (uint32_t)head - 1);
		next = ((head >> 32) + 1) << 32 | atomic_load(&t->next_free);
	} while (!atomic_compare_exchange_weak(&w->free_list, &head, next));
	return t;
}

static struct spool_thread *struct_take(struct spool_writer *w)
{
	struct spool_thread *t = struct_reuse(w);
	uint32_t n;

	if (t)
		return t;
	n = atomic_load(&w->index_next);
	do {
		if (n >= SPOOL_THREADS_MAX || !block_make(w, n / SPOOL_BLOCK_THREADS))
			return NULL;
	} while (!atomic_compare_exchange_weak(&w->index_next, &n, n + 1));
	t = thread_at(w, n);
	t->index = n;
	return t;
}

static void struct_give(struct spool_writer *w, struct spool_thread *t)
{
	uint64_t head = atomic_load(&w->free_list), mine;

	atomic_store(&t->tid, 0);
	t->owner = NULL;
	t->slot = NULL;
	t->serial = 0;
	t->generation = 0;
	atomic_store(&t->more, NULL);
	atomic_store(&t->chunk_sequence, 0);
	atomic_store(&t->writing, 0);
	atomic_store(&t->snapshot_due, 0);
	do {
		atomic_store(&t->next_free, (uint32_t)head);
		mine = ((head >> 32) + 1) << 32 | (t->index + 1);
	} while (!atomic_compare_exchange_weak(&w->free_list, &head, mine));
}

void spool_threads_visit(struct spool_writer *w,
			 void (*visit)(struct spool_writer *w, struct spool_thread *t))
{
	uint32_t count = atomic_load(&w->index_next);

	for (uint32_t i = 0; i < count; i++)
		visit(w, thread_at(w, i));
}

static void poke(struct spool_writer *w, struct spool_thread *t)
{
	(void)w;
	atomic_store(&t->snapshot_due, 0);
}

void spool_threads_poke(struct spool_writer *w)
{
	spool_threads_visit(w, poke);
}

/* --- slots --- */

static struct spool_slot *slot_of(struct spool_writer *w, uint32_t index, enum trace_drop *why)
{
	_Atomic uint32_t *where = &w->slot_chunks[index / w->slots_per_chunk];
	uint32_t number = atomic_load(where);
	struct spool_chunk *chunk;

	if (!number) {
		chunk = spool_chunk_take(w, SPOOL_CHUNK_SLOTS, 0, index / w->slots_per_chunk, NULL,
					 why);
		if (!chunk)
			return NULL;
		/* Another thread's may be there by now; then ours stays an empty chunk. */
		if (atomic_compare_exchange_strong(where, &number, chunk->number + 1))
			number = chunk->number + 1;
	}
	chunk = spool_chunk_at(w, number - 1);
	return (struct spool_slot *)(chunk + 1) + index % w->slots_per_chunk;
}

static void slot_set_up(struct spool_writer *w, struct spool_slot *slot, uint32_t serial,
			int64_t tid)
{
	/* Counted here for the last owner after its end: chunks of its that were just being taken over. */
	for (int i = 0; i < SPOOL_DROPS; i++) {
		uint64_t late = atomic_exchange(&slot->drops[i], 0);

		if (late)
			atomic_fetch_add(&w->header->drops[i], late);
	}
	atomic_store(&slot->call, 0);
	atomic_store(&slot->clock, (uint32_t)__atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED));
	slot->tid = tid;
	/* Pairs with the reader's acquire: the rest of the slot is this owner's. */
	atomic_store_explicit(&slot->thread, serial, memory_order_release);
}

/* --- a thread's beginning --- */

static void announce(struct spool_writer *w, const struct spool_thread *t, int64_t tid,
		     uint32_t name)
{
	struct spool_meta_thread entry = {
		.serial = t->serial,
		.tid = tid,
		.name = name,
		.slot = t->slot ? (uint32_t)(((uint8_t *)t->slot - (uint8_t *)w->header) / 8) : 0,
		.monotonic_ns = (int64_t)spool_monotonic_ns(),
	};

	spool_meta_append(w, SPOOL_META_THREAD, &entry.serial, sizeof(entry) - sizeof(entry.head),
			  NULL, 0);
}

static struct spool_thread *thread_begin(struct spool_writer *w)
{
	struct spool_thread *t, *stale = *(struct spool_thread *volatile *)&spool_self;
	enum trace_drop why = TRACE_DROP_THREAD;
	int64_t tid;
	char name[17] = "";

	if (rounds >= ROUNDS) { /* after the thread's end: nobody would give it back */
		spool_drop(w, NULL, TRACE_DROP_THREAD, 1);
		return NULL;
	}
	t = struct_take(w);
	if (!t) {
		spool_drop(w, NULL, why, 1);
		return NULL;
	}
	/* An engine is told of calls in flight; without a slot they take the slow path. */
	t->slot = spool_sink ? NULL : slot_of(w, t->index, &why);
	if (!t->slot && !spool_sink) {
		struct_give(w, t);
		spool_drop(w, NULL, why, 1);
		return NULL;
	}
	tid = (int64_t)syscall(SYS_gettid);
	t->owner = t;
	t->cursor = NULL;
	t->limit = NULL;
	t->chunk = NULL;
	t->previous = NULL;
	t->generation = w->generation;
	t->serial = atomic_fetch_add(&w->serial_next, 1);
	atomic_store(&t->writing, 1);
	/* A signal handler on this thread may have been faster. */
	if (!__atomic_compare_exchange_n(&spool_self, &stale, t, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		struct_give(w, t);
		return spool_thread_claim(w);
	}
	atomic_store(&t->tid, tid);
	if (t->slot)
		slot_set_up(w, t->slot, t->serial, tid);
	if (key_usable)
		pthread_setspecific(key, t);
	prctl(PR_GET_NAME, name, 0, 0, 0);
	announce(w, t, tid, spool_intern_string(name, strlen(name)));
	return t;
}

/* --- a signal handler's append within an append --- */

static struct spool_thread *thread_nested(struct spool_writer *w, struct spool_thread *self)
{
	struct spool_thread *owner = self->owner, *t = owner;
	unsigned count = 0;

	do {
		uint32_t idle = 0;

		if (!atomic_compare_exchange_strong(&t->writing, &idle, 1))
			continue; /* interrupted too, or left for good */
		/* What lies in its chunk is older than what the thread recorded since. */
		spool_chunk_close(w, t);
		spool_self = t;
		return t;
	} while (count++, (t = atomic_load(&t->more)) != NULL);
	t = count < SPOOL_NESTED_MAX ? struct_take(w) : NULL;
	if (!t) {
		spool_drop(w, self, TRACE_DROP_THREAD, 1);
		return NULL;
	}
	t->owner = owner;
	t->slot = owner->slot;
	t->serial = owner->serial;
	t->cursor = NULL;
	t->limit = NULL;
	t->chunk = NULL;
	t->previous = NULL;
	t->generation = w->generation;
	atomic_store(&t->writing, 1);
	atomic_store(&t->more, atomic_load(&owner->more));
	for (struct spool_thread *next = atomic_load(&t->more);
	     !atomic_compare_exchange_weak(&owner->more, &next, t);)
		atomic_store(&t->more, next);
	spool_self = t;
	return t;
}

struct spool_thread *spool_thread_claim(struct spool_writer *w)
{
	struct spool_thread *self = *(struct spool_thread *volatile *)&spool_self;
	uint32_t idle = 0;

	/* No struct, or a parent's that the fork has wiped. */
	if (!self || self->generation != w->generation)
		return thread_begin(w);
	if (atomic_compare_exchange_strong(&self->writing, &idle, 1))
		return self;
	return thread_nested(w, self);
}

void spool_thread_release(struct spool_thread *self)
{
	atomic_store_explicit(&self->writing, 0, memory_order_release);
}

/* --- a thread's end --- */

static void slot_free(struct spool_slot *slot, const struct spool_meta_thread_end *counted)
{
	atomic_store(&slot->call, 0);
	/* Not set to 0: another thread may be counting what it wrote over. */
	for (int i = 0; i < SPOOL_DROPS; i++)
		atomic_fetch_sub(&slot->drops[i], counted->drops[i]);
	atomic_store_explicit(&slot->thread, 0, memory_order_release);
}

/* Hands over the drops, then the slot, then the structs. A reader that finds a THREAD_END takes the
 * drops from there, so a kill between any two of these steps counts nothing twice. */
static void thread_end(struct spool_writer *w, struct spool_thread *owner)
{
	struct spool_meta_thread_end entry = {.serial = owner->serial};
	struct spool_slot *slot = owner->slot;
	struct spool_thread *t, *next;

	for (t = owner; t; t = atomic_load(&t->more))
		spool_chunk_close(w, t);
	entry.monotonic_ns = (int64_t)spool_monotonic_ns();
	for (int i = 0; slot && i < SPOOL_DROPS; i++)
		entry.drops[i] = atomic_load(&slot->drops[i]);
	if (!spool_meta_append(w, SPOOL_META_THREAD_END, &entry.serial,
			       sizeof(entry) - sizeof(entry.head), NULL, 0))
		for (int i = 0; i < SPOOL_DROPS; i++)
			atomic_fetch_add(&w->header->drops[i], entry.drops[i]);
	if (slot)
		slot_free(slot, &entry);
	for (t = owner; t; t = next) {
		next = atomic_load(&t->more);
		struct_give(w, t);
	}
}

static void destructor(void *value)
{
	struct spool_writer *w = spool_writer_open_now();
	struct spool_thread *self = spool_self;
	int saved = errno;

	if (++rounds < ROUNDS) {
		/* Other destructors may still record. */
		pthread_setspecific(key, value);
		return;
	}
	spool_self = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	if (w && self && self->generation == w->generation)
		thread_end(w, self->owner);
	errno = saved;
}

void spool_threads_prepare(void)
{
	if (pthread_key_create(&key, destructor) != 0)
		return;
	key_usable = key < KEYS_INLINE;
	if (!key_usable)
		pthread_key_delete(key);
}

static void reap(struct spool_writer *w, struct spool_thread *t)
{
	int64_t tid = atomic_load(&t->tid);

	/* One reaper at a time: whoever takes the tid away. */
	if (!tid || syscall(SYS_tgkill, getpid(), (pid_t)tid, 0) == 0 || errno != ESRCH)
		return;
	if (atomic_compare_exchange_strong(&t->tid, &tid, 0))
		thread_end(w, t);
}

void spool_threads_reap(struct spool_writer *w)
{
	spool_threads_visit(w, reap);
}

/* --- names and calls in flight --- */

void spool_thread_name(int64_t tid, const char *name)
{
	struct spool_writer *w = spool_writer_get();
	struct spool_thread *self;
	uint32_t count;
	int saved = errno;

	if (!w)
		return;
	if (!tid || tid == (int64_t)syscall(SYS_gettid)) {
		self = spool_thread_claim(w);
		if (self) {
			announce(w, self, atomic_load(&self->owner->tid),
				 spool_intern_string(name, strlen(name)));
			spool_thread_release(self);
		}
		errno = saved;
		return;
	}
	count = atomic_load(&w->index_next);
	for (uint32_t i = 0; i < count; i++) {
		struct spool_thread *t = thread_at(w, i);

		if (atomic_load(&t->tid) == tid) {
			announce(w, t, tid, spool_intern_string(name, strlen(name)));
			break;
		}
	}
	errno = saved;
}

void spool_enter_slow(uint16_t event, uint32_t api, uint64_t since, uint32_t stack, uint64_t object)
{
	struct spool_writer *w = spool_writer_get();
	int saved = errno;

	if (w && spool_sink) {
		if (atomic_load(&spool_recording))
			spool_sink_entry(w, event, api, since, stack, object);
	} else if (w && atomic_load(&spool_recording)) {
		struct spool_thread *self = spool_thread_claim(w);

		if (self) {
			spool_thread_release(self);
			spool_enter(event, api, since, stack, object);
		}
	}
	errno = saved;
}
