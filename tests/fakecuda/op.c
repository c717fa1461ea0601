/* SPDX-License-Identifier: Apache-2.0 */
/* Operations and their lists of what they come after. */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

CUresult fc_deps_add(struct fc_deps *deps, struct fc_stream *stream, uint64_t seq)
{
	if (deps->count < FC_COUNT(deps->few)) {
		deps->few[deps->count++] = (struct fc_dep){stream, seq};
		return CUDA_SUCCESS;
	}
	unsigned n = deps->count - (unsigned)FC_COUNT(deps->few);
	if (n == deps->cap) {
		unsigned cap = deps->cap ? deps->cap * 2 : 16;
		struct fc_dep *many = realloc(deps->many, cap * sizeof(*many));
		if (!many)
			return CUDA_ERROR_OUT_OF_MEMORY;
		deps->many = many;
		deps->cap = cap;
	}
	deps->many[n] = (struct fc_dep){stream, seq};
	deps->count++;
	return CUDA_SUCCESS;
}

struct fc_dep *fc_deps_at(struct fc_deps *deps, unsigned i)
{
	return i < FC_COUNT(deps->few) ? &deps->few[i] : &deps->many[i - FC_COUNT(deps->few)];
}

void fc_deps_free(struct fc_deps *deps)
{
	free(deps->many);
	*deps = (struct fc_deps){0};
}

struct fc_op *fc_op_new(CUgraphNodeType type, size_t data_bytes, void (*run)(const struct fc_op *))
{
	struct fc_op *op = malloc(sizeof(*op) + data_bytes);
	if (!op)
		return NULL;
	memset(op, 0, sizeof(*op));
	atomic_init(&op->refs, 1);
	op->type = type;
	op->run = run;
	return op;
}

void fc_op_unref(struct fc_op *op)
{
	if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (op->drop)
		op->drop(op);
	fc_deps_free(&op->deps);
	free(op);
}
