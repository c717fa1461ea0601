/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded objects as the dynamic linker's own tables describe them, read without calling anything
 * that somebody may have interposed: usable before any constructor has run, and from within dlsym.
 */
#ifndef WAYLAY_TRACER_INJECT_ELF_H
#define WAYLAY_TRACER_INJECT_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs before a sanitizer's runtime has started, so no instrumentation. */
#define WL_BARE __attribute__((no_sanitize("address", "thread", "undefined")))

/* Where an address lies. */
struct wl_place {
	const struct link_map *map;
	uintptr_t start, end; /* of the whole mapping; 0 where only the map is known */
};

/*
 * Calls `one` for each loaded object, in the order in which the loader has them, until it returns true;
 * says whether it did. No object goes away meanwhile, so nothing that is seen may be kept that belongs
 * to an object which others may unload. `one` must not load, unload or look up by dlsym.
 */
bool wl_maps_visit(bool (*one)(const struct link_map *map, void *arg), void *arg);
/* The program's own entry, the first of the list. */
const struct link_map *wl_map_program(void);
/* The entry of this library. */
const struct link_map *wl_map_self(void);
/* File name without its folder: "" for the program. */
const char *wl_map_file(const struct link_map *map);
bool wl_text_starts(const char *text, const char *prefix);
/* Whether the object is of that library: its file name or the name it was built with (SONAME) starts so. */
bool wl_map_is(const struct link_map *map, const char *prefix);

/* The address of a symbol that the object defines, NULL if it does not. version NULL: the default
 * one, else the only one. Indirect functions (IFUNC) are not found. */
void *wl_map_symbol(const struct link_map *map, const char *name, const char *version);

/* Which object an address lies in; false if none. */
bool wl_place_find(const void *address, struct wl_place *place);
/* True where that (and with it the unwinder) takes no lock and may run while others load objects.
 */
bool wl_place_lock_free(void);

/* The table of call frame descriptions (.eh_frame_hdr) of the object that an address lies in; NULL if
 * none, or where finding it would take a lock. */
const void *wl_place_eh_frame(const void *address);

/* The object's program headers, NULL if they cannot be found; *count gets their number. */
const Elf64_Phdr *wl_map_phdrs(const struct link_map *map, unsigned *count);
/* Copies the object's build-id; returns its length, 0 if there is none. */
unsigned wl_map_build_id(const struct link_map *map, uint8_t id[20]);

#endif
