/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA back end of device.h. The driver is opened at run time (kernels/cuda.h); reductions are
 * kernels of this project.
 */
#include "collectives/device.h"
#include "collectives/transport.h"
#include "kernels/cuda.h"
#include "kernels/device/coll_args.h"
#include "kernels/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAM_NON_BLOCKING = 1, EVENT_DISABLE_TIMING = 2 };
enum { RESULT_NOT_READY = 600 };
enum { ATTRIBUTE_DMA_BUF = 124, ATTRIBUTE_FLUSH_OPTIONS = 117 };
enum { FLUSH_BY_HOST = 1, FLUSH_THIS_CONTEXT = 0, FLUSH_TO_OWNER = 100 };
enum { POINTER_SYNC_MEMOPS = 6, POINTER_BUFFER_ID = 7 };
enum { HANDLE_DMA_BUF = 1 };

/* Enough blocks for every multiprocessor to have its loads under way. */
#define BLOCKS_PER_SM 2

/* What the collectives need of the driver beyond kernels/cuda.h. MAY entries are younger than the
 * others; without them a feature is missing. */
#define DRIVER_ENTRIES(MUST, MAY)                                                                  \
	MUST(upload_async, "cuMemcpyHtoDAsync_v2",                                                 \
	     (unsigned long long to, const void *from, size_t bytes, struct CUstream_st *stream))  \
	MUST(event_query, "cuEventQuery", (struct CUevent_st * event))                             \
	MUST(pointer_attribute, "cuPointerGetAttribute",                                           \
	     (void *data, int attribute, unsigned long long address))                              \
	MUST(set_attribute, "cuPointerSetAttribute",                                               \
	     (const void *value, int attribute, unsigned long long address))                       \
	MUST(address_range, "cuMemGetAddressRange_v2",                                             \
	     (unsigned long long *base, size_t *bytes, unsigned long long address))                \
	MAY(export_range, "cuMemGetHandleForAddressRange",                                         \
	    (void *handle, unsigned long long address, size_t bytes, int type,                     \
	     unsigned long long flags))                                                            \
	MAY(flush_writes, "cuFlushGPUDirectRDMAWrites", (int target, int scope))

struct driver {
#define ENTRY(name, symbol, params) int(*name) params;
	DRIVER_ENTRIES(ENTRY, ENTRY)
#undef ENTRY
};

struct device_cuda {
	struct coll_device device;
	struct cuda *cuda;
	struct driver driver;
	struct CUmod_st *module;
	struct CUfunc_st *reduce[COLL_TYPE_MAX], *average[COLL_TYPE_MAX];
	struct CUstream_st *lanes[DEVICE_LANE_MAX];
	struct CUevent_st **events; /* by slot */
	unsigned slots;
	int flush_options, dma_buf;
};

static struct device_cuda *self_of(struct coll_device *device)
{
	return (struct device_cuda *)device;
}

static unsigned long long address_of(const void *p)
{
	return (unsigned long long)(uintptr_t)p;
}

/* The words of a failed call of kernels/cuda.h become the device's. */
static int keep_words(struct device_cuda *self, int err)
{
	if (err)
		snprintf(self->device.error, sizeof(self->device.error), "%s", self->cuda->error);
	return err;
}

/* --- memory --------------------------------------------------------------------------------- */

