/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only a process of its own can show: before cuInit, after fork, at exit, with other settings,
 * and two processes with one memory. The test program starts itself with the name of a mode.
 */
#include "tests/fakecuda/test/driver.h"

#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static const char *self;

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- modes: what the started program does ---------------------------------------------------------------- */

static int mode_before_init(int argc, char **argv)
{
	CUcontext c;
	CUstream s;
	int value;
	const char *text;
	void *fn = NULL;
	(void)argc, (void)argv;
	must(cu.cuCtxGetCurrent(&c) == CUDA_ERROR_NOT_INITIALIZED);
	must(cu.cuStreamQuery(NULL) == CUDA_ERROR_NOT_INITIALIZED);
	must(cu.cuDeviceGetCount(&value) == CUDA_ERROR_NOT_INITIALIZED);
	must(cu.cuDriverGetVersion(&value) == CUDA_SUCCESS && value == 13000);
	must(cu.cuGetErrorName(CUDA_SUCCESS, &text) == CUDA_SUCCESS);
	must(cu.cuGetProcAddress_v2("cuInit", &fn, 12000, 0, NULL) == CUDA_SUCCESS && fn);
	must(cu.cuInit(1) == CUDA_ERROR_INVALID_VALUE);
	must(cu.cuStreamCreate(&s, 0) == CUDA_ERROR_NOT_INITIALIZED);
	must(cu.cuInit(0) == CUDA_SUCCESS && cu.cuInit(0) == CUDA_SUCCESS);
	must(cu.cuStreamCreate(&s, 0) == CUDA_ERROR_INVALID_CONTEXT);
	must(cu.cuDevicePrimaryCtxRelease_v2(0) == CUDA_ERROR_INVALID_CONTEXT);
	return 0;
}

