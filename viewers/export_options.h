/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that choose what `waylay export` shows.
 */
#ifndef WAYLAY_VIEWERS_EXPORT_OPTIONS_H
#define WAYLAY_VIEWERS_EXPORT_OPTIONS_H

#include "exporters/exporters.h"
#include "viewers/options.h"

#define EXPORT_RANKS_MAX 65536u

struct export_choice {
	bool timed, ends, ranked;
	int64_t from_ns, to_ns; /* since the begin of the recording */
	const char *range;
	uint64_t ranks[EXPORT_RANKS_MAX / 64];
	uint32_t categories;
	uint64_t max_bytes;
	bool one_host; /* what --per-host asks for, host by host */
	unsigned host;
};

struct option_group export_choice_options(struct export_choice *choice);
/* Leaves out ranks, and makes the selection (NULL: everything); says what went wrong. 0 or -errno. */
int export_choose(struct model *model, const struct export_choice *choice,
		  struct selection **selection);

#endif
