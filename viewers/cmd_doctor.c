/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay doctor: what can be traced on this machine, and what is missing for the rest.
 */
#include "viewers/door.h"
#include "viewers/options.h"
#include "viewers/viewers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static unsigned problems;

static void line(const char *what, bool good, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void line(const char *what, bool good, const char *format, ...)
{
	va_list args;

	(void)printf("  %-4s %-22s ", good ? "ok" : "-", what);
	va_start(args, format);
	(void)vprintf(format, args);
	va_end(args);
	(void)putchar('\n');
}

static void preload(void)
{
	const char *library = find_preload();

	if (library) {
		line("libwaylay.so", true, "%s", library);
		return;
	}
	problems++;
	line("libwaylay.so", false, "not found beside this program; build or install Waylay again");
}

static void driver(void)
{
	int (*version)(int *) = NULL, (*init)(unsigned) = NULL, (*count)(int *) = NULL;
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*device)(int *, int) = NULL, (*name_of)(char *, int, int) = NULL;
	int number = 0, devices = 0, first = 0, status;
	char name[128] = "", text[128];

	if (!cuda) {
		line("CUDA driver", false,
		     "no libcuda.so.1: CUDA jobs cannot run here (fabric jobs can)");
		return;
	}
	*(void **)&version = dlsym(cuda, "cuDriverGetVersion");
	*(void **)&init = dlsym(cuda, "cuInit");
	*(void **)&count = dlsym(cuda, "cuDeviceGetCount");
	if (!version || !init || !count || version(&number) != 0) {
		line("CUDA driver", false, "libcuda.so.1 is there but does not answer");
		return;
	}
	status = init(0);
	if (status == 0)
		status = count(&devices);
	*(void **)&device = dlsym(cuda, "cuDeviceGet");
	*(void **)&name_of = dlsym(cuda, "cuDeviceGetName");
	if (status == 0 && devices > 0 && device && name_of && device(&first, 0) == 0)
		(void)name_of(name, sizeof(name), first);
	line("CUDA driver", status == 0 && devices > 0, "%d.%d, %d device%s%s%s%s", number / 1000,
	     number % 1000 / 10, devices, devices == 1 ? "" : "s", *name ? ": " : "",
	     words_clean(name, text, sizeof(text)),
	     status == 0 ? "" : ", cannot be initialized (does this user have the devices?)");
}

/* Hook providers exist since libfabric 1.8. */
static void door(uint32_t version)
{
#ifdef HAVE_LIBFABRIC
	char providers[PATH_MAX];
	const char *path = getenv("FI_PROVIDER_PATH");

	if (version < (1u << 16 | 8)) {
		line("libfabric hook", false,
		     "--ofi-door needs libfabric 1.8; calls by LD_PRELOAD alone are seen");
		return;
	}
	if (!path || !*path)
		path = door_default_providers(providers, sizeof(providers)) ? providers : NULL;
	line("libfabric hook", find_preload() != NULL, "%s%s%s",
	     find_preload() ? "--ofi-door can be used" : "--ofi-door needs libwaylay.so",
	     path ? ", beside providers in " : "", path ? path : "");
#else
	(void)version;
#endif
}

static void fabric(void)
{
	void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	uint32_t (*version)(void) = NULL;

	if (!library) {
		line("libfabric", false,
		     "no libfabric.so.1: install libfabric1 to run fabric jobs");
		return;
	}
	*(void **)&version = dlsym(library, "fi_version");
	if (version)
		line("libfabric", true, "%u.%u", version() >> 16, version() & 0xffff);
	door(version ? version() : 0);
#ifndef HAVE_LIBFABRIC
	line("libfabric tracing", false,
	     "left out of this build: it was made without libfabric-dev");
#endif
}

/* Where recordings would go; of a directory that is yet to be made, the one to make it in. */
static void directory(void)
{
	const char *wanted = getenv("WAYLAY_DIR");
	char path[PATH_MAX], bytes[24], *slash;
	struct statvfs fs;

	(void)snprintf(path, sizeof(path), "%s", wanted && *wanted ? wanted : "waylay-out");
	while (access(path, F_OK) != 0 && errno == ENOENT && strcmp(path, ".") != 0) {
		slash = strrchr(path, '/');
		if (!slash)
			(void)snprintf(path, sizeof(path), ".");
		else if (slash == path)
			slash[1] = '\0';
		else
			*slash = '\0';
	}
	if (access(path, W_OK | X_OK) != 0) {
		problems++;
		line("recordings", false,
		     "%s is no directory that can be written to; say another place with --dir",
		     path);
		return;
	}
	if (statvfs(path, &fs) == 0)
		line("recordings", true, "%s, %s free", path,
		     words_bytes((uint64_t)fs.f_bavail * fs.f_frsize, bytes));
}

static void clock_source(void)
{
	FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
	bool constant = false, nonstop = false;
	char text[8192];

	while (cpuinfo && fgets(text, sizeof(text), cpuinfo))
		if (strncmp(text, "flags", 5) == 0) {
			constant = strstr(text, " constant_tsc") != NULL;
			nonstop = strstr(text, " nonstop_tsc") != NULL;
			break;
		}
	if (cpuinfo)
		(void)fclose(cpuinfo);
	line("clock", true, "%s",
	     constant && nonstop ? "TSC (constant, non-stop)"
				 : "CLOCK_MONOTONIC (the TSC is not constant and non-stop)");
}

static void symbols(void)
{
#ifdef HAVE_LIBDW
	line("native source lines", true, "libdw");
#else
	line("native source lines", false, "left out of this build: it was made without libdw-dev");
#endif
}

int cmd_doctor(int argc, char **argv)
{
	const struct command_line line = {
		.name = "waylay doctor",
		.operands = "",
		.what = "Says what can be traced on this machine, and what is missing for the "
			"rest. Exits 1 when nothing can be.",
		.no_operands = true,
		.mistake_status = EXIT_USAGE,
	};

	(void)options_parse(&line, argc, argv);
	(void)puts("waylay " WAYLAY_VERSION);
	preload();
	driver();
	fabric();
	symbols();
	clock_source();
	directory();
	return problems ? EXIT_EXCEEDED : EXIT_HOLDS;
}