static int cuda_dev_alloc(struct coll_device *device, size_t bytes, void **out)
{
	struct device_cuda *self = self_of(device);
	/* Whole pages, so that it can be exported. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE), words = (bytes + page - 1) / page * page / 4;
	uint64_t at = 0;
	int err = cuda_alloc(self->cuda, words * 4, &at, "a buffer");

	if (!err && words)
		err = cuda_check(self->cuda,
				 self->cuda->api.fill_async(at, 0, words, self->cuda->stream),
				 "clearing %zu bytes of device memory", bytes);
	if (!err)
		err = cuda_wait(self->cuda);
	if (err && at)
		cuda_free(self->cuda, at);
	*out = err ? NULL : (void *)(uintptr_t)at;
	return keep_words(self, err);
}

static void cuda_dev_release(struct coll_device *device, void *memory)
{
	cuda_free(self_of(device)->cuda, address_of(memory));
}

static int cuda_dev_host_alloc(struct coll_device *device, size_t bytes, void **out)
{
	struct device_cuda *self = self_of(device);

	*out = NULL;
	return keep_words(self, cuda_check(self->cuda, self->cuda->api.host_alloc(out, bytes, 0),
					   "pinning %zu bytes of host memory", bytes));
}

static void cuda_dev_host_release(struct coll_device *device, void *memory)
{
	self_of(device)->cuda->api.host_free(memory);
}

/* --- copies --------------------------------------------------------------------------------- */

static int cuda_dev_download(struct coll_device *device, void *to, const void *from, size_t bytes)
{
	struct device_cuda *self = self_of(device);
	int64_t start = tp_now_ns();
	int err = cuda_download(self->cuda, to, address_of(from), bytes);

	device->stats.down_ns += (uint64_t)(tp_now_ns() - start);
	device->stats.down_bytes += bytes;
	device->stats.down_copies++;
	return keep_words(self, err);
}

static int cuda_dev_upload(struct coll_device *device, void *to, const void *from, size_t bytes)
{
	struct device_cuda *self = self_of(device);
	int64_t start = tp_now_ns();
	int err = cuda_upload(self->cuda, address_of(to), from, bytes);

	device->stats.up_ns += (uint64_t)(tp_now_ns() - start);
	device->stats.up_bytes += bytes;
	device->stats.up_copies++;
	return keep_words(self, err);
}

static int cuda_dev_copy(struct coll_device *device, void *to, const void *from, size_t bytes)
{
	struct device_cuda *self = self_of(device);
	int err = cuda_check(self->cuda,
			     self->cuda->api.copy_async(address_of(to), address_of(from), bytes,
							self->cuda->stream),
			     "copying %zu bytes within the device", bytes);

	return keep_words(self, err ? err : cuda_wait(self->cuda));
}

static int cuda_dev_slots(struct coll_device *device, unsigned count)
{
	struct device_cuda *self = self_of(device);
	struct CUevent_st **events = realloc(self->events, count * sizeof(*events));

	if (!events) {
		snprintf(device->error, sizeof(device->error), "no memory for %u copies", count);
		return -ENOMEM;
	}
	self->events = events;
	for (; self->slots < count; self->slots++) {
		int err = cuda_check(
			self->cuda,
			self->cuda->api.event_create(&events[self->slots], EVENT_DISABLE_TIMING),
			"creating an event");

		if (err)
			return keep_words(self, err);
	}
	return 0;
}

static int cuda_dev_start(struct coll_device *device, enum device_lane lane, unsigned slot,
			  void *to, const void *from, size_t bytes)
{
	struct device_cuda *self = self_of(device);
	struct CUstream_st *stream = self->lanes[lane];
	bool down = lane == DEVICE_LANE_DOWN;
	int64_t start = tp_now_ns(), ns;
	int result = down ? self->cuda->api.download_async(to, address_of(from), bytes, stream)
			  : self->driver.upload_async(address_of(to), from, bytes, stream);
	int err;

	ns = tp_now_ns() - start;
	*(down ? &device->stats.down_ns : &device->stats.up_ns) += (uint64_t)ns;
	*(down ? &device->stats.down_bytes : &device->stats.up_bytes) += bytes;
	*(down ? &device->stats.down_copies : &device->stats.up_copies) += 1;
	err = cuda_check(self->cuda, result, "copying %zu bytes %s the device", bytes,
			 down ? "from" : "to");
	if (!err)
		err = cuda_check(self->cuda,
				 self->cuda->api.event_record(self->events[slot], stream),
				 "recording an event");
	return keep_words(self, err);
}

static int cuda_dev_copied(struct coll_device *device, unsigned slot)
{
	struct device_cuda *self = self_of(device);
	int result = self->driver.event_query(self->events[slot]);

	if (!result)
		return 1;
	if (result == RESULT_NOT_READY)
		return 0;
	return keep_words(self, cuda_check(self->cuda, result, "asking whether a copy is done"));
}

/* --- reductions ----------------------------------------------------------------------------- */

static int launch(struct device_cuda *self, struct CUfunc_st *function, const char *name,
		  struct coll_args *args, size_t bytes)
{
	size_t piece = (size_t)COLL_BLOCK * COLL_UNROLL * 16;
	size_t blocks = (bytes + piece - 1) / piece, most = (size_t)self->cuda->sm_count;
	struct cuda_grid grid = {.y = 1, .threads = COLL_BLOCK};
	void *params[] = {args};
	int err;

	most = (most ? most : 1) * BLOCKS_PER_SM;
	grid.x = (unsigned)(blocks < most ? blocks : most);
	err = cuda_launch(self->cuda, function, name, grid, params);
	return keep_words(self, err ? err : cuda_wait(self->cuda));
}

static int cuda_dev_reduce(struct coll_device *device, void *out, const void *a, const void *b,
			   size_t count, enum coll_type type, enum coll_op op)
{
	struct device_cuda *self = self_of(device);
	struct coll_args args = {
		.out = address_of(out), .a = address_of(a), .b = address_of(b), .count = count};

	if (!count)
		return 0;
	args.op = op == COLL_AVG ? COLL_DEVICE_SUM : (unsigned)op;
	device->stats.reductions++;
	device->stats.reduced_bytes += count * coll_type_bytes(type);
	return launch(self, self->reduce[type], "a reduction", &args,
		      count * coll_type_bytes(type));
}

static int cuda_dev_average(struct coll_device *device, void *data, size_t count,
			    enum coll_type type, int ranks)
{
	struct coll_args args = {
		.out = address_of(data), .a = address_of(data), .count = count, .ranks = ranks};

	return count ? launch(self_of(device), self_of(device)->average[type], "an average", &args,
			      count * coll_type_bytes(type))
		     : 0;
}

/* --- for the network ------------------------------------------------------------------------ */

static int cuda_dev_flush(struct coll_device *device)
{
	struct device_cuda *self = self_of(device);
	int64_t start;
	int result;

	/* Where the host cannot flush, a stream's own operations do (or nothing is needed). */
	if (!self->driver.flush_writes || !(self->flush_options & FLUSH_BY_HOST))
		return 0;
	start = tp_now_ns();
	result = self->driver.flush_writes(FLUSH_THIS_CONTEXT, FLUSH_TO_OWNER);
	device->stats.flushes++;
	device->stats.flush_ns += (uint64_t)(tp_now_ns() - start);
	return keep_words(self, cuda_check(self->cuda, result, "flushing what the network wrote"));
}

static int cuda_dev_identify(struct coll_device *device, const void *address,
			     struct device_allocation *out)
{
	struct device_cuda *self = self_of(device);
	unsigned long long base = 0, id = 0;
	size_t bytes = 0;
	int err = cuda_check(
		self->cuda,
		self->driver.pointer_attribute(&id, POINTER_BUFFER_ID, address_of(address)),
		"asking which memory %p is", address);

	if (!err)
		err = cuda_check(self->cuda,
				 self->driver.address_range(&base, &bytes, address_of(address)),
				 "asking what memory holds %p", address);
	*out = (struct device_allocation){.base = base, .bytes = bytes, .id = id};
	return keep_words(self, err);
}

static int cuda_dev_settle(struct coll_device *device, const void *address)
{
	struct device_cuda *self = self_of(device);
	const unsigned on = 1;

	return keep_words(self,
			  cuda_check(self->cuda,
				     self->driver.set_attribute(&on, POINTER_SYNC_MEMOPS,
								address_of(address)),
				     "making copies of the memory at %p synchronous", address));
}

static int cuda_dev_export(struct coll_device *device, const void *address, size_t bytes, int *fd,
			   uint64_t *offset)
{
	struct device_cuda *self = self_of(device);
	struct device_allocation memory;
	uint64_t base, page;
	size_t whole;
	int err = cuda_dev_identify(device, address, &memory);

	*fd = -1;
	if (err)
		return err;
	if (!self->driver.export_range || !self->dma_buf) {
		snprintf(
			device->error, sizeof(device->error),
			"%s: this driver or device exports no memory as a DMA-BUF (CUDA 11.7 and a "
			"kernel with DMA-BUF support do)",
			device->name);
		return -EOPNOTSUPP;
	}
	if (address_of(address) + bytes > memory.base + memory.bytes) {
		snprintf(device->error, sizeof(device->error),
			 "%zu bytes at %p reach beyond their allocation", bytes, address);
		return -EFAULT;
	}
	/* The driver exports whole pages of the host's size; small allocations share one. */
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	base = memory.base & ~(page - 1);
	whole = (size_t)((memory.base + memory.bytes + page - 1 - base) & ~(page - 1));
	*offset = address_of(address) - base;
	err = cuda_check(self->cuda, self->driver.export_range(fd, base, whole, HANDLE_DMA_BUF, 0),
			 "exporting %zu bytes as a DMA-BUF", whole);
	return keep_words(self, err);
}

/* --- opening -------------------------------------------------------------------------------- */

static void cuda_dev_close(struct coll_device *device)
{
	struct device_cuda *self = self_of(device);

	for (unsigned i = 0; i < self->slots; i++)
		self->cuda->api.event_destroy(self->events[i]);
	for (int i = 0; i < DEVICE_LANE_MAX; i++)
		if (self->lanes[i])
			self->cuda->api.stream_destroy(self->lanes[i]);
	if (self->module)
		self->cuda->api.module_unload(self->module);
	cuda_close(self->cuda);
	free(self->events);
	free(self);
}

static const struct device_ops cuda_ops = {
	.alloc = cuda_dev_alloc,
	.release = cuda_dev_release,
	.host_alloc = cuda_dev_host_alloc,
	.host_release = cuda_dev_host_release,
	.download = cuda_dev_download,
	.upload = cuda_dev_upload,
	.copy = cuda_dev_copy,
	.slots = cuda_dev_slots,
	.start = cuda_dev_start,
	.copied = cuda_dev_copied,
	.reduce = cuda_dev_reduce,
	.average = cuda_dev_average,
	.flush = cuda_dev_flush,
	.identify = cuda_dev_identify,
	.settle = cuda_dev_settle,
	.export = cuda_dev_export,
	.close = cuda_dev_close,
};

static int look_up(struct device_cuda *self)
{
	static const struct {
		const char *symbol;
		size_t at; /* of the pointer in struct driver */
		bool must;
	} entries[] = {
#define MUST(name, symbol, params) {symbol, offsetof(struct driver, name), true},
#define MAY(name, symbol, params)  {symbol, offsetof(struct driver, name), false},
		DRIVER_ENTRIES(MUST, MAY)
#undef MUST
#undef MAY
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *found = lib ? dlsym(lib, entries[i].symbol) : NULL;

		if (!found && entries[i].must) {
			snprintf(self->cuda->error, sizeof(self->cuda->error),
				 "libcuda.so.1 has no %s: its driver is too old, update it",
				 entries[i].symbol);
			return -ENOSYS;
		}
		memcpy((char *)&self->driver + entries[i].at, &found, sizeof(found));
	}
	return 0;
}

static int load_kernels(struct device_cuda *self)
{
	static const char *const suffixes[COLL_TYPE_MAX] = {
		[COLL_UINT8] = "u8",    [COLL_INT32] = "i32",     [COLL_INT64] = "i64",
		[COLL_FLOAT16] = "f16", [COLL_BFLOAT16] = "bf16", [COLL_FLOAT32] = "f32",
		[COLL_FLOAT64] = "f64",
	};
	int err = cuda_load(self->cuda, kernels_coll_image, "the collectives", &self->module);

	for (int i = 0; i < COLL_TYPE_MAX && !err; i++) {
		char name[32];

		snprintf(name, sizeof(name), "coll_reduce_%s", suffixes[i]);
		err = cuda_function(self->cuda, self->module, name, &self->reduce[i]);
		snprintf(name, sizeof(name), "coll_average_%s", suffixes[i]);
		if (!err)
			err = cuda_function(self->cuda, self->module, name, &self->average[i]);
	}
	return err;
}

static int open_parts(struct device_cuda *self, int ordinal)
{
	int err = cuda_open(ordinal, &self->cuda);

	err = err ? err : look_up(self);
	err = err ? err : load_kernels(self);
	for (int i = 0; i < DEVICE_LANE_MAX && !err; i++)
		err = cuda_check(
			self->cuda,
			self->cuda->api.stream_create(&self->lanes[i], STREAM_NON_BLOCKING),
			"creating a stream");
	if (err)
		return err;
	/* What the driver does not know of, the device does not have. */
	if (self->cuda->api.device_attribute(&self->flush_options, ATTRIBUTE_FLUSH_OPTIONS,
					     self->cuda->device))
		self->flush_options = 0;
	if (self->cuda->api.device_attribute(&self->dma_buf, ATTRIBUTE_DMA_BUF, self->cuda->device))
		self->dma_buf = 0;
	return 0;
}

int device_open_cuda(int ordinal, struct coll_device **out, char *error)
{
	struct device_cuda *self = calloc(1, sizeof(*self));
	int err = self ? open_parts(self, ordinal) : -ENOMEM;

	*out = NULL;
	if (err) {
		snprintf(error, DEVICE_ERROR_BYTES, "%s",
			 self && self->cuda ? self->cuda->error : "no memory for a device");
		if (self)
			cuda_dev_close(&self->device);
		return err;
	}
	self->device.ops = &cuda_ops;
	self->device.ordinal = ordinal;
	self->device.simulated = strstr(self->cuda->name, "simulated") != NULL;
	snprintf(self->device.name, sizeof(self->device.name), "%s", self->cuda->name);
	*out = &self->device;
	return 0;
}

int device_count_cuda(char *error)
{
	struct cuda *cuda;
	int count = 0, err;

	/* Without a device this fails, and says so. */
	err = cuda_open(0, &cuda);
	if (!err)
		err = cuda_check(cuda, cuda->api.device_count(&count), "counting CUDA devices");
	if (err)
		snprintf(error, DEVICE_ERROR_BYTES, "%s",
			 cuda ? cuda->error : "no memory for a device");
	cuda_close(cuda);
	return err ? err : count;
}
