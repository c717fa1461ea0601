/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers of: waits, queries, order among device work, and the lookup of entries.
 */
#define CU_MAKE_wait   CU_WRAPPER
#define CU_MAKE_poll   CU_WRAPPER
#define CU_MAKE_order  CU_WRAPPER
#define CU_MAKE_copy   CU_SKIP
#define CU_MAKE_memset CU_SKIP
#define CU_MAKE_launch CU_SKIP
#define CU_MAKE_graph  CU_SKIP
#define CU_MAKE_mem    CU_SKIP
#define CU_MAKE_setup  CU_SKIP
#define CU_MAKE_lookup CU_WRAPPER
#include "tracer/inject/cuda/wrappers.h"
