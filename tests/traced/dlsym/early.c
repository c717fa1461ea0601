/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks dlsym from a constructor that runs before those of preloaded libraries, as sanitizers and
 * allocators do.
 */
#include <dlfcn.h>
#include <stddef.h>

int early_result(void);

static int found;

__attribute__((constructor(101))) static void before_main(void)
{
	found = (dlsym(RTLD_NEXT, "malloc") != NULL) + 2 * (dlsym(RTLD_DEFAULT, "fopen") != NULL) +
		4 * (dlsym(RTLD_DEFAULT, "cuNothing") == NULL) +
		8 * (dlvsym(RTLD_DEFAULT, "calloc", "NO_SUCH_1") == NULL);
}

int early_result(void)
{
	return found;
}
