/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the CUDA driver at run time, and the few operations on it that the workloads share. */
#include "kernels/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* CUdevice_attribute */
       ATTRIBUTE_SM_COUNT = 16,
       ATTRIBUTE_MEMORY_KHZ = 36,
       ATTRIBUTE_MEMORY_BITS = 37,
       ATTRIBUTE_MAJOR = 75,
       ATTRIBUTE_MINOR = 76,
       ATTRIBUTE_COOPERATIVE = 95,
       ATTRIBUTE_SHARED_OPTIN = 97,
};
enum {
	RESULT_OUT_OF_MEMORY = 2,
	RESULT_STUB = 34,
	RESULT_NO_DEVICE = 100,
	RESULT_INVALID_DEVICE = 101
};
enum { STREAM_NON_BLOCKING = 1 };
enum { FUNCTION_MAX_DYNAMIC_SHARED = 8 };

int cuda_backend_parse(const char *text, enum cuda_backend *backend)
{
	static const char *const names[CUDA_BACKEND_MAX] = {"auto", "cuda", "cpu"};

	for (unsigned i = 0; i < CUDA_BACKEND_MAX; i++)
		if (!strcmp(text, names[i])) {
			*backend = (enum cuda_backend)i;
			return 0;
		}
	return -EINVAL;
}

static const char *result_text(const struct cuda *cuda, int result)
{
	const char *text = NULL;

	if (cuda->api.error_string && !cuda->api.error_string(result, &text) && text)
		return text;
	return "unknown error";
}

int cuda_check(struct cuda *cuda, int result, const char *doing, ...)
{
	const char *name = NULL;
	va_list args;
	int len;

	if (!result)
		return 0;
	va_start(args, doing);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is right above */
	len = vsnprintf(cuda->error, sizeof(cuda->error), doing, args);
	va_end(args);
	if (cuda->api.error_name)
		(void)cuda->api.error_name(result, &name);
	if (len >= 0 && (size_t)len < sizeof(cuda->error))
		snprintf(cuda->error + len, sizeof(cuda->error) - (size_t)len, ": %s (%s, %d)",
			 result_text(cuda, result), name ? name : "CUDA error", result);
	switch (result) {
	case RESULT_OUT_OF_MEMORY:
		return -ENOMEM;
	case RESULT_STUB:
	case RESULT_NO_DEVICE:
	case RESULT_INVALID_DEVICE:
		return -ENODEV;
	default:
		return -EIO;
	}
}

/* Every entry point, or -ENOSYS with the name of the first that is missing. */
static int look_up(struct cuda *cuda, void *lib)
{
	static const struct {
		const char *symbol, *older;
		size_t at; /* of the pointer in struct cuda_api */
	} entries[] = {
#define ENTRY(name, symbol, older, params) {symbol, older, offsetof(struct cuda_api, name)},
		CUDA_ENTRIES(ENTRY)
#undef ENTRY
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *found = dlsym(lib, entries[i].symbol);

		if (!found && entries[i].older)
			found = dlsym(lib, entries[i].older);
		if (!found) {
			snprintf(
				cuda->error, sizeof(cuda->error),
				"libcuda.so.1 has no %s: its driver is older than CUDA 11.4, update it",
				entries[i].symbol);
			return -ENOSYS;
		}
		memcpy((char *)&cuda->api + entries[i].at, &found, sizeof(found));
	}
	return 0;
}

static int attribute(struct cuda *cuda, int number, int *value)
{
	return cuda_check(cuda, cuda->api.device_attribute(value, number, cuda->device),
			  "asking for attribute %d of CUDA device %d", number, cuda->device);
}

