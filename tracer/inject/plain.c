/* SPDX-License-Identifier: Apache-2.0
 *
 * memcpy, memset and memcmp for this library alone. A race detector in the job puts its own in place of
 * libc's, sees through them the recording's memory, knows nothing of the atomics that order the accesses,
 * and would report races that are none. These are hidden: whatever here calls one, the compiler's own
 * calls too, is bound to them. A build of ours that is instrumented itself needs the instrumented ones.
 */
#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                             \
	!HAS_FEATURE(address_sanitizer) && !HAS_FEATURE(thread_sanitizer)
#include <stddef.h>

#pragma GCC visibility push(hidden)

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

#pragma GCC visibility pop

/* What is copied on the path of an event is of constant size and has been put in line. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
#if defined(__x86_64__)
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
#else
	for (size_t i = 0; i < bytes; i++)
		((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
#endif
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
#if defined(__x86_64__)
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
#else
	for (size_t i = 0; i < bytes; i++)
		((volatile unsigned char *)to)[i] = (unsigned char)value;
#endif
	return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < bytes; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}
#endif
