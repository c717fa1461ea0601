/* SPDX-License-Identifier: Apache-2.0
 *
 * Between dlsym.S, symbols.c and init.c.
 */
#ifndef WAYLAY_TRACER_INJECT_SYMBOLS_H
#define WAYLAY_TRACER_INJECT_SYMBOLS_H

#include <stdint.h>

/* What dlsym.S jumps to, NULL until wl_symbols_start() has looked. */
extern void *wl_next_dlsym, *wl_next_dlvsym;
void wl_symbols_start(void);
/* How dlsym.S is to go on: WL_ROUTE_REAL, WL_ROUTE_ASK, or another handle to ask glibc about. */
#define WL_ROUTE_REAL 0
#define WL_ROUTE_ASK  1
uintptr_t wl_symbol_route(void *handle, const char *name, const void *caller);
/* The real lookup, then the domain's answer. caller: the return address of the dlsym call. */
void *wl_dlsym_wanted(void *handle, const char *name, void *caller);
void *wl_dlvsym_wanted(void *handle, const char *name, const char *version, void *caller);

#endif
