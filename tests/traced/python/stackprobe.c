/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python programs call to see the stack that the tracer would record: the tracer's own capture
 * (stack.c, python.c) over an interning that keeps frames as text. Built as a shared object that
 * Python opens with ctypes.
 */
#include "tracer/inject/inject.h"

#include "tracer/inject/unwind.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STRINGS_MAX 65536

struct wl_settings wl_settings = {
	.enabled = true, .stacks = WL_STACK_ALL, .stack_depth = WL_STACK_DEPTH_MAX};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *strings[STRINGS_MAX];
static uint32_t string_count = 1, stack_count;
static char notes[1024];

__thread struct spool_thread *spool_self;

uint32_t spool_generation_slow(void)
{
	return 1;
}

uint32_t spool_intern_string(const char *text, size_t length)
{
	uint32_t id = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 1; i < string_count && !id; i++)
		if (!strncmp(strings[i], text, length) && !strings[i][length])
			id = i;
	if (!id && string_count < STRINGS_MAX) {
		id = string_count++;
		strings[id] = strndup(text, length);
	}
	pthread_mutex_unlock(&lock);
	return id;
}

uint32_t spool_intern_module(const char *path, uint64_t bias, uint64_t start, uint64_t end,
			     const uint8_t *build_id, unsigned build_id_bytes)
{
	(void)bias, (void)start, (void)end, (void)build_id, (void)build_id_bytes;
	return spool_intern_string(path, strlen(path));
}

uint32_t spool_intern_stack(const struct spool_meta_frame *frames, unsigned count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (unsigned i = 0; i < count; i++)
		if ((frames[i].kind & 0xff) == TRACE_FRAME_PYTHON)
			fprintf(out, "%c\t%s\t%llu\t%s\n",
				frames[i].kind & SPOOL_FRAME_AWAITED ? 'A' : 'P',
				strings[frames[i].what], (unsigned long long)frames[i].where,
				strings[frames[i].name]);
		else
			fprintf(out, "N\t%s\t%llx\n",
				frames[i].what ? strings[frames[i].what] : "?",
				(unsigned long long)frames[i].where);
	fclose(out);
	uint32_t id = spool_intern_string(text, size);
	free(text);
	__atomic_fetch_add(&stack_count, 1, __ATOMIC_RELAXED);
	return id;
}

void spool_attribute(const char *key, const char *value)
{
	snprintf(notes, sizeof(notes), "%s: %s", key, value);
}

void wl_debug(const char *format, ...)
{
	(void)format;
}

bool wl_started(void)
{
	return true;
}

/* --- for ctypes --------------------------------------------------------------------------------- */

WL_EXPORT void probe_start(void);
WL_EXPORT const char *probe_stack(void);
WL_EXPORT const char *probe_notes(void);
WL_EXPORT const char *probe_callback(const char *(*call)(void));
WL_EXPORT uint32_t probe_stack_count(void);
WL_EXPORT int probe_compare(void);
WL_EXPORT const char *probe_on_thread(void);
WL_EXPORT int probe_hold(void);
WL_EXPORT int probe_held(void);
WL_EXPORT void probe_release(void);

void probe_start(void)
{
	wl_stack_start();
}

/* Frames as lines: "P file line function" ("A" for those of a thread that waits) or "N module offset", with tabs. Never freed. */
const char *probe_stack(void)
{
	uint32_t id = wl_stack(WL_STACK_FOR_SYNC);

	return id ? strings[id] : "";
}

/* Through C, as a library's callback into Python would come. */
const char *probe_callback(const char *(*call)(void))
{
	return call();
}

const char *probe_notes(void)
{
	return notes;
}

static void *thread_body(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)probe_stack();
}

/* The stack of a thread that Python knows nothing of, while the caller waits for it. */
const char *probe_on_thread(void)
{
	pthread_t thread;
	void *text = NULL;

	if (!pthread_create(&thread, NULL, thread_body, NULL))
		pthread_join(thread, &text);
	return text ? text : "";
}

/* Waits in C until probe_release(). */
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool held, release;

int probe_hold(void)
{
	pthread_mutex_lock(&lock);
	held = true;
	while (!release)
		pthread_cond_wait(&released, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

int probe_held(void)
{
	pthread_mutex_lock(&lock);
	bool result = held;
	pthread_mutex_unlock(&lock);
	return result;
}

void probe_release(void)
{
	pthread_mutex_lock(&lock);
	release = true;
	pthread_cond_broadcast(&released);
	pthread_mutex_unlock(&lock);
}

/* Stacks that had to be made anew, not found in the cache. */
uint32_t probe_stack_count(void)
{
	return __atomic_load_n(&stack_count, __ATOMIC_RELAXED);
}

/* Our unwinder beside libgcc's: 0 the same, 1 not, 2 ours does not know (and libgcc's is used). */
int probe_compare(void)
{
	void *ours[512], *theirs[512];
	unsigned our_count, their_count;

	if (wl_unwind(ours, 512, &our_count) == WL_UNWIND_UNKNOWN)
		return 2;
	their_count = (unsigned)backtrace(theirs, 512);
	/* The first is a place in this function, and not the same one. */
	return our_count != their_count || !our_count ||
	       memcmp(ours + 1, theirs + 1, (our_count - 1) * sizeof(ours[0])) != 0;
}
