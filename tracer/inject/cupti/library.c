/* SPDX-License-Identifier: Apache-2.0
 *
 * Which libcupti. The one that is in the process comes first: a second copy would not see what the first
 * is told, and a framework that brings its own would get ours by its name.
 */
#include "tracer/inject/cupti/cupti.h"

#include "tracer/inject/elf.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct cupti_library wl_cupti;
static void *library;
static const struct link_map *library_map;

static bool is_cupti(const struct link_map *map, void *path)
{
	if (!wl_text_starts(wl_map_file(map), CUPTI_LIBRARY))
		return false;
	snprintf(path, PATH_MAX, "%s", map->l_name);
	return true;
}

static void *open_loaded(void)
{
	char path[PATH_MAX];

	return wl_maps_visit(is_cupti, path) ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

static void *open_in(const char *folder, const char *below, int major)
{
	char path[PATH_MAX + 64];

	if (!folder || !folder[0])
		return NULL;
	snprintf(path, sizeof(path), "%s/%s/" CUPTI_LIBRARY ".%d", folder, below, major);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

struct beside {
	int major;
	char folder[PATH_MAX];
};

/* Packages of NVIDIA's for Python lie side by side: libcudart's folder, or that of cuda_cupti near it. */
static bool is_runtime(const struct link_map *map, void *arg)
{
	struct beside *beside = arg;
	const char *file = wl_map_file(map);

	if (!wl_text_starts(file, "libcudart.so"))
		return false;
	snprintf(beside->folder, sizeof(beside->folder), "%.*s", (int)(file - map->l_name),
		 map->l_name);
	return true;
}

static void *open_beside_runtime(int major)
{
	struct beside beside = {.major = major};
	void *found;

	if (!wl_maps_visit(is_runtime, &beside))
		return NULL;
	found = open_in(beside.folder, ".", major);
	return found ? found : open_in(beside.folder, "../../cuda_cupti/lib", major);
}

static void *open_toolkit(int major)
{
	const char *const folders[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda",
				       "/opt/cuda"};
	static const char *const below[] = {"extras/CUPTI/lib64", "lib64",
					    "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"};

	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		for (unsigned j = 0; j < sizeof(below) / sizeof(below[0]); j++) {
			void *found = open_in(folders[i], below[j], major);

			if (found)
				return found;
		}
	return NULL;
}

static void *open_any(int major, bool only_loaded)
{
	char name[64];
	void *found = NULL;

	if (wl_settings.cupti[0])
		return dlopen(wl_settings.cupti, RTLD_NOW | RTLD_LOCAL);
	found = open_loaded();
	if (found || only_loaded)
		return found;
	found = open_beside_runtime(major);
	if (found)
		return found;
	snprintf(name, sizeof(name), CUPTI_LIBRARY ".%d", major);
	found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	return found ? found : open_toolkit(major);
}

static void *symbol(const char *name)
{
	return wl_real_dlsym(library, name);
}

static void functions_find(void)
{
	struct wl_place place;

	wl_cupti.get_version = symbol("cuptiGetVersion");
	wl_cupti.enable = symbol("cuptiActivityEnable");
	wl_cupti.disable = symbol("cuptiActivityDisable");
	wl_cupti.register_callbacks = symbol("cuptiActivityRegisterCallbacks");
	wl_cupti.next_record = symbol("cuptiActivityGetNextRecord");
	wl_cupti.flush_all = symbol("cuptiActivityFlushAll");
	wl_cupti.register_timestamp = symbol("cuptiActivityRegisterTimestampCallback");
	wl_cupti.all_sync_records = symbol("cuptiActivityEnableAllSyncRecords");
	wl_cupti.stream_id = symbol("cuptiGetStreamIdEx");
	wl_cupti.context_id = symbol("cuptiGetContextId");
	wl_cupti.result_string = symbol("cuptiGetResultString");
	if (wl_cupti.enable && wl_place_find((void *)(uintptr_t)wl_cupti.enable, &place))
		library_map = place.map;
	dlerror(); /* the job's own questions must not get the answers to ours */
}

bool cupti_library_open(int driver_major, bool only_loaded, char *why, size_t why_size)
{
	library = open_any(driver_major, only_loaded);
	if (!library) {
		const char *said = dlerror();

		if (wl_settings.cupti[0])
			snprintf(why, why_size, "%s", said ? said : wl_settings.cupti);
		else
			snprintf(why, why_size,
				 "no " CUPTI_LIBRARY ".%d in the process, beside the CUDA runtime, "
				 "on the library path or in the toolkit; WAYLAY_CUPTI names one",
				 driver_major);
		return false;
	}
	functions_find();
	if (!wl_cupti.enable || !wl_cupti.disable || !wl_cupti.register_callbacks ||
	    !wl_cupti.next_record || !wl_cupti.flush_all || !wl_cupti.get_version ||
	    !wl_cupti.register_timestamp) {
		snprintf(why, why_size, "%s lacks functions of CUDA 11.8",
			 library_map ? library_map->l_name : CUPTI_LIBRARY);
		return false;
	}
	return true;
}

void *cupti_real(const char *name)
{
	return library ? symbol(name) : wl_symbol_find(CUPTI_LIBRARY, name, NULL);
}

bool cupti_is_library(const void *address)
{
	struct wl_place place;

	return library_map && wl_place_find(address, &place) && place.map == library_map;
}
