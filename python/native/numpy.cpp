// NumPy arrays of results, and tensors of strings.
#include <nanobind/stl/string.h>

#include <utility>

#include "python/native/arrays.h"
#include "python/native/dtypes.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

// The function is kept as long as the process lives.
nb::handle numpy(const char* name) {
  return nb::object(nb::module_::import_("numpy").attr(name)).release();
}

nb::object text_of(const std::string& s) {
  PyObject* text =
      PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "surrogateescape");
  if (text == nullptr) nb::raise_python_error();
  return nb::steal(text);
}

std::string utf8_of(nb::handle item) {
  if (nb::isinstance<nb::bytes>(item)) {
    const auto bytes = nb::borrow<nb::bytes>(item);
    return {bytes.c_str(), bytes.size()};
  }
  const nb::object encoded = item.attr("encode")("utf-8", "surrogateescape");
  const auto bytes = nb::borrow<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

}  // namespace

nb::tuple tuple_of(std::span<const int64_t> dims) {
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
  if (out == nullptr) nb::raise_python_error();
  for (size_t a = 0; a < dims.size(); ++a)
    PyTuple_SetItem(out, static_cast<Py_ssize_t>(a), PyLong_FromLongLong(dims[a]));
  return nb::steal<nb::tuple>(out);
}

std::vector<int64_t> dims_of(nb::handle sequence, DType dtype) {
  std::vector<int64_t> dims;
  for (const nb::handle d : sequence) dims.push_back(nb::cast<int64_t>(d));
  const auto count = checked_element_count(dims, dtype);
  if (!count.ok()) refuse(count.status().message());
  return dims;
}

nb::object empty_numpy(DType dtype, std::span<const int64_t> dims) {
  static const nb::handle make = numpy("empty");
  return make(tuple_of(dims), numpy_dtype(dtype));
}

nb::object to_numpy(const HostTensor& tensor) {
  if (tensor.dtype() == DType::String) return strings_to_numpy(tensor);
  nb::object out = empty_numpy(tensor.dtype(), tensor.dims());
  if (!tensor.bytes().empty()) {
    Array array;
    array.borrow(out);
    std::memcpy(array.data(), tensor.bytes().data(), tensor.bytes().size());
  }
  return out;
}

nb::object strings_to_numpy(const HostTensor& tensor) {
  static const nb::handle make = numpy("array");
  nb::list items;
  for (const std::string& s : tensor.strings()) items.append(text_of(s));
  return make(items, numpy_dtype(DType::String)).attr("reshape")(tuple_of(tensor.dims()));
}

HostTensor strings_of(nb::handle object) {
  const nb::object read = nb::module_::import_("reprise._dtypes").attr("strings")(object);
  HostTensor out(DType::String, dims_of(read[1], DType::String));
  size_t i = 0;
  for (const nb::handle item : read[0]) out.mutable_strings().at(i++) = utf8_of(item);
  return out;
}

void bind_arrays(nb::module_& m) {
  m.def(
      "numpy_dtype",
      [](const std::string& name) { return nb::borrow(numpy_dtype(parse_dtype(name.c_str()))); },
      nb::arg("name"), nb::sig("def numpy_dtype(name: str) -> typing.Any"),
      "The NumPy dtype of results with this dtype.");
}

}  // namespace reprise::python
