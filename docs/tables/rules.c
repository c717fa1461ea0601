/* SPDX-License-Identifier: Apache-2.0
 *
 * docs/rules.md from the code's own tables: which CUDA calls hold the host, when, and how that is known. The
 * initializers of the wrappers say what each entry is by itself, the classifier what memory adds to it.
 * `make docs` writes the page; a test fails when it is not what this prints.
 */
#include "tracer/inject/cuda/calls.h"

#include "tracer/inject/cuda/forms.def"

#include <stdio.h>

struct entry {
	const char *symbol, *kind;
	uint8_t rule;
	uint8_t gives_back;
	bool marks, async, batched;
};

/* What differs between the kinds of calls. */
static void tell_wait(struct entry *to, const struct cu_wait *call)
{
	to->rule = call->ev.rule;
}
static void tell_setup(struct entry *to, const struct cu_setup *call)
{
	to->rule = call->ev.rule;
}
static void tell_mem(struct entry *to, const struct cu_mem *call)
{
	to->gives_back = call->gives_back;
	to->marks = call->marks;
}
static void tell_copy(struct entry *to, const struct cu_copy *call)
{
	to->async = call->async;
	to->batched = call->told == CU_TOLD_AFTER && strstr(to->symbol, "Batch") != NULL;
}
static void tell_memset(struct entry *to, const struct cu_memset *call)
{
	to->async = call->async;
}
#define TELL_NOTHING(kind)                                                                         \
	static void tell_##kind(struct entry *to, const struct cu_##kind *call)                    \
	{                                                                                          \
		(void)to;                                                                          \
		(void)call;                                                                        \
	}
TELL_NOTHING(poll)
TELL_NOTHING(order)
TELL_NOTHING(launch)
TELL_NOTHING(graph)
TELL_NOTHING(lookup)

