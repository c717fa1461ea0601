/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded objects: the list that the dynamic linker keeps for debuggers, symbols by their hash
 * tables, build-ids. Own string functions throughout: those of libc may belong to a sanitizer that
 * has not started yet.
 */
#include "tracer/inject/elf.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#define VERSION_HIDDEN 0x8000u
#define VERSION_INDEX  0x7fffu

extern Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

/* What of an object's dynamic section a lookup needs. */
struct tables {
	uintptr_t bias;
	const char *strings;
	const Elf64_Sym *symbols;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const Elf64_Half *versions;
	const Elf64_Verdef *definitions;
	unsigned definition_count;
};

WL_BARE static bool text_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

WL_BARE bool wl_text_starts(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return false;
	return true;
}

WL_BARE const struct link_map *wl_map_program(void)
{
	return _r_debug.r_map;
}

WL_BARE const char *wl_map_file(const struct link_map *map)
{
	const char *file = map->l_name ? map->l_name : "";

	for (const char *c = file; *c; c++)
		if (*c == '/')
			file = c + 1;
	return file;
}

/* glibc adds the load bias to these addresses in place, save for objects it did not load itself. */
WL_BARE static const void *table_address(const struct link_map *map, Elf64_Addr value)
{
	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

WL_BARE bool wl_map_is(const struct link_map *map, const char *prefix)
{
	const char *strings = NULL;
	Elf64_Xword name = 0;

	if (wl_text_starts(wl_map_file(map), prefix))
		return true;
	for (const Elf64_Dyn *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			strings = table_address(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_SONAME)
			name = d->d_un.d_val;
	}
	return strings && name && wl_text_starts(strings + name, prefix);
}

WL_BARE static bool tables_read(const struct link_map *map, struct tables *t)
{
	/* Member by member: an initializer may become a call of memset, which is interceptable. */
	t->bias = map->l_addr;
	t->strings = NULL;
	t->symbols = NULL;
	t->gnu_hash = t->sysv_hash = NULL;
	t->versions = NULL;
	t->definitions = NULL;
	t->definition_count = 0;
	if (!map->l_ld)
		return false;
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		const void *address = table_address(map, d->d_un.d_ptr);

		if (d->d_tag == DT_STRTAB)
			t->strings = address;
		else if (d->d_tag == DT_SYMTAB)
			t->symbols = address;
		else if (d->d_tag == DT_GNU_HASH)
			t->gnu_hash = address;
		else if (d->d_tag == DT_HASH)
			t->sysv_hash = address;
		else if (d->d_tag == DT_VERSYM)
			t->versions = address;
		else if (d->d_tag == DT_VERDEF)
			t->definitions = address;
		else if (d->d_tag == DT_VERDEFNUM)
			t->definition_count = (unsigned)d->d_un.d_val;
	}
	return t->strings && t->symbols && (t->gnu_hash || t->sysv_hash);
}

WL_BARE static const char *version_name(const struct tables *t, unsigned index)
{
	const Elf64_Verdef *def = t->definitions;

	for (unsigned i = 0; def && i < t->definition_count; i++) {
		if ((def->vd_ndx & VERSION_INDEX) == index) {
			const Elf64_Verdaux *aux =
				(const Elf64_Verdaux *)((const char *)def + def->vd_aux);

			return t->strings + aux->vda_name;
		}
		if (!def->vd_next)
			break;
		def = (const Elf64_Verdef *)((const char *)def + def->vd_next);
	}
	return "";
}

/* How well symbol number i answers the question: 0 not at all, 1 a hidden version where none was
 * asked for, 2 right. */
WL_BARE static int symbol_match(const struct tables *t, uint32_t i, const char *name,
				const char *version)
{
	const Elf64_Sym *sym = &t->symbols[i];
	unsigned type = sym->st_info & 0xf;

	if (sym->st_shndx == SHN_UNDEF || (!sym->st_value && type != STT_TLS))
		return 0;
	if (type != STT_NOTYPE && type != STT_OBJECT && type != STT_FUNC && type != STT_COMMON)
		return 0;
	if (!text_equal(t->strings + sym->st_name, name))
		return 0;
	if (!t->versions)
		return version ? 0 : 2;
	if (version)
		return text_equal(version_name(t, t->versions[i] & VERSION_INDEX), version) ? 2 : 0;
	return t->versions[i] & VERSION_HIDDEN ? 1 : 2;
}

struct best {
	int match;
	uint32_t index;
};

WL_BARE static void best_take(struct best *best, int match, uint32_t index)
{
	if (match > best->match) {
		best->match = match;
		best->index = index;
	}
}

