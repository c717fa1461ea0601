/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the report a person reads. Each prints nothing where there is nothing to say.
 */
#ifndef WAYLAY_VIEWERS_REPORT_H
#define WAYLAY_VIEWERS_REPORT_H

#include "viewers/viewers.h"

void report_steps_text(FILE *out, struct model *model, const struct analysis *analysis);
void report_devices_text(FILE *out, const struct analysis *analysis);
void report_setup_text(FILE *out, const struct analysis *analysis);
void report_detours_text(FILE *out, const struct analysis *analysis);
void report_network_text(FILE *out, struct model *model, const struct analysis *analysis);

#endif
