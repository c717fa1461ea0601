/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX ranges, by NVTX's own injection interface.
 */
#include "tracer/inject/inject.h"

#include <stdlib.h>

void wl_nvtx_prepare(const char *own_path)
{
	int (*set)(const char *, const char *, int) =
		(int (*)(const char *, const char *, int))wl_symbol_find("libc.so", "setenv", NULL);

	if (set && !getenv("NVTX_INJECTION64_PATH"))
		set("NVTX_INJECTION64_PATH", own_path, 0);
}
