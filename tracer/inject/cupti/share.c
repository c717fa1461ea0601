/* SPDX-License-Identifier: Apache-2.0
 *
 * The other client of CUPTI's activity interface, such as torch.profiler. On its own it would own the
 * interface; here its calls end at us:
 *
 *   - Its callbacks are kept, not registered. Its window is open from the first kind that it enables to the
 *     flush after the last that it disables. In its window, each buffer of ours that CUPTI gives back is read
 *     by us later and, at once, copied to it: into buffers that it is asked for, the records of the
 *     kinds it enabled, from the time it did, its time stamps where it has a clock of its own.
 *   - One of its buffers is always held in its window: it takes for granted that it was asked for one before
 *     there was anything to flush.
 *   - What it disables stays enabled where we want it, what we do not want goes through to CUPTI.
 */
#include "tracer/inject/cupti/cupti.h"

#include <time.h>

static struct {
	_Atomic(cupti_request_fn) request;
	_Atomic(cupti_complete_fn) complete;
	_Atomic(cupti_timestamp_fn) timestamp;
	_Atomic uint64_t kinds;        /* enabled now */
	_Atomic uint64_t window;       /* enabled at any time in this window; 0 none is open */
	_Atomic uint64_t calls;        /* DRIVER, RUNTIME: enabled call by call */
	_Atomic uint64_t began, ended; /* of the window, by our clock; ended 0: not yet */
	_Atomic int64_t ended_seconds; /* MONOTONIC */
	/* The calls within the window, by correlation; 0 unknown. A call's record is there only if it was
	 * made in the window, which its kernels alone do not tell: they may begin later. */
	_Atomic uint32_t least, greatest;
	_Atomic(uint8_t *) spare; /* a buffer of its, with room for spare_size bytes */
	_Atomic size_t spare_size;
} other;

#define STALE_SECONDS 5

#define BIT(kind)  ((kind) < CUPTI_KIND_MAX ? 1ull << (kind) : 0)
#define CALL_KINDS (BIT(CUPTI_KIND_DRIVER) | BIT(CUPTI_KIND_RUNTIME))

bool cupti_share_open(void)
{
	return atomic_load_explicit(&other.window, memory_order_acquire) != 0;
}

/* It has disabled its last kind, and may flush yet. */
static bool is_ending(void)
{
	return cupti_share_open() && atomic_load_explicit(&other.ended, memory_order_acquire);
}

static int64_t seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec;
}

bool cupti_share_stale(void)
{
	return is_ending() && seconds_now() - atomic_load(&other.ended_seconds) > STALE_SECONDS;
}

/* --- its clock -------------------------------------------------------------------------------------------- */

/* A moment by both clocks. */
struct moment {
	uint64_t ours, theirs;
};
/* Two moments that lie apart. */
struct two_clocks {
	bool same; /* they are one clock */
	struct moment first, last;
};
static struct two_clocks clocks;
static atomic_flag clocks_held = ATOMIC_FLAG_INIT; /* for a few loads and stores */

static void clocks_hold(void)
{
	while (atomic_flag_test_and_set_explicit(&clocks_held, memory_order_acquire))
		;
}

static void clocks_let_go(void)
{
	atomic_flag_clear_explicit(&clocks_held, memory_order_release);
}

static uint64_t their_now(void)
{
	cupti_timestamp_fn timestamp = atomic_load_explicit(&other.timestamp, memory_order_relaxed);
	struct timespec ts;

	if (timestamp)
		return timestamp();
	clock_gettime(CLOCK_REALTIME, &ts); /* what CUPTI uses by itself */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct moment moment_now(void)
{
	struct moment best = {0};
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 7; i++) {
		uint64_t before = cupti_now(), theirs = their_now(), after = cupti_now();

		if (after - before < least) {
			least = after - before;
			best.ours = before + (after - before) / 2;
			best.theirs = theirs;
		}
	}
	return best;
}

/* Whether its clock is the one we use: then it gets our time stamps as they are. */
static bool clocks_agree(void)
{
	for (unsigned i = 0; i < 7; i++) {
		uint64_t before = cupti_now(), theirs = their_now(), after = cupti_now();

		if (theirs < before || theirs > after)
			return false;
	}
	return true;
}

