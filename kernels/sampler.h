/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balanced sampler: from `batch` samples of n labelled items each, draws k items with as many
 * positives as negatives (device/sampler_rule.h has the rule). Four ways of doing it on a device
 * and one on the CPU; all give the same bits.
 *
 * naive variable shapes: the host reads back how many items each class has, two waits a sample, a
 * batch is a loop
 *   static  fixed shapes: nine launches, no wait
 *   graph   static, captured once and replayed: one launch of a graph, no wait
 *   fused   one kernel launch, no wait
 *
 * Functions return 0 or a negative errno and leave a sentence in the sampler's error text.
 */
#ifndef WAYLAY_KERNELS_SAMPLER_H
#define WAYLAY_KERNELS_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct cuda;
struct sampler;

enum sampler_variant {
	SAMPLER_NAIVE,
	SAMPLER_STATIC,
	SAMPLER_GRAPH,
	SAMPLER_FUSED,
	SAMPLER_VARIANT_MAX
};
enum sampler_label { SAMPLER_I64, SAMPLER_I32, SAMPLER_U8, SAMPLER_LABEL_MAX };

extern const char *const sampler_variant_names[SAMPLER_VARIANT_MAX];

struct sampler_config {
	enum sampler_variant variant; /* the CPU back end draws the same for each */
	enum sampler_label label;
	uint32_t n;         /* items a sample, below 2^31 - 2^24 */
	uint32_t batch;     /* samples a call, at most 65535 */
	uint32_t k;         /* items to draw of each sample, below 2^31 */
	uint32_t k_pos;     /* of these meant for positives, at most k; k / 2 for a balanced draw */
	uint32_t row_bytes; /* bytes of one item's features; 0: none */
	int short_pos;      /* positives never fill slots that negatives leave (Detectron2) */
	uint64_t seed;
	float window; /* fused: half width of the search window in standard deviations; 0: default,
		       * negative: none, so that the exact search does it all (for tests) */
	int32_t stagger_ns; /* fused: between samples under way; 0 chooses, negative: none */
	uint32_t threads;   /* fused: threads a block, 64, 128, ... 1024; 0 chooses */
	uint32_t blocks;    /* fused: thread blocks a sample; 0 chooses */
};

/*
 * Where a call reads and writes: device addresses, or host addresses for the CPU back end. Arrays
 * have `batch` parts one after another.
 */
struct sampler_io {
	uint64_t labels; /* [n] of 8, 4 or 1 bytes: 1 positive, 0 negative, anything else ignored */
	uint64_t x;      /* [n] rows */
	uint64_t idx;    /* [k] int64: the item in each slot, -1 for a slot that stays empty */
	uint64_t labels_out; /* [k] of the labels' type: 1, 0, or -1 (255) for an empty slot */
	uint64_t x_out;      /* [k] rows; zeros in an empty slot */
	uint64_t counts;     /* [2] int32: filled slots, and positives among them */
};

uint32_t sampler_label_bytes(enum sampler_label label);

/* A sampler on an open driver, or on the CPU where `cuda` is NULL. Sets *sampler_ret for its error
 * text unless memory is out; free it with sampler_close. -EINVAL: the configuration is out of
 * range. */
int sampler_open(struct cuda *cuda, const struct sampler_config *config,
		 struct sampler **sampler_ret);
void sampler_close(struct sampler *sampler);

/*
 * Draws once more. On a device the work is on cuda->stream when this returns; only naive waits for
 * some of it. The draw is a function of the seed and of how many calls came before (sampler_calls).
 */
int sampler_run(struct sampler *sampler, const struct sampler_io *io);

/* What call number `call` (from 0) draws, on the CPU: samples first to first + batch - 1 of it,
 * whose data io holds at host addresses. -ENOMEM. */
int sampler_oracle(const struct sampler_config *config, uint64_t call, uint32_t first,
		   const struct sampler_io *io);

uint64_t sampler_calls(const struct sampler *sampler);
const char *sampler_error(const struct sampler *sampler);

/* Bytes that one call must at least move: labels in, drawn rows in and out, indices and labels out.
 * `drawn` counts items of the whole batch. */
uint64_t sampler_bytes(const struct sampler_config *config, uint64_t drawn);

#endif
