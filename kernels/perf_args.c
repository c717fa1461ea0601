/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options; see perf_args.h. */
#include "kernels/perf_args.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t perf_parse_count(struct argp_state *state, const char *arg, double least, double most)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= least) || v > most || v != floor(v))
		argp_error(state, "'%s' is not a whole number from %.0f to %.0f", arg, least, most);
	return (uint64_t)v;
}

unsigned perf_parse_name(struct argp_state *state, const char *arg, const char *const *names,
			 unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(arg, names[i]))
			return i;
	argp_error(state, "'%s' is not known here: see --help", arg);
	return 0;
}