static void clock_begin(void)
{
	struct two_clocks now = {.same = clocks_agree(), .first = moment_now()};

	now.last = now.first;
	clocks_hold();
	clocks = now;
	clocks_let_go();
}

/* Where the two clocks stand now. */
static struct two_clocks clock_look(void)
{
	struct two_clocks now;
	struct moment moment;

	clocks_hold();
	now = clocks;
	clocks_let_go();
	if (now.same)
		return now;
	moment = moment_now();
	clocks_hold();
	now = clocks;
	now.last = clocks.last = moment;
	clocks_let_go();
	return now;
}

static uint64_t to_theirs(const struct two_clocks *by, uint64_t ours)
{
	double slope = 1;

	if (!ours)
		return 0;
	if (by->last.ours > by->first.ours)
		slope = (double)(by->last.theirs - by->first.theirs) /
			(double)(by->last.ours - by->first.ours);
	return by->last.theirs +
	       (uint64_t)(int64_t)((double)(int64_t)(ours - by->last.ours) * slope);
}

/* Offset of the start of a record of that kind, its end following; 0 for kinds without. */
static size_t times_at(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return offsetof(struct cupti_kernel, start);
	case CUPTI_KIND_MEMCPY:
	case CUPTI_KIND_MEMCPY2:
		return offsetof(struct cupti_memcpy, start);
	case CUPTI_KIND_MEMSET:
		return offsetof(struct cupti_memset, start);
	case CUPTI_KIND_SYNCHRONIZATION:
		return offsetof(struct cupti_sync, start);
	case CUPTI_KIND_GRAPH_TRACE:
		return offsetof(struct cupti_graph, start);
	case CUPTI_KIND_DRIVER:
	case CUPTI_KIND_RUNTIME:
	case CUPTI_KIND_INTERNAL_LAUNCH_API:
		return offsetof(struct cupti_api, start);
	case CUPTI_KIND_OVERHEAD: /* two numbers and a union of 12 bytes lie before */
		return 24;
	case CUPTI_KIND_UNIFIED_MEMORY_COUNTER: /* counter kind, value */
		return 16;
	}
	return 0;
}

static void times_convert(const struct two_clocks *by, uint8_t *record, uint32_t kind)
{
	size_t at = times_at(kind);
	uint64_t times[2];

	if (!at)
		return;
	memcpy(times, record + at, sizeof(times));
	times[0] = to_theirs(by, times[0]);
	times[1] = to_theirs(by, times[1]);
	memcpy(record + at, times, sizeof(times));
}

/* --- its share --------------------------------------------------------------------------------------------- */

static uint32_t correlation_of(const struct cupti_record *record)
{
	switch (record->kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return ((const struct cupti_kernel *)record)->correlation;
	case CUPTI_KIND_MEMCPY:
		return ((const struct cupti_memcpy *)record)->correlation;
	case CUPTI_KIND_MEMCPY2:
		return ((const struct cupti_memcpy2 *)record)->correlation;
	case CUPTI_KIND_MEMSET:
		return ((const struct cupti_memset *)record)->correlation;
	case CUPTI_KIND_GRAPH_TRACE:
		return ((const struct cupti_graph *)record)->correlation;
	}
	return 0;
}

/* Which calls were made in its window, by their records in this buffer. */
static void calls_note(uint8_t *buffer, size_t valid)
{
	struct cupti_record *record = NULL;

	while (wl_cupti.next_record(buffer, valid, &record) == CUPTI_OK) {
		const struct cupti_api *api = (const struct cupti_api *)record;
		uint32_t least = atomic_load(&other.least);

		if (!(BIT(record->kind) & CALL_KINDS) || api->start < atomic_load(&other.began))
			continue;
		if (!least || api->correlation < least)
			atomic_store(&other.least, api->correlation);
		if (api->correlation > atomic_load(&other.greatest))
			atomic_store(&other.greatest, api->correlation);
	}
}

