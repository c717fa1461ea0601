/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries and their functions. The contents of an image are not looked into, since it
 * is code for another machine: a function is the CPU kernel of its name. A name-only image lists
 * the names it has.
 */
#include "tests/fakecuda/internal.h"
#include "tests/fakecuda/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fc_module {
	uint64_t handle;
	bool library; /* opened by cuLibraryLoadData; its handle has that type */
	struct fc_ctx *ctx;
	char *names; /* a name-only image: "\nNAME\n...\n"; else NULL */
	pthread_mutex_t lock;
	struct fc_func *funcs;
	struct fc_range global; /* of global_name, mapped at first use */
};

/* One variable that every module has, for copies to and from symbols. */
static const char global_name[] = "fake_global";
enum { GLOBAL_BYTES = 256 };

/* --- images ------------------------------------------------------------------------------------------ */

static const char names_magic[] = "WAYLAY-KERNELS\n";

enum image { IMAGE_BAD, IMAGE_BINARY, IMAGE_NAMES };

static bool begins(const void *image, const char *magic)
{
	return !strncmp(image, magic, strlen(magic));
}

/* PTX begins with comments and directives; .version is the first of those. */
static bool looks_like_ptx(const char *text)
{
	enum { LOOK = 4096 };
	const char *version = strstr(text, ".version");
	return version && version - text < LOOK;
}

static enum image image_kind(const void *image)
{
	static const uint32_t fatbin_wrapper = 0x466243b1, fatbin = 0xba55ed50;
	uint32_t word;
	if (begins(image, names_magic))
		return IMAGE_NAMES;
	memcpy(&word, image, sizeof(word));
	if (word == fatbin_wrapper || word == fatbin || begins(image, "\177ELF"))
		return IMAGE_BINARY;
	return looks_like_ptx(image) ? IMAGE_BINARY : IMAGE_BAD;
}

/* --- modules ----------------------------------------------------------------------------------------- */

static CUresult module_new(struct fc_ctx *ctx, const void *image, bool library, uint64_t *handle)
{
	enum image kind = image_kind(image);
	if (kind == IMAGE_BAD)
		return CUDA_ERROR_INVALID_IMAGE;
	struct fc_module *m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->ctx = ctx;
	m->library = library;
	if (kind == IMAGE_NAMES) /* with the newline before the first name */
		m->names = strdup((const char *)image + sizeof(names_magic) - 2);
	m->handle = kind == IMAGE_NAMES && !m->names
			    ? 0
			    : fc_handle_new(library ? FC_T_LIBRARY : FC_T_MODULE, m);
	if (!m->handle) {
		free(m->names);
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_init(&m->lock, NULL);
	*handle = m->handle;
	return CUDA_SUCCESS;
}

static void module_free(struct fc_module *m)
{
	fc_handle_drop(m->handle);
	for (struct fc_func *f = m->funcs, *next; f; f = next) {
		next = f->next;
		fc_handle_drop(f->handle);
		free(f);
	}
	struct fc_range range;
	if (m->global.base && fc_range_take(m->global.base, NULL, &range))
		fc_range_unmap(&range);
	pthread_mutex_destroy(&m->lock);
	free(m->names);
	free(m);
}

static void module_forget(void *obj, void *ctx)
{
	struct fc_module *m = obj;
	if (m->ctx == ctx)
		module_free(m);
}

void fc_modules_forget(struct fc_ctx *ctx)
{
	fc_handle_each(FC_T_MODULE, module_forget, ctx);
	fc_handle_each(FC_T_LIBRARY, module_forget, ctx);
}

/* A library's module is the library: cuLibraryGetModule hands out the same handle. */
static struct fc_module *module_get(uint64_t handle)
{
	struct fc_module *m = fc_handle_get(handle, FC_T_MODULE);
	return m ? m : fc_handle_get(handle, FC_T_LIBRARY);
}

static bool has_name(const struct fc_module *m, const char *name)
{
	size_t len = strlen(name);
	if (!m->names)
		return true;
	for (const char *p = m->names; (p = strstr(p, name)) != NULL; p++)
		if (p[-1] == '\n' && (p[len] == '\n' || !p[len]))
			return true;
	return false;
}

static CUresult func_find(struct fc_module *m, const char *name, struct fc_func **out)
{
	if (!name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	const struct cpu_kernel *kernel = has_name(m, name) ? fc_kernel_find(name) : NULL;
	if (!kernel)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&m->lock);
	struct fc_func *f = m->funcs;
	while (f && f->kernel != kernel)
		f = f->next;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (f) {
			f->module = m;
			f->kernel = kernel;
			f->max_dynamic_shared = FC_SHARED_DEFAULT;
			f->carveout = -1;
			f->handle = fc_handle_new(FC_T_FUNC, f);
			f->next = m->funcs;
			m->funcs = f;
		}
	}
	pthread_mutex_unlock(&m->lock);
	*out = f;
	return f && f->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct fc_ctx *fc_func_ctx(const struct fc_func *fn)
{
	return fn->module->ctx;
}

struct fc_func *fc_func_get(CUfunction fn)
{
	return fc_handle_get(FC_HANDLE(fn), FC_T_FUNC);
}

/* Loading and unloading wait for the whole context (measured). */
CUresult do_cuModuleLoadData(CUmodule *module, const void *image)
{
	struct fc_ctx *ctx;
	uint64_t handle;
	CUresult rc = fc_current(&ctx);
	if (!rc)
		rc = fc_capture_unsafe();
	if (rc)
		return rc;
	if (!module || !image)
		return CUDA_ERROR_INVALID_VALUE;
	rc = module_new(ctx, image, false, &handle);
	if (rc)
		return rc;
	*module = (CUmodule)(uintptr_t)handle;
	return fc_ctx_drain(ctx);
}

CUresult do_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
			       CUjit_option *options, void **values)
{
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	return do_cuModuleLoadData(module, image);
}

