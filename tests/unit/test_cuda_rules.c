/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA wrappers over a driver whose every entry just succeeds: what they record, and whether the
 * rules agree with what was measured. The table is that of an NVIDIA H200 (driver 580, CUDA 13.0): each
 * call was timed while a 15 ms kernel ran on a non-blocking stream (N), a blocking one (B) or the
 * legacy default stream (D), and either was held for the kernel or was not.
 */
#include "tracer/inject/cuda/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* The wrappers' exported names, as a program sees them. */
#define CU_DECLARE(symbol, own_stream, kind, params, args, before, after) CUresult symbol params;
#include "tracer/inject/cuda/forms.def"
#define CU_ENTRY(symbol, default_stream, form) FORM_##form(CU_DECLARE, symbol, default_stream)
#include "tracer/inject/cuda/entries.def"

/* --- a driver and a recording --------------------------------------------------------------------- */

static struct {
	uint16_t event;
	uint32_t flags;
	uint64_t begin, end;
	union {
		struct wl_ev_cuda_wait wait;
		struct wl_ev_cuda_poll poll;
		struct wl_ev_cuda_copy copy;
		struct wl_ev_cuda_memset memset;
		struct wl_ev_cuda_launch launch;
		struct wl_ev_cuda_graph graph;
		struct wl_ev_cuda_mem mem;
		struct wl_ev_cuda_order order;
		struct wl_ev_cuda_setup setup;
	};
} last;
static unsigned records, stacks_taken, kinds_asked;
static CUresult driver_status;
static int driver_errno, depth_inside, capturing_asked;
static bool entered_waiting;
static uint64_t captured_stream;

bool wl_recording = true, wl_recorded_once = true;
struct wl_settings wl_settings = {.enabled = true, .cuda = true};
__thread struct wl_depth wl_depth __attribute__((tls_model("initial-exec")));
__thread struct spool_thread *spool_self __attribute__((tls_model("initial-exec")));
enum spool_clock spool_clock_used = SPOOL_CLOCK_MONOTONIC;

bool spool_append_slow(uint16_t event, uint64_t begin, uint64_t end, uint32_t flags,
		       const void *args, size_t args_bytes)
{
	assert_true(args_bytes <= sizeof(last.copy) + sizeof(last.launch));
	records++;
	last.event = event;
	last.begin = begin;
	last.end = end;
	last.flags = flags;
	memcpy(&last.wait, args, args_bytes);
	return true;
}

void spool_enter_slow(uint16_t event, uint32_t api, uint64_t since, uint32_t stack, uint64_t object)
{
	(void)event;
	(void)api;
	(void)since;
	(void)object;
	entered_waiting = stack != 0;
}

static const char *strings[512];
static uint32_t string_count;
uint32_t spool_intern_string(const char *text, size_t length)
{
	for (uint32_t i = 0; i < string_count; i++)
		if (strlen(strings[i]) == length && !memcmp(strings[i], text, length))
			return i + 1;
	strings[string_count++] = text;
	return string_count;
}

static const char *string(uint32_t id)
{
	return id ? strings[id - 1] : "";
}

static char attributes[4096];
void spool_attribute(const char *key, const char *value)
{
	size_t used = strlen(attributes);

	snprintf(attributes + used, sizeof(attributes) - used, "%s=%s\n", key, value);
}

uint32_t spool_generation(void)
{
	return 1;
}

uint32_t wl_stack(enum wl_stack_for use)
{
	errno = ENOMEM;
	if (use == WL_STACK_FOR_OTHER)
		return 0;
	return ++stacks_taken;
}

void wl_recording_begin(const char *why)
{
	assert_string_equal(why, "cuda");
	wl_recording = true;
}

bool wl_recording_again(void)
{
	return wl_recording;
}

/* Addresses say what they are. */
enum {
	PAGEABLE = 0x1000,
	PINNED = 0x2000,
	DEVICE = 0x3000,
	MANAGED = 0x4000,
	OTHER_DEVICE = 0x5000
};
#define P(address)     ((void *)(uintptr_t)(address))
#define STREAM(handle) ((CUstream)(uintptr_t)(handle))
#define EVENT(handle)  ((CUevent)(uintptr_t)(handle))
enum { OTHER_STREAM = 0x70, BLOCKING_STREAM = 0x71, DONE = 0x80, PENDING = 0x81 };

static CUresult real_any(void)
{
	depth_inside = wl_depth.cuda;
	assert_int_equal(errno, EDOM); /* the job's, untouched by us */
	errno = driver_errno;
	return driver_status;
}