static bool is_theirs(const struct cupti_record *record)
{
	uint64_t window = atomic_load_explicit(&other.window, memory_order_relaxed) |
			  atomic_load_explicit(&other.calls, memory_order_relaxed);
	uint64_t began = atomic_load(&other.began), ended = atomic_load(&other.ended), start = 0;
	uint32_t correlation = correlation_of(record), least = atomic_load(&other.least);

	/* KERNEL is recorded as the concurrent kind too. */
	if (record->kind == CUPTI_KIND_CONCURRENT_KERNEL && window & BIT(CUPTI_KIND_KERNEL))
		window |= BIT(CUPTI_KIND_CONCURRENT_KERNEL);
	if (!(window & BIT(record->kind)))
		return false;
	if (!(cupti_kinds & BIT(record->kind)))
		return true; /* recorded for it alone */
	memcpy(&start, (const uint8_t *)record + times_at(record->kind), sizeof(start));
	if (start && start < began)
		return false;
	if (correlation && least && correlation < least)
		return false;
	return !ended || start <= ended ||
	       (correlation && correlation <= atomic_load(&other.greatest));
}

struct share {
	uint8_t *buffer; /* of its */
	size_t size, used;
	struct two_clocks clocks;
};

/* Has one of its buffers in hand. */
static void spare_have(void)
{
	cupti_request_fn request = atomic_load(&other.request);
	size_t size = 0, records_max = 0;
	uint8_t *buffer = NULL, *none = NULL;

	if (!request || atomic_load(&other.spare))
		return;
	request(&buffer, &size, &records_max);
	if (!buffer)
		return;
	other.spare_size = size;
	if (!atomic_compare_exchange_strong(&other.spare, &none, buffer))
		atomic_load (&other.complete)(NULL, 0, buffer, size, 0);
}

/* The next one is had before one is given back: in its window the client is never without. */
static bool share_room(struct share *share, size_t bytes)
{
	struct share full = *share;

	if (share->buffer && share->size - share->used >= bytes)
		return true;
	share->used = 0;
	share->size = other.spare_size;
	share->buffer = atomic_exchange(&other.spare, NULL);
	spare_have();
	if (!share->buffer) {
		share->size = other.spare_size;
		share->buffer = atomic_exchange(&other.spare, NULL);
		spare_have();
	}
	if (full.buffer)
		atomic_load (&other.complete)(NULL, 0, full.buffer, full.size, full.used);
	return share->buffer && share->size >= bytes;
}

static void spare_return(void)
{
	uint8_t *buffer = atomic_exchange(&other.spare, NULL);

	if (buffer)
		atomic_load (&other.complete)(NULL, 0, buffer, other.spare_size, 0);
}

static void share_record(struct share *share, const struct cupti_record *record, size_t bytes)
{
	if (!is_theirs(record) || !share_room(share, bytes))
		return;
	memcpy(share->buffer + share->used, record, bytes);
	if (!share->clocks.same)
		times_convert(&share->clocks, share->buffer + share->used, record->kind);
	share->used += bytes;
}

static _Atomic uint32_t giving; /* threads that are at it */

/* What another thread has begun to give is in it when a flush returns. Not for ever: the client may hold that
 * thread up. */
static void givers_await(void)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000};

	for (unsigned tries = 0; atomic_load(&giving) && tries < 20000; tries++)
		nanosleep(&pause, NULL);
}

static void give(uint8_t *buffer, size_t valid)
{
	struct cupti_record *record = NULL, *before = NULL;
	struct share share = {.clocks = clock_look()};

	calls_note(buffer, valid);
	/* A record is as long as the way to the next one. */
	while (wl_cupti.next_record(buffer, valid, &record) == CUPTI_OK) {
		if (before)
			share_record(&share, before, (size_t)((char *)record - (char *)before));
		before = record;
	}
	if (before)
		share_record(&share, before, (size_t)((char *)buffer + valid - (char *)before));
	if (share.buffer)
		atomic_load (&other.complete)(NULL, 0, share.buffer, share.size, share.used);
}

