/* SPDX-License-Identifier: Apache-2.0 */
/* The tool's side of the NVTX protocol, written from the protocol's description and not from our
 * client. */
#include "tests/unit/nvtx_tool.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT char nvtx_tool_log[4096];
int nvtx_tool_refuse;
static int depth, domain_depth;

struct attributes { /* as the protocol lays them out */
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	size_t used = strlen(nvtx_tool_log);
	va_list args;

	va_start(args, format);
	vsnprintf(nvtx_tool_log + used, sizeof(nvtx_tool_log) - used, format, args);
	va_end(args);
}

static void note_event(const char *what, const struct attributes *a)
{
	note("%s v%d s%d message %d %s", what, a->version, a->size, a->message_type, a->message);
	if (a->payload_type)
		note(" payload %d %llu", a->payload_type, (unsigned long long)a->payload);
	note("\n");
}

static void mark_ex(const struct attributes *a)
{
	note_event("mark", a);
}

static void mark_a(const char *text)
{
	note("mark %s\n", text);
}

static uint64_t start_a(const char *text)
{
	note("start %s\n", text);
	return 42;
}

static void end(uint64_t range)
{
	note("end %llu\n", (unsigned long long)range);
}

static int push_ex(const struct attributes *a)
{
	note_event("push", a);
	return depth++;
}

static int push_a(const char *text)
{
	note("push %s\n", text);
	return depth++;
}

static int pop(void)
{
	note("pop\n");
	return --depth;
}

static void name_thread(uint32_t tid, const char *name)
{
	note("thread %u %s\n", tid, name);
}

static void *domain_create(const char *name)
{
	note("domain %s\n", name);
	return (void *)0x1000;
}

static void domain_destroy(void *domain)
{
	note("domain_destroy %p\n", domain);
}

static const char *domain_string(void *domain, const char *text)
{
	note("string %p %s\n", domain, text);
	return "registered";
}

static int domain_push(void *domain, const struct attributes *a)
{
	note("domain %p ", domain);
	note_event("push", a);
	return domain_depth++;
}

static int domain_pop(void *domain)
{
	note("domain %p pop\n", domain);
	return --domain_depth;
}

static void domain_mark(void *domain, const struct attributes *a)
{
	note("domain %p ", domain);
	note_event("mark", a);
}

typedef void (*function)(void);

struct callbacks {
	size_t size;
	int (*table)(int module, function ***slots, unsigned *count);
};

struct version {
	size_t size;
	uint32_t version, reserved;
	void (*set)(uint32_t version);
};

static void fill(function *slot, function fn)
{
	*slot = fn;
}

EXPORT int InitializeInjectionNvtx2(nvtx_tool_get_fn get)
{
	const struct callbacks *callbacks = get(1);
	const struct version *version = get(3);
	static const unsigned sizes[8] = {0, 16, 9, 15, 7, 16, 7, 0};
	function **slots = NULL;
	unsigned count;

	if (!callbacks || callbacks->size < sizeof(*callbacks) || get(2) || get(99))
		return 0;
	for (int module = 0; module < 8; module++) {
		int ok = callbacks->table(module, &slots, &count);

		note("module %d %s\n", module,
		     !ok                                                    ? "none"
		     : count == sizes[module] && !slots[0] && !slots[count] ? "ok"
									    : "odd");
	}
	if (version)
		version->set(3);
	note("version %u\n", version ? version->version : 0);
	callbacks->table(1, &slots, &count);
	fill(slots[1], (function)mark_ex);
	if (nvtx_tool_refuse)
		return 0;
	fill(slots[2], (function)mark_a);
	fill(slots[5], (function)start_a);
	fill(slots[7], (function)end);
	fill(slots[8], (function)push_ex);
	fill(slots[9], (function)push_a);
	fill(slots[11], (function)pop);
	fill(slots[14], (function)name_thread);
	callbacks->table(5, &slots, &count);
	fill(slots[1], (function)domain_mark);
	fill(slots[4], (function)domain_push);
	fill(slots[5], (function)domain_pop);
	fill(slots[10], (function)domain_string);
	fill(slots[12], (function)domain_create);
	fill(slots[14], (function)domain_destroy);
	return 1;
}
