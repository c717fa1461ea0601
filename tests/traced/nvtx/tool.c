/* SPDX-License-Identifier: Apache-2.0
 *
 * Another NVTX tool: writes a line for every call of the default domain and of domains to the file that
 * OTHER_TOOL_LOG names, and refuses handles that it did not give.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*fn)(void);
typedef const void *(*get_fn)(uint32_t);

struct callbacks {
	size_t size;
	int (*table)(int module, fn ***slots, unsigned *size);
};

static FILE *out;
static int depth, domain_object, string_object;

int InitializeInjectionNvtx2(get_fn get);

static int push_a(const char *text)
{
	fprintf(out, "push %s\n", text);
	return depth++;
}

static int pop(void)
{
	fprintf(out, "pop\n");
	return --depth;
}

static void mark_a(const char *text)
{
	fprintf(out, "mark %s\n", text);
}

static uint64_t start_a(const char *text)
{
	fprintf(out, "start %s\n", text);
	return 99;
}

static void end(uint64_t id)
{
	fprintf(out, "end %d\n", (int)id);
}

static void *domain_create_a(const char *name)
{
	fprintf(out, "domain %s\n", name);
	return &domain_object;
}

static void *string_a(void *domain, const char *text)
{
	fprintf(out, "string %s %s\n", text, domain == &domain_object ? "mine" : "FOREIGN");
	return &string_object;
}

static int domain_push(void *domain, const void *attributes)
{
	const void *message;

	memcpy(&message, (const char *)attributes + 40, sizeof(message));
	fprintf(out, "domain push %s %s\n", domain == &domain_object ? "mine" : "FOREIGN",
		message == &string_object ? "mine" : "FOREIGN");
	return 0;
}

static int domain_pop(void *domain)
{
	fprintf(out, "domain pop %s\n", domain == &domain_object ? "mine" : "FOREIGN");
	return 0;
}

static void put(get_fn get, int module, unsigned slot, fn function)
{
	const struct callbacks *callbacks = get(1);
	fn **slots;
	unsigned size;

	if (callbacks->table(module, &slots, &size) && slot < size)
		*slots[slot] = function;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(get_fn get)
{
	if (!out)
		out = fopen(getenv("OTHER_TOOL_LOG"), "w");
	if (!out)
		return 0;
	setlinebuf(out);
	put(get, 1, 2, (fn)mark_a);
	put(get, 1, 5, (fn)start_a);
	put(get, 1, 7, (fn)end);
	put(get, 1, 9, (fn)push_a);
	put(get, 1, 11, (fn)pop);
	put(get, 5, 4, (fn)domain_push);
	put(get, 5, 5, (fn)domain_pop);
	put(get, 5, 10, (fn)string_a);
	put(get, 5, 12, (fn)domain_create_a);
	return 1;
}