void cupti_share_give(uint8_t *buffer, size_t valid)
{
	atomic_fetch_add(&giving, 1);
	if (cupti_share_open())
		give(buffer, valid);
	atomic_fetch_sub(&giving, 1);
}

void cupti_share_return(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	cupti_complete_fn complete = atomic_load(&other.complete);

	if (complete)
		complete(context, stream, buffer, size, valid);
}

static void window_open(uint64_t kind)
{
	cupti_flush_take(); /* a flush of ours that goes on would give it what was before */
	clock_begin();
	atomic_store(&other.least, 0);
	atomic_store(&other.greatest, 0);
	atomic_store(&other.ended, 0);
	atomic_store(&other.began, cupti_now());
	atomic_store_explicit(&other.window, kind, memory_order_release);
	spare_have();
	cupti_flush_give();
	/* Where it wants to see the nodes of a graph they must be recorded one by one. */
	if (cupti_kinds & BIT(CUPTI_KIND_GRAPH_TRACE))
		wl_cupti.disable(CUPTI_KIND_GRAPH_TRACE);
}

static void window_close(void)
{
	atomic_store_explicit(&other.window, 0, memory_order_release);
	atomic_store(&other.ended, 0);
	spare_return();
	if (cupti_kinds & BIT(CUPTI_KIND_GRAPH_TRACE))
		wl_cupti.enable(CUPTI_KIND_GRAPH_TRACE);
}

void cupti_share_tidy(void)
{
	if (cupti_share_stale())
		window_close();
}

void cupti_share_begin(void)
{
	if (atomic_load(&other.kinds))
		window_open(atomic_load(&other.kinds));
}

/* --- its calls ------------------------------------------------------------------------------------------- */

