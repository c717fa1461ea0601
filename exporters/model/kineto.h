/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace of torch.profiler (Kineto) of the same run: its GPU rows, and the calls they were caused by.
 */
#ifndef WAYLAY_EXPORTERS_KINETO_H
#define WAYLAY_EXPORTERS_KINETO_H

#include "exporters/exporters.h"

/* Something on a GPU. Times on the model's clock. */
struct kineto_row {
	int64_t begin_ns, end_ns;
	const char *name;     /* lives as long as the trace */
	const char *category; /* kernel, gpu_memcpy or gpu_memset: a constant */
	uint32_t device, context, stream, correlation;
	uint64_t bytes;
	uint32_t grid[3], block[3]; /* 0 unknown */
};

unsigned kineto_row_count(const struct kineto *kineto);
const struct kineto_row *kineto_row(const struct kineto *kineto, unsigned index);
/* The process of the model that the file is of: its index. */
unsigned kineto_process(const struct kineto *kineto);
/* The correlation of the runtime call around a call of that thread's, or of the driver call in it; 0 none. */
uint32_t kineto_correlation(const struct kineto *kineto, int64_t tid, int64_t begin_ns,
			    int64_t end_ns);

#endif
