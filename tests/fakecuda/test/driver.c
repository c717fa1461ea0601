/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the driver under test, and small helpers around it. */
#include "tests/fakecuda/test/driver.h"

#include <dlfcn.h>
#include <stdio.h>

struct cu cu;
bool on_fake = true;
CUdevice dev;
CUcontext ctx;
CUmodule module;
CUfunction spin_ns, fill_u32, scale_u32;

/* The same kernels as the simulated driver's own, for a device. */
const char test_image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 8 .b8 fake_global[256];\n"
	".visible .entry fake_spin_ns(.param .u64 p0)\n{\n"
	" .reg .u64 %a,%b,%c,%d; .reg .pred %p;\n"
	" ld.param.u64 %a,[p0]; mov.u64 %b,%globaltimer;\n"
	"L: mov.u64 %c,%globaltimer; sub.u64 %d,%c,%b; setp.lt.u64 %p,%d,%a; @%p bra L;\n ret;\n}\n"
	".visible .entry fake_fill_u32(.param .u64 p0,.param .u32 p1,.param .u32 p2)\n{\n"
	" .reg .u64 %a,%o; .reg .u32 %n,%v,%i; .reg .pred %p;\n"
	" ld.param.u64 %a,[p0]; ld.param.u32 %n,[p1]; ld.param.u32 %v,[p2];\n"
	" cvta.to.global.u64 %a,%a; mov.u32 %i,0;\n"
	"L: setp.ge.u32 %p,%i,%n; @%p bra E; mul.wide.u32 %o,%i,4; add.u64 %o,%a,%o;\n"
	" st.global.u32 [%o],%v; add.u32 %i,%i,1; bra L;\nE: ret;\n}\n"
	".visible .entry fake_scale_u32(.param .u64 p0,.param .u32 p1,.param .u32 p2)\n{\n"
	" .reg .u64 %a,%o; .reg .u32 %n,%v,%i,%x; .reg .pred %p;\n"
	" ld.param.u64 %a,[p0]; ld.param.u32 %n,[p1]; ld.param.u32 %v,[p2];\n"
	" cvta.to.global.u64 %a,%a; mov.u32 %i,0;\n"
	"L: setp.ge.u32 %p,%i,%n; @%p bra E; mul.wide.u32 %o,%i,4; add.u64 %o,%a,%o;\n"
	" ld.global.u32 %x,[%o]; mad.lo.u32 %x,%x,%v,%i; st.global.u32 [%o],%x;\n"
	" add.u32 %i,%i,1; bra L;\nE: ret;\n}\n"
	".visible .entry fake_report_launch(.param .u64 p0,.param .u8 p1,.param .u64 p2)\n{\n"
	" .reg .u64 %a,%v; .reg .u32 %x; .reg .u16 %h;\n"
	" ld.param.u64 %a,[p0]; cvta.to.global.u64 %a,%a;\n"
	" mov.u32 %x,%nctaid.x; cvt.u64.u32 %v,%x; st.global.u64 [%a],%v;\n"
	" mov.u32 %x,%nctaid.y; cvt.u64.u32 %v,%x; st.global.u64 [%a+8],%v;\n"
	" mov.u32 %x,%nctaid.z; cvt.u64.u32 %v,%x; st.global.u64 [%a+16],%v;\n"
	" mov.u32 %x,%ntid.x; cvt.u64.u32 %v,%x; st.global.u64 [%a+24],%v;\n"
	" mov.u32 %x,%ntid.y; cvt.u64.u32 %v,%x; st.global.u64 [%a+32],%v;\n"
	" mov.u32 %x,%ntid.z; cvt.u64.u32 %v,%x; st.global.u64 [%a+40],%v;\n"
	" mov.u32 %x,%dynamic_smem_size; cvt.u64.u32 %v,%x; st.global.u64 [%a+48],%v;\n"
	" ld.param.u8 %h,[p1]; cvt.u64.u16 %v,%h; st.global.u64 [%a+56],%v;\n"
	" ld.param.u64 %v,[p2]; st.global.u64 [%a+64],%v;\n ret;\n}\n";

