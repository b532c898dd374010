// The part of the CUDA driver API that this backend uses. It is declared here so that the build
// needs no toolkit. Names, values and layouts are those of the CUDA Driver API reference
// (version 12.0 and later, 64-bit systems). A test compares them with <cuda.h> if there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::cuda {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUexternalMemory = struct CUextMemory_st*;

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
  CUDA_ERROR_CONTAINED = 226,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
  CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
  CUDA_ERROR_EXTERNAL_DEVICE = 911,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

inline constexpr int CU_COMPUTEMODE_PROHIBITED = 2;

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum CUjit_option : int {
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
};

enum CUmemorytype : int { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
/// The handles of an application's default streams.
inline constexpr uintptr_t CU_STREAM_LEGACY = 1, CU_STREAM_PER_THREAD = 2;
inline constexpr unsigned CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2;

struct CUuuid {
  char bytes[16];
};

/// CUDA_KERNEL_NODE_PARAMS_v2
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
  struct CUkern_st* kern;
  CUcontext ctx;
};

/// CUDA_MEMCPY3D_v2
struct CUDA_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  struct CUarray_st* srcArray;
  void* reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  struct CUarray_st* dstArray;
  void* reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};

enum CUexternalMemoryHandleType : int {
  CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1,
  CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32 = 2,
};
inline constexpr unsigned CUDA_EXTERNAL_MEMORY_DEDICATED = 1;

struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
  CUexternalMemoryHandleType type;
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } win32;
    const void* nvSciBufObject;
  } handle;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};

struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
  unsigned long long offset;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};

enum CUtensorMapDataType : int {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
  CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
  CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
  CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4,
  CU_TENSOR_MAP_DATA_TYPE_INT64 = 5,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ = 10,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ = 12,
};
enum CUtensorMapInterleave : int {
  CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
  CU_TENSOR_MAP_INTERLEAVE_16B = 1,
  CU_TENSOR_MAP_INTERLEAVE_32B = 2,
};
enum CUtensorMapSwizzle : int {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
};
enum CUtensorMapL2promotion : int {
  CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
};
enum CUtensorMapFloatOOBfill : int {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1,
};

/// Aligned as CUDA 13 has it; drivers ask for 64 bytes.
struct alignas(128) CUtensorMap {
  uint64_t opaque[16];
};

enum CUgraphDependencyType : int {
  CU_GRAPH_DEPENDENCY_TYPE_DEFAULT = 0,
  CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1,
};
inline constexpr unsigned char CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1;

struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

// Every function of libcuda.so.1 that is used: F(symbol as exported, parameters). All return
// CUresult. The loader resolves the symbols, and the stand-in driver of the tests defines them.
#define REPRISE_CUDA_SYMBOLS(F)                                                                   \
  F(cuInit, (unsigned flags))                                                                     \
  F(cuDriverGetVersion, (int* version))                                                           \
  F(cuGetErrorName, (CUresult error, const char** name))                                          \
  F(cuGetErrorString, (CUresult error, const char** text))                                        \
  F(cuDeviceGetCount, (int* count))                                                               \
  F(cuDeviceGet, (CUdevice * device, int ordinal))                                                \
  F(cuDeviceGetName, (char* name, int bytes, CUdevice device))                                    \
  F(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                         \
  F(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                       \
  F(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device))            \
  F(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                             \
  F(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                              \
  F(cuCtxPushCurrent_v2, (CUcontext context))                                                     \
  F(cuCtxPopCurrent_v2, (CUcontext * context))                                                    \
  F(cuCtxGetDevice, (CUdevice * device))                                                          \
  F(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                         \
  F(cuMemFree_v2, (CUdeviceptr address))                                                          \
  F(cuMemHostAlloc, (void** pointer, size_t bytes, unsigned flags))                               \
  F(cuMemFreeHost, (void* pointer))                                                               \
  F(cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void* pointer, unsigned flags))         \
  F(cuPointerGetAttributes,                                                                       \
    (unsigned n, CUpointer_attribute* attributes, void** values, CUdeviceptr pointer))            \
  F(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t * bytes, CUdeviceptr pointer))           \
  F(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))      \
  F(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))            \
  F(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))             \
  F(cuImportExternalMemory,                                                                       \
    (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description))             \
  F(cuExternalMemoryGetMappedBuffer, (CUdeviceptr * address, CUexternalMemory memory,             \
                                      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description))       \
  F(cuDestroyExternalMemory, (CUexternalMemory memory))                                           \
  F(cuStreamCreate, (CUstream * stream, unsigned flags))                                          \
  F(cuStreamDestroy_v2, (CUstream stream))                                                        \
  F(cuStreamSynchronize, (CUstream stream))                                                       \
  F(cuEventCreate, (CUevent * event, unsigned flags))                                             \
  F(cuEventDestroy_v2, (CUevent event))                                                           \
  F(cuEventRecord, (CUevent event, CUstream stream))                                              \
  F(cuEventQuery, (CUevent event))                                                                \
  F(cuEventSynchronize, (CUevent event))                                                          \
  F(cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent end))                        \
  F(cuModuleLoadDataEx,                                                                           \
    (CUmodule * module, const void* image, unsigned n, CUjit_option* options, void** values))     \
  F(cuModuleUnload, (CUmodule module))                                                            \
  F(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))              \
  F(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction function))        \
  F(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))         \
  F(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     CUstream stream, void** params, void** extra))                               \
  F(cuGraphCreate, (CUgraph * graph, unsigned flags))                                             \
  F(cuGraphDestroy, (CUgraph graph))                                                              \
  F(cuGraphAddKernelNode_v2, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after,        \
                              size_t n_after, const CUDA_KERNEL_NODE_PARAMS* params))             \
  F(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params))     \
  F(cuGraphAddEmptyNode,                                                                          \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t n_after))                \
  F(cuGraphAddMemcpyNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after,           \
                           size_t n_after, const CUDA_MEMCPY3D* params, CUcontext context))       \
  F(cuGraphAddEventRecordNode,                                                                    \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t n_after, CUevent event)) \
  F(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))   \
  F(cuGraphExecDestroy, (CUgraphExec exec))                                                       \
  F(cuGraphExecKernelNodeSetParams_v2,                                                            \
    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params))                  \
  F(cuGraphExecMemcpyNodeSetParams,                                                               \
    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params, CUcontext context))         \
  F(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned enabled))                \
  F(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                           \
  F(cuGraphLaunch, (CUgraphExec exec, CUstream stream))

// The same for functions that the oldest supported driver lacks, or that only some devices have a
// use for; they are null where they are missing.
#define REPRISE_CUDA_OPTIONAL_SYMBOLS(F)                                                        \
  F(cuFuncGetParamInfo,                                                                         \
    (CUfunction function, size_t index, size_t * offset, size_t * bytes)) /* 12.4 */            \
  F(cuGraphAddDependencies_v2, (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,  \
                                const CUgraphEdgeData* data, size_t n)) /* 12.3 */              \
  F(cuTensorMapEncodeTiled,                                                                     \
    (CUtensorMap * map, CUtensorMapDataType type, uint32_t rank, void* address,                 \
     const uint64_t* dims, const uint64_t* strides, const uint32_t* box, const uint32_t* steps, \
     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,                              \
     CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill fill)) /* 12.0 */

}  // namespace reprise::cuda
