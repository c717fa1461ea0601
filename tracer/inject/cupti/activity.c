/* SPDX-License-Identifier: Apache-2.0
 *
 * Device activity: begun when the driver is, flushed by the housekeeping thread, taken by force at exit.
 *
 * A call is found again in the activity it caused without asking CUPTI about each call, which would need
 * its subscription or double the cost of a launch: correlation numbers grow in the order of the calls, so
 * that on each stream the calls and their records stand in the same order. What is needed for that is which
 * stream is which (gpu_stream).
 */
#include "tracer/inject/cupti/cupti.h"

#include "tracer/inject/cuda/calls.h"
#include "tracer/inject/cuda/map.h"

#include <stdio.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define FLUSH_EVERY 5 /* housekeeping calls, of 100 ms */

enum { OFF, STARTING, ON, LOST };
static _Atomic uint32_t state;
static pid_t owner; /* CUPTI does not live in a forked child */

uint64_t cupti_kinds;
_Atomic bool wl_cupti_on;

bool cupti_active(void)
{
	/* Pairs with the release store in start(). */
	return atomic_load_explicit(&state, memory_order_acquire) == ON && owner == getpid();
}

uint64_t cupti_now(void)
{
	return spool_now();
}

/* --- flushing ------------------------------------------------------------------------------------------ */

static _Atomic bool flushing;

static bool flush_try(void)
{
	return !atomic_exchange_explicit(&flushing, true, memory_order_acquire);
}

/* Two flushes at once can hang in CUPTI, so the other client's wait for ours to end. */
void cupti_flush_take(void)
{
	const struct timespec pause = {.tv_nsec = 20 * 1000};

	while (!flush_try())
		nanosleep(&pause, NULL);
}

void cupti_flush_give(void)
{
	atomic_store_explicit(&flushing, false, memory_order_release);
}

void wl_cupti_housekeep(void)
{
	static unsigned calls;
	int saved = errno;

	if (!wl_cupti_on || !cupti_active())
		return;
	cupti_buffers_drain();
	if (++calls % FLUSH_EVERY == 0 && flush_try()) {
		/* The other client flushes itself while it records; a buffer of its may be held. */
		if (!cupti_share_open() || cupti_share_stale())
			wl_cupti.flush_all(0);
		cupti_flush_give();
		cupti_share_tidy();
		cupti_buffers_drain();
	}
	errno = saved;
}

/* Registered after the driver has registered its own, and so run before: the driver is still there. */
static void at_exit(void)
{
	int saved = errno;

	if (cupti_active()) {
		cupti_flush_take();
		wl_cupti.flush_all(CUPTI_FLUSH_FORCED);
		cupti_flush_give();
		cupti_buffers_finish();
		cupti_records_report();
		atomic_store(&state, OFF);
	}
	errno = saved;
}

void cupti_lost(void)
{
	if (!cupti_active())
		return;
	atomic_store(&state, LOST);
	wl_cupti_on = false;
	cupti_buffers_drain();
	spool_attribute("cupti", "ended: another client shut CUPTI down (cuptiFinalize)");
}

/* --- starting ------------------------------------------------------------------------------------------ */

static const struct {
	uint32_t setting, kind;
	const char *name;
} wanted[] = {
	{WL_GPU_KERNEL, CUPTI_KIND_CONCURRENT_KERNEL, "kernels"},
	{WL_GPU_COPY, CUPTI_KIND_MEMCPY, "copies"},
	{WL_GPU_COPY, CUPTI_KIND_MEMCPY2, "copies between devices"},
	{WL_GPU_MEMSET, CUPTI_KIND_MEMSET, "memsets"},
	{WL_GPU_SYNC, CUPTI_KIND_SYNCHRONIZATION, "synchronizations"},
	{WL_GPU_GRAPH, CUPTI_KIND_GRAPH_TRACE, "graphs"},
};

static const char *words(cupti_result result)
{
	const char *text = NULL;

	if (wl_cupti.result_string)
		wl_cupti.result_string(result, &text);
	return text ? text : "unknown error";
}

/* In the order that CUPTI asks for: clock, buffers, kinds. */
static bool take_over(char *why, size_t why_size)
{
	cupti_result result = wl_cupti.register_timestamp(cupti_now);

	if (result == CUPTI_OK)
		result = wl_cupti.register_callbacks(cupti_buffer_request, cupti_buffer_complete);
	if (result != CUPTI_OK) {
		snprintf(why, why_size, "CUPTI refused: %s (%d)", words(result), result);
		return false;
	}
	if (wl_cupti.all_sync_records)
		wl_cupti.all_sync_records(0);
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!(wl_settings.gpu_kinds & wanted[i].setting))
			continue;
		result = wl_cupti.enable(wanted[i].kind);
		if (result != CUPTI_OK) {
			snprintf(why, why_size, "CUPTI refused %s: %s (%d)", wanted[i].name,
				 words(result), result);
			return false;
		}
		cupti_kinds |= 1ull << wanted[i].kind;
	}
	return true;
}

