/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs our device code on the CPU, so that its own lines are tested where there is no GPU. Every
 * device thread is a context of its own; they take turns on the calling thread, and a collective
 * operation of a warp or a block is where they change. kernels/device/device.h includes this in
 * place of the GPU's instructions (DEVICE_EMULATION).
 *
 * Turns are taken in a fixed order or in a random one (simt_shuffle), so that code which only works
 * when warps run one after another does not pass.
 */
#ifndef TESTS_UNIT_SIMT_H
#define TESTS_UNIT_SIMT_H

#include <stddef.h>
#include <stdint.h>

struct simt_grid {
	unsigned x, y, threads;
	size_t shared_bytes;
	int cooperative; /* all blocks take turns; otherwise one after another */
};

/* What the running device thread sees. */
struct simt_thread {
	unsigned tid, threads, block_x, block_y, blocks_x;
	void *shared;
};
extern struct simt_thread *simt_self;

/* Runs entry(args) for every thread of the grid. Aborts with a word on stderr when no thread can go
 * on. */
void simt_run(void (*entry)(const void *args), const void *args, struct simt_grid grid);

/* Random turns from this seed; 0: a fixed order. */
void simt_shuffle(uint64_t seed);

void simt_block_barrier(void);
void simt_yield(void);
/* Gives every lane of the warp the values that its 32 lanes brought. */
const uint32_t *simt_exchange(uint32_t value);

/* Conversions as the device makes them. */
float simt_from_f16(uint16_t bits);
uint16_t simt_to_f16(float value);
double simt_from_16(int bf16, uint16_t bits);

#ifdef WAYLAY_KERNELS_DEVICE_H /* what device.h needs; the rest is for who runs it */
#define DEV_FN                               static inline
#define DEV_COLD                             static __attribute__((noinline))
#define DEV_KERNEL(threads, name)            static void name
#define DEV_KERNEL_OF(threads, blocks, name) static void name
#define DEV_PARAM
#define DEV_TID       (simt_self->tid)
#define DEV_NTID      (simt_self->threads)
#define DEV_BLOCK_X   (simt_self->block_x)
#define DEV_BLOCK_Y   (simt_self->block_y)
#define DEV_BLOCKS_X  (simt_self->blocks_x)
#define DEV_LANE      (simt_self->tid & 31u)
#define DEV_POPC(v)   ((uint32_t)__builtin_popcount(v))
#define DEV_CTZ(v)    ((uint32_t)__builtin_ctz(v))
#define DEV_CLZ(v)    ((v) ? (uint32_t)__builtin_clz(v) : 32u)
#define DEV_SYNC()    simt_block_barrier()
#define DEV_ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define DEV_OR(p, v)  __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)

static inline void *dev_shared(void)
{
	return simt_self->shared;
}

static inline void dev_warp_sync(void)
{
	(void)simt_exchange(0);
}

static inline uint32_t dev_ballot(int yes)
{
	const uint32_t *all = simt_exchange(yes != 0);
	uint32_t bits = 0;

	for (unsigned l = 0; l < 32; l++)
		bits |= all[l] << l;
	return bits;
}

static inline uint32_t dev_match(uint32_t v)
{
	const uint32_t *all = simt_exchange(v);
	uint32_t bits = 0;

	for (unsigned l = 0; l < 32; l++)
		bits |= (uint32_t)(all[l] == v) << l;
	return bits;
}

static inline uint32_t dev_shfl(uint32_t v, uint32_t lane)
{
	return simt_exchange(v)[lane & 31];
}

static inline uint32_t dev_shfl_up(uint32_t v, uint32_t by)
{
	uint32_t lane = DEV_LANE;

	return simt_exchange(v)[lane >= by ? lane - by : lane];
}

static inline uint32_t dev_load_acquire(const uint32_t *p)
{
	return *p;
}

static inline void dev_store_release(uint32_t *p, uint32_t v)
{
	*p = v;
}

#define dev_load_relaxed  dev_load_acquire
#define dev_store_relaxed dev_store_release

