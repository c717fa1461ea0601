/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrapped entries by number: our functions (wrappers_*.c) and their names.
 */
#include "tracer/inject/cuda/entry.h"

/* Only their addresses are used here; their types are in the files that make them. */
#pragma GCC visibility push(hidden)
#define CU_ENTRY(symbol, default_stream, form) void wrap_##symbol(void);
#include "tracer/inject/cuda/entries.def"
#pragma GCC visibility pop

void *const cu_wrappers[CU_ID_MAX] = {
#define CU_ENTRY(symbol, default_stream, form) [CU_ID_##symbol] = (void *)wrap_##symbol,
#include "tracer/inject/cuda/entries.def"
};

struct wl_name cu_names[CU_ID_MAX] = {
#define CU_ENTRY(symbol, default_stream, form) [CU_ID_##symbol] = {.text = #symbol},
#include "tracer/inject/cuda/entries.def"
};