void *driver_library(void)
{
	static void *library;
	const char *path = getenv("FAKECUDA_TEST_DRIVER"), *build = getenv("WAYLAY_BUILD");
	char ours[4096];
	if (library)
		return library;
	on_fake = !path;
	if (!path) {
		snprintf(ours, sizeof(ours), "%s/tests/fakecuda/libcuda.so.1",
			 build ? build : "build/release");
		path = ours;
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "cannot open the driver: %s\n", dlerror());
		exit(2);
	}
	return library;
}

/* As POSIX asks a pointer from dlsym to be read. */
static void find(void *slot, const char *name)
{
	void *fn = dlsym(driver_library(), name);
	if (!fn) {
		fprintf(stderr, "the driver has no %s\n", name);
		exit(2);
	}
	memcpy(slot, &fn, sizeof(fn));
}

void driver_find(void)
{
#define FC_EARLY(sym, base, since, impl, params, args) find(&cu.sym, #sym);
#define FC_PLAIN(sym, base, since, impl, params, args) find(&cu.sym, #sym);
#define FC_PTDS(sym, base, since, impl, params, args)                                              \
	find(&cu.sym, #sym);                                                                       \
	find(&cu.sym##_ptds, #sym "_ptds");
#define FC_PTSZ(sym, base, since, impl, params, args)                                              \
	find(&cu.sym, #sym);                                                                       \
	find(&cu.sym##_ptsz, #sym "_ptsz");
#include "tests/fakecuda/entries.def"
}

void driver_start(void)
{
	if (!cu.cuInit)
		driver_find();
	if (ctx)
		return;
	ok(cu.cuInit(0));
	ok(cu.cuDeviceGet(&dev, 0));
	ok(cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	ok(cu.cuCtxSetCurrent(ctx));
	ok(cu.cuModuleLoadData(&module, test_image));
	ok(cu.cuModuleGetFunction(&spin_ns, module, "fake_spin_ns"));
	ok(cu.cuModuleGetFunction(&fill_u32, module, "fake_fill_u32"));
	ok(cu.cuModuleGetFunction(&scale_u32, module, "fake_scale_u32"));
}

void driver_attach(void)
{
	ok(cu.cuCtxSetCurrent(ctx));
}

void launch_spin(CUstream stream, uint64_t ns)
{
	void *params[] = {&ns};
	ok(cu.cuLaunchKernel(spin_ns, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void launch_fill(CUstream stream, CUdeviceptr ptr, uint32_t n, uint32_t value)
{
	void *params[] = {&ptr, &n, &value};
	ok(cu.cuLaunchKernel(fill_u32, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void launch_scale(CUstream stream, CUdeviceptr ptr, uint32_t n, uint32_t factor)
{
	void *params[] = {&ptr, &n, &factor};
	ok(cu.cuLaunchKernel(scale_u32, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

CUstream stream_new(unsigned flags)
{
	CUstream s;
	ok(cu.cuStreamCreate(&s, flags));
	return s;
}

CUevent event_new(unsigned flags)
{
	CUevent e;
	ok(cu.cuEventCreate(&e, flags));
	return e;
}

CUdeviceptr mem_new(size_t bytes)
{
	CUdeviceptr p;
	ok(cu.cuMemAlloc_v2(&p, bytes));
	return p;
}

void *pinned_new(size_t bytes)
{
	void *p;
	ok(cu.cuMemAllocHost_v2(&p, bytes));
	memset(p, 0, bytes);
	return p;
}

struct gate gate_new(void)
{
	return (struct gate){pinned_new(sizeof(uint32_t))};
}

void gate_free(struct gate *gate)
{
	ok(cu.cuMemFreeHost((void *)gate->word));
}

void gate_close(struct gate *gate, CUstream stream)
{
	atomic_store(gate->word, 0);
	ok(cu.cuStreamWaitValue32_v2(stream, DPTR(gate->word), 1, CU_STREAM_WAIT_VALUE_GEQ));
}

void gate_open(struct gate *gate)
{
	atomic_store(gate->word, 1);
}
