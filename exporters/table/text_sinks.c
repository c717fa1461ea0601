/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as CSV (RFC 4180, one file a table) and as JSON lines (one file, each line an object that
 * names its table).
 */
#include "exporters/json.h"
#include "exporters/model/text.h"
#include "exporters/table/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct text_sink {
	struct table_sink sink; /* first */
	struct json files[TABLE_MAX];
	bool open[TABLE_MAX];
	char *paths[TABLE_MAX];
};

static struct text_sink *text_of(struct table_sink *sink)
{
	return (struct text_sink *)sink;
}

static int close_files(struct table_sink *sink, int error, uint64_t *bytes, char *err,
		       size_t err_size)
{
	struct text_sink *text = text_of(sink);

	if (!error)
		error = sink->error;
	*bytes = 0;
	/* All or none get their names. */
	for (unsigned i = 0; i < TABLE_MAX && !error; i++) {
		if (text->open[i])
			error = json_finish(&text->files[i]);
	}
	for (unsigned i = 0; i < TABLE_MAX; i++) {
		if (text->open[i]) {
			error = json_close(&text->files[i], error, err, err_size);
			*bytes += text->files[i].output.bytes;
		}
		free(text->paths[i]);
	}
	free(text);
	return error;
}

static void note_failure(struct text_sink *text, const struct json *file)
{
	if (!text->sink.error)
		text->sink.error = file->output.error;
}

/* --- CSV ---------------------------------------------------------------------------------------- */

static void csv_text(struct json *file, const char *value)
{
	char clean[4096];
	size_t length = text_clean(clean, sizeof(clean), value, strlen(value));

	if (!strpbrk(clean, ",\"\r\n")) {
		json_put(file, clean, length);
		return;
	}
	json_raw(file, "\"");
	for (const char *at = clean; *at;) {
		size_t part = strcspn(at, "\"");

		json_put(file, at, part);
		at += part;
		if (*at++ != '"')
			break;
		json_raw(file, "\"\"");
	}
	json_raw(file, "\"");
}

/* An object is one field, whatever its length. */
static void csv_object(struct json *file, const char *value)
{
	json_raw(file, "\"");
	while (*value) {
		size_t part = strcspn(value, "\"");

		json_put(file, value, part);
		value += part;
		if (!*value)
			break;
		json_raw(file, "\"\"");
		value++;
	}
	json_raw(file, "\"");
}

static void put_hex(struct json *file, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%llx", (unsigned long long)value);
	json_raw(file, text);
}

static void csv_row(struct table_sink *sink, enum table table, const struct table_row *row)
{
	struct text_sink *text = text_of(sink);
	const struct table_info *info = table_info(table);
	struct json *file = &text->files[table];

	if (!text->open[table])
		return;
	for (unsigned i = 0; i < info->column_count; i++) {
		if (i)
			json_raw(file, ",");
		if (!(row->set & 1u << i))
			continue;
		switch (info->columns[i].type) {
		case TABLE_TEXT:
			csv_text(file, row->values[i].text);
			break;
		case TABLE_JSON:
			csv_object(file, row->values[i].text);
			break;
		case TABLE_HEX:
			put_hex(file, (uint64_t)row->values[i].number);
			break;
		default:
			json_int(file, row->values[i].number);
			break;
		}
	}
	json_raw(file, "\r\n");
	note_failure(text, file);
}

static const struct table_sink_ops csv_ops = {csv_row, close_files};

static void csv_head(struct json *file, const struct table_info *info)
{
	for (unsigned i = 0; i < info->column_count; i++) {
		json_raw(file, i ? "," : "");
		json_raw(file, info->columns[i].name);
	}
	json_raw(file, "\r\n");
}

/* One table goes into the file itself, several into a folder of files. */
static char *csv_path(const char *path, bool folder, enum table table)
{
	char *full = NULL;

	if (asprintf(&full, folder ? "%s/%s.csv" : "%s", path, table_info(table)->name) < 0)
		return NULL;
	return full;
}

struct table_sink *table_csv_open(const char *path, uint32_t tables,
				  const struct export_options *options, int *error, char *err,
				  size_t err_size)
{
	struct text_sink *text = calloc(1, sizeof(*text));
	bool folder = __builtin_popcount(tables) > 1;
	uint64_t bytes;

	*error = text ? 0 : -ENOMEM;
	if (text && folder && mkdir(path, 0777) && errno != EEXIST)
		*error = -errno;
	if (*error) {
		(void)snprintf(err, err_size, "making the folder %s: %s: choose another place (-o)",
			       path, strerror(-*error));
		free(text);
		return NULL;
	}
	text->sink.ops = &csv_ops;
	text->sink.tables = tables;
	for (unsigned i = 0; i < TABLE_MAX && !*error; i++) {
		if (!(tables & 1u << i))
			continue;
		text->paths[i] = csv_path(path, folder, i);
		*error = text->paths[i] ? json_open(&text->files[i], text->paths[i], false, options,
						    err, err_size)
					: -ENOMEM;
		text->open[i] = !*error;
		if (!*error)
			csv_head(&text->files[i], table_info(i));
	}
	if (!*error)
		return &text->sink;
	close_files(&text->sink, *error, &bytes, err, err_size);
	return NULL;
}

/* --- JSON lines --------------------------------------------------------------------------------- */

static void jsonl_row(struct table_sink *sink, enum table table, const struct table_row *row)
{
	struct text_sink *text = text_of(sink);
	const struct table_info *info = table_info(table);
	struct json *file = &text->files[0];

	if (!(sink->tables & 1u << table))
		return;
	json_raw(file, "{\"table\":\"");
	json_raw(file, info->name);
	json_raw(file, "\"");
	for (unsigned i = 0; i < info->column_count; i++) {
		if (!(row->set & 1u << i))
			continue;
		json_raw(file, ",\"");
		json_raw(file, info->columns[i].name);
		json_raw(file, "\":");
		switch (info->columns[i].type) {
		case TABLE_TEXT:
			json_text(file, row->values[i].text);
			break;
		case TABLE_JSON:
			json_put(file, row->values[i].text, strlen(row->values[i].text));
			break;
		case TABLE_HEX:
			json_hex(file, (uint64_t)row->values[i].number);
			break;
		case TABLE_BOOL:
			json_raw(file, row->values[i].number ? "true" : "false");
			break;
		default:
			json_int(file, row->values[i].number);
			break;
		}
	}
	json_raw(file, "}\n");
	note_failure(text, file);
}

static const struct table_sink_ops jsonl_ops = {jsonl_row, close_files};

struct table_sink *table_jsonl_open(const char *path, uint32_t tables, bool gzip,
				    const struct export_options *options, int *error, char *err,
				    size_t err_size)
{
	struct text_sink *text = calloc(1, sizeof(*text));

	if (!text) {
		*error = -ENOMEM;
		(void)snprintf(err, err_size, "writing %s: %s", path, strerror(ENOMEM));
		return NULL;
	}
	text->sink.ops = &jsonl_ops;
	text->sink.tables = tables;
	*error = json_open(&text->files[0], path, gzip, options, err, err_size);
	text->open[0] = !*error;
	if (!*error)
		return &text->sink;
	free(text);
	return NULL;
}
