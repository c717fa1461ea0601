/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's driver and recording.
 */
#include "tests/unit/cuda_stand_in.h"

struct record last;
unsigned records, stacks_taken, kinds_asked, capturing_asked;
CUresult driver_status;
int driver_errno, depth_inside;
bool entered_waiting;
uint64_t captured_stream;

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

const char *string(uint32_t id)
{
	return id ? strings[id - 1] : "";
}

char attributes[4096];
void spool_attribute(const char *key, const char *value)
{
	size_t used = strlen(attributes);

	snprintf(attributes + used, sizeof(attributes) - used, "%s=%s\n", key, value);
}

uint32_t spool_generation_slow(void)
{
	return 1;
}

uint32_t wl_stack(enum wl_stack_for use)
{
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

static CUresult real_any(void)
{
	depth_inside = wl_is_inside(&wl_depth.cuda, WL_FRAME);
	assert_int_equal(errno, EDOM); /* the job's, untouched by us */
	errno = driver_errno;
	return driver_status;
}

static CUresult real_attributes(unsigned count, int *which, void **into, CUdeviceptr ptr)
{
	uint64_t base = ptr & 0xf000;

	kinds_asked++;
	errno = ENOMEM; /* what we ask the driver must not change what the job sees */
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
	errno = ENOMEM;
	*flags = stream == STREAM(BLOCKING_STREAM) ? 0 : CU_STREAM_NON_BLOCKING;
	return CUDA_SUCCESS;
}

static CUresult real_capturing(CUstream stream, int *status)
{
	capturing_asked++;
	errno = ENOMEM;
	*status = captured_stream && stream == STREAM(captured_stream);
	return CUDA_SUCCESS;
}

static CUresult real_name(const char **name, CUfunction func)
{
	errno = ENOMEM;
	if (func != (CUfunction)P(NAMED_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*name = "told_by_the_driver";
	return CUDA_SUCCESS;
}

static CUresult real_function_attribute(int *value, int which, uint64_t func)
{
	errno = ENOMEM;
	assert_int_equal(which, 3); /* local size */
	*value = func >= LOCAL_FUNCTIONS ? (int)(func - LOCAL_FUNCTIONS) : 0;
	return CUDA_SUCCESS;
}

static CUresult real_loading_mode(int *mode)
{
	errno = ENOMEM;
	*mode = 2; /* lazy */
	return CUDA_SUCCESS;
}

static CUresult real_nodes(CUgraph graph, void *nodes, size_t *count)
{
	(void)graph;
	errno = ENOMEM;
	assert_null(nodes);
	*count = 13;
	return CUDA_SUCCESS;
}

char first_driver[DRIVER_BYTES], second_driver[DRIVER_BYTES], *driver = first_driver;
bool addresses_only;

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
	if (!strcmp(name, "cuFuncGetAttribute"))
		return real_function_attribute;
	if (!strcmp(name, "cuModuleGetLoadingMode"))
		return real_loading_mode;
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
	return (const char *)address >= driver && (const char *)address < driver + DRIVER_BYTES;
}

void fresh(void)
{
	memset(&last, 0, sizeof(last));
	records = stacks_taken = kinds_asked = 0;
	driver_status = CUDA_SUCCESS;
	driver_errno = EDOM;
	captured_stream = 0;
	errno = EDOM;
}

_Atomic bool wl_cupti_on;

void wl_cupti_start(int driver_version, bool simulated)
{
	(void)driver_version;
	(void)simulated;
}

void wl_cupti_stream(uint64_t stream, bool captured)
{
	(void)stream;
	(void)captured;
}

void wl_cupti_stream_gone(uint64_t stream)
{
	(void)stream;
}
