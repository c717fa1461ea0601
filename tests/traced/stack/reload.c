/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens libraries one after the other, each where the one before it was, and looks at a stack that goes
 * through them: it must name the one that is there.
 *
 *   stack_reload STACKPROBE.so LIBRARY...    status 77 if they never lay at one address
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef const char *(*stack_fn)(void);
typedef const char *(*through_fn)(stack_fn);

static int look(const char *path, stack_fn stack, uintptr_t *before, unsigned *same)
{
	void *lib = dlopen(path, RTLD_NOW);
	through_fn through = lib ? (through_fn)dlsym(lib, "through") : NULL;
	uintptr_t here = (uintptr_t)through;

	if (!through) {
		fprintf(stderr, "stack_reload: %s: %s\n", path, dlerror());
		return 1;
	}
	*same += here == *before;
	*before = here;
	/* Often enough that the frame which changed has its turn. */
	for (int i = 0; i < 50; i++)
		through(stack);
	const char *text = through(stack);
	if (!strstr(text, path)) {
		fprintf(stderr, "stack_reload: %s is not in its own stack:\n%s", path, text);
		return 1;
	}
	dlclose(lib);
	return 0;
}

int main(int argc, char **argv)
{
	void *probe = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	uintptr_t before = 0;
	unsigned same = 0;
	stack_fn stack;

	if (!probe) {
		fprintf(stderr, "usage: stack_reload STACKPROBE.so LIBRARY...\n");
		return 64;
	}
	((void (*)(void))dlsym(probe, "probe_start"))();
	stack = (stack_fn)dlsym(probe, "probe_stack");
	for (int round = 0; round < 3; round++)
		for (int i = 2; i < argc; i++)
			if (look(argv[i], stack, &before, &same))
				return 1;
	printf("%u libraries took the place of another\n", same);
	return same ? 0 : 77;
}
