/* SPDX-License-Identifier: Apache-2.0
 *
 * What recordings hold, as lines of JSON for the checkers of exported traces. Made from the records
 * alone, without any of the exporters' code.
 */
#ifndef WAYLAY_TESTS_PERFETTO_DUMP_H
#define WAYLAY_TESTS_PERFETTO_DUMP_H

#include "exporters/exporters.h"

#include <stdio.h>

int dump_model(struct model *model, FILE *file);

#endif
