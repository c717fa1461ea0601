/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our device code needs of a GPU, for nvcc, for clang without any CUDA header, and for an
 * emulation on the CPU.
 *
 * Device files are C: no templates, no references, no headers beyond these. Shared memory is always
 * the dynamic block (dev_shared()), so that the emulation can give each thread block its own.
 */
#ifndef WAYLAY_KERNELS_DEVICE_H
#define WAYLAY_KERNELS_DEVICE_H

typedef unsigned u32;
typedef unsigned long long u64;

/* 16 bytes that move with one instruction. */
struct __attribute__((aligned(16))) dev_v4 {
	u32 x, y, z, w;
};
struct __attribute__((aligned(8))) dev_v2 {
	u32 x, y;
};

#ifdef DEVICE_EMULATION
#include DEVICE_EMULATION
#else

#if defined(__clang__) && defined(__CUDA__)
#define __device__             __attribute__((device))
#define __global__             __attribute__((global))
#define __shared__             __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define DEV_TID       __nvvm_read_ptx_sreg_tid_x()
#define DEV_NTID      __nvvm_read_ptx_sreg_ntid_x()
#define DEV_BLOCK_X   __nvvm_read_ptx_sreg_ctaid_x()
#define DEV_BLOCK_Y   __nvvm_read_ptx_sreg_ctaid_y()
#define DEV_BLOCKS_X  __nvvm_read_ptx_sreg_nctaid_x()
#define DEV_POPC(v)   ((u32)__builtin_popcount(v))
#define DEV_CTZ(v)    ((u32)__builtin_ctz(v))
#define DEV_CLZ(v)    ((v) ? (u32)__builtin_clz(v) : 32u)
#define DEV_SYNC()    __nvvm_bar_sync(0)
#define DEV_ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define DEV_OR(p, v)  __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define DEV_STREAM    "ld.global.nc." /* clang's PTX version may lack the cache hint */
#else
#define DEV_TID         threadIdx.x
#define DEV_NTID        blockDim.x
#define DEV_BLOCK_X     blockIdx.x
#define DEV_BLOCK_Y     blockIdx.y
#define DEV_BLOCKS_X    gridDim.x
#define DEV_POPC(v)     ((u32)__popc(v))
#define DEV_CTZ(v)      ((u32)__ffs((int)(v)) - 1)
#define DEV_CLZ(v)      ((u32)__clz((int)(v)))
#define DEV_SYNC()      __syncthreads()
#define DEV_ADD(p, v)   atomicAdd((p), (v))
#define DEV_OR(p, v)    atomicOr((p), (v))
#define DEV_BALLOT(yes) __ballot_sync(0xffffffffu, yes)
#define DEV_STREAM      "ld.global.nc.L1::no_allocate."
#endif

#define DEV_UNROLL _Pragma("unroll")
#define DEV_FN     static __device__ __attribute__((always_inline)) inline
#define DEV_COLD                                                                                   \
	static __device__ __attribute__((                                                          \
		noinline)) /* rare, and best kept out of the hot code's registers */
/* DEV_KERNEL(threads, name)(parameters) { ... }; with DEV_KERNEL_OF as many blocks a multiprocessor as
 * `blocks` have room, whatever registers it costs. */
#define DEV_KERNEL_OF(threads, blocks, name)                                                       \
	extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define DEV_KERNEL(threads, name) extern "C" __global__ void __launch_bounds__(threads) name
#define DEV_PARAM                 const __grid_constant__
#define DEV_LANE                  (DEV_TID & 31u)

extern __shared__ __attribute__((aligned(16))) unsigned char dev_shared_block[];
DEV_FN void *dev_shared(void)
{
	return dev_shared_block;
}

DEV_FN void dev_warp_sync(void)
{
	asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/* The lanes whose value is the calling lane's. */
DEV_FN u32 dev_match(u32 v)
{
	u32 lanes;

	asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(lanes) : "r"(v));
	return lanes;
}

#ifdef DEV_BALLOT /* the compiler's own takes the predicate where it is */
DEV_FN u32 dev_ballot(int yes)
{
	return DEV_BALLOT(yes);
}
#else
DEV_FN u32 dev_ballot(int yes)
{
	u32 bits;

	asm volatile(
		"{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
		: "=r"(bits)
		: "r"(yes));
	return bits;
}
#endif

DEV_FN u32 dev_shfl(u32 v, u32 lane)
{
	u32 r;

	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(v), "r"(lane));
	return r;
}

/* The value of the lane `by` below; a lane with none below gets its own. */
DEV_FN u32 dev_shfl_up(u32 v, u32 by)
{
	u32 r;

	asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(r) : "r"(v), "r"(by));
	return r;
}

/* Device-wide loads and stores that order what stands around them, for flags between thread blocks.
 */
