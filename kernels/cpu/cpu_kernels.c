/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each device kernel of the sampler in plain loops, launch by launch, on the scratch memory that
 * the launches share. What a kernel leaves behind is what its namesake in device/ leaves behind.
 */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/sampler_cpu.h"
#include "kernels/cpu/tbe_kernels.h"
#include "kernels/device/tbe_args.h"

#include <stdint.h>
#include <string.h>

struct level {
	unsigned shift, above, bins;
};

static struct level level_of(const struct sampler_args *a)
{
	static const struct level levels[SAMPLER_LEVELS] = {
		{21, 0, 2048}, {10, 21, 2048}, {0, 10, 1024}};

	return levels[a->level];
}

static void classify(const unsigned grid[3], const struct sampler_args *a)
{
	for (unsigned s = 0; s < grid[1]; s++) {
		struct sampler_keys keys = sampler_keys_of(sampler_cpu_stream(a, s));
		unsigned *pos = a->positive + (size_t)s * a->words,
			 *neg = a->negative + (size_t)s * a->words;
		unsigned *histogram = a->histogram + (size_t)s * 2 * SAMPLER_DIGIT_BINS;

		memset(pos, 0, a->words * sizeof(*pos));
		memset(neg, 0, a->words * sizeof(*neg));
		for (unsigned i = 0; i < a->n; i++) {
			unsigned kind = sampler_cpu_class(a, s, i);

			if (kind == 2)
				continue;
			(kind ? pos : neg)[i / 32] |= 1u << (i & 31);
			histogram[(1 - kind) * SAMPLER_DIGIT_BINS + (sampler_key(i, keys) >> 21)]++;
		}
	}
}

static void pick_begin(const struct sampler_args *a, unsigned sample, const unsigned *histogram)
{
	struct sampler_state *s = a->state + sample;
	unsigned long long stream = sampler_cpu_stream(a, sample);

	for (unsigned c = 0; c < 2; c++) {
		s->have[c] = 0;
		for (unsigned i = 0; i < SAMPLER_DIGIT_BINS; i++)
			s->have[c] += histogram[c * SAMPLER_DIGIT_BINS + i];
		s->prefix[c] = 0;
	}
	s->keys = sampler_keys_of(stream);
	sampler_cpu_order(stream, s->order);
	sampler_split(s->have[0], s->have[1], a->k, a->k_pos, a->fill_pos, &s->want[0],
		      &s->want[1]);
	s->drawn[0] = s->want[0];
	s->drawn[1] = s->want[1];
	s->total = s->want[0] + s->want[1];
	s->order_bits = sampler_order_bits(s->total);
	a->counts[2 * sample] = (int)s->total;
	a->counts[2 * sample + 1] = (int)s->want[0];
}

static void pick(const unsigned grid[3], const struct sampler_args *a)
{
	for (unsigned sample = 0; sample < grid[1]; sample++) {
		unsigned *histogram = a->histogram + (size_t)sample * 2 * SAMPLER_DIGIT_BINS;
		struct sampler_state *s = a->state + sample;

		if (a->level == 0)
			pick_begin(a, sample, histogram);
		for (unsigned c = 0; c < 2; c++) {
			unsigned bin = 0;

			if (s->want[c]) {
				while (s->want[c] > histogram[c * SAMPLER_DIGIT_BINS + bin])
					s->want[c] -= histogram[c * SAMPLER_DIGIT_BINS + bin++];
				s->prefix[c] = s->prefix[c] * level_of(a).bins + bin;
			}
			if (a->level == SAMPLER_LEVELS - 1)
				s->limit[c] = s->drawn[c] ? s->prefix[c] + 1ull : 0;
		}
		memset(histogram, 0, 2 * SAMPLER_DIGIT_BINS * sizeof(*histogram));
	}
}

