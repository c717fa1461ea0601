/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the engine that WAYLAY_SINK names. Nothing of it is in a process that does not ask.
 */
#include "tracer/inject/sink.h"

#include "tracer/inject/elf.h"
#include "tracer/inject/inject.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

/* It lies beside this library. */
static bool beside(const char *name, char *path, size_t size)
{
	const struct link_map *self = wl_map_self();
	const char *slash = self ? strrchr(self->l_name, '/') : NULL;
	int length = slash ? (int)(slash - self->l_name) : 1;

	return (size_t)snprintf(path, size, "%.*s/%s", length, slash ? self->l_name : ".", name) <
	       size;
}

const struct sink_ops *wl_sink_open(char *why, size_t why_size)
{
	const struct sink_ops *ops;
	char path[PATH_MAX];
	const char *error;
	void *lib;

	if (!beside(SINK_LTTNG, path, sizeof(path))) {
		snprintf(why, why_size, "the path of %s is too long", SINK_LTTNG);
		return NULL;
	}
	/* Its constructor registers with LTTng's daemon, and waits for it no longer than
	 * LTTNG_UST_REGISTER_TIMEOUT says. */
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		error = dlerror();
		snprintf(why, why_size, "%.200s (was Waylay built with liblttng-ust-dev?)",
			 error ? error : "it cannot be loaded");
		return NULL;
	}
	ops = wl_real_dlsym(lib, SINK_SYMBOL);
	if (!ops || ops->abi != SINK_ABI || strcmp(ops->version, WAYLAY_VERSION) != 0) {
		snprintf(why, why_size, "%.200s is of another version of Waylay", path);
		return NULL;
	}
	if (!ops->active()) {
		snprintf(why, why_size,
			 "no LTTng session takes events of Waylay (is lttng-sessiond running, may "
			 "this user speak with it, is waylay:* enabled?)");
		return NULL;
	}
	return ops;
}