static CUresult real_attributes(unsigned count, int *which, void **into, CUdeviceptr ptr)
{
	uint64_t base = ptr & 0xf000;

	kinds_asked++;
	for (unsigned i = 0; i < count; i++) {
		unsigned *value = into[i];

		if (which[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*value = base == MANAGED;
		else if (which[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
			*value = 0;
		else
			*value = base == PAGEABLE ? 0
				 : base == PINNED ? CU_MEMORYTYPE_HOST
						  : CU_MEMORYTYPE_DEVICE;
	}
	return CUDA_SUCCESS;
}

static CUresult real_stream_flags(CUstream stream, unsigned *flags)
{
	*flags = stream == STREAM(BLOCKING_STREAM) ? 0 : CU_STREAM_NON_BLOCKING;
	return CUDA_SUCCESS;
}

static CUresult real_capturing(CUstream stream, int *status)
{
	capturing_asked++;
	*status = captured_stream && stream == STREAM(captured_stream);
	return CUDA_SUCCESS;
}

static CUresult real_name(const char **name, CUfunction func)
{
	if (func != (CUfunction)P(0xf00))
		return CUDA_ERROR_INVALID_HANDLE;
	*name = "told_by_the_driver";
	return CUDA_SUCCESS;
}

static CUresult real_nodes(CUgraph graph, void *nodes, size_t *count)
{
	(void)graph;
	assert_null(nodes);
	*count = 13;
	return CUDA_SUCCESS;
}

/* Two drivers, loaded one after the other; entries without code of their own get an address each. */
static char first_driver[CU_ID_MAX + 64], second_driver[CU_ID_MAX + 64], *driver = first_driver;
static bool addresses_only;

void *wl_symbol_find(const char *soname_prefix, const char *name, const char *version)
{
	assert_string_equal(soname_prefix, "libcuda.so");
	assert_null(version);
	if (!strcmp(name, "cuPointerGetAttributes"))
		return real_attributes;
	if (!strcmp(name, "cuStreamGetFlags"))
		return real_stream_flags;
	if (!strcmp(name, "cuStreamIsCapturing"))
		return real_capturing;
	if (!strcmp(name, "cuFuncGetName"))
		return real_name;
	if (!strcmp(name, "cuGraphGetNodes"))
		return real_nodes;
	for (unsigned id = 0; id < CU_ID_MAX; id++)
		if (!strcmp(name, cu_names[id].text))
			return addresses_only ? (void *)&driver[id] : (void *)real_any;
	return strcmp(name, "cuDeviceGet") ? NULL : &driver[CU_ID_MAX];
}

bool wl_address_in(const void *address, const char *soname_prefix)
{
	(void)soname_prefix;
	return (const char *)address >= driver &&
	       (const char *)address < driver + sizeof(first_driver);
}

static void fresh(void)
{
	memset(&last, 0, sizeof(last));
	records = stacks_taken = kinds_asked = 0;
	driver_status = CUDA_SUCCESS;
	driver_errno = EDOM;
	captured_stream = 0;
	errno = EDOM;
}

/* --- the measured table --------------------------------------------------------------------------- */

enum kernel_on { ON_NON_BLOCKING, ON_BLOCKING, ON_LEGACY };

static uint8_t recorded_rule(uint8_t *cls, uint64_t *stream, uint64_t *object)
{
	*stream = *object = 0;
	*cls = WL_call_class_none;
	switch (last.event) {
	case WL_EV_cuda_wait:
		*cls = last.wait.cls;
		*stream = last.wait.stream;
		*object = last.wait.object;
		return last.wait.rule;
	case WL_EV_cuda_poll:
		*cls = last.poll.cls;
		return last.poll.rule;
	case WL_EV_cuda_copy:
		*cls = last.copy.cls;
		*stream = last.copy.stream;
		return last.copy.rule;
	case WL_EV_cuda_memset:
		*cls = last.memset.cls;
		*stream = last.memset.stream;
		return last.memset.rule;
	case WL_EV_cuda_mem:
		*cls = last.mem.cls;
		return last.mem.rule;
	case WL_EV_cuda_setup:
		*cls = last.setup.cls;
		return last.setup.rule;
	default:
		return WL_rule_none;
	}
}

/* What rules.def says of the recorded rule, applied to the situation that was measured. */
static bool would_hold(uint64_t busy, enum kernel_on on)
{
	bool ordered_with_legacy = on != ON_NON_BLOCKING;
	const char *waits_for;
	uint64_t stream, object;
	uint8_t cls, rule = recorded_rule(&cls, &stream, &object);

	waits_for = wl_rule_info(rule)->waits_for;
	if (cls != WL_call_class_waits)
		return false;
	if (!strcmp(waits_for, "CONTEXT"))
		return true;
	if (!strcmp(waits_for, "EVENT"))
		return object == PENDING;
	if (!strcmp(waits_for, "LEGACY"))
		return ordered_with_legacy;
	if (!strcmp(waits_for, "STREAM"))
		return stream == busy || (stream == 0 && ordered_with_legacy);
	return false;
}

static void agree(const char *call, const char *measured, uint64_t busy, enum kernel_on on)
{
	bool held = measured[on] == '*';

	if (!records)
		fail_msg("%s: nothing was recorded", call);
	if (would_hold(busy, on) != held)
		fail_msg("%s with the kernel on %s: measured %s, by the rule %s", call,
			 on == ON_LEGACY ? "the legacy stream"
					 : (on == ON_BLOCKING ? "a blocking stream"
							      : "a non-blocking stream"),
			 held ? "held" : "not held", held ? "not held" : "held");
	if (errno != EDOM)
		fail_msg("%s: errno was changed to %d", call, errno);
}

/* call, "NBD" (* held, . not), what the runtime does of it */
#define ROW(call, measured, ...)                                                                   \
	do {                                                                                       \
		fresh();                                                                           \
		__VA_ARGS__;                                                                       \
		agree(call, measured, busy, on);                                                   \
	} while (0)

static void rows_of_waits(uint64_t busy, enum kernel_on on)
{
	CUstream b = STREAM(busy), other = STREAM(OTHER_STREAM);

	ROW("cudaDeviceSynchronize", "***", cuCtxSynchronize());
	ROW("cudaDeviceSynchronize (13)", "***", cuCtxSynchronize_v2(NULL));
	ROW("cudaStreamSynchronize(busy)", "***", cuStreamSynchronize(b));
	ROW("cudaStreamSynchronize(other)", "...", cuStreamSynchronize(other));
	ROW("cudaStreamSynchronize(0 legacy)", ".**", cuStreamSynchronize(NULL));
	ROW("cudaEventSynchronize(done)", "...", cuEventSynchronize(EVENT(DONE)));
	ROW("cudaEventRecord+Synchronize(busy)", "***", cuEventSynchronize(EVENT(PENDING)));
	ROW("cudaStreamQuery(busy)", "...", cuStreamQuery(b));
	ROW("cudaEventQuery(pending)", "...", cuEventQuery(EVENT(PENDING)));
	ROW("cudaStreamWaitEvent", "...", cuStreamWaitEvent(other, EVENT(PENDING), 0));
	ROW("cudaLaunchHostFunc(busy)", "...", cuLaunchHostFunc(b, NULL, NULL));
	ROW("kernel launch (warm, other)", "...",
	    cuLaunchKernel((CUfunction)P(0xf00), 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
	ROW("cudaGraphLaunch(other)", "...", cuGraphLaunch((CUgraphExec)P(0x900), other));
	ROW("cudaGraphExecDestroy (launched)", "...", cuGraphExecDestroy((CUgraphExec)P(0x900)));
}

static void rows_of_synchronous_copies(uint64_t busy, enum kernel_on on)
{
	const struct CUDA_MEMCPY2D to_device = {.srcMemoryType = CU_MEMORYTYPE_HOST,
						.srcHost = P(PINNED),
						.dstMemoryType = CU_MEMORYTYPE_DEVICE,
						.dstDevice = DEVICE,
						.WidthInBytes = 61,
						.Height = 7};

	ROW("cudaMemcpy H2D pageable 4B", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 4));
	ROW("cudaMemcpy H2D pageable 64KB", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 65536));
	ROW("cudaMemcpy H2D pageable 64KB+1", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 65537));
	ROW("cudaMemcpy H2D pageable 1MB", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 1 << 20));
	ROW("cudaMemcpy H2D pinned 4B", ".**", cuMemcpyHtoD_v2(DEVICE, P(PINNED), 4));
	ROW("cudaMemcpy H2D pinned 1MB", ".**", cuMemcpyHtoD_v2(DEVICE, P(PINNED), 1 << 20));
	ROW("cudaMemcpy D2H pageable 4B", ".**", cuMemcpyDtoH_v2(P(PAGEABLE), DEVICE, 4));
	ROW("cudaMemcpy D2H pinned 4B", ".**", cuMemcpyDtoH_v2(P(PINNED), DEVICE, 4));
	ROW("cudaMemcpy D2H pinned 1MB", ".**", cuMemcpyDtoH_v2(P(PINNED), DEVICE, 1 << 20));
	ROW("cudaMemcpy D2D 1MB", "...", cuMemcpyDtoD_v2(DEVICE, OTHER_DEVICE, 1 << 20));
	ROW("cudaMemcpy H2H 1MB", ".**", cuMemcpy(PAGEABLE, PAGEABLE, 1 << 20));
	ROW("cudaMemcpy managed->dev 1MB", ".**", cuMemcpy(DEVICE, MANAGED, 1 << 20));
	ROW("cudaMemcpy dev->managed 1MB", ".**", cuMemcpy(MANAGED, DEVICE, 1 << 20));
	ROW("cudaMemcpy2D H2D pinned", ".**", cuMemcpy2D_v2(&to_device));
	assert_int_equal(last.copy.bytes, 61 * 7);
	ROW("cudaMemcpyToSymbol 4B", ".**", cuMemcpyHtoD_v2(DEVICE, P(PAGEABLE), 4));
	ROW("cudaMemcpyFromSymbol 4B", ".**", cuMemcpyDtoH_v2(P(PAGEABLE), DEVICE, 4));
	ROW("cudaMemset dev 1MB", "...", cuMemsetD8_v2(DEVICE, 0, 1 << 20));
	ROW("cudaMemset pinned host 1MB", ".**", cuMemsetD8_v2(PINNED, 0, 1 << 20));
	ROW("cudaMemset managed 1MB", ".**", cuMemsetD8_v2(MANAGED, 0, 1 << 20));
	ROW("cudaMemsetAsync(busy) dev", "...", cuMemsetD8Async(DEVICE, 0, 1 << 20, STREAM(busy)));
}

static void rows_of_asynchronous_copies(uint64_t busy, enum kernel_on on)
{
	CUstream b = STREAM(busy), other = STREAM(OTHER_STREAM);
	size_t mb = 1 << 20, sizes[] = {4, 65536, 65537, mb, 32 * mb};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ROW("Async(other) H2D pageable", "...",
		    cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), sizes[i], other));
		assert_int_equal(last.copy.cls, WL_call_class_stages);
		ROW("Async(busy) H2D pageable", "...",
		    cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), sizes[i], b));
		assert_int_equal(last.copy.cls, WL_call_class_stages);
	}
	ROW("Async(other) H2D pinned 32MB", "...",
	    cuMemcpyHtoDAsync_v2(DEVICE, P(PINNED), 32 * mb, other));
	ROW("Async(other) D2H pageable 4B", "...",
	    cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 4, other));
	ROW("Async(other) D2H pinned 32MB", "...",
	    cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, 32 * mb, other));
	ROW("Async(other) H2H pageable 1MB", "...", cuMemcpyAsync(PAGEABLE, PAGEABLE, mb, other));
	ROW("Async(busy) H2D pinned 4B", "...", cuMemcpyHtoDAsync_v2(DEVICE, P(PINNED), 4, b));
	ROW("Async(busy) H2D pinned 1MB", "...", cuMemcpyHtoDAsync_v2(DEVICE, P(PINNED), mb, b));
	ROW("Async(busy) D2H pageable 4B", "***", cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 4, b));
	ROW("Async(busy) D2H pageable 1MB", "***",
	    cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, mb, b));
	ROW("Async(busy) D2H pinned 4B", "...", cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, 4, b));
	ROW("Async(busy) D2H pinned 1MB", "...", cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, mb, b));
	ROW("Async(busy) D2D 1MB", "...", cuMemcpyDtoDAsync_v2(DEVICE, OTHER_DEVICE, mb, b));
	ROW("Async(busy) H2H pageable 1MB", "***", cuMemcpyAsync(PAGEABLE, PAGEABLE, mb, b));
	ROW("Async(busy) H2H pinned 1MB", "***", cuMemcpyAsync(PINNED, PINNED, mb, b));
	ROW("Async(busy) managed->dev 1MB", "...", cuMemcpyAsync(DEVICE, MANAGED, mb, b));
	ROW("Async(busy) dev->managed 1MB", "...", cuMemcpyAsync(MANAGED, DEVICE, mb, b));
	ROW("Async(busy) ToSymbol 4B pageable", "...",
	    cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), 4, b));
}

