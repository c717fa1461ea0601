/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX ranges and marks, by NVTX's own injection interface: every copy of NVTX in the process loads
 * the library that NVTX_INJECTION64_PATH names and lets it put functions into its slots. Ranges name
 * what the job is doing; alone they are no reason to make a recording, so they are only recorded once
 * a CUDA or fabric object has begun one.
 */
#include "tracer/inject/nvtx/nvtx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_VARIABLE  "NVTX_INJECTION64_PATH"
#define CHAIN_VARIABLE "WAYLAY_NVTX_CHAIN"
#define NARROW_BYTES   512

#define CHAIN(table, slot, type) ((type)nvtx_chain_##table[slot])

/* --- texts -------------------------------------------------------------------------------------- */

static uint32_t text_id(const char *text)
{
	return text ? spool_intern_string(text, strlen(text)) : 0;
}

static uint32_t wide_id(const wchar_t *text)
{
	char narrow[NARROW_BYTES];

	nvtx_text_narrow(narrow, sizeof(narrow), text);
	return text_id(narrow);
}

static uint32_t object_id(struct nvtx_object *object)
{
	return object ? wl_name_id(&object->name) : 0;
}

static uint32_t message_id(const struct nvtx_attributes *a)
{
	switch (a->message_type) {
	case NVTX_MESSAGE_ASCII:
		return text_id(a->message);
	case NVTX_MESSAGE_UNICODE:
		return a->message ? wide_id(a->message) : 0;
	case NVTX_MESSAGE_REGISTERED:
		return object_id(nvtx_object_of(a->message, NVTX_KIND_STRING));
	default:
		return 0;
	}
}

/* The category's name where the job gave it one, else its number. */
static uint32_t category_id(const struct nvtx_object *domain, uint32_t category)
{
	struct nvtx_object *object;
	char text[16];

	if (!category)
		return 0;
	object = nvtx_object_find(NVTX_KIND_CATEGORY, domain, category);
	if (object)
		return object_id(object);
	snprintf(text, sizeof(text), "%u", category);
	return text_id(text);
}

/* --- events ------------------------------------------------------------------------------------- */

/* The arguments that pushes, starts and marks have in common. */
struct event {
	uint64_t payload;
	uint32_t domain, text, color, category;
	uint8_t payload_type;
};

static struct event event_of(const void *domain_handle, const struct nvtx_attributes *a)
{
	struct nvtx_object *domain = nvtx_object_of(domain_handle, NVTX_KIND_DOMAIN);
	struct event e = {.domain = object_id(domain)};

	if (!a || a->size < sizeof(*a))
		return e;
	e.text = message_id(a);
	e.color = a->color_type == 1 ? a->color : 0;
	e.category = category_id(domain, a->category);
	if (a->payload_type > 0 && a->payload_type < 7) {
		e.payload = a->payload;
		e.payload_type = (uint8_t)a->payload_type;
	}
	return e;
}

/* Ranges are heard also while nothing is recorded, when they say what is. */
static bool heard(void)
{
	return wl_recording || __builtin_expect(wl_watching, 0);
}

static void push_event(struct event e)
{
	uint64_t now = spool_now();

	if (__builtin_expect(wl_watching, 0)) {
		wl_window_push(e.text, e.domain);
		if (!wl_recording)
			return;
	}

	SPOOL_EMIT(nvtx_push, now, now, 0, .payload = e.payload, .domain = e.domain, .text = e.text,
		   .color = e.color, .category = e.category, .payload_type = e.payload_type);
}

static void start_event(uint64_t id, struct event e)
{
	uint64_t now = spool_now();

	if (__builtin_expect(wl_watching, 0)) {
		wl_window_start(id, e.text);
		if (!wl_recording)
			return;
	}

	SPOOL_EMIT(nvtx_start, now, now, 0, .id = id, .payload = e.payload, .domain = e.domain,
		   .text = e.text, .color = e.color, .category = e.category,
		   .payload_type = e.payload_type);
}

static void mark_event(struct event e)
{
	uint64_t now = spool_now();

	SPOOL_EMIT(nvtx_mark, now, now, 0, .payload = e.payload, .domain = e.domain, .text = e.text,
		   .color = e.color, .category = e.category, .payload_type = e.payload_type);
}

static void pop_event(const void *domain)
{
	uint32_t id = object_id(nvtx_object_of(domain, NVTX_KIND_DOMAIN));
	uint64_t now = spool_now();

	if (wl_recording)
		SPOOL_EMIT(nvtx_pop, now, now, 0, .domain = id);
	if (__builtin_expect(wl_watching, 0))
		wl_window_pop(id);
}

