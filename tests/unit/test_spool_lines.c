/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: what the path of an event writes to. Every page of the process is made read-only but the thread's
 * own stack, its control block, its chunk, and the pages of its struct and its slot; of these two, bytes of others' must not
 * change either. So no two threads ever write to the same line.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>

#define PAGE       4096ul
#define EVENTS     199 /* of some 60 bytes: within a chunk */
#define RANGES_MAX 4096
#define TRIES      5 /* a snapshot of the clocks that is due is no part of an event */

struct range {
	uintptr_t from, to;
};

/* On pages of its own, whole ones, which stay writable. */
static struct {
	_Alignas(4096) struct range written[RANGES_MAX]; /* what is made read-only */
	unsigned count;
	uint8_t before_struct[PAGE], before_slot[PAGE], after_struct[PAGE], after_slot[PAGE];
	volatile unsigned faults, shared_faults;
	uintptr_t first_fault;
} notes;

/* What no event may do. */
static struct {
	_Alignas(4096) _Atomic uint64_t counter; /* on a page of its own */
} shared;

static uintptr_t page_of(const void *at)
{
	return (uintptr_t)at & ~(PAGE - 1);
}

static void fault(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	if (!notes.faults++)
		notes.first_fault = (uintptr_t)info->si_addr;
	notes.shared_faults += info->si_addr == (void *)&shared.counter;
	/* so that it goes on */
	if (notes.faults > 1000 ||
	    mprotect((void *)page_of(info->si_addr), PAGE, PROT_READ | PROT_WRITE) != 0)
		_exit(98);
}

static void range_add(uintptr_t from, uintptr_t to)
{
	child_check(notes.count < RANGES_MAX);
	if (from < to)
		notes.written[notes.count++] = (struct range){from, to};
}

/* [from, to) without the pages that may be written to, which lie in order. */
static void range_cut(uintptr_t from, uintptr_t to, const struct range *allowed, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (allowed[i].to <= from || allowed[i].from >= to)
			continue;
		range_add(from, allowed[i].from);
		from = allowed[i].to;
	}
	range_add(from, to);
}

static int by_from(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* All that is writable now, but for what the thread may write to. */
static void ranges_find(const struct spool_thread *self)
{
	struct range allowed[8];
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t own = page_of((void *)pthread_self());
	unsigned count = 0;

	child_check(maps != NULL);
	allowed[count++] = (struct range){(uintptr_t)self->chunk,
					  (uintptr_t)self->chunk + spool_writer->chunk_bytes};
	allowed[count++] = (struct range){page_of(self), page_of(self) + PAGE};
	allowed[count++] = (struct range){page_of(self->slot), page_of(self->slot) + PAGE};
	/* The kernel says there on which processor the thread is. */
	allowed[count++] = (struct range){own, own + 2 * PAGE};
	allowed[count++] = (struct range){(uintptr_t)&notes, (uintptr_t)(&notes + 1)};
	qsort(allowed, count, sizeof(allowed[0]), by_from);
	notes.count = 0;
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char mode[5];

		if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && mode[1] == 'w' &&
		    !strstr(line, "[stack]"))
			range_cut(from, to, allowed, count);
	}
	fclose(maps);
}

static void protect(int how)
{
	for (unsigned i = 0; i < notes.count; i++)
		if (mprotect((void *)notes.written[i].from,
			     notes.written[i].to - notes.written[i].from, how) != 0)
			_exit(97);
}

/* Without a call into another library. */
static void events(bool share)
{
	for (uint64_t n = 0; n < EVENTS; n++) {
		uint64_t begin = spool_now();

		spool_enter(WL_EV_cuda_wait, 1, begin, (uint32_t)n, n);
		SPOOL_EMIT(cuda_wait, begin, spool_now(), 0, .stream = n, .object = n, .stack = 1,
			   .api = 1);
		spool_leave();
		if (share)
			atomic_fetch_add(&shared.counter, 1);
	}
}

static void bytes_copy(uint8_t *to, uintptr_t from)
{
	for (size_t i = 0; i < PAGE; i++)
		to[i] = ((const volatile uint8_t *)from)[i];
}

