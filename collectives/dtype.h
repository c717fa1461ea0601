/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data types and reductions, as in NCCL, and the CPU's code for them.
 *
 * Sums and products of integers wrap around. float16 and bfloat16 are computed in float32 and
 * rounded to nearest even after every step. min and max of floating-point numbers are `a < b ? a :
 * b` and `a > b ? a : b`: with a NaN among them the result is b. An average is the sum, formed in
 * the type itself, divided once at the end (integers: towards zero).
 */
#ifndef WAYLAY_COLLECTIVES_DTYPE_H
#define WAYLAY_COLLECTIVES_DTYPE_H

#include <stddef.h>
#include <stdint.h>

enum coll_type {
	COLL_UINT8,
	COLL_INT32,
	COLL_INT64,
	COLL_FLOAT16,
	COLL_BFLOAT16,
	COLL_FLOAT32,
	COLL_FLOAT64,
	COLL_TYPE_MAX
};

enum coll_op { COLL_SUM, COLL_PROD, COLL_MIN, COLL_MAX, COLL_AVG, COLL_OP_MAX };

size_t coll_type_bytes(enum coll_type type);
const char *coll_type_name(enum coll_type type);
const char *coll_op_name(enum coll_op op);
/* 0, or -EINVAL for an unknown name. Types are also known as half, float, double, int, uint8_t. */
int coll_type_parse(const char *name, enum coll_type *out);
int coll_op_parse(const char *name, enum coll_op *out);

/* out[i] = a[i] op b[i] for `count` elements. out may be a or b, but may not overlap them
 * otherwise. COLL_AVG adds; coll_average() then divides. */
void coll_reduce(void *out, const void *a, const void *b, size_t count, enum coll_type type,
		 enum coll_op op);

/* data[i] /= ranks. */
void coll_average(void *data, size_t count, enum coll_type type, int ranks);

/* One element from and to a double; for filling and checking buffers. */
double coll_load(const void *data, size_t index, enum coll_type type);
void coll_store(void *data, size_t index, enum coll_type type, double value);

/* What this CPU's reductions are compiled for: "avx512", "avx2" or "baseline". */
const char *coll_reduce_isa(void);

#endif
