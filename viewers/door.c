/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting the second door up: libfabric opens every "*-fi.so" in the directories of
 * FI_PROVIDER_PATH, and the hook providers among them that FI_HOOK names see each fabric opened.
 */
#include "viewers/door.h"
#include "viewers/run.h"
#include "viewers/viewers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOOK_NAME "waylay"

bool door_default_providers(char *path, size_t size)
{
	char real[PATH_MAX], *slash;
	bool found = false;
	Dl_info info;
	void *library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "fi_getinfo") : NULL;

	if (symbol && dladdr(symbol, &info) && realpath(info.dli_fname, real)) {
		slash = strrchr(real, '/');
		*slash = 0;
		found = (size_t)snprintf(path, size, "%s/libfabric", real) < size &&
			access(path, R_OK | X_OK) == 0;
	}
	if (library)
		(void)dlclose(library);
	return found;
}

/* True if `value` lists `item` already. */
static bool listed(const char *value, const char *item, char separator)
{
	size_t length = strlen(item);

	for (const char *at = value; at && *at;) {
		const char *end = strchrnul(at, separator);

		if ((size_t)(end - at) == length && strncmp(at, item, length) == 0)
			return true;
		at = *end ? end + 1 : end;
	}
	return false;
}

static bool append(const char *variable, const char *before, const char *item, char separator)
{
	char *value = NULL;
	bool ok;

	if (listed(before, item, separator))
		return true;
	if (before && *before ? asprintf(&value, "%s%c%s", before, separator, item) < 0
			      : asprintf(&value, "%s", item) < 0)
		return false;
	ok = setenv(variable, value, 1) == 0;
	free(value);
	return ok;
}

/* A link is renamed into place, so that processes starting at once find it whole. */
static int put_link(const char *library, const char *directory)
{
	char name[PATH_MAX], fresh[PATH_MAX];

	if ((size_t)snprintf(name, sizeof(name), "%s/" HOOK_NAME "-fi.so", directory) >=
		    sizeof(name) ||
	    (size_t)snprintf(fresh, sizeof(fresh), "%s/.link-%d", directory, (int)getpid()) >=
		    sizeof(fresh))
		return ENAMETOOLONG;
	if (symlink(library, fresh) != 0)
		return errno;
	if (rename(fresh, name) != 0) {
		int error = errno;

		(void)unlink(fresh);
		return error;
	}
	return 0;
}

bool door_prepare(const char *directory, const char *library)
{
	const char *paths = getenv("FI_PROVIDER_PATH");
	char door[PATH_MAX], standard[PATH_MAX];
	int error;

	if ((size_t)snprintf(door, sizeof(door), "%s/ofi-door", directory) >= sizeof(door)) {
		say("the directory for recordings, %s, has too long a name for --ofi-door",
		    directory);
		return false;
	}
	if (strchr(door, ':')) {
		say("the directory for recordings, %s, has a colon, which FI_PROVIDER_PATH cannot "
		    "carry; give another with --dir or leave --ofi-door out",
		    directory);
		return false;
	}
	error = -run_make_directory(door);
	if (!error)
		error = put_link(library, door);
	if (error) {
		say("making libfabric's second door, %s: %s; give another directory with --dir or "
		    "leave --ofi-door out",
		    door, strerror(error));
		return false;
	}
	/* Setting the variable takes the directory away that libfabric would have looked in. */
	if ((!paths || !*paths) && door_default_providers(standard, sizeof(standard)))
		paths = standard;
	if (append("FI_PROVIDER_PATH", paths, door, ':') &&
	    append("FI_HOOK", getenv("FI_HOOK"), HOOK_NAME, ';'))
		return true;
	say("setting FI_PROVIDER_PATH and FI_HOOK: %s", strerror(ENOMEM));
	return false;
}
