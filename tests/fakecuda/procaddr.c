/* SPDX-License-Identifier: Apache-2.0 */
/* The exported functions and what cuGetProcAddress answers, both from entries.def. */
#include "tests/fakecuda/internal.h"

#include <string.h>

#define EXPORT                  __attribute__((visibility("default")))
#define FC_LEGACY_ARGS(...)     (false, __VA_ARGS__)
#define FC_PER_THREAD_ARGS(...) (true, __VA_ARGS__)

#define FC_BODY(name, gate, id, params, call)                                                      \
	EXPORT CUresult name params                                                                \
	{                                                                                          \
		CUresult rc = gate(id);                                                            \
		return FC_LIKELY(!rc) ? call : rc;                                                 \
	}
#define FC_EARLY(sym, base, since, impl, params, args)                                             \
	FC_BODY(sym, fc_gate_early, FC_ID_##sym, params, do_##impl args)
#define FC_PLAIN(sym, base, since, impl, params, args)                                             \
	FC_BODY(sym, fc_gate, FC_ID_##sym, params, do_##impl args)
#define FC_PTDS(sym, base, since, impl, params, args)                                              \
	FC_BODY(sym, fc_gate, FC_ID_##sym, params, do_##impl FC_LEGACY_ARGS args)                  \
	FC_BODY(sym##_ptds, fc_gate, FC_ID_##sym, params, do_##impl FC_PER_THREAD_ARGS args)
#define FC_PTSZ(sym, base, since, impl, params, args)                                              \
	FC_BODY(sym, fc_gate, FC_ID_##sym, params, do_##impl FC_LEGACY_ARGS args)                  \
	FC_BODY(sym##_ptsz, fc_gate, FC_ID_##sym, params, do_##impl FC_PER_THREAD_ARGS args)
#include "tests/fakecuda/entries.def"

struct row {
	const char *base;
	int since;
	void *fn, *per_thread;
};

/* Per-thread streams came with CUDA 7. */
enum { PER_THREAD_SINCE = 7000 };

static const struct row rows[] = {
#define FC_EARLY(sym, base, since, impl, params, args) {#base, since, (void *)sym, NULL},
#define FC_PLAIN(sym, base, since, impl, params, args) {#base, since, (void *)sym, NULL},
#define FC_PTDS(sym, base, since, impl, params, args)                                              \
	{#base, since, (void *)sym, (void *)sym##_ptds},
#define FC_PTSZ(sym, base, since, impl, params, args)                                              \
	{#base, since, (void *)sym, (void *)sym##_ptsz},
#include "tests/fakecuda/entries.def"
};

/*
 * The newest form of the base name that the caller's version and the driver both know. A driver of
 * an older version has never heard of what came later.
 */
static void *lookup(const char *base, int version, bool per_thread,
		    CUdriverProcAddressQueryResult *status)
{
	void *best = NULL;
	int best_since = -1;
	bool known = false;
	for (size_t i = 0; i < FC_COUNT(rows); i++) {
		const struct row *r = &rows[i];
		if (strcmp(r->base, base) != 0 || r->since > fc_settings.driver_version)
			continue;
		known = true;
		void *fn = r->fn;
		int since = r->since;
		if (per_thread && r->per_thread) {
			fn = r->per_thread;
			since = since > PER_THREAD_SINCE ? since : PER_THREAD_SINCE;
		}
		if (since <= version && r->since > best_since) {
			best = fn;
			best_since = r->since;
		}
	}
	*status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
		  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return best;
}

CUresult do_cuGetProcAddress_v2(const char *symbol, void **fn, int version, cuuint64_t flags,
				CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found;
	if (!symbol || !fn || flags > 3 || version > fc_settings.driver_version)
		return CUDA_ERROR_INVALID_VALUE;
	*fn = lookup(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		     &found);
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}

CUresult do_cuGetProcAddress(const char *symbol, void **fn, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult found;
	if (!symbol || !fn || flags > 3 || version > fc_settings.driver_version)
		return CUDA_ERROR_INVALID_VALUE;
	void *result = lookup(symbol, version,
			      flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found);
	if (!result)
		return CUDA_ERROR_NOT_FOUND;
	*fn = result;
	return CUDA_SUCCESS;
}

/* The private tables are NVIDIA's own business; the real driver refuses unknown ones likewise. */
CUresult do_cuGetExportTable(const void **table, const CUuuid *id)
{
	(void)table, (void)id;
	return CUDA_ERROR_INVALID_VALUE;
}
