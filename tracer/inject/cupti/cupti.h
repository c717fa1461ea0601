/* SPDX-License-Identifier: Apache-2.0
 *
 * Device activity by CUPTI (WAYLAY_GPU=cupti), shared with another client in the same process, such as
 * torch.profiler. CUPTI's activity interface has one owner a process, and so has its subscription, which
 * we never take. We own the activity interface: our buffers, our clock; the other client's calls come to us,
 * and from each buffer it gets a copy of what it would have got alone.
 *
 *     library.c   which libcupti, and its functions
 *     activity.c  start, kinds, flushing, the end
 *     buffers.c   the buffers that CUPTI fills
 *     records.c   activity records -> gpu_* events
 *     share.c     the other client: its calls, its clock, its share of each buffer
 */
#ifndef WAYLAY_TRACER_INJECT_CUPTI_H
#define WAYLAY_TRACER_INJECT_CUPTI_H

#include "tracer/inject/cupti/abi.h"
#include "tracer/inject/inject.h"

#include <stdatomic.h>

#pragma GCC visibility push(hidden)

/* --- library.c ---------------------------------------------------------------------------------- */

#define CUPTI_LIBRARY "libcupti.so" /* what its file name starts with */

/* Real functions; NULL where this version has none. */
struct cupti_library {
	cupti_result (*get_version)(uint32_t *version);
	cupti_result (*enable)(uint32_t kind);
	cupti_result (*disable)(uint32_t kind);
	cupti_result (*register_callbacks)(cupti_request_fn request, cupti_complete_fn complete);
	cupti_result (*next_record)(uint8_t *buffer, size_t valid, struct cupti_record **record);
	cupti_result (*flush_all)(uint32_t flag);
	cupti_result (*register_timestamp)(cupti_timestamp_fn timestamp);
	cupti_result (*all_sync_records)(uint8_t enable);
	cupti_result (*stream_id)(void *context, void *stream, uint8_t per_thread, uint32_t *id);
	cupti_result (*context_id)(void *context, uint32_t *id);
	cupti_result (*result_string)(cupti_result result, const char **text);
};
extern struct cupti_library wl_cupti;

/* Finds the library: the one that is in the process, else one of the driver's major version. False with a
 * line in why. With `only_loaded` none is loaded that is not there already or named by WAYLAY_CUPTI. */
bool cupti_library_open(int driver_major, bool only_loaded, char *why, size_t why_size);
/* The real function of a name, for calls that come before the library was opened; NULL without one. */
void *cupti_real(const char *name);
/* True if the address lies in the library that was opened. */
bool cupti_is_library(const void *address);

/* --- activity.c ------------------------------------------------------------------------------------ */

/* Whether the activity interface is ours in this process now. */
bool cupti_active(void);
/* Kinds that we want, a bit each. */
extern uint64_t cupti_kinds;
/* The clock of all records: the recording's. */
uint64_t cupti_now(void);
/* Holds off our own flushes (and any other caller); to be given back. */
void cupti_flush_take(void);
void cupti_flush_give(void);
/* The other client has shut CUPTI down. */
void cupti_lost(void);

/* --- buffers.c --------------------------------------------------------------------------------------- */

void cupti_buffer_request(uint8_t **buffer, size_t *size, size_t *records_max);
void cupti_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			   size_t valid);
/* Turns the buffers that wait for it into events, oldest first. */
void cupti_buffers_drain(void);
/* The same, and waits for what another thread has begun: the process is about to end. */
void cupti_buffers_finish(void);

/* --- records.c ---------------------------------------------------------------------------------------- */

/* Records of one buffer, as events. Any thread. */
void cupti_records_take(uint8_t *buffer, size_t valid);
/* What could not be recorded, as attributes of the recording. */
void cupti_records_report(void);

/* --- share.c -------------------------------------------------------------------------------------------- */

/* Whether another client is to get its share of the buffers that come now. */
bool cupti_share_open(void);
/* Gives it its share of a buffer of ours. */
void cupti_share_give(uint8_t *buffer, size_t valid);
/* A buffer that is not ours: its own, from before we came. */
void cupti_share_return(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
/* A client that is done and does not flush: it is flushed for, and its window closed. */
bool cupti_share_stale(void);
void cupti_share_tidy(void);
/* When we take the interface over: what the other client had set by then. */
void cupti_share_begin(void);

#pragma GCC visibility pop

#endif