/* Bytes of a page that changed outside of [own, own + size). */
static unsigned foreign_changes(const uint8_t *before, const uint8_t *after, const void *own,
				size_t size)
{
	size_t from = (uintptr_t)own & (PAGE - 1);
	unsigned changes = 0;

	for (size_t i = 0; i < PAGE; i++)
		changes += before[i] != after[i] && (i < from || i >= from + size);
	return changes;
}

/* Faults while events are recorded. */
static unsigned watch(bool share)
{
	struct spool_thread *self = spool_self;

	/* A chunk with room for all of them. */
	while ((size_t)(self->limit - self->cursor) < EVENTS * 80ul)
		child_check(test_emit(0, 0));
	ranges_find(self);
	notes.faults = 0;
	bytes_copy(notes.before_struct, page_of(self));
	bytes_copy(notes.before_slot, page_of(self->slot));
	protect(PROT_READ);
	events(share);
	bytes_copy(notes.after_struct, page_of(self));
	bytes_copy(notes.after_slot, page_of(self->slot));
	protect(PROT_READ | PROT_WRITE);
	child_check(foreign_changes(notes.before_struct, notes.after_struct, self, sizeof(*self)) ==
		    0);
	child_check(foreign_changes(notes.before_slot, notes.after_slot, self->slot,
				    sizeof(*self->slot)) == 0);
	/* It was recorded, and seen to be. */
	child_check(memcmp(notes.before_struct, notes.after_struct, PAGE) != 0);
	return notes.faults;
}

#define NEIGHBOURS 3

static _Atomic unsigned parked;
static int gate[2];

static void *neighbour(void *arg)
{
	char end;

	test_emit((uintptr_t)arg, 1);
	atomic_fetch_add(&parked, 1);
	return read(gate[0], &end, 1) == 0 ? NULL : arg;
}

static bool asleep(pid_t tid)
{
	char path[64], text[256] = "";
	const char *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'S';
}

/* Until they write to nothing any more, their stacks included. */
static void neighbours_wait(void)
{
	unsigned sleeping = 0;

	while (sleeping < NEIGHBOURS) {
		struct dirent **names;
		int n = scandir("/proc/self/task", &names, NULL, NULL);

		sleeping = 0;
		for (int i = 0; i < n; i++) {
			pid_t tid = (pid_t)atoi(names[i]->d_name);

			sleeping += atomic_load(&parked) == NEIGHBOURS && tid > 0 &&
				    tid != getpid() && asleep(tid);
			free(names[i]);
		}
		free(names);
	}
}

static void write_watched(void)
{
	struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	struct spool_settings s = test_settings();
	pthread_t threads[NEIGHBOURS];
	unsigned faults = 1;

	child_open(&s);
	child_check(sigaction(SIGSEGV, &action, NULL) == 0);
	child_check(pipe(gate) == 0);
	/* Neighbours in the same pages of structs and slots. */
	for (uintptr_t i = 0; i < NEIGHBOURS; i++)
		child_check(pthread_create(&threads[i], NULL, neighbour, (void *)i) == 0);
	neighbours_wait();
	child_check(test_emit(0, 0));
	child_check(((uintptr_t)spool_self & 63) == 0 && sizeof(*spool_self) % 64 == 0);
	child_check(((uintptr_t)spool_self->slot & 63) == 0 && sizeof(*spool_self->slot) % 64 == 0);
	for (int i = 0; i < TRIES && faults; i++)
		faults = watch(false);
	if (faults)
		fprintf(stderr, "the path of an event wrote to %#lx (%u pages in all)\n",
			(unsigned long)notes.first_fault, faults);
	child_check(faults == 0);
	/* And a line that is shared would have been noticed. */
	child_check(notes.shared_faults == 0 && watch(true) >= 1);
	child_check(notes.shared_faults == 1);
	close(gate[1]);
	for (int i = 0; i < NEIGHBOURS; i++)
		pthread_join(threads[i], NULL);
}

static void test_own_lines(void **state)
{
	(void)state;
	if (TEST_SANITIZED)
		skip(); /* a sanitizer writes to memory of its own */
	run_child(write_watched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {spool_test(test_own_lines)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
