/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks resolved to functions and lines, kept by their id, and the frame of each to blame.
 */
#include "exporters/model/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS_MAX 16 /* functions inlined into one another at one address */

void model_stacks_free(struct process *process)
{
	for (uint32_t i = 0; process->stacks && i <= process->stack_mask; i++) {
		if (!process->stacks[i].id)
			continue;
		free(process->stacks[i].stack->frames);
		free(process->stacks[i].stack);
	}
	free(process->stacks);
}

/* --- the frame to blame ------------------------------------------------------------------------- */

static bool has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Code that came with Python or with a package, rather than the job's own. */
static bool is_library_python(const char *file)
{
	const char *lib;

	if (!file || !*file || has_prefix(file, "<frozen") || has_prefix(file, "<__array_function"))
		return true;
	if (strstr(file, "/site-packages/") || strstr(file, "/dist-packages/"))
		return true;
	lib = strstr(file, "/lib/python");
	/* .../lib/python3.11/threading.py, but not a job that merely lives under such a name. */
	return lib && lib[11] >= '0' && lib[11] <= '9' && strchr(lib + 11, '/');
}

/* Functions of a CUDA runtime that was linked into the program: cudaMemcpyAsync, but not the job's own
 * cuda_step; its inner functions have names made of hashes. */
static bool is_runtime_name(const char *function)
{
	return has_prefix(function, "cudart::") || has_prefix(function, "__cuda") ||
	       has_prefix(function, "libcudart_static_") ||
	       (has_prefix(function, "cuda") && function[4] >= 'A' && function[4] <= 'Z');
}

/* Libraries between a job's own code and the devices. */
static bool is_library_native(const struct model_frame *frame)
{
	static const char *const modules[] = {
		"libwaylay",   "libcuda",     "libcudart",  "libcublas",  "libcudnn",  "libnccl",
		"libnv",       "libcupti",    "libfabric",  "libibverbs", "librdmacm", "libmpi",
		"libopen-pal", "libopen-rte", "libmca_",    "mca_",       "libpmi",    "libprrte",
		"libuc",       "libpsm",      "libefa",     "libmlx",     "libc.so",   "libc-2",
		"libm.so",     "libdl",       "librt.so",   "libpthread", "ld-linux",  "libstdc++",
		"libgcc_s",    "libgomp",     "linux-vdso", "[vdso]",
	};
	const char *name = frame->module ? strrchr(frame->module, '/') : NULL;

	name = name ? name + 1 : frame->module ? frame->module : "";
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		if (has_prefix(name, modules[i]))
			return true;
	}
	/* libfabric's calls are inline functions of its headers; cudart is often linked statically. */
	if (frame->file && strstr(frame->file, "/rdma/fi"))
		return true;
	return frame->function && is_runtime_name(frame->function);
}

/* Words of which names of thin wrappers around the driver are made. */
static bool is_driver_word(const char *word, size_t length, bool *action)
{
	static const char *const actions[] = {"wait",  "sync", "synchronize", "memcpy", "copy",
					      "check", "free", "memset",      "upload", "download"};
	static const char *const others[] = {
		"cuda", "cu", "gpu", "dev", "device", "stream", "event", "ctx", "context", "call",
		"safe", "do", "for", "all", "until",  "done",   "and",   "to",  "host",    "async",
		"h",    "d",  "h2d", "d2h", "err",    "error",  "on",    "the", "wrapper"};

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strlen(actions[i]) == length && strncasecmp(actions[i], word, length) == 0) {
			*action = true;
			return true;
		}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == length && strncasecmp(others[i], word, length) == 0)
			return true;
	return false;
}

/* cuda_wait(), gpuSync, util::deviceSynchronize(int): a function of the job's that only passes a wait
 * on, by its name. What must be fixed is where it is called. */
