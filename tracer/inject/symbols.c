/* SPDX-License-Identifier: Apache-2.0
 *
 * The only hooks of dlsym and dlvsym. The entry points themselves are in dlsym.S: glibc takes the
 * return address of its caller to answer RTLD_NEXT and RTLD_DEFAULT, so whatever is not ours must
 * reach it by a jump, with the stack as the caller left it.
 */
#include "tracer/inject/elf.h"
#include "tracer/inject/inject.h"
#include "tracer/inject/symbols.h"

#include <dlfcn.h>
#include <errno.h>

typedef void *(*dlsym_fn)(void *handle, const char *name);
typedef void *(*dlvsym_fn)(void *handle, const char *name, const char *version);

/* A domain that is not built in is absent here. */
extern const struct wl_domain wl_domain_cuda __attribute__((weak));
extern const struct wl_domain wl_domain_ofi __attribute__((weak));
extern const struct wl_domain wl_domain_cupti __attribute__((weak));

static const struct {
	const struct wl_domain *domain;
	const char *library; /* what the file that defines the domain's names is called */
} domains[] = {{&wl_domain_cuda, "libcuda.so"},
	       {&wl_domain_ofi, "libfabric.so"},
	       {&wl_domain_cupti, "libcupti.so"}};
#define DOMAIN_COUNT (sizeof(domains) / sizeof(domains[0]))

/* Where dlsym.S jumps to: the next object's in the order of symbol search, which is glibc's unless
 * another tool was preloaded after us; that one keeps its say. Written once, always to the same. */
void *wl_next_dlsym, *wl_next_dlvsym;
/* glibc's own, for our own questions. */
static void *glibc_dlsym, *glibc_dlvsym;

WL_BARE static void *nothing_found(void)
{
	return NULL;
}

/* A search for a symbol among the loaded objects. */
struct search {
	const char *prefix; /* of the file's name; NULL any */
	const char *name, *version;
	const struct link_map *after; /* looks behind this one only, NULL everywhere */
	const struct link_map *but;   /* not in this one */
	void *found;
};

WL_BARE static bool search_one(const struct link_map *map, void *arg)
{
	struct search *s = arg;

	if (s->after) {
		if (map == s->after)
			s->after = NULL;
		return false;
	}
	if (map == s->but || (s->prefix && !wl_map_is(map, s->prefix)))
		return false;
	s->found = wl_map_symbol(map, s->name, s->version);
	return s->found != NULL;
}

WL_BARE static void *search_for(const char *prefix, const char *name, const char *version,
				const struct link_map *after, const struct link_map *but)
{
	struct search s;

	/* Member by member: an initializer may become a call of memset, which is interceptable. */
	s.prefix = prefix;
	s.name = name;
	s.version = version;
	s.after = after;
	s.but = but;
	s.found = NULL;
	return wl_maps_visit(search_one, &s) ? s.found : NULL;
}

WL_BARE static void *glibc_symbol(const char *name)
{
	static const char *const files[] = {"libc.so", "libdl.so", "libc-2", "libdl-2"};

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		void *found = search_for(files[i], name, NULL, NULL, NULL);

		if (found)
			return found;
	}
	return (void *)nothing_found;
}

WL_BARE static void *next_symbol(const char *name, void *otherwise)
{
	const struct link_map *self = wl_map_self();
	void *found = self ? search_for(NULL, name, NULL, self, NULL) : NULL;

	return found ? found : otherwise;
}

/* Also called from dlsym.S when somebody asks before our constructor has run. */
WL_BARE void wl_symbols_start(void)
{
	if (wl_next_dlsym && wl_next_dlvsym)
		return;
	glibc_dlsym = glibc_symbol("dlsym");
	glibc_dlvsym = glibc_symbol("dlvsym");
	wl_next_dlvsym = next_symbol("dlvsym", glibc_dlvsym);
	wl_next_dlsym = next_symbol("dlsym", glibc_dlsym);
}

/* "cu" (or "cupti") stands for names whose next letter is a capital (cuInit, not cublasCreate or
 * curl_easy_init); a prefix that ends in '_' stands for all that follows. */
WL_BARE static bool domain_wants(const struct wl_domain *domain, const char *name)
{
	const char *prefix = domain->prefix;

	for (; *prefix; prefix++, name++)
		if (*name != *prefix)
			return false;
	return prefix[-1] == '_' ? *name != '\0' : *name >= 'A' && *name <= 'Z';
}

