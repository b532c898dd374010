// reprise.Tensor as Python sees it, and its memory for other libraries (DLPack).
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "python/native/dtypes.h"
#include "python/native/errors.h"
#include "python/native/tensor.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// What a consumer holds: it keeps the memory alive, but neither the Python object nor the GIL.
template <typename Managed>
struct Lent {
  Managed managed;
  std::shared_ptr<TensorMemory> memory;
  std::vector<int64_t> dims, strides;
};

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t a = dims.size(); a-- > 1;)
    strides[a - 1] = strides[a] * std::max<int64_t>(dims[a], 1);
  return strides;
}

template <typename Managed>
constexpr const char* kCapsule = "dltensor";
template <>
constexpr const char* kCapsule<dlpack::ManagedVersioned> = "dltensor_versioned";

template <typename Managed>
void destroy_unused(PyObject* capsule) {
  // A consumer renames the capsule and deletes the struct by itself.
  if (PyCapsule_IsValid(capsule, kCapsule<Managed>) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kCapsule<Managed>));
  managed->deleter(managed);
}

template <typename Managed>
nb::object capsule_of(const Tensor& tensor, const std::shared_ptr<TensorMemory>& memory, void* data,
                      dlpack::Device device) {
  auto lent = std::make_unique<Lent<Managed>>();
  lent->memory = memory;
  lent->dims = tensor.dims();
  lent->strides = row_major(lent->dims);
  lent->managed.context = lent.get();
  lent->managed.deleter = [](Managed* self) { delete static_cast<Lent<Managed>*>(self->context); };
  lent->managed.tensor = {data,
                          device,
                          static_cast<int32_t>(lent->dims.size()),
                          dlpack_of(tensor.dtype()),
                          lent->dims.data(),
                          lent->strides.data(),
                          0};
  PyObject* capsule = PyCapsule_New(&lent->managed, kCapsule<Managed>, destroy_unused<Managed>);
  if (capsule == nullptr) nb::raise_python_error();
  static_cast<void>(lent.release());  // the capsule owns it
  return nb::steal(capsule);
}

bool is_cuda(const Tensor& tensor) {
  return tensor.memory()->device()->is_cuda();
}

DlpackRequest parse_request(nb::handle max_version, nb::handle dl_device, nb::handle copy) {
  DlpackRequest request;
  if (!max_version.is_none()) request.versioned = nb::cast<int>(max_version[0]) >= 1;
  if (!dl_device.is_none()) request.to_host = nb::cast<int>(dl_device[0]) == dlpack::kCpu;
  if (!copy.is_none()) {
    request.copy = nb::cast<bool>(copy);
    request.no_copy = !request.copy;
  }
  return request;
}

void bind_dlpack(nb::class_<Tensor>& c) {
  c.def(
      "__dlpack__",
      [](const Tensor& t, nb::handle /*stream*/, nb::handle max_version, nb::handle dl_device,
         nb::handle copy) { return export_dlpack(t, parse_request(max_version, dl_device, copy)); },
      nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
      nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | "
              "None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
              "typing.Any"),
      "The memory itself where another library can address it: on the host, on CUDA, and on "
      "Vulkan\n"
      "devices whose memory the host maps. A copy on the host elsewhere.");
  c.def(
      "__dlpack_device__",
      [](const Tensor& t) {
        const dlpack::Device device = dlpack_device_of(t);
        return nb::make_tuple(device.type, device.index);
      },
      nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

constexpr const char* kTensorText =
    R"(A tensor whose memory stays on a device between runs.

Sessions on that device take it as input and write it as output without a copy, so that parameters,
caches and results need not leave the device. The memory keeps its capacity: an output or a write
may have other dims if they fit.

Args:
    array: what to copy: an array of NumPy, of DLPack, or with the buffer protocol; contiguous.
    device: 'auto', 'host', 'vulkan:0', 'cuda:0' ..., or a Device. Sessions take a tensor only if
        it is on their device.
    dtype: how to read the elements if NumPy has no dtype for them, such as 'bfloat16' for uint16.

Example:
    >>> session = reprise.Session(reprise.compile("model.onnx"), "host")
    >>> x = reprise.Tensor(np.ones((2, 4), np.float32), "host")
    >>> y = reprise.Tensor.empty((2, 4), device="host")
    >>> session.run_raw([x], [y])[0] is y
    True
    >>> y.numpy()
    array([[2., 2., 2., 2.],
           [2., 2., 2., 2.]], dtype=float32))";