static void rows_of_memory(uint64_t busy, enum kernel_on on)
{
	CUdeviceptr memory = 0x3100, pooled = 0x3200;
	CUstream other = STREAM(OTHER_STREAM);
	void *pinned = P(0x2100);

	ROW("cudaMalloc", "...", cuMemAlloc_v2(&memory, 1 << 20));
	ROW("cudaFree", "***", cuMemFree_v2(memory));
	ROW("cudaMallocHost 1MB", "...", cuMemHostAlloc(&pinned, 1 << 20, 0));
	ROW("cudaFreeHost 1MB", "***", cuMemFreeHost(pinned));
	ROW("cudaHostRegister 1MB", "...", cuMemHostRegister_v2(P(0x1100), 1 << 20, 0));
	ROW("cudaHostUnregister 1MB", "***", cuMemHostUnregister(P(0x1100)));
	ROW("cudaMallocManaged 1MB", "...", cuMemAllocManaged(&memory, 1 << 20, 1));
	ROW("cudaFree managed 1MB", "***", cuMemFree_v2(memory));
	ROW("cudaMallocAsync(other) 1MB", "...", cuMemAllocAsync(&pooled, 1 << 20, other));
	ROW("cudaFreeAsync(other)", "...", cuMemFreeAsync(pooled, other));
	cuMemAllocAsync(&pooled, 1 << 20, other);
	ROW("cudaFree of async mem", "...", cuMemFree_v2(pooled));
	ROW("cudaMemPoolTrimTo(0)", "...", cuMemPoolTrimTo(NULL, 0));
	ROW("cudaMemPrefetchAsync(other)", "...", cuMemPrefetchAsync(MANAGED, 1 << 20, 0, other));
}

