/* SPDX-License-Identifier: Apache-2.0 */
/* The strict device of coll_device.h. */
#include "tests/unit/coll_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASKED 3 /* times before a copy is done */

struct copy {
	void *to;
	const void *from;
	size_t bytes;
	int left;
};

struct test_device {
	struct coll_device device;
	struct copy *copies;
	bool wants_flush, flushed;
	uint64_t id;
	int live;
};

static struct test_device *self_of(struct coll_device *device)
{
	return (struct test_device *)device;
}

static int test_alloc(struct coll_device *device, size_t bytes, void **out)
{
	*out = calloc(1, bytes);
	self_of(device)->live++;
	return *out ? 0 : -ENOMEM;
}

static void test_release(struct coll_device *device, void *memory)
{
	self_of(device)->live--;
	free(memory);
}

static int test_download(struct coll_device *device, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	device->stats.down_bytes += bytes;
	return 0;
}

static int test_upload(struct coll_device *device, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	device->stats.up_bytes += bytes;
	return 0;
}

static int test_copy(struct coll_device *device, void *to, const void *from, size_t bytes)
{
	(void)device;
	memcpy(to, from, bytes);
	return 0;
}

static int test_slots(struct coll_device *device, unsigned count)
{
	struct test_device *self = self_of(device);

	free(self->copies);
	self->copies = calloc(count, sizeof(*self->copies));
	return self->copies ? 0 : -ENOMEM;
}

static int test_start(struct coll_device *device, enum device_lane lane, unsigned slot, void *to,
		      const void *from, size_t bytes)
{
	struct copy *copy = &self_of(device)->copies[slot];

	if (copy->left) {
		snprintf(device->error, sizeof(device->error), "copy %u is still under way", slot);
		return -EBUSY;
	}
	*copy = (struct copy){to, from, bytes, ASKED};
	*(lane == DEVICE_LANE_DOWN ? &device->stats.down_bytes : &device->stats.up_bytes) += bytes;
	return 0;
}

static int test_copied(struct coll_device *device, unsigned slot)
{
	struct copy *copy = &self_of(device)->copies[slot];

	if (!copy->left || --copy->left)
		return !copy->left;
	memcpy(copy->to, copy->from, copy->bytes);
	return 1;
}

static int test_reduce(struct coll_device *device, void *out, const void *a, const void *b,
		       size_t count, enum coll_type type, enum coll_op op)
{
	struct test_device *self = self_of(device);

	if (self->wants_flush && !self->flushed) {
		snprintf(device->error, sizeof(device->error), "reduces what was not flushed");
		return -EIO;
	}
	self->flushed = false;
	device->stats.reductions++;
	coll_reduce(out, a, b, count, type, op);
	return 0;
}

static int test_average(struct coll_device *device, void *data, size_t count, enum coll_type type,
			int ranks)
{
	(void)device;
	coll_average(data, count, type, ranks);
	return 0;
}

static int test_flush(struct coll_device *device)
{
	self_of(device)->flushed = true;
	device->stats.flushes++;
	return 0;
}

static int test_identify(struct coll_device *device, const void *address,
			 struct device_allocation *out)
{
	*out = (struct device_allocation){.base = (uint64_t)(uintptr_t)address,
					  .id = self_of(device)->id};
	return 0;
}

static int test_settle(struct coll_device *device, const void *address)
{
	(void)device, (void)address;
	return 0;
}

static int test_export(struct coll_device *device, const void *address, size_t bytes, int *fd,
		       uint64_t *offset)
{
	(void)address, (void)bytes, (void)offset;
	*fd = -1;
	snprintf(device->error, sizeof(device->error), "exports nothing");
	return -EOPNOTSUPP;
}

static void test_close(struct coll_device *device)
{
	free(self_of(device)->copies);
	free(device);
}

static const struct device_ops test_ops = {
	.alloc = test_alloc,
	.release = test_release,
	.host_alloc = test_alloc,
	.host_release = test_release,
	.download = test_download,
	.upload = test_upload,
	.copy = test_copy,
	.slots = test_slots,
	.start = test_start,
	.copied = test_copied,
	.reduce = test_reduce,
	.average = test_average,
	.flush = test_flush,
	.identify = test_identify,
	.settle = test_settle,
	.export = test_export,
	.close = test_close,
};

struct coll_device *test_device_new(bool wants_flush)
{
	struct test_device *self = calloc(1, sizeof(*self));

	if (!self)
		return NULL;
	self->device.ops = &test_ops;
	self->wants_flush = wants_flush;
	self->id = 1;
	return &self->device;
}

int test_device_live(const struct coll_device *device)
{
	return ((const struct test_device *)device)->live;
}

void test_device_renumber(struct coll_device *device)
{
	self_of(device)->id++;
}
