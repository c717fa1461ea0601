/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of CUPTI's activity interface that is used, so that no NVIDIA header is needed to build.
 * A record's structure has grown at its end from version to version; declared here is the beginning that
 * CUDA 11.8 to 13 have in common. Records are never stepped over by these sizes, only by
 * cuptiActivityGetNextRecord.
 */
#ifndef WAYLAY_TRACER_INJECT_CUPTI_ABI_H
#define WAYLAY_TRACER_INJECT_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int cupti_result; /* 0 success */

enum {
	CUPTI_OK = 0,
	CUPTI_NOT_INITIALIZED = 15,
};

#define CUPTI_VERSION_LEAST 18 /* CUDA 11.8 */

enum cupti_kind {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_DRIVER = 4,
	CUPTI_KIND_RUNTIME = 5,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_OVERHEAD = 17,
	CUPTI_KIND_MEMCPY2 = 22,
	CUPTI_KIND_UNIFIED_MEMORY_COUNTER = 25,
	CUPTI_KIND_SYNCHRONIZATION = 38,
	CUPTI_KIND_INTERNAL_LAUNCH_API = 48,
	CUPTI_KIND_GRAPH_TRACE = 51,
	CUPTI_KIND_MAX = 64,
};

enum { CUPTI_FLUSH_FORCED = 1 };

typedef void (*cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *records_max);
typedef void (*cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				  size_t valid);
typedef uint64_t (*cupti_timestamp_fn)(void);

#define CUPTI_PACKED __attribute__((packed, aligned(8)))

struct cupti_record {
	uint32_t kind;
} CUPTI_PACKED;

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint32_t partitioned_requested, partitioned_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total, correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t shared_executed;
	uint64_t node;
	uint32_t shared_limit_config;
	uint32_t graph;
} CUPTI_PACKED;

struct cupti_memcpy {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, pad;
	void *reserved;
	uint64_t node;
	uint32_t graph;
} CUPTI_PACKED;

/* Between two devices. */
struct cupti_memcpy2 {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, src_device, src_context, dst_device, dst_context,
		correlation;
	void *reserved;
	uint64_t node;
	uint32_t graph;
} CUPTI_PACKED;

struct cupti_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved;
	uint64_t node;
	uint32_t graph;
} CUPTI_PACKED;

struct cupti_sync {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
} CUPTI_PACKED;

/* A call of the driver's or the runtime's interface. */
struct cupti_api {
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, status;
} CUPTI_PACKED;

struct cupti_graph {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};

#endif