static void rows_of_setup(uint64_t busy, enum kernel_on on)
{
	const struct CUmemAllocationProp on_device = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUstream stream = STREAM(0x990);
	CUevent event = EVENT(0x991);
	CUmodule module = (CUmodule)P(0x992);
	CUgraphExec exec = (CUgraphExec)P(0x993);
	CUmemhandle handle = 0x994;

	ROW("cudaStreamCreate", "...", cuStreamCreate(&stream, 0));
	ROW("cudaStreamDestroy", "...", cuStreamDestroy_v2(stream));
	ROW("cudaEventCreate", "...", cuEventCreate(&event, 0));
	ROW("cudaEventDestroy pending", "...", cuEventDestroy_v2(event));
	ROW("cudaDeviceSetLimit StackSize", "***", cuCtxSetLimit(0, 4096));
	ROW("cudaDeviceSetLimit PrintfFifo", "...", cuCtxSetLimit(1, 4096));
	ROW("cudaDeviceSetLimit MallocHeap", "...", cuCtxSetLimit(2, 4096));
	ROW("cuModuleLoadData (PTX)", "***", cuModuleLoadData(&module, "x"));
	ROW("cuModuleUnload", "***", cuModuleUnload(module));
	ROW("cudaGraphInstantiate", "...", cuGraphInstantiateWithFlags(&exec, NULL, 0));
	ROW("cuMemCreate 2MB", "...", cuMemCreate(&handle, 2 << 20, &on_device, 0));
	ROW("cuMemMap 2MB", "...", cuMemMap(0x600000, 2 << 20, 0, handle, 0));
	ROW("cuMemSetAccess 2MB", "...", cuMemSetAccess(0x600000, 2 << 20, NULL, 1));
	ROW("cuMemUnmap 2MB", "...", cuMemUnmap(0x600000, 2 << 20));
	ROW("cuMemRelease 2MB", "...", cuMemRelease(handle));
}

