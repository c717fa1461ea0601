/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables as data.
 */
#include "exporters/table/table.h"

#define TABLE(name, what)               static const struct table_column columns_##name[] = {
#define COLUMN(table, name, type, what) {#name, TABLE_##type},
#define TABLE_END(name)                                                                            \
	}                                                                                          \
	;
#include "exporters/table/tables.def"

static const struct table_info tables[TABLE_MAX] = {
#define TABLE(name, what) {#name, COL_##name##_MAX, columns_##name},
#include "exporters/table/tables.def"
};

#define TABLE_END(name) _Static_assert(COL_##name##_MAX <= COLUMNS_MAX, "too many columns");
#include "exporters/table/tables.def"

const struct table_info *table_info(enum table table)
{
	return &tables[table];
}