static void end_event(uint64_t id)
{
	uint64_t now = spool_now();

	if (wl_recording)
		SPOOL_EMIT(nvtx_end, now, now, 0, .id = id);
	if (__builtin_expect(wl_watching, 0))
		wl_window_end(id);
}

static uint64_t range_number(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* --- what goes into the slots: the default domain ------------------------------------------------- */

typedef void (*mark_ex_fn)(const struct nvtx_attributes *);
typedef void (*mark_a_fn)(const char *);
typedef void (*mark_w_fn)(const wchar_t *);
typedef uint64_t (*start_ex_fn)(const struct nvtx_attributes *);
typedef uint64_t (*start_a_fn)(const char *);
typedef uint64_t (*start_w_fn)(const wchar_t *);
typedef void (*end_fn)(uint64_t);
typedef int (*push_ex_fn)(const struct nvtx_attributes *);
typedef int (*push_a_fn)(const char *);
typedef int (*push_w_fn)(const wchar_t *);
typedef int (*pop_fn)(void);
typedef void (*name_a_fn)(uint32_t, const char *);
typedef void (*name_w_fn)(uint32_t, const wchar_t *);

static void mark_ex(const struct nvtx_attributes *a)
{
	mark_ex_fn next = CHAIN(core, NVTX_CORE_MARK_EX, mark_ex_fn);

	if (wl_recording)
		mark_event(event_of(NULL, a));
	if (next)
		next(a);
}

static void mark_a(const char *text)
{
	mark_a_fn next = CHAIN(core, NVTX_CORE_MARK_A, mark_a_fn);

	if (wl_recording)
		mark_event((struct event){.text = text_id(text)});
	if (next)
		next(text);
}

static void mark_w(const wchar_t *text)
{
	mark_w_fn next = CHAIN(core, NVTX_CORE_MARK_W, mark_w_fn);

	if (wl_recording)
		mark_event((struct event){.text = wide_id(text)});
	if (next)
		next(text);
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
	start_ex_fn next = CHAIN(core, NVTX_CORE_START_EX, start_ex_fn);
	uint64_t id = next ? next(a) : range_number();

	if (heard())
		start_event(id, event_of(NULL, a));
	return id;
}

static uint64_t start_a(const char *text)
{
	start_a_fn next = CHAIN(core, NVTX_CORE_START_A, start_a_fn);
	uint64_t id = next ? next(text) : range_number();

	if (heard())
		start_event(id, (struct event){.text = text_id(text)});
	return id;
}

static uint64_t start_w(const wchar_t *text)
{
	start_w_fn next = CHAIN(core, NVTX_CORE_START_W, start_w_fn);
	uint64_t id = next ? next(text) : range_number();

	if (heard())
		start_event(id, (struct event){.text = wide_id(text)});
	return id;
}

static void range_end(uint64_t id)
{
	end_fn next = CHAIN(core, NVTX_CORE_END, end_fn);

	if (heard())
		end_event(id);
	if (next)
		next(id);
}

static int push_ex(const struct nvtx_attributes *a)
{
	push_ex_fn next = CHAIN(core, NVTX_CORE_PUSH_EX, push_ex_fn);
	int level = next ? next(a) : NVTX_NO_TRACKING;

	if (heard())
		push_event(event_of(NULL, a));
	return level;
}

static int push_a(const char *text)
{
	push_a_fn next = CHAIN(core, NVTX_CORE_PUSH_A, push_a_fn);
	int level = next ? next(text) : NVTX_NO_TRACKING;

	if (heard())
		push_event((struct event){.text = text_id(text)});
	return level;
}

static int push_w(const wchar_t *text)
{
	push_w_fn next = CHAIN(core, NVTX_CORE_PUSH_W, push_w_fn);
	int level = next ? next(text) : NVTX_NO_TRACKING;

	if (heard())
		push_event((struct event){.text = wide_id(text)});
	return level;
}

static int range_pop(void)
{
	pop_fn next = CHAIN(core, NVTX_CORE_POP, pop_fn);

	if (heard())
		pop_event(NULL);
	return next ? next() : NVTX_NO_TRACKING;
}

static void category_a(uint32_t category, const char *name)
{
	name_a_fn next = CHAIN(core, NVTX_CORE_CATEGORY_A, name_a_fn);

	if (category)
		nvtx_object_get(NVTX_KIND_CATEGORY, NULL, category, name);
	if (next)
		next(category, name);
}

static void category_w(uint32_t category, const wchar_t *name)
{
	name_w_fn next = CHAIN(core, NVTX_CORE_CATEGORY_W, name_w_fn);
	char narrow[NARROW_BYTES];

	nvtx_text_narrow(narrow, sizeof(narrow), name);
	if (category)
		nvtx_object_get(NVTX_KIND_CATEGORY, NULL, category, narrow);
	if (next)
		next(category, name);
}

static void thread_a(uint32_t tid, const char *name)
{
	name_a_fn next = CHAIN(core, NVTX_CORE_THREAD_A, name_a_fn);

	if (name)
		nvtx_thread_named(tid, name);
	if (next)
		next(tid, name);
}

static void thread_w(uint32_t tid, const wchar_t *name)
{
	name_w_fn next = CHAIN(core, NVTX_CORE_THREAD_W, name_w_fn);
	char narrow[NARROW_BYTES];

	nvtx_text_narrow(narrow, sizeof(narrow), name);
	nvtx_thread_named(tid, narrow);
	if (next)
		next(tid, name);
}

/* --- with domains --------------------------------------------------------------------------------- */

typedef void (*dmark_fn)(void *, const struct nvtx_attributes *);
typedef uint64_t (*dstart_fn)(void *, const struct nvtx_attributes *);
typedef void (*dend_fn)(void *, uint64_t);
typedef int (*dpush_fn)(void *, const struct nvtx_attributes *);
typedef int (*dpop_fn)(void *);
typedef void (*dname_a_fn)(void *, uint32_t, const char *);
typedef void (*dname_w_fn)(void *, uint32_t, const wchar_t *);
typedef void *(*dstring_a_fn)(void *, const char *);
typedef void *(*dstring_w_fn)(void *, const wchar_t *);
typedef void *(*domain_a_fn)(const char *);
typedef void *(*domain_w_fn)(const wchar_t *);
typedef void (*domain_destroy_fn)(void *);

static void domain_mark_ex(void *domain, const struct nvtx_attributes *a)
{
	dmark_fn next = CHAIN(core2, NVTX_CORE2_MARK_EX, dmark_fn);

	if (wl_recording)
		mark_event(event_of(domain, a));
	if (next)
		next(domain, a);
}

static uint64_t domain_start_ex(void *domain, const struct nvtx_attributes *a)
{
	dstart_fn next = CHAIN(core2, NVTX_CORE2_START_EX, dstart_fn);
	uint64_t id = next ? next(domain, a) : range_number();

	if (heard())
		start_event(id, event_of(domain, a));
	return id;
}

static void domain_range_end(void *domain, uint64_t id)
{
	dend_fn next = CHAIN(core2, NVTX_CORE2_END, dend_fn);

	if (heard())
		end_event(id);
	if (next)
		next(domain, id);
}

static int domain_push_ex(void *domain, const struct nvtx_attributes *a)
{
	dpush_fn next = CHAIN(core2, NVTX_CORE2_PUSH_EX, dpush_fn);
	int level = next ? next(domain, a) : NVTX_NO_TRACKING;

	if (heard())
		push_event(event_of(domain, a));
	return level;
}

static int domain_pop(void *domain)
{
	dpop_fn next = CHAIN(core2, NVTX_CORE2_POP, dpop_fn);

	if (heard())
		pop_event(domain);
	return next ? next(domain) : NVTX_NO_TRACKING;
}

static void domain_category_a(void *domain, uint32_t category, const char *name)
{
	dname_a_fn next = CHAIN(core2, NVTX_CORE2_CATEGORY_A, dname_a_fn);

	if (category)
		nvtx_object_get(NVTX_KIND_CATEGORY, nvtx_object_of(domain, NVTX_KIND_DOMAIN),
				category, name);
	if (next)
		next(domain, category, name);
}

static void domain_category_w(void *domain, uint32_t category, const wchar_t *name)
{
	dname_w_fn next = CHAIN(core2, NVTX_CORE2_CATEGORY_W, dname_w_fn);
	char narrow[NARROW_BYTES];

	nvtx_text_narrow(narrow, sizeof(narrow), name);
	if (category)
		nvtx_object_get(NVTX_KIND_CATEGORY, nvtx_object_of(domain, NVTX_KIND_DOMAIN),
				category, narrow);
	if (next)
		next(domain, category, name);
}

/* The handle that the client gets: the chained tool's where there is one, else our object. */
static void *handle_make(enum nvtx_kind kind, void *domain, void *theirs, const char *text)
{
	if (nvtx_chained) {
		if (theirs)
			nvtx_object_get(kind, NULL, (uintptr_t)theirs, text);
		return theirs;
	}
	return nvtx_object_get(kind, nvtx_object_of(domain, NVTX_KIND_DOMAIN), 0, text);
}

static void *domain_string_a(void *domain, const char *text)
{
	dstring_a_fn next = CHAIN(core2, NVTX_CORE2_STRING_A, dstring_a_fn);

	return handle_make(NVTX_KIND_STRING, domain, next ? next(domain, text) : NULL, text);
}

static void *domain_string_w(void *domain, const wchar_t *text)
{
	dstring_w_fn next = CHAIN(core2, NVTX_CORE2_STRING_W, dstring_w_fn);
	char narrow[NARROW_BYTES];

	nvtx_text_narrow(narrow, sizeof(narrow), text);
	return handle_make(NVTX_KIND_STRING, domain, next ? next(domain, text) : NULL, narrow);
}

static void *domain_create_a(const char *name)
{
	domain_a_fn next = CHAIN(core2, NVTX_CORE2_DOMAIN_A, domain_a_fn);

	return handle_make(NVTX_KIND_DOMAIN, NULL, next ? next(name) : NULL, name);
}

static void *domain_create_w(const wchar_t *name)
{
	domain_w_fn next = CHAIN(core2, NVTX_CORE2_DOMAIN_W, domain_w_fn);
	char narrow[NARROW_BYTES];

	nvtx_text_narrow(narrow, sizeof(narrow), name);
	return handle_make(NVTX_KIND_DOMAIN, NULL, next ? next(name) : NULL, narrow);
}

static void domain_destroy(void *domain)
{
	domain_destroy_fn next = CHAIN(core2, NVTX_CORE2_DOMAIN_DESTROY, domain_destroy_fn);

	if (next)
		next(domain); /* ours stays: events of other threads may still name it */
}

/* --- attaching ------------------------------------------------------------------------------------ */

static const nvtx_fn core_functions[NVTX_CORE_MAX] = {
	[NVTX_CORE_MARK_EX] = (nvtx_fn)mark_ex,       [NVTX_CORE_MARK_A] = (nvtx_fn)mark_a,
	[NVTX_CORE_MARK_W] = (nvtx_fn)mark_w,         [NVTX_CORE_START_EX] = (nvtx_fn)start_ex,
	[NVTX_CORE_START_A] = (nvtx_fn)start_a,       [NVTX_CORE_START_W] = (nvtx_fn)start_w,
	[NVTX_CORE_END] = (nvtx_fn)range_end,         [NVTX_CORE_PUSH_EX] = (nvtx_fn)push_ex,
	[NVTX_CORE_PUSH_A] = (nvtx_fn)push_a,         [NVTX_CORE_PUSH_W] = (nvtx_fn)push_w,
	[NVTX_CORE_POP] = (nvtx_fn)range_pop,         [NVTX_CORE_CATEGORY_A] = (nvtx_fn)category_a,
	[NVTX_CORE_CATEGORY_W] = (nvtx_fn)category_w, [NVTX_CORE_THREAD_A] = (nvtx_fn)thread_a,
	[NVTX_CORE_THREAD_W] = (nvtx_fn)thread_w,
};

static const nvtx_fn core2_functions[NVTX_CORE2_MAX] = {
	[NVTX_CORE2_MARK_EX] = (nvtx_fn)domain_mark_ex,
	[NVTX_CORE2_START_EX] = (nvtx_fn)domain_start_ex,
	[NVTX_CORE2_END] = (nvtx_fn)domain_range_end,
	[NVTX_CORE2_PUSH_EX] = (nvtx_fn)domain_push_ex,
	[NVTX_CORE2_POP] = (nvtx_fn)domain_pop,
	[NVTX_CORE2_CATEGORY_A] = (nvtx_fn)domain_category_a,
	[NVTX_CORE2_CATEGORY_W] = (nvtx_fn)domain_category_w,
	[NVTX_CORE2_STRING_A] = (nvtx_fn)domain_string_a,
	[NVTX_CORE2_STRING_W] = (nvtx_fn)domain_string_w,
	[NVTX_CORE2_DOMAIN_A] = (nvtx_fn)domain_create_a,
	[NVTX_CORE2_DOMAIN_W] = (nvtx_fn)domain_create_w,
	[NVTX_CORE2_DOMAIN_DESTROY] = (nvtx_fn)domain_destroy,
};

/* Ours where we have one, else the chained tool's. A table's entry may be NULL: the client was built
 * without that function. */
static void slots_fill(const struct nvtx_callbacks *callbacks, int module, const nvtx_fn *ours,
		       const nvtx_fn *chained, unsigned ours_max)
{
	nvtx_fn **table = NULL;
	unsigned size = 0;

	if (!callbacks->module_function_table(module, &table, &size) || !table)
		return;
	for (unsigned i = 1; i < size && i < ours_max; i++) {
		nvtx_fn fn = ours[i] ? ours[i] : chained[i];

		if (table[i] && fn)
			*table[i] = fn;
	}
}

/* Called by each copy of NVTX in the process when it makes its first call. 1: the tool took it. */
static int attach(nvtx_get_fn get)
{
	const struct nvtx_callbacks *callbacks;
	int saved = errno;

	if (!wl_started() || !wl_settings.nvtx)
		return 0;
	callbacks = get ? get(NVTX_TABLE_CALLBACKS) : NULL;
	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return 0;
	nvtx_chain_attach(get);
	slots_fill(callbacks, NVTX_MODULE_CORE, core_functions, nvtx_chain_core, NVTX_CORE_MAX);
	slots_fill(callbacks, NVTX_MODULE_CORE2, core2_functions, nvtx_chain_core2, NVTX_CORE2_MAX);
	errno = saved;
	return 1;
}

WL_EXPORT int InitializeInjectionNvtx2(nvtx_get_fn get);
WL_EXPORT int InitializeInjectionNvtx2Preinject(nvtx_get_fn get);

int InitializeInjectionNvtx2(nvtx_get_fn get)
{
	return attach(get);
}

/* For clients built to look for a tool that is in the process already. */
int InitializeInjectionNvtx2Preinject(nvtx_get_fn get)
{
	return attach(get);
}

/* --- start ---------------------------------------------------------------------------------------- */

/* glibc's setenv, not the program's: a shell has its own, which is not ready this early. */
static void variable_set(const char *name, const char *value)
{
	int (*set)(const char *, const char *, int) =
		(int (*)(const char *, const char *, int))wl_symbol_find("libc.so", "setenv", NULL);

	if (set)
		set(name, value, 1);
}

static const char *variable_get(const char *name)
{
	size_t length = strlen(name);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, name, length) && (*entry)[length] == '=')
			return *entry + length + 1;
	return NULL;
}

