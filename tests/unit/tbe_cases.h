/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random cases of the table-batched embedding against the oracle: all types, poolings, optimizers and
 * paths, features that share tables, mixed widths, empty bags, pruned rows, long runs, bad inputs.
 */
#ifndef TESTS_UNIT_TBE_CASES_H
#define TESTS_UNIT_TBE_CASES_H

#include <stddef.h>
#include <stdint.h>

struct cuda;

/*
 * Runs case number `seed` on a driver, or on the CPU where `cuda` is NULL: bounds check, forward,
 * `steps` backwards, and the last of these again with another grid, whose results must be the same
 * bits. `most` bounds the lookups. 0, or 1 and a sentence in `why`.
 */
int tbe_case_run(struct cuda *cuda, uint64_t seed, uint32_t most, char *why, size_t why_bytes);

#endif
