// reprise.Tensor: a tensor whose memory stays on a device between runs.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>
#include <vector>

#include "python/native/arrays.h"
#include "python/native/device.h"
#include "runtime/base/dtype.h"

namespace reprise::python {

/// Memory of a device, or of the host.
class TensorMemory {
 public:
  /// The bytes of host memory are zero; those of device memory are not initialised.
  TensorMemory(std::shared_ptr<Device> device, uint64_t bytes);

  const std::shared_ptr<Device>& device() const { return device_; }
  uint64_t size() const { return size_; }
  /// Null on the host.
  DeviceBuffer* buffer() const { return buffer_.get(); }
  /// Null if the host cannot map the memory.
  std::byte* mapped() const {
    return buffer_ ? static_cast<std::byte*>(buffer_->mapped()) : host_.get();
  }
  // Need no GIL, and block.
  Status write(std::span<const std::byte> bytes);
  Status read(std::span<std::byte> bytes) const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::shared_ptr<Device> device_;
  uint64_t size_;
  std::shared_ptr<DeviceBuffer> buffer_;
  std::unique_ptr<std::byte, Free> host_;
};

class Tensor {
 public:
  Tensor(DType dtype, std::vector<int64_t> dims, std::shared_ptr<Device> device);
  /// A copy of an array. `dtype` reinterprets elements that NumPy has no dtype for.
  static Tensor from(nanobind::handle array, nanobind::handle device, nanobind::handle dtype);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  uint64_t bytes() const;
  /// Throws a UsageError after free().
  const std::shared_ptr<TensorMemory>& memory() const;
  bool freed() const { return memory_ == nullptr; }
  /// Of an output; the run has checked that they fit.
  void set_dims(const std::vector<int64_t>& dims) { dims_ = dims; }

  void write(nanobind::handle array);
  nanobind::object numpy() const;
  void read_into(nanobind::handle array) const;
  void free() { memory_ = nullptr; }
  std::string repr() const;

 private:
  DType dtype_;
  std::vector<int64_t> dims_;
  std::shared_ptr<TensorMemory> memory_;
};

/// Implements `__dlpack__` (tensor_dlpack.cpp).
struct DlpackRequest {
  bool versioned = false;
  bool to_host = false;  // dl_device is the CPU
  bool copy = false;
  bool no_copy = false;
};
nanobind::object export_dlpack(const Tensor& tensor, const DlpackRequest& request);
/// The type and index of the device on which `__dlpack__` exports the memory.
dlpack::Device dlpack_device_of(const Tensor& tensor);

void bind_tensors(nanobind::module_& m);

}  // namespace reprise::python
