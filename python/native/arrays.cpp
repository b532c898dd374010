#include "python/native/arrays.h"

#include <algorithm>
#include <span>
#include <vector>

#include "python/native/dtypes.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// The exchange interface of a class of tensors, or null. Classes that were asked before are kept.
const dlpack::Exchange* exchange_of(PyTypeObject* type) {
  struct Known {
    nb::object type;
    const dlpack::Exchange* exchange;
  };
  constexpr size_t kMost = 16;
  static auto* const known = new std::vector<Known>;  // outlives the interpreter
  for (const Known& k : *known)
    if (k.type.ptr() == reinterpret_cast<PyObject*>(type)) return k.exchange;
  const nb::object own = nb::borrow(reinterpret_cast<PyObject*>(type));
  const nb::object capsule = nb::getattr(own, "__dlpack_c_exchange_api__", nb::none());
  const dlpack::Exchange* exchange = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kExchangeName) != 0) {
    exchange = static_cast<const dlpack::Exchange*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeName));
    while (exchange != nullptr && exchange->version.major != 1) exchange = exchange->previous;
  }
  if (known->size() < kMost) known->push_back({own, exchange});
  return exchange;
}

/// Takes the Python exception that is set, and returns its text.
std::string taken_error() {
  if (PyErr_Occurred() == nullptr) return "an unknown error";
  nb::python_error error;
  return nb::str(error.value()).c_str();
}

/// Calls `__dlpack__` of the newest version that the object knows.
nb::object dlpack_capsule(const nb::object& object, bool cuda, uint64_t stream) {
  const nb::object method = object.attr("__dlpack__");
  nb::dict arguments;
  if (cuda) arguments["stream"] = stream;
  arguments["max_version"] = nb::make_tuple(1, 0);
  try {
    return method(**arguments);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return cuda ? method(nb::arg("stream") = stream) : method();
}

}  // namespace

void Array::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  capsule_.reset();
  object_.reset();
  data_ = nullptr;
}

void Array::borrow(nb::handle object, uint64_t stream) {
  release();
  object_ = nb::borrow(object);
  dtype_ = DType::Invalid;
  type_.clear();
  read_only_ = false;
  device_ = dlpack::kCpu;
  device_index_ = 0;
  if (borrow_buffer() || borrow_exchange() || borrow_dlpack(stream) || borrow_interface()) return;
  const std::string type = nb::type_name(object.type()).c_str();
  release();
  throw nb::type_error(("expected an array (NumPy, DLPack, buffer protocol) or a reprise.Tensor, "
                        "not " +
                        type)
                           .c_str());
}

bool Array::borrow_buffer() {
  if (PyObject_CheckBuffer(object_.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object_.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) {
    type_ = taken_error();  // other ways may work: NumPy's dtypes of other packages have no format
    return false;
  }
  has_buffer_ = true;
  data_ = static_cast<std::byte*>(buffer_.buf);
  element_bytes_ = static_cast<size_t>(buffer_.itemsize);
  dtype_ = dtype_of_format(buffer_.format, element_bytes_);
  if (dtype_ == DType::Invalid) type_ = std::string("format '") + buffer_.format + "' ";
  rank_ = static_cast<size_t>(buffer_.ndim);
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  dims_ = reinterpret_cast<const int64_t*>(buffer_.shape);
  strides_ = reinterpret_cast<const int64_t*>(buffer_.strides);
  stride_unit_ = 1;
  read_only_ = buffer_.readonly != 0;
  return true;
}

void Array::take(const dlpack::Tensor& tensor) {
  const auto count = static_cast<size_t>(std::max(tensor.rank, 0));
  const std::span<const int64_t> dims(tensor.shape, count);
  if (tensor.data == nullptr && std::ranges::find(dims, 0) == dims.end()) {
    refuse(
        "a tensor has no memory, such as a fake tensor while PyTorch traces a program, or one of "
        "the device meta: trace or export the model itself, not what torch.compile() made of it");
  }
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  dtype_ = dtype_of_dlpack(tensor.dtype);
  element_bytes_ = size_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  if (dtype_ == DType::Invalid) {
    type_ = "DLPack type " + std::to_string(tensor.dtype.code) + " of " +
            std::to_string(tensor.dtype.bits) + " bits x " + std::to_string(tensor.dtype.lanes);
  }
  rank_ = static_cast<size_t>(std::max(tensor.rank, 0));
  dims_ = tensor.shape;
  strides_ = tensor.strides;
  stride_unit_ = static_cast<int64_t>(element_bytes_);
  device_ = tensor.device.type;
  device_index_ = tensor.device.index;
}

// The struct borrows from the object, which `object_` keeps alive. A CUDA tensor takes the other
// way, by which its library makes our stream wait.
bool Array::borrow_exchange() {
  const dlpack::Exchange* exchange = exchange_of(Py_TYPE(object_.ptr()));
  if (exchange == nullptr || exchange->tensor_from_object == nullptr) return false;
  dlpack::Tensor tensor;
  if (exchange->tensor_from_object(object_.ptr(), &tensor) != 0) {
    type_ = taken_error();
    return false;
  }
  if (tensor.device.type != dlpack::kCpu) return false;
  take(tensor);
  return true;
}

// The capsule is kept and not consumed: when it is destroyed, it deletes what it holds.
bool Array::borrow_dlpack(uint64_t stream) {
  if (!nb::hasattr(object_, "__dlpack__") || !nb::hasattr(object_, "__dlpack_device__"))
    return false;
  try {
    const nb::object where = object_.attr("__dlpack_device__")();
    device_ = nb::cast<int32_t>(where[0]);
    capsule_ = dlpack_capsule(object_, on_cuda(), stream);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_Exception)) throw;
    type_ = nb::str(e.value()).c_str();
    device_ = dlpack::kCpu;
    return false;
  }
  if (PyCapsule_IsValid(capsule_.ptr(), "dltensor_versioned") != 0) {
    const auto* managed = static_cast<const dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule_.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) refuse("the array has an unknown version of DLPack");
    take(managed->tensor);
    read_only_ = (managed->flags & dlpack::kReadOnly) != 0;
  } else if (PyCapsule_IsValid(capsule_.ptr(), "dltensor") != 0) {
    take(static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"))
             ->tensor);
  } else {
    refuse("`__dlpack__` returned no DLPack capsule");
  }
  if (device_ != dlpack::kCpu && device_ != dlpack::kCudaHost && !on_cuda()) {
    refuse("the array is on a device of DLPack's type " + std::to_string(device_) +
           ", which cannot be used; copy it to the CPU");
  }
  return true;
}

