/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libfabric and its exported functions; see ofi_lib.h. */
#include "collectives/ofi_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define HEADERS      FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
#define DMABUF_SINCE FI_VERSION(1, 20)

/* struct fi_info grew with these releases. The symbol version that belongs to the headers of this
 * build has their layout, whatever the library's newest layout is. */
#if FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) >= FI_VERSION(2, 7)
#define INFO_NODE "FABRIC_1.10"
#elif FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) >= FI_VERSION(2, 5)
#define INFO_NODE "FABRIC_1.9"
#elif FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) >= FI_VERSION(2, 0)
#define INFO_NODE "FABRIC_1.8"
#elif FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) >= FI_VERSION(1, 20)
#define INFO_NODE "FABRIC_1.7"
#else
#define INFO_NODE "FABRIC_1.3"
#endif

static struct ofi_lib lib;
static int lib_rc;
static char lib_error[256];

/* The function of that version; where the library is older than the headers, its newest: those
 * structures are shorter, and this program touches no field of a release newer than the library. */
static void *find(const char *name, const char *version)
{
	void *f = dlvsym(lib.handle, name, version);

	if (!f)
		f = dlsym(lib.handle, name);
	if (!f && !lib_rc) {
		lib_rc = -ENOSYS;
		snprintf(lib_error, sizeof(lib_error),
			 "the libfabric.so.1 found here has no %s: is it another library of that "
			 "name?",
			 name);
	}
	return f;
}

static void open_once(void)
{
	lib.handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib.handle) {
		lib_rc = -ENOENT;
		snprintf(lib_error, sizeof(lib_error),
			 "cannot open libfabric (%s): install libfabric1, or point LD_LIBRARY_PATH "
			 "at one",
			 dlerror());
		return;
	}
	*(void **)&lib.getinfo = find("fi_getinfo", INFO_NODE);
	*(void **)&lib.freeinfo = find("fi_freeinfo", INFO_NODE);
	*(void **)&lib.dupinfo = find("fi_dupinfo", INFO_NODE);
	*(void **)&lib.fabric = find("fi_fabric", "FABRIC_1.1");
	*(void **)&lib.strerror = find("fi_strerror", "FABRIC_1.0");
	*(void **)&lib.fi_version = find("fi_version", "FABRIC_1.0");
	if (lib_rc)
		return;
	lib.version = lib.fi_version();
	lib.api = FI_VERSION_LT(lib.version, HEADERS) ? lib.version : HEADERS;
	/* What DMA-BUFs need; the structures that this program fills in are as they were. */
	lib.api_hmem = FI_VERSION_LT(lib.version, DMABUF_SINCE) ? lib.version : DMABUF_SINCE;
	if (FI_VERSION_LT(lib.api_hmem, lib.api))
		lib.api_hmem = lib.api;
}

int ofi_lib_open(const struct ofi_lib **out, char *error, size_t error_bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_once);
	if (lib_rc) {
		snprintf(error, error_bytes, "%s", lib_error);
		*out = NULL;
		return lib_rc;
	}
	*out = &lib;
	return 0;
}
