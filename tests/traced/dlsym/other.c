/* SPDX-License-Identifier: Apache-2.0
 *
 * Another preloaded tool that hooks dlsym: counts the calls that reach it and passes them on as a jump.
 */
#include <dlfcn.h>
#include <stdio.h>

static unsigned asked;

/* The one behind, found in a way that does not end in ourselves. */
static void *(*behind)(void *, const char *);

void *dlsym(void *handle, const char *name);

__attribute__((constructor)) static void start(void)
{
	behind = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

__attribute__((destructor)) static void end(void)
{
	printf("other: %u\n", asked);
}

void *dlsym(void *handle, const char *name)
{
	if (!behind)
		start();
	asked++;
	return behind(handle, name); /* as a jump: the caller stays the caller */
}
