/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content that makes every error visible and every right result exact: small integers for sums
 * (few enough that a bfloat16 holds the sum), powers of two for products. Results are then the same
 * bits in whatever order ranks are reduced, and are compared as bits. The content repeats after a
 * prime number of elements, so that one period can be computed and the rest compared with memcmp; a
 * chunk in the wrong place shows, as chunks are no multiple of that prime.
 */
#include "collectives/perf/perf.h"

#include <string.h>

#define PERIOD 1009

static double value(const struct pattern *p, int rank, size_t i)
{
	uint64_t h = (i % PERIOD + 1) * 2654435761u ^ ((uint64_t)rank + 1) * 40503u;
	int limit = 256 / p->ranks < 8 ? 256 / p->ranks : 8;
	int v;

	h = (h ^ h >> 15) * 2246822519u;
	h ^= h >> 13;
	if (p->op == COLL_PROD)
		/* Among the first ranks only, or the product would overflow a float16. */
		v = rank < 8 && h % 3 == 0 ? 2 : 1;
	else
		v = (int)(h % (uint64_t)(limit + 1));
	if (p->type != COLL_UINT8 && h >> 20 & 1)
		v = -v;
	return v;
}

static double reduced(const struct pattern *p, size_t i)
{
	double acc = value(p, 0, i);

	for (int r = 1; r < p->ranks; r++) {
		double v = value(p, r, i);

		if (p->op == COLL_PROD)
			acc *= v;
		else if (p->op == COLL_MIN)
			acc = v < acc ? v : acc;
		else if (p->op == COLL_MAX)
			acc = v > acc ? v : acc;
		else
			acc += v;
	}
	return acc;
}

/* One period of what is expected, starting at element `first`; rank -1 for the reduction. */
static void make_period(const struct pattern *p, char *out, int rank, size_t first)
{
	for (size_t i = 0; i < PERIOD; i++)
		coll_store(out, i, p->type,
			   rank < 0 ? reduced(p, first + i) : value(p, rank, first + i));
	if (rank < 0 && p->op == COLL_AVG)
		coll_average(out, PERIOD, p->type, p->ranks);
}

void pattern_fill(const struct pattern *p, void *data, size_t count, int rank, size_t first)
{
	size_t esize = coll_type_bytes(p->type);
	char period[PERIOD * 8];
	char *out = data;

	make_period(p, period, rank, first);
	for (size_t i = 0; i < count; i += PERIOD) {
		size_t n = count - i < PERIOD ? count - i : PERIOD;

		memcpy(out + i * esize, period, n * esize);
	}
}

static size_t wrong_against(const char *period, const char *data, size_t count, size_t esize)
{
	size_t wrong = 0;

	for (size_t i = 0; i < count; i += PERIOD) {
		size_t n = count - i < PERIOD ? count - i : PERIOD;
		const char *at = data + i * esize;

		if (memcmp(at, period, n * esize) == 0)
			continue;
		for (size_t j = 0; j < n; j++)
			wrong += memcmp(at + j * esize, period + j * esize, esize) != 0;
	}
	return wrong;
}

size_t pattern_wrong_copy(const struct pattern *p, const void *data, size_t count, int rank,
			  size_t first)
{
	char period[PERIOD * 8];

	make_period(p, period, rank, first);
	return wrong_against(period, data, count, coll_type_bytes(p->type));
}

size_t pattern_wrong_reduced(const struct pattern *p, const void *data, size_t count, size_t first)
{
	char period[PERIOD * 8];

	make_period(p, period, -1, first);
	return wrong_against(period, data, count, coll_type_bytes(p->type));
}
