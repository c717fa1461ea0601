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

/*
 * Operations that are done, to be used again: a driver's queue is a ring, and what costs the program
 * under it is measured beside such. Whoever ends one puts it to all; who needs one and has none takes
 * them all at once, so that no operation comes back while another thread looks at it.
 */
enum { DATA_BYTES = 128 }; /* of those that are kept */
static struct fc_op *_Atomic done;

static struct fc_op *again(void)
{
	struct fc_thread *t = fc_self();
	if (!t)
		return NULL;
	if (!t->ops)
		/* Pairs with the release in keep(). */
		t->ops = atomic_exchange_explicit(&done, NULL, memory_order_acquire);
	struct fc_op *op = t->ops;
	if (op)
		t->ops = op->next;
	return op;
}

static void keep(struct fc_op *first, struct fc_op *last)
{
	last->next = atomic_load_explicit(&done, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&done, &last->next, first,
						      memory_order_release, memory_order_relaxed))
		;
}

void fc_ops_keep(struct fc_op *ops)
{
	struct fc_op *last = ops;
	while (last && last->next)
		last = last->next;
	if (last)
		keep(ops, last);
}

struct fc_op *fc_op_new(CUgraphNodeType type, size_t data_bytes, void (*run)(const struct fc_op *))
{
	bool kept = data_bytes <= DATA_BYTES;
	struct fc_op *op = kept ? again() : NULL;
	if (!op)
		op = malloc(sizeof(*op) + (kept ? DATA_BYTES : data_bytes));
	if (!op)
		return NULL;
	memset(op, 0, sizeof(*op));
	atomic_init(&op->refs, 1);
	op->type = type;
	op->run = run;
	op->kept = kept;
	return op;
}

void fc_op_unref(struct fc_op *op)
{
	if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (op->drop)
		op->drop(op);
	fc_deps_free(&op->deps);
	if (op->kept)
		keep(op, op);
	else
		free(op);
}
