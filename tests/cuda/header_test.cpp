// Our declarations of the driver API beside NVIDIA's, where the toolkit is installed; the layout of
// structures, which no compiler checks elsewhere, beside a record of it everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "backends/cuda/library.h"

namespace reprise::test {
namespace {

template <size_t N, size_t M>
constexpr bool same(const size_t (&a)[N], const size_t (&b)[M]) {
  return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b));
}

// A structure's size, and where its members are.
constexpr size_t kKernelParams[] = {
    sizeof(cuda::CUDA_KERNEL_NODE_PARAMS),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, func),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, gridDimX),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, gridDimY),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, gridDimZ),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, blockDimX),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, blockDimY),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, blockDimZ),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, sharedMemBytes),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, kernelParams),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, extra),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, kern),
    offsetof(cuda::CUDA_KERNEL_NODE_PARAMS, ctx),
};
constexpr size_t kCopyParams[] = {
    sizeof(cuda::CUDA_MEMCPY3D),
    offsetof(cuda::CUDA_MEMCPY3D, srcXInBytes),
    offsetof(cuda::CUDA_MEMCPY3D, srcY),
    offsetof(cuda::CUDA_MEMCPY3D, srcZ),
    offsetof(cuda::CUDA_MEMCPY3D, srcLOD),
    offsetof(cuda::CUDA_MEMCPY3D, srcMemoryType),
    offsetof(cuda::CUDA_MEMCPY3D, srcHost),
    offsetof(cuda::CUDA_MEMCPY3D, srcDevice),
    offsetof(cuda::CUDA_MEMCPY3D, srcArray),
    offsetof(cuda::CUDA_MEMCPY3D, reserved0),
    offsetof(cuda::CUDA_MEMCPY3D, srcPitch),
    offsetof(cuda::CUDA_MEMCPY3D, srcHeight),
    offsetof(cuda::CUDA_MEMCPY3D, dstXInBytes),
    offsetof(cuda::CUDA_MEMCPY3D, dstY),
    offsetof(cuda::CUDA_MEMCPY3D, dstZ),
    offsetof(cuda::CUDA_MEMCPY3D, dstLOD),
    offsetof(cuda::CUDA_MEMCPY3D, dstMemoryType),
    offsetof(cuda::CUDA_MEMCPY3D, dstHost),
    offsetof(cuda::CUDA_MEMCPY3D, dstDevice),
    offsetof(cuda::CUDA_MEMCPY3D, dstArray),
    offsetof(cuda::CUDA_MEMCPY3D, reserved1),
    offsetof(cuda::CUDA_MEMCPY3D, dstPitch),
    offsetof(cuda::CUDA_MEMCPY3D, dstHeight),
    offsetof(cuda::CUDA_MEMCPY3D, WidthInBytes),
    offsetof(cuda::CUDA_MEMCPY3D, Height),
    offsetof(cuda::CUDA_MEMCPY3D, Depth),
};
// From the toolkit's cuda.h of version 13.0, for 64-bit machines.
constexpr size_t kHandleDesc[] = {
    sizeof(cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC, type),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags),
    sizeof(cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC, offset),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size),
    offsetof(cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags),
};
constexpr size_t kRecordedHandleDesc[] = {104, 0, 8, 24, 32, 88, 0, 8, 16};
constexpr size_t kRecordedKernelParams[] = {
    72, 0, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64,
};
constexpr size_t kRecordedCopyParams[] = {
    200, 0,   8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,
    96,  104, 112, 120, 128, 136, 144, 152, 160, 168, 176, 184, 192,
};
static_assert(same(kKernelParams, kRecordedKernelParams));
static_assert(same(kCopyParams, kRecordedCopyParams));
static_assert(same(kHandleDesc, kRecordedHandleDesc));
static_assert(sizeof(cuda::CUuuid) == 16);
static_assert(sizeof(cuda::CUtensorMap) == 128);
static_assert(sizeof(cuda::CUgraphEdgeData) == 8 && offsetof(cuda::CUgraphEdgeData, type) == 2);

}  // namespace
}  // namespace reprise::test

