/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay export: traces for viewers, tables for queries.
 */
#include "viewers/export_options.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_FORMAT, KEY_OUTPUT, KEY_COMPRESS, KEY_TABLE, KEY_WITH, KEY_PER_HOST, KEY_NO_STACKS };

struct export_arguments {
	struct input input;
	struct trace_request request;
	struct export_choice choice;
	const char *with;
	bool per_host;
};

static const struct {
	const char *name, *file; /* file: where to, by default */
} formats[] = {
	[TRACE_PERFETTO] = {"perfetto", "waylay.pftrace"},
	[TRACE_CHROME] = {"chrome", "waylay.json"},
	[TRACE_CSV] = {"csv", "waylay-csv"},
	[TRACE_JSONL] = {"jsonl", "waylay.jsonl"},
	[TRACE_SQLITE] = {"sqlite", "waylay.db"},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static const struct option_row rows[] = {
	{"format", 'f', "FORMAT",
	 "perfetto (default) or chrome, for viewers; csv, jsonl or sqlite, for queries",
	 KEY_FORMAT},
	{"output", 'o', "FILE",
	 "where to, - for standard output (default waylay.pftrace, waylay.json, waylay-csv/, "
	 "waylay.jsonl, waylay.db)",
	 KEY_OUTPUT},
	{"compress", 0, "[=METHOD]",
	 "deflate (default) or zstd the packets; gzip for chrome and jsonl (as FILE.gz does)",
	 KEY_COMPRESS},
	{"table", 0, "LIST", "only these tables of csv, jsonl, sqlite; csv to FILE if it is one",
	 KEY_TABLE},
	{"with", 0, "FILE",
	 "lay the GPU rows of a torch.profiler trace of the same run beside ours", KEY_WITH},
	{"per-host", 0, NULL, "a trace a host, and a manifest that joins them, in the folder FILE",
	 KEY_PER_HOST},
	{"no-stacks", 0, NULL, "leave call stacks out", KEY_NO_STACKS},
};

static int take_format(struct export_arguments *arguments, const char *arg, char *err,
		       size_t err_size)
{
	for (unsigned i = 0; i < FORMATS; i++) {
		if (strcmp(arg, formats[i].name) != 0)
			continue;
		arguments->request.format = (enum trace_format)i;
		return 0;
	}
	(void)snprintf(err, err_size, "'%.80s' is neither perfetto, chrome, csv, jsonl nor sqlite",
		       arg);
	return -EINVAL;
}

static int take_compress(struct export_arguments *arguments, const char *arg, char *err,
			 size_t err_size)
{
	static const char *const methods[EXPORT_COMPRESS_MAX] = {"none", "deflate", "zstd"};

	for (unsigned i = 0; i < EXPORT_COMPRESS_MAX; i++) {
		if (strcmp(arg ? arg : "deflate", methods[i]) != 0)
			continue;
		arguments->request.options.compress = (enum export_compress)i;
		return 0;
	}
	(void)snprintf(err, err_size, "'%.80s' is neither none, deflate nor zstd", arg);
	return -EINVAL;
}

static int take_tables(struct export_arguments *arguments, const char *arg, char *err,
		       size_t err_size)
{
	char name[64], known[256] = "";

	for (;;) {
		size_t length = strcspn(arg, ",");
		uint32_t mask;

		(void)snprintf(name, sizeof(name), "%.*s", (int)(length < 60 ? length : 60), arg);
		mask = table_mask(name);
		arguments->request.tables |= mask;
		if (!mask)
			break;
		if (!arg[length])
			return 0;
		arg += length + 1;
	}
	for (unsigned i = 0; table_name(i); i++)
		(void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			       i ? ", " : "", table_name(i));
	(void)snprintf(err, err_size, "'%s' is no table; there are %s", name, known);
	return -EINVAL;
}

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct export_arguments *arguments = user;

	switch (key) {
	case KEY_FORMAT:
		return take_format(arguments, arg, err, err_size);
	case KEY_OUTPUT:
		if (*arg) {
			arguments->request.path = arg;
			return 0;
		}
		(void)snprintf(err, err_size, "no file given");
		return -EINVAL;
	case KEY_COMPRESS:
		return take_compress(arguments, arg, err, err_size);
	case KEY_WITH:
		arguments->with = arg;
		return 0;
	case KEY_PER_HOST:
		arguments->per_host = true;
		return 0;
	case KEY_TABLE:
		return take_tables(arguments, arg, err, err_size);
	default:
		arguments->request.options.no_stacks = true;
		return 0;
	}
}

