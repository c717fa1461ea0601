/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the CUDA driver's binary interface that the wrappers touch, so that no NVIDIA header is
 * needed to build. Handles are opaque; a structure holds no more than what is read from it, and is
 * only ever read through a pointer of the caller's, after the real call has succeeded.
 */
#ifndef WAYLAY_TRACER_INJECT_CUDA_ABI_H
#define WAYLAY_TRACER_INJECT_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemhandle; /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *CUcontext;     /* a green context too */
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUarray_st *CUarray;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
};

#define CU_STREAM_LEGACY     1u
#define CU_STREAM_PER_THREAD 2u

enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_CTX_SYNC_MEMOPS = 0x80 };
enum { CU_LIMIT_STACK_SIZE = 0 };
enum { CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };
enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 };
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum { CU_MEMCPY_OPERAND_TYPE_POINTER = 1 };

enum cu_memory_type {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4,
};

enum cu_pointer_attribute {
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
};

struct CUDA_MEMCPY2D {
	size_t srcXInBytes, srcY;
	int srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	int dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
};

/* CUDA_MEMCPY3D_PEER differs only in naming the contexts where these are reserved. */
struct CUDA_MEMCPY3D {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	int srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *srcContext;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	int dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *dstContext;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
};

struct CUmemLocation {
	int type, id;
};

struct CUmemcpyAttributes {
	int srcAccessOrder;
	struct CUmemLocation srcLocHint, dstLocHint;
	unsigned flags;
};

struct CUmemcpy3DOperand {
	int type;
	union {
		struct {
			CUdeviceptr ptr;
			size_t rowLength, layerHeight;
			struct CUmemLocation locHint;
		} ptr;
		struct {
			CUarray array;
			size_t offset[3];
		} array;
	} op;
};

struct CUDA_MEMCPY3D_BATCH_OP {
	struct CUmemcpy3DOperand src, dst;
	size_t width, height, depth; /* in elements: bytes unless an operand is an array */
	int srcAccessOrder;
	unsigned flags;
};

struct CUlaunchConfig {
	unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	void *attrs;
	unsigned numAttrs;
};

struct CUDA_LAUNCH_PARAMS {
	CUfunction function;
	unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
};

/* The head of CUmemAllocationProp. */
struct CUmemAllocationProp {
	int type, requestedHandleTypes;
	struct CUmemLocation location;
};

struct CUipcMemHandle {
	char reserved[64];
};

#endif
