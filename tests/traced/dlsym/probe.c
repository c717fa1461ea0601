/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what dlsym and dlvsym answer in many ways of asking, as object and offset, so that two runs
 * can be compared. Built without optimization.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

int layered(void);
int cuckoo_layered(void);
int layered_versioned(void);
int early_result(void);

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void show(const char *how, const char *name, void *found)
{
	const char *error = dlerror();
	Dl_info info;

	if (found && dladdr(found, &info))
		printf("%s %s: %s+0x%zx\n", how, name, base(info.dli_fname),
		       (size_t)((char *)found - (char *)info.dli_fbase));
	else
		printf("%s %s: %s\n", how, name, found ? "somewhere" : "nothing");
	/* The part before the colon names an object that may differ. */
	if (error)
		printf("  error: %s\n", strchr(error, ':') ? strchr(error, ':') + 2 : error);
}

static void global_lookups(void)
{
	static const char *const names[] = {
		"malloc",      "calloc",     "fopen",     "cuInit",     "cuGetProcAddress_v2",
		"cuMemFree",   "cuckoo",     "cublasFoo", "fi_getinfo", "fi_fabric",
		"fi_whatever", "curl_thing", "",          "c",          "cu",
		"cuX",         "fi",         "fi_",       "printf",     "nothing_here",
		"layered",     "local_only",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		show("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		show("next", names[i], dlsym(RTLD_NEXT, names[i]));
		show("program", names[i], dlsym(dlopen(NULL, RTLD_LAZY), names[i]));
	}
	show("dlvsym default", "memcpy", dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"));
	show("dlvsym default", "fopen", dlvsym(RTLD_DEFAULT, "fopen", "GLIBC_2.2.5"));
	show("dlvsym default", "cuInit", dlvsym(RTLD_DEFAULT, "cuInit", "NO_1"));
	show("dlvsym next", "layered_versioned",
	     dlvsym(RTLD_NEXT, "layered_versioned", "SECOND_1"));
	show("dlvsym none", "fopen", dlvsym(RTLD_DEFAULT, "fopen", "NO_1"));
}

static void local_lookups(const char *path)
{
	static const char *const names[] = {
		"local_only", "cuckoo", "cuInit",   "cuTest",  "cublasCreate_v2", "curl_easy_init",
		"fi",         "fi_",    "fi_local", "layered", "malloc",          "cuNothing",
	};
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *(*by_default)(const char *), *(*by_next)(const char *);

	if (!lib) {
		printf("cannot open %s: %s\n", path, dlerror());
		return;
	}
	by_default = (void *(*)(const char *))dlsym(lib, "local_default");
	by_next = (void *(*)(const char *))dlsym(lib, "local_next");
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		show("handle", names[i], dlsym(lib, names[i]));
		show("from outside", names[i], dlsym(RTLD_DEFAULT, names[i]));
		show("from inside", names[i], by_default(names[i]));
		show("after it", names[i], by_next(names[i]));
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	printf("layers: %d %d %d\n", layered(), cuckoo_layered(), layered_versioned());
	printf("early: %d\n", early_result());
	global_lookups();
	local_lookups(argv[1]);
	return 0;
}
