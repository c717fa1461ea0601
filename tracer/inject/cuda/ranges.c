/* SPDX-License-Identifier: Apache-2.0
 *
 * One sorted array of ranges under a sequence counter: readers never wait (they retry a few times and
 * then know nothing), a writer that cannot get in within a bounded time gives up. What is lost thereby
 * could leave a lie in the array, so all of it is forgotten: until the next write the array knows
 * nothing, and then it begins anew. Not to know costs a question to the driver.
 */
#include "tracer/inject/cuda/ranges.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RANGES_MAX      32768u
#define READ_TRIES      8
#define SPINS           1000
#define WRITE_WITHIN_MS 200
#define GIVE_UP_MOST    5 /* then the other writer is no more */

struct slot {
	_Atomic uint64_t start, bytes;
	_Atomic uint64_t what; /* flags << 8 | kind */
};

static _Atomic(struct slot *) ranges;
static _Atomic uint32_t count;
_Atomic uint32_t cu_ranges_sequence;
static _Atomic bool doubtful; /* a writer gave up: nothing in here is to be believed */

static struct slot *memory(void)
{
	struct slot *have = atomic_load_explicit(&ranges, memory_order_acquire), *none = NULL;
	int saved = errno;

	if (have)
		return have;
	have = mmap(NULL, RANGES_MAX * sizeof(*have), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	errno = saved;
	if (have == MAP_FAILED)
		return NULL;
	/* Pairs with the acquire load above. */
	if (atomic_compare_exchange_strong_explicit(&ranges, &none, have, memory_order_acq_rel,
						    memory_order_acquire))
		return have;
	munmap(have, RANGES_MAX * sizeof(*have));
	return none;
}

static int64_t coarse_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

static bool write_try(void)
{
	uint32_t now = atomic_load_explicit(&cu_ranges_sequence, memory_order_relaxed);

	return !(now & 1) &&
	       atomic_compare_exchange_strong_explicit(&cu_ranges_sequence, &now, now + 1,
						       memory_order_acquire, memory_order_relaxed);
}

/* The other writer is done within microseconds, unless it was taken off its processor in between, or
 * is no more (after a fork). */
static bool write_begin(void)
{
	static _Atomic int given_up;
	int64_t until = 0;

	for (int i = 0; atomic_load_explicit(&given_up, memory_order_relaxed) < GIVE_UP_MOST; i++) {
		if (write_try()) {
			if (atomic_exchange_explicit(&doubtful, false, memory_order_relaxed))
				atomic_store_explicit(&count, 0, memory_order_release);
			return true;
		}
		if (i < SPINS)
			continue;
		if (!until)
			until = coarse_ms() + WRITE_WITHIN_MS;
		else if (coarse_ms() > until)
			break;
		syscall(SYS_sched_yield);
	}
	atomic_fetch_add_explicit(&given_up, 1, memory_order_relaxed);
	atomic_store_explicit(&doubtful, true, memory_order_relaxed);
	return false;
}

static void write_end(void)
{
	/* Pairs with the acquire loads of readers. */
	atomic_fetch_add_explicit(&cu_ranges_sequence, 1, memory_order_release);
}

/* What a reader may see is stored with release and loaded with acquire: a reader that sees any of a
 * writer's stores then also sees the odd sequence before them. */
static uint64_t field_get(_Atomic uint64_t *field)
{
	return atomic_load_explicit(field, memory_order_acquire);
}

static void field_set(_Atomic uint64_t *field, uint64_t value)
{
	atomic_store_explicit(field, value, memory_order_release);
}

static void slot_copy(struct slot *to, struct slot *from)
{
	field_set(&to->start, field_get(&from->start));
	field_set(&to->bytes, field_get(&from->bytes));
	field_set(&to->what, field_get(&from->what));
}

static struct cu_range slot_read(struct slot *slot)
{
	uint64_t what = field_get(&slot->what);

