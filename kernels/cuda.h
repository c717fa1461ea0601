/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, opened when a program asks for it: libcuda.so.1 by dlopen, each entry point by
 * dlsym, as any client without a link to libcuda does. The prototypes are our own, so no header of
 * NVIDIA's is needed.
 *
 * Functions return 0 or a negative errno and leave a sentence in cuda->error. A struct cuda belongs
 * to one thread.
 */
#ifndef WAYLAY_KERNELS_CUDA_H
#define WAYLAY_KERNELS_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

/*
 * ENTRY(name here, symbol, older symbol or NULL, parameters). Symbols carry the suffix that
 * cuda.h's macros would add.
 */
#define CUDA_ENTRIES(ENTRY)                                                                        \
	ENTRY(init, "cuInit", NULL, (unsigned flags))                                              \
	ENTRY(driver_version, "cuDriverGetVersion", NULL, (int *version))                          \
	ENTRY(error_name, "cuGetErrorName", NULL, (int error, const char **name))                  \
	ENTRY(error_string, "cuGetErrorString", NULL, (int error, const char **text))              \
	ENTRY(device_count, "cuDeviceGetCount", NULL, (int *count))                                \
	ENTRY(device_get, "cuDeviceGet", NULL, (int *device, int ordinal))                         \
	ENTRY(device_name, "cuDeviceGetName", NULL, (char *name, int len, int device))             \
	ENTRY(device_attribute, "cuDeviceGetAttribute", NULL,                                      \
	      (int *value, int attribute, int device))                                             \
	ENTRY(primary_retain, "cuDevicePrimaryCtxRetain", NULL,                                    \
	      (struct CUctx_st * *context, int device))                                            \
	ENTRY(primary_release, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease",        \
	      (int device))                                                                        \
	ENTRY(context_set, "cuCtxSetCurrent", NULL, (struct CUctx_st * context))                   \
	ENTRY(module_load, "cuModuleLoadData", NULL,                                               \
	      (struct CUmod_st * *module, const void *image))                                      \
	ENTRY(module_unload, "cuModuleUnload", NULL, (struct CUmod_st * module))                   \
	ENTRY(module_function, "cuModuleGetFunction", NULL,                                        \
	      (struct CUfunc_st * *function, struct CUmod_st * module, const char *name))          \
	ENTRY(function_set, "cuFuncSetAttribute", NULL,                                            \
	      (struct CUfunc_st * function, int attribute, int value))                             \
	ENTRY(launch, "cuLaunchKernel", NULL,                                                      \
	      (struct CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
	       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,        \
	       struct CUstream_st *stream, void **params, void **extra))                           \
	ENTRY(launch_cooperative, "cuLaunchCooperativeKernel", NULL,                               \
	      (struct CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
	       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,        \
	       struct CUstream_st *stream, void **params))                                         \
	ENTRY(stream_create, "cuStreamCreate", NULL,                                               \
	      (struct CUstream_st * *stream, unsigned flags))                                      \
	ENTRY(stream_destroy, "cuStreamDestroy_v2", "cuStreamDestroy",                             \
	      (struct CUstream_st * stream))                                                       \
	ENTRY(stream_synchronize, "cuStreamSynchronize", NULL, (struct CUstream_st * stream))      \
	ENTRY(capture_begin, "cuStreamBeginCapture_v2", NULL,                                      \
	      (struct CUstream_st * stream, int mode))                                             \
	ENTRY(capture_end, "cuStreamEndCapture", NULL,                                             \
	      (struct CUstream_st * stream, struct CUgraph_st * *graph))                           \
	ENTRY(graph_instantiate, "cuGraphInstantiateWithFlags", NULL,                              \
	      (struct CUgraphExec_st * *exec, struct CUgraph_st * graph,                           \
	       unsigned long long flags))                                                          \
	ENTRY(graph_destroy, "cuGraphDestroy", NULL, (struct CUgraph_st * graph))                  \
	ENTRY(graph_launch, "cuGraphLaunch", NULL,                                                 \
	      (struct CUgraphExec_st * exec, struct CUstream_st * stream))                         \
	ENTRY(graph_exec_destroy, "cuGraphExecDestroy", NULL, (struct CUgraphExec_st * exec))      \
	ENTRY(event_create, "cuEventCreate", NULL, (struct CUevent_st * *event, unsigned flags))   \
	ENTRY(event_destroy, "cuEventDestroy_v2", "cuEventDestroy", (struct CUevent_st * event))   \
	ENTRY(event_record, "cuEventRecord", NULL,                                                 \
	      (struct CUevent_st * event, struct CUstream_st * stream))                            \
	ENTRY(event_elapsed, "cuEventElapsedTime_v2", "cuEventElapsedTime",                        \
	      (float *ms, struct CUevent_st *from, struct CUevent_st *to))                         \
	ENTRY(mem_info, "cuMemGetInfo_v2", NULL, (size_t * free_bytes, size_t * total_bytes))      \
	ENTRY(mem_alloc, "cuMemAlloc_v2", NULL, (unsigned long long *address, size_t bytes))       \
	ENTRY(mem_free, "cuMemFree_v2", NULL, (unsigned long long address))                        \
	ENTRY(host_alloc, "cuMemHostAlloc", NULL, (void **address, size_t bytes, unsigned flags))  \
	ENTRY(host_free, "cuMemFreeHost", NULL, (void *address))                                   \
	ENTRY(upload, "cuMemcpyHtoD_v2", NULL,                                                     \
	      (unsigned long long to, const void *from, size_t bytes))                             \
	ENTRY(download, "cuMemcpyDtoH_v2", NULL,                                                   \
	      (void *to, unsigned long long from, size_t bytes))                                   \
	ENTRY(download_async, "cuMemcpyDtoHAsync_v2", NULL,                                        \
	      (void *to, unsigned long long from, size_t bytes, struct CUstream_st *stream))       \
	ENTRY(copy_async, "cuMemcpyDtoDAsync_v2", NULL,                                            \
	      (unsigned long long to, unsigned long long from, size_t bytes,                       \
	       struct CUstream_st *stream))                                                        \
	ENTRY(fill_async, "cuMemsetD32Async", NULL,                                                \
	      (unsigned long long address, unsigned value, size_t words,                           \
	       struct CUstream_st *stream))