/* A child of a process with a driver has none; a child of one without makes its own. */
static int mode_fork(int argc, char **argv)
{
	int status;
	(void)argc, (void)argv;
	pid_t child = fork();
	if (!child) {
		driver_start();
		launch_spin(NULL, 1);
		must(cu.cuCtxSynchronize() == CUDA_SUCCESS);
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child && !status);
	driver_start();
	CUstream s = stream_new(0);
	launch_spin(s, 20000000);
	child = fork();
	if (!child) {
		int count;
		must(cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
		must(cu.cuStreamSynchronize(s) == CUDA_ERROR_NOT_INITIALIZED);
		must(cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
		must(cu.cuDriverGetVersion(&count) == CUDA_SUCCESS);
		exit(0);
	}
	must(waitpid(child, &status, 0) == child && !status);
	must(cu.cuStreamSynchronize(s) == CUDA_SUCCESS);
	return 0;
}

static CUstream exit_stream;
static CUdeviceptr exit_memory;

static void call_at_exit(void)
{
	must(cu.cuStreamQuery(exit_stream) == CUDA_ERROR_NOT_READY);
	must(cu.cuStreamSynchronize(exit_stream) == CUDA_SUCCESS);
	must(cu.cuMemFree_v2(exit_memory) == CUDA_SUCCESS);
	launch_spin(exit_stream, 3000000000u); /* and leaves with work pending */
}

__attribute__((destructor)) static void call_at_the_very_end(void)
{
	if (exit_stream)
		must(cu.cuStreamQuery(exit_stream) == CUDA_ERROR_NOT_READY);
}

static int mode_exit(int argc, char **argv)
{
	(void)argc, (void)argv;
	driver_start();
	exit_stream = stream_new(CU_STREAM_NON_BLOCKING);
	exit_memory = mem_new(4096);
	atexit(call_at_exit);
	launch_spin(exit_stream, 30000000);
	return 0;
}

/* The primary context of the device goes with its last user, and what lived in it. */
static int mode_release(int argc, char **argv)
{
	CUcontext c, again;
	CUdeviceptr p;
	unsigned flags;
	int active;
	(void)argc, (void)argv;
	driver_start();
	CUstream s = stream_new(0);
	CUevent e = event_new(0);
	p = mem_new(4096);
	launch_spin(s, 5000000);
	must(cu.cuEventRecord(e, s) == CUDA_SUCCESS);
	must(cu.cuDevicePrimaryCtxRelease_v2(dev) == CUDA_SUCCESS);
	must(cu.cuStreamQuery(s) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	must(cu.cuMemAlloc_v2(&p, 64) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	must(cu.cuCtxGetCurrent(&c) == CUDA_SUCCESS && c == ctx);
	must(cu.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active);
	must(cu.cuDevicePrimaryCtxRetain(&again, dev) == CUDA_SUCCESS);
	must(cu.cuCtxSetCurrent(again) == CUDA_SUCCESS);
	must(cu.cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
	must(cu.cuEventQuery(e) == CUDA_ERROR_INVALID_HANDLE);
	must(cu.cuMemAlloc_v2(&p, 64) == CUDA_SUCCESS);
	must(cu.cuStreamSynchronize_ptsz(NULL) == CUDA_SUCCESS);
	must(cu.cuMemFree_v2(p) == CUDA_SUCCESS);
	return 0;
}

static int mode_faults(int argc, char **argv)
{
	CUdeviceptr p;
	int version;
	(void)argc, (void)argv;
	driver_start();
	must(cu.cuMemAlloc_v2(&p, 64) == CUDA_SUCCESS);
	must(cu.cuMemAlloc_v2(&p, 64) == CUDA_ERROR_OUT_OF_MEMORY);
	must(cu.cuMemAlloc_v2(&p, 64) == CUDA_SUCCESS);
	must(cu.cuStreamSynchronize(NULL) == CUDA_ERROR_LAUNCH_FAILED);
	must(cu.cuStreamSynchronize_ptsz(NULL) == CUDA_ERROR_LAUNCH_FAILED);
	must(cu.cuDriverGetVersion(&version) == CUDA_ERROR_UNKNOWN);
	must(cu.cuDriverGetVersion(&version) == CUDA_SUCCESS);
	return 0;
}

static int mode_settings(int argc, char **argv)
{
	int value;
	size_t bytes;
	void *fn;
	CUdriverProcAddressQueryResult status;
	(void)argc, (void)argv;
	driver_start();
	must(cu.cuDriverGetVersion(&value) == CUDA_SUCCESS && value == 12040);
	must(cu.cuDeviceGetCount(&value) == CUDA_SUCCESS && value == 3);
	must(cu.cuDeviceTotalMem_v2(&bytes, 2) == CUDA_SUCCESS && bytes == 3 << 20);
	CUdeviceptr p;
	must(cu.cuMemAlloc_v2(&p, 4 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
	/* An older driver does not know what came later. */
	must(cu.cuGetProcAddress_v2("cuCtxSynchronize", &fn, 13000, 0, &status) ==
	     CUDA_ERROR_INVALID_VALUE);
	must(cu.cuGetProcAddress_v2("cuMemcpyBatchAsync", &fn, 12040, 0, &status) == CUDA_SUCCESS);
	must(!fn && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	/* Every launch takes its time, and a queue of two is soon full. */
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	uint64_t start = now_ns();
	for (int i = 0; i < 5; i++)
		launch_spin(s, 1);
	must(now_ns() - start >= 3 * 5000000u);
	must(cu.cuStreamSynchronize(s) == CUDA_SUCCESS);
	must(now_ns() - start >= 5 * 5000000u);
	/* Copies between devices. */
	CUcontext other;
	CUdeviceptr q, here = mem_new(64);
	uint32_t back = 0, v = 47;
	must(cu.cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
	must(cu.cuCtxPushCurrent_v2(other) == CUDA_SUCCESS);
	must(cu.cuMemAlloc_v2(&q, 64) == CUDA_SUCCESS);
	must(cu.cuMemcpyHtoD_v2(q, &v, 4) == CUDA_SUCCESS);
	must(cu.cuCtxEnablePeerAccess(ctx, 0) == CUDA_SUCCESS);
	must(cu.cuCtxEnablePeerAccess(ctx, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	must(cu.cuCtxPopCurrent_v2(NULL) == CUDA_SUCCESS);
	must(cu.cuMemcpyPeerAsync(here, ctx, q, other, 4, s) == CUDA_SUCCESS);
	must(cu.cuMemcpyDtoHAsync_v2(&back, here, 4, s) == CUDA_SUCCESS && back == 47);
	return 0;
}

static int mode_blocking(int argc, char **argv)
{
	(void)argc, (void)argv;
	driver_start();
	CUstream s = stream_new(0);
	uint64_t start = now_ns();
	launch_spin(s, 7000000);
	must(now_ns() - start >= 7000000u);
	must(cu.cuStreamQuery(s) == CUDA_SUCCESS);
	return 0;
}

static int mode_bad_setting(int argc, char **argv)
{
	(void)argc, (void)argv;
	must(cu.cuInit(0) == CUDA_ERROR_INVALID_VALUE);
	return 0;
}

static int mode_no_device(int argc, char **argv)
{
	(void)argc, (void)argv;
	must(cu.cuInit(0) == CUDA_ERROR_NO_DEVICE);
	return 0;
}

/* The other side of test_ipc: sees what the parent wrote, answers in place. */
static int mode_ipc(int argc, char **argv)
{
	CUipcMemHandle handle;
	CUdeviceptr p;
	uint32_t value = 0;
	must(argc == 3 && strlen(argv[2]) == 2 * sizeof(handle));
	for (size_t i = 0; i < sizeof(handle); i++) {
		unsigned byte;
		must(sscanf(argv[2] + 2 * i, "%2x", &byte) == 1);
		handle.reserved[i] = (char)byte;
	}
	driver_start();
	must(cu.cuIpcOpenMemHandle_v2(&p, handle, 1) == CUDA_SUCCESS);
	must(cu.cuMemcpyDtoH_v2(&value, p + 4, 4) == CUDA_SUCCESS && value == 53);
	value = 59;
	must(cu.cuMemcpyHtoD_v2(p + 8, &value, 4) == CUDA_SUCCESS);
	must(cu.cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
	must(cu.cuIpcCloseMemHandle(p) == CUDA_SUCCESS);
	must(cu.cuIpcCloseMemHandle(p) == CUDA_ERROR_INVALID_VALUE);
	return 0;
}

static const struct mode {
	const char *name;
	int (*run)(int argc, char **argv);
} modes[] = {
	{"before-init", mode_before_init},
	{"fork", mode_fork},
	{"exit", mode_exit},
	{"release", mode_release},
	{"faults", mode_faults},
	{"settings", mode_settings},
	{"blocking", mode_blocking},
	{"bad-setting", mode_bad_setting},
	{"no-device", mode_no_device},
	{"ipc", mode_ipc},
};

int process_mode(int argc, char **argv)
{
	driver_find();
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(modes[i].name, argv[1]))
			return modes[i].run(argc, argv);
	fprintf(stderr, "%s: no mode %s\n", argv[0], argv[1]);
	return 2;
}

/* --- the tests: starting it ------------------------------------------------------------------------------ */

/* Runs a mode with these variables set; its wait status. What it says goes to *said. */
static int run_mode(const char *mode, const char *arg, char *const *vars, char *said, size_t room)
{
	char *env[256], *argv[] = {(char *)self, (char *)mode, (char *)arg, NULL};
	size_t n = 0;
	int pipe_fds[2], status;
	pid_t child;
	posix_spawn_file_actions_t actions;
	for (; vars && vars[n]; n++)
		env[n] = vars[n];
	for (char **e = environ; *e && n < 255; e++)
		if (strncmp(*e, "FAKECUDA_", 9) != 0 || !strncmp(*e, "FAKECUDA_TEST", 13))
			env[n++] = *e;
	env[n] = NULL;
	assert_int_equal(pipe(pipe_fds), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 2);
	posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
	assert_int_equal(posix_spawn(&child, self, &actions, NULL, argv, env), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_fds[1]);
	size_t have = 0;
	for (ssize_t got;
	     have + 1 < room && (got = read(pipe_fds[0], said + have, room - 1 - have)) > 0;)
		have += (size_t)got;
	said[have] = 0;
	close(pipe_fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void expect_mode(const char *mode, const char *arg, char *const *vars)
{
	char said[8192];
	int status = run_mode(mode, arg, vars, said, sizeof(said));
	if (status)
		print_error("%s: wait status %d: %s\n", mode, status, said);
	assert_int_equal(status, 0);
}

static void test_before_init(void **state)
{
	(void)state;
	expect_mode("before-init", NULL, NULL);
}

static void test_fork(void **state)
{
	(void)state;
	if (!on_fake)
		skip(); /* the real driver answers in part */
	expect_mode("fork", NULL, NULL);
}

static void test_exit(void **state)
{
	(void)state;
	if (!on_fake)
		skip(); /* the real driver answers in part */
	expect_mode("exit", NULL, NULL);
}

static void test_release(void **state)
{
	(void)state;
	if (!on_fake)
		skip(); /* the real driver follows stale handles */
	expect_mode("release", NULL, NULL);
}

static void test_faults(void **state)
{
	char *vars[] = {(char *)"FAKECUDA_FAIL=cuMemAlloc_v2:2:2,cuStreamSynchronize:0:719,"
				"cuDriverGetVersion:1:999",
			NULL};
	(void)state;
	if (!on_fake)
		skip(); /* settings of ours */
	expect_mode("faults", NULL, vars);
}

static void test_settings(void **state)
{
	char *vars[] = {
		(char *)"FAKECUDA_DRIVER_VERSION=12040", (char *)"FAKECUDA_DEVICES=3",
		(char *)"FAKECUDA_MEM_BYTES=3145728",    (char *)"FAKECUDA_LAUNCH_NS=5000000",
		(char *)"FAKECUDA_QUEUE_DEPTH=2",        NULL};
	char *blocking[] = {(char *)"CUDA_LAUNCH_BLOCKING=1", NULL};
	char *none[] = {(char *)"FAKECUDA_DEVICES=0", NULL};
	(void)state;
	if (!on_fake)
		skip(); /* settings of ours */
	expect_mode("settings", NULL, vars);
	expect_mode("blocking", NULL, blocking);
	expect_mode("no-device", NULL, none);
}

static void test_bad_settings(void **state)
{
	static const char *const bad[] = {
		"FAKECUDA_DEVICES=9",          "FAKECUDA_DEVICES=x",
		"FAKECUDA_LAUNCH_NS=-1",       "FAKECUDA_MEM_BYTES=",
		"FAKECUDA_FAIL=cuMemAlloc_v2", "FAKECUDA_FAIL=cuNope:1:2",
		"FAKECUDA_FAIL=cuInit:1:0",    "FAKECUDA_DRIVER_VERSION=13",
	};
	char said[8192];
	(void)state;
	if (!on_fake)
		skip(); /* settings of ours */
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char *vars[] = {(char *)bad[i], NULL};
		assert_int_equal(run_mode("bad-setting", NULL, vars, said, sizeof(said)), 0);
		assert_non_null(strstr(said, bad[i]));
	}
}

static void test_ipc(void **state)
{
	CUipcMemHandle handle;
	CUdeviceptr d = mem_new(8192), own;
	uint32_t value = 53;
	char hex[2 * sizeof(handle) + 1];
	(void)state;
	ok(cu.cuMemcpyHtoD_v2(d + 4, &value, 4));
	ok(cu.cuIpcGetMemHandle(&handle, d));
	if (on_fake)
		is(cu.cuIpcOpenMemHandle_v2(&own, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
	for (size_t i = 0; i < sizeof(handle); i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)handle.reserved[i]);
	expect_mode("ipc", hex, NULL);
	ok(cu.cuMemcpyDtoH_v2(&value, d + 8, 4));
	assert_int_equal(value, 59);
	ok(cu.cuMemFree_v2(d));
	memset(&handle, 0x31, sizeof(handle));
	if (on_fake)
		is(cu.cuIpcOpenMemHandle_v2(&own, handle, 1), CUDA_ERROR_INVALID_VALUE);
}

int run_process_tests(const char *program)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_init),  cmocka_unit_test(test_fork),
		cmocka_unit_test(test_exit),         cmocka_unit_test(test_release),
		cmocka_unit_test(test_faults),       cmocka_unit_test(test_settings),
		cmocka_unit_test(test_bad_settings), cmocka_unit_test(test_ipc),
	};
	self = program;
	return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
