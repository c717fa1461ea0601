/* SPDX-License-Identifier: Apache-2.0
 *
 * From paths to recordings: directories are searched, files taken as they are, what cannot be read
 * is reported and left out.
 */
#include "exporters/model/internal.h"

#include "tracer/lttng/ctf.h"
#include "tracer/spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct found {
	char *path;
	dev_t device;
	ino_t inode;
};

struct finds {
	struct found *items;
	unsigned count, capacity;
};

static int finds_add(struct model *model, struct finds *finds, const char *path,
		     const struct stat *stat)
{
	for (unsigned i = 0; i < finds->count; i++) {
		/* Without an inode: what is not in a file system has its name alone. */
		if (finds->items[i].device == stat->st_dev &&
		    finds->items[i].inode == stat->st_ino &&
		    (stat->st_ino || !strcmp(finds->items[i].path, path))) {
			model_add_note(model, "%s: given twice (also as %s)", path,
				       finds->items[i].path);
			return 0;
		}
	}
	if (finds->count == finds->capacity) {
		unsigned capacity = finds->capacity ? finds->capacity * 2 : 32;
		struct found *items = realloc(finds->items, capacity * sizeof(*items));

		if (!items)
			return -ENOMEM;
		finds->items = items;
		finds->capacity = capacity;
	}
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	finds->items[finds->count++] = (struct found){copy, stat->st_dev, stat->st_ino};
	return 0;
}

static void finds_free(struct finds *finds)
{
	for (unsigned i = 0; i < finds->count; i++)
		free(finds->items[i].path);
	free(finds->items);
}

/* Files of ours, packed ones too, and the folders that `waylay run --sink lttng` makes. */
static int is_recording(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return (length > 7 && !strcmp(entry->d_name + length - 7, ".wspool")) ||
	       (length > 6 && !strcmp(entry->d_name + length - 6, ".wpack")) ||
	       !strncmp(entry->d_name, "lttng-", 6);
}

static int search_directory(struct model *model, struct finds *finds, const char *path, char *err,
			    size_t err_size)
{
	struct dirent **entries;
	int count = scandir(path, &entries, is_recording, alphasort), error = 0;

	if (count < 0) {
		error = -errno;
		snprintf(err, err_size, "reading directory %s: %s", path, strerror(-error));
		return error;
	}
	for (int i = 0; i < count; i++) {
		char full[4096];
		struct stat stat_buf;

		if ((size_t)snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name) <
			    sizeof(full) &&
		    !error && !stat(full, &stat_buf))
			error = finds_add(model, finds, full, &stat_buf);
		free(entries[i]);
	}
	free(entries);
	return error;
}

static int search(struct model *model, struct finds *finds, const char *path, char *err,
		  size_t err_size)
{
	struct stat stat_buf = {0};

	if (ctf_is_live(path))
		return finds_add(model, finds, path, &stat_buf);
	if (stat(path, &stat_buf)) {
		int error = -errno;

		snprintf(
			err, err_size,
			"reading %s: %s: give a directory that `waylay run` made, or a .wspool file",
			path, strerror(-error));
		return error;
	}
	if (S_ISDIR(stat_buf.st_mode)) {
		unsigned before = finds->count;
		int error = search_directory(model, finds, path, err, err_size);

		if (error || finds->count > before || !ctf_is(path))
			return error;
	}
	return finds_add(model, finds, path, &stat_buf);
}

static bool is_other(const char *path)
{
	size_t length = strlen(path);
	struct stat stat_buf;

	if ((length > 6 && !strcmp(path + length - 6, ".wpack")) || ctf_is_live(path))
		return true;
	return !stat(path, &stat_buf) && S_ISDIR(stat_buf.st_mode);
}

/* All processes of a directory of another kind. Its readers stay open: they cannot be had one by one. */
static int open_other(struct model *model, const char *path, const struct model_options *options,
		      char *err, size_t err_size)
{
	struct trace_reader **readers = NULL;
	unsigned count = 0;
	int error = 0, failed;

	if (!options || !options->open_other) {
		snprintf(err, err_size, "%s: not a recording of Waylay's", path);
		return -EINVAL;
	}
	failed = options->open_other(path, &readers, &count, err, err_size);
	if (failed)
		return failed;
	if (*err) { /* a part of it */
		model_add_note(model, "%s: left out", err);
		model->unreadable_count++;
	}
	for (unsigned i = 0; i < count; i++) {
		if (!error)
			error = model_add(model, readers[i], NULL);
		else
			readers[i]->ops->close(readers[i]);
	}
	free((void *)readers);
	return error == -ENOMEM ? error : 0;
}

/* Opens every file found; the last failure is kept for the case that none can be read. */
static int open_all(struct model *model, const struct finds *finds,
		    const struct model_options *options, char *err, size_t err_size)
{
	int error = 0;

	for (unsigned i = 0; i < finds->count && !error; i++) {
		struct trace_reader *reader = NULL;
		bool other = is_other(finds->items[i].path);
		int failed =
			other ? open_other(model, finds->items[i].path, options, err, err_size)
			      : spool_reader_open(finds->items[i].path, &reader, err, err_size);

		/* A session whose job had nothing to record, as of the spool there is no file then. */
		if (failed == -ENOMSG)
			continue;
		if (failed) {
			model_add_note(model, "%s: left out", err);
			model->unreadable_count++;
			continue;
		}
		if (other)
			continue;
		error = model_add(model, reader, finds->items[i].path);
		while (model->open_count >= model->open_max && !error) {
			struct process *process = model->processes[model->process_count - 1];

			process->reader->ops->close(process->reader);
			process->reader = NULL;
			model->open_count--;
		}
	}
	if (!error && !model->process_count)
		return -EINVAL; /* err has the last reader's own line */
	if (error)
		snprintf(err, err_size, "reading %u recordings: %s", finds->count,
			 strerror(-error));
	return error;
}

int model_open(const char *const *paths, unsigned path_count, const struct model_options *options,
	       struct model **model, char *err, size_t err_size)
{
	struct model *made = model_new(options);
	struct finds finds = {0};
	int error = 0;

	if (err_size)
		*err = 0;
	if (!made) {
		snprintf(err, err_size, "reading recordings: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	for (unsigned i = 0; i < path_count && !error; i++)
		error = search(made, &finds, paths[i], err, err_size);
	if (error && !*err)
		snprintf(err, err_size, "looking for recordings: %s", strerror(-error));
	if (!error && !finds.count) {
		snprintf(
			err, err_size,
			"no recording in %s: the job used neither CUDA nor libfabric, or was not traced "
			"(`waylay doctor` tells)",
			path_count ? paths[0] : "no path given");
		error = -ENOENT;
	}
	if (!error)
		error = open_all(made, &finds, options, err, err_size);
	if (!error)
		error = model_settle(made, options, err, err_size);
	finds_free(&finds);
	if (error) {
		model_close(made);
		return error;
	}
	*model = made;
	return 0;
}
