/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of a call: Python frames and native return addresses, interned. What was seen before is
 * recognized by a hash over the raw frames, so that naming modules, files and lines happens once a
 * stack and not once an event.
 */
#include "tracer/inject/elf.h"
#include "tracer/inject/inject.h"
#include "tracer/inject/python.h"
#include "tracer/inject/unwind.h"

#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <unistd.h>

#define OWN_FRAMES_MAX 12 /* of this library, between the job's call and backtrace() */
#define CACHE_SLOTS    4096
#define FRAME_SLOTS    2048
#define OBJECT_SLOTS   1024

/* Python frames, and native ones from native_first up to native_count; both innermost first. awaited:
 * the Python frames are another thread's, which waits for this one. */
struct raw_stack {
	bool awaited;
	struct wl_python_frame *python;
	void **native;
	unsigned python_count, native_first, native_count;
};

static struct {
	bool native;          /* backtrace() may be used */
	uintptr_t start, end; /* of this library */
	char exe[PATH_MAX];
} known;

/* --- stacks seen before -------------------------------------------------------------------------
 */

/* Two words a slot, read and written by any thread without a lock: `check` is the key mixed with
 * the value, so that halves of two different writes do not fit together. */
struct cache_slot {
	_Atomic uint64_t check, value; /* value: generation << 32 | stack id */
};
static struct cache_slot cache[CACHE_SLOTS];

/* Bumped when an object turns out to lie where another one was before: all that was seen is void.
 */
static _Atomic uint32_t epoch;

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

static uint32_t cache_get(uint64_t key)
{
	struct cache_slot *slot = &cache[key % CACHE_SLOTS];
	uint64_t value = atomic_load_explicit(&slot->value, memory_order_relaxed);
	uint64_t check = atomic_load_explicit(&slot->check, memory_order_relaxed);

	if ((check ^ value) != key || value >> 32 != spool_generation())
		return 0;
	return (uint32_t)value;
}

static void cache_put(uint64_t key, uint32_t id)
{
	struct cache_slot *slot = &cache[key % CACHE_SLOTS];
	uint64_t value = (uint64_t)spool_generation() << 32 | id;

	atomic_store_explicit(&slot->value, value, memory_order_relaxed);
	atomic_store_explicit(&slot->check, key ^ value, memory_order_relaxed);
}

/* --- native frames ------------------------------------------------------------------------------
 */

static bool is_ours(const void *address)
{
	return (uintptr_t)address >= known.start && (uintptr_t)address < known.end;
}

static void native_capture(struct raw_stack *raw)
{
	unsigned want = wl_settings.stack_depth + OWN_FRAMES_MAX;
	unsigned first = 0, count;

	raw->native_count = raw->native_first = 0;
	if (!known.native)
		return;
	if (wl_unwind(raw->native, want, &count) == WL_UNWIND_UNKNOWN)
		count = (unsigned)backtrace(raw->native, (int)want);
	/* Up to the last of ours: a sanitizer's backtrace() comes before the first. */
	for (unsigned i = 0; i < count && i < OWN_FRAMES_MAX; i++)
		if (is_ours(raw->native[i]))
			first = i + 1;
	if (count > first + wl_settings.stack_depth)
		count = first + wl_settings.stack_depth;
	raw->native_first = first;
	raw->native_count = count;
}

static const char *map_path(const struct link_map *map)
{
	return map->l_name && map->l_name[0] ? map->l_name : known.exe;
}

/* --- objects come and go ------------------------------------------------------------------------ */

/*
 * A stack is recognized by its addresses alone, which is wrong once an object was unloaded and another
 * one took its place. Each time a known stack is met, one of its frames, in turn, is asked where it lies;
 * if that is not the object that lay there when the stack was first seen, everything is forgotten.
 */
struct known_object {
	_Atomic uintptr_t start;
	_Atomic uint64_t identity; /* 0: not written yet */
};
static struct known_object objects[OBJECT_SLOTS];

/* The loader puts the next object's data where the last one's were, so its name counts too. */
static uint64_t identity_of(const struct wl_place *place)
{
	const char *name = place->map->l_name;
	size_t length = strlen(name);
	uint64_t identity = mix(place->end, (uintptr_t)place->map ^ length), part;

	for (; length >= 8; name += 8, length -= 8) {
		memcpy(&part, name, 8);
		identity = mix(identity, part);
	}
	for (; length; name++, length--)
		identity = mix(identity, (unsigned char)*name);
	return identity | 1;
}

