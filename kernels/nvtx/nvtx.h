/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small client of the NVTX 3 protocol: ranges, marks, domains and thread names that any NVTX tool
 * sees.
 *
 * Like NVIDIA's headers, the first call looks for a tool (see nvtx.c); with none, every call is one
 * load and one branch for the rest of the process. It needs no CUDA, no header of NVIDIA's and no
 * other part of this project. Every function may be called from any thread. Strings are UTF-8 and
 * are only read during the call.
 */
#ifndef WAYLAY_KERNELS_NVTX_H
#define WAYLAY_KERNELS_NVTX_H

#include <stddef.h>
#include <stdint.h>

struct nvtx_domain; /* made by the tool; NULL is the default domain, and all there is without a tool
		     */
struct nvtx_string; /* a registered string, made by the tool */

enum nvtx_message_type {
	NVTX_MESSAGE_NONE,
	NVTX_MESSAGE_ASCII,
	NVTX_MESSAGE_UNICODE,
	NVTX_MESSAGE_REGISTERED
};
enum nvtx_color_type { NVTX_COLOR_NONE, NVTX_COLOR_IS_ARGB };
enum nvtx_payload_type {
	NVTX_PAYLOAD_NONE,
	NVTX_PAYLOAD_U64,
	NVTX_PAYLOAD_I64,
	NVTX_PAYLOAD_F64,
	NVTX_PAYLOAD_U32,
	NVTX_PAYLOAD_I32,
	NVTX_PAYLOAD_F32
};

/* What an event carries; the layout is the protocol's version 2 (48 bytes), which tools read by
 * `size`. */
struct nvtx_event {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color; /* 0xAARRGGBB */
	int32_t payload_type;
	int32_t reserved;
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
		uint32_t u32;
		int32_t i32;
		float f32;
	} payload;
	int32_t message_type;
	union {
		const char *ascii;
		const wchar_t *unicode;
		const struct nvtx_string *registered;
	} message;
};

#define NVTX_EVENT_VERSION 3

/* An event with a plain text and, where `payload_type` is set afterwards, a number. */
#define NVTX_EVENT(text)                                                                           \
	((struct nvtx_event){                                                                      \
		.version = NVTX_EVENT_VERSION,                                                     \
		.size = sizeof(struct nvtx_event),                                                 \
		.message_type = NVTX_MESSAGE_ASCII,                                                \
		.message = {.ascii = (text)},                                                      \
	})

/* What push and pop return when no tool keeps the nesting. */
#define NVTX_NO_NESTING (-2)

/* True when a tool has taken the calls; starts the protocol if no call has yet. */
int nvtx_active(void);

/* Ranges that nest on the calling thread. Return the depth (0 for the outermost), NVTX_NO_NESTING
 * without a tool, or another negative number for a pop too many. */
int nvtx_push(const char *name);
int nvtx_push_event(const struct nvtx_event *event);
int nvtx_push_u64(const char *name, uint64_t payload);
int nvtx_pop(void);

/* Ranges that may cross and may end on another thread. Return the tool's identifier, 0 without a
 * tool. */
uint64_t nvtx_start(const char *name);
void nvtx_end(uint64_t range);

void nvtx_mark(const char *name);
void nvtx_mark_event(const struct nvtx_event *event);

/* Names a thread by its kernel thread id (gettid). */
void nvtx_name_thread(uint32_t tid, const char *name);

/* Domains and registered strings. A domain or string made without a tool is NULL and valid
 * everywhere below. */
struct nvtx_domain *nvtx_domain_create(const char *name);
void nvtx_domain_destroy(struct nvtx_domain *domain);
struct nvtx_string *nvtx_domain_string(struct nvtx_domain *domain, const char *text);
int nvtx_domain_push(struct nvtx_domain *domain, const struct nvtx_string *text);
int nvtx_domain_push_event(struct nvtx_domain *domain, const struct nvtx_event *event);
int nvtx_domain_pop(struct nvtx_domain *domain);
void nvtx_domain_mark(struct nvtx_domain *domain, const struct nvtx_string *text);

#endif
