/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the main function of a plugin that is opened with RTLD_DEEPBIND: the libraries it is linked to come
 * before anything preloaded.
 *
 *     ofi_deepbind PLUGIN ARGUMENT...
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*plugin_main)(int, char **) = NULL;
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;

	if (!plugin) {
		(void)fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "no plugin given");
		return 1;
	}
	*(void **)&plugin_main = dlsym(plugin, "main");
	if (!plugin_main) {
		(void)fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return plugin_main(argc - 1, argv + 1);
}
