/* SPDX-License-Identifier: Apache-2.0 */
/* Start of the driver, and what it says about its devices. */
#include "tests/fakecuda/internal.h"

#include <errno.h>
#include <stdio.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Atomic int fc_state = FC_COLD;
struct fc_device fc_devices[FC_MAX_DEVICES];

uint64_t fc_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The simulated device is busy, the processor need not be; only the last stretch is spun. */
void fc_sleep_until_ns(uint64_t deadline)
{
	enum { SPIN_NS = 60000 };
	uint64_t now = fc_now_ns();
	if (now + SPIN_NS < deadline) {
		uint64_t at = deadline - SPIN_NS;
		struct timespec t = {.tv_sec = (time_t)(at / 1000000000u),
				     .tv_nsec = (long)(at % 1000000000u)};
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	}
	while (fc_now_ns() < deadline)
		;
}

/* A child has the parent's memory but none of its worker threads: as with the real driver, it
 * cannot go on. */
static void forked(void)
{
	if (atomic_load(&fc_state) != FC_COLD)
		atomic_store_explicit(&fc_state, FC_FORKED, memory_order_release);
}

CUresult fc_gate_slow(enum fc_entry id)
{
	switch (atomic_load_explicit(&fc_state, memory_order_acquire)) {
	case FC_READY:
		return CUDA_SUCCESS;
	case FC_READY_FAULTS:
		return fc_fault(id);
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

CUresult fc_gate_early(enum fc_entry id)
{
	if (FC_LIKELY(atomic_load_explicit(&fc_state, memory_order_acquire) == FC_READY))
		return CUDA_SUCCESS;
	fc_settings_read();
	return fc_fault(id);
}

static CUresult start(void)
{
	for (int i = 0; i < fc_settings.devices; i++) {
		fc_devices[i].ordinal = i;
		CUresult rc = fc_pools_init(&fc_devices[i]);
		if (rc)
			return rc;
	}
	if (pthread_atfork(NULL, NULL, forked))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Pairs with the acquire in fc_gate. */
	atomic_store_explicit(&fc_state, fc_faults_wanted() ? FC_READY_FAULTS : FC_READY,
			      memory_order_release);
	return CUDA_SUCCESS;
}

/* As the real driver: a tool that the environment names is loaded and told, inside the first cuInit. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *tool = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*initialize)(void) = tool ? (int (*)(void))dlsym(tool, "InitializeInjection") : NULL;
	if (initialize)
		initialize();
}

CUresult do_cuInit(unsigned int flags)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	CUresult rc = CUDA_SUCCESS;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&fc_state) == FC_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	fc_settings_read();
	if (!fc_settings.valid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_settings.devices)
		return CUDA_ERROR_NO_DEVICE;
	pthread_mutex_lock(&lock);
	bool first = atomic_load(&fc_state) == FC_COLD;
	if (first)
		rc = start();
	pthread_mutex_unlock(&lock);
	if (first && !rc)
		inject();
	return rc;
}

CUresult do_cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	fc_settings_read();
	*version = fc_settings.driver_version;
	return CUDA_SUCCESS;
}

struct fc_device *fc_device_get(CUdevice dev)
{
	return dev >= 0 && dev < fc_settings.devices ? &fc_devices[dev] : NULL;
}

CUresult do_cuDeviceGet(CUdevice *dev, int ordinal)
{
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = ordinal;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = fc_settings.devices;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetName(char *name, int len, CUdevice dev)
{
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "Waylay simulated device");
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, "waylay-simulated", sizeof(uuid->bytes));
	uuid->bytes[15] = (char)dev;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = fc_settings.mem_bytes;
	return CUDA_SUCCESS;
}

/* Shaped like a data-centre GPU of compute capability 9.0; what is not listed is 0. */
static const struct {
	short attr;
	int value;
} attributes[] = {
	{1, 1024},      {2, 1024},        {3, 1024},
	{4, 64},        {5, 2147483647},  {6, 65535},
	{7, 65535},     {8, 49152},       {9, 65536},
	{10, 32},       {11, 2147483647}, {12, 65536},
	{13, 1980000},  {14, 512},        {15, 1},
	{16, FC_SMS},   {19, 1},          {31, 1},
	{32, 1},        {36, 3201000},    {37, 6016},
	{38, 62914560}, {39, 2048},       {40, 3},
	{41, 1},        {75, 9},          {76, 0},
	{78, 1},        {79, 1},          {80, 1},
	{81, 233472},   {82, 65536},      {83, 1},
	{87, 2},        {89, 1},          {90, 1},
	{91, 1},        {95, 1},          {97, FC_SHARED_OPTIN},
	{99, 1},        {102, 1},         {103, 1},
	{106, 32},      {111, 1024},      {115, 1},
	{116, 1},       {117, 1},         {118, 100},
	{119, 9},       {124, 1},
};

CUresult do_cuDeviceGetAttribute(int *value, CUdevice_attribute attr, CUdevice dev)
{
	enum { ATTR_LAST = 147, ATTR_PCI_BUS = 33, ATTR_PCI_DEVICE = 34 };
	if (!value || (int)attr < 1 || (int)attr > ATTR_LAST)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	if ((int)attr == ATTR_PCI_DEVICE)
		*value = dev + 1;
	for (size_t i = 0; i < FC_COUNT(attributes); i++)
		if (attributes[i].attr == (int)attr)
			*value = attributes[i].value;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc =
		do_cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
	return rc ? rc
		  : do_cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					    dev);
}

CUresult do_cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
	if (!id || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(id, (size_t)len, "0000:00:%02X.0", dev + 1);
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
	unsigned domain, bus, slot, fn;
	if (!dev || !id)
		return CUDA_ERROR_INVALID_VALUE;
	/* NOLINTNEXTLINE(cert-err34-c): the count and the comparison below check the numbers */
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &fn) != 4 || domain || bus || fn ||
	    !slot || !fc_device_get((CUdevice)slot - 1))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (CUdevice)slot - 1;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(dev) || !fc_device_get(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attr, CUdevice src,
				    CUdevice dst)
{
	if (!value || (int)attr < 1 || (int)attr > 5)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fc_device_get(src) || !fc_device_get(dst) || src == dst)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attr == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
		 attr == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
	return CUDA_SUCCESS;
}

/* Host memory and device memory are one here: remote writes are visible as they are. */
CUresult do_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				       CUflushGPUDirectRDMAWritesScope scope)
{
	struct fc_ctx *ctx;
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	     scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return fc_current(&ctx);
}

CUresult do_cuProfilerStart(void)
{
	return CUDA_SUCCESS;
}

CUresult do_cuProfilerStop(void)
{
	return CUDA_SUCCESS;
}
