/* SPDX-License-Identifier: Apache-2.0
 *
 * What .eh_frame says about one address, in a word.
 */
#ifndef WAYLAY_TRACER_INJECT_UNWIND_RULE_H
#define WAYLAY_TRACER_INJECT_UNWIND_RULE_H

#include <stdint.h>

/* Bits of a rule. Offsets are in bytes, signed: 24 bits from the base register to the canonical frame
 * address, 16 bits each from there to the saved frame pointer and the return address. */
#define WL_RULE_VALID            1ull
#define WL_RULE_CFA_FP           2ull /* based on the frame pointer, else on the stack pointer */
#define WL_RULE_FP_SAVED         4ull
#define WL_RULE_LEAF             8ull  /* the return address is still in its register */
#define WL_RULE_END              16ull /* the outermost frame, or no description: nothing above it */
#define WL_RULE_UNKNOWN          32ull /* only a full unwinder can follow */
#define WL_RULE_CFA_OFFSET(rule) ((int32_t)(uint32_t)((rule) >> 8 & 0xffffff) << 8 >> 8)
#define WL_RULE_FP_OFFSET(rule)  ((int16_t)(uint16_t)((rule) >> 32))
#define WL_RULE_RA_OFFSET(rule)  ((int16_t)(uint16_t)((rule) >> 48))

/* The rule of the instruction at that address; never 0. */
uint64_t wl_unwind_rule_find(uintptr_t address);

#endif
