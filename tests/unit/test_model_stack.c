/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks: native frames of this very program resolved by the helper process, and which frame of a
 * stack is to blame.
 */
#include "tests/unit/export_check.h"
#include "tests/unit/synthetic_reader.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL 1700000000000000000

static char self_path[4096];

struct build_id {
	uint8_t bytes[20];
	uint8_t count;
};

/* The build-id of the program itself. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *user)
{
	struct build_id *found = user;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + header->p_vaddr;
		const char *end = at + header->p_memsz;

		while (header->p_type == PT_NOTE && at < end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const char *name = at + sizeof(*note),
				   *data = name + ((note->n_namesz + 3) & ~3u);

			if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= 20 &&
			    !memcmp(name, "GNU", 4)) {
				memcpy(found->bytes, data, note->n_descsz);
				found->count = (uint8_t)note->n_descsz;
			}
			at = data + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 1; /* the program comes first */
}

static void *here;

static inline __attribute__((always_inline)) void innermost_inlined(void)
{
	__asm__ volatile("lea 0f(%%rip), %0\n0:" : "=r"(here)::"memory");
}

static __attribute__((noinline)) void outer_function(void)
{
	innermost_inlined();
	__asm__ volatile("" ::: "memory");
}

static struct trace_frame frame_at(const void *address)
{
	struct trace_frame frame = {.kind = TRACE_FRAME_NATIVE};
	Dl_info info;

	assert_true(dladdr(address, &info) != 0);
	frame.offset = (uint64_t)((const char *)address - (const char *)info.dli_fbase);
	frame.file = info.dli_fname;
	return frame;
}

static struct model *model_with(const struct trace_frame *frames, unsigned count, bool symbols)
{
	struct model_options options = {.all_runs = true, .symbols = symbols};
	struct synthetic *recording = synthetic_new("a", 41, 0, REAL);
	struct trace_reader *reader;
	struct model *model = NULL;
	char err[512];

	synthetic_thread(recording, 41, "main");
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(synthetic_stack(recording, &frames[i], 1), i + 1);
	reader = synthetic_reader(recording);
	assert_int_equal(model_from_readers(&reader, 1, &options, &model, err, sizeof(err)), 0);
	return model;
}

#if defined(__x86_64__) && defined(HAVE_LIBDW)
static void own_functions(void **state)
{
	struct build_id build_id = {.count = 0};
	struct trace_frame frames[3];
	char text[512];

	(void)state;
	outer_function();
	dl_iterate_phdr(find_build_id, &build_id);
	frames[0] = frame_at(here);
	frames[0].file = self_path;
	frames[0].build_id_bytes = build_id.count;
	memcpy(frames[0].build_id, build_id.bytes, 20);
	frames[1] = frames[0]; /* built anew since: another build-id */
	frames[1].build_id_bytes = 20;
	memset(frames[1].build_id, 0xee, 20);
	frames[2] = frames[0]; /* nothing is known of its build */
	frames[2].build_id_bytes = 0;

	struct model *model = model_with(frames, 3, true);
	const struct model_stack *stack = model_stack(model, 0, 1);

	assert_int_equal(stack->count, 2);
	assert_string_equal(stack->frames[0].function, "innermost_inlined");
	assert_string_equal(stack->frames[1].function, "outer_function");
	assert_non_null(strstr(stack->frames[0].file, "tests/unit/test_model_stack.c"));
	assert_true(stack->frames[0].line > 20 && stack->frames[0].line < stack->frames[1].line);
	model_frame_text(&stack->frames[1], text, sizeof(text));
	assert_non_null(strstr(text, "test_model_stack.c:"));
	assert_non_null(strstr(text, " in outer_function"));
	assert_ptr_equal(stack, model_stack(model, 0, 1)); /* kept */

	stack = model_stack(model, 0, 2);
	assert_int_equal(stack->count, 1);
	assert_null(stack->frames[0].function);
	model_frame_text(&stack->frames[0], text, sizeof(text));
	assert_non_null(strstr(text, "test_model_stack+0x"));
	assert_int_equal(model_stack(model, 0, 3)->count, 2);
	assert_int_equal(model_stack(model, 0, 0)->count, 0);
	assert_int_equal(model_stack(model, 0, 99)->count, 0);
	assert_null(model_site(model, 0, 99));
	model_close(model);
}
#endif

static void demangled(void **state)
{
	void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
	void *function = library ? dlsym(library, "_ZSt9terminatev") : NULL;
	struct trace_frame frame;
	struct model *model;

	(void)state;
#if !defined(HAVE_LIBDW)
	function = NULL;
#endif
	if (!function)
		skip();
	frame = frame_at((const char *)function + 1);
	model = model_with(&frame, 1, true);
	assert_non_null(model_site(model, 0, 1)->function);
	assert_non_null(strstr(model_site(model, 0, 1)->function, "std::terminate()"));
	model_close(model);
	if (library)
		dlclose(library);
}