/* What options cannot be had together. */
static void settle(const struct command_line *line, struct export_arguments *arguments)
{
	struct trace_request *request = &arguments->request;
	bool tables = request->format >= TRACE_CSV;
	enum export_compress compress = request->options.compress;
	size_t length;

	if (!request->path)
		request->path =
			arguments->per_host ? "waylay-hosts" : formats[request->format].file;
	if (arguments->per_host && request->format != TRACE_PERFETTO)
		options_mistake(line, "--per-host is for perfetto (--format)");
	if (arguments->per_host && !strcmp(request->path, "-"))
		options_mistake(line, "--per-host writes several files: name a folder (-o)");
	if (request->tables && !tables)
		options_mistake(line, "--table is for csv, jsonl and sqlite (--format)");
	if (arguments->choice.max_bytes && tables)
		options_mistake(line, "--max-size is for perfetto and chrome (--format)");
	if (arguments->with && request->format != TRACE_PERFETTO)
		options_mistake(line, "--with is for perfetto (--format)");
	if (compress == EXPORT_COMPRESS_ZSTD && request->format != TRACE_PERFETTO)
		options_mistake(line, "--compress=zstd is for perfetto (--format)");
	if (compress && (request->format == TRACE_CSV || request->format == TRACE_SQLITE))
		options_mistake(line, "%s is not compressed (--compress)",
				formats[request->format].name);
	if (request->format == TRACE_CSV && !strcmp(request->path, "-") &&
	    __builtin_popcount(request->tables) != 1)
		options_mistake(line,
				"several tables are several files: choose one (--table), or a "
				"folder (-o)");
	length = strlen(request->path);
	if (request->format == TRACE_CHROME && length > 3 &&
	    !strcmp(request->path + length - 3, ".gz"))
		request->options.compress = EXPORT_COMPRESS_DEFLATE;
}

static void say_written(const struct trace_request *request, const struct export_result *result)
{
	const char *path = strcmp(request->path, "-") == 0 ? "standard output" : request->path;
	char beside[64] = "";

	if (request->options.with)
		(void)snprintf(beside, sizeof(beside), "%llu rows of torch.profiler's, ",
			       (unsigned long long)result->with_rows);
	if (request->format >= TRACE_CSV)
		say("%s: %llu events, %llu synchronizations, %llu transfers, %llu registrations, "
		    "%llu bytes",
		    path, (unsigned long long)result->slices,
		    (unsigned long long)result->synchronizations,
		    (unsigned long long)result->transfers,
		    (unsigned long long)result->registrations, (unsigned long long)result->bytes);
	else
		say("%s: %llu slices, %llu instants, %llu flows, %s%llu bytes", path,
		    (unsigned long long)result->slices, (unsigned long long)result->instants,
		    (unsigned long long)result->flows, beside, (unsigned long long)result->bytes);
	if (result->too_deep)
		say("%llu slices left out: they lie inside 500 others, and viewers take no more",
		    (unsigned long long)result->too_deep);
}

static int write_one(struct model *model, struct export_arguments *arguments)
{
	struct export_result result = {0};
	int error = export_choose(model, &arguments->choice, &arguments->request.options.selection);

	if (!error)
		error = trace_write(model, &arguments->request, &result);
	if (!error)
		say_written(&arguments->request, &result);
	selection_free(arguments->request.options.selection);
	arguments->request.options.selection = NULL;
	return error;
}

static const char *host_name(const struct model *model, unsigned host)
{
	for (unsigned i = 0; i < model_process_count(model); i++) {
		if (model_process(model, i)->host == host)
			return model_process(model, i)->info.host;
	}
	return NULL;
}

