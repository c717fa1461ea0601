/* SPDX-License-Identifier: Apache-2.0 */
/* Device threads as contexts that take turns; see simt.h. */
#include "tests/unit/simt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/tbe_cpu.h"

#define STACK_BYTES ((size_t)32 << 10)

/*
 * Changes stacks: keeps the registers that a call must keep, stores the stack pointer in *save and
 * goes on where `load` was stored. (swapcontext makes a system call each time, and this happens
 * millions of times.)
 */
void simt_switch(void **save, void *load);
#if defined(__x86_64__)
enum { SAVED_WORDS = 6 };
__asm__(".text\n.globl simt_switch\n.type simt_switch, @function\nsimt_switch:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
	".size simt_switch, . - simt_switch\n");
#elif defined(__aarch64__)
enum { SAVED_WORDS = 19 }; /* x30, which `ret` goes to, is the last of them */
__asm__(".text\n.globl simt_switch\n.type simt_switch, %function\nsimt_switch:\n"
	"sub sp, sp, #160\n"
	"stp d8, d9, [sp]\nstp d10, d11, [sp, #16]\nstp d12, d13, [sp, #32]\nstp d14, d15, [sp, #48]\n"
	"stp x19, x20, [sp, #64]\nstp x21, x22, [sp, #80]\nstp x23, x24, [sp, #96]\n"
	"stp x25, x26, [sp, #112]\nstp x27, x28, [sp, #128]\nstp x29, x30, [sp, #144]\n"
	"mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
	"ldp d8, d9, [sp]\nldp d10, d11, [sp, #16]\nldp d12, d13, [sp, #32]\nldp d14, d15, [sp, #48]\n"
	"ldp x19, x20, [sp, #64]\nldp x21, x22, [sp, #80]\nldp x23, x24, [sp, #96]\n"
	"ldp x25, x26, [sp, #112]\nldp x27, x28, [sp, #128]\nldp x29, x30, [sp, #144]\n"
	"add sp, sp, #160\nret\n"
	".size simt_switch, . - simt_switch\n");
#else
#error "simt needs a stack switch for this processor"
#endif

struct warp {
	uint32_t values[32], seen[32];
	unsigned arrived, turn; /* lanes of this exchange; exchanges completed */
};

struct block {
	unsigned arrived, turn; /* likewise for the block's barrier */
	unsigned left;          /* threads that have not returned */
};

struct context {
	struct simt_thread self;
	void *stack; /* pointer, while another context runs */
	struct block *block;
	struct warp *warp;
	const unsigned
		*waits_for; /* the turn of a warp or a block that must become another than ... */
	unsigned turn;      /* ... this, NULL: none */
	int returned;
};

static struct {
	void (*entry)(const void *args);
	const void *args;
	void *scheduler;
	struct context *contexts;
	unsigned count, running;
	uint64_t progress; /* turns completed and threads returned: what tells a hang */
	uint64_t random;
	unsigned char *stacks; /* kept from run to run: the pages are there already */
	unsigned stack_count;
} simt;

struct simt_thread *simt_self;

float simt_from_f16(uint16_t bits)
{
	return tbe_cpu_from_f16(bits);
}

double simt_from_16(int bf16, uint16_t bits)
{
	return (double)tbe_cpu_load(bf16 ? TBE_BF16 : TBE_F16, &bits, 0);
}

uint16_t simt_to_f16(float value)
{
	return tbe_cpu_to_f16(value);
}

void simt_shuffle(uint64_t seed)
{
	simt.random = seed;
}

static uint64_t next_random(void)
{
	simt.random ^= simt.random << 13;
	simt.random ^= simt.random >> 7;
	simt.random ^= simt.random << 17;
	return simt.random;
}

void simt_yield(void)
{
	struct context *me = &simt.contexts[simt.running];

	simt_switch(&me->stack, simt.scheduler);
}

static void wait_turn(const unsigned *counter, unsigned turn)
{
	struct context *me = &simt.contexts[simt.running];

	me->waits_for = counter;
	me->turn = turn;
	simt_yield();
	me->waits_for = NULL;
}

void simt_block_barrier(void)
{
	struct block *b = simt.contexts[simt.running].block;
	unsigned turn = b->turn;

	if (++b->arrived == simt_self->threads) {
		b->arrived = 0;
		b->turn++;
		simt.progress++;
		return;
	}
	wait_turn(&b->turn, turn);
}

