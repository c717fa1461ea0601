/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearly every frame is described by three facts: the canonical frame address is the stack or frame
 * pointer plus a number, the return address lies just below it (or, on AArch64, at a number from it),
 * and the caller's frame pointer was saved at another number from it or not touched. These facts
 * depend on the address alone, so they are read from .eh_frame once (unwind_rule.c) and kept in a
 * table. Frames that need more are left to the full unwinder.
 */
#include "tracer/inject/unwind.h"
#include "tracer/inject/elf.h"
#include "tracer/inject/memory.h"
#include "tracer/inject/unwind_rule.h"

#include <stdatomic.h>
#include <string.h>

#define RULE_SLOTS 16384u
#define PAGE       4096u /* no page is smaller */

/* Two words a slot, written without a lock; halves of two different writes do not fit together. */
struct rule_slot {
	_Atomic uint64_t check, rule;
};
static struct rule_slot rules[RULE_SLOTS];

static uint64_t rule_of(uintptr_t address)
{
	uint64_t key = address * 0x9e3779b97f4a7c15u;
	struct rule_slot *slot = &rules[key >> 50];
	uint64_t rule = atomic_load_explicit(&slot->rule, memory_order_relaxed);
	uint64_t check = atomic_load_explicit(&slot->check, memory_order_relaxed);

	if (__builtin_expect((check ^ rule) == key && rule, 1))
		return rule;
	rule = wl_unwind_rule_find(address);
	atomic_store_explicit(&slot->rule, rule, memory_order_relaxed);
	atomic_store_explicit(&slot->check, key ^ rule, memory_order_relaxed);
	return rule;
}
_Static_assert(RULE_SLOTS == 1u << (64 - 50), "the slot is the key's highest bits");

void wl_unwind_forget(void)
{
	for (unsigned i = 0; i < RULE_SLOTS; i++)
		atomic_store_explicit(&rules[i].rule, 0, memory_order_relaxed);
}

/* What of the thread's stack has been found readable: it stays so above the stack pointer. */
struct known_stack {
	uintptr_t low, high;
};
static __thread struct known_stack known_stack __attribute__((tls_model("initial-exec")));

WL_BARE static bool stack_word(uintptr_t sp, uintptr_t at, uintptr_t *value)
{
	struct known_stack *known = &known_stack;

	if (at < sp || at & 7)
		return false;
	if (__builtin_expect(sp < known->low || at + 8 > known->high, 0)) {
		if (sp < known->low || sp >= known->high) { /* another stack: a coroutine's */
			known->low = sp & ~(uintptr_t)(PAGE - 1);
			known->high = known->low + PAGE;
		}
		while (at + 8 > known->high) {
			if (!wl_memory_readable((void *)known->high, 8))
				return false;
			known->high += PAGE;
		}
	}
	*value = *(const uintptr_t *)at;
	return true;
}

/* Registers that a walk follows. */
struct registers {
	uintptr_t pc, sp, fp, ra; /* ra: AArch64's link register, in the innermost frame only */
};

static inline uintptr_t address_plain(uintptr_t address)
{
#if defined(__aarch64__)
	/* Strips a signature (pointer authentication); does nothing where there is none. */
	register uintptr_t x30 __asm__("x30") = address;
	__asm__("hint #7" : "+r"(x30));
	return x30;
#else
	return address;
#endif
}

/* One frame up. False: the stack ends here (rule or address say so, or it makes no sense). */
WL_BARE static bool step(struct registers *r, uint64_t rule)
{
	uintptr_t cfa = (rule & WL_RULE_CFA_FP ? r->fp : r->sp) +
			(uintptr_t)(intptr_t)WL_RULE_CFA_OFFSET(rule);
	uintptr_t ra = r->ra, fp = r->fp;

	/* Frames lie one above the other, and not a gigabyte apart. */
	if (cfa <= r->sp - (rule & WL_RULE_LEAF ? 1 : 0) || cfa - r->sp > 1u << 30)
		return false;
	if (!(rule & WL_RULE_LEAF) &&
	    !stack_word(r->sp, cfa + (uintptr_t)(intptr_t)WL_RULE_RA_OFFSET(rule), &ra))
		return false;
	if (rule & WL_RULE_FP_SAVED &&
	    !stack_word(r->sp, cfa + (uintptr_t)(intptr_t)WL_RULE_FP_OFFSET(rule), &fp))
		return false;
	r->pc = address_plain(ra);
	r->fp = fp;
	r->sp = cfa;
	r->ra = 0;
	return r->pc != 0;
}

static inline __attribute__((always_inline)) struct registers registers_here(void)
{
	struct registers r = {0};

#if defined(__x86_64__)
	__asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2"
			 : "=r"(r.pc), "=r"(r.sp), "=r"(r.fp));
#elif defined(__aarch64__)
	__asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"
			 : "=r"(r.pc), "=r"(r.sp), "=r"(r.fp), "=r"(r.ra));
#endif
	return r;
}

WL_BARE __attribute__((noinline)) enum wl_unwind_end wl_unwind(void **addresses, unsigned max,
							       unsigned *count)
{
	struct registers r = registers_here();
	uintptr_t address = r.pc;

	*count = 0;
	while (*count < max) {
		uint64_t rule = rule_of(address);

		if (rule & WL_RULE_UNKNOWN)
			return WL_UNWIND_UNKNOWN;
		if (rule & WL_RULE_END || !step(&r, rule))
			break;
		addresses[(*count)++] = (void *)r.pc;
		address = r.pc - 1; /* the call, not what comes after it */
	}
	return WL_UNWIND_DONE;
}