static int describe(struct cuda *cuda)
{
	int khz = 0, bits = 0;
	int err = cuda_check(cuda,
			     cuda->api.device_name(cuda->name, sizeof(cuda->name), cuda->device),
			     "asking for the name of CUDA device %d", cuda->device);

	err = err ? err : attribute(cuda, ATTRIBUTE_SM_COUNT, &cuda->sm_count);
	err = err ? err : attribute(cuda, ATTRIBUTE_MAJOR, &cuda->sm_major);
	err = err ? err : attribute(cuda, ATTRIBUTE_MINOR, &cuda->sm_minor);
	err = err ? err : attribute(cuda, ATTRIBUTE_COOPERATIVE, &cuda->cooperative);
	err = err ? err : attribute(cuda, ATTRIBUTE_SHARED_OPTIN, &cuda->shared_bytes);
	err = err ? err : attribute(cuda, ATTRIBUTE_MEMORY_KHZ, &khz);
	err = err ? err : attribute(cuda, ATTRIBUTE_MEMORY_BITS, &bits);
	cuda->memory_rate = 2e3 * khz * (bits / 8.0); /* two transfers a clock */
	return err;
}

int cuda_open(int ordinal, struct cuda **cuda_ret)
{
	struct cuda *cuda = calloc(1, sizeof(*cuda));
	int count = 0, err;
	void *lib;

	*cuda_ret = cuda;
	if (!cuda)
		return -ENOMEM;
	cuda->device = -1;
	lib = dlopen("libcuda.so.1", RTLD_NOW); /* never closed: a driver does not survive that */
	if (!lib) {
		snprintf(cuda->error, sizeof(cuda->error), "opening the CUDA driver: %s",
			 dlerror());
		return -ENODEV;
	}
	err = look_up(cuda, lib);
	err = err ? err : cuda_check(cuda, cuda->api.init(0), "starting the CUDA driver");
	err = err ? err
		  : cuda_check(cuda, cuda->api.driver_version(&cuda->driver_version),
			       "asking for the driver's version");
	err = err ? err : cuda_check(cuda, cuda->api.device_count(&count), "counting CUDA devices");
	if (!err && (ordinal < 0 || ordinal >= count)) {
		snprintf(cuda->error, sizeof(cuda->error),
			 "there is no CUDA device %d: the driver shows %d", ordinal, count);
		err = -ENODEV;
	}
	err = err ? err
		  : cuda_check(cuda, cuda->api.device_get(&cuda->device, ordinal),
			       "opening CUDA device %d", ordinal);
	err = err ? err : describe(cuda);
	err = err ? err
		  : cuda_check(cuda, cuda->api.primary_retain(&cuda->context, cuda->device),
			       "making a context on CUDA device %d", ordinal);
	err = err ? err
		  : cuda_check(cuda, cuda->api.context_set(cuda->context),
			       "making the context current");
	return err ? err
		   : cuda_check(cuda, cuda->api.stream_create(&cuda->stream, STREAM_NON_BLOCKING),
				"creating a stream");
}

void cuda_close(struct cuda *cuda)
{
	if (!cuda)
		return;
	if (cuda->stream)
		cuda->api.stream_destroy(cuda->stream);
	if (cuda->context)
		cuda->api.primary_release(cuda->device);
	free(cuda);
}

int cuda_alloc(struct cuda *cuda, size_t bytes, uint64_t *address, const char *what)
{
	unsigned long long at = 0;
	int err = bytes ? cuda_check(cuda, cuda->api.mem_alloc(&at, bytes),
				     "allocating %zu bytes of device memory for %s", bytes, what)
			: 0;

	*address = err ? 0 : at;
	return err;
}

void cuda_free(struct cuda *cuda, uint64_t address)
{
	if (address)
		cuda->api.mem_free(address);
}

int cuda_upload(struct cuda *cuda, uint64_t to, const void *from, size_t bytes)
{
	return bytes ? cuda_check(cuda, cuda->api.upload(to, from, bytes),
				  "copying %zu bytes to the device", bytes)
		     : 0;
}

int cuda_download(struct cuda *cuda, void *to, uint64_t from, size_t bytes)
{
	return bytes ? cuda_check(cuda, cuda->api.download(to, from, bytes),
				  "copying %zu bytes from the device", bytes)
		     : 0;
}

int cuda_wait(struct cuda *cuda)
{
	return cuda_check(cuda, cuda->api.stream_synchronize(cuda->stream),
			  "waiting for the device");
}

int cuda_load(struct cuda *cuda, const void *image, const char *what, struct CUmod_st **module)
{
	return cuda_check(cuda, cuda->api.module_load(module, image),
			  "loading the device code of %s on %s (compute capability %d.%d)", what,
			  cuda->name, cuda->sm_major, cuda->sm_minor);
}

