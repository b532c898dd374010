#include "python/native/errors.h"

#include <nanobind/nanobind.h>

#include <string>

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// Whether an element of an input is an index that does not exist. Kernels report just that, and
/// host kernels tell the index.
bool is_about_an_index(const std::string& message) {
  return message.find("an index is outside its dimension") != std::string::npos ||
         (message.find("index ") != std::string::npos &&
          message.find("out of range") != std::string::npos);
}

const char* class_of(const Status& status) {
  switch (status.code()) {
    case Code::Usage:
      return "UsageError";
    case Code::InvalidModel:
      return "InvalidModel";
    case Code::InvalidInput:
      return is_about_an_index(status.message()) ? "IndexOutOfRange" : "InvalidInput";
    case Code::Unsupported:
      return "Unsupported";
    case Code::Io:
      return "FileError";
    case Code::Device:
      return "DeviceError";
    case Code::OutOfMemory:
      return "OutOfMemory";
    case Code::Timeout:
      return "Timeout";
    case Code::DeviceLost:
      return "DeviceLost";
    case Code::Cancelled:
      return "Cancelled";
    case Code::CorruptPackage:
      return "CorruptPackage";
    case Code::IncompatiblePackage:
      return "IncompatiblePackage";
    case Code::Busy:
      return "UsageError";
    case Code::Ok:
    case Code::Internal:
      return "InternalError";
  }
  return "InternalError";
}

void raise(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const StatusError& e) {
    const nb::object kind = nb::module_::import_("reprise.errors").attr(class_of(e.status()));
    const nb::object error = kind(e.what());
    if (!e.status().nodes().empty()) {
      nb::list nodes;
      for (const std::string& name : e.status().nodes()) nodes.append(name.c_str());
      error.attr("nodes") = nb::tuple(nodes);
    }
    PyErr_SetObject(kind.ptr(), error.ptr());
  }
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator(raise);
}

}  // namespace reprise::python
