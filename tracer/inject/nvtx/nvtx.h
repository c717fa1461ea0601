/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX as a tool sees it: what clients pass, the slots they let a tool fill, and the domains, strings
 * and categories that the tool keeps for them.
 */
#ifndef WAYLAY_TRACER_INJECT_NVTX_NVTX_H
#define WAYLAY_TRACER_INJECT_NVTX_NVTX_H

#include "tracer/inject/inject.h"

#include <wchar.h>

/* --- the protocol ------------------------------------------------------------------------------- */

enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5, NVTX_MODULE_MAX = 7 };
enum { NVTX_TABLE_CALLBACKS = 1 };

enum nvtx_core {
	NVTX_CORE_MARK_EX = 1,
	NVTX_CORE_MARK_A,
	NVTX_CORE_MARK_W,
	NVTX_CORE_START_EX,
	NVTX_CORE_START_A,
	NVTX_CORE_START_W,
	NVTX_CORE_END,
	NVTX_CORE_PUSH_EX,
	NVTX_CORE_PUSH_A,
	NVTX_CORE_PUSH_W,
	NVTX_CORE_POP,
	NVTX_CORE_CATEGORY_A,
	NVTX_CORE_CATEGORY_W,
	NVTX_CORE_THREAD_A,
	NVTX_CORE_THREAD_W,
	NVTX_CORE_MAX
};

enum nvtx_core2 {
	NVTX_CORE2_MARK_EX = 1,
	NVTX_CORE2_START_EX,
	NVTX_CORE2_END,
	NVTX_CORE2_PUSH_EX,
	NVTX_CORE2_POP,
	NVTX_CORE2_RESOURCE_CREATE,
	NVTX_CORE2_RESOURCE_DESTROY,
	NVTX_CORE2_CATEGORY_A,
	NVTX_CORE2_CATEGORY_W,
	NVTX_CORE2_STRING_A,
	NVTX_CORE2_STRING_W,
	NVTX_CORE2_DOMAIN_A,
	NVTX_CORE2_DOMAIN_W,
	NVTX_CORE2_DOMAIN_DESTROY,
	NVTX_CORE2_INITIALIZE,
	NVTX_CORE2_MAX
};

#define NVTX_SLOTS_MAX   16
#define NVTX_NO_TRACKING (-2) /* what push and pop return when no tool keeps count */

typedef void (*nvtx_fn)(void);
typedef const void *(*nvtx_get_fn)(uint32_t table);
typedef int (*nvtx_init_fn)(nvtx_get_fn get);

struct nvtx_callbacks {
	size_t size;
	int (*module_function_table)(int module, nvtx_fn ***table, unsigned *size);
};

/* What an event carries. `size` says how much of it the client filled. */
struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type; /* 1: ARGB */
	uint32_t color;
	int32_t payload_type; /* as enum wl_payload_type */
	int32_t reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};
enum { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_UNICODE = 2, NVTX_MESSAGE_REGISTERED = 3 };

/* --- what the tool keeps (objects.c) ------------------------------------------------------------- */

enum nvtx_kind { NVTX_KIND_DOMAIN = 1, NVTX_KIND_STRING, NVTX_KIND_CATEGORY };

/* Never freed: clients hold its address, and events refer to its name for as long as they run. */
struct nvtx_object {
	uint32_t magic;
	uint32_t kind;
	const struct nvtx_object *domain;
	uint64_t number; /* category number, or the handle that a chained tool gave; else 0 */
	struct wl_name name;
	char text[];
};

/*
 * The object of that kind in that domain, made if there is none: with number != 0 known by its number,
 * else by its text. NULL when no room is left. Lock-free, any thread; uses no memory of the job's heap.
 */
struct nvtx_object *nvtx_object_get(enum nvtx_kind kind, const struct nvtx_object *domain,
				    uint64_t number, const char *text);
/* As above, but NULL if it has not been made. */
struct nvtx_object *nvtx_object_find(enum nvtx_kind kind, const struct nvtx_object *domain,
				     uint64_t number);
/* The object that a client's handle means, NULL for one that is none of ours. */
struct nvtx_object *nvtx_object_of(const void *handle, enum nvtx_kind kind);

/* UTF-8 of a wide text, cut to fit; to is always terminated. */
void nvtx_text_narrow(char *to, size_t size, const wchar_t *from);

/* --- another tool behind us (chain.c) ------------------------------------------------------------ */

/* Functions that the chained tool put into its slots; NULL ones without a tool. */
extern nvtx_fn nvtx_chain_core[NVTX_SLOTS_MAX], nvtx_chain_core2[NVTX_SLOTS_MAX];
extern bool nvtx_chained;
/* Lets the tool named by WAYLAY_NVTX_CHAIN attach to the same client. */
void nvtx_chain_attach(nvtx_get_fn get);

/* Names that threads got before the recording began. */
void nvtx_thread_named(uint32_t tid, const char *name);

#endif