/* Not here: rows of calls that are not wrapped (attributes and properties, which were not held), and
 * the first launch of a kernel that needs more local memory than any before it, which was held: the
 * driver alone knows when that happens. */
static void rules_agree_with_what_was_measured(void **state)
{
	static const uint64_t busy[] = {
		[ON_NON_BLOCKING] = 0x72, [ON_BLOCKING] = BLOCKING_STREAM, [ON_LEGACY] = 0};

	(void)state;
	for (int on = ON_NON_BLOCKING; on <= ON_LEGACY; on++) {
		rows_of_waits(busy[on], (enum kernel_on)on);
		rows_of_synchronous_copies(busy[on], (enum kernel_on)on);
		rows_of_asynchronous_copies(busy[on], (enum kernel_on)on);
		rows_of_memory(busy[on], (enum kernel_on)on);
		rows_of_setup(busy[on], (enum kernel_on)on);
	}
}

/* --- what is recorded ----------------------------------------------------------------------------- */

static void streams_are_named_alike(void **state)
{
	(void)state;
	fresh();
	cuStreamSynchronize(STREAM(CU_STREAM_LEGACY));
	assert_int_equal(last.wait.stream, 0);
	assert_int_equal(last.wait.rule, WL_rule_legacy_wait);
	assert_int_equal(last.wait.stream_kind, WL_stream_kind_legacy);
	errno = EDOM;
	cuStreamSynchronize_ptsz(NULL);
	assert_int_equal(last.wait.stream, CU_STREAM_PER_THREAD);
	assert_int_equal(last.wait.rule, WL_rule_stream_wait);
	assert_int_equal(last.wait.stream_kind, WL_stream_kind_per_thread);
	errno = EDOM;
	cuMemcpyDtoH_v2_ptds(P(PAGEABLE), DEVICE, 5);
	assert_int_equal(last.copy.stream, CU_STREAM_PER_THREAD);
	assert_int_equal(last.copy.stream_kind, WL_stream_kind_per_thread);
	assert_string_equal(string(last.copy.api), "cuMemcpyDtoH_v2_ptds");
}

static void waits_and_stages_have_a_stack(void **state)
{
	(void)state;
	fresh();
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.stack, 1);
	assert_true(entered_waiting); /* the in-flight slot had it during the call */
	errno = EDOM;
	cuMemcpyHtoDAsync_v2(DEVICE, P(PAGEABLE), 7, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.stack, 2);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PINNED), DEVICE, 7, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.stack, 0);
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
}