// NumPy arrays whose dtype is of another package, such as ml_dtypes.
bool Array::borrow_interface() {
  const nb::object interface = nb::getattr(object_, "__array_interface__", nb::none());
  if (!nb::isinstance<nb::dict>(interface) || !nb::hasattr(object_, "dtype")) {
    if (!type_.empty()) refuse("the array cannot be used: " + type_);
    return false;
  }
  const nb::tuple shape = nb::cast<nb::tuple>(interface["shape"]);
  const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  const nb::object strides = nb::getattr(object_, "strides");
  rank_ = nb::len(shape);
  if (rank_ > kMaxRank) refuse("an array has a rank over 64");
  for (size_t a = 0; a < rank_; ++a) {
    own_dims_[a] = nb::cast<int64_t>(shape[a]);
    own_strides_[a] = nb::cast<int64_t>(strides[a]);
  }
  dims_ = own_dims_.data();
  strides_ = own_strides_.data();
  stride_unit_ = 1;
  data_ = reinterpret_cast<std::byte*>(nb::cast<uintptr_t>(data[0]));
  read_only_ = nb::cast<bool>(data[1]);
  element_bytes_ = nb::cast<size_t>(object_.attr("itemsize"));
  const nb::object dtype = nb::getattr(object_, "dtype");
  type_ = nb::str(nb::handle(dtype)).c_str();
  dtype_ = dtype_from_name(type_).value_or(DType::Invalid);
  if (dtype_ != DType::Invalid && element_bytes_ != size_of(dtype_)) dtype_ = DType::Invalid;
  return true;
}

bool Array::contiguous() const {
  if (strides_ == nullptr) return true;
  if (std::ranges::find(dims(), 0) != dims().end()) return true;
  auto expected = static_cast<int64_t>(element_bytes_);
  for (size_t a = rank_; a-- > 0;) {
    if (dims_[a] == 1) continue;
    int64_t stride = 0;
    if (__builtin_mul_overflow(strides_[a], stride_unit_, &stride) || stride != expected)
      return false;
    if (__builtin_mul_overflow(expected, dims_[a], &expected)) return false;
  }
  return true;
}

size_t Array::bytes() const {
  const auto count = checked_element_count(dims(), dtype_);
  if (!count.ok()) refuse(count.status().message());
  return static_cast<size_t>(*count) * element_bytes_;
}

std::string Array::str() const {
  if (dtype_ != DType::Invalid) return describe(dtype_, dims());
  std::string out = type_ + "[";
  for (size_t a = 0; a < rank_; ++a) out += (a > 0 ? "," : "") + std::to_string(dims_[a]);
  return out + "]";
}

}  // namespace reprise::python
