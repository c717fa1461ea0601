/* SPDX-License-Identifier: Apache-2.0
 *
 * The only hooks of dlsym and dlvsym. The entry points themselves are in dlsym.S: glibc takes the
 * return address of its caller to answer RTLD_NEXT and RTLD_DEFAULT, so whatever is not ours must
 * reach it by a jump, with the stack as the caller left it.
 */
#include "tracer/inject/elf.h"
#include "tracer/inject/inject.h"
#include "tracer/inject/symbols.h"

#include <errno.h>

typedef void *(*dlsym_fn)(void *handle, const char *name);
typedef void *(*dlvsym_fn)(void *handle, const char *name, const char *version);

/* A domain that is not built in is absent here. */
extern const struct wl_domain wl_domain_cuda __attribute__((weak));
extern const struct wl_domain wl_domain_ofi __attribute__((weak));

static const struct wl_domain *const domains[] = {&wl_domain_cuda, &wl_domain_ofi};
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

WL_BARE static void *glibc_symbol(const char *name)
{
	static const char *const files[] = {"libc.so", "libdl.so", "libc-2", "libdl-2"};

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		for (const struct link_map *map = wl_maps(); map; map = map->l_next) {
			void *found = wl_text_starts(wl_map_file(map), files[i])
					      ? wl_map_symbol(map, name, NULL)
					      : NULL;
			if (found)
				return found;
		}
	return (void *)nothing_found;
}

WL_BARE static void *next_symbol(const char *name, void *otherwise)
{
	const struct link_map *self = wl_map_self();

	for (const struct link_map *map = self ? self->l_next : NULL; map; map = map->l_next) {
		void *found = wl_map_symbol(map, name, NULL);

		if (found)
			return found;
	}
	return otherwise;
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

/* "cu" stands for names whose next letter is a capital (cuInit, not cublasCreate or
 * curl_easy_init); a prefix that ends in '_' stands for all that follows. */
WL_BARE static bool domain_wants(const struct wl_domain *domain, const char *name)
{
	const char *prefix = domain->prefix;

	for (; *prefix; prefix++, name++)
		if (*name != *prefix)
			return false;
	return prefix[-1] == '_' ? *name != '\0' : *name >= 'A' && *name <= 'Z';
}

WL_BARE bool wl_symbol_wanted(const char *name)
{
	for (unsigned i = 0; i < DOMAIN_COUNT; i++)
		if (domains[i] && domain_wants(domains[i], name))
			return true;
	return false;
}

static void *replaced(const char *name, const char *version, void *real, void *caller)
{
	int saved = errno;

	if (!real || !wl_started())
		return real;
	for (unsigned i = 0; i < DOMAIN_COUNT; i++)
		if (domains[i] && domain_wants(domains[i], name)) {
			real = domains[i]->replace(name, version, real, caller);
			break;
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
	const struct link_map *self = wl_map_self();

	for (const struct link_map *map = wl_maps(); map; map = map->l_next) {
		void *found;

		if (map == self ||
		    (soname_prefix && !wl_text_starts(wl_map_file(map), soname_prefix)))
			continue;
		found = wl_map_symbol(map, name, version);
		if (found)
			return found;
	}
	return NULL;
}

bool wl_address_in(const void *address, const char *soname_prefix)
{
	struct wl_place place;

	return wl_place_find(address, &place) &&
	       wl_text_starts(wl_map_file(place.map), soname_prefix);
}