/* The slot of the object that begins there; NULL if it has none (and there is no room for one). */
static struct known_object *object_slot(uintptr_t start, bool make)
{
	for (unsigned i = 0; i < 8; i++) {
		struct known_object *slot = &objects[(start / 4096 + i) % OBJECT_SLOTS];
		uintptr_t there = atomic_load_explicit(&slot->start, memory_order_relaxed);

		if (there == start)
			return slot;
		if (!there && make && atomic_compare_exchange_strong(&slot->start, &there, start))
			return slot;
	}
	return NULL;
}

static void object_note(const struct wl_place *place)
{
	struct known_object *slot = object_slot(place->start, true);

	if (slot)
		atomic_store_explicit(&slot->identity, identity_of(place), memory_order_relaxed);
}

static bool object_unchanged(void *address)
{
	struct known_object *slot;
	struct wl_place place;
	uint64_t identity;

	if (!wl_place_find((char *)address - 1, &place))
		return true; /* code made at run time */
	slot = object_slot(place.start, false);
	identity = slot ? atomic_load_explicit(&slot->identity, memory_order_relaxed) : 0;
	return !identity || identity == identity_of(&place);
}

/* False: what is known is void, the stack has to be looked at anew. */
static bool still_true(const struct raw_stack *raw)
{
	static __thread unsigned turn __attribute__((tls_model("initial-exec")));
	unsigned frames = raw->native_count - raw->native_first;

	if (!frames || object_unchanged(raw->native[raw->native_first + turn++ % frames]))
		return true;
	atomic_fetch_add_explicit(&epoch, 1, memory_order_relaxed);
	wl_unwind_forget();
	return false;
}

static uint32_t module_id(const struct wl_place *place)
{
	const char *path = map_path(place->map);
	uint8_t build_id[20];
	unsigned bytes = wl_map_build_id(place->map, build_id);

	object_note(place);
	return spool_intern_module(path, place->map->l_addr, place->start, place->end, build_id,
				   bytes);
}

static void native_frame(struct spool_meta_frame *frame, void *address)
{
	/* A return address is the end of the call; the call itself lies before it, perhaps in
	 * another function or line. */
	uintptr_t call = (uintptr_t)address - 1;
	struct wl_place place;

	frame->kind = TRACE_FRAME_NATIVE;
	frame->name = 0;
	frame->reserved = 0;
	if (wl_place_find((void *)call, &place)) {
		frame->what = module_id(&place);
		frame->where = call - place.map->l_addr;
	} else { /* code made at run time */
		frame->what = 0;
		frame->where = call;
	}
}

/* --- Python frames ------------------------------------------------------------------------------ */

/* Frames seen before, in the manner of the cache of stacks. */
struct frame_slot {
	_Atomic uint64_t check, names, line; /* file << 32 | function; generation << 32 | line */
};
static struct frame_slot frame_cache[FRAME_SLOTS];

static uint64_t frame_key(const struct wl_python_frame *f)
{
	return mix(mix(mix(0x9e3779b9, f->code), (uint32_t)f->offset), f->guard);
}

static void python_frame(struct spool_meta_frame *frame, const struct wl_python_frame *f,
			 bool awaited)
{
	uint64_t key = frame_key(f), generation = spool_generation();
	struct frame_slot *slot = &frame_cache[key % FRAME_SLOTS];
	uint64_t names = atomic_load_explicit(&slot->names, memory_order_relaxed);
	uint64_t line = atomic_load_explicit(&slot->line, memory_order_relaxed);
	uint64_t check = atomic_load_explicit(&slot->check, memory_order_relaxed);

	if ((check ^ names ^ line) != key || line >> 32 != generation) {
		uint32_t file = 0, function = 0, number = 0;

		if (wl_python_resolve(f, awaited, &file, &function, &number)) {
			names = (uint64_t)file << 32 | function;
			line = generation << 32 | number;
			atomic_store_explicit(&slot->names, names, memory_order_relaxed);
			atomic_store_explicit(&slot->line, line, memory_order_relaxed);
			atomic_store_explicit(&slot->check, key ^ names ^ line,
					      memory_order_relaxed);
		} else {
			names = line = 0;
		}
	}
	frame->kind = TRACE_FRAME_PYTHON | (awaited ? SPOOL_FRAME_AWAITED : 0);
	frame->what = (uint32_t)(names >> 32);
	frame->name = (uint32_t)names;
	frame->where = (uint32_t)line;
	frame->reserved = 0;
}

