/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of types, dispatch of reductions to what the CPU offers. See dtype.h. */
#include "collectives/dtype.h"
#include "collectives/reduce_kernels.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *name, *other;
	size_t bytes;
} types[COLL_TYPE_MAX] = {
	[COLL_UINT8] = {"uint8", "uint8_t", 1},    [COLL_INT32] = {"int32", "int", 4},
	[COLL_INT64] = {"int64", "int64_t", 8},    [COLL_FLOAT16] = {"float16", "half", 2},
	[COLL_BFLOAT16] = {"bfloat16", "bf16", 2}, [COLL_FLOAT32] = {"float32", "float", 4},
	[COLL_FLOAT64] = {"float64", "double", 8},
};

static const char *const ops[COLL_OP_MAX] = {"sum", "prod", "min", "max", "avg"};

size_t coll_type_bytes(enum coll_type type)
{
	return types[type].bytes;
}

const char *coll_type_name(enum coll_type type)
{
	return types[type].name;
}

const char *coll_op_name(enum coll_op op)
{
	return ops[op];
}

int coll_type_parse(const char *name, enum coll_type *out)
{
	for (int i = 0; i < COLL_TYPE_MAX; i++) {
		if (strcasecmp(name, types[i].name) != 0 && strcasecmp(name, types[i].other) != 0)
			continue;
		*out = (enum coll_type)i;
		return 0;
	}
	return -EINVAL;
}

int coll_op_parse(const char *name, enum coll_op *out)
{
	for (int i = 0; i < COLL_OP_MAX; i++) {
		if (strcasecmp(name, ops[i]) != 0)
			continue;
		*out = (enum coll_op)i;
		return 0;
	}
	return -EINVAL;
}

#if defined(__x86_64__)
#define HAVE_ISA_VARIANTS 1
#include <cpuid.h>
#endif

#ifdef HAVE_ISA_VARIANTS
/* Not every compiler's __builtin_cpu_supports() knows it. */
static int have_f16c(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static const reduce_table *pick_table(const char **isa)
{
#ifdef HAVE_ISA_VARIANTS
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && have_f16c()) {
		*isa = "avx512";
		return &reduce_avx512;
	}
	if (__builtin_cpu_supports("avx2") && have_f16c()) {
		*isa = "avx2";
		return &reduce_avx2;
	}
#endif
	*isa = "baseline";
	return &reduce_baseline;
}

void coll_reduce(void *out, const void *a, const void *b, size_t count, enum coll_type type,
		 enum coll_op op)
{
	static const reduce_table *table;
	const reduce_table *t = __atomic_load_n(&table, __ATOMIC_RELAXED);
	const char *isa;

	if (!t) { /* threads may race to the same answer */
		t = pick_table(&isa);
		__atomic_store_n(&table, t, __ATOMIC_RELAXED);
	}
	(*t)[type][op == COLL_AVG ? COLL_SUM : op](out, a, b, count);
}

const char *coll_reduce_isa(void)
{
	const char *isa;

	pick_table(&isa);
	return isa;
}

double coll_load(const void *data, size_t i, enum coll_type type)
{
	switch (type) {
	case COLL_UINT8:
		return ((const uint8_t *)data)[i];
	case COLL_INT32:
		return ((const int32_t *)data)[i];
	case COLL_INT64:
		return (double)((const int64_t *)data)[i];
	case COLL_FLOAT16:
		return half_to_float(((const uint16_t *)data)[i]);
	case COLL_BFLOAT16:
		return bfloat_to_float(((const uint16_t *)data)[i]);
	case COLL_FLOAT32:
		return ((const float *)data)[i];
	default:
		return ((const double *)data)[i];
	}
}

void coll_store(void *data, size_t i, enum coll_type type, double value)
{
	switch (type) {
	case COLL_UINT8:
		((uint8_t *)data)[i] = (uint8_t)(int64_t)value;
		break;
	case COLL_INT32:
		((int32_t *)data)[i] = (int32_t)value;
		break;
	case COLL_INT64:
		((int64_t *)data)[i] = (int64_t)value;
		break;
	case COLL_FLOAT16:
		((uint16_t *)data)[i] = float_to_half((float)value);
		break;
	case COLL_BFLOAT16:
		((uint16_t *)data)[i] = float_to_bfloat((float)value);
		break;
	case COLL_FLOAT32:
		((float *)data)[i] = (float)value;
		break;
	default:
		((double *)data)[i] = value;
	}
}

void coll_average(void *data, size_t count, enum coll_type type, int ranks)
{
	size_t i;

	switch (type) {
	case COLL_UINT8:
		for (i = 0; i < count; i++)
			((uint8_t *)data)[i] = (uint8_t)(((uint8_t *)data)[i] / ranks);
		break;
	case COLL_INT32:
		for (i = 0; i < count; i++)
			((int32_t *)data)[i] /= ranks;
		break;
	case COLL_INT64:
		for (i = 0; i < count; i++)
			((int64_t *)data)[i] /= ranks;
		break;
	case COLL_FLOAT16:
		for (i = 0; i < count; i++)
			((uint16_t *)data)[i] =
				float_to_half(half_to_float(((uint16_t *)data)[i]) / (float)ranks);
		break;
	case COLL_BFLOAT16:
		for (i = 0; i < count; i++)
			((uint16_t *)data)[i] = float_to_bfloat(
				bfloat_to_float(((uint16_t *)data)[i]) / (float)ranks);
		break;
	case COLL_FLOAT32:
		for (i = 0; i < count; i++)
			((float *)data)[i] /= (float)ranks;
		break;
	default:
		for (i = 0; i < count; i++)
			((double *)data)[i] /= ranks;
	}
}