/* Of kernels the mangled names are recorded. */
static void plain_names(void **state)
{
	static const char *const names[][2] = {
		{"_ZN2at6native5copy_EPKfi", "at::native::copy_(float const*, int)"},
		{"_Znonsense", "_Znonsense"},
		{"_Z", "_Z"},
		{"ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"},
	};
	struct synthetic *recording = synthetic_new("host1", 41, 5, 1700000000000000000);
	void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
	uint32_t ids[4];
	struct model *model;

	(void)state;
	synthetic_thread(recording, 41, "main");
	for (unsigned i = 0; i < 4; i++)
		ids[i] = synthetic_string(recording, names[i][0]);
	model = model_of(&recording, 1);
	for (unsigned i = library ? 0 : 1; i < 4; i++)
		assert_string_equal(model_string(model, 0, ids[i]), names[i][1]);
	model_close(model);
	if (library)
		dlclose(library);
}

static void no_symbols_wanted(void **state)
{
	struct trace_frame frame = frame_at((void *)(uintptr_t)&demangled);
	struct model *model = model_with(&frame, 1, false);

	(void)state;
	assert_null(model_site(model, 0, 1)->function);
	model_close(model);
}

/* Files that are no modules, or are broken ones: their frames stay unnamed, the rest is resolved. */
static void broken_modules(void **state)
{
	const char *directory = *state;
	struct trace_frame frames[24];
	static char paths[23][4096];
	static uint8_t whole[1 << 16];
	struct model *model;
	size_t bytes;
	FILE *file = fopen(self_path, "rb");

	assert_non_null(file);
	bytes = fread(whole, 1, sizeof(whole), file);
	fclose(file);
	for (unsigned i = 0; i < 23; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/broken%u.so", directory, i);
		file = fopen(paths[i], "wb");
		assert_non_null(file);
		/* Cut at odd places, with its headers trampled on. */
		for (unsigned j = 0; j < i * 3; j++)
			whole[(j * 7919 + i * 101) % 4096 + 16] ^= (uint8_t)(i * 37 + j);
		assert_int_equal(fwrite(whole, 1, i ? bytes * i / 23 : 0, file),
				 i ? bytes * i / 23 : 0);
		fclose(file);
		frames[i] = (struct trace_frame){
			.kind = TRACE_FRAME_NATIVE, .file = paths[i], .offset = 0x1000 + i};
	}
	frames[0].file = "/nowhere/at/all.so";
	frames[23] = frame_at((const char *)(uintptr_t)&no_symbols_wanted + 1);
	frames[23].file = self_path;
	model = model_with(frames, 24, true);
	for (unsigned i = 0; i < 23; i++)
		assert_int_equal(model_stack(model, 0, i + 1)->count, 1);
#if defined(HAVE_LIBDW)
	assert_string_equal(model_site(model, 0, 24)->function, "no_symbols_wanted");
#endif
	model_close(model);
}

#if defined(HAVE_LIBDW)
/* Functions of a job, by name only. */
static __attribute__((noinline)) void cuda_wait(void)
{
	__asm__ volatile("" ::: "memory");
}
static __attribute__((noinline)) void checkGpu(void)
{
	__asm__ volatile("# another" ::: "memory");
}
static __attribute__((noinline)) void sync_weights(void)
{
	__asm__ volatile("# a third" ::: "memory");
}
static __attribute__((noinline)) void training_step(void)
{
	__asm__ volatile("# a fourth" ::: "memory");
}

/* A wait inside thin wrappers is blamed on what calls them; one that does more is none. */
static void wrappers_blame_their_caller(void **state)
{
	static const struct {
		void (*const stack[3])(void);
		const char *site;
	} cases[] = {
		{{cuda_wait, training_step, NULL}, "training_step"},
		{{checkGpu, cuda_wait, training_step}, "training_step"},
		{{sync_weights, training_step, NULL}, "sync_weights"},
		{{training_step, cuda_wait, NULL}, "training_step"},
		{{cuda_wait, NULL, NULL}, "cuda_wait"}, /* nobody else is known */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model_options options = {.all_runs = true, .symbols = true};
		struct synthetic *recording = synthetic_new("a", 41, 0, REAL);
		struct trace_frame frames[3];
		struct trace_reader *reader;
		struct model *model = NULL;
		unsigned count = 0;
		char err[512];

		synthetic_thread(recording, 41, "main");
		for (; count < 3 && cases[i].stack[count]; count++) {
			frames[count] =
				frame_at((const char *)(uintptr_t)cases[i].stack[count] + 1);
			frames[count].file = self_path;
		}
		assert_int_equal(synthetic_stack(recording, frames, count), 1);
		reader = synthetic_reader(recording);
		assert_int_equal(model_from_readers(&reader, 1, &options, &model, err, sizeof(err)),
				 0);
		assert_string_equal(model_site(model, 0, 1)->function, cases[i].site);
		model_close(model);
	}
}
#endif

