/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of PyTorch's autograd engine have no Python frames; what they do was asked for by a thread
 * that stands in backward() until they are done. Its line is the one that people look for.
 */
#include "tracer/inject/inject.h"
#include "tracer/inject/pyread.h"

#define THREADS_MAX 512
#define FILE_BYTES  256

typedef void *(*main_fn)(void);
typedef void *(*head_fn)(void *interpreter);

/* Is it one of the files from which the engine is run, and waited for? */
static bool is_engine_file(struct reach *r, uintptr_t text)
{
	static const char *const files[] = {"/torch/autograd/graph.py",
					    "/torch/autograd/__init__.py"};
	size_t length = get_pointer(r, text, r->layout->text_length);
	char tail[FILE_BYTES];

	if (r->failed || !is_a(r, text, wl_python.text_type))
		return false;
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		size_t bytes = strlen(files[i]);

		if (length < bytes)
			continue;
		if (!get_bytes(r, text + (uintptr_t)r->layout->text_ascii + length - bytes, tail,
			       bytes))
			return false;
		if (!memcmp(tail, files[i], bytes))
			return true;
	}
	return false;
}

/* Does that thread state's innermost frame stand in the engine's call? */
static bool waits_in_engine(struct reach *r, uintptr_t thread, uintptr_t *frame)
{
	struct wl_python_frame innermost;

	*frame = wl_python_innermost(r, thread);
	return *frame && wl_python_frames(r, *frame, &innermost, 1) == 1 &&
	       is_engine_file(r, innermost.filename);
}

/* The head of the list of thread states; both functions of the interpreter's only load a pointer. */
static uintptr_t threads_head(void)
{
	static _Atomic(uintptr_t) known_main, known_head;
	uintptr_t of_main = atomic_load_explicit(&known_main, memory_order_relaxed);
	uintptr_t head = atomic_load_explicit(&known_head, memory_order_relaxed);
	void *interpreter;

	if (!of_main || !head) {
		of_main = (uintptr_t)wl_symbol_find(NULL, "PyInterpreterState_Main", NULL);
		head = (uintptr_t)wl_symbol_find(NULL, "PyInterpreterState_ThreadHead", NULL);
		if (!of_main || !head)
			return 0;
		atomic_store_explicit(&known_main, of_main, memory_order_relaxed);
		atomic_store_explicit(&known_head, head, memory_order_relaxed);
	}
	interpreter = ((main_fn)of_main)();
	return interpreter ? (uintptr_t)((head_fn)head)(interpreter) : 0;
}

unsigned wl_python_awaited(struct wl_python_frame *frames, unsigned max)
{
	struct reach r = {.layout = wl_python.layout, .how = REACH_COPIED};
	uintptr_t thread, frame, found = 0, waiter = 0;
	struct wl_python_frame again;
	unsigned count;

	if (!wl_python_ready())
		return 0;
	r.layout = wl_python.layout;
	thread = threads_head();
	for (unsigned i = 0; thread && i < THREADS_MAX; i++) {
		if (waits_in_engine(&r, thread, &frame)) {
			if (waiter)
				return 0; /* which of them? */
			waiter = thread;
			found = frame;
		}
		r.failed = false; /* a thread that runs is read in the middle of a change */
		thread = get_pointer(&r, thread, r.layout->thread_next);
		if (r.failed)
			return 0;
	}
	if (!waiter)
		return 0;
	count = wl_python_frames(&r, found, frames, max);
	/* Still there, at the same instruction: then nothing of it has changed in between. */
	if (!count || wl_python_innermost(&r, waiter) != found ||
	    wl_python_frames(&r, found, &again, 1) != 1 || again.code != frames[0].code ||
	    again.offset != frames[0].offset)
		return 0;
	return count;
}
