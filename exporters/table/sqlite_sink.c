/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as an SQLite database: one transaction into a file of a temporary name, indexes at the end.
 */
#include "exporters/table/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef HAVE_SQLITE
struct table_sink *table_sqlite_open(const char *path, uint32_t tables,
				     const struct export_options *options, int *error, char *err,
				     size_t err_size)
{
	(void)tables;
	*error = -ENOTSUP;
	(void)snprintf(err, err_size,
		       "writing %s: this build has no SQLite: install libsqlite3-dev and build "
		       "again, or use --format jsonl",
		       path);
	return NULL;
}
#else

#include "exporters/model/text.h"
#include "exporters/exporters.h"

#include <sqlite3.h>
#include <stdlib.h>

struct sqlite_sink {
	struct table_sink sink; /* first */
	struct output output;   /* names the file; nothing is written through it */
	sqlite3 *db;
	sqlite3_stmt *inserts[TABLE_MAX];
	char *message; /* of the first failure */
};

static struct sqlite_sink *sqlite_of(struct table_sink *sink)
{
	return (struct sqlite_sink *)sink;
}

static void failed(struct sqlite_sink *self, int status)
{
	if (self->sink.error)
		return;
	self->sink.error = status == SQLITE_FULL        ? -ENOSPC
			   : status == SQLITE_NOMEM     ? -ENOMEM
			   : status == SQLITE_INTERRUPT ? -EINTR
							: -EIO;
	self->message = strdup(sqlite3_errmsg(self->db));
}

static void run(struct sqlite_sink *self, const char *sql)
{
	int status = self->sink.error ? SQLITE_OK : sqlite3_exec(self->db, sql, NULL, NULL, NULL);

	if (status != SQLITE_OK)
		failed(self, status);
}

static int stopped(void *output)
{
	return output_stopped(output);
}

static void make_table(struct sqlite_sink *self, enum table table)
{
	const struct table_info *info = table_info(table);
	char create[2048], insert[512];
	size_t at, to;

	at = (size_t)snprintf(create, sizeof(create), "CREATE TABLE %s(", info->name);
	to = (size_t)snprintf(insert, sizeof(insert), "INSERT INTO %s VALUES(", info->name);
	for (unsigned i = 0; i < info->column_count; i++) {
		enum table_type type = info->columns[i].type;

		at += (size_t)snprintf(create + at, sizeof(create) - at, "%s\"%s\" %s",
				       i ? ", " : "", info->columns[i].name,
				       type == TABLE_INT || type == TABLE_BOOL ? "INTEGER"
									       : "TEXT");
		to += (size_t)snprintf(insert + to, sizeof(insert) - to, i ? ",?" : "?");
	}
	(void)snprintf(create + at, sizeof(create) - at, ")");
	(void)snprintf(insert + to, sizeof(insert) - to, ")");
	run(self, create);
	if (!self->sink.error) {
		int status = sqlite3_prepare_v2(self->db, insert, -1, &self->inserts[table], NULL);

		if (status != SQLITE_OK)
			failed(self, status);
	}
}

static void bind(sqlite3_stmt *insert, int place, enum table_type type, int64_t number,
		 const char *text)
{
	char hex[24];

	if (type == TABLE_INT || type == TABLE_BOOL) {
		sqlite3_bind_int64(insert, place, number);
	} else if (type == TABLE_HEX) {
		(void)snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)number);
		sqlite3_bind_text(insert, place, hex, -1, SQLITE_TRANSIENT);
	} else if (type == TABLE_JSON) {
		sqlite3_bind_text(insert, place, text, -1, SQLITE_STATIC);
	} else {
		char clean[4096];
		size_t length = text_clean(clean, sizeof(clean), text, strlen(text));

		sqlite3_bind_text(insert, place, clean, (int)length, SQLITE_TRANSIENT);
	}
}

static void sqlite_row(struct table_sink *sink, enum table table, const struct table_row *row)
{
	struct sqlite_sink *self = sqlite_of(sink);
	sqlite3_stmt *insert = self->inserts[table];
	const struct table_info *info = table_info(table);
	int status;

	if (!insert || sink->error)
		return;
	for (unsigned i = 0; i < info->column_count; i++) {
		enum table_type type = info->columns[i].type;
		bool number = type == TABLE_INT || type == TABLE_BOOL || type == TABLE_HEX;

		if (row->set & 1u << i)
			bind(insert, (int)i + 1, type, number ? row->values[i].number : 0,
			     number ? NULL : row->values[i].text);
		else
			sqlite3_bind_null(insert, (int)i + 1);
	}
	status = sqlite3_step(insert);
	if (status != SQLITE_DONE)
		failed(self, status);
	sqlite3_reset(insert);
}

static int sqlite_close_sink(struct table_sink *sink, int error, uint64_t *bytes, char *err,
			     size_t err_size)
{
	struct sqlite_sink *self = sqlite_of(sink);

	if (!error && sink->tables & 1u << TABLE_events)
		run(self, "CREATE INDEX events_by_time ON events(process, begin_ns)");
	if (!error && sink->tables & 1u << TABLE_stacks)
		run(self, "CREATE INDEX stacks_by_number ON stacks(process, stack)");
	if (!error)
		run(self, "COMMIT");
	for (unsigned i = 0; i < TABLE_MAX; i++)
		sqlite3_finalize(self->inserts[i]);
	if (sqlite3_close(self->db) != SQLITE_OK && !sink->error)
		sink->error = -EIO;
	if (!error && sink->error) {
		error = sink->error;
		(void)snprintf(err, err_size, "writing %s: %s%s", self->output.path,
			       self->message ? self->message : strerror(-error),
			       error == -ENOSPC ? ": free some space or write elsewhere (-o)" : "");
	}
	*bytes = 0;
	error = output_close(&self->output, error, err, err_size);
	if (!error)
		*bytes = output_size(self->output.path);
	free(self->message);
	free(self);
	return error;
}

static const struct table_sink_ops sqlite_ops = {sqlite_row, sqlite_close_sink};

struct table_sink *table_sqlite_open(const char *path, uint32_t tables,
				     const struct export_options *options, int *error, char *err,
				     size_t err_size)
{
	struct sqlite_sink *self = calloc(1, sizeof(*self));
	uint64_t bytes;

	*error = self ? output_open(&self->output, path, options, err, err_size) : -ENOMEM;
	if (!*error && !self->output.temporary) {
		*error = -EINVAL;
		output_close(&self->output, *error, err, 0);
		(void)snprintf(err, err_size, "writing %s: a database needs a file: name one (-o)",
			       strcmp(path, "-") ? path : "standard output");
	}
	if (*error) {
		free(self);
		return NULL;
	}
	self->sink.ops = &sqlite_ops;
	self->sink.tables = tables;
	if (sqlite3_open(self->output.temporary, &self->db) != SQLITE_OK)
		failed(self, SQLITE_CANTOPEN);
	/* Indexes of large tables take a while. */
	if (!self->sink.error)
		sqlite3_progress_handler(self->db, 100000, stopped, &self->output);
	/* Nobody but us sees the file before it is whole: nothing needs to be undone. */
	run(self, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA page_size=16384; BEGIN");
	for (unsigned i = 0; i < TABLE_MAX; i++) {
		if (tables & 1u << i)
			make_table(self, i);
	}
	if (!self->sink.error)
		return &self->sink;
	*error = self->sink.error;
	(void)snprintf(err, err_size, "writing %s: %s", path,
		       self->message ? self->message : "no database can be made there");
	sqlite_close_sink(&self->sink, *error, &bytes, err, err_size);
	return NULL;
}
#endif