struct cuda_api {
#define ENTRY(name, symbol, older, params) int(*name) params;
	CUDA_ENTRIES(ENTRY)
#undef ENTRY
};

enum cuda_backend { CUDA_BACKEND_AUTO, CUDA_BACKEND_CUDA, CUDA_BACKEND_CPU, CUDA_BACKEND_MAX };

struct cuda {
	struct cuda_api api;
	struct CUctx_st *context;
	struct CUstream_st *stream; /* of the helpers here; waits for no other stream */
	int device;
	int driver_version; /* 1000 x major + 10 x minor */
	int sm_count;
	int sm_major, sm_minor;
	int shared_bytes; /* that a thread block may have when it asks for it */
	int cooperative;
	double memory_rate; /* bytes a second by its clock and width; 0 where the driver knows none */
	char name[96];
	char error[320]; /* what the last failed call was doing and why it failed */
};

/* auto, cuda or cpu; -EINVAL for any other text. */
int cuda_backend_parse(const char *text, enum cuda_backend *backend);

/*
 * Opens the driver and device number `ordinal` (by CUDA's numbering), makes its primary context
 * current and creates the stream. Always sets *cuda_ret, for its error text, unless memory is out;
 * free it with cuda_close. -ENODEV: no driver or no device; -ENOSYS: the driver is too old.
 */
int cuda_open(int ordinal, struct cuda **cuda_ret);
void cuda_close(struct cuda *cuda);

/* 0 when `result` is CUDA_SUCCESS; else the error text says "DOING: CUDA'S WORDS" and -EIO, -ENOMEM
 * or -ENODEV is returned. */
int cuda_check(struct cuda *cuda, int result, const char *doing, ...)
	__attribute__((format(printf, 3, 4)));

/* Device memory; *address is 0 after a failure. Zero bytes give address 0. */
int cuda_alloc(struct cuda *cuda, size_t bytes, uint64_t *address, const char *what);
void cuda_free(struct cuda *cuda, uint64_t address);

/* Copies that return when the data has arrived. */
int cuda_upload(struct cuda *cuda, uint64_t to, const void *from, size_t bytes);
int cuda_download(struct cuda *cuda, void *to, uint64_t from, size_t bytes);

/* Waits for everything on the stream. */
int cuda_wait(struct cuda *cuda);

/* The module of a fat binary, PTX text (with its NUL) or, on the simulated driver, a list of kernel
 * names. */
int cuda_load(struct cuda *cuda, const void *image, const char *what, struct CUmod_st **module);
int cuda_function(struct cuda *cuda, struct CUmod_st *module, const char *name,
		  struct CUfunc_st **function);

/* One-dimensional blocks of `threads`, on the stream. `cooperative`: all blocks run at once. */
struct cuda_grid {
	unsigned x, y, threads, shared_bytes;
	int cooperative;
};
int cuda_launch(struct cuda *cuda, struct CUfunc_st *function, const char *name,
		struct cuda_grid grid, void **params);

/* Measures copies within device memory in bytes a second, read and written bytes both counted; 0 on a
 * simulated device. */
int cuda_copy_rate(struct cuda *cuda, double *bytes_per_s);

#endif
