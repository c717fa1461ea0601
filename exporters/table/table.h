/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as data, rows as arrays of values, and the sinks that write them.
 */
#ifndef WAYLAY_EXPORTERS_TABLE_H
#define WAYLAY_EXPORTERS_TABLE_H

#include "exporters/exporters.h"

enum table_type { TABLE_INT, TABLE_BOOL, TABLE_HEX, TABLE_TEXT, TABLE_JSON };

struct table_column {
	const char *name;
	enum table_type type;
};

struct table_info {
	const char *name;
	unsigned column_count;
	const struct table_column *columns;
};

/* COL_TABLE_COLUMN: a column's place in its table. TABLE_NAME: the table's number. */
#define TABLE(name, what)                                                                          \
	enum columns_of_##name                                                                     \
	{
#define COLUMN(table, name, type, what) COL_##table##_##name,
#define TABLE_END(name)                                                                            \
	COL_##name##_MAX                                                                           \
	}                                                                                          \
	;
#include "exporters/table/tables.def"
enum table {
#define TABLE(name, what) TABLE_##name,
#include "exporters/table/tables.def"
	TABLE_MAX,
};

#define COLUMNS_MAX 24

/* In table order. */
const struct table_info *table_info(enum table table);

/* A row: values that were not set are absent. Texts are valid while the row is written. */
struct table_row {
	uint32_t set; /* bit by column */
	union {
		int64_t number;
		const char *text;
	} values[COLUMNS_MAX];
};

struct table_sink;
struct table_sink_ops {
	void (*row)(struct table_sink *sink, enum table table, const struct table_row *row);
	/* error: 0 to complete, or why not. Frees the sink. As output_close. */
	int (*close)(struct table_sink *sink, int error, uint64_t *bytes, char *err,
		     size_t err_size);
};
struct table_sink {
	const struct table_sink_ops *ops;
	uint32_t tables; /* wanted, bit by enum table */
	int error;       /* first failure, -errno; later rows do nothing */
};

/* NULL with *error and one line in err. */
struct table_sink *table_csv_open(const char *path, uint32_t tables,
				  const struct export_options *options, int *error, char *err,
				  size_t err_size);
struct table_sink *table_jsonl_open(const char *path, uint32_t tables, bool gzip,
				    const struct export_options *options, int *error, char *err,
				    size_t err_size);
struct table_sink *table_sqlite_open(const char *path, uint32_t tables,
				     const struct export_options *options, int *error, char *err,
				     size_t err_size);

#endif