static inline uint32_t dev_add_acq_rel(uint32_t *p, uint32_t v)
{
	uint32_t old = *p;

	*p += v;
	return old;
}

static inline void dev_pause(void)
{
	simt_yield();
}

static inline float dev_sqrt(float v)
{
	return __builtin_sqrtf(v);
}

static inline void dev_sleep_ns(uint64_t ns)
{
	(void)ns;
	simt_yield();
}

#define DEV_UNROLL

static inline uint32_t dev_shfl_xor(uint32_t v, uint32_t mask)
{
	return simt_exchange(v)[DEV_LANE ^ mask];
}

#define dev_read_v4(p) (*(const struct dev_v4 *)(p))

static inline struct dev_v4 dev_fetch_v4(const void *p, int ok)
{
	return ok ? *(const struct dev_v4 *)p : (struct dev_v4){0, 0, 0, 0};
}

static inline struct dev_v2 dev_fetch_v2(const void *p, int ok)
{
	return ok ? *(const struct dev_v2 *)p : (struct dev_v2){0, 0};
}

static inline void dev_copy_16(void *to, const void *from, int ok)
{
	*(struct dev_v4 *)to = dev_fetch_v4(from, ok);
}

static inline void dev_copy_8(void *to, const void *from, int ok)
{
	*(struct dev_v2 *)to = dev_fetch_v2(from, ok);
}

static inline void dev_copy_group(void)
{
}

static inline void dev_copy_wait(unsigned groups)
{
	(void)groups;
}

/* As the tensor cores do it but for the last bit: one rounding a sum. */
static inline void dev_mma(int bf16, float *d, const uint32_t *a, struct dev_v2 b)
{
	uint32_t of_a[4][32], of_b[2][32], g = DEV_LANE / 4, t = DEV_LANE % 4;

	for (unsigned r = 0; r < 4; r++)
		__builtin_memcpy(of_a[r], simt_exchange(a[r]), sizeof(of_a[r]));
	__builtin_memcpy(of_b[0], simt_exchange(b.x), sizeof(of_b[0]));
	__builtin_memcpy(of_b[1], simt_exchange(b.y), sizeof(of_b[1]));
	for (unsigned i = 0; i < 4; i++) {
		double sum = (double)d[i];

		for (unsigned k = 0; k < 16; k++) {
			uint32_t x = of_a[k / 8 * 2 + i / 2][4 * g + k % 8 / 2] >> 16 * (k & 1);
			uint32_t y = of_b[k / 8][4 * (2 * t + i % 2) + k % 8 / 2] >> 16 * (k & 1);

			sum += simt_from_16(bf16, (uint16_t)x) * simt_from_16(bf16, (uint16_t)y);
		}
		d[i] = (float)sum;
	}
}

#define dev_take_v4      dev_fetch_v4
#define dev_take_v2      dev_fetch_v2
#define dev_put_v2(p, v) (*(p) = (v))

#define dev_from_f16(bits)         simt_from_f16((uint16_t)(bits))
#define dev_to_f16(v)              ((uint32_t)simt_to_f16(v))
#define dev_to_f16_pair(low, high) (dev_to_f16(low) | dev_to_f16(high) << 16)
#define dev_from_f16_pair(word, low, high)                                                         \
	(*(low) = dev_from_f16((word)&0xffff), *(high) = dev_from_f16((word) >> 16))
#define dev_root(v)        __builtin_sqrtf(v)
#define dev_quotient(a, b) ((float)(a) / (float)(b))
#define dev_fma(a, b, c)   __builtin_fmaf((a), (b), (c))

static inline void dev_min_u64(unsigned long long *p, unsigned long long v)
{
	if (v < *p)
		*p = v;
}

#define dev_pass_v4(p)    (*(p))
#define dev_put_v4(p, v)  (*(p) = (v))
#define dev_put_u64(p, v) (*(p) = (v))

#define dev_load_u64(p)   (*(p))
#define dev_stream_u64(p) (*(p))
#define dev_stream_u32(p) (*(p))
#define dev_stream_u8(p)  (*(p))

#endif

#endif
