/* SPDX-License-Identifier: Apache-2.0
 *
 * From paths on a command line to a model; and where libwaylay.so is.
 */
#include "tracer/lttng/ctf.h"
#include "viewers/options.h"
#include "viewers/pack.h"
#include "viewers/viewers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_ALL_RUNS, INPUT_RUN };

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct input *input = user;

	if (key == INPUT_ALL_RUNS)
		input->all_runs = true;
	else
		input->run = arg;
	if (!input->all_runs || !input->run)
		return 0;
	(void)snprintf(err, err_size, "--all-runs and --run exclude each other");
	return -EINVAL;
}

struct option_group input_options(struct input *input)
{
	static const struct option_row rows[] = {
		{"all-runs", 0, NULL, "every run in DIR, not the newest alone", INPUT_ALL_RUNS},
		{"run", 0, "ID", "only the run with this identifier", INPUT_RUN},
	};

	return (struct option_group){
		.rows = rows, .count = sizeof(rows) / sizeof(rows[0]), .take = take, .user = input};
}

void input_operands(struct input *input, int argc, char **argv, int first)
{
	input->paths = (const char *const *)&argv[first];
	input->path_count = (unsigned)(argc - first);
}

struct model *input_open(const struct input *input)
{
	const char *directory = getenv("WAYLAY_DIR");
	const char *const fallback = directory && *directory ? directory : "waylay-out";
	const struct model_options options = {.open_other = open_other,
					      .all_runs = input->all_runs,
					      .run = input->run,
					      .symbols = true};
	struct model *model = NULL;
	char err[1024] = "";

	int error = model_open(input->path_count ? input->paths : &fallback,
			       input->path_count ? input->path_count : 1, &options, &model, err,
			       sizeof(err));

	if (error) {
		say("%s%s", err,
		    error == -EINVAL ? "; give what `waylay run` or libwaylay.so recorded" : "");
		return NULL;
	}
	for (unsigned i = 0; i < model_note_count(model); i++)
		say("%s", model_note(model, i));
	return model;
}

static int open_ctf(const char *path, struct trace_reader ***readers, unsigned *count, char *err,
		    size_t err_size)
{
	const char *object = find_library(CTF_OBJECT);
	void *lib = object ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
	ctf_open_fn open_it = NULL;

	if (lib)
		*(void **)&open_it = dlsym(lib, CTF_SYMBOL);
	if (open_it)
		return open_it(path, wl_event_type, readers, count, err, err_size);
	(void)snprintf(err, err_size,
		       "%s: a trace of LTTng, which this build cannot read (%s): install "
		       "libbabeltrace2-dev and build Waylay again",
		       path, object ? dlerror() : CTF_OBJECT " is not there");
	return -ENOTSUP;
}

int open_other(const char *path, struct trace_reader ***readers, unsigned *count, char *err,
	       size_t err_size)
{
	size_t length = strlen(path), suffix = strlen(PACK_SUFFIX);

	if (length > suffix && strcmp(path + length - suffix, PACK_SUFFIX) == 0)
		return pack_readers(path, readers, count, err, err_size);
	return open_ctf(path, readers, count, err, err_size);
}

const char *find_preload(void)
{
	static char path[PATH_MAX];
	const char *found = *path ? NULL : find_library("libwaylay.so");

	if (found)
		(void)snprintf(path, sizeof(path), "%s", found);
	return *path ? path : NULL;
}

const char *find_library(const char *name)
{
	/* Beside the program in a build tree, else where `make install` puts it. */
	static const char *const places[] = {"", "../lib/waylay/", "../lib/"};
	static char path[PATH_MAX];
	char self[PATH_MAX], candidate[PATH_MAX + 64];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (length <= 0)
		return NULL;
	self[length] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(candidate, sizeof(candidate), "%s/%s%s", self, places[i], name);
		if (realpath(candidate, path) && access(path, R_OK) == 0)
			return path;
	}
	return NULL;
}