/* All traces are on one clock already: the manifest gives the machines their names, by which Perfetto keeps
 * equal process numbers apart. */
static char *manifest_text(const struct model *model, size_t *bytes)
{
	const char *comma = "";
	char name[256], *text = NULL;
	FILE *file = open_memstream(&text, bytes);

	if (!file)
		return NULL;
	(void)fputs("{\"perfetto_manifest\":{\"version\":1,\"files\":[", file);
	for (unsigned host = 0; host < model_host_count(model); host++) {
		if (!host_name(model, host))
			continue;
		(void)words_clean(host_name(model, host), name, sizeof(name));
		for (char *at = name; *at; at++)
			*at = *at == '"' || *at == '\\' ? '_' : *at;
		(void)fprintf(file,
			      "%s\n{\"path\":\"host%u.pftrace\",\"machine\":{\"name\":\"%s\"}}",
			      comma, host, name);
		comma = ",";
	}
	(void)fputs("\n]}}\n", file);
	if (!fclose(file))
		return text;
	free(text);
	return NULL;
}

static int write_manifest(const struct model *model, const char *folder)
{
	char path[PATH_MAX], err[512] = "";
	struct output output;
	size_t bytes = 0;
	char *text = manifest_text(model, &bytes);
	int error;

	(void)snprintf(path, sizeof(path), "%s/manifest.json", folder);
	error = text ? output_open(&output, path, NULL, err, sizeof(err)) : -ENOMEM;
	if (!error) {
		output_write(&output, text, bytes);
		error = output_close(&output, 0, err, sizeof(err));
	}
	if (error)
		say("%s", *err ? err : strerror(-error));
	free(text);
	return error;
}

static int write_hosts(struct model *model, struct export_arguments *arguments)
{
	const char *folder = arguments->request.path;
	char path[PATH_MAX];
	int error = mkdir(folder, 0777) && errno != EEXIST ? -errno : 0;

	if (error)
		say("making the folder %s: %s: choose another place (-o)", folder,
		    strerror(-error));
	arguments->request.path = path;
	arguments->choice.one_host = true;
	for (unsigned host = 0; host < model_host_count(model) && !error; host++) {
		if (!host_name(model, host))
			continue;
		(void)snprintf(path, sizeof(path), "%s/host%u.pftrace", folder, host);
		arguments->choice.host = host;
		error = write_one(model, arguments);
		arguments->choice.ranked = false; /* left out already */
	}
	return error ? error : write_manifest(model, folder);
}

int cmd_export(int argc, char **argv)
{
	static struct export_arguments arguments;
	const struct command_line line = {
		.name = "waylay export",
		.operands = "[DIR|FILE...]",
		.what = "Writes a recording as a trace for viewers, or as tables for queries.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out.\n\n"
			"Examples:\n"
			"  waylay export -o job.pftrace            # ui.perfetto.dev\n"
			"  waylay export -f chrome -o job.json.gz  # chrome://tracing, speedscope\n"
			"  waylay export -f sqlite -o job.db       # docs/tables.md\n"
			"  waylay export --from 2s --to 3s --rank 0 --max-size 50M",
		.mistake_status = EXIT_USAGE,
		.group_count = 3,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL},
			   export_choice_options(&arguments.choice),
			   input_options(&arguments.input)},
	};
	struct kineto *kineto = NULL;
	struct model *model;
	char err[512] = "";
	int error;

	memset(&arguments, 0, sizeof(arguments));
	input_operands(&arguments.input, argc, argv, options_parse(&line, argc, argv));
	settle(&line, &arguments);
	model = input_open(&arguments.input);
	if (!model)
		return EXIT_EXCEEDED;
	arguments.request.max_bytes = arguments.choice.max_bytes;
	error = 0;
	if (arguments.with) {
		kineto = kineto_open(model, arguments.with, &error, err, sizeof(err));
		arguments.request.options.with = kineto;
		if (error)
			say("%s", err);
	}
	if (!error)
		error = arguments.per_host ? write_hosts(model, &arguments)
					   : write_one(model, &arguments);
	kineto_close(kineto);
	model_close(model);
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}
