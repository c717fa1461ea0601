/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay pack, waylay unpack: a run's recordings in one compressed file, and back.
 */
#include "viewers/options.h"
#include "viewers/pack.h"
#include "viewers/run.h"
#include "viewers/viewers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_OUTPUT, KEY_LEVEL, KEY_VERIFY };

struct pack_arguments {
	const char *output;
	uint64_t level;
	bool verify;
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct pack_arguments *arguments = user;

	switch (key) {
	case KEY_OUTPUT:
		arguments->output = arg;
		if (*arg)
			return 0;
		(void)snprintf(err, err_size, "no file given");
		return -EINVAL;
	case KEY_LEVEL:
		if (parse_count(arg, 19, &arguments->level) && arguments->level)
			return 0;
		(void)snprintf(err, err_size, "'%.40s' is no number from 1 to 19", arg);
		return -EINVAL;
	default:
		arguments->verify = true;
		return 0;
	}
}

/* --- what to pack ----------------------------------------------------------------------------- */

struct files {
	char **paths;
	unsigned count;
};

static bool add(struct files *files, const char *path)
{
	char **paths = realloc((void *)files->paths, (files->count + 1) * sizeof(*paths));

	if (!paths)
		return false;
	files->paths = paths;
	files->paths[files->count] = strdup(path);
	return files->paths[files->count++] != NULL;
}

static int is_spool(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 7 && strcmp(entry->d_name + length - 7, ".wspool") == 0;
}

static bool add_all(struct files *files, const char *path)
{
	struct dirent **entries;
	struct stat st;
	bool ok = true;
	int count;

	if (stat(path, &st) != 0) {
		say("reading %s: %s; give recordings or a directory of them", path,
		    strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode))
		return add(files, path);
	count = scandir(path, &entries, is_spool, alphasort);
	for (int i = 0; i < count; i++) {
		char full[PATH_MAX];

		if ((size_t)snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name) <
		    sizeof(full))
			ok = ok && add(files, full);
		free(entries[i]);
	}
	if (count >= 0)
		free((void *)entries);
	return ok;
}

static void files_free(struct files *files)
{
	for (unsigned i = 0; i < files->count; i++)
		free(files->paths[i]);
	free((void *)files->paths);
}

static int pack(const struct pack_arguments *arguments, const struct files *files)
{
	struct pack_counts counts;
	char err[PATH_MAX + 300] = "", raw[24], packed[24];

	if (!files->count) {
		say("there is no recording to pack");
		return EXIT_EXCEEDED;
	}
	if (pack_write(arguments->output, (const char *const *)files->paths, files->count,
		       (int)arguments->level, &counts, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	say("%s: %u file%s, %s in %s", arguments->output, counts.files,
	    counts.files == 1 ? "" : "s", words_bytes(counts.raw_bytes, raw),
	    words_bytes(counts.packed_bytes, packed));
	return EXIT_HOLDS;
}

/* --- unpacking -------------------------------------------------------------------------------- */

/* One file into a directory; directory NULL: only checked. */
static int extract(const struct pack *p, unsigned index, const char *directory)
{
	char path[PATH_MAX + 300];
	uint64_t bytes = 0;
	int to = -1, rc = 0;

	if (directory) {
		(void)snprintf(path, sizeof(path), "%s/%s", directory, pack_name(p, index));
		to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		rc = to < 0 ? -errno : 0;
	}
	if (!rc)
		rc = pack_extract(p, index, to, &bytes);
	if (to >= 0 && close(to) != 0 && !rc)
		rc = -errno;
	if (!rc)
		return 0;
	say("%s: %s", pack_name(p, index),
	    rc == -EBADMSG ? "its data is damaged: the checksum is wrong" : strerror(-rc));
	if (to >= 0)
		(void)unlink(path);
	return rc;
}

static int unpack(const char *from, const char *directory)
{
	char err[PATH_MAX + 300];
	struct pack *p;
	int status = EXIT_HOLDS, rc;

	if (pack_open(from, &p, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	rc = directory ? run_make_directory(directory) : 0;
	if (rc) {
		say("making %s: %s", directory, strerror(-rc));
		pack_close(p);
		return EXIT_EXCEEDED;
	}
	for (unsigned i = 0; i < pack_count(p); i++)
		if (extract(p, i, directory) != 0)
			status = EXIT_EXCEEDED;
	if (status == EXIT_HOLDS)
		say("%s: %u file%s %s", from, pack_count(p), pack_count(p) == 1 ? "" : "s",
		    directory ? "unpacked" : "whole");
	pack_close(p);
	return status;
}

/* --- the commands ----------------------------------------------------------------------------- */

int cmd_pack(int argc, char **argv)
{
	static const struct option_row rows[] = {
		{"output", 'o', "FILE", "the packed file (default waylay" PACK_SUFFIX ")",
		 KEY_OUTPUT},
		{"level", 0, "N", "of compression, 1 (default, fastest) to 19", KEY_LEVEL},
		{"verify", 0, NULL, "check packed files instead, every byte of them", KEY_VERIFY},
	};
	struct pack_arguments arguments = {.output = "waylay" PACK_SUFFIX, .level = 1};
	const char *directory = getenv("WAYLAY_DIR");
	struct files files = {0};
	const struct command_line line = {
		.name = "waylay pack",
		.operands = "[DIR|FILE...]",
		.what = "Packs recordings into one compressed file, which every command reads.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out.\n\n"
			"Examples:\n"
			"  waylay pack -o run7" PACK_SUFFIX "\n"
			"  waylay pack --verify run7" PACK_SUFFIX " && rm -r waylay-out\n"
			"  waylay report run7" PACK_SUFFIX,
		.mistake_status = EXIT_USAGE,
		.group_count = 1,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL}},
	};
	int first = options_parse(&line, argc, argv), status = EXIT_HOLDS;
	bool ok = true;

	if (arguments.verify) {
		if (first == argc)
			options_mistake(&line, "no packed file given");
		for (; first < argc; first++)
			if (unpack(argv[first], NULL) != EXIT_HOLDS)
				status = EXIT_EXCEEDED;
		return status;
	}
	if (first == argc)
		ok = add_all(&files, directory && *directory ? directory : "waylay-out");
	for (; first < argc && ok; first++)
		ok = add_all(&files, argv[first]);
	status = ok ? pack(&arguments, &files) : EXIT_EXCEEDED;
	files_free(&files);
	return status;
}

int cmd_unpack(int argc, char **argv)
{
	static const struct option_row rows[] = {
		{"output", 'o', "DIR", "where to (default waylay-out)", KEY_OUTPUT},
	};
	struct pack_arguments arguments = {.output = "waylay-out"};
	const struct command_line line = {
		.name = "waylay unpack",
		.operands = "FILE",
		.what = "Puts packed recordings back, bit for bit.",
		.mistake_status = EXIT_USAGE,
		.group_count = 1,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL}},
	};
	int first = options_parse(&line, argc, argv);

	if (first + 1 != argc)
		options_mistake(&line, "one packed file is needed, not %d", argc - first);
	return unpack(argv[first], arguments.output);
}
