/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX 3 injection protocol, client side.
 *
 * The first call opens the shared object that NVTX_INJECTION64_PATH names and calls its
 * InitializeInjectionNvtx2 with our nvtx_export_table(); failing that, the pointer
 * InitializeInjectionNvtx2_fnptr that a tool linked into the program may define. Through the export
 * table the tool gets, for each module, a table of addresses of our function slots and stores its
 * own functions in the slots that it wants. Slots it leaves alone stay NULL: those calls do
 * nothing.
 */
#include "kernels/nvtx/nvtx.h"

#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

_Static_assert(sizeof(struct nvtx_event) == 48, "the protocol's event attributes take 48 bytes");
_Static_assert(offsetof(struct nvtx_event, payload) == 24, "payload offset");
_Static_assert(offsetof(struct nvtx_event, message) == 40, "message offset");

typedef void (*slot_fn)(void);
typedef const void *(*export_table_fn)(uint32_t table);
typedef int (*injection_fn)(export_table_fn get);

/* A tool linked into the program defines this strongly; the name and the weak default are part of
 * the protocol. */
extern injection_fn InitializeInjectionNvtx2_fnptr;
__attribute__((weak)) injection_fn InitializeInjectionNvtx2_fnptr;

enum core_slot {
	CORE_MARK_EX = 1,
	CORE_MARK_A,
	CORE_MARK_W,
	CORE_START_EX,
	CORE_START_A,
	CORE_START_W,
	CORE_END,
	CORE_PUSH_EX,
	CORE_PUSH_A,
	CORE_PUSH_W,
	CORE_POP,
	CORE_NAME_CATEGORY_A,
	CORE_NAME_CATEGORY_W,
	CORE_NAME_THREAD_A,
	CORE_NAME_THREAD_W,
	CORE_MAX
};

enum core2_slot {
	CORE2_MARK_EX = 1,
	CORE2_START_EX,
	CORE2_END,
	CORE2_PUSH_EX,
	CORE2_POP,
	CORE2_RESOURCE_CREATE,
	CORE2_RESOURCE_DESTROY,
	CORE2_NAME_CATEGORY_A,
	CORE2_NAME_CATEGORY_W,
	CORE2_STRING_A,
	CORE2_STRING_W,
	CORE2_CREATE_A,
	CORE2_CREATE_W,
	CORE2_DESTROY,
	CORE2_INITIALIZE,
	CORE2_MAX
};

/* Modules by number: 0 is invalid, then core, CUDA, OpenCL, CUDA runtime, core with domains,
 * synchronization. We call only the two core modules, but a tool may ask for any of them and treat
 * a refusal as a broken client. */
enum { MODULE_CORE = 1, MODULE_CORE2 = 5, MODULE_MAX = 7, SLOTS_MAX = 16 };
static const unsigned module_slots[MODULE_MAX] = {0, CORE_MAX, 9, 15, 7, CORE2_MAX, 7};

static slot_fn slots[MODULE_MAX][SLOTS_MAX];
static slot_fn *tables[MODULE_MAX][SLOTS_MAX + 1]; /* entry 0 and the one past the end stay NULL */

enum { STATE_FRESH, STATE_STARTING, STATE_READY };
static unsigned state;
static __thread int
	starting_here; /* a tool that makes NVTX calls while it starts must not wait for itself */

static int module_function_table(int module, slot_fn ***table, unsigned *size)
{
	if (module <= 0 || module >= MODULE_MAX)
		return 0;
	if (table)
		*table = tables[module];
	if (size)
		*size = module_slots[module];
	return 1;
}

static void set_tool_version(uint32_t version)
{
	(void)version; /* for clients that must refuse a broken tool; none is known */
}

static const void *nvtx_export_table(uint32_t id)
{
	static const struct {
		size_t size;
		int (*module_function_table)(int module, slot_fn ***table, unsigned *size);
	} callbacks = {sizeof(callbacks), module_function_table};
	static const struct {
		size_t size;
		uint32_t version;
		uint32_t reserved;
		void (*set_tool_version)(uint32_t version);
	} version = {sizeof(version), NVTX_EVENT_VERSION, 0, set_tool_version};

	switch (id) {
	case 1:
		return &callbacks;
	case 3:
		return &version;
	default:
		return NULL;
	}
}

/* Finds a tool and lets it fill the slots; true if it did. */
static int attach_tool(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	injection_fn init = NULL;
	void *lib = NULL;

	if (path) {
		lib = dlopen(path, RTLD_LAZY);
		if (!lib)
			return 0;
		*(void **)&init = dlsym(lib, "InitializeInjectionNvtx2");
		if (!init) {
			dlclose(lib);
			return 0;
		}
	} else {
		init = InitializeInjectionNvtx2_fnptr;
	}
	if (!init)
		return 0;
	if (!init(nvtx_export_table)) {
		if (lib)
			dlclose(lib);
		return 0;
	}
	return 1;
}