#ifdef REPRISE_CUDA_H

namespace reprise::test {
namespace {

/// The sizes of a function's parameters, as digits.
template <typename R, typename... P>
constexpr unsigned long long shape(R (*)(P...)) {
  unsigned long long digits = 1;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what is asked for
  ((digits = digits * 10 + sizeof(P)), ...);
  return digits;
}

// Before the other header: it renames functions by macros.
struct Value {
  const char* name;
  long long value;
};
constexpr Value kValues[] = {
    {"CUDA_SUCCESS", static_cast<long long>(cuda::CUDA_SUCCESS)},
    {"CUDA_ERROR_INVALID_VALUE", static_cast<long long>(cuda::CUDA_ERROR_INVALID_VALUE)},
    {"CUDA_ERROR_OUT_OF_MEMORY", static_cast<long long>(cuda::CUDA_ERROR_OUT_OF_MEMORY)},
    {"CUDA_ERROR_NOT_INITIALIZED", static_cast<long long>(cuda::CUDA_ERROR_NOT_INITIALIZED)},
    {"CUDA_ERROR_DEINITIALIZED", static_cast<long long>(cuda::CUDA_ERROR_DEINITIALIZED)},
    {"CUDA_ERROR_STUB_LIBRARY", static_cast<long long>(cuda::CUDA_ERROR_STUB_LIBRARY)},
    {"CUDA_ERROR_DEVICE_UNAVAILABLE", static_cast<long long>(cuda::CUDA_ERROR_DEVICE_UNAVAILABLE)},
    {"CUDA_ERROR_NO_DEVICE", static_cast<long long>(cuda::CUDA_ERROR_NO_DEVICE)},
    {"CUDA_ERROR_INVALID_DEVICE", static_cast<long long>(cuda::CUDA_ERROR_INVALID_DEVICE)},
    {"CUDA_ERROR_INVALID_IMAGE", static_cast<long long>(cuda::CUDA_ERROR_INVALID_IMAGE)},
    {"CUDA_ERROR_INVALID_CONTEXT", static_cast<long long>(cuda::CUDA_ERROR_INVALID_CONTEXT)},
    {"CUDA_ERROR_NO_BINARY_FOR_GPU", static_cast<long long>(cuda::CUDA_ERROR_NO_BINARY_FOR_GPU)},
    {"CUDA_ERROR_ECC_UNCORRECTABLE", static_cast<long long>(cuda::CUDA_ERROR_ECC_UNCORRECTABLE)},
    {"CUDA_ERROR_INVALID_PTX", static_cast<long long>(cuda::CUDA_ERROR_INVALID_PTX)},
    {"CUDA_ERROR_NVLINK_UNCORRECTABLE",
     static_cast<long long>(cuda::CUDA_ERROR_NVLINK_UNCORRECTABLE)},
    {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
     static_cast<long long>(cuda::CUDA_ERROR_JIT_COMPILER_NOT_FOUND)},
    {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     static_cast<long long>(cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION)},
    {"CUDA_ERROR_JIT_COMPILATION_DISABLED",
     static_cast<long long>(cuda::CUDA_ERROR_JIT_COMPILATION_DISABLED)},
    {"CUDA_ERROR_CONTAINED", static_cast<long long>(cuda::CUDA_ERROR_CONTAINED)},
    {"CUDA_ERROR_OPERATING_SYSTEM", static_cast<long long>(cuda::CUDA_ERROR_OPERATING_SYSTEM)},
    {"CUDA_ERROR_INVALID_HANDLE", static_cast<long long>(cuda::CUDA_ERROR_INVALID_HANDLE)},
    {"CUDA_ERROR_NOT_FOUND", static_cast<long long>(cuda::CUDA_ERROR_NOT_FOUND)},
    {"CUDA_ERROR_NOT_READY", static_cast<long long>(cuda::CUDA_ERROR_NOT_READY)},
    {"CUDA_ERROR_ILLEGAL_ADDRESS", static_cast<long long>(cuda::CUDA_ERROR_ILLEGAL_ADDRESS)},
    {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     static_cast<long long>(cuda::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)},
    {"CUDA_ERROR_LAUNCH_TIMEOUT", static_cast<long long>(cuda::CUDA_ERROR_LAUNCH_TIMEOUT)},
    {"CUDA_ERROR_CONTEXT_IS_DESTROYED",
     static_cast<long long>(cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED)},
    {"CUDA_ERROR_ASSERT", static_cast<long long>(cuda::CUDA_ERROR_ASSERT)},
    {"CUDA_ERROR_HARDWARE_STACK_ERROR",
     static_cast<long long>(cuda::CUDA_ERROR_HARDWARE_STACK_ERROR)},
    {"CUDA_ERROR_ILLEGAL_INSTRUCTION",
     static_cast<long long>(cuda::CUDA_ERROR_ILLEGAL_INSTRUCTION)},
    {"CUDA_ERROR_MISALIGNED_ADDRESS", static_cast<long long>(cuda::CUDA_ERROR_MISALIGNED_ADDRESS)},
    {"CUDA_ERROR_INVALID_ADDRESS_SPACE",
     static_cast<long long>(cuda::CUDA_ERROR_INVALID_ADDRESS_SPACE)},
    {"CUDA_ERROR_INVALID_PC", static_cast<long long>(cuda::CUDA_ERROR_INVALID_PC)},
    {"CUDA_ERROR_LAUNCH_FAILED", static_cast<long long>(cuda::CUDA_ERROR_LAUNCH_FAILED)},
    {"CUDA_ERROR_NOT_SUPPORTED", static_cast<long long>(cuda::CUDA_ERROR_NOT_SUPPORTED)},
    {"CUDA_ERROR_SYSTEM_NOT_READY", static_cast<long long>(cuda::CUDA_ERROR_SYSTEM_NOT_READY)},
    {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     static_cast<long long>(cuda::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)},
    {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     static_cast<long long>(cuda::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)},
    {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     static_cast<long long>(cuda::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)},
    {"CUDA_ERROR_EXTERNAL_DEVICE", static_cast<long long>(cuda::CUDA_ERROR_EXTERNAL_DEVICE)},
    {"CUDA_ERROR_UNKNOWN", static_cast<long long>(cuda::CUDA_ERROR_UNKNOWN)},
    {"CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)},
    {"CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)},
    {"CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)},
    {"CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
    {"CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)},
    {"CU_DEVICE_ATTRIBUTE_WARP_SIZE", static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_WARP_SIZE)},
    {"CU_DEVICE_ATTRIBUTE_CLOCK_RATE",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)},
    {"CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)},
    {"CU_DEVICE_ATTRIBUTE_INTEGRATED",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_INTEGRATED)},
    {"CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)},
    {"CU_DEVICE_ATTRIBUTE_COMPUTE_MODE",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)},
    {"CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)},
    {"CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)},
    {"CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)},
    {"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)},
    {"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)},
    {"CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
     static_cast<long long>(cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)},
    {"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
     static_cast<long long>(cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)},
    {"CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
     static_cast<long long>(cuda::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)},
    {"CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES",
     static_cast<long long>(cuda::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)},
    {"CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES",
     static_cast<long long>(cuda::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)},
    {"CU_FUNC_ATTRIBUTE_NUM_REGS", static_cast<long long>(cuda::CU_FUNC_ATTRIBUTE_NUM_REGS)},
    {"CU_JIT_ERROR_LOG_BUFFER", static_cast<long long>(cuda::CU_JIT_ERROR_LOG_BUFFER)},
    {"CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
     static_cast<long long>(cuda::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)},
    {"CU_POINTER_ATTRIBUTE_CONTEXT", static_cast<long long>(cuda::CU_POINTER_ATTRIBUTE_CONTEXT)},
    {"CU_POINTER_ATTRIBUTE_MEMORY_TYPE",
     static_cast<long long>(cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE)},
    {"CU_POINTER_ATTRIBUTE_IS_MANAGED",
     static_cast<long long>(cuda::CU_POINTER_ATTRIBUTE_IS_MANAGED)},
    {"CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
     static_cast<long long>(cuda::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)},
    {"CU_MEMORYTYPE_HOST", static_cast<long long>(cuda::CU_MEMORYTYPE_HOST)},
    {"CU_MEMORYTYPE_DEVICE", static_cast<long long>(cuda::CU_MEMORYTYPE_DEVICE)},
    {"CU_COMPUTEMODE_PROHIBITED", static_cast<long long>(cuda::CU_COMPUTEMODE_PROHIBITED)},
    {"CU_MEMHOSTALLOC_PORTABLE", static_cast<long long>(cuda::CU_MEMHOSTALLOC_PORTABLE)},
    {"CU_MEMHOSTALLOC_DEVICEMAP", static_cast<long long>(cuda::CU_MEMHOSTALLOC_DEVICEMAP)},
    {"CU_STREAM_NON_BLOCKING", static_cast<long long>(cuda::CU_STREAM_NON_BLOCKING)},
    {"CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD",
     static_cast<long long>(cuda::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)},
    {"CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32",
     static_cast<long long>(cuda::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32)},
    {"CUDA_EXTERNAL_MEMORY_DEDICATED",
     static_cast<long long>(cuda::CUDA_EXTERNAL_MEMORY_DEDICATED)},
    {"CU_EVENT_DEFAULT", static_cast<long long>(cuda::CU_EVENT_DEFAULT)},
    {"CU_EVENT_DISABLE_TIMING", static_cast<long long>(cuda::CU_EVENT_DISABLE_TIMING)},
    {"CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC",
     static_cast<long long>(cuda::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)},
    {"CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC",
     static_cast<long long>(cuda::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)},
    {"CU_TENSOR_MAP_DATA_TYPE_UINT8", static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_UINT8)},
    {"CU_TENSOR_MAP_DATA_TYPE_UINT16",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16)},
    {"CU_TENSOR_MAP_DATA_TYPE_UINT32",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_UINT32)},
    {"CU_TENSOR_MAP_DATA_TYPE_INT32", static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_INT32)},
    {"CU_TENSOR_MAP_DATA_TYPE_UINT64",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_UINT64)},
    {"CU_TENSOR_MAP_DATA_TYPE_INT64", static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_INT64)},
    {"CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16)},
    {"CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT32)},
    {"CU_TENSOR_MAP_DATA_TYPE_FLOAT64",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT64)},
    {"CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)},
    {"CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ)},
    {"CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32)},
    {"CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ",
     static_cast<long long>(cuda::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ)},
    {"CU_TENSOR_MAP_INTERLEAVE_NONE", static_cast<long long>(cuda::CU_TENSOR_MAP_INTERLEAVE_NONE)},
    {"CU_TENSOR_MAP_INTERLEAVE_16B", static_cast<long long>(cuda::CU_TENSOR_MAP_INTERLEAVE_16B)},
    {"CU_TENSOR_MAP_INTERLEAVE_32B", static_cast<long long>(cuda::CU_TENSOR_MAP_INTERLEAVE_32B)},
    {"CU_TENSOR_MAP_SWIZZLE_NONE", static_cast<long long>(cuda::CU_TENSOR_MAP_SWIZZLE_NONE)},
    {"CU_TENSOR_MAP_SWIZZLE_32B", static_cast<long long>(cuda::CU_TENSOR_MAP_SWIZZLE_32B)},
    {"CU_TENSOR_MAP_SWIZZLE_64B", static_cast<long long>(cuda::CU_TENSOR_MAP_SWIZZLE_64B)},
    {"CU_TENSOR_MAP_SWIZZLE_128B", static_cast<long long>(cuda::CU_TENSOR_MAP_SWIZZLE_128B)},
    {"CU_TENSOR_MAP_L2_PROMOTION_NONE",
     static_cast<long long>(cuda::CU_TENSOR_MAP_L2_PROMOTION_NONE)},
    {"CU_TENSOR_MAP_L2_PROMOTION_L2_64B",
     static_cast<long long>(cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_64B)},
    {"CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
     static_cast<long long>(cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_128B)},
    {"CU_TENSOR_MAP_L2_PROMOTION_L2_256B",
     static_cast<long long>(cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_256B)},
    {"CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
     static_cast<long long>(cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)},
    {"CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA",
     static_cast<long long>(cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)},
};
struct Function {
  const char* name;
  unsigned long long shape;
};
#define REPRISE_SHAPE_OF(symbol, parameters) {#symbol, shape(decltype(cuda::Table::symbol){})},
constexpr Function kFunctions[] = {REPRISE_CUDA_SYMBOLS(REPRISE_SHAPE_OF)};
constexpr Function kOptional[] = {REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_SHAPE_OF)};
#undef REPRISE_SHAPE_OF

}  // namespace
}  // namespace reprise::test

#include <cuda.h>

namespace reprise::test {
namespace {

constexpr long long kTheirValues[] = {
    static_cast<long long>(CUDA_SUCCESS),
    static_cast<long long>(CUDA_ERROR_INVALID_VALUE),
    static_cast<long long>(CUDA_ERROR_OUT_OF_MEMORY),
    static_cast<long long>(CUDA_ERROR_NOT_INITIALIZED),
    static_cast<long long>(CUDA_ERROR_DEINITIALIZED),
    static_cast<long long>(CUDA_ERROR_STUB_LIBRARY),
    static_cast<long long>(CUDA_ERROR_DEVICE_UNAVAILABLE),
    static_cast<long long>(CUDA_ERROR_NO_DEVICE),
    static_cast<long long>(CUDA_ERROR_INVALID_DEVICE),
    static_cast<long long>(CUDA_ERROR_INVALID_IMAGE),
    static_cast<long long>(CUDA_ERROR_INVALID_CONTEXT),
    static_cast<long long>(CUDA_ERROR_NO_BINARY_FOR_GPU),
    static_cast<long long>(CUDA_ERROR_ECC_UNCORRECTABLE),
    static_cast<long long>(CUDA_ERROR_INVALID_PTX),
    static_cast<long long>(CUDA_ERROR_NVLINK_UNCORRECTABLE),
    static_cast<long long>(CUDA_ERROR_JIT_COMPILER_NOT_FOUND),
    static_cast<long long>(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    static_cast<long long>(CUDA_ERROR_JIT_COMPILATION_DISABLED),
    static_cast<long long>(CUDA_ERROR_CONTAINED),
    static_cast<long long>(CUDA_ERROR_OPERATING_SYSTEM),
    static_cast<long long>(CUDA_ERROR_INVALID_HANDLE),
    static_cast<long long>(CUDA_ERROR_NOT_FOUND),
    static_cast<long long>(CUDA_ERROR_NOT_READY),
    static_cast<long long>(CUDA_ERROR_ILLEGAL_ADDRESS),
    static_cast<long long>(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    static_cast<long long>(CUDA_ERROR_LAUNCH_TIMEOUT),
    static_cast<long long>(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    static_cast<long long>(CUDA_ERROR_ASSERT),
    static_cast<long long>(CUDA_ERROR_HARDWARE_STACK_ERROR),
    static_cast<long long>(CUDA_ERROR_ILLEGAL_INSTRUCTION),
    static_cast<long long>(CUDA_ERROR_MISALIGNED_ADDRESS),
    static_cast<long long>(CUDA_ERROR_INVALID_ADDRESS_SPACE),
    static_cast<long long>(CUDA_ERROR_INVALID_PC),
    static_cast<long long>(CUDA_ERROR_LAUNCH_FAILED),
    static_cast<long long>(CUDA_ERROR_NOT_SUPPORTED),
    static_cast<long long>(CUDA_ERROR_SYSTEM_NOT_READY),
    static_cast<long long>(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
    static_cast<long long>(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
    static_cast<long long>(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
    static_cast<long long>(CUDA_ERROR_EXTERNAL_DEVICE),
    static_cast<long long>(CUDA_ERROR_UNKNOWN),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_INTEGRATED),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    static_cast<long long>(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    static_cast<long long>(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    static_cast<long long>(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    static_cast<long long>(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
    static_cast<long long>(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
    static_cast<long long>(CU_FUNC_ATTRIBUTE_NUM_REGS),
    static_cast<long long>(CU_JIT_ERROR_LOG_BUFFER),
    static_cast<long long>(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES),
    static_cast<long long>(CU_POINTER_ATTRIBUTE_CONTEXT),
    static_cast<long long>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
    static_cast<long long>(CU_POINTER_ATTRIBUTE_IS_MANAGED),
    static_cast<long long>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
    static_cast<long long>(CU_MEMORYTYPE_HOST),
    static_cast<long long>(CU_MEMORYTYPE_DEVICE),
    static_cast<long long>(CU_COMPUTEMODE_PROHIBITED),
    static_cast<long long>(CU_MEMHOSTALLOC_PORTABLE),
    static_cast<long long>(CU_MEMHOSTALLOC_DEVICEMAP),
    static_cast<long long>(CU_STREAM_NON_BLOCKING),
    static_cast<long long>(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD),
    static_cast<long long>(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32),
    static_cast<long long>(CUDA_EXTERNAL_MEMORY_DEDICATED),
    static_cast<long long>(CU_EVENT_DEFAULT),
    static_cast<long long>(CU_EVENT_DISABLE_TIMING),
#if CUDA_VERSION >= 12030
    static_cast<long long>(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC),
    static_cast<long long>(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC),
#else  // which do not have it
    1,
    1,
#endif
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_UINT8),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_UINT16),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_UINT32),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_INT32),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_UINT64),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_INT64),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_FLOAT64),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32),
    static_cast<long long>(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ),
    static_cast<long long>(CU_TENSOR_MAP_INTERLEAVE_NONE),
    static_cast<long long>(CU_TENSOR_MAP_INTERLEAVE_16B),
    static_cast<long long>(CU_TENSOR_MAP_INTERLEAVE_32B),
    static_cast<long long>(CU_TENSOR_MAP_SWIZZLE_NONE),
    static_cast<long long>(CU_TENSOR_MAP_SWIZZLE_32B),
    static_cast<long long>(CU_TENSOR_MAP_SWIZZLE_64B),
    static_cast<long long>(CU_TENSOR_MAP_SWIZZLE_128B),
    static_cast<long long>(CU_TENSOR_MAP_L2_PROMOTION_NONE),
    static_cast<long long>(CU_TENSOR_MAP_L2_PROMOTION_L2_64B),
    static_cast<long long>(CU_TENSOR_MAP_L2_PROMOTION_L2_128B),
    static_cast<long long>(CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
    static_cast<long long>(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    static_cast<long long>(CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA),
};
constexpr size_t kTheirKernelParams[] = {
    sizeof(::CUDA_KERNEL_NODE_PARAMS_v2),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, func),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, gridDimX),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, gridDimY),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, gridDimZ),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, blockDimX),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, blockDimY),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, blockDimZ),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, kernelParams),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, extra),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, kern),
    offsetof(::CUDA_KERNEL_NODE_PARAMS_v2, ctx),
};
constexpr size_t kTheirCopyParams[] = {
    sizeof(::CUDA_MEMCPY3D_v2),
    offsetof(::CUDA_MEMCPY3D_v2, srcXInBytes),
    offsetof(::CUDA_MEMCPY3D_v2, srcY),
    offsetof(::CUDA_MEMCPY3D_v2, srcZ),
    offsetof(::CUDA_MEMCPY3D_v2, srcLOD),
    offsetof(::CUDA_MEMCPY3D_v2, srcMemoryType),
    offsetof(::CUDA_MEMCPY3D_v2, srcHost),
    offsetof(::CUDA_MEMCPY3D_v2, srcDevice),
    offsetof(::CUDA_MEMCPY3D_v2, srcArray),
    offsetof(::CUDA_MEMCPY3D_v2, reserved0),
    offsetof(::CUDA_MEMCPY3D_v2, srcPitch),
    offsetof(::CUDA_MEMCPY3D_v2, srcHeight),
    offsetof(::CUDA_MEMCPY3D_v2, dstXInBytes),
    offsetof(::CUDA_MEMCPY3D_v2, dstY),
    offsetof(::CUDA_MEMCPY3D_v2, dstZ),
    offsetof(::CUDA_MEMCPY3D_v2, dstLOD),
    offsetof(::CUDA_MEMCPY3D_v2, dstMemoryType),
    offsetof(::CUDA_MEMCPY3D_v2, dstHost),
    offsetof(::CUDA_MEMCPY3D_v2, dstDevice),
    offsetof(::CUDA_MEMCPY3D_v2, dstArray),
    offsetof(::CUDA_MEMCPY3D_v2, reserved1),
    offsetof(::CUDA_MEMCPY3D_v2, dstPitch),
    offsetof(::CUDA_MEMCPY3D_v2, dstHeight),
    offsetof(::CUDA_MEMCPY3D_v2, WidthInBytes),
    offsetof(::CUDA_MEMCPY3D_v2, Height),
    offsetof(::CUDA_MEMCPY3D_v2, Depth),
};
#define REPRISE_SHAPE_OF(symbol, parameters) shape(decltype(&::symbol){}),
constexpr unsigned long long kTheirFunctions[] = {REPRISE_CUDA_SYMBOLS(REPRISE_SHAPE_OF)};
#if CUDA_VERSION >= 12040
constexpr unsigned long long kTheirOptional[] = {REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_SHAPE_OF)};
#else
constexpr unsigned long long kTheirOptional[] = {kOptional[0].shape, kOptional[1].shape,
                                                 shape(decltype(&::cuTensorMapEncodeTiled){})};