static bool is_wrapper_name(const char *function)
{
	size_t length = strcspn(function, "(<");
	const char *end = function + length, *word = function;
	bool action = false;

	for (const char *p = function; p + 1 < end; p++)
		if (p[0] == ':' && p[1] == ':')
			word = p + 2;
	while (word < end) {
		const char *stop = word + 1;

		if (*word == '_') {
			word++;
			continue;
		}
		while (stop < end && *stop != '_' && !(*stop >= 'A' && *stop <= 'Z'))
			stop++;
		if (!is_driver_word(word, (size_t)(stop - word), &action))
			return false;
		word = stop;
	}
	return action;
}

/* Up to the function that called wrappers, if that is the job's own and has a line. */
static unsigned above_wrappers(const struct model_stack *stack, unsigned site)
{
	for (unsigned i = site;; i++) {
		const struct model_frame *frame = &stack->frames[i], *caller = frame + 1;

		if (!frame->function || !is_wrapper_name(frame->function))
			return i;
		if (i + 1 == stack->count || caller->kind != TRACE_FRAME_NATIVE || !caller->line ||
		    is_library_native(caller))
			return site;
	}
}

static unsigned find_site(const struct model_stack *stack)
{
	int python = -1, native = -1;

	/* A line of this thread goes before one of the thread that waits for it. */
	for (int awaited = 0; awaited < 2; awaited++) {
		for (unsigned i = 0; i < stack->count; i++) {
			const struct model_frame *frame = &stack->frames[i];

			if (frame->kind != TRACE_FRAME_PYTHON || frame->awaited != awaited)
				continue;
			if (!is_library_python(frame->file))
				return i;
			if (python < 0)
				python = (int)i;
		}
	}
	if (python >= 0)
		return (unsigned)python;
	for (unsigned i = 0; i < stack->count && native < 0; i++) {
		if (!is_library_native(&stack->frames[i]))
			native = (int)i;
	}
	return native >= 0 ? above_wrappers(stack, (unsigned)native) : 0;
}

/* --- resolving ---------------------------------------------------------------------------------- */

static void fill_native(struct model *model, struct model_stack *stack,
			const struct trace_frame *from)
{
	struct model_symbol symbols[SYMBOLS_MAX];
	unsigned count = 0, max = SYMBOLS_MAX;

	if (max > MODEL_STACK_MAX - stack->count)
		max = MODEL_STACK_MAX - stack->count;
	if (model->want_symbols && from->file && *from->file)
		count = model_symbols_find(model, from, symbols, max);
	if (!count) {
		symbols[0] = (struct model_symbol){0};
		count = 1;
	}
	for (unsigned i = 0; i < count; i++) {
		struct model_frame *frame = &stack->frames[stack->count++];
		/* The build-id is a text of bytes, so that it lives as long as the model. */
		uint32_t id = text_pool_add(model->texts, (const char *)from->build_id,
					    from->build_id_bytes);

		*frame = (struct model_frame){
			.kind = TRACE_FRAME_NATIVE,
			.awaited = from->awaited,
			.function = symbols[i].function,
			.file = symbols[i].file,
			.line = symbols[i].line,
			.module = text_keep(model->texts, from->file),
			.offset = from->offset,
			.build_id = (const uint8_t *)text_pool_get(model->texts, id),
			.build_id_bytes = from->build_id_bytes,
		};
	}
}

static struct model_stack *resolve(struct model *model, unsigned process, uint32_t id)
{
	struct trace_frame raw[MODEL_STACK_MAX];
	struct model_stack *stack = calloc(1, sizeof(*stack));
	int error;
	struct trace_reader *reader = model_reader(model, process, &error);
	unsigned count = reader ? reader->ops->stack(reader, id, raw, MODEL_STACK_MAX) : 0;

