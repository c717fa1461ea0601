/* SPDX-License-Identifier: Apache-2.0
 *
 * The unwinder beside libgcc's, from frames of every shape that a compiler makes.
 */
#include "tracer/inject/elf.h"
#include "tracer/inject/unwind.h"

#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#define DEEP 400

static unsigned same, different, left, deepest;

__attribute__((noinline)) static void compare(void)
{
	void *ours[DEEP], *theirs[DEEP];
	unsigned our_count, their_count, skipped;

	if (wl_unwind(ours, DEEP, &our_count) == WL_UNWIND_UNKNOWN) {
		left++;
		return;
	}
	their_count = (unsigned)backtrace(theirs, DEEP);
	/* From the caller of this function outwards; a sanitizer's backtrace() shows a frame of its own
	 * before that. */
	skipped = their_count - (our_count - 1);
	if (our_count < 3 || their_count < our_count - 1 || !skipped || skipped > 3 ||
	    memcmp(ours + 1, theirs + skipped, (our_count - 1) * sizeof(ours[0])) != 0)
		different++;
	else
		same++;
	if (our_count > deepest)
		deepest = our_count;
}

static volatile unsigned sink; /* work behind each call, so that none becomes a jump */

typedef void (*shape_fn)(int depth);
static void next(int depth);

#define SHAPE __attribute__((noinline)) static void
#if defined(__clang__)
#define FRAME_POINTER(how)
#else
#define FRAME_POINTER(how) __attribute__((optimize(how)))
#endif

SHAPE plain(int depth)
{
	next(depth - 1);
	sink++;
}

FRAME_POINTER("omit-frame-pointer") SHAPE without_frame_pointer(int depth)
{
	char block[1000];

	block[depth % 1000] = 1;
	next(depth - 1);
	sink += (unsigned)block[sink & 511];
}

FRAME_POINTER("no-omit-frame-pointer") SHAPE with_frame_pointer(int depth)
{
	next(depth - 1);
	sink++;
}

SHAPE with_alloca(int depth)
{
	/* cppcheck-suppress allocaCalled */
	char *block = alloca((size_t)(depth * 37 % 300) + 1);

	block[0] = (char)depth;
	next(depth - 1);
	sink += (unsigned)block[0];
}

SHAPE with_alignment(int depth)
{
	_Alignas(64) char block[256];

	block[depth & 255] = 1;
	next(depth - 1);
	sink += (unsigned)block[sink & 255];
}

SHAPE many_registers(int depth)
{
	unsigned a = sink + 1, b = sink + 2, c = sink + 3, d = sink + 4, e = sink + 5, f = sink + 6;

	next(depth - 1);
	sink += a * b + c * d + e * f;
	if (sink & 1)
		next(depth > 2 ? 1 : 0);
	sink += a + b + c + d + e + f;
}

static int by_depth(const void *a, const void *b)
{
	if (*(const int *)a && *(const int *)b)
		next(*(const int *)a - 1);
	return 0;
}

SHAPE through_qsort(int depth)
{
	int two[2] = {depth, depth};

	qsort(two, 2, sizeof(two[0]), by_depth);
	sink++;
}

SHAPE large_frame(int depth)
{
	char block[200000];

	memset(block, depth, sizeof(block));
	next(depth - 1);
	sink += (unsigned)block[sink & 4095];
}

SHAPE many_arguments(int depth)
{
	char text[200];

	snprintf(text, sizeof(text), "%d %d %d %d %d %d %d %d %u", depth, 2, 3, 4, 5, 6, 7, 8,
		 sink);
	next(depth - 1);
	sink += (unsigned)text[0];
}

static const shape_fn shapes[] = {
	plain,          without_frame_pointer, with_frame_pointer, with_alloca,    with_alignment,
	many_registers, through_qsort,         large_frame,        many_arguments,
};
static __thread unsigned seed = 1;

__attribute__((noinline)) static void next(int depth)
{
	if (depth <= 0)
		compare();
	else
		shapes[(unsigned)rand_r(&seed) % (sizeof(shapes) / sizeof(shapes[0]))](depth);
	sink++;
}

static void counters_reset(void)
{
	same = different = left = deepest = 0;
}