/* This library under whatever path: `waylay run` may have named it by another than the preload. */
static bool is_ours(const char *path, const char *own_path)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(path, own_path) || !strcmp(slash ? slash + 1 : path, "libwaylay.so");
}

void wl_nvtx_prepare(const char *own_path)
{
	const char *present = variable_get(PATH_VARIABLE);

	if (present && is_ours(present, own_path))
		return;
	if (present && *present && !wl_settings.nvtx_chain[0]) {
		/* For this process's clients, and for programs that it starts. */
		variable_set(CHAIN_VARIABLE, present);
		wl_nvtx_chain_set(present);
	}
	variable_set(PATH_VARIABLE, own_path);
}

/* --- thread names ----------------------------------------------------------------------------------- */

#define NAMED_MAX 256

/* Names given before the recording began, kept until it does. */
static struct {
	_Atomic uint32_t tid; /* written last */
	char name[64];
} named[NAMED_MAX];
static _Atomic uint32_t named_count;

void nvtx_thread_named(uint32_t tid, const char *name)
{
	uint32_t i;

	if (wl_recording) {
		spool_thread_name(tid, name);
		return;
	}
	i = atomic_fetch_add_explicit(&named_count, 1, memory_order_relaxed);
	if (i >= NAMED_MAX)
		return;
	snprintf(named[i].name, sizeof(named[i].name), "%s", name);
	/* Pairs with the acquire below: the name is there before its thread is. */
	atomic_store_explicit(&named[i].tid, tid, memory_order_release);
}

void wl_nvtx_begin(void)
{
	uint32_t count = atomic_load_explicit(&named_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count && i < NAMED_MAX; i++) {
		uint32_t tid = atomic_load_explicit(&named[i].tid, memory_order_acquire);

		if (tid)
			spool_thread_name(tid, named[i].name);
	}
}
