/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the report as JSON.
 */
#ifndef WAYLAY_VIEWERS_REPORT_JSON_H
#define WAYLAY_VIEWERS_REPORT_JSON_H

#include "viewers/analysis.h"

#include <jansson.h>

/* The report as one object, the caller's; NULL when memory is short. */
json_t *report_object(struct model *model, const struct analysis *analysis);

/* Cleaned; null for NULL. */
json_t *report_words(const char *value);
json_t *report_number(uint64_t value);
/* The word of an enumeration's value in the event table. */
const char *report_word(enum wl_event event, size_t arg, unsigned value);
/* process_ns: of which a site's time is a share. */
json_t *report_sites(struct site *const *sites, unsigned count, uint64_t process_ns);
void report_life(json_t *object, const struct registered_life *life);

/* report_json_more.c */
json_t *report_transfers(const struct analysis *analysis);
json_t *report_peers(struct model *model, const struct analysis *analysis);
/* Set-up calls of libfabric, costliest first. */
json_t *report_setup(const struct analysis *analysis);
json_t *report_network(const struct analysis *analysis);
json_t *report_devices(const struct analysis *analysis);
json_t *report_detours(const struct analysis *analysis);
json_t *report_steps(struct model *model, const struct analysis *analysis);
json_t *report_registered(const struct analysis *analysis);

#endif