static bool start(int driver_version, bool simulated, char *why, size_t why_size)
{
	char text[64];
	uint32_t version = 0;

	if (!cupti_library_open(driver_version / 1000, simulated, why, why_size))
		return false;
	if (wl_cupti.get_version(&version) != CUPTI_OK || version < CUPTI_VERSION_LEAST) {
		snprintf(why, why_size, "CUPTI's version %u is older than that of CUDA 11.8",
			 version);
		return false;
	}
	snprintf(text, sizeof(text), "%u", version);
	spool_attribute("cupti.version", text);
	cupti_share_begin();
	if (!take_over(why, why_size))
		return false;
	owner = getpid();
	atomic_store_explicit(&state, ON, memory_order_release);
	wl_cupti_on = true;
	atexit(at_exit);
	return true;
}

void wl_cupti_start(int driver_version, bool simulated)
{
	uint32_t off = OFF;
	char why[512];
	int saved = errno, cancel;

	if (wl_settings.gpu != WL_GPU_CUPTI)
		return;
	if (!atomic_compare_exchange_strong(&state, &off, STARTING)) {
		if (owner && owner != getpid())
			spool_attribute("cupti", "not in a forked child");
		return;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (start(driver_version, simulated, why, sizeof(why))) {
		spool_attribute("cupti", "on");
	} else {
		spool_attribute("cupti", why);
		wl_complain("WAYLAY_GPU=cupti: %s; device activity is not recorded", why);
	}
	pthread_setcancelstate(cancel, &cancel);
	errno = saved;
}

/* The driver calls this in cuInit when CUDA_INJECTION64_PATH names this library, perhaps in a job that
 * somebody else started and that has nothing else of ours. The driver must not be asked much in there. */
WL_EXPORT int InitializeInjection(void);
WL_EXPORT int InitializeInjection(void)
{
	CUresult (*version_of)(int *) = (CUresult(*)(int *))cu_helper(CU_HELPER_cuDriverGetVersion);
	int version = 0;

	if (!wl_started() || !version_of || version_of(&version) != CUDA_SUCCESS)
		return 1;
	if (wl_settings.gpu == WL_GPU_NONE)
		wl_settings.gpu = WL_GPU_CUPTI; /* nothing else is to be had by this door */
	wl_recording_begin("cuda");
	if (wl_recording)
		wl_cupti_start(version, false);
	return 1;
}

/* --- which stream is which ------------------------------------------------------------------------------ */

CU_MAP_DEFINE(streams_said, 1024); /* stream, or context and default stream -> spool generation */

static void *context_now(void)
{
	CUresult (*get)(void **) = (CUresult(*)(void **))cu_helper(CU_HELPER_cuCtxGetCurrent);
	void *context = NULL;

	return get && get(&context) == CUDA_SUCCESS ? context : NULL;
}

void wl_cupti_stream(uint64_t stream, bool captured)
{
	uint64_t key = stream, said = 0, now;
	uint32_t number = 0, id = 0;
	void *context = NULL;

	if (captured || !wl_cupti.stream_id || !wl_cupti.context_id)
		return;
	if (stream <= CU_STREAM_PER_THREAD) {
		context = context_now();
		key = (uintptr_t)context ^ (stream ? (uintptr_t)&wl_depth /* of this thread */ : 1);
	}
	if (cu_map_get(&streams_said, key, &said) && said == spool_generation())
		return;
	if (!context)
		context = context_now();
	if (!context || !cupti_active())
		return;
	if (wl_cupti.context_id(context, &id) != CUPTI_OK ||
	    wl_cupti.stream_id(context,
			       (void *)(uintptr_t)(stream == CU_STREAM_PER_THREAD ? 0 : stream),
			       stream == CU_STREAM_PER_THREAD, &number) != CUPTI_OK)
		return;
	now = spool_now();
	if (SPOOL_EMIT(gpu_stream, now, now, 0, .stream = stream,
		       .context_handle = (uintptr_t)context, .context = id, .number = number))
		cu_map_put(&streams_said, key, spool_generation());
}

/* Its handle may come back as another stream. */
void wl_cupti_stream_gone(uint64_t stream)
{
	uint64_t said = 0;

	if (wl_cupti_on && cu_map_get(&streams_said, stream, &said))
		cu_map_put(&streams_said, stream, 0);
}