/* The real function, found once. */
#define REAL(name)                                                                                 \
	({                                                                                         \
		static _Atomic(void *) found;                                                      \
		void *at = atomic_load_explicit(&found, memory_order_relaxed);                     \
                                                                                                   \
		if (!at) {                                                                         \
			at = cupti_real(#name);                                                    \
			atomic_store_explicit(&found, at, memory_order_relaxed);                   \
		}                                                                                  \
		at;                                                                                \
	})

/* Declares the function as exported and as what the lookup gives out. */
#define SHARED(name, params)                                                                       \
	WL_EXPORT cupti_result name params;                                                        \
	WL_EXPORT cupti_result name params

SHARED(cuptiActivityRegisterCallbacks, (cupti_request_fn request, cupti_complete_fn complete))
{
	cupti_result (*real)(cupti_request_fn, cupti_complete_fn) =
		REAL(cuptiActivityRegisterCallbacks);
	cupti_result result = CUPTI_OK;

	if (!real)
		return CUPTI_NOT_INITIALIZED;
	if (!cupti_active() || !request || !complete)
		result = real(request, complete);
	if (result == CUPTI_OK && request && complete) {
		if (request != atomic_load(&other.request) && cupti_active())
			spare_return();
		atomic_store(&other.request, request);
		atomic_store(&other.complete, complete);
	}
	return result;
}

SHARED(cuptiActivityRegisterTimestampCallback, (cupti_timestamp_fn timestamp))
{
	cupti_result (*real)(cupti_timestamp_fn) = REAL(cuptiActivityRegisterTimestampCallback);
	cupti_result result = CUPTI_OK;

	if (!real)
		return CUPTI_NOT_INITIALIZED;
	if (!cupti_active() || !timestamp)
		result = real(timestamp);
	if (result == CUPTI_OK && timestamp) {
		atomic_store(&other.timestamp, timestamp);
		clock_begin();
	}
	return result;
}

SHARED(cuptiActivityEnable, (uint32_t kind))
{
	cupti_result (*real)(uint32_t) = REAL(cuptiActivityEnable);
	cupti_result result = CUPTI_OK;
	bool active = cupti_active() && atomic_load(&other.request);

	if (!real)
		return CUPTI_NOT_INITIALIZED;
	if (active && !atomic_load(&other.kinds))
		window_open(BIT(kind));
	if (!active || !(cupti_kinds & BIT(kind)) || kind == CUPTI_KIND_GRAPH_TRACE)
		result = real(kind);
	if (result == CUPTI_OK) {
		atomic_fetch_or(&other.kinds, BIT(kind));
		if (active)
			atomic_fetch_or(&other.window, BIT(kind));
	}
	/* We leave out queries that were answered with "not yet"; it has them unless it says so. */
	if (active && kind == CUPTI_KIND_SYNCHRONIZATION && wl_cupti.all_sync_records)
		wl_cupti.all_sync_records(1);
	return result;
}

SHARED(cuptiActivityDisable, (uint32_t kind))
{
	cupti_result (*real)(uint32_t) = REAL(cuptiActivityDisable);
	cupti_result result = CUPTI_OK;
	uint64_t before;

	if (!real)
		return CUPTI_NOT_INITIALIZED;
	if (!cupti_active() || !(cupti_kinds & BIT(kind)))
		result = real(kind);
	else if (kind == CUPTI_KIND_SYNCHRONIZATION && wl_cupti.all_sync_records)
		wl_cupti.all_sync_records(0);
	if (result != CUPTI_OK)
		return result;
	before = atomic_fetch_and(&other.kinds, ~BIT(kind));
	if (before && before == BIT(kind) && cupti_active()) {
		atomic_store(&other.ended_seconds, seconds_now());
		atomic_store(&other.ended, cupti_now());
	}
	return result;
}

SHARED(cuptiActivityFlushAll, (uint32_t flag))
{
	cupti_result (*real)(uint32_t) = REAL(cuptiActivityFlushAll);
	cupti_result result;

	if (!real)
		return CUPTI_NOT_INITIALIZED;
	if (!cupti_active())
		return real(flag);
	cupti_flush_take();
	result = real(flag);
	cupti_flush_give();
	givers_await();
	if (is_ending())
		window_close();
	return result;
}

SHARED(cuptiActivityEnableDriverApi, (uint32_t cbid, uint8_t enable))
{
	cupti_result (*real)(uint32_t, uint8_t) = REAL(cuptiActivityEnableDriverApi);

	if (enable)
		atomic_fetch_or(&other.calls, BIT(CUPTI_KIND_DRIVER));
	return real ? real(cbid, enable) : CUPTI_NOT_INITIALIZED;
}

SHARED(cuptiActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable))
{
	cupti_result (*real)(uint32_t, uint8_t) = REAL(cuptiActivityEnableRuntimeApi);

	if (enable)
		atomic_fetch_or(&other.calls, BIT(CUPTI_KIND_RUNTIME));
	return real ? real(cbid, enable) : CUPTI_NOT_INITIALIZED;
}

SHARED(cuptiFinalize, (void))
{
	cupti_result (*real)(void) = REAL(cuptiFinalize);
	cupti_result result = real ? real() : CUPTI_NOT_INITIALIZED;

	if (result == CUPTI_OK)
		cupti_lost();
	return result;
}

/* --- found by name ----------------------------------------------------------------------------------------- */

#define FOUND(name)                                                                                \
	{                                                                                          \
#name, (void *)name                                                                \
	}

static void *replace(const char *name, const char *version, void *real, void *caller)
{
	static const struct {
		const char *name;
		void *ours;
	} shared[] = {
		FOUND(cuptiActivityRegisterCallbacks),
		FOUND(cuptiActivityRegisterTimestampCallback),
		FOUND(cuptiActivityEnable),
		FOUND(cuptiActivityDisable),
		FOUND(cuptiActivityFlushAll),
		FOUND(cuptiActivityEnableDriverApi),
		FOUND(cuptiActivityEnableRuntimeApi),
		FOUND(cuptiFinalize),
	};

	(void)version;
	(void)caller;
	if (wl_settings.gpu != WL_GPU_CUPTI || !wl_address_in(real, CUPTI_LIBRARY))
		return real;
	/* Another copy of the library has an interface of its own, which is not ours. */
	if (cupti_active() && !cupti_is_library(real))
		return real;
	for (unsigned i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (!strcmp(name, shared[i].name))
			return shared[i].ours;
	return real;
}

const struct wl_domain wl_domain_cupti = {.prefix = "cupti", .replace = replace};
