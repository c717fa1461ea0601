/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of the reference collectives are launched with, by value. Pointers are device
 * addresses, aligned to the elements. */
#ifndef WAYLAY_KERNELS_COLL_ARGS_H
#define WAYLAY_KERNELS_COLL_ARGS_H

#define COLL_BLOCK  512 /* threads of every kernel */
#define COLL_UNROLL 4   /* vectors of 16 bytes that a thread has under way */

enum coll_device_op { COLL_DEVICE_SUM, COLL_DEVICE_PROD, COLL_DEVICE_MIN, COLL_DEVICE_MAX };

struct coll_args {
	unsigned long long out;   /* may be a or b */
	unsigned long long a, b;  /* an average divides a and has no b */
	unsigned long long count; /* elements */
	unsigned op;              /* enum coll_device_op */
	int ranks;                /* an average's divisor */
};

#endif
