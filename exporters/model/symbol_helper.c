/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol helper: reads ELF and DWARF of a job's modules with libdw, in a process of its own.
 */
#include "exporters/model/internal.h"
#include "exporters/model/symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(HAVE_LIBDW)
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#endif

static bool read_all(int from, void *data, size_t bytes)
{
	char *at = data;

	while (bytes) {
		ssize_t got = read(from, at, bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		bytes -= (size_t)got;
	}
	return true;
}

static bool write_all(int to, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t put = write(to, at, bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		at += put;
		bytes -= (size_t)put;
	}
	return true;
}

struct found {
	unsigned count;
	struct {
		char function[SYMBOL_TEXT_MAX], file[SYMBOL_TEXT_MAX];
		uint32_t line;
	} lines[SYMBOL_COUNT_MAX];
};

/* The demangler of the C++ library, if there is one here; this program is not linked to it. */
static char *(*demangle)(const char *, char *, size_t *, int *);

static void set_function(struct found *found, const char *name)
{
	char *plain = NULL;
	int status = -1;

	if (!name)
		return;
	if (demangle && !strncmp(name, "_Z", 2))
		plain = demangle(name, NULL, NULL, &status);
	snprintf(found->lines[found->count].function, SYMBOL_TEXT_MAX, "%s",
		 plain && !status ? plain : name);
	free(plain);
}

#if defined(HAVE_LIBDW)

#define MODULES_MAX 64 /* kept open */

struct module {
	char *path;
	uint8_t build_id[20];
	uint32_t build_id_bytes;
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL: nothing to be had */
	uint64_t used;
};

static struct module modules[MODULES_MAX];
static uint64_t uses;

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

static bool same_build(Dwfl_Module *module, const struct symbol_request *request)
{
	const unsigned char *bits;
	GElf_Addr where;
	int bytes = dwfl_module_build_id(module, &bits, &where);

	if (!request->build_id_bytes)
		return true;
	return bytes == (int)request->build_id_bytes &&
	       !memcmp(bits, request->build_id, (size_t)bytes);
}

/* Opens a file as the module; NULL if it is not there or was built anew since the recording. */
static Dwfl_Module *open_file(Dwfl *dwfl, const char *path, const struct symbol_request *request)
{
	Dwfl_Module *module;

	dwfl_report_begin(dwfl);
	module = dwfl_report_offline(dwfl, path, path, -1);
	dwfl_report_end(dwfl, NULL, NULL);
	if (module && !same_build(module, request))
		module = NULL;
	return module;
}

static Dwfl_Module *open_separate(Dwfl *dwfl, const struct symbol_request *request)
{
	char path[128];
	int at;

	if (request->build_id_bytes < 2)
		return NULL;
	at = snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/", request->build_id[0]);
	for (uint32_t i = 1; i < request->build_id_bytes; i++)
		at += snprintf(path + at, sizeof(path) - (size_t)at, "%02x", request->build_id[i]);
	snprintf(path + at, sizeof(path) - (size_t)at, ".debug");
	return open_file(dwfl, path, request);
}

static Dwfl_Module *module_get(const struct symbol_request *request, const char *path)
{
	struct module *oldest = &modules[0];

	for (unsigned i = 0; i < MODULES_MAX; i++) {
		struct module *module = &modules[i];

		if (module->path && !strcmp(module->path, path) &&
		    module->build_id_bytes == request->build_id_bytes &&
		    !memcmp(module->build_id, request->build_id, sizeof(module->build_id))) {
			module->used = ++uses;
			return module->module;
		}
		if (module->used < oldest->used)
			oldest = module;
	}
	if (oldest->dwfl)
		dwfl_end(oldest->dwfl);
	free(oldest->path);
	memset(oldest, 0, sizeof(*oldest));
	oldest->path = strdup(path);
	oldest->used = ++uses;
	oldest->build_id_bytes = request->build_id_bytes;
	memcpy(oldest->build_id, request->build_id, sizeof(oldest->build_id));
	oldest->dwfl = dwfl_begin(&callbacks);
	if (!oldest->dwfl)
		return NULL;
	oldest->module = open_file(oldest->dwfl, path, request);
	if (!oldest->module)
		oldest->module = open_separate(oldest->dwfl, request);
	return oldest->module;
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name;

	if (!dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) &&
	    !dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_diename(die);
	name = dwarf_formstring(&attribute);
	return name ? name : dwarf_diename(die);
}

/* Where an inlined function was called from: file and line of the frame around it. */
static bool call_site(Dwarf_Die *inlined, Dwarf_Die *unit, const char **file, uint32_t *line)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file_number = 0, line_number = 0;
	Dwarf_Files *files;
	size_t count;

	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file_number) ||
	    dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line_number) ||
	    dwarf_getsrcfiles(unit, &files, &count) || file_number >= count)
		return false;
	*file = dwarf_filesrc(files, file_number, NULL, NULL);
	*line = (uint32_t)line_number;
	return *file != NULL;
}

