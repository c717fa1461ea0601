/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the process that a recording carries.
 */
#ifndef WAYLAY_TRACER_INJECT_ATTRIBUTES_H
#define WAYLAY_TRACER_INJECT_ATTRIBUTES_H

/* Writes them to the open spool. why: what kind of object the recording began with. */
void wl_attributes_write(const char *why);

#endif