CUresult do_cuModuleLoad(CUmodule *module, const char *file)
{
	enum { IMAGE_MAX = 256 << 20 };
	if (!module || !file)
		return CUDA_ERROR_INVALID_VALUE;
	FILE *f = fopen(file, "rbe");
	if (!f)
		return CUDA_ERROR_FILE_NOT_FOUND;
	char *image = NULL;
	long size = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
	if (size > 0 && size < IMAGE_MAX && !fseek(f, 0, SEEK_SET))
		image = calloc(1, (size_t)size + sizeof(uint32_t));
	bool read = image && fread(image, 1, (size_t)size, f) == (size_t)size;
	fclose(f);
	CUresult rc = read ? do_cuModuleLoadData(module, image) : CUDA_ERROR_INVALID_IMAGE;
	free(image);
	return rc;
}

CUresult do_cuModuleUnload(CUmodule module)
{
	struct fc_ctx *ctx;
	struct fc_module *m = fc_handle_get(FC_HANDLE(module), FC_T_MODULE);
	CUresult rc = fc_current(&ctx);
	if (!rc)
		rc = fc_capture_unsafe();
	if (rc)
		return rc;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	rc = fc_ctx_drain(m->ctx);
	module_free(m);
	return rc;
}

CUresult do_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

CUresult do_cuModuleGetFunction(CUfunction *fn, CUmodule module, const char *name)
{
	struct fc_module *m = module_get(FC_HANDLE(module));
	struct fc_func *f;
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult rc = func_find(m, name, &f);
	if (!rc)
		*fn = (CUfunction)(uintptr_t)f->handle;
	return rc;
}

static CUresult global_find(struct fc_module *m, CUdeviceptr *ptr, size_t *bytes, const char *name)
{
	CUresult rc = CUDA_SUCCESS;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (strcmp(name, global_name) != 0)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&m->lock);
	if (!m->global.base) {
		rc = fc_device_alloc(m->ctx, GLOBAL_BYTES, FC_DEVICE, &m->global);
		if (!rc)
			rc = fc_range_add(&m->global);
	}
	if (!rc && ptr)
		*ptr = m->global.base;
	if (!rc && bytes)
		*bytes = m->global.bytes;
	pthread_mutex_unlock(&m->lock);
	return rc;
}

CUresult do_cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *bytes, CUmodule module, const char *name)
{
	struct fc_module *m = module_get(FC_HANDLE(module));
	return m ? global_find(m, ptr, bytes, name) : CUDA_ERROR_INVALID_HANDLE;
}

/* --- libraries ---------------------------------------------------------------------------------------- */

/* Lazy: nothing waits until the first kernel is wanted as a function. */
CUresult do_cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit,
			      void **jit_values, unsigned int jit_count, CUlibraryOption *options,
			      void **values, unsigned int count)
{
	struct fc_ctx *ctx;
	uint64_t handle;
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!library || !image || (jit_count && (!jit || !jit_values)) ||
	    (count && (!options || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	rc = module_new(ctx, image, true, &handle);
	if (!rc)
		*library = (CUlibrary)(uintptr_t)handle;
	return rc;
}

static struct fc_module *library_get(CUlibrary library)
{
	return fc_handle_get(FC_HANDLE(library), FC_T_LIBRARY);
}

CUresult do_cuLibraryUnload(CUlibrary library)
{
	struct fc_ctx *ctx;
	struct fc_module *m = library_get(library);
	CUresult rc = fc_current(&ctx);
	if (rc)
		return rc;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	/* What was never loaded needs no wait to go (measured). */
	bool loaded = false;
	pthread_mutex_lock(&m->lock);
	for (struct fc_func *f = m->funcs; f; f = f->next)
		loaded |= atomic_load(&f->loaded);
	pthread_mutex_unlock(&m->lock);
	if (loaded)
		rc = fc_ctx_drain(m->ctx);
	module_free(m);
	return rc;
}

CUresult do_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	struct fc_module *m = library_get(library);
	struct fc_func *f;
	if (!kernel)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult rc = func_find(m, name, &f);
	if (!rc)
		*kernel = (CUkernel)(uintptr_t)f->handle;
	return rc;
}

CUresult do_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	struct fc_module *m = library_get(library);
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	*module = (CUmodule)(uintptr_t)m->handle;
	return CUDA_SUCCESS;
}

CUresult do_cuLibraryGetGlobal(CUdeviceptr *ptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct fc_module *m = library_get(library);
	return m ? global_find(m, ptr, bytes, name) : CUDA_ERROR_INVALID_HANDLE;
}

/* The first time the code really gets loaded, which waits for the context. */
CUresult do_cuKernelGetFunction(CUfunction *fn, CUkernel kernel)
{
	struct fc_func *f = fc_func_get((CUfunction)(uintptr_t)FC_HANDLE(kernel));
	CUresult rc = fc_may_wait();
	if (rc)
		return rc;
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	bool first = !atomic_exchange(&f->loaded, true);
	*fn = (CUfunction)(uintptr_t)f->handle;
	return first ? fc_ctx_drain(f->module->ctx) : CUDA_SUCCESS;
}

CUresult do_cuFuncGetModule(CUmodule *module, CUfunction fn)
{
	struct fc_func *f = fc_func_get(fn);
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*module = (CUmodule)(uintptr_t)f->module->handle;
	return CUDA_SUCCESS;
}