	return (struct cu_range){
		.start = field_get(&slot->start),
		.bytes = field_get(&slot->bytes),
		.kind = (uint8_t)what,
		.flags = (uint32_t)(what >> 8),
	};
}

/* Index of the first range that starts after the address. */
static uint32_t upper_bound(struct slot *slots, uint32_t n, uint64_t address)
{
	uint32_t low = 0;

	while (n) {
		uint32_t half = n / 2;

		if (field_get(&slots[low + half].start) <= address) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low;
}

/* Within a write: closes the gap [at, at + n). */
static void remove_slots(struct slot *slots, uint32_t at, uint32_t n)
{
	uint32_t total = atomic_load_explicit(&count, memory_order_relaxed);

	for (uint32_t i = at; i + n < total; i++)
		slot_copy(&slots[i], &slots[i + n]);
	atomic_store_explicit(&count, total - n, memory_order_release);
}

/* Within a write: removes all that overlaps; returns where a range starting there belongs. */
static uint32_t remove_overlap(struct slot *slots, uint64_t start, uint64_t bytes)
{
	uint32_t total = atomic_load_explicit(&count, memory_order_relaxed);
	uint32_t first = upper_bound(slots, total, start), n = 0;

	if (first) {
		struct cu_range before = slot_read(&slots[first - 1]);

		if (start - before.start < before.bytes || before.start == start)
			first--;
	}
	while (first + n < total) {
		uint64_t other = field_get(&slots[first + n].start);

		if (other > start && other - start >= bytes)
			break;
		n++;
	}
	if (n)
		remove_slots(slots, first, n);
	return first;
}

void cu_range_add(uint64_t start, uint64_t bytes, uint8_t kind, uint32_t flags)
{
	struct slot *slots = memory();
	uint32_t at, total;

	if (!slots || !start || !bytes)
		return;
	if (!write_begin())
		return;
	at = remove_overlap(slots, start, bytes);
	total = atomic_load_explicit(&count, memory_order_relaxed);
	if (total < RANGES_MAX) {
		for (uint32_t i = total; i > at; i--)
			slot_copy(&slots[i], &slots[i - 1]);
		field_set(&slots[at].start, start);
		field_set(&slots[at].bytes, bytes);
		field_set(&slots[at].what, (uint64_t)flags << 8 | kind);
		atomic_store_explicit(&count, total + 1, memory_order_release);
	}
	write_end();
}

/* *sequence: of the array that the range was found in. */
static bool find(uint64_t address, struct cu_range *range, uint32_t *sequence)
{
	struct slot *slots = atomic_load_explicit(&ranges, memory_order_acquire);

	if (!slots || atomic_load_explicit(&doubtful, memory_order_relaxed))
		return false;
	for (int i = 0; i < READ_TRIES; i++) {
		/* Pairs with write_end. */
		uint32_t before = atomic_load_explicit(&cu_ranges_sequence, memory_order_acquire);
		uint32_t at, total = atomic_load_explicit(&count, memory_order_acquire);
		bool found = false;

		if (before & 1 || total > RANGES_MAX)
			continue;
		*sequence = before;
		at = upper_bound(slots, total, address);
		if (at) {
			*range = slot_read(&slots[at - 1]);
			found = address - range->start < range->bytes;
		}
		/* The loads above acquire: none of them is of a later write than this sees. */
		if (atomic_load_explicit(&cu_ranges_sequence, memory_order_relaxed) == before)
			return found;
	}
	return false;
}

bool cu_range_find(uint64_t address, struct cu_range *range)
{
	uint32_t sequence;

	return find(address, range, &sequence);
}

bool cu_range_find_slow(uint64_t address, struct cu_range_near *near)
{
	struct cu_range range;

	near->bytes = 0;
	if (!find(address, &range, &near->sequence))
		return false;
	near->start = range.start;
	near->bytes = range.bytes;
	near->kind = range.kind;
	near->flags = (uint8_t)range.flags;
	return true;
}

bool cu_range_take(uint64_t start, struct cu_range *range)
{
	struct slot *slots = atomic_load_explicit(&ranges, memory_order_acquire);
	bool found = false;
	uint32_t at;

	if (!slots || !start)
		return false;
	if (!write_begin())
		return false;
	at = upper_bound(slots, atomic_load_explicit(&count, memory_order_relaxed), start);
	if (at) {
		*range = slot_read(&slots[at - 1]);
		found = range->start == start;
		if (found)
			remove_slots(slots, at - 1, 1);
	}
	write_end();
	return found;
}

void cu_range_cut(uint64_t start, uint64_t bytes)
{
	struct slot *slots = atomic_load_explicit(&ranges, memory_order_acquire);

	if (!slots || !bytes)
		return;
	if (!write_begin())
		return;
	remove_overlap(slots, start, bytes);
	write_end();
}

bool cu_range_flag(uint64_t address, uint32_t set, uint32_t clear)
{
	struct slot *slots = atomic_load_explicit(&ranges, memory_order_acquire);
	bool found = false;
	uint32_t at;

	if (!slots || !write_begin())
		return false;
	at = upper_bound(slots, atomic_load_explicit(&count, memory_order_relaxed), address);
	if (at) {
		struct cu_range range = slot_read(&slots[at - 1]);

		found = address - range.start < range.bytes;
		if (found)
			field_set(&slots[at - 1].what,
				  (uint64_t)((range.flags & ~clear) | set) << 8 | range.kind);
	}
	write_end();
	return found;
}