const uint32_t *simt_exchange(uint32_t value)
{
	struct warp *w = simt.contexts[simt.running].warp;
	unsigned turn = w->turn;

	w->values[simt_self->tid & 31] = value;
	if (++w->arrived == 32) {
		/* `seen` stays valid: the next exchange needs all 32 lanes again. */
		memcpy(w->seen, w->values, sizeof(w->seen));
		w->arrived = 0;
		w->turn++;
		simt.progress++;
		return w->seen;
	}
	wait_turn(&w->turn, turn);
	return w->seen;
}

static void start(void)
{
	simt.entry(simt.args);
	simt.contexts[simt.running].returned = 1;
	simt.progress++;
	simt_yield();
}

/* Runs contexts from to end - 1 until all have returned. */
static void schedule(unsigned from, unsigned end)
{
	unsigned count = end - from, left = count, idle = 0;

	while (count && left) {
		uint64_t before = simt.progress;
		unsigned offset = simt.random ? (unsigned)(next_random() % count) : 0;
		unsigned step = simt.random ? (unsigned)(next_random() % count) | 1 : 1;

		for (unsigned i = from; i < end; i++) {
			/* block sizes are powers of two times the blocks; an odd step visits all of
			 * a power of two, and with other counts the rest is visited in a later
			 * sweep */
			unsigned at = from + (unsigned)(((uint64_t)(i - from) * step + offset) %
							(end - from));
			struct context *c = &simt.contexts[at];

			if (c->returned || (c->waits_for && *c->waits_for == c->turn))
				continue;
			simt.running = at;
			simt_self = &c->self;
			simt_switch(&simt.scheduler, c->stack);
			left -= c->returned != 0;
		}
		idle = simt.progress == before ? idle + 1 : 0;
		if (idle > 1000) {
			fprintf(stderr, "simt: %u device threads wait for each other for ever\n",
				left);
			abort();
		}
	}
}

/* What a stack must hold so that the first switch to it enters start(), with the stack aligned as
 * at any call. */
static void *first_stack(unsigned char *top)
{
	void **stack = (void **)(top - 16 - (SAVED_WORDS + 2) / 2 * 16);

	stack[SAVED_WORDS] = (void *)start;
	return stack;
}

static int get_stacks(unsigned count)
{
	if (count > simt.stack_count) {
		free(simt.stacks);
		simt.stacks = aligned_alloc(64, count * STACK_BYTES);
		simt.stack_count = simt.stacks ? count : 0;
	}
	return simt.stacks != NULL;
}

void simt_run(void (*entry)(const void *args), const void *args, struct simt_grid grid)
{
	unsigned blocks = grid.x * grid.y, count = blocks * grid.threads;
	struct context *contexts = calloc(count, sizeof(*contexts));
	struct block *block = calloc(blocks, sizeof(*block));
	struct warp *warps = calloc(count / 32, sizeof(*warps));
	size_t shared_bytes = (grid.shared_bytes + 63) / 64 * 64;
	unsigned char *shared = malloc(blocks * shared_bytes + 64);

	if (!contexts || !block || !warps || !shared || !get_stacks(count) || grid.threads % 32) {
		fprintf(stderr, "simt: cannot run %u blocks of %u threads\n", blocks, grid.threads);
		abort();
	}
	memset(shared, 0xa5,
	       blocks * shared_bytes); /* shared memory starts as rubbish on a device too */
	simt.entry = entry;
	simt.args = args;
	simt.contexts = contexts;
	for (unsigned i = 0; i < count; i++) {
		struct context *c = &contexts[i];
		unsigned b = i / grid.threads;

		c->self = (struct simt_thread){i % grid.threads, grid.threads,
					       b % grid.x,       b / grid.x,
					       grid.x,           shared + b * shared_bytes};
		c->block = &block[b];
		c->warp = &warps[i / 32];
		c->stack = first_stack(simt.stacks + (i + 1) * STACK_BYTES);
	}
	if (grid.cooperative)
		schedule(0, count);
	else
		for (unsigned b = 0; b < blocks; b++)
			schedule(b * grid.threads, (b + 1) * grid.threads);
	free(contexts);
	free(block);
	free(warps);
	free(shared);
}
