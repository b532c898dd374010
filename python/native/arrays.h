// Memory of Python objects, used in place: NumPy arrays, tensors of other libraries, and anything
// else with the buffer protocol, DLPack or NumPy's array interface.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "python/native/dlpack.h"
#include "runtime/base/dtype.h"
#include "runtime/base/tensor.h"

namespace reprise::python {

/// The memory of one object, which stays valid until release(). Needs the GIL, except for reading
/// the members. Reusing an Array allocates nothing for most objects.
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(); }

  /// Borrows the memory. `stream` is the CUDA stream that will use it: the library of a CUDA tensor
  /// makes it wait for what it has submitted. Throws a TypeError for objects without memory, and
  /// InvalidInput for memory that cannot be used.
  void borrow(nanobind::handle object, uint64_t stream = 0);
  void release();

  std::byte* data() const { return data_; }
  DType dtype() const { return dtype_; }  // Invalid if it has no dtype of ours
  std::span<const int64_t> dims() const { return {dims_, rank_}; }
  size_t element_bytes() const { return element_bytes_; }
  /// Requires a contiguous array with a valid number of elements.
  size_t bytes() const;
  bool read_only() const { return read_only_; }
  bool on_cuda() const { return device_ == dlpack::kCuda || device_ == dlpack::kCudaManaged; }
  int device_index() const { return device_index_; }
  bool contiguous() const;
  /// "float32[2,3]", and for other dtypes what the object says.
  std::string str() const;

 private:
  static constexpr size_t kMaxRank = 64;

  bool borrow_buffer();
  bool borrow_exchange();
  bool borrow_dlpack(uint64_t stream);
  bool borrow_interface();
  void take(const dlpack::Tensor& tensor);

  nanobind::object object_;
  nanobind::object capsule_;  // owns the managed tensor, which it deletes
  Py_buffer buffer_{};
  bool has_buffer_ = false;
  std::byte* data_ = nullptr;
  DType dtype_ = DType::Invalid;
  std::string type_;  // of elements without a dtype of ours
  size_t rank_ = 0, element_bytes_ = 0;
  const int64_t* dims_ = nullptr;
  const int64_t* strides_ = nullptr;  // null: dense and row-major
  int64_t stride_unit_ = 1;           // bytes for which a stride of 1 stands
  std::array<int64_t, kMaxRank> own_dims_{}, own_strides_{};
  bool read_only_ = false;
  int32_t device_ = dlpack::kCpu, device_index_ = 0;
};

/// A copy of the tensor.
nanobind::object to_numpy(const HostTensor& tensor);
/// A NumPy array of objects of `str`, with the dims of the tensor.
nanobind::object strings_to_numpy(const HostTensor& tensor);
/// A new array with uninitialised elements.
nanobind::object empty_numpy(DType dtype, std::span<const int64_t> dims);
/// Reads str, bytes, and arrays and sequences of them.
HostTensor strings_of(nanobind::handle object);

nanobind::tuple tuple_of(std::span<const int64_t> dims);
/// Throws InvalidInput for negative dims and more than 2^40 elements or bytes.
std::vector<int64_t> dims_of(nanobind::handle sequence, DType dtype);

void bind_arrays(nanobind::module_& m);
void bind_memory_sample(nanobind::module_& m);

}  // namespace reprise::python
