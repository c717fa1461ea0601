/* SPDX-License-Identifier: Apache-2.0
 *
 * The doors: libfabric's exported entry points in every symbol version, and the pointers that dlsym
 * gives out for them. Structures of fi_getinfo differ between versions, so each version calls the
 * same version of the real function and hands structures through as they are.
 */
#include "tracer/inject/ofi/ofi.h"

#include "tracer/inject/elf.h"

#include <dlfcn.h>
#include <link.h>

typedef int (*getinfo_fn)(uint32_t version, const char *node, const char *service, uint64_t flags,
			  const struct fi_info *hints, struct fi_info **info);
typedef int (*fabric_fn)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
typedef int (*fabric2_fn)(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags,
			  void *context);

/* --- finding the real one --------------------------------------------------------------------- */

static bool count_libfabric(const struct link_map *map, void *count)
{
	*(unsigned *)count += wl_text_starts(wl_map_file(map), "libfabric.so");
	return false;
}

static unsigned libfabrics_loaded(void)
{
	unsigned count = 0;

	wl_maps_visit(count_libfabric, &count);
	return count;
}

/* With several libfabrics in one process the caller's own is meant: looked up through the caller,
 * as the loader would have. */
static void *find_by_caller(const char *name, const char *version, const void *caller)
{
	struct link_map *map = NULL;
	Dl_info info;
	void *handle, *symbol = NULL;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return NULL;
	handle = dlopen(map->l_name[0] ? map->l_name : NULL, RTLD_NOW | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	symbol = wl_real_dlvsym(handle, name, version);
	(void)dlclose(handle);
	return symbol;
}

static void *find_real(const char *name, const char *version, const void *caller)
{
	void *symbol = NULL;

	if (libfabrics_loaded() > 1)
		symbol = find_by_caller(name, version, caller);
	if (!symbol || symbol == (void *)wl_symbol_find("libwaylay.so", name, version))
		symbol = wl_symbol_find("libfabric.so", name, version);
	return symbol;
}

/* Layered providers call the exported functions too: what they get is not the job's. */
static bool may_enter(const void *caller)
{
	return wl_settings.enabled && wl_settings.ofi &&
	       (wl_settings.ofi_layers || !ofi_internal(caller));
}

/* --- fi_getinfo ------------------------------------------------------------------------------- */

/* "tcp;ofi_rxm, shm, ...": what was offered, in order, each name once in a row. */
static uint32_t providers_in_words(const struct fi_info *info)
{
	char words[256];
	size_t used = 0;
	const char *last = "";

	for (; info; info = info->next) {
		const char *name = info->fabric_attr ? info->fabric_attr->prov_name : NULL;
		size_t length = name ? strlen(name) : 0;

		if (!length || strcmp(name, last) == 0)
			continue;
		if (used + length + 3 > sizeof(words))
			break;
		if (used) {
			memcpy(words + used, ", ", 2);
			used += 2;
		}
		memcpy(words + used, name, length);
		used += length;
		last = name;
	}
	return spool_intern_string(words, used);
}

/* What is read of an info lies at the same place in every version. */
static void hints_describe(struct wl_ev_ofi_getinfo *event, const struct fi_info *hints)
{
	const char *name = hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;

	event->wanted_caps = hints->caps;
	event->wanted_mr_mode = hints->domain_attr ? (uint64_t)hints->domain_attr->mr_mode : 0;
	event->wanted = name ? spool_intern_string(name, strlen(name)) : 0;
}

static void answers_describe(struct wl_ev_ofi_getinfo *event, const struct fi_info *first)
{
	const char *name = first->fabric_attr ? first->fabric_attr->prov_name : NULL;

	event->caps = first->caps;
	event->mr_mode = first->domain_attr ? (uint64_t)first->domain_attr->mr_mode : 0;
	event->name = name ? spool_intern_string(name, strlen(name)) : 0;
	event->detail = providers_in_words(first);
	for (const struct fi_info *info = first; info; info = info->next) {
		event->answers++;
		event->with_hmem += (info->caps & FI_HMEM) != 0;
	}
}

static int getinfo(getinfo_fn real, const void *caller, uint32_t version, const char *node,
		   const char *service, uint64_t flags, const struct fi_info *hints,
		   struct fi_info **info)
{
	enum ofi_how how;
	uint64_t begin, end;
	int ret;

	if (!real)
		return -FI_ENOSYS;
	ofi_text_add((const void *)real);
	if (!may_enter(caller))
		return real(version, node, service, flags, hints, info);
	wl_recording_begin("ofi");
	how = ofi_enter_setup(caller);
	if (!how)
		return real(version, node, service, flags, hints, info);
	begin = spool_now();
	ret = real(version, node, service, flags, hints, info);
	end = spool_now();
	ofi_leave(how);
	struct wl_ev_ofi_getinfo event = {
		.api = OFI_NAME("fi_getinfo"), .version = version, .status = ret};
	/* Hints are read where libfabric has read them to the end: it found answers, or that there are none. */
	if (hints && (ret == 0 || ret == -FI_ENODATA))
		hints_describe(&event, hints);
	if (ret == 0 && *info)
		answers_describe(&event, *info);
	(void)spool_append(WL_EV_ofi_getinfo, begin, end, ofi_flags(how), &event, sizeof(event));
	return ret;
}

/* --- fi_fabric -------------------------------------------------------------------------------- */

static void fabric_record(struct fid_fabric **fabric, const char *provider, uint32_t api,
			  uint64_t begin, int ret, enum ofi_how how)
{
	uint64_t end = spool_now();
	struct wl_ev_ofi_open event = {.api = api, .status = ret, .kind = WL_ofi_kind_fabric};

	if (ret == 0) {
		struct ofi_object *object = ofi_adopt(&(*fabric)->fid, WL_ofi_kind_fabric, 0);

		if (object)
			object->api_version = (*fabric)->api_version;
		/* A provider in its own shared object calls from there. */
		ofi_text_add((const void *)(*fabric)->ops->domain);
		ofi_table_patch((*fabric)->ops, sizeof(*(*fabric)->ops), OFI_TABLE_FABRIC);
		event.object = (uintptr_t)*fabric;
		event.name = provider ? spool_intern_string(provider, strlen(provider)) : 0;
	}
	(void)spool_append(WL_EV_ofi_open, begin, end, ofi_flags(how), &event, sizeof(event));
}

static inline __attribute__((always_inline)) enum ofi_how fabric_enter(const void *real,
								       const void *caller)
{
	ofi_text_add(real);
	if (!may_enter(caller))
		return OFI_PASS;
	wl_recording_begin("ofi");
	return ofi_enter_setup(caller);
}

static int fabric1(fabric_fn real, const void *caller, struct fi_fabric_attr *attr,
		   struct fid_fabric **fabric, void *context)
{
	enum ofi_how how;
	uint64_t begin;
	int ret;

	if (!real)
		return -FI_ENOSYS;
	how = fabric_enter((const void *)real, caller);
	if (!how)
		return real(attr, fabric, context);
	begin = spool_now();
	ret = real(attr, fabric, context);
	ofi_leave(how);
	fabric_record(fabric, ret == 0 ? attr->prov_name : NULL, OFI_NAME("fi_fabric"), begin, ret,
		      how);
	return ret;
}

static int fabric2(fabric2_fn real, const void *caller, struct fi_info *info,
		   struct fid_fabric **fabric, uint64_t flags, void *context)
{
	enum ofi_how how;
	uint64_t begin;
	int ret;

	if (!real)
		return -FI_ENOSYS;
	how = fabric_enter((const void *)real, caller);
	if (!how)
		return real(info, fabric, flags, context);
	begin = spool_now();
	ret = real(info, fabric, flags, context);
	ofi_leave(how);
	fabric_record(fabric, ret == 0 && info->fabric_attr ? info->fabric_attr->prov_name : NULL,
		      OFI_NAME("fi_fabric2"), begin, ret, how);
	return ret;
}

/* --- exported, one function a symbol version -------------------------------------------------- */

#define CALLER __builtin_return_address(0)

#define EXPORT_GETINFO(suffix, node_name, binding)                                                 \
	WL_EXPORT int ofi_getinfo_##suffix(uint32_t version, const char *node,                     \
					   const char *service, uint64_t flags,                    \
					   const struct fi_info *hints, struct fi_info **info);    \
	int ofi_getinfo_##suffix(uint32_t version, const char *node, const char *service,          \
				 uint64_t flags, const struct fi_info *hints,                      \
				 struct fi_info **info)                                            \
	{                                                                                          \
		return getinfo((getinfo_fn)find_real("fi_getinfo", node_name, CALLER), CALLER,     \
			       version, node, service, flags, hints, info);                        \
	}                                                                                          \
	__asm__(".symver ofi_getinfo_" #suffix ", fi_getinfo" binding node_name ", remove")

EXPORT_GETINFO(1_0, "FABRIC_1.0", "@");
EXPORT_GETINFO(1_1, "FABRIC_1.1", "@");
EXPORT_GETINFO(1_2, "FABRIC_1.2", "@");
EXPORT_GETINFO(1_3, "FABRIC_1.3", "@");
EXPORT_GETINFO(1_7, "FABRIC_1.7", "@");
EXPORT_GETINFO(1_8, "FABRIC_1.8", "@");
EXPORT_GETINFO(1_9, "FABRIC_1.9", "@");
EXPORT_GETINFO(1_10, "FABRIC_1.10", "@@");

#define EXPORT_FABRIC(suffix, node_name, binding)                                                  \
	WL_EXPORT int ofi_fabric_##suffix(struct fi_fabric_attr *attr, struct fid_fabric **fabric, \
					  void *context);                                          \
	int ofi_fabric_##suffix(struct fi_fabric_attr *attr, struct fid_fabric **fabric,           \
				void *context)                                                     \
	{                                                                                          \
		return fabric1((fabric_fn)find_real("fi_fabric", node_name, CALLER), CALLER, attr, \
			       fabric, context);                                                   \
	}                                                                                          \
	__asm__(".symver ofi_fabric_" #suffix ", fi_fabric" binding node_name ", remove")

EXPORT_FABRIC(1_0, "FABRIC_1.0", "@");
EXPORT_FABRIC(1_1, "FABRIC_1.1", "@@");

WL_EXPORT int ofi_fabric2_1_8(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags,
			      void *context);
int ofi_fabric2_1_8(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context)
{
	return fabric2((fabric2_fn)find_real("fi_fabric2", "FABRIC_1.8", CALLER), CALLER, info,
		       fabric, flags, context);
}
__asm__(".symver ofi_fabric2_1_8, fi_fabric2@@FABRIC_1.8, remove");

/* --- given out by dlsym ----------------------------------------------------------------------- */

/*
 * A looked-up pointer stands for one function of one library, whatever its version: each gets a
 * function of ours that is bound to it, so that two libfabrics stay apart. Past the last one the
 * real pointer is given out.
 */
#define BOUND 8
static _Atomic(void *) bound_getinfo[BOUND], bound_fabric[BOUND], bound_fabric2[BOUND];

#define BOUND_FUNCTIONS(i)                                                                         \
	static int getinfo_bound_##i(uint32_t version, const char *node, const char *service,      \
				     uint64_t flags, const struct fi_info *hints,                  \
				     struct fi_info **info)                                        \
	{                                                                                          \
		return getinfo((getinfo_fn)atomic_load(&bound_getinfo[i]), CALLER, version, node,  \
			       service, flags, hints, info);                                       \
	}                                                                                          \
	static int fabric_bound_##i(struct fi_fabric_attr *attr, struct fid_fabric **fabric,       \
				    void *context)                                                 \
	{                                                                                          \
		return fabric1((fabric_fn)atomic_load(&bound_fabric[i]), CALLER, attr, fabric,     \
			       context);                                                           \
	}                                                                                          \
	static int fabric2_bound_##i(struct fi_info *info, struct fid_fabric **fabric,             \
				     uint64_t flags, void *context)                                \
	{                                                                                          \
		return fabric2((fabric2_fn)atomic_load(&bound_fabric2[i]), CALLER, info, fabric,   \
			       flags, context);                                                    \
	}
