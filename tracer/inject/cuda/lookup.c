/* SPDX-License-Identifier: Apache-2.0
 *
 * How calls come to us: pointers that dlsym and cuGetProcAddress give are replaced, by address and
 * never by name. Only what is the real address of an entry that we know becomes ours; everything else
 * passes through, and names that we have never heard of are said in the recording.
 */
#include "tracer/inject/cuda/calls.h"

#include <stdio.h>

_Atomic(void *) cu_reals[CU_ID_MAX];

/* --- the driver ---------------------------------------------------------------------------------- */

static const char *const helper_names[CU_HELPER_MAX] = {
	[CU_HELPER_cuPointerGetAttributes] = "cuPointerGetAttributes",
	[CU_HELPER_cuStreamGetFlags] = "cuStreamGetFlags",
	[CU_HELPER_cuStreamIsCapturing] = "cuStreamIsCapturing",
	[CU_HELPER_cuFuncGetName] = "cuFuncGetName",
	[CU_HELPER_cuKernelGetName] = "cuKernelGetName",
	[CU_HELPER_cuGraphGetNodes] = "cuGraphGetNodes",
	[CU_HELPER_cuDriverGetVersion] = "cuDriverGetVersion",
	[CU_HELPER_cuDeviceGetCount] = "cuDeviceGetCount",
	[CU_HELPER_cuDeviceGetName] = "cuDeviceGetName",
	[CU_HELPER_cuModuleGetLoadingMode] = "cuModuleGetLoadingMode",
	[CU_HELPER_cuCtxGetCurrent] = "cuCtxGetCurrent",
	[CU_HELPER_cuCtxGetDevice] = "cuCtxGetDevice",
	[CU_HELPER_cuFuncGetAttribute] = "cuFuncGetAttribute",
	[CU_HELPER_cuKernelGetAttribute] = "cuKernelGetAttribute",
};
static _Atomic(void *) helpers[CU_HELPER_MAX];
static const char absent_mark;
#define ABSENT ((void *)(uintptr_t)&absent_mark) /* looked up in vain */

static void *resolve(const char *name)
{
	return wl_symbol_find(CU_LIBRARY, name, NULL);
}

void *cu_resolve(enum cu_entry id)
{
	int saved = errno;
	void *real = resolve(cu_names[id].text);

	if (real)
		atomic_store_explicit(&cu_reals[id], real, memory_order_relaxed);
	errno = saved;
	return real;
}

void *cu_helper(enum cu_helper id)
{
	void *real = atomic_load_explicit(&helpers[id], memory_order_relaxed);

	if (!real) {
		real = resolve(helper_names[id]);
		atomic_store_explicit(&helpers[id], real ? real : ABSENT, memory_order_relaxed);
	}
	return real == ABSENT ? NULL : real;
}

/* Finds all entries of the driver that is loaded now. It may have been unloaded and loaded again
 * elsewhere since the last time: then every address is another. */
static void contact(void)
{
	void *first = resolve(cu_names[CU_ID_cuInit].text);

	/* Relaxed: see cu_reals; two threads here at once store the same. */
	if (!first || first == atomic_load_explicit(&cu_reals[CU_ID_cuInit], memory_order_relaxed))
		return;
	for (unsigned i = 0; i < CU_HELPER_MAX; i++)
		atomic_store_explicit(&helpers[i], NULL, memory_order_relaxed);
	for (unsigned i = CU_ID_cuInit + 1; i <= CU_ID_cuInit + CU_ID_MAX; i++) {
		unsigned id = i % CU_ID_MAX; /* cuInit, which says that all is done, comes last */

		atomic_store_explicit(&cu_reals[id], resolve(cu_names[id].text),
				      memory_order_relaxed);
	}
}

/* --- what passed us by --------------------------------------------------------------------------- */

#define UNKNOWN_MAX  256
#define UNKNOWN_TEXT 72

/* A name (or an export table's id) that was asked for and passed through. Slots are filled in order,
 * each by the thread that raised unknown_count past it. */
static struct unknown {
	_Atomic uint32_t state; /* 0 empty, 1 text is there */
	_Atomic uint32_t said;  /* spool_generation() of the recording that has it */
	bool table;             /* an export table's id, not a name */
	char text[UNKNOWN_TEXT];
} unknown[UNKNOWN_MAX];
static _Atomic uint32_t unknown_count;

static const char *const known_names[] = {
#define CU_KNOWN(symbol) #symbol,
#include "tracer/inject/cuda/known.def"
};
#define KNOWN_COUNT (sizeof(known_names) / sizeof(known_names[0]))

/* Whether the address is one of the known entries of that name. Names come with and without their
 * version (cuGetProcAddress is asked for the plain ones), and a new version of a known name is new. */
static bool is_known(const char *name, const void *real)
{
	size_t low = 0, high = KNOWN_COUNT, length = strlen(name);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(name, known_names[middle]) <= 0)
			high = middle;
		else
			low = middle + 1;
	}
	for (size_t i = low; i < KNOWN_COUNT && !strncmp(known_names[i], name, length); i++)
		if ((!known_names[i][length] || known_names[i][length] == '_') &&
		    resolve(known_names[i]) == real)
			return true;
	return false;
}

static void say(struct unknown *one)
{
	uint32_t generation = spool_generation();

	if (!wl_recording || !generation ||
	    atomic_exchange_explicit(&one->said, generation, memory_order_relaxed) == generation)
		return;
	spool_attribute(one->table ? "cuda.export-table" : "cuda.unknown-entry", one->text);
}