/* --- all together -------------------------------------------------------------------------------
 */

static bool wanted(enum wl_stack_for use)
{
	if (wl_settings.stacks == WL_STACK_NONE)
		return false;
	return wl_settings.stacks == WL_STACK_ALL || use != WL_STACK_FOR_OTHER;
}

static uint64_t raw_key(const struct raw_stack *raw)
{
	uint64_t key =
		mix(0x57a71ac5 + raw->awaited, atomic_load_explicit(&epoch, memory_order_relaxed));

	for (unsigned i = 0; i < raw->python_count; i++) {
		const struct wl_python_frame *f = &raw->python[i];

		key = mix(key, f->guard ^ ((uint64_t)(uint32_t)f->offset << 40) ^ f->code);
	}
	for (unsigned i = raw->native_first; i < raw->native_count; i++)
		key = mix(key, (uintptr_t)raw->native[i]);
	return key;
}

/* Apart, so that a stack seen before needs no room for this on the job's stack. */
__attribute__((noinline)) static uint32_t raw_intern(const struct raw_stack *raw)
{
	unsigned room = raw->python_count + raw->native_count - raw->native_first, count = 0;
	struct spool_meta_frame *frames = __builtin_alloca((room + 1) * sizeof(*frames));

	for (unsigned i = 0; i < raw->python_count; i++)
		python_frame(&frames[count++], &raw->python[i], raw->awaited);
	for (unsigned i = raw->native_first; i < raw->native_count; i++)
		native_frame(&frames[count++], raw->native[i]);
	return count ? spool_intern_stack(frames, count) : 0;
}

/* An interpreter may be loaded long after the first event: looked for at misses, ever more rarely. */
static void python_look_again(void)
{
	static _Atomic uint32_t misses;
	uint32_t n = atomic_fetch_add_explicit(&misses, 1, memory_order_relaxed);

	if (!(n & (n - 1)))
		wl_python_start();
}

uint32_t wl_stack(enum wl_stack_for use)
{
	unsigned depth = wl_settings.stack_depth;
	struct raw_stack raw;
	int saved = errno;
	uint64_t key;
	uint32_t id;

	if (!wanted(use))
		return 0;
	raw.python = __builtin_alloca(depth * sizeof(*raw.python));
	raw.native = __builtin_alloca((depth + OWN_FRAMES_MAX) * sizeof(*raw.native));
	raw.python_count = wl_python_walk(raw.python, depth);
	raw.awaited = !raw.python_count;
	if (raw.awaited)
		raw.python_count = wl_python_awaited(raw.python, depth);
	native_capture(&raw);
	key = raw_key(&raw);
	id = cache_get(key);
	if (id && !still_true(&raw)) {
		native_capture(&raw);
		key = raw_key(&raw);
		id = 0;
	}
	if (!id) {
		python_look_again();
		id = raw_intern(&raw);
		if (id)
			cache_put(key, id);
	}
	errno = saved;
	return id;
}

void wl_stack_start(void)
{
	struct wl_place place;
	void *prime[4];
	ssize_t length;

	if (wl_settings.stacks == WL_STACK_NONE)
		return;
	wl_python_start();
	length = readlink("/proc/self/exe", known.exe, sizeof(known.exe) - 1);
	known.exe[length > 0 ? length : 0] = '\0';
	known.native = wl_place_lock_free() && wl_place_find((void *)wl_stack_start, &place);
	if (!known.native) {
		spool_attribute("native-stacks",
				"off: this C library (glibc before 2.35) walks stacks "
				"under the loader's lock");
		return;
	}
	known.start = place.start;
	known.end = place.end;
	backtrace(prime, 4); /* its first call loads libgcc_s, which takes milliseconds */
}