#endif

static_assert(std::size(kValues) == std::size(kTheirValues));
static_assert(std::size(kFunctions) == std::size(kTheirFunctions));
static_assert(same(kTheirKernelParams, kKernelParams), "ours is not laid out as the one of cuda.h");
static_assert(same(kTheirCopyParams, kCopyParams), "ours is not laid out as the one of cuda.h");
static_assert(sizeof(cuda::CUuuid) == sizeof(::CUuuid));
static_assert(sizeof(cuda::CUtensorMap) == sizeof(::CUtensorMap));
#if CUDA_VERSION >= 12030
static_assert(sizeof(cuda::CUgraphEdgeData) == sizeof(::CUgraphEdgeData));
static_assert(offsetof(cuda::CUgraphEdgeData, type) == offsetof(::CUgraphEdgeData, type));
#endif

TEST(CudaHeader, ValuesAreThoseOfTheToolkit) {
  for (size_t i = 0; i < std::size(kValues); ++i)
    EXPECT_EQ(kValues[i].value, kTheirValues[i]) << kValues[i].name;
}

TEST(CudaHeader, FunctionsTakeTheSameParameters) {
  for (size_t i = 0; i < std::size(kFunctions); ++i)
    EXPECT_EQ(kFunctions[i].shape, kTheirFunctions[i]) << kFunctions[i].name;
  for (size_t i = 0; i < std::size(kOptional); ++i)
    EXPECT_EQ(kOptional[i].shape, kTheirOptional[i]) << kOptional[i].name;
}

}  // namespace
}  // namespace reprise::test

#else

TEST(CudaHeader, IsThatOfTheToolkit) {
  GTEST_SKIP() << "there is no cuda.h on this machine to compare values and functions with";
}

#endif
