// The structs of DLPack, the protocol by which Python libraries lend each other tensors. Their
// layout is fixed by its specification (versions 0, 1 and the C exchange interface of 1.2).
#pragma once

#include <cstdint>

namespace reprise::python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct Device {
  int32_t type = kCpu;
  int32_t index = 0;
};

enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E4M3FNUZ = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2FNUZ = 13,
  kFloat8E8M0FNU = 14
};

struct DataType {
  uint8_t code = kFloat;
  uint8_t bits = 0;
  uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  int32_t rank = 0;
  DataType dtype;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements; null: dense and row-major
  uint64_t byte_offset = 0;
};

struct Managed {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(Managed* self) = nullptr;
};

struct Version {
  uint32_t major = 1, minor = 0;
};

constexpr uint64_t kReadOnly = 1, kIsCopied = 2;

struct ManagedVersioned {
  Version version;
  void* context = nullptr;
  void (*deleter)(ManagedVersioned* self) = nullptr;
  uint64_t flags = 0;
  Tensor tensor;
};

/// What a class of tensors offers as `__dlpack_c_exchange_api__`, a capsule with this name.
constexpr const char* kExchangeName = "dlpack_exchange_api";

struct Exchange {
  Version version;
  Exchange* previous = nullptr;
  void* allocate = nullptr;
  void* managed_from_object = nullptr;
  void* managed_to_object = nullptr;
  /// Fills `out`, which borrows from the object. Waits for no stream. Returns 0 on success, and -1
  /// with a Python exception on failure. May be null.
  int (*tensor_from_object)(void* object, Tensor* out) = nullptr;
  void* current_stream = nullptr;
};

}  // namespace reprise::python::dlpack