/* A wrapper's initializer with all arguments 0, which it never looks through. */
#define OPEN(...) __VA_ARGS__
#define PROBE(symbol, own_stream, kind, params, args, before, after)                               \
	static struct entry *probed_##symbol;                                                      \
	static CUresult probe_##symbol params                                                      \
	{                                                                                          \
		struct cu_##kind call = {OPEN before};                                             \
                                                                                                   \
		tell_##kind(probed_##symbol, &call);                                               \
		return 0;                                                                          \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CU_ENTRY(symbol, default_stream, form) FORM_##form(PROBE, symbol, default_stream)
#include "tracer/inject/cuda/entries.def"
#pragma GCC diagnostic pop

/* More words than any entry has arguments, so that one passed by value on the stack is there too. */
typedef CUresult (*probe_fn)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			     uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static struct entry entries[CU_ID_MAX];

#define KIND_NAME(symbol, own_stream, kind, params, args, before, after) #kind
static const struct {
	const char *symbol, *kind;
	void *probe;
	struct entry **probed;
} rows[CU_ID_MAX] = {
#define CU_ENTRY(name, default_stream, form)                                                       \
	{#name, FORM_##form(KIND_NAME, name, default_stream), (void *)probe_##name, &probed_##name},
#include "tracer/inject/cuda/entries.def"
};

static void entries_probe(void)
{
	for (unsigned id = 0; id < CU_ID_MAX; id++) {
		probe_fn probe = (probe_fn)rows[id].probe;

		entries[id].symbol = rows[id].symbol;
		entries[id].kind = rows[id].kind;
		*rows[id].probed = &entries[id];
		probe(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	}
}

/* --- the page ---------------------------------------------------------------------------------------- */

static bool is_variant(const char *symbol)
{
	size_t length = strlen(symbol);

	return length > 5 &&
	       (!strcmp(symbol + length - 5, "_ptsz") || !strcmp(symbol + length - 5, "_ptds"));
}

/* The entries that `is` picks, in code and with commas; how many. */
static unsigned list(bool (*is)(const struct entry *, int), int arg)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CU_ID_MAX; i++)
		if (!is_variant(entries[i].symbol) && is(&entries[i], arg))
			printf("%s`%s`", count++ ? ", " : "", entries[i].symbol);
	return count;
}

static bool has_rule(const struct entry *e, int rule)
{
	uint8_t is = e->rule;

	if (!strcmp(e->kind, "mem"))
		is = e->marks ? WL_rule_sync_memops
			      : cu_classify_give_back(e->gives_back, false, false).rule;
	return is == rule && rule != WL_rule_none;
}

static bool is_copy(const struct entry *e, int async)
{
	return !strcmp(e->kind, "copy") && !e->batched && e->async == async;
}

static bool is_batched(const struct entry *e, int unused)
{
	(void)unused;
	return !strcmp(e->kind, "copy") && e->batched;
}

static bool is_memset(const struct entry *e, int async)
{
	return !strcmp(e->kind, "memset") && e->async == async;
}

static bool is_kind(const struct entry *e, int letter)
{
	return e->kind[0] == letter && (letter != 'l' || !strcmp(e->kind, "launch"));
}

static bool is_nothing(const struct entry *e, int unused)
{
	(void)unused;
	if (!strcmp(e->kind, "mem"))
		return !e->marks &&
		       cu_classify_give_back(e->gives_back, false, false).rule == WL_rule_none;
	return !strcmp(e->kind, "setup") && !e->rule;
}

static const char *const kinds[] = {"unknown", "pageable", "pinned", "device", "managed", "array"};

static const char *class_of(struct cu_verdict v)
{
	return v.cls == WL_call_class_waits    ? "waits"
	       : v.cls == WL_call_class_stages ? "stages"
					       : "-";
}

static void matrix(const char *title, bool async, uint8_t order, bool sync_memops)
{
	printf("\n%s\n\n| from \\ to |", title);
	for (unsigned dst = WL_mem_kind_pageable; dst <= WL_mem_kind_managed; dst++)
		printf(" %s |", kinds[dst]);
	printf("\n|---|---|---|---|---|\n");
	for (unsigned src = WL_mem_kind_pageable; src <= WL_mem_kind_managed; src++) {
		printf("| %s |", kinds[src]);
		for (unsigned dst = WL_mem_kind_pageable; dst <= WL_mem_kind_managed; dst++) {
			const struct cu_copy_facts facts = {.dst = (uint8_t)dst,
							    .src = (uint8_t)src,
							    .async = async,
							    .order = order,
							    .sync_memops = sync_memops};
			struct cu_verdict v = cu_classify_copy(&facts);

			if (v.rule)
				printf(" %s: `%s`%s |", class_of(v), wl_rule_info(v.rule)->word,
				       v.guessed ? " (guessed)" : "");
			else
				printf(" - |");
		}
		printf("\n");
	}
}

static void rules(void)
{
	printf("\n## The rules\n\n"
	       "| rule | what holds the host | waits for | known from | what to do instead |\n"
	       "|---|---|---|---|---|\n");
	for (unsigned rule = 1; rule < WL_rule_MAX; rule++) {
		const struct wl_rule_info *is = wl_rule_info(rule);

		printf("| `%s` | %s | %s | %s | %s |\n", is->word, is->condition, is->waits_for,
		       is->source, is->remedy[0] ? is->remedy : "-");
	}
	printf("\nNOTHING: the host is held by its own work, not by the device's. STREAM: all earlier "
	       "work of the call's\nstream, and what that is ordered after (with the legacy default "
	       "stream all blocking streams, with a blocking\nstream the legacy one). LEGACY: the "
	       "same for the default stream that the entry uses. CONTEXT: all work of the\ncontext. "
	       "EVENT: the work before the event. COPY: only copies and memsets of that memory.\n");
}

static void calls(void)
{
	printf("\n## Calls that wait whatever their memory\n\n| rule | calls |\n|---|---|\n");
	for (unsigned rule = 1; rule < WL_rule_MAX; rule++) {
		unsigned count = 0;

		for (unsigned i = 0; i < CU_ID_MAX; i++)
			count += has_rule(&entries[i], (int)rule);
		if (!count)
			continue;
		printf("| `%s` | ", wl_rule_info(rule)->word);
		list(has_rule, (int)rule);
		printf(" |\n");
	}
	printf("\n`stream_wait` on the legacy default stream is `%s`. Memory that came from a pool is "
	       "freed without a wait. A\nnull pointer is freed without one. `cuCtxSetLimit` waits for "
	       "the stack limit alone. A launch or\n`cuKernelGetFunction` waits (`%s`) where it is "
	       "the first use of its library, unless loading is eager,\nand (`%s`) where its code needs more "
	       "local memory than any before; a launch may also be held by a "
	       "full queue, which is no rule but shows as its time.\n",
	       wl_rule_info(cu_classify_wait(WL_rule_stream_wait, WL_stream_kind_legacy).rule)
		       ->word,
	       wl_rule_info(WL_rule_library_first_use)->word,
	       wl_rule_info(WL_rule_local_memory)->word);
	printf("\n## Calls that ask\n\n");
	list(is_kind, 'p');
	printf(": `%s`. A run of them on one object, of which at least two said \"not ready\", that "
	       "ends in\n\"ready\" is one wait: `%s`.\n",
	       wl_rule_info(cu_classify_queries(0, true).rule)->word,
	       wl_rule_info(cu_classify_queries(2, true).rule)->word);
}

static void copies(void)
{
	printf("\n## Copies\n\nBy the kinds of memory, as the driver knows them. \"-\": the host is "
	       "not held. What the driver knows nothing\nabout is taken for pageable (and the record "
	       "says that it was guessed).\n\nSynchronous: ");
	list(is_copy, false);
	printf(".\n\nAsynchronous: ");
	list(is_copy, true);
	printf(".\n\nBatched: ");
	list(is_batched, 0);
	printf(".\n");
	matrix("Synchronous copies:", false, CU_NOT_BATCHED, false);
	matrix("Synchronous copies of memory that is marked SYNC_MEMOPS:", false, CU_NOT_BATCHED,
	       true);
	matrix("Asynchronous copies:", true, CU_NOT_BATCHED, false);
	matrix("Batched copies, source read in stream order:", true, CU_ORDER_STREAM, false);
	matrix("Batched copies, source read during the call:", true, CU_ORDER_DURING_CALL, false);
	matrix("Batched copies, source read in any order:", true, CU_ORDER_ANY, false);
}

static void memsets(void)
{
	printf("\n## Memsets\n\n| call |");
	for (unsigned dst = WL_mem_kind_pageable; dst <= WL_mem_kind_managed; dst++)
		printf(" %s |", kinds[dst]);
	printf(" marked SYNC_MEMOPS |\n|---|---|---|---|---|---|\n");
	for (int async = 0; async < 2; async++) {
		struct cu_verdict marked = cu_classify_memset(WL_mem_kind_device, async, true);

		printf("| ");
		list(is_memset, async);
		printf(" |");
		for (unsigned dst = WL_mem_kind_pageable; dst <= WL_mem_kind_managed; dst++) {
			struct cu_verdict v = cu_classify_memset((uint8_t)dst, async, false);

			printf(" %s%s%s |", v.rule ? "`" : "-",
			       v.rule ? wl_rule_info(v.rule)->word : "", v.rule ? "`" : "");
		}
		printf(" %s%s%s |\n", marked.rule ? "`" : "-",
		       marked.rule ? wl_rule_info(marked.rule)->word : "", marked.rule ? "`" : "");
	}
}

int main(void)
{
	entries_probe();
	printf("# Which CUDA calls hold the host\n\n"
	       "<!-- written by `make docs` from tracer/events/rules.def, tracer/inject/cuda/entries.def "
	       "and the classifier -->\n\n"
	       "%u entries of the driver are wrapped. Those that end in `_ptds` or `_ptsz` are meant too "
	       "where their plain\nname is listed: stream 0 is then the thread's own, not the legacy "
	       "one. A call inside stream capture is\nrecorded as captured and counts as nothing.\n",
	       (unsigned)CU_ID_MAX);
	rules();
	calls();
	copies();
	memsets();
	printf("\n## Calls that never hold the host by rule\n\nOrder among device work: ");
	list(is_kind, 'o');
	printf(".\n\nLaunches: ");
	list(is_kind, 'l');
	printf(".\n\nGraphs: ");
	list(is_kind, 'g');
	printf(".\n\nMemory and set-up: ");
	list(is_nothing, 0);
	printf(".\n");
	return 0;
}
