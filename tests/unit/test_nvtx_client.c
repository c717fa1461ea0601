/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVTX client against a tool that follows the protocol on its own, in a process each: with the
 * tool linked in, opened by path, refusing, and absent. Where NVIDIA's headers are installed, their
 * client must reach the tool with the same calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>

#include "kernels/nvtx/nvtx.h"
#include "tests/unit/nvtx_tool.h"

/* The tool linked in; a test that wants none clears it before the first call. */
extern int (*InitializeInjectionNvtx2_fnptr)(nvtx_tool_get_fn get);
int (*InitializeInjectionNvtx2_fnptr)(nvtx_tool_get_fn get) = InitializeInjectionNvtx2;

static const char started[] =
	"module 0 none\nmodule 1 ok\nmodule 2 ok\nmodule 3 ok\nmodule 4 ok\nmodule 5 ok\n"
	"module 6 ok\nmodule 7 none\nversion 3\n";
static const char called[] = "push outer\n"
			     "push v3 s48 message 1 inner payload 1 17\n"
			     "pop\n"
			     "pop\n"
			     "mark here\n"
			     "start crossing\n"
			     "end 42\n"
			     "thread 99 worker\n"
			     "domain lib\n"
			     "string 0x1000 text\n"
			     "domain 0x1000 push v3 s48 message 3 registered\n"
			     "domain 0x1000 pop\n"
			     "domain 0x1000 mark v3 s48 message 3 registered\n"
			     "domain_destroy 0x1000\n";

static void make_calls(int with_tool)
{
	int none = NVTX_NO_NESTING;
	struct nvtx_domain *domain;
	struct nvtx_string *text;

	assert_int_equal(nvtx_push("outer"), with_tool ? 0 : none);
	assert_int_equal(nvtx_push_u64("inner", 17), with_tool ? 1 : none);
	assert_int_equal(nvtx_pop(), with_tool ? 1 : none);
	assert_int_equal(nvtx_pop(), with_tool ? 0 : none);
	nvtx_mark("here");
	nvtx_end(nvtx_start("crossing"));
	nvtx_name_thread(99, "worker");
	domain = nvtx_domain_create("lib");
	text = nvtx_domain_string(domain, "text");
	assert_int_equal(nvtx_domain_push(domain, text), with_tool ? 0 : none);
	assert_int_equal(nvtx_domain_pop(domain), with_tool ? 0 : none);
	nvtx_domain_mark(domain, text);
	nvtx_domain_destroy(domain);
	assert_int_equal(nvtx_active(), with_tool);
}

static void assert_log(const char *log, const char *first, const char *second)
{
	char want[4096];

	snprintf(want, sizeof(want), "%s%s", first, second);
	assert_string_equal(log, want);
}

/* Runs the body in a child, since a client looks for a tool once in its life. */
static void in_child(void (*body)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		body();
		_exit(0); /* a failed assertion has not come here */
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void linked_body(void)
{
	make_calls(1);
	assert_log(nvtx_tool_log, started, called);
}

static void linked_tool(void **state)
{
	(void)state;
	unsetenv("NVTX_INJECTION64_PATH");
	in_child(linked_body);
}

static void absent_body(void)
{
	InitializeInjectionNvtx2_fnptr = NULL;
	make_calls(0);
	InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2; /* too late */
	make_calls(0);
	assert_string_equal(nvtx_tool_log, "");
}

static void no_tool(void **state)
{
	(void)state;
	unsetenv("NVTX_INJECTION64_PATH");
	in_child(absent_body);
}

static void refusing_body(void)
{
	nvtx_tool_refuse = 1;
	make_calls(0);
	nvtx_mark_event(
		&NVTX_EVENT("dropped")); /* the slot that the tool had filled before it gave up */
	assert_string_equal(nvtx_tool_log, started);
}

static void tool_that_refuses(void **state)
{
	(void)state;
	unsetenv("NVTX_INJECTION64_PATH");
	in_child(refusing_body);
}

static char tool_path[PATH_MAX + 32];

static void opened_body(void)
{
	const char *log;
	void *lib;

	make_calls(1);
	assert_string_equal(nvtx_tool_log, ""); /* the linked copy was not asked */
	lib = dlopen(tool_path, RTLD_LAZY | RTLD_NOLOAD);
	assert_non_null(lib);
	log = dlsym(lib, "nvtx_tool_log");
	assert_non_null(log);
	assert_log(log, started, called);
}

static void opened_tool(void **state)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	assert_true(len > 0);
	self[len] = 0;
	snprintf(tool_path, sizeof(tool_path), "%s/nvtx_client_tool.so", dirname(self));
	setenv("NVTX_INJECTION64_PATH", tool_path, 1);
	in_child(opened_body);
	setenv("NVTX_INJECTION64_PATH", "/nonexistent/tool.so", 1);
	in_child(absent_body);
	unsetenv("NVTX_INJECTION64_PATH");
}

#ifdef HAVE_NVTX3
/* Defined with NVIDIA's headers in nvtx_reference.c: the calls of make_calls(1). */
void nvtx_reference_calls(void);

static void reference_body(void)
{
	nvtx_reference_calls();
	assert_log(nvtx_tool_log, started, called);
}

static void same_as_reference(void **state)
{
	(void)state;
	in_child(reference_body);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linked_tool),       cmocka_unit_test(no_tool),
		cmocka_unit_test(tool_that_refuses), cmocka_unit_test(opened_tool),
#ifdef HAVE_NVTX3
		cmocka_unit_test(same_as_reference),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