DEV_FN u32 dev_load_acquire(const u32 *p)
{
	u32 v;

	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

DEV_FN void dev_store_release(u32 *p, u32 v)
{
	asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

/* The same without any order: for words that say all by themselves. */
DEV_FN u32 dev_load_relaxed(const u32 *p)
{
	u32 v;

	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

DEV_FN void dev_store_relaxed(u32 *p, u32 v)
{
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

DEV_FN u32 dev_add_acq_rel(u32 *p, u32 v)
{
	u32 old;

	asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
		     : "=r"(old)
		     : "l"(p), "r"(v)
		     : "memory");
	return old;
}

/* Called in a loop that waits for another thread block. */
DEV_FN void dev_pause(void)
{
}

DEV_FN float dev_sqrt(float v)
{
	float r;

	asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
	return r;
}

DEV_FN u64 dev_load_u64(const u64 *p)
{
	u64 v;

	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

/* Read once: kept out of the first-level cache. The memory must not change during the kernel. */
DEV_FN u64 dev_stream_u64(const u64 *p)
{
	u64 v;

	asm volatile(DEV_STREAM "u64 %0, [%1];" : "=l"(v) : "l"(p));
	return v;
}

DEV_FN u32 dev_stream_u32(const u32 *p)
{
	u32 v;

	asm volatile(DEV_STREAM "u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

DEV_FN u32 dev_stream_u8(const unsigned char *p)
{
	u32 v;

	asm volatile(DEV_STREAM "u8 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

/*
 * Rows and results that pass once: first to leave the caches, so that what will be needed again
 * stays.
 */
DEV_FN struct dev_v4 dev_pass_v4(const struct dev_v4 *p)
{
	struct dev_v4 v;

	asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(p));
	return v;
}

DEV_FN void dev_put_v4(struct dev_v4 *p, struct dev_v4 v)
{
	asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y),
		     "r"(v.z), "r"(v.w)
		     : "memory");
}

DEV_FN void dev_put_u64(u64 *p, u64 v)
{
	asm volatile("st.global.cs.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Memory that no one writes during the kernel. A group of these stays together, as one of loads that
 * are made on a condition does not. */
DEV_FN struct dev_v4 dev_read_v4(const void *p)
{
	struct dev_v4 v;

	asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(p));
	return v;
}

/* A load that is made only if `ok`, else zeros. Memory that no one writes during the kernel. */
DEV_FN struct dev_v4 dev_fetch_v4(const void *p, int ok)
{
	struct dev_v4 v = {0, 0, 0, 0};

	asm volatile("{ .reg .pred q; setp.ne.s32 q, %5, 0;\n"
		     "@q ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
		     : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
		     : "l"(p), "r"(ok));
	return v;
}

DEV_FN struct dev_v2 dev_fetch_v2(const void *p, int ok)
{
	struct dev_v2 v = {0, 0};

	asm volatile("{ .reg .pred q; setp.ne.s32 q, %3, 0;\n"
		     "@q ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
		     : "+r"(v.x), "+r"(v.y)
		     : "l"(p), "r"(ok));
	return v;
}

/* The same of memory that this thread will write. */
DEV_FN struct dev_v4 dev_take_v4(const void *p, int ok)
{
	struct dev_v4 v = {0, 0, 0, 0};

	asm volatile("{ .reg .pred q; setp.ne.s32 q, %5, 0;\n"
		     "@q ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
		     : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
		     : "l"(p), "r"(ok)
		     : "memory");
	return v;
}

DEV_FN struct dev_v2 dev_take_v2(const void *p, int ok)
{
	struct dev_v2 v = {0, 0};

	asm volatile("{ .reg .pred q; setp.ne.s32 q, %3, 0;\n"
		     "@q ld.global.cs.v2.u32 {%0, %1}, [%2]; }"
		     : "+r"(v.x), "+r"(v.y)
		     : "l"(p), "r"(ok)
		     : "memory");
	return v;
}

/*
 * Copies to shared memory that go on while the thread does other things: 16 or 8 bytes, or zeros
 * where not `ok`. Copies up to a dev_copy_group() are a group; dev_copy_wait(n) waits until all but
 * the last n groups of this thread are there, for this thread to read.
 */
DEV_FN u32 dev_shared_address(const void *p)
{
	u32 address;

	asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }"
	    : "=r"(address)
	    : "l"(p));
	return address;
}

DEV_FN void dev_copy_16(void *to, const void *from, int ok)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dev_shared_address(to)),
		     "l"(from), "r"(ok ? 16 : 0)
		     : "memory");
}

DEV_FN void dev_copy_8(void *to, const void *from, int ok)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dev_shared_address(to)),
		     "l"(from), "r"(ok ? 8 : 0)
		     : "memory");
}