static void a_refused_call_waits_for_nothing(void **state)
{
	(void)state;
	fresh();
	driver_status = CUDA_ERROR_INVALID_HANDLE;
	assert_int_equal(cuStreamSynchronize(STREAM(0xbad)), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(last.wait.status, CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(last.wait.cls, WL_call_class_none);
	fresh();
	driver_status = 700; /* an illegal access of earlier work: it was waited for */
	cuCtxSynchronize();
	assert_int_equal(last.wait.status, 700);
	assert_int_equal(last.wait.cls, WL_call_class_waits);
}

static void nothing_is_read_before_success(void **state)
{
	(void)state;
	fresh();
	driver_status = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(cuMemAlloc_v2(NULL, 17), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuMemcpy3D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuLaunchKernelEx(NULL, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuPointerSetAttribute(NULL, 6, DEVICE), CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuMemcpyBatchAsync_v2(NULL, NULL, NULL, 3, NULL, NULL, 0, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	errno = EDOM;
	assert_int_equal(cuGetProcAddress_v2(NULL, NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(records, 5);
}

static void errno_and_depth(void **state)
{
	(void)state;
	fresh();
	driver_errno = EINTR; /* what the driver leaves behind is what the job sees */
	cuStreamSynchronize(STREAM(OTHER_STREAM));
	assert_int_equal(errno, EINTR);
	assert_int_equal(depth_inside, 1);
	assert_int_equal(wl_depth.cuda, 0);
	fresh();
	wl_depth.cuda = 1; /* inside another call */
	cuStreamSynchronize(STREAM(OTHER_STREAM));
	wl_depth.cuda = 0;
	assert_int_equal(records, 0);
	fresh();
	wl_depth.ofi = 1;
	cuMemcpyDtoD_v2(DEVICE, OTHER_DEVICE, 3);
	wl_depth.ofi = 0;
	assert_int_equal(last.flags, WL_FLAG_IN_PROVIDER);
}

static void kinds_come_from_the_calls_seen(void **state)
{
	void *pinned = P(0x1700); /* the driver would say pageable */
	CUdeviceptr memory = 0x3700;

	(void)state;
	fresh();
	cuMemHostAlloc(&pinned, 4096, 0);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(0x1700 + 4095), DEVICE, 1, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.dst_kind, WL_mem_kind_pinned);
	assert_int_equal(kinds_asked, 0);
	errno = EDOM;
	cuMemFreeHost(pinned);
	assert_int_equal(last.mem.bytes, 4096);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(0x1700), DEVICE, 1, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.dst_kind, WL_mem_kind_pageable);
	assert_int_equal(kinds_asked, 1);
	/* A failed free leaves the memory as it was. */
	errno = EDOM;
	cuMemAllocManaged(&memory, 100, 1);
	fresh();
	driver_status = CUDA_ERROR_INVALID_CONTEXT;
	cuMemFree_v2(memory);
	fresh();
	cuMemcpy(DEVICE, memory + 99, 1);
	assert_int_equal(last.copy.src_kind, WL_mem_kind_managed);
	errno = EDOM;
	cuMemFree_v2(memory);
	errno = EDOM;
	cuMemFree_v2(0);
	assert_int_equal(last.mem.cls, WL_call_class_none);
}

static void sync_memops(void **state)
{
	CUdeviceptr memory = 0x3900;
	unsigned on = 1, off = 0;

	(void)state;
	fresh();
	cuMemAlloc_v2(&memory, 256);
	errno = EDOM;
	cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory);
	assert_int_equal(last.mem.rule, WL_rule_sync_memops);
	assert_int_equal(last.mem.cls, WL_call_class_waits);
	errno = EDOM;
	cuMemcpyDtoD_v2(memory + 100, OTHER_DEVICE, 11);
	assert_int_equal(last.copy.rule, WL_rule_copy_sync_memops);
	errno = EDOM;
	cuMemcpyDtoDAsync_v2(memory, OTHER_DEVICE, 11, NULL);
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
	errno = EDOM;
	cuMemsetD32_v2(memory, 0, 11);
	assert_int_equal(last.memset.rule, WL_rule_copy_sync_memops);
	assert_int_equal(last.memset.bytes, 44);
	errno = EDOM;
	cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory);
	assert_int_equal(last.mem.cls, WL_call_class_none);
	errno = EDOM;
	cuMemcpyDtoD_v2(memory, OTHER_DEVICE, 11);
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
	errno = EDOM;
	cuMemFree_v2(memory);
}

static void captured_work_is_marked(void **state)
{
	CUgraph graph = (CUgraph)P(0x123);
	CUstream stream = STREAM(OTHER_STREAM);

	(void)state;
	fresh();
	capturing_asked = 0;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, stream);
	assert_int_equal(capturing_asked, 0); /* nothing is being captured anywhere */
	errno = EDOM;
	cuStreamBeginCapture_v2(stream, 0);
	captured_stream = OTHER_STREAM;
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, stream);
	assert_int_equal(last.flags, WL_FLAG_CAPTURED);
	assert_int_equal(last.copy.cls, WL_call_class_none);
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, STREAM(BLOCKING_STREAM));
	assert_int_equal(last.flags, 0);
	assert_int_equal(last.copy.cls, WL_call_class_waits);
	errno = EDOM;
	cuLaunchKernel((CUfunction)P(0xf00), 2, 3, 5, 7, 11, 13, 17, stream, NULL, NULL);
	assert_int_equal(last.flags, WL_FLAG_CAPTURED);
	errno = EDOM;
	cuStreamEndCapture(stream, &graph);
	assert_int_equal(last.graph.nodes, 13);
	capturing_asked = 0;
	errno = EDOM;
	cuMemcpyDtoHAsync_v2(P(PAGEABLE), DEVICE, 7, stream);
	assert_int_equal(capturing_asked, 0);
}