static void start_once(void)
{
	unsigned fresh = STATE_FRESH;

	if (starting_here)
		return;
	if (__atomic_compare_exchange_n(&state, &fresh, STATE_STARTING, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		starting_here = 1;
		for (int m = 1; m < MODULE_MAX; m++)
			for (unsigned s = 1; s < module_slots[m]; s++)
				tables[m][s] = &slots[m][s];
		if (!attach_tool()) /* a tool that failed may have filled some slots before it gave
				       up */
			for (int m = 1; m < MODULE_MAX; m++)
				for (unsigned s = 1; s < module_slots[m]; s++)
					__atomic_store_n(&slots[m][s], NULL, __ATOMIC_RELAXED);
		starting_here = 0;
		/* Pairs with the acquire in slot_get: who sees READY sees the slots. */
		__atomic_store_n(&state, STATE_READY, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != STATE_READY)
		sched_yield();
}

static inline slot_fn slot_get(int module, unsigned slot)
{
	/* Pairs with the release in start_once. */
	if (__builtin_expect(__atomic_load_n(&state, __ATOMIC_ACQUIRE) != STATE_READY, 0)) {
		start_once();
		if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != STATE_READY)
			return NULL; /* a call of the tool's own while it starts */
	}
	/* Relaxed: a tool may exchange its functions later; either one is a whole pointer. */
	return __atomic_load_n(&slots[module][slot], __ATOMIC_RELAXED);
}

int nvtx_active(void)
{
	(void)slot_get(MODULE_CORE, CORE_PUSH_A);
	for (unsigned s = 1; s < CORE_MAX; s++)
		if (slots[MODULE_CORE][s] || slots[MODULE_CORE2][s])
			return 1;
	return 0;
}

int nvtx_push(const char *name)
{
	int (*fn)(const char *) = (int (*)(const char *))slot_get(MODULE_CORE, CORE_PUSH_A);

	return fn ? fn(name) : NVTX_NO_NESTING;
}

int nvtx_push_event(const struct nvtx_event *event)
{
	int (*fn)(const struct nvtx_event *) =
		(int (*)(const struct nvtx_event *))slot_get(MODULE_CORE, CORE_PUSH_EX);

	return fn ? fn(event) : NVTX_NO_NESTING;
}

int nvtx_push_u64(const char *name, uint64_t payload)
{
	struct nvtx_event event = NVTX_EVENT(name);

	event.payload_type = NVTX_PAYLOAD_U64;
	event.payload.u64 = payload;
	return nvtx_push_event(&event);
}

int nvtx_pop(void)
{
	int (*fn)(void) = (int (*)(void))slot_get(MODULE_CORE, CORE_POP);

	return fn ? fn() : NVTX_NO_NESTING;
}

uint64_t nvtx_start(const char *name)
{
	uint64_t (*fn)(const char *) =
		(uint64_t(*)(const char *))slot_get(MODULE_CORE, CORE_START_A);

	return fn ? fn(name) : 0;
}

void nvtx_end(uint64_t range)
{
	void (*fn)(uint64_t) = (void (*)(uint64_t))slot_get(MODULE_CORE, CORE_END);

	if (fn)
		fn(range);
}

void nvtx_mark(const char *name)
{
	void (*fn)(const char *) = (void (*)(const char *))slot_get(MODULE_CORE, CORE_MARK_A);

	if (fn)
		fn(name);
}

void nvtx_mark_event(const struct nvtx_event *event)
{
	void (*fn)(const struct nvtx_event *) =
		(void (*)(const struct nvtx_event *))slot_get(MODULE_CORE, CORE_MARK_EX);

	if (fn)
		fn(event);
}

void nvtx_name_thread(uint32_t tid, const char *name)
{
	void (*fn)(uint32_t, const char *) =
		(void (*)(uint32_t, const char *))slot_get(MODULE_CORE, CORE_NAME_THREAD_A);

	if (fn)
		fn(tid, name);
}

struct nvtx_domain *nvtx_domain_create(const char *name)
{
	struct nvtx_domain *(*fn)(const char *) =
		(struct nvtx_domain * (*)(const char *)) slot_get(MODULE_CORE2, CORE2_CREATE_A);

	return fn ? fn(name) : NULL;
}

void nvtx_domain_destroy(struct nvtx_domain *domain)
{
	void (*fn)(struct nvtx_domain *) =
		(void (*)(struct nvtx_domain *))slot_get(MODULE_CORE2, CORE2_DESTROY);

	if (fn)
		fn(domain);
}

struct nvtx_string *nvtx_domain_string(struct nvtx_domain *domain, const char *text)
{
	struct nvtx_string *(*fn)(struct nvtx_domain *, const char *) =
		(struct nvtx_string * (*)(struct nvtx_domain *, const char *))
			slot_get(MODULE_CORE2, CORE2_STRING_A);

	return fn ? fn(domain, text) : NULL;
}

static struct nvtx_event registered_event(const struct nvtx_string *text)
{
	struct nvtx_event event = NVTX_EVENT(NULL);

	event.message_type = NVTX_MESSAGE_REGISTERED;
	event.message.registered = text;
	return event;
}

int nvtx_domain_push(struct nvtx_domain *domain, const struct nvtx_string *text)
{
	struct nvtx_event event = registered_event(text);

	return nvtx_domain_push_event(domain, &event);
}

int nvtx_domain_push_event(struct nvtx_domain *domain, const struct nvtx_event *event)
{
	int (*fn)(struct nvtx_domain *, const struct nvtx_event *) =
		(int (*)(struct nvtx_domain *, const struct nvtx_event *))slot_get(MODULE_CORE2,
										   CORE2_PUSH_EX);

	return fn ? fn(domain, event) : NVTX_NO_NESTING;
}

int nvtx_domain_pop(struct nvtx_domain *domain)
{
	int (*fn)(struct nvtx_domain *) =
		(int (*)(struct nvtx_domain *))slot_get(MODULE_CORE2, CORE2_POP);

	return fn ? fn(domain) : NVTX_NO_NESTING;
}

void nvtx_domain_mark(struct nvtx_domain *domain, const struct nvtx_string *text)
{
	struct nvtx_event event = registered_event(text);
	void (*fn)(struct nvtx_domain *, const struct nvtx_event *) =
		(void (*)(struct nvtx_domain *, const struct nvtx_event *))slot_get(MODULE_CORE2,
										    CORE2_MARK_EX);

	if (fn)
		fn(domain, &event);
}
