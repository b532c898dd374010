#include "python/native/tensor.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <new>

#include "python/native/dtypes.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

constexpr uint64_t kAlignment = 64;  // of host memory, in bytes

uint64_t size_for(DType dtype, std::span<const int64_t> dims) {
  if (dtype == DType::String)
    throw StatusError(unsupported("strings have no device memory; pass them as NumPy arrays"));
  const int64_t count = take(checked_element_count(dims, dtype));
  return static_cast<uint64_t>(count) * size_of(dtype);
}

DType dtype_for(const Array& array, nb::handle dtype) {
  DType expected = array.dtype();
  if (!dtype.is_none()) expected = parse_dtype(nb::cast<std::string>(dtype).c_str());
  if (expected == DType::Invalid) refuse("an array of " + array.str() + " has no dtype of ours");
  if (!carries(array.dtype(), expected)) {
    refuse("the array is " + array.str() + ", which cannot be taken as " +
           std::string(name_of(expected)));
  }
  return expected;
}

void check_readable(const Array& array) {
  if (array.on_cuda()) refuse("the array is CUDA memory; copy it to the CPU first");
  if (!array.contiguous()) refuse("the array " + array.str() + " is not contiguous; copy it first");
}

}  // namespace

void TensorMemory::Free::operator()(std::byte* p) const {
  std::free(p);
}

TensorMemory::TensorMemory(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)), size_(bytes) {
  device_->check_process();
  const uint64_t room = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  if (device_->get()) {
    const nb::gil_scoped_release release;
    buffer_ = of_process(std::shared_ptr<DeviceBuffer>(
        take(device_->get()->allocate_or_free_idle(room, MemoryUse::Device))));
    return;
  }
  host_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
  if (!host_) throw std::bad_alloc();
  std::memset(host_.get(), 0, room);
}

Status TensorMemory::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (buffer_) return device_->get()->upload(*buffer_, 0, bytes);
  std::memcpy(host_.get(), bytes.data(), bytes.size());
  return {};
}

Status TensorMemory::read(std::span<std::byte> bytes) const {
  if (bytes.empty()) return {};
  if (buffer_) return device_->get()->download(*buffer_, 0, bytes);
  std::memcpy(bytes.data(), host_.get(), bytes.size());
  return {};
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims, std::shared_ptr<Device> device)
    : dtype_(dtype),
      dims_(std::move(dims)),
      memory_(std::make_shared<TensorMemory>(std::move(device), size_for(dtype, dims_))) {}

Tensor Tensor::from(nb::handle object, nb::handle device, nb::handle dtype) {
  Array array;
  array.borrow(object);
  check_readable(array);
  const DType expected = dtype_for(array, dtype);
  Tensor tensor(expected, {array.dims().begin(), array.dims().end()}, to_device(device));
  tensor.write(object);
  return tensor;
}

uint64_t Tensor::bytes() const {
  return size_for(dtype_, dims_);
}

const std::shared_ptr<TensorMemory>& Tensor::memory() const {
  if (!memory_) misuse("the tensor was freed");
  memory_->device()->check_process();
  return memory_;
}

// The array may have other dims of the same rank, if they fit into the memory.
void Tensor::write(nb::handle object) {
  const std::shared_ptr<TensorMemory> memory = this->memory();
  Array array;
  array.borrow(object);
  check_readable(array);
  if (!carries(array.dtype(), dtype_)) {
    refuse("the tensor is " + describe(dtype_, dims_) + ", the array " + array.str());
  }
  const size_t bytes = array.bytes();
  if (bytes > memory->size()) {
    refuse("the array " + array.str() + " needs " + std::to_string(bytes) +
           " bytes, the tensor has " + std::to_string(memory->size()));
  }
  {
    const nb::gil_scoped_release release;
    check(memory->write({array.data(), bytes}));
  }
  dims_.assign(array.dims().begin(), array.dims().end());
}

nb::object Tensor::numpy() const {
  const std::shared_ptr<TensorMemory> memory = this->memory();
  nb::object out = empty_numpy(dtype_, dims_);
  Array array;
  array.borrow(out);
  const nb::gil_scoped_release release;
  check(memory->read({array.data(), bytes()}));
  return out;
}

void Tensor::read_into(nb::handle object) const {
  const std::shared_ptr<TensorMemory> memory = this->memory();
  Array array;
  array.borrow(object);
  check_readable(array);
  if (array.read_only()) refuse("the array is read-only");
  if (!carries(array.dtype(), dtype_) || !std::ranges::equal(array.dims(), dims_))
    refuse("the tensor is " + describe(dtype_, dims_) + ", the array " + array.str());
  const nb::gil_scoped_release release;
  check(memory->read({array.data(), bytes()}));
}

std::string Tensor::repr() const {
  return "<reprise.Tensor " + describe(dtype_, dims_) +
         (memory_ ? " on " + memory_->device()->info().id : ", freed") + ">";
}

}  // namespace reprise::python