BOUND_FUNCTIONS(0)
BOUND_FUNCTIONS(1)
BOUND_FUNCTIONS(2)
BOUND_FUNCTIONS(3)
BOUND_FUNCTIONS(4)
BOUND_FUNCTIONS(5)
BOUND_FUNCTIONS(6)
BOUND_FUNCTIONS(7)

#define ALL_BOUND(name)                                                                            \
	{                                                                                          \
		(void *)name##_bound_0, (void *)name##_bound_1, (void *)name##_bound_2,            \
			(void *)name##_bound_3, (void *)name##_bound_4, (void *)name##_bound_5,    \
			(void *)name##_bound_6, (void *)name##_bound_7                             \
	}

static void *bind_to(void *real, _Atomic(void *) *bound, void *const *functions)
{
	for (unsigned i = 0; i < BOUND; i++) {
		void *expected = NULL;

		if (atomic_compare_exchange_strong(&bound[i], &expected, real) || expected == real)
			return functions[i];
	}
	return real;
}

static void *replace(const char *name, const char *version, void *real, void *caller)
{
	static void *const getinfo_functions[BOUND] = ALL_BOUND(getinfo);
	static void *const fabric_functions[BOUND] = ALL_BOUND(fabric);
	static void *const fabric2_functions[BOUND] = ALL_BOUND(fabric2);

	(void)version;
	(void)caller;
	/* Ours already (found through the global scope), or somebody else's function of that name.
	 */
	if (!wl_settings.enabled || !wl_settings.ofi || !wl_address_in(real, "libfabric.so"))
		return real;
	if (strcmp(name, "fi_getinfo") == 0)
		return bind_to(real, bound_getinfo, getinfo_functions);
	if (strcmp(name, "fi_fabric") == 0)
		return bind_to(real, bound_fabric, fabric_functions);
	if (strcmp(name, "fi_fabric2") == 0)
		return bind_to(real, bound_fabric2, fabric2_functions);
	return real;
}

const struct wl_domain wl_domain_ofi = {.prefix = "fi_", .replace = replace};