/* The functions inlined at the address, innermost first; fills in names, and lines of all but the
 * innermost, which the caller knows. */
static void find_inlined(Dwfl_Module *module, Dwarf_Addr address, struct found *found)
{
	Dwarf_Addr bias;
	Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *scopes = NULL,
		  *outer = NULL;
	int count = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0;

	if (count > 0)
		count = dwarf_getscopes_die(&scopes[0], &outer);
	for (int i = 0; i < count && found->count + 1 < SYMBOL_COUNT_MAX; i++) {
		const char *file;
		uint32_t line;

		if (dwarf_tag(&outer[i]) != DW_TAG_inlined_subroutine)
			continue;
		if (!call_site(&outer[i], unit, &file, &line))
			break;
		set_function(found, linkage_name(&outer[i]));
		found->count++;
		snprintf(found->lines[found->count].file, SYMBOL_TEXT_MAX, "%s", file);
		found->lines[found->count].line = line;
	}
	free(outer);
	free(scopes);
}

static void find(const struct symbol_request *request, const char *path, struct found *found)
{
	Dwfl_Module *module = module_get(request, path);
	const char *name, *file;
	GElf_Addr bias = 0;
	GElf_Off into;
	GElf_Sym symbol;
	Dwfl_Line *line;
	int number = 0;

	if (!module || !dwfl_module_getelf(module, &bias))
		return;
	Dwarf_Addr address = request->offset + bias - (request->offset ? 1 : 0);

	name = dwfl_module_addrinfo(module, address, &into, &symbol, NULL, NULL, NULL);
	line = dwfl_module_getsrc(module, address);
	file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
	if (!name && !file)
		return;
	if (file) {
		snprintf(found->lines[0].file, SYMBOL_TEXT_MAX, "%s", file);
		found->lines[0].line = (uint32_t)number;
		find_inlined(module, address, found);
	}
	set_function(found, name);
	found->count++;
}

#else

static void find(const struct symbol_request *request, const char *path, struct found *found)
{
	(void)request;
	(void)path;
	(void)found;
}

#endif

static void prepare(void)
{
	void *library;

	/* Looking on servers would send the job's build-ids away and take for ever. */
	unsetenv("DEBUGINFOD_URLS");
	library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (library)
		*(void **)&demangle = dlsym(library, "__cxa_demangle");
}

static bool answer(int out, const struct found *found)
{
	struct symbol_answer head = {found->count};

	if (!write_all(out, &head, sizeof(head)))
		return false;
	for (unsigned i = 0; i < found->count; i++) {
		const char *function = found->lines[i].function, *file = found->lines[i].file;
		struct symbol_line line = {found->lines[i].line, (uint32_t)strlen(function),
					   (uint32_t)strlen(file)};

		if (!write_all(out, &line, sizeof(line)) ||
		    !write_all(out, function, line.function_bytes) ||
		    !write_all(out, file, line.file_bytes))
			return false;
	}
	return true;
}

void symbol_helper_run(int in, int out)
{
	struct symbol_request request;
	static struct found found;
	static char path[8192];

	prepare();
	while (read_all(in, &request, sizeof(request))) {
		if (request.path_bytes >= sizeof(path) ||
		    request.build_id_bytes > sizeof(request.build_id) ||
		    !read_all(in, path, request.path_bytes))
			return;
		path[request.path_bytes] = 0;
		memset(&found, 0, sizeof(found));
		if (request.offset == SYMBOL_OF_NAME) {
			set_function(&found, path);
			found.count++;
		} else {
			find(&request, path, &found);
		}
		if (!answer(out, &found))
			return;
	}
}
