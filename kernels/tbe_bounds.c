/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds check's host side: its launch, the sentence about the first offender, and what it is
 * compared with. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/tbe_cpu.h"
#include "kernels/tbe_internal.h"

/* The sentence about the first offender; needs offsets to find the bag of an index. */
static void say_offender(struct tbe *t, const struct tbe_io *io, const struct tbe_bounds_report *r)
{
	const struct tbe_feature *f = t->features;
	uint32_t bag = 0, high = t->bags ? t->bags - 1 : 0, bytes = t->config.index_bytes;

	if (r->bad_offsets) {
		bag = (uint32_t)r->first_offset;
	} else {
		while (bag < high) {
			uint32_t middle = bag + (high - bag + 1) / 2;
			int64_t offset = 0;

			if (!t->cuda)
				memcpy(&offset,
				       (const char *)(uintptr_t)io->offsets +
					       (uint64_t)middle * bytes,
				       bytes);
			else if (cuda_download(t->cuda, &offset,
					       io->offsets + (uint64_t)middle * bytes, bytes))
				return;
			if (offset <= (int64_t)r->first_index)
				bag = middle;
			else
				high = middle - 1;
		}
	}
	for (uint32_t i = 1; i < t->config.feature_count && t->features[i].bag0 <= bag; i++)
		f = &t->features[i];
	if (r->bad_offsets)
		snprintf(
			t->error, sizeof(t->error),
			"%llu bags have bad offsets; the first is bag %u of feature %u, from %lld to %lld of %u indices",
			(unsigned long long)r->bad_offsets, bag - f->bag0,
			(unsigned)(f - t->features), r->offset_begin, r->offset_end, io->n);
	else
		snprintf(
			t->error, sizeof(t->error),
			"%llu indices are not in their tables; the first is %lld at position %llu, in bag %u of feature %u, whose table has "
			"%u rows",
			(unsigned long long)r->bad_indices, r->index_value,
			(unsigned long long)r->first_index, bag - f->bag0,
			(unsigned)(f - t->features), f->rows);
}

static int bounds_device(struct tbe *t, struct tbe_bounds_report *report)
{
	/* all blocks at once, and no more than have something to do */
	uint32_t blocks = tbe_persistent(t, 4) / t->config.feature_count,
		 most = t->args.n / t->config.feature_count / (TBE_BLOCK * 16) + 1;
	struct cuda_grid check = {blocks < 1      ? 1
				  : blocks < most ? blocks
						  : most,
				  t->config.feature_count, TBE_BLOCK, TBE_BLOCK * 4, 0};
	int err = tbe_launch(t, K_tbe_bounds_check, check);

	if (!err && report) {
		err = cuda_wait(t->cuda);
		err = err ? err
			  : cuda_download(t->cuda, report, (uintptr_t)t->args.report,
					  sizeof(*report));
	}
	return err;
}

int tbe_bounds(struct tbe *t, const struct tbe_io *io, enum tbe_bounds_mode mode,
	       struct tbe_bounds_report *report)
{
	struct tbe_bounds_report own = {0}, *to = report                     ? report
						  : mode == TBE_BOUNDS_FATAL ? &own
									     : NULL;
	int err = tbe_check_io(t, io);

	if (to)
		memset(to, 0, sizeof(*to));
	if (err || mode == TBE_BOUNDS_NONE)
		return err;
	t->args.repair = mode != TBE_BOUNDS_FATAL;
	if (t->cuda) {
		err = tbe_fail(t, bounds_device(t, to), "embedding's bounds check");
	} else {
		struct tbe_args a = t->args;

		a.report = to ? to : &own;
		tbe_cpu_bounds(&a);
	}
	if (err || !to || (!to->bad_offsets && !to->bad_indices))
		return err;
	say_offender(t, io, to);
	return mode == TBE_BOUNDS_FATAL ? -ERANGE : 0;
}

int tbe_bounds_baseline(struct tbe *t, const struct tbe_io *io, enum tbe_bounds_baseline which)
{
	struct cuda_grid grid = {0, 1, TBE_BLOCK, 0, 0};
	int err = tbe_check_io(t, io);

	if (err || !t->cuda)
		return err;
	grid.x = tbe_persistent(t, which == TBE_BOUNDS_STREAM ? 4 : 8);
	return tbe_fail(
		t,
		tbe_launch(t, which == TBE_BOUNDS_STREAM ? K_tbe_bounds_stream : K_tbe_bounds_bags,
			   grid),
		"a baseline of the bounds check");
}