static void count_text(const char *text, bool table)
{
	uint32_t count = atomic_load_explicit(&unknown_count, memory_order_relaxed);
	uint32_t at;

	for (uint32_t i = 0; i < count && i < UNKNOWN_MAX; i++)
		/* Pairs with the release store below. */
		if (atomic_load_explicit(&unknown[i].state, memory_order_acquire) &&
		    !strncmp(unknown[i].text, text, UNKNOWN_TEXT - 1))
			return;
	if (count >= UNKNOWN_MAX)
		return;
	at = atomic_fetch_add_explicit(&unknown_count, 1, memory_order_relaxed);
	if (at >= UNKNOWN_MAX)
		return;
	unknown[at].table = table;
	memcpy(unknown[at].text, text, strnlen(text, UNKNOWN_TEXT - 1));
	atomic_store_explicit(&unknown[at].state, 1, memory_order_release);
	say(&unknown[at]);
}

/* --- replacing ----------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && !strcmp(text + length - wanted, end);
}

/*
 * The entry at that address, CU_ID_MAX if we have none. A driver may export one function under several
 * names; then the name that was asked for decides, and after that whether stream 0 is to be the
 * thread's own.
 */
static enum cu_entry entry_at(const void *real, const char *name, bool per_thread)
{
	enum cu_entry best = CU_ID_MAX;
	int best_fit = -1;

	for (unsigned id = 0; id < CU_ID_MAX; id++) {
		const char *text = cu_names[id].text;
		int fit;

		if (atomic_load_explicit(&cu_reals[id], memory_order_relaxed) != real)
			continue;
		fit = !strcmp(text, name) ? 4 : !strncmp(text, name, strlen(name)) ? 2 : 0;
		fit += per_thread == (ends_in(text, "_ptsz") || ends_in(text, "_ptds"));
		if (fit > best_fit) {
			best = (enum cu_entry)id;
			best_fit = fit;
		}
	}
	return best;
}

static void *replacement(void *real, const char *name, bool per_thread)
{
	enum cu_entry id = entry_at(real, name, per_thread);

	if (id != CU_ID_MAX)
		return cu_wrappers[id];
	if (!is_known(name, real))
		count_text(name, false);
	return real;
}

static void *replace(const char *name, const char *version, void *real, void *caller)
{
	(void)version;
	(void)caller;
	if (!wl_settings.enabled || !wl_settings.cuda || !wl_address_in(real, CU_LIBRARY))
		return real;
	contact();
	return replacement(real, name, ends_in(name, "_ptsz") || ends_in(name, "_ptds"));
}

const struct wl_domain wl_domain_cuda = {.prefix = "cu", .replace = replace};

/* The frame's depth is left alone: the driver calls other tools from inside cuInit, and the pointers
 * that those look up there are used later. */
void cu_lookup_begin(struct cu_lookup *call)
{
	call->f.errno_at = &errno;
}

void cu_lookup_found(struct cu_lookup *call, void **found)
{
	int saved = *call->f.errno_at;

	if (found && *found && call->name) {
		contact();
		*found = replacement(*found, call->name,
				     call->flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	}
	*call->f.errno_at = saved;
}

void cu_lookup_end(struct cu_lookup *call, CUresult status)
{
	(void)call;
	(void)status;
}

/* --- what is said of the driver ------------------------------------------------------------------- */

void cu_export_table_given(const unsigned char *id)
{
	char text[40];
	int saved = errno;

	snprintf(text, sizeof(text),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0],
		 id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11],
		 id[12], id[13], id[14], id[15]);
	count_text(text, true);
	errno = saved;
}

/* Says what the devices are; how many there are, and whether they are simulated. */
static int say_device(bool *simulated)
{
	CUresult (*count_of)(int *) = (CUresult(*)(int *))cu_helper(CU_HELPER_cuDeviceGetCount);
	CUresult (*name_of)(char *, int, CUdevice) =
		(CUresult(*)(char *, int, CUdevice))cu_helper(CU_HELPER_cuDeviceGetName);
	char text[128];
	int count = 0;

	*simulated = false;
	if (!count_of || count_of(&count) != CUDA_SUCCESS)
		return 0;
	snprintf(text, sizeof(text), "%d", count);
	spool_attribute("cuda.devices", text);
	if (!count || !name_of || name_of(text, sizeof(text), 0) != CUDA_SUCCESS)
		return count;
	text[sizeof(text) - 1] = '\0';
	spool_attribute("cuda.device", text);
	*simulated = !strncmp(text, "Waylay simulated", strlen("Waylay simulated"));
	if (*simulated)
		spool_attribute("cuda.simulated", "1");
	return count;
}

void cu_report_driver(void)
{
	static _Atomic uint32_t reported;
	CUresult (*version_of)(int *);
	uint32_t generation = spool_generation();
	unsigned found = 0;
	char text[64];
	bool simulated;
	int version = 0;

	if (!generation || atomic_load_explicit(&reported, memory_order_relaxed) == generation ||
	    atomic_exchange_explicit(&reported, generation, memory_order_relaxed) == generation)
		return;
	contact();
	version_of = (CUresult(*)(int *))cu_helper(CU_HELPER_cuDriverGetVersion);
	if (version_of && version_of(&version) == CUDA_SUCCESS) {
		snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
		spool_attribute("cuda.driver", text);
	}
	for (unsigned id = 0; id < CU_ID_MAX; id++)
		found += atomic_load_explicit(&cu_reals[id], memory_order_relaxed) != NULL;
	snprintf(text, sizeof(text), "%u of %u", found, (unsigned)CU_ID_MAX);
	spool_attribute("cuda.entries", text);
	if (say_device(&simulated))
		wl_cupti_start(version, simulated);
	for (unsigned i = 0; i < UNKNOWN_MAX; i++)
		if (atomic_load_explicit(&unknown[i].state, memory_order_acquire))
			say(&unknown[i]);
}