/* --- sites -------------------------------------------------------------------------------------- */

static struct trace_frame python(const char *function, const char *file, uint32_t line,
				 bool awaited)
{
	return (struct trace_frame){.kind = TRACE_FRAME_PYTHON,
				    .function = function,
				    .file = file,
				    .line = line,
				    .awaited = awaited};
}

static struct trace_frame native(const char *file)
{
	return (struct trace_frame){.kind = TRACE_FRAME_NATIVE, .file = file, .offset = 0x10};
}

/* The text of the site of a stack. */
static void site_is(const struct trace_frame *frames, unsigned count, const char *expected)
{
	struct synthetic *recording = synthetic_new("a", 41, 0, REAL);
	char text[512];
	struct model *model;

	synthetic_thread(recording, 41, "main");
	synthetic_stack(recording, frames, count);
	model = model_of(&recording, 1);
	model_frame_text(model_site(model, 0, 1), text, sizeof(text));
	assert_string_equal(text, expected);
	model_close(model);
}

/* Where native code called for a Python line. */
static void native_is(const struct trace_frame *frames, unsigned count, const char *expected)
{
	struct synthetic *recording = synthetic_new("a", 41, 0, REAL);
	const struct model_frame *frame;
	char text[512];
	struct model *model;

	synthetic_thread(recording, 41, "main");
	synthetic_stack(recording, frames, count);
	model = model_of(&recording, 1);
	frame = model_native_site(model, 0, 1);
	assert_int_equal(frame != NULL, expected != NULL);
	if (frame) {
		model_frame_text(frame, text, sizeof(text));
		assert_string_equal(text, expected);
	}
	model_close(model);
}

static void native_sites_of_python_lines(void **state)
{
	struct trace_frame frames[] = {
		python("step", "/home/me/train.py", 12, false), native("/usr/lib/libcuda.so.1"),
		native("/opt/libcudart.so.12"), native("/opt/torch/libtorch_cuda.so"),
		native("/opt/torch/libtorch_python.so")};

	(void)state;
	native_is(frames, 5, "libtorch_cuda.so+0x10");
	native_is(frames, 3, NULL);
	native_is(frames, 1, NULL);
	native_is(frames + 1, 4, NULL); /* its site is native itself */
}

static void sites(void **state)
{
	const char *torch = "/usr/lib/python3.11/site-packages/torch/nn/module.py";
	struct trace_frame frames[] = {
		python("nonzero", torch, 5, false),
		python("run", "/usr/lib/python3.11/threading.py", 7, false),
		python("step", "/home/me/train.py", 12, false),
		python("main", "/home/me/train.py", 99, false),
		native("/usr/lib/libcuda.so.1"),
	};
	struct trace_frame library[] = {python("f", torch, 5, false),
					python("g", "<frozen importlib>", 7, false)};
	struct trace_frame worker[] = {python("backward", "/job/loop.py", 3, true),
				       native("/opt/torch/libtorch_cuda.so")};
	struct trace_frame bare[] = {native("/usr/lib/libcuda.so.1"),
				     native("/opt/libcudart.so.12"), native("/usr/lib/libc.so.6"),
				     native("/job/bin/app"), native("/usr/lib/libc.so.6")};
	struct trace_frame system_only[] = {native("/usr/lib/libfabric.so.1"),
					    native("/usr/lib/libc.so.6")};
	struct trace_frame odd[] = {python("f", "/data/lib/pythonic/x.py", 1, false)};

	(void)state;
	site_is(frames, 5, "/home/me/train.py:12 in step");
	site_is(library, 2, "/usr/lib/python3.11/site-packages/torch/nn/module.py:5 in f");
	site_is(worker, 2, "/job/loop.py:3 in backward");
	site_is(bare, 5, "app+0x10");
	site_is(system_only, 2, "libfabric.so.1+0x10");
	site_is(odd, 1, "/data/lib/pythonic/x.py:1 in f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if defined(__x86_64__) && defined(HAVE_LIBDW)
		cmocka_unit_test(own_functions),
#endif
		cmocka_unit_test(demangled),
		cmocka_unit_test(plain_names),
		cmocka_unit_test(no_symbols_wanted),
#if defined(HAVE_LIBDW)
		cmocka_unit_test(wrappers_blame_their_caller),
#endif
		cmocka_unit_test_setup_teardown(broken_modules, export_setup, export_teardown),
		cmocka_unit_test(sites),
		cmocka_unit_test(native_sites_of_python_lines),
	};
	ssize_t length = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);

	if (length <= 0)
		return 1;
	return cmocka_run_group_tests_name("model_stack", tests, NULL, NULL);
}
