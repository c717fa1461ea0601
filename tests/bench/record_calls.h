/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls whose cost is measured, in time (bench_record, record_engine) and in instructions
 * (tests/traced/record): the same ones, so that the gate holds what the benchmarks show.
 */
#ifndef WAYLAY_TESTS_BENCH_RECORD_CALLS_H
#define WAYLAY_TESTS_BENCH_RECORD_CALLS_H

#include "tracer/spool/spool.h"

/* Each is called from where the compiler cannot see it. */
#define CALL static __attribute__((noinline, unused)) void

CALL bare(uint64_t n)
{
	__asm__ volatile("" : : "r"(n));
}

CALL instant(uint64_t n)
{
	uint64_t now = spool_now();

	SPOOL_EMIT(ofi_counter, now, now, 0, .cntr = n, .value = n, .api = 1, .status = 0);
}

CALL interval(uint64_t n)
{
	uint64_t begin = spool_now();

	__asm__ volatile("" : : "r"(n));
	SPOOL_EMIT(ofi_counter, begin, spool_now(), 0, .cntr = n, .value = n, .api = 1,
		   .status = 0);
}

/* As a call that can block: it also says in its slot that it is under way. */
CALL waiting(uint64_t n)
{
	uint64_t begin = spool_now();

	spool_enter(WL_EV_ofi_counter, 1, begin, 0, n);
	__asm__ volatile("" : : "r"(n));
	SPOOL_EMIT(ofi_counter, begin, spool_now(), 0, .cntr = n, .value = n, .api = 1,
		   .status = 0);
	spool_leave();
}

#endif