DEV_FN void dev_copy_group(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

#define dev_copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

DEV_FN void dev_put_v2(struct dev_v2 *p, struct dev_v2 v)
{
	asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}

DEV_FN u32 dev_shfl_xor(u32 v, u32 mask)
{
	u32 r;

	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
		     : "=r"(r)
		     : "r"(v), "r"(mask));
	return r;
}

DEV_FN float dev_from_f16(u32 bits)
{
	float v;

	asm("{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h; }" : "=f"(v) : "r"(bits));
	return v;
}

/* Both halves of a word. */
DEV_FN void dev_from_f16_pair(u32 word, float *low, float *high)
{
	asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
	    : "=f"(*low), "=f"(*high)
	    : "r"(word));
}

/* Round to even. */
DEV_FN u32 dev_to_f16_pair(float low, float high)
{
	u32 word;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
	return word;
}

DEV_FN u32 dev_to_f16(float v)
{
	u32 bits;

	asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(bits) : "f"(v));
	return bits;
}

/*
 * d += a times b on the tensor cores: 16 x 16 by 16 x 8 elements of 16 bits (bf16 or FP16), two a
 * register, over the whole warp. Lane 4 g + t has of a the rows g, g + 8, g, g + 8 at columns 2 t,
 * 2 t, 2 t + 8, 2 t + 8; of b column g at rows 2 t and 2 t + 8; of d row g, then g + 8, at columns
 * 2 t and 2 t + 1. Products are exact.
 */
#define DEV_MMA(type)                                                                              \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                        \
		     ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"        \
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y))
DEV_FN void dev_mma(int bf16, float *d, const u32 *a, struct dev_v2 b)
{
	if (bf16)
		DEV_MMA("bf16");
	else
		DEV_MMA("f16");
}

/* Correctly rounded square root and quotient, whatever the compiler's settings. */
DEV_FN float dev_root(float v)
{
	float r;

	asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(v));
	return r;
}

DEV_FN float dev_quotient(float a, float b)
{
	float r;

	asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}

DEV_FN float dev_fma(float a, float b, float c)
{
	float r;

	asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
	return r;
}

DEV_FN void dev_min_u64(u64 *p, u64 v)
{
	asm volatile("red.relaxed.gpu.global.min.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Nanoseconds that pass while the thread does nothing, at least; not exact. */
DEV_FN void dev_sleep_ns(u64 ns)
{
	u64 from, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - from < ns);
}

#endif /* DEVICE_EMULATION */

DEV_FN float dev_float(u32 bits)
{
	union {
		u32 bits;
		float value;
	} both;

	both.bits = bits;
	return both.value;
}

DEV_FN u32 dev_bits(float value)
{
	union {
		u32 bits;
		float value;
	} both;

	both.value = value;
	return both.bits;
}

DEV_FN float dev_shfl_float(float v, u32 lane)
{
	return dev_float(dev_shfl(dev_bits(v), lane));
}

DEV_FN u64 dev_shfl_u64(u64 v, u32 lane)
{
	u32 low = dev_shfl((u32)v, lane), high = dev_shfl((u32)(v >> 32), lane);

	return (u64)high << 32 | low;
}

DEV_FN double dev_shfl_xor_double(double v, u32 mask)
{
	union {
		u32 half[2];
		double value;
	} both;

	both.value = v;
	both.half[0] = dev_shfl_xor(both.half[0], mask);
	both.half[1] = dev_shfl_xor(both.half[1], mask);
	return both.value;
}

/* The sum over the warp, in every lane, always in the same order. */
DEV_FN float dev_warp_sum(float v)
{
	for (u32 mask = 16; mask; mask /= 2)
		v += dev_float(dev_shfl_xor(dev_bits(v), mask));
	return v;
}

/* Inclusive sum over the warp's lanes. */
DEV_FN u32 dev_warp_scan(u32 v, u32 lane)
{
	for (u32 by = 1; by < 32; by *= 2) {
		u32 below = dev_shfl_up(v, by);

		if (lane >= by)
			v += below;
	}
	return v;
}

/*
 * Exclusive sum over the thread block (up to 1024 threads, a multiple of 32); *total gets the whole
 * sum. `sums` is 33 words of shared memory. Every thread calls it; it begins and ends with a
 * barrier.
 */
DEV_FN u32 dev_block_scan(u32 v, u32 *sums, u32 *total)
{
	u32 lane = DEV_LANE, warp = DEV_TID / 32, warps = DEV_NTID / 32;
	u32 incl = dev_warp_scan(v, lane), base;

	DEV_SYNC();
	if (lane == 31)
		sums[warp] = incl;
	DEV_SYNC();
	if (warp == 0) {
		u32 s = lane < warps ? sums[lane] : 0, up_to = dev_warp_scan(s, lane);

		sums[lane] = up_to - s;
		if (lane == 31)
			sums[32] = up_to;
	}
	DEV_SYNC();
	base = sums[warp];
	*total = sums[32];
	DEV_SYNC();
	return base + incl - v;
}

#endif
