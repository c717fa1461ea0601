/* SPDX-License-Identifier: Apache-2.0 */
/* An NVTX tool that writes down what it is called with; linked into a test or opened by
 * NVTX_INJECTION64_PATH. */
#ifndef TESTS_UNIT_NVTX_TOOL_H
#define TESTS_UNIT_NVTX_TOOL_H

/* Calls since the start, one a line: "push NAME payload N", "pop", "domain_push DOMAIN TEXT", ...
 */
extern char nvtx_tool_log[4096];
extern int nvtx_tool_refuse; /* InitializeInjectionNvtx2 gives up after filling a slot */

typedef const void *(*nvtx_tool_get_fn)(unsigned table);
int InitializeInjectionNvtx2(nvtx_tool_get_fn get);

#endif