static void refine(const unsigned grid[3], const struct sampler_args *a)
{
	struct level level = level_of(a);

	for (unsigned sample = 0; sample < grid[1]; sample++) {
		const struct sampler_state *s = a->state + sample;
		unsigned *histogram = a->histogram + (size_t)sample * 2 * SAMPLER_DIGIT_BINS;

		for (unsigned i = 0; i < a->n; i++) {
			size_t word = (size_t)sample * a->words + i / 32;
			unsigned pos = a->positive[word] >> (i & 31) & 1,
				 neg = a->negative[word] >> (i & 31) & 1;
			unsigned c = pos ? 0 : 1, key = sampler_key(i, s->keys);

			if ((pos | neg) && s->drawn[c] && key >> level.above == s->prefix[c])
				histogram[c * SAMPLER_DIGIT_BINS +
					  (key >> level.shift & (level.bins - 1))]++;
		}
	}
}

static void count_tiles(const struct sampler_args *a, unsigned sample)
{
	for (unsigned t = 0; t < a->tiles; t++) {
		unsigned *count = a->tile_count + (size_t)sample * a->tiles + t;
		unsigned end = (t + 1) * (SAMPLER_TILE / 32);

		*count = 0;
		for (unsigned w = t * (SAMPLER_TILE / 32); w < end && w < a->words; w++)
			*count += (unsigned)__builtin_popcount(
				a->selected[(size_t)sample * a->words + w]);
	}
}

static void mark(const unsigned grid[3], const struct sampler_args *a)
{
	for (unsigned sample = 0; sample < grid[1]; sample++) {
		const struct sampler_state *s = a->state + sample;
		size_t base = (size_t)sample * a->words;

		for (unsigned i = 0; i < a->n; i++) {
			unsigned pos = a->positive[base + i / 32] >> (i & 31) & 1;
			unsigned neg = a->negative[base + i / 32] >> (i & 31) & 1;

			if (i % 32 == 0)
				a->selected[base + i / 32] = 0;
			if ((pos | neg) && sampler_key(i, s->keys) < s->limit[pos ? 0 : 1])
				a->selected[base + i / 32] |= 1u << (i & 31);
		}
		count_tiles(a, sample);
	}
}

static void scan(const unsigned grid[3], const struct sampler_args *a)
{
	for (unsigned sample = 0; sample < grid[1]; sample++) {
		unsigned sum = 0;

		for (unsigned t = 0; t < a->tiles; t++) {
			unsigned *count = a->tile_count + (size_t)sample * a->tiles + t,
				 here = *count;

			*count = sum;
			sum += here;
		}
		if (a->list_count)
			*a->list_count = sum;
	}
}

static void emit(const unsigned grid[3], const struct sampler_args *a)
{
	for (unsigned sample = 0; sample < grid[1]; sample++) {
		const struct sampler_state *s = a->state + sample;
		size_t base = (size_t)sample * a->words;
		unsigned rank = 0;

		for (unsigned i = 0; i < a->n; i++) {
			if (i % SAMPLER_TILE == 0)
				rank = a->tile_count[(size_t)sample * a->tiles + i / SAMPLER_TILE];
			if (a->selected[base + i / 32] >> (i & 31) & 1)
				sampler_cpu_emit(
					a, sample, i, a->positive[base + i / 32] >> (i & 31) & 1,
					sampler_slot(rank++, s->total, s->order_bits, s->order));
		}
		sampler_cpu_tail(a, sample, s->total);
	}
}

static void naive_count(const struct sampler_args *a)
{
	for (unsigned t = 0; t < a->tiles; t++)
		a->tile_count[t] = 0;
	for (unsigned i = 0; i < a->n; i++)
		a->tile_count[i / SAMPLER_TILE] += sampler_cpu_class(a, 0, i) == 1 - a->which;
}

static void naive_list(const struct sampler_args *a)
{
	unsigned at = 0;

	for (unsigned i = 0; i < a->n; i++) {
		if (i % SAMPLER_TILE == 0)
			at = a->tile_count[i / SAMPLER_TILE];
		if (sampler_cpu_class(a, 0, i) == 1 - a->which)
			a->list[a->which][at++] = i;
	}
}