/* Index of the domain that a name belongs to, -1 if none. */
/* fi_prov_ini is no name of libfabric's but what it looks for in each of its providers, us among
 * them. */
WL_BARE static int domain_of(const char *name)
{
	if (wl_text_starts(name, "fi_prov_ini"))
		return -1;
	for (unsigned i = 0; i < DOMAIN_COUNT; i++)
		if (domains[i].domain && domain_wants(domains[i].domain, name))
			return (int)i;
	return -1;
}

static void *handle_of(const char *file)
{
	void *(*open)(const char *, int) = (void *(*)(const char *, int))glibc_symbol("dlopen");

	return open(file, RTLD_LAZY | RTLD_NOLOAD);
}

/* A handle of an object that has no name of ours: asking glibc about it gives the answer, and the
 * words of dlerror(), that there would be without us. */
static void *handle_without_ours(void)
{
	static _Atomic(void *) known; /* every thread that looks finds the same */
	void *handle = atomic_load_explicit(&known, memory_order_relaxed);

	if (!handle) {
		handle = handle_of("libc.so.6");
		atomic_store_explicit(&known, handle, memory_order_relaxed);
	}
	return handle;
}

static bool is_ours(const void *address)
{
	struct wl_place place;

	return wl_place_find(address, &place) && place.map == wl_map_self();
}

/* Would the name be found in the whole process if we were not there? Either something before us has it
 * or, asked as the caller that we are, something behind us. */
static bool global_without_ours(const char *name)
{
	void *first = ((dlsym_fn)glibc_dlsym)(RTLD_DEFAULT, name);

	return first && (!is_ours(first) || ((dlsym_fn)glibc_dlsym)(RTLD_NEXT, name));
}

/*
 * Programs ask whether a driver is there by looking for its names in the whole process. Ours are always
 * there; they must not be found when the library that they stand for is not. What the caller's own
 * library and those that it was opened with define is found even so.
 */
WL_BARE uintptr_t wl_symbol_route(void *handle, const char *name, const void *caller)
{
	int domain = domain_of(name);
	struct wl_place place;
	void *own = NULL;

	if (domain < 0)
		return WL_ROUTE_REAL;
	if (handle != RTLD_DEFAULT && handle != RTLD_NEXT)
		return WL_ROUTE_ASK;
	if (wl_symbol_find(domains[domain].library, name, NULL) ||
	    !wl_map_symbol(wl_map_self(), name, NULL) || global_without_ours(name) ||
	    !wl_place_find(caller, &place))
		return WL_ROUTE_REAL;
	if (place.map != wl_map_program() && handle == RTLD_DEFAULT)
		own = handle_of(place.map->l_name);
	return (uintptr_t)(own ? own : handle_without_ours());
}

/* The domain's answer to a lookup that gave `real`. */
static void *replaced(const char *name, const char *version, void *real, void *caller)
{
	int saved = errno, domain = domain_of(name);

	if (!real || domain < 0)
		return real;
	if (is_ours(real)) { /* the program's own handle: everything global */
		if (!wl_symbol_find(domains[domain].library, name, NULL) &&
		    !global_without_ours(name))
			real = ((dlsym_fn)glibc_dlsym)(handle_without_ours(), name);
	} else if (wl_started()) {
		real = domains[domain].domain->replace(name, version, real, caller);
		dlerror(); /* the look-up went well, whatever `replace` asked glibc meanwhile */
	}
	errno = saved;
	return real;
}

void *wl_dlsym_wanted(void *handle, const char *name, void *caller)
{
	return replaced(name, NULL, ((dlsym_fn)wl_next_dlsym)(handle, name), caller);
}

void *wl_dlvsym_wanted(void *handle, const char *name, const char *version, void *caller)
{
	return replaced(name, version, ((dlvsym_fn)wl_next_dlvsym)(handle, name, version), caller);
}

void *wl_real_dlsym(void *handle, const char *name)
{
	wl_symbols_start();
	return ((dlsym_fn)glibc_dlsym)(handle, name);
}

void *wl_real_dlvsym(void *handle, const char *name, const char *version)
{
	wl_symbols_start();
	return ((dlvsym_fn)glibc_dlvsym)(handle, name, version);
}

WL_BARE void *wl_symbol_find(const char *soname_prefix, const char *name, const char *version)
{
	return search_for(soname_prefix, name, version, NULL, wl_map_self());
}

bool wl_address_in(const void *address, const char *soname_prefix)
{
	struct wl_place place;

	return wl_place_find(address, &place) && wl_map_is(place.map, soname_prefix);
}