void bind_transfers(nb::class_<Tensor>& c) {
  c.def("write", &Tensor::write, nb::arg("array"),
        nb::sig("def write(self, array: object) -> None"),
        "Copies an array of the same dtype to the device. The shape becomes that of the array.");
  c.def("numpy", &Tensor::numpy, nb::sig("def numpy(self) -> typing.Any"),
        "Returns a copy on the host, as a NumPy array.");
  c.def("read_into", &Tensor::read_into, nb::arg("array"),
        nb::sig("def read_into(self, array: object) -> None"),
        "Copies the elements to a writable array of the same dtype and shape.");
  c.def("free", &Tensor::free,
        "Frees the memory now, or when the runs that use it have ended. Later uses are an error.");
  c.def_prop_ro("freed", &Tensor::freed, "Whether free() was called.");
  c.def(
      "__array__",
      [](const Tensor& t, nb::handle dtype, nb::handle copy) {
        if (!copy.is_none() && !nb::cast<bool>(copy)) {
          PyErr_SetString(PyExc_ValueError, "a copy from the device cannot be avoided");
          nb::raise_python_error();
        }
        nb::object out = t.numpy();
        return dtype.is_none() ? out : nb::object(out.attr("astype")(dtype));
      },
      nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig(
          "def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any"));
  c.def("__repr__", &Tensor::repr);
}

}  // namespace

dlpack::Device dlpack_device_of(const Tensor& tensor) {
  if (!is_cuda(tensor)) return {dlpack::kCpu, 0};
  const std::string& id = tensor.memory()->device()->info().id;
  const size_t colon = id.find(':');
  return {dlpack::kCuda, colon == std::string::npos ? 0 : std::stoi(id.substr(colon + 1))};
}

nb::object export_dlpack(const Tensor& tensor, const DlpackRequest& request) {
  if (dlpack_of(tensor.dtype()).bits == 0) {
    PyErr_Format(PyExc_BufferError, "DLPack has no type for %s", name_of(tensor.dtype()).data());
    nb::raise_python_error();
  }
  std::shared_ptr<TensorMemory> memory = tensor.memory();
  dlpack::Device device = dlpack_device_of(tensor);
  void* data = memory->mapped();
  if (is_cuda(tensor) && !request.to_host)
    data = reinterpret_cast<void*>(memory->buffer()->address());
  if (data == nullptr || request.copy || (request.to_host && device.type != dlpack::kCpu)) {
    if (request.no_copy) {
      PyErr_SetString(PyExc_BufferError,
                      "the host cannot map the memory: copy=False is impossible");
      nb::raise_python_error();
    }
    const nb::gil_scoped_release release;
    auto copy = std::make_shared<TensorMemory>(Device::host(), tensor.bytes());
    check(memory->read({copy->mapped(), tensor.bytes()}));
    memory = std::move(copy);
    data = memory->mapped();
    device = {};
  }
  if (request.versioned) return capsule_of<dlpack::ManagedVersioned>(tensor, memory, data, device);
  return capsule_of<dlpack::Managed>(tensor, memory, data, device);
}

void bind_tensors(nb::module_& m) {
  nb::class_<Tensor> c(m, "Tensor", nb::is_weak_referenceable(), kTensorText);
  c.def(
      "__init__",
      [](Tensor* self, nb::handle array, nb::handle device, nb::handle dtype) {
        new (self) Tensor(Tensor::from(array, device, dtype));
      },
      nb::arg("array"), nb::arg("device") = "auto", nb::arg("dtype") = nb::none(),
      nb::sig("def __init__(self, array: object, device: str | Device = 'auto', dtype: str | None "
              "= None) -> None"));
  c.def_static(
      "empty",
      [](nb::handle shape, const std::string& dtype, nb::handle device) {
        const DType parsed = parse_dtype(dtype.c_str());
        return Tensor(parsed, dims_of(shape, parsed), to_device(device));
      },
      nb::arg("shape"), nb::arg("dtype") = "float32", nb::arg("device") = "auto",
      nb::sig("def empty(shape: collections.abc.Sequence[int], dtype: str = 'float32', device: str "
              "| Device "
              "= 'auto') -> Tensor"),
      "Returns memory for a tensor of this shape, in elements, and dtype on a device. Its "
      "contents\n"
      "are arbitrary.");
  c.def_prop_ro(
      "shape", [](const Tensor& t) { return tuple_of(t.dims()); },
      nb::sig("def shape(self) -> tuple[int, ...]"), "The dims, in elements.");
  c.def_prop_ro(
      "dtype", [](const Tensor& t) { return std::string(name_of(t.dtype())); },
      "The name of the element type, such as 'float32'.");
  c.def_prop_ro("nbytes", &Tensor::bytes, "The size of the elements, in bytes.");
  c.def_prop_ro(
      "capacity", [](const Tensor& t) { return t.memory()->size(); },
      "The size of the memory, in bytes.");
  c.def_prop_ro(
      "device", [](const Tensor& t) { return t.memory()->device(); },
      "The device that has the memory.");
  c.def_prop_ro(
      "address",
      [](const Tensor& t) {
        const auto& memory = t.memory();
        return memory->buffer() ? memory->buffer()->address()
                                : reinterpret_cast<uint64_t>(memory->mapped());
      },
      "Where the memory is, in the device's addresses.");
  bind_transfers(c);
  bind_dlpack(c);
}

}  // namespace reprise::python
