/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers of: memory, and all that is set up: contexts, streams, code.
 */
#define CU_MAKE_wait   CU_SKIP
#define CU_MAKE_poll   CU_SKIP
#define CU_MAKE_order  CU_SKIP
#define CU_MAKE_copy   CU_SKIP
#define CU_MAKE_memset CU_SKIP
#define CU_MAKE_launch CU_SKIP
#define CU_MAKE_graph  CU_SKIP
#define CU_MAKE_mem    CU_WRAPPER
#define CU_MAKE_setup  CU_WRAPPER
#define CU_MAKE_lookup CU_SKIP
#include "tracer/inject/cuda/wrappers.h"