int cuda_function(struct cuda *cuda, struct CUmod_st *module, const char *name,
		  struct CUfunc_st **function)
{
	return cuda_check(cuda, cuda->api.module_function(function, module, name),
			  "looking up the kernel %s", name);
}

int cuda_launch(struct cuda *cuda, struct CUfunc_st *function, const char *name,
		struct cuda_grid grid, void **params)
{
	int result = 0;

	if (grid.shared_bytes > 48 * 1024) /* more than every kernel may have unasked */
		result = cuda->api.function_set(function, FUNCTION_MAX_DYNAMIC_SHARED,
						(int)grid.shared_bytes);
	if (!result && grid.cooperative)
		result = cuda->api.launch_cooperative(function, grid.x, grid.y, 1, grid.threads, 1,
						      1, grid.shared_bytes, cuda->stream, params);
	else if (!result)
		result = cuda->api.launch(function, grid.x, grid.y, 1, grid.threads, 1, 1,
					  grid.shared_bytes, cuda->stream, params, NULL);
	return cuda_check(
		cuda, result,
		"launching %s with %u x %u blocks of %u threads and %u bytes of shared memory",
		name, grid.x, grid.y, grid.threads, grid.shared_bytes);
}

/* Milliseconds of one copy within device memory, the middle of a few. */
static int time_copies(struct cuda *cuda, uint64_t memory, size_t half, struct CUevent_st **events,
		       float *ms)
{
	enum { COPIES = 9 };
	float times[COPIES];

	for (int i = -2; i < COPIES; i++) {
		int err = cuda_check(cuda, cuda->api.event_record(events[0], cuda->stream),
				     "recording an event");

		err = err ? err
			  : cuda_check(
				    cuda,
				    cuda->api.copy_async(memory + half, memory, half, cuda->stream),
				    "copying within device memory");
		err = err ? err
			  : cuda_check(cuda, cuda->api.event_record(events[1], cuda->stream),
				       "recording an event");
		err = err ? err : cuda_wait(cuda);
		err = err ? err
			  : cuda_check(cuda, cuda->api.event_elapsed(ms, events[0], events[1]),
				       "reading the time between two events");
		if (err)
			return err;
		if (i < 0)
			continue;
		int at = i;

		for (; at > 0 && times[at - 1] > *ms; at--)
			times[at] = times[at - 1];
		times[at] = *ms;
	}
	*ms = times[COPIES / 2];
	return 0;
}

int cuda_copy_rate(struct cuda *cuda, double *bytes_per_s)
{
	const size_t most = (size_t)1 << 30;
	struct CUevent_st *events[2] = {NULL, NULL};
	size_t free_bytes = 0, total = 0, half = (size_t)1 << 24;
	float ms = 0;
	int err = cuda_check(cuda, cuda->api.mem_info(&free_bytes, &total),
			     "asking how much device memory is free");

	*bytes_per_s = 0;
	/* Its memory is the host's: there is no rate of a device to compare with, and the copies would be
	 * the longest wait of a demonstration. */
	if (strstr(cuda->name, "simulated"))
		return err;
	for (int i = 0; i < 2 && !err; i++)
		err = cuda_check(cuda, cuda->api.event_create(&events[i], 0), "creating an event");
	/* Larger copies until one takes a while, so that a cache cannot hold it; at least half of
	 * the memory stays free. */
	for (;; half *= 4) {
		uint64_t memory;

		err = err ? err : cuda_alloc(cuda, 2 * half, &memory, "measuring copies");
		if (err)
			break;
		err = time_copies(cuda, memory, half, events, &ms);
		cuda_free(cuda, memory);
		if (err || ms > 0.2f || half * 4 > most || half * 16 > free_bytes)
			break;
	}
	if (!err && ms > 0)
		*bytes_per_s = 2.0 * (double)half / ((double)ms * 1e-3);
	for (int i = 0; i < 2; i++)
		if (events[i])
			cuda->api.event_destroy(events[i]);
	return err;
}