static void naive_histogram(const struct sampler_args *a)
{
	struct sampler_keys keys = sampler_keys_of(sampler_cpu_stream(a, 0));
	struct level level = level_of(a);

	for (unsigned c = 0; c < 2; c++)
		for (unsigned i = 0; i < a->list_n[c]; i++) {
			unsigned key = sampler_key(a->list[c][i], keys);

			if (a->level == 0 ||
			    (a->state->drawn[c] && key >> level.above == a->state->prefix[c]))
				a->histogram[c * SAMPLER_DIGIT_BINS +
					     (key >> level.shift & (level.bins - 1))]++;
		}
}

static void naive_mark(const struct sampler_args *a)
{
	for (unsigned c = 0; c < 2; c++)
		for (unsigned i = 0; i < a->list_n[c]; i++) {
			unsigned item = a->list[c][i];

			if (sampler_key(item, a->state->keys) >= a->state->limit[c])
				continue;
			a->selected[item / 32] |= 1u << (item & 31);
			if (c == 0)
				a->positive[item / 32] |= 1u << (item & 31);
		}
}

static void naive_tiles(const struct sampler_args *a)
{
	count_tiles(a, 0);
}

static void fused(const struct sampler_args *a)
{
	(void)sampler_cpu_run(a); /* a device kernel cannot say that it failed; short of memory, the
				     results stay as they were */
}

static void advance(const struct sampler_args *a)
{
	*(unsigned long long *)(uintptr_t)a->call_base += 1;
}

#define GRID_KERNEL(name, body)                                                                    \
	static void run_##name(const unsigned grid[3], const unsigned block[3], size_t shared,     \
			       void *const *params)                                                \
	{                                                                                          \
		(void)block;                                                                       \
		(void)shared;                                                                      \
		body(grid, params[0]);                                                             \
	}
#define SAMPLE_KERNEL(name, body)                                                                  \
	static void run_##name(const unsigned grid[3], const unsigned block[3], size_t shared,     \
			       void *const *params)                                                \
	{                                                                                          \
		(void)grid;                                                                        \
		(void)block;                                                                       \
		(void)shared;                                                                      \
		body(params[0]);                                                                   \
	}
GRID_KERNEL(sampler_static_classify_i64, classify)
GRID_KERNEL(sampler_static_classify_i32, classify)
GRID_KERNEL(sampler_static_classify_u8, classify)
GRID_KERNEL(sampler_static_pick, pick)
GRID_KERNEL(sampler_static_refine, refine)
GRID_KERNEL(sampler_static_mark, mark)
GRID_KERNEL(sampler_static_scan, scan)
GRID_KERNEL(sampler_static_emit, emit)
SAMPLE_KERNEL(sampler_advance, advance)
SAMPLE_KERNEL(sampler_naive_count_i64, naive_count)
SAMPLE_KERNEL(sampler_naive_count_i32, naive_count)
SAMPLE_KERNEL(sampler_naive_count_u8, naive_count)
SAMPLE_KERNEL(sampler_naive_list_i64, naive_list)
SAMPLE_KERNEL(sampler_naive_list_i32, naive_list)
SAMPLE_KERNEL(sampler_naive_list_u8, naive_list)
SAMPLE_KERNEL(sampler_naive_histogram, naive_histogram)
SAMPLE_KERNEL(sampler_naive_mark, naive_mark)
SAMPLE_KERNEL(sampler_naive_tiles, naive_tiles)
SAMPLE_KERNEL(sampler_fused_i64, fused)
SAMPLE_KERNEL(sampler_fused_i32, fused)
SAMPLE_KERNEL(sampler_fused_u8, fused)
SAMPLE_KERNEL(sampler_few_i64, fused)
SAMPLE_KERNEL(sampler_few_i32, fused)
SAMPLE_KERNEL(sampler_few_u8, fused)

static const unsigned short sampler_size[1] = {sizeof(struct sampler_args)},
			    tbe_size[1] = {sizeof(struct tbe_args)};

const struct cpu_kernel cpu_kernel_table[] = {
#define KERNEL(name) {#name, 1, sampler_size, run_##name},
#include "kernels/device/sampler.def"
#undef KERNEL
#define KERNEL(name) {#name, 1, tbe_size, tbe_run_##name},
#include "kernels/device/tbe.def"
#undef KERNEL
};
const unsigned cpu_kernel_count = sizeof(cpu_kernel_table) / sizeof(cpu_kernel_table[0]);
