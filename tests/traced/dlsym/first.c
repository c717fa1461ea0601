/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that wraps a function of the next one, as preloaded tools do: found by RTLD_NEXT, which
 * means "after whoever calls dlsym". Built without optimization, so that no call becomes a jump.
 */
#include <dlfcn.h>

int layered(void);
int layered_versioned(void);
int cuckoo_layered(void);

int layered(void)
{
	int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "layered");

	return next ? 100 + next() : -1;
}

int cuckoo_layered(void)
{
	int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "cuckoo_layered");

	return next ? 200 + next() : -1;
}

int layered_versioned(void)
{
	int (*next)(void) = (int (*)(void))dlvsym(RTLD_NEXT, "layered_versioned", "SECOND_2");

	return next ? 300 + next() : -1;
}
