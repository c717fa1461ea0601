/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the engine that records in place of the spool.
 */
#ifndef WAYLAY_TRACER_INJECT_SINK_H
#define WAYLAY_TRACER_INJECT_SINK_H

#include "tracer/events/sink.h"

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* The engine's sink, NULL with one line in why. Once a process. */
const struct sink_ops *wl_sink_open(char *why, size_t why_size);

#pragma GCC visibility pop

#endif
