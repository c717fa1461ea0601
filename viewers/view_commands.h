/* SPDX-License-Identifier: Apache-2.0
 *
 * What the Perfetto UI is told to do with a trace of ours when it has loaded it.
 */
#ifndef WAYLAY_VIEWERS_VIEW_COMMANDS_H
#define WAYLAY_VIEWERS_VIEW_COMMANDS_H

#include "viewers/analysis.h"

/* Commands as JSON: our tracks pinned and unfolded, what cost most on tracks of its own; with a model also
 * notes at the three costliest places. The caller's to free; NULL when memory is short. */
char *view_commands(struct model *model);

#endif