WL_BARE static void gnu_lookup(const struct tables *t, const char *name, const char *version,
			       struct best *best)
{
	uint32_t bucket_count = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2];
	const uint32_t *buckets = t->gnu_hash + 4 + words * (sizeof(Elf64_Addr) / 4);
	const uint32_t *chain = buckets + bucket_count;
	uint32_t hash = 5381;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	if (!bucket_count)
		return;
	uint32_t i = buckets[hash % bucket_count];
	if (i < first)
		return;
	for (;; i++) {
		uint32_t stored = chain[i - first];

		if ((stored | 1) == (hash | 1))
			best_take(best, symbol_match(t, i, name, version), i);
		if (stored & 1)
			return;
	}
}

WL_BARE static void sysv_lookup(const struct tables *t, const char *name, const char *version,
				struct best *best)
{
	uint32_t bucket_count = t->sysv_hash[0], count = t->sysv_hash[1], hash = 0;
	const uint32_t *buckets = t->sysv_hash + 2, *chain = buckets + bucket_count;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ ((hash & 0xf0000000u) >> 24)) & 0x0fffffffu;
	}
	if (!bucket_count)
		return;
	for (uint32_t i = buckets[hash % bucket_count]; i && i < count; i = chain[i])
		best_take(best, symbol_match(t, i, name, version), i);
}

WL_BARE void *wl_map_symbol(const struct link_map *map, const char *name, const char *version)
{
	struct best best;
	struct tables t;

	best.match = 0;
	best.index = 0;
	if (!tables_read(map, &t))
		return NULL;
	if (t.gnu_hash)
		gnu_lookup(&t, name, version, &best);
	else
		sysv_lookup(&t, name, version, &best);
	return best.match ? (void *)(t.bias + t.symbols[best.index].st_value) : NULL;
}

/* --- the list ---------------------------------------------------------------------------------- */

/* In libc or the loader. Both were there at the start; such objects stand first in the list and are never
 * unloaded, so that the way to them is safe while other threads load and unload. */
WL_BARE static void *libc_symbol(const char *name)
{
	unsigned seen = 0;

	for (const struct link_map *map = wl_map_program(); map && seen < 2; map = map->l_next) {
		const char *file = wl_map_file(map);
		void *found;

		if (!wl_text_starts(file, "libc.so") && !wl_text_starts(file, "libc-2") &&
		    !wl_text_starts(file, "ld-"))
			continue;
		found = wl_map_symbol(map, name, NULL);
		if (found)
			return found;
		seen++;
	}
	return NULL;
}

struct visit {
	bool (*one)(const struct link_map *map, void *arg);
	void *arg;
	bool ended;
};

WL_BARE static int visit_all(struct dl_phdr_info *info, size_t size, void *data)
{
	struct visit *visit = data;

	(void)info;
	(void)size;
	for (const struct link_map *map = wl_map_program(); map && !visit->ended; map = map->l_next)
		visit->ended = visit->one(map, visit->arg);
	return 1;
}

typedef int (*iterate_fn)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

/* dl_iterate_phdr holds the lock that the loader takes to change the list; a thread may take it again
 * that has it. By libc's own function: sanitizers interpose it. */
WL_BARE bool wl_maps_visit(bool (*one)(const struct link_map *map, void *arg), void *arg)
{
	static _Atomic(uintptr_t) known;
	/* Relaxed: every thread that looks finds the same. */
	uintptr_t iterate = atomic_load_explicit(&known, memory_order_relaxed);
	struct visit visit;

	visit.one = one;
	visit.arg = arg;
	visit.ended = false;
	if (!iterate) {
		iterate = (uintptr_t)libc_symbol("dl_iterate_phdr");
		atomic_store_explicit(&known, iterate, memory_order_relaxed);
	}
	if (iterate)
		((iterate_fn)iterate)(visit_all, &visit);
	else
		visit_all(NULL, 0, &visit);
	return visit.ended;
}

WL_BARE static bool is_self(const struct link_map *map, void *self)
{
	if (map->l_ld != _DYNAMIC)
		return false;
	*(const struct link_map **)self = map;
	return true;
}

WL_BARE const struct link_map *wl_map_self(void)
{
	static _Atomic(const struct link_map *) known; /* this library stays (nodelete) */
	const struct link_map *self = atomic_load_explicit(&known, memory_order_relaxed);

	if (!self && wl_maps_visit(is_self, &self))
		atomic_store_explicit(&known, self, memory_order_relaxed);
	return self;
}

/* --- addresses and program headers ------------------------------------------------------------ */

#ifdef DLFO_STRUCT_HAS_EH_DBASE
typedef int (*find_object_fn)(void *address, struct dl_find_object *result);