	if (!stack)
		return NULL;
	stack->frames = calloc(MODEL_STACK_MAX, sizeof(*stack->frames));
	if (!stack->frames) {
		free(stack);
		return NULL;
	}
	for (unsigned i = 0; i < count && stack->count < MODEL_STACK_MAX; i++) {
		if (raw[i].kind == TRACE_FRAME_NATIVE) {
			fill_native(model, stack, &raw[i]);
			continue;
		}
		stack->frames[stack->count++] = (struct model_frame){
			.kind = TRACE_FRAME_PYTHON,
			.awaited = raw[i].awaited,
			.function = text_keep(model->texts, raw[i].function),
			.file = text_keep(model->texts, raw[i].file),
			.line = raw[i].line,
		};
	}
	/* Most stacks are far shorter than the most there can be. */
	struct model_frame *fit =
		realloc(stack->frames, (stack->count + 1u) * sizeof(*stack->frames));

	if (fit)
		stack->frames = fit;
	stack->site = find_site(stack);
	return stack;
}

static int grow(struct process *process)
{
	uint32_t mask = process->stacks ? process->stack_mask * 2 + 1 : 63;
	struct stack_slot *slots = calloc((size_t)mask + 1, sizeof(*slots));

	if (!slots)
		return -1;
	for (uint32_t i = 0; process->stacks && i <= process->stack_mask; i++) {
		uint32_t slot = (uint32_t)text_mix(process->stacks[i].id) & mask;

		if (!process->stacks[i].id)
			continue;
		while (slots[slot].id)
			slot = (slot + 1) & mask;
		slots[slot] = process->stacks[i];
	}
	free(process->stacks);
	process->stacks = slots;
	process->stack_mask = mask;
	return 0;
}

const struct model_stack *model_stack(struct model *model, unsigned index, uint32_t id)
{
	struct process *process = model->processes[index];
	uint32_t slot;

	if (!id ||
	    ((!process->stacks || process->stack_count > process->stack_mask / 2) && grow(process)))
		return &model->empty_stack;
	for (slot = (uint32_t)text_mix(id) & process->stack_mask; process->stacks[slot].id;
	     slot = (slot + 1) & process->stack_mask) {
		if (process->stacks[slot].id == id)
			return process->stacks[slot].stack;
	}
	struct model_stack *stack = resolve(model, index, id);

	if (!stack)
		return &model->empty_stack;
	process->stacks[slot] = (struct stack_slot){id, stack};
	process->stack_count++;
	return stack;
}

const struct model_frame *model_site(struct model *model, unsigned process, uint32_t id)
{
	const struct model_stack *stack = model_stack(model, process, id);

	return stack->count ? &stack->frames[stack->site] : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int model_frame_text(const struct model_frame *frame, char *buf, size_t size)
{
	const char *in = frame && frame->function && *frame->function ? " in " : "";

	if (!frame)
		return snprintf(buf, size, "%s", "");
	const char *function = *in ? frame->function : "";

	if (frame->file && *frame->file && frame->line)
		return snprintf(buf, size, "%s:%u%s%s", frame->file, frame->line, in, function);
	if (frame->file && *frame->file)
		return snprintf(buf, size, "%s%s%s", frame->file, in, function);
	return snprintf(buf, size, "%s+0x%llx%s%s",
			frame->module && *frame->module ? base_name(frame->module) : "?",
			(unsigned long long)frame->offset, in, function);
}

const struct model_frame *model_native_site(struct model *model, unsigned process, uint32_t id)
{
	const struct model_stack *stack = model_stack(model, process, id);

	if (!stack->count || stack->frames[stack->site].kind != TRACE_FRAME_PYTHON)
		return NULL;
	for (unsigned i = 0; i < stack->count; i++) {
		const struct model_frame *frame = &stack->frames[i];

		if (frame->kind == TRACE_FRAME_NATIVE && !frame->awaited &&
		    !is_library_native(frame))
			return frame;
	}
	return NULL;
}

const char *model_place(struct model *model, unsigned process, uint32_t id)
{
	const struct model_frame *frame = model_site(model, process, id);
	char place[1024];

	if (!frame || model_frame_text(frame, place, sizeof(place)) <= 0)
		return "(no stack)";
	return text_keep(model->texts, place);
}