static void every_shape(void **state)
{
	(void)state;
	counters_reset();
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		shapes[i](1);
		assert_int_equal(different, 0);
	}
	for (int i = 0; i < 499; i++)
		next(i % 23);
	assert_int_equal(different, 0);
	/* Only over-aligned frames may be described in a way that is left to libgcc. */
	assert_true(same > 100);
	assert_true(deepest > 20);
}

static void *on_thread(void *unused)
{
	seed = 5;
	for (int i = 0; i < 97; i++)
		next(i % 13);
	return unused;
}

static void threads(void **state)
{
	pthread_t thread;

	(void)state;
	counters_reset();
	for (int i = 0; i < 7; i++) {
		assert_int_equal(pthread_create(&thread, NULL, on_thread, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	assert_int_equal(different, 0);
	assert_true(same > 50);
}

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
	compare();
	plain(1);
	without_frame_pointer(1);
	swapcontext(&coroutine_context, &main_context);
}

/* Stacks that come, go, and are small; what lies above them cannot be read. */
static void coroutines(void **state)
{
	(void)state;
	counters_reset();
	for (int i = 0; i < 31; i++) {
		size_t size = (size_t)(16 + i % 5 * 16) << 12;
		char *stack = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(stack != MAP_FAILED);
		assert_int_equal(mprotect(stack + size, 4096, PROT_NONE), 0);
		getcontext(&coroutine_context);
		coroutine_context.uc_stack.ss_sp = stack;
		coroutine_context.uc_stack.ss_size = size;
		coroutine_context.uc_link = &main_context;
		makecontext(&coroutine_context, coroutine, 0);
		swapcontext(&main_context, &coroutine_context);
		compare();
		munmap(stack, size + 4096);
	}
	assert_int_equal(different, 0);
	assert_true(same > 31);
}

static void on_signal(int number)
{
	(void)number;
	compare();
}

static void signals(void **state)
{
	struct sigaction action = {.sa_handler = on_signal}, before;

	(void)state;
	counters_reset();
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	for (int i = 0; i < 7; i++)
		raise(SIGUSR1);
	sigaction(SIGUSR1, &before, NULL);
	assert_int_equal(different, 0);
	assert_int_equal(same + left, 7);
}

#if defined(__x86_64__)
__attribute__((used, noinline)) static void unwind_only(void)
{
	void *addresses[DEEP];
	unsigned count;

	wl_unwind(addresses, DEEP, &count);
	deepest = count;
}

/* Calls with a stack pointer and a frame pointer that the descriptions of this function deny. */
__attribute__((noinline)) static void with_damage(uintptr_t frame_pointer, bool shifted)
{
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %%rbp, %%r12\n\t"
			 "subq $256, %%rsp\n\t"
			 "andq $-16, %%rsp\n\t"
			 "testb %1, %1\n\t"
			 "je 1f\n\t"
			 "subq $64, %%rsp\n"
			 "1:\tmovq %0, %%rbp\n\t"
			 "call unwind_only\n\t"
			 "movq %%r12, %%rbp\n\t"
			 "movq %%rbx, %%rsp"
			 :
			 : "r"(frame_pointer), "q"(shifted)
			 : "rbx", "r12", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",
			   "r11", "memory", "cc");
}
#endif

/* Frames that make no sense end the walk; nothing that cannot be read is touched. */
static void damaged_frames(void **state)
{
	(void)state;
#if defined(__x86_64__)
	size_t page = 4096;
	char *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t here = (uintptr_t)&page;

	assert_true(two != MAP_FAILED);
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	const uintptr_t pointers[] = {0,
				      1,
				      8,
				      UINTPTR_MAX,
				      UINTPTR_MAX - 7,
				      here,
				      here + 4,
				      here - 4096,
				      (uintptr_t)two + page - 8,
				      (uintptr_t)two + page,
				      (uintptr_t)damaged_frames};
	for (unsigned i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		with_damage(pointers[i], false);
		with_damage(pointers[i], true);
		assert_true(deepest <= DEEP);
	}
	for (int i = 0; i < 10007; i++)
		with_damage(here + (uintptr_t)rand_r(&seed) % 65536 * (i & 1 ? 8 : 1), i & 2);
	munmap(two, 2 * page);
#else
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape),    cmocka_unit_test(threads),
		cmocka_unit_test(coroutines),     cmocka_unit_test(signals),
		cmocka_unit_test(damaged_frames),
	};

	if (!wl_place_lock_free())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