/* glibc 2.35 and newer; looked up, so that one build runs on older ones too. */
WL_BARE static find_object_fn find_object(void)
{
	static _Atomic(uintptr_t) known; /* 1: looked for and not there */
	uintptr_t fn = atomic_load_explicit(&known, memory_order_relaxed);

	if (!fn) {
		fn = (uintptr_t)libc_symbol("_dl_find_object");
		if (!fn)
			fn = 1;
		/* Relaxed: every thread that looks finds the same. */
		atomic_store_explicit(&known, fn, memory_order_relaxed);
	}
	return fn == 1 ? NULL : (find_object_fn)fn;
}
#endif

/* The span of addresses that an object's loadable segments cover. */
WL_BARE static bool map_span(const struct link_map *map, uintptr_t *start, uintptr_t *end)
{
	unsigned count;
	const Elf64_Phdr *phdrs = wl_map_phdrs(map, &count);

	*start = UINTPTR_MAX;
	*end = 0;
	for (unsigned i = 0; phdrs && i < count; i++) {
		uintptr_t from = map->l_addr + phdrs[i].p_vaddr, to = from + phdrs[i].p_memsz;

		if (phdrs[i].p_type != PT_LOAD)
			continue;
		if (from < *start)
			*start = from;
		if (to > *end)
			*end = to;
	}
	return *start < *end;
}

struct place_of {
	uintptr_t address;
	struct wl_place place;
};

WL_BARE static bool is_place(const struct link_map *map, void *arg)
{
	struct place_of *of = arg;

	of->place.map = map;
	return map_span(map, &of->place.start, &of->place.end) && of->address >= of->place.start &&
	       of->address < of->place.end;
}

bool wl_place_lock_free(void)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	return find_object() != NULL;
#else
	return false;
#endif
}

bool wl_place_find(const void *address, struct wl_place *place)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	find_object_fn find = find_object();

	if (find) {
		struct dl_find_object found;

		if (find((void *)address, &found))
			return false;
		place->map = found.dlfo_link_map;
		place->start = (uintptr_t)found.dlfo_map_start;
		place->end = (uintptr_t)found.dlfo_map_end;
		return true;
	}
#endif
	struct place_of of = {.address = (uintptr_t)address};

	if (!wl_maps_visit(is_place, &of))
		return false;
	*place = of.place;
	return true;
}

const void *wl_place_eh_frame(const void *address)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	find_object_fn find = find_object();
	struct dl_find_object found;

	if (find && !find((void *)address, &found))
		return found.dlfo_eh_frame;
#else
	(void)address;
#endif
	return NULL;
}

WL_BARE const Elf64_Phdr *wl_map_phdrs(const struct link_map *map, unsigned *count)
{
	/* The first segment of a shared object begins with its ELF header; the kernel tells where
	 * those of the program are. */
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)map->l_addr;

	*count = 0;
	if (map == wl_map_program()) {
		*count = (unsigned)getauxval(AT_PHNUM);
		return (const Elf64_Phdr *)getauxval(AT_PHDR);
	}
	/* The link map of an object is only written after its mapping exists; l_ld lies in it. */
	if (!header || (uintptr_t)map->l_ld < map->l_addr || header->e_ident[0] != ELFMAG0 ||
	    header->e_ident[1] != ELFMAG1 || header->e_ident[2] != ELFMAG2 ||
	    header->e_phentsize != sizeof(Elf64_Phdr))
		return NULL;
	*count = header->e_phnum;
	return (const Elf64_Phdr *)((const char *)header + header->e_phoff);
}

WL_BARE unsigned wl_map_build_id(const struct link_map *map, uint8_t id[20])
{
	unsigned count;
	const Elf64_Phdr *phdrs = wl_map_phdrs(map, &count);

	for (unsigned i = 0; phdrs && i < count; i++) {
		if (phdrs[i].p_type != PT_NOTE)
			continue;
		const char *note = (const char *)(map->l_addr + phdrs[i].p_vaddr);
		const char *end = note + phdrs[i].p_memsz;
		size_t align = phdrs[i].p_align == 8 ? 8 : 4;

		while (note + sizeof(Elf64_Nhdr) <= end) {
			const Elf64_Nhdr *head = (const Elf64_Nhdr *)note;
			const char *name = note + sizeof(*head);
			const char *body = name + ((head->n_namesz + align - 1) & ~(align - 1));
			const char *next = body + ((head->n_descsz + align - 1) & ~(align - 1));

			if (next > end || next <= note)
				break;
			if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 &&
			    text_equal(name, "GNU")) {
				unsigned bytes = head->n_descsz < 20 ? head->n_descsz : 20;

				for (unsigned b = 0; b < bytes; b++)
					id[b] = (uint8_t)body[b];
				return bytes;
			}
			note = next;
		}
	}
	return 0;
}
