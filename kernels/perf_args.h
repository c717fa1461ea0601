/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options that the kernels' programs have in common. A wrong one ends the program as
 * argp_error() does. */
#ifndef WAYLAY_KERNELS_PERF_ARGS_H
#define WAYLAY_KERNELS_PERF_ARGS_H

#include <argp.h>
#include <stdint.h>

/* A whole number from `least` to `most`, also as 1e6. */
uint64_t perf_parse_count(struct argp_state *state, const char *arg, double least, double most);

/* The place of `arg` among `count` names. */
unsigned perf_parse_name(struct argp_state *state, const char *arg, const char *const *names,
			 unsigned count);

#endif