static void batches_are_as_bad_as_their_worst(void **state)
{
	CUdeviceptr dsts[] = {DEVICE, PAGEABLE, DEVICE}, srcs[] = {PAGEABLE, DEVICE, PINNED};
	size_t sizes[] = {3, 5, 7};

	(void)state;
	fresh();
	cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, NULL, NULL, 0, STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.rule, WL_rule_async_to_pageable);
	assert_int_equal(last.copy.dst, PAGEABLE);
	assert_int_equal(last.copy.bytes, 15);
	assert_int_equal(last.copy.stack, 1);
	fresh();
	cuMemcpyBatchAsync_v2(dsts + 2, srcs + 2, sizes + 2, 1, NULL, NULL, 0,
			      STREAM(OTHER_STREAM));
	assert_int_equal(last.copy.cls, WL_call_class_device_only);
	assert_int_equal(last.copy.stack, 0);
}

static void kernels_have_names(void **state)
{
	const struct CUlaunchConfig how = {
		.gridDimX = 19, .blockDimX = 23, .hStream = STREAM(0x70)};
	CUfunction func = (CUfunction)P(0xf13);

	(void)state;
	fresh();
	cuLaunchKernel((CUfunction)P(0xf00), 2, 3, 5, 7, 11, 13, 17, NULL, NULL, NULL);
	assert_string_equal(string(last.launch.kernel), "told_by_the_driver");
	assert_int_equal(last.launch.block_z, 13);
	errno = EDOM;
	cuModuleGetFunction(&func, NULL, "asked_by_name");
	errno = EDOM;
	cuLaunchKernelEx(&how, func, NULL, NULL);
	assert_string_equal(string(last.launch.kernel), "asked_by_name");
	assert_int_equal(last.launch.grid_x, 19);
	assert_int_equal(last.launch.stream, 0x70);
	errno = EDOM;
	cuModuleUnload(NULL); /* the handle may now be another's */
	errno = EDOM;
	cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	assert_int_equal(last.launch.kernel, 0);
}

/* --- polls ---------------------------------------------------------------------------------------- */

static void queries(unsigned not_ready, CUresult then)
{
	for (unsigned i = 0; i < not_ready; i++) {
		driver_status = CUDA_ERROR_NOT_READY;
		errno = EDOM;
		cuEventQuery(EVENT(PENDING));
	}
	driver_status = then;
	errno = EDOM;
	cuEventQuery(EVENT(PENDING));
}

static void a_loop_of_queries_is_one_wait(void **state)
{
	(void)state;
	fresh();
	queries(0, CUDA_SUCCESS);
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.polls, 1);
	assert_int_equal(last.poll.cls, WL_call_class_polls);
	fresh();
	queries(1, CUDA_SUCCESS);
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.polls, 2);
	assert_int_equal(last.poll.cls, WL_call_class_polls);
	assert_int_equal(last.poll.stack, 0);
	fresh();
	queries(101, CUDA_SUCCESS);
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.polls, 102);
	assert_int_equal(last.poll.rule, WL_rule_query_loop);
	assert_int_equal(last.poll.cls, WL_call_class_waits);
	assert_int_equal(last.poll.stack, 1);
	assert_int_equal(errno, EDOM);
}

static void another_call_ends_a_run(void **state)
{
	(void)state;
	fresh();
	queries(6, CUDA_ERROR_NOT_READY);
	assert_int_equal(records, 0);
	driver_status = CUDA_SUCCESS;
	errno = EDOM;
	cuStreamQuery(STREAM(OTHER_STREAM));
	assert_int_equal(records, 2); /* the run that ended, and this one */
	assert_int_equal(last.poll.object, OTHER_STREAM);
	fresh();
	queries(2, CUDA_ERROR_NOT_READY);
	driver_status = CUDA_SUCCESS;
	errno = EDOM;
	cuCtxSynchronize();
	assert_int_equal(records, 2);
	assert_int_equal(last.event, WL_EV_cuda_wait);
	fresh();
	queries(3, 719); /* the work failed: the loop ends, and nothing was waited for in vain */
	assert_int_equal(records, 1);
	assert_int_equal(last.poll.status, 719);
	assert_int_equal(last.poll.polls, 4);
	assert_int_equal(last.poll.cls, WL_call_class_polls);
}

/* --- pointers ------------------------------------------------------------------------------------- */

static CUresult (*found_cuInit)(unsigned);

