/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files: written under a temporary name beside the final one, renamed when complete.
 */
#include "exporters/exporters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(char *err, size_t err_size, const char *doing, const char *path, int error)
{
	const char *hint = "";

	if (error == -ENOSPC || error == -EDQUOT)
		hint = ": free some space or write elsewhere (-o)";
	else if (error == -EACCES || error == -EROFS || error == -ENOENT)
		hint = ": choose another place (-o)";
	snprintf(err, err_size, "%s %s: %s%s", doing, strcmp(path, "-") ? path : "standard output",
		 strerror(-error), hint);
	return error;
}

/* What a run left cannot be had again, so that nothing made from it may take its place: `export -o` with the
 * name of its own input, mostly. How they begin: docs/spool-format.md, docs/pack-format.md. */
static bool is_recording(const char *path)
{
	char magic[8] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ours = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
		    (memcmp(magic, "WAYSPOOL", sizeof(magic)) == 0 ||
		     memcmp(magic, "WAYPACK1", sizeof(magic)) == 0);

	if (fd >= 0)
		(void)close(fd);
	return ours;
}

bool output_stopped(const struct output *output)
{
	const struct export_options *options = output->options;

	return options && options->progress && options->progress(options->user, EXPORT_ASK);
}

int output_open(struct output *output, const char *path, const struct export_options *options,
		char *err, size_t err_size)
{
	struct stat stat_buf;

	memset(output, 0, sizeof(*output));
	output->path = path;
	output->options = options;
	if (!strcmp(path, "-")) {
		output->fd = STDOUT_FILENO;
		return 0;
	}
	if (!stat(path, &stat_buf) && S_ISDIR(stat_buf.st_mode))
		return failed(err, err_size, "writing", path, -EISDIR);
	/* A device or pipe is written as it is: renaming would replace it. */
	if (!stat(path, &stat_buf) && !S_ISREG(stat_buf.st_mode)) {
		output->fd = open(path, O_WRONLY | O_CLOEXEC);
		return output->fd < 0 ? failed(err, err_size, "opening", path, -errno) : 0;
	}
	if (is_recording(path)) {
		(void)snprintf(
			err, err_size,
			"writing %s: it is a recording, which is not overwritten: choose another name",
			path);
		return -EEXIST;
	}
	if (asprintf(&output->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0) {
		output->temporary = NULL;
		return failed(err, err_size, "writing", path, -ENOMEM);
	}
	output->fd = open(output->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (output->fd < 0) {
		int error = -errno;

		free(output->temporary);
		output->temporary = NULL;
		return failed(err, err_size, "creating", path, error);
	}
	return 0;
}

void output_write(struct output *output, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes && !output->error) {
		ssize_t written;

		/* Who reads a pipe may never read on: a signal must end the export all the same, also where
		 * it comes in the middle of a write, which then writes less than it should. */
		if (output_stopped(output)) {
			output->error = -EINTR;
			return;
		}
		written = write(output->fd, at, bytes);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			output->error = written < 0 ? -errno : -EIO;
			return;
		}
		at += written;
		bytes -= (size_t)written;
		output->bytes += (uint64_t)written;
	}
}

int output_close(struct output *output, int error, char *err, size_t err_size)
{
	const char *doing = "writing";
	bool given = error != 0;

	if (!error)
		error = output->error;
	if (output->fd != STDOUT_FILENO && close(output->fd) && !error)
		error = -errno;
	if (!error && output->temporary && rename(output->temporary, output->path)) {
		error = -errno;
		doing = "renaming the finished file to";
	}
	if (error && output->temporary)
		unlink(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	if (error && !(given && *err))
		failed(err, err_size, doing, output->path, error);
	return error;
}

uint64_t output_size(const char *path)
{
	struct stat stat_buf;

	return stat(path, &stat_buf) ? 0 : (uint64_t)stat_buf.st_size;
}