static void replaced_by_address(void **state)
{
	void *(*replace)(const char *, const char *, void *, void *) = wl_domain_cuda.replace;
	void *real;

	(void)state;
	addresses_only = true;
	real = &driver[CU_ID_cuMemFree_v2];
	assert_ptr_equal(replace("cuMemFree_v2", NULL, real, NULL),
			 cu_wrappers[CU_ID_cuMemFree_v2]);
	/* Asked by the plain name, as cuGetProcAddress is: still the one that is there. */
	assert_ptr_equal(replace("cuMemFree", NULL, real, NULL), cu_wrappers[CU_ID_cuMemFree_v2]);
	/* Another address under a name that we know: not ours to replace. */
	real = &driver[CU_ID_MAX + 7];
	assert_ptr_equal(replace("cuMemcpyHtoDAsync", NULL, real, NULL), real);
	assert_ptr_equal(replace("cuMemcpyHtoDAsync", NULL, real, NULL), real);
	assert_non_null(strstr(attributes, "cuda.unknown-entry=cuMemcpyHtoDAsync\n"));
	assert_null(strstr(strstr(attributes, "cuMemcpyHtoDAsync") + 1, "cuMemcpyHtoDAsync"));
	/* Known and left alone: said nowhere. */
	real = &driver[CU_ID_MAX];
	assert_ptr_equal(replace("cuDeviceGet", NULL, real, NULL), real);
	assert_null(strstr(attributes, "cuDeviceGet\n"));
	/* Not in the driver at all. */
	assert_ptr_equal(replace("cuInit", NULL, (void *)&found_cuInit, NULL),
			 (void *)&found_cuInit);
	/* The driver was unloaded and loaded elsewhere. */
	driver = second_driver;
	real = &driver[CU_ID_cuInit];
	assert_ptr_equal(replace("cuInit", NULL, real, NULL), cu_wrappers[CU_ID_cuInit]);
	real = &driver[CU_ID_cuLaunchKernel];
	assert_ptr_equal(replace("cuLaunchKernel", NULL, real, NULL),
			 cu_wrappers[CU_ID_cuLaunchKernel]);
	addresses_only = false;
}

static CUresult real_lookup(const char *name, void **found)
{
	(void)name;
	*found = (void *)atomic_load(&cu_reals[CU_ID_cuStreamQuery_ptsz]);
	return CUDA_SUCCESS;
}

static void replaced_in_lookups(void **state)
{
	void *found = NULL;
	int outcome = 4711;

	(void)state;
	addresses_only = true;
	wl_depth.cuda = 1; /* inside cuInit, another tool looks for what it will call later */
	atomic_store(&cu_reals[CU_ID_cuGetProcAddress_v2], (void *)real_lookup);
	assert_int_equal(cuGetProcAddress_v2("cuStreamQuery", &found, 12000, 2, &outcome),
			 CUDA_SUCCESS);
	wl_depth.cuda = 0;
	assert_ptr_equal(found, cu_wrappers[CU_ID_cuStreamQuery_ptsz]);
	assert_int_equal(outcome, 4711);
	wl_settings.cuda = false;
	assert_int_equal(cuGetProcAddress_v2("cuStreamQuery", &found, 12000, 2, &outcome),
			 CUDA_SUCCESS);
	wl_settings.cuda = true;
	assert_ptr_equal(found, (void *)atomic_load(&cu_reals[CU_ID_cuStreamQuery_ptsz]));
	addresses_only = false;
}

/* --- ranges --------------------------------------------------------------------------------------- */

/* Against a plain byte map: 499 operations on 211 addresses. */
static void ranges_like_a_byte_map(void **state)
{
	enum { BASE = 0x100000, SPAN = 211 };
	uint8_t map[SPAN] = {0};
	uint32_t random = 7;
	struct cu_range range;

	(void)state;
	cu_range_cut(BASE, SPAN);
	for (int round = 0; round < 499; round++) {
		unsigned at, bytes, kind;

		random = random * 1664525u + 1013904223u;
		at = (random >> 8) % SPAN;
		bytes = 1 + (random >> 20) % 17;
		kind = 1 + round % 4;
		if (at + bytes > SPAN)
			bytes = SPAN - at;
		/* What overlaps is forgotten whole. */
		for (unsigned i = 0; i < bytes; i++)
			if (cu_range_find(BASE + at + i, &range))
				memset(map + (range.start - BASE), 0, range.bytes);
		if (round % 3) {
			cu_range_add(BASE + at, bytes, (uint8_t)kind, 0);
			memset(map + at, (int)kind, bytes);
		} else {
			cu_range_cut(BASE + at, bytes);
		}
		for (unsigned i = 0; i < SPAN; i++) {
			bool found = cu_range_find(BASE + i, &range);

			assert_int_equal(found ? range.kind : 0, map[i]);
		}
	}
	cu_range_cut(BASE, SPAN);
	assert_false(cu_range_find(BASE + 1, &range));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_agree_with_what_was_measured),
		cmocka_unit_test(streams_are_named_alike),
		cmocka_unit_test(waits_and_stages_have_a_stack),
		cmocka_unit_test(a_refused_call_waits_for_nothing),
		cmocka_unit_test(nothing_is_read_before_success),
		cmocka_unit_test(errno_and_depth),
		cmocka_unit_test(kinds_come_from_the_calls_seen),
		cmocka_unit_test(sync_memops),
		cmocka_unit_test(captured_work_is_marked),
		cmocka_unit_test(batches_are_as_bad_as_their_worst),
		cmocka_unit_test(kernels_have_names),
		cmocka_unit_test(a_loop_of_queries_is_one_wait),
		cmocka_unit_test(another_call_ends_a_run),
		cmocka_unit_test(ranges_like_a_byte_map),
		cmocka_unit_test(replaced_by_address),
		cmocka_unit_test(replaced_in_lookups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
